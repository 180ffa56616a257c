//! What a phase of a workload found out: lines as YCSB prints them, and an object of JSON.

use super::worker::Work;
use super::{Distribution, Settings};
use crate::accounts;
use crate::costs::Costs;
use crate::timings::Rates;
use serde::Serialize;
use siltstone::Stats;

/// The phases of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Load,
    Run,
}

/// What a phase found out. Serialised, it is its object.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// `ycsb`.
    pub benchmark: &'static str,
    /// The name of the workload.
    pub workload: &'static str,
    /// `load` or `run`.
    pub phase: &'static str,
    /// The engine.
    pub engine: &'static str,
    /// Records that were loaded.
    pub records: u64,
    /// Fields of a record.
    pub field_count: usize,
    /// The length of a field, in bytes.
    pub field_length: usize,
    /// Whether an update writes all fields, without reading the record.
    pub write_all_fields: bool,
    /// Whether the database was told that all records have one size.
    pub fixed: bool,
    /// How the requests are distributed.
    pub distribution: &'static str,
    /// Threads that worked at the same time.
    pub threads: usize,
    /// The durability of the writes.
    pub durability: &'static str,
    /// How fast it went.
    #[serde(flatten)]
    pub rates: Rates,
    /// What it cost, and what is there at the end.
    #[serde(flatten)]
    pub costs: Costs,
}

/// What was measured, in the terms of the clock and of the database.
pub(super) struct Measured {
    pub phase: Phase,
    pub work: Work,
    pub seconds: f64,
    pub settled_seconds: Option<f64>,
    pub before: Stats,
    pub after: Stats,
    pub keys: u64,
    pub data_bytes: u64,
}

impl Report {
    pub(super) fn new(settings: &Settings, distribution: Distribution, measured: Measured) -> Report {
        let Measured { work, before, after, .. } = &measured;
        Report {
            benchmark: "ycsb",
            workload: settings.workload.name(),
            phase: if measured.phase == Phase::Load { "load" } else { "run" },
            engine: after.engine,
            records: settings.records,
            field_count: settings.field_count,
            field_length: settings.field_length,
            write_all_fields: settings.write_all_fields,
            fixed: settings.fixed,
            distribution: distribution.name(),
            threads: settings.threads,
            durability: accounts::durability(settings.durability),
            rates: Rates::new(&work.timings, measured.seconds, measured.settled_seconds),
            costs: Costs::new(before, after, measured.keys, measured.data_bytes, work.lookups),
        }
    }

    /// The lines that readers of YCSB know, below one that tells what was done.
    pub fn summary(&self) -> String {
        let Report { workload, phase, engine, records, field_count, field_length, .. } = self;
        format!(
            "YCSB workload {workload}, {phase}: {engine}, {records} records of {field_count} x {field_length} bytes, \
             {}, {} threads, {}\n{}{}",
            self.distribution,
            self.threads,
            self.durability,
            self.rates.summary(),
            self.costs.summary()
        )
    }
}
