//! The client (dissertation 5.3.2, "Client assistance"): it hashes keys, looks up the port in the server's directory,
//! sends many requests at once, several to a packet, and sends again what is not answered in time.
//!
//! Gets, puts and deletes are idempotent, so a packet may be carried out twice without harm, and servers keep nothing
//! about clients. Two limits follow. A delete that was sent twice may say that the key was not there although it
//! removed it. And a packet that was sent again may still be on its way when its answer has come: if the network holds
//! it back for so long that a later put of the same key overtakes it, the older value comes back. Within a batch no
//! two packets that touch the same key are under way if one of them writes.

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

/// How often a get is sent again with more room: a value may grow meanwhile.
const ROOM_TRIES: usize = 4;

/// What can be chosen of a client.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientSettings {
    /// How long a request is tried at the most.
    pub time_limit: Duration,
    /// How long the first answer is waited for before its packet is sent again; later ones as long as answers take.
    pub retransmit_after: Duration,
    /// Packets under way at the most, at least 1. The server's socket has room for so many from all clients.
    pub packets_in_flight: usize,
    /// Requests in a packet at the most, at least 1; fewer where more do not fit.
    pub requests_per_packet: usize,
    /// The room that a get leaves for its value, in bytes. For a longer one it is sent again with more.
    pub value_room: usize,
    /// The buffers of the socket, in bytes, as far as the system allows.
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
    /// The value of a key.
    Get {
        /// The key.
        key: &'a [u8],
    },
    /// To give a key a value, in place of an older one.
    Put {
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
        /// When the item ceases to be, in milliseconds since the Unix epoch, or [`NEVER`].
        expires_at_ms: TimestampMs,
    },
    /// To remove a key.
    Delete {
        /// The key.
        key: &'a [u8],
    },
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The key has this value.
    Found(Vec<u8>),
    /// The key is not there.
    Absent,
    /// The value was stored.
    Stored,
    /// The key was there, and is no more.
    Deleted,
    /// Nothing came of it, or nobody knows.
    Failed(Failure),
}

/// Why nothing came of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// There was no answer in time. A put or a delete may have been carried out all the same.
    #[error("no response from the server in time; it may be down or overloaded, or packets are lost")]
    TimedOut,
    /// The server would not carry it out.
    #[error("{0}")]
    Request(Outcome),
    /// The server would not read the packet.
    #[error("{0}")]
    Packet(Refusal),
}

/// Why a client cannot do what is asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The socket fails.
    #[error("error of the client's socket: {0}")]
    Socket(#[from] io::Error),
    /// Nobody tells the directory.
    #[error("no directory from {0} in time; check the address of the server")]
    NoServer(SocketAddr),
    /// A key has no byte or too many.
    #[error("the key has {0} bytes; keys must have 1 to 65,535")]
    KeyLength(usize),
    /// Key and value do not fit into a packet.
    #[error(
        "key and value take {bytes} bytes of a packet, and the server takes {limit}; raise its packet_bytes"
    )]
    TooLong {
        /// What the packet would have.
        bytes: usize,
        /// What it may have.
        limit: usize,
    },
    /// A request has failed.
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// A client of one server. It is used by one thread; others have their own.
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
    /// Its key.
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
    /// Asks a server, at any of its addresses, for its directory.
    ///
    /// # Errors
    /// [`ClientError::NoServer`] if it does not answer within the time limit; [`ClientError::Socket`].
    pub fn connect(server: SocketAddr, settings: ClientSettings) -> Result<Client, ClientError> {
        let any: IpAddr = match server.ip() {
            IpAddr::V4(ip) if ip.is_loopback() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = bind(SocketAddr::new(any, 0), settings.socket_bytes)?;
        let burst = settings.packets_in_flight.clamp(1, 64);
        let mut transport = Udp::new(socket, Waker::new()?, burst);
        // Nobody who does not see the packets can guess it.
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

    /// What the server told.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// What was seen until now.
    pub fn statistics(&self) -> &ClientStatistics {
        &self.statistics
    }

    /// Asks for the directory anew. It is done by itself when the server says that it was started anew.
    ///
    /// # Errors
    /// As [`connect`](Client::connect).
    pub fn refresh(&mut self) -> Result<(), ClientError> {
        self.directory = ask(&mut self.transport, self.server, &self.settings, &mut self.sequence)?;
        let bytes = self.directory.packet_bytes;
        let burst = self.received.capacity();
        (self.received, self.leaving) = (Burst::new(burst, bytes), Burst::new(burst, bytes));
        Ok(())
    }

    /// The value of a key.
    ///
    /// # Errors
    /// [`ClientError`], as its variants say.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, ClientError> {
        value_of(self.one(Command::Get { key })?)
    }

    /// Gives the key a value, in place of an older one.
    ///
    /// # Errors
    /// [`ClientError`], as its variants say.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), ClientError> {
        match self.one(Command::Put { key, value, expires_at_ms: NEVER })? {
            Answer::Failed(failure) => Err(failure.into()),
            _ => Ok(()),
        }
    }

    /// Removes the key; answers whether it was there.
    ///
    /// # Errors
    /// [`ClientError`], as its variants say.
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, ClientError> {
        match self.one(Command::Delete { key })? {
            Answer::Failed(failure) => Err(failure.into()),
            answer => Ok(answer == Answer::Deleted),
        }
    }

    /// The values of many keys, in their order.
    ///
    /// # Errors
    /// The first failure, if one of them fails; [`execute`](Client::execute) tells the others apart.
    pub fn get_many<K: AsRef<[u8]>>(&mut self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>, ClientError> {
        let commands: Vec<Command<'_>> = keys.iter().map(|key| Command::Get { key: key.as_ref() }).collect();
        self.execute(&commands)?.into_iter().map(value_of).collect()
    }

    fn one(&mut self, command: Command<'_>) -> Result<Answer, ClientError> {
        Ok(self.execute(&[command])?.pop().unwrap_or(Answer::Failed(Failure::TimedOut)))
    }

    /// Carries out many requests, and answers them in their order. Those that touch the same key are carried out in
    /// their order, others in any; requests of a batch that fail leave the others as they are.
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

    /// Carries out requests that do not depend on each other.
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

/// How many of the first requests do not depend on each other: no two of them have the same key, unless both read.
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

/// Asks for the directory until it comes or the time is over.
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
