//! BerkeleyDB's hash, through the system's library and a small binding in C.

use super::{Kind, Opening, Peer};
use anyhow::{Result, bail};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::os::unix::ffi::OsStrExt;
use std::ptr::null_mut;
use std::time::Instant;

/// Without transactions and log, as in the SILT paper: the content of its cache is lost with the process.
pub const BERKELEYDB: Kind = Kind {
    name: "berkeleydb",
    title: "BerkeleyDB, hash",
    has_direct: false,
    open,
    options: |opening| {
        format!(
            "5.3: hash in pages of 4 KiB made for the number of records, cache {} B, concurrent data store without a \
             log (writes may be lost with the process)",
            opening.cache_bytes
        )
    },
};

mod c {
    use super::{c_char, c_int, c_uint, c_ulonglong, c_void};
    unsafe extern "C" {
        pub fn bench_db_open(
            directory: *const c_char,
            cache_bytes: c_ulonglong,
            records: c_uint,
            record_bytes: c_uint,
            opened: *mut *mut c_void,
        ) -> c_int;
        pub fn bench_db_close(db: *mut c_void);
        pub fn bench_db_get(
            db: *mut c_void,
            key: *const u8,
            key_length: c_uint,
            value: *mut u8,
            length: *mut c_uint,
        ) -> c_int;
        pub fn bench_db_put(
            db: *mut c_void,
            key: *const u8,
            key_length: c_uint,
            value: *const u8,
            length: c_uint,
        ) -> c_int;
        pub fn bench_db_sync(db: *mut c_void) -> c_int;
        pub fn bench_db_not_found() -> c_int;
        pub fn bench_db_message(error: c_int) -> *const c_char;
    }
}

struct BerkeleyDb {
    db: *mut c_void,
    value_size: usize,
}

// SAFETY: environment and database are opened with DB_THREAD: any thread may use the handles.
unsafe impl Send for BerkeleyDb {}
// SAFETY: as above.
unsafe impl Sync for BerkeleyDb {}

fn open(opening: &Opening) -> Result<Box<dyn Peer>> {
    std::fs::create_dir_all(&opening.directory)?;
    let directory = CString::new(opening.directory.as_os_str().as_bytes())?;
    let record_bytes = (opening.key_size + opening.value_size) as c_uint;
    let (cache, records) = (opening.cache_bytes, u32::try_from(opening.keys)?);
    let mut db = null_mut();
    // SAFETY: the directory's name lives during the call; `drop` closes the handle once.
    check(unsafe { c::bench_db_open(directory.as_ptr(), cache, records, record_bytes, &mut db) })?;
    Ok(Box::new(BerkeleyDb { db, value_size: opening.value_size }))
}

fn check(error: c_int) -> Result<()> {
    if error == 0 {
        return Ok(());
    }
    // SAFETY: the message is a constant of the library, or a buffer of this thread that is valid until its next call.
    let message = unsafe { CStr::from_ptr(c::bench_db_message(error)) };
    bail!("BerkeleyDB: {}", message.to_string_lossy())
}

thread_local! {
    static VALUE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Peer for BerkeleyDb {
    fn get(&self, key: &[u8], show: &mut dyn FnMut(&[u8])) -> Result<bool> {
        VALUE.with_borrow_mut(|value| {
            value.resize(self.value_size, 0);
            let mut length = self.value_size as c_uint;
            // SAFETY: the key has the stated length, and the value has space for `length` bytes.
            let error = unsafe {
                c::bench_db_get(self.db, key.as_ptr(), key.len() as c_uint, value.as_mut_ptr(), &mut length)
            };
            // SAFETY: the function returns a constant.
            if error == unsafe { c::bench_db_not_found() } {
                return Ok(false);
            }
            check(error)?;
            show(&value[..length as usize]);
            Ok(true)
        })
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let (key_length, length) = (key.len() as c_uint, value.len() as c_uint);
        // SAFETY: key and value have the stated lengths; BerkeleyDB copies them.
        check(unsafe { c::bench_db_put(self.db, key.as_ptr(), key_length, value.as_ptr(), length) })
    }

    fn settle(&self) -> Result<Instant> {
        // SAFETY: the handle is open.
        check(unsafe { c::bench_db_sync(self.db) })?;
        Ok(Instant::now())
    }
}

impl Drop for BerkeleyDb {
    fn drop(&mut self) {
        // SAFETY: the handle is closed only here.
        unsafe { c::bench_db_close(self.db) }
    }
}
