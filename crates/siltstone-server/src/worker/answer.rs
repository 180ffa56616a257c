//! What requests of a connection reply and send, while they may be repeated.

use crate::command::{Client, Denial, Outbox, User};
use crate::protocol::Version;
use std::sync::Arc;

/// A connection with requests in the job.
pub struct Answer {
    /// Its number in the worker.
    pub connection: usize,
    /// The number of the client.
    pub client: u64,
    /// The replies.
    pub reply: Vec<u8>,
    /// The client, if commands about it may have changed it.
    pub changed: Option<Box<Client>>,
    /// What the requests have for other connections. The worker sends it after them.
    pub outbox: Outbox,
    /// What its scripts were denied.
    pub denials: Vec<Denial>,
    /// The version of its protocol.
    pub version: Version,
    /// Who sends its requests.
    pub user: Arc<User>,
    /// The number of requests, but for those that are not executed yet.
    pub requests: usize,
}

/// The lengths of what requests have replied, sent, and were denied.
pub type Lengths = (usize, usize, usize);

impl Answer {
    /// Makes what is for a connection that has no requests yet.
    pub fn new(connection: usize, client: &Client) -> Answer {
        Answer {
            connection,
            client: client.id,
            reply: Vec::new(),
            changed: None,
            outbox: Outbox::new(),
            denials: Vec::new(),
            version: client.version,
            user: client.user.clone(),
            requests: 0,
        }
    }

    /// Removes what failed commands have done, also what they have sent.
    pub fn clear(&mut self) {
        self.restore((0, 0, 0));
        self.changed = None;
    }

    /// Returns how much the requests have replied, sent, and were denied.
    pub fn lengths(&self) -> Lengths {
        (self.reply.len(), self.outbox.len(), self.denials.len())
    }

    /// Removes what requests have replied, sent, and were denied since then.
    pub fn restore(&mut self, (reply, outbox, denials): Lengths) {
        self.reply.truncate(reply);
        self.outbox.truncate(outbox);
        self.denials.truncate(denials);
    }
}
