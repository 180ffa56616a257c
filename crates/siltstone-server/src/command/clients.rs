//! The connections of a server: what CLIENT LIST shows of each, and which of them CLIENT KILL means.
//!
//! Each connection has an entry, which its worker updates once per turn with a few atomic writes. The table of entries
//! has a lock, which is taken when a connection begins or ends, and by those who list connections.

use super::channels::Place;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What a client has said of itself.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// The name of the connection.
    pub name: Vec<u8>,
    /// The name of its user.
    pub user: String,
    /// The name of the client's library.
    pub library: Vec<u8>,
    /// The version of the library.
    pub library_version: Vec<u8>,
}

/// What a connection does, as of its last turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Activity {
    /// The selected database.
    pub database: usize,
    /// The version of RESP; 0 for memcached's protocol.
    pub resp: usize,
    /// The numbers of subscriptions to channels, patterns, and channels of slots.
    pub subscriptions: [usize; 3],
    /// It gets a line for each command.
    pub is_monitor: bool,
    /// It ends when its replies are sent.
    pub is_closing: bool,
    /// The number of commands since MULTI; -1 without it.
    pub queued: i64,
    /// The bytes of requests that are not executed.
    pub input_bytes: usize,
    /// The bytes of replies and messages that are not sent.
    pub output_bytes: usize,
    /// The memory of its buffers, in bytes.
    pub memory_bytes: usize,
}

/// A connection.
#[derive(Debug)]
pub struct ClientEntry {
    /// Its number, which no other connection has.
    pub id: u64,
    /// The number of its worker.
    pub worker: usize,
    /// The other end.
    pub peer: Option<SocketAddr>,
    /// This end.
    pub local: Option<SocketAddr>,
    /// When it connected.
    pub since: Instant,
    names: Mutex<Names>,
    connection: AtomicUsize,
    /// The milliseconds from `since` to its last use.
    used_at_ms: AtomicU64,
    command: AtomicUsize,
    database: AtomicUsize,
    /// The version of RESP, and bits of what it is.
    state: AtomicUsize,
    subscriptions: [AtomicUsize; 3],
    queued: AtomicI64,
    input_bytes: AtomicUsize,
    output_bytes: AtomicUsize,
    memory_bytes: AtomicUsize,
}

/// The bits of `state` above the version.
const MONITOR: usize = 1 << 8;
const CLOSING: usize = 1 << 9;

/// No command yet.
const NO_COMMAND: usize = usize::MAX;

impl ClientEntry {
    /// Makes the entry of a connection that begins.
    pub fn new(id: u64, worker: usize, peer: Option<SocketAddr>, local: Option<SocketAddr>) -> ClientEntry {
        ClientEntry {
            id,
            worker,
            peer,
            local,
            since: Instant::now(),
            names: Mutex::default(),
            connection: AtomicUsize::new(0),
            used_at_ms: AtomicU64::new(0),
            command: AtomicUsize::new(NO_COMMAND),
            database: AtomicUsize::new(0),
            state: AtomicUsize::new(2),
            subscriptions: Default::default(),
            queued: AtomicI64::new(-1),
            input_bytes: AtomicUsize::new(0),
            output_bytes: AtomicUsize::new(0),
            memory_bytes: AtomicUsize::new(0),
        }
    }

    /// Notes the number of the connection in its worker.
    pub fn set_connection(&self, number: usize) {
        self.connection.store(number, Relaxed);
    }

    /// Returns where the connection is in its worker.
    pub fn place(&self) -> Place {
        Place { connection: self.connection.load(Relaxed), client: self.id }
    }

