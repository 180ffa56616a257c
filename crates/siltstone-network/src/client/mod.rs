//! The client (dissertation 5.3.2, "Client assistance"): hashes keys, looks up ports in the server's directory, sends
//! many requests at once, several per packet, and retransmits packets without a response.
//!
//! Gets, puts and deletes are idempotent, so executing a packet twice in succession does no harm, and servers keep no
//! state of clients. But a copy of a retransmitted put must not be executed after a later put of the same key. So each
//! copy has a number of its own, and a packet with writes is complete when its last copy has a response: packets
//! between two ports stay in order, so all earlier copies were executed before it, or are lost. Within a batch, no two
//! packets with the same key are in flight if one of them writes.
//!
//! Two limits follow. A delete that was sent twice may report that the key was absent although it removed the key, if
//! the first response was lost. And a write that has timed out, or one on a network that does not keep the order, may
//! be executed after later ones.

mod exchange;
mod statistics;

#[cfg(test)]
mod tests;

pub use statistics::ClientStatistics;

use crate::protocol::{
    DIRECTORY_BYTES, Directory, HEADER_BYTES, Header, Outcome, RESPONSE_BYTES_MIN, Refusal,
    encode_directory_request, request_bytes,
};
use crate::transport::{Burst, Transport, Udp, Waker, address_of, bind};
use exchange::Sending;
use nix::sys::socket::SockaddrStorage;
use siltstone::batch::{NEVER, TimestampMs};
use siltstone::key::KEY_LENGTH_MAX;
use statistics::Pace;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

/// The maximum number of exchanges for a batch of requests. A get is repeated with more space for its value, which may
/// grow meanwhile.
const ROOM_TRIES: usize = 4;

/// The settings of a client.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientSettings {
    /// The maximum time for which a request is tried.
    pub time_limit: Duration,
    /// The time after which the first packet is retransmitted; for later packets it follows the measured round trips.
    pub retransmit_after: Duration,
    /// The maximum number of packets in flight, at least 1. The server's socket buffer holds the packets of all
    /// clients.
    pub packets_in_flight: usize,
    /// The maximum number of requests per packet, at least 1; fewer if they do not fit.
    pub requests_per_packet: usize,
    /// The bytes that a get reserves for its value. A longer value takes a second get with more.
    pub value_room: usize,
    /// The size of the socket's buffers, in bytes, as far as the system allows it.
    pub socket_bytes: usize,
}

impl Default for ClientSettings {
    fn default() -> Self {
        ClientSettings {
            time_limit: Duration::from_secs(1),
            retransmit_after: Duration::from_millis(20),
            packets_in_flight: 64,
            requests_per_packet: 32,
            value_room: 64,
            socket_bytes: 1 << 20,
        }
    }
}

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command<'a> {
    /// Reads the value of a key.
    Get {
        /// The key.
        key: &'a [u8],
    },
    /// Sets the value of a key.
    Put {
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
        /// When the item expires, in milliseconds since the Unix epoch, or [`NEVER`].
        expires_at_ms: TimestampMs,
    },
    /// Removes a key.
    Delete {
        /// The key.
        key: &'a [u8],
    },
}

/// The result of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The value of the key.
    Found(Vec<u8>),
    /// The key is absent.
    Absent,
    /// The value was stored.
    Stored,
    /// The key was present and is removed.
    Deleted,
    /// The request failed, or its result is unknown.
    Failed(Failure),
}

/// Why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// There was no response in time. A put or a delete may have been executed.
    #[error("no response from the server in time; it may be down or overloaded, or packets are lost")]
    TimedOut,
    /// The server refused the request.
    #[error("{0}")]
    Request(Outcome),
    /// The server refused the packet.
    #[error("{0}")]
    Packet(Refusal),
}

/// An error of the client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The socket failed.
    #[error("error of the client's socket: {0}")]
    Socket(#[from] io::Error),
    /// No server responded with a directory.
    #[error("no directory from {0} in time; check the address of the server")]
    NoServer(SocketAddr),
    /// A key is empty or too long.
    #[error("the key has {0} bytes; keys must have 1 to 65,535")]
    KeyLength(usize),
    /// Key and value do not fit in a packet.
    #[error(
        "key and value take {bytes} bytes of a packet, and the server takes {limit}; raise its packet_bytes"
    )]
    TooLong {
        /// The bytes that the packet would have.
        bytes: usize,
        /// The maximum.
        limit: usize,
    },
    /// A request failed.
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// A client of one server. Used by one thread; other threads have their own.
pub struct Client {
    transport: Udp,
    settings: ClientSettings,
    server: SocketAddr,
    directory: Directory,
    received: Burst<SockaddrStorage>,
    leaving: Burst<SockaddrStorage>,
    sequence: u64,
    turn: usize,
    pace: Pace,
    statistics: ClientStatistics,
}

