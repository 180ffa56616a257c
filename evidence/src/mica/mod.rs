//! The benchmark of MICA's in-memory stores: threads that get and put, without a network (dissertation 5.4, Figure
//! 5.12; access modes as in Figure 5.16). The requests go through handles or, for comparison, through a database or to
//! a bare hash map.
//!
//! Requests are generated before timing starts. Items are loaded in one order and requested in another, so that popular
//! items are not adjacent. Times are CPU times, so other programs on the machine hardly affect them, except through
//! shared caches and memory bandwidth. In EREW mode a thread serves only its own partition; in CREW mode it reads all
//! partitions and writes its own; in CRCW mode it reads and writes all.

mod interface;
mod table;
mod trace;
mod worker;

pub use interface::Interface;
pub use table::Table;

use crate::{Error, Result};
use clap::Parser;
use interface::{Map, OpenDatabase};
use serde::Serialize;
use siltstone_bench::named::{self, by_name};
use siltstone_bench::quantity::parse_whole;
use siltstone_mica::{AccessMode, CacheSettings, Eviction, Handle, Handles, ItemLayout, StoreSettings};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use trace::Asked;
use worker::RequestResults;

/// The settings.
#[derive(Debug, Clone, Parser, Serialize)]
pub struct Settings {
    /// Number of items to load
    #[arg(long, default_value_t = 16 << 20, value_parser = parse_whole::<u64>)]
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
    /// Number of threads and of partitions, a power of two
    #[arg(long, default_value_t = 1, value_parser = parse_whole::<usize>)]
    pub threads: usize,
    /// Access to a partition: exclusive (erew), concurrent reads (crew), concurrent reads and writes (crcw)
    #[arg(long, default_value = AccessMode::default().name(), value_parser = by_name::<AccessMode>())]
    #[serde(serialize_with = "named::serialize")]
    pub mode: AccessMode,
    /// What the requests go through: MICA's handles; a database, which hashes the keys itself, by `get_into`, by
    /// `get_many_with` (database-many) or by `get_many` (database-values); a bare hash map of numbers (map)
    #[arg(long, default_value = Interface::default().name(), value_parser = by_name::<Interface>())]
    #[serde(serialize_with = "named::serialize")]
    pub interface: Interface,
    /// Cache mode: evict old items
    #[arg(long)]
    #[serde(skip)]
    pub cache: bool,
    /// Eviction policy in cache mode
    #[arg(long, default_value = "approximate-lru", requires = "cache", value_parser = by_name::<Eviction>())]
    #[serde(skip)]
    pub eviction: Eviction,
    /// Items of any size, stored with their lengths
    #[arg(long)]
    pub variable: bool,
    /// Hash the keys before the measurement, as MICA's clients do
    #[arg(long)]
    pub hash_outside: bool,
    /// Number of requests per round
    #[arg(long, default_value_t = 16 << 20, value_parser = parse_whole::<u64>)]
    #[serde(skip)]
    pub operations: u64,
    /// Number of requests per batch
    #[arg(long, default_value_t = 256, value_parser = parse_whole::<usize>)]
    #[serde(skip)]
    pub batch_size: usize,
    /// Number of rounds; the results are the best and the median
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
    /// `mica`.
    pub benchmark: &'static str,
    /// The settings.
    #[serde(flatten)]
    pub settings: Settings,
    /// `store`, `cache` or `map`.
    pub space: &'static str,
    /// Requests in a round.
    pub operations: u64,
    /// Requests per second of CPU time in the best round; with several threads, of the thread that took longest.
    pub ops_per_s: f64,
    /// The same for the median round.
    pub median_ops_per_s: f64,
    /// Requests per second of CPU time for each thread, in the best round. The more popular a partition is, the more of
    /// its items are in the processor's caches.
    pub thread_ops_per_s: Vec<f64>,
    /// Requests per second of wall-clock time in the best round, which other programs affect.
    pub wall_ops_per_s: f64,
    /// Items loaded per second.
    pub load_items_per_s: f64,
    /// The share of gets that found their key.
    pub found: f64,
    /// The memory of the partitions per loaded item, in bytes.
    pub ram_bytes_per_key: f64,
    /// That of the index.
    pub index_bytes_per_key: f64,
    /// The share of the memory that is in huge pages.
    pub huge_share: f64,
}

