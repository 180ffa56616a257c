//! External sort in hash order (ECT 3.1.2): if records do not fit into memory, sorted runs are written to temporary
//! files and merged.
//!
//!  ```text
//!  level 0   run run run ... (fan-in runs) --merge--+
//!  level 1   run <----------------------------------+
//!  finish    all remaining runs -> one sorted sequence
//!  ```
//!
//! A run is an [`OrderedTable`] without an index.
//!
//! 1. Records are added to a buffer. When it is full, they are sorted and written to a run of level 0, which is newer
//!    than all runs before. A run is unlinked as soon as it is open, so the system frees it however the process ends,
//!    and nothing is synced: the caller still has the input.
//! 2. When a level has as many runs as can be merged at once, they are merged into one run of the next level, so few
//!    files are open however many records are sorted. Merged runs are adjacent in age, so of each key the newest
//!    record remains.
//! 3. At the end the newest runs are merged until the rest can be merged at once. That last merge is not written: its
//!    records are returned one after the other.
//!
//! Deviation: the paper leaves this to an external sort program. As a part of the library it needs no other program,
//! keeps to one memory limit, and drops overwritten records as early as possible.

mod buffer;

use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::store::merge::{Cursor, MergeCursor, PlacedRecord};
use crate::store::record::{RecordShape, RecordView};
use crate::store::table::{
    BlockForm, OrderedCursor, OrderedTable, OrderedTableSettings, OrderedTableWriter, TableForm,
};
use buffer::{BufferCursor, SortBuffer};
use siltstone_device::{Directory, Purpose};
use std::sync::Arc;

/// The minimum memory of a sort, in bytes.
pub const SORT_MEMORY_BYTES_MIN: usize = 64 << 10;
/// The default of the maximum number of runs merged at once. Each is an open file.
pub const FAN_IN_MAX: usize = 128;

/// The size of reads and writes of runs, as a share of the memory, and its limits in bytes.
const PIECE_SHARE: usize = 128;
const PIECE_BYTES_MIN: usize = 4 << 10;
const PIECE_BYTES_MAX: usize = 256 << 10;
/// The largest block of a run, in bytes.
const RUN_BLOCK_BYTES_MAX: usize = 64 << 10;
/// The memory of reading a run, in pieces or in records of the largest size, whichever is larger.
const PIECES_PER_SOURCE: usize = 3;
/// The number of bytes between two progress reports.
const PROGRESS_BYTES: u64 = 1 << 20;
/// The maximum bytes of a record in stream form besides its key and value.
const RECORD_HEAD_BYTES_MAX: usize = 24;

/// How records with the same key are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Duplicates {
    /// The record that was added last wins.
    #[default]
    LastWins,
    /// An error is returned.
    Refused,
}

/// The settings of a sort.
#[derive(Debug, Clone, Copy)]
pub struct SortSettings {
    /// The shape of the records.
    pub shape: RecordShape,
    /// The memory, in bytes, at least [`SORT_MEMORY_BYTES_MIN`]. Merging takes more if it must hold several records of
    /// that size.
    pub memory_bytes: usize,
    /// The maximum number of runs merged at once, at least 2.
    pub fan_in_max: usize,
    /// How records with the same key are treated.
    pub duplicates: Duplicates,
}

impl SortSettings {
    fn piece_bytes(&self) -> usize {
        let share = (self.memory_bytes / PIECE_SHARE).max(1);
        (1 << share.ilog2()).clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX)
    }

    /// Returns the memory for records: the rest after that of writing a run and of growing buffers.
    fn buffer_bytes(&self) -> usize {
        // Never negative: with the least memory, three pieces take 12 KiB of 64.
        self.memory_bytes - 3 * self.piece_bytes() - self.memory_bytes / 8
    }
}

/// Sorts records that are added in any order.
pub struct ExternalSort {
    directory: Directory,
    settings: SortSettings,
    buffer: SortBuffer,
    /// From the oldest to the newest, with descending levels.
    runs: Vec<Run>,
    /// Distinguishes the files of this sort from those of others in the directory.
    tag: u64,
    runs_written: u64,
    largest_record_bytes: usize,
    moved_bytes: u64,
}

struct Run {
    store: Arc<OrderedTable>,
    level: u32,
    record_bytes: u64,
}

impl ExternalSort {
    /// Creates a sort that writes its runs to files in `directory` if necessary.
    ///
    /// # Errors
    /// [`Error::Setting`] for a memory below [`SORT_MEMORY_BYTES_MIN`] or a fan-in below 2.
    pub fn new(directory: Directory, settings: SortSettings) -> Result<ExternalSort> {
        if settings.memory_bytes < SORT_MEMORY_BYTES_MIN {
            let problem =
                format!("{} bytes are too few; use {SORT_MEMORY_BYTES_MIN} or more", settings.memory_bytes);
            return Err(Error::Setting { name: "memory_bytes", problem });
        }
        if settings.fan_in_max < 2 {
            let problem = format!("{} is too small; use 2 or more", settings.fan_in_max);
            return Err(Error::Setting { name: "fan_in_max", problem });
        }
        Ok(ExternalSort {
            buffer: SortBuffer::new(settings.shape, settings.buffer_bytes()),
            directory,
            settings,
            runs: Vec::new(),
            tag: siltstone_device::random_number()?,
            runs_written: 0,
            largest_record_bytes: 0,
            moved_bytes: 0,
        })
    }

