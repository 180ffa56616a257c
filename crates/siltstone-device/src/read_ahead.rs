//! Reads a file sequentially: the next piece while the user works on the present one.

use super::file::Extent;
use super::queue::Ticket;
use super::{AlignedBuffer, File, Purpose, with_scratch};
use crate::error::Error;
use std::ops::Range;

/// Shorter pieces are not read ahead, in bytes: then memory is so short that there is none for it.
const AHEAD_BYTES_MIN: usize = 4 << 10;

/// The reader of a sequential stream, with at most one piece in flight.
pub struct ReadAhead {
    purpose: Purpose,
    piece_bytes: usize,
    unit_bytes: usize,
    ahead: Option<Ahead>,
}

/// A piece in flight.
struct Ahead {
    bytes: Range<u64>,
    ticket: Ticket,
    extent: Extent,
    heap_bytes: usize,
}

impl ReadAhead {
    /// Makes a reader that reads about `piece_bytes` at a time, in multiples of `unit_bytes`.
    pub fn new(purpose: Purpose, piece_bytes: usize, unit_bytes: usize) -> Self {
        ReadAhead { purpose, piece_bytes, unit_bytes: unit_bytes.max(1), ahead: None }
    }

    /// Returns what the reads are for.
    pub fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// Passes bytes from the start of `rest` to `take`, piece by piece, with their offset: at least one piece and
    /// `needed` bytes, unless `rest` ends before. Returns the offset of the next byte. If reads are overlapped, begins
    /// to read the next piece, for a later call that begins there.
    ///
    /// # Errors
    /// Those of reading these bytes, and of `take`.
    pub fn read<E: From<Error>>(
        &mut self,
        file: &File,
        rest: Range<u64>,
        needed: usize,
        mut take: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<u64, E> {
        let mut at = rest.start;
        let mut spare = AlignedBuffer::default();
        // A piece that was read ahead for another place is dropped, which waits for it.
        if let Some(ahead) = self.ahead.take().filter(|ahead| ahead.bytes.start == at) {
            spare = file.finish_read(ahead.ticket, &ahead.extent)?;
            take(at, spare.get(ahead.extent.wanted).unwrap_or_default())?;
            at = ahead.bytes.end;
        }
        let missing = needed.saturating_sub((at - rest.start) as usize);
        if at < rest.end && (at == rest.start || missing > 0) {
            let length = self.length(file, at..rest.end, missing);
            with_scratch(|buffer| take(at, file.read(self.purpose, at, length, buffer)?))?;
            at += length as u64;
        }
        let length = self.length(file, at..rest.end, 0);
        if length >= AHEAD_BYTES_MIN.min(self.piece_bytes) && file.overlaps(self.purpose) {
            let heap_bytes = spare.heap_bytes().max(length);
            let (ticket, extent) = file.begin_read(self.purpose, at, length, spare)?;
            self.ahead = Some(Ahead { bytes: at..at + length as u64, ticket, extent, heap_bytes });
        }
        Ok(at)
    }

    /// Returns the length of a piece at the start of `rest`.
    fn length(&self, file: &File, rest: Range<u64>, needed: usize) -> usize {
        let piece_bytes = file.piece_bytes(self.purpose, self.piece_bytes).max(needed).max(1);
        let left = rest.end.saturating_sub(rest.start);
        left.min(piece_bytes.next_multiple_of(self.unit_bytes) as u64) as usize
    }

    /// Returns the memory of the piece in flight, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.ahead.as_ref().map_or(0, |ahead| ahead.heap_bytes)
    }
}
