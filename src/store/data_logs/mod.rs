//! The logs of a database whose data stays in logs: one of what users write, and one of moved records for each class of
//! age. An index outside has the number of a *unit* for each record, which says in which segment it is, and where.
//!
//! ```text
//! class 0   | log-0 finished | released | log-..9c40 complete | log-..13880 grows |    puts
//! class 1   | moved1-0 finished | moved1-..5000 grows |                                records moved by cleaning
//! ```
//!
//! A segment that is complete is *finished* by a step of background work: synced, dropped from the page cache, and read
//! with the access of the directory from then on. A finished segment is in the manifest until it is *released*, in any
//! order; so a log has holes. What follows the last finished segment of a class is read when the logs are opened.

mod examine;
mod frames;
mod open;
#[cfg(test)]
mod tests;
mod view;
mod write;

pub use examine::{
    DataLogsToExamine, ExaminedLogs, FoundRecord, FoundSegment, LostPart, Version, VisitRecord,
};
pub use frames::Frames;
pub use open::{DataLogSettings, RecoveredLogs};
pub use view::DataView;
pub use write::SegmentsWriter;

use super::log::{Log, Segment, SlotTable};
use super::log_format::{FLAG_MOVED, LogFormat, Slots};
use crate::batch::Durability;
use crate::error::{Error, Result};
use crate::health::Health;
use crate::names::LogClass;
use crate::store::read_batches::ReadBatches;
use crate::store::record::RecordView;
use siltstone_device::{Directory, Purpose};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

pub use super::log::Unit;

/// The maximum number of logs.
pub const CLASSES: usize = 1 + LogClass::MOVED_MAX as usize;
/// The log of what users write.
pub const USER: u8 = 0;

/// A segment that is complete and durable, as the manifest has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FinishedSegment {
    /// The class of its log.
    pub class: u8,
    /// The position of its first frame.
    pub base: u64,
    /// The position after its last frame.
    pub end: u64,
    /// Its first slot.
    pub slot: u32,
    /// The number of its slots.
    pub slots: u32,
    /// The number of its records, dead ones included.
    pub records: u64,
    /// See [`SegmentInfo::order`].
    pub order: u64,
    /// The id of the database that wrote it, which its header states. A checkpoint has another id and the same file.
    pub database_id: u64,
}

/// A segment now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentInfo {
    /// The class of its log.
    pub class: u8,
    /// The position of its first frame.
    pub base: u64,
    /// The position after its last frame; `None` for the segment of its class that grows.
    pub end: Option<u64>,
    /// Its first slot.
    pub slot: u32,
    /// The number of its slots.
    pub slots: u32,
    /// The bytes of its frames, dead ones included.
    pub bytes: u64,
    /// The number of its records, dead ones included.
    pub records: u64,
    /// The bytes of dead frames, as far as they are known.
    pub dead: u64,
    /// A position of the log of class [`USER`]: of a segment of that class its first one, of others one that was
    /// reached when the first record was moved here.
    pub order: u64,
    /// Whether it is finished.
    pub is_finished: bool,
}

/// What a database's views of its logs share.
struct Shared {
    /// By class.
    logs: Vec<Arc<Log>>,
    slots: Arc<SlotTable>,
    batches: ReadBatches,
}

/// The logs. A lock of each log serializes its appends; reads take it only for records that are not yet written.
pub struct DataLogs {
    directory: Directory,
    format: LogFormat,
    health: Arc<Health>,
    shared: Arc<Shared>,
}

impl DataLogs {
    /// Returns the health of the logs, where the engine records its failures as well.
    pub fn health(&self) -> &Arc<Health> {
        &self.health
    }

    /// Returns the log of a class; classes that the database does not have count as its highest one.
    fn log(&self, class: u8) -> &Arc<Log> {
        let logs = &self.shared.logs;
        &logs[usize::from(class).min(logs.len() - 1)]
    }

