//! The benchmark of MICA over UDP (dissertation 5.4): a server, a client, and for comparison an echo server that
//! returns the same packets without any work. Store and echo are measured in turn. Server and client have separate
//! processors if there are several.
//!
//! The main figures are in terms of the CPU time of the server's threads, including the kernel's: it does not matter
//! who waits for whom, and other programs hardly affect it. Packets and requests per second are those of one core that
//! is always busy. Wall-clock figures are reported as well.

mod client;
#[cfg(feature = "af-xdp")]
mod link;
mod trace;

use crate::{Error, Result};
use clap::Parser;
use client::{Client, PacketResults, no_times};
use hdrhistogram::Histogram;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::Serialize;
use siltstone_bench::clock::spawn_scoped;
use siltstone_bench::named;
use siltstone_bench::named::by_name;
use siltstone_bench::quantity::parse_whole;
use siltstone_mica::{AccessMode, Eviction, ItemLayout};
use siltstone_network as network;
use siltstone_network::{Answer, ClientSettings, Command, Counts, Server, ServerSettings};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use trace::Trace;

/// The maximum share of lost packets.
const LOSS_MAX: f64 = 0.01;

/// How a request reaches the core that may execute it (Table 5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The client sends it to the port of the core.
    Assisted,
    /// The client sends it to any core, which forwards it in memory.
    Software,
}

impl Direction {
    /// All directions.
    pub const ALL: [Direction; 2] = [Direction::Assisted, Direction::Software];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Direction::Assisted => "assisted",
            Direction::Software => "software",
        }
    }
}

/// How the server receives packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Path {
    /// Through sockets, over 127.0.0.1.
    Sockets,
    /// By AF_XDP from the driver of a virtual network card. The client uses sockets. Requires root and the feature
    /// `af-xdp`.
    AfXdp,
    /// The same from the generic mode of AF_XDP, as with cards whose driver does not support it.
    AfXdpGeneric,
}

impl Path {
    /// All paths.
    pub const ALL: [Path; 3] = [Path::Sockets, Path::AfXdp, Path::AfXdpGeneric];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Path::Sockets => "sockets",
            Path::AfXdp => "af_xdp",
            Path::AfXdpGeneric => "af_xdp_generic",
        }
    }
}

named!(Direction, Path);

/// The settings.
#[derive(Debug, Clone, Parser, Serialize)]
pub struct Settings {
    /// How the server receives packets: sockets, or AF_XDP on a virtual network card, which requires root and a build
    /// with the feature af-xdp
    #[arg(long, default_value = "sockets", value_parser = by_name::<Path>())]
    #[serde(serialize_with = "named::serialize")]
    pub path: Path,
    /// Number of items to load
    #[arg(long, default_value_t = 1 << 20, value_parser = parse_whole::<u64>)]
    pub items: u64,
    /// Length of the keys, in bytes
    #[arg(long, default_value_t = 8, value_parser = parse_whole::<usize>)]
    pub key_size: usize,
    /// Length of the values, in bytes
    #[arg(long, default_value_t = 8, value_parser = parse_whole::<usize>)]
    pub value_size: usize,
    /// Fraction of gets; the rest are puts
    #[arg(long, default_value_t = 0.95)]
    pub get: f64,
    /// Zipf exponent of the popularity, less than 1; 0 is uniform
    #[arg(long, default_value_t = 0.0)]
    pub zipf: f64,
    /// Number of server threads, each with a socket
    #[arg(long, default_value_t = 1, value_parser = parse_whole::<usize>)]
    pub cores: usize,
    /// Number of partitions, a power of two, at least the number of cores
    #[arg(long, default_value_t = 1, value_parser = parse_whole::<u32>)]
    #[serde(skip)]
    pub partitions: u32,
    /// Access to a partition: exclusive (erew), concurrent reads (crew), concurrent reads and writes (crcw)
    #[arg(long, default_value = AccessMode::default().name(), value_parser = by_name::<AccessMode>())]
    #[serde(serialize_with = "named::serialize")]
    pub mode: AccessMode,
    /// How requests reach their core.
    #[arg(skip = Direction::Assisted)]
    #[serde(serialize_with = "named::serialize")]
    pub direction: Direction,
    /// Cache mode: evict old items
    #[arg(long)]
    #[serde(skip)]
    pub cache: bool,
    /// Eviction policy in cache mode
    #[arg(long, default_value = "approximate-lru", requires = "cache", value_parser = by_name::<Eviction>())]
    #[serde(skip)]
    pub eviction: Eviction,
    /// Number of requests per packet.
    #[arg(skip = 1usize)]
    pub requests_per_packet: usize,
    /// Number of packets per round
    #[arg(long, default_value_t = 200_000, value_parser = parse_whole::<u64>)]
    #[serde(skip)]
    pub packets: u64,
    /// Maximum number of packets in flight
    #[arg(long, default_value_t = 512, value_parser = parse_whole::<usize>)]
    #[serde(skip)]
    pub window: usize,
    /// Number of packets received or sent per batch
    #[arg(long, default_value_t = 32, value_parser = parse_whole::<usize>)]
    #[serde(skip)]
    pub burst: usize,
    /// Number of rounds of store and echo; the results are medians
    #[arg(long, default_value_t = 5, value_parser = parse_whole::<usize>)]
    #[serde(skip)]
    pub rounds: usize,
    /// Seed of the random keys and requests
    #[arg(long, default_value_t = 301, value_parser = parse_whole::<u64>)]
    #[serde(skip)]
    pub seed: u64,
    /// Ends the benchmark when it becomes true.
    #[arg(skip)]
    #[serde(skip)]
    pub stop: Arc<AtomicBool>,
}

