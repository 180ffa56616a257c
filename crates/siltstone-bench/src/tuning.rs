//! The settings of the database of a benchmark.

use crate::named::by_name;
use crate::quantity::parse_whole;
use clap::{Args, ValueEnum};
use siltstone::{Access, Builder, Compression, EngineKind};

/// Settings of the database.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Settings of the database")]
pub struct Tuning {
    /// Engine
    #[arg(long, default_value = EngineKind::default().name(), value_parser = by_name::<EngineKind>())]
    pub engine: EngineKind,
    /// Settings of the engine.
    #[command(flatten)]
    pub settings: SettingArgs,
    /// Fixed-size records have an expiry time
    #[arg(long)]
    pub expiring: bool,
    /// Number of partitions
    #[arg(long, value_parser = parse_whole::<u32>)]
    pub partitions: Option<u32>,
    /// Size of a block on flash, in bytes
    #[arg(long, value_parser = parse_whole::<u32>)]
    pub block_bytes: Option<u32>,
    /// Compression of values: none, lz4, zstd or zstd:LEVEL
    #[arg(long, value_name = "NAME", value_parser = parse_compression)]
    pub compression: Option<Compression>,
    /// Number of threads for background work
    #[arg(long, value_parser = parse_whole::<usize>)]
    pub background_threads: Option<usize>,
    /// The limit on memory.
    #[command(flatten)]
    pub memory: MemoryArgs,
    /// Whether gets verify the checksums of the blocks that they read
    #[arg(long, value_enum, default_value = "on")]
    pub checksums: Switch,
    /// How store files are read and written: through the page cache (buffered), or with direct I/O, which fails
    /// (direct) or falls back (direct-or-buffered) if it is not supported
    #[arg(long, default_value = Access::default().name(), value_parser = by_name::<Access>())]
    pub access: Access,
    /// Count the times of operations in histograms of the database
    #[arg(long)]
    pub latencies: bool,
    /// The seed of the key hash of a new database, with which each run has the same counts.
    #[arg(skip)]
    pub seed: Option<[u64; 2]>,
}

/// Settings of an engine, by name.
#[derive(Debug, Clone, Default, Args)]
pub struct SettingArgs {
    /// Set a setting of the engine (repeatable); `siltstone engines` lists them
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_setting)]
    pub settings: Vec<(String, String)>,
}

/// A limit on memory.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct MemoryArgs {
    /// Limit on all memory of the database, such as 64MiB; what indexes and filters leave of it caches records
    #[arg(long, value_name = "BYTES", value_parser = parse_whole::<u64>, aliases = ["memory-budget", "memory_budget"])]
    pub memory: Option<u64>,
}

impl MemoryArgs {
    /// Returns the builder with the limit, if there is one.
    pub fn apply(self, builder: Builder) -> Builder {
        with(builder, self.memory, Builder::memory_budget)
    }
}

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Switch {
    /// On.
    #[default]
    On,
    /// Off.
    Off,
}

impl Tuning {
    /// Returns the builder with the settings that were given.
    pub fn apply(&self, mut builder: Builder) -> Builder {
        builder = self.settings.apply(builder.engine(self.engine));
        if self.expiring {
            builder = builder.expiring(true);
        }
        builder = with(builder, self.partitions, Builder::partitions);
        builder = with(builder, self.block_bytes, Builder::block_bytes);
        builder = with(builder, self.compression, Builder::compression);
        builder = with(builder, self.background_threads, Builder::background_threads);
        builder = with(builder, self.seed, Builder::seed);
        let builder = self.memory.apply(builder);
        builder.verify_checksums(self.checksums == Switch::On).access(self.access).latencies(self.latencies)
    }
}

/// Parses a compression of values.
pub fn parse_compression(text: &str) -> Result<Compression, String> {
    Compression::from_name(text).ok_or_else(|| {
        format!("expected none, lz4, zstd, or zstd:LEVEL with a level from 1 to 19, not {text}")
    })
}

impl SettingArgs {
    /// Returns the builder with these settings.
    pub fn apply(&self, builder: Builder) -> Builder {
        self.settings.iter().fold(builder, |builder, (name, value)| builder.set(name, value))
    }
}

fn parse_setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE, such as merge_ratio=0.5")?;
    Ok((name.trim().replace('-', "_"), value.trim().to_owned()))
}

fn with<T>(builder: Builder, chosen: Option<T>, set: fn(Builder, T) -> Builder) -> Builder {
    match chosen {
        Some(value) => set(builder, value),
        None => builder,
    }
}
