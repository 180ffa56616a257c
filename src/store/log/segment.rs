//! The segments of a log, and reading a record by its position.

use super::Log;
use crate::error::{CorruptFile, Result};
use crate::key::RecordLayout;
use crate::names::LogClass;
use crate::store::examine::{Advance, Seen, Unreadable, examine_frames};
use crate::store::log_format::{Frame, LogFormat, SEGMENT_HEADER_BYTES, SegmentHeader, Slots};
use crate::store::record::RecordSpan;
use siltstone_device::sync::Reading;
use siltstone_device::sync::atomic::{AtomicU64, Ordering};
use siltstone_device::{AlignedBuffer, File, Purpose};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// A file of the log.
pub(in crate::store) struct Segment {
    /// The file, through the page cache while frames are appended.
    file: File,
    /// Set when the segment is finished; with the file to read from then on, if it is another one.
    finished: OnceLock<Option<File>>,
    /// The class of its log.
    pub class: LogClass,
    /// The id of the database that wrote it.
    pub database_id: u64,
    /// The position of its first frame.
    pub base: u64,
    /// Its slots.
    pub slots: Slots,
    /// The position after its last frame; [`GROWS`] while it is being appended to.
    end: AtomicU64,
    /// The number of records, dead ones included. Only logs of data count them.
    pub records: AtomicU64,
    /// The bytes of frames that nothing points to any more, as far as they are known.
    pub dead_bytes: AtomicU64,
    /// The position of the log of class `User` that states the age of its records.
    pub order: AtomicU64,
}

const GROWS: u64 = u64::MAX;

/// What is found in place of a damaged frame.
pub(super) const NO_FRAME: &str = "bytes that are not a frame of this position";

impl Segment {
    /// Makes the last segment of a log.
    pub fn new(file: File, header: &SegmentHeader) -> Segment {
        let SegmentHeader { class, database_id, base, slots, .. } = *header;
        let order = if class == LogClass::User { base } else { 0 };
        Segment {
            file,
            finished: OnceLock::new(),
            class,
            database_id,
            base,
            slots,
            end: AtomicU64::new(GROWS),
            records: AtomicU64::new(0),
            dead_bytes: AtomicU64::new(0),
            order: AtomicU64::new(order),
        }
    }

    /// Returns the file.
    pub fn file(&self) -> &File {
        // Both stay open: a read that began with the first one ends with it.
        self.finished.get().and_then(Option::as_ref).unwrap_or(&self.file)
    }

    /// Returns whether the segment is finished: complete, synced, and read with the access of the directory.
    pub fn is_finished(&self) -> bool {
        self.finished.get().is_some()
    }

    /// Marks a complete segment as finished. From now on it is read from `file`, if that is given.
    pub fn set_finished(&self, file: Option<File>) {
        // A segment is finished once: by the open, or under the lock of syncs.
        let _ = self.finished.set(file);
    }

    /// Returns the position after its last frame; `None` for the last segment, which still grows.
    pub fn end(&self) -> Option<u64> {
        // Pairs with `complete`: a thread that sees the end sees all records counted.
        Some(self.end.load(Ordering::Acquire)).filter(|&end| end != GROWS)
    }

    /// Returns the bytes of its header, and of its frames if it is complete.
    pub fn file_bytes(&self) -> u64 {
        SEGMENT_HEADER_BYTES as u64 + self.end().map_or(0, |end| end - self.base)
    }

    /// Marks the segment as complete: another one follows.
    pub fn complete(&self, end: u64) {
        self.end.store(end, Ordering::Release);
    }

    /// Returns the offset of a position in the file, in bytes.
    pub fn offset_of(&self, position: u64) -> u64 {
        (position - self.base).saturating_add(SEGMENT_HEADER_BYTES as u64)
    }

    /// Appends frames at `position`, after all others.
    pub fn append(&self, purpose: Purpose, position: u64, frames: &[u8]) -> Result<()> {
        let offset = position - self.base + SEGMENT_HEADER_BYTES as u64;
        // Never to the file of `finished`: only the last segment is appended to.
        Ok(self.file.append(purpose, offset, frames)?)
    }