impl Default for Settings {
    fn default() -> Self {
        named::defaults()
    }
}

/// The report. Serialises to the benchmark's JSON object.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// `udp`.
    pub benchmark: &'static str,
    /// The settings.
    #[serde(flatten)]
    pub settings: Settings,
    /// The processors of server and client together.
    pub processors: usize,
    /// `store` or `cache`.
    pub space: &'static str,
    /// The average bytes of a packet of requests, without network headers.
    pub packet_bytes: f64,
    /// The average number of packets received and sent at once.
    pub packets_per_burst: f64,
    /// Requests per second of CPU time of one core of the server; the median of the rounds.
    pub ops_per_s: f64,
    /// The same for the best round.
    pub best_ops_per_s: f64,
    /// Packets per second of CPU time of one core.
    pub packets_per_s: f64,
    /// Packets per second of CPU time of one core of the echo server.
    pub echo_packets_per_s: f64,
    /// The ratio of the two: the median over pairs of consecutive rounds.
    pub echo_ratio: f64,
    /// Requests per second of wall-clock time, on all cores.
    pub wall_ops_per_s: f64,
    /// Packets per second of wall-clock time.
    pub wall_packets_per_s: f64,
    /// Echoed packets per second of wall-clock time.
    pub wall_echo_packets_per_s: f64,
    /// The mean time from a packet to its response, in microseconds.
    pub response_us: f64,
    /// The times that one response in 20 is quicker than, and one in 20 is slower than.
    pub response_p5_us: f64,
    /// See [`response_p5_us`](Report::response_p5_us).
    pub response_p95_us: f64,
    /// The share of packets without a response.
    pub loss: f64,
    /// The share of gets that found their key, among the checked responses.
    pub found: f64,
    /// Packets that one core forwarded to another.
    pub forwarded_packets: u64,
}

impl Report {
    /// Formats the report as text.
    pub fn line(&self) -> String {
        let settings = &self.settings;
        format!(
            "{:<12} : {:>2} requests a packet: {:.2} M ops/sec a core, {:.0} k packets/sec, {:.1}% of the echo's {:.0} k; \
             wall {:.2} M ops/sec, {:.0} k and {:.0} k packets/sec on {} processors, responses after {:.0} us \
             ({:.0} to {:.0}); {:?}, {}, {:?}, {} cores, {}; \
             {:.0}% get, zipf {}, found {:.2}%, loss {:.3}%, {:.1} packets a burst",
            self.benchmark,
            settings.requests_per_packet,
            self.ops_per_s / 1e6,
            self.packets_per_s / 1e3,
            self.echo_ratio * 100.0,
            self.echo_packets_per_s / 1e3,
            self.wall_ops_per_s / 1e6,
            self.wall_packets_per_s / 1e3,
            self.wall_echo_packets_per_s / 1e3,
            self.processors,
            self.response_us,
            self.response_p5_us,
            self.response_p95_us,
            settings.path,
            settings.mode.name(),
            settings.direction,
            settings.cores,
            self.space,
            settings.get * 100.0,
            settings.zipf,
            self.found * 100.0,
            self.loss * 100.0,
            self.packets_per_burst,
        )
    }
}

