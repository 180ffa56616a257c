//! Reads that are copied from a mapping are those that calls return, whatever happens to the file.

use super::folder;
use crate::batch::read_all;
use crate::system::guarded_copy;
use crate::system::mapping::ReadMapping;
use crate::{Access, AlignedBuffer, Directory, Error, File, Purpose, ReadRequest};
use std::ffi::c_void;
use std::io::{self, ErrorKind};
use std::path::Path;

const PAGE: usize = 4096;

fn directory(path: &Path) -> Directory {
    Directory::system(path, Access::Buffered).unwrap()
}

fn byte(at: usize) -> u8 {
    (at / PAGE + at) as u8
}

fn bytes(range: std::ops::Range<usize>) -> Vec<u8> {
    range.map(byte).collect()
}

fn read(file: &File, offset: usize, length: usize) -> Result<Vec<u8>, ErrorKind> {
    let mut buffer = AlignedBuffer::default();
    match file.read(Purpose::Get, offset as u64, length, &mut buffer) {
        Ok(bytes) => Ok(bytes.to_vec()),
        Err(Error::Io { source, .. }) => Err(source.kind()),
        Err(error) => panic!("{error}"),
    }
}

/// A mapping, and reads of a file through it.
struct Reads {
    mapping: ReadMapping,
    file: std::fs::File,
}

impl Reads {
    fn of(path: &Path) -> Reads {
        Reads { mapping: ReadMapping::default(), file: std::fs::File::open(path).unwrap() }
    }

    /// Returns whether a file here is mapped; prints why the test is skipped if not.
    fn are_possible(&self) -> bool {
        let is_possible = self.copy(0, 1).is_some();
        if !is_possible {
            println!("skipped: no file is mapped in tmpfs, or with a limit of addresses");
        }
        is_possible
    }

    /// Returns what was copied, or `None`. A slow copy, which is chance here, is tried again.
    fn copy(&self, offset: usize, length: usize) -> Option<Vec<u8>> {
        let mut buffer = vec![0xEE; length];
        while !self.mapping.is_warm(1) {}
        let is_copied = self.mapping.copy(offset as u64, &mut buffer, || io::Result::Ok(&self.file));
        is_copied.then_some(buffer)
    }
}

#[test]
fn a_file_that_grows_is_copied_up_to_its_end_and_no_further() {
    let folder = folder();
    let path = folder.path().join("grows");
    std::fs::write(&path, bytes(0..5_000)).unwrap();
    let reads = Reads::of(&path);
    if !reads.are_possible() {
        return;
    }
    assert_eq!(reads.copy(4_000, 1_000), Some(bytes(4_000..5_000)));
    // A mapping has zeros up to the end of the page.
    assert_eq!((reads.copy(4_000, 1_001), reads.copy(5_000, 1)), (None, None));
    for length in [5_001, 60_000, 70_000, 1 << 20] {
        std::fs::write(&path, bytes(0..length)).unwrap();
        for offset in [0, 4_999, length - 16_000.min(length)] {
            let count = 16_000.min(length - offset);
            assert_eq!(reads.copy(offset, count), Some(bytes(offset..offset + count)), "{length}, {offset}");
        }
        assert_eq!(reads.copy(length - 10, 11), None);
    }
    assert_eq!(reads.copy(0, 16_385), None, "longer reads are calls");
}

#[test]
fn a_file_that_became_shorter_ends_a_copy_and_a_call_returns_the_error() {
    let folder = folder();
    let path = folder.path().join("shorter");
    std::fs::write(&path, bytes(0..20 * PAGE)).unwrap();
    let reads = Reads::of(&path);
    if !reads.are_possible() {
        return;
    }
    let directory = directory(folder.path());
    let file = directory.open("shorter", Access::Buffered).unwrap();
    let second = 9 * PAGE;
    assert_eq!(reads.copy(second, PAGE), Some(bytes(second..second + PAGE)));
    assert_eq!(read(&file, second, PAGE), Ok(bytes(second..second + PAGE)));
    // By another process, as far as the mapping knows.
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(9 * PAGE as u64 + 7).unwrap();
    for _ in 0..3 {
        assert_eq!(reads.copy(11 * PAGE, 100), None);
        assert_eq!(read(&file, 11 * PAGE, 100), Err(ErrorKind::UnexpectedEof));
        // Half of this is on a page that exists.
        assert_eq!(reads.copy(10 * PAGE - 50, 100), None);
        assert_eq!(read(&file, 10 * PAGE - 50, 100), Err(ErrorKind::UnexpectedEof));
        assert_eq!(read(&file, second - 10, 10), Ok(bytes(second - 10..second)));
    }
    // The file knows its own truncations, and reads no zeros of the last page.
    file.truncate(8 * PAGE as u64 + 100).unwrap();
    assert_eq!(read(&file, 8 * PAGE + 50, 51), Err(ErrorKind::UnexpectedEof));
    assert_eq!(read(&file, 8 * PAGE + 50, 50), Ok(bytes(8 * PAGE + 50..8 * PAGE + 100)));
}

