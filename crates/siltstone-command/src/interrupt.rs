//! Ctrl-C, SIGTERM and SIGHUP: the first stops the command cleanly, the second at once.
//!
//! A thread waits for the signals, so that the second one can remove temporary files. Where no thread can be started,
//! the handlers alone set the flag, and the second signal ends the process and leaves the temporary files.

use crate::outcome::{EXIT_INTERRUPTED, complain};
use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use std::ffi::c_int;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Attempts to remove the temporary files after the second signal: other threads may be adding to a directory.
const REMOVALS_MAX: usize = 10;

static LISTENING: Mutex<Option<Interrupt>> = Mutex::new(None);
static REMOVED_AT_EXIT: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Whether the user has interrupted the command.
#[derive(Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Installs the signal handlers, unless the process already has them.
    pub fn listen() -> anyhow::Result<Interrupt> {
        let mut listening = LISTENING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(interrupt) = &*listening {
            return Ok(interrupt.clone());
        }
        let interrupt = Interrupt::default();
        interrupt.install(&heard()).context("cannot listen for Ctrl-C")?;
        *listening = Some(interrupt.clone());
        Ok(interrupt)
    }

    /// Installs the signal handlers for Ctrl-C and SIGTERM, and one for SIGHUP that sets the returned flag. For
    /// servers, before any other call of [`listen`](Interrupt::listen).
    pub fn listen_besides_hangup() -> anyhow::Result<(Interrupt, Arc<AtomicBool>)> {
        let hangup = Arc::new(AtomicBool::new(false));
        flag::register(SIGHUP, hangup.clone()).context("cannot listen for SIGHUP")?;
        let mut listening = LISTENING.lock().unwrap_or_else(PoisonError::into_inner);
        let interrupt = Interrupt::default();
        let signals: Vec<_> = heard().into_iter().filter(|signal| *signal != SIGHUP).collect();
        interrupt.install(&signals).context("cannot listen for Ctrl-C")?;
        *listening = Some(interrupt.clone());
        Ok((interrupt, hangup))
    }

    fn install(&self, signals: &[c_int]) -> io::Result<()> {
        let mut arriving = Signals::new(signals)?;
        let (handle, raised) = (arriving.handle(), self.clone());
        let wait = move || {
            for _ in arriving.forever() {
                if raised.0.swap(true, Relaxed) {
                    remove_all();
                    std::process::exit(EXIT_INTERRUPTED.into());
                }
                tell_once();
            }
        };
        if thread::Builder::new().name("signals".into()).spawn(wait).is_err() {
            handle.close();
            for &signal in signals {
                // The handlers run in this order: the first signal finds the flag down.
                flag::register_conditional_shutdown(signal, EXIT_INTERRUPTED.into(), self.flag())?;
                flag::register(signal, self.flag())?;
            }
        }
        Ok(())
    }

    /// Returns whether a signal has arrived.
    pub fn is_raised(&self) -> bool {
        let is_raised = self.0.load(Relaxed);
        if is_raised {
            tell_once();
        }
        is_raised
    }

    /// Returns an error if a signal has arrived.
    pub fn check(&self) -> io::Result<()> {
        if self.is_raised() { Err(io::Error::other(siltstone::Error::Interrupted)) } else { Ok(()) }
    }

    /// Returns the flag itself, for libraries that poll one.
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }
}

/// Says what a second signal does.
fn tell_once() {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if !TOLD.swap(true, Relaxed) {
        complain(format_args!("stopping; a second Ctrl-C ends the command at once"));
    }
}

/// Returns the signals that the process does not ignore: `nohup` and shells have some of them ignored.
fn heard() -> Vec<c_int> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).map(str::trim);
    let ignored = mask.and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(0);
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0).collect()
}

/// A temporary file or directory that the second signal removes. Otherwise its creator removes it.
pub struct RemovedAtExit(PathBuf);

impl RemovedAtExit {
    /// Registers the path until the value is dropped.
    pub fn new(path: &Path) -> RemovedAtExit {
        REMOVED_AT_EXIT.lock().unwrap_or_else(PoisonError::into_inner).push(path.to_owned());
        RemovedAtExit(path.to_owned())
    }
}

impl Drop for RemovedAtExit {
    fn drop(&mut self) {
        REMOVED_AT_EXIT.lock().unwrap_or_else(PoisonError::into_inner).retain(|path| *path != self.0);
    }
}

fn remove_all() {
    for path in REMOVED_AT_EXIT.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        for _ in 0..REMOVALS_MAX {
            let removed =
                if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
            if removed.is_ok() {
                break;
            }
        }
    }
}
