//! Executes pieces of background work on a few threads, where the system has no `io_uring` or refuses it.
//!
//! ```text
//! begin   -> | piece 4 | piece 5 | ..     queue
//! threads       piece 1, piece 2, piece 3
//! wait    <- | piece 0 | ..               in any order
//! ```
//!
//! A thread begins when a piece finds all others at work, and ends with the executor. A queue without pieces has none.

use crate::buffer::CountedMemory;
use crate::sync::Mutex;
use crate::{EndedPiece, Piece, PieceExecutor};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

/// The maximum number of threads of a queue: more pieces in flight gain little on one drive.
const THREADS_MAX: usize = 4;
/// The stack of a thread, in bytes. A thread only calls the system.
const STACK_BYTES: usize = 64 << 10;

/// Returns a new executor. Its first piece starts a thread.
pub(super) fn executor() -> Box<dyn PieceExecutor> {
    Box::new(ThreadExecutor { pool: Pool::default(), ended: Vec::new() })
}

struct ThreadExecutor {
    pool: Pool,
    /// Pieces for which no thread could be started.
    ended: Vec<EndedPiece>,
}

/// The threads, and the pieces that they have.
struct Pool {
    /// The process that has the threads. A forked child has none of them.
    process: u32,
    threads: Vec<JoinHandle<()>>,
    in_flight: usize,
    begun: Sender<(u64, Piece)>,
    to_execute: Arc<Mutex<Receiver<(u64, Piece)>>>,
    executed: Sender<EndedPiece>,
    ended: Receiver<EndedPiece>,
}

impl Default for Pool {
    fn default() -> Self {
        let ((begun, to_execute), (executed, ended)) = (channel(), channel());
        let (process, to_execute) = (std::process::id(), Arc::new(Mutex::new(to_execute)));
        Pool { process, threads: Vec::new(), in_flight: 0, begun, to_execute, executed, ended }
    }
}

impl Pool {
    /// Starts a thread, if the system allows it.
    fn grow(&mut self) {
        let (to_execute, executed) = (self.to_execute.clone(), self.executed.clone());
        let memory = CountedMemory::new(STACK_BYTES);
        let work = move || {
            let _memory = memory;
            loop {
                // The lock is held while a thread waits, and released while it executes the piece.
                let next = to_execute.lock().recv();
                let Ok((number, mut piece)) = next else { return };
                let outcome = piece.execute();
                if executed.send((number, piece, outcome)).is_err() {
                    return;
                }
            }
        };
        let thread = Builder::new().name("siltstone-io".into()).stack_size(STACK_BYTES).spawn(work);
        self.threads.extend(thread);
    }

    /// Passes a piece to a thread, or gives it back if there is none.
    fn begin(&mut self, number: u64, piece: Piece) -> Result<(), Piece> {
        if self.in_flight >= self.threads.len() && self.threads.len() < THREADS_MAX {
            self.grow();
        }
        if self.threads.is_empty() {
            return Err(piece);
        }
        self.begun.send((number, piece)).map_err(|unsent| unsent.0.1)?;
        self.in_flight += 1;
        Ok(())
    }

    /// Waits for a piece; `None` if none is in flight.
    fn wait(&mut self) -> Option<EndedPiece> {
        self.in_flight = self.in_flight.checked_sub(1)?;
        self.ended.recv().ok()
    }

    /// Waits for all pieces, and ends the threads.
    fn end(mut self) {
        while self.wait().is_some() {}
        // The threads end when they find the channel closed.
        drop(self.begun);
        self.threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}

impl ThreadExecutor {
    /// In a forked child, forgets the threads of the parent and their pieces.
    fn leave_to_parent(&mut self) {
        if self.pool.process != std::process::id() {
            std::mem::forget(std::mem::take(&mut self.pool));
        }
    }
}

impl PieceExecutor for ThreadExecutor {
    fn begin(&mut self, number: u64, piece: Piece) {
        self.leave_to_parent();
        if let Err(mut piece) = self.pool.begin(number, piece) {
            let outcome = piece.execute();
            self.ended.push((number, piece, outcome));
        }
    }

