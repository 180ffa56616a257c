//! Many keys or records: from any iterable of Python, or from an array.

use crate::buffer::Buffer;
use crate::codec::{Codecs, KeyCodec};
use crate::error::{setting_error, to_python, type_name};
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyTuple};
use siltstone::Error;

/// Returns the pairs of a mapping or of an iterable.
///
/// # Errors
/// `siltstone.SettingError` for a table, whose `items` are its columns.
pub fn pairs_of<'py>(records: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyIterator>> {
    let py = records.py();
    let has = |name: &str| records.hasattr(name);
    if has("columns")? && (has("__arrow_c_stream__")? || has("__dataframe__")?) {
        let name = type_name(records);
        let message = format!(
            "records: {name} is a table, and not pairs; use siltstone.pandas.put_frame for a DataFrame of pandas, \
             and siltstone.arrow.put_table for other tables"
        );
        return Err(setting_error(py, message));
    }
    match records.getattr_opt(intern!(py, "items"))? {
        Some(items) => items.call0()?.try_iter(),
        None => records.try_iter(),
    }
}

/// Returns the key and the value of a pair.
///
/// # Errors
/// `ValueError` for another object.
pub fn pair_of<'py>(pair: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    match pair.cast::<PyTuple>() {
        Ok(pair) if pair.len() == 2 => Ok((pair.get_item(0)?, pair.get_item(1)?)),
        _ => pair.extract().map_err(|_| {
            PyValueError::new_err(format!("expected a pair (key, value), but got {}", type_name(pair)))
        }),
    }
}

/// Keys in one piece of memory, so that a call can read them when the interpreter may free the objects.
#[derive(Default)]
pub struct KeyList {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl KeyList {
    /// Adds a key.
    pub fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the bytes of all keys.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the keys.
    pub fn slices(&self) -> Vec<&[u8]> {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts.zip(&self.ends).filter_map(|(start, end)| self.bytes.get(*start..*end)).collect()
    }
}

/// Keys that are looked up. Those that are impossible are left out of the call of the library.
#[derive(Default)]
pub struct LookupList {
    keys: KeyList,
    possible: Vec<bool>,
}

impl LookupList {
    /// Adds a key.
    ///
    /// # Errors
    /// See [`Codecs::encode_lookup`].
    pub fn push(&mut self, codecs: &Codecs, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let lookup = codecs.encode_lookup(key)?;
        self.possible.push(lookup.is_ok());
        lookup.map_or(Ok(()), |encoded| encoded.bytes().map(|key| self.keys.push(key)))
    }

    /// Returns the number of keys, with those that are impossible.
    pub fn len(&self) -> usize {
        self.possible.len()
    }

    /// Returns the keys that are possible.
    pub fn slices(&self) -> Vec<&[u8]> {
        self.keys.slices()
    }

    /// Calls `take` for each key, in their order, with what was found for it; `None` for an impossible one.
    ///
    /// # Errors
    /// What `take` returns.
    pub fn each<T>(
        &self,
        found: impl IntoIterator<Item = T>,
        mut take: impl FnMut(Option<T>) -> PyResult<()>,
    ) -> PyResult<()> {
        let mut found = found.into_iter();
        self.possible.iter().try_for_each(|possible| take(if *possible { found.next() } else { None }))
    }
}

/// Keys of an array: rows of equal size.
pub struct KeyRows<'py> {
    buffer: Buffer<'py>,
    /// The numbers of the array as keys.
    numbers: Option<Vec<[u8; 8]>>,
}

impl<'py> KeyRows<'py> {
    /// Returns the keys of an array: 8-byte numbers if the codec has numbers, else rows of bytes.
    ///
    /// # Errors
    /// `siltstone.SettingError` for an array that the codec does not fit.
    pub fn new(codecs: &Codecs, array: &Bound<'py, PyAny>) -> PyResult<KeyRows<'py>> {
        let buffer = Buffer::of(array)?;
        let refused = |expected: &str| {
            let (format, width) = (buffer.format(), buffer.row_bytes());
            let keys = codecs.key_name();
            let message = format!(
                "keys: rows of {width} bytes with the format `{format}`, but the keys of this database are `{keys}`; \
                 pass {expected}"
            );
            setting_error(array.py(), message)
        };
        let is_of = |formats: [&str; 2]| buffer.item_bytes() == 8 && formats.contains(&buffer.format());
        let numbers = match codecs.key {
            KeyCodec::Int if is_of(["l", "q"]) => true,
            KeyCodec::Uint if is_of(["L", "Q"]) => true,
            KeyCodec::Int => return Err(refused("an array of int64")),
            KeyCodec::Uint => return Err(refused("an array of uint64")),
            KeyCodec::Str => return Err(refused("a list of str")),
            KeyCodec::Bytes => false,
        };
        let numbers = numbers.then(|| {
            let (natives, _) = buffer.bytes().as_chunks::<8>();
            natives.iter().map(|native| codecs.key.of_native(*native)).collect()
        });
        Ok(KeyRows { buffer, numbers })
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.numbers.as_ref().map_or_else(|| self.buffer.rows(), Vec::len)
    }

    /// Returns the keys of records that are written.
    ///
    /// # Errors
    /// `siltstone.RecordError` for rows without bytes, as for an empty key.
    pub fn written(&self, py: Python<'_>) -> PyResult<Vec<&[u8]>> {
        let slices = self.slices();
        let is_complete = slices.len() == self.len();
        if is_complete { Ok(slices) } else { Err(to_python(py, &Error::KeyLength { length: 0 })) }
    }

    /// Returns the keys that are looked up. Rows without bytes are no keys, and left out: no record has them.
    pub fn slices(&self) -> Vec<&[u8]> {
        match &self.numbers {
            Some(numbers) => numbers.iter().map(<[u8; 8]>::as_slice).collect(),
            None => match self.buffer.row_bytes() {
                0 => Vec::new(),
                width => self.buffer.bytes().chunks_exact(width).collect(),
            },
        }
    }
}
