//! What a directory knows of itself, and what its files ask of the backend.

use super::{aligned, directory, folder, kind, pattern};
use crate::batch::read_all;
use crate::file::File;
use crate::memory::MemoryDirectory;
use crate::queue::{Piece, PieceQueue};
use crate::shared::{Shared, Usage};
use crate::sync::Mutex;
use crate::{
    Access, Appender, Descriptor, Directory, DirectoryBackend, DirectoryState, Error, FileBackend, FileState,
    Hint, IoBackend, IoCounters, LockMode, OpenMode, Purpose, ReadRequest, SystemDirectory, Transfer,
    WRITEBACK_BYTES, io_backend,
};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

#[test]
fn two_directories_of_a_system_have_the_same_run_and_one_in_memory_has_none() {
    let (one, other) = (folder(), folder());
    let run = directory(one.path()).system_run().unwrap();
    assert_eq!(run, directory(other.path()).system_run().unwrap());
    assert_eq!(run.is_some_and(|run| run >> 64 != 0), cfg!(target_os = "linux"));
    let memory = Directory::new(MemoryDirectory::default(), Access::Buffered);
    assert_eq!((memory.system_run().unwrap(), memory.free_bytes().unwrap()), (None, None));
    assert!(directory(one.path()).free_bytes().unwrap().is_some_and(|free| free > 0));
    assert!(directory(one.path()).shares_file_system(&directory(other.path())));
    assert!(!directory(one.path()).shares_file_system(&memory));
}

#[test]
fn a_directory_or_a_file_that_was_removed_is_no_longer_present() {
    let folder = folder();
    let path = folder.path().join("inner");
    let directory = Directory::create_system(&path, Access::Buffered).unwrap();
    directory.create("file", Access::Buffered).unwrap();
    directory.check_present("file").unwrap();
    let is_removed =
        |name| matches!(directory.check_present(name), Err(Error::Removed { path: of }) if of == path);
    assert!(is_removed("other"));
    std::fs::remove_file(path.join("file")).unwrap();
    assert!(is_removed("file"));
    std::fs::remove_dir(&path).unwrap();
    // Another directory of this name is not the same one.
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join("file"), b"").unwrap();
    assert!(is_removed("file"));
}

#[test]
fn a_file_that_is_missing_has_no_length_and_one_that_cannot_be_opened_is_an_error() {
    let folder = folder();
    let directory = directory(folder.path());
    assert_eq!(directory.length_of("file").unwrap(), 0);
    std::fs::write(folder.path().join("file"), b"12345").unwrap();
    assert_eq!(directory.length_of("file").unwrap(), 5);
    assert_eq!(kind(&directory.length_of("..").unwrap_err()), ErrorKind::InvalidInput);
}

#[test]
fn a_directory_contains_itself_and_what_is_below_it_also_if_that_does_not_exist_yet() {
    let folder = folder();
    let path = folder.path().join("one/two");
    let directory = Directory::create_system(&path, Access::Buffered).unwrap();
    for (path, is_within) in [
        (path.clone(), true),
        (path.join("three/four"), true),
        (path.join("../two"), true),
        (path.join("../three"), false),
        (folder.path().to_owned(), false),
        (folder.path().join("one/twofold"), false),
    ] {
        assert_eq!(directory.contains(&path).unwrap(), is_within, "{}", path.display());
    }
    assert!(!Directory::new(MemoryDirectory::default(), Access::Buffered).contains(&path).unwrap());
}

/// A file that notes the hints it gets, and the bytes that were written before.
#[derive(Default)]
struct Hinted {
    written_bytes: Mutex<u64>,
    hints: Mutex<Vec<(Hint, u64)>>,
}

