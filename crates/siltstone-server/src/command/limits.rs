//! The limits and the counters of a server.

use crate::store::TRANSACTION_BYTES_MAX;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The limits of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The number of connections, which CONFIG SET changes.
    pub connections_max: usize,
    /// The number of words of a request.
    pub words_max: usize,
    /// The length of a word, in bytes.
    pub word_bytes_max: usize,
    /// The bytes of requests of a connection that wait to be executed, besides one request that is longer.
    pub input_bytes_max: usize,
    /// The bytes of replies that a client has not taken, above which its requests wait.
    pub output_bytes_max: usize,
    /// The bytes of the buffers of all connections, above which those with the most are closed; `None` for no limit.
    pub buffer_bytes_max: Option<u64>,
    /// The bytes of messages that a subscriber or a monitor has not taken, besides one message that is longer. With
    /// more it is disconnected.
    pub push_bytes_max: usize,
    /// The bytes of the values that requests find and put which are executed together. With more they are executed one
    /// by one, and one that needs more alone is an error.
    pub transaction_bytes_max: usize,
    /// The largest reply of KEYS, in bytes.
    pub keys_bytes_max: usize,
    /// The time after which a script is stopped. It has changed nothing then.
    pub script_time_max: Duration,
    /// The memory of a script, in bytes, besides 1 MiB for what all scripts see.
    pub script_memory_bytes_max: usize,
    /// The time without a request after which a connection is closed; `None` for never. CONFIG SET changes it.
    pub idle_max: Option<Duration>,
    /// The time after which a connection is closed whose handshake of TLS is not complete.
    pub handshake_max: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections_max: 10_000,
            words_max: 1 << 20,
            word_bytes_max: siltstone::VALUE_LENGTH_MAX,
            input_bytes_max: 1 << 20,
            output_bytes_max: 1 << 20,
            buffer_bytes_max: None,
            push_bytes_max: 32 << 20,
            transaction_bytes_max: TRANSACTION_BYTES_MAX,
            keys_bytes_max: 64 << 20,
            script_time_max: Duration::from_secs(5),
            script_memory_bytes_max: 64 << 20,
            idle_max: None,
            handshake_max: Duration::from_secs(10),
        }
    }
}

impl Limits {
    /// Returns these limits where the server has this much memory, in bytes: the buffers of all connections are limited
    /// to a part of it.
    pub fn within(mut self, memory: Option<u64>) -> Limits {
        let Some(memory) = memory else { return self };
        // Connections below their fair share are never closed, and may have half as much together.
        let max = memory / BUFFERS_PART / 3 * 2;
        self.buffer_bytes_max = Some(max);
        // One request must not fill the buffers of all.
        let word_bytes_max = usize::try_from(max / 2).unwrap_or(usize::MAX);
        self.word_bytes_max = self.word_bytes_max.min(word_bytes_max);
        self
    }
}

/// The buffers of connections have this part of the memory: an eighth.
const BUFFERS_PART: u64 = 8;

/// The least memory of a server, in bytes: with less, requests could not be read.
const MEMORY_MIN: u64 = 1 << 20;

/// Returns the part of the memory of a server that databases and dictionaries have, in bytes.
pub fn memory_of_places(memory: u64) -> u64 {
    memory - memory / BUFFERS_PART
}

/// Returns the least memory of a server whose databases and dictionaries need this many bytes.
pub fn memory_for_places(bytes: u64) -> u64 {
    let about = bytes + bytes / (BUFFERS_PART - 1);
    (about..).find(|memory| memory_of_places(*memory) >= bytes).unwrap_or(u64::MAX).max(MEMORY_MIN)
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
    /// Connections that were closed because the buffers of all had too many bytes.
    pub evicted_connections: AtomicU64,
    /// The bytes of the buffers of all connections now.
    pub buffer_bytes: AtomicU64,
    /// Connections that were closed because they had no request for too long.
    pub idle_connections: AtomicU64,
    /// Connections whose requests had to wait because the client did not take its replies.
    pub held_back_connections: AtomicU64,
    /// Connections that ended before their handshake of TLS was complete.
    pub failed_handshakes: AtomicU64,
    /// Those of them that were closed because it took too long.
    pub late_handshakes: AtomicU64,
    /// Connections that ended because their bytes were not of the protocol, or a request was above a limit.
    pub protocol_errors: AtomicU64,
    /// Attempts to authenticate that have failed.
    pub denied_authentications: AtomicU64,
    /// Requests whose command was not allowed to the user.
    pub denied_commands: AtomicU64,
    /// Requests of which a key was not allowed to the user.
    pub denied_keys: AtomicU64,
    /// Requests of which a channel was not allowed to the user.
    pub denied_channels: AtomicU64,
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
    /// Messages and lines of monitors, each as often as it has receivers.
    pub pushes: AtomicU64,
    /// Subscribers and monitors that were disconnected because they did not take what they got.
    pub slow_receivers: AtomicU64,
}

impl Counters {
    /// Adds to a counter.
    pub fn add(counter: &AtomicU64, number: u64) {
        counter.fetch_add(number, Relaxed);
    }

    /// Sets all counters to 0, but those of what is there now.
    pub fn reset(&self) {
        for counter in [
            &self.connections,
            &self.rejected_connections,
            &self.evicted_connections,
            &self.idle_connections,
            &self.held_back_connections,
            &self.failed_handshakes,
            &self.late_handshakes,
            &self.protocol_errors,
            &self.denied_authentications,
            &self.denied_commands,
            &self.denied_keys,
            &self.denied_channels,
            &self.commands,
            &self.errors,
            &self.hits,
            &self.misses,
            &self.input_bytes,
            &self.output_bytes,
            &self.pushes,
            &self.slow_receivers,
        ] {
            counter.store(0, Relaxed);
        }
    }
}
