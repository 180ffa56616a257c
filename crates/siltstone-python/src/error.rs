//! Errors of the library as exceptions of `siltstone._errors`.

use pyo3::exceptions::{PyException, PyMemoryError};
use pyo3::intern;
use pyo3::prelude::*;
use siltstone::Error;

/// How messages name what is called otherwise in Python.
const NAMES: [(&str, &str); 9] = [
    ("create one with `Builder::create(true)`", "create one with flag=\"c\""),
    ("create it with `Builder::expiring(true)`", "create it with expiring=True"),
    ("open it without `Builder::read_only`", "open it with flag=\"w\""),
    ("lower `Builder::open_files_max`", "lower open_files_max"),
    ("create a database without `fixed`", "create a database without fixed="),
    ("create a database without `hashed_keys`", "create a database without hashed_keys="),
    ("leave `engine` out", "leave engine= out"),
    ("create one with `siltstone dict build`", "create one with siltstone.Dictionary.build"),
    (
        "only that process may write; close the database there and open it here",
        "it cannot be used here; open the database after the fork, in the process that uses it, or with flag=\"r\"",
    ),
];

/// Returns an exception of a class of `siltstone._errors`.
fn exception(py: Python<'_>, class: &str, message: &str) -> PyErr {
    let made = (|| -> PyResult<Bound<'_, PyAny>> {
        let made = py.import(intern!(py, "siltstone._errors"))?.getattr(class)?.call1((message,))?;
        if let Some((_, remedy)) = message.rsplit_once("; ") {
            made.setattr(intern!(py, "remedy"), remedy)?;
        }
        Ok(made)
    })();
    made.map_or_else(|error| error, PyErr::from_value)
}

/// Returns the exception for an error.
pub fn to_python(py: Python<'_>, error: &Error) -> PyErr {
    let mut message = error.to_string();
    for (rust, python) in NAMES {
        message = message.replace(rust, python);
    }
    let raised = exception(py, class_of(error), &message);
    let file = match error {
        Error::Io { file, .. } | Error::Corrupt { file, .. } | Error::Version { file, .. } => Some(file),
        Error::NotFound { path }
        | Error::NotADatabase { path, .. }
        | Error::NotADirectory { path }
        | Error::NotEmpty { path, .. }
        | Error::NoManifest { path, .. }
        | Error::NotADictionary { path, .. }
        | Error::Locked { path, .. }
        | Error::Removed { path } => Some(path),
        _ => None,
    };
    let value = raised.value(py);
    let details = || -> PyResult<()> {
        if let Some(file) = file {
            value.setattr(intern!(py, "file"), file)?;
        }
        match error {
            Error::Corrupt { offset, .. } => value.setattr(intern!(py, "offset"), offset),
            Error::Io { source, .. } => value.setattr(intern!(py, "errno"), source.raw_os_error()),
            _ => Ok(()),
        }
    };
    match details() {
        Ok(()) => raised,
        Err(failed) => failed,
    }
}

fn class_of(error: &Error) -> &'static str {
    match error {
        Error::Io { .. } | Error::Removed { .. } => "DeviceError",
        Error::Corrupt { .. } => "CorruptError",
        Error::KeyLength { .. }
        | Error::ValueLength { .. }
        | Error::RecordSize { .. }
        | Error::HashLength { .. }
        | Error::HashClustered { .. }
        | Error::BatchLength { .. }
        | Error::ExpiryUnsupported
        | Error::DuplicateKey { .. } => "RecordError",
        Error::NotFound { .. } => "NotFoundError",
        Error::ChangesLost { .. } => "ChangesLostError",
        Error::NotADatabase { .. }
        | Error::NotADirectory { .. }
        | Error::NotEmpty { .. }
        | Error::NoManifest { .. }
        | Error::UnknownEngine { .. }
        | Error::AbsentEngine { .. }
        | Error::NotADictionary { .. }
        | Error::Version { .. } => "NotADatabaseError",
        Error::Locked { .. } => "LockedError",
        Error::Poisoned { .. } | Error::Torn { .. } => "PoisonedError",
        Error::Setting { .. } => "SettingError",
        Error::Closed => "ClosedError",
        Error::ReadOnly => "ReadOnlyError",
        Error::Forked { .. } => "ForkedError",
        Error::Unsupported { .. } => "UnsupportedError",
        Error::NoRoom { .. } | Error::NoSpace { .. } | Error::Full(_) => "FullError",
        _ => "Error",
    }
}

/// Returns a `siltstone.SettingError`.
pub fn setting_error(py: Python<'_>, message: String) -> PyErr {
    exception(py, "SettingError", &message)
}

/// Returns a `siltstone.UnsupportedError`.
pub fn unsupported(py: Python<'_>, message: &str) -> PyErr {
    exception(py, "UnsupportedError", message)
}

/// Returns the `siltstone.ForkedError` of a read in a child of the process that opened the database.
pub fn forked(py: Python<'_>, opened_by: u32) -> PyErr {
    to_python(py, &Error::Forked { opened_by })
}

/// Returns the `siltstone.MissingKeyError` of a key, with the reason if no record can have it.
pub fn missing_key(key: &Bound<'_, PyAny>, reason: Option<PyErr>) -> PyErr {
    let py = key.py();
    let made = py
        .import(intern!(py, "siltstone._errors"))
        .and_then(|module| module.getattr(intern!(py, "MissingKeyError")))
        .and_then(|class| class.call1((key,)));
    let missing = made.map_or_else(|error| error, PyErr::from_value);
    if reason.is_some() {
        missing.set_cause(py, reason);
    }
    missing
}

/// Returns the `siltstone.ClosedError` with a message.
pub fn closed(py: Python<'_>, message: &str) -> PyErr {
    exception(py, "ClosedError", message)
}

/// Returns the `siltstone.DecodeError` of a key or a value, with what the codec raised as its cause. What is no error
/// of the bytes, such as Ctrl-C, stays as it is.
pub fn undecodable(py: Python<'_>, error: PyErr, what: impl FnOnce() -> String) -> PyErr {
    if !error.is_instance_of::<PyException>(py) || error.is_instance_of::<PyMemoryError>(py) {
        return error;
    }
    let message = format!(
        "{} cannot be decoded: {error}; the record is as it was: put another value, or delete the key",
        what()
    );
    let raised = exception(py, "DecodeError", &message);
    raised.set_cause(py, Some(error));
    raised
}

/// Returns the name of the type of an object, for messages.
pub fn type_name(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string())
}

/// Turns a result of the library into one of Python.
pub trait IntoPython<T> {
    /// Returns the value, or the error as an exception.
    fn into_python(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> IntoPython<T> for siltstone::Result<T> {
    fn into_python(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| to_python(py, &error))
    }
}
