//! Commands that change the values of keys: functions over the states of their keys.
//!
//! The worker reads the keys of all such commands of a turn in one transaction, calls the commands in their order, each
//! on what the earlier ones have left, and writes the result at once. A command that fails must have changed nothing:
//! it checks all its words and types before its first change.
//!
//! | file | contents |
//! |---|---|
//! | `strings` | SET and its relatives, parts of strings |
//! | `numbers` | INCR and its relatives |
//! | `bits` | bits of strings |
//! | `bit_field` | BITFIELD |
//! | `expiry` | times of expiry |
//! | `keys` | DEL, RENAME, COPY, OBJECT |
//! | `hashes` | values with fields |
//! | `packed` | the bytes of a hash |
//! | `dump` | DUMP and RESTORE, in Redis's form of a value |

mod bit_field;
pub mod bits;
pub mod dump;
pub mod expiry;
pub mod hashes;
pub mod keys;
pub mod numbers;
mod packed;
pub mod strings;

pub use bit_field::{bitfield, bitfield_ro};
pub use packed::Fields;

use crate::failure::{Failure, Outcome};
use crate::store::{Entry, KeyState, NEVER, NewValue, ValueType, has_expired};
use siltstone::{Bytes, VALUE_LENGTH_MAX};

/// A call of such a command.
pub struct UpdateCall<'a> {
    /// All words; the first one is the name of the command.
    pub words: &'a [&'a [u8]],
    /// The states of the keys of all commands of the transaction.
    pub states: &'a mut [KeyState],
    /// Which of them are the command's keys, in their order.
    pub keys: &'a [usize],
    /// The time, in milliseconds since the Unix epoch.
    pub now_ms: u64,
}

/// The longest string, in bytes: one byte of a value may say its type.
const STRING_LENGTH_MAX: usize = VALUE_LENGTH_MAX - 1;

impl UpdateCall<'_> {
    pub(super) fn state(&mut self, key: usize) -> &mut KeyState {
        &mut self.states[self.keys[key]]
    }

    /// Returns the value of a key, if it exists.
    pub(super) fn entry(&self, key: usize) -> Option<Entry<'_>> {
        self.states[self.keys[key]].entry()
    }

    /// Returns the string of a key, if it exists.
    fn string(&self, key: usize) -> Result<Option<&[u8]>, Failure> {
        self.value_of(key, ValueType::String)
    }

    fn value_of(&self, key: usize, wanted: ValueType) -> Result<Option<&[u8]>, Failure> {
        match self.entry(key) {
            None => Ok(None),
            Some(entry) if entry.value_type == wanted => Ok(Some(entry.value)),
            Some(_) => Err(Failure::WRONG_TYPE),
        }
    }

    /// Returns when a key expires; [`NEVER`] if it does not exist.
    fn expires_at_ms(&self, key: usize) -> u64 {
        self.entry(key).map_or(NEVER, |entry| entry.expires_at_ms)
    }

    /// Sets the string of a key, which expires as before.
    fn put_string(&mut self, key: usize, bytes: impl Into<Bytes>) -> Outcome {
        let expires_at_ms = self.expires_at_ms(key);
        self.put(key, NewValue::string(bytes).expiring(expires_at_ms))
    }

    fn put(&mut self, key: usize, value: NewValue) -> Outcome {
        check_length(value.bytes.len())?;
        // Commands after this one must not find a value that has expired already.
        let value = Some(value).filter(|value| !has_expired(value.expires_at_ms, self.now_ms));
        self.state(key).replace(value)
    }

    /// Sets when the value of a key expires, which may be in the past.
    fn set_expiry(&mut self, key: usize, expires_at_ms: u64) {
        if has_expired(expires_at_ms, self.now_ms) {
            self.state(key).delete();
        } else {
            self.state(key).set_expiry(expires_at_ms);
        }
    }
}

/// Refuses a value that is too long.
fn check_length(length: usize) -> Outcome {
    match length <= STRING_LENGTH_MAX {
        true => Ok(()),
        false => Err(Failure::new("ERR string exceeds maximum allowed size (proto-max-bulk-len)")),
    }
}
