//! Reads the records of a segment sequentially.

use crate::error::Result;
use crate::store::log::{Log, Segment, SlotTable, Unit};
use crate::store::log_format::{Frame, SEGMENT_HEADER_BYTES};
use crate::store::record::{RecordProblem, RecordView};
use siltstone_device::{Purpose, ReadAhead};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Reads begin and end at multiples of this, so that direct I/O reads no sector twice.
const READ_UNIT_BYTES: usize = 4096;

/// A sequential reader of the records of a segment: all that it had when the reader was made, also those that were not
/// yet written.
pub struct Frames {
    slots: Arc<SlotTable>,
    source: Option<Source>,
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
    /// The bytes that were read. Those of `position` begin at `at`, which is after the end if these bytes are to be
    /// skipped.
    held: Vec<u8>,
    at: usize,
    ahead: ReadAhead,
    piece_bytes: usize,
}

impl Frames {
    pub(super) fn new(
        slots: Arc<SlotTable>,
        source: Option<(Arc<Log>, Arc<Segment>)>,
        purpose: Purpose,
    ) -> Frames {
        let piece_bytes = slots.read_bytes.load(Relaxed);
        let source = source.map(|(log, segment)| {
            // Both of one moment: no frame is passed twice, and none that is appended later.
            let (written, unwritten) = log.unwritten_of(&segment);
            let (position, end_offset) = (segment.base, segment.offset_of(written));
            let ahead = ReadAhead::new(purpose, piece_bytes, READ_UNIT_BYTES);
            let (offset, held, at) = (0, Vec::new(), 0);
            Source { log, segment, position, offset, end_offset, unwritten, held, at, ahead, piece_bytes }
        });
        Frames { slots, source }
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
        // The table only computes here. The segment is that of a view, and may be released.
        let (start, table) = (source.position, &self.slots);
        let (slots, base) = (source.segment.slots, source.segment.base);
        while source.position < start + bytes as u64 {
            let unit = table.unit_in(slots, source.position - base);
            let has_frame = source.next(&mut |frame, length| match frame {
                Frame::Record { record, .. } => visit(unit, record, length),
                _ => Ok(()),
            })?;
            if !has_frame {
                return Ok(false);
            }
        }
        Ok(source.has_more())
    }

    /// Passes the record at a unit to `visit`, with the length of its frame. `number` is that of the unit
    /// [within the segment](super::DataView::locate), and not before a record that was passed; what lies between is
    /// not examined, and not read where it is longer than a piece. Returns false if there is no segment.
    ///
    /// # Errors
    /// As those of [`next_piece`](Self::next_piece).
    pub fn record_at(
        &mut self,
        number: u32,
        visit: &mut dyn FnMut(&RecordView<'_>, u32) -> Result<()>,
    ) -> Result<bool> {
        let Some(source) = &mut self.source else { return Ok(false) };
        let position = self.slots.position_in(&source.segment, number.into());
        let skipped = position.saturating_sub(source.position);
        source.position += skipped;
        source.at += skipped as usize;
        let (mut is_record, position) = (false, source.position);
        source.next(&mut |frame, length| match frame {
            Frame::Record { record, .. } => {
                is_record = true;
                visit(record, length)
            }
            _ => Ok(()),
        })?;
        if is_record { Ok(true) } else { Err(source.damaged(position)) }
    }

    /// Returns the position of the next frame; 0 if there is no segment.
    pub fn position(&self) -> u64 {
        self.source.as_ref().map_or(0, |source| source.position)
    }

    /// Returns the memory of the reader, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.source.as_ref().map_or(0, |source| {
            source.held.capacity() + source.unwritten.capacity() + source.ahead.heap_bytes()
        })
    }
}

impl Source {
    fn has_more(&self) -> bool {
        self.at < self.held.len() || self.offset < self.end_offset || !self.unwritten.is_empty()
    }

    /// Passes the next frame to `visit`, with its length. Returns false at the end.
    fn next(&mut self, visit: &mut dyn FnMut(&Frame<'_>, u32) -> Result<()>) -> Result<bool> {
        let mut needed = 1;
        loop {
            let held = self.held.get(self.at..).unwrap_or_default();
            match self.log.format().decode_frame(self.position, held) {
                Ok((frame, length)) => {
                    visit(&frame, length as u32)?;
                    self.at += length;
                    self.position += length as u64;
                    return Ok(true);
                }
                // Up to `end_offset` there are only frames: an open has found where the torn end begins.
                Err(RecordProblem::Malformed(_)) => return Err(self.damaged(self.position)),
                Err(RecordProblem::Short(wanted)) => {
                    // More in each round, so the loop ends.
                    needed = wanted.max(needed + 1);
                    if !self.read(needed)? {
                        // File and `unwritten` end with a whole frame, so one that is cut is damage.
                        let is_end = self.at == self.held.len();
                        return if is_end { Ok(false) } else { Err(self.damaged(self.position)) };
                    }
                }
            }
        }
    }

    /// Reads until at least `needed` bytes of the next frame are held. Returns whether there are more than before.
    fn read(&mut self, needed: usize) -> Result<bool> {
        // What is to be skipped beyond the held bytes stays in `at`, for the bytes that follow.
        let passed = self.at.min(self.held.len());
        self.held.drain(..passed);
        self.at -= passed;
        // A record far ahead would take the memory of everything before it. What is nearer is read: the next piece may
        // be in flight already.
        if self.held.is_empty() && self.at >= self.piece_bytes {
            let next = self.offset.max(SEGMENT_HEADER_BYTES as u64) + self.at as u64;
            let unit = next.min(self.end_offset) / READ_UNIT_BYTES as u64 * READ_UNIT_BYTES as u64;
            // Not behind what was read: at the end, nothing is left to read.
            if unit > self.offset {
                (self.offset, self.at) = (unit, (next - unit) as usize);
            }
        }
        let before = self.held.len();
        if self.offset < self.end_offset {
            // The first read begins with the header, so that it begins at a sector.
            let header = SEGMENT_HEADER_BYTES.saturating_sub(self.offset as usize);
            let missing = header + (self.at + needed).saturating_sub(before);
            let (rest, held) = (self.offset..self.end_offset, &mut self.held);
            self.offset =
                self.ahead.read(self.segment.file(), rest, missing, |offset, bytes| -> Result<()> {
                    let skip = SEGMENT_HEADER_BYTES.saturating_sub(offset as usize).min(bytes.len());
                    held.extend_from_slice(&bytes[skip..]);
                    Ok(())
                })?;
        }
        if self.offset >= self.end_offset {
            // These frames follow those of the file.
            self.held.append(&mut self.unwritten);
        }
        Ok(self.held.len() > before)
    }

    fn damaged(&self, position: u64) -> crate::error::Error {
        self.segment.damaged(position, "bytes that are not a frame of this position")
    }
}
