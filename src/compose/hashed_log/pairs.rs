//! The hashes of which several entries were not compared yet: pairs of one key, put again, or of keys with equal
//! hashes.

use crate::store::data_logs::Unit;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::collections::VecDeque;

/// The maximum number of hashes that are queued, and the bytes of a segment per hash: a database of small segments
/// queues fewer.
const QUEUE_MAX: usize = 65_536;
const SEGMENT_BYTES_PER_HASH: u64 = 64;

/// The memory of a queued pair, in bytes.
pub const PAIR_BYTES: usize = size_of::<Pair>();

/// Returns the maximum number of hashes that a database with segments of this size queues.
pub fn queue_max(segment_bytes: u64) -> usize {
    QUEUE_MAX.min((segment_bytes / SEGMENT_BYTES_PER_HASH) as usize)
}

/// A hash whose entries are to be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pair {
    pub hash: u64,
    /// The unit of the youngest entry when the pair was queued; `Unit::MAX` if it is not known.
    pub youngest: Unit,
    /// Where the segment of that entry begins in the user log: another record may have its unit later.
    pub base: u64,
    /// The secret hash of the key of that entry.
    pub key_hash: u64,
}

impl Pair {
    /// Makes a pair of which nothing is known.
    pub fn of(hash: u64) -> Pair {
        Pair { hash, youngest: Unit::MAX, base: 0, key_hash: 0 }
    }
}

/// The queue of hashes whose entries are to be compared. It is bounded: pairs that find it full are only counted, and
/// found again by a *sweep* of the index.
pub(super) struct Pairs {
    queue_max: usize,
    queue: Mutex<VecDeque<Pair>>,
    queued: AtomicU64,
    /// The number of pairs that found the queue full, and that no sweep has resolved since.
    left_out: AtomicU64,
}

impl Pairs {
    /// Makes an empty queue.
    pub fn new(segment_bytes: u64) -> Pairs {
        Pairs {
            queue_max: queue_max(segment_bytes),
            queue: Mutex::default(),
            queued: AtomicU64::new(0),
            left_out: AtomicU64::new(0),
        }
    }

    /// Returns the maximum number of hashes that are queued.
    pub fn queue_max(&self) -> usize {
        self.queue_max
    }

    /// Adds a hash. Returns whether the queue had space.
    pub fn push(&self, hash: u64) -> bool {
        self.push_pair(Pair::of(hash))
    }

    /// Adds a pair. Returns whether the queue had space.
    pub fn push_pair(&self, pair: Pair) -> bool {
        let mut queue = self.queue.lock();
        if queue.len() >= self.queue_max {
            self.left_out.fetch_add(1, Relaxed);
            return false;
        }
        queue.push_back(pair);
        self.queued.store(queue.len() as u64, Relaxed);
        true
    }

    /// Removes and returns the first pairs, at most `count`.
    pub fn take(&self, count: usize) -> Vec<Pair> {
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

    /// Counts pairs that only a sweep will find.
    pub fn leave_out(&self, count: u64) {
        self.left_out.fetch_add(count, Relaxed);
    }

    /// Notes that a sweep has resolved this many pairs that were left out.
    pub fn resolve(&self, count: u64) {
        let _ = self.left_out.fetch_update(Relaxed, Relaxed, |left_out| Some(left_out.saturating_sub(count)));
    }

    /// Returns the heap memory, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.queue.lock().capacity() * size_of::<Pair>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_come_in_their_order_and_those_beyond_the_limit_are_counted() {
        let pairs = Pairs::new(u64::MAX);
        assert!((0..QUEUE_MAX as u64).all(|hash| pairs.push(hash)));
        assert!(!pairs.push(1) && !pairs.push(2));
        assert_eq!((pairs.queued(), pairs.left_out()), (QUEUE_MAX as u64, 2));
        assert_eq!(pairs.take(3), [0, 1, 2].map(Pair::of));
        assert!(pairs.push(9));
        assert_eq!(pairs.take(usize::MAX).len(), QUEUE_MAX - 2);
        pairs.leave_out(3);
        pairs.resolve(4);
        assert_eq!((pairs.queued(), pairs.left_out()), (0, 1));
        pairs.resolve(2);
        assert_eq!(pairs.left_out(), 0);
        assert!(pairs.take(1).is_empty() && pairs.heap_bytes() >= QUEUE_MAX * 24);
    }
}
