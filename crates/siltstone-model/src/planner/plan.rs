//! The output of the planner.

use super::demand::Demand;
use super::parameters::{Costs, Parameters, Value};
use super::system::System;

/// The predicted costs of a store.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Prediction {
    /// The peak of memory, in bytes.
    pub ram_bytes: f64,
    /// The same per key.
    pub ram_bytes_per_key: f64,
    /// Reads from flash for a get of an existing key, where gets are distributed as puts are.
    pub reads_per_get: f64,
    /// Reads from flash for a get of a missing key.
    pub reads_per_miss: f64,
    /// The bytes of each of these reads.
    pub read_bytes: f64,
    /// The share of gets of existing keys that the disk serves, and not the flash.
    pub disk_gets: f64,
    /// Reads from disk for a get of an existing key.
    pub disk_reads_per_get: f64,
    /// Bytes written to the disk per byte put.
    pub disk_writes: f64,
    /// Bytes on the disk.
    pub disk_bytes: f64,
    /// The share of the time in which the disk is busy.
    pub disk_busy: f64,
    /// Bytes written to flash per byte put.
    pub write_amplification: f64,
    /// Bytes that merges, conversions and cleaning read from flash per byte put.
    pub background_reads: f64,
    /// Records that background work reads from flash one by one, per put.
    pub background_reads_per_put: f64,
    /// Bytes on flash per byte of items.
    pub space_amplification: f64,
    /// The same in bytes.
    pub flash_bytes: f64,
    /// The lifetime of the flash, in seconds.
    pub lifetime_s: f64,
    /// The share of the time in which the flash is busy with gets, writes and background reads.
    pub device_busy: f64,
    /// The maximum number of open files.
    pub open_files: f64,
}

impl Prediction {
    pub(super) fn new(demand: &Demand, costs: Costs) -> Self {
        let put_per_s = demand.puts_per_s * demand.item_bytes();
        let reads =
            costs.reads_per_get * (1.0 - demand.missing_gets) + costs.reads_per_miss * demand.missing_gets;
        let random_reads_per_s =
            demand.gets_per_s * reads + demand.puts_per_s * costs.background_reads_per_put;
        let lifetime_s =
            demand.flash.lifetime_s(demand.puts_per_s, demand.item_bytes(), costs.write_amplification);
        let syncs = if demand.synced && costs.write_amplification > 0.0 { demand.puts_per_s } else { 0.0 };
        let disk_busy = demand.disk.map_or(0.0, |disk| {
            let missing = demand.missing_gets;
            let reads = costs.disk_reads_per_get * (1.0 - missing) + costs.disk_reads_per_miss * missing;
            let moved = costs.disk_writes + costs.disk_background_reads;
            demand.gets_per_s * reads / disk.reads_per_s + put_per_s * moved / disk.bytes_per_s
        });
        Prediction {
            ram_bytes: costs.ram_bytes,
            ram_bytes_per_key: costs.ram_bytes / demand.keys(),
            reads_per_get: costs.reads_per_get,
            reads_per_miss: costs.reads_per_miss,
            read_bytes: costs.read_bytes,
            disk_gets: costs.disk_gets,
            disk_reads_per_get: costs.disk_reads_per_get,
            disk_writes: costs.disk_writes,
            disk_bytes: costs.disk_bytes,
            disk_busy,
            write_amplification: costs.write_amplification,
            background_reads: costs.background_reads,
            background_reads_per_put: costs.background_reads_per_put,
            space_amplification: costs.space_amplification,
            flash_bytes: costs.space_amplification * demand.data_bytes(),
            lifetime_s,
            device_busy: random_reads_per_s * demand.read_s(costs.read_bytes)
                + put_per_s * costs.background_reads / demand.read_bytes_per_s
                + put_per_s * costs.write_amplification / demand.write_bytes_per_s
                + syncs / demand.reads_per_s,
            open_files: costs.open_files,
        }
    }
}

/// A resource that limits a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The memory.
    Ram,
    /// The capacity of the flash.
    FlashSpace,
    /// The bytes on flash per byte of items.
    Space,
    /// The wear of the flash.
    Lifetime,
    /// The time of the flash for reads and writes.
    DeviceTime,
    /// The capacity of the disk.
    DiskSpace,
    /// The time of the disk for reads and writes.
    DiskTime,
}

/// How much of a bound is used.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Limit {
    /// Which bound.
    pub bound: Bound,
    /// The used share. Above 1 the plan does not fit.
    pub used: f64,
}

/// A reason why a plan cannot be recommended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unfit {
    /// The engine has no ordered scans.
    NoScans,
    /// The engine does not persist data.
    NotPersistent,
    /// A [`Limit`] is exceeded.
    Exceeds(Bound),
}

/// One engine, with its best parameters for the demand.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Plan {
    /// The engine.
    pub system: System,
    /// Its parameters by their names in the builder and on the command line.
    pub settings: Vec<(&'static str, Value)>,
    /// Its predicted costs.
    pub prediction: Prediction,
    /// The used share of each bound, in descending order: the first one limits the plan.
    pub limits: Vec<Limit>,
    /// Why it cannot be recommended; empty if it can.
    pub unfit: Vec<Unfit>,
    #[serde(skip)]
    pub(super) parameters: Parameters,
}

/// Returns whether a setting is one of the builder, which every engine has, and not of the engine.
fn is_of_builder(name: &str) -> bool {
    ["fixed", "partitions", "block_bytes", "memory_budget"].contains(&name)
}

/// Returns whether a setting is one of the engine on the disk, which the builder sets by its name.
fn is_of_disk(name: &str) -> bool {
    name.starts_with("disk.")
}

/// Returns the call that opens a database with these settings.
pub(super) fn builder_call(system: System, settings: &[(&str, Value)]) -> String {
    let kind = system.kind();
    let calls = |of_builder: bool| -> String {
        let settings =
            settings.iter().filter(|(name, _)| (is_of_builder(name) || is_of_disk(name)) == of_builder);
        let call = |(name, value): &(&str, Value)| match is_of_disk(name) {
            true => format!(".set({name:?}, {value})"),
            false => format!(".{name}({value})"),
        };
        settings.map(call).collect()
    };
    let engine = match calls(false) {
        settings if settings.is_empty() => format!("EngineKind::{kind:?}"),
        settings => format!("{kind:?}Settings::default(){settings}"),
    };
    format!("Database::builder(path).engine({engine}){}.open()?", calls(true))
}

impl Plan {
    /// Returns whether it meets the demand.
    pub fn is_recommended(&self) -> bool {
        self.unfit.is_empty()
    }

    /// Returns the bound that is used most.
    pub fn binding(&self) -> Option<Limit> {
        self.limits.first().copied()
    }

    /// Returns the call that opens a database with the plan's settings.
    pub fn builder_call(&self) -> String {
        builder_call(self.system, &self.settings)
    }

    /// Returns the flags of `siltstone bench db` for the plan's settings.
    pub fn flags(&self) -> String {
        let flag = |(name, value): &(&str, Value)| match value {
            Value::Lengths(keys, values) => format!(" --key-size {keys} --value-size {values} --fixed"),
            Value::Disk(directory) => format!(" --set {name}={directory}"),
            Value::Chosen(count) => format!(" --set {name}={count}"),
            value if *name == "memory_budget" => format!(" --memory {value}"),
            value if is_of_builder(name) => format!(" --{name} {value}"),
            value => format!(" --set {name}={value}"),
        };
        let flags: String = self.settings.iter().map(flag).collect();
        format!("--engine {}{flags}", self.system.name())
    }
}
