//! The class `Dictionary`: a file of records that is built once and read by many processes.

use crate::buffer::Buffer;
use crate::codec::{Codecs, Lookup};
use crate::error::{IntoPython, missing_key, setting_error, to_python};
use crate::interrupt::{report, with_progress};
use crate::keys::{KeyList, KeyRows, LookupList, pair_of, pairs_of};
use crate::records::{Part, Records};
use crate::report::verify_report;
use crate::settings;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use siltstone::{DictionaryIndex, Error};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

/// The records, and their bytes, that are handed to the thread that builds, at a time, and how many times ahead of it.
const PIECE: usize = 4_096;
const PIECE_BYTES: usize = 4 << 20;
const PIECES_AHEAD: usize = 4;

/// A dictionary: see `siltstone.Dictionary`.
#[pyclass(frozen, subclass, weakref, generic, module = "siltstone._siltstone")]
pub struct Dictionary {
    handle: siltstone::Dictionary,
    codecs: Arc<Codecs>,
}

type ValueFunctions = (String, Py<PyAny>, Py<PyAny>);

#[pymethods]
impl Dictionary {
    #[new]
    #[pyo3(signature = (path, keys, values, index_in_memory, access))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        keys: &str,
        values: Option<ValueFunctions>,
        index_in_memory: bool,
        access: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Dictionary> {
        let codecs = Codecs::new(py, keys, values)?;
        let mut options = siltstone::Dictionary::options();
        if !index_in_memory {
            options = options.without_index();
        }
        if let Some(access) = access {
            options = options.access(settings::access(access)?);
        }
        let handle = py.detach(|| options.open(path)).into_python(py)?;
        let info = handle.info();
        let codecs = Arc::new(codecs.with_keys(info.fixed, info.hashed_keys));
        Ok(Dictionary { handle, codecs })
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let lookup = self.codecs.encode_lookup(key)?;
        self.find(&lookup, key.py())?.ok_or_else(|| missing_key(key, lookup.err()))
    }

