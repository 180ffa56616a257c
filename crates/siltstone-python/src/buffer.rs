//! Python's buffer protocol: the memory of `bytearray`, `memoryview`, `array` and arrays of NumPy, without a copy.
//!
//! The stable interface of CPython has the protocol from 3.11 on only, but its functions and the layout of `Py_buffer`
//! are the same in 3.10, so this file declares them. It is the only one of the crate with `unsafe`.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::slice;

/// `Py_buffer` of CPython.
#[repr(C)]
struct RawView {
    memory: *mut c_void,
    owner: *mut pyo3::ffi::PyObject,
    length: isize,
    item_bytes: isize,
    read_only: c_int,
    dimensions: c_int,
    format: *mut c_char,
    shape: *mut isize,
    strides: *mut isize,
    suboffsets: *mut isize,
    internal: *mut c_void,
}

const WRITABLE: c_int = 0x1;
const FORMAT: c_int = 0x4;
const C_CONTIGUOUS: c_int = 0x20 | 0x10 | 0x8;

unsafe extern "C" {
    fn PyObject_GetBuffer(object: *mut pyo3::ffi::PyObject, view: *mut RawView, flags: c_int) -> c_int;
    fn PyBuffer_Release(view: *mut RawView);
}

/// The memory of an object, contiguous, in C order. While it exists the object can neither be resized nor freed.
///
/// Like the functions of `hashlib`, a call reads this memory after it has detached from the interpreter. Threads that
/// change the memory during the call change what is read.
pub struct Buffer<'py> {
    view: Box<RawView>,
    /// A view is released by a thread that is attached.
    _attached: Python<'py>,
}

impl<'py> Buffer<'py> {
    /// Returns the memory of an object for reading.
    ///
    /// # Errors
    /// `TypeError` if the object has no buffer, `BufferError` or `ValueError` if its memory is not contiguous.
    pub fn of(object: &Bound<'py, PyAny>) -> PyResult<Buffer<'py>> {
        Buffer::with(object, C_CONTIGUOUS | FORMAT)
    }

    /// Returns the memory of an object for writing.
    ///
    /// # Errors
    /// See [`of`](Buffer::of); also if the object is read-only.
    pub fn writable(object: &Bound<'py, PyAny>) -> PyResult<Buffer<'py>> {
        Buffer::with(object, C_CONTIGUOUS | FORMAT | WRITABLE)
    }

    fn with(object: &Bound<'py, PyAny>, flags: c_int) -> PyResult<Buffer<'py>> {
        let null = std::ptr::null_mut();
        let mut view = Box::new(RawView {
            memory: null,
            owner: std::ptr::null_mut(),
            length: 0,
            item_bytes: 0,
            read_only: 0,
            dimensions: 0,
            format: std::ptr::null_mut(),
            shape: std::ptr::null_mut(),
            strides: std::ptr::null_mut(),
            suboffsets: std::ptr::null_mut(),
            internal: null,
        });
        // SAFETY: the thread is attached, as `Bound` shows; `object` is alive; `view` is a `Py_buffer` on the heap,
        // which does not move until it is released.
        let status = unsafe { PyObject_GetBuffer(object.as_ptr(), &raw mut *view, flags) };
        if status != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        let buffer = Buffer { view, _attached: object.py() };
        match foreign_items(buffer.format()) {
            None => Ok(buffer),
            Some(items) => Err(PyTypeError::new_err(format!("the buffer has {items}, and not their bytes"))),
        }
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        let length = usize::try_from(self.view.length).unwrap_or(0);
        if length == 0 {
            return &[];
        }
        // SAFETY: the view was filled by `PyObject_GetBuffer` for contiguous memory, so `length` bytes begin at
        // `memory`. They stay allocated until the view is released, when `self` is dropped.
        unsafe { slice::from_raw_parts(self.view.memory.cast::<u8>(), length) }
    }

    /// Returns the bytes for writing.
    ///
    /// # Errors
    /// `ValueError` if the buffer was not asked for writing.
    pub fn bytes_mut(&mut self) -> PyResult<&mut [u8]> {
        if self.view.read_only != 0 {
            return Err(PyValueError::new_err("the buffer is read-only"));
        }
        let length = usize::try_from(self.view.length).unwrap_or(0);
        if length == 0 {
            return Ok(&mut []);
        }
        // SAFETY: as in `bytes`; the exporter granted writing, and `self` is borrowed exclusively.
        Ok(unsafe { slice::from_raw_parts_mut(self.view.memory.cast::<u8>(), length) })
    }

    /// Returns the type of the items, in the notation of the module `struct`; `B` for bytes.
    pub fn format(&self) -> &str {
        if self.view.format.is_null() {
            return "B";
        }
        // SAFETY: a format that is not null is a string of C, which lives as long as the view.
        unsafe { CStr::from_ptr(self.view.format) }.to_str().unwrap_or("?")
    }

    /// Returns the size of an item, in bytes.
    pub fn item_bytes(&self) -> usize {
        usize::try_from(self.view.item_bytes).unwrap_or(0)
    }

    /// Returns the number of items along the first dimension; 1 for a scalar.
    pub fn rows(&self) -> usize {
        if self.view.dimensions <= 0 || self.view.shape.is_null() {
            return 1;
        }
        // SAFETY: `shape` has `dimensions` numbers, and there is at least one.
        usize::try_from(unsafe { *self.view.shape }).unwrap_or(0)
    }

    /// Returns the bytes of a row along the first dimension; 0 if there are no rows.
    pub fn row_bytes(&self) -> usize {
        self.bytes().len().checked_div(self.rows()).unwrap_or(0)
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        // SAFETY: the view was filled by `PyObject_GetBuffer`, is released once, and the thread is attached, as the
        // lifetime of `_attached` shows.
        unsafe { PyBuffer_Release(&raw mut *self.view) }
    }
}

/// Returns what a format has if its items are not bytes that mean the same in another process: addresses of objects or
/// of memory, or text of four bytes per character. Names of fields, between colons, are skipped.
fn foreign_items(format: &str) -> Option<&'static str> {
    let items: String = format.split(':').step_by(2).collect();
    let next = items.chars().skip(1).map(Some).chain([None]);
    items.chars().zip(next).find_map(|item| match item {
        ('O', _) => Some("references to objects"),
        ('w' | 'u', _) => Some("characters"),
        ('Z', Some('f' | 'd' | 'g')) => None, // complex numbers
        ('P' | 'z' | 'Z' | '&' | 'X', _) => Some("addresses"),
        _ => None,
    })
}

/// Returns the memory of an object that is a key or a value.
///
/// # Errors
/// `TypeError` with what is accepted, also for an item of NumPy's type `S`, which is padded with zeros.
pub fn of_record<'py>(object: &Bound<'py, PyAny>, what: &str, remedy: &str) -> PyResult<Buffer<'py>> {
    let buffer = Buffer::of(object).and_then(|buffer| match buffer.format().strip_suffix('s') {
        Some(length) if length.bytes().all(|digit| digit.is_ascii_digit()) => Err(PyTypeError::new_err("")),
        _ => Ok(buffer),
    });
    buffer.map_err(|error| {
        let kind = object.get_type();
        let name = kind.name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
        let py = object.py();
        if error.is_instance_of::<PyTypeError>(py) {
            PyTypeError::new_err(format!("{what} must be bytes or a buffer, not {name}; {remedy}"))
        } else {
            PyValueError::new_err(format!("{what} of type {name}: {error}; make a contiguous copy of it"))
        }
    })
}
