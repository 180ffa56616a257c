//! Operations on many keys, from iterables of Python.

use super::Database;
use crate::error::{IntoPython, setting_error};
use crate::interrupt::{report, with_progress};
use crate::keys::{KeyList, LookupList, pair_of, pairs_of};
use crate::settings::{Seconds, write_options};
use pyo3::prelude::*;
use pyo3::types::PyList;
use siltstone::Batch;

/// The keys that are looked up at a time.
const LOOKED_UP: usize = 16_384;
/// The records, and the bytes of keys and values, that are written at a time.
const WRITTEN: usize = 10_000;
const WRITTEN_BYTES: usize = 4 << 20;

impl Database {
    /// Calls `look_up` with pieces of the keys.
    fn in_pieces(
        &self,
        keys: &Bound<'_, PyAny>,
        mut look_up: impl FnMut(&siltstone::Database, &LookupList) -> PyResult<()>,
    ) -> PyResult<()> {
        let py = keys.py();
        let handle = self.handle(py)?;
        let mut list = LookupList::default();
        for key in keys.try_iter()? {
            list.push(&self.codecs, &key?)?;
            if list.len() == LOOKED_UP {
                look_up(handle, &list)?;
                list = LookupList::default();
                py.check_signals()?;
            }
        }
        if list.len() > 0 { look_up(handle, &list) } else { Ok(()) }
    }
}

#[pymethods]
impl Database {
    /// Returns the values of many keys, in their order, with overlapping reads; `default` for absent keys.
    #[pyo3(signature = (keys, default=None))]
    fn _get_many<'py>(
        &self,
        keys: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let py = keys.py();
        let default = default.unwrap_or_else(|| py.None().into_bound(py));
        let mut found = Vec::with_capacity(keys.len().unwrap_or(0));
        self.in_pieces(keys, |handle, keys| {
            let slices = keys.slices();
            let values = py.detach(|| handle.get_many(&slices)).into_python(py)?;
            keys.each(slices.iter().zip(values), |value| {
                found.push(match value {
                    Some((key, Some(value))) => self.codecs.decode_value(py, key, &value)?,
                    _ => default.clone(),
                });
                Ok(())
            })
        })?;
        PyList::new(py, found)
    }

    /// Returns for each of many keys whether it exists.
    fn _contains_many(&self, keys: &Bound<'_, PyAny>) -> PyResult<Vec<bool>> {
        let py = keys.py();
        let mut found = Vec::new();
        self.in_pieces(keys, |handle, keys| {
            let slices = keys.slices();
            let contained = py.detach(|| handle.contains_many(&slices)).into_python(py)?;
            keys.each(contained, |contained| {
                found.push(contained.unwrap_or(false));
                Ok(())
            })
        })?;
        Ok(found)
    }

    /// Puts many records, in batches of up to 10,000 records, each atomic. Returns their number. `progress` is called
    /// after each batch.
    #[pyo3(signature = (records, *, expire=None, durability=None, progress=None))]
    fn _put_many(
        &self,
        records: &Bound<'_, PyAny>,
        expire: Option<Seconds>,
        durability: Option<&str>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<usize> {
        let py = records.py();
        let total = progress.and_then(|_| records.len().ok());
        let handle = self.handle(py)?;
        let options = write_options(py, expire, durability)?;
        let new_batch = || Batch::with_capacity(1_000, 64 << 10);
        let (mut batch, mut bytes, mut count) = (new_batch(), 0, 0);
        for pair in pairs_of(records)? {
            let (key, value) = pair_of(&pair?)?;
            let (key, value) = (self.codecs.encode_key(&key)?, self.codecs.encode_value(&value)?);
            let (key, value) = (key.bytes()?, value.bytes()?);
            batch.put_until(key, value, options.expires_at_ms).into_python(py)?;
            bytes += key.len() + value.len();
            count += 1;
            if batch.len() >= WRITTEN || bytes >= WRITTEN_BYTES {
                let (records, size) = (batch.len(), std::mem::take(&mut bytes));
                let full = std::mem::replace(&mut batch, Batch::with_capacity(records, size));
                py.detach(|| handle.write_with(&full, options)).into_python(py)?;
                report(py, progress, count, total)?;
            }
        }
        py.detach(|| handle.write_with(&batch, options)).into_python(py)?;
        report(py, progress, count, total)?;
        Ok(count)
    }

    /// Puts the records whose keys are absent, all in one atomic step, and returns for each whether it was put.
    #[pyo3(signature = (records, *, expire=None, durability=None))]
    fn _insert_many_if_absent(
        &self,
        records: &Bound<'_, PyAny>,
        expire: Option<Seconds>,
        durability: Option<&str>,
    ) -> PyResult<Vec<bool>> {
        let py = records.py();
        let handle = self.handle(py)?;
        let options = write_options(py, expire, durability)?;
        let (mut keys, mut values) = (KeyList::default(), KeyList::default());
        for pair in pairs_of(records)? {
            let (key, value) = pair_of(&pair?)?;
            keys.push(self.codecs.encode_key(&key)?.bytes()?);
            values.push(self.codecs.encode_value(&value)?.bytes()?);
        }
        let records: Vec<_> = keys.slices().into_iter().zip(values.slices()).collect();
        py.detach(|| handle.insert_many_if_absent_with(&records, options)).into_python(py)
    }

    /// Removes many keys, in batches of up to 10,000, each atomic.
    #[pyo3(signature = (keys, *, durability=None))]
    fn delete_many(&self, keys: &Bound<'_, PyAny>, durability: Option<&str>) -> PyResult<()> {
        let py = keys.py();
        let (handle, options) = (self.handle(py)?, write_options(py, None, durability)?);
        let mut batch = Batch::new();
        for key in keys.try_iter()? {
            batch.delete(self.codecs.encode_key(&key?)?.bytes()?).into_python(py)?;
            if batch.len() >= WRITTEN {
                let full = std::mem::take(&mut batch);
                py.detach(|| handle.write_with(&full, options)).into_python(py)?;
                py.check_signals()?;
            }
        }
        py.detach(|| handle.write_with(&batch, options)).into_python(py)
    }

    /// Removes all keys that begin with `prefix`, in batches of up to 1,024, each atomic, and returns their number.
    /// Reads all records, unless the database keeps the order of keys.
    #[pyo3(signature = (prefix, *, durability=None))]
    fn delete_prefix(&self, prefix: &Bound<'_, PyAny>, durability: Option<&str>) -> PyResult<u64> {
        let py = prefix.py();
        if self.codecs.key.is_number() {
            return Err(setting_error(py, "delete_prefix: numbers have no prefix".into()));
        }
        let encoded = self.codecs.encode_key(prefix)?;
        let prefix = encoded.bytes()?;
        if prefix.is_empty() {
            let message =
                "delete_prefix: the prefix is empty, which would delete all records; use clear() for that";
            return Err(setting_error(py, message.into()));
        }
        let (handle, options) = (self.handle(py)?, write_options(py, None, durability)?);
        with_progress(py, None, |progress| handle.delete_prefix_with(prefix, options, progress))
    }

    /// Removes all records. Ctrl-C ends it between two batches.
    fn _clear(&self, py: Python<'_>) -> PyResult<()> {
        let handle = self.handle(py)?;
        with_progress(py, None, |progress| {
            handle.clear_with(siltstone::WriteOptions::default(), progress).map(drop)
        })
    }
}
