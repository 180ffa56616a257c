//! When, with which commit and on which machine something runs.

use std::path::Path;
use std::process::Command;

/// Returns the date.
pub fn date() -> Option<String> {
    of("date", &["-u", "+%Y-%m-%d"])
}

/// Returns the commit of the sources, if they are in a repository.
pub fn commit() -> Option<String> {
    of("git", &["rev-parse", "--short=12", "HEAD"])
}

fn of(program: &str, words: &[&str]) -> Option<String> {
    let output = Command::new(program).args(words).current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

/// Describes the processors and the system.
pub fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(Path::new(path)).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown processors", |(_, model)| model);
    let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    format!("{count} processors ({model}), Linux {}", read("/proc/sys/kernel/osrelease").trim())
}

/// Returns the load average over the last minute.
pub fn load_average() -> Option<String> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().next().map(str::to_owned)
}
