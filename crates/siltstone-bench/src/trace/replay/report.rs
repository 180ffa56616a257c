//! What a replay found out: lines as YCSB prints them, and an object of JSON.

use super::Settings;
use super::worker::Work;
use crate::costs::Costs;
use crate::timings::Rates;
use crate::trace::Kind;
use serde::Serialize;
use siltstone::Stats;

/// What a replay found out. Serialised, it is its object.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// `trace`.
    pub benchmark: &'static str,
    /// What was asked for.
    #[serde(flatten)]
    pub settings: Settings,
    /// The engine.
    pub engine: &'static str,
    /// Gets that found their key.
    pub found: u64,
    /// How fast it went.
    #[serde(flatten)]
    pub rates: Rates,
    /// What it cost, and what is there at the end of what the trace has set.
    #[serde(flatten)]
    pub costs: Costs,
}

impl Report {
    pub(super) fn new(
        settings: &Settings,
        work: &Work,
        seconds: f64,
        settled_seconds: f64,
        before: &Stats,
        after: &Stats,
    ) -> Report {
        let gets = work.timings.count(Kind::Get.name());
        Report {
            benchmark: "trace",
            settings: settings.clone(),
            engine: after.engine,
            found: work.found,
            rates: Rates::new(&work.timings, seconds, Some(settled_seconds)),
            costs: Costs::new(before, after, work.keys, work.data_bytes, gets),
        }
    }

    /// Lines as YCSB prints them, below one that tells what was done.
    pub fn summary(&self) -> String {
        let Settings { name, threads, durability, .. } = &self.settings;
        let gets = self.rates.by_operation.get("get").map_or(0, |figures| figures.operations);
        format!(
            "trace {name}: {}, {threads} threads, {}; {} of {gets} gets found their key\n{}{}",
            self.engine,
            durability.name(),
            self.found,
            self.rates.summary(),
            self.costs.summary()
        )
    }
}