impl Report {
    /// Formats the report as text.
    pub fn line(&self) -> String {
        let Settings { threads, get, zipf, mode, interface, .. } = self.settings;
        let access = if interface == Interface::Handles { mode.name() } else { interface.name() };
        format!(
            "{:<12} : {:.2} M ops/sec (median {:.2}, wall {:.2}); {}, {}, threads {threads}, {:.0}% get, \
             zipf {zipf}; found {:.2}%; {:.1} bytes/item, {:.1} of them index, {:.0}% in huge \
             pages; loaded at {:.2} M items/sec",
            self.benchmark,
            self.ops_per_s / 1e6,
            self.median_ops_per_s / 1e6,
            self.wall_ops_per_s / 1e6,
            self.space,
            access,
            get * 100.0,
            self.found * 100.0,
            self.ram_bytes_per_key,
            self.index_bytes_per_key,
            self.huge_share * 100.0,
            self.load_items_per_s / 1e6,
        )
    }
}

/// The memory of the items, in bytes.
struct Memory {
    all_bytes: u64,
    index_bytes: u64,
    huge_bytes: u64,
}

/// Returns the number of items for which one of several partitions needs space.
fn share(items: u64, partitions: u64) -> u64 {
    // Partitions get different numbers of items: six standard deviations are spare, if there are several.
    let share = items as f64 / partitions as f64;
    let spread = if partitions == 1 { 0.0 } else { 6.0 * share.sqrt() };
    (share + spread) as u64 + 1
}

/// Loads the items and runs the rounds.
///
/// # Errors
/// See the variants of [`Error`].
pub fn run(settings: &Settings) -> Result<Report> {
    check(settings)?;
    let Settings { key_size, value_size, threads, .. } = *settings;
    let layout =
        ItemLayout { fixed: (!settings.variable).then_some((key_size, value_size)), expiring: false };
    match settings.interface {
        Interface::Handles => {
            let work =
                |handles: &mut Handles, trace: &[_]| Ok(worker::through_handles(settings, handles, trace));
            measure(settings, open_handles(settings, layout)?, work, memory_of)
        }
        Interface::Map => {
            let work = |map: &mut Map, trace: &[_]| Ok(map.execute(trace));
            measure(settings, vec![Map::new(settings)], work, |maps| maps[0].memory())
        }
        _ => {
            let database = OpenDatabase::open(settings, layout)?;
            let work = |database: &mut OpenDatabase, trace: &[_]| database.execute(settings, trace);
            measure(settings, vec![database; threads], work, |databases| databases[0].memory())
        }
    }
}

/// Returns the handles of each thread.
fn open_handles(settings: &Settings, layout: ItemLayout) -> Result<Vec<Handles>> {
    let Settings { items, key_size, value_size, threads, .. } = *settings;
    let partition_bits = threads.ilog2();
    let share = share(items, threads as u64);
    Ok(if settings.cache {
        let cache = CacheSettings::for_items(layout, share, key_size, value_size);
        CacheSettings { eviction: settings.eviction, partition_bits, ..cache }
            .open_handles(settings.mode, threads)
    } else {
        let store = StoreSettings::for_items(layout, share, key_size, value_size);
        StoreSettings { partition_bits, ..store }.open_handles(settings.mode, threads)
    }?)
}

