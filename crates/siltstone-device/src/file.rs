//! A directory and a file as the other modules use them: operations are counted, and errors name the file.

use super::counters::RecentGets;
use super::queue::{Piece, PieceQueue, SHARED_PIECE_BYTES_MAX, SHARED_READS_MAX, Ticket};
use super::removal::{Removals, Removed};
use super::system::{self, SystemDirectory, has_ended};
use super::{
    Access, AlignedBuffer, DirectoryBackend, FileBackend, IoCounters, IoSnapshot, LOCK, Purpose,
    QUEUE_DEPTH_MAX,
};
use crate::error::{Error, Result};
use crate::sync::Mutex;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Writeback is started in units of this many bytes, independent of the size of pieces: each request costs as much time
/// as writing 10 KiB.
pub(super) const WRITEBACK_BYTES: u64 = 1 << 20;
/// The unit while gets read, in bytes.
const SHARED_WRITEBACK_BYTES: u64 = 64 << 10;

/// The default number of reads of a batch in flight.
const QUEUE_DEPTH: usize = 32;

/// The queues of background work.
struct PieceQueues {
    convert: PieceQueue,
    merge: PieceQueue,
    collect: PieceQueue,
    index: PieceQueue,
    maintain: PieceQueue,
}

impl PieceQueues {
    fn of(backend: &dyn DirectoryBackend) -> PieceQueues {
        let queue = || PieceQueue::new(backend.executor());
        PieceQueues { convert: queue(), merge: queue(), collect: queue(), index: queue(), maintain: queue() }
    }

    /// Returns the queue of a purpose, if it is one of background work.
    fn of_purpose(&self, purpose: Purpose) -> Option<&PieceQueue> {
        match purpose {
            Purpose::Convert => Some(&self.convert),
            Purpose::Merge => Some(&self.merge),
            Purpose::Collect => Some(&self.collect),
            Purpose::Index => Some(&self.index),
            Purpose::Maintain => Some(&self.maintain),
            _ => None,
        }
    }
}

/// What all files of a directory share.
pub(super) struct Shared {
    pub(super) counters: IoCounters,
    pub(super) removals: Removals,
    queues: PieceQueues,
    /// Checked for each unit of writeback.
    gets: Mutex<RecentGets>,
}

/// How the files of a directory are used.
#[derive(Clone, Copy)]
struct Usage {
    queue_depth: u16,
    skips_checksums_on_get: bool,
    maps_appends: bool,
}

/// A directory of files. Cheap to clone; all clones share the counters.
#[derive(Clone)]
pub struct Directory {
    pub(super) backend: Arc<dyn DirectoryBackend>,
    pub(super) shared: Arc<Shared>,
    access: Access,
    usage: Usage,
}

impl Directory {
    /// Makes a directory of any backend. Store files are opened with `access`.
    pub fn new(backend: impl DirectoryBackend + 'static, access: Access) -> Self {
        let queues = PieceQueues::of(&backend);
        let (counters, removals, gets) = Default::default();
        let shared = Shared { counters, removals, queues, gets };
        let queue_depth = QUEUE_DEPTH as u16;
        Directory {
            backend: Arc::new(backend),
            shared: Arc::new(shared),
            access,
            usage: Usage { queue_depth, skips_checksums_on_get: false, maps_appends: true },
        }
    }

    /// Sets whether lookups trust what they read from stores, without computing checksums. All other reads verify them.
    /// Default: false.
    pub fn skip_checksums_on_get(mut self, skip: bool) -> Self {
        self.usage.skips_checksums_on_get = skip;
        self
    }

    /// Sets whether files are appended to through a mapping, where the system supports it. Default: true.
    pub fn map_appends(mut self, maps_appends: bool) -> Self {
        self.usage.maps_appends = maps_appends;
        self
    }

    /// Sets how many reads of a batch are in flight, clamped to 1 to 256. With 1, reads are executed one after another
    /// by `pread`. Default: 32.
    pub fn queue_depth(mut self, depth: usize) -> Self {
        self.usage.queue_depth = depth.clamp(1, QUEUE_DEPTH_MAX) as u16;
        self
    }

    /// Opens an existing directory of the operating system.
    pub fn system(path: &Path, access: Access) -> Result<Self> {
        Ok(Directory::new(SystemDirectory::open(path)?, access))
    }

    /// Opens an existing directory of the operating system for reading only.
    pub fn system_read_only(path: &Path, access: Access) -> Result<Self> {
        Ok(Directory::new(SystemDirectory::open_read_only(path)?, access))
    }

