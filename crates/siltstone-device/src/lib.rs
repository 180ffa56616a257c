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
//! DirectoryBackend, FileBackend     pread or io_uring
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
mod error;
mod file;
pub mod memory;
mod parallel;
mod queue;
mod read_ahead;
mod removal;
mod reuse;
pub mod sync;
pub mod system;

pub use append::Appender;
pub use batch::{IoBackend, ReadRequest, io_backend, read_batch};
pub use buffer::{AlignedBuffer, scratch_bytes, with_scratch};
pub use counters::{IoCount, IoCounters, IoSnapshot, Purpose};
pub use error::{Error, Result, is_shortage};
pub use file::{Directory, File};
#[doc(hidden)]
pub use memory::NameLocks;
pub use parallel::in_parallel;
#[doc(hidden)]
pub use queue::{EndedPiece, Piece, PieceExecutor};
pub use read_ahead::ReadAhead;
pub use system::pages::Pages;
pub use system::{SystemDirectory, open_files_default};
pub use system::{process_mark, random_number};

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The maximum number of reads of a batch in flight.
const QUEUE_DEPTH_MAX: usize = 256;

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
    /// Writes all `bytes` at `offset`, and extends the file if necessary. The same multiples are required. After an
    /// error any part of the bytes may have been written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Like [`write_at`](FileBackend::write_at), for bytes after all others of the file. May reserve space: the file is
    /// then longer, by zeros, until [`end_append`](FileBackend::end_append).
    fn append_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_at(offset, bytes)
    }
    /// Releases reserved space: truncates the file to `length`.
    fn end_append(&self, _length: u64) -> io::Result<()> {
        Ok(())
    }
    /// Blocks until all writes, and the length, survive a power loss.
    fn sync(&self) -> io::Result<()>;
    /// Hints that a range may be written to the device now. Never fails.
    fn start_writeback(&self, _offset: u64, _length: u64) {}
    /// Hints that later reads should come from the device. After a failed sync, a cache may contain data that was never
    /// written and that no later sync will write.
    fn drop_cache(&self) {}
    /// Truncates the file to `length` bytes; a shorter file is left unchanged.
    fn truncate(&self, length: u64) -> io::Result<()>;
    /// Frees the last `bytes` of a file that was removed and that no other handle reads, at most its length. Returns
    /// the bytes that are left. A file that another name or process may refer to is left unchanged, and 0 is returned:
    /// closing it is all that can be done. Default: the same for every file.
    fn free_removed(&self, _bytes: u64) -> io::Result<u64> {
        Ok(0)
    }
    /// Returns whether another name or process may refer to the file, which must not be written over then. Default:
    /// true.
    fn is_shared(&self) -> io::Result<bool> {
        Ok(true)
    }
    /// Returns the length of the file, in bytes.
    fn length(&self) -> io::Result<u64>;
    /// Returns the unit of offsets, lengths and addresses, in bytes: 1, or the sector size of a direct file.
    fn alignment(&self) -> usize {
        1
    }
    /// Returns the file descriptor, for I/O that bypasses this trait (io_uring), also for writes if `_writes` is true.
    /// `None` if all I/O must go through the trait.
    fn descriptor(&self, _writes: bool) -> Option<Descriptor<'_>> {
        None
    }
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
    /// Creates a new, empty file; `AlreadyExists` if the name is in use.
    fn create(&self, name: &str, access: Access) -> io::Result<Box<dyn FileBackend>>;
    /// Opens a file; `NotFound` if it does not exist.
    fn open(&self, name: &str, access: Access) -> io::Result<Box<dyn FileBackend>>;
    /// Returns the names of all files, in no particular order.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Removes a file; readers that have it open can continue.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Renames a file, and atomically replaces an existing one.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Blocks until all creations, removals and renames survive a power loss.
    fn sync(&self) -> io::Result<()>;
    /// Takes the exclusive lock of a file until the result is dropped; `WouldBlock` if it is locked, `NotFound` if
    /// there is no such file. [`LOCK`] locks the directory; it is created if missing, and never listed.
    fn lock(&self, name: &str) -> io::Result<Box<dyn Send + Sync>>;
    /// Takes a shared lock of the directory until the result is dropped; it excludes the exclusive lock only. Changes
    /// nothing in the directory.
    fn lock_shared(&self) -> io::Result<Box<dyn Send + Sync>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Returns the process that has the exclusive lock of the directory, if known.
    fn lock_holder(&self) -> Option<u32> {
        None
    }
    /// Adds the file `name` to the directory `target`: as a hard link if possible, else as a copy.
    fn share(&self, name: &str, target: &dyn DirectoryBackend) -> io::Result<()>;
    /// Creates the subdirectory `folder` and durably adds the files `names` to it: as hard links if possible, else as
    /// copies. Files in it are never listed. `AlreadyExists` if it exists.
    fn set_aside(&self, _names: &[&str], _folder: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Opens another directory of the same kind: that at `path`, relative to this one. With `create`, a missing one is
    /// created durably. Read-only if this one is.
    fn other(&self, _path: &Path, _create: bool) -> io::Result<Box<dyn DirectoryBackend>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Limits the number of open files; others are closed, and opened again when they are used.
    fn limit_open_files(&self, _max: u64) {}
    /// Returns a new executor of pieces of background work; `None` if these are executed one after another.
    #[doc(hidden)]
    fn executor(&self) -> Option<Box<dyn PieceExecutor>> {
        None
    }
    /// Returns the number of open files and its limit, if they are counted.
    fn open_files(&self) -> Option<(u64, u64)> {
        None
    }
    /// Returns the bytes of the file system that are free for this process; `None` if that is unknown.
    fn free_bytes(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }
    /// Returns the descriptor of the directory, if it is one of the operating system.
    fn handle(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// Returns whether files are opened for reading only and every change is refused (`ReadOnlyFilesystem`).
    fn is_read_only(&self) -> bool {
        false
    }
    /// Returns a number that the system has chosen when it started. While it is the same, all that was written is in
    /// the files, synced or not. `None` if the system has none.
    fn system_run(&self) -> Option<u128> {
        None
    }
    /// Returns the name of the directory in errors.
    fn path(&self) -> PathBuf;
}
