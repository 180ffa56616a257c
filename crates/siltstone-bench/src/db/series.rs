//! A benchmark over time: operations, memory and the device, interval by interval. A second thread takes the samples.
//!
//! ```text
//! operations  |-- 100 ms --|-- 100 ms --|-- 40 ms --|      the last interval ends with the benchmark
//! sample                   1            2           3
//! ```

use crate::Result;
use crate::clock::spawn_scoped;
use serde::Serialize;
use siltstone::{Database, RamAccount, Stats};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// What happened in an interval, and what there was at its end.
#[derive(Debug, Clone, Serialize)]
pub struct Sample {
    /// The end of the interval, in seconds since the benchmark began.
    pub seconds: f64,
    /// Operations per second.
    pub ops_per_s: f64,
    /// Mebibytes read from the device per second, by gets and by background work.
    pub read_mb_per_s: f64,
    /// Mebibytes written to the device per second.
    pub write_mb_per_s: f64,
    /// Memory at the end, in bytes.
    pub ram_bytes: u64,
    /// Bytes of all files at the end.
    pub disk_bytes: u64,
    /// The memory by item.
    #[serde(skip)]
    pub ram: RamAccount,
}

impl Sample {
    /// Returns the line under [`HEADER`].
    pub fn line(&self) -> String {
        let Sample { seconds, ops_per_s, read_mb_per_s, write_mb_per_s, ram_bytes, disk_bytes, .. } = self;
        format!(
            "{seconds:15.2} {ops_per_s:13.0} {read_mb_per_s:11.1} {write_mb_per_s:11.1} {ram_bytes:13} {disk_bytes:13}"
        )
    }
}

/// The names of the columns of samples as text.
pub const HEADER: &str = "        seconds       ops/sec   read MB/s  write MB/s         RAM B        disk B";

/// Runs `work`, which counts its operations in `operations`. Returns what it returns, and a sample per interval.
pub(super) fn with_series<T>(
    database: &Database,
    interval: Duration,
    operations: &AtomicU64,
    work: impl FnOnce() -> T,
) -> Result<(T, Vec<Sample>)> {
    let (running, ended) = channel::<()>();
    let begun = Instant::now();
    let first = Mark::of(database, operations, begun);
    std::thread::scope(|scope| {
        let sampler = spawn_scoped(scope, move || {
            let (mut samples, mut last) = (Vec::new(), first);
            for number in 1.. {
                let due = interval.saturating_mul(number).saturating_sub(begun.elapsed());
                let has_ended = ended.recv_timeout(due) == Err(RecvTimeoutError::Disconnected);
                let now = Mark::of(database, operations, begun);
                samples.push(now.since(&last));
                if has_ended {
                    break;
                }
                last = now;
            }
            samples
        })?;
        let outcome = work();
        drop(running);
        Ok((outcome, sampler.join().unwrap_or_default()))
    })
}

/// The counters at one time.
struct Mark {
    seconds: f64,
    operations: u64,
    stats: Stats,
}

impl Mark {
    fn of(database: &Database, operations: &AtomicU64, begun: Instant) -> Mark {
        let stats = database.stats();
        Mark { seconds: begun.elapsed().as_secs_f64(), operations: operations.load(Relaxed), stats }
    }

    fn since(&self, last: &Mark) -> Sample {
        let seconds = (self.seconds - last.seconds).max(1e-9);
        let io = (self.stats.io - last.stats.io).total();
        let mb_per_s = |bytes: u64| bytes as f64 / f64::from(1 << 20) / seconds;
        Sample {
            seconds: self.seconds,
            ops_per_s: (self.operations - last.operations) as f64 / seconds,
            read_mb_per_s: mb_per_s(io.read_bytes),
            write_mb_per_s: mb_per_s(io.write_bytes),
            ram_bytes: self.stats.ram.total_bytes(),
            disk_bytes: self.stats.disk_bytes,
            ram: self.stats.ram.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_operations_are_in_the_intervals_up_to_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(folder.path()).unwrap();
        let operations = AtomicU64::new(7);
        let work = || {
            for key in 0..2_000u32 {
                database.put(key.to_be_bytes(), [7; 100]).unwrap();
                operations.fetch_add(1, Relaxed);
            }
        };
        let ((), samples) = with_series(&database, Duration::from_millis(1), &operations, work).unwrap();
        let mut from = 0.0;
        let mut total = 0.0;
        for sample in &samples {
            assert!(sample.seconds > from && sample.ram_bytes > 0, "{sample:?}");
            total += sample.ops_per_s * (sample.seconds - from).max(1e-9);
            from = sample.seconds;
        }
        assert!((total - 2_000.0).abs() < 40.0, "{total} in {}", samples.len());
    }
}
