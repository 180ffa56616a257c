//! Operations that read and write a key in one atomic step.

use super::Database;
use crate::codec::ValueCodec;
use crate::error::{IntoPython, missing_key, to_python, unsupported};
use crate::settings::{expires_at_ms, write_options};
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use siltstone::{Bytes, Change, Error};

/// Why an increment failed.
enum Failure {
    Store(Error),
    Missing,
    NoNumber(String),
    Overflow,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Store(error)
    }
}

impl Database {
    /// Removes a key and returns the bytes of its value.
    pub(super) fn remove(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<Bytes>> {
        let py = key.py();
        let handle = self.handle(py)?;
        let encoded = self.codecs.encode_key(key)?;
        let key = encoded.bytes()?;
        py.detach(|| handle.remove(key)).into_python(py)
    }
}

#[pymethods]
impl Database {
    /// Puts a record if the key is absent, and returns whether it did. Atomic.
    #[pyo3(signature = (key, value, *, expire=None))]
    fn add(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>, expire: Option<f64>) -> PyResult<bool> {
        let py = key.py();
        let handle = self.handle(py)?;
        let until = expires_at_ms(py, expire)?;
        let (key, value) = (self.codecs.encode_key(key)?, self.codecs.encode_value(value)?);
        let (key, value) = (key.bytes()?, value.bytes()?);
        let inserted = py.detach(|| {
            handle.try_update(key, |found| -> siltstone::Result<_> {
                Ok(match found {
                    Some(_) => (Change::Keep, false),
                    None => {
                        let value = Bytes::copy_from_slice(value);
                        (Change::Put { value, expires_at_ms: until }, true)
                    }
                })
            })
        });
        inserted.into_python(py)
    }

    /// Removes a key and returns its value; `default` if it is absent. Atomic.
    fn _take<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self.remove(key)? {
            Some(value) => self.codecs.decode_value(key.py(), &value),
            None => Ok(default.clone()),
        }
    }

    /// Replaces the value of a key if its bytes are those of `expected`, and returns whether it did. `None` is an
    /// absent key, for both arguments. Atomic.
    fn compare_and_swap(
        &self,
        key: &Bound<'_, PyAny>,
        expected: Option<&Bound<'_, PyAny>>,
        new: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let py = key.py();
        let handle = self.handle(py)?;
        let key = self.codecs.encode_key(key)?;
        let expected = expected.map(|value| self.codecs.encode_value(value)).transpose()?;
        let new = new.map(|value| self.codecs.encode_value(value)).transpose()?;
        let key = key.bytes()?;
        let expected = expected.as_ref().map(|value| value.bytes()).transpose()?;
        let new = new.as_ref().map(|value| value.bytes()).transpose()?;
        py.detach(|| handle.compare_and_swap(key, expected, new)).into_python(py)
    }

    /// Sets when a key expires, in seconds from now (`None`: never), and returns whether it exists. Atomic.
    #[pyo3(signature = (key, expire=None))]
    fn touch(&self, key: &Bound<'_, PyAny>, expire: Option<f64>) -> PyResult<bool> {
        let py = key.py();
        let handle = self.handle(py)?;
        let until = write_options(py, expire, None)?.expires_at_ms;
        let encoded = self.codecs.encode_key(key)?;
        let key = encoded.bytes()?;
        let touched = py.detach(|| {
            handle.try_update(key, |found| -> siltstone::Result<_> {
                Ok(match found {
                    Some(found) => (Change::Put { value: found.value.clone(), expires_at_ms: until }, true),
                    None => (Change::Keep, false),
                })
            })
        });
        touched.into_python(py)
    }

    /// Adds `delta` to the number of a key, in decimal digits, and returns the sum. An absent key has `default`;
    /// `None` makes that a `KeyError`. Atomic. The expiry time is kept.
    #[pyo3(signature = (key, delta=1, default=Some(0)))]
    fn incr(&self, key: &Bound<'_, PyAny>, delta: i64, default: Option<i64>) -> PyResult<i64> {
        let py = key.py();
        let handle = self.handle(py)?;
        if matches!(self.codecs.value, ValueCodec::Binary { .. }) {
            let message = "incr: the codec of this database has no numbers; use values=\"raw\" or \"json\"";
            return Err(unsupported(py, message));
        }
        let encoded = self.codecs.encode_key(key)?;
        let bytes = encoded.bytes()?;
        let summed = py.detach(|| {
            handle.try_update(bytes, |found| {
                let (number, expires_at_ms) = match found {
                    Some(found) => {
                        let text = str::from_utf8(&found.value).ok();
                        let number = text.and_then(|text| text.trim().parse::<i64>().ok());
                        let text = || found.value.escape_ascii().take(40).map(char::from).collect();
                        (number.ok_or_else(|| Failure::NoNumber(text()))?, found.expires_at_ms)
                    }
                    None => (default.ok_or(Failure::Missing)?, 0),
                };
                let sum = number.checked_add(delta).ok_or(Failure::Overflow)?;
                Ok((Change::Put { value: sum.to_string().into(), expires_at_ms }, sum))
            })
        });
        summed.map_err(|failure| match failure {
            Failure::Store(error) => to_python(py, &error),
            Failure::Missing => missing_key(key),
            Failure::NoNumber(text) => {
                PyValueError::new_err(format!("the value of {key:?} is no whole number: {text}"))
            }
            Failure::Overflow => {
                PyOverflowError::new_err(format!("the sum for {key:?} needs more than 64 bits"))
            }
        })
    }
}
