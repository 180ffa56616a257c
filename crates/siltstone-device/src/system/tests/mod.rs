mod directories;
#[cfg(all(
    target_os = "linux",
    target_arch = "x86_64",
    target_pointer_width = "64",
    not(any(miri, thread_sanitizer))
))]
mod mapping;
mod removed;

use crate::batch::read_all;
use crate::error::Error;
use crate::sync::RwLock;
use crate::{
    Access, AlignedBuffer, Appender, Directory, File, IoCount, Purpose, ReadRequest, SystemDirectory,
};
use std::io::ErrorKind;
use std::path::Path;

/// A directory on the file system of the build, which supports direct I/O more often than `/tmp`.
pub(super) fn folder() -> tempfile::TempDir {
    let program = std::env::current_exe().unwrap();
    tempfile::tempdir_in(program.parent().unwrap()).unwrap()
}

fn directory(path: &Path) -> Directory {
    Directory::new(SystemDirectory::open(path).unwrap(), Access::Buffered)
}

fn empty() -> (tempfile::TempDir, Directory) {
    let folder = folder();
    let directory = directory(folder.path());
    (folder, directory)
}

/// Creates a direct file; prints the reason and returns `None` if this machine does not support it.
fn create_direct(directory: &Directory, name: &str) -> Option<File> {
    match directory.create(name, Access::Direct) {
        Ok(file) => Some(file),
        Err(error) if kind(&error) == ErrorKind::Unsupported => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn kind(error: &Error) -> ErrorKind {
    match error {
        Error::Io { source, .. } => source.kind(),
        other => panic!("not a system error: {other}"),
    }
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 + at / 251) as u8).collect()
}

fn aligned(bytes: &[u8]) -> AlignedBuffer {
    let mut buffer = AlignedBuffer::default();
    buffer.extend_from_slice(bytes);
    buffer
}

#[test]
fn a_read_beyond_the_end_is_an_error_that_names_the_file() {
    let folder = folder();
    let file = directory(folder.path()).create("short", Access::Buffered).unwrap();
    file.write(Purpose::Log, 0, b"0123456789").unwrap();
    let mut buffer = AlignedBuffer::default();
    assert_eq!(file.read(Purpose::Get, 4, 6, &mut buffer).unwrap(), b"456789");
    let error = file.read(Purpose::Get, 4, 7, &mut buffer).unwrap_err();
    assert_eq!(kind(&error), ErrorKind::UnexpectedEof);
    assert!(error.to_string().contains("short"), "{error}");
    assert_eq!(kind(&file.read(Purpose::Get, 99, 1, &mut buffer).unwrap_err()), ErrorKind::UnexpectedEof);
    for length in [2 << 20, 1 << 40, usize::MAX] {
        let error = file.read(Purpose::Get, 7, length, &mut buffer).unwrap_err();
        assert_eq!(kind(&error), ErrorKind::UnexpectedEof);
    }
}

#[test]
fn direct_and_buffered_access_see_the_same_bytes_at_any_offset() {
    let (_folder, directory) = empty();
    let Some(direct) = create_direct(&directory, "data") else { return };
    let bytes = pattern(5 * 4096);
    direct.write(Purpose::Log, 0, &aligned(&bytes)).unwrap();
    let buffered = directory.open("data", Access::Buffered).unwrap();
    assert!(direct.alignment() > 1 && buffered.alignment() == 1);
    let mut buffer = AlignedBuffer::default();
    for (offset, length) in [(0, 4096), (1, 1), (511, 2), (4095, 2), (512, 1024), (3000, 9000), (20_479, 1)] {
        let expected = &bytes[offset..offset + length];
        assert_eq!(direct.read(Purpose::Get, offset as u64, length, &mut buffer).unwrap(), expected);
        assert_eq!(buffered.read(Purpose::Get, offset as u64, length, &mut buffer).unwrap(), expected);
    }
    let before = directory.io();
    direct.read(Purpose::Get, 4095, 2, &mut buffer).unwrap();
    let read_bytes = 2 * direct.alignment() as u64;
    assert_eq!(
        (directory.io() - before).of(Purpose::Get),
        IoCount { reads: 1, read_bytes, ..IoCount::default() }
    );
}