/// Loads the items and runs the rounds.
///
/// # Errors
/// See the variants of [`Error`].
pub fn run(settings: &Settings) -> Result<Report> {
    let processors = allowed_processors()?;
    let (server_settings, own) = server_settings(settings, &processors)?;
    // A separate thread, so that pinning does not affect the caller's.
    std::thread::scope(|scope| {
        let measured =
            spawn_scoped(scope, || measure(settings, &server_settings, own, processors.len()))?.join();
        measured.unwrap_or_else(|_| Err(io::Error::other("the client ended in a panic").into()))
    })
}

/// Returns the processors that this process may use.
fn allowed_processors() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|processor| set.is_set(*processor)).collect())
}

/// Returns the settings of the server, and the processor of the client.
fn server_settings(settings: &Settings, processors: &[usize]) -> Result<(ServerSettings, usize)> {
    check(settings)?;
    let Settings { items, key_size, value_size, partitions, .. } = *settings;
    let layout = ItemLayout { fixed: Some((key_size, value_size)), expiring: false };
    // Index and items, with spare memory for partitions that get more than their share.
    let item_bytes = (key_size + value_size).next_multiple_of(8).max(16) as f64;
    let share = items as f64 / f64::from(partitions);
    let most = share + 6.0 * share.sqrt() + 64.0;
    let of_a_partition = (most * (item_bytes * 1.05 + 16.0)).max(65_536.0);
    let (own, of_server) = match processors {
        [] => return Err(Error::settings("no processor may be used")),
        [only] => (*only, processors),
        [of_server @ .., own] => (*own, of_server),
    };
    let server = ServerSettings {
        cores: settings.cores,
        partitions,
        access: settings.mode,
        eviction: settings.cache.then_some(settings.eviction),
        layout,
        memory_bytes: (of_a_partition * f64::from(partitions)) as u64,
        record_bytes: key_size + value_size,
        packet_bytes: packet_bytes_max(settings),
        burst: settings.burst,
        redirects: settings.direction == Direction::Software,
        processors: of_server.iter().cycle().take(settings.cores).copied().collect(),
        socket_bytes: 32 << 20,
        ..ServerSettings::default()
    };
    Ok((server, own))
}

/// Returns the length of the longest packet.
fn packet_bytes_max(settings: &Settings) -> usize {
    match settings.path {
        Path::Sockets => network::protocol::PACKET_BYTES_MAX,
        Path::AfXdp | Path::AfXdpGeneric => network::protocol::PACKET_BYTES_DEFAULT,
    }
}

fn check(settings: &Settings) -> Result<()> {
    let Settings { key_size, value_size, requests_per_packet, .. } = *settings;
    let request_bytes = network::protocol::request_bytes(key_size, value_size, false);
    let packet_bytes = network::protocol::HEADER_BYTES + requests_per_packet * request_bytes;
    let most = packet_bytes_max(settings);
    let complaint = match settings {
        Settings { key_size: 0..8, .. } => "key_size is at least 8".to_owned(),
        Settings { items: 0, .. } | Settings { packets: 0, .. } | Settings { rounds: 0, .. } => {
            "items, packets and rounds are at least 1".to_owned()
        }
        Settings { window: 0, .. } | Settings { requests_per_packet: 0, .. } | Settings { burst: 0, .. } => {
            "window, burst and requests_per_packet are at least 1".to_owned()
        }
        Settings { zipf, get, .. } if !(0.0..1.0).contains(zipf) || !(0.0..=1.0).contains(get) => {
            "zipf is 0 or more and less than 1; get is 0 to 1".to_owned()
        }
        _ if packet_bytes > most => {
            format!("{requests_per_packet} requests take {packet_bytes} bytes; a packet has at most {most}")
        }
        _ => return Ok(()),
    };
    Err(Error::settings(complaint))
}

