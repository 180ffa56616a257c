//! The loop of a core: receive, serve, send; wait when there are no packets.

use super::counters::{Counters, Counts};
use super::mailbox::Bell;
use super::service::Service;
use crate::transport::{Burst, Transport};
use nix::time::{ClockId, clock_gettime};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{SystemTime, UNIX_EPOCH};

/// The number of rounds without packets before the core waits.
const IDLE_ROUNDS: u32 = 4;
/// The number of bursts between two updates of the processor time, which take a system call.
const CLOCK_BURSTS: u32 = 16;

/// What a core shares with the server.
pub(super) struct Shared<'a> {
    pub counters: &'a Counters,
    pub bell: &'a Bell,
    pub stop: &'a AtomicBool,
}

/// Serves until `stop` is set; returns the number of items of the core's partitions.
pub(super) fn run<T: Transport, S: Service<T::Peer>>(
    mut transport: T,
    mut service: S,
    (burst, packet_bytes): (usize, usize),
    shared: &Shared<'_>,
) -> io::Result<u64> {
    let mut received = Burst::new(burst, packet_bytes);
    let mut answers = Burst::new(burst, packet_bytes);
    let (mut idle, mut bursts, mut processor_ns) = (0, 0, 0);
    // The socket has filled the last burst, so there was no space for what others have forwarded.
    let mut was_full = false;
    let mut count_time = |counts: &mut Counts| {
        let now_ns = thread_ns();
        counts.processor_ns = now_ns.saturating_sub(processor_ns);
        processor_ns = now_ns;
    };
    while !shared.stop.load(SeqCst) {
        let mut counts = Counts::default();
        // Otherwise that would wait for as long as the socket is busy.
        let is_for_mail = was_full && service.has_mail();
        if is_for_mail {
            received.clear();
        } else {
            transport.receive(&mut received)?;
        }
        was_full = !is_for_mail && received.len() == received.capacity();
        service.collect(&mut received);
        if received.is_empty() {
            idle += 1;
            if idle > IDLE_ROUNDS {
                count_time(&mut counts);
                counts.waits = 1;
                shared.counters.add(&counts);
                // Announced before the check for packets: a core that forwards one in between sees that this core
                // sleeps, and wakes it.
                shared.bell.sleeps.store(true, SeqCst);
                if !service.has_mail() && !shared.stop.load(SeqCst) {
                    transport.wait(None)?;
                }
                shared.bell.sleeps.store(false, SeqCst);
            }
            continue;
        }
        idle = 0;
        bursts += 1;
        counts.bursts = 1;
        counts.received_packets = received.len() as u64;
        counts.received_bytes = received.packets().map(|(bytes, _)| bytes.len() as u64).sum();
        service.serve(&mut received, &mut answers, now_ms(), &mut counts);
        if !answers.is_empty() {
            counts.unsent_packets = transport.send(&answers)? as u64;
            counts.sent_packets = answers.len() as u64 - counts.unsent_packets;
            counts.sent_bytes = answers.packets().map(|(bytes, _)| bytes.len() as u64).sum();
        }
        if bursts % CLOCK_BURSTS == 0 {
            count_time(&mut counts);
        }
        shared.counters.add(&counts);
    }
    let mut counts = Counts::default();
    count_time(&mut counts);
    shared.counters.add(&counts);
    Ok(service.items())
}

/// Returns the milliseconds since the Unix epoch.
fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Returns the processor time of this thread, in nanoseconds.
fn thread_ns() -> u64 {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .map_or(0, |time| std::time::Duration::from(time).as_nanos() as u64)
}
