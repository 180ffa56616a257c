//! LevelDB, through the C interface of the system's library. It maps its files to memory, and leaves read-ahead to the
//! system.

use super::{Kind, Opening, Peer, idle};
use anyhow::{Result, anyhow, bail};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::ptr::null_mut;
use std::time::Instant;

const BLOOM_BITS: c_int = 10;

/// With a Bloom filter, and otherwise its defaults.
pub const LEVELDB: Kind = Kind {
    name: "leveldb",
    title: "LevelDB",
    has_direct: false,
    open,
    options: |opening| {
        format!(
            "1.23: compression off, cache {} B, Bloom filter of {BLOOM_BITS} bits per key",
            opening.cache_bytes
        )
    },
};

type Pointer = *mut c_void;

mod c {
    use super::{Pointer, c_char, c_int};
    unsafe extern "C" {
        pub fn leveldb_options_create() -> Pointer;
        pub fn leveldb_options_set_create_if_missing(options: Pointer, create: u8);
        pub fn leveldb_options_set_compression(options: Pointer, kind: c_int);
        pub fn leveldb_options_set_cache(options: Pointer, cache: Pointer);
        pub fn leveldb_options_set_filter_policy(options: Pointer, policy: Pointer);
        pub fn leveldb_options_destroy(options: Pointer);
        pub fn leveldb_cache_create_lru(bytes: usize) -> Pointer;
        pub fn leveldb_cache_destroy(cache: Pointer);
        pub fn leveldb_filterpolicy_create_bloom(bits: c_int) -> Pointer;
        pub fn leveldb_filterpolicy_destroy(policy: Pointer);
        pub fn leveldb_readoptions_create() -> Pointer;
        pub fn leveldb_readoptions_destroy(options: Pointer);
        pub fn leveldb_writeoptions_create() -> Pointer;
        pub fn leveldb_writeoptions_destroy(options: Pointer);
        pub fn leveldb_open(options: Pointer, name: *const c_char, error: *mut *mut c_char) -> Pointer;
        pub fn leveldb_close(database: Pointer);
        pub fn leveldb_get(
            database: Pointer,
            options: Pointer,
            key: *const u8,
            key_length: usize,
            value_length: *mut usize,
            error: *mut *mut c_char,
        ) -> *mut u8;
        pub fn leveldb_put(
            database: Pointer,
            options: Pointer,
            key: *const u8,
            key_length: usize,
            value: *const u8,
            value_length: usize,
            error: *mut *mut c_char,
        );
        pub fn leveldb_create_iterator(database: Pointer, options: Pointer) -> Pointer;
        pub fn leveldb_iter_seek(iterator: Pointer, key: *const u8, length: usize);
        pub fn leveldb_iter_valid(iterator: Pointer) -> u8;
        pub fn leveldb_iter_next(iterator: Pointer);
        pub fn leveldb_iter_key(iterator: Pointer, length: *mut usize) -> *const u8;
        pub fn leveldb_iter_value(iterator: Pointer, length: *mut usize) -> *const u8;
        pub fn leveldb_iter_get_error(iterator: Pointer, error: *mut *mut c_char);
        pub fn leveldb_iter_destroy(iterator: Pointer);
        pub fn leveldb_property_value(database: Pointer, name: *const c_char) -> *mut c_char;
        pub fn leveldb_free(pointer: Pointer);
    }
}

struct LevelDb {
    database: Pointer,
    options: Pointer,
    cache: Pointer,
    filter: Pointer,
    read: Pointer,
    write: Pointer,
}

// SAFETY: any thread may use LevelDB's database (leveldb/db.h), and the options are only read.
unsafe impl Send for LevelDb {}
// SAFETY: as above.
unsafe impl Sync for LevelDb {}

