//! Reads a record by its position, from the file of its segment or from the bytes that are not yet written.

use super::Log;
use super::segment::{NO_FRAME, Segment};
use crate::error::Result;
use crate::store::log_format::{FRAME_CRC_BYTES, Frame};
use crate::store::record::{RecordProblem, RecordSpan, RecordView};
use siltstone_device::{AlignedBuffer, Purpose};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// The maximum number of bytes that are read at first for a record of unknown size.
pub const READ_BYTES_GUESS: usize = 4096;

/// What bytes at the position of a record are.
pub(in crate::store) enum Decoded<'a> {
    /// The record.
    Record(RecordView<'a>),
    /// Its first bytes; at least this many are needed.
    Short(usize),
}

impl Log {
    /// Returns how many bytes are read at first for a record: those of the longest frame that was appended or read
    /// since the log was opened.
    pub(in crate::store) fn first_read_bytes(&self) -> usize {
        match self.format.layout.fixed {
            Some(_) => self.format.padded(FRAME_CRC_BYTES + self.format.layout.stream_bytes_max()),
            None => match self.frame_bytes.load(Ordering::Relaxed) {
                0 => READ_BYTES_GUESS,
                longest => longest,
            },
        }
    }

    /// Makes first reads long enough for a frame of this length, up to their maximum.
    #[inline]
    pub(super) fn note_frame(&self, length: usize) {
        let frame_bytes = length.min(READ_BYTES_GUESS);
        // Mostly false, and a load leaves the word to the other threads as well.
        if frame_bytes > self.frame_bytes.load(Ordering::Relaxed) {
            self.frame_bytes.fetch_max(frame_bytes, Ordering::Relaxed);
        }
    }

    /// Reads the record at a position of a segment into `buffer`, and returns its place there.
    #[inline]
    pub(in crate::store) fn read_record(
        &self,
        segment: &Segment,
        purpose: Purpose,
        position: u64,
        buffer: &mut AlignedBuffer,
    ) -> Result<RecordSpan> {
        // Each round asks for more than the one before, so the loop ends.
        let mut wanted = self.first_read_bytes();
        loop {
            let held = self.fetch(segment, purpose, position, wanted, buffer)?;
            let bytes = buffer.get(held).unwrap_or_default();
            match self.decode(segment, position, bytes, wanted)? {
                Decoded::Record(record) => return Ok(RecordSpan::within(buffer, &record)),
                Decoded::Short(needed) => wanted = needed,
            }
        }
    }

    /// Decodes the record at a position from `wanted` bytes, or from all that exist.
    pub(in crate::store) fn decode<'a>(
        &self,
        segment: &Segment,
        position: u64,
        bytes: &'a [u8],
        wanted: usize,
    ) -> Result<Decoded<'a>> {
        let got = match self.format.decode_frame(position, bytes) {
            Ok((Frame::Record { record, .. }, length)) => {
                self.note_frame(length);
                return Ok(Decoded::Record(record));
            }
            // Only if the read was full: fewer bytes are all that the segment has.
            Err(RecordProblem::Short(needed)) if bytes.len() == wanted && needed > wanted => {
                return Ok(Decoded::Short(needed));
            }
            Ok((Frame::SyncMarker(_) | Frame::OrderMarker(_), _)) => "a marker",
            Err(RecordProblem::Short(_)) => "the end of the log",
            Err(RecordProblem::Malformed(_)) => NO_FRAME,
        };
        Err(segment.damaged(position, got))
    }

    /// Reads up to `wanted` bytes from `position` on into `buffer`; fewer at the end of a segment. Returns where they
    /// are there.
    pub(super) fn fetch(
        &self,
        segment: &Segment,
        purpose: Purpose,
        position: u64,
        wanted: usize,
        buffer: &mut AlignedBuffer,
    ) -> Result<Range<usize>> {
        if self.fetch_unwritten(position, wanted, buffer) {
            return Ok(0..buffer.len());
        }
        let (offset, length) = self.extent(segment, position, wanted)?;
        // Taken once: when the segment is finished, another file may replace it, with another alignment.
        let file = segment.file();
        file.read(purpose, offset, length, buffer)?;
        // The buffer begins where the sector of the record does.
        let skip = (offset % file.alignment() as u64) as usize;
        Ok(skip..skip + length)
    }

    /// Returns the offset in the file and the length of a read of up to `wanted` written bytes from `position` on.
    pub(in crate::store) fn extent(
        &self,
        segment: &Segment,
        position: u64,
        wanted: usize,
    ) -> Result<(u64, usize)> {
        // In this order: if the segment still grows after `written` was read, it has everything before that position.
        let written = self.written.load(Ordering::Acquire);
        let end = segment.end().unwrap_or(written);
        let length = end.saturating_sub(position).min(wanted as u64) as usize;
        if length == 0 {
            return Err(segment.damaged(position, "the end of the log"));
        }
        Ok((segment.offset_of(position), length))
    }

    /// Returns whether the file has what is at a position.
    pub(in crate::store) fn is_written(&self, position: u64) -> bool {
        position < self.written.load(Ordering::Acquire)
    }

    /// Copies up to `wanted` bytes from `position` on into `buffer` if they are not yet written.
    fn fetch_unwritten(&self, position: u64, wanted: usize, buffer: &mut AlignedBuffer) -> bool {
        !self.is_written(position)
            && self.tail.look(|tail| {
                // Written since the check: the caller then reads it from the file.
                let Some(start) = position.checked_sub(tail.buffer_base) else { return false };
                let Some(bytes) = tail.buffer.get(start as usize..) else { return false };
                let bytes = &bytes[..bytes.len().min(wanted)];
                buffer.resize(bytes.len());
                buffer.copy_from_slice(bytes);
                true
            })
    }
}
