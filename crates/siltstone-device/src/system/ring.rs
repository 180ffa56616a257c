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

use super::STANDARD_DESCRIPTOR_MAX;
use crate::{BatchRead, Descriptor, EndedPiece, Piece, PieceExecutor, QUEUE_DEPTH_MAX, Transfer};
use io_uring::{IoUring, Probe, opcode, types};
use std::cell::RefCell;
use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, OnceLock};

/// The maximum length of a read through the ring, in bytes.
const READ_BYTES_MAX: usize = 1 << 30;

/// The ring of a thread, and the process that made it. After a fork the child shares the ring with its parent, and each
/// would take completions of the other for its own.
struct ThreadRing {
    /// `None` if none could be made, or if it failed.
    ring: Option<IoUring>,
    process: u32,
}

/// Makes a ring, with a descriptor above those of standard input, output and error.
fn new_ring(entries: u32) -> Option<IoUring> {
    // Those that get one of these are closed when the last one has another.
    let mut below = Vec::new();
    loop {
        let ring = IoUring::new(entries).ok()?;
        if ring.as_raw_fd() > STANDARD_DESCRIPTOR_MAX {
            return Some(ring);
        }
        below.push(ring);
    }
}

impl ThreadRing {
    fn new() -> Self {
        ThreadRing { ring: new_ring(QUEUE_DEPTH_MAX as u32), process: std::process::id() }
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
pub(crate) fn is_available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| {
        let mut probe = Probe::new();
        let probed = IoUring::new(2).and_then(|ring| ring.submitter().register_probe(&mut probe));
        probed.is_ok() && probe.is_supported(opcode::Read::CODE)
    })
}

/// Executes reads through this thread's ring, with up to `depth` of them in flight. Reads without an outcome afterwards
/// were not executed, or not completely.
pub(crate) fn read_all(reads: &mut [BatchRead<'_>], depth: usize) {
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
            read.descriptor = read.file.descriptor(Transfer::Read { bytes: read.buffer.len() });
            let Some(descriptor) = &read.descriptor else {
                // At once: how long it takes decides whether the next read is one of bytes in memory.
                read.outcome = Some(read.file.read_at(read.offset, read.buffer));
                continue;
            };
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
        // The kernel never completes these.
        let untaken = self.ring.submission().len();
        while self.in_flight > untaken {
            self.reap();
            std::thread::yield_now();
        }
    }
}

/// The maximum number of pieces in flight.
const PIECES_MAX: usize = 64;

/// Returns a new executor, if the system has `io_uring`.
pub(crate) fn executor() -> Option<Box<dyn PieceExecutor>> {
    is_available().then(|| Box::new(RingExecutor::default()) as Box<dyn PieceExecutor>)
}

/// Executes pieces through a ring of its own, which is made for the first one. Another thread may wait for a piece than
/// has begun it.
#[derive(Default)]
struct RingExecutor {
    ring: Option<IoUring>,
    /// The process that made the ring. In a forked child, pieces in flight are left to the parent.
    process: u32,
    /// The pieces in flight. The number of a slot identifies its entry.
    slots: Vec<Option<InFlight>>,
    ended: Vec<EndedPiece>,
}

struct InFlight {
    number: u64,
    piece: Piece,
    /// What keeps the descriptor open, if the file does not.
    _opened: Option<Arc<std::fs::File>>,
}

impl PieceExecutor for RingExecutor {
    fn begin(&mut self, number: u64, mut piece: Piece) {
        self.leave_to_parent();
        while self.slots.iter().flatten().count() >= PIECES_MAX {
            self.wait_in_kernel();
        }
        if self.ring.is_none() {
            self.ring = new_ring(PIECES_MAX as u32);
            self.process = std::process::id();
        }
        if let Err(piece_back) = self.submit(number, piece) {
            piece = piece_back;
            let outcome = piece.execute();
            self.ended.push((number, piece, outcome));
        }
    }

    fn wait(&mut self) -> Option<EndedPiece> {
        self.leave_to_parent();
        while self.ended.is_empty() && self.slots.iter().any(Option::is_some) {
            self.wait_in_kernel();
        }
        self.ended.pop()
    }
}

