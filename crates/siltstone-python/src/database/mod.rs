//! The class `Database`: opening, closing, and what concerns the whole database.

mod arrays;
mod atomic;
mod batch;
mod iterate;
mod many;
mod single;
mod stats;

pub use batch::WriteBatch;

use crate::codec::Codecs;
use crate::error::{IntoPython, forked, setting_error};
use crate::interrupt::{in_background, with_progress};
use crate::report::verify_report;
use crate::settings;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use siltstone::Access;
use siltstone::device::Directory;
use siltstone::names::{CHANGES_NAME, COMPANION_NAMES, FileName};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How many times the process was forked, as the child counts.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Called by `os.register_at_fork` in a child.
#[pyfunction]
pub fn after_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Removes the files of the database in a directory, if there is one, for the flag `n`. Other files stay.
#[pyfunction]
pub fn remove_files(py: Python<'_>, path: PathBuf) -> PyResult<()> {
    py.detach(|| {
        if !path.exists() {
            return Ok(());
        }
        let directory = Directory::system(&path, Access::Buffered)?;
        let _lock = directory.lock()?;
        let is_ours = |name: &str| {
            FileName::parse(name).is_some()
                || COMPANION_NAMES.contains(&name)
                || ["USAGE", CHANGES_NAME].contains(&name)
        };
        directory.list()?.iter().filter(|name| is_ours(name)).try_for_each(|name| directory.remove(name))
    })
    .into_python(py)
}

/// A database: see `siltstone.Database`.
#[pyclass(frozen, subclass, weakref, generic, module = "siltstone._siltstone")]
pub struct Database {
    handle: siltstone::Database,
    codecs: Arc<Codecs>,
    forks: u64,
    opened_by: u32,
    read_only: bool,
    is_closed: AtomicBool,
}

impl Database {
    /// Returns the handle of the library.
    ///
    /// # Errors
    /// `siltstone.ForkedError` in a child of the process that opened the database, `siltstone.ClosedError`.
    #[inline]
    pub fn handle(&self, py: Python<'_>) -> PyResult<&siltstone::Database> {
        if self.forks != FORKS.load(Ordering::Relaxed) {
            return Err(forked(py, self.opened_by));
        }
        Ok(&self.handle)
    }
}

type ValueFunctions = (String, Py<PyAny>, Py<PyAny>);

#[pymethods]
impl Database {
    #[new]
    #[pyo3(signature = (path, flag, engine, keys, values, settings, progress))]
    #[expect(clippy::too_many_arguments, reason = "the arguments of `siltstone.open`")]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        flag: &str,
        engine: Option<&str>,
        keys: &str,
        values: Option<ValueFunctions>,
        settings: &Bound<'_, PyDict>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Database> {
        let codecs = Arc::new(Codecs::new(py, keys, values)?);
        let builder = settings::apply(siltstone::Database::builder(&path), engine, settings)?;
        let builder = match flag {
            "r" => builder.read_only(true),
            "w" => builder.create(false),
            "c" | "n" => builder,
            _ => {
                let message = format!("flag: `{flag}` is not one of r, w, c, n");
                return Err(setting_error(py, message));
            }
        };
        Ok(Database {
            handle: settings::open(py, builder, progress)?,
            codecs,
            forks: FORKS.load(Ordering::Relaxed),
            opened_by: std::process::id(),
            read_only: flag == "r",
            is_closed: AtomicBool::new(false),
        })
    }

    /// The directory, as it was named.
    #[getter]
    fn path(&self) -> PathBuf {
        self.handle.path().to_owned()
    }

    /// Whether the database was opened for reading only.
    #[getter]
    fn read_only(&self) -> bool {
        self.read_only
    }

    /// Whether `close` was called.
    #[getter]
    fn closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// The codec of keys.
    #[getter]
    fn key_codec(&self) -> &'static str {
        self.codecs.key_name()
    }

    /// Closes the database: makes all writes durable and releases the directory.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.forks != FORKS.load(Ordering::Relaxed) {
            // The database belongs to the parent; the child has nothing to close.
            return Ok(());
        }
        self.is_closed.store(true, Ordering::Relaxed);
        py.detach(|| self.handle.close()).into_python(py)
    }

    /// Makes all earlier writes durable: they survive a power failure.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        let handle = self.handle(py)?;
        py.detach(|| handle.sync()).into_python(py)
    }

    /// Merges everything into the last store, and waits for that. Ctrl-C ends the wait, not the merge.
    fn compact(&self, py: Python<'_>) -> PyResult<()> {
        let handle = self.handle(py)?.clone();
        in_background(py, move || handle.compact())
    }

    /// Waits until there is no background work left. Ctrl-C ends the wait.
    fn settle(&self, py: Python<'_>) -> PyResult<()> {
        let handle = self.handle(py)?.clone();
        in_background(py, move || handle.settle())
    }

    /// Writes a consistent copy to an empty or new directory, by hard links where possible.
    fn _checkpoint(&self, py: Python<'_>, target: PathBuf) -> PyResult<()> {
        let handle = self.handle(py)?;
        py.detach(|| handle.checkpoint(target)).into_python(py)
    }

    /// Reads everything and returns the damage. `progress` is called with the bytes read and the total.
    #[pyo3(signature = (progress=None))]
    fn verify<'py>(&self, py: Python<'py>, progress: Option<Py<PyAny>>) -> PyResult<Bound<'py, PyDict>> {
        let handle = self.handle(py)?;
        let report = with_progress(py, progress.as_ref(), |progress| handle.verify_with(progress))?;
        verify_report(py, &report)
    }

    /// Changes the memory budget, in bytes; `None` for no limit.
    fn set_memory_budget(&self, py: Python<'_>, bytes: Option<u64>) -> PyResult<()> {
        let handle = self.handle(py)?;
        py.detach(|| handle.set_memory_budget(bytes)).into_python(py)
    }

    /// Returns a batch of writes, a context manager.
    #[pyo3(signature = (*, durability=None))]
    fn write_batch(own: Bound<'_, Self>, durability: Option<String>) -> PyResult<WriteBatch> {
        let py = own.py();
        if let Some(name) = &durability {
            settings::durability(py, name)?;
        }
        own.get().handle(py)?;
        let codecs = own.get().codecs.clone();
        Ok(WriteBatch::new(own.unbind(), codecs, durability))
    }
}
