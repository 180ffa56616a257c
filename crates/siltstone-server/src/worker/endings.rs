//! Connections that end although their clients do not want it: those without a request for too long, those whose
//! handshake takes too long, and those that a fault of the server concerns.

use super::Worker;
use super::lookup::Lookup;
use crate::command::{Context, Counters};
use crate::connection::Connection;
use crate::failure::Failure;
use crate::protocol::Reply;
use std::time::{Duration, Instant};

/// How often connections without requests are looked for.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);

const PANICKED: Failure = Failure::new(
    "ERR a fault of the server has ended this request, which may have taken effect; the connection ends",
);

impl Worker {
    /// Returns how often connections are looked for that are to be closed; `None` if none ever is.
    pub(super) fn look_interval(&self) -> Option<Duration> {
        let (limits, idle_max) = (&self.context.limits, self.context.runtime.idle_max());
        let has_handshakes = self.context.listeners.iter().any(|listen| listen.address.is_tls());
        let shortest = idle_max.into_iter().chain(has_handshakes.then_some(limits.handshake_max)).min();
        shortest.map(|time| time.min(IDLE_INTERVAL))
    }

    /// Closes the connections without a request for too long, and those whose handshake takes too long, now and then.
    pub(super) fn close_late(&mut self) {
        let Some(interval) = self.look_interval() else { return };
        let now = Instant::now();
        if now.duration_since(self.looked_at) < interval {
            return;
        }
        self.looked_at = now;
        let Context { limits, counters, .. } = &*self.context;
        let (mut late, idle_max) = (Vec::new(), self.context.runtime.idle_max());
        // Those who wait for messages are not idle.
        let is_watched = |connection: &Connection| !connection.is_waiting && !connection.is_receiver();
        for (number, connection) in self.connections.iter().filter(|(_, connection)| is_watched(connection)) {
            let (time_max, counter) = match connection.is_handshaking() {
                true => (Some(limits.handshake_max), &counters.late_handshakes),
                false => (idle_max, &counters.idle_connections),
            };
            if time_max.is_some_and(|most| now.saturating_duration_since(connection.used_at) >= most) {
                Counters::add(counter, 1);
                late.push(number);
            }
        }
        late.into_iter().for_each(|number| self.close(number));
    }

    /// Ends a connection whose request has made a helper thread panic.
    pub(super) fn end_broken(&mut self, number: usize, client: u64) {
        let connection = self.connections.get_mut(number);
        if let Some(connection) = connection.filter(|connection| connection.client.id == client) {
            connection.client.is_closing = true;
            let mut reply = Vec::new();
            Reply::new(&mut reply, connection.client.version).error(PANICKED.message());
            self.answer(number, client, reply);
        }
    }

    /// Closes all connections after a panic: what they wait for is not known. Their clients connect again.
    pub(super) fn give_up(&mut self) {
        let numbers: Vec<usize> = self.connections.iter().map(|(number, _)| number).collect();
        numbers.into_iter().for_each(|number| self.close(number));
        self.queue.clear();
        self.collected.clear();
        self.lookup = Lookup::default();
    }
}