    /// Returns the value of a key, or `default`.
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.find(&self.codecs.encode_lookup(key)?, key.py())?.or(default))
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = key.py();
        let Ok(encoded) = self.codecs.encode_lookup(key)? else { return Ok(false) };
        let key = encoded.bytes()?;
        py.detach(|| self.handle.contains(key)).into_python(py)
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.handle.len()).unwrap_or(usize::MAX)
    }

    fn __iter__(&self) -> Records {
        Records::new(Box::new(self.handle.iter()), self.codecs.clone(), Part::Keys)
    }

    /// Returns the values, in the order of the keys' hashes.
    fn _iter_values(&self) -> Records {
        Records::new(Box::new(self.handle.iter()), self.codecs.clone(), Part::Values)
    }

    /// Returns the records, in the order of the keys' hashes.
    fn _iter_items(&self) -> Records {
        Records::new(Box::new(self.handle.iter()), self.codecs.clone(), Part::Items)
    }

    /// Returns the values of many keys, in their order, with overlapping reads; `default` for absent keys.
    #[pyo3(signature = (keys, default=None))]
    fn _get_many<'py>(
        &self,
        keys: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let py = keys.py();
        let default = default.unwrap_or_else(|| py.None().into_bound(py));
        let list = self.key_list(keys)?;
        let slices = list.slices();
        let found = py.detach(|| self.handle.get_many(&slices)).into_python(py)?;
        let mut values = Vec::with_capacity(list.len());
        list.each(slices.iter().zip(found), |value| {
            values.push(match value {
                Some((key, Some(value))) => self.codecs.decode_value(py, key, &value)?,
                _ => default.clone(),
            });
            Ok(())
        })?;
        PyList::new(py, values)
    }

    /// Returns for each of many keys whether it exists.
    fn _contains_many(&self, keys: &Bound<'_, PyAny>) -> PyResult<Vec<bool>> {
        let py = keys.py();
        let list = self.key_list(keys)?;
        let slices = list.slices();
        let contained = py.detach(|| self.handle.contains_many(&slices)).into_python(py)?;
        let mut found = Vec::with_capacity(list.len());
        list.each(contained, |contained| {
            found.push(contained.unwrap_or(false));
            Ok(())
        })?;
        Ok(found)
    }

    /// Looks up the keys of an array: copies values into the rows of `values`, and sets `found` to 0 or 1.
    fn _get_array(
        &self,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        found: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let py = keys.py();
        let keys = KeyRows::new(&self.codecs, keys)?;
        let (mut values, mut flags) = (Buffer::writable(values)?, Buffer::writable(found)?);
        if values.rows() != keys.len() || flags.rows() != keys.len() {
            return Err(setting_error(py, "out: use arrays with a row per key".into()));
        }
        let (width, slices) = (values.row_bytes(), keys.slices());
        let (rows, flags) = (values.bytes_mut()?, flags.bytes_mut()?);
        let looked_up = py.detach(|| self.handle.get_many(&slices)).into_python(py)?;
        for (at, (value, flag)) in looked_up.iter().zip(flags).enumerate() {
            *flag = u8::from(value.is_some());
            if let Some(value) = value {
                let length = value.len();
                if length != width {
                    let message = format!(
                        "out: a value has {length} bytes, but a row has {width}; use rows of its size"
                    );
                    return Err(setting_error(py, message));
                }
                // Values may have no bytes: then there is a row for each key, and no byte of any.
                if let Some(row) = rows.get_mut(at * width..(at + 1) * width) {
                    row.copy_from_slice(value);
                }
            }
        }
        Ok(())
    }

    /// Returns the content and the cost of the dictionary.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let info = self.handle.info();
        let dict = PyDict::new(py);
        dict.set_item("version", info.version)?;
        dict.set_item("records", info.records)?;
        dict.set_item("key_bytes", info.key_bytes)?;
        dict.set_item("value_bytes", info.value_bytes)?;
        dict.set_item("fixed", info.fixed)?;
        dict.set_item("hashed_keys", info.hashed_keys)?;
        dict.set_item("file_bytes", info.file_bytes)?;
        dict.set_item("index", info.index.name())?;
        dict.set_item("index_bytes", info.index_bytes)?;
        Ok(dict)
    }

    /// Reads everything and returns the damage. `progress` is called with the bytes read and the total.
    #[pyo3(signature = (progress=None))]
    fn _verify<'py>(&self, py: Python<'py>, progress: Option<Py<PyAny>>) -> PyResult<Bound<'py, PyDict>> {
        let report = with_progress(py, progress.as_ref(), |progress| self.handle.verify_with(progress))?;
        verify_report(py, &report)
    }
}

impl Dictionary {
    fn find<'py>(&self, key: &Lookup<'_, 'py>, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Ok(encoded) = key else { return Ok(None) };
        let key = encoded.bytes()?;
        let value = py.detach(|| self.handle.get(key)).into_python(py)?;
        value.map(|value| self.codecs.decode_value(py, key, &value)).transpose()
    }

    fn key_list(&self, keys: &Bound<'_, PyAny>) -> PyResult<LookupList> {
        let mut list = LookupList::default();
        for key in keys.try_iter()? {
            list.push(&self.codecs, &key?)?;
        }
        Ok(list)
    }
}

/// What a dictionary is built with.
struct Plan {
    fixed: Option<(usize, usize)>,
    hashed_keys: bool,
    block_bytes: Option<u32>,
    index: DictionaryIndex,
    memory_bytes: Option<usize>,
    refuse_duplicates: bool,
}

impl Plan {
    fn builder(&self) -> siltstone::DictionaryBuilder {
        let mut builder = siltstone::Dictionary::builder().index(self.index);
        if let Some((key_length, value_length)) = self.fixed {
            builder = builder.fixed(key_length, value_length);
        }
        if self.hashed_keys {
            builder = builder.hashed_keys();
        }
        if let Some(bytes) = self.block_bytes {
            builder = builder.block_bytes(bytes);
        }
        if let Some(bytes) = self.memory_bytes {
            builder = builder.memory_bytes(bytes);
        }
        if self.refuse_duplicates {
            builder = builder.refuse_duplicates();
        }
        builder
    }
}

type Piece = (KeyList, KeyList);

