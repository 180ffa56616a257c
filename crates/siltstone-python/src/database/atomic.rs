//! Operations that read and write a key in one atomic step.

use super::Database;
use crate::codec::ValueCodec;
use crate::error::{IntoPython, missing_key, to_python, unsupported};
use crate::settings::{Seconds, write_options};
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use siltstone::{Change, Error};

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

/// Returns whether two values are equal; arrays are if they have one shape and all their items are.
fn equal(one: &Bound<'_, PyAny>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = one.py();
    if one.getattr_opt(intern!(py, "__array_interface__"))?.is_some() {
        return py.import(intern!(py, "siltstone._arrays"))?.call_method1("equal", (one, other))?.is_truthy();
    }
    one.eq(other)
}

#[pymethods]
impl Database {
    /// Puts a record if the key is absent, and returns whether it did. Atomic.
    #[pyo3(signature = (key, value, *, expire=None, durability=None))]
    fn add(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        expire: Option<Seconds>,
        durability: Option<&str>,
    ) -> PyResult<bool> {
        let py = key.py();
        let handle = self.handle(py)?;
        let options = write_options(py, expire, durability)?;
        let (key, value) = (self.codecs.encode_key(key)?, self.codecs.encode_value(value)?);
        let (key, value) = (key.bytes()?, value.bytes()?);
        py.detach(|| handle.insert_if_absent_with(key, value, options)).into_python(py)
    }

    /// Removes a key and returns its value; `default` if it is absent. Atomic. A value that cannot be decoded stays.
    fn _take<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = key.py();
        let (handle, lookup) = (self.handle(py)?, self.codecs.encode_lookup(key)?);
        let Ok(encoded) = lookup else { return Ok(default.clone()) };
        let key = encoded.bytes()?;
        // The codec may run code of the program, which may use the database: it is called before the atomic step, which
        // removes exactly the bytes that it decoded.
        while let Some(value) = py.detach(|| handle.get(key)).into_python(py)? {
            let decoded = self.codecs.decode_value(py, key, &value)?;
            if py.detach(|| handle.compare_and_swap(key, Some(&value), None)).into_python(py)? {
                return Ok(decoded);
            }
            py.check_signals()?;
        }
        Ok(default.clone())
    }

    /// Replaces the value of a key if it equals `expected`, decoded, and returns whether it did. `None` is an absent
    /// key, for both arguments. Atomic. The new record expires after `expire` seconds, or never, as that of `put`.
    #[pyo3(signature = (key, expected, new, *, expire=None, durability=None))]
    fn compare_and_swap(
        &self,
        key: &Bound<'_, PyAny>,
        expected: Option<&Bound<'_, PyAny>>,
        new: Option<&Bound<'_, PyAny>>,
        expire: Option<Seconds>,
        durability: Option<&str>,
    ) -> PyResult<bool> {
        let py = key.py();
        let handle = self.handle(py)?;
        let options = write_options(py, expire, durability)?;
        let key = self.codecs.encode_key(key)?;
        let new = new.map(|value| self.codecs.encode_value(value)).transpose()?;
        let key = key.bytes()?;
        let new = new.as_ref().map(|value| value.bytes()).transpose()?;
        let swap = |expected: Option<&[u8]>| {
            py.detach(|| handle.compare_and_swap_with(key, expected, new, options)).into_python(py)
        };
        let Some(expected) = expected else { return swap(None) };
        if matches!(self.codecs.value, ValueCodec::Raw) {
            return swap(Some(self.codecs.encode_value(expected)?.bytes()?));
        }
        // Equal values can have different bytes. As in `_take`, code of the program runs before the atomic step.
        while let Some(value) = py.detach(|| handle.get(key)).into_python(py)? {
            if !equal(&self.codecs.decode_value(py, key, &value)?, expected)? {
                return Ok(false);
            }
            if swap(Some(&value))? {
                return Ok(true);
            }
            py.check_signals()?;
        }
        Ok(false)
    }

    /// Replaces the value of a key by what `change` returns for it, and returns that. An absent key is a `KeyError`.
    /// Atomic: `change` is called again if the value has changed meanwhile. The expiry time is kept.
    fn _change<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        change: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = key.py();
        let handle = self.handle(py)?;
        let encoded = self.codecs.encode_key(key)?;
        let bytes = encoded.bytes()?;
        // As in `_take`, code of the program runs before the atomic step.
        while let Some(value) = py.detach(|| handle.get(bytes)).into_python(py)? {
            let changed = change.call1((self.codecs.decode_value(py, bytes, &value)?,))?;
            let new = self.codecs.encode_value(&changed)?;
            let new = new.bytes()?;
            let replaced = py.detach(|| {
                handle.try_update(bytes, |found| -> siltstone::Result<_> {
                    Ok(match found.filter(|found| found.value == value) {
                        Some(found) => {
                            let expires_at_ms = found.expires_at_ms;
                            (Change::Put { value: new.to_vec().into(), expires_at_ms }, true)
                        }
                        None => (Change::Keep, false),
                    })
                })
            });
            if replaced.into_python(py)? {
                return Ok(changed);
            }
            py.check_signals()?;
        }
        Err(missing_key(key, None))
    }

    /// Sets when a key expires, in seconds from now (`None`: never), and returns whether it exists. Atomic.
    #[pyo3(signature = (key, expire=None))]
    fn touch(&self, key: &Bound<'_, PyAny>, expire: Option<Seconds>) -> PyResult<bool> {
        let py = key.py();
        let handle = self.handle(py)?;
        let until = write_options(py, expire, None)?.expires_at_ms;
        let Ok(encoded) = self.codecs.encode_lookup(key)? else { return Ok(false) };
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
            let message =
                "incr: the codec of this database has no decimal digits; use values=\"raw\" or \"json\"";
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
            Failure::Missing => missing_key(key, None),
            Failure::NoNumber(text) => {
                PyValueError::new_err(format!("the value of {key:?} is no whole number: {text}"))
            }
            Failure::Overflow => {
                PyOverflowError::new_err(format!("the sum for {key:?} needs more than 64 bits"))
            }
        })
    }
}
