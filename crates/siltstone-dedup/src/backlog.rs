//! The pieces that are read and wait to be indexed. They are limited by their bytes, so reading continues while a
//! commit syncs, whatever the sizes of the files are:
//!
//! ```text
//! readers ── send ──▶ [ piece, piece, ... at most BYTES_MAX ] ── receive ──▶ the indexing thread
//!            waits while it is full                              waits while it is empty
//! ```

use super::readers::Piece;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The bytes of waiting pieces at which readers wait: the hashes of some 100,000 chunks.
const BYTES_MAX: usize = 4 << 20;
/// The bytes that a piece takes besides its hashes and lengths: the structure itself, and its allocations.
const PIECE_BYTES: usize = size_of::<Piece>() + 64;

/// The waiting pieces.
pub struct Backlog {
    state: Mutex<State>,
    arrived: Condvar,
    left: Condvar,
}

struct State {
    pieces: VecDeque<Piece>,
    bytes: usize,
    /// The readers that have not ended.
    readers: usize,
    /// Whether nothing takes pieces any more.
    stopped: bool,
}

/// Nothing takes pieces any more.
pub struct Stopped;

/// One reader; it has ended when this is dropped.
pub struct Sender<'a>(&'a Backlog);

/// The indexing thread. Readers stop when it is dropped.
pub struct Receiver<'a>(&'a Backlog);

impl Backlog {
    /// Returns an empty backlog for this many readers, each of which gets a [`sender`](Backlog::sender).
    pub fn new(readers: usize) -> Self {
        let state = State { pieces: VecDeque::new(), bytes: 0, readers, stopped: false };
        Backlog { state: Mutex::new(state), arrived: Condvar::new(), left: Condvar::new() }
    }

    /// Returns the end of one reader.
    pub fn sender(&self) -> Sender<'_> {
        Sender(self)
    }

    /// Returns the end that takes pieces.
    pub fn receiver(&self) -> Receiver<'_> {
        Receiver(self)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sender<'_> {
    /// Adds a piece, and waits before that while there are too many bytes.
    pub fn send(&self, piece: Piece) -> Result<(), Stopped> {
        let mut state = self.0.state();
        while state.bytes >= BYTES_MAX && !state.stopped {
            state = self.0.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.stopped {
            return Err(Stopped);
        }
        state.bytes += bytes_of(&piece);
        state.pieces.push_back(piece);
        self.0.arrived.notify_one();
        Ok(())
    }
}

impl Drop for Sender<'_> {
    fn drop(&mut self) {
        self.0.state().readers -= 1;
        self.0.arrived.notify_one();
    }
}

impl Receiver<'_> {
    /// Waits for a piece, and takes all that wait, up to this number of chunks and the piece that reaches it. Returns
    /// nothing if all readers have ended.
    pub fn receive(&self, chunks_max: usize) -> Vec<Piece> {
        let mut state = self.0.state();
        while state.pieces.is_empty() && state.readers > 0 {
            state = self.0.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let (mut taken, mut chunks) = (Vec::new(), 0);
        while chunks < chunks_max
            && let Some(piece) = state.pieces.pop_front()
        {
            state.bytes -= bytes_of(&piece);
            // A piece without chunks counts too: it costs as much as one.
            chunks += piece.lengths.len().max(1);
            taken.push(piece);
        }
        self.0.left.notify_all();
        taken
    }
}

impl Drop for Receiver<'_> {
    fn drop(&mut self) {
        self.0.state().stopped = true;
        self.0.left.notify_all();
    }
}

fn bytes_of(piece: &Piece) -> usize {
    PIECE_BYTES + piece.hashes.capacity() + piece.lengths.capacity() * size_of::<u32>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(number: u64, chunks: usize) -> Piece {
        Piece { number, hole: 0, hashes: vec![0; 32 * chunks], lengths: vec![1; chunks], end: None }
    }

    fn numbers(pieces: &[Piece]) -> Vec<u64> {
        pieces.iter().map(|piece| piece.number).collect()
    }

    #[test]
    fn pieces_are_taken_in_their_order_up_to_a_number_of_chunks() {
        let backlog = Backlog::new(1);
        let (sender, receiver) = (backlog.sender(), backlog.receiver());
        for (number, chunks) in [(1, 3), (2, 0), (3, 5), (4, 1)] {
            assert!(sender.send(piece(number, chunks)).is_ok());
        }
        assert_eq!(numbers(&receiver.receive(5)), [1, 2, 3]);
        assert_eq!(numbers(&receiver.receive(5)), [4]);
        drop(sender);
        assert!(receiver.receive(5).is_empty(), "all readers have ended");
    }

    #[test]
    fn a_reader_waits_at_the_limit_until_pieces_are_taken() {
        let backlog = Backlog::new(1);
        let receiver = backlog.receiver();
        let chunks = BYTES_MAX / 36 / 4;
        let sent = std::thread::scope(|scope| {
            let sender = backlog.sender();
            let reader =
                scope.spawn(move || (0..20).all(|number| sender.send(piece(number, chunks)).is_ok()));
            let mut taken = Vec::new();
            while taken.len() < 20 {
                assert!(backlog.state().bytes <= BYTES_MAX + bytes_of(&piece(0, chunks)));
                taken.extend(numbers(&receiver.receive(1)));
            }
            assert_eq!(taken, (0..20).collect::<Vec<_>>());
            reader.join().unwrap()
        });
        assert!(sent);
        assert_eq!(backlog.state().bytes, 0);
    }

    #[test]
    fn readers_stop_when_nothing_takes_their_pieces() {
        let backlog = Backlog::new(2);
        let (waiting, later) = (backlog.sender(), backlog.sender());
        std::thread::scope(|scope| {
            let receiver = backlog.receiver();
            // Sends without end, so it waits at the limit or is about to.
            let reader =
                scope.spawn(move || (0..).find(|&number| waiting.send(piece(number, 10_000)).is_err()));
            assert!(!receiver.receive(1).is_empty());
            drop(receiver);
            assert!(reader.join().unwrap().is_some());
        });
        assert!(later.send(piece(0, 1)).is_err());
    }
}
