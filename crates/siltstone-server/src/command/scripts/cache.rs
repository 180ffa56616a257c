//! What all threads know of scripts: the texts by their SHA-1, and which scripts run.
//!
//! ```text
//! EVALSHA e0e1... --> cache: e0e1... -> text --> the thread's Lua: e0e1... -> compiled function
//! ```
//!
//! The cache is bounded: the script that was not used for longest is removed. Its next EVALSHA replies NOSCRIPT, and
//! the client sends the text again.

use super::source::{Digest, Script};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The bytes of the scripts that are kept.
const CACHE_BYTES_MAX: usize = 64 << 20;

/// A script that has run for this long can be killed: it may be one that does not end.
const BUSY_TIME: Duration = Duration::from_millis(50);

/// The scripts that are kept, with when they were used last.
struct Kept {
    scripts: HashMap<Digest, (Arc<Script>, u64)>,
    bytes: usize,
    bytes_max: usize,
    uses: u64,
}

impl Default for Kept {
    fn default() -> Kept {
        Kept { scripts: HashMap::new(), bytes: 0, bytes_max: CACHE_BYTES_MAX, uses: 0 }
    }
}

/// The scripts of a server.
pub struct Scripts {
    kept: Mutex<Kept>,
    /// The number of flushes. The threads drop what they have compiled before.
    flushes: AtomicU64,
    threads: Mutex<Vec<Weak<Running>>>,
    is_stopping: Arc<AtomicBool>,
    began: Instant,
}

impl Default for Scripts {
    fn default() -> Scripts {
        Scripts {
            kept: Mutex::default(),
            flushes: AtomicU64::new(0),
            threads: Mutex::default(),
            is_stopping: Arc::default(),
            began: Instant::now(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Scripts {
    /// Returns a script.
    pub fn find(&self, digest: &Digest) -> Option<Arc<Script>> {
        let mut kept = lock(&self.kept);
        kept.uses += 1;
        let uses = kept.uses;
        let (script, used) = kept.scripts.get_mut(digest)?;
        *used = uses;
        Some(script.clone())
    }

    /// Keeps a script.
    pub fn add(&self, script: Arc<Script>) {
        let mut kept = lock(&self.kept);
        kept.uses += 1;
        let uses = kept.uses;
        kept.bytes += script.bytes();
        if let Some((before, _)) = kept.scripts.insert(script.digest, (script, uses)) {
            kept.bytes -= before.bytes();
        }
        if kept.bytes > kept.bytes_max {
            kept.shrink();
        }
    }

    /// Removes all scripts.
    pub fn flush(&self) {
        *lock(&self.kept) = Kept::default();
        self.flushes.fetch_add(1, SeqCst);
    }

    /// Returns the number of flushes.
    pub fn flushes(&self) -> u64 {
        self.flushes.load(SeqCst)
    }

    /// Adds a thread that executes scripts.
    pub fn add_thread(&self) -> Arc<Running> {
        let running = Arc::new(Running {
            began: self.began,
            started_us: AtomicU64::new(0),
            killed_us: AtomicU64::new(0),
            is_stopping: self.is_stopping.clone(),
        });
        let mut threads = lock(&self.threads);
        threads.retain(|thread| thread.strong_count() > 0);
        threads.push(Arc::downgrade(&running));
        running
    }

    /// Ends the scripts that run for long. Returns whether there was one.
    pub fn kill(&self) -> bool {
        let threads: Vec<Arc<Running>> = lock(&self.threads).iter().filter_map(Weak::upgrade).collect();
        // Each of them.
        threads.iter().filter(|running| running.kill()).count() > 0
    }

    /// Ends all scripts: the server stops.
    pub fn stop(&self) {
        self.is_stopping.store(true, SeqCst);
    }
}

impl Kept {
    /// Removes the scripts that were not used for longest: a part of all, so that this is rare.
    fn shrink(&mut self) {
        let mut by_use: Vec<(u64, Digest)> =
            self.scripts.iter().map(|(digest, (_, used))| (*used, *digest)).collect();
        by_use.sort_unstable();
        for (_, digest) in by_use {
            if self.bytes <= self.bytes_max / 8 * 7 {
                break;
            }
            self.bytes -= self.scripts.remove(&digest).map_or(0, |(script, _)| script.bytes());
        }
    }
}

/// What a thread executes.
pub struct Running {
    began: Instant,
    /// When the script started, in microseconds since the server did; 0 if none runs.
    started_us: AtomicU64,
    /// When the script started that was killed last.
    killed_us: AtomicU64,
    is_stopping: Arc<AtomicBool>,
}

/// Why a script must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// SCRIPT KILL.
    Killed,
    /// It has run for too long.
    TooLong,
    /// The server stops.
    ServerStops,
}

impl Running {
    fn now_us(&self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }

    /// Notes that a script starts.
    pub fn start(&self) {
        // 0 is none.
        self.started_us.store(self.now_us().max(1), SeqCst);
    }

    /// Notes that the script has ended.
    pub fn end(&self) {
        self.started_us.store(0, SeqCst);
    }

    /// Returns why the script must end, if it must.
    pub fn must_stop(&self, time_max: Duration) -> Option<Stop> {
        let started_us = self.started_us.load(SeqCst);
        if self.is_stopping.load(SeqCst) {
            Some(Stop::ServerStops)
        } else if self.killed_us.load(SeqCst) == started_us && started_us > 0 {
            Some(Stop::Killed)
        } else if Duration::from_micros(self.now_us().saturating_sub(started_us)) >= time_max {
            Some(Stop::TooLong)
        } else {
            None
        }
    }

    fn kill(&self) -> bool {
        let started_us = self.started_us.load(SeqCst);
        let is_busy =
            started_us > 0 && Duration::from_micros(self.now_us().saturating_sub(started_us)) >= BUSY_TIME;
        if is_busy {
            self.killed_us.store(started_us, SeqCst);
        }
        is_busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_that_are_not_used_make_place_for_others() {
        let scripts = Scripts::default();
        let script = |number: usize| {
            let text = format!("return {number} -- {}", "x".repeat(1000));
            Arc::new(Script::parse(text.as_bytes()).unwrap())
        };
        let bytes_max = 100_000;
        lock(&scripts.kept).bytes_max = bytes_max;
        let first = script(0);
        scripts.add(first.clone());
        let second = script(1);
        scripts.add(second.clone());
        for number in 2..200 {
            scripts.add(script(number));
            assert!(scripts.find(&first.digest).is_some());
            assert!(lock(&scripts.kept).bytes <= bytes_max);
        }
        assert!(scripts.find(&second.digest).is_none());
        scripts.flush();
        assert!(scripts.find(&first.digest).is_none());
        assert_eq!(lock(&scripts.kept).bytes, 0);
    }

    #[test]
    fn only_scripts_that_run_for_long_are_killed() {
        let scripts = Scripts::default();
        let running = scripts.add_thread();
        assert!(!scripts.kill());
        running.start();
        assert_eq!(running.must_stop(Duration::from_secs(3600)), None);
        while !scripts.kill() {
            std::thread::yield_now();
        }
        assert_eq!(running.must_stop(Duration::from_secs(3600)), Some(Stop::Killed));
        running.end();
        assert!(!scripts.kill());
        running.start();
        assert_eq!(running.must_stop(Duration::from_secs(3600)), None, "the next script is not killed");
        assert_eq!(running.must_stop(Duration::ZERO), Some(Stop::TooLong));
        scripts.stop();
        assert_eq!(running.must_stop(Duration::from_secs(3600)), Some(Stop::ServerStops));
    }
}
