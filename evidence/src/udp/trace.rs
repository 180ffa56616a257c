//! The packets that the client sends, generated before timing starts.

use super::{Direction, Settings};
use siltstone::batch::NEVER;
use siltstone_bench::random::{self, Permutation, mix};
use siltstone_bench::ycsb::zipfian::Zipfian;
use siltstone_mica::{AccessMode, HashedKey, Operation, Request};
use siltstone_network::protocol::{Directory, RequestWriter};
use std::ops::Range;

/// The number of bytes of packets that are generated; then they repeat.
const TRACE_BYTES: usize = 96 << 20;

/// Packets with their destination ports.
pub(super) struct Trace {
    bytes: Vec<u8>,
    packets: Vec<(Range<usize>, u16)>,
}

/// Returns the key of an item.
pub(super) fn key(settings: &Settings, item: u64) -> Vec<u8> {
    let mut key = vec![0; settings.key_size];
    key[..8].copy_from_slice(&mix(item ^ mix(settings.seed)).to_le_bytes());
    key
}

/// Returns the value of a key. It begins with the bytes of the key, as far as it is long enough.
pub(super) fn value(settings: &Settings, key: &[u8]) -> Vec<u8> {
    let mut value = vec![0; settings.value_size];
    let common = settings.value_size.min(8);
    value[..common].copy_from_slice(&key[..common]);
    value
}

impl Trace {
    /// Returns how many packets there are before they repeat.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Returns the packet with this number; packets repeat.
    #[inline]
    pub fn packet(&self, number: u64) -> (&[u8], u16) {
        let (range, port) = &self.packets[(number % self.packets.len() as u64) as usize];
        (&self.bytes[range.clone()], *port)
    }

    /// Generates packets. Each has as many requests as configured, all for one partition unless any core may serve
    /// them.
    pub fn draw(settings: &Settings, directory: &Directory) -> Trace {
        let per_packet = settings.requests_per_packet;
        let mut random = random::stream(settings.seed, 2);
        let zipf = (settings.zipf > 0.0).then(|| Zipfian::new(settings.items, settings.zipf));
        let order = Permutation::new(settings.items, settings.seed);
        let partitions = directory.partition_ports.len();
        let mut lanes: Vec<Vec<(u64, Vec<u8>, bool)>> = vec![Vec::new(); partitions + 1];
        let mut trace = Trace { bytes: Vec::new(), packets: Vec::new() };
        while (trace.packets.len() as u64) < settings.packets && trace.bytes.len() < TRACE_BYTES {
            let item = match &zipf {
                Some(zipf) => order.at(zipf.rank(random.f64())),
                None => random.u64(..settings.items),
            };
            let writes = random.f64() >= settings.get;
            let key = key(settings, item);
            let hash = directory.hash(&key);
            let any_core = settings.mode.allows_any_thread(writes)
                && (settings.mode == AccessMode::Crcw || settings.direction == Direction::Assisted);
            let lane = if any_core { partitions } else { directory.partition(hash) };
            lanes[lane].push((hash, key, writes));
            if lanes[lane].len() == per_packet {
                trace.append(settings, directory, &lanes[lane]);
                lanes[lane].clear();
            }
        }
        trace
    }

    fn append(&mut self, settings: &Settings, directory: &Directory, requests: &[(u64, Vec<u8>, bool)]) {
        let (begin, number) = (self.bytes.len(), self.packets.len());
        let mut writer = RequestWriter::new(&mut self.bytes, directory.epoch, number as u64);
        for (hash, key, writes) in requests {
            let value = value(settings, key);
            let operation = match writes {
                true => Operation::Put { value: &value, expires_at_ms: NEVER },
                false => Operation::Get,
            };
            writer
                .add(&Request { key: HashedKey { hash: *hash, bytes: key }, operation }, settings.value_size);
        }
        let first = requests.first().map_or(0, |(hash, ..)| *hash);
        let writes = requests.iter().any(|(.., writes)| *writes);
        let port = directory.port(first, writes, number);
        self.packets.push((begin..self.bytes.len(), port));
    }
}
