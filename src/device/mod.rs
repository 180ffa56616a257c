//! The only room with file descriptors: directories of files, each read and written at positions.
//!
//! [`Directory`] and [`File`] count every operation and byte by [`Purpose`] and name the file in every error; what
//! does the work stands behind two narrow traits, [`DirectoryBackend`] and [`FileBackend`]: real files
//! ([`system`]), memory ([`memory`]), and the simulated device of the testing room.

mod append;
mod buffer;
mod counters;
mod file;
pub mod memory;
pub mod system;

pub use append::Appender;
pub use buffer::AlignedBuffer;
pub use counters::{IoCount, IoCounters, IoSnapshot, Purpose};
pub use file::{Directory, File, ReadRequest};
pub use system::SystemDirectory;

use std::io;
use std::path::{Path, PathBuf};

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

/// A file, as the room's variants implement it. Offsets and lengths are in bytes.
pub trait FileBackend: Send + Sync {
    /// Reads into `buffer` from `offset` on and returns how many bytes there were: fewer than asked for only at the
    /// end of the file, whose last block a direct reader asks for whole. Offset, length and address are multiples of
    /// [`alignment`](FileBackend::alignment), the address of 4,096 at most.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
    /// Carries out several reads, each with its own outcome; those that can overlap do.
    fn read_many(&self, requests: &mut [BackendRead<'_>]) {
        for request in requests {
            request.outcome = self.read_at(request.offset, request.buffer);
        }
    }
    /// Writes all `bytes` at `offset`, lengthening the file where needed. The same multiples hold. After an error any
    /// part of them may have been written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Returns when all that was written, and the length, survive a loss of power.
    fn sync(&self) -> io::Result<()>;
    /// A hint that a range may be sent to the device now; never an error.
    fn start_writeback(&self, _offset: u64, _length: u64) {}
    /// Cuts the file to `length` bytes; a shorter one stays as it is.
    fn truncate(&self, length: u64) -> io::Result<()>;
    /// The length of the file, in bytes.
    fn length(&self) -> io::Result<u64>;
    /// What offsets, lengths and addresses are multiples of, in bytes: 1, or the sector of a direct file.
    fn alignment(&self) -> usize {
        1
    }
}

/// One read of a batch, as a backend sees it.
pub struct BackendRead<'a> {
    /// Where, in bytes.
    pub offset: u64,
    /// What to fill.
    pub buffer: &'a mut [u8],
    /// How many bytes there were, as [`FileBackend::read_at`] says.
    pub outcome: io::Result<usize>,
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
    /// Takes the exclusive lock of the directory until it is dropped; `WouldBlock` if another process has it.
    fn lock(&self) -> io::Result<Box<dyn Send + Sync>>;
    /// Makes `name` stand in the directory `target` too: by a hard link where that can be done, else by a copy.
    fn share(&self, name: &str, target: &Path) -> io::Result<()>;
    /// How the directory is called in errors.
    fn path(&self) -> PathBuf;
}
