//! Operations that read and write in one atomic step.

use crate::border::{
    Failure, Outcome, body, bytes, give, handle, handle_mut, many, optional_bytes, set, slice_mut,
};
use crate::database::Db;
use crate::write::write_options;
use bytes::Bytes;
use siltstone::{Change, Error, Found};
use std::ffi::{c_char, c_void};
use std::ptr::null;

/// The records of an update, in the order of their keys, and what happens to them.
pub struct Update {
    found: *const [Option<Found>],
    changes: *mut [Change],
}

/// Sets the changes of an update: `siltstone_update_put` and `siltstone_update_delete`. Returns whether to apply them;
/// false ends the update with `SILTSTONE_ERROR_INTERRUPTED`. It must not use the database, or it deadlocks.
pub type UpdateFn = Option<unsafe extern "C" fn(state: *mut c_void, records: *mut Update) -> bool>;

impl Update {
    fn found(&self, index: usize) -> Option<&Found> {
        // SAFETY: the update lives as long as the call of `change`, and what it points to lives longer.
        unsafe { &*self.found }.get(index)?.as_ref()
    }

    /// Sets a change. Returns whether there is such a record.
    fn change(&mut self, index: usize, change: Change) -> bool {
        // SAFETY: as in `found`; nothing else points to the changes during the call.
        let to = unsafe { &mut *self.changes }.get_mut(index);
        to.map(|to| *to = change).is_some()
    }
}

/// Calls `change` with the records of the keys, and applies what it sets.
///
/// # Safety
/// `change` may be called with `state`.
unsafe fn update(
    database: &Db,
    keys: &[&[u8]],
    durability: u32,
    change: UpdateFn,
    state: *mut c_void,
) -> Outcome<bool> {
    let change = change.ok_or_else(|| Failure::argument("the callback is NULL"))?;
    let options = write_options(durability, siltstone::batch::NEVER)?;
    database.0.transact_with(keys, options, |found, changes| {
        let mut records = Update { found, changes };
        // SAFETY: as the caller guarantees; the records live during the call.
        if unsafe { change(state, &raw mut records) } { Ok(()) } else { Err(Error::Interrupted) }
    })?;
    Ok(true)
}

/// Puts the record if the key is absent, in one atomic step, and returns whether it did.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_insert_if_absent(
    database: *const Db,
    key: *const c_void,
    key_length: usize,
    value: *const c_void,
    value_length: usize,
    errptr: *mut *mut c_char,
) -> bool {
    body!(errptr, {
        Ok(handle(database)?.0.insert_if_absent(bytes(key, key_length)?, bytes(value, value_length)?)?)
    })
}

/// Like `siltstone_insert_if_absent`, with a durability, `SILTSTONE_DURABILITY_...`, and with the time when the record
/// expires, in milliseconds since 1970; 0 for never. A record that is present keeps its time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_insert_if_absent_with(
    database: *const Db,
    key: *const c_void,
    key_length: usize,
    value: *const c_void,
    value_length: usize,
    durability: u32,
    expires_at_ms: u64,
    errptr: *mut *mut c_char,
) -> bool {
    body!(errptr, {
        let options = write_options(durability, expires_at_ms)?;
        let (key, value) = (bytes(key, key_length)?, bytes(value, value_length)?);
        Ok(handle(database)?.0.insert_if_absent_with(key, value, options)?)
    })
}

/// Puts those of `count` records whose keys are absent, all in one atomic step, and sets `inserted[i]`. Of records with
/// the same key, the first one wins. The reads overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_insert_many_if_absent(
    database: *const Db,
    keys: *const *const c_void,
    key_lengths: *const usize,
    values: *const *const c_void,
    value_lengths: *const usize,
    count: usize,
    inserted: *mut bool,
    errptr: *mut *mut c_char,
) -> bool {
    body!(errptr, {
        let keys = many(keys, key_lengths, count)?;
        let values = many(values, value_lengths, count)?;
        let inserted = slice_mut(inserted, count)?;
        let records: Vec<_> = keys.into_iter().zip(values).collect();
        inserted.copy_from_slice(&handle(database)?.0.insert_many_if_absent(&records)?);
        Ok(true)
    })
}

/// Like `siltstone_insert_many_if_absent`, with a durability and a time when the records expire: see
/// `siltstone_insert_if_absent_with`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_insert_many_if_absent_with(
    database: *const Db,
    keys: *const *const c_void,
    key_lengths: *const usize,
    values: *const *const c_void,
    value_lengths: *const usize,
    count: usize,
    inserted: *mut bool,
    durability: u32,
    expires_at_ms: u64,
    errptr: *mut *mut c_char,
) -> bool {
    body!(errptr, {
        let options = write_options(durability, expires_at_ms)?;
        let keys = many(keys, key_lengths, count)?;
        let values = many(values, value_lengths, count)?;
        let inserted = slice_mut(inserted, count)?;
        let records: Vec<_> = keys.into_iter().zip(values).collect();
        inserted.copy_from_slice(&handle(database)?.0.insert_many_if_absent_with(&records, options)?);
        Ok(true)
    })
}