#[test]
fn a_direct_file_whose_end_is_no_multiple_of_the_alignment_is_read_to_its_last_byte() {
    let (_folder, directory) = empty();
    if create_direct(&directory, "probe").is_none() {
        return;
    }
    let bytes = pattern(2 * 4096 + 100);
    directory.create("data", Access::Buffered).unwrap().write(Purpose::Log, 0, &bytes).unwrap();
    let direct = directory.open("data", Access::Direct).unwrap();
    let mut buffer = AlignedBuffer::default();
    assert_eq!(direct.length().unwrap(), bytes.len() as u64);
    assert_eq!(direct.read(Purpose::Get, 8000, 292, &mut buffer).unwrap(), &bytes[8000..]);
    let beyond = direct.read(Purpose::Get, 8000, 293, &mut buffer).unwrap_err();
    assert_eq!(kind(&beyond), ErrorKind::UnexpectedEof);
    direct.truncate(4096).unwrap();
    direct.truncate(1 << 20).unwrap();
    assert_eq!(direct.length().unwrap(), 4096);
}

#[test]
fn a_misaligned_direct_write_is_refused_and_changes_nothing() {
    let (_folder, directory) = empty();
    let Some(direct) = create_direct(&directory, "data") else { return };
    let buffer = aligned(&pattern(8192));
    for (offset, bytes) in [(1, &buffer[..4096]), (0, &buffer[..100]), (0, &buffer[1..4097])] {
        let error = direct.write(Purpose::Log, offset, bytes).unwrap_err();
        assert_eq!(kind(&error), ErrorKind::InvalidInput);
    }
    assert_eq!(direct.length().unwrap(), 0);
}

#[test]
fn where_direct_access_is_refused_the_error_names_the_remedy_and_direct_or_buffered_access_is_buffered() {
    let Ok(backend) = SystemDirectory::open("/proc/self") else { return };
    let directory = Directory::new(backend, Access::Buffered);
    let error = directory.open("comm", Access::Direct).err().unwrap();
    assert_eq!(kind(&error), ErrorKind::Unsupported);
    assert!(
        error.to_string().contains("/proc/self/comm") && error.to_string().contains("buffered"),
        "{error}"
    );
    assert_eq!(directory.open("comm", Access::DirectOrBuffered).unwrap().alignment(), 1);
}

#[test]
fn a_batch_of_reads_fills_every_request_and_reports_a_failure() {
    let (_folder, directory) = empty();
    let bytes = pattern(64 << 10);
    directory.create("data", Access::Buffered).unwrap().write(Purpose::Log, 0, &bytes).unwrap();
    let file = directory.open("data", Access::DirectOrBuffered).unwrap();
    let request = |at: u64| ReadRequest { file: &file, offset: at * 601, length: 77 + at as usize };
    let mut requests: Vec<_> = (0..100).map(request).collect();
    for (request, read) in requests.iter().zip(read_all(&requests)) {
        assert_eq!(read.unwrap(), &bytes[request.offset as usize..][..request.length]);
    }
    (requests[50].offset, requests[50].length) = (64 << 10, 1);
    let failed = read_all(&requests).into_iter().enumerate().filter_map(|(at, read)| Some((at, read.err()?)));
    let failed: Vec<_> = failed.map(|(at, error)| (at, kind(&error))).collect();
    assert_eq!(failed, [(50, ErrorKind::UnexpectedEof)]);
    assert_eq!(directory.io().of(Purpose::Get).reads, 200);
}

#[test]
fn the_lock_excludes_a_second_holder_until_it_is_dropped() {
    let folder = folder();
    let (first, second) = (directory(folder.path()), directory(folder.path()));
    let lock = first.lock().unwrap();
    assert!(matches!(second.lock(), Err(Error::Locked { .. })));
    assert!(matches!(first.lock(), Err(Error::Locked { .. })));
    assert!(first.list().unwrap().is_empty());
    drop(lock);
    drop(second.lock().unwrap());
}

