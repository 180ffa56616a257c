//! Reads the records of a segment sequentially.

use crate::Result;
use crate::device::{Purpose, ReadAhead};
use crate::store::log::format::{Frame, SEGMENT_HEADER_BYTES};
use crate::store::log::{Log, Segment, SlotTable, Unit};
use crate::store::record::{RecordProblem, RecordView};
use std::sync::Arc;

/// The bytes per read.
const READ_BYTES: usize = 256 << 10;
/// Reads begin and end at multiples of this, so that direct I/O reads no sector twice.
const READ_UNIT_BYTES: usize = 4096;

/// A sequential reader of the records of a segment: all that it had when the reader was made, also those that were not
/// yet written.
pub struct Frames {
    slots: Arc<SlotTable>,
    source: Option<Source>,
    /// The bytes from `position` on that were read.
    held: Vec<u8>,
    read_ahead: ReadAhead,
}

struct Source {
    log: Arc<Log>,
    segment: Arc<Segment>,
    /// The position of the next frame.
    position: u64,
    /// The offset in the file of the next byte to read, and where its frames end.
    offset: u64,
    end_offset: u64,
    /// The frames that were not yet written.
    unwritten: Vec<u8>,
}

impl Frames {
    pub(super) fn new(
        slots: Arc<SlotTable>,
        source: Option<(Arc<Log>, Arc<Segment>)>,
        purpose: Purpose,
    ) -> Frames {
        let source = source.map(|(log, segment)| {
            let (written, unwritten) = log.unwritten_of(&segment);
            let (position, end_offset) = (segment.base, segment.offset_of(written));
            Source { log, segment, position, offset: 0, end_offset, unwritten }
        });
        let read_ahead = ReadAhead::new(purpose, READ_BYTES, READ_UNIT_BYTES);
        Frames { slots, source, held: Vec::new(), read_ahead }
    }

    /// Passes the records of about the next `bytes` bytes of frames to `visit`, each with its unit and the length of
    /// its frame. Returns whether there may be more.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) if there is anything else than frames; errors of reading and of
    /// `visit`. After an error the reader must not be used.
    pub fn next_piece(
        &mut self,
        bytes: usize,
        visit: &mut dyn FnMut(Unit, &RecordView<'_>, u32) -> Result<()>,
    ) -> Result<bool> {
        let Some(source) = &mut self.source else { return Ok(false) };
        let (mut at, mut needed) = (0, 1);
        loop {
            match source.log.format().decode_frame(source.position, &self.held[at..]) {
                Ok((frame, length)) => {
                    if let Frame::Record { record, .. } = frame {
                        visit(self.slots.unit_of(&source.segment, source.position), &record, length as u32)?;
                    }
                    (at, needed) = (at + length, 1);
                    source.position += length as u64;
                    if at >= bytes {
                        break;
                    }
                }
                Err(RecordProblem::Malformed(_)) => return Err(source.damaged()),
                Err(RecordProblem::Short(wanted)) => {
                    self.held.drain(..at);
                    at = 0;
                    needed = wanted.max(needed + 1);
                    if !source.read(&mut self.read_ahead, needed, &mut self.held)? {
                        return if self.held.is_empty() { Ok(false) } else { Err(source.damaged()) };
                    }
                }
            }
        }
        self.held.drain(..at);
        Ok(!self.held.is_empty() || source.has_more())
    }

    /// Returns the memory of the reader, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let unwritten = self.source.as_ref().map_or(0, |source| source.unwritten.capacity());
        self.held.capacity() + unwritten + self.read_ahead.heap_bytes()
    }
}

impl Source {
    fn has_more(&self) -> bool {
        self.offset < self.end_offset || !self.unwritten.is_empty()
    }

    /// Reads until at least `needed` bytes are held. Returns whether there are more than before.
    fn read(&mut self, ahead: &mut ReadAhead, needed: usize, held: &mut Vec<u8>) -> Result<bool> {
        let before = held.len();
        if self.offset < self.end_offset {
            let header = SEGMENT_HEADER_BYTES.saturating_sub(self.offset as usize);
            let missing = header + needed.saturating_sub(held.len());
            let rest = self.offset..self.end_offset;
            self.offset = ahead.read(self.segment.file(), rest, missing, |offset, bytes| {
                let skip = SEGMENT_HEADER_BYTES.saturating_sub(offset as usize).min(bytes.len());
                held.extend_from_slice(&bytes[skip..]);
                Ok(())
            })?;
        }
        if self.offset >= self.end_offset {
            held.append(&mut self.unwritten);
        }
        Ok(held.len() > before)
    }

    fn damaged(&self) -> crate::Error {
        self.segment.damaged(self.position, "bytes that are not a frame of this position")
    }
}