/// A server, and its CPU time when its last round began.
struct Side {
    server: Server,
    before: Counts,
    all: PacketResults,
    /// The times of responses, in nanoseconds.
    times: Histogram<u64>,
    /// Packets per second of CPU time of one core, and of wall-clock time, of each round.
    rates: Vec<(f64, f64)>,
}

impl Side {
    fn new(server: Server) -> Result<Side> {
        let (before, times) = (server.stats().counts, no_times()?);
        Ok(Side { before, server, all: PacketResults::default(), times, rates: Vec::new() })
    }

    /// Returns the counters once all cores have finished and reported their CPU time.
    fn settled(&self) -> Result<Counts> {
        let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
        let waits = |server: &Server| server.stats().cores.iter().map(|core| core.waits).collect::<Vec<_>>();
        let before = waits(&self.server);
        for address in self.server.addresses() {
            // Wakes each core if it is waiting, and makes it report again.
            socket.send_to(&[0], address)?;
        }
        while waits(&self.server).iter().zip(&before).any(|(now, before)| now <= before) {
            if !self.server.is_running() {
                return Err(io::Error::other("the server has stopped").into());
            }
            std::thread::yield_now();
        }
        Ok(self.server.stats().counts)
    }

    fn round(
        &mut self,
        settings: &Settings,
        client: &mut Client,
        trace: &Trace,
        ports: &[u16],
    ) -> Result<()> {
        self.before = self.settled()?;
        let addresses = self.server.addresses().to_vec();
        // The trace has the ports of one server. The same core of the other server has a different port.
        let address = |port: u16| -> SocketAddr {
            let core = ports.iter().position(|one| *one == port).unwrap_or(0);
            addresses[core % addresses.len()]
        };
        let results = client.drive(settings, trace, settings.packets, address, &mut self.times)?;
        let processor_ns = self.settled()?.processor_ns - self.before.processor_ns;
        let answered = results.answered as f64;
        self.rates
            .push((answered / (processor_ns as f64 / 1e9).max(1e-9), answered / results.wall_s.max(1e-9)));
        results.check()?;
        self.all.add(&results);
        Ok(())
    }
}

fn measure(
    settings: &Settings,
    server_settings: &ServerSettings,
    own: usize,
    processors: usize,
) -> Result<Report> {
    if processors > 1 {
        let mut set = CpuSet::new();
        set.set(own);
        sched_setaffinity(None, &set).map_err(io::Error::from)?;
    }
    let (server, echo, _link) = servers(settings, server_settings)?;
    load(settings, &server)?;
    let directory = server.directory().clone();
    let trace = Trace::draw(settings, &directory);
    let mut store = Side::new(server)?;
    let mut echo = Side::new(echo)?;
    let mut client = Client::new(settings, directory.packet_bytes)?;
    let loaded = store.settled()?;
    for _ in 0..settings.rounds {
        for side in [&mut echo, &mut store] {
            if settings.stop.load(Relaxed) {
                return Err(Error::STOPPED);
            }
            side.round(settings, &mut client, &trace, &directory.core_ports)?;
        }
    }
    let counts = store.settled()?;
    for side in [&echo, &store] {
        let PacketResults { sent, answered, .. } = side.all;
        let lost = sent.saturating_sub(answered);
        if lost as f64 > LOSS_MAX * sent as f64 {
            let problem = format!("{lost} of {sent} packets were lost, more than 1%; try a smaller window");
            return Err(Error::wrong_results(problem));
        }
    }
    Ok(report(settings, processors, &store, &echo, &loaded, &counts))
}

/// What must exist as long as the servers do.
#[cfg(feature = "af-xdp")]
type Ground = Option<link::Link>;
#[cfg(not(feature = "af-xdp"))]
type Ground = ();

/// Starts the store and the echo.
fn servers(settings: &Settings, server_settings: &ServerSettings) -> Result<(Server, Server, Ground)> {
    if settings.path == Path::Sockets {
        let servers = (Server::start(server_settings)?, Server::echo(server_settings)?);
        return Ok((servers.0, servers.1, Ground::default()));
    }
    servers_over_xdp(settings, server_settings)
}

#[cfg(not(feature = "af-xdp"))]
fn servers_over_xdp(_: &Settings, _: &ServerSettings) -> Result<(Server, Server, Ground)> {
    Err(Error::settings("AF_XDP is not built in: build with the feature af-xdp"))
}