impl<'a> Command<'a> {
    /// Returns the key.
    pub fn key(&self) -> &'a [u8] {
        match self {
            Command::Get { key } | Command::Put { key, .. } | Command::Delete { key } => key,
        }
    }

    fn writes(&self) -> bool {
        !matches!(self, Command::Get { .. })
    }

    fn bytes(&self, room: usize) -> usize {
        match self {
            Command::Get { key } => {
                let spare = room.saturating_sub(key.len() + HEADER_BYTES - RESPONSE_BYTES_MIN);
                request_bytes(key.len(), spare, false)
            }
            Command::Put { key, value, expires_at_ms } => {
                request_bytes(key.len(), value.len(), *expires_at_ms != NEVER)
            }
            Command::Delete { key } => request_bytes(key.len(), 0, false),
        }
    }
}

impl Client {
    /// Requests the directory of a server from one of its addresses.
    ///
    /// # Errors
    /// [`ClientError::NoServer`] without a response within the time limit; [`ClientError::Socket`].
    pub fn connect(server: SocketAddr, settings: ClientSettings) -> Result<Client, ClientError> {
        let any: IpAddr = match server.ip() {
            IpAddr::V4(ip) if ip.is_loopback() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = bind(SocketAddr::new(any, 0), settings.socket_bytes)?;
        let burst = settings.packets_in_flight.clamp(1, 64);
        let mut transport = Udp::new(socket, Waker::new()?, burst);
        // Unpredictable for anyone who does not see the packets, so forged responses are not accepted.
        let mut sequence = RandomState::new().hash_one(0);
        let directory = ask(&mut transport, server, &settings, &mut sequence)?;
        let statistics = ClientStatistics::new().ok_or_else(|| io::Error::other("no histogram"))?;
        Ok(Client {
            received: Burst::new(burst, directory.packet_bytes),
            leaving: Burst::new(burst, directory.packet_bytes),
            transport,
            server,
            directory,
            sequence,
            turn: 0,
            pace: Pace::new(settings.retransmit_after),
            statistics,
            settings,
        })
    }

    /// Returns the server's directory.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Returns the statistics.
    pub fn statistics(&self) -> &ClientStatistics {
        &self.statistics
    }

    /// Requests the directory again. The client itself does so when the server reports a restart.
    ///
    /// # Errors
    /// See [`connect`](Client::connect).
    pub fn refresh(&mut self) -> Result<(), ClientError> {
        self.directory = ask(&mut self.transport, self.server, &self.settings, &mut self.sequence)?;
        let bytes = self.directory.packet_bytes;
        let burst = self.received.capacity();
        (self.received, self.leaving) = (Burst::new(burst, bytes), Burst::new(burst, bytes));
        Ok(())
    }

    /// Returns the value of a key.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, ClientError> {
        value_of(self.one(Command::Get { key })?)
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), ClientError> {
        match self.one(Command::Put { key, value, expires_at_ms: NEVER })? {
            Answer::Failed(failure) => Err(failure.into()),
            _ => Ok(()),
        }
    }