#[test]
fn reads_return_what_was_written_last_also_after_the_cache_was_dropped() {
    let folder = folder();
    let directory = directory(folder.path());
    let file = directory.create("written", Access::Buffered).unwrap();
    let mut expected = bytes(0..30 * PAGE);
    file.write(Purpose::Log, 0, &expected).unwrap();
    let mut random = fastrand::Rng::with_seed(5);
    for round in 0..600 {
        let at = random.usize(..expected.len() - 9_000);
        let length = random.usize(1..9_000);
        assert!(read(&file, at, length).as_deref() == Ok(&expected[at..at + length]), "round {round}");
        let new: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(length).collect();
        file.write(Purpose::Log, at as u64, &new).unwrap();
        expected[at..at + length].copy_from_slice(&new);
        assert!(read(&file, at, length).as_deref() == Ok(&new), "round {round}");
        if round % 50 == 0 {
            file.sync(Purpose::Log).unwrap();
            file.drop_cache();
        }
        let request = |part: u64| ReadRequest { file: &file, offset: part * 10_000, length: 3_000 };
        for (part, read) in read_all(&(0..8).map(request).collect::<Vec<_>>()).into_iter().enumerate() {
            let start = part * 10_000;
            assert!(read.unwrap() == expected[start..start + 3_000], "round {round}");
        }
    }
}

#[test]
fn threads_copy_while_the_file_grows_and_is_mapped_again() {
    let folder = folder();
    let path = folder.path().join("threads");
    std::fs::write(&path, bytes(0..PAGE)).unwrap();
    let reads = Reads::of(&path);
    if !reads.are_possible() {
        return;
    }
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let reads = &reads;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                while reads.file.metadata().unwrap().len() < 8 << 20 {
                    let length = reads.file.metadata().unwrap().len() as usize;
                    let at = random.usize(..length);
                    let count = random.usize(1..=(length - at).min(300));
                    if let Some(copied) = reads.copy(at, count) {
                        assert!(copied == bytes(at..at + count), "{count} bytes at {at}");
                    }
                }
            });
        }
        let mut writer = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        for part in (PAGE..8 << 20).step_by(PAGE) {
            io::Write::write_all(&mut writer, &bytes(part..part + PAGE)).unwrap();
        }
    });
}

#[test]
fn after_a_slow_copy_reads_are_calls_until_these_are_quick() {
    let mapping = ReadMapping::default();
    assert!(mapping.is_warm(100) && !mapping.is_warm(100_000));
    mapping.observe(true);
    assert_eq!((0..1_000).position(|_| mapping.is_warm(100)), Some(16));
    // Another one is followed by twice as many.
    mapping.observe(true);
    assert_eq!((0..1_000).position(|_| mapping.is_warm(100)), Some(32));
    mapping.observe(true);
    mapping.call(|| std::thread::sleep(std::time::Duration::from_micros(50)));
    assert_eq!((0..1_000).position(|_| mapping.is_warm(100)), Some(64));
    mapping.observe(false);
    mapping.observe(true);
    assert_eq!((0..1_000).position(|_| mapping.is_warm(100)), Some(16));
    // A quick call halves what is left; one that is interrupted is not quick.
    mapping.observe(true);
    mapping.call(|| ());
    let left = (0..1_000).position(|_| mapping.is_warm(100));
    assert!([Some(16), Some(32)].contains(&left), "{left:?}");
}

#[test]
fn of_a_file_that_cannot_be_mapped_all_reads_are_calls() {
    let folder = folder();
    let path = folder.path().join("write-only");
    std::fs::write(&path, bytes(0..PAGE)).unwrap();
    // The system maps no file that is not open for reading.
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let reads = Reads { mapping: ReadMapping::default(), file };
    assert_eq!(reads.copy(0, 10), None);
    assert!((0..10_000).all(|_| !reads.mapping.is_warm(10)));
    (0..100).for_each(|_| reads.mapping.call(|| ()));
    assert!((0..100).all(|_| !reads.mapping.is_warm(10)));
}

