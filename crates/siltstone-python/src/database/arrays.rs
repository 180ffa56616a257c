//! Operations on many keys in arrays: no object per key or value.

use super::Database;
use crate::buffer::Buffer;
use crate::error::{IntoPython, setting_error};
use crate::interrupt::report;
use crate::keys::KeyRows;
use crate::settings::{Seconds, write_options};
use pyo3::prelude::*;
use siltstone::Batch;

/// The keys of a call that are looked up or written at a time, at most.
const PIECE: usize = 16_384;
/// The bytes that are written at a time, at most, unless a record has more.
const PIECE_BYTES: usize = 16 << 20;

/// Returns the error for an array with another number of rows.
fn wrong_rows(py: Python<'_>, name: &str, got: usize, expected: usize) -> PyErr {
    setting_error(py, format!("{name}: {got} rows for {expected} keys; use arrays of one length"))
}

/// Looks up keys, copies their values into rows, and sets flags. Absent keys leave their rows as they are.
///
/// Returns the length of a value that is not that of a row as an error.
fn copy_rows(
    handle: &siltstone::Database,
    keys: &[&[u8]],
    (rows, width): (&mut [u8], usize),
    flags: &mut [u8],
) -> siltstone::Result<Result<(), usize>> {
    let mut copied = Ok(());
    handle.get_many_with(keys, |number, found| {
        flags[number] = u8::from(found.is_some());
        match (found.map(|found| found.value), rows.get_mut(number * width..(number + 1) * width)) {
            (Some(value), Some(row)) if value.len() == row.len() => row.copy_from_slice(value),
            (Some(value), _) => copied = copied.and(Err(value.len())),
            (None, _) => {}
        }
    })?;
    Ok(copied)
}

#[pymethods]
impl Database {
    /// Looks up the keys of an array: copies values into the rows of `values`, and sets `found` to 0 or 1.
    fn _get_array(
        &self,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        found: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let py = keys.py();
        let handle = self.handle(py)?;
        let keys = KeyRows::new(&self.codecs, keys)?;
        let (mut values, mut flags) = (Buffer::writable(values)?, Buffer::writable(found)?);
        for (name, buffer) in [("out", &values), ("found", &flags)] {
            if buffer.rows() != keys.len() {
                return Err(wrong_rows(py, name, buffer.rows(), keys.len()));
            }
        }
        let (width, slices) = (values.row_bytes(), keys.slices());
        let (rows, flags) = (values.bytes_mut()?, flags.bytes_mut()?);
        for (piece, (keys, flags)) in slices.chunks(PIECE).zip(flags.chunks_mut(PIECE)).enumerate() {
            // Values may have no bytes: then there is a row for each key, and no byte of any.
            let rows = rows.get_mut(piece * PIECE * width..).unwrap_or_default();
            let copied = py.detach(|| copy_rows(handle, keys, (rows, width), flags));
            copied.into_python(py)?.map_err(|length| {
                let message =
                    format!("out: a value has {length} bytes, but a row has {width}; use rows of its size");
                setting_error(py, message)
            })?;
            py.check_signals()?;
        }
        Ok(())
    }

    /// Sets `found` to 0 or 1 for each key of an array.
    fn _contains_array(&self, keys: &Bound<'_, PyAny>, found: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = keys.py();
        let handle = self.handle(py)?;
        let keys = KeyRows::new(&self.codecs, keys)?;
        let mut flags = Buffer::writable(found)?;
        if flags.rows() != keys.len() {
            return Err(wrong_rows(py, "found", flags.rows(), keys.len()));
        }
        for (keys, flags) in keys.slices().chunks(PIECE).zip(flags.bytes_mut()?.chunks_mut(PIECE)) {
            let found = py.detach(|| handle.contains_many(keys)).into_python(py)?;
            for (flag, found) in flags.iter_mut().zip(found) {
                *flag = u8::from(found);
            }
            py.check_signals()?;
        }
        Ok(())
    }

    /// Puts the keys of an array with the rows of `values`, in batches of up to 16,384 and 16 MiB, each atomic.
    /// `progress` is called after each batch.
    #[pyo3(signature = (keys, values, *, expire=None, durability=None, progress=None))]
    fn _put_array(
        &self,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        expire: Option<Seconds>,
        durability: Option<&str>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<usize> {
        let py = keys.py();
        let handle = self.handle(py)?;
        let options = write_options(py, expire, durability)?;
        let keys = KeyRows::new(&self.codecs, keys)?;
        let values = Buffer::of(values)?;
        if values.rows() != keys.len() {
            return Err(wrong_rows(py, "values", values.rows(), keys.len()));
        }
        let (width, slices, rows) = (values.row_bytes(), keys.written(py)?, values.bytes());
        let record_bytes = slices.iter().map(|key| key.len()).max().unwrap_or_default() + width;
        let count = (PIECE_BYTES / record_bytes.max(1)).clamp(1, PIECE);
        for (piece, keys) in slices.chunks(count).enumerate() {
            let rows = rows.get(piece * count * width..).unwrap_or_default();
            py.detach(|| {
                let bytes = keys.iter().map(|key| key.len() + width).sum();
                let mut batch = Batch::with_capacity(keys.len(), bytes);
                for (at, key) in keys.iter().enumerate() {
                    let value = rows.get(at * width..(at + 1) * width).unwrap_or_default();
                    batch.put_until(key, value, options.expires_at_ms)?;
                }
                handle.write_with(&batch, options)
            })
            .into_python(py)?;
            report(py, progress, slices.len().min((piece + 1) * count), Some(slices.len()))?;
        }
        Ok(keys.len())
    }

    /// Puts the rows whose keys are absent, all in one atomic step, and sets `inserted` to 0 or 1.
    #[pyo3(signature = (keys, values, inserted, *, expire=None, durability=None))]
    fn _insert_array(
        &self,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        inserted: &Bound<'_, PyAny>,
        expire: Option<Seconds>,
        durability: Option<&str>,
    ) -> PyResult<()> {
        let py = keys.py();
        let handle = self.handle(py)?;
        let options = write_options(py, expire, durability)?;
        let keys = KeyRows::new(&self.codecs, keys)?;
        let (values, mut flags) = (Buffer::of(values)?, Buffer::writable(inserted)?);
        for (name, buffer) in [("values", &values), ("inserted", &flags)] {
            if buffer.rows() != keys.len() {
                return Err(wrong_rows(py, name, buffer.rows(), keys.len()));
            }
        }
        let (width, rows) = (values.row_bytes(), values.bytes());
        let value_of = |at: usize| rows.get(at * width..(at + 1) * width).unwrap_or_default();
        let records: Vec<_> =
            keys.written(py)?.into_iter().enumerate().map(|(at, key)| (key, value_of(at))).collect();
        let put = py.detach(|| handle.insert_many_if_absent_with(&records, options)).into_python(py)?;
        for (flag, put) in flags.bytes_mut()?.iter_mut().zip(put) {
            *flag = u8::from(put);
        }
        Ok(())
    }
}
