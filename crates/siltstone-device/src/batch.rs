//! Batches of reads, of one file or of several, overlapped by `io_uring` where the system has it.

use super::system::ring;
use super::{AlignedBuffer, BatchRead, File, Hint, Purpose};
use crate::error::Result;

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

/// A read of a batch.
#[derive(Clone, Copy)]
pub struct ReadRequest<'a> {
    /// The file.
    pub file: &'a File,
    /// The offset, in bytes.
    pub offset: u64,
    /// The number of bytes.
    pub length: usize,
}

/// How many reads ahead of the one that is copied the processor is asked for the bytes.
const PREFETCH_DISTANCE: usize = 2;

/// Executes reads of one file or of several, and passes the number of each, with its bytes or its error, to `take`, in
/// any order. The bytes may be changed in place.
///
/// What is in memory is copied and passed on at once, so a batch that the page cache has takes one buffer. The other
/// reads overlap, up to the first file's [queue depth](super::Directory::queue_depth) where the system supports it,
/// each with a buffer of its own. `buffers` are kept for the next batch.
///
/// # Errors
/// The first error that `take` returns. It gets no further reads then.
pub fn read_batch<E>(
    purpose: Purpose,
    requests: &[ReadRequest<'_>],
    buffers: &mut Vec<AlignedBuffer>,
    mut take: impl FnMut(usize, Result<&mut [u8]>) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    buffers.resize_with(buffers.len().max(requests.len()), AlignedBuffer::default);
    let (mut batch, mut waiting) = (Vec::new(), Vec::new());
    let mut free = buffers.iter_mut();
    let mut next = free.next();
    for (number, &ReadRequest { file, offset, length }) in requests.iter().enumerate() {
        if let Some(ahead) = requests.get(number + PREFETCH_DISTANCE) {
            ahead.file.backend().hint(Hint::Prefetch { offset: ahead.offset, length: ahead.length });
        }
        let Some(buffer) = next.take() else { break };
        let wide = match file.widen(offset, length) {
            Ok(wide) => wide,
            Err(error) => {
                take(number, Err(error))?;
                next = Some(buffer);
                continue;
            }
        };
        if file.backend().read_in_memory(wide.start, file.prepare(purpose, &wide, buffer)) {
            take(number, Ok(&mut buffer[wide.wanted]))?;
            next = Some(buffer);
        } else {
            let (offset, backend) = (wide.start, file.backend());
            batch.push(BatchRead { file: backend, offset, buffer, descriptor: None, outcome: None });
            waiting.push((number, file, wide));
            next = free.next();
        }
    }
    let Some((_, first, _)) = waiting.first() else { return Ok(()) };
    carry_out(&mut batch, first.queue_depth(purpose));
    let outcomes: Vec<_> = batch.into_iter().map(|read| read.outcome.unwrap_or(Ok(0))).collect();
    for (((number, file, wide), outcome), buffer) in waiting.into_iter().zip(outcomes).zip(buffers) {
        let checked = file.check(outcome, &wide);
        take(number, checked.map(|()| &mut buffer[wide.wanted]))?;
    }
    Ok(())
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

/// Executes the reads of a batch, and returns a copy of the bytes of each, in their order.
#[cfg(test)]
pub(crate) fn read_all(requests: &[ReadRequest<'_>]) -> Vec<Result<Vec<u8>>> {
    let mut all: Vec<_> = requests.iter().map(|_| None).collect();
    let taken = read_batch(Purpose::Get, requests, &mut Vec::new(), |number, bytes| {
        assert!(all[number].is_none(), "each is passed once");
        all[number] = Some(bytes.map(|bytes| bytes.to_vec()));
        Ok::<_, ()>(())
    });
    assert!(taken.is_ok());
    all.into_iter().map(|one| one.expect("all are passed")).collect()
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
            let request = |at: usize| ReadRequest {
                file: &files[at % 3],
                offset: (at % 50 * BLOCK + 4 * at) as u64,
                length: 40 + 4 * at,
            };
            let requests: Vec<_> = (0..600).map(request).collect();
            // Twice: the second time from memory, as far as files are buffered.
            for round in 0..2 {
                let mut failed = 0;
                for ((at, request), read) in requests.iter().enumerate().zip(read_all(&requests)) {
                    // The reads of the last block extend beyond the end if they are long.
                    if request.offset as usize + request.length > 50 * BLOCK {
                        failed += 1;
                        assert!(matches!(read, Err(Error::Io { operation: "read", .. })));
                        continue;
                    }
                    let expected = (0..request.length)
                        .map(|byte| ((request.offset as usize + byte) / BLOCK + at % 3 * 100) as u8);
                    assert!(read.unwrap().into_iter().eq(expected), "request {at} at depth {depth}, {round}");
                }
                assert_eq!(failed, 2);
            }
        }
    }

    #[test]
    fn a_failed_read_of_a_batch_leaves_the_others_complete() {
        let folder = folder();
        let system = directory(&folder, 32);
        write_blocks(&system, "a", 4, 1);
        let far = 100 * BLOCK as u64;
        for access in [Access::DirectOrBuffered, Access::Buffered] {
            let file = system.open("a", access).unwrap();
            let requests =
                [(0, 10), (far, 10), (9, usize::MAX), (u64::MAX, 1), (0, 0), (4 * BLOCK as u64 - 1, 1)]
                    .map(|(offset, length)| ReadRequest { file: &file, offset, length });
            let read = read_all(&requests).into_iter().map(Result::ok);
            let expected = [Some(vec![1; 10]), None, None, None, Some(vec![]), Some(vec![4])];
            assert!(read.eq(expected), "{access:?}");
        }
    }

    #[test]
    fn the_first_error_of_the_caller_ends_a_batch_whose_bytes_may_be_changed() {
        let folder = folder();
        let system = directory(&folder, 32);
        write_blocks(&system, "a", 4, 1);
        for access in [Access::DirectOrBuffered, Access::Buffered] {
            let file = system.open("a", access).unwrap();
            let requests = [0, 1, 2, 3].map(|at| ReadRequest { file: &file, offset: at * 4096, length: 2 });
            let mut buffers = Vec::new();
            let mut taken = Vec::new();
            let outcome = read_batch(Purpose::Get, &requests, &mut buffers, |number, bytes| {
                let bytes = bytes.unwrap();
                assert_eq!(bytes, [number as u8 + 1; 2]);
                bytes[1] = 9;
                taken.push((number, bytes.to_vec()));
                if number == 2 { Err("enough") } else { Ok(()) }
            });
            assert_eq!(outcome, Err("enough"));
            assert_eq!(taken, [(0, vec![1, 9]), (1, vec![2, 9]), (2, vec![3, 9])]);
        }
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
                        let request =
                            |at| ReadRequest { file, offset: block(at) * BLOCK as u64, length: BLOCK };
                        let requests: Vec<_> = (0..50).map(request).collect();
                        for (at, read) in read_all(&requests).into_iter().enumerate() {
                            assert_eq!(read.unwrap(), [block(at as u64) as u8; BLOCK]);
                        }
                    }
                });
            }
        });
    }
}