extern "C" fn plain_handler(signal: libc::c_int) {
    // SAFETY: a handler may call it.
    unsafe { libc::_exit(signal + 100) };
}

extern "C" fn handler_of_information(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: a handler may call it, and the system passes what it knows of the signal.
    unsafe { libc::_exit((*info).si_signo - signal + 99) };
}

/// The body of a child process, which is this program.
#[test]
fn get_a_bus_error() {
    let Some(cause) = std::env::var_os("SILTSTONE_BUS_ERROR") else { return };
    let before = match cause.to_str() {
        Some("plain handler") => plain_handler as *const () as usize,
        Some("handler of information") => handler_of_information as *const () as usize,
        Some("ignored signal") => libc::SIG_IGN,
        _ => libc::SIG_DFL,
    };
    // SAFETY: zeros are a value of the structure, and the handlers have the types that the flag says. Rust has a
    // handler, which ignores the first signal that is sent.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = before;
        action.sa_flags = if cause == "handler of information" { libc::SA_SIGINFO } else { 0 };
        assert_eq!(libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut()), 0);
    }
    assert!(guarded_copy::install() && guarded_copy::install());
    if !Path::new(&cause).exists() {
        // SAFETY: the call has no precondition.
        unsafe { libc::raise(libc::SIGBUS) };
        // SAFETY: the pointer is null or valid, and zeros are a value of the structure.
        let now = unsafe {
            let mut now: libc::sigaction = std::mem::zeroed();
            assert_eq!(libc::sigaction(libc::SIGBUS, std::ptr::null(), &mut now), 0);
            now.sa_sigaction
        };
        assert!(now != before, "the handler of copies is still there");
        return;
    }
    let file = std::fs::File::open(cause).unwrap();
    // SAFETY: the system chooses the addresses, of which the first byte is read. It is behind the end of the file.
    unsafe {
        let (read, shared) = (rustix::mm::ProtFlags::READ, rustix::mm::MapFlags::SHARED);
        let mapped = rustix::mm::mmap(std::ptr::null_mut(), PAGE, read, shared, &file, 0).unwrap();
        mapped.cast::<u8>().read_volatile();
    }
}

#[test]
fn another_bus_error_ends_the_process_as_without_this_handler() {
    use std::os::unix::process::ExitStatusExt;
    let folder = folder();
    let empty = folder.path().join("empty");
    std::fs::write(&empty, "").unwrap();
    for cause in [empty.as_os_str(), "signal".as_ref()] {
        let status = bus_error(cause);
        assert_eq!(status.signal(), Some(libc::SIGBUS), "{}: {status:?}", cause.display());
    }
}

fn bus_error(cause: &std::ffi::OsStr) -> std::process::ExitStatus {
    std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "system::tests::mapping::get_a_bus_error"])
        .env("SILTSTONE_BUS_ERROR", cause)
        .output()
        .unwrap()
        .status
}

#[test]
fn another_bus_error_is_passed_to_the_handler_that_the_process_had() {
    let code = |cause: &str| bus_error(cause.as_ref()).code();
    assert_eq!(code("plain handler"), Some(libc::SIGBUS + 100));
    assert_eq!(code("handler of information"), Some(99));
    assert_eq!(code("ignored signal"), Some(0));
}

#[test]
fn an_append_to_a_file_that_became_shorter_is_done_by_a_call() {
    let folder = folder();
    let directory = directory(folder.path());
    let file = directory.create("appended", Access::Buffered).unwrap();
    file.append(Purpose::Log, 0, &[1; 200]).unwrap();
    // By another process: the mapped end of the file is behind its end now.
    let other = std::fs::OpenOptions::new().write(true).open(folder.path().join("appended")).unwrap();
    other.set_len(0).unwrap();
    file.append(Purpose::Log, 200, &[2; 100]).unwrap();
    file.append(Purpose::Log, 300, &[3; 100]).unwrap();
    let expected = [[0; 100], [0; 100], [2; 100], [3; 100]].concat();
    assert!(std::fs::read(folder.path().join("appended")).unwrap() == expected);
}
