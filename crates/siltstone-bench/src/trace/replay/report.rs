//! The report of a replay: lines like YCSB's, and a JSON object.

use super::Settings;
use super::worker::Work;
use crate::costs::Costs;
use crate::timings::Rates;
use crate::trace::Kind;
use serde::Serialize;
use siltstone::Stats;

/// The report of a replay. Serialises to its JSON object.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// `trace`.
    pub benchmark: &'static str,
    /// The settings.
    #[serde(flatten)]
    pub settings: Settings,
    /// The engine.
    pub engine: &'static str,
    /// Gets that found their key.
    pub found: u64,
    /// The rates.
    #[serde(flatten)]
    pub rates: Rates,
    /// The costs, and the records at the end that the trace has set.
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

    /// Formats lines like YCSB's, after a line that describes the replay.
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
