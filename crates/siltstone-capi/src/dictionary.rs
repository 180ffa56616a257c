//! Dictionaries: read-only files of records that are built once.

use crate::border::{Failure, Outcome, body, bytes, disown, give_text, handle, handle_mut, own, set, text};
use crate::iterate::Iterator;
use crate::options::{Options, Progress, ProgressFn, go_on, index_of_name, options_or_default};
use crate::read::{self, Keys, Source};
use bytes::Bytes;
use siltstone::DictionaryBuilder;
use std::ffi::{c_char, c_void};
use std::ptr::null_mut;

/// A dictionary that is open. All threads may use it at once, and after a fork all processes.
pub struct Dictionary(pub(crate) siltstone::Dictionary);

impl Source for Dictionary {
    fn read(&self, key: &[u8], value: &mut Vec<u8>) -> siltstone::Result<Option<u64>> {
        let found = self.0.get(key)?;
        Ok(found.map(|found| {
            value.extend_from_slice(&found);
            siltstone::batch::NEVER
        }))
    }

    fn read_many(&self, keys: &[&[u8]]) -> siltstone::Result<Vec<Option<Bytes>>> {
        self.0.get_many(keys)
    }
}

impl Keys for Dictionary {
    fn contains_many(&self, keys: &[&[u8]]) -> siltstone::Result<Vec<bool>> {
        self.0.contains_many(keys)
    }
}

/// A dictionary that is being built.
pub struct DictionaryWriter(Option<siltstone::DictionaryWriter>);

impl DictionaryWriter {
    /// Calls the writer. After a failure, also after a panic, there is none.
    fn write(&mut self, call: impl FnOnce(&mut siltstone::DictionaryWriter) -> Outcome<()>) -> Outcome<bool> {
        let failed = || Failure::argument("the dictionary failed before; build it again");
        let mut writer = self.0.take().ok_or_else(failed)?;
        let outcome = call(&mut writer);
        self.0 = Some(writer);
        outcome.map(|()| true)
    }
}

/// Starts to build.
///
/// # Safety
/// As for `siltstone_dictionary_create`.
unsafe fn create(
    builder: DictionaryBuilder,
    path: *const c_char,
    options: *const Options,
) -> Outcome<*mut DictionaryWriter> {
    let default = Options::default();
    // SAFETY: as the caller guarantees.
    let (path, options) = unsafe { (text("the path", path)?, options_or_default(options, &default)) };
    Ok(own(DictionaryWriter(Some(options.dictionary_builder(builder)?.create(path)?))))
}

/// Opens the dictionary in the file `path`. `siltstone_dictionary_close` closes it. `options` may be NULL, or have the
/// settings "without_index" ("true" leaves the index on flash), "access" and "queue_depth".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_dictionary_open(
    path: *const c_char,
    options: *const Options,
    errptr: *mut *mut c_char,
) -> *mut Dictionary {
    body!(errptr, {
        let default = Options::default();
        let options = options_or_default(options, &default).dictionary_options()?;
        Ok(own(Dictionary(options.open(text("the path", path)?)?)))
    })
}

/// Closes a dictionary and frees its handle. No other thread may use it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_dictionary_close(dictionary: *mut Dictionary) {
    body!({
        drop(disown(dictionary));
        Ok(())
    })
}

/// Starts to build a dictionary. The file `path` appears, or is replaced, when `siltstone_dictionary_writer_finish`
/// returns. `options` may be NULL, or have the settings "fixed", "hashed_keys" and "block_bytes" as databases, "index"
/// ("fences", "sparse_trie", "dense_trie" or "none"), "memory_bytes" for sorting, such as "64MiB",
/// "temporary_directory" and "refuse_duplicates".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_dictionary_create(
    path: *const c_char,
    options: *const Options,
    errptr: *mut *mut c_char,
) -> *mut DictionaryWriter {
    body!(errptr, { create(siltstone::Dictionary::builder(), path, options) })
}

/// Like `siltstone_dictionary_create`, for a new file with the records of a dictionary and the changes of the writer.
/// The dictionary stays as it is and may be closed, also if the new file has its path.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_dictionary_update(
    dictionary: *const Dictionary,
    path: *const c_char,
    options: *const Options,
    errptr: *mut *mut c_char,
) -> *mut DictionaryWriter {
    body!(errptr, { create(handle(dictionary)?.0.update(), path, options) })
}

/// Adds a record. Records may come in any order; the last one of a key wins.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_dictionary_writer_put(
    writer: *mut DictionaryWriter,
    key: *const c_void,
    key_length: usize,
    value: *const c_void,
    value_length: usize,
    errptr: *mut *mut c_char,
) -> bool {
    body!(errptr, {
        let (key, value) = (bytes(key, key_length)?, bytes(value, value_length)?);
        handle_mut(writer)?.write(|writer| Ok(writer.put(key, value)?))
    })
}