#[test]
fn files_are_created_once_listed_renamed_and_removed() {
    let (_folder, directory) = empty();
    let file = directory.create("b", Access::Buffered).unwrap();
    file.write(Purpose::Log, 0, b"kept").unwrap();
    file.sync(Purpose::Log).unwrap();
    assert_eq!(kind(&directory.create("b", Access::Buffered).err().unwrap()), ErrorKind::AlreadyExists);
    directory.create("a", Access::Buffered).unwrap();
    directory.sync(Purpose::Manifest).unwrap();
    assert_eq!(directory.list().unwrap(), ["a", "b"]);
    directory.rename("b", "a").unwrap();
    assert_eq!(directory.list().unwrap(), ["a"]);
    assert_eq!(kind(&directory.open("b", Access::Buffered).err().unwrap()), ErrorKind::NotFound);
    directory.remove("a").unwrap();
    assert!(directory.list().unwrap().is_empty());
    assert_eq!(file.read(Purpose::Get, 0, 4, &mut AlignedBuffer::default()).unwrap(), b"kept");
    assert_eq!(directory.io().of(Purpose::Manifest).syncs, 1);
}

#[test]
fn a_name_never_leads_out_of_the_directory() {
    let folder = folder();
    std::fs::create_dir(folder.path().join("inner")).unwrap();
    std::fs::write(folder.path().join("secret"), b"secret").unwrap();
    let directory = directory(&folder.path().join("inner"));
    for name in ["../secret", "", ".", "..", "a/b", "a\0b"] {
        let error = directory.open(name, Access::Buffered).err().unwrap();
        assert_eq!(kind(&error), ErrorKind::InvalidInput, "{name:?}");
        assert!(directory.remove(name).is_err() && directory.rename(name, "mine").is_err());
    }
}

#[test]
fn a_missing_directory_is_created_with_those_above_it_but_not_opened() {
    let folder = folder();
    let path = folder.path().join("one/two");
    assert_eq!(kind(&SystemDirectory::open(&path).err().unwrap()), ErrorKind::NotFound);
    SystemDirectory::create(&path).unwrap();
    SystemDirectory::create(&path).unwrap();
    std::fs::write(path.join("file"), b"").unwrap();
    let error = SystemDirectory::open(path.join("file")).err().unwrap();
    assert_eq!(kind(&error), ErrorKind::NotADirectory);
    assert_eq!(directory(&folder.path().join("one")).list().unwrap(), Vec::<String>::new());
}

#[test]
fn a_shared_file_is_in_both_directories() {
    let (from, to) = (folder(), folder());
    let (directory, target) = (directory(from.path()), directory(to.path()));
    directory.create("data", Access::Buffered).unwrap().write(Purpose::Log, 0, b"shared").unwrap();
    directory.share("data", &target).unwrap();
    directory.remove("data").unwrap();
    assert_eq!(std::fs::read(to.path().join("data")).unwrap(), b"shared");
    assert_eq!(kind(&directory.share("data", &target).unwrap_err()), ErrorKind::NotFound);
    directory.create("data", Access::Buffered).unwrap();
    assert_eq!(kind(&directory.share("data", &target).unwrap_err()), ErrorKind::AlreadyExists);
}

#[test]
fn with_direct_access_units_of_writeback_are_small_while_gets_read() {
    let folder = folder();
    for access in [Access::Buffered, Access::DirectOrBuffered] {
        let directory = Directory::system(folder.path(), access).unwrap();
        let file = directory.create(&format!("{access:?}"), Access::Buffered).unwrap();
        file.write(Purpose::Log, 0, &pattern(10)).unwrap();
        let before = directory.writeback_bytes();
        file.read(Purpose::Get, 0, 1, &mut AlignedBuffer::default()).unwrap();
        let meanwhile = directory.writeback_bytes();
        assert_eq!(meanwhile < before, access.is_direct());
        for _ in 0..100 {
            directory.writeback_bytes();
        }
        assert_eq!(directory.writeback_bytes(), before);
    }
}

