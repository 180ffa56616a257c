//! Messages to a worker, from the thread that accepts connections, from helper threads, and from other workers.

use super::answer::Answer;
use super::pace::Pace;
use crate::command::{Client, Outbox, Parcel};
use crate::connection::{RunKind, Socket};
use mio::Waker;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// The bytes of parcels that a worker has not delivered, above which connections that send it more have to wait.
const UNDELIVERED_BYTES_MAX: usize = 4 << 20;

/// A message to a worker.
pub enum Message {
    /// A new connection.
    Connected(Box<Socket>, Box<Client>),
    /// A helper thread has executed a command.
    Answered {
        /// The number of the connection in the worker.
        connection: usize,
        /// The number of the client, which no other connection has.
        client: u64,
        /// The reply.
        reply: Vec<u8>,
        /// What the command has for connections.
        outbox: Outbox,
    },
    /// A helper thread has executed requests.
    Executed {
        /// The replies.
        answers: Vec<Answer>,
        /// What they are.
        kind: RunKind,
        /// The database, if its keys were only read, and how long the lookup took.
        lookup: Option<(usize, Pace)>,
    },
    /// A helper thread has panicked.
    Broken {
        /// The numbers of the connections and of their clients, whose requests it had.
        places: Vec<(usize, u64)>,
        /// What the requests were, if they were of several connections.
        kind: Option<RunKind>,
    },
    /// Another worker has messages for connections, of all connections of a turn.
    Parcels {
        /// The messages, in their order.
        parcels: Vec<Parcel>,
        /// Their bytes.
        bytes: usize,
    },
    /// Another worker, which had too many parcels, has delivered some.
    Relieved,
    /// The server stops.
    Stop,
}

/// Messages that the worker has not taken. It is woken for them.
pub struct Mailbox {
    messages: Mutex<Vec<Message>>,
    /// The bytes of parcels that were sent and are not delivered.
    undelivered_bytes: AtomicUsize,
    waker: Waker,
}

impl Mailbox {
    /// Makes an empty mailbox of the worker that the waker wakes.
    pub fn new(waker: Waker) -> Mailbox {
        Mailbox { messages: Mutex::default(), undelivered_bytes: AtomicUsize::new(0), waker }
    }

    /// Adds a message.
    pub fn send(&self, message: Message) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        // It fails only for a worker that has ended.
        let _ = self.waker.wake();
    }

    /// Adds parcels. Returns whether the worker has too many, so that senders have to wait.
    pub fn send_parcels(&self, parcels: Vec<Parcel>) -> bool {
        let bytes = parcels.iter().map(Parcel::bytes).sum();
        let before = self.undelivered_bytes.fetch_add(bytes, Relaxed);
        self.send(Message::Parcels { parcels, bytes });
        before + bytes > UNDELIVERED_BYTES_MAX
    }

    /// Notes that parcels of this many bytes are delivered. Returns whether senders had to wait, and have not to any
    /// more.
    pub fn note_delivered(&self, bytes: usize) -> bool {
        let before = self.undelivered_bytes.fetch_sub(bytes, Relaxed);
        before > UNDELIVERED_BYTES_MAX && before - bytes <= UNDELIVERED_BYTES_MAX
    }

    /// Removes all messages.
    pub fn take(&self) -> Vec<Message> {
        std::mem::take(&mut self.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