    /// Returns the number of runs written so far, including merged ones.
    pub fn runs_written(&self) -> u64 {
        self.runs_written
    }

    /// Adds a record, newer than all before. When the memory is full, writes a run and calls `progress` with the
    /// bytes of all runs so far, and 0 because the total is unknown.
    ///
    /// # Errors
    /// Errors of writing; [`Error::Interrupted`] if `progress` returns false; [`Error::DuplicateKey`] if configured and
    /// detected.
    pub fn push(&mut self, record: &RecordView<'_>, progress: &mut Progress<'_>) -> Result<()> {
        let record_bytes = record.key.len() + record.value.map_or(0, <[u8]>::len) + RECORD_HEAD_BYTES_MAX;
        // An empty buffer accepts any record, even one that is larger than the buffer.
        if !self.buffer.has_room(record_bytes) && self.buffer.len() > 0 {
            self.spill(progress)?;
        }
        self.largest_record_bytes = self.largest_record_bytes.max(record_bytes);
        self.buffer.push(record, record_bytes);
        Ok(())
    }

    /// Ends the input. Merges runs until the rest can be merged at once, and returns the sorted records.
    ///
    /// # Errors
    /// See [`push`](ExternalSort::push).
    pub fn finish(mut self, progress: &mut Progress<'_>) -> Result<SortedRecords> {
        if self.runs.is_empty() {
            // All records fit into memory, so no file is written.
            self.buffer.sort();
            let (records, record_bytes) = (self.buffer.len() as u64, self.buffer.record_bytes() as u64);
            let cursor = BufferCursor::new(Arc::new(self.buffer));
            let cursor = merge(vec![Box::new(cursor)], self.settings.duplicates);
            return Ok(SortedRecords { cursor, records, record_bytes });
        }
        if self.buffer.len() > 0 {
            self.spill(progress)?;
        }
        // Before the merges, which take this memory.
        self.release_buffer();
        // Merges only as many runs as necessary, the newest and smallest ones, so that the rest fits one merge.
        while self.runs.len() > self.fan_in() {
            let surplus = self.runs.len() - self.fan_in() + 1;
            self.merge_newest(surplus.min(self.fan_in()), progress)?;
        }
        // An upper bound, because a key may be in several runs.
        let records = self.runs.iter().map(|run| run.store.records()).sum();
        let record_bytes = self.runs.iter().map(|run| run.record_bytes).sum();
        Ok(SortedRecords { cursor: self.merged(&self.runs), records, record_bytes })
    }

    /// Returns the number of runs that can be merged within the memory.
    fn fan_in(&self) -> usize {
        // With the largest record, because each source holds its record whole.
        let source_bytes = PIECES_PER_SOURCE * self.settings.piece_bytes().max(self.largest_record_bytes);
        // At least two, or a merge would not reduce the number of runs.
        (self.settings.memory_bytes / source_bytes).min(self.settings.fan_in_max).max(2)
    }

    fn release_buffer(&mut self) {
        self.buffer = SortBuffer::new(self.settings.shape, self.settings.buffer_bytes());
    }

    /// Writes the records in memory as a run, and merges the runs of a level when there are enough of them.
    fn spill(&mut self, progress: &mut Progress<'_>) -> Result<()> {
        let SortSettings { shape, duplicates, .. } = self.settings;
        let empty = SortBuffer::new(shape, self.settings.buffer_bytes());
        let mut full = std::mem::replace(&mut self.buffer, empty);
        full.sort();
        let full = Arc::new(full);
        let cursor = merge(vec![Box::new(BufferCursor::new(full.clone()))], duplicates);
        let run = self.write_run(cursor, 0, progress)?;
        self.runs.push(run);
        // The cursor that shared the records has ended, so their memory is used for the next ones.
        if let Some(mut buffer) = Arc::into_inner(full) {
            buffer.clear();
            self.buffer = buffer;
        }
        loop {
            let level = self.runs.last().map_or(0, |run| run.level);
            // Only runs of one level, so that each record is written once per level.
            let equal = self.runs.iter().rev().take_while(|run| run.level == level).count();
            if equal < self.fan_in() {
                return Ok(());
            }
            // The merge takes about as much memory as the buffer had.
            self.release_buffer();
            self.merge_newest(equal, progress)?;
        }
    }

    /// Merges the last `count` runs into one.
    fn merge_newest(&mut self, count: usize, progress: &mut Progress<'_>) -> Result<()> {
        // Adjacent in age, so the newest record of a key still comes from the newest run.
        let inputs = self.runs.split_off(self.runs.len() - count);
        let level = inputs.iter().map(|run| run.level).max().unwrap_or(0) + 1;
        let cursor = self.merged(&inputs);
        let run = self.write_run(cursor, level, progress)?;
        self.runs.push(run);
        Ok(())
    }

