//! The merge of runs of keys, in bounded steps.
//!
//! 1. `choose` takes the newest runs, up to a size class that has four. They are adjacent in age, so the order of the
//!    operations of a key remains.
//! 2. Each step reads some keys of all these runs in ascending order, each with its state in the newest run, and writes
//!    them to a new run. Ranges use the old runs.
//! 3. A deleted key is dropped if no older run can have it, and an expired one if there is no older run: what they hide
//!    must not come back.
//! 4. The new run is synced. The caller commits it in place of the old runs. Before that a crash leaves these, after it
//!    the new one.
//! 5. Ranges use the new run, and the old files are removed.

use super::cursor::{Cursor, Origin, Reading};
use super::run::{Run, RunWriter};
use super::{Direction, KeyRun, KeyState};
use crate::error::Result;
use siltstone_device::{Directory, Purpose};
use std::ops::{Bound, Range};
use std::sync::Arc;

/// This many runs of about the same number of keys are merged.
const RUNS_PER_MERGE: usize = 4;
/// The keys that a step merges: in tests few, so that changes come in between.
const STEP_KEYS: usize = if cfg!(test) { 50 } else { 20_000 };

/// Returns the size class of a run: runs of a class have numbers of keys that differ by less than a factor of 4.
fn class_of(keys: u64) -> u32 {
    keys.max(1).ilog2() / 2
}

/// Counts runs with these numbers of keys, the oldest first, from the newest one up to one of a higher class: all of
/// them, and those of the class itself.
fn newest_of(class: u32, keys: &[u64]) -> (usize, usize) {
    let young = keys.iter().rev().map(|&keys| class_of(keys)).take_while(|&other| other <= class);
    young.fold((0, 0), |(all, of_class), other| (all + 1, of_class + usize::from(other == class)))
}

/// Returns which of the runs with these numbers of keys, the oldest first, to merge next: the newest ones up to a
/// class that has four. What is merged is adjacent in age, so the order of operations remains.
pub(super) fn choose(keys: &[u64]) -> Option<Range<usize>> {
    // The lowest class first, because its merge costs least.
    (0..=u64::BITS / 2).find_map(|class| {
        let (all, of_class) = newest_of(class, keys);
        (of_class >= RUNS_PER_MERGE).then(|| keys.len() - all..keys.len())
    })
}

/// Returns how many runs with these numbers of keys wait for a merge, besides those that a merge of their class has.
/// If any waits, there is a merge to begin with.
pub(super) fn waiting(keys: &[u64]) -> usize {
    (0..=u64::BITS / 2).map(|class| newest_of(class, keys).1.saturating_sub(RUNS_PER_MERGE)).sum()
}

/// Runs that are being merged. If it is dropped, an incomplete file is left.
pub struct KeyMerge {
    cursor: Cursor,
    directory: Directory,
    added: KeyRun,
    /// The oldest and the newest of the runs that are merged.
    replaced: (u64, u64),
    /// The runs that are older: deleted keys that none of them has are not needed any more.
    older: Vec<Arc<Run>>,
    writer: Option<RunWriter>,
    piece_bytes: usize,
}

impl KeyMerge {
    pub(super) fn begin(
        directory: &Directory,
        runs: &[Arc<Run>],
        older: &[Arc<Run>],
        added: KeyRun,
        piece_bytes: usize,
    ) -> KeyMerge {
        let pages = (piece_bytes / 4096).max(1);
        let reading = Reading {
            direction: Direction::Ascending,
            epoch: u64::MAX,
            purpose: Purpose::Merge,
            pages_max: pages,
            pages_min: pages,
        };
        // The newest first: the cursor returns the state in the first origin that knows the key.
        let origins = runs.iter().rev().map(|run| Origin::Run(run.clone()));
        let number = |run: Option<&Arc<Run>>| run.map_or(0, |run| run.run.number);
        KeyMerge {
            cursor: Cursor::new(origins, (Bound::Unbounded, Bound::Unbounded), reading),
            directory: directory.clone(),
            added,
            replaced: (number(runs.first()), number(runs.last())),
            older: older.to_vec(),
            writer: None,
            piece_bytes,
        }
    }

