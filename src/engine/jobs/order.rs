//! The order in which the jobs of an engine run, as data: each kind of job has a pressure, and a step is of the one
//! with the highest.
//!
//! ```text
//! counts  ->  [(job, is_pending, pressure)]   pure, without files   ->  step_furthest_behind
//! ```

use crate::error::Result;

/// A kind of job, and what there is of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::engine) struct Due<J> {
    pub job: J,
    /// There is work of this kind, or a step finds out whether there is.
    pub is_pending: bool,
    /// How far it is behind the writes: 0 for not at all; from 1 on, writers wait.
    pub pressure: f64,
}

/// Runs a step of the job that is furthest behind and has one. Jobs that are equally far behind are tried in their
/// order. `step` returns whether there was one: also a job that is not pending may have got work meanwhile.
pub(in crate::engine) fn step_furthest_behind<J: Copy, const N: usize>(
    mut due: [Due<J>; N],
    mut step: impl FnMut(J) -> Result<bool>,
) -> Result<bool> {
    // Stable, so jobs that are equally far behind stay in their order.
    due.sort_by(|one, other| other.pressure.total_cmp(&one.pressure));
    for Due { job, .. } in due {
        if step(job)? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_job_that_is_furthest_behind_is_tried_first_and_equal_ones_in_their_order() {
        let due = |job, pressure| Due { job, is_pending: true, pressure };
        let jobs = [due('a', 0.0), due('b', 0.5), due('c', 2.0), due('d', 0.5)];
        let mut tried = String::new();
        let mut step = |job| {
            tried.push(job);
            Ok(job == 'd')
        };
        assert!(step_furthest_behind(jobs, &mut step).unwrap());
        assert_eq!(tried, "cbd");
        assert!(!step_furthest_behind(jobs, |_| Ok(false)).unwrap());
    }
}
