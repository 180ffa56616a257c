//! The settings of a log with an index.

use super::policy::Victim;

/// The settings of a database whose data is in logs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LogSettings {
    /// The bytes of finished segments per byte of live records.
    pub space: f64,
    /// The most bytes of the logs.
    pub capacity: u64,
    /// The bits of a hash that the index keeps.
    pub hash_bits: u32,
    /// Which segment is cleaned next.
    pub victim: Victim,
    /// The number of logs for moved records; 0 for that of the puts.
    pub classes: u8,
    /// The size of a segment, in bytes.
    pub segment_bytes: u64,
    /// The share of the index that is in memory.
    pub index_in_memory: f64,
    /// The share of keys that may have an unconfirmed overwrite.
    pub unconfirmed_max: f64,
    /// Whether the keys are kept in order as well.
    pub ordered: bool,
    /// How records leave when the logs are full; `None` if none does.
    pub recycling: Option<Recycling>,
    /// A store below the logs has older versions of records, which tombstones hide.
    pub has_below: bool,
    /// A mistake that the engine makes.
    #[cfg(feature = "mistakes")]
    pub mistake: Option<Mistake>,
}

/// How records leave when the logs are full.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Recycling {
    /// Records leave when the logs have more bytes than this.
    pub begin_bytes: u64,
    /// A put waits when they have as many.
    pub most_bytes: u64,
    /// The number of queues: with 2, records that were read stay in logs of their own.
    pub queues: u8,
}

/// Mistakes that the engine can be set to make, to show that tests find them.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// A segment is released before the redo of what was moved out of it is durable.
    ReleasesBeforeRedo,
    /// Redo covers records of the logs that are not durable yet.
    WritesRedoBeforeTheLogs,
    /// Cleaning drops tombstones although older values of their keys have entries.
    DropsDeletes,
    /// Of two records of a key, confirming keeps the older one.
    KeepsTheOlder,
    /// Cleaning begins while records of the segment are not indexed yet.
    CleansBeforeIndexing,
    /// Writes are accepted after one has failed.
    GoesOnAfterAFailure,
    /// Records leave to the store below without a sync there.
    DestagesWithoutSync,
    /// The entries of records that leave are removed, and their segment is released, before they are in the store
    /// below.
    RemovesBeforeDestage,
    /// A record that was found below is promoted later, although a newer one may exist then.
    PromotesOverNewer,
    /// A put that a cache rejects leaves the older record of its key.
    KeepsRejected,
}

impl LogSettings {
    /// Returns whether records are lost when they leave.
    pub fn is_cache(&self) -> bool {
        self.recycling.is_some() && !self.has_below
    }

    /// Returns whether the engine makes this mistake: never without the feature `mistakes`.
    #[cfg(feature = "mistakes")]
    pub(super) fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    #[cfg(not(feature = "mistakes"))]
    pub(super) fn makes(&self, _: Mistake) -> bool {
        false
    }
}
