//! The keys of a database in their order, without values: a log-structured merge tree of keys.
//!
//! ```text
//! put, delete -> table in memory -> (full) run -> four runs of a size -> one longer run
//! range       <- tables and runs, the newest first
//! ```
//!
//! **The rule.** The set has the last operation of each key: a put, a put with an expiry time, or a delete. Operations
//! are noted in the order in which they are applied to the key, and a newer table or run prevails over an older one.
//! So a key is in the database if and only if its last operation is a put, and it has not expired. What has an expiry
//! time has to be looked up to know whether it is there; all others need no look at their records.
//!
//! A put is noted whether its key is new or not: to know that would need a read. The table in memory keeps one entry
//! per key, and merges keep one per key, so a key that is overwritten again and again costs one entry per table.
//!
//! Operations have an *epoch*, the number of snapshots before them. The table keeps the state before a snapshot for
//! each key whose state changed after it, so a snapshot reads the same table as all others.
//!
//! The table is written to a run before it is full. The manifest says up to where in the log of puts all operations are
//! in runs; at an open, those after that are noted again. Deletes are dropped when the oldest run is merged, and so
//! are keys whose record expired and is gone.
//!
//! A flush of the table:
//!
//! 1. `seal` begins a new table, while the caller lets no operation happen and notes the end of the log. So the sealed
//!    table and the runs have the keys of all records before that end.
//! 2. `write_sealed` writes the sealed table to a new run and syncs it. Operations go to the new table meanwhile, and
//!    ranges read both tables.
//! 3. The caller syncs the log up to that end, and commits the run with it. Before the commit a crash loses no key: an
//!    open notes the records of the log again. The file of the run is then removed, since no manifest names it.
//! 4. `flushed` replaces the sealed table by the run in one change, so a range finds each operation in one of the two.
//!
//! The tree follows FlashKey V-A.3, which leaves the merging open: here runs are *tiered*, so a key is written about
//! log4(N / table) times. Deviation: the paper enters new keys only, which it knows from its hash table.
//!
//! | file | contents |
//! |---|---|
//! | `memtable`, `run` | the newest keys; a file of keys |
//! | `cursor`, `batch` | the keys of tables and runs in one order |
//! | `merge` | which runs are merged; the merge |
//! | `examine` | reading everything, for verify |

mod batch;
mod cursor;
mod examine;
mod memtable;
mod merge;
mod run;
#[cfg(test)]
mod tests;

pub use cursor::OwnedBounds;
pub use examine::examine;
pub use merge::{KeyMerge, MergedRuns};

pub use crate::key::Direction;

use crate::error::Result;
use crate::names::FileName;
use cursor::{Cursor, Origin, Reading};
use memtable::Memtable;
use run::{Run, RunWriter};
use siltstone_device::sync::RwLock;
use siltstone_device::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use siltstone_device::{Directory, Purpose};
use std::ops::{Bound, Range};
use std::sync::Arc;

/// The memory of the table at which it is written to a run, in bytes, and the share of a memory budget.
const TABLE_BYTES: usize = 8 << 20;
const TABLE_BUDGET_SHARE: u64 = 32;
/// The most bytes of a run that a merge reads or writes at once. With less memory they are a share of the table's.
const PIECE_BYTES_MAX: usize = 256 << 10;
const PIECE_SHARE: usize = 16;
/// The bytes of a page, the least that is read.
const PIECE_BYTES_MIN: usize = 4096;
/// A range reads at most this many pages of a run at once.
const RANGE_PAGES_MAX: usize = 16;
/// The table is also written when it has as many deleted keys: ranges have to pass them.
const TABLE_DELETED_MAX: usize = 8 << 10;
/// When ranges have passed as many deleted keys, the newest runs are merged, up to this many times as many keys: the
/// merge costs about as much as the ranges have.
const PASSED_MIN: u64 = 4 << 10;
const MERGED_PER_PASSED: u64 = 4;
/// The runs that wait for a merge at which writes wait.
const RUNS_WAITING_MAX: usize = 24;
/// All runs are merged when they have twice as many keys as there are records, and this many more.
const STALE_KEYS: u64 = 4096;

/// The last operation of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyState {
    /// A put without an expiry time.
    Live = 0,
    /// A put with an expiry time.
    Expiring = 1,
    /// A delete.
    Deleted = 2,
    /// None that this table or run has.
    Unknown = 3,
}

impl KeyState {
    fn from_number(number: u64) -> Option<KeyState> {
        [KeyState::Live, KeyState::Expiring, KeyState::Deleted].get(number as usize).copied()
    }
}

/// A run, as the manifest names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyRun {
    /// The number of the file.
    pub number: u64,
    /// The tag of the file.
    pub tag: u64,
}

