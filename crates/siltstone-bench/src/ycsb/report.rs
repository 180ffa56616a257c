//! The report of a phase of a workload: lines like YCSB's, and a JSON object.

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

/// The report of a phase. Serialises to its JSON object.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// `ycsb`.
    pub benchmark: &'static str,
    /// `load` or `run`.
    pub phase: &'static str,
    /// The engine.
    pub engine: &'static str,
    /// The settings.
    #[serde(flatten)]
    pub settings: Settings,
    /// The distribution of the requests.
    pub distribution: &'static str,
    /// The rates.
    #[serde(flatten)]
    pub rates: Rates,
    /// The costs, and the contents at the end.
    #[serde(flatten)]
    pub costs: Costs,
}

/// The raw measurements of the clock and of the database.
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

    /// Formats lines like YCSB's, after a line that describes the run.
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
