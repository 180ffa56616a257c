//! A partition: its LogStore, its other stores and the lock of its writer.
//!
//! Lookups take no lock. They read the index and the view at one moment, and notice by a version that something was
//! changed meanwhile; only then they wait:
//!
//! ```text
//! writer   lock | version 7 | index changes, a new view is published | version 8 | unlock
//! lookup   version 6 -- index, view -- 7: wait for the lock, and read both again
//! ```

use super::policy::{PartitionCounts, Work};
use super::view::View;
use crate::key::KeyHash;
use crate::store::log_store::{LogCandidates, LogStore};
use siltstone_device::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use siltstone_device::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, fence};
use siltstone_device::sync::{Mutex, Published, Reading, RwLock};
use std::sync::Arc;

/// A share of the keys with its stores.
pub(super) struct Partition {
    /// Held while records are appended to the log and indexed, so that log and index have the same order. The work
    /// under it goes through [`Health::run`](crate::health::Health::run).
    writer: Mutex<()>,
    /// Locked only while the index or the list of stores changes. Lookups wait for it only if they meet a change.
    state: RwLock<PartitionState>,
    /// Odd while the state changes.
    version: AtomicU64,
    /// What lookups search: the view of the state, while the version is even.
    published: Published<View>,
    /// The ranges of the columns of new runs; 0 before the first.
    ranges: AtomicU32,
    /// Whether a merge is in progress: the reserve of free space has place for what it writes.
    is_merging: AtomicBool,
}

/// What a lookup searches.
pub(super) struct PartitionState {
    /// The LogStore that takes new records.
    pub active: LogStore,
    /// It is frozen when it has this many records, even if it is not full.
    pub freeze_at: u32,
    /// The most bytes of log between its first and its last record.
    pub log_reach_bytes: u64,
    /// All other stores.
    pub view: Arc<View>,
}

impl PartitionState {
    /// Returns whether the LogStore is frozen before it takes a record at this position, although it has a free slot.
    pub fn is_due(&self, position: u64) -> bool {
        let active = &self.active;
        // An empty LogStore is restarted at the position instead.
        !active.is_empty()
            && (active.len() >= self.freeze_at
                || position - active.start() > self.log_reach_bytes
                || !active.reaches(position))
    }
}

impl Partition {
    /// Makes a partition whose runs have columns of this number of ranges, 0 if it has none.
    pub fn new(active: LogStore, view: View, ranges: u32) -> Partition {
        let (freeze_at, log_reach_bytes) = (u32::MAX, u64::MAX);
        let view = Arc::new(View { active: active.tables().clone(), ..view });
        let is_merging = AtomicBool::new(false);
        Partition {
            writer: Mutex::new(()),
            version: AtomicU64::new(0),
            published: Published::new(view.clone()),
            state: RwLock::new(PartitionState { active, freeze_at, log_reach_bytes, view }),
            ranges: AtomicU32::new(ranges),
            is_merging,
        }
    }

    /// Returns the number of ranges of the columns of new runs; 0 before the first.
    pub fn ranges(&self) -> u32 {
        self.ranges.load(Relaxed)
    }

    /// Sets the number of ranges of the columns of runs from now on.
    pub fn set_ranges(&self, ranges: u32) {
        self.ranges.store(ranges, Relaxed);
    }

    /// Notes whether a merge is in progress.
    pub fn set_merging(&self, is_merging: bool) {
        self.is_merging.store(is_merging, Relaxed);
    }

    /// Returns the lock of the writer.
    pub fn writer(&self) -> &Mutex<()> {
        &self.writer
    }

    /// Returns where the LogStore may have a key. The caller holds the writer, without which the index does not change.
    #[inline]
    pub fn candidates(&self, hash: KeyHash) -> LogCandidates {
        self.published.read().active.candidates(hash)
    }

    /// Returns whether a merge is in progress.
    pub fn is_merging(&self) -> bool {
        self.is_merging.load(Relaxed)
    }

    /// Reads the state.
    pub fn read<T>(&self, read: impl FnOnce(&PartitionState) -> T) -> T {
        read(&self.state.read())
    }

    /// Returns the immutable stores.
    pub fn view(&self) -> Arc<View> {
        self.state.read().view.clone()
    }

    /// Changes the state, and publishes what lookups search.
    #[inline]
    pub fn change<T>(&self, change: impl FnOnce(&mut PartitionState) -> T) -> T {
        let mut state = self.state.write();
        // It is published, so no other view has its address until that changes.
        let view = Arc::as_ptr(&state.view);
        // If a change has panicked, the version is still odd.
        let version = self.version.load(Relaxed) | 1;
        self.version.store(version, Relaxed);
        // Before the change: a lookup that sees a part of it finds the odd version, or the next one.
        fence(Release);
        let outcome = change(&mut state);
        if !Arc::ptr_eq(&state.view.active, state.active.tables()) {
            state.view = Arc::new(View { active: state.active.tables().clone(), ..(*state.view).clone() });
        }
        if view != Arc::as_ptr(&state.view) {
            self.published.publish(state.view.clone());
        }
        self.version.store(version + 1, Release);
        outcome
    }

    /// Looks at the stores at one moment, which lasts until `look` returns.
    #[inline]
    pub fn look<T>(&self, look: impl Fn(Reading<View>) -> T) -> T {
        let version = self.version.load(Acquire);
        if version.is_multiple_of(2) {
            let seen = look(self.published.read());
            // After all that was read, so that an unchanged version means that nothing of it was changed.
            fence(Acquire);
            if self.version.load(Relaxed) == version {
                return seen;
            }
        }
        // It waits for the change that it has met.
        let state = self.state.read();
        look(state.view.clone().into())
    }

    /// Replaces the view by the result of `change`, unless that is `None`. Returns the old view.
    pub fn change_view(&self, change: impl FnOnce(&View) -> Option<View>) -> Arc<View> {
        self.change(|state| match change(&state.view) {
            Some(view) => std::mem::replace(&mut state.view, Arc::new(view)),
            None => state.view.clone(),
        })
    }

    /// Returns the counts that the policy decides by.
    pub fn counts(&self, compact: bool, work: Work) -> PartitionCounts {
        let view = self.view();
        PartitionCounts {
            frozen: view.frozen.len(),
            frozen_records: view.frozen_records(),
            oldest_frozen: view.frozen.last().map(|frozen| frozen.start()),
            hash_stores: view.hash_stores.len(),
            hash_records: view.hash_records(),
            sorted_records: view.sorted_records(),
            unchained: view.unchained(),
            chain_is_damaged: view.chain.as_ref().is_some_and(|(_, chain)| chain.is_damaged()),
            compact,
            work,
        }
    }
}
