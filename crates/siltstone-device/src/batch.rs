//! Batches of reads, of one file or of several, overlapped by `io_uring` where the system has it.

use super::system::ring;
use super::{AlignedBuffer, BatchRead, File, Purpose};
use crate::error::Result;
use std::ops::Range;

/// How batches of reads of real files are executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum IoBackend {
    /// Overlapped, through a ring per thread. A ring takes about 30 KiB of memory, which is not on the heap.
    IoUring,
    /// One after another.
    Pread,
}

impl IoBackend {
    /// Returns the name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            IoBackend::IoUring => "io_uring",
            IoBackend::Pread => "pread",
        }
    }
}

/// Returns how this process executes batches of reads, which is determined once, by a probe.
pub fn io_backend() -> IoBackend {
    if ring::is_available() { IoBackend::IoUring } else { IoBackend::Pread }
}

/// A read of a batch, with a buffer of its own.
pub struct ReadRequest {
    /// The offset, in bytes.
    pub offset: u64,
    /// The number of bytes.
    pub length: usize,
    buffer: AlignedBuffer,
    wanted: Range<usize>,
}

impl ReadRequest {
    /// Makes a request with an empty buffer, which is kept for later reads.
    pub fn new(offset: u64, length: usize) -> Self {
        ReadRequest { offset, length, buffer: AlignedBuffer::default(), wanted: 0..0 }
    }

    /// Sets another range to read, with the same buffer.
    pub fn aim(&mut self, offset: u64, length: usize) {
        (self.offset, self.length) = (offset, length);
    }

    /// Returns the bytes of the last read; none if it failed.
    pub fn bytes(&self) -> &[u8] {
        self.buffer.get(self.wanted.clone()).unwrap_or_default()
    }

    /// Returns the bytes of the last successful read, for changes in place.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.buffer.get_mut(self.wanted.clone()).unwrap_or_default()
    }

    /// Returns the memory of the buffer, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.buffer.heap_bytes()
    }
}

/// Reads from several files, overlapped up to the first one's [queue depth](super::Directory::queue_depth) where the
/// system supports it. Executes all reads; returns the error of the first one in the batch that failed.
pub fn read_batch(purpose: Purpose, reads: &mut [(&File, &mut ReadRequest)]) -> Result<()> {
    let depth = reads.first().map_or(1, |(file, _)| file.queue_depth(purpose));
    read_each(purpose, depth, reads.iter_mut().map(|(file, request)| (*file, &mut **request)))
}

impl File {
    /// Executes several reads, overlapped up to the directory's [queue depth](super::Directory::queue_depth) where the
    /// system supports it. Executes all reads; returns the error of the first one that failed.
    pub fn read_many(&self, purpose: Purpose, requests: &mut [ReadRequest]) -> Result<()> {
        read_each(purpose, self.queue_depth(purpose), requests.iter_mut().map(|request| (self, request)))
    }
}

fn read_each<'a>(
    purpose: Purpose,
    depth: usize,
    requests: impl ExactSizeIterator<Item = (&'a File, &'a mut ReadRequest)>,
) -> Result<()> {
    let mut batch = Vec::with_capacity(requests.len());
    let mut asked = Vec::with_capacity(requests.len());
    let mut outcome = Ok(());
    for (file, request) in requests {
        let ReadRequest { offset, length, buffer, wanted } = request;
        *wanted = 0..0;
        match file.widen(*offset, *length) {
            Ok(wide) => {
                let buffer = file.prepare(purpose, &wide, buffer);
                batch.push(BatchRead {
                    file: file.backend(),
                    offset: wide.start,
                    buffer,
                    descriptor: None,
                    outcome: None,
                });
                asked.push((file, wide, wanted));
            }
            Err(error) => outcome = outcome.and(Err(error)),
        }
    }
    carry_out(&mut batch, depth);
    for (read, (file, wide, wanted)) in batch.into_iter().zip(asked) {
        match file.check(read.outcome.unwrap_or(Ok(0)), &wide) {
            Ok(()) => *wanted = wide.wanted,
            Err(error) => outcome = outcome.and(Err(error)),
        }
    }
    outcome
}