    /// Passes every frame at these positions to `visit`, with its position and its bytes. `advance` is called with the
    /// number of further bytes read, and returns `false` to stop.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) if there is anything other than frames.
    pub fn frames(
        &self,
        format: &LogFormat,
        positions: Range<u64>,
        advance: &mut Advance<'_>,
        visit: &mut VisitFrame<'_>,
    ) -> Result<()> {
        if positions.is_empty() {
            return Ok(());
        }
        let until = positions.end;
        let mut see = |seen: Seen<'_>| match seen {
            Seen::Frame { positions, frame, bytes } => visit(positions.start, frame, bytes),
            // An open has examined these bytes, or they were written since: nothing is torn here.
            Seen::Gap { positions, .. } => Err(self.damaged(positions.start, NO_FRAME)),
        };
        let file = self.file();
        let end = examine_frames(file, Unreadable::Fails, format, self.base, positions, advance, &mut see)?;
        // Zeros up to the end: only a segment that grows has reserved space.
        if end < until { Err(self.damaged(end, NO_FRAME)) } else { Ok(()) }
    }

    /// Returns the error that there is no record at a position.
    pub fn damaged(&self, position: u64, got: &str) -> crate::error::Error {
        self.file.corrupt(self.offset_of(position), "a record of the log", got)
    }
}

/// Called with the position of a frame, with the frame and its bytes.
type VisitFrame<'a> = dyn FnMut(u64, Frame<'_>, &[u8]) -> Result<()> + 'a;

/// All segments, in the order of their positions.
pub(super) struct Segments(pub Vec<Arc<Segment>>);

impl Segments {
    /// Returns the segment of a position.
    pub fn at(&self, position: u64) -> Option<&Arc<Segment>> {
        // The last one that begins at or before it. If it ends before, the read finds nothing there.
        let after = self.0.partition_point(|segment| segment.base <= position);
        after.checked_sub(1).and_then(|index| self.0.get(index))
    }
}

/// The segments of the log at the moment of a lookup, which stay readable while this is held.
pub struct ReadableSegments(pub(super) Reading<Segments>);

/// The log at one moment. Its contents can be read while the view is held.
#[derive(Clone)]
pub struct LogView {
    log: Arc<Log>,
    segments: Arc<Segments>,
}

impl LogView {
    pub(super) fn new(log: Arc<Log>, segments: Arc<Segments>) -> Self {
        LogView { log, segments }
    }

    /// Returns the layout of the records.
    pub fn layout(&self) -> &RecordLayout {
        &self.log.format.layout
    }

    /// Returns the parameters of the bytes.
    pub(in crate::store) fn format(&self) -> &LogFormat {
        &self.log.format
    }

    /// Reads up to `wanted` bytes from `position` on into `buffer`; fewer at the end of a segment. Returns where they
    /// are there.
    pub(in crate::store) fn read_bytes(
        &self,
        purpose: Purpose,
        position: u64,
        wanted: usize,
        buffer: &mut AlignedBuffer,
    ) -> Result<Range<usize>> {
        match self.segments.at(position) {
            // The segment of the view, which keeps its file readable after a release.
            Some(segment) => self.log.fetch(segment, purpose, position, wanted, buffer),
            None => Err(self.log.path_error(format!("position {position}, which was released"))),
        }
    }

    /// Returns the segments.
    pub fn readable(&self) -> ReadableSegments {
        ReadableSegments(self.segments.clone().into())
    }

    /// Reads a record; see [`Log::read`].
    pub fn read(&self, purpose: Purpose, position: u64, buffer: &mut AlignedBuffer) -> Result<RecordSpan> {
        self.log.read_of(&self.segments, purpose, position, buffer)
    }
}

impl Log {
    /// Reads the record at a position into `buffer`, and returns its place there. Takes one read, two for a large
    /// record of a database without fixed sizes, and none for a record that is not yet written.
    #[inline]
    pub fn read(
        &self,
        segments: &ReadableSegments,
        purpose: Purpose,
        position: u64,
        buffer: &mut AlignedBuffer,
    ) -> Result<RecordSpan> {
        self.read_of(&segments.0, purpose, position, buffer)
    }

    fn read_of(
        &self,
        segments: &Segments,
        purpose: Purpose,
        position: u64,
        buffer: &mut AlignedBuffer,
    ) -> Result<RecordSpan> {
        match segments.at(position) {
            Some(segment) => self.read_record(segment, purpose, position, buffer),
            None => Err(self.path_error(format!("position {position}, which was released"))),
        }
    }
}
