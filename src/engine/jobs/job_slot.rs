//! The slot of a background job: it has at most one job, and only one thread at a time runs its steps. Kinds with one
//! job at a time have one slot, others several (`job_slots`).

use crate::error::Result;
use crate::health::{FailStop, Health};
use siltstone_device::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;

/// The job in progress, if there is one.
pub(in crate::engine) struct JobSlot<J> {
    /// The kind of the job, in events.
    kind: &'static str,
    job: FailStop<Option<J>>,
    /// Whether there is a job, or one begins just now.
    is_begun: AtomicBool,
    /// Whether a thread runs a step of it.
    is_running: AtomicBool,
}

impl<J> JobSlot<J> {
    pub fn new(kind: &'static str, health: &Arc<Health>) -> JobSlot<J> {
        let job = FailStop::new(health, None);
        JobSlot { kind, job, is_begun: AtomicBool::new(false), is_running: AtomicBool::new(false) }
    }

    /// Emits an event: the job begins or ends.
    fn tell(&self, what: &'static str) {
        event!(debug, job = self.kind, "background work {what}");
        #[cfg(not(feature = "tracing"))]
        let _ = (self.kind, what);
    }

    /// Returns whether a job has begun and not ended.
    pub fn is_begun(&self) -> bool {
        self.is_begun.load(Relaxed)
    }

    /// Marks that a job begins: for a `start` that takes it from what is pending, before it does, so that other threads
    /// see the work at every moment.
    pub fn begin(&self) {
        self.is_begun.store(true, Relaxed);
    }

    /// Returns whether a thread runs a step now. Another thread would find nothing to do here.
    pub fn is_running(&self) -> bool {
        self.is_running.load(Relaxed)
    }

    /// Runs `step` with the job in progress, or with the one that `start` returns. `step` returns the job if it has
    /// more steps. Returns whether there was a job; `false` also if another thread runs a step of it.
    pub fn step(
        &self,
        start: impl FnOnce() -> Result<Option<J>>,
        step: impl FnOnce(J) -> Result<Option<J>>,
    ) -> Result<bool> {
        let worked = self.job.try_run(|slot| {
            self.is_running.store(true, Relaxed);
            // Resets both flags on each way out, also after a panic. The lock is still held then.
            let mut ends = Ends { slot: self, has_job: false };
            // A job whose step fails is not put back: it has passed what it could not read or write, and must never be
            // continued.
            let job = match slot.take() {
                Some(job) => Some(job),
                None => start()?.inspect(|_| self.tell("begins")),
            };
            let Some(job) = job else { return Ok(false) };
            // Also for a job that `start` has not announced.
            self.begin();
            *slot = step(job)?;
            ends.has_job = slot.is_some();
            if slot.is_none() {
                self.tell("ends");
            }
            Ok(true)
        })?;
        Ok(worked.unwrap_or(false))
    }
}

/// Ends a step, also if it fails or panics.
struct Ends<'a, J> {
    slot: &'a JobSlot<J>,
    /// Whether the job has more steps.
    has_job: bool,
}

impl<J> Drop for Ends<'_, J> {
    fn drop(&mut self) {
        self.slot.is_begun.store(self.has_job, Relaxed);
        self.slot.is_running.store(false, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_continued_until_it_ends_and_never_after_a_failure() {
        let health = Arc::new(Health::default());
        let slot = JobSlot::new("test", &health);
        let mut seen = Vec::new();
        for _ in 0..4 {
            let step = |left: u32| {
                assert!(slot.is_running() && slot.is_begun());
                seen.push(left);
                Ok(left.checked_sub(1))
            };
            assert!(slot.step(|| Ok(Some(1)), step).unwrap());
        }
        assert_eq!(seen, [1, 0, 1, 0]);
        assert!(!slot.is_running() && !slot.is_begun());
        assert!(slot.step(|| Ok(Some(1)), |left| Ok(Some(left))).unwrap());
        assert!(!slot.is_running() && slot.is_begun());
        assert!(slot.step(|| Ok(None), |_| Ok(None)).unwrap());
        assert!(!slot.step(|| Ok(None), |_| Ok(None)).unwrap());
        let failure = crate::error::Error::Setting { name: "a test", problem: String::new() };
        assert!(slot.step(|| Ok(Some(1)), |_| Err(failure)).is_err());
        assert!(
            slot.step(|| Ok(Some(1)), |left| Ok(Some(left))).is_err(),
            "the health refuses all later steps"
        );
        assert!(!slot.is_running());
    }
}
