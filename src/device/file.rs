//! The counted, named faces of a directory and of a file.

use super::LOCK;
use super::append::WRITEBACK_BYTES;
use super::batch::{QUEUE_DEPTH, QUEUE_DEPTH_MAX};
use super::system::SystemDirectory;
use super::{Access, AlignedBuffer, DirectoryBackend, FileBackend, IoCounters, IoSnapshot, Purpose};
use crate::{Error, Result};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory of files. Cheap to clone; all clones share the counters.
#[derive(Clone)]
pub struct Directory {
    backend: Arc<dyn DirectoryBackend>,
    counters: Arc<IoCounters>,
    access: Access,
    queue_depth: usize,
    trusts_gets: bool,
}

impl Directory {
    /// A directory over any backend. `access` is how its store files are opened.
    pub fn new(backend: impl DirectoryBackend + 'static, access: Access) -> Self {
        let (backend, counters) = (Arc::new(backend), Arc::default());
        Directory { backend, counters, access, queue_depth: QUEUE_DEPTH, trusts_gets: false }
    }

    /// Whether lookups take what they read from stores for what was written there, without computing its checksum.
    /// Everything else checks what it reads. Default: no.
    pub fn trust_gets(mut self, trust: bool) -> Self {
        self.trusts_gets = trust;
        self
    }

    /// How many reads of a batch are under way at a time, 1 to 256 (others are taken as the nearest). 1 reads one
    /// after another, by `pread`. Default: 32.
    pub fn queue_depth(mut self, depth: usize) -> Self {
        self.queue_depth = depth.clamp(1, QUEUE_DEPTH_MAX);
        self
    }

    /// A directory of the operating system, which must be there.
    pub fn system(path: &Path, access: Access) -> Result<Self> {
        Ok(Directory::new(SystemDirectory::open(path)?, access))
    }

    /// A directory of the operating system for reading only, which must be there.
    pub fn system_read_only(path: &Path, access: Access) -> Result<Self> {
        Ok(Directory::new(SystemDirectory::open_read_only(path)?, access))
    }

    /// A directory of the operating system, made durably where it is missing.
    pub fn create_system(path: &Path, access: Access) -> Result<Self> {
        Ok(Directory::new(SystemDirectory::create(path)?, access))
    }

    /// Whether files are opened for reading only, and every change is refused.
    pub fn is_read_only(&self) -> bool {
        self.backend.is_read_only()
    }

    /// Lets at most so many files be open at a time, as far as that can be: a file with writes that are not synced, and
    /// one that was removed while it is used, stay open. Without it, three quarters of what the process may open.
    pub fn limit_open_files(&self, max: u64) {
        self.backend.limit_open_files(max);
    }

    /// How many files are open and how many may be; `None` where files take no descriptors.
    pub fn open_files(&self) -> Option<(u64, u64)> {
        self.backend.open_files()
    }

    /// The access that stores asked for.
    pub fn access(&self) -> Access {
        self.access
    }

    /// How much of a buffered file that is written is best sent to the device at a time, in bytes. Large pieces cost
    /// least; but where lookups read past the page cache they wait behind each, and smaller ones keep that short.
    pub fn writeback_bytes(&self) -> u64 {
        if self.access.is_direct() { 256 << 10 } else { WRITEBACK_BYTES }
    }

    /// The counts of all files of this directory.
    pub fn io(&self) -> IoSnapshot {
        self.counters.snapshot()
    }

    /// How the directory is called in errors.
    pub fn path(&self) -> PathBuf {
        self.backend.path()
    }

    /// How one of its files is called in errors.
    pub fn path_of(&self, name: &str) -> PathBuf {
        self.backend.path().join(name)
    }

    /// Makes a new, empty file.
    pub fn create(&self, name: &str, access: Access) -> Result<File> {
        let backend = self.backend.create(name, access).map_err(Error::io("create", self.path_of(name)))?;
        Ok(self.file(name, backend))
    }