impl KeyRun {
    /// Returns the name of the file.
    pub fn file_name(&self) -> String {
        FileName::KeyRun(self.number).to_string()
    }
}

/// The tables and runs.
#[derive(Default)]
struct TablesAndRuns {
    active: Arc<Memtable>,
    /// A table that is being written to a run.
    sealed: Option<Arc<Memtable>>,
    /// The oldest first.
    runs: Vec<Arc<Run>>,
}

impl TablesAndRuns {
    /// Returns the tables and runs, the newest first.
    fn origins(&self) -> Vec<Origin> {
        let tables = [Some(&self.active), self.sealed.as_ref()].into_iter().flatten();
        let runs = self.runs.iter().rev().map(|run| Origin::Run(run.clone()));
        tables.map(|table| Origin::Table(table.clone())).chain(runs).collect()
    }
}

/// The set of keys. All methods can be called from any thread.
pub struct OrderedKeys {
    directory: Directory,
    state: RwLock<TablesAndRuns>,
    epoch: AtomicU64,
    /// The memory of the active table, and that at which it is full.
    active_bytes: AtomicUsize,
    active_deleted: AtomicUsize,
    table_bytes_max: AtomicUsize,
    /// The keys that the last merge of all runs left.
    merged_keys: AtomicU64,
    /// The deleted keys that ranges have passed, and those of them that were passed before the last merge because of
    /// it.
    passed: Arc<AtomicU64>,
    passed_before: AtomicU64,
}

impl OrderedKeys {
    /// Opens the runs that are live, the oldest first.
    pub fn open(directory: &Directory, runs: &[KeyRun], budget: Option<u64>) -> Result<OrderedKeys> {
        let runs = runs.iter().map(|run| Run::open(directory, *run).map(Arc::new));
        let keys = OrderedKeys {
            directory: directory.clone(),
            state: RwLock::new(TablesAndRuns {
                runs: runs.collect::<Result<_>>()?,
                ..TablesAndRuns::default()
            }),
            epoch: AtomicU64::new(0),
            active_bytes: AtomicUsize::new(0),
            active_deleted: AtomicUsize::new(0),
            table_bytes_max: AtomicUsize::new(0),
            merged_keys: AtomicU64::new(0),
            passed: Arc::default(),
            passed_before: AtomicU64::new(0),
        };
        keys.set_budget(budget);
        Ok(keys)
    }

    /// Sets the memory of the table from a memory budget.
    pub fn set_budget(&self, budget: Option<u64>) {
        let share = budget.map_or(TABLE_BYTES as u64, |budget| budget / TABLE_BUDGET_SHARE);
        self.table_bytes_max.store(TABLE_BYTES.min(share as usize), Relaxed);
    }

    /// Notes the last operation of a key. Calls for one key are in the order of its operations.
    pub fn insert(&self, key: &[u8], state: KeyState) {
        // Held until the key is in the table: a table that is sealed in between would be written without it.
        let tables = self.state.read();
        // Snapshots begin while no operation is in progress, so the epoch is that of this operation.
        let (bytes, deleted) = tables.active.insert(key, state, self.epoch.load(Relaxed));
        // Under the lock, so that counts of an older table never follow those of `seal`. Two inserts may store them in
        // the wrong order; the next one corrects this.
        self.active_bytes.store(bytes, Relaxed);
        self.active_deleted.store(deleted, Relaxed);
    }

    /// Returns how full the table is. From 1 on it has to be written to a run.
    pub fn fullness(&self) -> f64 {
        let share = self.active_bytes.load(Relaxed) as f64 / self.table_bytes_max.load(Relaxed).max(1) as f64;
        // Those that ranges pass have to get into a run, where a merge finds them.
        let deleted_max =
            if self.newly_passed() >= PASSED_MIN { PASSED_MIN as usize } else { TABLE_DELETED_MAX };
        share.max(self.active_deleted.load(Relaxed) as f64 / deleted_max as f64)
    }

    /// Returns how many deleted keys ranges have passed.
    pub fn passed(&self) -> u64 {
        self.passed.load(Relaxed)
    }

    fn newly_passed(&self) -> u64 {
        self.passed().saturating_sub(self.passed_before.load(Relaxed))
    }

    /// Returns how far merging is behind; from 1 on, writes have to wait.
    pub fn pressure(&self) -> f64 {
        merge::waiting(&self.keys_of_runs()) as f64 / RUNS_WAITING_MAX as f64
    }

    fn keys_of_runs(&self) -> Vec<u64> {
        self.state.read().runs.iter().map(|run| run.keys()).collect()
    }

