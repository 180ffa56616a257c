//! What all files of a directory share: counters, removed files, and the queues of background work.

use super::counters::RecentGets;
use super::queue::PieceQueue;
use super::removal::Removals;
use super::{DirectoryBackend, IoCounters, Purpose};
use crate::sync::Mutex;
use std::sync::Arc;

/// The queues of background work.
pub(super) struct PieceQueues {
    convert: PieceQueue,
    merge: PieceQueue,
    collect: PieceQueue,
    index: PieceQueue,
    maintain: PieceQueue,
}

impl PieceQueues {
    fn of(backend: &dyn DirectoryBackend) -> PieceQueues {
        let queue = || PieceQueue::new(backend.executor());
        PieceQueues { convert: queue(), merge: queue(), collect: queue(), index: queue(), maintain: queue() }
    }

    /// Returns the queue of a purpose, if it is one of background work.
    pub fn of_purpose(&self, purpose: Purpose) -> Option<&PieceQueue> {
        match purpose {
            Purpose::Convert => Some(&self.convert),
            Purpose::Merge => Some(&self.merge),
            Purpose::Collect => Some(&self.collect),
            Purpose::Index => Some(&self.index),
            Purpose::Maintain => Some(&self.maintain),
            _ => None,
        }
    }
}

/// What all files of a directory share.
pub(super) struct Shared {
    pub(super) counters: IoCounters,
    pub(super) removals: Removals,
    pub(super) queues: PieceQueues,
    /// Checked for each unit of writeback.
    pub(super) gets: Mutex<RecentGets>,
}

impl Shared {
    pub fn new(backend: &dyn DirectoryBackend) -> Arc<Shared> {
        let (counters, removals, gets) = Default::default();
        Arc::new(Shared { counters, removals, queues: PieceQueues::of(backend), gets })
    }
}

/// How the files of a directory are used.
#[derive(Clone, Copy)]
pub(super) struct Usage {
    pub queue_depth: u16,
    pub skips_checksums_on_get: bool,
    pub maps_appends: bool,
    pub is_read_only: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryDirectory;

    #[test]
    fn each_purpose_of_background_work_has_a_queue_of_its_own_and_no_other_has_one() {
        let queues = PieceQueues::of(&MemoryDirectory::default());
        let background =
            [Purpose::Convert, Purpose::Merge, Purpose::Collect, Purpose::Index, Purpose::Maintain];
        for purpose in Purpose::ALL {
            let queue = queues.of_purpose(purpose);
            assert_eq!(queue.is_some(), background.contains(&purpose), "{}", purpose.name());
            let same = |other: &Purpose| match (queue, queues.of_purpose(*other)) {
                (Some(one), Some(other)) => std::ptr::eq(one, other),
                _ => false,
            };
            assert!(Purpose::ALL.iter().filter(|other| same(other)).all(|other| *other == purpose));
        }
    }
}
