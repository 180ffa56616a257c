//! Exchanges a batch of packets: sends requests, receives responses, and retransmits packets without a response.

use super::{Answer, Client, ClientError, Command, Failure};
use crate::protocol::{Directory, HEADER_BYTES, Header, Kind, Outcome, Refusal, RequestWriter, Responses};
use crate::transport::{Transport, address_of};
use nix::sys::socket::SockaddrStorage;
use siltstone_mica::{HashedKey, Operation, Request};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A request to be sent: its number, and the bytes reserved for its value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sending {
    pub number: usize,
    pub room: usize,
}

/// The work that remains after an exchange.
#[derive(Debug, Default)]
pub(super) struct Left {
    /// Gets whose values are longer, with the bytes that they need.
    pub long: Vec<Sending>,
}

/// The bits of a sequence number that are the number of a packet. The bits above count its copies from 0 on.
const NUMBER_BITS: u32 = 48;

/// A packet without a response so far, or with writes whose last copy has no response so far.
struct Packet {
    peer: SockaddrStorage,
    bytes: Vec<u8>,
    requests: Vec<Sending>,
    writes: bool,
    is_answered: bool,
    tries: u32,
    first_sent: Instant,
    /// When it is retransmitted or given up.
    due: Instant,
}

impl Client {
    /// Sends all requests of `open`, and waits for their responses until the time limit of each.
    pub(super) fn exchange(
        &mut self,
        commands: &[Command<'_>],
        open: &[Sending],
        answers: &mut [Answer],
    ) -> Result<Left, ClientError> {
        let mut waiting = self.packets(commands, open);
        let mut flying: HashMap<u64, Packet> = HashMap::new();
        let mut left = Left::default();
        let window = self.settings.packets_in_flight.max(1);
        while !(waiting.is_empty() && flying.is_empty()) {
            let now = Instant::now();
            // Before new packets, so that lost ones do not wait behind the whole batch.
            self.retransmit(now, &mut flying, answers)?;
            self.leaving.clear();
            while flying.len() < window
                && self.leaving.len() < self.leaving.capacity()
                && let Some((number, mut packet)) = waiting.pop_front()
            {
                self.leaving.push_bytes(packet.peer, &packet.bytes);
                (packet.first_sent, packet.tries) = (now, 1);
                packet.due = now + self.pace.patience(1).min(self.settings.time_limit);
                flying.insert(number, packet);
                self.statistics.sent_packets += 1;
            }
            if !self.leaving.is_empty() {
                // Packets that the system refuses count as lost, and are retransmitted.
                self.transport.send(&self.leaving)?;
            }
            self.transport.receive(&mut self.received)?;
            // Waits at most until the next packet is due for retransmission.
            if self.received.is_empty() {
                let due = flying.values().map(|packet| packet.due).min();
                let patience =
                    due.map_or(Duration::ZERO, |due| due.saturating_duration_since(Instant::now()));
                if !patience.is_zero() {
                    self.transport.wait(Some(patience))?;
                }
                continue;
            }
            self.take(&mut flying, answers, &mut left);
        }
        Ok(left)
    }

    /// Packs the requests: those for one port together, in their order.
    fn packets(&mut self, commands: &[Command<'_>], open: &[Sending]) -> VecDeque<(u64, Packet)> {
        let mut by_port: BTreeMap<u16, Vec<(Sending, u64)>> = BTreeMap::new();
        for sending in open {
            let command = &commands[sending.number];
            let hash = self.directory.hash(command.key());
            // Requests that any core may execute go to the cores in turn, a packet each.
            let turn = self.turn + sending.number / self.settings.requests_per_packet.max(1);
            let port = self.directory.port(hash, command.writes(), turn);
            by_port.entry(port).or_default().push((*sending, hash));
        }
        self.turn = self.turn.wrapping_add(1 + open.len() / self.settings.requests_per_packet.max(1));
        let mut packets = VecDeque::new();
        for (port, mut requests) in by_port {
            if self.directory.redirects {
                // A packet is forwarded as a whole, so it should have requests for one partition.
                requests.sort_by_key(|(_, hash)| self.directory.partition(*hash));
            }
            let mut rest = &requests[..];
            while !rest.is_empty() {
                let taken = self.fitting(commands, rest);
                let (own, others) = rest.split_at(taken);
                rest = others;
                self.sequence = self.sequence.wrapping_add(1);
                let number = number_of(self.sequence);
                packets.push_back((number, self.packet(port, number, commands, own)));
            }
        }
        packets
    }

    /// Returns how many of the first requests fit in one packet: at least one, since each was checked.
    fn fitting(&self, commands: &[Command<'_>], requests: &[(Sending, u64)]) -> usize {
        let mut bytes = HEADER_BYTES;
        let first_partition = requests.first().map(|(_, hash)| self.directory.partition(*hash));
        let fits = |(sending, hash): &&(Sending, u64)| {
            bytes += commands[sending.number].bytes(sending.room);
            let together =
                !self.directory.redirects || Some(self.directory.partition(*hash)) == first_partition;
            bytes <= self.directory.packet_bytes && together
        };
        let most = self.settings.requests_per_packet.clamp(1, u16::MAX.into());
        // A single request always fits: longer ones were refused before.
        requests.iter().take(most).take_while(fits).count().max(1)
    }

    fn packet(
        &self,
        port: u16,
        number: u64,
        commands: &[Command<'_>],
        requests: &[(Sending, u64)],
    ) -> Packet {
        let mut bytes = Vec::with_capacity(self.directory.packet_bytes);
        let mut writer = RequestWriter::new(&mut bytes, self.directory.epoch, number);
        for (sending, hash) in requests {
            let (key, operation) = match commands[sending.number] {
                Command::Get { key } => (key, Operation::Get),
                Command::Put { key, value, expires_at_ms } => (key, Operation::Put { value, expires_at_ms }),
                Command::Delete { key } => (key, Operation::Delete),
            };
            writer.add(&Request { key: HashedKey { hash: *hash, bytes: key }, operation }, sending.room);
        }
        let now = Instant::now();
        Packet {
            peer: SocketAddr::new(self.server.ip(), port).into(),
            bytes,
            requests: requests.iter().map(|(sending, _)| *sending).collect(),
            writes: requests.iter().any(|(sending, _)| commands[sending.number].writes()),
            is_answered: false,
            tries: 0,
            first_sent: now,
            due: now,
        }
    }

    /// Retransmits packets that are due, and gives up those whose time limit has passed.
    fn retransmit(
        &mut self,
        now: Instant,
        flying: &mut HashMap<u64, Packet>,
        answers: &mut [Answer],
    ) -> Result<(), ClientError> {
        let due: Vec<u64> =
            flying.iter().filter(|(_, packet)| packet.due <= now).map(|(number, _)| *number).collect();
        self.leaving.clear();
        for number in due {
            let Some(packet) = flying.get_mut(&number) else { continue };
            let give_up = packet.first_sent + self.settings.time_limit;
            if now >= give_up {
                if !packet.is_answered {
                    self.statistics.timed_out_requests += packet.requests.len() as u64;
                    for sending in &packet.requests {
                        answers[sending.number] = Answer::Failed(Failure::TimedOut);
                    }
                }
                flying.remove(&number);
                continue;
            }
            packet.tries += 1;
            Header::set_sequence(&mut packet.bytes, copy_of(number, packet.tries));
            // The wait doubles with every attempt, up to the time limit.
            packet.due = (now + self.pace.patience(packet.tries)).min(give_up);
            self.statistics.retransmitted_packets += 1;
            if !self.leaving.push_bytes(packet.peer, &packet.bytes) {
                self.transport.send(&self.leaving)?;
                self.leaving.clear();
                self.leaving.push_bytes(packet.peer, &packet.bytes);
            }
        }
        if !self.leaving.is_empty() {
            self.transport.send(&self.leaving)?;
        }
        Ok(())
    }

    /// Assigns received packets to the requests that they belong to.
    fn take(&mut self, flying: &mut HashMap<u64, Packet>, answers: &mut [Answer], left: &mut Left) {
        for (bytes, peer) in self.received.packets() {
            self.statistics.received_packets += 1;
            let ours = address_of(&peer).is_some_and(|from| {
                let Directory { core_ports, partition_ports, .. } = &self.directory;
                let port = from.port();
                from.ip() == self.server.ip()
                    && (core_ports.contains(&port) || partition_ports.contains(&port))
            });
            let header = Header::decode(bytes).ok().filter(|_| ours);
            let packet =
                header.and_then(|header| Some((header, flying.get_mut(&number_of(header.sequence))?)));
            let Some((header, packet)) = packet else {
                // From another sender, damaged, or a late response to a retransmitted packet.
                self.statistics.unexpected_packets += 1;
                continue;
            };
            // Of the copies of a delete, the first one that was executed reports whether there was a record.
            if !packet.is_answered && answer(&header, bytes, packet, answers, left) {
                packet.is_answered = true;
                self.statistics.answered_requests += packet.requests.len() as u64;
                // A response to a retransmitted packet says nothing about the round trip: it may belong to any of the
                // copies (Karn's algorithm).
                if packet.tries == 1 {
                    let took = packet.first_sent.elapsed();
                    self.statistics.round_trip_ns.saturating_record(took.as_nanos() as u64);
                    self.pace.learn(took);
                }
            } else {
                self.statistics.unexpected_packets += 1;
            }
            let number = number_of(header.sequence);
            // A copy that is executed later would undo a later write.
            let is_last = header.sequence == copy_of(number, packet.tries) && !is_overloaded(&header);
            if packet.is_answered && (is_last || !packet.writes) {
                flying.remove(&number);
            }
        }
    }
}

/// Returns the number of the packet that a sequence number is of.
fn number_of(sequence: u64) -> u64 {
    sequence & ((1 << NUMBER_BITS) - 1)
}

/// Returns the sequence number of the copy of a packet that was sent last, as one of `tries`.
fn copy_of(number: u64, tries: u32) -> u64 {
    number | u64::from(tries.saturating_sub(1)) << NUMBER_BITS
}

/// Returns whether a server has received too much to execute a packet.
fn is_overloaded(header: &Header) -> bool {
    header.kind == Kind::Refusal && Refusal::from_code(header.count) == Refusal::Overloaded
}

/// Records the responses to the requests of a packet. Returns false, without a change, if these bytes are not a
/// response to it.
fn answer(header: &Header, bytes: &[u8], packet: &Packet, answers: &mut [Answer], left: &mut Left) -> bool {
    match header.kind {
        // Not recorded as a result, so the packet is retransmitted when it is due, as if it were lost.
        Kind::Refusal if is_overloaded(header) => false,
        Kind::Refusal => {
            let failure = Failure::Packet(Refusal::from_code(header.count));
            for sending in &packet.requests {
                answers[sending.number] = Answer::Failed(failure);
            }
            true
        }
        Kind::Responses if usize::from(header.count) == packet.requests.len() => {
            let Ok(responses) = Responses::of(header, bytes) else { return false };
            let Ok(responses) = responses.collect::<Result<Vec<_>, _>>() else { return false };
            for (sending, response) in packet.requests.iter().zip(responses) {
                answers[sending.number] = match response.outcome {
                    Outcome::Found => Answer::Found(response.value.to_vec()),
                    Outcome::Absent => Answer::Absent,
                    Outcome::Stored => Answer::Stored,
                    Outcome::Deleted => Answer::Deleted,
                    outcome => Answer::Failed(Failure::Request(outcome)),
                };
                // The value is longer than the reserved space. The get is repeated with enough of it.
                if response.outcome == Outcome::Long {
                    left.long.push(Sending { room: response.value_length as usize, ..*sending });
                }
            }
            true
        }
        _ => false,
    }
}
