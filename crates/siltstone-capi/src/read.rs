//! Reading single records and many of them, of a database, a snapshot or a dictionary.

use crate::border::{Failure, Outcome, body, bytes, give, handle, many, set, slice_mut};
use crate::database::Db;
use crate::memory::give_memory;
use bytes::Bytes;
use std::cell::RefCell;
use std::ffi::{c_char, c_void};
use std::ptr::null_mut;

/// A buffer of more bytes is freed after it was used.
const SCRATCH_BYTES_MAX: usize = 1 << 16;

thread_local! {
    /// What a get into a buffer of the caller reads into, so that it allocates nothing.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// What records are read from.
pub trait Source {
    /// Appends the value of a key, and returns when it expires; `None` if it does not exist.
    fn read(&self, key: &[u8], value: &mut Vec<u8>) -> siltstone::Result<Option<u64>>;

    /// Returns the values of many keys.
    fn read_many(&self, keys: &[&[u8]]) -> siltstone::Result<Vec<Option<Bytes>>>;
}

/// What finds whether keys exist without their values.
pub trait Keys {
    /// Returns whether each of many keys exists.
    fn contains_many(&self, keys: &[&[u8]]) -> siltstone::Result<Vec<bool>>;
}

impl Source for Db {
    #[inline]
    fn read(&self, key: &[u8], value: &mut Vec<u8>) -> siltstone::Result<Option<u64>> {
        self.0.get_into(key, value)
    }

    fn read_many(&self, keys: &[&[u8]]) -> siltstone::Result<Vec<Option<Bytes>>> {
        self.0.get_many(keys)
    }
}

impl Keys for Db {
    fn contains_many(&self, keys: &[&[u8]]) -> siltstone::Result<Vec<bool>> {
        self.0.contains_many(keys)
    }
}

/// Passes the value of a key and its expiry time to `use_value`, if the key exists.
#[inline]
fn with_value<T>(
    source: &impl Source,
    key: &[u8],
    use_value: impl FnOnce(&[u8], u64) -> Outcome<T>,
) -> Outcome<Option<T>> {
    SCRATCH.with_borrow_mut(|value| {
        value.clear();
        let found = source.read(key, value)?;
        let used = found.map(|expires_at_ms| use_value(value, expires_at_ms)).transpose();
        if value.capacity() > SCRATCH_BYTES_MAX {
            *value = Vec::new();
        }
        used
    })
}

/// Returns a copy of a value, and sets the length and the time.
///
/// # Safety
/// As for [`set`] and [`bytes`].
#[inline]
pub(crate) unsafe fn get(
    source: &impl Source,
    (key, key_length): (*const c_void, usize),
    value_length: *mut usize,
    expires_at_ms: *mut u64,
) -> Outcome<*mut c_char> {
    // SAFETY: as the caller guarantees.
    let key = unsafe { bytes(key, key_length) }?;
    let mut value = Vec::new();
    let found = source.read(key, &mut value)?;
    // SAFETY: as the caller guarantees.
    unsafe {
        set(value_length, if found.is_some() { value.len() } else { 0 });
        if let Some(expires) = found {
            set(expires_at_ms, expires);
        }
    }
    Ok(found.map_or(null_mut(), |_| give_memory(value)))
}

/// Copies a value to a buffer, if it fits, and sets the length. Returns whether the key exists.
///
/// # Safety
/// As for [`set`], [`bytes`] and [`slice_mut`].
#[inline]
pub(crate) unsafe fn get_into(
    source: &impl Source,
    (key, key_length): (*const c_void, usize),
    (buffer, capacity): (*mut c_void, usize),
    value_length: *mut usize,
) -> Outcome<bool> {
    // SAFETY: as the caller guarantees.
    let (key, buffer) = unsafe { (bytes(key, key_length)?, slice_mut(buffer.cast::<u8>(), capacity)?) };
    let found = with_value(source, key, |value, _| {
        if let Some(to) = buffer.get_mut(..value.len()) {
            to.copy_from_slice(value);
        }
        // SAFETY: as the caller guarantees.
        unsafe { set(value_length, value.len()) };
        Ok(())
    })?;
    Ok(found.is_some())
}

/// Sets a copy of each value, or NULL, and its length.
///
/// # Safety
/// As for [`many`] and [`slice_mut`].
pub(crate) unsafe fn get_many(
    source: &impl Source,
    keys: (*const *const c_void, *const usize, usize),
    values: *mut *mut c_char,
    value_lengths: *mut usize,
) -> Outcome<bool> {
    let (keys, lengths, count) = keys;
    // SAFETY: as the caller guarantees.
    let (keys, values, lengths) =
        unsafe { (many(keys, lengths, count)?, slice_mut(values, count)?, slice_mut(value_lengths, count)?) };
    let found = source.read_many(&keys)?;
    let mut given = found.iter().map(|value| value.as_deref().map_or(Ok(null_mut()), give));
    for at in 0..count {
        match given.next().unwrap_or(Ok(null_mut())) {
            Ok(value) => values[at] = value,
            Err(failure) => {
                // SAFETY: these were just given.
                values[..at].iter_mut().for_each(|value| unsafe {
                    libc::free((*value).cast());
                    *value = null_mut();
                });
                return Err(failure);
            }
        }
    }
    lengths.iter_mut().zip(&found).for_each(|(to, value)| *to = value.as_ref().map_or(0, Bytes::len));
    Ok(true)
}

/// Sets whether each key exists.
///
/// # Safety
/// As for [`many`] and [`slice_mut`].
pub(crate) unsafe fn contains_many(
    source: &impl Keys,
    keys: (*const *const c_void, *const usize, usize),
    found: *mut bool,
) -> Outcome<bool> {
    let (keys, lengths, count) = keys;
    // SAFETY: as the caller guarantees.
    let (keys, found) = unsafe { (many(keys, lengths, count)?, slice_mut(found, count)?) };
    let contained = source.contains_many(&keys)?;
    found.iter_mut().zip(contained).for_each(|(to, is_contained)| *to = is_contained);
    Ok(true)
}

/// Copies the values of keys of one length to rows of one length. Rows of absent keys stay as they are.
///
/// # Safety
/// As for [`bytes`] and [`slice_mut`].
pub(crate) unsafe fn get_rows(
    source: &impl Source,
    (keys, key_length, count): (*const c_void, usize, usize),
    (values, value_length): (*mut c_void, usize),
    found: *mut bool,
) -> Outcome<bool> {
    let bytes_of = |length: usize| {
        let bytes = length.checked_mul(count);
        bytes.ok_or_else(|| Failure::argument(format!("{count} rows of {length} bytes are not possible")))
    };
    let (key_bytes, value_bytes) = (bytes_of(key_length)?, bytes_of(value_length)?);
    // SAFETY: as the caller guarantees.
    let (keys, values, found) = unsafe {
        (bytes(keys, key_bytes)?, slice_mut(values.cast::<u8>(), value_bytes)?, slice_mut(found, count)?)
    };
    if key_length == 0 {
        return Err(Failure::argument("the keys have 0 bytes"));
    }
    let keys: Vec<&[u8]> = keys.chunks_exact(key_length).collect();
    let read = source.read_many(&keys)?;
    if let Some(other) = read.iter().flatten().find(|value| value.len() != value_length) {
        let message = format!("a value has {} bytes, not {value_length}", other.len());
        return Err(Failure::argument(message));
    }
    for (row, value) in read.iter().enumerate() {
        found[row] = value.is_some();
        if let Some(value) = value {
            values[row * value_length..][..value_length].copy_from_slice(value);
        }
    }
    Ok(true)
}

/// Returns a copy of the value of a key, and sets `*value_length`. Returns NULL if there is no such key. The value has
/// no zero byte at its end. Takes one flash read, rarely more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_get(
    database: *const Db,
    key: *const c_void,
    key_length: usize,
    value_length: *mut usize,
    errptr: *mut *mut c_char,
) -> *mut c_char {
    body!(errptr, { get(handle(database)?, (key, key_length), value_length, null_mut()) })
}

