//! The limits and the counters of a server.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The limits of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The number of connections.
    pub connections_max: usize,
    /// The number of words of a request.
    pub words_max: usize,
    /// The length of a word, in bytes.
    pub word_bytes_max: usize,
    /// The bytes of requests of a connection that wait to be executed, besides one request that is longer.
    pub input_bytes_max: usize,
    /// The bytes of replies that a client has not taken, above which its requests wait.
    pub output_bytes_max: usize,
    /// The largest reply of KEYS, in bytes.
    pub keys_bytes_max: usize,
    /// The time after which a script is stopped. It has changed nothing then.
    pub script_time_max: Duration,
    /// The memory of a script, in bytes, besides 1 MiB for what all scripts see.
    pub script_memory_bytes_max: usize,
    /// The time without a request after which a connection is closed; `None` for never.
    pub idle_max: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections_max: 10_000,
            words_max: 1 << 20,
            word_bytes_max: siltstone::VALUE_LENGTH_MAX,
            input_bytes_max: 1 << 20,
            output_bytes_max: 1 << 20,
            keys_bytes_max: 64 << 20,
            script_time_max: Duration::from_secs(5),
            script_memory_bytes_max: 64 << 20,
            idle_max: None,
        }
    }
}

/// Counters since the server started.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections that were accepted.
    pub connections: AtomicU64,
    /// Connections that are open.
    pub open_connections: AtomicU64,
    /// Connections that were refused because there were too many.
    pub rejected_connections: AtomicU64,
    /// Commands that were executed.
    pub commands: AtomicU64,
    /// Replies that are errors.
    pub errors: AtomicU64,
    /// Keys that lookups found.
    pub hits: AtomicU64,
    /// Keys that lookups did not find.
    pub misses: AtomicU64,
    /// Bytes of requests.
    pub input_bytes: AtomicU64,
    /// Bytes of replies.
    pub output_bytes: AtomicU64,
}

impl Counters {
    /// Adds to a counter.
    pub fn add(counter: &AtomicU64, number: u64) {
        counter.fetch_add(number, Relaxed);
    }

    /// Sets all counters to 0, but that of the connections that are open.
    pub fn reset(&self) {
        for counter in [
            &self.connections,
            &self.rejected_connections,
            &self.commands,
            &self.errors,
            &self.hits,
            &self.misses,
            &self.input_bytes,
            &self.output_bytes,
        ] {
            counter.store(0, Relaxed);
        }
    }
}