fn open(opening: &Opening) -> Result<Box<dyn Peer>> {
    let name = CString::new(opening.directory.as_os_str().as_bytes())?;
    let mut error = null_mut();
    // SAFETY: every pointer is made here and lives until `drop`, which frees them in the opposite order.
    let peer = unsafe {
        let options = c::leveldb_options_create();
        let cache = c::leveldb_cache_create_lru(opening.cache_bytes as usize);
        let filter = c::leveldb_filterpolicy_create_bloom(BLOOM_BITS);
        c::leveldb_options_set_create_if_missing(options, 1);
        c::leveldb_options_set_compression(options, 0);
        c::leveldb_options_set_cache(options, cache);
        c::leveldb_options_set_filter_policy(options, filter);
        let (read, write) = (c::leveldb_readoptions_create(), c::leveldb_writeoptions_create());
        let database = c::leveldb_open(options, name.as_ptr(), &mut error);
        LevelDb { database, options, cache, filter, read, write }
    };
    check(error)?;
    Ok(Box::new(peer))
}

fn check(error: *mut c_char) -> Result<()> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: LevelDB returns a zero-terminated string, which the caller has to free.
    let text = unsafe {
        let text = CStr::from_ptr(error).to_string_lossy().into_owned();
        c::leveldb_free(error.cast());
        text
    };
    bail!("LevelDB: {text}")
}

impl Peer for LevelDb {
    fn get(&self, key: &[u8], show: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let (mut length, mut error) = (0, null_mut());
        // SAFETY: the pointers live as long as `self` and the key; the value belongs to this function until it is freed
        // below.
        let value = unsafe {
            c::leveldb_get(self.database, self.read, key.as_ptr(), key.len(), &mut length, &mut error)
        };
        check(error)?;
        if value.is_null() {
            return Ok(false);
        }
        // SAFETY: LevelDB has returned `length` bytes at `value`, which it allocated for the caller.
        unsafe {
            show(std::slice::from_raw_parts(value, length));
            c::leveldb_free(value.cast());
        }
        Ok(true)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut error = null_mut();
        let (key_length, value_length) = (key.len(), value.len());
        // SAFETY: the pointers live as long as `self`, the key and the value; LevelDB copies what it keeps.
        unsafe {
            let (key, value) = (key.as_ptr(), value.as_ptr());
            c::leveldb_put(self.database, self.write, key, key_length, value, value_length, &mut error);
        }
        check(error)
    }

    fn scan(&self, first: &[u8], limit: usize, show: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let mut error = null_mut();
        // SAFETY: the iterator is made here and destroyed once, while the database lives; a key and a value are valid
        // until the iterator moves.
        unsafe {
            let iterator = c::leveldb_create_iterator(self.database, self.read);
            c::leveldb_iter_seek(iterator, first.as_ptr(), first.len());
            for _ in 0..limit {
                if c::leveldb_iter_valid(iterator) == 0 {
                    break;
                }
                let (mut key_length, mut value_length) = (0, 0);
                let key = c::leveldb_iter_key(iterator, &mut key_length);
                let value = c::leveldb_iter_value(iterator, &mut value_length);
                show(
                    std::slice::from_raw_parts(key, key_length),
                    std::slice::from_raw_parts(value, value_length),
                );
                c::leveldb_iter_next(iterator);
            }
            c::leveldb_iter_get_error(iterator, &mut error);
            c::leveldb_iter_destroy(iterator);
        }
        check(error)
    }

    fn settle(&self) -> Result<Instant> {
        idle::wait()
    }

    fn memory_bytes(&self) -> Result<Option<u64>> {
        // SAFETY: the database lives as long as `self`; the result is null or a string that the caller has to free.
        let reported = unsafe {
            let reported =
                c::leveldb_property_value(self.database, c"leveldb.approximate-memory-usage".as_ptr());
            if reported.is_null() {
                return Ok(None);
            }
            let text = CStr::from_ptr(reported).to_string_lossy().into_owned();
            c::leveldb_free(reported.cast());
            text
        };
        reported.parse().map(Some).map_err(|_| anyhow!("LevelDB uses {reported} bytes"))
    }
}

impl Drop for LevelDb {
    fn drop(&mut self) {
        // SAFETY: each pointer was made by `open`, and is destroyed once, after everything that uses it.
        unsafe {
            if !self.database.is_null() {
                c::leveldb_close(self.database);
            }
            c::leveldb_options_destroy(self.options);
            c::leveldb_readoptions_destroy(self.read);
            c::leveldb_writeoptions_destroy(self.write);
            c::leveldb_cache_destroy(self.cache);
            c::leveldb_filterpolicy_destroy(self.filter);
        }
    }
}
