//! Write batches.

use super::Database;
use crate::codec::Codecs;
use crate::error::{IntoPython, closed};
use crate::settings::{Seconds, expires_at_ms, write_options};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::PyType;
use std::sync::{Arc, Mutex};

/// Writes that are applied together or not at all: `Database.write_batch`. After its `with` it takes no more writes.
#[pyclass(frozen, generic, module = "siltstone")]
pub struct WriteBatch {
    database: Py<Database>,
    codecs: Arc<Codecs>,
    durability: Option<String>,
    /// `None` after the `with` of the batch.
    batch: Mutex<Option<siltstone::Batch>>,
}

impl WriteBatch {
    /// Makes an empty batch.
    pub fn new(database: Py<Database>, codecs: Arc<Codecs>, durability: Option<String>) -> WriteBatch {
        WriteBatch { database, codecs, durability, batch: Mutex::new(Some(siltstone::Batch::new())) }
    }

    fn with<T>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut siltstone::Batch) -> siltstone::Result<T>,
    ) -> PyResult<T> {
        let mut batch = self.batch.lock_py_attached(py).unwrap_or_else(std::sync::PoisonError::into_inner);
        match &mut *batch {
            Some(batch) => work(batch).into_python(py),
            None => Err(closed(py, "the write batch ended with its `with`; make another one")),
        }
    }

    fn end(&self, py: Python<'_>) {
        *self.batch.lock_py_attached(py).unwrap_or_else(std::sync::PoisonError::into_inner) = None;
    }
}

#[pymethods]
impl WriteBatch {
    /// Adds a put. `expire` is in seconds from now.
    #[pyo3(signature = (key, value, *, expire=None))]
    fn put(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>, expire: Option<Seconds>) -> PyResult<()> {
        let py = key.py();
        let (key, value) = (self.codecs.encode_key(key)?, self.codecs.encode_value(value)?);
        let (key, value, until) = (key.bytes()?, value.bytes()?, expires_at_ms(py, expire)?);
        self.with(py, |batch| batch.put_until(key, value, until).map(drop))
    }

    /// Adds a delete.
    fn delete(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let encoded = self.codecs.encode_key(key)?;
        let bytes = encoded.bytes()?;
        self.with(key.py(), |batch| batch.delete(bytes).map(drop))
    }

    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.put(key, value, None)
    }

    fn __delitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        self.delete(key)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |batch| Ok(batch.len()))
    }

    /// Applies all writes, and empties the batch. After an error it is as before.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        let options = write_options(py, None, self.durability.as_deref())?;
        let database = self.database.get().handle(py)?;
        // Other threads that add to the batch wait meanwhile.
        self.with(py, |batch| {
            py.detach(|| database.write_with(batch, options))?;
            *batch = siltstone::Batch::new();
            Ok(())
        })
    }

    /// Forgets all writes.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |batch| {
            *batch = siltstone::Batch::new();
            Ok(())
        })
    }

    fn __enter__(own: PyRef<'_, Self>) -> PyRef<'_, Self> {
        own
    }

    #[pyo3(signature = (kind, _value, _traceback))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Option<Bound<'_, PyType>>,
        _value: Option<Bound<'_, PyAny>>,
        _traceback: Option<Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let committed = if kind.is_none() { self.commit(py) } else { Ok(()) };
        self.end(py);
        committed.map(|()| false)
    }
}
