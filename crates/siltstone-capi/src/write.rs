//! Writes, single or in batches.

use crate::border::{Failure, Outcome, body, bytes, disown, handle, handle_mut, own};
use crate::database::Db;
use crate::options::{Progress, ProgressFn, go_on};
use siltstone::batch::{NEVER, Write};
use siltstone::{Durability, WriteOptions};
use std::ffi::{c_char, c_void};

/// What a write survives: what the option "durability" of the database says.
pub const SILTSTONE_DURABILITY_DEFAULT: u32 = 0;
/// What a write survives: nothing; it may be lost with the process.
pub const SILTSTONE_DURABILITY_BUFFERED: u32 = 1;
/// What a write survives: the end of the process, but not a power loss.
pub const SILTSTONE_DURABILITY_WRITTEN: u32 = 2;
/// What a write survives: a power loss. Concurrent writers share a sync.
pub const SILTSTONE_DURABILITY_SYNCED: u32 = 3;

/// Writes that are applied together. If several have the same key, the last one applies.
#[derive(Default)]
pub struct Batch {
    batch: siltstone::Batch,
    /// The first write that was to be added and is not possible.
    refused: Option<Failure>,
}

/// A put of a batch.
pub type BatchPutFn = Option<
    unsafe extern "C" fn(
        state: *mut c_void,
        key: *const c_char,
        key_length: usize,
        value: *const c_char,
        value_length: usize,
        expires_at_ms: u64,
    ),
>;

/// A delete of a batch.
pub type BatchDeleteFn =
    Option<unsafe extern "C" fn(state: *mut c_void, key: *const c_char, key_length: usize)>;

/// Returns the options of a write.
pub fn write_options(durability: u32, expires_at_ms: u64) -> Outcome<WriteOptions> {
    let options = WriteOptions::default().expires_at_ms(expires_at_ms);
    Ok(match durability {
        SILTSTONE_DURABILITY_DEFAULT => options,
        SILTSTONE_DURABILITY_BUFFERED => options.durability(Durability::Buffered),
        SILTSTONE_DURABILITY_WRITTEN => options.durability(Durability::Written),
        SILTSTONE_DURABILITY_SYNCED => options.durability(Durability::Synced),
        _ => {
            let message = format!("{durability} is no durability; use SILTSTONE_DURABILITY_...");
            return Err(Failure::argument(message));
        }
    })
}

/// Sets the value of a key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_put(
    database: *const Db,
    key: *const c_void,
    key_length: usize,
    value: *const c_void,
    value_length: usize,
    errptr: *mut *mut c_char,
) -> bool {
    body!(errptr, {
        handle(database)?.0.put(bytes(key, key_length)?, bytes(value, value_length)?)?;
        Ok(true)
    })
}

/// Like `siltstone_put`, with a durability, `SILTSTONE_DURABILITY_...`, and with the time when the record expires, in
/// milliseconds since 1970; 0 for never. `siltstone_expires_in_ms` returns such a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_put_with(
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
        handle(database)?.0.put_with(bytes(key, key_length)?, bytes(value, value_length)?, options)?;
        Ok(true)
    })
}

/// Removes a key, if it exists.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_delete(
    database: *const Db,
    key: *const c_void,
    key_length: usize,
    errptr: *mut *mut c_char,
) -> bool {
    body!(errptr, {
        handle(database)?.0.delete(bytes(key, key_length)?)?;
        Ok(true)
    })
}

/// Like `siltstone_delete`, with a durability, `SILTSTONE_DURABILITY_...`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_delete_with(
    database: *const Db,
    key: *const c_void,
    key_length: usize,
    durability: u32,
    errptr: *mut *mut c_char,
) -> bool {
    body!(errptr, {
        let options = write_options(durability, NEVER)?;
        handle(database)?.0.delete_with(bytes(key, key_length)?, options)?;
        Ok(true)
    })
}

/// Deletes all keys that begin with a prefix, which must not be empty: `siltstone_clear` deletes all keys. Returns how
/// many there were; 0 on an error.
/// Keys are deleted in batches of up to 1,024, each of them atomic, with a durability,
/// `SILTSTONE_DURABILITY_...`. After each batch, `progress` is called with the number of deleted keys and the number of
/// records or keys that were read; if it returns false, nothing more is deleted, and the error is
/// `SILTSTONE_ERROR_INTERRUPTED`. It may be NULL. Reads all records, unless the database keeps the order of its keys.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_delete_prefix(
    database: *const Db,
    prefix: *const c_void,
    prefix_length: usize,
    durability: u32,
    progress: ProgressFn,
    state: *mut c_void,
    errptr: *mut *mut c_char,
) -> u64 {
    body!(errptr, {
        let (prefix, options) = (bytes(prefix, prefix_length)?, write_options(durability, NEVER)?);
        if prefix.is_empty() {
            let message = "the prefix is empty, which would delete all records; use siltstone_clear for that";
            return Err(Failure::argument(message));
        }
        let progress = &mut go_on(Progress::new(progress, state));
        Ok(handle(database)?.0.delete_prefix_with(prefix, options, progress)?)
    })
}