    /// Begins a new table. The one before has all operations up to now: the caller lets no operation happen meanwhile.
    pub fn seal(&self) {
        let mut state = self.state.write();
        // No other table is sealed: one flush runs at a time, and after one that failed nothing is written.
        if !state.active.is_empty() {
            state.sealed = Some(std::mem::take(&mut state.active));
        }
        self.active_bytes.store(0, Relaxed);
        self.active_deleted.store(0, Relaxed);
    }

    /// Writes the sealed table to a run, and syncs it. Returns `None` if there is nothing to write.
    pub fn write_sealed(&self, added: KeyRun) -> Result<Option<FlushedTable>> {
        // Not locked below: operations go to the new table, and ranges read both tables meanwhile.
        let (sealed, older) = {
            let state = self.state.read();
            (state.sealed.clone(), state.runs.clone())
        };
        let Some(sealed) = sealed else { return Ok(None) };
        let purpose = Purpose::Convert;
        // The last state of each key. Snapshots that need earlier states hold the table itself.
        let reading =
            Reading { direction: Direction::Ascending, epoch: u64::MAX, purpose, pages_max: 1, pages_min: 1 };
        let unbounded = (Bound::Unbounded, Bound::Unbounded);
        let mut cursor = Cursor::new([Origin::Table(sealed)], unbounded, reading);
        let mut writer = None;
        while let Some((key, state)) = cursor.next()? {
            // No older run has the key, so its delete hides nothing. A merge that ends meanwhile adds no key to them.
            if state == KeyState::Deleted && !older.iter().any(|run| run.may_have(key)) {
                continue;
            }
            let create = || RunWriter::create(&self.directory, added, purpose, self.piece_bytes());
            merge::begun(&mut writer, create)?.push(key, state)?;
        }
        // `finish` syncs the run, so the commit that follows names a file that survives a power loss.
        let run = writer.map(|writer| writer.finish(purpose)).transpose()?;
        Ok(Some(FlushedTable(run.map(Arc::new))))
    }

    /// Replaces the sealed table by its run, after a commit.
    pub fn flushed(&self, flushed: FlushedTable) {
        let mut state = self.state.write();
        // In one change with its run: a range finds each operation in one of the two.
        state.sealed = None;
        state.runs.extend(flushed.0);
    }

    /// Returns the memory at which the table is written to a run, in bytes: about as many as the run has.
    pub fn table_bytes_max(&self) -> u64 {
        self.table_bytes_max.load(Relaxed) as u64
    }

