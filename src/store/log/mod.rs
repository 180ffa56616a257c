//! The log that all LogStores of a database share (SILT 3.1): an append-only sequence of records, divided into
//! segments.
//!
//! ```text
//! position   0          40,000          80,000         written   end
//! segments   | released | log-..9c40     | log-..13880  |          |
//!                        read by views    growing        buffer in memory
//! ```
//!
//! A *position* is the offset of a frame in the complete sequence since the database was created, in bytes. Segments
//! whose records were all converted are removed. One log for all partitions makes writing sequential, writes a batch of
//! several partitions as one piece, and lets concurrent writers share a sync. Deviation: the paper has a log per
//! LogStore.

mod copy;
mod data;
mod examine;
mod read;
mod recovery;
mod segment;
mod slots;

pub(in crate::store) use read::Decoded;
pub use read::READ_BYTES_GUESS;
pub(in crate::store) use recovery::DataSegments;
pub use recovery::{LogSettings, Recovered};
pub(in crate::store) use segment::Segment;
pub use segment::{LogView, ReadableSegments};
pub use slots::{SEGMENT_BYTES, UNITS_MAX, Unit, segment_length};
pub(in crate::store) use slots::{SlotList, SlotTable};

use crate::batch::Durability;
use crate::error::{CorruptFile, Error, Result};
use crate::health::{FailStop, Health};
use crate::store::log_format::{FLAG_BATCH_GOES_ON, LogFormat, SEGMENT_HEADER_BYTES, Slots};
use crate::store::record::RecordView;
use segment::Segments;
use siltstone_device::sync::Published;
use siltstone_device::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use siltstone_device::{Access, Directory, Purpose};
use std::sync::Arc;

/// The unit of writeback.
const PAGE_BYTES: u64 = 4096;
/// A segment of a log without slots has at most one part in this many of the log, or these bytes if they are more.
/// Space is freed by whole segments, so short ones free it sooner.
const SEGMENTS_MIN: u64 = 8;
const SEGMENT_LENGTH_MIN: u64 = 1 << 20;
/// The maximum number of buffered bytes.
pub const BUFFER_BYTES_MAX: usize = 64 << 10;

/// The log. A lock serializes appends; reads take it only for records that are not yet written, and wait for
/// nothing otherwise.
pub struct Log {
    directory: Directory,
    format: LogFormat,
    segment_bytes: u64,
    /// The slots of the segments of logs of data, which these share.
    slots: Option<Arc<SlotTable>>,
    segments: Published<Segments>,
    health: Arc<Health>,
    tail: FailStop<Tail>,
    /// Everything before this position can be read from the files.
    written: AtomicU64,
    /// Everything before this position survives a power loss.
    synced: AtomicU64,
    /// There are no records from `synced` to this position.
    recordless: AtomicU64,
    syncing: FailStop<Syncing>,
    /// The maximum number of buffered bytes.
    buffer_bytes_max: AtomicUsize,
    /// The length of the longest frame that was appended or read, limited to the most bytes of a first read.
    frame_bytes: AtomicUsize,
}

/// The end of the log: bytes that were appended and not yet written.
struct Tail {
    segment: Arc<Segment>,
    /// The position of the first byte of `buffer`.
    buffer_base: u64,
    buffer: Vec<u8>,
    writeback_base: u64,
    /// The unit of writeback at present.
    writeback_bytes: u64,
    /// What the last order marker in the segment states.
    order: Option<u64>,
    /// The length at which the segment is complete, in a log without slots.
    length_max: u64,
}

impl Tail {
    fn end(&self) -> u64 {
        self.buffer_base + self.buffer.len() as u64
    }
}

/// What the logs of a database may share.
struct Shared {
    health: Arc<Health>,
    slots: Option<Arc<SlotTable>>,
}

/// What the next sync has to cover.
struct Syncing {
    /// Everything from the segment with this position on is unsynced.
    from: u64,
    directory_base: u64,
}

