//! The border between C and Rust: pointers become references, errors become messages, and panics become errors. This is
//! the only place where a panic is caught.

use siltstone::Error;
use std::any::Any;
use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A kind of error, and the message.
#[derive(Debug, Clone)]
pub struct Failure {
    code: u32,
    message: String,
}

/// What a function returns, or why it failed.
pub type Outcome<T> = Result<T, Failure>;

impl Failure {
    /// An argument that is not possible.
    pub fn argument(message: impl Into<String>) -> Failure {
        Failure { code: crate::SILTSTONE_ERROR_ARGUMENT, message: message.into() }
    }

    /// An operation that the engine does not have.
    pub fn unsupported(message: impl Into<String>) -> Failure {
        Failure { code: crate::SILTSTONE_ERROR_UNSUPPORTED, message: message.into() }
    }

    fn of_panic(panic: &(dyn Any + Send)) -> Failure {
        let text = panic.downcast_ref::<&str>().copied();
        let text =
            text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
        let message = format!("a panic inside siltstone: {text}; this is a defect, please report it");
        Failure { code: crate::SILTSTONE_ERROR_INTERNAL, message }
    }

    /// Stores the message in `*errptr`, in place of the one that is there. After its final zero, a message has a byte
    /// with the kind of the error.
    ///
    /// # Safety
    /// `errptr` is NULL or points to NULL or to a message of this library.
    unsafe fn report(&self, errptr: *mut *mut c_char) {
        if errptr.is_null() {
            return;
        }
        let mut bytes: Vec<u8> =
            self.message.bytes().map(|byte| if byte == 0 { b'?' } else { byte }).collect();
        bytes.extend([0, self.code as u8]);
        // SAFETY: as the caller guarantees.
        unsafe {
            libc::free((*errptr).cast());
            *errptr = give(&bytes).unwrap_or(std::ptr::null_mut());
        }
    }
}

/// How messages name what is called otherwise in C.
const NAMES: [(&str, &str); 5] = [
    ("create one with `Builder::create(true)`", "create one with the setting `create`"),
    ("create it with `Builder::expiring(true)`", "create it with the setting `expiring`"),
    ("open it without `Builder::read_only`", "open it without the setting `read_only`"),
    ("lower `Builder::open_files_max`", "lower the setting `open_files_max`"),
    ("create one with `siltstone dict build`", "create one with siltstone_dictionary_create"),
];

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let code = match &error {
            Error::KeyLength { .. }
            | Error::ValueLength { .. }
            | Error::RecordSize { .. }
            | Error::HashLength { .. }
            | Error::HashClustered { .. }
            | Error::BatchLength { .. }
            | Error::ExpiryUnsupported
            | Error::NotADirectory { .. }
            | Error::NotADatabase { .. }
            | Error::NotEmpty { .. }
            | Error::NotADictionary { .. }
            | Error::DuplicateKey { .. }
            | Error::Setting { .. } => crate::SILTSTONE_ERROR_ARGUMENT,
            Error::NotFound { .. } | Error::ChangesLost { .. } => crate::SILTSTONE_ERROR_NOT_FOUND,
            Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                crate::SILTSTONE_ERROR_NOT_FOUND
            }
            Error::Io { .. } | Error::Removed { .. } => crate::SILTSTONE_ERROR_IO,
            Error::Corrupt { .. } | Error::NoManifest { .. } => crate::SILTSTONE_ERROR_CORRUPT,
            Error::Locked { .. } => crate::SILTSTONE_ERROR_LOCKED,
            Error::ReadOnly => crate::SILTSTONE_ERROR_READ_ONLY,
            Error::Closed => crate::SILTSTONE_ERROR_CLOSED,
            Error::Poisoned { .. } | Error::Torn { .. } => crate::SILTSTONE_ERROR_POISONED,
            Error::Forked { .. } => crate::SILTSTONE_ERROR_FORKED,
            Error::Unsupported { .. }
            | Error::Version { .. }
            | Error::UnknownEngine { .. }
            | Error::AbsentEngine { .. } => crate::SILTSTONE_ERROR_UNSUPPORTED,
            Error::Interrupted => crate::SILTSTONE_ERROR_INTERRUPTED,
            Error::NoRoom { .. } | Error::NoSpace { .. } | Error::Full(_) => crate::SILTSTONE_ERROR_FULL,
            _ => crate::SILTSTONE_ERROR_INTERNAL,
        };
        let named = |message: String, (rust, c): &(&str, &str)| message.replace(rust, c);
        Failure { code, message: NAMES.iter().fold(error.to_string(), named) }
    }
}

/// What a function returns when it fails.
pub trait Failed {
    /// This value.
    const FAILED: Self;
}

