//! Settings by name, as `siltstone.open` receives them.

use crate::error::{IntoPython, setting_error, type_name};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString};
use siltstone::{Access, Builder, Durability, EngineKind, TimestampMs, WriteOptions};
use std::time::Duration;

/// A duration: a number of seconds, or a `datetime.timedelta`.
#[derive(Debug, Clone, Copy)]
pub struct Seconds(pub f64);

impl<'py> FromPyObject<'_, 'py> for Seconds {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Seconds> {
        let seconds = match object.getattr_opt(intern!(object.py(), "total_seconds"))? {
            Some(total_seconds) => total_seconds.call0()?,
            None => object.to_owned(),
        };
        seconds.extract().map(Seconds).map_err(|_| {
            let remedy = "give seconds or a timedelta; of a time, its difference from now";
            PyTypeError::new_err(format!("{} is no duration; {remedy}", type_name(&object)))
        })
    }
}

/// Returns a number of bytes: a number, or text such as `64MiB`.
///
/// # Errors
/// `siltstone.SettingError` with the name of the argument.
pub fn size<T: TryFrom<u64>>(name: &str, object: &Bound<'_, PyAny>) -> PyResult<T> {
    let bytes: Option<u64> = match object.cast::<PyString>() {
        Ok(text) => siltstone::parse_bytes(text.to_str()?),
        Err(_) => object.extract().ok(),
    };
    bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| {
        let shown = object.repr().map_or_else(|_| type_name(object), |text| text.to_string());
        let message = format!("{name}: {shown} is no number of bytes; use one such as 67108864 or \"64MiB\"");
        setting_error(object.py(), message)
    })
}

/// Returns the durability with a name.
///
/// # Errors
/// `siltstone.SettingError` with the names that there are.
pub fn durability(py: Python<'_>, name: &str) -> PyResult<Durability> {
    Durability::ALL.into_iter().find(|durability| durability.name() == name).ok_or_else(|| {
        let names = Durability::ALL.map(Durability::name).join(", ");
        setting_error(py, format!("durability: there is no `{name}`; use one of {names}"))
    })
}

/// Returns the time when a record expires that lives for `expire` seconds from now; 0 for never.
///
/// # Errors
/// `siltstone.SettingError` if `expire` is not a positive number.
pub fn expires_at_ms(py: Python<'_>, expire: Option<Seconds>) -> PyResult<TimestampMs> {
    let Some(Seconds(seconds)) = expire else { return Ok(0) };
    if seconds.is_nan() || seconds <= 0.0 {
        let message = format!("expire: {seconds} s is not above 0; use `del` to remove a record now");
        return Err(setting_error(py, message));
    }
    let time = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    Ok(WriteOptions::default().expires_in(time).expires_at_ms)
}

/// Returns the options of a write.
///
/// # Errors
/// See [`durability`] and [`expires_at_ms`].
pub fn write_options(py: Python<'_>, expire: Option<Seconds>, name: Option<&str>) -> PyResult<WriteOptions> {
    let options = WriteOptions::default().expires_at_ms(expires_at_ms(py, expire)?);
    Ok(match name {
        Some(name) => options.durability(durability(py, name)?),
        None => options,
    })
}

/// Applies the settings to a builder. Those that are not common to all engines are the engine's.
///
/// # Errors
/// `siltstone.SettingError`, or `TypeError` for a value of another type.
pub fn apply(mut builder: Builder, engine: Option<&str>, settings: &Bound<'_, PyDict>) -> PyResult<Builder> {
    let py = settings.py();
    if let Some(name) = engine {
        let kind = EngineKind::from_name(name).ok_or_else(|| {
            let names: Vec<_> = EngineKind::ALL.iter().map(|kind| kind.name()).collect();
            let message = format!("engine: there is no engine `{name}`; use one of {}", names.join(", "));
            setting_error(py, message)
        })?;
        builder = builder.engine(kind);
    }
    for (name, value) in settings {
        if value.is_none() {
            continue;
        }
        let name: String = name.extract()?;
        builder = one(builder, &name, &value)?;
    }
    Ok(builder)
}

fn one(builder: Builder, name: &str, value: &Bound<'_, PyAny>) -> PyResult<Builder> {
    let py = value.py();
    if !matches!(name, "durability" | "access") && value.is_instance_of::<PyString>() {
        // Such as "64MiB".
        return Ok(builder.set(name, text_of(value)?));
    }
    typed(builder, name, value).map_err(|error| {
        if !error.is_instance_of::<PyTypeError>(py) {
            return error;
        }
        PyTypeError::new_err(format!("{name}: {}", error.value(py)))
    })
}

fn typed(builder: Builder, name: &str, value: &Bound<'_, PyAny>) -> PyResult<Builder> {
    let py = value.py();
    Ok(match name {
        "fixed" => {
            let (key_length, value_length) = value.extract()?;
            builder.fixed(key_length, value_length)
        }
        "hashed_keys" => match value.extract()? {
            true => builder.hashed_keys(),
            false => builder,
        },
        "expiring" => builder.expiring(value.extract()?),
        "partitions" => builder.partitions(value.extract()?),
        "block_bytes" => builder.block_bytes(value.extract()?),
        "memory_budget" => builder.memory_budget(value.extract()?),
        "background_threads" => builder.background_threads(value.extract()?),
        "open_files_max" => builder.open_files_max(value.extract()?),
        "verify_checksums" => builder.verify_checksums(value.extract()?),
        "durability" => builder.durability(durability(py, &value.extract::<String>()?)?),
        "access" => builder.access(access(value)?),
        _ => builder.set(name, text_of(value)?),
    })
}

/// Returns the access with a name.
///
/// # Errors
/// `siltstone.SettingError` with the names that there are.
pub fn access(value: &Bound<'_, PyAny>) -> PyResult<Access> {
    let name: String = value.extract()?;
    Access::ALL.into_iter().find(|access| access.name() == name).ok_or_else(|| {
        let names = Access::ALL.map(Access::name).join(", ");
        setting_error(value.py(), format!("access: there is no `{name}`; use one of {names}"))
    })
}

/// Returns a value as the engines read it.
fn text_of(value: &Bound<'_, PyAny>) -> PyResult<String> {
    match value.cast::<PyBool>() {
        Ok(flag) => Ok(flag.is_true().to_string()),
        Err(_) => Ok(value.str()?.to_string()),
    }
}

/// Opens the database of a builder, with progress and Ctrl-C.
///
/// # Errors
/// See [`Builder::open`]; `KeyboardInterrupt`.
pub fn open(py: Python<'_>, builder: Builder, progress: Option<Py<PyAny>>) -> PyResult<siltstone::Database> {
    use std::sync::{Arc, Mutex};
    let raised = Arc::new(Mutex::new(None));
    let of_progress = raised.clone();
    let builder = builder.progress(move |done, total| {
        let outcome = Python::attach(|py| -> PyResult<()> {
            if let Some(progress) = &progress {
                progress.call1(py, (done, total))?;
            }
            py.check_signals()
        });
        let goes_on = outcome.is_ok();
        if let (Err(error), Ok(mut raised)) = (outcome, of_progress.lock()) {
            *raised = Some(error);
        }
        goes_on
    });
    let opened = py.detach(|| builder.open());
    match (raised.lock().ok().and_then(|mut raised| raised.take()), opened) {
        (Some(raised), Err(_)) => Err(raised),
        (_, opened) => opened.into_python(py),
    }
}
