//! Ctrl-C, SIGTERM and SIGHUP: the first asks to stop cleanly, the second stops at once.

use anyhow::Context;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The exit code of a command that the user stopped: 128 and the number of SIGINT, as shells have it.
pub const EXIT_INTERRUPTED: u8 = 130;

/// Whether the user wants the command to stop.
#[derive(Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Begins to listen. Once a process.
    pub fn listen() -> anyhow::Result<Interrupt> {
        let interrupt = Interrupt::default();
        let flag = interrupt.0.clone();
        ctrlc::set_handler(move || {
            if flag.swap(true, Relaxed) {
                std::process::exit(EXIT_INTERRUPTED.into());
            }
        })
        .context("cannot listen for Ctrl-C")?;
        Ok(interrupt)
    }

    /// Whether to stop.
    pub fn is_raised(&self) -> bool {
        self.0.load(Relaxed)
    }

    /// The flag itself, for libraries that look at one.
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }
}