/// Moves the thread to the client's side.
#[cfg(feature = "af-xdp")]
fn servers_over_xdp(
    settings: &Settings,
    server_settings: &ServerSettings,
) -> Result<(Server, Server, Ground)> {
    use siltstone_network::transport::XdpSettings;
    let link = link::Link::new()?;
    let [store, echo] = link::CARDS.map(|(card, address)| {
        let generic = settings.path == Path::AfXdpGeneric;
        let xdp = XdpSettings { interface: card.to_owned(), first_queue: 0, generic };
        (ServerSettings { address: address.into(), port: 11_411, ..server_settings.clone() }, xdp)
    });
    link.enter_server()?;
    let servers = (Server::start_xdp(&store.0, &store.1)?, Server::echo_xdp(&echo.0, &echo.1)?);
    link.enter_client()?;
    Ok((servers.0, servers.1, Some(link)))
}

/// Puts all items, with the library's own client.
fn load(settings: &Settings, server: &Server) -> Result<()> {
    const BATCH: u64 = 4_096;
    let client_settings =
        ClientSettings { time_limit: std::time::Duration::from_secs(10), ..ClientSettings::default() };
    let mut client = network::Client::connect(server.addresses()[0], client_settings)?;
    let mut refused = 0;
    for first in (0..settings.items).step_by(BATCH as usize) {
        if settings.stop.load(Relaxed) {
            return Err(Error::STOPPED);
        }
        let keys: Vec<Vec<u8>> =
            (first..settings.items.min(first + BATCH)).map(|item| trace::key(settings, item)).collect();
        let values: Vec<Vec<u8>> = keys.iter().map(|key| trace::value(settings, key)).collect();
        let puts: Vec<Command<'_>> = keys
            .iter()
            .zip(&values)
            .map(|(key, value)| Command::Put { key, value, expires_at_ms: siltstone::batch::NEVER })
            .collect();
        refused += client.execute(&puts)?.iter().filter(|answer| **answer != Answer::Stored).count() as u64;
    }
    match refused {
        0 => Ok(()),
        refused => Err(Error::wrong_results(format!("{refused} requests were refused"))),
    }
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(0.0)
}

fn report(
    settings: &Settings,
    processors: usize,
    store: &Side,
    echo: &Side,
    loaded: &Counts,
    counts: &Counts,
) -> Report {
    let core_rates = |side: &Side| side.rates.iter().map(|(core, _)| *core).collect::<Vec<_>>();
    let wall = |side: &Side| median(side.rates.iter().map(|(_, wall)| *wall).collect());
    let ratios = store.rates.iter().zip(&echo.rates).map(|((store, _), (echo, _))| store / echo).collect();
    let per_packet = settings.requests_per_packet as f64;
    let packets_per_s = median(core_rates(store));
    let best = core_rates(store).into_iter().fold(0.0, f64::max);
    let received = (counts.received_packets - loaded.received_packets).max(1) as f64;
    let PacketResults { sent, answered, found, absent, .. } = store.all;
    Report {
        benchmark: "udp",
        settings: settings.clone(),
        processors,
        space: if settings.cache { "cache" } else { "store" },
        packet_bytes: (counts.received_bytes - loaded.received_bytes) as f64 / received,
        packets_per_burst: received / (counts.bursts - loaded.bursts).max(1) as f64,
        ops_per_s: packets_per_s * per_packet,
        best_ops_per_s: best * per_packet,
        packets_per_s,
        echo_packets_per_s: median(core_rates(echo)),
        echo_ratio: median(ratios),
        wall_ops_per_s: wall(store) * per_packet,
        wall_packets_per_s: wall(store),
        wall_echo_packets_per_s: wall(echo),
        response_us: store.times.mean() / 1e3,
        response_p5_us: store.times.value_at_quantile(0.05) as f64 / 1e3,
        response_p95_us: store.times.value_at_quantile(0.95) as f64 / 1e3,
        loss: sent.saturating_sub(answered) as f64 / sent.max(1) as f64,
        found: found as f64 / (found + absent).max(1) as f64,
        forwarded_packets: counts.forwarded_packets,
    }
}
