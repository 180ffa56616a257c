//! The client of the benchmark. It sends packets generated in advance and counts the responses, with a limited number
//! of packets in flight so that few are lost. Like the dissertation's client, it checks only a sample of the responses,
//! and takes the times of these, so that the measurement is that of the server.

use super::trace::Trace;
use super::{Path, Settings};
use crate::{Error, Result};
use hdrhistogram::Histogram;
use siltstone_mica::Operation;
use siltstone_network::protocol::{Header, Kind, Outcome, Requests, Responses};
use siltstone_network::transport::{Burst, Peer, Transport, Udp, Waker, bind};
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// One response in this many is checked, and its time is taken.
const SAMPLE: u64 = 16;
/// The significant digits of the times.
const TIME_DIGITS: u8 = 3;
/// Longer times count as this one, in nanoseconds.
const TIME_NS_MAX: u64 = 10_000_000_000;
/// A packet without a response within this time counts as lost.
const PATIENCE: Duration = Duration::from_millis(100);
/// The buffers of the socket, in bytes.
const SOCKET_BYTES: usize = 16 << 20;

/// The results of the packets of a round.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PacketResults {
    pub sent: u64,
    pub answered: u64,
    pub wall_s: f64,
    pub found: u64,
    pub absent: u64,
    wrong: u64,
    refused: u64,
}

impl PacketResults {
    pub fn check(&self) -> Result<()> {
        match (self.wrong, self.refused) {
            (0, 0) => Ok(()),
            (0, refused) => Err(Error::wrong_results(format!("{refused} requests were refused"))),
            (wrong, _) => Err(Error::wrong_results(format!("{wrong} responses did not match their packets"))),
        }
    }

    pub fn add(&mut self, other: &PacketResults) {
        self.sent += other.sent;
        self.answered += other.answered;
        self.wall_s += other.wall_s;
        self.found += other.found;
        self.absent += other.absent;
        self.wrong += other.wrong;
        self.refused += other.refused;
    }

    /// Compares a response with its packet. An echo is the packet itself.
    fn look(&mut self, packet: &[u8], reply: &[u8]) {
        if self.compare(packet, reply).is_none() {
            self.wrong += 1;
        }
    }

    fn compare(&mut self, packet: &[u8], reply: &[u8]) -> Option<()> {
        let header = Header::decode(reply).ok()?;
        if header.kind == Kind::Requests {
            return (packet == reply).then_some(());
        }
        let requests = Requests::of(&Header::decode(packet).ok()?, packet).ok()?;
        for (request, response) in requests.zip(Responses::of(&header, reply).ok()?) {
            let ((request, _), response) = (request.ok()?, response.ok()?);
            match (request.operation, response.outcome) {
                (Operation::Get, Outcome::Found) => {
                    let common = response.value.len().min(8);
                    if response.value.get(..common) != request.key.bytes.get(..common) {
                        return None;
                    }
                    self.found += 1;
                }
                (Operation::Get, Outcome::Absent) => self.absent += 1,
                (Operation::Put { .. }, Outcome::Stored) => {}
                _ => self.refused += 1,
            }
        }
        Some(())
    }
}

/// A client with its socket.
pub(super) struct Client {
    transport: Udp,
    received: Burst<Peer>,
    leaving: Burst<Peer>,
    window: u64,
    /// When each packet of the trace was sent last.
    sent_at: Vec<Instant>,
}

/// Makes an empty histogram of times in nanoseconds.
pub(super) fn no_times() -> Result<Histogram<u64>> {
    Histogram::new_with_bounds(1, TIME_NS_MAX, TIME_DIGITS)
        .map_err(|error| Error::wrong_results(error.to_string()))
}

impl Client {
    pub fn new(settings: &Settings, packet_bytes: usize) -> Result<Client> {
        let address = if settings.path == Path::Sockets { [127, 0, 0, 1] } else { [0; 4] };
        let socket = bind((address, 0).into(), SOCKET_BYTES)?;
        let burst = settings.burst;
        Ok(Client {
            transport: Udp::new(socket, Waker::new()?, burst),
            received: Burst::new(burst, packet_bytes),
            leaving: Burst::new(burst, packet_bytes),
            window: settings.window as u64,
            sent_at: Vec::new(),
        })
    }

    /// Sends `count` packets of the trace; `address` maps their ports to addresses. Adds to `times` how long after a
    /// packet its response came, for a sample of them.
    pub fn drive(
        &mut self,
        settings: &Settings,
        trace: &Trace,
        count: u64,
        address: impl Fn(u16) -> SocketAddr,
        times: &mut Histogram<u64>,
    ) -> Result<PacketResults> {
        let mut results = PacketResults::default();
        let (mut flying, mut lost) = (0, 0);
        let begun = Instant::now();
        self.sent_at.resize(trace.len(), begun);
        while results.answered + lost < count {
            let room = (self.window - flying).min(count - results.sent).min(self.leaving.capacity() as u64);
            if room == (self.leaving.capacity() as u64).min(count - results.sent) && room > 0 {
                self.leaving.clear();
                let now = Instant::now();
                for number in results.sent..results.sent + room {
                    let (packet, port) = trace.packet(number);
                    self.leaving.push_bytes(address(port).into(), packet);
                    self.sent_at[(number % trace.len() as u64) as usize] = now;
                }
                self.transport.send(&self.leaving)?;
                results.sent += room;
                flying += room;
            }
            self.transport.receive(&mut self.received)?;
            if self.received.is_empty() && (flying >= self.window || results.sent == count) {
                if settings.stop.load(Relaxed) {
                    return Err(Error::STOPPED);
                }
                self.transport.wait(Some(PATIENCE))?;
                self.transport.receive(&mut self.received)?;
                if self.received.is_empty() {
                    lost += flying;
                    flying = 0;
                }
            }
            for (reply, _) in self.received.packets() {
                results.answered += 1;
                if results.answered % SAMPLE == 0
                    && let Ok(header) = Header::decode(reply)
                {
                    results.look(trace.packet(header.sequence).0, reply);
                    let sent_at = self.sent_at.get(header.sequence as usize).copied().unwrap_or(begun);
                    times.saturating_record(sent_at.elapsed().as_nanos() as u64);
                }
            }
            flying = flying.saturating_sub(self.received.len() as u64);
        }
        results.wall_s = begun.elapsed().as_secs_f64();
        Ok(results)
    }
}