    /// Appends the records of one batch to the log of a class, and passes the unit of each and the length of its frame
    /// to `place`. Writes them to the file, unless `durability` is `Buffered`. Returns the end of the log. After an
    /// error no record of the batch counts as appended, and all later writes are refused.
    ///
    /// A record that is moved must come from a finished segment; to the log of class [`USER`], it is moved by
    /// [`append_moved`](Self::append_moved).
    #[inline]
    pub fn append<'a>(
        &self,
        class: u8,
        records: impl ExactSizeIterator<Item = RecordView<'a>> + Clone,
        durability: Durability,
        place: impl FnMut(Unit, u32),
    ) -> Result<u64> {
        self.append_flagged(class, 0, records, durability, place)
    }

    /// Appends moved records to the log of a class, which may be that of what users write, only to the buffer. See
    /// [`append`](Self::append).
    pub fn append_moved<'a>(
        &self,
        class: u8,
        records: impl ExactSizeIterator<Item = RecordView<'a>> + Clone,
        place: impl FnMut(Unit, u32),
    ) -> Result<u64> {
        let flags = if class == USER { FLAG_MOVED } else { 0 };
        self.append_flagged(class, flags, records, Durability::Buffered, place)
    }

    fn append_flagged<'a>(
        &self,
        class: u8,
        flags: u8,
        records: impl ExactSizeIterator<Item = RecordView<'a>> + Clone,
        durability: Durability,
        mut place: impl FnMut(Unit, u32),
    ) -> Result<u64> {
        // All finished segments end at or before it: it is after the position of each record that is moved, and before
        // those of all later versions.
        let order = (class != USER).then(|| self.log(USER).last_base());
        let slots = &self.shared.slots;
        self.log(class).append_data(order, flags, records, durability, |segment, position, bytes| {
            place(slots.unit_of(segment, position), bytes as u32);
        })
    }

    /// Returns the length of the frame of a record, in bytes.
    #[inline]
    pub fn frame_bytes(&self, record: &RecordView<'_>) -> u32 {
        self.format.record_bytes(record) as u32
    }

    /// Returns the present logs for reading. What the view shows stays readable while it is held.
    #[inline]
    pub fn view(&self) -> DataView {
        DataView::new(self.shared.clone(), self.shared.slots.list())
    }

    /// Returns whether no segment was started or released since the view was taken. Units that an index had meanwhile
    /// are then those of the view.
    #[inline]
    pub fn is_current(&self, view: &DataView) -> bool {
        self.shared.slots.is_current(view.list())
    }

    /// Blocks until everything before `position` of a log survives a power loss. See [`Log::sync_to`].
    pub fn sync_to(&self, class: u8, position: u64) -> Result<()> {
        self.log(class).sync_to(position)
    }

    /// Returns the position before which everything of a log survives a power loss.
    pub fn synced(&self, class: u8) -> u64 {
        self.log(class).synced()
    }

    /// Returns whether everything that users wrote survives a power loss.
    pub fn is_synced(&self) -> bool {
        self.log(USER).is_synced()
    }

    /// Returns the end of each log; 0 for classes that the database does not have.
    pub fn ends(&self) -> [u64; CLASSES] {
        let mut ends = [0; CLASSES];
        for (end, log) in ends.iter_mut().zip(&self.shared.logs) {
            // Each at its own moment: only with all writers locked do the ends belong together.
            *end = log.end();
        }
        ends
    }

    /// Returns a position of each log, for [`sync_to`](Self::sync_to), that no record follows: its end, or before that
    /// if only markers do. While nothing is appended, such a position stays, so no sync adds another marker.
    pub fn ends_of_records(&self) -> [u64; CLASSES] {
        let mut ends = [0; CLASSES];
        for (end, log) in ends.iter_mut().zip(&self.shared.logs) {
            // The caller has locked the writers. A sync in between only moves `synced` on, past no record.
            *end = if log.is_synced() { log.synced() } else { log.end() };
        }
        ends
    }

    /// Counts a frame as dead: nothing points to it any more. Returns the class of its segment; `None` if that was
    /// released.
    pub fn add_dead(&self, unit: Unit, bytes: u64) -> Option<u8> {
        let list = self.shared.slots.list();
        let (segment, _) = self.shared.slots.find(&list, unit)?;
        // A count for the choice of segments. That nothing points to a segment is found by its entries.
        segment.dead_bytes.fetch_add(bytes, Relaxed);
        Some(segment.class.number())
    }

    /// Sets the bytes of dead frames of a segment.
    pub fn set_dead(&self, class: u8, base: u64, bytes: u64) {
        let list = self.shared.slots.list();
        let is_it = |segment: &&Arc<Segment>| segment.class.number() == class && segment.base == base;
        if let Some(segment) = list.segments().find(is_it) {
            segment.dead_bytes.store(bytes, Relaxed);
        }
    }

    /// Returns the number of complete segments that are not finished.
    pub fn unfinished(&self) -> u64 {
        self.shared.slots.unfinished()
    }

    /// Finishes a complete segment, the oldest one of its class: syncs it, and makes the existence of the next one
    /// durable. Returns it; `None` if there is none.
    pub fn finish_step(&self) -> Result<Option<FinishedSegment>> {
        // A look without a lock: a segment that becomes complete now is finished by a later step.
        if self.directory.is_read_only() || self.unfinished() == 0 {
            return Ok(None);
        }
        for log in &self.shared.logs {
            // The oldest of its log, because `finished_to` of a class only grows.
            if let Some((segment, end)) = log.finish_segment()? {
                let Slots { first: slot, count: slots } = segment.slots;
                return Ok(Some(FinishedSegment {
                    class: segment.class.number(),
                    base: segment.base,
                    end,
                    slot,
                    slots,
                    // Final: the segment is complete, and every record was counted before that.
                    records: segment.records.load(Relaxed),
                    order: segment.order.load(Relaxed),
                    database_id: segment.database_id,
                }));
            }
        }
        Ok(None)
    }

    /// Removes a finished segment that the manifest does not have any more. Its slots are free then. Views that were
    /// taken before can still read it.
    pub fn release(&self, class: u8, base: u64) -> Result<()> {
        self.log(class).release(base).map(drop)
    }

    /// Starts a new segment in the log of a class, if its last one has frames.
    pub fn start_new_segment(&self, class: u8) -> Result<()> {
        self.log(class).start_new_segment()
    }

    /// Starts a new segment in each log whose last one has frames, so that these can be finished and cleaned.
    pub fn start_new_segments(&self) -> Result<()> {
        self.shared.logs.iter().try_for_each(|log| log.start_new_segment())
    }

    /// Writes the buffered bytes of all logs.
    pub fn write_buffered(&self) -> Result<()> {
        self.shared.logs.iter().try_for_each(|log| log.write_buffered())
    }

    /// Limits the number of buffered bytes of each log. The default and maximum is 64 KiB.
    pub fn limit_buffer(&self, bytes: usize) {
        self.shared.logs.iter().for_each(|log| log.limit_buffer(bytes));
    }

    /// Limits the length at which a segment is complete.
    pub fn limit_segments(&self, bytes: u64) {
        self.shared.slots.limit_segments(bytes);
    }

    /// Limits the bytes of a sequential read. The default and maximum is 512 KiB.
    pub fn limit_reads(&self, bytes: usize) {
        self.shared.slots.limit_reads(bytes);
    }

    /// Returns the memory of batches of reads, and their limit.
    pub fn read_batches(&self) -> &ReadBatches {
        &self.shared.batches
    }

    /// Ends the last segments where their frames end, for logs that are closed.
    pub fn end_append(&self) -> Result<()> {
        self.shared.logs.iter().try_for_each(|log| log.end_append())
    }

    /// Passes every written record of a log at or after the position `from` to `visit`, with its unit, but those that
    /// were moved to the log of class [`USER`].
    pub fn scan(
        &self,
        class: u8,
        from: u64,
        visit: &mut dyn FnMut(Unit, &RecordView<'_>) -> Result<()>,
    ) -> Result<()> {
        let slots = &self.shared.slots;
        self.log(class).scan_segments(from, &mut |_, _| true, &mut |segment, position, record, is_moved| {
            // By the segment that is read, not by the list: this may have lost it since.
            if is_moved { Ok(()) } else { visit(slots.unit_of(segment, position), record) }
        })
    }

    /// Makes the logs of a checkpoint with this id in another directory, up to these ends: links the finished segments,
    /// copies the others, and syncs the files. During the call no segment may be finished in the manifest or released,
    /// and everything before the ends must be written. `finished_to` is where the last finished segment of each class
    /// ended.
    pub fn copy_to(
        &self,
        target: &Directory,
        database_id: u64,
        finished: &[FinishedSegment],
        finished_to: &[u64; CLASSES],
        ends: &[u64; CLASSES],
    ) -> Result<()> {
        for segment in finished {
            // The open has refused segments of other classes.
            let Some(format) = LogClass::from_number(segment.class).map(|class| self.format.of(class)) else {
                continue;
            };
            // A finished segment never changes, so both databases may have the file.
            self.directory.share(&format.segment_name(segment.base), target)?;
        }
        // The others still grow here, so the other database gets copies, up to the ends.
        let mut logs = self.shared.logs.iter().zip(finished_to.iter().zip(ends));
        logs.try_for_each(|(log, (from, end))| log.copy_to(target, database_id, *from, *end))
    }

    /// Returns the number of units of a slot: slot s has those from s times this number on.
    pub fn units_per_slot(&self) -> u64 {
        self.shared.slots.units_per_slot()
    }

    /// Returns the length at which a segment is complete now, in bytes: a share of the data, so that what is not yet
    /// removed of small databases is little, and at most that of the settings.
    pub fn segment_bytes(&self) -> u64 {
        self.shared.slots.segment_bytes()
    }

    /// Returns the bytes of all segments, without the space that is reserved for appending. Costs an atomic load.
    pub fn bytes(&self) -> u64 {
        self.shared.slots.bytes()
    }

    /// Returns the bytes of all segments on flash, with the space that is reserved for appending.
    pub fn disk_bytes(&self) -> u64 {
        self.shared.logs.iter().map(|log| log.disk_bytes()).sum()
    }

    /// Returns the memory of the logs, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let buffers: usize = self.shared.logs.iter().map(|log| log.heap_bytes()).sum();
        buffers + self.shared.slots.list().heap_bytes()
    }
}

/// Returns the error that a unit has no segment.
fn no_segment(directory: &Directory, unit: Unit) -> Error {
    Error::Corrupt {
        file: directory.path().join("log"),
        offset: 0,
        expected: "a unit of a segment of the logs".into(),
        got: format!("unit {unit}"),
    }
}

/// The purpose of reading headers when the logs are opened.
const OPENING: Purpose = Purpose::Recover;
