//! Iterators over records, keys or values.

use crate::codec::Codecs;
use crate::columns::{Columns, PyColumns, Values, refusal};
use crate::error::{IntoPython, to_python};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::PyTuple;
use siltstone::{Bytes, Error, Record, Result};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// The records that are read at a time, at most. An iterator begins with one and doubles the number.
const AHEAD_MAX: usize = 256;
/// The bytes of keys and values at which no more records are read ahead.
const AHEAD_BYTES: usize = 1 << 20;

/// What an iterator returns of each record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Keys,
    Values,
    Items,
}

/// Where records come from.
pub type Source = Box<dyn Iterator<Item = Result<Record>> + Send>;

struct State {
    source: Option<Source>,
    ahead: VecDeque<Result<Record>>,
    ahead_max: usize,
    left: Option<usize>,
}

/// An iterator over the keys, the values or the records of a database or a dictionary at one moment.
#[pyclass(frozen, generic, module = "siltstone")]
pub struct Records {
    state: Mutex<State>,
    codecs: Arc<Codecs>,
    part: Part,
    /// Whether the database was closed: records that were read ahead are not returned either.
    is_closed: Option<Arc<AtomicBool>>,
}

impl Records {
    /// Makes an iterator.
    pub fn new(source: Source, codecs: Arc<Codecs>, part: Part) -> Records {
        let state = State { source: Some(source), ahead: VecDeque::new(), ahead_max: 1, left: None };
        Records { state: Mutex::new(state), codecs, part, is_closed: None }
    }

    /// Makes an iterator over at most `limit` records of a database that may be closed.
    pub fn of_database(
        source: Source,
        codecs: Arc<Codecs>,
        part: Part,
        limit: Option<usize>,
        is_closed: Arc<AtomicBool>,
    ) -> Records {
        let state = State { source: Some(source), ahead: VecDeque::new(), ahead_max: 1, left: limit };
        Records { state: Mutex::new(state), codecs, part, is_closed: Some(is_closed) }
    }
}

/// Makes a source of keys one of records.
pub fn of_keys(keys: impl Iterator<Item = Result<Bytes>> + Send + 'static) -> Source {
    let record = |key| Record { key, value: Bytes::new(), expires_at_ms: 0 };
    Box::new(keys.map(move |key| key.map(record)))
}

impl State {
    fn fill(&mut self) {
        let Some(source) = &mut self.source else { return };
        let count = self.left.map_or(self.ahead_max, |left| left.min(self.ahead_max));
        let (mut read, mut bytes, mut is_at_end) = (0, 0, false);
        while read < count && bytes < AHEAD_BYTES && !is_at_end {
            match source.next() {
                Some(record) => {
                    bytes += record.as_ref().map_or(0, |record| record.key.len() + record.value.len());
                    self.ahead.push_back(record);
                    read += 1;
                }
                None => is_at_end = true,
            }
        }
        self.left = self.left.map(|left| left - read);
        if is_at_end || self.left == Some(0) {
            // What a snapshot holds is released.
            self.source = None;
        }
        self.ahead_max = (self.ahead_max * 2).min(AHEAD_MAX);
    }

    fn next(&mut self) -> Option<Result<Record>> {
        if self.ahead.is_empty() {
            self.fill();
        }
        self.ahead.pop_front()
    }
}

impl Records {
    /// Returns an error if there are records left, but the database was closed.
    fn check_open(&self, py: Python<'_>, state: &State) -> PyResult<()> {
        let is_at_end = state.source.is_none() && state.ahead.is_empty();
        let is_closed = self.is_closed.as_ref().is_some_and(|is_closed| is_closed.load(Ordering::Relaxed));
        if is_closed && !is_at_end { Err(to_python(py, &Error::Closed)) } else { Ok(()) }
    }
}

#[pymethods]
impl Records {
    fn __iter__(own: PyRef<'_, Self>) -> PyRef<'_, Self> {
        own
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let record = {
            let Ok(mut state) = self.state.lock_py_attached(py) else { return Ok(None) };
            self.check_open(py, &state)?;
            if state.ahead.is_empty() {
                let state: &mut State = &mut state;
                py.detach(|| state.fill());
            }
            state.ahead.pop_front()
        };
        let Some(record) = record else { return Ok(None) };
        let record = record.into_python(py)?;
        let key = || self.codecs.decode_key(py, &record.key);
        let value = || self.codecs.decode_value(py, &record.key, &record.value);
        Ok(Some(match self.part {
            Part::Keys => key()?,
            Part::Values => value()?,
            Part::Items => PyTuple::new(py, [key()?, value()?])?.into_any(),
        }))
    }

    /// Returns the next records as columns: their number, and the bytes and ends of the keys and of the values; `None`
    /// at the end. There are up to `records`, and no more once they have 64 MiB. All values have
    /// `value_length` bytes, if it is given, and are UTF-8, if they are `text`.
    #[pyo3(signature = (records, *, value_length=None, text=false))]
    fn _columns<'py>(
        &self,
        py: Python<'py>,
        records: usize,
        value_length: Option<usize>,
        text: bool,
    ) -> PyResult<Option<PyColumns<'py>>> {
        let expected = value_length.map_or(if text { Values::Text } else { Values::Any }, Values::Of);
        let mut columns = Columns::new(expected, records);
        let mut count = 0;
        let Ok(mut state) = self.state.lock_py_attached(py) else { return Ok(None) };
        self.check_open(py, &state)?;
        let state: &mut State = &mut state;
        let refused = py.detach(|| -> Result<_> {
            while count < records && !columns.is_full() {
                let Some(record) = state.next().transpose()? else { break };
                if let Err(refused) = columns.push(&self.codecs, &record) {
                    return Ok(Some((record, refused)));
                }
                count += 1;
            }
            Ok(None)
        });
        match refused.into_python(py)? {
            Some((record, refused)) => Err(refusal(py, &self.codecs, &record, &refused)),
            None if count == 0 => Ok(None),
            None => Ok(Some(columns.into_python(py, &self.codecs, count))),
        }
    }
}
