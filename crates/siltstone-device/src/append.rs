//! Writes a new file sequentially, in large aligned pieces: one piece while the next one is collected.

use super::WRITEBACK_BYTES;
use super::queue::Ticket;
use super::{AlignedBuffer, File, Purpose};
use crate::error::{Error, Result};
use std::sync::Arc;

/// Collects bytes and writes them in pieces of a fixed size; the end is padded with zeros to the alignment.
pub struct Appender {
    file: Arc<File>,
    purpose: Purpose,
    buffer: AlignedBuffer,
    piece_bytes: usize,
    /// The length of the piece that is being collected: less while gets wait for the drive.
    piece_bytes_now: usize,
    /// The piece in flight, and the memory of its buffer.
    in_flight: Option<(Ticket, usize)>,
    /// The first error: after it the file is incomplete.
    failed: Option<Error>,
    /// The bytes that are written or in flight.
    written_bytes: u64,
    /// All bytes before this position are written.
    readable_bytes: u64,
    /// Writeback was started for the bytes before it.
    writeback_base: u64,
}

impl Appender {
    /// Starts at the beginning of `file`. Pieces have `piece_bytes` bytes, rounded up to the file's alignment.
    pub fn new(file: impl Into<Arc<File>>, purpose: Purpose, piece_bytes: usize) -> Self {
        Appender::starting_at(file, purpose, piece_bytes, 0)
    }

    /// Starts at `position`, a multiple of the file's alignment, and overwrites what follows it.
    pub fn starting_at(
        file: impl Into<Arc<File>>,
        purpose: Purpose,
        piece_bytes: usize,
        position: u64,
    ) -> Self {
        let file = file.into();
        let piece_bytes = piece_bytes.next_multiple_of(file.alignment().max(1));
        let piece_bytes_now = file.piece_bytes(purpose, piece_bytes);
        Appender {
            file,
            purpose,
            buffer: AlignedBuffer::with_capacity(piece_bytes),
            piece_bytes,
            piece_bytes_now,
            in_flight: None,
            failed: None,
            written_bytes: position,
            readable_bytes: position,
            writeback_base: position,
        }
    }

    /// Returns the file, which another handle may read up to [`readable_bytes`](Self::readable_bytes).
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Returns a position before which all bytes are written.
    pub fn readable_bytes(&self) -> u64 {
        self.readable_bytes
    }

    /// Returns the position of the next byte.
    pub fn position(&self) -> u64 {
        self.written_bytes + self.buffer.len() as u64
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// Those of writing these bytes or earlier ones. After an error, all later calls return it.
    pub fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        // Also if no piece gets full: the caller must not continue after a failed write.
        self.unless_failed(|_| Ok(()))?;
        while !bytes.is_empty() {
            let room = self.piece_bytes_now - self.buffer.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.buffer.extend_from_slice(now);
            bytes = later;
            if self.buffer.len() == self.piece_bytes_now {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Appends zeros until the position is a multiple of `alignment`.
    pub fn align(&mut self, alignment: u64) -> Result<()> {
        const ZEROS: [u8; 512] = [0; 512];
        let mut missing = self.position().next_multiple_of(alignment) - self.position();
        while missing > 0 {
            let now = missing.min(ZEROS.len() as u64);
            self.append(&ZEROS[..now as usize])?;
            missing -= now;
        }
        Ok(())
    }

    /// Writes the buffer. An error may be that of the piece before.
    fn flush(&mut self) -> Result<()> {
        self.unless_failed(Self::write_piece)?;
        if self.written_bytes - self.writeback_base >= WRITEBACK_BYTES {
            self.start_writeback();
        }
        Ok(())
    }

    fn unless_failed(&mut self, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        work(self).inspect_err(|error| self.failed = Some(error.clone()))
    }

    /// Begins to write the buffer and waits for the piece before, whose buffer is the next one. If pieces are not
    /// overlapped, writes the buffer.
    fn write_piece(&mut self) -> Result<()> {
        let offset = self.written_bytes;
        self.written_bytes += self.buffer.len() as u64;
        if self.file.overlaps(self.purpose) {
            let full = std::mem::take(&mut self.buffer);
            let heap_bytes = full.heap_bytes();
            let ticket = self.file.begin_write(self.purpose, offset, full);
            // This piece is begun before the wait for the one before, so that the drive always has one.
            let before = self.in_flight.replace((ticket, heap_bytes));
            self.buffer = match before {
                Some((ticket, _)) => self.file.finish_write(ticket)?,
                None => AlignedBuffer::with_capacity(self.piece_bytes),
            };
            // The piece before has ended, and this one is in flight.
            self.readable_bytes = offset;
        } else {
            // Pieces may have been overlapped until now: all before this one must be written before it counts
            // as readable.
            self.wait()?;
            let piece_bytes = self.file.piece_bytes(self.purpose, self.piece_bytes);
            for (piece, offset) in self.buffer.chunks(piece_bytes).zip((offset..).step_by(piece_bytes)) {
                self.file.write(self.purpose, offset, piece)?;
            }
            self.readable_bytes = self.written_bytes;
        }
        self.buffer.clear();
        self.piece_bytes_now = self.file.piece_bytes(self.purpose, self.piece_bytes);
        Ok(())
    }

    /// Waits for the piece in flight.
    fn wait(&mut self) -> Result<()> {
        self.in_flight.take().map_or(Ok(()), |(ticket, _)| self.file.finish_write(ticket).map(drop))
    }

    fn start_writeback(&mut self) {
        self.file.start_writeback(self.writeback_base, self.written_bytes - self.writeback_base);
        self.writeback_base = self.written_bytes;
    }

    /// Writes the bytes so far, whose end is a multiple of the file's alignment, and waits for all writes.
    pub fn write_buffered(&mut self) -> Result<()> {
        if !self.buffer.is_empty() {
            self.flush()?;
        }
        self.unless_failed(Self::wait)
    }

    /// Pads and writes the rest, and waits for all writes, without a sync. Returns the file and its length in bytes.
    pub fn finish(mut self) -> Result<(Arc<File>, u64)> {
        self.align(self.file.alignment() as u64)?;
        self.write_buffered()?;
        // Before the sync of the caller: what a reused file has more must not follow the new bytes.
        self.file.end_writing(self.written_bytes)?;
        self.start_writeback();
        Ok((self.file, self.written_bytes))
    }

    /// Returns the memory of the buffers, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.buffer.heap_bytes() + self.in_flight.as_ref().map_or(0, |(_, heap_bytes)| *heap_bytes)
    }
}
