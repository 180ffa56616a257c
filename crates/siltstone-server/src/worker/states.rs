//! The states of keys that are only read.

use crate::failure::Failure;
use crate::protocol::REPLY_BYTES_MAX;
use crate::store::{KeyState, Store};

/// Returns the states of keys that are only read.
///
/// # Errors
/// They have more bytes than a reply may have.
pub fn states_of(store: &dyn Store, keys: &[&[u8]]) -> Result<Vec<KeyState>, Failure> {
    let (mut states, mut bytes) = (vec![KeyState::default(); keys.len()], 0);
    let at_once = store.keys_at_once();
    for (first, keys) in (0..).step_by(at_once).zip(keys.chunks(at_once)) {
        store.get_many(keys, &mut |number, found| {
            bytes += found.map_or(0, |found| found.value.len());
            if bytes <= REPLY_BYTES_MAX {
                states[first + number] = KeyState::copy_of(found);
            }
        })?;
        if bytes > REPLY_BYTES_MAX {
            return Err(Failure::REPLY_TOO_LONG);
        }
    }
    Ok(states)
}