    /// Removes a key; returns whether it was present.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, ClientError> {
        match self.one(Command::Delete { key })? {
            Answer::Failed(failure) => Err(failure.into()),
            answer => Ok(answer == Answer::Deleted),
        }
    }

    /// Returns the values of many keys, in their order.
    ///
    /// # Errors
    /// The first failure, if a request fails; [`execute`](Client::execute) returns the result of each.
    pub fn get_many<K: AsRef<[u8]>>(&mut self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>, ClientError> {
        let commands: Vec<Command<'_>> = keys.iter().map(|key| Command::Get { key: key.as_ref() }).collect();
        self.execute(&commands)?.into_iter().map(value_of).collect()
    }

    fn one(&mut self, command: Command<'_>) -> Result<Answer, ClientError> {
        Ok(self.execute(&[command])?.pop().unwrap_or(Answer::Failed(Failure::TimedOut)))
    }

    /// Executes many requests, and returns their results in order. Requests with the same key are executed in order,
    /// others in any order. A failed request does not affect the others.
    ///
    /// # Errors
    /// [`ClientError::KeyLength`] and [`ClientError::TooLong`] before anything is sent; [`ClientError::Socket`].
    pub fn execute(&mut self, commands: &[Command<'_>]) -> Result<Vec<Answer>, ClientError> {
        commands.iter().try_for_each(|command| self.check(command))?;
        let mut answers = vec![Answer::Failed(Failure::TimedOut); commands.len()];
        let mut begin = 0;
        while begin < commands.len() {
            let end = begin + independent(&commands[begin..]);
            self.round(&commands[begin..end], &mut answers[begin..end])?;
            begin = end;
        }
        Ok(answers)
    }

    fn check(&self, command: &Command<'_>) -> Result<(), ClientError> {
        let length = command.key().len();
        if !(1..=KEY_LENGTH_MAX).contains(&length) {
            return Err(ClientError::KeyLength(length));
        }
        let (bytes, limit) = (HEADER_BYTES + command.bytes(0), self.directory.packet_bytes);
        if bytes > limit { Err(ClientError::TooLong { bytes, limit }) } else { Ok(()) }
    }

    /// Executes requests that do not depend on each other.
    fn round(&mut self, commands: &[Command<'_>], answers: &mut [Answer]) -> Result<(), ClientError> {
        let fits =
            |command: &Command<'_>, room: usize, limit: usize| HEADER_BYTES + command.bytes(room) <= limit;
        let limit = self.directory.packet_bytes;
        let room = |command: &Command<'_>| match fits(command, self.settings.value_room, limit) {
            true => self.settings.value_room,
            false => 0,
        };
        let mut open: Vec<Sending> =
            (0..commands.len()).map(|at| Sending { number: at, room: room(&commands[at]) }).collect();
        for attempt in 0..ROOM_TRIES {
            let outcome = self.exchange(commands, &open, answers)?;
            let again = |sending: &Sending| match answers[sending.number] {
                Answer::Failed(Failure::Packet(Refusal::Stale)) => Some(*sending),
                _ => None,
            };
            // The server has restarted: its ports and seeds are new, so the requests are hashed and packed again.
            let stale: Vec<Sending> = open.iter().filter_map(again).collect();
            if !stale.is_empty() && attempt + 1 < ROOM_TRIES {
                self.refresh()?;
            }
            let limit = self.directory.packet_bytes;
            open =
                outcome.long.into_iter().filter(|one| fits(&commands[one.number], one.room, limit)).collect();
            self.statistics.repeated_gets += open.len() as u64;
            open.extend(stale);
            if open.is_empty() {
                break;
            }
        }
        Ok(())
    }
}

/// Returns how many of the first requests are independent: no two have the same key, unless both read.
fn independent(commands: &[Command<'_>]) -> usize {
    let mut seen: HashMap<&[u8], bool> = HashMap::with_capacity(commands.len());
    for (at, command) in commands.iter().enumerate() {
        let writes = command.writes();
        if let Some(before) = seen.insert(command.key(), writes)
            && (before || writes)
        {
            return at;
        }
    }
    commands.len()
}

fn value_of(answer: Answer) -> Result<Option<Vec<u8>>, ClientError> {
    match answer {
        Answer::Found(value) => Ok(Some(value)),
        Answer::Failed(failure) => Err(failure.into()),
        _ => Ok(None),
    }
}

/// Requests the directory until it arrives or the time limit has passed.
fn ask(
    transport: &mut Udp,
    server: SocketAddr,
    settings: &ClientSettings,
    sequence: &mut u64,
) -> Result<Directory, ClientError> {
    *sequence = sequence.wrapping_add(1);
    let question = encode_directory_request(*sequence);
    let mut burst = Burst::new(1, DIRECTORY_BYTES);
    let begun = Instant::now();
    let pace = Pace::new(settings.retransmit_after);
    for tries in 1.. {
        let sent = Instant::now();
        if sent.duration_since(begun) >= settings.time_limit {
            break;
        }
        burst.clear();
        burst.push_bytes(SockaddrStorage::from(server), &question);
        transport.send(&burst)?;
        while let Some(left) = pace.patience(tries).checked_sub(sent.elapsed()) {
            transport.wait(Some(left))?;
            transport.receive(&mut burst)?;
            for (packet, peer) in burst.packets() {
                let answers = Header::decode(packet).is_ok_and(|header| header.sequence == *sequence);
                if answers
                    && address_of(&peer) == Some(server)
                    && let Ok(directory) = Directory::decode(packet)
                {
                    return Ok(directory);
                }
            }
        }
    }
    Err(ClientError::NoServer(server))
}