    /// Opens a directory of the operating system, and creates it durably if it is missing.
    pub fn create_system(path: &Path, access: Access) -> Result<Self> {
        Ok(Directory::new(SystemDirectory::create(path)?, access))
    }

    /// Returns whether files are opened for reading only and every change is refused.
    pub fn is_read_only(&self) -> bool {
        self.backend.is_read_only()
    }

    /// Limits the number of open files, as far as possible: a file with unsynced writes, and one that was removed while
    /// in use, stays open. Default: three quarters of the limit of the process.
    pub fn limit_open_files(&self, max: u64) {
        self.backend.limit_open_files(max);
    }

    /// Returns the number of open files and its limit; `None` if files take no descriptors.
    pub fn open_files(&self) -> Option<(u64, u64)> {
        self.backend.open_files()
    }

    /// Returns the access of store files.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Returns the next unit of writeback of a buffered file, in bytes. Large units cost least; but with direct I/O
    /// gets queue behind each of them, so units are smaller while gets read.
    pub fn writeback_bytes(&self) -> u64 {
        let leaves_drive = self.access.is_direct() && self.shared.gets.lock().check(&self.shared.counters);
        if leaves_drive { SHARED_WRITEBACK_BYTES } else { WRITEBACK_BYTES }
    }

    /// Returns the bytes of the file system that are free for this process; `None` if that is unknown.
    pub fn free_bytes(&self) -> Result<Option<u64>> {
        self.backend.free_bytes().map_err(Error::io("measure", self.path()))
    }

    /// Returns whether another directory takes its space from the same file system, as far as that is known.
    pub fn shares_file_system(&self, other: &Directory) -> bool {
        let system = |directory: &Directory| {
            let handle = directory.backend.handle()?;
            rustix::fs::fstat(handle).ok().map(|state| state.st_dev)
        };
        system(self) == system(other)
    }

    /// Returns the counts of all files of this directory.
    pub fn io(&self) -> IoSnapshot {
        self.shared.counters.snapshot()
    }

    /// Returns a number that differs between two starts of the system: [`DirectoryBackend::system_run`].
    pub fn system_run(&self) -> Option<u128> {
        self.backend.system_run()
    }

    /// Returns the name of the directory in errors.
    pub fn path(&self) -> PathBuf {
        self.backend.path()
    }

    /// Returns the name of one of its files in errors.
    pub fn path_of(&self, name: &str) -> PathBuf {
        self.backend.path().join(name)
    }

    /// Returns whether `path`, which need not exist, is this directory or within it. False if this one is not of the
    /// operating system.
    pub fn contains(&self, path: &Path) -> Result<bool> {
        let Some(handle) = self.backend.handle() else { return Ok(false) };
        system::contains(handle, path).map_err(Error::io("find", path))
    }

    /// Checks that neither the directory nor the file `name` in it was removed since it was opened: what is written to
    /// a removed directory is lost when its files are closed.
    ///
    /// # Errors
    /// [`Error::Removed`].
    pub fn check_present(&self, name: &str) -> Result<()> {
        let Some(handle) = self.backend.handle() else { return Ok(()) };
        match system::is_removed(handle, name) {
            Ok(false) => Ok(()),
            Ok(true) => Err(Error::Removed { path: self.path() }),
            Err(error) => Err(Error::io("find", self.path_of(name))(error)),
        }
    }

    /// Creates a new, empty file.
    pub fn create(&self, name: &str, access: Access) -> Result<File> {
        let backend = self.backend.create(name, access).map_err(Error::io("create", self.path_of(name)))?;
        Ok(self.file(name, backend.into()))
    }

    /// Opens an existing file.
    pub fn open(&self, name: &str, access: Access) -> Result<File> {
        let backend = self.backend.open(name, access).map_err(Error::io("open", self.path_of(name)))?;
        Ok(self.file(name, backend.into()))
    }