    fn piece_bytes(&self) -> usize {
        let share = self.table_bytes_max.load(Relaxed) / PIECE_SHARE;
        share.clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX)
    }

    /// Returns the runs to merge next. All if `all` is set, or if they have many keys that are deleted, expired, or in
    /// several runs, compared with the number of records; otherwise as many as their sizes require.
    fn to_merge(&self, keys: &[u64], records: u64, all: bool) -> Option<Range<usize>> {
        let sum: u64 = keys.iter().sum();
        // Keys that the last merge had to keep do not count: they would start the next merge at once.
        let after_last = sum.saturating_sub(self.merged_keys.load(Relaxed));
        let is_stale = sum > 2 * records + STALE_KEYS && after_last > STALE_KEYS;
        if is_stale || all && (keys.len() > 1 || sum > records) {
            return (!keys.is_empty()).then_some(0..keys.len());
        }
        let passed = self.newly_passed();
        if passed >= PASSED_MIN {
            // From the newest run on, because merged runs must be adjacent in age.
            let mut left = MERGED_PER_PASSED * passed;
            let young = keys.iter().rev().take_while(|&&keys| {
                let fits = keys <= left;
                left = left.saturating_sub(keys);
                fits
            });
            let count = young.count();
            // Without deleted keys the merge would not make ranges faster.
            if count > 0 && self.has_deleted(keys.len() - count) {
                return Some(keys.len() - count..keys.len());
            }
        }
        merge::choose(keys)
    }

    /// Returns whether a run from this one on has deleted keys.
    fn has_deleted(&self, first: usize) -> bool {
        self.state.read().runs.iter().skip(first).any(|run| run.deleted() > 0)
    }

    /// Returns whether runs have to be merged, if the database has this number of records.
    pub fn must_merge(&self, records: u64) -> bool {
        self.to_merge(&self.keys_of_runs(), records, false).is_some()
    }

    /// Begins a merge: of all runs with `all`, otherwise if [`must_merge`](Self::must_merge).
    pub fn start_merge(&self, all: bool, records: u64, added: KeyRun) -> Option<KeyMerge> {
        // A copy. Runs that a flush adds meanwhile are newer than all of these.
        let runs = self.state.read().runs.clone();
        let keys: Vec<u64> = runs.iter().map(|run| run.keys()).collect();
        let range = self.to_merge(&keys, records, all)?;
        self.passed_before.store(self.passed(), Relaxed);
        let (older, merged) = (&runs[..range.start], &runs[range]);
        // Keys that were read take several times as much as their bytes on flash.
        let share = self.table_bytes_max() as usize / merged.len().max(1) / 8;
        let piece_bytes = self.piece_bytes().min(share.max(PIECE_BYTES_MIN));
        Some(KeyMerge::begin(&self.directory, merged, older, added, piece_bytes))
    }

    /// Replaces merged runs by the new one, after a commit, and removes their files.
    pub fn merged(&self, merged: MergedRuns) -> Result<()> {
        let mut state = self.state.write();
        // By number, because runs that were flushed during the merge follow these.
        let rank = |number| state.runs.iter().position(|run| run.run.number == number);
        let (Some(first), Some(last)) = (rank(merged.replaced.0), rank(merged.replaced.1)) else {
            return Ok(());
        };
        let replaced: Vec<_> = state.runs.splice(first..=last, merged.run).collect();
        if first == 0 {
            self.merged_keys.store(state.runs.first().map_or(0, |run| run.keys()), Relaxed);
        }
        // Ranges and writes do not wait for the removal.
        drop(state);
        // The commit does not name them any more. Ranges that have these runs keep their files open.
        Ok(replaced.iter().try_for_each(|run| self.directory.remove(&run.run.file_name()))?)
    }

    /// Returns the keys as they are now, which later changes leave as they are. The caller lets no operation happen
    /// meanwhile.
    pub fn snapshot(&self) -> KeysSnapshot {
        let state = self.state.read();
        // Under the lock, so that no table is sealed between the epoch and the list of origins.
        let (epoch, passed) = (self.epoch.fetch_add(1, Relaxed), self.passed.clone());
        KeysSnapshot { origins: state.origins(), epoch, passed }
    }

    /// Returns the number of runs, and of keys in them: a key counts once per run that has it.
    pub fn run_counts(&self) -> (u64, u64) {
        let keys = self.keys_of_runs();
        (keys.len() as u64, keys.iter().sum())
    }

    /// Returns the bytes of the runs on flash.
    pub fn disk_bytes(&self) -> u64 {
        self.state.read().runs.iter().map(|run| run.file().length()).sum()
    }

    /// Returns the memory of tables and runs, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let state = self.state.read();
        let tables = [Some(&state.active), state.sealed.as_ref()].into_iter().flatten();
        let tables: usize = tables.map(|table| table.heap_bytes()).sum();
        tables + state.runs.iter().map(|run| run.heap_bytes()).sum::<usize>()
    }
}

/// A table that was written to a run, which takes effect after a commit.
pub struct FlushedTable(Option<Arc<Run>>);

impl FlushedTable {
    /// Returns the new run; `None` if the table had only deletes that are not needed.
    pub fn added(&self) -> Option<KeyRun> {
        self.0.as_ref().map(|run| run.run)
    }
}

/// The keys of one moment. While it is held, the table keeps their states, and the files of the runs stay open.
pub struct KeysSnapshot {
    origins: Vec<Origin>,
    epoch: u64,
    passed: Arc<AtomicU64>,
}

impl KeysSnapshot {
    /// Returns the keys within the bounds that are not deleted. Reads one page of each run at first, then more at once.
    pub fn range(&self, bounds: OwnedBounds, direction: Direction) -> OrderedRange {
        let reading = Reading {
            direction,
            epoch: self.epoch,
            purpose: Purpose::Iterate,
            pages_max: RANGE_PAGES_MAX,
            pages_min: 1,
        };
        let origins = self.origins.iter().cloned();
        OrderedRange { cursor: Cursor::new(origins, bounds, reading), passed: self.passed.clone() }
    }
}

/// The keys of a range, one after another.
pub struct OrderedRange {
    cursor: Cursor,
    passed: Arc<AtomicU64>,
}

impl OrderedRange {
    /// Appends the next keys to `keys`, up to `limit`, with whether their records have an expiry time. Returns whether
    /// there may be more.
    pub fn read(&mut self, limit: usize, keys: &mut Vec<(Vec<u8>, bool)>) -> Result<bool> {
        let (mut read, mut passed) = (0, 0);
        let mut has_more = true;
        while read < limit && has_more {
            match self.cursor.next()? {
                Some((key, state @ (KeyState::Live | KeyState::Expiring))) => {
                    keys.push((key.to_vec(), state == KeyState::Expiring));
                    read += 1;
                }
                Some(_) => passed += 1,
                None => has_more = false,
            }
        }
        // Once per call: all ranges write to this counter.
        self.passed.fetch_add(passed, Relaxed);
        Ok(has_more)
    }
}