/// Returns the length at which a segment is complete, of a log of this length without slots.
fn length_max(segment_bytes: u64, log_bytes: u64) -> u64 {
    (log_bytes / SEGMENTS_MIN).max(SEGMENT_LENGTH_MIN).min(segment_bytes)
}

impl Log {
    /// Creates an empty log at `position`.
    pub fn create(
        directory: &Directory,
        format: LogFormat,
        segment_bytes: u64,
        position: u64,
    ) -> Result<Log> {
        Self::create_in(directory, format, segment_bytes, position, &Arc::default())
    }

    /// Like [`create`](Log::create), with a health that logs share.
    pub(crate) fn create_in(
        directory: &Directory,
        format: LogFormat,
        segment_bytes: u64,
        position: u64,
        health: &Arc<Health>,
    ) -> Result<Log> {
        let segment = Self::create_segment(directory, &format, position, Slots::default())?;
        let shared = Shared { health: health.clone(), slots: None };
        Ok(Self::assemble(directory, format, segment_bytes, shared, vec![Arc::new(segment)], position))
    }

    fn assemble(
        directory: &Directory,
        format: LogFormat,
        segment_bytes: u64,
        shared: Shared,
        segments: Vec<Arc<Segment>>,
        end: u64,
    ) -> Log {
        let last = segments[segments.len() - 1].clone();
        let first_base = segments[0].base;
        let Shared { health, slots } = shared;
        let tail = Tail {
            segment: last,
            buffer_base: end,
            buffer: Vec::new(),
            writeback_base: end,
            writeback_bytes: directory.writeback_bytes(),
            order: None,
            length_max: length_max(segment_bytes, end - first_base),
        };
        Log {
            directory: directory.clone(),
            format,
            segment_bytes,
            slots,
            segments: Published::new(Arc::new(Segments(segments))),
            tail: FailStop::new(&health, tail),
            written: AtomicU64::new(end),
            synced: AtomicU64::new(0),
            recordless: AtomicU64::new(0),
            syncing: FailStop::new(&health, Syncing { from: first_base, directory_base: 0 }),
            health,
            buffer_bytes_max: AtomicUsize::new(BUFFER_BYTES_MAX),
            frame_bytes: AtomicUsize::new(0),
        }
    }

    /// Records that everything before `durable` was synced before the log was opened. If `is_all`, no record follows,
    /// so nothing has to be synced.
    fn start_synced(&self, durable: u64, is_all: bool) -> Result<()> {
        self.synced.store(durable, Ordering::Release);
        if is_all {
            self.recordless.store(self.end(), Ordering::Release);
        }
        self.syncing.run(|syncing| {
            syncing.from = syncing.from.max(durable);
            Ok(())
        })
    }

    /// Creates an empty log at `position`, which is durable once the directory is synced. Returns the name of its file.
    pub fn begin(directory: &Directory, format: &LogFormat, position: u64) -> Result<String> {
        Self::begin_in(directory, format, position, Slots::default())
    }

    /// Like [`begin`](Log::begin), for a log of data: the first segment has these slots.
    pub(in crate::store) fn begin_in(
        directory: &Directory,
        format: &LogFormat,
        position: u64,
        slots: Slots,
    ) -> Result<String> {
        Self::create_segment(directory, format, position, slots)?.file().sync(Purpose::Recover)?;
        Ok(format.segment_name(position))
    }

