//! `siltstone bench db`: the benchmarks of a database. The flags are db_bench's, underscores and all.

use crate::interrupt::Interrupt;
use crate::open::{DurabilityArg, parse_time};
use crate::outcome::{Outcome, Result, help};
use crate::stats;
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use siltstone::{Access, Builder, EngineKind, HashStoreKind, IndexKind};
use siltstone_bench::db::{Benchmark, Report, Settings};
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const EXAMPLES: &str = "
  siltstone bench db --num 1000000 --key_size 20 --value_size 44 --fixed
  siltstone bench db --benchmarks fillrandom,compact,readrandom --value_size 1000 --json
  siltstone bench db --db DIR --benchmarks fillrandom,abort
  siltstone bench db --db DIR --use_existing_db --benchmarks readrandom --threads 16";

/// Measure a database, under db_bench's names
///
/// Without --db it stands in a temporary directory. Every value that is read is checked. Benchmarks that write are timed
/// until the last put has returned and once more until no background work is left.
#[derive(Args)]
#[command(rename_all = "snake_case", after_help = help_with_benchmarks())]
pub struct DbArgs {
    /// The engine
    #[arg(long, default_value = "silt", value_parser = PossibleValuesParser::new(EngineKind::ALL.map(EngineKind::name)))]
    engine: String,
    /// The benchmarks, in their order
    #[arg(long, value_delimiter = ',', value_name = "NAME,…",
          default_values = Benchmark::USUAL.iter().map(|benchmark| benchmark.name()))]
    benchmarks: Vec<Benchmark>,
    /// Keys are numbers below this; every thread writes as many
    #[arg(long, default_value_t = 1_000_000)]
    num: u64,
    /// How many reads every thread does; as many as --num if not given
    #[arg(long)]
    reads: Option<u64>,
    /// Threads that write or read at the same time
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// The length of the keys, in bytes
    #[arg(long, alias = "key-size", default_value_t = 16)]
    key_size: usize,
    /// The length of the values, in bytes
    #[arg(long, alias = "value-size", default_value_t = 100)]
    value_size: usize,
    /// The directory; a temporary one if not given
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
    /// The directory holds a database that was filled before
    #[arg(long, alias = "use-existing-db", requires = "db")]
    use_existing_db: bool,
    /// Records that are written or read in one call
    #[arg(long, alias = "batch-size")]
    batch_size: Option<usize>,
    /// How long a write must have survived when it returns
    #[arg(long, value_enum, default_value = "written")]
    durability: DurabilityArg,
    /// Every write survives a loss of power: --durability synced
    #[arg(long, conflicts_with = "durability")]
    sync: bool,
    /// From which keys, orders and values follow
    #[arg(long, default_value_t = 301)]
    seed: u64,
    /// End each benchmark after this time, such as 10s
    #[arg(long, value_parser = parse_time)]
    duration: Option<Duration>,
    /// Print how the latencies are distributed
    #[arg(long)]
    histogram: bool,
    /// Print what the database says of itself after each benchmark
    #[arg(long)]
    statistics: bool,
    /// Print a line of JSON for each benchmark
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    tuning: Tuning,
}