    /// Opens a file that is there.
    pub fn open(&self, name: &str, access: Access) -> Result<File> {
        let backend = self.backend.open(name, access).map_err(Error::io("open", self.path_of(name)))?;
        Ok(self.file(name, backend))
    }

    fn file(&self, name: &str, backend: Box<dyn FileBackend>) -> File {
        File {
            backend,
            path: self.path_of(name),
            counters: self.counters.clone(),
            queue_depth: self.queue_depth,
            trusts_gets: self.trusts_gets,
        }
    }

    /// The names of all files, sorted.
    pub fn list(&self) -> Result<Vec<String>> {
        let mut names = self.backend.list().map_err(Error::io("list", self.path()))?;
        names.sort_unstable();
        Ok(names)
    }

    /// Removes a file.
    pub fn remove(&self, name: &str) -> Result<()> {
        self.backend.remove(name).map_err(Error::io("remove", self.path_of(name)))
    }

    /// Gives a file another name, atomically taking the place of one that has it.
    pub fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.backend.rename(from, to).map_err(Error::io("rename", self.path_of(from)))
    }

    /// Returns when all creations, removals and renamings survive a loss of power.
    pub fn sync(&self, purpose: Purpose) -> Result<()> {
        self.counters.sync(purpose);
        self.backend.sync().map_err(Error::io("sync", self.path()))
    }

    /// Takes the exclusive lock of the directory until it is dropped.
    ///
    /// # Errors
    /// [`Error::Locked`] if somebody else has it.
    pub fn lock(&self) -> Result<Box<dyn Send + Sync>> {
        self.backend.lock(LOCK).map_err(|error| self.not_locked(error))
    }

    /// Takes a shared lock of the directory until it is dropped. Changes nothing in it, and needs no right to.
    ///
    /// # Errors
    /// [`Error::Locked`] if somebody has the exclusive lock.
    pub fn lock_shared(&self) -> Result<Box<dyn Send + Sync>> {
        self.backend.lock_shared().map_err(|error| self.not_locked(error))
    }

    fn not_locked(&self, error: io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::WouldBlock => {
                Error::Locked { path: self.path(), process: self.backend.lock_holder() }
            }
            _ => Error::io("lock", self.path())(error),
        }
    }

    /// Takes the exclusive lock of one of its files until it is dropped. Who reads the file does not ask for it.
    ///
    /// # Errors
    /// [`Error::Locked`] if somebody else has it.
    pub fn lock_file(&self, name: &str) -> Result<Box<dyn Send + Sync>> {
        self.backend.lock(name).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => Error::Locked { path: self.path_of(name), process: None },
            _ => Error::io("lock", self.path_of(name))(error),
        })
    }

    /// Makes `name` stand in the directory `target` too, by a hard link where that can be done, else by a copy.
    pub fn share(&self, name: &str, target: &Directory) -> Result<()> {
        self.backend.share(name, &*target.backend).map_err(Error::io("link", target.path_of(name)))
    }

    /// Makes a new directory in this one, of the first name that is free of `folder`, a hyphen and a number, and lets
    /// `names` stand there too, durably. What stands there is never listed. Answers its name.
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

/// The longest read whose memory is taken without looking at the file's length first, in bytes.
const UNCHECKED_BYTES_MAX: usize = 1 << 20;

/// A read widened to the alignment, and where in it the wanted bytes stand.
pub(super) struct Extent {
    pub(super) start: u64,
    pub(super) bytes: usize,
    pub(super) wanted: Range<usize>,
}

/// An open file that counts what is done to it and names itself in errors.
pub struct File {
    backend: Box<dyn FileBackend>,
    path: PathBuf,
    counters: Arc<IoCounters>,
    queue_depth: usize,
    trusts_gets: bool,
}