    fn merged(&self, runs: &[Run]) -> Checked {
        let piece_bytes = self.settings.piece_bytes();
        let cursor = |run: &Run| -> Box<dyn Cursor> {
            Box::new(OrderedCursor::new(&run.store, Purpose::Maintain, piece_bytes))
        };
        // The newest run first: of records with equal keys the first source wins.
        merge(runs.iter().rev().map(cursor).collect(), self.settings.duplicates)
    }

    fn write_run(&mut self, mut records: Checked, level: u32, progress: &mut Progress<'_>) -> Result<Run> {
        let number = self.runs_written;
        self.runs_written += 1;
        // Once per sort, and only if it writes files at all: the directory is listed for it.
        if number == 0 {
            remove_stale_runs(&self.directory)?;
        }
        let name = format!("{RUN_PREFIX}{:016x}-{number}", self.tag);
        let piece_bytes = self.settings.piece_bytes();
        let form = TableForm { blocks: BlockForm::Stream, index: None, fill_blocks: true };
        let settings = OrderedTableSettings {
            tag: self.tag.wrapping_add(number),
            shape: self.settings.shape,
            block_bytes: piece_bytes.min(RUN_BLOCK_BYTES_MAX) as u32,
            expected_records: 0,
            expected_bytes: 0,
            purpose: Purpose::Maintain,
            piece_bytes,
        };
        let mut writer = OrderedTableWriter::create(&self.directory, &name, form, settings)?;
        // As soon as the file is open, so that no end of the process leaves it.
        remove_run(&self.directory, &name)?;
        let mut record_bytes = 0;
        let mut reported_bytes = 0;
        while records.advance()? {
            let Some(entry) = records.entry() else { break };
            writer.push(&entry)?;
            record_bytes += entry.record.key.len() as u64 + entry.record.value.map_or(0, <[u8]>::len) as u64;
            if record_bytes - reported_bytes >= PROGRESS_BYTES {
                reported_bytes = record_bytes;
                if !progress(self.moved_bytes + record_bytes, 0) {
                    return Err(Error::Interrupted);
                }
            }
        }
        self.moved_bytes += record_bytes;
        Ok(Run { store: Arc::new(writer.finish_temporary()?), level, record_bytes })
    }

    /// Returns the memory held between calls, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.buffer.heap_bytes() + self.runs.capacity() * size_of::<Run>()
    }
}

/// The first characters of the name of a run, which it has for a moment: it is removed when it was created.
const RUN_PREFIX: &str = ".siltstone-run-";

/// Removes a run, unless another sort has taken it for one that a killed process left.
fn remove_run(directory: &Directory, name: &str) -> Result<()> {
    match directory.remove(name) {
        Err(error) if error.is_not_found() => Ok(()),
        removed => Ok(removed?),
    }
}

/// Removes the runs that killed processes left.
pub fn remove_stale_runs(directory: &Directory) -> Result<()> {
    let names = directory.list()?;
    let mut runs = names.iter().filter(|name| name.starts_with(RUN_PREFIX));
    runs.try_for_each(|name| remove_run(directory, name))
}

/// The sorted records: in hash order, each key once, including deletes.
pub struct SortedRecords {
    cursor: Checked,
    records: u64,
    record_bytes: u64,
}

impl SortedRecords {
    /// Returns the number of records if all keys are distinct, otherwise an upper bound.
    pub fn records_max(&self) -> u64 {
        self.records
    }

    /// Returns the approximate bytes of keys and values.
    pub fn record_bytes(&self) -> u64 {
        self.record_bytes
    }
}

impl Cursor for SortedRecords {
    fn advance(&mut self) -> Result<bool> {
        self.cursor.advance()
    }

    fn entry(&self) -> Option<PlacedRecord<'_>> {
        self.cursor.entry()
    }

    fn heap_bytes(&self) -> usize {
        self.cursor.heap_bytes()
    }
}

/// Merged records, with an error for duplicate keys if configured.
struct Checked {
    records: MergeCursor,
    duplicates: Duplicates,
}

fn merge(sources: Vec<Box<dyn Cursor>>, duplicates: Duplicates) -> Checked {
    Checked { records: MergeCursor::new(sources, None), duplicates }
}

impl Cursor for Checked {
    fn advance(&mut self) -> Result<bool> {
        let is_there = self.records.advance()?;
        // After each record: `hidden` counts the older records that this step has skipped.
        if self.duplicates == Duplicates::Refused && self.records.hidden() > 0 {
            return Err(Error::duplicate_key(self.records.last_key()));
        }
        Ok(is_there)
    }

    fn entry(&self) -> Option<PlacedRecord<'_>> {
        self.records.entry()
    }

    fn heap_bytes(&self) -> usize {
        self.records.heap_bytes()
    }
}

#[cfg(test)]
mod tests;
