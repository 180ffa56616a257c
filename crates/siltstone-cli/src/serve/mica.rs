//! `siltstone serve mica`: a store or a cache in memory, over UDP.

use crate::bench::mica::{EvictionArg, access_modes};
use crate::interrupt::Interrupt;
use crate::open::parse_lengths;
use crate::outcome::{Outcome, Result, help};
use crate::quantity::parse_time;
use crate::quantity::{parse_bytes, parse_whole};
use anyhow::anyhow;
use clap::Args;
use serde_json::json;
use siltstone::mica::{AccessMode, ItemShape};
use siltstone_network::protocol::PACKET_BYTES_DEFAULT;
use siltstone_network::{Server, ServerError, ServerSettings, ServerStats};
use std::io::{Write, stdout};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "
  siltstone serve mica --listen 127.0.0.1:11411 --memory 1GiB
  siltstone serve mica --listen 10.0.0.1:11411 --cores 4 --partitions 16 --memory 8GiB --cache --processors 0,1,2,3";

/// How long a signal to stop may stay unnoticed.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Serve MICA over UDP, until Ctrl-C
///
/// Everything is in memory and gone when it stops. There is neither authentication nor encryption: whoever can send
/// packets to it reads and writes everything. Clients are those of the library siltstone-network.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct MicaArgs {
    /// The address of the first core; the others have the ports after it, or, if it is 0, any that are free
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:11411")]
    listen: SocketAddr,
    /// Threads, each with a socket of its own
    #[arg(long, default_value_t = 1, value_parser = parse_whole::<usize>)]
    cores: usize,
    /// Partitions, a power of two up to 256 and no fewer than cores; as many as are needed if not stated
    #[arg(long, value_parser = parse_whole::<u32>)]
    partitions: Option<u32>,
    /// Who reads and writes a partition: its owner; all and its owner; all
    #[arg(long, default_value = AccessMode::default().name(), value_parser = access_modes())]
    mode: AccessMode,
    /// Memory for items and index
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "256MiB")]
    memory: f64,
    /// Bytes of key and value that an item has on average
    #[arg(long, default_value_t = 64, value_parser = parse_whole::<usize>)]
    record_bytes: usize,
    /// All keys have K bytes and all values V: no byte is spent on lengths
    #[arg(long, value_name = "K,V", value_parser = parse_lengths)]
    fixed: Option<(usize, usize)>,
    /// Items of a fixed size get room for an expiry time, 8 bytes each
    #[arg(long, requires = "fixed")]
    expiring: bool,
    /// Cache mode: old items give way to new ones
    #[arg(long)]
    cache: bool,
    /// What gives way in cache mode
    #[arg(long, value_enum, default_value = "approximate-lru", requires = "cache")]
    eviction: EvictionArg,
    /// The longest packet, 704 to 8,972 bytes
    #[arg(long, default_value_t = PACKET_BYTES_DEFAULT, value_parser = parse_whole::<usize>)]
    packet_bytes: usize,
    /// Packets that are received and sent at once
    #[arg(long, default_value_t = 32, value_parser = parse_whole::<usize>)]
    burst: usize,
    /// Any core takes any packet and forwards it to the one that has the partition
    #[arg(long)]
    redirect: bool,
    /// Compute the hashes of keys again, and refuse wrong ones
    #[arg(long)]
    verify_hashes: bool,
    /// The processors on which the cores stay, one for each
    #[arg(long, value_delimiter = ',', value_parser = parse_whole::<usize>)]
    processors: Vec<usize>,
    /// Take packets by AF_XDP from this interface, which has the address; core n has its queue n. Takes root
    #[cfg(feature = "af-xdp")]
    #[arg(long)]
    interface: Option<String>,
    /// Take them behind the driver, where it cannot hand them over itself
    #[cfg(feature = "af-xdp")]
    #[arg(long, requires = "interface")]
    generic: bool,
    /// Print the counters so often, as a line of JSON
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    stats_interval: Option<Duration>,
    /// Print lines of JSON: the addresses, and at the end the counters
    #[arg(long)]
    json: bool,
}

impl MicaArgs {
    fn start(&self) -> std::result::Result<Server, ServerError> {
        #[cfg(feature = "af-xdp")]
        if let Some(interface) = &self.interface {
            let (interface, generic) = (interface.clone(), self.generic);
            let xdp = siltstone_network::transport::XdpSettings { interface, first_queue: 0, generic };
            return Server::start_xdp(&self.settings(), &xdp);
        }
        Server::start(&self.settings())
    }

    fn settings(&self) -> ServerSettings {
        let fixed = self.fixed.map(|(key_length, value_length)| {
            let length = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
            (length(key_length), length(value_length))
        });
        ServerSettings {
            address: self.listen.ip(),
            port: self.listen.port(),
            cores: self.cores,
            partitions: self.partitions.unwrap_or(self.cores.next_power_of_two() as u32),
            access: self.mode,
            eviction: self.cache.then(|| self.eviction.eviction()),
            shape: ItemShape { fixed, expiring: self.expiring },
            memory_bytes: self.memory as u64,
            record_bytes: self.record_bytes,
            packet_bytes: self.packet_bytes,
            burst: self.burst,
            redirects: self.redirect,
            verify_hashes: self.verify_hashes,
            processors: self.processors.clone(),
            ..ServerSettings::default()
        }
    }
}

pub fn run(args: &MicaArgs) -> Result {
    let interrupt = Interrupt::listen()?;
    let server = args.start()?;
    let addresses: Vec<String> = server.addresses().iter().map(SocketAddr::to_string).collect();
    let mut out = stdout().lock();
    if args.json {
        writeln!(
            out,
            "{}",
            json!({ "addresses": addresses, "ram_bytes": server.stats().ram.total_bytes() })
        )?;
    } else {
        let memory = server.stats().ram.total_bytes();
        writeln!(out, "serving at {}, {memory} bytes of memory; Ctrl-C stops", addresses.join(", "))?;
    }
    out.flush()?;
    let mut told = Instant::now();
    while !interrupt.is_raised() && server.is_running() {
        std::thread::park_timeout(LOOK_INTERVAL);
        if args.stats_interval.is_some_and(|interval| told.elapsed() >= interval) {
            told = Instant::now();
            writeln!(out, "{}", object(&server.stats()))?;
            out.flush()?;
        }
    }
    let stats = server.stop().map_err(|error| anyhow!(error))?;
    if args.json {
        writeln!(out, "{}", object(&stats))?;
    } else {
        let items = stats.items.unwrap_or_default();
        let counts = stats.counts.items().into_iter().chain([("items", items)]);
        for (name, count) in counts.filter(|(_, count)| *count > 0) {
            writeln!(out, "{name:<22} {count:>16}")?;
        }
    }
    out.flush()?;
    Ok(Outcome::Done)
}

/// The counters of all cores and of each, and the memory.
fn object(stats: &ServerStats) -> serde_json::Value {
    let counts = |counts: &siltstone_network::Counts| {
        counts.items().into_iter().map(|(name, count)| (name.to_owned(), count.into())).collect()
    };
    let all: serde_json::Map<String, serde_json::Value> = counts(&stats.counts);
    let cores: Vec<serde_json::Map<String, serde_json::Value>> = stats.cores.iter().map(counts).collect();
    let ram: serde_json::Map<String, serde_json::Value> =
        stats.ram.items().iter().map(|(name, bytes)| ((*name).to_owned(), (*bytes).into())).collect();
    json!({ "counts": all, "cores": cores, "ram": ram, "items": stats.items })
}
