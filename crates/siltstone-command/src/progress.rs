//! Progress bars of long operations, hidden unless standard error is a terminal, and the time that they took.
//!
//! The thread that works draws them, when it reports progress: where no thread can be started, commands work as well.

use crate::interrupt::Interrupt;
use indicatif::{ProgressBar, ProgressStyle};
use std::fmt;
use std::time::{Duration, Instant};

/// Creates a bar.
pub fn byte_bar(verb: &'static str) -> ProgressBar {
    bar(ProgressBar::new(0), verb, "{msg} [{bar:30}] {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left")
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

/// Creates a bar of about `all` items.
pub fn item_bar(verb: &'static str, all: u64) -> ProgressBar {
    bar(ProgressBar::new(all), verb, "{msg} [{bar:30}] {human_pos} of about {human_len}, {eta} left")
}

/// Creates a bar of an operation whose length is unknown: it shows the time since it began.
pub fn spinner(verb: &'static str) -> ProgressBar {
    bar(ProgressBar::new_spinner(), verb, "{msg} {spinner} {elapsed}")
}

fn bar(bar: ProgressBar, verb: &'static str, template: &str) -> ProgressBar {
    let bar = bar.with_message(verb);
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style.progress_chars("=> ")),
        Err(_) => bar,
    }
}

/// The time since an operation began. Displayed as `in 2.5 s` after a blank, or not at all below a second.
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
    pub fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    /// Returns whether the operation has taken long enough to be worth a line.
    pub fn is_long(&self) -> bool {
        self.0.elapsed() >= Duration::from_secs(1)
    }
}

impl fmt::Display for Stopwatch {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_long() { write!(to, " in {:.1} s", self.0.elapsed().as_secs_f64()) } else { Ok(()) }
    }
}
