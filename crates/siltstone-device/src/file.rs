//! An open file as the other modules use it: operations are counted, and errors name the file.

use super::queue::{Piece, PieceQueue, SHARED_PIECE_BYTES_MAX, SHARED_READS_MAX, Ticket};
use super::removal::Removed;
use super::shared::{Shared, Usage};
use super::{AlignedBuffer, FileBackend, FileState, Hint, Purpose};
use crate::error::{Error, Result};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The maximum length of a read whose memory is allocated without comparing it to the file's length, in bytes.
const UNCHECKED_BYTES_MAX: usize = 1 << 20;

/// A read widened to the alignment, and where the requested bytes are in it:
///
/// ```text
/// file      | sector | sector | sector | sector |
/// request             [====]
/// extent             [aligned ]                       start and bytes
/// wanted               skip..skip + length
/// ```
pub(super) struct Extent {
    pub(super) start: u64,
    pub(super) bytes: usize,
    pub(super) wanted: Range<usize>,
}

/// An open file that counts its operations and is named in errors.
pub struct File {
    backend: Arc<dyn FileBackend>,
    path: Box<Path>,
    pub(super) shared: Arc<Shared>,
    /// How the file was removed, if it was.
    pub(super) removed: OnceLock<Removed>,
    /// The length of a file that was retired and is written over now; 0 for others.
    pub(super) reused_bytes: AtomicU64,
    usage: Usage,
}

impl File {
    pub(super) fn new(
        backend: Arc<dyn FileBackend>,
        path: PathBuf,
        shared: Arc<Shared>,
        usage: Usage,
    ) -> File {
        let (removed, reused_bytes) = Default::default();
        File { backend, path: path.into(), shared, removed, reused_bytes, usage }
    }

    /// Returns the name of the file in errors.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the unit of writes, in bytes. Reads may have any offset and length.
    pub fn alignment(&self) -> usize {
        self.backend.alignment()
    }

    /// Returns whether lookups need not verify checksums.
    pub fn skips_checksums_on_get(&self) -> bool {
        self.usage.skips_checksums_on_get
    }

    /// Returns the length, in bytes.
    pub fn length(&self) -> Result<u64> {
        Ok(self.state()?.length)
    }

    pub(super) fn state(&self) -> Result<FileState> {
        self.backend.state().map_err(|error| self.failed("measure", error))
    }

