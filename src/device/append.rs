//! Writes a new file sequentially, in large aligned pieces.

use super::{AlignedBuffer, File, Purpose};
use crate::Result;

/// Writeback is started in units of this many bytes, independent of the size of pieces: each request costs as much time
/// as writing 10 KiB.
pub(super) const WRITEBACK_BYTES: u64 = 1 << 20;

/// Collects bytes and writes them in pieces of a fixed size; the end is padded with zeros to the alignment.
pub struct Appender {
    file: File,
    purpose: Purpose,
    buffer: AlignedBuffer,
    piece_bytes: usize,
    written_bytes: u64,
    /// Writeback was started for the bytes before it.
    writeback_base: u64,
}

impl Appender {
    /// Starts at the beginning of `file`. Pieces have `piece_bytes` bytes, rounded up to the file's alignment.
    pub fn new(file: File, purpose: Purpose, piece_bytes: usize) -> Self {
        Appender::starting_at(file, purpose, piece_bytes, 0)
    }

    /// Starts at `position`, a multiple of the file's alignment, and overwrites what follows it.
    pub fn starting_at(file: File, purpose: Purpose, piece_bytes: usize, position: u64) -> Self {
        let piece_bytes = piece_bytes.next_multiple_of(file.alignment().max(1));
        Appender {
            file,
            purpose,
            buffer: AlignedBuffer::with_capacity(piece_bytes),
            piece_bytes,
            written_bytes: position,
            writeback_base: position,
        }
    }

    /// Returns the position of the next byte.
    pub fn position(&self) -> u64 {
        self.written_bytes + self.buffer.len() as u64
    }

    /// Appends bytes.
    pub fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let room = self.piece_bytes - self.buffer.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.buffer.extend_from_slice(now);
            bytes = later;
            if self.buffer.len() == self.piece_bytes {
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

    fn flush(&mut self) -> Result<()> {
        self.file.write(self.purpose, self.written_bytes, &self.buffer)?;
        self.written_bytes += self.buffer.len() as u64;
        self.buffer.clear();
        if self.written_bytes - self.writeback_base >= WRITEBACK_BYTES {
            self.start_writeback();
        }
        Ok(())
    }

    fn start_writeback(&mut self) {
        self.file.start_writeback(self.writeback_base, self.written_bytes - self.writeback_base);
        self.writeback_base = self.written_bytes;
    }

    /// Pads and writes the rest, without a sync. Returns the file and its length in bytes.
    pub fn finish(mut self) -> Result<(File, u64)> {
        self.align(self.file.alignment() as u64)?;
        if !self.buffer.is_empty() {
            self.flush()?;
        }
        self.start_writeback();
        Ok((self.file, self.written_bytes))
    }

    /// Returns the memory of the buffer, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.buffer.heap_bytes()
    }
}
