//! The memory of the connections' buffers, which the limit of the server includes.
//!
//! The bytes of all buffers are counted after each turn. If there are too many, a worker closes those of its
//! connections that have the most, as long as they have more than a fair share: a client that takes no replies, or that
//! sends one request of many megabytes while others do the same. Below their fair share, connections are never closed.

use super::Worker;
use crate::command::Counters;
use crate::connection::Connection;
use std::sync::atomic::Ordering::Relaxed;

/// Counts what the buffers of a connection have now.
pub fn count(counters: &Counters, connection: &mut Connection) {
    let (before, now) = (connection.counted_bytes, connection.buffer_bytes());
    // Most turns leave the buffers as they were.
    if before != now {
        connection.counted_bytes = now;
        counters.buffer_bytes.fetch_add((now as u64).wrapping_sub(before as u64), Relaxed);
    }
}

/// Counts the buffers of a connection that is closed no more.
pub fn forget(counters: &Counters, connection: &Connection) {
    counters.buffer_bytes.fetch_sub(connection.counted_bytes as u64, Relaxed);
}

impl Worker {
    /// Closes connections until the buffers of all are within the limit, or no connection has more than its fair share.
    pub(super) fn evict(&mut self) {
        let Some(max) = self.context.limits_now().buffer_bytes_max else { return };
        let context = self.context.clone();
        let counters = &context.counters;
        while counters.buffer_bytes.load(Relaxed) > max {
            let connections = counters.open_connections.load(Relaxed).max(1);
            let fair_bytes = usize::try_from(max / 2 / connections).unwrap_or(usize::MAX);
            let largest = self.connections.iter().max_by_key(|(_, connection)| connection.counted_bytes);
            let Some((number, _)) = largest.filter(|(_, largest)| largest.counted_bytes > fair_bytes) else {
                return;
            };
            Counters::add(&counters.evicted_connections, 1);
            self.close(number);
        }
    }
}
