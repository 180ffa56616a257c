//! Executes the pieces of background work late, in a random order, and some of them only in part.

use siltstone_device::{EndedPiece, Piece, PieceExecutor};
use std::io;

/// One piece in this many is transferred only in part.
const SHORT_SHARE: usize = 8;

/// Executes a piece only when its user waits for one, and then any.
pub struct ShuffledPieces {
    random: fastrand::Rng,
    waiting: Vec<(u64, Piece)>,
}

impl ShuffledPieces {
    /// Makes an executor whose order a seed determines.
    pub fn new(seed: u64) -> Self {
        ShuffledPieces { random: fastrand::Rng::with_seed(seed), waiting: Vec::new() }
    }

    fn execute(&mut self, piece: &mut Piece) -> io::Result<usize> {
        let length = piece.buffer.len();
        let part = self.random.usize(1..=length).next_multiple_of(piece.file.alignment()).min(length);
        if self.random.usize(..SHORT_SHARE) > 0 || part == length {
            return piece.execute();
        }
        if !piece.is_write {
            return piece.file.read_at(piece.offset, &mut piece.buffer[..part]);
        }
        piece.file.write_at(piece.offset, &piece.buffer[..part]).map(|()| part)
    }
}

impl PieceExecutor for ShuffledPieces {
    fn begin(&mut self, number: u64, piece: Piece) {
        self.waiting.push((number, piece));
    }

    fn wait(&mut self) -> Option<EndedPiece> {
        if self.waiting.is_empty() {
            return None;
        }
        let (number, mut piece) = self.waiting.swap_remove(self.random.usize(..self.waiting.len()));
        let outcome = self.execute(&mut piece);
        Some((number, piece, outcome))
    }
}

impl Drop for ShuffledPieces {
    fn drop(&mut self) {
        while self.wait().is_some() {}
    }
}
