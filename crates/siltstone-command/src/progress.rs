//! Progress bars of long operations, hidden unless standard error is a terminal, and the time that they took. Where
//! there is no terminal, [`with_progress`] prints lines instead, for the logs of services.
//!
//! The thread that works draws them, when it reports progress: where no thread can be started, commands work as well.

use crate::interrupt::Interrupt;
use crate::outcome::complain;
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

/// Yields the items, about `all` of them, below a bar. Without a terminal it prints a line to standard error each
/// minute.
pub fn with_progress<I: Iterator>(verb: &'static str, all: u64, items: I) -> WithProgress<I> {
    let (bar, now) = (item_bar(verb, all), Instant::now());
    WithProgress { items, bar, verb, all, done: 0, started: now, said: now }
}

/// The time between two lines without a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(60);

/// What [`with_progress`] returns.
pub struct WithProgress<I> {
    items: I,
    bar: ProgressBar,
    verb: &'static str,
    all: u64,
    done: u64,
    started: Instant,
    said: Instant,
}

impl<I: Iterator> Iterator for WithProgress<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        let item = self.items.next()?;
        self.done += 1;
        self.bar.inc(1);
        if self.bar.is_hidden() && self.said.elapsed() >= LINE_INTERVAL {
            self.said = Instant::now();
            complain(format_args!("{}", line(self.verb, self.done, self.all, self.started.elapsed())));
        }
        Some(item)
    }
}

impl<I> Drop for WithProgress<I> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Returns the line about `done` of `all` items, which took `time`.
fn line(verb: &str, done: u64, all: u64, time: Duration) -> String {
    let all = all.max(done);
    let left_s = time.as_secs_f64() * (all - done) as f64 / done.max(1) as f64;
    format!("{verb}: {done} of about {all}, about {:.0} min left", (left_s / 60.0).ceil())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_items_are_yielded_and_a_line_says_how_much_is_left() {
        assert_eq!(with_progress("counting", 2, 0..5).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        let line = |done, all| line("counting", done, all, Duration::from_secs(300));
        assert_eq!(line(25, 100), "counting: 25 of about 100, about 15 min left");
        assert_eq!(line(120, 100), "counting: 120 of about 120, about 0 min left");
    }
}
