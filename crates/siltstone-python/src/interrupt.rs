//! Ctrl-C in long calls: signals are handled by the interpreter only when it is asked.

use crate::error::IntoPython;
use pyo3::prelude::*;
use siltstone::Error;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How often a long call asks for signals and reports progress.
const INTERVAL: Duration = Duration::from_millis(50);

/// Runs `work` detached, with a function for the progress of the library: it calls `progress` of Python with the bytes
/// done and the total, and asks for signals.
///
/// # Errors
/// What `progress` or the handler of a signal raises, such as `KeyboardInterrupt`; else the error of `work`.
pub fn with_progress<T: Send>(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce(&mut dyn FnMut(u64, u64) -> bool) -> siltstone::Result<T> + Send,
) -> PyResult<T> {
    let mut raised = None;
    let outcome = py.detach(|| {
        let mut asked: Option<Instant> = None;
        work(&mut |done, total| {
            if asked.is_some_and(|asked| asked.elapsed() < INTERVAL) && done < total {
                return true;
            }
            asked = Some(Instant::now());
            let outcome = Python::attach(|py| -> PyResult<()> {
                if let Some(progress) = progress {
                    progress.call1(py, (done, total))?;
                }
                py.check_signals()
            });
            raised = outcome.err();
            raised.is_none()
        })
    });
    match (outcome, raised) {
        (Err(Error::Interrupted), Some(raised)) => Err(raised),
        (outcome, _) => outcome.into_python(py),
    }
}

/// Calls `progress` of Python with the records written and their number, if that is known, and asks for signals.
///
/// # Errors
/// What `progress` or the handler of a signal raises.
pub fn report(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    done: usize,
    total: Option<usize>,
) -> PyResult<()> {
    if let Some(progress) = progress {
        progress.call1((done, total))?;
    }
    py.check_signals()
}

/// Runs `work`, which cannot be stopped, on a thread of its own, and waits for it. A signal ends the wait: the work
/// continues in the background.
///
/// # Errors
/// `KeyboardInterrupt`, or the error of `work`.
pub fn in_background<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> siltstone::Result<T> + Send + 'static,
) -> PyResult<T> {
    let (to, from) = mpsc::channel();
    std::thread::spawn(move || to.send(work()));
    let from = std::sync::Mutex::new(from);
    loop {
        let received = py.detach(|| match from.lock() {
            Ok(from) => from.recv_timeout(INTERVAL),
            Err(_) => Err(mpsc::RecvTimeoutError::Disconnected),
        });
        match received {
            Ok(outcome) => return outcome.into_python(py),
            Err(mpsc::RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(pyo3::exceptions::PyRuntimeError::new_err("the thread of the call has panicked"));
            }
        }
    }
}
