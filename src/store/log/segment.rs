//! The segments of a log, and reading a record by its position.

use super::Log;
use super::format::{FRAME_CRC_BYTES, Frame, LogFormat, SEGMENT_HEADER_BYTES};
use crate::Result;
use crate::device::{AlignedBuffer, File, Purpose};
use crate::store::examine::{Advance, Seen, Unreadable, examine_frames};
use crate::store::record::{RecordLayout, RecordProblem, RecordSpan};
use crate::sync::atomic::{AtomicU64, Ordering};
use std::ops::Range;
use std::sync::Arc;

/// A file of the log.
pub(super) struct Segment {
    pub file: File,
    /// The position of its first frame.
    pub base: u64,
    /// The position after its last frame; [`GROWS`] while it is being appended to.
    end: AtomicU64,
}

const GROWS: u64 = u64::MAX;

const NO_FRAME: &str = "bytes that are not a frame of this position";

impl Segment {
    /// Makes the last segment of a log.
    pub fn new(file: File, base: u64) -> Segment {
        Segment { file, base, end: AtomicU64::new(GROWS) }
    }

    /// Returns the position after its last frame; `None` for the last segment, which still grows.
    pub fn end(&self) -> Option<u64> {
        Some(self.end.load(Ordering::Acquire)).filter(|&end| end != GROWS)
    }

    /// Marks the segment as complete: another one follows.
    pub fn finish(&self, end: u64) {
        self.end.store(end, Ordering::Release);
    }

    /// Returns the offset of a position in the file, in bytes.
    pub fn offset_of(&self, position: u64) -> u64 {
        (position - self.base).saturating_add(SEGMENT_HEADER_BYTES as u64)
    }

    /// Passes every frame at these positions to `visit`, with its position and its bytes. `advance` is called with the
    /// number of further bytes read, and returns `false` to stop.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) if there is anything else than frames.
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
            Seen::Gap { positions, .. } => Err(self.damaged(positions.start, NO_FRAME)),
        };
        let end =
            examine_frames(&self.file, Unreadable::Fails, format, self.base, positions, advance, &mut see)?;
        if end < until { Err(self.damaged(end, NO_FRAME)) } else { Ok(()) }
    }

    fn damaged(&self, position: u64, got: &str) -> crate::Error {
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
        let after = self.0.partition_point(|segment| segment.base <= position);
        after.checked_sub(1).and_then(|index| self.0.get(index))
    }
}

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

    /// Reads the record at a position into `buffer`, and returns its place there. Takes one read, two for a large
    /// record of a database without fixed sizes, and none for a record that is not yet written.
    pub fn read(&self, purpose: Purpose, position: u64, buffer: &mut AlignedBuffer) -> Result<RecordSpan> {
        let mut wanted = match self.log.format.layout.fixed {
            Some(_) => FRAME_CRC_BYTES + self.log.format.layout.stream_bytes_max(),
            None => match self.log.frame_bytes.load(Ordering::Relaxed) {
                0 => super::READ_BYTES_GUESS,
                longest => longest,
            },
        };
        loop {
            self.fetch(purpose, position, wanted, buffer)?;
            let got = match self.log.format.decode_frame(position, buffer) {
                Ok((Frame::Record { record, .. }, _)) => return Ok(RecordSpan::within(buffer, &record)),
                Err(RecordProblem::Short(needed)) if buffer.len() == wanted && needed > wanted => {
                    wanted = needed;
                    continue;
                }
                Ok((Frame::SyncMarker(_) | Frame::OrderMarker(_), _)) => "a marker",
                Err(RecordProblem::Short(_)) => "the end of the log",
                Err(RecordProblem::Malformed(_)) => NO_FRAME,
            };
            return Err(self.damaged(position, got));
        }
    }

    /// Reads up to `wanted` bytes from `position` on into `buffer`; fewer at the end of a segment.
    fn fetch(
        &self,
        purpose: Purpose,
        position: u64,
        wanted: usize,
        buffer: &mut AlignedBuffer,
    ) -> Result<()> {
        let Some(segment) = self.segments.at(position) else {
            return Err(self.log.path_error(format!("position {position}, which was released")));
        };
        let written = self.log.written.load(Ordering::Acquire);
        if position >= written && self.fetch_unwritten(position, wanted, buffer) {
            return Ok(());
        }
        // In this order: if the segment still grows after `written` was read, it has everything before that position.
        let written = self.log.written.load(Ordering::Acquire);
        let end = segment.end().unwrap_or(written);
        let held = end.saturating_sub(position);
        let length = held.min(wanted as u64) as usize;
        if length == 0 {
            return Err(self.damaged(position, "the end of the log"));
        }
        // Segments are buffered files: their alignment is one byte, so the buffer has exactly the requested bytes.
        segment.file.read(purpose, segment.offset_of(position), length, buffer)?;
        Ok(())
    }

    fn fetch_unwritten(&self, position: u64, wanted: usize, buffer: &mut AlignedBuffer) -> bool {
        self.log.tail.look(|tail| {
            let Some(start) = position.checked_sub(tail.buffer_base) else { return false };
            let Some(bytes) = tail.buffer.get(start as usize..) else { return false };
            let bytes = &bytes[..bytes.len().min(wanted)];
            buffer.resize(bytes.len());
            buffer.copy_from_slice(bytes);
            true
        })
    }

    fn damaged(&self, position: u64, got: &str) -> crate::Error {
        match self.segments.at(position) {
            Some(segment) => segment.damaged(position, got),
            None => self.log.path_error(format!("position {position}")),
        }
    }
}
