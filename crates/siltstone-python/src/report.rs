//! Reports of verification as dicts.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use siltstone::{Damage, VerifyReport};

/// Returns a report as a dict.
///
/// # Errors
/// Errors of Python.
pub fn verify_report<'py>(py: Python<'py>, report: &VerifyReport) -> PyResult<Bound<'py, PyDict>> {
    let damage = |damage: &Damage| -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("file", &damage.file)?;
        dict.set_item("part", damage.part.to_string())?;
        dict.set_item("offset", damage.offset)?;
        dict.set_item("length", damage.length)?;
        dict.set_item("message", damage.to_string())?;
        Ok(dict)
    };
    let dict = PyDict::new(py);
    dict.set_item("checked_bytes", report.checked_bytes)?;
    dict.set_item("live_records", report.live_records)?;
    dict.set_item("torn_bytes", report.torn_bytes)?;
    let list = report.damage.iter().map(damage).collect::<PyResult<Vec<_>>>()?;
    dict.set_item("damage", PyList::new(py, list)?)?;
    Ok(dict)
}