#[test]
fn with_direct_access_few_background_reads_overlap_while_gets_read() {
    let folder = folder();
    for access in [Access::Buffered, Access::DirectOrBuffered] {
        let directory = Directory::system(folder.path(), access).unwrap().queue_depth(16);
        let name = format!("{access:?}");
        directory.create(&name, Access::Buffered).unwrap().write(Purpose::Log, 0, &pattern(4096)).unwrap();
        let file = directory.open(&name, access).unwrap();
        assert_eq!(file.queue_depth(Purpose::Collect), 16);
        file.read(Purpose::Get, 0, 1, &mut AlignedBuffer::default()).unwrap();
        let is_shared = file.queue_depth(Purpose::Collect) < 16;
        assert_eq!(is_shared, file.alignment() > 1);
        assert_eq!(file.queue_depth(Purpose::Get), 16);
    }
}

#[test]
fn a_copy_for_another_file_system_is_complete_and_leaves_no_other_file() {
    let (from, to) = (folder(), folder());
    std::fs::write(from.path().join("data"), pattern(100_000)).unwrap();
    let [from, target] = [from.path(), to.path()].map(|path| std::fs::File::open(path).unwrap());
    super::copy_durably(&from, "data", &target).unwrap();
    assert_eq!(std::fs::read(to.path().join("data")).unwrap(), pattern(100_000));
    assert!(super::copy_durably(&from, "none", &target).is_err());
    assert_eq!(std::fs::read_dir(to.path()).unwrap().count(), 1);
}

#[test]
fn the_names_of_new_directories_are_synced_from_the_top_down() {
    let folder = folder();
    let path = folder.path().join("one/two/three");
    super::synced::forget();
    SystemDirectory::create(&path).unwrap();
    for above in path.ancestors().skip(1).take(3) {
        assert!(super::synced::has(above), "{}", above.display());
    }
    // An earlier process may have created it without syncing it.
    super::synced::forget();
    SystemDirectory::create(&path).unwrap();
    assert!(super::synced::has(&folder.path().join("one/two")));
}

#[test]
fn a_renamed_directory_is_still_the_same_one() {
    let folder = folder();
    let (before, after) = (folder.path().join("before"), folder.path().join("after"));
    std::fs::create_dir(&before).unwrap();
    let directory = directory(&before);
    directory.create("a", Access::Buffered).unwrap();
    let lock = directory.lock().unwrap();
    std::fs::rename(&before, &after).unwrap();
    // Another directory has the old name now.
    std::fs::create_dir(&before).unwrap();
    directory.create("b", Access::Buffered).unwrap();
    directory.rename("a", "c").unwrap();
    directory.open("b", Access::Buffered).unwrap();
    directory.set_aside(&["b"], "aside").unwrap();
    directory.sync(Purpose::Manifest).unwrap();
    directory.remove("b").unwrap();
    assert_eq!(directory.list().unwrap(), ["c"]);
    assert!(after.join("aside-0001/b").exists());
    assert_eq!(std::fs::read_dir(&before).unwrap().count(), 0);
    assert!(matches!(self::directory(&after).lock(), Err(Error::Locked { .. })));
    drop(lock);
}

#[test]
fn readers_share_the_lock_and_a_writer_excludes_them_and_is_named() {
    let folder = folder();
    let writer = directory(folder.path());
    let reader = || Directory::system_read_only(folder.path(), Access::Buffered).unwrap();
    let shared = [reader().lock_shared().unwrap(), reader().lock_shared().unwrap()];
    // Readers leave no file, and writers know of no reader.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    assert!(matches!(writer.lock(), Err(Error::Locked { process: None, .. })));
    drop(shared);
    let lock = writer.lock().unwrap();
    let own = Some(std::process::id());
    assert!(matches!(reader().lock_shared(), Err(Error::Locked { process, .. }) if process == own));
    assert!(matches!(writer.lock(), Err(Error::Locked { process, .. }) if process == own));
    let named = || std::fs::read_to_string(folder.path().join("LOCK")).unwrap();
    assert_eq!(named(), format!("{}\n", std::process::id()));
    drop(lock);
    assert_eq!(named(), "", "no process has the lock");
    drop(reader().lock_shared().unwrap());
}