    fn wait(&mut self) -> Option<EndedPiece> {
        self.leave_to_parent();
        self.ended.pop().or_else(|| self.pool.wait())
    }
}

impl Drop for ThreadExecutor {
    fn drop(&mut self) {
        self.leave_to_parent();
        std::mem::take(&mut self.pool).end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::PieceQueue;
    use crate::{AlignedBuffer, FileBackend, FileState, IoCounters};
    use std::io;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    const LENGTH: usize = 4096;
    const PIECES_MAX: usize = 20;

    /// The number of a piece, and how often it was read before.
    type Read = (usize, usize);

    /// A file whose reads have these outcomes.
    struct Scripted {
        read: fn(&Scripted, Read) -> io::Result<usize>,
        /// Passed by as many reads at a time as there may be threads.
        together: Barrier,
        reads: [AtomicUsize; PIECES_MAX],
        now: AtomicUsize,
        most: AtomicUsize,
    }

    impl Scripted {
        fn new(read: fn(&Scripted, Read) -> io::Result<usize>) -> Arc<Scripted> {
            let (reads, now, most) = Default::default();
            Arc::new(Scripted { read, together: Barrier::new(THREADS_MAX), reads, now, most })
        }
    }

    impl FileBackend for Scripted {
        fn read_at(&self, offset: u64, _buffer: &mut [u8]) -> io::Result<usize> {
            let number = offset as usize / LENGTH;
            let before = self.reads[number].fetch_add(1, SeqCst);
            self.most.fetch_max(self.now.fetch_add(1, SeqCst) + 1, SeqCst);
            let outcome = (self.read)(self, (number, before));
            self.now.fetch_sub(1, SeqCst);
            outcome
        }

        fn write_at(&self, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn sync(&self) -> io::Result<()> {
            Ok(())
        }

        fn truncate(&self, _length: u64) -> io::Result<()> {
            Ok(())
        }

        fn state(&self) -> io::Result<FileState> {
            Ok(FileState { length: 0, names: None })
        }

        fn alignment(&self) -> usize {
            512
        }
    }

    fn piece(file: &Arc<Scripted>, number: u64, is_write: bool) -> Piece {
        let mut buffer = AlignedBuffer::default();
        buffer.resize(LENGTH);
        Piece { file: file.clone(), is_write, offset: number * LENGTH as u64, buffer }
    }

    fn new_executor() -> ThreadExecutor {
        ThreadExecutor { pool: Pool::default(), ended: Vec::new() }
    }

    /// The reads of four pieces end only when all four have begun.
    #[test]
    fn as_many_pieces_as_threads_are_executed_at_a_time_and_no_more() {
        let file = Scripted::new(|file, _| {
            file.together.wait();
            Ok(LENGTH)
        });
        let mut executor = new_executor();
        assert!(executor.pool.threads.is_empty() && executor.wait().is_none(), "no thread without a piece");
        let pieces = PIECES_MAX as u64;
        assert!(PIECES_MAX.is_multiple_of(THREADS_MAX));
        (0..pieces).for_each(|number| executor.begin(number, piece(&file, number, false)));
        let mut ended: Vec<u64> = (0..pieces).filter_map(|_| Some(executor.wait()?.0)).collect();
        ended.sort_unstable();
        assert!(ended.into_iter().eq(0..pieces) && executor.wait().is_none());
        assert_eq!((executor.pool.threads.len(), file.most.load(SeqCst)), (THREADS_MAX, THREADS_MAX));
    }

    #[test]
    fn an_executor_that_is_dropped_executes_its_pieces_and_ends_its_threads() {
        let file = Scripted::new(|_, _| Ok(LENGTH));
        let mut executor = new_executor();
        (0..PIECES_MAX as u64).for_each(|number| executor.begin(number, piece(&file, number, false)));
        drop(executor);
        assert!(file.reads.iter().all(|reads| reads.load(SeqCst) == 1));
        assert_eq!(Arc::strong_count(&file), 1);
    }

    #[test]
    fn short_and_interrupted_pieces_are_executed_again_and_errors_are_those_of_their_pieces() {
        let file = Scripted::new(|_, read| match read {
            (1, 0) => Ok(512),
            (2, 0) => Err(io::ErrorKind::Interrupted.into()),
            (3, _) => Err(io::ErrorKind::TimedOut.into()),
            _ => Ok(LENGTH),
        });
        let (queue, counters) = (PieceQueue::new(Some(executor())), IoCounters::default());
        // Only after these checks, pieces are overlapped: no get has read.
        while !queue.overlaps(&counters) {}
        let mut tickets: Vec<_> =
            (0..4).map(|number| queue.begin(piece(&file, number, false), &counters)).collect();
        tickets.push(queue.begin(piece(&file, 4, true), &counters));
        let outcomes = tickets.into_iter().rev().map(|ticket| ticket.wait().1.map_err(|error| error.kind()));
        let expected = [
            Err(io::ErrorKind::StorageFull),
            Err(io::ErrorKind::TimedOut),
            Ok(LENGTH),
            Ok(LENGTH),
            Ok(LENGTH),
        ];
        assert!(outcomes.eq(expected));
        let reads: Vec<_> = file.reads.iter().take(4).map(|reads| reads.load(SeqCst)).collect();
        assert_eq!(reads, [1, 2, 2, 1]);
    }
}
