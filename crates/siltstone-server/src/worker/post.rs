//! Messages between connections: what the commands of a turn have sent is collected, and goes to the other workers at
//! the end of the turn, which wakes each of them once.
//!
//! ```text
//! worker 0   PUBLISH a .., PUBLISH b ..  -->  outbox  -->  parcels by worker  --> mailbox of worker 1
//! worker 1   mailbox  -->  output of each receiver  -->  one write to each socket, or for each 64 KiB
//! ```
//!
//! A worker that gets more than it delivers would need more and more memory. So its mailbox has a limit: connections
//! that have sent something in a turn which exceeded it are held back, and execute nothing until that worker has
//! delivered some. A receiver that does not take its messages is disconnected at a limit of its own.

use super::Worker;
use super::mailbox::{Mailbox, Message};
use crate::command::{Client, Counters, Parcel, Place, Source, push_monitor_line};
use crate::connection::{Asked, Connection, Run};
use crate::protocol::Version;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The bytes of messages of a turn from which on they are sent before the others come: the buffer of each receiver stays
/// small.
const WRITE_BYTES: usize = 64 << 10;

/// What the connections of a worker have for others.
pub struct Post {
    /// The number of the worker.
    pub worker: usize,
    /// The mailboxes of all workers, by their numbers.
    pub peers: Arc<[Arc<Mailbox>]>,
    /// Parcels of the turn, by worker.
    collected: Vec<Vec<Parcel>>,
    /// The connections that have sent something in the turn, with the numbers of their clients.
    senders: Vec<Place>,
    /// The connections that are held back.
    held_back: Vec<Place>,
}

impl Post {
    /// Makes the post of a worker.
    pub fn new(worker: usize, peers: Arc<[Arc<Mailbox>]>) -> Post {
        let collected = peers.iter().map(|_| Vec::new()).collect();
        Post { worker, peers, collected, senders: Vec::new(), held_back: Vec::new() }
    }

    /// Takes what a connection has for others.
    pub fn collect(&mut self, connection: usize, client: &mut Client) {
        if client.outbox.is_empty() {
            return;
        }
        self.senders.push(Place { connection, client: client.id });
        for (worker, parcel) in client.outbox.drain(..) {
            self.collected[worker].push(parcel);
        }
    }
}

impl Worker {
    /// Sends what was collected, and delivers what is for connections of this worker.
    pub(super) fn send_parcels(&mut self) {
        if self.post.senders.is_empty() {
            return;
        }
        let (mut is_too_much, mut own) = (false, Vec::new());
        for (worker, parcels) in self.post.collected.iter_mut().enumerate() {
            let parcels = std::mem::take(parcels);
            if worker == self.post.worker {
                own = parcels;
            } else if !parcels.is_empty() {
                is_too_much |= self.post.peers[worker].send_parcels(parcels);
            }
        }
        let senders = std::mem::take(&mut self.post.senders);
        if is_too_much {
            for place in senders {
                if let Some(connection) = find(&mut self.connections, place) {
                    connection.is_held_back = true;
                    self.post.held_back.push(place);
                }
            }
        }
        self.deliver(own);
    }

    /// Lets the connections that were held back execute commands.
    pub(super) fn release_senders(&mut self) {
        for place in std::mem::take(&mut self.post.held_back) {
            if let Some(connection) = find(&mut self.connections, place) {
                connection.is_held_back = false;
                self.enqueue(place.connection);
            }
        }
    }

    /// Takes parcels of another worker.
    pub(super) fn take_parcels(&mut self, parcels: Vec<Parcel>, bytes: usize) {
        self.deliver(parcels);
        if self.mailbox.note_delivered(bytes) {
            let others = self.post.peers.iter().enumerate().filter(|(worker, _)| *worker != self.post.worker);
            others.for_each(|(_, mailbox)| mailbox.send(Message::Relieved));
        }
    }

