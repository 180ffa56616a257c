//! What waits for the indexing thread: files that were found, and pieces of files that were read. Pieces are limited by
//! their bytes, so reading continues while a commit syncs, whatever the sizes of the files are:
//!
//! ```text
//! walk    ── find ──▶ [ file, file, ...   at most FILES_MAX ]
//!                                                             ── receive ──▶ the indexing thread
//! readers ── send ──▶ [ piece, piece, ... at most BYTES_MAX ]
//!            wait while theirs is full                        waits while both are empty
//! ```

use super::walk::Found;
use std::collections::VecDeque;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The number of files that were found at which the walk waits.
const FILES_MAX: usize = 1024;
/// The bytes of waiting pieces at which readers wait: the hashes of 27,000 chunks, which are 100 MB of long files, or
/// 4,000 small files.
const BYTES_MAX: usize = 1 << 20;
/// The bytes that a piece takes besides its hashes and lengths: the structure itself, and its allocations.
const PIECE_BYTES: usize = size_of::<Piece>() + 64;

/// Consecutive chunks of a file.
pub struct Piece {
    /// The number of the job.
    pub number: u64,
    /// The length of the hole before them, in bytes.
    pub hole: u64,
    /// The hashes of the chunks, concatenated.
    pub hashes: Vec<u8>,
    /// Their lengths, in bytes.
    pub lengths: Vec<u32>,
    /// How the reading of the file ended; `None` if more pieces follow.
    pub end: Option<End>,
}

/// How the reading of a file ended.
pub enum End {
    Complete,
    Interrupted,
    Failed(io::Error),
}

/// The waiting files and pieces.
pub struct Backlog {
    state: Mutex<State>,
    arrived: Condvar,
    left: Condvar,
}

struct State {
    found: VecDeque<Found>,
    pieces: VecDeque<Piece>,
    /// The bytes of the pieces.
    bytes: usize,
    /// Whether the walk continues.
    is_walking: bool,
    /// The readers that have not ended.
    readers: usize,
    /// Whether nothing is taken any more.
    stopped: bool,
}

/// Nothing is taken any more.
pub struct Stopped;

/// The walk; it has ended when this is dropped.
pub struct Finder<'a>(&'a Backlog);

/// One reader; it has ended when this is dropped.
pub struct Sender<'a>(&'a Backlog);

/// The indexing thread. The walk and the readers stop when it is dropped.
pub struct Receiver<'a>(&'a Backlog);

/// What was taken.
pub struct Taken {
    /// Files that were found.
    pub found: Vec<Found>,
    /// Pieces that were read.
    pub pieces: Vec<Piece>,
    /// Whether all files that are found have been taken.
    pub is_walked: bool,
}

impl Backlog {
    /// Returns an empty backlog for a walk and this many readers, each of which gets a [`sender`](Backlog::sender).
    pub fn new(readers: usize) -> Self {
        let (found, pieces) = (VecDeque::new(), VecDeque::new());
        let state = State { found, pieces, bytes: 0, is_walking: true, readers, stopped: false };
        Backlog { state: Mutex::new(state), arrived: Condvar::new(), left: Condvar::new() }
    }

    /// Returns the end of the walk.
    pub fn finder(&self) -> Finder<'_> {
        Finder(self)
    }

    /// Returns the end of one reader.
    pub fn sender(&self) -> Sender<'_> {
        Sender(self)
    }

    /// Returns the end that takes files and pieces.
    pub fn receiver(&self) -> Receiver<'_> {
        Receiver(self)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while this is full, and adds to it.
    fn add(&self, is_full: impl Fn(&State) -> bool, add: impl FnOnce(&mut State)) -> Result<(), Stopped> {
        let mut state = self.state();
        while is_full(&state) && !state.stopped {
            state = self.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.stopped {
            return Err(Stopped);
        }
        add(&mut state);
        self.arrived.notify_one();
        Ok(())
    }
}