/// Deletes all records, with the arguments and the costs of `siltstone_delete_prefix`. Records that others put
/// meanwhile may remain. If no other thread uses the database, `siltstone_destroy` and a new one cost much less.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_clear(
    database: *const Db,
    durability: u32,
    progress: ProgressFn,
    state: *mut c_void,
    errptr: *mut *mut c_char,
) -> u64 {
    body!(errptr, {
        let options = write_options(durability, NEVER)?;
        let progress = &mut go_on(Progress::new(progress, state));
        Ok(handle(database)?.0.clear_with(options, progress)?)
    })
}

/// Applies all writes of a batch or none, with a durability, `SILTSTONE_DURABILITY_...`. The batch stays as it is. If
/// one of its writes is not possible, returns its error and writes nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_write(
    database: *const Db,
    batch: *const Batch,
    durability: u32,
    errptr: *mut *mut c_char,
) -> bool {
    body!(errptr, {
        let (database, batch) = (handle(database)?, handle(batch)?);
        if let Some(failure) = &batch.refused {
            return Err(failure.clone());
        }
        database.0.write_with(&batch.batch, write_options(durability, NEVER)?)?;
        Ok(true)
    })
}

/// Makes an empty batch. `siltstone_batch_destroy` frees it.
#[unsafe(no_mangle)]
pub extern "C" fn siltstone_batch_create() -> *mut Batch {
    body!({ Ok(own(Batch::default())) })
}

/// Frees a batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_batch_destroy(batch: *mut Batch) {
    body!({
        drop(disown(batch));
        Ok(())
    })
}

/// Removes all writes of a batch, and keeps its memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_batch_clear(batch: *mut Batch) {
    body!({
        let batch = handle_mut(batch)?;
        batch.batch.clear();
        batch.refused = None;
        Ok(())
    })
}

/// Returns the number of writes of a batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_batch_length(batch: *const Batch) -> usize {
    body!({ Ok(handle(batch)?.batch.len()) })
}

/// Adds a write, or keeps the first failure for `siltstone_write`.
fn add(batch: &mut Batch, add: impl FnOnce(&mut siltstone::Batch) -> Outcome<()>) {
    if let Err(failure) = add(&mut batch.batch) {
        batch.refused.get_or_insert(failure);
    }
}

/// Adds a put of a record that expires at a time in milliseconds since 1970; 0 for never.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_batch_put(
    batch: *mut Batch,
    key: *const c_void,
    key_length: usize,
    value: *const c_void,
    value_length: usize,
    expires_at_ms: u64,
) {
    body!({
        add(handle_mut(batch)?, |to| {
            to.put_until(bytes(key, key_length)?, bytes(value, value_length)?, expires_at_ms)?;
            Ok(())
        });
        Ok(())
    })
}

/// Adds a delete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_batch_delete(batch: *mut Batch, key: *const c_void, key_length: usize) {
    body!({
        add(handle_mut(batch)?, |to| {
            to.delete(bytes(key, key_length)?)?;
            Ok(())
        });
        Ok(())
    })
}

/// Adds the writes of the batch `from` to `batch`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_batch_append(batch: *mut Batch, from: *const Batch) {
    body!({
        if std::ptr::eq(batch, from) {
            return Err(Failure::argument("a batch is appended to itself"));
        }
        let (batch, from) = (handle_mut(batch)?, handle(from)?);
        for write in from.batch.writes() {
            match write {
                Write::Put { key, value, expires_at_ms } => {
                    batch.batch.put_until(key, value, expires_at_ms)?
                }
                Write::Delete { key } => batch.batch.delete(key)?,
            };
        }
        batch.refused = batch.refused.take().or_else(|| from.refused.clone());
        Ok(())
    })
}

/// Calls `put` or `delete_key` for each write of a batch, in their order, with `state`. NULL for either leaves those
/// out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_batch_iterate(
    batch: *const Batch,
    state: *mut c_void,
    put: BatchPutFn,
    delete_key: BatchDeleteFn,
) {
    body!({
        for write in handle(batch)?.batch.writes() {
            match (write, put, delete_key) {
                (Write::Put { key, value, expires_at_ms }, Some(put), _) => {
                    let (at, value_at) = (key.as_ptr().cast(), value.as_ptr().cast());
                    put(state, at, key.len(), value_at, value.len(), expires_at_ms);
                }
                (Write::Delete { key }, _, Some(delete_key)) => {
                    delete_key(state, key.as_ptr().cast(), key.len());
                }
                _ => {}
            }
        }
        Ok(())
    })
}
