//! The largest size of the files of a database while a benchmark runs. A second thread looks at it, because the size at
//! the end hides what a merge or a cleaning needs.

use crate::Result;
use crate::clock::spawn_scoped;
use siltstone::Database;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// The time between two looks. One costs some microseconds per partition.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Runs `work`. Returns what it returns, and the most bytes that all files of the database had: at the beginning, at
/// the end, and every 20 ms.
pub fn with_disk_peak<T>(database: &Database, work: impl FnOnce() -> T) -> Result<(T, Option<u64>)> {
    let (running, ended) = channel::<()>();
    std::thread::scope(|scope| {
        let watcher = spawn_scoped(scope, move || {
            let mut most = 0;
            loop {
                let has_ended = ended.recv_timeout(LOOK_INTERVAL) == Err(RecvTimeoutError::Disconnected);
                most = most.max(database.stats().disk_bytes);
                if has_ended {
                    return most;
                }
            }
        })?;
        let before = database.stats().disk_bytes;
        let outcome = work();
        // Without this, or with a panic of `work` before it, the watcher sees that the channel is closed.
        drop(running);
        Ok((outcome, watcher.join().ok().map(|most| most.max(before))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_freed_before_the_end_counts() {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(folder.path()).unwrap();
        (0..5_000u32).for_each(|key| database.put(key.to_be_bytes(), [7; 100]).unwrap());
        database.compact().unwrap();
        let full = database.stats().disk_bytes;
        let ((), most) = with_disk_peak(&database, || {
            database.clear().unwrap();
            database.compact().unwrap();
        })
        .unwrap();
        assert!(database.stats().disk_bytes < full / 2);
        assert!(most.unwrap() >= full, "{most:?} of {full}");
    }
}