    /// Merges some keys. `is_gone` returns true only for keys that have no record any more. Returns `None` as long as
    /// keys are left. After an error the merge is to be dropped.
    pub fn step(&mut self, is_gone: &dyn Fn(&[u8]) -> bool) -> Result<Option<MergedRuns>> {
        // Counts keys that are read, so a step is also bounded if it drops all of them.
        for _ in 0..STEP_KEYS {
            let Some((key, state)) = self.cursor.next()? else {
                // Synced by `finish`, before the commit names it. `None` if no key is left: the commit then only
                // removes runs.
                let run = self.writer.take().map(|writer| writer.finish(Purpose::Merge)).transpose()?;
                return Ok(Some(MergedRuns { replaced: self.replaced, run: run.map(Arc::new) }));
            };
            // Compares with the ends of the older runs only. A delete that is kept in vain costs only its space.
            let is_older = |key: &[u8]| self.older.iter().any(|run| run.may_have(key));
            let is_dropped = match state {
                KeyState::Live => false,
                // An older run may have the key without an expiry time: without this entry that one would apply.
                KeyState::Expiring => self.older.is_empty() && is_gone(key),
                KeyState::Deleted | KeyState::Unknown => !is_older(key),
            };
            if !is_dropped {
                let (directory, piece_bytes) = (&self.directory, self.piece_bytes);
                let create = || RunWriter::create(directory, self.added, Purpose::Merge, piece_bytes);
                begun(&mut self.writer, create)?.push(key, state)?;
            }
        }
        Ok(None)
    }

    /// Returns the memory, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.cursor.heap_bytes() + self.writer.as_ref().map_or(0, RunWriter::heap_bytes)
    }
}

/// Returns the writer, which is begun with the first key: a run without keys has no file.
pub(super) fn begun(
    writer: &mut Option<RunWriter>,
    create: impl FnOnce() -> Result<RunWriter>,
) -> Result<&mut RunWriter> {
    match writer {
        Some(writer) => Ok(writer),
        none => Ok(none.insert(create()?)),
    }
}

/// The result of a merge, which takes effect after a commit.
pub struct MergedRuns {
    /// The numbers of the oldest and the newest of the runs that were merged.
    pub replaced: (u64, u64),
    pub(super) run: Option<Arc<Run>>,
}

impl MergedRuns {
    /// Returns the new run; `None` if no key is left.
    pub fn added(&self) -> Option<KeyRun> {
        self.run.as_ref().map(|run| run.run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_runs_of_a_size_are_merged_with_the_newer_ones() {
        assert_eq!(choose(&[]), None);
        assert_eq!(choose(&[100, 100, 100]), None);
        assert_eq!(choose(&[1000, 100, 100, 100, 100]), Some(1..5));
        assert_eq!(choose(&[9000, 1000, 1000, 1000, 1000, 100, 1]), Some(1..7));
        assert_eq!(choose(&[100, 100, 1000, 100, 100]), None, "older ones do not count across a larger one");
    }

    #[test]
    fn runs_wait_if_there_are_more_than_a_merge_takes() {
        assert_eq!(waiting(&[1000, 1000, 1000, 1000, 100, 100, 100, 100]), 0);
        assert_eq!(waiting(&[1000, 100, 100, 100, 100, 100, 100, 1]), 2);
    }

    /// Otherwise writes would wait for nothing.
    #[test]
    fn runs_wait_only_if_there_is_a_merge() {
        let between_larger: Vec<u64> = [1, 1, 1, 4, 1, 1, 1, 4, 1, 1, 1, 4, 1, 1, 1, 16].repeat(3);
        assert_eq!((waiting(&between_larger), choose(&between_larger)), (0, None));
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..10_000 {
            let keys: Vec<u64> = (0..random.usize(..60)).map(|_| 1 << random.u32(..8)).collect();
            assert!(waiting(&keys) == 0 || choose(&keys).is_some(), "{keys:?}");
        }
    }

    #[test]
    fn the_number_of_runs_grows_with_the_logarithm_of_their_keys() {
        let (mut runs, mut written, flushes) = (Vec::new(), 0, 1000);
        for _ in 0..flushes {
            runs.extend([100]);
            while let Some(range) = choose(&runs) {
                let keys: u64 = runs[range.clone()].iter().sum();
                written += keys;
                runs.splice(range, [keys]);
            }
        }
        assert_eq!(runs.iter().sum::<u64>(), 100 * flushes);
        assert!(runs.len() <= 3 * 5, "{runs:?}");
        assert!(written <= 5 * 100 * flushes, "{written}");
    }
}
