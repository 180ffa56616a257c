//! `siltstone bench udp`: MICA over the network of this machine.

use super::mica::{EvictionArg, access_modes};
use crate::interrupt::Interrupt;
use crate::outcome::{Outcome, Result, help};
use crate::quantity::parse_whole;
use clap::{Args, ValueEnum};
use siltstone::mica::AccessMode;
use siltstone_bench::udp::{Direction, Path, Settings, UdpError};
use std::io::{Write, stdout};

const EXAMPLES: &str = "
  siltstone bench udp --requests-per-packet 1,32 --json
  siltstone bench udp --cores 2 --partitions 2 --get 0.5 --direction both
  sudo siltstone bench udp --path af-xdp";

/// Measure MICA over UDP, beside a bare echo of the same packets
///
/// Server and client run in this process, on processors of their own if it has several, and talk over 127.0.0.1. The
/// echo and the store answer the same packets by turns. Some answers are checked; with more than 1% of packets lost
/// there is no result.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct UdpArgs {
    /// How packets come to the server: over sockets of the system; or by AF_XDP from a virtual network card, which
    /// takes root and a build with the feature af-xdp
    #[arg(long, value_enum, default_value = "sockets")]
    path: PathArg,
    /// How many items are loaded
    #[arg(long, default_value_t = 1 << 20, value_parser = parse_whole::<u64>)]
    items: u64,
    /// The length of the keys, in bytes
    #[arg(long, default_value_t = 8, value_parser = parse_whole::<usize>)]
    key_size: usize,
    /// The length of the values, in bytes
    #[arg(long, default_value_t = 8, value_parser = parse_whole::<usize>)]
    value_size: usize,
    /// The share of gets; the rest are puts
    #[arg(long, default_value_t = 0.95)]
    get: f64,
    /// The skew of the popularity, less than 1; 0 is uniform
    #[arg(long, default_value_t = 0.0)]
    zipf: f64,
    /// Threads of the server, each with a socket
    #[arg(long, default_value_t = 1, value_parser = parse_whole::<usize>)]
    cores: usize,
    /// Partitions, a power of two and no fewer than cores
    #[arg(long, default_value_t = 1, value_parser = parse_whole::<u32>)]
    partitions: u32,
    /// Who reads and writes a partition: its owner; all and its owner; all
    #[arg(long, default_value = AccessMode::default().name(), value_parser = access_modes())]
    mode: AccessMode,
    /// Who takes a request to the core that may do it: the client, by the port; or the server, in software
    #[arg(long, value_enum, default_value = "assisted")]
    direction: DirectionArg,
    /// Cache mode: old items give way to new ones
    #[arg(long)]
    cache: bool,
    /// What gives way in cache mode
    #[arg(long, value_enum, default_value = "approximate-lru", requires = "cache")]
    eviction: EvictionArg,
    /// Requests in a packet; several numbers are measured one after the other
    #[arg(long, value_delimiter = ',', default_values_t = [1, 32])]
    requests_per_packet: Vec<usize>,
    /// Packets of a round
    #[arg(long, default_value_t = 200_000, value_parser = parse_whole::<u64>)]
    packets: u64,
    /// Packets under way at the most
    #[arg(long, default_value_t = 512, value_parser = parse_whole::<usize>)]
    window: usize,
    /// Packets that are received or sent at once
    #[arg(long, default_value_t = 32, value_parser = parse_whole::<usize>)]
    burst: usize,
    /// Rounds of store and echo; the median is told
    #[arg(long, default_value_t = 5, value_parser = parse_whole::<usize>)]
    rounds: usize,
    /// From which keys and requests follow
    #[arg(long, default_value_t = 301, value_parser = parse_whole::<u64>)]
    seed: u64,
    /// Print a line of JSON for each measurement
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum PathArg {
    Sockets,
    #[value(alias = "af_xdp")]
    AfXdp,
    #[value(alias = "af_xdp_generic")]
    AfXdpGeneric,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
enum DirectionArg {
    Assisted,
    Software,
    Both,
}

pub fn run(args: &UdpArgs) -> Result {
    let interrupt = Interrupt::listen()?;
    let directions: &[Direction] = match args.direction {
        DirectionArg::Assisted => &[Direction::Assisted],
        DirectionArg::Software => &[Direction::Software],
        DirectionArg::Both => &[Direction::Assisted, Direction::Software],
    };
    let mut out = stdout().lock();
    for requests_per_packet in &args.requests_per_packet {
        let mut rates = Vec::new();
        for direction in directions {
            let report = siltstone_bench::udp::run(&Settings {
                path: match args.path {
                    PathArg::Sockets => Path::Sockets,
                    PathArg::AfXdp => Path::AfXdp,
                    PathArg::AfXdpGeneric => Path::AfXdpGeneric,
                },
                items: args.items,
                key_size: args.key_size,
                value_size: args.value_size,
                get: args.get,
                zipf: args.zipf,
                cores: args.cores,
                partitions: args.partitions,
                mode: args.mode,
                direction: *direction,
                cache: args.cache.then(|| args.eviction.eviction()),
                requests_per_packet: *requests_per_packet,
                packets: args.packets,
                window: args.window,
                burst: args.burst,
                rounds: args.rounds,
                seed: args.seed,
                stop: interrupt.flag(),
            });
            let report = match report {
                Err(UdpError::Stopped) => return Ok(Outcome::Interrupted),
                report => report?,
            };
            if args.json {
                serde_json::to_writer(&mut out, &report)?;
                writeln!(out)?;
            } else {
                writeln!(out, "{}", report.line())?;
            }
            out.flush()?;
            rates.push(report.ops_per_s);
        }
        if let ([assisted, software], false) = (&rates[..], args.json) {
            writeln!(
                out,
                "software direction reaches {:.1}% of client-assisted",
                software / assisted * 100.0
            )?;
        }
    }
    Ok(Outcome::Done)
}