impl Failed for () {
    const FAILED: () = ();
}

impl Failed for bool {
    const FAILED: bool = false;
}

impl Failed for usize {
    const FAILED: usize = 0;
}

impl Failed for u64 {
    const FAILED: u64 = 0;
}

impl<T> Failed for *mut T {
    const FAILED: *mut T = std::ptr::null_mut();
}

impl<T> Failed for *const T {
    const FAILED: *const T = std::ptr::null();
}

/// Runs the body of a function. An error or a panic goes to `*errptr`.
///
/// # Safety
/// `errptr` is NULL or points to NULL or to a message of this library.
pub unsafe fn run<T: Failed>(errptr: *mut *mut c_char, body: impl FnOnce() -> Outcome<T>) -> T {
    let outcome = catch_unwind(AssertUnwindSafe(body));
    match outcome.unwrap_or_else(|panic| Err(Failure::of_panic(&*panic))) {
        Ok(value) => value,
        Err(failure) => {
            // SAFETY: as the caller guarantees.
            unsafe { failure.report(errptr) };
            T::FAILED
        }
    }
}

/// The body of a function of the interface, with its `errptr`, if it has one. `?` returns an error.
macro_rules! body {
    ($errptr:expr, $body:block) => {
        // SAFETY: the caller does what the header says of the arguments: handles are of this library and not freed,
        // pointers have the lengths that are given with them, and `errptr` is as the head of the header says.
        unsafe { $crate::border::run($errptr, || $body) }
    };
    ($body:block) => {
        $crate::border::body!(std::ptr::null_mut(), $body)
    };
}
pub(crate) use body;

/// Returns the handle.
///
/// # Safety
/// It is NULL or a handle of this kind that is not freed.
pub unsafe fn handle<'a, T>(handle: *const T) -> Outcome<&'a T> {
    // SAFETY: as the caller guarantees.
    unsafe { handle.as_ref() }.ok_or_else(|| Failure::argument("the handle is NULL"))
}

/// Returns the handle, to change it.
///
/// # Safety
/// It is NULL, or a handle of this kind that is not freed and that no other thread uses.
pub unsafe fn handle_mut<'a, T>(handle: *mut T) -> Outcome<&'a mut T> {
    // SAFETY: as the caller guarantees.
    unsafe { handle.as_mut() }.ok_or_else(|| Failure::argument("the handle is NULL"))
}

/// Makes a handle that the caller owns.
pub fn own<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

/// Ends a handle and returns what it is of; `None` for NULL.
///
/// # Safety
/// It is NULL or a handle that [`own`] has made and that is not freed.
pub unsafe fn disown<T>(handle: *mut T) -> Option<T> {
    // SAFETY: as the caller guarantees.
    (!handle.is_null()).then(|| *unsafe { Box::from_raw(handle) })
}

/// Returns `count` elements.
///
/// # Safety
/// `pointer` is NULL or points to as many, which no thread changes during the call.
pub unsafe fn slice<'a, T>(pointer: *const T, count: usize) -> Outcome<&'a [T]> {
    check_slice(pointer, count)?;
    // SAFETY: as the caller guarantees; the pointer is not NULL and aligned, and the length is possible.
    Ok(if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(pointer, count) } })
}

/// Returns `count` elements, to set them.
///
/// # Safety
/// `pointer` is NULL or points to as many, which no other thread uses during the call.
pub unsafe fn slice_mut<'a, T>(pointer: *mut T, count: usize) -> Outcome<&'a mut [T]> {
    check_slice(pointer, count)?;
    // SAFETY: as the caller guarantees; the pointer is not NULL and aligned, and the length is possible.
    Ok(if count == 0 { &mut [] } else { unsafe { std::slice::from_raw_parts_mut(pointer, count) } })
}

fn check_slice<T>(pointer: *const T, count: usize) -> Outcome<()> {
    if count > 0 && (pointer.is_null() || !pointer.is_aligned()) {
        return Err(Failure::argument(format!(
            "the pointer is NULL or not aligned, but its length is {count}"
        )));
    }
    let bytes = count.checked_mul(size_of::<T>().max(1)).filter(|bytes| *bytes <= isize::MAX as usize);
    bytes.map(|_| ()).ok_or_else(|| Failure::argument(format!("a length of {count} is not possible")))
}

/// Returns the bytes of a key or a value.
///
/// # Safety
/// As for [`slice`].
pub unsafe fn bytes<'a>(pointer: *const c_void, length: usize) -> Outcome<&'a [u8]> {
    // SAFETY: as the caller guarantees.
    unsafe { slice(pointer.cast(), length) }
}

