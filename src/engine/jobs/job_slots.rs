//! The slots of the jobs of one kind: several of them are in progress at once if work is far behind. While one waits
//! for the drive, the others compute.

use super::JobSlot;
use crate::error::Result;
use crate::health::Health;
use std::sync::Arc;

/// The pressure from which on a further job of a kind begins, unless its engine states another one.
pub(in crate::engine) const FURTHER_PRESSURE: f64 = 0.6;
/// The most jobs of a kind at once. More are not faster, and each takes memory and space.
const JOBS_MAX: usize = 8;

/// Returns how many jobs of a kind this many threads have in progress at once, at most: one thread is left for the
/// other kinds.
pub(in crate::engine) fn jobs_at_once(threads: usize) -> usize {
    threads.saturating_sub(1).clamp(1, JOBS_MAX)
}

/// The jobs of one kind that are in progress.
pub(in crate::engine) struct JobSlots<J> {
    slots: Box<[JobSlot<J>]>,
}

impl<J> JobSlots<J> {
    /// Makes slots for this many jobs at once, at least one. `kind` is their name in events.
    pub fn new(kind: &'static str, health: &Arc<Health>, slots: usize) -> JobSlots<J> {
        JobSlots { slots: (0..slots.max(1)).map(|_| JobSlot::new(kind, health)).collect() }
    }

    /// Returns how many jobs have begun and not ended.
    pub fn begun(&self) -> usize {
        self.slots.iter().filter(|slot| slot.is_begun()).count()
    }

    /// Returns whether as many threads as possible run a step now: another one would find nothing to do. `is_urgent` as
    /// for [`step`](Self::step).
    pub fn are_running(&self, is_urgent: bool) -> bool {
        // It may be old: then a thread comes in vain, or a little later.
        let running = self.slots.iter().filter(|slot| slot.is_running()).count();
        let wanted = if is_urgent { self.slots.len() } else { 1 };
        running >= wanted.max(self.begun())
    }

    /// Runs a step of a job that has begun, or of one that `start` returns. A further job begins only if `is_urgent`
    /// and other threads run steps of all jobs that have begun. Both closures get the number of the slot; `step`
    /// returns the job if it has more steps. Returns whether there was a job.
    pub fn step(
        &self,
        is_urgent: bool,
        mut start: impl FnMut(usize) -> Result<Option<J>>,
        mut step: impl FnMut(J, usize) -> Result<Option<J>>,
    ) -> Result<bool> {
        // The last slot first: a job that has begun there ends, also when it is not urgent any more.
        for (number, slot) in self.slots.iter().enumerate().rev() {
            let start = || if self.may_begin(number, is_urgent) { start(number) } else { Ok(None) };
            if slot.step(start, |job| step(job, number))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns whether a job may begin in this slot, which is empty.
    fn may_begin(&self, number: usize, is_urgent: bool) -> bool {
        // A job in an earlier slot that no thread is at is continued first, and a job begins in the first empty slot.
        let (earlier, later) = (&self.slots[..number], &self.slots[number + 1..]);
        let is_first = earlier.is_empty() && !later.iter().any(JobSlot::is_begun);
        let are_running = earlier.iter().all(JobSlot::is_running)
            && later.iter().all(|slot| slot.is_running() || !slot.is_begun());
        is_first || is_urgent && are_running
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOW: bool = false;
    const URGENT: bool = true;

    /// Jobs are their numbers of steps. While a step runs, `during` is called, as if by another thread.
    fn step(slots: &JobSlots<u32>, is_urgent: bool, steps: u32, during: &mut dyn FnMut(usize)) -> bool {
        let step = |left: u32, number: usize| {
            during(number);
            Ok(left.checked_sub(1).filter(|left| *left > 0))
        };
        slots.step(is_urgent, |_| Ok(Some(steps)), step).unwrap()
    }

    fn slots(count: usize) -> JobSlots<u32> {
        JobSlots::new("test", &Arc::new(Health::default()), count)
    }

    /// Returns the numbers of the slots in which jobs run at once, if each of `threads` threads comes while the others
    /// are at work.
    fn running(slots: &JobSlots<u32>, is_urgent: bool, threads: u32) -> Vec<usize> {
        let mut numbers = Vec::new();
        if threads > 0 {
            step(slots, is_urgent, 9, &mut |number| {
                numbers.push(number);
                numbers.extend(running(slots, is_urgent, threads - 1));
            });
        }
        numbers
    }

    #[test]
    fn a_further_job_begins_only_if_it_is_urgent_and_all_others_are_worked_on() {
        assert_eq!(running(&slots(3), LOW, 3), [0]);
        assert_eq!(running(&slots(3), URGENT, 2), [0, 1]);
        assert_eq!(running(&slots(3), URGENT, 9), [0, 1, 2]);
        assert_eq!(running(&slots(1), URGENT, 9), [0]);
        let slots = slots(3);
        for _ in 0..3 {
            step(&slots, URGENT, 9, &mut |number| assert_eq!(number, 0));
        }
        assert_eq!(slots.begun(), 1);
    }

    #[test]
    fn a_job_in_a_later_slot_ends_and_none_begins_besides_it_unless_it_is_urgent() {
        let slots = slots(2);
        step(&slots, URGENT, 1, &mut |_| {
            step(&slots, URGENT, 3, &mut |number| assert_eq!(number, 1));
        });
        // The first slot is empty, and the second has a job with two more steps.
        assert_eq!(slots.begun(), 1);
        step(&slots, LOW, 9, &mut |number| {
            assert_eq!(number, 1);
            assert!(slots.are_running(LOW) && !slots.are_running(URGENT));
            assert!(!step(&slots, LOW, 9, &mut |_| panic!("a job began besides the other one")));
            assert!(step(&slots, URGENT, 1, &mut |number| assert_eq!(number, 0)));
        });
        step(&slots, LOW, 9, &mut |number| assert_eq!(number, 1));
        assert_eq!(slots.begun(), 0);
        step(&slots, LOW, 9, &mut |number| assert_eq!(number, 0));
    }
}