impl FileBackend for Hinted {
    fn read_at(&self, _offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        buffer.fill(7);
        Ok(buffer.len())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        *self.written_bytes.lock() = offset + bytes.len() as u64;
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn truncate(&self, _length: u64) -> io::Result<()> {
        Ok(())
    }

    fn state(&self) -> io::Result<FileState> {
        Ok(FileState { length: *self.written_bytes.lock(), names: None })
    }

    fn hint(&self, hint: Hint) {
        self.hints.lock().push((hint, *self.written_bytes.lock()));
    }
}

const USAGE: Usage =
    Usage { queue_depth: 1, skips_checksums_on_get: false, maps_appends: true, is_read_only: false };

fn hinted() -> (Arc<Hinted>, File) {
    let backend = Arc::new(Hinted::default());
    let usage =
        Usage { queue_depth: 1, skips_checksums_on_get: false, maps_appends: true, is_read_only: false };
    let shared = Shared::new(&MemoryDirectory::default());
    (backend.clone(), File::new(backend, "hinted".into(), shared, usage))
}

#[test]
fn what_an_appender_has_written_is_sent_to_the_drive_in_units_and_at_the_end() {
    let (backend, file) = hinted();
    let mut appender = Appender::new(file, Purpose::Merge, 64 << 10);
    appender.append(&pattern(5 << 19)).unwrap();
    appender.append(b"the end").unwrap();
    let (_, length) = appender.finish().unwrap();
    assert_eq!(length, (5 << 19) + 7);
    let unit = |offset, length| (Hint::Writeback { offset, length }, offset + length);
    let last = length - 2 * WRITEBACK_BYTES;
    let units =
        [unit(0, WRITEBACK_BYTES), unit(WRITEBACK_BYTES, WRITEBACK_BYTES), unit(2 * WRITEBACK_BYTES, last)];
    assert_eq!(*backend.hints.lock(), units);
}

#[test]
fn bytes_are_confirmed_by_a_read_after_the_cache_was_dropped() {
    let (backend, file) = hinted();
    file.confirm(5, &[7; 10]).unwrap();
    assert_eq!(*backend.hints.lock(), [(Hint::DropCache, 0)]);
    assert!(file.confirm(5, &[8; 10]).unwrap_err().to_string().contains("differ"));
}

/// A directory of the system with little free space.
struct Short(SystemDirectory, u64);

impl DirectoryBackend for Short {
    fn open(&self, name: &str, access: Access, mode: OpenMode) -> io::Result<Box<dyn FileBackend>> {
        self.0.open(name, access, mode)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn lock(&self, name: &str, mode: LockMode) -> io::Result<Box<dyn Send + Sync>> {
        self.0.lock(name, mode)
    }

    fn other(&self, path: &Path, create: bool) -> io::Result<Box<dyn DirectoryBackend>> {
        self.0.other(path, create)
    }

    fn state(&self) -> io::Result<DirectoryState> {
        Ok(DirectoryState { free_bytes: Some(self.1), system_run: None })
    }

    fn path(&self) -> PathBuf {
        self.0.path()
    }
}

#[test]
fn all_removed_space_is_freed_at_once_if_there_is_less_than_eight_times_as_much() {
    const BYTES: u64 = 5 << 20;
    let _no_forks = super::FORKS.read();
    for (free_bytes, left) in [(8 * BYTES, 1 << 20), (8 * BYTES - 1, 0), (0, 0)] {
        let folder = folder();
        let backend = Short(SystemDirectory::open(folder.path()).unwrap(), free_bytes);
        let directory = Directory::new(backend, Access::Buffered);
        let file = directory.create("removed", Access::Buffered).unwrap();
        file.write(Purpose::Merge, 0, &pattern(BYTES as usize)).unwrap();
        // What was written is not freed for: a first call without anything to free.
        assert!(!directory.free_removed(false).unwrap());
        directory.remove_open("removed", &file).unwrap();
        drop(file);
        assert_eq!(directory.unfreed_bytes(), BYTES);
        assert!(directory.free_removed(false).unwrap());
        assert_eq!(directory.unfreed_bytes(), left, "{free_bytes} bytes are free");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_forked_child_has_another_mark_than_its_parent() {
    let _forks = super::FORKS.write();
    let mark = crate::process_mark();
    super::assert_succeeded(super::fork(|| {
        let own = crate::process_mark();
        own != mark && own == crate::process_mark()
    }));
    assert_eq!(crate::process_mark(), mark);
}

#[test]
fn random_numbers_differ() {
    let numbers: std::collections::BTreeSet<u64> = (0..8).map(|_| crate::random_number().unwrap()).collect();
    assert_eq!(numbers.len(), 8);
    let highest_bytes: std::collections::BTreeSet<u64> = numbers.iter().map(|number| number >> 56).collect();
    assert!(highest_bytes.len() > 1, "all bytes are random");
}

#[test]
fn kinds_of_access_have_the_names_that_are_typed() {
    assert_eq!(Access::ALL.map(Access::name), ["buffered", "direct", "direct_or_buffered"]);
    assert_eq!(Access::ALL.map(Access::is_direct), [false, true, true]);
}

/// A file of the system that counts the calls which read or write it. `io_uring` has its descriptor.
struct Counted {
    file: std::fs::File,
    calls: AtomicUsize,
}

impl FileBackend for Counted {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.calls.fetch_add(1, Relaxed);
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.calls.fetch_add(1, Relaxed);
        self.file.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn state(&self) -> io::Result<FileState> {
        Ok(FileState { length: self.file.metadata()?.len(), names: None })
    }

    fn descriptor(&self, _transfer: Transfer) -> Option<Descriptor<'_>> {
        Some(Descriptor::Borrowed(self.file.as_fd()))
    }
}

fn counted(folder: &tempfile::TempDir) -> Arc<Counted> {
    let path = folder.path().join("counted");
    let file =
        std::fs::File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap();
    Arc::new(Counted { file, calls: AtomicUsize::new(0) })
}

#[test]
fn a_batch_and_pieces_in_the_background_make_no_call_where_the_system_has_a_ring() {
    let has_ring = io_backend() == IoBackend::IoUring;
    let folder = folder();
    let bytes = pattern(600 * 512);
    let backend = counted(&folder);
    let queue = PieceQueue::new(crate::system::ring::executor());
    let mut tickets = Vec::new();
    for (part, offset) in bytes.chunks(512).zip((0..).step_by(512)) {
        let piece = Piece { file: backend.clone(), is_write: true, offset, buffer: aligned(part) };
        tickets.push(queue.begin(piece, &IoCounters::default()));
    }
    for ticket in tickets {
        assert_eq!(ticket.wait().1.unwrap(), 512);
    }
    assert_eq!(backend.calls.swap(0, Relaxed), if has_ring { 0 } else { 600 });
    assert!(std::fs::read(folder.path().join("counted")).unwrap() == bytes);
    let piece = Piece { file: backend.clone(), is_write: false, offset: 700, buffer: aligned(&[0; 99]) };
    let (read, outcome) = queue.begin(piece, &IoCounters::default()).wait();
    assert!(outcome.unwrap() == 99 && read[..] == bytes[700..799]);
    // While gets read, a piece is executed when it begins.
    let counters = IoCounters::default();
    counters.read(Purpose::Get, 1);
    let piece = Piece { file: backend.clone(), is_write: false, offset: 5, buffer: aligned(&[0; 9]) };
    let ticket = queue.begin(piece, &counters);
    assert_eq!(backend.calls.load(Relaxed), if has_ring { 1 } else { 2 });
    assert!(ticket.wait().0[..] == bytes[5..14] && !queue.overlaps(&counters));
    for depth in [1, 2, 8, 500] {
        backend.calls.store(0, Relaxed);
        let usage = Usage { queue_depth: depth, ..USAGE };
        let shared = Shared::new(&MemoryDirectory::default());
        let file = File::new(backend.clone(), "counted".into(), shared, usage);
        let request = |at: u64| ReadRequest { file: &file, offset: at * 512, length: 512 };
        let read = read_all(&(0..600).map(request).collect::<Vec<_>>());
        assert!(read.into_iter().map(Result::unwrap).eq(bytes.chunks(512)));
        let is_overlapped = has_ring && depth > 1;
        assert_eq!(backend.calls.load(Relaxed), if is_overlapped { 0 } else { 600 }, "depth {depth}");
    }
}

#[test]
fn the_error_of_a_piece_is_that_of_the_system_also_from_a_ring() {
    let folder = folder();
    std::fs::write(folder.path().join("read"), b"bytes").unwrap();
    let file = std::fs::File::open(folder.path().join("read")).unwrap();
    let backend = Arc::new(Counted { file, calls: AtomicUsize::new(0) });
    let queue = PieceQueue::new(crate::system::ring::executor());
    let piece = Piece { file: backend, is_write: true, offset: 0, buffer: aligned(b"other") };
    let error = queue.begin(piece, &IoCounters::default()).wait().1.unwrap_err();
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::BADF.raw_os_error()));
}

#[test]
fn files_are_set_aside_under_the_first_number_that_no_file_and_no_directory_has() {
    let folder = folder();
    let directory = directory(folder.path());
    directory.create("aside-0001", Access::Buffered).unwrap();
    std::fs::create_dir(folder.path().join("aside-0002")).unwrap();
    assert_eq!(directory.set_aside(&["aside-0001"], "aside").unwrap(), "aside-0003");
    assert!(folder.path().join("aside-0003/aside-0001").exists());
}
