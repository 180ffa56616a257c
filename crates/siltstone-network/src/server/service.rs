//! Executes a burst of packets: decodes all packets, executes their requests as one batch per partition, so that MICA's
//! prefetching spans packets, and writes the replies in the order of the packets.

use super::ServerSettings;
use super::counters::Counts;
use super::mailbox::Mailboxes;
use crate::protocol::{
    DIRECTORY_BYTES, Directory, HEADER_BYTES, Header, Kind, Malformed, Outcome, Refusal, Requests,
    ResponseWriter,
};
use crate::transport::Burst;
use siltstone::batch::TimestampMs;
use siltstone::key::KeyHasher;
use siltstone_mica::{Handle, Handles, Operation, Reply, Request};
use std::sync::Arc;

/// Processes packets.
pub(super) trait Service<P> {
    /// Adds packets that did not arrive through the socket.
    fn collect(&mut self, _received: &mut Burst<P>) {}
    /// Returns whether there are such packets. Cheap.
    fn has_mail(&self) -> bool {
        false
    }
    /// Fills `answers` with the replies to `received`. May change both.
    fn serve(
        &mut self,
        received: &mut Burst<P>,
        answers: &mut Burst<P>,
        now_ms: TimestampMs,
        counts: &mut Counts,
    );
    /// Returns the number of items of the core's own partitions.
    fn items(&self) -> u64 {
        0
    }
}

/// Returns each packet unchanged.
pub(super) struct Echo;

impl<P> Service<P> for Echo {
    fn serve(&mut self, received: &mut Burst<P>, answers: &mut Burst<P>, _now_ms: u64, _counts: &mut Counts) {
        std::mem::swap(received, answers);
    }
}

/// The key-value store of one core.
pub(super) struct Store<P> {
    pub core: usize,
    pub handles: Handles,
    pub directory: Arc<Directory>,
    pub verify_hashes: bool,
    pub mail: Option<Mailboxes<P>>,
    /// The packets of the burst from this one on were forwarded.
    forwarded_from: usize,
    outcomes: Vec<(Outcome, u32, u32)>,
    values: Vec<u8>,
}

/// How a packet of a burst is processed.
enum Plan {
    /// Reply to `count` requests.
    Respond {
        header: Header,
        count: usize,
    },
    Tell(u64),
    Refuse([u8; HEADER_BYTES]),
    Nothing,
}

/// The decoded requests of a burst.
#[derive(Default)]
struct Batch<'a> {
    requests: Vec<Request<'a>>,
    rooms: Vec<u32>,
    /// One plan per packet.
    plans: Vec<Plan>,
}

impl<P: Copy + Send> Store<P> {
    pub fn new(
        core: usize,
        settings: &ServerSettings,
        handles: Handles,
        directory: Arc<Directory>,
        mail: Option<Mailboxes<P>>,
    ) -> Self {
        Store {
            core,
            handles,
            directory,
            verify_hashes: settings.verify_hashes,
            mail,
            forwarded_from: usize::MAX,
            outcomes: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Decodes all packets, and forwards those that another core has to execute.
    fn decode<'a>(&self, received: &'a Burst<P>, counts: &mut Counts) -> Batch<'a> {
        let mut batch = Batch { plans: Vec::with_capacity(received.len()), ..Batch::default() };
        for at in 0..received.len() {
            let (packet, peer) = received.packet(at);
            let plan = if received.is_whole(at) {
                self.plan(packet, &mut batch, counts)
            } else {
                counts.long_packets += 1;
                Header::refusal(packet, Refusal::Long).map_or(Plan::Nothing, Plan::Refuse)
            };
            let plan = match plan {
                Plan::Respond { header, count } if self.mail.is_some() && at < self.forwarded_from => {
                    self.forward(packet, peer, header, count, &mut batch, counts)
                }
                plan => plan,
            };
            batch.plans.push(plan);
        }
        batch
    }