/// Like `siltstone_get`, and sets `*expires_at_ms` to when the record expires, in milliseconds since 1970, or to 0 if
/// it never does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_get_with_expiry(
    database: *const Db,
    key: *const c_void,
    key_length: usize,
    value_length: *mut usize,
    expires_at_ms: *mut u64,
    errptr: *mut *mut c_char,
) -> *mut c_char {
    body!(errptr, { get(handle(database)?, (key, key_length), value_length, expires_at_ms) })
}

/// Copies the value of a key to `buffer`, and returns true; false if there is no such key. Sets `*value_length`. A
/// value of more than `capacity` bytes is not copied: compare the two. Allocates nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_get_into(
    database: *const Db,
    key: *const c_void,
    key_length: usize,
    buffer: *mut c_void,
    capacity: usize,
    value_length: *mut usize,
    errptr: *mut *mut c_char,
) -> bool {
    body!(errptr, { get_into(handle(database)?, (key, key_length), (buffer, capacity), value_length) })
}

/// Returns whether the key exists. Costs as much as a get.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_contains(
    database: *const Db,
    key: *const c_void,
    key_length: usize,
    errptr: *mut *mut c_char,
) -> bool {
    body!(errptr, { get_into(handle(database)?, (key, key_length), (null_mut(), 0), null_mut()) })
}