/// Replaces the value of a key if it is `expected`, in one atomic step, and returns whether it did. NULL means an
/// absent key: as `expected`, the key must be absent; as `value`, it is deleted. An empty value is a pointer that is
/// not NULL, and a length of 0. The new record never expires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_compare_and_swap(
    database: *const Db,
    key: *const c_void,
    key_length: usize,
    expected: *const c_void,
    expected_length: usize,
    value: *const c_void,
    value_length: usize,
    errptr: *mut *mut c_char,
) -> bool {
    body!(errptr, {
        let (expected, value) =
            (optional_bytes(expected, expected_length)?, optional_bytes(value, value_length)?);
        Ok(handle(database)?.0.compare_and_swap(bytes(key, key_length)?, expected, value)?)
    })
}

/// Like `siltstone_compare_and_swap`, with a durability, `SILTSTONE_DURABILITY_...`, and with the time when the new
/// record expires, in milliseconds since 1970; 0 for never.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_compare_and_swap_with(
    database: *const Db,
    key: *const c_void,
    key_length: usize,
    expected: *const c_void,
    expected_length: usize,
    value: *const c_void,
    value_length: usize,
    durability: u32,
    expires_at_ms: u64,
    errptr: *mut *mut c_char,
) -> bool {
    body!(errptr, {
        let options = write_options(durability, expires_at_ms)?;
        let (expected, value) =
            (optional_bytes(expected, expected_length)?, optional_bytes(value, value_length)?);
        Ok(handle(database)?.0.compare_and_swap_with(bytes(key, key_length)?, expected, value, options)?)
    })
}

/// Removes a key in one atomic step, and returns its value as `siltstone_get`; NULL if it was absent.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_remove(
    database: *const Db,
    key: *const c_void,
    key_length: usize,
    value_length: *mut usize,
    errptr: *mut *mut c_char,
) -> *mut c_char {
    body!(errptr, {
        let removed = handle(database)?.0.remove(bytes(key, key_length)?)?;
        set(value_length, removed.as_ref().map_or(0, Bytes::len));
        removed.map_or(Ok(std::ptr::null_mut()), |value| give(&value))
    })
}

/// Calls `change` once with the record of a key, which has the index 0, and applies the change that it sets. No other
/// write to the key happens in between. What is not changed is kept. `durability` is `SILTSTONE_DURABILITY_...`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_update(
    database: *const Db,
    key: *const c_void,
    key_length: usize,
    durability: u32,
    change: UpdateFn,
    state: *mut c_void,
    errptr: *mut *mut c_char,
) -> bool {
    body!(errptr, { update(handle(database)?, &[bytes(key, key_length)?], durability, change, state) })
}

/// Like `siltstone_update`, for `count` keys: applies all changes or none. The reads overlap. If a key is given twice,
/// its later change wins.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_update_many(
    database: *const Db,
    keys: *const *const c_void,
    key_lengths: *const usize,
    count: usize,
    durability: u32,
    change: UpdateFn,
    state: *mut c_void,
    errptr: *mut *mut c_char,
) -> bool {
    body!(errptr, { update(handle(database)?, &many(keys, key_lengths, count)?, durability, change, state) })
}

/// Returns the value of a record of an update, and sets `*value_length`; NULL if the key is absent. It is valid until
/// the callback returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_update_value(
    records: *const Update,
    index: usize,
    value_length: *mut usize,
) -> *const c_char {
    body!({
        let found = handle(records)?.found(index);
        set(value_length, found.map_or(0, |found| found.value.len()));
        Ok(found.map_or(null(), |found| found.value.as_ptr().cast()))
    })
}

/// Returns the time when a record of an update expires, in milliseconds since 1970; 0 if never or if the key is absent.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_update_expires_at_ms(records: *const Update, index: usize) -> u64 {
    body!({ Ok(handle(records)?.found(index).map_or(siltstone::batch::NEVER, |found| found.expires_at_ms)) })
}

/// Puts a value, a copy of which is made, with its expiry time; 0 for never. Returns false if there is no such record.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_update_put(
    records: *mut Update,
    index: usize,
    value: *const c_void,
    value_length: usize,
    expires_at_ms: u64,
) -> bool {
    body!({
        let value = Bytes::copy_from_slice(bytes(value, value_length)?);
        Ok(handle_mut(records)?.change(index, Change::Put { value, expires_at_ms }))
    })
}

/// Deletes the key. Returns false if there is no such record.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_update_delete(records: *mut Update, index: usize) -> bool {
    body!({ Ok(handle_mut(records)?.change(index, Change::Delete)) })
}