impl File {
    /// How the file is called in errors.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What writes are multiples of, in bytes. Reads may be of any offset and length.
    pub fn alignment(&self) -> usize {
        self.backend.alignment()
    }

    /// Whether lookups need not compute checksums.
    pub fn trusts_gets(&self) -> bool {
        self.trusts_gets
    }

    /// The length, in bytes.
    pub fn length(&self) -> Result<u64> {
        self.backend.length().map_err(|error| self.failed("measure", error))
    }

    /// Reads `length` bytes at `offset`, widened to the alignment, into `buffer`, and shows them there. Fewer bytes are
    /// an error (`UnexpectedEof`), however long the read. Nothing is allocated once the buffer has grown to the
    /// longest read.
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

    /// Long reads are held against the file's length before memory is taken for them, as their lengths may come from
    /// damaged bytes.
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

    pub(super) fn queue_depth(&self) -> usize {
        self.queue_depth
    }

    pub(super) fn prepare<'a>(
        &self,
        purpose: Purpose,
        wide: &Extent,
        buffer: &'a mut AlignedBuffer,
    ) -> &'a mut [u8] {
        self.counters.read(purpose, wide.bytes);
        buffer.resize_for_overwrite(wide.bytes);
        buffer
    }

    pub(super) fn check(&self, outcome: io::Result<usize>, wide: &Extent) -> Result<()> {
        match outcome {
            Ok(count) if count >= wide.wanted.end => Ok(()),
            Ok(_) => Err(self.failed("read", io::ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(self.failed("read", error)),
        }
    }

    /// Names the file only where there is an error: the paths of reads and writes allocate nothing.
    #[cold]
    fn failed(&self, operation: &'static str, error: io::Error) -> Error {
        Error::io(operation, &self.path)(error)
    }

    /// Writes `bytes` at `offset`, both multiples of the alignment.
    pub fn write(&self, purpose: Purpose, offset: u64, bytes: &[u8]) -> Result<()> {
        self.counters.write(purpose, bytes.len());
        self.backend.write_at(offset, bytes).map_err(|error| self.failed("write", error))
    }

    /// Returns when all that was written survives a loss of power.
    pub fn sync(&self, purpose: Purpose) -> Result<()> {
        self.counters.sync(purpose);
        self.backend.sync().map_err(|error| self.failed("sync", error))
    }

    /// A hint that a range may be sent to the device now.
    pub fn start_writeback(&self, offset: u64, length: u64) {
        self.backend.start_writeback(offset, length);
    }

    /// A hint that reads after it shall come from the device and not from a cache. Recovery gives it before it reads
    /// a log: after a sync that failed, the system's cache may go on showing data that never reached the device and
    /// that later syncs leave out, though they succeed.
    pub fn drop_cache(&self) {
        self.backend.drop_cache();
    }

    /// Reads `bytes`, which were read at `offset`, again from the device, and returns an error if they are different.
    /// Recovery calls it before it discards a torn end: a bit that flipped on the way from the device looks like one.
    pub fn confirm(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.drop_cache();
        let mut again = AlignedBuffer::default();
        if self.read(Purpose::Recover, offset, bytes.len(), &mut again)? == bytes {
            return Ok(());
        }
        Err(self.differs())
    }

    /// The error that two reads of the same bytes differ.
    pub fn differs(&self) -> Error {
        Error::io("read", self.path())(io::Error::other("two reads of the same bytes differ"))
    }

    /// Cuts the file to `length` bytes; a shorter one stays as it is.
    pub fn truncate(&self, length: u64) -> Result<()> {
        self.backend.truncate(length).map_err(|error| self.failed("truncate", error))
    }

    /// An error that names this file: `got` stands at `offset` instead of `expected`.
    pub fn corrupt(&self, offset: u64, expected: impl Into<String>, got: impl Into<String>) -> Error {
        Error::Corrupt { file: self.path.clone(), offset, expected: expected.into(), got: got.into() }
    }
}
