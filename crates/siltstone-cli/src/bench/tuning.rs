//! The flags that set up the database of a benchmark.

use super::mica::EvictionArg;
use crate::quantity::{parse_bytes, parse_whole};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use siltstone::{Access, Builder, EngineKind, FilterKind, HashStoreKind, IndexKind, MicaSettings};

/// Settings of the database.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Settings of the database")]
pub struct Tuning {
    /// Engine
    #[arg(long, default_value = EngineKind::default().name(), value_parser = engines())]
    engine: EngineKind,
    /// Fixed record size
    #[arg(long)]
    pub fixed: bool,
    /// Keys are hashes
    #[arg(long)]
    pub hashed_keys: bool,
    /// Fixed-size records have an expiry time
    #[arg(long)]
    expiring: bool,
    /// Number of partitions
    #[arg(long, value_parser = parse_whole::<u32>)]
    partitions: Option<u32>,
    /// Size of a block on flash, in bytes
    #[arg(long, value_parser = parse_whole::<u32>)]
    block_bytes: Option<u32>,
    /// Fraction of all keys that HashStores contain before they are merged
    #[arg(long)]
    merge_ratio: Option<f64>,
    /// Bits per tag
    #[arg(long, value_parser = parse_whole::<u8>)]
    tag_bits: Option<u8>,
    /// Minimum number of slots of a LogStore
    #[arg(long, value_parser = parse_whole::<u32>)]
    log_slots_min: Option<u32>,
    /// Number of threads for background work
    #[arg(long, value_parser = parse_whole::<usize>)]
    background_threads: Option<usize>,
    /// Form of HashStores on flash; cuckoo tables require `--fixed`
    #[arg(long, value_enum)]
    hash_store: Option<HashStoreArg>,
    /// Filter of HashStores in hash order
    #[arg(long, value_enum)]
    filter: Option<FilterArg>,
    /// Bits of ribbon filters, with a false-positive rate of 2^-BITS
    #[arg(long, value_parser = parse_whole::<u8>)]
    filter_bits: Option<u8>,
    /// Bits of a filter per SortedStore, for lookups of missing keys; its false-positive rate is 2^-BITS
    #[arg(long, value_name = "BITS", value_parser = parse_whole::<u8>)]
    filter_last_store: Option<u8>,
    /// Limit on all memory of the database, such as 64MiB; unused memory caches records
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    memory_budget: Option<f64>,
    /// For the engine `mica`: eviction policy; without one, a full database refuses puts
    #[arg(long, value_enum)]
    eviction: Option<EvictionArg>,
    /// For the engine `mica`: average bytes of key and value per record
    #[arg(long, value_parser = parse_whole::<usize>)]
    record_bytes: Option<usize>,
    /// Index of SortedStores; all except fences require `--fixed`
    #[arg(long, value_enum)]
    index: Option<IndexArg>,
    /// Whether gets verify the checksums of the blocks that they read
    #[arg(long, value_enum, default_value = "on")]
    checksums: Switch,
    /// How store files are read and written
    #[arg(long, value_enum, default_value = "buffered")]
    access: AccessArg,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
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
    BlockPerfect,
    SlotPerfect,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum FilterArg {
    CuckooTags,
    Ribbon,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum AccessArg {
    /// Use the page cache
    Buffered,
    /// Direct I/O; an error if it is not supported
    Direct,
    /// Direct I/O if it is supported
    DirectOrBuffered,
}

impl Tuning {
    /// The builder with what was chosen; what was not is the default.
    pub fn apply(&self, mut builder: Builder) -> Builder {
        builder = builder.engine(self.engine);
        if self.expiring {
            builder = builder.expiring(true);
        }
        builder = with(builder, self.partitions, Builder::partitions);
        builder = with(builder, self.block_bytes, Builder::block_bytes);
        builder = with(builder, self.merge_ratio, Builder::merge_ratio);
        builder = with(builder, self.tag_bits, Builder::tag_bits);
        builder = with(builder, self.log_slots_min, Builder::log_slots_min);
        builder = with(builder, self.background_threads, Builder::background_threads);
        builder = with(builder, self.filter_bits, Builder::filter_bits);
        builder = with(builder, self.filter_last_store, Builder::filter_last_store);
        builder = with(builder, self.memory_budget.map(|bytes| bytes as u64), Builder::memory_budget);
        builder = with(builder, self.hash_store.map(Into::into), Builder::hash_store);
        builder = with(builder, self.filter.map(Into::into), Builder::filter);
        builder = with(builder, self.index.map(Into::into), Builder::index);
        if self.eviction.is_some() || self.record_bytes.is_some() {
            let mut settings = MicaSettings::default();
            settings.eviction = self.eviction.map(EvictionArg::eviction);
            settings.record_bytes = self.record_bytes.unwrap_or(settings.record_bytes);
            builder = builder.mica(settings);
        }
        builder.verify_checksums(self.checksums == Switch::On).access(self.access.into())
    }
}

fn engines() -> impl TypedValueParser<Value = EngineKind> {
    let names = PossibleValuesParser::new(EngineKind::ALL.map(EngineKind::name));
    names.map(|name| EngineKind::from_name(&name).unwrap_or_default())
}

fn with<T>(builder: Builder, chosen: Option<T>, set: fn(Builder, T) -> Builder) -> Builder {
    match chosen {
        Some(value) => set(builder, value),
        None => builder,
    }
}

impl From<HashStoreArg> for HashStoreKind {
    fn from(kind: HashStoreArg) -> Self {
        match kind {
            HashStoreArg::CuckooTable => HashStoreKind::CuckooTable,
            HashStoreArg::HashOrdered => HashStoreKind::HashOrdered,
        }
    }
}

impl From<FilterArg> for FilterKind {
    fn from(kind: FilterArg) -> Self {
        match kind {
            FilterArg::CuckooTags => FilterKind::CuckooTags,
            FilterArg::Ribbon => FilterKind::Ribbon,
        }
    }
}

impl From<IndexArg> for IndexKind {
    fn from(kind: IndexArg) -> Self {
        match kind {
            IndexArg::EntropyTrie => IndexKind::EntropyTrie,
            IndexArg::Fences => IndexKind::Fences,
            IndexArg::BlockPerfect => IndexKind::BlockPerfect,
            IndexArg::SlotPerfect => IndexKind::SlotPerfect,
        }
    }
}

impl From<AccessArg> for Access {
    fn from(access: AccessArg) -> Self {
        match access {
            AccessArg::Buffered => Access::Buffered,
            AccessArg::Direct => Access::Direct,
            AccessArg::DirectOrBuffered => Access::DirectOrBuffered,
        }
    }
}
