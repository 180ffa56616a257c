//! The flags that set up the database of a benchmark.

use crate::open::{SettingArgs, engines};
use crate::quantity::{parse_bytes, parse_whole};
use clap::{Args, ValueEnum};
use siltstone::{Access, Builder, EngineKind};

/// Settings of the database.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Settings of the database")]
pub struct Tuning {
    /// Engine
    #[arg(long, default_value = EngineKind::default().name(), value_parser = engines())]
    engine: EngineKind,
    #[command(flatten)]
    settings: SettingArgs,
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
    /// Number of threads for background work
    #[arg(long, value_parser = parse_whole::<usize>)]
    background_threads: Option<usize>,
    /// Limit on all memory of the database, such as 64MiB; unused memory caches records
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    memory_budget: Option<f64>,
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
        builder = self.settings.apply(builder.engine(self.engine));
        if self.expiring {
            builder = builder.expiring(true);
        }
        builder = with(builder, self.partitions, Builder::partitions);
        builder = with(builder, self.block_bytes, Builder::block_bytes);
        builder = with(builder, self.background_threads, Builder::background_threads);
        builder = with(builder, self.memory_budget.map(|bytes| bytes as u64), Builder::memory_budget);
        builder.verify_checksums(self.checksums == Switch::On).access(self.access.into())
    }
}

fn with<T>(builder: Builder, chosen: Option<T>, set: fn(Builder, T) -> Builder) -> Builder {
    match chosen {
        Some(value) => set(builder, value),
        None => builder,
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
