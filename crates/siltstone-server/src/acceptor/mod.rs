//! The thread that accepts connections, and gives them to the workers in turn.

mod listener;

pub use listener::{Binding, Listener, listen_at};

use crate::command::{Client, ClientEntry, Context, Counters};
use crate::connection::Socket;
use crate::failure::Failure;
use crate::listen::Protocol;
use crate::protocol::{Reply, Version};
use crate::worker::{Mailbox, Message};
use mio::{Events, Interest, Poll, Token, Waker};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// The token of the waker. The others are the numbers of listeners.
const STOP: Token = Token(usize::MAX);

/// How long the thread waits after the system has refused to accept, such as for want of descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections.
pub struct Acceptor {
    poll: Poll,
    listeners: Vec<Listener>,
    context: Arc<Context>,
    workers: Vec<Arc<Mailbox>>,
    is_stopping: Arc<AtomicBool>,
    accepted: u64,
}

/// Ends an acceptor.
pub struct StopAcceptor {
    is_stopping: Arc<AtomicBool>,
    waker: Waker,
}

impl StopAcceptor {
    /// Ends the acceptor's thread, which closes its socket.
    pub fn stop(&self) {
        self.is_stopping.store(true, Relaxed);
        // It fails only for a thread that has ended.
        let _ = self.waker.wake();
    }
}

impl Acceptor {
    /// Accepts for these workers, of which there is at least one.
    pub fn new(
        mut listeners: Vec<Listener>,
        context: Arc<Context>,
        workers: Vec<Arc<Mailbox>>,
    ) -> io::Result<(Acceptor, StopAcceptor)> {
        let poll = Poll::new()?;
        for (number, listener) in listeners.iter_mut().enumerate() {
            poll.registry().register(listener.source(), Token(number), Interest::READABLE)?;
        }
        let waker = Waker::new(poll.registry(), STOP)?;
        let is_stopping: Arc<AtomicBool> = Arc::default();
        let stop = StopAcceptor { is_stopping: is_stopping.clone(), waker };
        Ok((Acceptor { poll, listeners, context, workers, is_stopping, accepted: 0 }, stop))
    }

    /// Accepts until it is stopped.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(16);
        let mut patience = None;
        while !self.is_stopping.load(Relaxed) {
            match self.poll.poll(&mut events, patience) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                outcome => outcome?,
            }
            // Not all of them have clients that wait. This costs a call of the system.
            let refused = (0..self.listeners.len()).filter(|number| !self.accept(*number)).count();
            patience = (refused > 0).then_some(PAUSE);
        }
        Ok(())
    }

    /// Accepts the clients of a listener. Returns whether none of them waits any more.
    fn accept(&mut self, number: usize) -> bool {
        loop {
            let listener = &self.listeners[number];
            let version = match listener.listen.protocol {
                Protocol::Redis => Version::Resp2,
                Protocol::Memcached => Version::Memcached,
            };
            match listener.accept() {
                Ok((socket, peer)) => self.take(socket, peer, version),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The connection may have ended already. A shortage of descriptors lasts longer.
                Err(_) => return false,
            }
        }
    }

    fn take(&mut self, mut socket: Socket, peer: Option<SocketAddr>, version: Version) {
        let counters = &self.context.counters;
        if counters.open_connections.load(Relaxed) >= self.context.runtime.connections_max() as u64 {
            Counters::add(&counters.rejected_connections, 1);
            let mut out = Vec::new();
            let failure = Failure::new("ERR max number of clients reached");
            Reply::new(&mut out, version).error(failure.message());
            // A client that has gone does not need it, and one with TLS would not understand it yet.
            let _ = socket.write(&out);
            return;
        }
        Counters::add(&counters.connections, 1);
        Counters::add(&counters.open_connections, 1);
        self.accepted += 1;
        let number = self.accepted as usize % self.workers.len();
        let entry = ClientEntry::new(self.accepted, number, peer, socket.local_address());
        let entry = self.context.clients.add(entry);
        let client = Client::new(entry, version, &self.context);
        let worker = &self.workers[number];
        worker.send(Message::Connected(Box::new(socket), Box::new(client)));
    }
}
