//! Opens and verifies databases with a progress bar, and converts times of expiry.

use crate::interrupt::Interrupt;
use crate::outcome::wrong_usage;
use crate::progress::{byte_bar, show_bytes, with_bar};
use anyhow::Context;
use siltstone::{Builder, Database, Error, VerifyReport};
use std::path::Path;
use std::time::Duration;

/// Opens a database, with a progress bar if it takes long.
pub fn open(builder: Builder) -> anyhow::Result<Database> {
    let bar = byte_bar("opening");
    let shown = bar.clone();
    let builder = builder.progress(move |done, all| show_bytes(&shown, done, all));
    let opened = match builder.clone().open() {
        // Where no thread can be started, calls do the background work that they would wait for.
        Err(Error::Io { operation: "start", .. }) => builder.background_threads(0).open(),
        opened => opened,
    };
    bar.finish_and_clear();
    Ok(opened?)
}

/// Opens a database that has a part of a limit on memory: an error says how much of it.
pub fn open_part(builder: Builder, memory: Option<u64>, part: &str) -> anyhow::Result<Database> {
    open(builder).map_err(|error| match (error.downcast_ref(), memory) {
        (Some(Error::Setting { name: "memory_budget", problem }), Some(memory)) => {
            wrong_usage(format_args!("--memory: {part} of the {memory} bytes, and {problem}"))
        }
        _ => error,
    })
}

/// Reads a whole database, with a progress bar, and returns the damage.
pub fn verify(directory: &Path, interrupt: &Interrupt) -> siltstone::Result<VerifyReport> {
    with_bar("verifying", interrupt, |progress| Database::verify_closed(directory, progress))
}

/// Converts a duration from now to milliseconds since the Unix epoch.
pub fn expiry_after(time: Duration) -> anyhow::Result<u64> {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .context("the system clock is set before 1970")?;
    let then_ms = now.checked_add(time).and_then(|then| u64::try_from(then.as_millis()).ok());
    then_ms.ok_or_else(|| wrong_usage("--expires-in is too far in the future"))
}