/// Returns the memory of all partitions.
fn memory_of(threads: &[Handles]) -> Memory {
    // Each thread owns the partition with its number.
    let own = || threads.iter().enumerate().filter_map(|(thread, handles)| handles[thread].as_ref());
    Memory {
        all_bytes: own().map(|handle| handle.account().total_bytes()).sum(),
        index_bytes: own().map(|handle| handle.account().index_bytes).sum(),
        huge_bytes: own().map(Handle::huge_bytes).sum(),
    }
}

fn check(settings: &Settings) -> Result<()> {
    let complaint = match settings {
        Settings { key_size: 0..8, .. } => "key_size is at least 8",
        Settings { items: 0, .. } | Settings { operations: 0, .. } => "items and operations are at least 1",
        Settings { batch_size: 0, .. } | Settings { rounds: 0, .. } => "batch_size and rounds are at least 1",
        Settings { threads, .. } if !threads.is_power_of_two() || *threads > 64 => {
            "threads are a power of two up to 64"
        }
        Settings { zipf, get, .. } if !(0.0..1.0).contains(zipf) || !(0.0..=1.0).contains(get) => {
            "zipf is 0 or more and less than 1; get is 0 to 1"
        }
        Settings { interface: Interface::Map, threads, key_size, value_size, .. }
            if (*threads, *key_size, *value_size) != (1, 8, 8) =>
        {
            "a map has one thread, and keys and values of 8 bytes"
        }
        _ => return Ok(()),
    };
    Err(Error::settings(complaint))
}

/// Loads the items and runs the rounds, by threads that do `work` with what each of them has.
fn measure<T: Send>(
    settings: &Settings,
    mut threads: Vec<T>,
    work: impl Fn(&mut T, &[Asked]) -> Result<RequestResults> + Sync,
    memory: impl FnOnce(&[T]) -> Memory,
) -> Result<Report> {
    let loading = trace::loading(settings);
    let (loaded, load_seconds) = worker::run(&mut threads, &loading, &work)?;
    loaded.check()?;
    drop(loading);
    let Memory { all_bytes, index_bytes, huge_bytes } = memory(&threads);
    let traces = trace::requests(settings);
    let mut seconds = Vec::new();
    let mut all = RequestResults::default();
    for _ in 0..settings.rounds {
        if settings.stop.load(Relaxed) {
            return Err(Error::STOPPED);
        }
        let (results, round_seconds) = worker::run(&mut threads, &traces, &work)?;
        all.add(&results);
        seconds.push(round_seconds);
    }
    all.check()?;
    seconds.sort_by(|one, other| one.processor.total_cmp(&other.processor));
    let processor: Vec<f64> = seconds.iter().map(|seconds| seconds.processor).collect();
    let wall = seconds.iter().map(|seconds| seconds.wall).fold(f64::INFINITY, f64::min);
    let operations = traces.iter().map(Vec::len).sum::<usize>() as u64;
    let rate = |seconds: f64| operations as f64 / seconds.max(1e-9);
    let per_key = |bytes: u64| bytes as f64 / settings.items as f64;
    Ok(Report {
        benchmark: "mica",
        settings: settings.clone(),
        space: match settings {
            Settings { interface: Interface::Map, .. } => "map",
            Settings { cache: true, .. } => "cache",
            _ => "store",
        },
        operations,
        ops_per_s: rate(processor[0]),
        median_ops_per_s: rate(processor[processor.len() / 2]),
        thread_ops_per_s: traces
            .iter()
            .zip(&seconds[0].of_threads)
            .map(|(trace, seconds)| trace.len() as f64 / seconds.max(1e-9))
            .collect(),
        wall_ops_per_s: rate(wall),
        load_items_per_s: settings.items as f64 / load_seconds.processor.max(1e-9),
        found: all.found as f64 / ((all.found + all.absent).max(1)) as f64,
        ram_bytes_per_key: per_key(all_bytes),
        index_bytes_per_key: per_key(index_bytes),
        huge_share: huge_bytes as f64 / all_bytes.max(1) as f64,
    })
}