#[test]
fn a_second_writer_is_kept_out_though_the_file_of_the_lock_was_removed() {
    let (folder, directory) = empty();
    let lock = directory.lock().unwrap();
    std::fs::remove_file(folder.path().join("LOCK")).unwrap();
    assert!(matches!(directory.lock(), Err(Error::Locked { .. })));
    assert!(matches!(directory.lock_shared(), Err(Error::Locked { .. })));
    drop(lock);
    drop(directory.lock().unwrap());
}

/// Where directories cannot be locked, a writer has the lock of the file alone.
#[test]
fn a_reader_is_kept_out_by_a_writer_that_has_only_the_file_of_the_lock() {
    let (folder, directory) = empty();
    let file = std::fs::File::create(folder.path().join("LOCK")).unwrap();
    file.lock().unwrap();
    assert!(matches!(directory.lock_shared(), Err(Error::Locked { .. })));
    drop(file);
    drop(directory.lock_shared().unwrap());
}

#[test]
fn an_appender_writes_pieces_that_read_back_with_the_end_padded() {
    let (_folder, directory) = empty();
    for access in [Access::Buffered, Access::DirectOrBuffered] {
        let name = format!("{access:?}");
        let bytes = pattern(300_001);
        let mut appender =
            Appender::new(directory.create(&name, access).unwrap(), Purpose::Convert, 32 << 10);
        let before = directory.io();
        for chunk in bytes.chunks(7919) {
            appender.append(chunk).unwrap();
            // The piece that is collected, and perhaps one in flight.
            assert!((32 << 10..=2 * (32 << 10)).contains(&appender.heap_bytes()));
        }
        assert_eq!(appender.position(), bytes.len() as u64);
        let (file, length) = appender.finish().unwrap();
        let done = (directory.io() - before).of(Purpose::Convert);
        assert_eq!((done.writes, done.write_bytes, done.syncs), (10, length, 0));
        assert_eq!(length, bytes.len().next_multiple_of(file.alignment()) as u64);
        assert_eq!(file.length().unwrap(), length);
        let mut buffer = AlignedBuffer::default();
        assert_eq!(file.read(Purpose::Get, 0, bytes.len(), &mut buffer).unwrap(), bytes);
        let padding = (length - bytes.len() as u64) as usize;
        let tail = file.read(Purpose::Get, bytes.len() as u64, padding, &mut buffer).unwrap();
        assert!(tail.iter().all(|&byte| byte == 0));
    }
}

#[test]
fn dropping_the_cache_loses_nothing_that_was_written() {
    let folder = folder();
    let file = directory(folder.path()).create("data", Access::Buffered).unwrap();
    let bytes = pattern(100_000);
    file.write(Purpose::Log, 0, &bytes).unwrap();
    file.drop_cache();
    file.sync(Purpose::Log).unwrap();
    file.drop_cache();
    assert_eq!(file.read(Purpose::Get, 0, bytes.len(), &mut AlignedBuffer::default()).unwrap(), bytes);
}

