//! The slot of a background job: at most one job of a kind exists, and only one thread at a time runs its steps.

use crate::error::Result;
use crate::health::{FailStop, Health};
use std::sync::Arc;

/// The job in progress, if there is one.
pub(crate) struct JobSlot<J>(FailStop<Option<J>>);

impl<J> JobSlot<J> {
    pub fn new(health: &Arc<Health>) -> JobSlot<J> {
        JobSlot(FailStop::new(health, None))
    }

    /// Runs `step` with the job in progress, or with the one that `start` returns. `step` returns the job if it has
    /// more steps. Returns whether there was a job; `false` also if another thread runs a step of it.
    pub fn step(
        &self,
        start: impl FnOnce() -> Result<Option<J>>,
        step: impl FnOnce(J) -> Result<Option<J>>,
    ) -> Result<bool> {
        let worked = self.0.try_run(|slot| {
            // A job whose step fails is not put back: it has passed what it could not read or write, and must never be
            // continued.
            let job = match slot.take() {
                Some(job) => Some(job),
                None => start()?,
            };
            let Some(job) = job else { return Ok(false) };
            *slot = step(job)?;
            Ok(true)
        })?;
        Ok(worked.unwrap_or(false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_continued_until_it_ends_and_never_after_a_failure() {
        let health = Arc::new(Health::default());
        let slot = JobSlot::new(&health);
        let mut seen = Vec::new();
        for _ in 0..4 {
            let step = |left: u32| {
                seen.push(left);
                Ok(left.checked_sub(1))
            };
            assert!(slot.step(|| Ok(Some(1)), step).unwrap());
        }
        assert_eq!(seen, [1, 0, 1, 0]);
        assert!(!slot.step(|| Ok(None), |_| Ok(None)).unwrap());
        let failure = crate::error::Error::Setting { name: "a test", problem: String::new() };
        assert!(slot.step(|| Ok(Some(1)), |_| Err(failure)).is_err());
        assert!(
            slot.step(|| Ok(Some(1)), |left| Ok(Some(left))).is_err(),
            "the health refuses all later steps"
        );
    }
}
