//! The only room with file descriptors: directories of files, each read and written at positions.
//!
//! [`Directory`] and [`File`] count every operation and byte by [`Purpose`] and name the file in every error; what
//! does the work stands behind two narrow traits, [`DirectoryBackend`] and [`FileBackend`]: real files
//! ([`system`]), and memory ([`memory`]). The crate siltstone-testing has a simulated device.

mod append;
mod batch;
mod buffer;
mod counters;
mod file;
pub mod memory;
pub mod system;

pub use append::Appender;
pub use batch::{IoBackend, ReadRequest, io_backend, read_batch};
pub use buffer::{AlignedBuffer, scratch_bytes, with_scratch};
pub use counters::{IoCount, IoCounters, IoSnapshot, Purpose};
pub use file::{Directory, File};
#[doc(hidden)]
pub use memory::NameLocks;
pub use system::pages::{HUGE_PAGE_BYTES, PageKind, Pages};
pub use system::{SystemDirectory, open_files_default};
pub(crate) use system::{is_shortage, process_mark};

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;

/// The file whose lock is the directory's; it is no file of a store, and never listed.
pub const LOCK: &str = "LOCK";

/// How a file's blocks reach the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Access {
    /// Through the system's page cache.
    #[default]
    Buffered,
    /// Past the page cache (`O_DIRECT`); an error where the file system refuses.
    Direct,
    /// Past the page cache where the file system allows it, else through it.
    DirectOrBuffered,
}

impl Access {
    /// Whether the page cache is to be passed by, where that can be.
    pub fn is_direct(self) -> bool {
        self != Access::Buffered
    }
}

/// A file, as the room's variants implement it. Offsets and lengths are in bytes.
pub trait FileBackend: Send + Sync {
    /// Reads into `buffer` from `offset` on and returns how many bytes there were: fewer than asked for only at the
    /// end of the file, whose last block a direct reader asks for whole. Offset, length and address are multiples of
    /// [`alignment`](FileBackend::alignment), the address of 4,096 at most.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
    /// Writes all `bytes` at `offset`, lengthening the file where needed. The same multiples hold. After an error any
    /// part of them may have been written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Returns when all that was written, and the length, survive a loss of power.
    fn sync(&self) -> io::Result<()>;
    /// A hint that a range may be sent to the device now; never an error.
    fn start_writeback(&self, _offset: u64, _length: u64) {}
    /// A hint that reads after it shall come from the device: what a cache still shows of a sync that failed was
    /// never written, and no later sync will write it.
    fn drop_cache(&self) {}
    /// Cuts the file to `length` bytes; a shorter one stays as it is.
    fn truncate(&self, length: u64) -> io::Result<()>;
    /// The length of the file, in bytes.
    fn length(&self) -> io::Result<u64>;
    /// What offsets, lengths and addresses are multiples of, in bytes: 1, or the sector of a direct file.
    fn alignment(&self) -> usize {
        1
    }
    /// The descriptor to which a batch of reads may be sent past this trait; `None` if they must go through it.
    fn descriptor(&self) -> Option<Descriptor<'_>> {
        None
    }
}

/// A descriptor of a file, which stays open as long as this is held.
pub enum Descriptor<'a> {
    /// That of a file that is open as long as it is borrowed.
    Borrowed(BorrowedFd<'a>),
    /// That of a file which may be closed otherwise.
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

/// A directory of files, as the room's variants implement it. Names have no separators.
pub trait DirectoryBackend: Send + Sync {
    /// Makes a new, empty file; `AlreadyExists` if there is one.
    fn create(&self, name: &str, access: Access) -> io::Result<Box<dyn FileBackend>>;
    /// Opens a file; `NotFound` if there is none.
    fn open(&self, name: &str, access: Access) -> io::Result<Box<dyn FileBackend>>;
    /// The names of all files, in no order.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Removes a file; those who have it open go on reading it.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Gives a file another name, atomically taking the place of one that has it.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Returns when all creations, removals and renamings survive a loss of power.
    fn sync(&self) -> io::Result<()>;
    /// Takes the exclusive lock of a file until it is dropped; `WouldBlock` if somebody else has it, `NotFound` if
    /// there is no such file. [`LOCK`], which stands for the directory, is made if it is missing and never listed.
    fn lock(&self, name: &str) -> io::Result<Box<dyn Send + Sync>>;
    /// Takes a shared lock of the directory until it is dropped: others may share it, and nobody has the exclusive one.
    /// Changes nothing in the directory.
    fn lock_shared(&self) -> io::Result<Box<dyn Send + Sync>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// The process that has the exclusive lock of the directory, where that is known.
    fn lock_holder(&self) -> Option<u32> {
        None
    }
    /// Makes `name` stand in the directory `target` too: by a hard link where that can be done, else by a copy.
    fn share(&self, name: &str, target: &dyn DirectoryBackend) -> io::Result<()>;
    /// Makes a new directory `folder` in this one and lets `names` stand there too, durably: by hard links where that
    /// can be done, else by copies. They are no files of the store there, and never listed. `AlreadyExists` if there is
    /// one of that name.
    fn set_aside(&self, _names: &[&str], _folder: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Lets no more files be open at a time; others are closed and opened again when they are used.
    fn limit_open_files(&self, _max: u64) {}
    /// How many files are open and how many may be, where that is counted.
    fn open_files(&self) -> Option<(u64, u64)> {
        None
    }
    /// The descriptor of the directory, if it is one of the operating system.
    fn handle(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// Whether files are opened for reading only, and every change is refused (`ReadOnlyFilesystem`).
    fn is_read_only(&self) -> bool {
        false
    }
    /// How the directory is called in errors.
    fn path(&self) -> PathBuf;
}