/// Returns the bytes of a value, or `None` for NULL.
///
/// # Safety
/// As for [`slice`].
pub unsafe fn optional_bytes<'a>(pointer: *const c_void, length: usize) -> Outcome<Option<&'a [u8]>> {
    // SAFETY: as the caller guarantees.
    if pointer.is_null() && length == 0 { Ok(None) } else { unsafe { bytes(pointer, length) }.map(Some) }
}

/// Returns several keys or values.
///
/// # Safety
/// As for [`slice`], for both arrays and for what they point to.
pub unsafe fn many<'a>(
    pointers: *const *const c_void,
    lengths: *const usize,
    count: usize,
) -> Outcome<Vec<&'a [u8]>> {
    // SAFETY: as the caller guarantees.
    let (pointers, lengths) = unsafe { (slice(pointers, count)?, slice(lengths, count)?) };
    // SAFETY: as the caller guarantees.
    pointers.iter().zip(lengths).map(|(pointer, length)| unsafe { bytes(*pointer, *length) }).collect()
}

/// Returns a text.
///
/// # Safety
/// `pointer` is NULL or points to a text with a zero at its end.
pub unsafe fn text<'a>(what: &str, pointer: *const c_char) -> Outcome<&'a str> {
    if pointer.is_null() {
        return Err(Failure::argument(format!("{what} is NULL")));
    }
    // SAFETY: as the caller guarantees.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| Failure::argument(format!("{what} is not in UTF-8")))
}

/// Sets a variable of the caller, unless the pointer is NULL.
///
/// # Safety
/// `to` is NULL or points to a variable that no other thread uses.
pub unsafe fn set<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: as the caller guarantees.
        unsafe { to.write(value) }
    }
}

/// Returns a copy of the bytes in memory that `siltstone_free` frees.
pub fn give(bytes: &[u8]) -> Outcome<*mut c_char> {
    // SAFETY: any length may be asked for.
    let copy = unsafe { libc::malloc(bytes.len().max(1)) }.cast::<u8>();
    if copy.is_null() {
        let message = format!("there is no memory for {} bytes", bytes.len());
        return Err(Failure { code: crate::SILTSTONE_ERROR_FULL, message });
    }
    // SAFETY: both have this length, and the copy is new.
    unsafe { copy.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    Ok(copy.cast())
}

/// Returns a copy of a text, with a zero at its end.
pub fn give_text(text: &str) -> Outcome<*mut c_char> {
    give(&[text.as_bytes(), &[0]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null_mut;

    fn message(error: *mut c_char) -> String {
        // SAFETY: a message of this library.
        unsafe { CStr::from_ptr(error) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_panic_becomes_an_error_and_the_message_before_it_is_freed() {
        let mut error = null_mut();
        // SAFETY: `error` is NULL or a message.
        let failed = unsafe { run(&raw mut error, || -> Outcome<u64> { panic!("at {}", 7) }) };
        assert!(failed == 0 && message(error).contains("at 7"));
        // SAFETY: as before.
        let failed = unsafe { run(&raw mut error, || -> Outcome<bool> { Err(Failure::argument("no\0t")) }) };
        assert_eq!((failed, message(error)), (false, "no?t".to_owned()));
        // SAFETY: a message, which is not used afterwards.
        unsafe {
            assert_eq!(crate::siltstone_error_code(error), crate::SILTSTONE_ERROR_ARGUMENT);
            crate::siltstone_free(error.cast());
        }
    }

    #[test]
    fn a_pointer_that_cannot_be_read_is_refused() {
        // SAFETY: nothing is read.
        unsafe {
            assert!(bytes(std::ptr::null(), 1).is_err() && bytes(std::ptr::null(), 0).unwrap().is_empty());
            assert!(slice::<u64>(std::ptr::without_provenance(1), 1).is_err());
            assert!(slice::<u64>(std::ptr::dangling(), usize::MAX).is_err());
            assert!(handle::<u8>(std::ptr::null()).is_err() && text("path", std::ptr::null()).is_err());
        }
    }

    #[test]
    fn no_message_names_a_rust_builder() {
        let path = std::path::PathBuf::from("x");
        let shortage = std::io::Error::from_raw_os_error(libc::EMFILE);
        for error in [
            Error::NotFound { path: path.clone() },
            Error::ExpiryUnsupported,
            Error::ReadOnly,
            Error::NotADictionary { path: path.clone(), found: "a text".into() },
            Error::Io { operation: "open", file: path.clone(), source: shortage.into() },
        ] {
            let message = Failure::from(error).message;
            assert!(!message.contains("Builder") && !message.contains("siltstone dict"), "{message}");
            assert!(message.contains('`') || message.contains("siltstone_dictionary_create"), "{message}");
        }
    }
}
