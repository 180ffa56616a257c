//! What a phase of a workload found out: lines as YCSB prints them, and an object of JSON.

use super::worker::Work;
use super::{Distribution, Settings};
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
    /// `load` or `run`.
    pub phase: &'static str,
    /// The engine.
    pub engine: &'static str,
    /// What was asked for.
    #[serde(flatten)]
    pub settings: Settings,
    /// How the requests are distributed.
    pub distribution: &'static str,
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
            phase: if measured.phase == Phase::Load { "load" } else { "run" },
            engine: after.engine,
            settings: settings.clone(),
            distribution: distribution.name(),
            rates: Rates::new(&work.timings, measured.seconds, measured.settled_seconds),
            costs: Costs::new(before, after, measured.keys, measured.data_bytes, work.lookups),
        }
    }

    /// The lines that readers of YCSB know, below one that tells what was done.
    pub fn summary(&self) -> String {
        let Report { phase, engine, distribution, .. } = self;
        let Settings { workload, records, field_count, field_length, threads, durability, .. } =
            &self.settings;
        format!(
            "YCSB workload {workload}, {phase}: {engine}, {records} records of {field_count} x {field_length} bytes, \
             {distribution}, {threads} threads, {}\n{}{}",
            durability.name(),
            self.rates.summary(),
            self.costs.summary()
        )
    }
}
