//! Ctrl-C, SIGTERM and SIGHUP: the first stops the command cleanly, the second at once.

use anyhow::Context;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// The exit code of an interrupted command: 128 plus the number of SIGINT, as in shells.
pub const EXIT_INTERRUPTED: u8 = 130;
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
        let flag = interrupt.0.clone();
        ctrlc::set_handler(move || {
            if flag.swap(true, Relaxed) {
                remove_all();
                std::process::exit(EXIT_INTERRUPTED.into());
            }
        })
        .context("cannot listen for Ctrl-C")?;
        *listening = Some(interrupt.clone());
        Ok(interrupt)
    }

    /// Returns whether a signal has arrived.
    pub fn is_raised(&self) -> bool {
        self.0.load(Relaxed)
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
