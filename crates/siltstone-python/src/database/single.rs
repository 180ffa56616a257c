//! Operations on one key.

use super::Database;
use crate::codec::Lookup;
use crate::error::{IntoPython, missing_key};
use crate::settings::{Seconds, write_options};
use pyo3::prelude::*;
use siltstone::WriteOptions;
use std::cell::RefCell;

/// The memory that a thread keeps for values, in bytes.
const KEPT_BYTES: usize = 1 << 20;

thread_local! {
    static VALUE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Database {
    /// Passes the key and the value to `use_value` if there is one, with the time when it expires.
    fn find<'py, T>(
        &self,
        key: &Lookup<'_, 'py>,
        py: Python<'py>,
        use_value: impl FnOnce(&[u8], &[u8], u64) -> PyResult<T>,
    ) -> PyResult<Option<T>> {
        let handle = self.handle(py)?;
        let Ok(encoded) = key else { return Ok(None) };
        let key = encoded.bytes()?;
        // Taken, so that a codec may read the database.
        let mut value = VALUE.with(RefCell::take);
        value.clear();
        let found = py.detach(|| handle.get_into(key, &mut value)).into_python(py)?;
        let used = found.map(|expires_at_ms| use_value(key, &value, expires_at_ms)).transpose();
        if value.capacity() <= KEPT_BYTES {
            VALUE.with(|kept| kept.replace(value));
        }
        used
    }

    fn put_one(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        options: WriteOptions,
    ) -> PyResult<()> {
        let py = key.py();
        let handle = self.handle(py)?;
        let (key, value) = (self.codecs.encode_key(key)?, self.codecs.encode_value(value)?);
        let (key, value) = (key.bytes()?, value.bytes()?);
        py.detach(|| handle.put_with(key, value, options)).into_python(py)
    }
}

#[pymethods]
impl Database {
    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = key.py();
        let lookup = self.codecs.encode_lookup(key)?;
        let found = self.find(&lookup, py, |key, value, _| self.codecs.decode_value(py, key, value))?;
        found.ok_or_else(|| missing_key(key, lookup.err()))
    }

    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.put_one(key, value, WriteOptions::default())
    }

    fn __delitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let (lookup, handle) = (self.codecs.encode_lookup(key)?, self.handle(key.py())?);
        let encoded = lookup.map_err(|reason| missing_key(key, Some(reason)))?;
        let bytes = encoded.bytes()?;
        let removed = key.py().detach(|| handle.remove(bytes)).into_python(key.py())?;
        if removed.is_none() { Err(missing_key(key, None)) } else { Ok(()) }
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.find(&self.codecs.encode_lookup(key)?, key.py(), |_, _, _| Ok(()))?.is_some())
    }

    /// Returns the value of a key, or `default`.
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = key.py();
        let lookup = self.codecs.encode_lookup(key)?;
        Ok(self.find(&lookup, py, |key, value, _| self.codecs.decode_value(py, key, value))?.or(default))
    }

    /// Sets the value of a key. `expire` is in seconds from now.
    #[pyo3(signature = (key, value, *, expire=None, durability=None))]
    fn put(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        expire: Option<Seconds>,
        durability: Option<&str>,
    ) -> PyResult<()> {
        self.put_one(key, value, write_options(key.py(), expire, durability)?)
    }

    /// Removes a key, if it exists, without a read.
    #[pyo3(signature = (key, *, durability=None))]
    fn delete(&self, key: &Bound<'_, PyAny>, durability: Option<&str>) -> PyResult<()> {
        let py = key.py();
        let handle = self.handle(py)?;
        let options = write_options(py, None, durability)?;
        let encoded = self.codecs.encode_key(key)?;
        let key = encoded.bytes()?;
        py.detach(|| handle.delete_with(key, options)).into_python(py)
    }

    /// Returns the seconds until a key expires; `None` if it does not exist, infinity if it never expires.
    fn ttl(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
        let now_ms = write_options(key.py(), Some(Seconds(f64::MIN_POSITIVE)), None)?.expires_at_ms;
        self.find(&self.codecs.encode_lookup(key)?, key.py(), |_, _, expires_at_ms| {
            let left_ms = expires_at_ms.saturating_sub(now_ms);
            Ok(if expires_at_ms == 0 { f64::INFINITY } else { left_ms as f64 / 1e3 })
        })
    }

    /// Returns false only if the key is certainly absent. Reads nothing from the device.
    fn may_contain(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = key.py();
        let (handle, lookup) = (self.handle(py)?, self.codecs.encode_lookup(key)?);
        let Ok(encoded) = lookup else { return Ok(false) };
        let key = encoded.bytes()?;
        py.detach(|| handle.may_contain(key)).into_python(py)
    }
}
