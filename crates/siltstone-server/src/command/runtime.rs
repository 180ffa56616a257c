//! What CONFIG SET changes while the server runs.

use super::limits::Limits;
use siltstone::Durability;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// What a write survives when it is acknowledged, by the names of Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syncs {
    /// What the databases were opened with: the end of the process, or nothing.
    No,
    /// Like that, and a power loss a second later: a thread syncs all databases each second.
    EverySecond,
    /// A power loss.
    Always,
}

impl Syncs {
    /// All values, with their names.
    pub const ALL: [(&str, Syncs); 3] =
        [("everysec", Syncs::EverySecond), ("always", Syncs::Always), ("no", Syncs::No)];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        Syncs::ALL.iter().find(|(_, syncs)| *syncs == self).map_or("", |(name, _)| name)
    }
}

/// The time between two syncs of all databases.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// The settings that change while the server runs. A change counts for what begins after it.
#[derive(Debug)]
pub struct Runtime {
    connections_max: AtomicUsize,
    /// 0 for never.
    idle_max_ms: AtomicU64,
    syncs: AtomicU8,
    slow_us: AtomicI64,
    slow_entries_max: AtomicUsize,
    /// 0 for no limit.
    memory_bytes: AtomicU64,
    /// A client has asked for the end of the server.
    is_shutdown: AtomicBool,
    /// Whether the thread that syncs shall end.
    is_stopping: Mutex<bool>,
    changed: Condvar,
}

impl Runtime {
    /// Makes the settings of a server that starts.
    pub fn new(limits: &Limits, durability: Durability, memory: Option<u64>) -> Runtime {
        let runtime = Runtime {
            connections_max: AtomicUsize::new(limits.connections_max),
            idle_max_ms: AtomicU64::new(0),
            syncs: AtomicU8::new(0),
            slow_us: AtomicI64::new(10_000),
            slow_entries_max: AtomicUsize::new(128),
            memory_bytes: AtomicU64::new(memory.unwrap_or(0)),
            is_shutdown: AtomicBool::new(false),
            is_stopping: Mutex::new(false),
            changed: Condvar::new(),
        };
        runtime.set_idle_max(limits.idle_max);
        runtime.set_syncs(if durability == Durability::Synced { Syncs::Always } else { Syncs::No });
        runtime
    }

    /// Returns the number of connections.
    pub fn connections_max(&self) -> usize {
        self.connections_max.load(Relaxed)
    }

    /// Sets the number of connections. Those that are open stay open.
    pub fn set_connections_max(&self, connections: usize) {
        self.connections_max.store(connections, Relaxed);
    }

    /// Returns the time without a request after which a connection is closed; `None` for never.
    pub fn idle_max(&self) -> Option<Duration> {
        Some(self.idle_max_ms.load(Relaxed)).filter(|time| *time > 0).map(Duration::from_millis)
    }

    /// Sets the time without a request after which a connection is closed.
    pub fn set_idle_max(&self, time: Option<Duration>) {
        let time_ms = time.map_or(0, |time| time.as_millis().max(1));
        self.idle_max_ms.store(u64::try_from(time_ms).unwrap_or(u64::MAX), Relaxed);
    }

    /// Returns what a write survives.
    pub fn syncs(&self) -> Syncs {
        match self.syncs.load(Relaxed) {
            0 => Syncs::No,
            1 => Syncs::EverySecond,
            _ => Syncs::Always,
        }
    }

    /// Sets what a write survives.
    pub fn set_syncs(&self, syncs: Syncs) {
        // Under the lock: the thread that syncs would miss it otherwise.
        let _is_stopping = self.is_stopping.lock().unwrap_or_else(PoisonError::into_inner);
        self.syncs.store(syncs as u8, Relaxed);
        self.changed.notify_all();
    }

    /// Returns the least time of a slow execution, in microseconds; none is slow if it is negative.
    pub fn slow_us(&self) -> i64 {
        self.slow_us.load(Relaxed)
    }

    /// Sets the least time of a slow execution.
    pub fn set_slow_us(&self, time_us: i64) {
        self.slow_us.store(time_us, Relaxed);
    }

    /// Returns the number of slow executions that are kept.
    pub fn slow_entries_max(&self) -> usize {
        self.slow_entries_max.load(Relaxed)
    }

    /// Sets the number of slow executions that are kept.
    pub fn set_slow_entries_max(&self, entries: usize) {
        self.slow_entries_max.store(entries, Relaxed);
    }

    /// Returns the memory of databases, dictionaries and buffers together, in bytes, if it is limited.
    pub fn memory(&self) -> Option<u64> {
        Some(self.memory_bytes.load(Relaxed)).filter(|bytes| *bytes > 0)
    }

    /// Notes the limit of memory, which the databases keep already.
    pub fn set_memory(&self, bytes: Option<u64>) {
        self.memory_bytes.store(bytes.unwrap_or(0), Relaxed);
    }

    /// Asks for the end of the server.
    pub fn shut_down(&self) {
        self.is_shutdown.store(true, Relaxed);
    }

    /// Returns whether a client has asked for the end of the server.
    pub fn is_shutdown(&self) -> bool {
        self.is_shutdown.load(Relaxed)
    }

    /// Ends the thread that syncs.
    pub fn stop_syncs(&self) {
        *self.is_stopping.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits until the databases are to be synced. Returns whether they are; otherwise the server stops.
    pub fn wait_for_sync(&self) -> bool {
        let mut is_stopping = self.is_stopping.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_stopping {
            if self.syncs() != Syncs::EverySecond {
                is_stopping = self.changed.wait(is_stopping).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let waited = self.changed.wait_timeout(is_stopping, SYNC_INTERVAL);
            let (guard, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            is_stopping = guard;
            if timeout.timed_out() {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_begin_as_the_server_was_started() {
        let limits = Limits { idle_max: Some(Duration::from_micros(50)), ..Limits::default() };
        let runtime = Runtime::new(&limits, Durability::Synced, None);
        assert_eq!((runtime.syncs(), runtime.idle_max()), (Syncs::Always, Some(Duration::from_millis(1))));
        for (name, syncs) in Syncs::ALL {
            runtime.set_syncs(syncs);
            assert_eq!((runtime.syncs(), syncs.name()), (syncs, name));
        }
        let runtime = Runtime::new(&Limits::default(), Durability::Written, None);
        assert_eq!((runtime.syncs(), runtime.idle_max()), (Syncs::No, None));
    }

    #[test]
    fn a_stop_ends_the_wait_for_a_sync() {
        let runtime = Runtime::new(&Limits::default(), Durability::Written, None);
        runtime.set_syncs(Syncs::EverySecond);
        runtime.stop_syncs();
        assert!(!runtime.wait_for_sync());
    }
}
