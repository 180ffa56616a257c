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

/// Measure MICA over UDP, compared with an echo of the same packets
///
/// Server and client run in this process, on separate processors if there are several, and communicate over
/// 127.0.0.1. The echo and the store receive the same packets in turn. Some responses are checked. If more than 1% of
/// the packets are lost, there is no result.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct UdpArgs {
    /// How the server receives packets: sockets, or AF_XDP on a virtual network card, which requires root and a build
    /// with the feature af-xdp
    #[arg(long, value_enum, default_value = "sockets")]
    path: PathArg,
    /// Number of items to load
    #[arg(long, default_value_t = 1 << 20, value_parser = parse_whole::<u64>)]
    items: u64,
    /// Length of the keys, in bytes
    #[arg(long, default_value_t = 8, value_parser = parse_whole::<usize>)]
    key_size: usize,
    /// Length of the values, in bytes
    #[arg(long, default_value_t = 8, value_parser = parse_whole::<usize>)]
    value_size: usize,
    /// Fraction of gets; the rest are puts
    #[arg(long, default_value_t = 0.95)]
    get: f64,
    /// Zipf exponent of the popularity, less than 1; 0 is uniform
    #[arg(long, default_value_t = 0.0)]
    zipf: f64,
    /// Number of server threads, each with a socket
    #[arg(long, default_value_t = 1, value_parser = parse_whole::<usize>)]
    cores: usize,
    /// Number of partitions, a power of two, at least the number of cores
    #[arg(long, default_value_t = 1, value_parser = parse_whole::<u32>)]
    partitions: u32,
    /// Access to a partition: exclusive (erew), concurrent reads (crew), concurrent reads and writes (crcw)
    #[arg(long, default_value = AccessMode::default().name(), value_parser = access_modes())]
    mode: AccessMode,
    /// How a request reaches the core of its partition: the client selects the port, or the server forwards it
    #[arg(long, value_enum, default_value = "assisted")]
    direction: DirectionArg,
    /// Cache mode: evict old items
    #[arg(long)]
    cache: bool,
    /// Eviction policy in cache mode
    #[arg(long, value_enum, default_value = "approximate-lru", requires = "cache")]
    eviction: EvictionArg,
    /// Number of requests per packet; each value in a list is measured in turn
    #[arg(long, value_delimiter = ',', default_values_t = [1, 32])]
    requests_per_packet: Vec<usize>,
    /// Number of packets per round
    #[arg(long, default_value_t = 200_000, value_parser = parse_whole::<u64>)]
    packets: u64,
    /// Maximum number of packets in flight
    #[arg(long, default_value_t = 512, value_parser = parse_whole::<usize>)]
    window: usize,
    /// Number of packets received or sent per batch
    #[arg(long, default_value_t = 32, value_parser = parse_whole::<usize>)]
    burst: usize,
    /// Number of rounds of store and echo; the results are medians
    #[arg(long, default_value_t = 5, value_parser = parse_whole::<usize>)]
    rounds: usize,
    /// Seed of the random keys and requests
    #[arg(long, default_value_t = 301, value_parser = parse_whole::<u64>)]
    seed: u64,
    /// Print one line of JSON per measurement
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
