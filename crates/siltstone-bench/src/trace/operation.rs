//! One operation of a trace, and the keys that stand for recorded ones.

use crate::random::{GOLDEN, mix};

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Looks a key up.
    Get = 0,
    /// Gives a key a value.
    Set = 1,
    /// Removes a key.
    Delete = 2,
}

impl Kind {
    /// All of them; each stands at its number.
    pub const ALL: [Kind; 3] = [Kind::Get, Kind::Set, Kind::Delete];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Get => "GET",
            Kind::Set => "SET",
            Kind::Delete => "DELETE",
        }
    }
}

/// An operation, as it was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// What it does.
    pub kind: Kind,
    /// Which key: [`identity_of`] it.
    pub key: u64,
    /// The length of the key in bytes, 1 to 65,535.
    pub key_length: u16,
    /// The length of the value in bytes, up to 256 MiB: of the one that was set, or of the one that a get found; 0 if
    /// it found none or that is not known.
    pub value_length: u32,
    /// When it was asked for, in milliseconds since the trace began.
    pub time_ms: u64,
    /// How long a value was to live, in seconds; 0: for ever.
    pub time_to_live_s: u32,
}

/// What a trace holds of a key. Keys of one length have different identities up to 8 bytes, and beyond that but for a
/// collision of a 64-bit hash. Keys of up to 8 bytes are their own identity, in little-endian order.
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
    /// A key of the recorded length that only this identity has: the identity's bytes first, in little-endian order,
    /// then bytes that follow from it. So keys of up to 8 bytes are the recorded ones.
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
    fn short_keys_come_back_and_long_ones_stay_different() {
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