impl Finder<'_> {
    /// Adds a file, and waits before that while there are too many.
    pub fn find(&self, found: Found) -> Result<(), Stopped> {
        self.0.add(|state| state.found.len() >= FILES_MAX, |state| state.found.push_back(found))
    }
}

impl Drop for Finder<'_> {
    fn drop(&mut self) {
        self.0.state().is_walking = false;
        self.0.arrived.notify_one();
    }
}

impl Sender<'_> {
    /// Adds a piece, and waits before that while there are too many bytes.
    pub fn send(&self, piece: Piece) -> Result<(), Stopped> {
        let bytes = bytes_of(&piece);
        self.0.add(
            |state| state.bytes >= BYTES_MAX,
            |state| {
                state.bytes += bytes;
                state.pieces.push_back(piece);
            },
        )
    }
}

impl Drop for Sender<'_> {
    fn drop(&mut self) {
        self.0.state().readers -= 1;
        self.0.arrived.notify_one();
    }
}

impl Receiver<'_> {
    /// Waits for a piece, or for a file or the end of the walk if `files_max` is not 0. Takes what waits: at most
    /// `files_max` files, and pieces up to this number of chunks and the piece that reaches it. Returns no piece if all
    /// readers have ended.
    pub fn receive(&self, files_max: usize, chunks_max: usize) -> Taken {
        let mut state = self.0.state();
        let has_file = |state: &State| files_max > 0 && (!state.found.is_empty() || !state.is_walking);
        while state.pieces.is_empty() && !has_file(&state) && state.readers > 0 {
            state = self.0.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let files = state.found.len().min(files_max);
        let found = state.found.drain(..files).collect();
        let (mut pieces, mut chunks) = (Vec::new(), 0);
        while chunks < chunks_max
            && let Some(piece) = state.pieces.pop_front()
        {
            state.bytes -= bytes_of(&piece);
            // A piece without chunks counts too: it costs as much as one.
            chunks += piece.lengths.len().max(1);
            pieces.push(piece);
        }
        self.0.left.notify_all();
        Taken { found, pieces, is_walked: state.found.is_empty() && !state.is_walking }
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
        assert_eq!(numbers(&receiver.receive(0, 5).pieces), [1, 2, 3]);
        assert_eq!(numbers(&receiver.receive(0, 5).pieces), [4]);
        drop(sender);
        assert!(receiver.receive(0, 5).pieces.is_empty(), "all readers have ended");
    }

    #[test]
    fn files_are_taken_up_to_a_number_until_the_walk_has_ended() {
        let backlog = Backlog::new(1);
        let (finder, _sender, receiver) = (backlog.finder(), backlog.sender(), backlog.receiver());
        for _ in 0..3 {
            assert!(finder.find(Found::Linked).is_ok());
        }
        let taken = receiver.receive(2, 1);
        assert!(taken.found.len() == 2 && !taken.is_walked);
        drop(finder);
        let taken = receiver.receive(2, 1);
        assert!(taken.found.len() == 1 && taken.is_walked);
        let taken = receiver.receive(2, 1);
        assert!(taken.found.is_empty() && taken.is_walked, "the end of the walk is no reason to wait");
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
                taken.extend(numbers(&receiver.receive(0, 1).pieces));
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
        let (waiting, later, finder) = (backlog.sender(), backlog.sender(), backlog.finder());
        std::thread::scope(|scope| {
            let receiver = backlog.receiver();
            // Sends without end, so it waits at the limit or is about to.
            let reader =
                scope.spawn(move || (0..).find(|&number| waiting.send(piece(number, 1_000)).is_err()));
            assert!(!receiver.receive(0, 1).pieces.is_empty());
            drop(receiver);
            assert!(reader.join().unwrap().is_some());
        });
        assert!(later.send(piece(0, 1)).is_err() && finder.find(Found::Linked).is_err());
    }
}
