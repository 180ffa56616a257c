//! Devices: directories of files that are read and written at offsets. The only part of the library with file
//! descriptors, mappings and `unsafe`.
//!
//! [`Directory`] and [`File`] count every operation and byte by [`Purpose`], and name the file in every error. They use
//! a backend through two narrow traits, [`DirectoryBackend`] and [`FileBackend`], with these implementations: real
//! files ([`system`]), memory ([`memory`]), and the simulated device of tests in `siltstone-testing`.
//!
//! ```text
//! store, engine                     read 300 bytes at 5,000
//! Directory, File                   count it; widen to the alignment: 512 bytes at 4,608
//! DirectoryBackend, FileBackend     a copy from a mapping, pread or io_uring
//! ```
//!
//! [`sync`] has the locks and atomics of the library, [`Pages`] memory that is mapped, [`in_parallel`] work on many
//! things by several threads.
//!
//! # Examples
//!
//! ```
//! # fn main() -> siltstone_device::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("files");
//! use siltstone_device::{Access, AlignedBuffer, Directory, Purpose};
//!
//! let directory = Directory::create_system(&path, Access::Buffered)?;
//! let file = directory.create("a", Access::Buffered)?;
//! file.write(Purpose::Log, 0, b"sixteen bytes, ok")?;
//! file.sync(Purpose::Log)?;
//! let mut buffer = AlignedBuffer::default();
//! assert_eq!(file.read(Purpose::Get, 8, 5, &mut buffer)?, b"bytes");
//! assert_eq!(directory.io().of(Purpose::Get).reads, 1);
//! # Ok(())
//! # }
//! ```

#[cfg(not(unix))]
compile_error!(
    "siltstone-device needs Linux, macOS, FreeBSD or another Unix, because it reads files through POSIX calls"
);

mod append;
mod batch;
mod buffer;
mod counters;
mod directory;
mod error;
mod file;
pub mod memory;
mod parallel;
mod queue;
mod read_ahead;
mod removal;
mod reuse;
mod shared;
mod striped;
pub mod sync;
pub mod system;

pub use append::Appender;
pub use batch::{IoBackend, ReadRequest, io_backend, read_batch};
pub use buffer::{AlignedBuffer, scratch_bytes, with_scratch};
pub use counters::{IoCount, IoCounters, IoSnapshot, Purpose};
pub use directory::Directory;
pub use error::{Error, Result, is_shortage};
pub use file::File;
#[doc(hidden)]
pub use memory::NameLocks;
pub use parallel::in_parallel;
#[doc(hidden)]
pub use queue::{EndedPiece, Piece, PieceExecutor};
pub use read_ahead::ReadAhead;
pub use striped::{Striped, StripedLock};
pub use system::pages::Pages;
pub use system::{SystemDirectory, open_files_default};
pub use system::{process_mark, random_number};

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The maximum number of reads of a batch in flight.
const QUEUE_DEPTH_MAX: usize = 256;

/// Writeback is started in units of this many bytes, independent of the size of pieces: each request costs as much time
/// as writing 10 KiB.
const WRITEBACK_BYTES: u64 = 1 << 20;

/// The file whose lock is the lock of the directory. It is never listed.
pub const LOCK: &str = "LOCK";

/// How reads and writes of a file reach the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Access {
    /// Through the system's page cache.
    #[default]
    Buffered,
    /// Direct I/O (`O_DIRECT`); an error if the file system refuses it.
    Direct,
    /// Direct I/O if the file system supports it, else through the page cache.
    DirectOrBuffered,
}

impl Access {
    /// All kinds of access.
    #[doc(hidden)]
    pub const ALL: [Access; 3] = [Access::Buffered, Access::Direct, Access::DirectOrBuffered];

    /// Returns the name, as typed on a command line.
    #[doc(hidden)]
    pub fn name(self) -> &'static str {
        match self {
            Access::Buffered => "buffered",
            Access::Direct => "direct",
            Access::DirectOrBuffered => "direct_or_buffered",
        }
    }

    /// Returns whether direct I/O is requested.
    #[doc(hidden)]
    pub fn is_direct(self) -> bool {
        self != Access::Buffered
    }
}

/// The backend of a file. Offsets and lengths are in bytes.
pub trait FileBackend: Send + Sync {
    /// Reads into `buffer` from `offset` on and returns the number of bytes read. It is less than the length of
    /// `buffer` only at the end of the file, whose last block a direct read requests completely. Offset, length and
    /// address are multiples of [`alignment`](FileBackend::alignment); the address of at most 4,096.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
    /// Like [`read_at`](FileBackend::read_at), if all bytes are expected to be in memory. Returns whether it has read
    /// them.
    fn read_in_memory(&self, _offset: u64, _buffer: &mut [u8]) -> bool {
        false
    }
    /// Writes all `bytes` at `offset`, and extends the file if necessary. The same multiples are required. After an
    /// error any part of the bytes may have been written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Like [`write_at`](FileBackend::write_at), for bytes after all others of the file. May reserve space: the file is
    /// then longer, by zeros, until [`truncate`](FileBackend::truncate).
    fn append_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_at(offset, bytes)
    }
    /// Blocks until all writes, and the length, survive a power loss.
    fn sync(&self) -> io::Result<()>;
    /// Truncates the file to `length` bytes; a shorter file is left unchanged.
    fn truncate(&self, length: u64) -> io::Result<()>;
    /// Returns the length and the names of the file.
    fn state(&self) -> io::Result<FileState>;
    /// Takes a hint, which changes nothing that reads return, and never fails.
    fn hint(&self, _hint: Hint) {}
    /// Returns the unit of offsets, lengths and addresses, in bytes: 1, or the sector size of a direct file.
    fn alignment(&self) -> usize {
        1
    }
    /// Returns the file descriptor, for a transfer that bypasses this trait (io_uring). `None` if the trait must
    /// execute it, or does so sooner: a read of bytes that are in memory.
    fn descriptor(&self, _transfer: Transfer) -> Option<Descriptor<'_>> {
        None
    }
}

