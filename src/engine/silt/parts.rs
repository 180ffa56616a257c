//! The parts of an engine.

use super::commits::Commits;
use super::configuration::Configuration;
use super::memory_budget::MemoryBudget;
use super::partitions::Partitions;
use crate::cache::RecordCache;
use crate::store::log::Log;
use std::sync::Arc;

/// What reads, writes and background work of an engine use.
pub(super) struct Parts {
    pub configuration: Arc<Configuration>,
    pub log: Arc<Log>,
    pub partitions: Arc<Partitions>,
    /// Enabled from the first memory budget on.
    pub cache: Arc<RecordCache>,
    pub memory: MemoryBudget,
    pub commits: Commits,
}