/// Removes a key of the dictionary that is updated, or one that was put before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_dictionary_writer_delete(
    writer: *mut DictionaryWriter,
    key: *const c_void,
    key_length: usize,
    errptr: *mut *mut c_char,
) -> bool {
    body!(errptr, {
        let key = bytes(key, key_length)?;
        handle_mut(writer)?.write(|writer| Ok(writer.delete(key)?))
    })
}

/// Writes the dictionary, frees the writer, also on an error, and returns the dictionary, open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_dictionary_writer_finish(
    writer: *mut DictionaryWriter,
    errptr: *mut *mut c_char,
) -> *mut Dictionary {
    body!(errptr, {
        let writer = disown(writer).and_then(|writer| writer.0);
        let writer = writer.ok_or_else(|| Failure::argument("the writer is NULL or failed before"))?;
        Ok(own(Dictionary(writer.finish()?)))
    })
}

/// Frees a writer without finishing. No file remains.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_dictionary_writer_destroy(writer: *mut DictionaryWriter) {
    body!({
        drop(disown(writer));
        Ok(())
    })
}

/// Gives the dictionary in the file `path` another index: "fences", "sparse_trie", "dense_trie" or "none". Handles that
/// are open keep the index that they have.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_dictionary_reindex(
    path: *const c_char,
    index: *const c_char,
    errptr: *mut *mut c_char,
) -> bool {
    body!(errptr, {
        let index = index_of_name(text("the index", index)?)?;
        siltstone::Dictionary::reindex(text("the path", path)?, index, &mut |_, _| true)?;
        Ok(true)
    })
}

/// Returns the number of records.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_dictionary_length(
    dictionary: *const Dictionary,
    errptr: *mut *mut c_char,
) -> u64 {
    body!(errptr, { Ok(handle(dictionary)?.0.len()) })
}

/// Returns the memory of the index, in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_dictionary_index_bytes(
    dictionary: *const Dictionary,
    errptr: *mut *mut c_char,
) -> usize {
    body!(errptr, { Ok(handle(dictionary)?.0.info().index_bytes) })
}

/// Like `siltstone_get`, of a dictionary. A key of another length than the fixed one is absent.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_dictionary_get(
    dictionary: *const Dictionary,
    key: *const c_void,
    key_length: usize,
    value_length: *mut usize,
    errptr: *mut *mut c_char,
) -> *mut c_char {
    body!(errptr, { read::get(handle(dictionary)?, (key, key_length), value_length, null_mut()) })
}

/// Like `siltstone_get_into`, of a dictionary.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_dictionary_get_into(
    dictionary: *const Dictionary,
    key: *const c_void,
    key_length: usize,
    buffer: *mut c_void,
    capacity: usize,
    value_length: *mut usize,
    errptr: *mut *mut c_char,
) -> bool {
    body!(errptr, {
        read::get_into(handle(dictionary)?, (key, key_length), (buffer, capacity), value_length)
    })
}

/// Like `siltstone_get_many`, of a dictionary.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_dictionary_get_many(
    dictionary: *const Dictionary,
    keys: *const *const c_void,
    key_lengths: *const usize,
    count: usize,
    values: *mut *mut c_char,
    value_lengths: *mut usize,
    errptr: *mut *mut c_char,
) -> bool {
    body!(errptr, { read::get_many(handle(dictionary)?, (keys, key_lengths, count), values, value_lengths) })
}

/// Like `siltstone_contains_many`, of a dictionary.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_dictionary_contains_many(
    dictionary: *const Dictionary,
    keys: *const *const c_void,
    key_lengths: *const usize,
    count: usize,
    found: *mut bool,
    errptr: *mut *mut c_char,
) -> bool {
    body!(errptr, { read::contains_many(handle(dictionary)?, (keys, key_lengths, count), found) })
}

/// Like `siltstone_get_rows`, of a dictionary.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_dictionary_get_rows(
    dictionary: *const Dictionary,
    keys: *const c_void,
    key_length: usize,
    count: usize,
    values: *mut c_void,
    value_length: usize,
    found: *mut bool,
    errptr: *mut *mut c_char,
) -> bool {
    body!(errptr, {
        let keys = (keys, key_length, count);
        read::get_rows(handle(dictionary)?, keys, (values, value_length), found)
    })
}

/// Returns an iterator over all records, in the order of their hashes. It may outlive the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_dictionary_iterate(
    dictionary: *const Dictionary,
    errptr: *mut *mut c_char,
) -> *mut Iterator {
    body!(errptr, { Ok(Iterator::own(handle(dictionary)?.0.iter(), None)) })
}

/// Reads the complete file and looks for damage, like `siltstone_verify`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_dictionary_verify(
    dictionary: *const Dictionary,
    progress: ProgressFn,
    state: *mut c_void,
    intact: *mut bool,
    errptr: *mut *mut c_char,
) -> *mut c_char {
    body!(errptr, {
        let report = handle(dictionary)?.0.verify_with(&mut go_on(Progress::new(progress, state)))?;
        set(intact, report.damage.is_empty());
        give_text(&report.to_json())
    })
}