#[test]
fn a_directory_opened_for_reading_only_is_read_and_never_changed() {
    let folder = folder();
    directory(folder.path()).create("f", Access::Buffered).unwrap().write(Purpose::Log, 0, b"x").unwrap();
    let path = folder.path().join("f");
    let mut mode = std::fs::metadata(&path).unwrap().permissions();
    mode.set_readonly(true);
    std::fs::set_permissions(&path, mode).unwrap();
    let reader = Directory::system_read_only(folder.path(), Access::Buffered).unwrap();
    let file = reader.open("f", Access::Buffered).unwrap();
    assert_eq!(file.read(Purpose::Get, 0, 1, &mut AlignedBuffer::default()).unwrap(), b"x");
    assert!(file.write(Purpose::Log, 0, b"y").is_err());
    for refused in [
        reader.create("g", Access::Buffered).map(drop),
        reader.remove("f"),
        reader.rename("f", "g"),
        reader.lock().map(drop),
    ] {
        assert_eq!(kind(&refused.unwrap_err()), ErrorKind::ReadOnlyFilesystem);
    }
    assert_eq!(reader.list().unwrap(), ["f"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_forked_child_and_its_parent_read_batches_through_rings_of_their_own() {
    let folder = folder();
    let file = directory(folder.path()).create("f", Access::Buffered).unwrap();
    let right = pattern(64 << 10);
    file.write(Purpose::Log, 0, &right).unwrap();
    let read_right = |first: usize| {
        let request = |at| ReadRequest { file: &file, offset: at as u64 * 4096, length: 4096 };
        let read = read_all(&(first..first + 8).map(request).collect::<Vec<_>>());
        read.iter()
            .zip(right[first * 4096..].chunks(4096))
            .all(|(read, right)| read.as_ref().is_ok_and(|read| read == right))
    };
    assert!(read_right(0));
    let _forks = FORKS.write();
    let child = fork(|| (0..3000).all(|_| read_right(8)));
    let all_right = (0..3000).all(|_| read_right(0));
    assert_succeeded(child);
    assert!(all_right);
}

/// Locked by tests that fork, and shared by those that free removed files in steps, which ends for files of before.
static FORKS: RwLock<()> = RwLock::new(());

/// Makes a child process that executes `body`, which only reads and allocates, and ends. Returns its number.
#[cfg(target_os = "linux")]
fn fork(body: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child only reads, allocates (which the C library allows after a fork) and ends by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = if body() { 0 } else { 1 };
        // SAFETY: it ends this process, whose memory is not shared, without running the code of the parent.
        unsafe { libc::_exit(code) };
    }
    assert!(child > 0);
    child
}

/// Waits for a child process whose body has to return `true`.
#[cfg(target_os = "linux")]
fn assert_succeeded(child: i32) {
    let mut status = 0;
    // SAFETY: the process is our child, and `status` is ours.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "status {status:#x}");
}

/// Lengths around those of pages, windows and copies, each appended after the others, with syncs in between.
#[test]
fn what_is_appended_is_read_at_once_and_the_file_ends_where_it_was_ended() {
    const LENGTHS: [usize; 13] = [1, 63, 4032, 4096, 70_000, 9, 256, 257, 1 << 20, 5, 20_000, 3 << 20, 250];
    let folder = tempfile::tempdir().unwrap();
    for maps in [true, false] {
        let directory = Directory::system(folder.path(), Access::Buffered).unwrap().map_appends(maps);
        let file = directory.create(&format!("appended-{maps}"), Access::Buffered).unwrap();
        let mut expected = Vec::new();
        for (round, length) in (0..4u8).flat_map(|round| LENGTHS.map(|length| (round, length))) {
            let bytes = vec![round + 1; length];
            file.append(Purpose::Log, expected.len() as u64, &bytes).unwrap();
            expected.extend_from_slice(&bytes);
            let mut buffer = AlignedBuffer::default();
            let start = expected.len() - length;
            let read = file.read(Purpose::Get, start as u64, length, &mut buffer).unwrap();
            assert!(read == bytes, "{length} bytes at {start}");
            if round % 2 == 1 {
                file.sync(Purpose::Log).unwrap();
            }
        }
        for small in 0..3000u32 {
            file.append(Purpose::Log, expected.len() as u64, &small.to_le_bytes()).unwrap();
            expected.extend_from_slice(&small.to_le_bytes());
        }
        let path = folder.path().join(format!("appended-{maps}"));
        let bytes = std::fs::read(&path).unwrap();
        assert!(bytes.starts_with(&expected) && bytes[expected.len()..].iter().all(|&byte| byte == 0));
        for _ in 0..2 {
            file.truncate(expected.len() as u64).unwrap();
            assert!(std::fs::read(&path).unwrap() == expected);
            file.append(Purpose::Log, expected.len() as u64, b"more").unwrap();
            expected.extend_from_slice(b"more");
        }
        file.truncate(expected.len() as u64).unwrap();
        drop(file);
        assert!(std::fs::read(&path).unwrap() == expected);
    }
}

#[test]
fn long_appends_are_written_by_calls_and_reserve_no_space() {
    let folder = folder();
    let file = directory(folder.path()).create("appended", Access::Buffered).unwrap();
    for end in (1..=20).map(|count| 1_000 * count) {
        file.append(Purpose::Log, end - 1_000, &pattern(1_000)).unwrap();
        assert_eq!(file.length().unwrap(), end);
    }
}
