//! Forwarding of packets from one core to another (dissertation 5.4.5): a bounded queue per core. The owner replies
//! from its own socket.

use crate::transport::{Burst, Waker};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// The maximum number of packets in a queue.
const PACKETS_MAX: usize = 4_096;

/// Whether a core sleeps, and how to wake it.
pub(super) struct Bell {
    pub waker: Waker,
    pub sleeps: AtomicBool,
    waiting: AtomicUsize,
}

struct Letter<P> {
    bytes: Box<[u8]>,
    peer: P,
}

/// The queues as one core uses them: the senders of all cores, and its own receiver.
pub(super) struct Mailboxes<P> {
    own: usize,
    bells: Vec<Arc<Bell>>,
    senders: Vec<SyncSender<Letter<P>>>,
    receiver: Receiver<Letter<P>>,
}

impl Bell {
    pub fn new(waker: Waker) -> Arc<Bell> {
        Arc::new(Bell { waker, sleeps: AtomicBool::new(false), waiting: AtomicUsize::new(0) })
    }
}

impl<P> Mailboxes<P> {
    /// Makes the queues of all cores.
    pub fn all(bells: &[Arc<Bell>]) -> Vec<Mailboxes<P>> {
        let (senders, receivers): (Vec<_>, Vec<_>) = bells.iter().map(|_| sync_channel(PACKETS_MAX)).unzip();
        let one =
            |(own, receiver)| Mailboxes { own, bells: bells.to_vec(), senders: senders.clone(), receiver };
        receivers.into_iter().enumerate().map(one).collect()
    }

    /// Forwards a packet to a core; returns false if its queue is full.
    pub fn send(&self, core: usize, packet: &[u8], peer: P) -> bool {
        let (Some(bell), Some(sender)) = (self.bells.get(core), self.senders.get(core)) else { return false };
        bell.waiting.fetch_add(1, SeqCst);
        if sender.try_send(Letter { bytes: packet.into(), peer }).is_err() {
            bell.waiting.fetch_sub(1, SeqCst);
            return false;
        }
        // The receiver first announces that it sleeps and then checks `waiting`; this sender first increments `waiting`
        // and then checks `sleeps`. So at least one of them sees the other, and no packet is left in the queue of a
        // sleeping core.
        if bell.sleeps.load(SeqCst) {
            bell.waker.wake();
        }
        true
    }

    /// Returns whether a packet is in this core's queue, or about to be.
    pub fn has_mail(&self) -> bool {
        self.bells.get(self.own).is_some_and(|bell| bell.waiting.load(SeqCst) > 0)
    }

    /// Moves packets from the queue to the burst until the burst is full.
    pub fn receive(&mut self, burst: &mut Burst<P>)
    where
        P: Copy,
    {
        let Some(bell) = self.bells.get(self.own) else { return };
        while burst.len() < burst.capacity() {
            let Ok(Letter { bytes, peer }) = self.receiver.try_recv() else { break };
            bell.waiting.fetch_sub(1, SeqCst);
            burst.push_bytes(peer, &bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_arrive_in_order_and_a_full_queue_refuses_more() {
        let bells: Vec<Arc<Bell>> = (0..2).map(|_| Bell::new(Waker::new().unwrap())).collect();
        let mut all = Mailboxes::all(&bells);
        let mut second = all.pop().unwrap();
        let first = all.pop().unwrap();
        for number in 0..PACKETS_MAX {
            assert!(first.send(1, &(number as u32).to_le_bytes(), number));
        }
        assert!(!first.send(1, b"one more", 0) && !first.send(2, b"nobody", 0));
        assert!(second.has_mail() && !first.has_mail());
        let mut next = 0;
        let mut burst = Burst::new(100, 64);
        while second.has_mail() {
            burst.clear();
            second.receive(&mut burst);
            for (bytes, number) in burst.packets() {
                assert_eq!((bytes, number), (&(next as u32).to_le_bytes()[..], next));
                next += 1;
            }
        }
        assert_eq!(next, PACKETS_MAX);
        assert!(first.send(1, b"again", 0));
    }
}
