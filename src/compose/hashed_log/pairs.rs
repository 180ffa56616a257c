//! The hashes of which several entries were not compared yet: pairs of one key, put again, or of keys with equal
//! hashes.

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::collections::VecDeque;

/// The maximum number of hashes that are queued.
pub const QUEUE_MAX: usize = 65_536;

/// The queue of hashes whose entries are to be compared. It is bounded: pairs that find it full are only counted, and
/// found again by a search of the index, a *sweep*.
#[derive(Default)]
pub(super) struct Pairs {
    queue: Mutex<VecDeque<u64>>,
    queued: AtomicU64,
    /// The number of pairs that found the queue full, since the last sweep began.
    left_out: AtomicU64,
}

impl Pairs {
    /// Adds a hash. Returns whether the queue had space.
    pub fn push(&self, hash: u64) -> bool {
        let mut queue = self.queue.lock();
        if queue.len() >= QUEUE_MAX {
            self.left_out.fetch_add(1, Relaxed);
            return false;
        }
        queue.push_back(hash);
        self.queued.store(queue.len() as u64, Relaxed);
        true
    }

    /// Removes and returns the first hashes, at most `count`.
    pub fn take(&self, count: usize) -> Vec<u64> {
        let mut queue = self.queue.lock();
        let count = count.min(queue.len());
        let taken = queue.drain(..count).collect();
        self.queued.store(queue.len() as u64, Relaxed);
        taken
    }

    /// Returns the number of queued hashes.
    pub fn queued(&self) -> u64 {
        self.queued.load(Relaxed)
    }

    /// Returns the number of pairs that only a sweep will find.
    pub fn left_out(&self) -> u64 {
        self.left_out.load(Relaxed)
    }

    /// Notes that a sweep begins, which finds all pairs that were left out so far. Returns how many these are.
    pub fn begin_sweep(&self) -> u64 {
        self.left_out.swap(0, Relaxed)
    }

    /// Returns the heap memory, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.queue.lock().capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_come_in_their_order_and_those_beyond_the_limit_are_counted() {
        let pairs = Pairs::default();
        assert!((0..QUEUE_MAX as u64).all(|hash| pairs.push(hash)));
        assert!(!pairs.push(1) && !pairs.push(2));
        assert_eq!((pairs.queued(), pairs.left_out()), (QUEUE_MAX as u64, 2));
        assert_eq!(pairs.take(3), [0, 1, 2]);
        assert!(pairs.push(9));
        assert_eq!(pairs.take(usize::MAX).len(), QUEUE_MAX - 2);
        assert_eq!((pairs.queued(), pairs.begin_sweep(), pairs.left_out()), (0, 2, 0));
        assert!(pairs.take(1).is_empty() && pairs.heap_bytes() >= QUEUE_MAX * 8);
    }
}
