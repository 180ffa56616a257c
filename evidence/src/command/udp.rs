//! `evidence udp`: measures MICA over the network of this machine.

use super::print;
use anyhow::Result;
use clap::Args;
use siltstone_command::interrupt::Interrupt;
use siltstone_command::quantity::parse_whole;
use siltstone_evidence::udp::{self, Direction, Settings};
use std::io::{Write, stdout};

const EXAMPLES: &str = "
  evidence udp --requests-per-packet 1,32 --json
  evidence udp --cores 2 --partitions 2 --get 0.5 --direction both
  sudo evidence udp --path af-xdp";

/// Measure MICA over UDP, compared with an echo of the same packets
///
/// Server and client run in this process, on separate processors if there are several, and communicate over
/// 127.0.0.1. The echo and the store receive the same packets in turn. Some responses are checked. If more than 1% of
/// the packets are lost, there is no result.
#[derive(Args)]
#[command(after_help = super::help(EXAMPLES))]
pub struct UdpArgs {
    /// How a request reaches the core of its partition: the client selects the port (assisted), or the server forwards
    /// it (software)
    #[arg(long, default_value = "assisted", value_parser = ["assisted", "software", "both"])]
    direction: String,
    /// Number of requests per packet; each value in a list is measured in turn
    #[arg(long, value_delimiter = ',', default_values_t = [1, 32], value_parser = parse_whole::<usize>)]
    requests_per_packet: Vec<usize>,
    /// Print one line of JSON per measurement
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Settings,
}

pub fn run(args: UdpArgs) -> Result<()> {
    let UdpArgs { mut settings, direction: asked, requests_per_packet, json } = args;
    settings.stop = Interrupt::listen()?.flag();
    let is_asked = |direction: &Direction| asked == "both" || asked == direction.name();
    for requests_per_packet in requests_per_packet {
        let mut rates = Vec::new();
        for direction in Direction::ALL.into_iter().filter(is_asked) {
            let report = udp::run(&Settings { requests_per_packet, direction, ..settings.clone() })?;
            print(&report, json, || report.line() + "\n")?;
            rates.push(report.ops_per_s);
        }
        if let ([assisted, software], false) = (&rates[..], json) {
            let share = software / assisted * 100.0;
            writeln!(stdout(), "software direction reaches {share:.1}% of client-assisted")?;
        }
    }
    Ok(())
}
