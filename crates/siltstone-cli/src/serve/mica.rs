//! `siltstone serve mica`: a store or a cache in memory, over UDP.

use crate::interrupt::Interrupt;
use crate::open::parse_lengths;
use crate::outcome::{Outcome, Result, help};
use crate::quantity::parse_time;
use crate::quantity::{parse_bytes, parse_whole};
use anyhow::anyhow;
use clap::Args;
use serde_json::json;
use siltstone_bench::named::by_name;
use siltstone_mica::{AccessMode, Eviction, ItemLayout};
use siltstone_network::protocol::PACKET_BYTES_DEFAULT;
use siltstone_network::{Server, ServerError, ServerSettings, ServerStats};
use std::io::{Write, stdout};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "
  siltstone serve mica --listen 127.0.0.1:11411 --memory 1GiB
  siltstone serve mica --listen 10.0.0.1:11411 --cores 4 --partitions 16 --memory 8GiB --cache --processors 0,1,2,3";

/// The maximum time until a signal is noticed.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Serve MICA over UDP, until Ctrl-C
///
/// All data is in memory and lost when the server stops. There is no authentication and no encryption: everyone who can
/// send packets to the server can read and write all data. Clients use the library siltstone-network.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct MicaArgs {
    /// Address of the first core; the others use the following ports, or free ports if the port is 0
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:11411")]
    listen: SocketAddr,
    /// Number of threads, each with a socket
    #[arg(long, default_value_t = 1, value_parser = parse_whole::<usize>)]
    cores: usize,
    /// Number of partitions, a power of two up to 256, at least the number of cores [default: the smallest]
    #[arg(long, value_parser = parse_whole::<u32>)]
    partitions: Option<u32>,
    /// Access to a partition: exclusive (erew), concurrent reads (crew), concurrent reads and writes (crcw)
    #[arg(long, default_value = AccessMode::default().name(), value_parser = by_name::<AccessMode>())]
    mode: AccessMode,
    /// Memory for items and index
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "256MiB")]
    memory: f64,
    /// Average bytes of key and value per item
    #[arg(long, default_value_t = 64, value_parser = parse_whole::<usize>)]
    record_bytes: usize,
    /// All keys have K bytes and all values V bytes; their lengths are not stored
    #[arg(long, value_name = "K,V", value_parser = parse_lengths)]
    fixed: Option<(usize, usize)>,
    /// Fixed-size items have an expiry time, 8 bytes each
    #[arg(long, requires = "fixed")]
    expiring: bool,
    /// Cache mode: evict old items
    #[arg(long)]
    cache: bool,
    /// Eviction policy in cache mode
    #[arg(long, default_value = "approximate-lru", requires = "cache", value_parser = by_name::<Eviction>())]
    eviction: Eviction,
    /// Maximum length of a packet, 704 to 8,972 bytes
    #[arg(long, default_value_t = PACKET_BYTES_DEFAULT, value_parser = parse_whole::<usize>)]
    packet_bytes: usize,
    /// Number of packets received and sent per batch
    #[arg(long, default_value_t = 32, value_parser = parse_whole::<usize>)]
    burst: usize,
    /// Every core accepts every packet and forwards it to the core of the partition
    #[arg(long)]
    redirect: bool,
    /// Verify the hashes of keys, and refuse wrong ones
    #[arg(long)]
    verify_hashes: bool,
    /// Processors to which the cores are pinned, one per core
    #[arg(long, value_delimiter = ',', value_parser = parse_whole::<usize>)]
    processors: Vec<usize>,
    /// Receive packets by AF_XDP from this interface, which has the address; core n uses queue n. Requires root
    #[cfg(feature = "af-xdp")]
    #[arg(long)]
    interface: Option<String>,
    /// Use AF_XDP's generic mode, for drivers without native support
    #[cfg(feature = "af-xdp")]
    #[arg(long, requires = "interface")]
    generic: bool,
    /// Print the counters at this interval, as a line of JSON
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    stats_interval: Option<Duration>,
    /// Print lines of JSON: the addresses, and the counters at the end
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
        ServerSettings {
            address: self.listen.ip(),
            port: self.listen.port(),
            cores: self.cores,
            partitions: self.partitions.unwrap_or(self.cores.next_power_of_two() as u32),
            access: self.mode,
            eviction: self.cache.then_some(self.eviction),
            layout: ItemLayout { fixed: self.fixed, expiring: self.expiring },
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
    let mut printed_at = Instant::now();
    while !interrupt.is_raised() && server.is_running() {
        std::thread::park_timeout(LOOK_INTERVAL);
        if args.stats_interval.is_some_and(|interval| printed_at.elapsed() >= interval) {
            printed_at = Instant::now();
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

/// Returns the counters of all cores together and of each, and the memory.
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
