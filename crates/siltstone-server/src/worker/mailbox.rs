//! Messages to a worker, from the thread that accepts connections and from helper threads.

use super::pace::Pace;
use super::updates::Answer;
use crate::command::Client;
use crate::connection::RunKind;
use mio::Waker;
use mio::net::TcpStream;
use std::sync::{Mutex, PoisonError};

/// A message to a worker.
pub enum Message {
    /// A new connection.
    Connected(Box<TcpStream>, Box<Client>),
    /// A helper thread has executed a command.
    Answered {
        /// The number of the connection in the worker.
        connection: usize,
        /// The number of the client, which no other connection has.
        client: u64,
        /// The reply.
        reply: Vec<u8>,
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
    /// The server stops.
    Stop,
}

/// Messages that the worker has not taken. It is woken for them.
pub struct Mailbox {
    messages: Mutex<Vec<Message>>,
    waker: Waker,
}

impl Mailbox {
    /// Makes an empty mailbox of the worker that the waker wakes.
    pub fn new(waker: Waker) -> Mailbox {
        Mailbox { messages: Mutex::default(), waker }
    }

    /// Adds a message.
    pub fn send(&self, message: Message) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        // It fails only for a worker that has ended.
        let _ = self.waker.wake();
    }

    /// Removes all messages.
    pub fn take(&self) -> Vec<Message> {
        std::mem::take(&mut self.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