    /// Returns what the client has said of itself.
    pub fn names(&self) -> Names {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes what the client has said of itself.
    pub fn rename(&self, change: impl FnOnce(&mut Names)) {
        change(&mut self.names.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Notes the last command, by a number that [`command`](Self::command) returns, and the time.
    pub fn begin(&self, command: usize, now: Instant) {
        self.command.store(command, Relaxed);
        self.touch(now);
    }

    /// Notes that replies were sent, and how many bytes are left.
    pub fn note_sent(&self, unsent_bytes: usize, now: Instant) {
        self.output_bytes.store(unsent_bytes, Relaxed);
        self.touch(now);
    }

    fn touch(&self, now: Instant) {
        let used_at = now.saturating_duration_since(self.since);
        self.used_at_ms.store(used_at.as_millis() as u64, Relaxed);
    }

    /// Returns the number of the last command, if there was one.
    pub fn command(&self) -> Option<usize> {
        Some(self.command.load(Relaxed)).filter(|command| *command != NO_COMMAND)
    }

    /// Returns how long the connection exists, and how long it was not used.
    pub fn ages(&self) -> (Duration, Duration) {
        let age = self.since.elapsed();
        (age, age.saturating_sub(Duration::from_millis(self.used_at_ms.load(Relaxed))))
    }

    /// Notes what the connection does.
    pub fn update(&self, activity: &Activity) {
        let bits =
            if activity.is_monitor { MONITOR } else { 0 } | if activity.is_closing { CLOSING } else { 0 };
        self.database.store(activity.database, Relaxed);
        self.state.store(activity.resp | bits, Relaxed);
        for (kept, count) in self.subscriptions.iter().zip(activity.subscriptions) {
            kept.store(count, Relaxed);
        }
        self.queued.store(activity.queued, Relaxed);
        self.input_bytes.store(activity.input_bytes, Relaxed);
        self.output_bytes.store(activity.output_bytes, Relaxed);
        self.memory_bytes.store(activity.memory_bytes, Relaxed);
    }

    /// Returns what the connection does.
    pub fn activity(&self) -> Activity {
        let state = self.state.load(Relaxed);
        Activity {
            database: self.database.load(Relaxed),
            resp: state & 0xff,
            subscriptions: self.subscriptions.each_ref().map(|count| count.load(Relaxed)),
            is_monitor: state & MONITOR != 0,
            is_closing: state & CLOSING != 0,
            queued: self.queued.load(Relaxed),
            input_bytes: self.input_bytes.load(Relaxed),
            output_bytes: self.output_bytes.load(Relaxed),
            memory_bytes: self.memory_bytes.load(Relaxed),
        }
    }
}

/// The connections of a server, by their numbers.
#[derive(Debug, Default)]
pub struct Clients(Mutex<BTreeMap<u64, Arc<ClientEntry>>>);

impl Clients {
    fn entries<T>(&self, act: impl FnOnce(&mut BTreeMap<u64, Arc<ClientEntry>>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds a connection.
    pub fn add(&self, entry: ClientEntry) -> Arc<ClientEntry> {
        let entry = Arc::new(entry);
        self.entries(|entries| entries.insert(entry.id, entry.clone()));
        entry
    }

    /// Removes a connection.
    pub fn remove(&self, id: u64) {
        self.entries(|entries| entries.remove(&id));
    }

    /// Returns a connection, if it is open.
    pub fn get(&self, id: u64) -> Option<Arc<ClientEntry>> {
        self.entries(|entries| entries.get(&id).cloned())
    }

    /// Returns all connections, in the order in which they began.
    pub fn all(&self) -> Vec<Arc<ClientEntry>> {
        self.entries(|entries| entries.values().cloned().collect())
    }
}

/// The kind of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientKind {
    /// It sends commands.
    Normal,
    /// It has subscribed to channels.
    Subscriber,
    /// One to or from another server. There is none.
    Replication,
}

/// Which connections are meant.
#[derive(Debug, Default)]
pub struct ClientFilter {
    /// Their numbers.
    pub ids: Vec<u64>,
    /// Their kind.
    pub kind: Option<ClientKind>,
    /// The other end.
    pub peer: Option<Vec<u8>>,
    /// This end.
    pub local: Option<Vec<u8>>,
    /// The name of the user.
    pub user: Option<Vec<u8>>,
    /// The least age.
    pub age_min: Option<Duration>,
    /// Not this one.
    pub skipped: Option<u64>,
}

/// Returns an address, as CLIENT LIST has it.
pub fn shown_address(address: Option<SocketAddr>) -> String {
    address.map_or_else(|| "unix".to_owned(), |address| address.to_string())
}

impl ClientFilter {
    /// Returns whether a connection is meant.
    pub fn matches(&self, entry: &ClientEntry) -> bool {
        let is_at = |wanted: &Option<Vec<u8>>, address| {
            wanted.as_ref().is_none_or(|wanted| shown_address(address).as_bytes() == &wanted[..])
        };
        let kind = match entry.activity().subscriptions {
            [0, 0, 0] => ClientKind::Normal,
            _ => ClientKind::Subscriber,
        };
        (self.ids.is_empty() || self.ids.contains(&entry.id))
            && self.kind.is_none_or(|wanted| wanted == kind)
            && is_at(&self.peer, entry.peer)
            && is_at(&self.local, entry.local)
            && self.user.as_ref().is_none_or(|user| entry.names().user.as_bytes() == &user[..])
            && self.age_min.is_none_or(|least| entry.ages().0 >= least)
            && self.skipped != Some(entry.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_described_as_of_its_last_turn() {
        let clients = Clients::default();
        let entry = clients.add(ClientEntry::new(3, 1, None, None));
        let activity = Activity {
            database: 2,
            resp: 3,
            subscriptions: [4, 5, 1],
            is_closing: true,
            queued: 6,
            input_bytes: 7,
            output_bytes: 8,
            memory_bytes: 9,
            ..Activity::default()
        };
        entry.update(&activity);
        entry.begin(11, Instant::now());
        entry.rename(|names| names.name = b"me".to_vec());
        let found = clients.get(3).unwrap();
        assert_eq!((found.activity(), found.command()), (activity, Some(11)));
        assert_eq!(found.names().name, b"me");
        clients.remove(3);
        assert!(clients.get(3).is_none() && clients.all().is_empty());
    }

    #[test]
    fn a_filter_selects_the_connections_that_have_all_of_it() {
        let peer: SocketAddr = "127.0.0.1:5000".parse().unwrap();
        let entry = ClientEntry::new(3, 1, Some(peer), None);
        let at_peer = ClientFilter { peer: Some(b"127.0.0.1:5000".to_vec()), ..ClientFilter::default() };
        assert!(ClientFilter::default().matches(&entry) && at_peer.matches(&entry));
        for other in [
            ClientFilter { ids: vec![4], ..ClientFilter::default() },
            ClientFilter { kind: Some(ClientKind::Subscriber), ..ClientFilter::default() },
            ClientFilter { skipped: Some(3), ..ClientFilter::default() },
            ClientFilter { age_min: Some(Duration::from_secs(60)), ..ClientFilter::default() },
            ClientFilter { local: Some(b"127.0.0.1:6379".to_vec()), ..ClientFilter::default() },
            ClientFilter { ids: vec![4], ..at_peer },
        ] {
            assert!(!other.matches(&entry), "{other:?}");
        }
    }
}