    #[inline]
    fn plan<'a>(&self, packet: &'a [u8], batch: &mut Batch<'a>, counts: &mut Counts) -> Plan {
        match self.read(packet, batch, counts) {
            Ok(Plan::Nothing) | Err(Malformed::Foreign) => {
                counts.foreign_packets += 1;
                Plan::Nothing
            }
            Ok(plan) => plan,
            Err(malformed) => {
                counts.malformed_packets += 1;
                let reason = match malformed {
                    Malformed::Version(_) => Refusal::Version,
                    _ => Refusal::Malformed,
                };
                Header::refusal(packet, reason).map_or(Plan::Nothing, Plan::Refuse)
            }
        }
    }

    #[inline]
    fn read<'a>(
        &self,
        packet: &'a [u8],
        batch: &mut Batch<'a>,
        counts: &mut Counts,
    ) -> Result<Plan, Malformed> {
        let header = Header::decode(packet)?;
        match header.kind {
            Kind::Requests if header.epoch == self.directory.epoch => {}
            Kind::Requests => {
                counts.stale_packets += 1;
                let refusal = Header::refusal(packet, Refusal::Stale);
                return Ok(refusal.map_or(Plan::Nothing, Plan::Refuse));
            }
            Kind::DirectoryRequest if packet.len() < DIRECTORY_BYTES => {
                let refusal = Header::refusal(packet, Refusal::Room);
                return Ok(refusal.map_or(Plan::Nothing, Plan::Refuse));
            }
            Kind::DirectoryRequest => return Ok(Plan::Tell(header.sequence)),
            // A reply never causes another reply.
            Kind::Responses | Kind::Directory | Kind::Refusal => return Ok(Plan::Nothing),
        }
        let before = batch.requests.len();
        for request in Requests::of(&header, packet)? {
            match request {
                Ok((request, bytes)) => {
                    batch.requests.push(request);
                    batch.rooms.push(bytes as u32);
                }
                Err(malformed) => {
                    // The requests of a packet are executed all together or not at all.
                    batch.requests.truncate(before);
                    batch.rooms.truncate(before);
                    return Err(malformed);
                }
            }
        }
        Ok(Plan::Respond { header, count: batch.requests.len() - before })
    }

    /// Returns whether this core may execute a request.
    #[inline]
    fn may(&self, request: &Request<'_>) -> bool {
        let handle = &self.handles[self.directory.partition(request.key.hash)];
        let reads = matches!(request.operation, Operation::Get);
        handle.as_ref().is_some_and(|handle| reads || handle.can_write())
    }

    /// Forwards a packet if any of the last `count` requests, which are those of the packet, is for another core: the
    /// first such request determines the core.
    fn forward(
        &self,
        packet: &[u8],
        peer: P,
        header: Header,
        count: usize,
        batch: &mut Batch<'_>,
        counts: &mut Counts,
    ) -> Plan {
        let first = batch.requests.len() - count;
        let other = batch.requests[first..].iter().find(|request| !self.may(request));
        let (Some(other), Some(mail)) = (other, &self.mail) else { return Plan::Respond { header, count } };
        let owner = self.directory.partition(other.key.hash) % self.directory.core_ports.len();
        // The owner decodes and executes the complete packet.
        batch.requests.truncate(first);
        batch.rooms.truncate(first);
        if mail.send(owner, packet, peer) {
            counts.forwarded_packets += 1;
            return Plan::Nothing;
        }
        counts.overloaded_packets += 1;
        Header::refusal(packet, Refusal::Overloaded).map_or(Plan::Nothing, Plan::Refuse)
    }

    /// Executes all requests of the batch; `outcomes` and `values` then have the result of each.
    fn execute(&mut self, batch: &Batch<'_>, now_ms: TimestampMs) {
        let Store { handles, outcomes, values, directory, verify_hashes, .. } = self;
        outcomes.clear();
        outcomes.resize(batch.requests.len(), (Outcome::Misdirected, 0, 0));
        values.clear();
        let mut note = |at: usize, reply: Reply<'_>| {
            let outcome = Outcome::of(&reply);
            let begin = values.len();
            if let Reply::Found { value, .. } = reply {
                values.extend_from_slice(value);
            }
            outcomes[at] = (outcome, begin as u32, (values.len() - begin) as u32);
        };
        if let ([Some(handle)], false) = (&mut handles[..], *verify_hashes) {
            handle.execute(&batch.requests, now_ms, &mut note);
            return;
        }
        let mut wrong = Vec::new();
        let mut sorted: Vec<(Vec<Request<'_>>, Vec<usize>)> = Vec::new();
        sorted.resize_with(handles.len(), Default::default);
        for (at, request) in batch.requests.iter().enumerate() {
            let HashCheck::Right = check(*verify_hashes, directory.seed, request) else {
                wrong.push(at);
                continue;
            };
            let partition = directory.partition(request.key.hash);
            sorted[partition].0.push(*request);
            sorted[partition].1.push(at);
        }
        // Requests without a handle remain misdirected, as do those that a read-only handle refuses.
        for (handle, (requests, numbers)) in handles.iter_mut().zip(&sorted) {
            if let (Some(handle), false) = (handle, requests.is_empty()) {
                handle.execute(requests, now_ms, |at, reply| note(numbers[at], reply));
            }
        }
        for at in wrong {
            outcomes[at].0 = Outcome::WrongHash;
        }
    }

    /// Writes the reply to each packet that has one.
    fn answer(&self, received: &Burst<P>, batch: &Batch<'_>, answers: &mut Burst<P>, counts: &mut Counts) {
        let mut next = 0;
        for (at, plan) in batch.plans.iter().enumerate() {
            let (packet, peer) = received.packet(at);
            match plan {
                Plan::Respond { header, count } => {
                    let numbers = next..next + count;
                    next += count;
                    answers.push(peer, |buffer| {
                        let room = buffer.len().min(packet.len());
                        let mut writer = ResponseWriter::new(&mut buffer[..room], header);
                        for number in numbers {
                            let (outcome, begin, length) = self.outcomes[number];
                            let operation = &batch.requests[number].operation;
                            let value = &self.values[begin as usize..(begin + length) as usize];
                            let outcome = writer.add(operation, outcome, value, batch.rooms[number] as usize);
                            count_outcome(operation, outcome, counts);
                        }
                        writer.finish()
                    });
                }
                Plan::Tell(sequence) => {
                    counts.directory_requests += 1;
                    answers.push_bytes(peer, &self.directory.encode(*sequence));
                }
                Plan::Refuse(bytes) => {
                    answers.push_bytes(peer, bytes);
                }
                Plan::Nothing => {}
            }
        }
    }
}

