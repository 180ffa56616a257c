//! Values with their marks.

use super::TOO_LARGE;
use crate::command::UpdateCall;
use crate::failure::{Failure, Outcome};
use crate::store::{Entry, MARKED_BYTES, Mark, NewValue, ValueType, has_expired};
use crc::{CRC_64_XZ, Crc};
use siltstone::VALUE_LENGTH_MAX;

/// The longest value, in bytes.
const VALUE_BYTES_MAX: usize = VALUE_LENGTH_MAX - MARKED_BYTES;

static HASH: Crc<u64> = Crc::<u64>::new(&CRC_64_XZ);

/// The highest bit, which no version of a mark has.
const OF_HASH: u64 = 1 << 63;

/// Returns the mark of a value. One that another command has stored has flags 0, and a hash of the value as its
/// version.
pub fn mark_of(entry: &Entry<'_>) -> Mark {
    entry.mark.unwrap_or_else(|| Mark::of_version(HASH.checksum(entry.value) | OF_HASH))
}

/// Returns the string of a key, if it exists.
///
/// # Errors
/// The value has another type.
pub fn string_of<'a>(entry: Option<Entry<'a>>) -> Result<Option<Entry<'a>>, Failure> {
    match entry {
        Some(entry) if entry.value_type != ValueType::String => Err(Failure::WRONG_TYPE),
        entry => Ok(entry),
    }
}

/// Puts the value of the first key. One that has expired already deletes the value before.
///
/// # Errors
/// The value is too long, or the store cannot have the key or the flags.
pub fn put(call: &mut UpdateCall<'_>, value: NewValue) -> Outcome {
    if value.bytes.len() > VALUE_BYTES_MAX {
        return Err(TOO_LARGE);
    }
    let has_expired = has_expired(value.expires_at_ms, call.now_ms);
    call.state(0).replace(Some(value).filter(|_| !has_expired))
}

/// Returns the block of a request without the two bytes that end it.
///
/// # Errors
/// It is too long, or ends otherwise.
pub fn block(word: &[u8]) -> Result<&[u8], Failure> {
    match word {
        [] => Err(TOO_LARGE),
        [block @ .., b'\r', b'\n'] => Ok(block),
        _ => Err(Failure::new("CLIENT_ERROR bad data chunk")),
    }
}
