//! The flags that set up the database of a benchmark.

use super::mica::EvictionArg;
use crate::quantity::{parse_bytes, parse_whole};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use siltstone::{Access, Builder, EngineKind, FilterKind, HashStoreKind, IndexKind, MicaSettings};

/// How the database is set up.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "How the database is set up")]
pub struct Tuning {
    /// The engine
    #[arg(long, default_value = EngineKind::default().name(), value_parser = engines())]
    engine: EngineKind,
    /// All records have one size, and the database is told so
    #[arg(long)]
    pub fixed: bool,
    /// The keys are hashes, and the database is told so
    #[arg(long)]
    pub hashed_keys: bool,
    /// Records of a fixed size have room for an expiry time
    #[arg(long)]
    expiring: bool,
    /// The number of partitions
    #[arg(long, value_parser = parse_whole::<u32>)]
    partitions: Option<u32>,
    /// The size of a block on flash, in bytes
    #[arg(long, value_parser = parse_whole::<u32>)]
    block_bytes: Option<u32>,
    /// Keys that HashStores hold before they are merged, as a share of all
    #[arg(long)]
    merge_ratio: Option<f64>,
    /// Bits of a tag
    #[arg(long, value_parser = parse_whole::<u8>)]
    tag_bits: Option<u8>,
    /// Slots of a partition's LogStore, at the least
    #[arg(long, value_parser = parse_whole::<u32>)]
    log_slots_min: Option<u32>,
    /// Threads for background work
    #[arg(long, value_parser = parse_whole::<usize>)]
    background_threads: Option<usize>,
    /// How HashStores stand on flash; cuckoo tables need `--fixed`
    #[arg(long, value_enum)]
    hash_store: Option<HashStoreArg>,
    /// The filter of HashStores in hash order
    #[arg(long, value_enum)]
    filter: Option<FilterArg>,
    /// The base-2 logarithm of the inverse false-positive rate of ribbon filters
    #[arg(long, value_parser = parse_whole::<u8>)]
    filter_bits: Option<u8>,
    /// Bits of a filter on each SortedStore, for lookups that mostly miss: wrong about one key in 2^BITS
    #[arg(long, value_name = "BITS", value_parser = parse_whole::<u8>)]
    filter_last_store: Option<u8>,
    /// What all memory of the database is kept within, such as 64MiB; the rest of it caches records
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    memory_budget: Option<f64>,
    /// Of the engine `mica`: what a cache evicts; without it nothing is evicted, and a full database refuses puts
    #[arg(long, value_enum)]
    eviction: Option<EvictionArg>,
    /// Of the engine `mica`: bytes of key and value of a record on average
    #[arg(long, value_parser = parse_whole::<usize>)]
    record_bytes: Option<usize>,
    /// How SortedStores are indexed; all but fences need `--fixed`
    #[arg(long, value_enum)]
    index: Option<IndexArg>,
    /// Whether gets compute the checksums of the blocks that they read
    #[arg(long, value_enum, default_value = "on")]
    checksums: Switch,
    /// How store files reach the device
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
    /// Through the page cache
    Buffered,
    /// Past the page cache; an error where that cannot be done
    Direct,
    /// Past the page cache where that can be done
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
