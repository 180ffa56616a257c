//! Ctrl-C, SIGTERM and SIGHUP: the first asks to stop cleanly, the second stops at once.

use anyhow::Context;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// The exit code of a command that the user stopped: 128 and the number of SIGINT, as shells have it.
pub const EXIT_INTERRUPTED: u8 = 130;
/// How often the files that are to be removed at the second signal are tried: other threads may add to a directory.
const REMOVALS_MAX: usize = 10;

static LISTENING: Mutex<Option<Interrupt>> = Mutex::new(None);
static REMOVED_AT_EXIT: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Whether the user wants the command to stop.
#[derive(Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Begins to listen, unless the process does so already.
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

    /// Whether to stop.
    pub fn is_raised(&self) -> bool {
        self.0.load(Relaxed)
    }

    /// An error if the command is to stop.
    pub fn check(&self) -> io::Result<()> {
        if self.is_raised() { Err(io::Error::other(siltstone::Error::Interrupted)) } else { Ok(()) }
    }

    /// The flag itself, for libraries that look at one.
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }
}

/// A temporary file or directory that a second signal removes. Whoever made it removes it otherwise.
pub struct RemovedAtExit(PathBuf);

impl RemovedAtExit {
    /// From now until it is dropped.
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
