//! The C interface: `include/siltstone.h` is made of the functions here, with their documentation.
//!
//! A function converts its arguments, calls the Rust interface and converts the result. What all have in common is in
//! `border.rs`. `docs/C.md` is the page for users.

#![expect(clippy::missing_safety_doc, reason = "the head of siltstone.h says what a caller has to do")]

mod border;
mod database;
mod dictionary;
mod iterate;
mod memory;
mod options;
mod read;
mod update;
mod write;

pub use database::*;
pub use dictionary::*;
pub use iterate::*;
pub use options::*;
pub use read::*;
pub use update::*;
pub use write::*;

use border::body;
use std::ffi::{c_char, c_void};

/// The version of the interface, and the number in the name of the shared library. It changes when a program has to be
/// compiled again.
pub const SILTSTONE_ABI_VERSION: u32 = 0;

/// No error: the code of NULL.
pub const SILTSTONE_OK: u32 = 0;
/// An argument, a setting, a key or a value is not possible.
pub const SILTSTONE_ERROR_ARGUMENT: u32 = 1;
/// There is no such database or file, or its change feed does not have the position.
pub const SILTSTONE_ERROR_NOT_FOUND: u32 = 2;
/// Another process, or another handle of this one, has the database open.
pub const SILTSTONE_ERROR_LOCKED: u32 = 3;
/// The operating system refused an operation.
pub const SILTSTONE_ERROR_IO: u32 = 4;
/// A file is damaged.
pub const SILTSTONE_ERROR_CORRUPT: u32 = 5;
/// The database was opened read-only.
pub const SILTSTONE_ERROR_READ_ONLY: u32 = 6;
/// The database is closed.
pub const SILTSTONE_ERROR_CLOSED: u32 = 7;
/// An earlier write failed, and the database accepts no more of them until it is opened again.
pub const SILTSTONE_ERROR_POISONED: u32 = 8;
/// The process was forked from the one that opened the database.
pub const SILTSTONE_ERROR_FORKED: u32 = 9;
/// The engine, or this version, does not support the operation.
pub const SILTSTONE_ERROR_UNSUPPORTED: u32 = 10;
/// A callback stopped the operation.
pub const SILTSTONE_ERROR_INTERRUPTED: u32 = 11;
/// There is no space left: in a store in memory, within the capacity of a database, in the file system besides its
/// reserve, or for a value that is returned.
pub const SILTSTONE_ERROR_FULL: u32 = 12;
/// A defect of the library.
pub const SILTSTONE_ERROR_INTERNAL: u32 = 13;

/// Returns `SILTSTONE_ABI_VERSION` of the library that the program runs with.
#[unsafe(no_mangle)]
pub extern "C" fn siltstone_abi_version() -> u32 {
    SILTSTONE_ABI_VERSION
}

/// Returns the version of the library, such as "0.1.0". The text is constant.
#[unsafe(no_mangle)]
pub extern "C" fn siltstone_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Frees a value, a text or a message of this library. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_free(pointer: *mut c_void) {
    // SAFETY: what the library gives is from malloc, and the caller frees it once.
    unsafe { libc::free(pointer) }
}

/// Returns the kind of an error: one of `SILTSTONE_ERROR_...`, and `SILTSTONE_OK` for NULL. `error` has to be a message
/// of this library, not a copy of one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_error_code(error: *const c_char) -> u32 {
    if error.is_null() {
        return SILTSTONE_OK;
    }
    // SAFETY: a message has its code behind the zero that ends it.
    unsafe { u32::from(*error.add(libc::strlen(error) + 1).cast::<u8>()) }
}

/// Returns the time in this many milliseconds, for records that expire then.
#[unsafe(no_mangle)]
pub extern "C" fn siltstone_expires_in_ms(milliseconds: u64) -> u64 {
    body!({
        let time = std::time::Duration::from_millis(milliseconds);
        Ok(siltstone::WriteOptions::default().expires_in(time).expires_at_ms)
    })
}