impl RingExecutor {
    /// Gives a piece to the kernel, or gives it back.
    fn submit(&mut self, number: u64, piece: Piece) -> Result<(), Piece> {
        let Some(ring) = &mut self.ring else { return Err(piece) };
        if piece.buffer.len() > READ_BYTES_MAX || i64::try_from(piece.offset).is_err() {
            return Err(piece);
        }
        let transfer = match piece.is_write {
            true => Transfer::Write,
            false => Transfer::Read { bytes: piece.buffer.len() },
        };
        let (descriptor, opened) = match piece.file.descriptor(transfer) {
            Some(Descriptor::Borrowed(descriptor)) => (descriptor.as_raw_fd(), None),
            Some(Descriptor::Shared(file)) => (file.as_raw_fd(), Some(file)),
            None => return Err(piece),
        };
        let at = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
        if at == self.slots.len() {
            self.slots.push(None);
        }
        let in_flight = self.slots[at].insert(InFlight { number, piece, _opened: opened });
        let InFlight { piece: Piece { buffer, is_write, offset, .. }, .. } = in_flight;
        let length = buffer.len() as u32;
        let entry = match *is_write {
            true => {
                opcode::Write::new(types::Fd(descriptor), buffer.as_ptr(), length).offset(*offset).build()
            }
            false => {
                opcode::Read::new(types::Fd(descriptor), buffer.as_mut_ptr(), length).offset(*offset).build()
            }
        };
        // SAFETY: the slot owns the buffer and the file, which keeps the descriptor open, or the descriptor itself. It
        // is emptied only when the kernel has completed the entry, or has not taken it and the ring is closed; if this
        // value is dropped before, the slot is forgotten or waited for. Moving the slot does not move the bytes.
        let pushed = unsafe { ring.submission().push(&entry.user_data(at as u64)) };
        if pushed.is_err() {
            return self.slots[at].take().map_or(Ok(()), |in_flight| Err(in_flight.piece));
        }
        // An entry that the kernel does not take now is submitted again by `wait_in_kernel`.
        let _ = ring.submit();
        Ok(())
    }

    /// Waits until the kernel has completed an entry, and takes all that it has completed.
    fn wait_in_kernel(&mut self) {
        let Some(ring) = &mut self.ring else { return self.slots.clear() };
        // The entry that is waited for may be complete already.
        let outcome = if ring.completion().is_empty() { ring.submit_and_wait(1).map(drop) } else { Ok(()) };
        self.reap();
        match outcome {
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            Err(error) if error.kind() == ErrorKind::ResourceBusy => {}
            Err(_) => self.abandon(),
            Ok(()) => {}
        }
    }

    fn reap(&mut self) {
        let Some(ring) = &mut self.ring else { return };
        for entry in ring.completion() {
            let slot = self.slots.get_mut(entry.user_data() as usize).and_then(Option::take);
            let Some(InFlight { number, piece, .. }) = slot else { continue };
            let outcome = usize::try_from(entry.result())
                .map_err(|_| std::io::Error::from_raw_os_error(-entry.result()));
            self.ended.push((number, piece, outcome));
        }
    }

    /// Waits until the kernel has completed the entries that it took, closes the ring, which can no longer wait, and
    /// executes the others.
    fn abandon(&mut self) {
        while let Some(ring) = &mut self.ring
            && self.slots.iter().flatten().count() > ring.submission().len()
        {
            self.reap();
            std::thread::yield_now();
        }
        // Closed first: the kernel must not take an entry that is executed below.
        self.ring = None;
        for InFlight { number, mut piece, .. } in self.slots.drain(..).flatten() {
            let outcome = piece.execute();
            self.ended.push((number, piece, outcome));
        }
    }

    /// In a forked child, forgets the ring and the pieces in flight: the kernel completes them for the parent.
    fn leave_to_parent(&mut self) {
        if self.ring.is_some() && self.process != std::process::id() {
            std::mem::forget(self.ring.take());
            std::mem::forget(std::mem::take(&mut self.slots));
        }
    }
}

impl Drop for RingExecutor {
    fn drop(&mut self) {
        while self.wait().is_some() {}
    }
}
