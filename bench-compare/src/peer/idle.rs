//! Waiting for background work of stores that cannot be asked whether there is any.

use crate::meter::Reading;
use anyhow::Result;
use std::time::{Duration, Instant};

/// How often it is looked at.
const INTERVAL: Duration = Duration::from_millis(50);
/// So many intervals without work mean that none is left.
const QUIET_INTERVALS: u32 = 12;
/// A process that uses less of a core, and writes nothing, does no work.
const CPU_SHARE_IDLE: f64 = 0.04;

/// Returns when this process has been idle for a while, and tells since when.
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
