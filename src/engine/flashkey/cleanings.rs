//! The segments that are being cleaned: one, or two if cleaning is far behind. While one job waits for the drive, the
//! other one computes.

use super::clean::Cleaning;
use crate::engine::jobs::JobSlot;
use crate::error::Result;
use crate::health::Health;
use siltstone_device::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;

/// The number of segments that are cleaned at once.
pub(super) const CLEANINGS_MAX: usize = 2;
/// The pressure from which on more than one segment is cleaned.
const SECOND_PRESSURE: f64 = 0.6;

pub(super) struct Cleanings {
    slots: [JobSlot<Cleaning>; CLEANINGS_MAX],
    /// The number of jobs that have begun and not ended.
    begun: AtomicUsize,
    /// The number of segments that were cleaned.
    pub ended: AtomicU64,
}

impl Cleanings {
    pub fn new(health: &Arc<Health>) -> Cleanings {
        let slots = [(); CLEANINGS_MAX].map(|()| JobSlot::new("cleaning", health));
        Cleanings { slots, begun: AtomicUsize::new(0), ended: AtomicU64::new(0) }
    }

    /// Returns whether a segment is being cleaned.
    pub fn is_any_begun(&self) -> bool {
        self.begun.load(Relaxed) > 0
    }

    /// Returns whether as many threads as possible work at this pressure: another one would find nothing to do.
    pub fn are_running(&self, pressure: f64) -> bool {
        let running = self.slots.iter().filter(|slot| slot.is_running()).count();
        let wanted = if pressure >= SECOND_PRESSURE { CLEANINGS_MAX } else { 1 };
        running >= wanted.max(self.begun.load(Relaxed))
    }

    /// Executes a step of a job that has begun, or of one that `start` returns: of a second one only if another thread
    /// works on the first one and the pressure is high. `step` gets the job with its number, and returns it if it has
    /// more steps. Returns whether there was a job.
    pub fn step(
        &self,
        pressure: f64,
        start: impl Fn() -> Option<Cleaning>,
        step: impl Fn(Cleaning, usize) -> Result<Option<Cleaning>>,
    ) -> Result<bool> {
        // The second slot first: a job that has begun there ends, also when the pressure is low again.
        for (number, slot) in self.slots.iter().enumerate().rev() {
            let begins = number == 0 || self.slots[0].is_running() && pressure >= SECOND_PRESSURE;
            let start = || {
                let job = if begins { start() } else { None };
                self.begun.fetch_add(usize::from(job.is_some()), Relaxed);
                Ok(job)
            };
            let worked = slot.step(start, |job| {
                let next = step(job, number)?;
                self.begun.fetch_sub(usize::from(next.is_none()), Relaxed);
                self.ended.fetch_add(u64::from(next.is_none()), Relaxed);
                Ok(next)
            })?;
            if worked {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