/// Returns false only if the key is certainly absent. Reads nothing from the device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_may_contain(
    database: *const Db,
    key: *const c_void,
    key_length: usize,
    errptr: *mut *mut c_char,
) -> bool {
    body!(errptr, { Ok(handle(database)?.0.may_contain(bytes(key, key_length)?)?) })
}

/// Gets the values of `count` keys, with overlapping reads. Sets `values[i]` to a copy of the value of `keys[i]`, which
/// the caller frees, or to NULL, and `value_lengths[i]`. On an error there is nothing to free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_get_many(
    database: *const Db,
    keys: *const *const c_void,
    key_lengths: *const usize,
    count: usize,
    values: *mut *mut c_char,
    value_lengths: *mut usize,
    errptr: *mut *mut c_char,
) -> bool {
    body!(errptr, { get_many(handle(database)?, (keys, key_lengths, count), values, value_lengths) })
}

/// Sets `found[i]` to whether `keys[i]` exists, for `count` keys, with overlapping reads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_contains_many(
    database: *const Db,
    keys: *const *const c_void,
    key_lengths: *const usize,
    count: usize,
    found: *mut bool,
    errptr: *mut *mut c_char,
) -> bool {
    body!(errptr, { contains_many(handle(database)?, (keys, key_lengths, count), found) })
}

/// Gets the values of `count` keys of `key_length` bytes each, which follow each other from `keys` on. Copies each
/// value to its row of `value_length` bytes from `values` on, and sets `found[i]`. Rows of absent keys stay as they
/// are. A value of another length is an error. For embeddings, features and the like.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_get_rows(
    database: *const Db,
    keys: *const c_void,
    key_length: usize,
    count: usize,
    values: *mut c_void,
    value_length: usize,
    found: *mut bool,
    errptr: *mut *mut c_char,
) -> bool {
    body!(errptr, { get_rows(handle(database)?, (keys, key_length, count), (values, value_length), found) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has the key `a`, and no values that could be read.
    struct OnlyKeys;

    impl Keys for OnlyKeys {
        fn contains_many(&self, keys: &[&[u8]]) -> siltstone::Result<Vec<bool>> {
            Ok(keys.iter().map(|key| *key == b"a").collect())
        }
    }

    #[test]
    fn which_keys_exist_is_found_without_their_values() {
        let (names, lengths) = ([b"a", b"b"], [1, 1]);
        let keys = names.map(|name| name.as_ptr().cast::<c_void>());
        let mut found = [false; 2];
        let keys = (keys.as_ptr(), lengths.as_ptr(), keys.len());
        // SAFETY: there are two keys of one byte, and two flags.
        let outcome = unsafe { contains_many(&OnlyKeys, keys, found.as_mut_ptr()) };
        assert_eq!((outcome.ok(), found), (Some(true), [true, false]));
    }
}
