//! What commands know of the server and of their connection.

use super::transaction::{Transaction, Watched, Watches};
use crate::protocol::Version;
use crate::store::Places;
use siltstone::Durability;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Instant, SystemTime};

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
    /// The idle time after which a connection is closed, in seconds; 0 for never.
    pub idle_s: u64,
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
            idle_s: 0,
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

/// What all connections of a server share.
pub struct Context {
    /// The databases.
    pub places: Places,
    /// The limits.
    pub limits: Limits,
    /// The password that connections need, if any.
    pub password: Option<String>,
    /// The number of threads that execute commands.
    pub workers: usize,
    /// The address of Redis's protocol.
    pub redis: Option<SocketAddr>,
    /// The address of memcached's protocol.
    pub memcached: Option<SocketAddr>,
    /// The counters.
    pub counters: Counters,
    /// The keys that connections watch.
    pub watches: Watches,
    /// What a write survives when it is acknowledged.
    pub durability: Durability,
    /// When the server started.
    pub started: Instant,
    /// A random number of this start.
    pub run: u64,
}

/// A connection, as commands see it.
#[derive(Debug, Clone)]
pub struct Client {
    /// Its number, which no other connection has.
    pub id: u64,
    /// The number of the selected database.
    pub database: usize,
    /// The protocol with its version.
    pub version: Version,
    /// The name that the client has given itself.
    pub name: Vec<u8>,
    /// The name and the version of the client's library.
    pub library: (Vec<u8>, Vec<u8>),
    /// Whether the client has given the password, or needs none.
    pub is_authenticated: bool,
    /// The connection ends when its replies are sent.
    pub is_closing: bool,
    /// The other end.
    pub peer: Option<SocketAddr>,
    /// When it connected.
    pub since: SystemTime,
    /// The commands since MULTI.
    pub transaction: Option<Box<Transaction>>,
    /// The keys that it watches.
    pub watched: Vec<Watched>,
}
