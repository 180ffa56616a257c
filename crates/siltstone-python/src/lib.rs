//! The extension module `siltstone._siltstone`: databases and dictionaries for Python.
//!
//! The package `siltstone` around it has what needs no speed: which codecs a database has, the interface of
//! mappings, arrays of NumPy, asyncio. All that reads a record is here. Calls that may read flash, write or wait
//! detach from the interpreter first, so that other threads of Python run meanwhile.

mod buffer;
mod codec;
mod columns;
mod database;
mod dictionary;
mod error;
mod interrupt;
mod keys;
mod records;
mod report;
mod settings;

use pyo3::prelude::*;

/// Databases and dictionaries. `siltstone` is the interface to it.
#[pymodule(gil_used = false)]
mod _siltstone {
    #[pymodule_export]
    use super::database::{Database, WriteBatch, after_fork, remove_files};
    #[pymodule_export]
    use super::dictionary::Dictionary;
    #[pymodule_export]
    use super::records::Records;

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