/// What is done with a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transfer {
    /// A read of this many bytes.
    Read {
        /// The number of bytes.
        bytes: usize,
    },
    /// Writes.
    Write,
}

/// What a device knows of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileState {
    /// The length, in bytes.
    pub length: u64,
    /// The number of its names. `None` if it is unknown, or if another process may have the file open: the file is then
    /// neither written over nor truncated, only removed and closed.
    pub names: Option<u64>,
}

/// What a backend may do to be faster, or to read what is really stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// A range may be written to the device now.
    Writeback {
        /// Where the range begins, in bytes.
        offset: u64,
        /// Its length, in bytes.
        length: u64,
    },
    /// A range is read next. What is in memory may be moved closer to the processor.
    Prefetch {
        /// Where the range begins, in bytes.
        offset: u64,
        /// Its length, in bytes.
        length: usize,
    },
    /// Later reads should come from the device. After a failed sync, a cache may contain data that was never written
    /// and that no later sync will write.
    DropCache,
}

/// What a device knows of itself. Default: nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DirectoryState {
    /// The bytes of the file system that are free for this process.
    pub free_bytes: Option<u64>,
    /// A number that the system has chosen when it started. While it is the same, all that was written is in the files,
    /// synced or not.
    pub system_run: Option<u128>,
}

/// Which file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// One that exists; else `NotFound`.
    Existing,
    /// A new, empty one; `AlreadyExists` if the name is in use.
    New,
}

/// Which locks of the same name are refused while this one is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// All others.
    Exclusive,
    /// Exclusive ones.
    Shared,
}

/// A descriptor of a file that stays open while this value exists.
pub enum Descriptor<'a> {
    /// The descriptor of a file that is open for the lifetime of the borrow.
    Borrowed(BorrowedFd<'a>),
    /// The descriptor of a file that could be closed otherwise.
    Shared(Arc<std::fs::File>),
}

impl AsFd for Descriptor<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Descriptor::Borrowed(descriptor) => *descriptor,
            Descriptor::Shared(file) => file.as_fd(),
        }
    }
}

/// One read of a batch, as it is passed to the system.
struct BatchRead<'a> {
    file: &'a dyn FileBackend,
    offset: u64,
    buffer: &'a mut [u8],
    /// The descriptor that the system reads from, held during the read.
    #[cfg_attr(
        not(all(feature = "io-uring", target_os = "linux", target_pointer_width = "64")),
        expect(dead_code, reason = "without io_uring, the trait of the file reads")
    )]
    descriptor: Option<Descriptor<'a>>,
    /// The number of bytes read, once the read has completed.
    outcome: Option<io::Result<usize>>,
}

/// The backend of a directory of files. Names have no separators.
pub trait DirectoryBackend: Send + Sync {
    /// Opens a file, or creates it.
    fn open(&self, name: &str, access: Access, mode: OpenMode) -> io::Result<Box<dyn FileBackend>>;
    /// Returns the names of all files, in no particular order.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Removes a file; readers that have it open can continue.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Renames a file, and atomically replaces an existing one.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Blocks until all creations, removals and renames survive a power loss.
    fn sync(&self) -> io::Result<()>;
    /// Locks a file until the result is dropped; `WouldBlock` if another lock of it excludes this one, `NotFound` if
    /// there is no such file. [`LOCK`] locks the directory, and is never listed. An exclusive lock creates it if it is
    /// missing; a shared one, which other files have not, changes nothing in the directory.
    fn lock(&self, name: &str, mode: LockMode) -> io::Result<Box<dyn Send + Sync>>;
    /// Opens another directory of the same kind: that at `path`, relative to this one. With `create`, a missing one is
    /// created durably. Read-only if this one is.
    fn other(&self, _path: &Path, _create: bool) -> io::Result<Box<dyn DirectoryBackend>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Returns what the device knows of itself.
    fn state(&self) -> io::Result<DirectoryState> {
        Ok(DirectoryState::default())
    }
    /// Returns a new executor of pieces of background work; `None` if these are executed one after another.
    #[doc(hidden)]
    fn executor(&self) -> Option<Box<dyn PieceExecutor>> {
        None
    }
    /// Returns the directory of the operating system that this is, if it is one. It has what others lack: hard links,
    /// a limit of open files, and processes that hold locks.
    fn as_system(&self) -> Option<&SystemDirectory> {
        None
    }
    /// Returns the name of the directory in errors.
    fn path(&self) -> PathBuf;
}
