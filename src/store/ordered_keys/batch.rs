//! Some adjacent keys with their states.

use super::{Direction, KeyState};
use std::collections::VecDeque;
use std::ops::Range;

/// Keys in the order of a range, each with its state.
#[derive(Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    keys: VecDeque<(Range<usize>, KeyState)>,
}

impl Batch {
    /// Appends a key.
    pub fn push(&mut self, key: &[u8], state: KeyState) {
        self.push_parts(key, &[], state);
    }

    /// Appends a key of two parts.
    pub fn push_parts(&mut self, first: &[u8], rest: &[u8], state: KeyState) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(first);
        self.bytes.extend_from_slice(rest);
        self.keys.push_back((start..self.bytes.len(), state));
    }

    /// Returns the first key with its state.
    pub fn first(&self) -> Option<(&[u8], KeyState)> {
        self.keys.front().map(|(at, state)| (&self.bytes[at.clone()], *state))
    }

    /// Returns the last key.
    pub fn last(&self) -> Option<&[u8]> {
        self.keys.back().map(|(at, _)| &self.bytes[at.clone()])
    }

    /// Removes the first key.
    pub fn pop_first(&mut self) {
        // The bytes stay until `clear`, because the other keys are addressed by their offsets.
        self.keys.pop_front();
    }

    /// Removes all keys.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.keys.clear();
    }

    /// Brings ascending keys into the order of a direction, and keeps those for which `keep` returns true.
    pub fn arrange(&mut self, direction: Direction, keep: impl Fn(&[u8]) -> bool) {
        // Only the places of keys move, not their bytes.
        let bytes = &self.bytes;
        self.keys.retain(|(at, _)| keep(&bytes[at.clone()]));
        if direction == Direction::Descending {
            self.keys.make_contiguous().reverse();
        }
    }

    /// Returns the memory, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.bytes.capacity() + self.keys.capacity() * size_of::<(Range<usize>, KeyState)>()
    }
}
