//! Iteration over snapshots, and over ranges in key order.

use super::Database;
use crate::error::{IntoPython, setting_error, unsupported};
use crate::records::{Part, Records, Source, of_keys};
use pyo3::prelude::*;
use siltstone::{ChangePosition, Changes};
use std::ops::Bound as KeyBound;

/// The records that are counted between two looks at signals.
const COUNTED: usize = 100_000;

#[pymethods]
impl Database {
    fn __iter__(&self, py: Python<'_>) -> PyResult<Records> {
        self.all(py, Part::Keys)
    }

    /// Returns the values of a snapshot.
    fn _iter_values(&self, py: Python<'_>) -> PyResult<Records> {
        self.all(py, Part::Values)
    }

    /// Returns the records of a snapshot.
    fn _iter_items(&self, py: Python<'_>) -> PyResult<Records> {
        self.all(py, Part::Items)
    }

    /// Returns the exact number of records. Reads all of them.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let handle = self.handle(py)?;
        let mut records = py.detach(|| handle.iter()).into_python(py)?;
        let mut count = 0;
        loop {
            let step = py.detach(|| {
                records.by_ref().take(COUNTED).try_fold(0, |count, record| record.map(|_| count + 1))
            });
            let step = step.into_python(py)?;
            count += step;
            if step < COUNTED {
                return Ok(count);
            }
            py.check_signals()?;
        }
    }

    /// Returns whether there is a record.
    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        let handle = self.handle(py)?;
        let first = py.detach(|| handle.iter().and_then(|mut records| records.next().transpose()));
        Ok(first.into_python(py)?.is_some())
    }

    /// Returns the approximate number of records, in milliseconds; see the library for its error.
    fn approximate_len(&self, py: Python<'_>) -> PyResult<u64> {
        let handle = self.handle(py)?;
        py.detach(|| handle.approximate_len()).into_python(py)
    }

    /// Returns the keys that were written since a position in the change feed, and the next position.
    #[pyo3(signature = (since=None, *, limit=None))]
    fn changes<'py>(
        &self,
        py: Python<'py>,
        since: Option<&str>,
        limit: Option<usize>,
    ) -> PyResult<(Vec<Bound<'py, PyAny>>, String)> {
        let handle = self.handle(py)?;
        let since = since.map(str::parse::<ChangePosition>).transpose().into_python(py)?;
        let changes = py.detach(|| match since {
            Some(since) => handle.changes(since, limit.unwrap_or(usize::MAX)),
            None => handle.change_position().map(|next| Changes { keys: Vec::new(), next }),
        });
        let Changes { keys, next } = changes.into_python(py)?;
        let keys = keys.iter().map(|key| self.codecs.decode_key(py, key)).collect::<PyResult<Vec<_>>>()?;
        Ok((keys, next.to_string()))
    }

    /// Returns the records with `start <= key < stop`, or whose keys begin with `prefix`, in key order.
    #[pyo3(signature = (start=None, stop=None, *, prefix=None, reverse=false, limit=None, keys_only=false))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments")]
    fn range(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
        reverse: bool,
        limit: Option<usize>,
        keys_only: bool,
    ) -> PyResult<Records> {
        let handle = self.handle(py)?;
        if prefix.is_some() && (start.is_some() || stop.is_some()) {
            let message = "range: give `prefix` or `start` and `stop`, not both".to_owned();
            return Err(setting_error(py, message));
        }
        if prefix.is_some() && self.codecs.key.is_number() {
            return Err(setting_error(py, "range: numbers have no prefix; use `start` and `stop`".into()));
        }
        let encode = |key: Option<&Bound<'_, PyAny>>| -> PyResult<Option<Vec<u8>>> {
            key.map(|key| Ok(self.codecs.encode_key(key)?.bytes()?.to_vec())).transpose()
        };
        let (start, stop, prefix) = (encode(start)?, encode(stop)?, encode(prefix)?);
        let Some(mut ordered) = handle.ordered() else {
            let message = "this database does not keep the order of keys; create one with \
                           engine=\"flashkey\", ordered=True";
            return Err(unsupported(py, message));
        };
        if reverse {
            ordered = ordered.descending();
        }
        if let Some(limit) = limit {
            ordered = ordered.limit(limit);
        }
        let low = start.as_deref().map_or(KeyBound::Unbounded, KeyBound::Included);
        let high = stop.as_deref().map_or(KeyBound::Unbounded, KeyBound::Excluded);
        let is_empty = start.is_some() && stop.is_some() && start >= stop;
        let source: siltstone::Result<Source> = py.detach(|| {
            Ok(match (&prefix, keys_only) {
                _ if is_empty => Box::new(std::iter::empty()),
                (Some(prefix), true) => of_keys(ordered.prefix_keys(prefix)?),
                (Some(prefix), false) => Box::new(ordered.prefix(prefix)?),
                (None, true) => of_keys(ordered.range_keys((low, high))?),
                (None, false) => Box::new(ordered.range((low, high))?),
            })
        });
        let part = if keys_only { Part::Keys } else { Part::Items };
        Ok(self.records(source.into_python(py)?, part, limit))
    }
}

impl Database {
    fn all(&self, py: Python<'_>, part: Part) -> PyResult<Records> {
        let handle = self.handle(py)?;
        let records = py.detach(|| handle.iter()).into_python(py)?;
        Ok(self.records(Box::new(records), part, None))
    }

    fn records(&self, source: Source, part: Part, limit: Option<usize>) -> Records {
        Records::of_database(source, self.codecs.clone(), part, limit, self.is_closed.clone())
    }
}