/// Builds on its own thread, with the records that arrive, until the sender is dropped.
fn build_from(
    plan: &Plan,
    path: PathBuf,
    stop: Arc<AtomicBool>,
    from: &mpsc::Receiver<Piece>,
) -> siltstone::Result<()> {
    let stopped = stop.clone();
    let progress = move |_, _| !stopped.load(Ordering::Relaxed);
    let mut writer = plan.builder().progress(progress).create(path)?;
    while let Ok((keys, values)) = from.recv() {
        for (key, value) in keys.slices().into_iter().zip(values.slices()) {
            writer.put(key, value)?;
        }
    }
    if stop.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { writer.finish().map(drop) }
}

#[pymethods]
impl Dictionary {
    /// Builds the dictionary at `path` from pairs, in any order. No file remains if that fails.
    #[staticmethod]
    #[pyo3(signature = (path, records, keys, values, fixed, hashed_keys, block_bytes, index, memory_bytes,
                        refuse_duplicates, progress))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of `siltstone.Dictionary.build`")]
    fn _build(
        py: Python<'_>,
        path: PathBuf,
        records: &Bound<'_, PyAny>,
        keys: &str,
        values: Option<ValueFunctions>,
        fixed: Option<(usize, usize)>,
        hashed_keys: bool,
        block_bytes: Option<&Bound<'_, PyAny>>,
        index: &str,
        memory_bytes: Option<&Bound<'_, PyAny>>,
        refuse_duplicates: bool,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let block_bytes = block_bytes.map(|bytes| settings::size("block_bytes", bytes)).transpose()?;
        let memory_bytes = memory_bytes.map(|bytes| settings::size("memory_bytes", bytes)).transpose()?;
        let codecs = Codecs::new(py, keys, values)?;
        let index = DictionaryIndex::ALL.into_iter().find(|kind| kind.name() == index).ok_or_else(|| {
            let names = DictionaryIndex::ALL.map(DictionaryIndex::name).join(", ");
            setting_error(py, format!("index: there is no index `{index}`; use one of {names}"))
        })?;
        let plan = Plan { fixed, hashed_keys, block_bytes, index, memory_bytes, refuse_duplicates };
        let stop = Arc::new(AtomicBool::new(false));
        let (to, from) = mpsc::sync_channel::<Piece>(PIECES_AHEAD);
        let stopping = stop.clone();
        let thread = std::thread::spawn(move || build_from(&plan, path, stopping, &from));
        let mut fed = feed(records, &codecs, &to, progress);
        if fed.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        drop(to);
        while fed.is_ok() && !thread.is_finished() {
            py.detach(|| std::thread::sleep(std::time::Duration::from_millis(2)));
            fed = py.check_signals();
            if fed.is_err() {
                stop.store(true, Ordering::Relaxed);
            }
        }
        let built = py.detach(|| thread.join());
        match (fed, built) {
            (Err(raised), _) => Err(raised),
            (Ok(()), Ok(Ok(()))) => Ok(()),
            (Ok(()), Ok(Err(error))) => Err(to_python(py, &error)),
            (Ok(()), Err(_)) => {
                Err(pyo3::exceptions::PyRuntimeError::new_err("the thread that builds has panicked"))
            }
        }
    }
}

/// Encodes the records and sends them, with reports of progress, until all are sent or the receiver has failed.
fn feed(
    records: &Bound<'_, PyAny>,
    codecs: &Codecs,
    to: &mpsc::SyncSender<Piece>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    let py = records.py();
    let mut piece = Piece::default();
    let total = progress.and_then(|_| records.len().ok());
    let mut count = 0;
    for pair in pairs_of(records)? {
        let (key, value) = pair_of(&pair?)?;
        piece.0.push(codecs.encode_key(&key)?.bytes()?);
        piece.1.push(codecs.encode_value(&value)?.bytes()?);
        if piece.0.len() == PIECE || piece.0.size() + piece.1.size() >= PIECE_BYTES {
            let full = std::mem::take(&mut piece);
            count += full.0.len();
            if py.detach(|| to.send(full)).is_err() {
                // The thread has failed; its error is returned.
                return Ok(());
            }
            report(py, progress, count, total)?;
        }
    }
    count += piece.0.len();
    py.detach(|| to.send(piece)).ok();
    report(py, progress, count, total)
}