/// Whether the hash of a request is that of its key.
enum HashCheck {
    Right,
    Wrong,
}

#[inline]
fn check(verify: bool, seed: [u64; 2], request: &Request<'_>) -> HashCheck {
    match verify && KeyHasher::Keyed(seed).hash(request.key.bytes).placement != request.key.hash {
        true => HashCheck::Wrong,
        false => HashCheck::Right,
    }
}

#[inline]
fn count_outcome(operation: &Operation<'_>, outcome: Outcome, counts: &mut Counts) {
    match outcome {
        Outcome::Misdirected => counts.misdirected += 1,
        Outcome::WrongHash => counts.wrong_hashes += 1,
        outcome => match operation {
            Operation::Get => {
                counts.gets += 1;
                counts.hits += u64::from(matches!(outcome, Outcome::Found | Outcome::Long));
                counts.long_values += u64::from(outcome == Outcome::Long);
            }
            Operation::Put { .. } => {
                counts.puts += 1;
                counts.refused_puts += u64::from(outcome != Outcome::Stored);
            }
            Operation::Delete => counts.deletes += 1,
        },
    }
}

impl<P: Copy + Send> Service<P> for Store<P> {
    fn collect(&mut self, received: &mut Burst<P>) {
        self.forwarded_from = received.len();
        if let Some(mail) = &mut self.mail {
            mail.receive(received);
        }
    }

    fn has_mail(&self) -> bool {
        self.mail.as_ref().is_some_and(Mailboxes::has_mail)
    }

    fn serve(&mut self, received: &mut Burst<P>, answers: &mut Burst<P>, now_ms: u64, counts: &mut Counts) {
        answers.clear();
        let batch = self.decode(received, counts);
        self.execute(&batch, now_ms);
        self.answer(received, &batch, answers, counts);
    }

    fn items(&self) -> u64 {
        let cores = self.directory.core_ports.len();
        let own = self.handles.iter().enumerate().filter(|(number, _)| number % cores == self.core);
        own.filter_map(|(_, handle)| handle.as_ref()).map(Handle::items).sum()
    }
}