    /// Delivers parcels: each connection is written to once, after all of them.
    fn deliver(&mut self, parcels: Vec<Parcel>) {
        let (mut receivers, mut pushes) = (Vec::new(), 0);
        for parcel in parcels {
            match parcel {
                Parcel::Wake => {}
                Parcel::Kill(place) => {
                    if find(&mut self.connections, place).is_some() {
                        self.close(place.connection);
                    }
                }
                Parcel::Push { source, receivers: places, bytes } => {
                    for place in places.iter() {
                        pushes += u64::from(self.push(*place, &source, &bytes, &mut receivers));
                    }
                }
            }
        }
        Counters::add(&self.context.counters.pushes, pushes);
        for number in receivers {
            if let Some(connection) = self.connections.get_mut(number) {
                connection.is_pushed = false;
                self.finish_turn(number);
            }
        }
    }

    /// Appends a message to the output of a connection. Returns whether the connection gets it.
    fn push(&mut self, place: Place, source: &Source, bytes: &[u8], receivers: &mut Vec<usize>) -> bool {
        let connection = find(&mut self.connections, place);
        // It may have unsubscribed, and must get nothing then: it would take it for the reply of a command.
        let Some(connection) = connection.filter(|connection| connection.client.subscriptions.has(source))
        else {
            return false;
        };
        let (counters, limits) = (&self.context.counters, &self.context.limits);
        let is_line = *source == Source::Monitor;
        if !connection.push(bytes, is_line, limits) {
            // The socket may take some of it.
            let sent = connection.flush();
            Counters::add(&counters.output_bytes, *sent.as_ref().unwrap_or(&0) as u64);
            if sent.is_err() || !connection.push(bytes, is_line, limits) {
                Counters::add(&counters.slow_receivers, u64::from(sent.is_ok()));
                self.close(place.connection);
                return false;
            }
        }
        if !std::mem::replace(&mut connection.is_pushed, true) {
            receivers.push(place.connection);
        }
        if connection.unsent_bytes() >= WRITE_BYTES {
            // An error is seen again after all messages.
            Counters::add(&counters.output_bytes, connection.flush().unwrap_or_default() as u64);
        }
        true
    }

    /// Sends the lines of a run to the connections that monitor, if there are some.
    pub(super) fn show_to_monitors(&mut self, number: usize, run: &Run) {
        if !self.context.channels.are_monitored() {
            return;
        }
        let connection = &mut self.connections[number];
        let lines = lines_of(connection, run);
        if !lines.is_empty() {
            self.context.channels.post_to_monitors(lines, &mut connection.client.outbox);
            self.post.collect(number, &mut connection.client);
        }
    }
}

/// Returns the connection at a place, if it is still there.
fn find(connections: &mut slab::Slab<Connection>, place: Place) -> Option<&mut Connection> {
    connections.get_mut(place.connection).filter(|connection| connection.client.id == place.client)
}

/// Returns the lines of a run for monitors. Those of a transaction come with EXEC. Requests of memcached's protocol
/// have none.
fn lines_of(connection: &Connection, run: &Run) -> Vec<u8> {
    let client = &connection.client;
    let mut lines = Vec::new();
    if client.version == Version::Memcached {
        return lines;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut push = |words: &[&[u8]]| {
        push_monitor_line(&mut lines, now, client.database, client.entry.peer, words);
    };
    for asked in &run.asked {
        // As in Redis, commands of administrators are not shown.
        let Ok(command) = &asked.command else { continue };
        let is_shown = !command.flags.contains(&"admin");
        match &client.transaction {
            Some(_) if !command.is_never_queued() => {}
            Some(transaction) if command.name == "exec" && !transaction.is_failed => {
                for queued in &transaction.queued {
                    push(&queued.words.iter().map(Vec::as_slice).collect::<Vec<_>>());
                }
                push(&words_of(connection, asked));
            }
            _ if is_shown => push(&words_of(connection, asked)),
            _ => {}
        }
    }
    lines
}

fn words_of<'a>(connection: &'a Connection, asked: &'a Asked) -> Vec<&'a [u8]> {
    connection.words(asked).collect()
}