    /// Returns the length of a file, 0 if it does not exist.
    pub fn length_of(&self, name: &str) -> Result<u64> {
        match self.open(name, Access::Buffered) {
            Ok(file) => file.length(),
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error),
        }
    }

    pub(super) fn file(&self, name: &str, backend: Arc<dyn FileBackend>) -> File {
        File {
            backend,
            path: self.path_of(name).into(),
            shared: self.shared.clone(),
            removed: OnceLock::new(),
            reused_bytes: AtomicU64::new(0),
            usage: self.usage,
        }
    }

    /// Opens another directory of the same kind and for the same use: that at `path`, relative to this one. With
    /// `create`, a missing one is created durably, unless this one is read-only.
    pub fn other(&self, path: &Path, create: bool) -> Result<Directory> {
        let backend = self.backend.other(path, create).map_err(Error::io("open", self.path().join(path)))?;
        let queues = PieceQueues::of(&*backend);
        let (counters, removals, gets) = Default::default();
        let shared = Arc::new(Shared { counters, removals, queues, gets });
        Ok(Directory { backend: backend.into(), shared, access: self.access, usage: self.usage })
    }

    /// Returns the names of all files, sorted.
    pub fn list(&self) -> Result<Vec<String>> {
        let mut names = self.backend.list().map_err(Error::io("list", self.path()))?;
        names.sort_unstable();
        Ok(names)
    }

    /// Removes a file.
    pub fn remove(&self, name: &str) -> Result<()> {
        self.backend.remove(name).map_err(Error::io("remove", self.path_of(name)))
    }

    /// Renames a file, and atomically replaces an existing one.
    pub fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.backend.rename(from, to).map_err(Error::io("rename", self.path_of(from)))
    }

    /// Blocks until all creations, removals and renames survive a power loss.
    pub fn sync(&self, purpose: Purpose) -> Result<()> {
        self.shared.counters.sync(purpose);
        self.backend.sync().map_err(Error::io("sync", self.path()))
    }

    /// Takes the exclusive lock of the directory until the result is dropped.
    ///
    /// # Errors
    /// [`Error::Locked`] if the directory is locked by another holder.
    pub fn lock(&self) -> Result<Box<dyn Send + Sync>> {
        self.backend.lock(LOCK).map_err(|error| self.not_locked(error))
    }

    /// Takes a shared lock of the directory until the result is dropped. Changes nothing in the directory and needs no
    /// write permission.
    ///
    /// # Errors
    /// [`Error::Locked`] if the exclusive lock is taken.
    pub fn lock_shared(&self) -> Result<Box<dyn Send + Sync>> {
        self.backend.lock_shared().map_err(|error| self.not_locked(error))
    }

    fn not_locked(&self, error: io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::WouldBlock => {
                let process = self.backend.lock_holder();
                Error::Locked { path: self.path(), process, has_ended: process.is_some_and(has_ended) }
            }
            _ => Error::io("lock", self.path())(error),
        }
    }

    /// Takes the exclusive lock of a file of the directory until the result is dropped. Readers of the file ignore it.
    ///
    /// # Errors
    /// [`Error::Locked`] if the file is locked by another holder.
    pub fn lock_file(&self, name: &str) -> Result<Box<dyn Send + Sync>> {
        self.backend.lock(name).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                Error::Locked { path: self.path_of(name), process: None, has_ended: false }
            }
            _ => Error::io("lock", self.path_of(name))(error),
        })
    }

    /// Adds the file `name` to the directory `target`, as a hard link if possible, else as a copy.
    pub fn share(&self, name: &str, target: &Directory) -> Result<()> {
        self.backend.share(name, &*target.backend).map_err(Error::io("link", target.path_of(name)))
    }

    /// Creates a subdirectory with the first unused name of the form `folder`-*number*, and durably adds the files
    /// `names` to it. Files in it are never listed. Returns its name.
    pub fn set_aside(&self, names: &[&str], folder: &str) -> Result<String> {
        let mut number = 1u32;
        loop {
            let folder = format!("{folder}-{number:04}");
            match self.backend.set_aside(names, &folder) {
                Ok(()) => return Ok(folder),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < u32::MAX => {
                    number += 1
                }
                Err(error) => return Err(Error::io("link", self.path_of(&folder))(error)),
            }
        }
    }
}

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
        self.backend.length().map_err(|error| self.failed("measure", error))
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
    /// process. Until [`end_append`](File::end_append) the file may be up to 1 MiB longer, by zeros. The end of
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

    /// Ends appending: the file has `length` bytes.
    pub fn end_append(&self, length: u64) -> Result<()> {
        self.backend.end_append(length).map_err(|error| self.failed("truncate", error))
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
        self.backend.start_writeback(offset, length);
    }

    /// Hints that later reads should come from the device, not from a cache. Recovery calls it before it reads a log:
    /// after a failed sync, the system's cache may still contain data that never reached the device, and that later
    /// syncs skip although they succeed.
    pub fn drop_cache(&self) {
        self.backend.drop_cache();
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
