//! Progress bars of long operations with a known number of bytes. Hidden unless standard error is a terminal.

use crate::interrupt::Interrupt;
use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// Creates a bar.
pub fn byte_bar(verb: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template(
        "{msg} [{bar:30}] {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left",
    );
    let bar = ProgressBar::new(0).with_message(verb);
    bar.enable_steady_tick(Duration::from_millis(200));
    match style {
        Ok(style) => bar.with_style(style.progress_chars("=> ")),
        Err(_) => bar,
    }
}

/// Updates the bar. Returns true, so that the operation continues.
pub fn show_bytes(bar: &ProgressBar, done: u64, all: u64) -> bool {
    bar.set_length(all);
    bar.set_position(done);
    true
}

/// Runs an operation with a bar. An interrupt ends it.
pub fn with_bar<T>(
    verb: &'static str,
    interrupt: &Interrupt,
    work: impl FnOnce(&mut dyn FnMut(u64, u64) -> bool) -> siltstone::Result<T>,
) -> siltstone::Result<T> {
    let bar = byte_bar(verb);
    let outcome = work(&mut |done, all| show_bytes(&bar, done, all) && !interrupt.is_raised());
    bar.finish_and_clear();
    outcome
}
