//! What a conversion or a merge works on.

use super::commits::Commits;
use super::configuration::Configuration;
use super::memory_budget::MemoryBudget;
use super::partition::Partitions;
use crate::store::log::Log;
use std::sync::Arc;

pub(super) struct JobContext {
    pub configuration: Arc<Configuration>,
    pub log: Arc<Log>,
    pub partitions: Arc<Partitions>,
    pub commits: Arc<Commits>,
    pub memory: Arc<MemoryBudget>,
}
