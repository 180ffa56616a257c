//! Messages between connections: what the commands of a turn have sent is collected, and goes to the other workers at
//! the end of the turn, which wakes each of them once.
//!
//! ```text
//! worker 0   PUBLISH a .., PUBLISH b ..  -->  outbox  -->  parcels by worker  --> mailbox of worker 1
//! worker 1   mailbox  -->  output of each receiver  -->  one write to each socket
//! ```
//!
//! A worker that gets more than it delivers would need more and more memory. So its mailbox has a limit: connections
//! that have sent something in a turn which exceeded it are held back, and execute nothing until that worker has
//! delivered some. A receiver that does not take its messages is disconnected at a limit of its own.

use super::Worker;
use super::mailbox::{Mailbox, Message};
use crate::command::{Counters, Kind, Name, Outbox, Parcel, Place, Source, push_monitor_line};
use crate::connection::{Asked, Connection, Run};
use crate::protocol::{Version, push};
use siltstone::Bytes;
use std::cell::OnceCell;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The bytes of messages from which on they are written from where they are, before others come. Fewer are copied into
/// the output of each receiver, and written with others.
const WRITE_BYTES: usize = 4 << 10;

/// The bytes of messages that are put together, besides one that is longer.
const TOGETHER_BYTES_MAX: usize = 256 << 10;

/// Messages of the same source that follow each other.
struct Messages<'a> {
    source: &'a Source,
    all: Vec<&'a Bytes>,
    bytes: usize,
    /// As they are for RESP 2 and for RESP 3, once a receiver needs them.
    of_versions: [OnceCell<Vec<u8>>; 2],
}

impl<'a> Messages<'a> {
    fn new(source: &'a Source, first: &'a Bytes) -> Messages<'a> {
        Messages { source, all: vec![first], bytes: first.len(), of_versions: Default::default() }
    }

    /// Adds a message. Returns whether it has: there may be enough.
    fn add(&mut self, message: &'a Bytes) -> bool {
        if self.bytes + message.len() > TOGETHER_BYTES_MAX {
            return false;
        }
        self.bytes += message.len();
        self.all.push(message);
        true
    }

    /// Returns the bytes of all messages. The lines of a monitor are the same in all versions.
    fn of_version(&self, version: Version) -> &[u8] {
        let version = if *self.source == Source::Monitor { Version::Resp2 } else { version };
        self.of_versions[usize::from(version == Version::Resp3)].get_or_init(|| {
            let mut bytes = Vec::with_capacity(self.bytes);
            self.all.iter().for_each(|message| push::append(&mut bytes, message, version));
            bytes
        })
    }
}

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
    pub fn collect(&mut self, sender: Place, outbox: &mut Outbox) {
        if outbox.is_empty() {
            return;
        }
        self.senders.push(sender);
        for (worker, parcel) in outbox.drain(..) {
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

    /// Delivers parcels. Messages that follow each other and have the same receivers are put together once, for all of
    /// them.
    fn deliver(&mut self, parcels: Vec<Parcel>) {
        let mut receivers = Vec::new();
        let mut rest = &parcels[..];
        while let Some((first, others)) = rest.split_first() {
            rest = others;
            match first {
                Parcel::Wake => {}
                Parcel::Revoke { name, receivers: places } => {
                    places.iter().for_each(|place| self.revoke(*place, name, &mut receivers));
                }
                Parcel::Kill(place) => {
                    if find(&mut self.connections, *place).is_some() {
                        self.close(place.connection);
                    }
                }
                Parcel::Push { source, receivers: places, bytes } => {
                    let mut messages = Messages::new(source, bytes);
                    while let Some((Parcel::Push { receivers: same, bytes, .. }, others)) = rest.split_first()
                        && Arc::ptr_eq(same, places)
                        && messages.add(bytes)
                    {
                        rest = others;
                    }
                    places.iter().for_each(|place| self.push(*place, &messages, &mut receivers));
                }
            }
        }
        for number in receivers {
            if let Some(connection) = self.connections.get_mut(number) {
                connection.is_pushed = false;
                self.finish_turn(number);
            }
        }
    }

    /// Sends messages to a connection, or appends them to its output.
    fn push(&mut self, place: Place, messages: &Messages<'_>, receivers: &mut Vec<usize>) {
        let connection = find(&mut self.connections, place);
        // It may have unsubscribed, and must get nothing then: it would take it for the reply of a command.
        let is_subscribed =
            |connection: &&mut Connection| connection.client.subscriptions.has(messages.source);
        let Some(connection) = connection.filter(is_subscribed) else { return };
        // It ends when its replies are sent, and not before.
        if connection.client.is_closing {
            return;
        }
        // A receiver may send no request at which a change of its user would be seen.
        connection.client.take_over(&self.context.users);
        if connection.client.is_closing {
            return self.close(place.connection);
        }
        let bytes = messages.of_version(connection.client.version);
        let counters = &self.context.counters;
        match connection.push(bytes, bytes.len() >= WRITE_BYTES, &self.context.limits) {
            Ok(Some(sent_bytes)) => {
                Counters::add(&counters.pushes, messages.all.len() as u64);
                Counters::add(&counters.output_bytes, sent_bytes as u64);
                if !std::mem::replace(&mut connection.is_pushed, true) {
                    receivers.push(place.connection);
                }
            }
            Ok(None) => {
                Counters::add(&counters.slow_receivers, 1);
                self.close(place.connection);
            }
            Err(_) => self.close(place.connection),
        }
    }

    /// Ends a subscription to a channel that belongs to a slot, and says so to the connection.
    fn revoke(&mut self, place: Place, name: &Name, receivers: &mut Vec<usize>) {
        let Some(connection) = find(&mut self.connections, place) else { return };
        let left = connection.client.subscriptions.confirmed(Kind::Shard).saturating_sub(1);
        let bytes = Bytes::from(push::shard_unsubscribed(name, left));
        let source = Source::Subscription(Kind::Shard, name.clone());
        self.push(place, &Messages::new(&source, &bytes), receivers);
        if let Some(connection) = find(&mut self.connections, place) {
            connection.client.subscriptions.remove(Kind::Shard, name);
        }
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
            self.post.collect(connection.client.entry.place(), &mut connection.client.outbox);
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
    for asked in run.asked.iter().filter(|asked| !asked.was_taken) {
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
