//! Overlapped reads through `io_uring`: a ring for each thread that asks for them, made when it first does.
//!
//! Plain reads, with neither registered files nor registered buffers: at a queue depth of 32 these gained less than
//! the 5 % by which two runs differ. Nor does a single read come here: at a depth of one, `pread` is as fast.

use crate::device::batch::{BatchRead, QUEUE_DEPTH_MAX};
use io_uring::{IoUring, Probe, opcode, types};
use std::cell::RefCell;
use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::OnceLock;

/// The longest read that goes through the ring, in bytes.
const READ_BYTES_MAX: usize = 1 << 30;

/// The ring of a thread, and the process that made it: after a fork the child would share the ring with its parent, and
/// each would take the other's completions for its own.
struct ThreadRing {
    /// `None` where none could be made, or where it failed.
    ring: Option<IoUring>,
    process: u32,
}

impl ThreadRing {
    fn new() -> Self {
        ThreadRing { ring: IoUring::new(QUEUE_DEPTH_MAX as u32).ok(), process: std::process::id() }
    }

    /// The ring, made anew in a child of the process that had made it.
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

/// Whether the system has rings and lets this process use them; containers often refuse (`EPERM`, `ENOSYS`).
pub(in crate::device) fn is_available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| {
        let mut probe = Probe::new();
        let probed = IoUring::new(2).and_then(|ring| ring.submitter().register_probe(&mut probe));
        probed.is_ok() && probe.is_supported(opcode::Read::CODE)
    })
}

/// Reads what can be read through this thread's ring, with up to `depth` reads under way. What has no outcome
/// afterwards was not read, or not wholly.
pub(in crate::device) fn read_all(reads: &mut [BatchRead<'_>], depth: usize) {
    if !is_available() {
        return;
    }
    // There is no ring in a thread that is being torn down; its reads then go the other way.
    let _ = RING.try_with(|ring| {
        let Ok(mut ring) = ring.try_borrow_mut() else { return };
        if let Some(open) = ring.of_this_process()
            && !(Flight { ring: open, reads, next: 0, in_flight: 0 }.run(depth.min(QUEUE_DEPTH_MAX)))
        {
            ring.ring = None;
        }
    });
}

/// A batch under way. No path leaves [`run`](Flight::run) while the kernel may still write into a buffer.
struct Flight<'r, 'b> {
    ring: &'r mut IoUring,
    reads: &'r mut [BatchRead<'b>],
    next: usize,
    in_flight: usize,
}

impl Flight<'_, '_> {
    /// Returns whether the ring can be used again.
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
            // SAFETY: the descriptor is open until `read.descriptor` is dropped, at the earliest when the entry was
            // completed, and the buffer is exclusively borrowed for as long as `self.reads` is; and `run` returns only
            // when the kernel has completed every entry that it took, or when the ring is about to be closed with those
            // that it did not take.
            match unsafe { self.ring.submission().push(&entry) } {
                Ok(()) => self.in_flight += 1,
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
                continue;
            };
            read.descriptor = None;
            // A shorter read is the end of the file if it ends inside a block; else the file itself goes on.
            if count == read.buffer.len() || !count.is_multiple_of(read.file.alignment()) {
                read.outcome = Some(Ok(count));
            }
        }
    }

    /// Waits for what the kernel has taken. It cannot be asked to wait any more, so this looks again and again;
    /// yielding enters the kernel, where completions are posted.
    fn abandon(mut self) {
        let untaken = self.ring.submission().len();
        while self.in_flight > untaken {
            self.reap();
            std::thread::yield_now();
        }
    }
}
