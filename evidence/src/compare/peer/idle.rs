//! Waits for the background work of stores that do not report it.

use crate::compare::meter::Reading;
use anyhow::Result;
use std::time::{Duration, Instant};

/// The time between two checks.
const INTERVAL: Duration = Duration::from_millis(50);
/// The number of intervals without work after which the store is idle.
const QUIET_INTERVALS: u32 = 12;
/// A process that uses less than this share of a core, and writes nothing, is idle.
const CPU_SHARE_IDLE: f64 = 0.04;

/// Waits until this process has been idle for a while, and returns since when.
pub fn wait() -> Result<Instant> {
    let (mut quiet, mut since) = (0, Instant::now());
    while quiet < QUIET_INTERVALS {
        let before = Reading::of_process()?;
        std::thread::sleep(INTERVAL);
        let spent = Reading::of_process()?.since(&before);
        if spent.cpu_s() < CPU_SHARE_IDLE * spent.seconds && spent.write_calls == 0 {
            quiet += 1;
        } else {
            (quiet, since) = (0, Instant::now());
        }
    }
    Ok(since)
}
