//! The loop of a core: receive, serve, send; wait when there is nothing.

use super::counters::{Counters, Counts};
use super::mailbox::Bell;
use super::service::Service;
use crate::transport::{Burst, Transport};
use nix::time::{ClockId, clock_gettime};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{SystemTime, UNIX_EPOCH};

/// How often nothing is received before the core waits.
const IDLE_ROUNDS: u32 = 4;
/// After so many bursts the time on the processor is told: asking for it is a call to the system.
const CLOCK_BURSTS: u32 = 16;

/// What a core shares with the server.
pub(super) struct Shared<'a> {
    pub counters: &'a Counters,
    pub bell: &'a Bell,
    pub stop: &'a AtomicBool,
}

/// Serves until it is told to stop; answers the items of the core's partitions.
pub(super) fn run<T: Transport, S: Service<T::Peer>>(
    mut transport: T,
    mut service: S,
    (burst, packet_bytes): (usize, usize),
    shared: &Shared<'_>,
) -> io::Result<u64> {
    let mut received = Burst::new(burst, packet_bytes);
    let mut answers = Burst::new(burst, packet_bytes);
    let (mut idle, mut bursts, mut processor_ns) = (0, 0, 0);
    let mut tell_time = |counts: &mut Counts| {
        let now_ns = thread_ns();
        counts.processor_ns = now_ns.saturating_sub(processor_ns);
        processor_ns = now_ns;
    };
    while !shared.stop.load(SeqCst) {
        let mut counts = Counts::default();
        transport.receive(&mut received)?;
        service.collect(&mut received);
        if received.is_empty() {
            idle += 1;
            if idle > IDLE_ROUNDS {
                tell_time(&mut counts);
                counts.waits = 1;
                shared.counters.add(&counts);
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
            tell_time(&mut counts);
        }
        shared.counters.add(&counts);
    }
    let mut counts = Counts::default();
    tell_time(&mut counts);
    shared.counters.add(&counts);
    Ok(service.items())
}

/// Milliseconds since the Unix epoch.
fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// What this thread has spent on a processor, in nanoseconds.
fn thread_ns() -> u64 {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .map_or(0, |time| std::time::Duration::from(time).as_nanos() as u64)
}
