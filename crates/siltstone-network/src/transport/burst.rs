//! The buffers of a burst.

/// Packets that were received or are to be sent, each in a buffer of the same length.
pub struct Burst<P> {
    bytes: Box<[u8]>,
    packet_bytes: usize,
    packets: Vec<Packet<P>>,
}

struct Packet<P> {
    length: usize,
    is_whole: bool,
    peer: P,
}

impl<P: Copy> Burst<P> {
    /// Allocates buffers for `capacity` packets of at most `packet_bytes`; both at least 1.
    pub fn new(capacity: usize, packet_bytes: usize) -> Self {
        let (capacity, packet_bytes) = (capacity.max(1), packet_bytes.max(1));
        let bytes = vec![0; capacity * packet_bytes].into_boxed_slice();
        Burst { bytes, packet_bytes, packets: Vec::with_capacity(capacity) }
    }

    /// Returns the number of packets.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Returns whether there are no packets.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Returns the maximum number of packets.
    pub fn capacity(&self) -> usize {
        self.bytes.len() / self.packet_bytes
    }

    /// Removes all packets.
    pub fn clear(&mut self) {
        self.packets.clear();
    }

    /// Returns a packet and its sender or receiver; `at` must be less than [`len`](Burst::len).
    #[inline]
    pub fn packet(&self, at: usize) -> (&[u8], P) {
        let Packet { length, peer, .. } = self.packets[at];
        let begin = at * self.packet_bytes;
        (&self.bytes[begin..begin + length], peer)
    }

    /// Returns whether a packet is complete: false if it was longer than its buffer.
    #[inline]
    pub fn is_whole(&self, at: usize) -> bool {
        self.packets[at].is_whole
    }

    /// Returns all packets.
    pub fn packets(&self) -> impl ExactSizeIterator<Item = (&[u8], P)> {
        (0..self.len()).map(|at| self.packet(at))
    }

    /// Adds a packet: `fill` writes it to its buffer and returns its length, or 0 to add none. Returns false if the
    /// burst is full.
    #[inline]
    pub fn push(&mut self, peer: P, fill: impl FnOnce(&mut [u8]) -> usize) -> bool {
        let begin = self.len() * self.packet_bytes;
        let Some(buffer) = self.bytes.get_mut(begin..begin + self.packet_bytes) else { return false };
        let length = fill(buffer).min(buffer.len());
        if length > 0 {
            self.packets.push(Packet { length, is_whole: true, peer });
        }
        true
    }

    /// Adds a copy of a packet. Returns false if the burst is full or the packet is too long.
    #[inline]
    pub fn push_bytes(&mut self, peer: P, bytes: &[u8]) -> bool {
        let copy = |buffer: &mut [u8]| match buffer.get_mut(..bytes.len()) {
            Some(to) => {
                to.copy_from_slice(bytes);
                bytes.len()
            }
            None => 0,
        };
        bytes.len() <= self.packet_bytes && self.push(peer, copy)
    }

    /// Adds a copy of a packet, or of its beginning if it is longer than a buffer; it is then incomplete. Returns false
    /// if the burst is full.
    #[cfg(feature = "af-xdp")]
    pub(super) fn push_cut(&mut self, peer: P, bytes: &[u8]) -> bool {
        let kept = bytes.len().min(self.packet_bytes);
        let had = self.len();
        let pushed = self.push_bytes(peer, &bytes[..kept]);
        if let Some(packet) = self.packets.get_mut(had) {
            packet.is_whole = kept == bytes.len();
        }
        pushed
    }

    /// Returns all buffers, and a function that adds a packet in the next buffer: its length, whether it is complete,
    /// and its sender.
    pub(super) fn receive_into(
        &mut self,
    ) -> (impl Iterator<Item = &mut [u8]>, impl FnMut(usize, bool, P) + use<'_, P>) {
        let Burst { bytes, packet_bytes, packets } = self;
        packets.clear();
        let add = |length, is_whole, peer| packets.push(Packet { length, is_whole, peer });
        (bytes.chunks_exact_mut(*packet_bytes), add)
    }
}
