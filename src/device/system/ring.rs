//! Overlapped reads through `io_uring`, with a ring per thread, made on its first batch.
//!
//! ```text
//! submit   -> | read 4 | read 5 | ..  submission queue -> kernel: up to `depth` reads in flight
//! reap     <- | read 2 done | read 0 done | ..           completion queue, in any order
//! ```
//!
//! Reads use neither registered files nor registered buffers: at a queue depth of 32 these gained less than the 5 % by
//! which two runs differ. Single reads do not use the ring: at a depth of one, `pread` is as fast.
//!
//! J. Axboe, "Efficient IO with io_uring", 2019.

use crate::device::batch::{BatchRead, QUEUE_DEPTH_MAX};
use io_uring::{IoUring, Probe, opcode, types};
use std::cell::RefCell;
use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::OnceLock;

/// The maximum length of a read through the ring, in bytes.
const READ_BYTES_MAX: usize = 1 << 30;

/// The ring of a thread, and the process that made it. After a fork the child shares the ring with its parent, and each
/// would take completions of the other for its own.
struct ThreadRing {
    /// `None` if none could be made, or if it failed.
    ring: Option<IoUring>,
    process: u32,
}

impl ThreadRing {
    fn new() -> Self {
        ThreadRing { ring: IoUring::new(QUEUE_DEPTH_MAX as u32).ok(), process: std::process::id() }
    }

    /// Returns the ring. In a forked child, replaces the parent's ring by a new one.
    fn of_this_process(&mut self) -> Option<&mut IoUring> {
        if self.process != std::process::id() {
            *self = ThreadRing::new();
        }
        self.ring.as_mut()
    }
}

thread_local! {
    static RING: RefCell<ThreadRing> = RefCell::new(ThreadRing::new());
}

/// Returns whether the system has `io_uring` and lets this process use it; containers often refuse (`EPERM`, `ENOSYS`).
pub(in crate::device) fn is_available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| {
        let mut probe = Probe::new();
        let probed = IoUring::new(2).and_then(|ring| ring.submitter().register_probe(&mut probe));
        probed.is_ok() && probe.is_supported(opcode::Read::CODE)
    })
}

/// Executes reads through this thread's ring, with up to `depth` of them in flight. Reads without an outcome afterwards
/// were not executed, or not completely.
pub(in crate::device) fn read_all(reads: &mut [BatchRead<'_>], depth: usize) {
    if !is_available() {
        return;
    }
    // A thread that is being torn down has no ring; its reads are executed one after another.
    let _ = RING.try_with(|ring| {
        let Ok(mut ring) = ring.try_borrow_mut() else { return };
        if let Some(open) = ring.of_this_process()
            && !(Flight { ring: open, reads, next: 0, in_flight: 0 }.run(depth.min(QUEUE_DEPTH_MAX)))
        {
            ring.ring = None;
        }
    });
}

/// A batch in progress. No path leaves [`run`](Flight::run) while the kernel may still write to a buffer.
struct Flight<'r, 'b> {
    ring: &'r mut IoUring,
    reads: &'r mut [BatchRead<'b>],
    next: usize,
    in_flight: usize,
}

impl Flight<'_, '_> {
    /// Executes the batch. Returns whether the ring can be used again.
    fn run(mut self, depth: usize) -> bool {
        loop {
            self.submit(depth);
            if self.in_flight == 0 {
                return true;
            }
            match self.ring.submit_and_wait(1) {
                Err(error) if error.kind() != ErrorKind::Interrupted => {
                    self.abandon();
                    return false;
                }
                _ => self.reap(),
            }
        }
    }

    fn submit(&mut self, depth: usize) {
        while self.in_flight < depth && self.next < self.reads.len() {
            let read = &mut self.reads[self.next];
            self.next += 1;
            if read.buffer.len() > READ_BYTES_MAX || i64::try_from(read.offset).is_err() {
                continue;
            }
            read.descriptor = read.file.descriptor();
            let Some(descriptor) = &read.descriptor else { continue };
            let descriptor = descriptor.as_fd().as_raw_fd();
            let (address, length) = (read.buffer.as_mut_ptr(), read.buffer.len() as u32);
            let entry = opcode::Read::new(types::Fd(descriptor), address, length)
                .offset(read.offset)
                .build()
                .user_data(self.next as u64 - 1);
            // SAFETY: the descriptor is open until `read.descriptor` is dropped, after the completion of the entry at
            // the earliest, and the buffer is exclusively borrowed as long as `self.reads` is. `run` returns only when
            // the kernel has completed every entry that it took, or when the ring is about to be closed with the
            // entries that it did not take.
            match unsafe { self.ring.submission().push(&entry) } {
                Ok(()) => self.in_flight += 1,
                // The entry was not pushed, and its read stays without an outcome: the file executes it.
                Err(_full) => return,
            }
        }
    }

    fn reap(&mut self) {
        for entry in self.ring.completion() {
            self.in_flight -= 1;
            let (Some(read), Ok(count)) =
                (self.reads.get_mut(entry.user_data() as usize), usize::try_from(entry.result()))
            else {
                // A failed read stays without an outcome, and keeps its descriptor until the batch ends. Reading it
                // again by `pread` yields the error.
                continue;
            };
            read.descriptor = None;
            // A short read is complete if it ends within a block, at the end of the file. Otherwise the file continues
            // it.
            if count == read.buffer.len() || !count.is_multiple_of(read.file.alignment()) {
                read.outcome = Some(Ok(count));
            }
        }
    }

    /// Waits until the kernel has completed the entries that it took. The ring can no longer wait, so this polls;
    /// yielding enters the kernel, which posts completions.
    fn abandon(mut self) {
        let untaken = self.ring.submission().len();
        while self.in_flight > untaken {
            self.reap();
            std::thread::yield_now();
        }
    }
}
