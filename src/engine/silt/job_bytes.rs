//! The memory of the jobs of one kind, as the memory account and the budget have it.

use siltstone_device::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The memory of the jobs of one kind that are in progress.
pub(super) struct JobBytes {
    /// Of each slot, in bytes.
    slots: Box<[AtomicU64]>,
    /// How many jobs have begun and not ended.
    begun: AtomicU64,
    /// The most that one job has taken since the budget was set, in bytes.
    peak: AtomicU64,
}

impl JobBytes {
    pub fn new(slots: usize) -> JobBytes {
        let slots = (0..slots).map(|_| AtomicU64::new(0)).collect();
        JobBytes { slots, begun: AtomicU64::new(0), peak: AtomicU64::new(0) }
    }

    /// Counts a job that begins. From now on the budget leaves place for its memory.
    pub fn begin(&self) {
        self.begun.fetch_add(1, Relaxed);
    }

    /// Sets the memory of the job in a slot, in bytes.
    pub fn set(&self, slot: usize, bytes: usize) {
        self.slots[slot].store(bytes as u64, Relaxed);
    }

    /// Counts a job that has ended.
    pub fn end(&self, slot: usize) {
        self.slots[slot].store(0, Relaxed);
        self.begun.fetch_sub(1, Relaxed);
    }

    /// Returns the memory of all jobs, in bytes.
    pub fn sum(&self) -> u64 {
        self.slots.iter().map(|bytes| bytes.load(Relaxed)).sum()
    }

    /// Returns how many jobs are in progress besides the first one.
    pub fn further(&self) -> u64 {
        self.begun.load(Relaxed).saturating_sub(1)
    }

    /// Returns what one job may take, in bytes: this estimate, or as much as the largest one so far.
    pub fn of_one(&self, estimate: u64) -> u64 {
        let most = self.slots.iter().map(|bytes| bytes.load(Relaxed)).max().unwrap_or(0);
        self.peak.fetch_max(most, Relaxed).max(most).max(estimate)
    }

    /// Forgets the largest job.
    pub fn reset_peak(&self) {
        self.peak.store(0, Relaxed);
    }
}
