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
use crate::error::{IntoPython, forked, setting_error, to_python};
use crate::interrupt::{in_background, with_progress};
use crate::report::verify_report;
use crate::settings;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use siltstone::names::{CHANGES_NAME, COMPANION_NAMES, FileName};
use siltstone::{Access, Error};
use siltstone_device::Directory;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// How many times the process was forked, as the child counts.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Called by `os.register_at_fork` in a child.
#[pyfunction]
pub fn after_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Removes the database in a directory, if there is one, with its disk, for the flag `n`. Other files stay.
#[pyfunction]
pub fn remove_files(py: Python<'_>, path: PathBuf) -> PyResult<()> {
    py.detach(|| match siltstone::Database::destroy(&path) {
        Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
        // What cannot be read names no disk.
        Err(Error::NoManifest { .. } | Error::Corrupt { .. }) => remove_damaged(&path),
        Err(error) => Err(error),
    })
    .into_python(py)
}

fn remove_damaged(path: &Path) -> siltstone::Result<()> {
    let directory = Directory::system(path, Access::Buffered)?;
    let _lock = directory.lock()?;
    let is_ours = |name: &str| {
        FileName::parse(name).is_some()
            || COMPANION_NAMES.contains(&name)
            || ["USAGE", CHANGES_NAME].contains(&name)
    };
    Ok(directory.list()?.iter().filter(|name| is_ours(name)).try_for_each(|name| directory.remove(name))?)
}

/// A database: see `siltstone.Database`.
#[pyclass(frozen, subclass, weakref, generic, module = "siltstone._siltstone")]
pub struct Database {
    opened: Opened,
    codecs: Arc<Codecs>,
    opened_by: u32,
    /// Opens a database that is read only again, in a child of the process that opened it.
    reopen: Option<Reopen>,
    is_closed: Arc<AtomicBool>,
}

type Reopen = Box<dyn Fn(Python<'_>) -> PyResult<siltstone::Database> + Send + Sync>;

/// The handle that a process has, and that of a process that was forked from it.
struct Opened {
    forks: u64,
    handle: siltstone::Database,
    in_child: OnceLock<Box<Opened>>,
}

impl Opened {
    fn new(handle: siltstone::Database) -> Opened {
        Opened { forks: FORKS.load(Ordering::Relaxed), handle, in_child: OnceLock::new() }
    }

    /// Returns the newest handle that this process inherited or opened.
    fn newest(&self) -> &Opened {
        let mut newest = self;
        while let Some(next) = newest.in_child.get() {
            newest = next;
        }
        newest
    }
}

impl Database {
    /// Returns the handle of the library. In a child of the process that opened the database, one that is read only is
    /// opened again.
    ///
    /// # Errors
    /// `siltstone.ForkedError` in a child if the database is open for writing, `siltstone.ClosedError`.
    #[inline]
    pub fn handle(&self, py: Python<'_>) -> PyResult<&siltstone::Database> {
        if self.opened.forks == FORKS.load(Ordering::Relaxed) {
            return Ok(&self.opened.handle);
        }
        self.handle_in_child(py)
    }

    #[cold]
    fn handle_in_child(&self, py: Python<'_>) -> PyResult<&siltstone::Database> {
        let Some(reopen) = &self.reopen else { return Err(forked(py, self.opened_by)) };
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(to_python(py, &Error::Closed));
        }
        let newest = self.opened.newest();
        if newest.forks == FORKS.load(Ordering::Relaxed) {
            return Ok(&newest.handle);
        }
        // Another thread may be first: then its handle is used.
        drop(newest.in_child.set(Box::new(Opened::new(reopen(py)?))));
        Ok(&self.opened.newest().handle)
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
        let codecs = Codecs::new(py, keys, values)?;
        // Of the present directory, which may be another one when the database is opened again.
        let whole = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
        let reopen = settings::apply(siltstone::Database::builder(whole), engine, settings)?.read_only(true);
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
        let handle = settings::open(py, builder, progress)?;
        let shape = py.detach(|| handle.stats()).shape;
        let reopen = move |py: Python<'_>| settings::open(py, reopen.clone(), None);
        Ok(Database {
            opened: Opened::new(handle),
            codecs: Arc::new(codecs.with_keys(shape.fixed, shape.hashed_keys)),
            opened_by: std::process::id(),
            reopen: (flag == "r").then(|| Box::new(reopen) as Reopen),
            is_closed: Arc::default(),
        })
    }

    /// The directory, as it was named.
    #[getter]
    fn path(&self) -> PathBuf {
        self.opened.handle.path().to_owned()
    }

    /// Whether the database was opened for reading only.
    #[getter]
    fn read_only(&self) -> bool {
        self.reopen.is_some()
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
        let newest = self.opened.newest();
        let is_own = newest.forks == FORKS.load(Ordering::Relaxed);
        if is_own || self.reopen.is_some() {
            self.is_closed.store(true, Ordering::Relaxed);
        }
        // What belongs to the parent is not closed by its child.
        if is_own { py.detach(|| newest.handle.close()).into_python(py) } else { Ok(()) }
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

    /// Reads everything and returns the damage. `live_records` is the number of live records, each key once; `None` if
    /// there is damage. `progress` is called with the bytes read and the total.
    #[pyo3(signature = (progress=None))]
    fn _verify<'py>(&self, py: Python<'py>, progress: Option<Py<PyAny>>) -> PyResult<Bound<'py, PyDict>> {
        let handle = self.handle(py)?;
        let report = with_progress(py, progress.as_ref(), |progress| handle.verify_with(progress))?;
        verify_report(py, &report)
    }

    /// Changes the memory budget, in bytes or as text such as `64MiB`; `None` for no limit.
    fn set_memory_budget(&self, py: Python<'_>, bytes: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let handle = self.handle(py)?;
        let bytes = bytes.map(|bytes| settings::size("memory_budget", bytes)).transpose()?;
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
        if own.get().is_closed.load(Ordering::Relaxed) {
            return Err(to_python(py, &Error::Closed));
        }
        let codecs = own.get().codecs.clone();
        Ok(WriteBatch::new(own.unbind(), codecs, durability))
    }
}
