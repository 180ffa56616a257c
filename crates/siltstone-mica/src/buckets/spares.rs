//! The spare buckets that are in no chain: those never used, and a stack of those that were released, linked through
//! their header words.

use super::atomic::{AtomicU32, AtomicU64, Ordering};

const NUMBER: u64 = u32::MAX as u64;

/// Free spare buckets, counted from 1.
pub(super) struct Spares {
    count: u32,
    /// The number of buckets that were ever taken.
    begun: AtomicU32,
    /// The top of the stack (32 bits; 0 if it is empty), below a counter of changes. A writer that was delayed fails to
    /// exchange the top if the stack has changed, even if the same bucket is on top again (the ABA problem).
    stack: AtomicU64,
    free: AtomicU32,
}

impl Spares {
    pub fn new(count: u32) -> Self {
        Spares { count, begun: AtomicU32::new(0), stack: AtomicU64::new(0), free: AtomicU32::new(count) }
    }

    pub fn free(&self) -> u32 {
        // Counted after a bucket is taken or released, so it is exact only while no writer does that.
        self.free.load(Ordering::Relaxed)
    }

    /// Takes a spare bucket, if there is one. `below` returns the bucket below one in the stack.
    pub fn take(&self, below: impl Fn(u32) -> u32) -> Option<u32> {
        let taken = self.pop(below).or_else(|| self.begin());
        if taken.is_some() {
            self.free.fetch_sub(1, Ordering::Relaxed);
        }
        taken
    }

    fn pop(&self, below: impl Fn(u32) -> u32) -> Option<u32> {
        let mut top = self.stack.load(Ordering::Acquire);
        loop {
            let spare = (top & NUMBER) as u32;
            if spare == 0 {
                return None;
            }
            // `below(spare)` may read the header of a bucket that another writer has taken meanwhile. The exchange
            // fails then, because the counter has changed.
            let rest = (top & !NUMBER).wrapping_add(NUMBER + 1) | u64::from(below(spare));
            match self.stack.compare_exchange_weak(top, rest, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(spare),
                Err(now) => top = now,
            }
        }
    }

    fn begin(&self) -> Option<u32> {
        let more = |begun| (begun < self.count).then_some(begun + 1);
        self.begun.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|begun| begun + 1)
    }

    /// Releases a spare bucket. `set_below` stores the bucket below it.
    pub fn give_back(&self, spare: u32, set_below: impl Fn(u32)) {
        let mut top = self.stack.load(Ordering::Relaxed);
        loop {
            // Before it is on the stack: a thread that takes it reads the bucket below.
            set_below((top & NUMBER) as u32);
            // One more in the counter above the number: a `pop` that has read the old top fails.
            let with = (top & !NUMBER).wrapping_add(NUMBER + 1) | u64::from(spare);
            match self.stack.compare_exchange_weak(top, with, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => top = now,
            }
        }
        self.free.fetch_add(1, Ordering::Relaxed);
    }
}
