//! The index of the virtual buckets (ECT 3.1.3): where the records and the code of each bucket begin.

mod lines;
mod two_level;

pub(super) use lines::{Bucket, LineIndex, LineIndexBuilder};
pub(super) use two_level::{TwoLevelBuilder, TwoLevelIndex};

/// Where something begins, or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Offsets {
    /// The number of records before.
    pub position: u64,
    /// The number of bits of code before.
    pub bit: u64,
}

impl Offsets {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.position.to_le_bytes());
        out.extend_from_slice(&self.bit.to_le_bytes());
    }

    fn decode(bytes: &[u8; 16]) -> Self {
        let word = |from: usize| std::array::from_fn(|index| bytes[from + index]);
        Self { position: u64::from_le_bytes(word(0)), bit: u64::from_le_bytes(word(8)) }
    }
}