    /// Like [`begin`](Log::begin), with the frames of one batch in the log, which is not in the files of another log of
    /// its class. Returns the end. No sync marker says that they are durable: only a manifest makes them count.
    pub(in crate::store) fn begin_with<'a>(
        directory: &Directory,
        format: &LogFormat,
        position: u64,
        records: impl ExactSizeIterator<Item = RecordView<'a>>,
    ) -> Result<u64> {
        let segment = Self::create_segment(directory, format, position, Slots::default())?;
        let (mut frames, mut left) = (Vec::new(), records.len());
        for record in records {
            left -= 1;
            // All but the last say that the batch continues: an open takes all of them or none.
            format.encode_record(position + frames.len() as u64, &record, left > 0, &mut frames);
        }
        segment.file().write(format.purpose(), SEGMENT_HEADER_BYTES as u64, &frames)?;
        segment.file().sync(format.purpose())?;
        Ok(position + frames.len() as u64)
    }

    /// Creates a segment without frames.
    pub(in crate::store) fn create_segment(
        directory: &Directory,
        format: &LogFormat,
        base: u64,
        slots: Slots,
    ) -> Result<Segment> {
        // The next sync of the log covers header and name. Until then, a crash may leave a segment that counts as torn.
        let file = directory.create(&format.segment_name(base), Access::Buffered)?;
        let header = format.header(base, slots);
        file.write(format.purpose(), 0, &header.encode())?;
        Ok(Segment::new(file, &header))
    }

    /// Returns the directory.
    pub(in crate::store) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Returns the parameters of the bytes.
    pub(in crate::store) fn format(&self) -> &LogFormat {
        &self.format
    }

    /// Returns the position of the next frame.
    pub fn end(&self) -> u64 {
        self.tail.look(Tail::end)
    }

    /// Returns the position of the first frame that is kept.
    pub fn start(&self) -> u64 {
        self.segments.read().0.first().map_or(0, |segment| segment.base)
    }

    /// Returns the health of the log, where the engine records its failures as well.
    pub(crate) fn health(&self) -> &Arc<Health> {
        &self.health
    }

    /// Returns the position before which everything survives a power loss.
    pub fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    /// Appends the records of one batch and passes the position of each to `place`. Writes them to the file, unless
    /// `durability` is `Buffered`; [`sync_to`](Log::sync_to) syncs. After an error no record of the batch counts as
    /// appended, and the log refuses all later writes and syncs.
    #[inline]
    pub fn append<'a>(
        &self,
        records: impl ExactSizeIterator<Item = RecordView<'a>> + Clone,
        durability: Durability,
        mut place: impl FnMut(u64),
    ) -> Result<u64> {
        self.append_data(None, 0, records, durability, |_, position, _| place(position))
    }

    /// Like [`append`](Log::append); with `order`, in a segment with an order marker of this position before the
    /// records. All frames have `flags`. Also passes the segment and the length of each frame.
    #[inline]
    pub(in crate::store) fn append_data<'a>(
        &self,
        order: Option<u64>,
        flags: u8,
        records: impl ExactSizeIterator<Item = RecordView<'a>> + Clone,
        durability: Durability,
        mut place: impl FnMut(&Segment, u64, usize),
    ) -> Result<u64> {
        self.tail.run(|tail| {
            let before = tail.end();
            // A batch never spans segments: the segment changes only between batches.
            match &self.slots {
                None if tail.end() - tail.segment.base >= tail.length_max => self.start_segment(tail, 0)?,
                None => {}
                Some(_) => self.make_room(tail, order, records.clone())?,
            }
            let mut left = records.len();
            for record in records {
                left -= 1;
                let position = tail.end();
                let start = tail.buffer.len();
                let goes_on = if left > 0 { FLAG_BATCH_GOES_ON } else { 0 };
                self.format.encode_flagged(position, &record, flags | goes_on, &mut tail.buffer);
                let length = tail.buffer.len() - start;
                self.note_frame(length);
                // Before the write: after an error the caller gets no end and must not use these positions.
                place(&tail.segment, position, length);
            }
            let end = tail.end();
            if let Some(slots) = &self.slots {
                slots.add_bytes(end - before);
            }
            // Before the tail is unlocked: what is `Written` survives the end of the process when the call returns.
            if durability != Durability::Buffered
                || tail.buffer.len() >= self.buffer_bytes_max.load(Ordering::Relaxed)
            {
                self.flush(tail)?;
            }
            Ok(end)
        })
    }

    /// Limits the number of buffered bytes. The default and maximum is 64 KiB.
    pub fn limit_buffer(&self, bytes: usize) {
        self.buffer_bytes_max.store(bytes.min(BUFFER_BYTES_MAX), Ordering::Relaxed);
    }

    fn flush(&self, tail: &mut Tail) -> Result<()> {
        if tail.buffer.is_empty() {
            return Ok(());
        }
        // After an error the buffer is kept, and no thread writes any more: the file may end with a part of a frame.
        tail.segment.append(self.format.purpose(), tail.buffer_base, &tail.buffer)?;
        tail.buffer_base += tail.buffer.len() as u64;
        tail.buffer.clear();
        tail.buffer.shrink_to(self.buffer_bytes_max.load(Ordering::Relaxed));
        // Only now may readers use the file: `written` is published after the write.
        self.written.store(tail.buffer_base, Ordering::Release);
        if tail.buffer_base - tail.writeback_base >= tail.writeback_bytes {
            // Without the last page, to which the next write appends.
            let end = tail.buffer_base - tail.segment.offset_of(tail.buffer_base) % PAGE_BYTES;
            let start = tail.segment.offset_of(tail.writeback_base);
            tail.segment.file().start_writeback(start, end - tail.writeback_base);
            tail.writeback_base = end;
            tail.writeback_bytes = self.directory.writeback_bytes();
        }
        Ok(())
    }

    /// Starts a segment; in a log of data, with slots for `bytes`.
    fn start_segment(&self, tail: &mut Tail, bytes: u64) -> Result<()> {
        self.flush(tail)?;
        // Everything was written, so this is the end of one segment and the base of the next one.
        let base = tail.buffer_base;
        tail.segment.file().truncate(tail.segment.offset_of(base))?;
        let slots = self.slots.as_ref().map_or(Ok(Slots::default()), |slots| slots.take(bytes))?;
        let segment = Arc::new(Self::create_segment(&self.directory, &self.format, base, slots)?);
        // Only now: if the new file cannot be made, the old segment must not have an end without a successor.
        tail.segment.complete(base);
        if let Some(slots) = &self.slots {
            slots.add_unfinished();
        }
        tail.segment = segment.clone();
        tail.writeback_base = base;
        tail.order = None;
        tail.length_max = length_max(self.segment_bytes, base - self.start());
        if let Some(slots) = &self.slots {
            slots.add(&segment);
        }
        // Views hold the old list, so it is replaced and not changed.
        self.segments.change(|segments| {
            let list = segments.0.iter().cloned().chain([segment]);
            (Some(Segments(list.collect())), ())
        });
        Ok(())
    }

    /// Blocks until everything before `position` survives a power loss. Concurrent callers share a sync. If it fails,
    /// all of them and all later ones are refused: the system may have dropped pages that it could not write, and
    /// another sync would succeed without them.
    pub fn sync_to(&self, position: u64) -> Result<()> {
        if self.synced() >= position {
            return Ok(());
        }
        self.syncing.run(|syncing| {
            // Another caller's sync may have covered the position while this one waited for the lock.
            if self.synced() >= position {
                return Ok(());
            }
            // The target is fixed before the sync: records appended later are not covered by it.
            let target = self.tail.run(|tail| {
                self.flush(tail)?;
                Ok(tail.buffer_base)
            })?;
            // After the target: every segment with frames before it is in this list.
            let segments = self.segments.read();
            for segment in segments.0.iter().filter(|segment| segment.base < target) {
                let end = segment.end().unwrap_or(target);
                // What ends before was covered by an earlier sync.
                if end > syncing.from || segment.base >= syncing.from {
                    segment.file().sync(self.format.purpose())?;
                }
            }
            let last_base = segments.0.last().map_or(0, |segment| segment.base);
            // The directory entry of a new segment must be durable too.
            if syncing.directory_base <= last_base {
                self.directory.sync(self.format.purpose())?;
                syncing.directory_base = last_base + 1;
            }
            syncing.from = target;
            // After both syncs, because callers that find it return at once.
            self.synced.store(target, Ordering::Release);
            // After the sync: a marker that survives a crash proves that everything before `target` had become durable.
            self.mark(target)
        })
    }

    /// Appends a marker that the log is synced up to `synced`: damage before this position is then known not to be a
    /// torn end.
    fn mark(&self, synced: u64) -> Result<()> {
        self.tail.run(|tail| {
            let before = tail.end();
            self.make_room_for(tail, self.format.marker_bytes() as u64)?;
            let position = tail.end();
            self.format.encode_sync_marker(position, synced, &mut tail.buffer);
            // Only this marker follows the synced position, so all records are still synced.
            if position == synced {
                self.recordless.store(position + self.format.marker_bytes() as u64, Ordering::Release);
            }
            if let Some(slots) = &self.slots {
                slots.add_bytes(tail.end() - before);
            }
            self.flush(tail)
        })
    }

    /// Returns whether all records survive a power loss.
    pub fn is_synced(&self) -> bool {
        // The end first: what is appended after this look is not covered by it.
        let end = self.end();
        self.synced() >= end || self.recordless.load(Ordering::Acquire) == end
    }

    /// Starts a new segment, unless the last one is empty, so that all earlier ones can be released once they are
    /// converted.
    pub fn start_new_segment(&self) -> Result<()> {
        self.tail
            // An empty one is left: a segment with the same base would have the same name.
            .run(|tail| if tail.end() == tail.segment.base { Ok(()) } else { self.start_segment(tail, 0) })
    }

    /// Writes the buffered bytes.
    pub fn write_buffered(&self) -> Result<()> {
        self.tail.run(|tail| self.flush(tail))
    }

    /// Ends the last segment where its frames end, for a log that is closed.
    pub fn end_append(&self) -> Result<()> {
        self.tail.run(|tail| {
            self.flush(tail)?;
            Ok(tail.segment.file().truncate(tail.segment.offset_of(tail.buffer_base))?)
        })
    }

    /// Removes segments that have nothing at or after `position`, except the last one that is known to be durable.
    pub fn release_before(&self, position: u64) -> Result<()> {
        let synced = self.synced();
        let released = self.segments.change(|segments| {
            // With `end < synced` the next segment has durable frames, so recovery knows that the log continues there.
            let is_needed =
                |segment: &Segment| segment.end().is_none_or(|end| end > position || end >= synced);
            // Ends ascend, so the released segments are the first ones.
            let count = segments.0.iter().take_while(|segment| !is_needed(segment)).count();
            let (released, rest) = segments.0.split_at(count);
            ((count > 0).then(|| Segments(rest.to_vec())), released.to_vec())
        });
        Ok(released.iter().try_for_each(|segment| {
            self.directory.remove_open(&self.format.segment_name(segment.base), segment.file())
        })?)
    }

    /// Returns the present log for reading: its segments stay readable while the view is held.
    pub fn view(self: &Arc<Self>) -> LogView {
        LogView::new(self.clone(), self.segments.read().to_arc())
    }

    /// Returns the present segments for one lookup: they stay readable while this is held.
    #[inline]
    pub fn readable(&self) -> ReadableSegments {
        ReadableSegments(self.segments.read())
    }

    /// Returns the bytes of all segments on flash, with the space that is reserved for appending.
    pub fn disk_bytes(&self) -> u64 {
        let segments = self.segments.read();
        // A crash may have left bytes behind the end of a segment that was finished before.
        let bytes = |segment: &Arc<Segment>| segment.file().length().unwrap_or(0);
        segments.0.iter().map(bytes).sum()
    }

    /// Returns the memory of the log, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.tail.look(|tail| tail.buffer.capacity())
    }

    /// Returns the error that the bytes at a position are not what was expected.
    pub(in crate::store) fn corrupt(
        &self,
        position: u64,
        expected: impl Into<String>,
        got: impl Into<String>,
    ) -> Error {
        match self.segments.read().at(position) {
            Some(segment) => segment.file().corrupt(segment.offset_of(position), expected, got),
            None => self.path_error(format!("position {position}")),
        }
    }

    fn path_error(&self, problem: impl Into<String>) -> Error {
        Error::Corrupt {
            file: self.directory.path().join("log"),
            offset: 0,
            expected: "a position within the log".into(),
            got: problem.into(),
        }
    }
}
