//! An operation of a trace, and the keys that replace the recorded ones.

use crate::random::{GOLDEN, mix};

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Looks a key up.
    Get = 0,
    /// Puts a value.
    Set = 1,
    /// Removes a key.
    Delete = 2,
}

impl Kind {
    /// All kinds, indexed by their numbers.
    pub const ALL: [Kind; 3] = [Kind::Get, Kind::Set, Kind::Delete];

    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Get => "GET",
            Kind::Set => "SET",
            Kind::Delete => "DELETE",
        }
    }
}

/// A recorded operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// The kind.
    pub kind: Kind,
    /// The key's identity, from [`identity_of`].
    pub key: u64,
    /// The length of the key in bytes, 1 to 65,535.
    pub key_length: u16,
    /// The length of the value in bytes, up to 256 MiB: of the value set, or of the value found by a get; 0 if there
    /// was none or if it is unknown.
    pub value_length: u32,
    /// The time of the request, in milliseconds since the start of the trace.
    pub time_ms: u64,
    /// The time to live of a value, in seconds; 0 for unlimited.
    pub time_to_live_s: u32,
}

/// Returns the identity by which a trace names a key. Keys of up to 8 bytes are their own identity, in little-endian
/// order. Of longer keys it is a 64-bit hash.
pub fn identity_of(key: &[u8]) -> u64 {
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    if key.len() <= 8 {
        return word(key);
    }
    key.chunks(8).fold(GOLDEN, |state, bytes| mix(state ^ word(bytes)).wrapping_add(GOLDEN))
}

impl Operation {
    /// Writes a key of the recorded length that is unique to this identity: the identity's bytes in little-endian
    /// order, followed by bytes derived from it. Keys of up to 8 bytes are the recorded ones.
    pub fn write_key(&self, key: &mut Vec<u8>) {
        let length = usize::from(self.key_length);
        key.clear();
        let mut word = self.key;
        while key.len() < length {
            key.extend_from_slice(&word.to_le_bytes());
            word = mix(word.wrapping_add(GOLDEN));
        }
        key.truncate(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn key_of(key: &[u8]) -> Vec<u8> {
        let (key_length, key) = (key.len() as u16, identity_of(key));
        let operation =
            Operation { kind: Kind::Get, key, key_length, value_length: 0, time_ms: 0, time_to_live_s: 0 };
        let mut made = Vec::new();
        operation.write_key(&mut made);
        made
    }

    #[test]
    fn short_keys_are_restored_and_long_ones_stay_different() {
        for length in 1..=8 {
            let key: Vec<u8> = (1..=length).collect();
            assert_eq!(key_of(&key), key);
        }
        for length in [9, 16, 20, 32, 250] {
            let mut seen = HashSet::new();
            for at in 0..length {
                for bit in 0..8 {
                    let mut key = vec![0; length];
                    key[at] = 1 << bit;
                    let made = key_of(&key);
                    assert!(made.len() == length && seen.insert(made), "{length}: bit {bit} of {at}");
                }
            }
        }
    }
}
