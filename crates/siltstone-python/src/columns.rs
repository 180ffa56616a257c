//! Records as two columns of bytes, as Arrow has them: no object per key or value.
//!
//! ```text
//! records    ("a", "red")  ("bc", "")  ("d", "blue")
//! bytes      a b c d                   r e d b l u e
//! ends     0 1     3 4               0     3 3       7
//! ```
//!
//! A column of values of one size, or of numbers, has no ends.

use crate::codec::{Codecs, KeyCodec};
use crate::error::setting_error;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use siltstone::Record;

/// The bytes of both columns when they are full. With a key and a value more they have less than 2 GiB, as ends need.
const FULL_BYTES: usize = 64 << 20;

/// The bytes of a column, and where each item ends, as native numbers.
type PyColumn<'py> = (Bound<'py, PyBytes>, Option<Bound<'py, PyBytes>>);

/// The number of records, their keys and their values.
pub type PyColumns<'py> = (usize, PyColumn<'py>, PyColumn<'py>);

/// Items of any length, one after the other.
struct Column {
    bytes: Vec<u8>,
    ends: Vec<u8>,
}

impl Column {
    fn new() -> Column {
        Column { bytes: Vec::new(), ends: 0_i32.to_ne_bytes().to_vec() }
    }

    fn push(&mut self, item: &[u8]) {
        self.bytes.extend_from_slice(item);
        // Below 2 GiB, since no item is added to full columns: a value has 256 MiB at most.
        let end = i32::try_from(self.bytes.len()).unwrap_or(i32::MAX);
        self.ends.extend_from_slice(&end.to_ne_bytes());
    }
}

/// What the values of a column have to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// Any bytes.
    Any,
    /// Bytes of one length.
    Of(usize),
    /// UTF-8.
    Text,
}

/// Two columns that grow by a record at a time.
pub struct Columns {
    keys: Column,
    values: Column,
    expected: Values,
}

/// A record that does not belong into the columns.
pub enum Refused {
    /// The key is not one of the codec.
    Key,
    /// The value is not one of the codec.
    Value,
}

impl Columns {
    /// Makes empty columns with memory for a number of records, if their values have one length.
    pub fn new(expected: Values, records: usize) -> Columns {
        let mut columns = Columns { keys: Column::new(), values: Column::new(), expected };
        if let Values::Of(length) = expected {
            columns.values.bytes.reserve_exact(records.saturating_mul(length).min(FULL_BYTES));
        }
        columns
    }

    /// Returns whether they take no more records.
    pub fn is_full(&self) -> bool {
        self.keys.bytes.len() + self.values.bytes.len() >= FULL_BYTES
    }

    /// Adds a record.
    ///
    /// # Errors
    /// Why it does not belong here. Nothing is added then.
    pub fn push(&mut self, codecs: &Codecs, record: &Record) -> Result<(), Refused> {
        let (key, value) = (&record.key, &record.value);
        let is_value = match self.expected {
            Values::Any => true,
            Values::Of(length) => value.len() == length,
            Values::Text => std::str::from_utf8(value).is_ok(),
        };
        if !is_value {
            return Err(Refused::Value);
        }
        let number;
        let key = match codecs.key {
            KeyCodec::Bytes => key,
            KeyCodec::Str => std::str::from_utf8(key).map_err(|_| Refused::Key)?.as_bytes(),
            KeyCodec::Int | KeyCodec::Uint => {
                number = codecs.key.to_native(key[..].try_into().map_err(|_| Refused::Key)?);
                &number[..]
            }
        };
        self.keys.push(key);
        self.values.push(value);
        Ok(())
    }

    /// Returns the columns as objects of Python.
    pub fn into_python<'py>(self, py: Python<'py>, codecs: &Codecs, count: usize) -> PyColumns<'py> {
        let column = |column: Column, has_ends: bool| {
            let ends = has_ends.then(|| PyBytes::new(py, &column.ends));
            (PyBytes::new(py, &column.bytes), ends)
        };
        let has_ends = !matches!(self.expected, Values::Of(_));
        (count, column(self.keys, !codecs.key.is_number()), column(self.values, has_ends))
    }
}

/// Returns the error of a record that was refused, which is that of decoding it.
pub fn refusal(py: Python<'_>, codecs: &Codecs, record: &Record, refused: &Refused) -> PyErr {
    let decoded = match refused {
        Refused::Key => codecs.decode_key(py, &record.key),
        Refused::Value => codecs.decode_value(py, &record.key, &record.value),
    };
    let message = || "a record is not one of the codecs of this database".to_owned();
    decoded.err().unwrap_or_else(|| setting_error(py, message()))
}
