//! A partition of the BloomStore engine.

use super::prefilter::Prefilter;

/// A run of a partition.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub keys: f64,
    pub rows: u32,
    pub functions: u32,
    /// Its columns per range.
    pub columns: f64,
    pub in_chain: bool,
}

impl Run {
    pub fn is_old(&self) -> bool {
        self.columns > 1.0
    }
}

/// A partition, from its oldest run on.
#[derive(Debug, Clone, Default)]
pub(super) struct Partition {
    pub runs: Vec<Run>,
    /// The keys of the runs.
    pub keys: f64,
    pub ranges: f64,
    /// The prefixes of its prefilter, 0 before the first.
    pub prefixes: f64,
    /// The share of its slots that the LogStore after a merge has keys for when it is frozen.
    pub first_share: f64,
    /// The slots of its LogStore, and the keys that it can have.
    pub slots: f64,
    pub room: f64,
    /// Its tables, which are allocated one after the other.
    pub tables: f64,
    /// The keys of its LogStore when it is frozen.
    pub log_keys: f64,
    /// The keys in it now.
    pub logged: f64,
}

impl Partition {
    /// Returns the runs of LogStores.
    pub fn young(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(|run| !run.is_old())
    }

    /// Returns the prefilter of its chain, if it has one.
    pub fn prefilter(&self) -> Option<Prefilter> {
        let chained: f64 = self.runs.iter().filter(|run| run.in_chain).map(|run| run.keys).sum();
        (self.prefixes > 0.0).then(|| Prefilter::new(chained.min(self.keys), self.prefixes))
    }
}
