//! The requests, in order, generated before timing starts.

use super::Settings;
use siltstone::key::KeyHasher;
use siltstone_bench::random::{self, Permutation, mix};
use siltstone_bench::ycsb::zipfian::Zipfian;

/// One request: 24 bytes, read in sequence.
pub(super) struct Asked {
    /// The first 8 bytes of the key; the others are zero.
    pub key: [u8; 8],
    pub hash: u64,
    pub is_put: bool,
}

/// The requests of each thread.
pub(super) type Traces = Vec<Vec<Asked>>;

/// The key hasher, for hashing before or during the timed part.
pub(super) const HASHER: KeyHasher = KeyHasher::Keyed([0x5117, 0x570e]);

/// Returns the partition of a hash; `partitions` must be a power of two.
pub(super) fn partition(hash: u64, partitions: usize) -> usize {
    ((u128::from(hash) * partitions as u128) >> 64) as usize
}

struct Keys<'a> {
    settings: &'a Settings,
    bytes: Vec<u8>,
}

impl Keys<'_> {
    fn ask(&mut self, item: u64, is_put: bool) -> Asked {
        let key = mix(item ^ mix(self.settings.seed)).to_le_bytes();
        self.bytes[..8].copy_from_slice(&key);
        Asked { key, hash: HASHER.hash(&self.bytes).placement, is_put }
    }
}

fn keys(settings: &Settings) -> Keys<'_> {
    Keys { settings, bytes: vec![0; settings.key_size] }
}

/// Returns a put of every item, for the owner of its partition.
pub(super) fn loading(settings: &Settings) -> Traces {
    let mut traces: Traces = (0..settings.threads).map(|_| Vec::new()).collect();
    let mut keys = keys(settings);
    for item in 0..settings.items {
        let asked = keys.ask(item, true);
        traces[partition(asked.hash, settings.threads)].push(asked);
    }
    traces
}

/// Returns the requests of a round.
pub(super) fn requests(settings: &Settings) -> Traces {
    let threads = settings.threads;
    let mut traces: Traces = (0..threads).map(|_| Vec::new()).collect();
    let mut keys = keys(settings);
    let mut random = random::stream(settings.seed, 1);
    let zipf = (settings.zipf > 0.0).then(|| Zipfian::new(settings.items, settings.zipf));
    let order = Permutation::new(settings.items, settings.seed);
    for number in 0..settings.operations {
        let item = match &zipf {
            Some(zipf) => order.at(zipf.rank(random.f64())),
            None => random.u64(..settings.items),
        };
        let asked = keys.ask(item, random.f64() >= settings.get);
        let any_thread = settings.mode.allows_any_thread(asked.is_put);
        let thread = if any_thread { number as usize % threads } else { partition(asked.hash, threads) };
        traces[thread].push(asked);
    }
    traces
}