/// How the database is set up.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "How the database is set up", rename_all = "snake_case")]
struct Tuning {
    /// All records have one size, and the database is told so
    #[arg(long)]
    fixed: bool,
    /// The keys are hashes, and the database is told so
    #[arg(long, alias = "hashed-keys")]
    hashed_keys: bool,
    /// Records of a fixed size have room for an expiry time
    #[arg(long)]
    expiring: bool,
    /// The number of partitions
    #[arg(long)]
    partitions: Option<u32>,
    /// The size of a block on flash, in bytes
    #[arg(long)]
    block_bytes: Option<u32>,
    /// Keys that HashStores hold before they are merged, as a share of all
    #[arg(long)]
    merge_ratio: Option<f64>,
    /// Bits of a tag
    #[arg(long)]
    tag_bits: Option<u8>,
    /// The false-positive rate of HashStores' filters, as its number of bits
    #[arg(long)]
    filter_bits: Option<u8>,
    /// Slots of a partition's LogStore, at the least
    #[arg(long)]
    log_slots_min: Option<u32>,
    /// Threads for background work
    #[arg(long)]
    background_threads: Option<usize>,
    /// How HashStores stand on flash
    #[arg(long, value_enum)]
    hash_store: Option<HashStoreArg>,
    /// How SortedStores are indexed
    #[arg(long, value_enum)]
    index: Option<IndexArg>,
    /// How store files reach the device
    #[arg(long, value_enum, default_value = "buffered")]
    access: AccessArg,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum HashStoreArg {
    CuckooTable,
    HashOrdered,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum IndexArg {
    EntropyTrie,
    Fences,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum AccessArg {
    /// Through the page cache
    Buffered,
    /// Past the page cache; an error where that cannot be done
    Direct,
    /// Past the page cache where that can be done
    DirectOrBuffered,
}

fn help_with_benchmarks() -> String {
    let names =
        Benchmark::ALL.iter().map(|benchmark| format!("  {:<18}{}\n", benchmark.name(), benchmark.about()));
    format!("Benchmarks:\n{}\n{}", names.collect::<String>(), help(EXAMPLES))
}

impl Tuning {
    fn apply(&self, mut builder: Builder) -> Builder {
        if self.expiring {
            builder = builder.expiring(true);
        }
        if let Some(partitions) = self.partitions {
            builder = builder.partitions(partitions);
        }
        if let Some(bytes) = self.block_bytes {
            builder = builder.block_bytes(bytes);
        }
        if let Some(ratio) = self.merge_ratio {
            builder = builder.merge_ratio(ratio);
        }
        if let Some(bits) = self.tag_bits {
            builder = builder.tag_bits(bits);
        }
        if let Some(bits) = self.filter_bits {
            builder = builder.filter_bits(bits);
        }
        if let Some(slots) = self.log_slots_min {
            builder = builder.log_slots_min(slots);
        }
        if let Some(threads) = self.background_threads {
            builder = builder.background_threads(threads);
        }
        self.apply_kinds(builder)
    }

    fn apply_kinds(&self, mut builder: Builder) -> Builder {
        builder = match self.hash_store {
            Some(HashStoreArg::CuckooTable) => builder.hash_store(HashStoreKind::CuckooTable),
            Some(HashStoreArg::HashOrdered) => builder.hash_store(HashStoreKind::HashOrdered),
            None => builder,
        };
        builder = match self.index {
            Some(IndexArg::EntropyTrie) => builder.index(IndexKind::EntropyTrie),
            Some(IndexArg::Fences) => builder.index(IndexKind::Fences),
            None => builder,
        };
        builder.access(match self.access {
            AccessArg::Buffered => Access::Buffered,
            AccessArg::Direct => Access::Direct,
            AccessArg::DirectOrBuffered => Access::DirectOrBuffered,
        })
    }
}

impl DbArgs {
    fn settings(&self, interrupt: &Interrupt) -> Settings {
        let engine = EngineKind::from_name(&self.engine).unwrap_or_default();
        let tuning = self.tuning.clone();
        Settings {
            benchmarks: self.benchmarks.clone(),
            num: self.num,
            reads: self.reads,
            threads: self.threads,
            key_size: self.key_size,
            value_size: self.value_size,
            hashed_keys: tuning.hashed_keys,
            fixed: tuning.fixed,
            directory: self.db.clone(),
            use_existing_db: self.use_existing_db,
            batch_size: self.batch_size,
            durability: if self.sync { siltstone::Durability::Synced } else { self.durability.into() },
            seed: self.seed,
            duration: self.duration,
            set_up: Arc::new(move |builder| tuning.apply(builder.engine(engine))),
            stop: interrupt.flag(),
            heap_bytes: None,
        }
    }

    fn print(&self, report: &Report) -> std::io::Result<()> {
        let mut out = stdout().lock();
        if self.json {
            serde_json::to_writer(&mut out, report)?;
            writeln!(out)?;
            return out.flush();
        }
        writeln!(out, "{}", report.line())?;
        if report.skipped.is_none() {
            writeln!(out, "{:15}{}", "", report.remarks())?;
        }
        if self.histogram && report.latencies.count() > 0 {
            write!(out, "{}", report.latencies.describe())?;
        }
        if self.statistics || report.benchmark == Benchmark::Stats.name() {
            stats::print(&mut out, &report.stats)?;
        }
        out.flush()
    }
}

pub fn run(args: DbArgs) -> Result {
    let interrupt = Interrupt::listen()?;
    siltstone_bench::db::run(&args.settings(&interrupt), &mut |report| args.print(report))?;
    Ok(if interrupt.is_raised() { Outcome::Interrupted } else { Outcome::Done })
}