/// Passes reads to the ring. Reads that it leaves without an outcome are executed one after another, which also finds
/// their errors.
fn carry_out(batch: &mut [BatchRead<'_>], depth: usize) {
    if depth > 1 && batch.len() > 1 {
        ring::read_all(batch, depth);
    }
    for read in batch.iter_mut().filter(|read| read.outcome.is_none()) {
        read.outcome = Some(read.file.read_at(read.offset, read.buffer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::memory::MemoryDirectory;
    use crate::{Access, Directory, SystemDirectory};

    const BLOCK: usize = 4096;

    /// Writes a file whose block `n` is filled with `n + shift`.
    fn write_blocks(directory: &Directory, name: &str, blocks: usize, shift: u8) {
        let file = directory.create(name, Access::Buffered).unwrap();
        let bytes: Vec<u8> = (0..blocks * BLOCK).map(|at| (at / BLOCK) as u8 + shift).collect();
        file.write(Purpose::Log, 0, &bytes).unwrap();
    }

    fn folder() -> tempfile::TempDir {
        let program = std::env::current_exe().unwrap();
        tempfile::tempdir_in(program.parent().unwrap()).unwrap()
    }

    fn directory(folder: &tempfile::TempDir, depth: usize) -> Directory {
        Directory::new(SystemDirectory::open(folder.path()).unwrap(), Access::Buffered).queue_depth(depth)
    }

    #[test]
    fn a_batch_over_several_files_gives_each_request_its_own_bytes() {
        let folder = folder();
        for depth in [1, 2, 32, 1000] {
            let system = directory(&folder, depth);
            let memory = Directory::new(MemoryDirectory::default(), Access::Buffered);
            if depth == 1 {
                write_blocks(&system, "a", 50, 0);
                write_blocks(&system, "b", 50, 100);
            }
            write_blocks(&memory, "c", 50, 200);
            let files = [
                system.open("a", Access::DirectOrBuffered).unwrap(),
                system.open("b", Access::Buffered).unwrap(),
                memory.open("c", Access::Buffered).unwrap(),
            ];
            let mut requests: Vec<_> = (0..600)
                .map(|at| ReadRequest::new(at % 50 * BLOCK as u64 + 4 * at, 40 + 4 * at as usize))
                .collect();
            let mut batch: Vec<_> =
                requests.iter_mut().enumerate().map(|(at, request)| (&files[at % 3], request)).collect();
            // The reads of the last block extend beyond the end if they are long.
            let outcome = read_batch(Purpose::Get, &mut batch);
            assert!(matches!(outcome, Err(Error::Io { operation: "read", .. })));
            let mut failed = 0;
            for (at, request) in requests.iter().enumerate() {
                if request.offset as usize + request.length > 50 * BLOCK {
                    failed += 1;
                    assert!(request.bytes().is_empty());
                    continue;
                }
                let expected = (0..request.length)
                    .map(|byte| ((request.offset as usize + byte) / BLOCK + at % 3 * 100) as u8);
                assert!(request.bytes().iter().copied().eq(expected), "request {at} at depth {depth}");
            }
            assert_eq!(failed, 2);
        }
    }

    #[test]
    fn a_failed_read_of_a_batch_leaves_the_others_complete() {
        let folder = folder();
        let system = directory(&folder, 32);
        write_blocks(&system, "a", 4, 1);
        let file = system.open("a", Access::DirectOrBuffered).unwrap();
        let far = 100 * BLOCK as u64;
        let mut requests =
            [(0, 10), (far, 10), (9, usize::MAX), (u64::MAX, 1), (0, 0), (4 * BLOCK as u64 - 1, 1)]
                .map(|(offset, length)| ReadRequest::new(offset, length));
        assert!(file.read_many(Purpose::Get, &mut requests).is_err());
        let lengths = requests.each_ref().map(|request| request.bytes().len());
        assert_eq!(lengths, [10, 0, 0, 0, 0, 1]);
        assert_eq!((requests[0].bytes(), requests[5].bytes()), (&[1; 10][..], &[4; 1][..]));
        requests[1].aim(BLOCK as u64, 2);
        assert!(file.read_many(Purpose::Get, &mut requests[..2]).is_ok());
        assert_eq!(requests[1].bytes(), [2; 2]);
        requests[1].bytes_mut()[1] = 9;
        assert_eq!(requests[1].bytes(), [2, 9], "changed in place");
        assert!(requests[1].heap_bytes() >= BLOCK);
        assert_eq!(ReadRequest::new(0, BLOCK).heap_bytes(), 0);
    }

    #[test]
    fn threads_read_their_batches_at_the_same_time() {
        let folder = folder();
        write_blocks(&directory(&folder, 32), "a", 200, 0);
        let file = directory(&folder, 32).open("a", Access::DirectOrBuffered).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let file = &file;
                scope.spawn(move || {
                    for round in 0..20 {
                        let block = |at: u64| (at * 7 + thread * 31 + round) % 200;
                        let mut requests: Vec<_> =
                            (0..50).map(|at| ReadRequest::new(block(at) * BLOCK as u64, BLOCK)).collect();
                        file.read_many(Purpose::Get, &mut requests).unwrap();
                        for (at, request) in requests.iter().enumerate() {
                            assert_eq!(request.bytes(), [block(at as u64) as u8; BLOCK]);
                        }
                    }
                });
            }
        });
    }
}