    /// Reads `length` bytes at `offset` into `buffer`, widened to the alignment, and returns them. Fewer bytes are an
    /// error (`UnexpectedEof`). Allocates nothing once the buffer has grown to the longest read.
    pub fn read<'a>(
        &self,
        purpose: Purpose,
        offset: u64,
        length: usize,
        buffer: &'a mut AlignedBuffer,
    ) -> Result<&'a [u8]> {
        let wide = self.widen(offset, length)?;
        let outcome = self.backend.read_at(wide.start, self.prepare(purpose, &wide, buffer));
        self.check(outcome, &wide)?;
        Ok(&buffer[wide.wanted])
    }

    /// Widens a read to the alignment. The length may come from damaged bytes, so a long read is compared with the
    /// file's length before memory is allocated.
    pub(super) fn widen(&self, offset: u64, length: usize) -> Result<Extent> {
        let end = offset.checked_add(length as u64);
        if length > UNCHECKED_BYTES_MAX && !end.is_some_and(|end| self.length().is_ok_and(|all| end <= all)) {
            return Err(self.failed("read", io::ErrorKind::UnexpectedEof.into()));
        }
        let alignment = self.backend.alignment();
        let skip = (offset % alignment as u64) as usize;
        let bytes = (skip + length).next_multiple_of(alignment);
        Ok(Extent { start: offset - skip as u64, bytes, wanted: skip..skip + length })
    }

    pub(super) fn backend(&self) -> &dyn FileBackend {
        &*self.backend
    }

    /// Returns how many reads of a batch overlap: few in the background while gets wait for each.
    pub(super) fn queue_depth(&self, purpose: Purpose) -> usize {
        let depth = self.usage.queue_depth.into();
        let is_shared = self.alignment() > 1 && self.shared.queues.of_purpose(purpose).is_some();
        if is_shared && !self.overlaps(purpose) { SHARED_READS_MAX.min(depth) } else { depth }
    }

    pub(super) fn prepare<'a>(
        &self,
        purpose: Purpose,
        wide: &Extent,
        buffer: &'a mut AlignedBuffer,
    ) -> &'a mut [u8] {
        self.shared.counters.read(purpose, wide.bytes);
        buffer.resize_for_overwrite(wide.bytes);
        buffer
    }

    pub(super) fn check(&self, outcome: io::Result<usize>, wide: &Extent) -> Result<()> {
        match outcome {
            // A direct read of the last block returns fewer bytes than the extent, which is no error if the wanted ones
            // are among them.
            Ok(count) if count >= wide.wanted.end => Ok(()),
            Ok(_) => Err(self.failed("read", io::ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(self.failed("read", error)),
        }
    }

    /// Makes an error. Names the file only here, so successful reads and writes allocate nothing.
    #[cold]
    pub(super) fn failed(&self, operation: &'static str, error: io::Error) -> Error {
        Error::io(operation, &*self.path)(error)
    }

    /// Writes `bytes` at `offset`, both multiples of the alignment.
    pub fn write(&self, purpose: Purpose, offset: u64, bytes: &[u8]) -> Result<()> {
        self.shared.counters.write(purpose, bytes.len());
        self.backend.write_at(offset, bytes).map_err(|error| self.failed("write", error))
    }

    /// Appends `bytes` at `offset`, after all others of the file. A read returns them, and they survive the end of the
    /// process. Until [`truncate`](File::truncate) the file may be up to 1 MiB longer, by zeros. The end of
    /// a real file is mapped into memory where the system supports it, so that this is a copy instead of a system call
    /// if the bytes are few.
    pub fn append(&self, purpose: Purpose, offset: u64, bytes: &[u8]) -> Result<()> {
        self.shared.counters.write(purpose, bytes.len());
        let outcome = match self.usage.maps_appends {
            true => self.backend.append_at(offset, bytes),
            false => self.backend.write_at(offset, bytes),
        };
        outcome.map_err(|error| self.failed("write", error))
    }

    /// Returns whether pieces of this file are overlapped now. Pieces of buffered files are not: the page cache reads
    /// ahead and writes behind by itself.
    pub(super) fn overlaps(&self, purpose: Purpose) -> bool {
        let queue = self.shared.queues.of_purpose(purpose).filter(|_| self.alignment() > 1);
        queue.is_some_and(|queue| queue.overlaps(&self.shared.counters))
    }

    /// Returns the length of the next piece of `wanted` bytes. It is shorter while pieces are not overlapped, because
    /// gets wait for each.
    pub(super) fn piece_bytes(&self, purpose: Purpose, wanted: usize) -> usize {
        match self.alignment() == 1 || self.overlaps(purpose) {
            true => wanted,
            false => wanted.min(SHARED_PIECE_BYTES_MAX),
        }
    }

    fn begin(&self, purpose: Purpose, is_write: bool, offset: u64, buffer: AlignedBuffer) -> Ticket {
        let piece = Piece { file: self.backend.clone(), is_write, offset, buffer };
        match self.shared.queues.of_purpose(purpose) {
            Some(queue) => queue.begin(piece, &self.shared.counters),
            None => PieceQueue::default().begin(piece, &self.shared.counters),
        }
    }

    /// Begins to write a buffer at `offset`, both multiples of the alignment.
    pub(super) fn begin_write(&self, purpose: Purpose, offset: u64, buffer: AlignedBuffer) -> Ticket {
        self.shared.counters.write(purpose, buffer.len());
        self.begin(purpose, true, offset, buffer)
    }

    /// Waits until a buffer is written, and returns it.
    pub(super) fn finish_write(&self, ticket: Ticket) -> Result<AlignedBuffer> {
        let (buffer, outcome) = ticket.wait();
        outcome.map_err(|error| self.failed("write", error))?;
        Ok(buffer)
    }

    /// Begins to read `length` bytes at `offset` into a buffer.
    pub(super) fn begin_read(
        &self,
        purpose: Purpose,
        offset: u64,
        length: usize,
        mut buffer: AlignedBuffer,
    ) -> Result<(Ticket, Extent)> {
        let wide = self.widen(offset, length)?;
        self.prepare(purpose, &wide, &mut buffer);
        Ok((self.begin(purpose, false, wide.start, buffer), wide))
    }

    /// Waits until bytes are read, and returns them.
    pub(super) fn finish_read(&self, ticket: Ticket, wide: &Extent) -> Result<AlignedBuffer> {
        let (buffer, outcome) = ticket.wait();
        self.check(outcome, wide)?;
        Ok(buffer)
    }

    /// Blocks until all writes survive a power loss.
    pub fn sync(&self, purpose: Purpose) -> Result<()> {
        self.shared.counters.sync(purpose);
        self.backend.sync().map_err(|error| self.failed("sync", error))
    }

    /// Hints that a range may be written to the device now.
    pub fn start_writeback(&self, offset: u64, length: u64) {
        self.backend.hint(Hint::Writeback { offset, length });
    }

    /// Hints that later reads should come from the device, not from a cache. Recovery calls it before it reads a log:
    /// after a failed sync, the system's cache may still contain data that never reached the device, and that later
    /// syncs skip although they succeed.
    pub fn drop_cache(&self) {
        self.backend.hint(Hint::DropCache);
    }

    /// Reads `bytes`, which were read at `offset`, again from the device, and returns an error if they differ. Recovery
    /// calls it before it discards a torn end: a bit that flipped on the way from the device looks like one.
    pub fn confirm(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.drop_cache();
        let mut again = AlignedBuffer::default();
        if self.read(Purpose::Recover, offset, bytes.len(), &mut again)? == bytes {
            return Ok(());
        }
        Err(self.differs())
    }

    /// Returns the error that two reads of the same bytes differ.
    pub fn differs(&self) -> Error {
        Error::io("read", self.path())(io::Error::other("two reads of the same bytes differ"))
    }

    /// Truncates the file to `length` bytes; a shorter file is left unchanged.
    pub fn truncate(&self, length: u64) -> Result<()> {
        self.backend.truncate(length).map_err(|error| self.failed("truncate", error))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // Zero, unless an error ended the writing before `end_writing`.
        self.shared.removals.end_reuse(self.reused_bytes.swap(0, Relaxed));
        if let Some(removed) = self.removed.take() {
            // Only here: as long as a view or an iterator has the file, its bytes must stay.
            self.shared.removals.add(removed, self.backend.clone());
        }
    }
}
