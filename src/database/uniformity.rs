//! Whether the keys of a database whose keys are hashes look like hashes: others make every engine slow, some without a
//! bound. A sample of the keys that were put since the database was opened shows it.

use crate::key::KeyHash;
use siltstone_device::sync::Mutex;
use siltstone_device::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use siltstone_index::coding::mix;
use std::collections::BTreeMap;

/// The number of different keys in the sample.
const SAMPLED: usize = 1_024;
/// Keys are compared by this many of their first bits. Of uniform keys, a 16th of a sample has the same 4 bits, and
/// none has the same 32 bits as another one.
const FEW_BITS: u32 = 4;
const MANY_BITS: u32 = 32;
/// Keys are not uniform if this many of the sample have the same few bits, or share many with another one.
const CLUSTERED: usize = SAMPLED / 4;

/// A sample of different keys: those whose mixed hashes are the lowest.
#[derive(Default)]
pub(super) struct Uniformity {
    /// Only keys with a lower mixed hash get into the sample; 0 for all.
    limit: AtomicU64,
    /// The placements of the keys by their mixed hashes.
    sample: Mutex<BTreeMap<u64, u64>>,
    is_clustered: AtomicBool,
}

impl Uniformity {
    /// Notes a key that is put.
    #[inline]
    pub fn note(&self, hash: KeyHash) {
        // Mixed, so that the choice of the sample does not depend on the bits that are compared.
        let mixed = mix(hash.placement ^ mix(hash.fingerprint));
        // It may be an old limit, which is higher: `add` drops a key too many.
        let limit = self.limit.load(Relaxed);
        if limit == 0 || mixed < limit {
            self.add(mixed, hash.placement);
        }
    }

    #[cold]
    fn add(&self, mixed: u64, placement: u64) {
        let mut sample = self.sample.lock();
        // A key that is put again adds nothing to the sample.
        if sample.insert(mixed, placement).is_some() || sample.len() <= SAMPLED {
            return;
        }
        sample.pop_last();
        self.limit.store(sample.last_key_value().map_or(0, |(last, _)| *last), Relaxed);
        let is_clustered = is_clustered(sample.values().copied().collect());
        // The event is emitted without the lock, which other puts may wait for.
        drop(sample);
        if is_clustered && !self.is_clustered.swap(true, Relaxed) {
            event!(
                warn,
                "the keys are not uniform hashes: the database is slow; create it without `hashed_keys`"
            );
        }
    }

    /// Returns whether keys were found not to be uniform.
    pub fn is_clustered(&self) -> bool {
        self.is_clustered.load(Relaxed)
    }
}

fn is_clustered(mut placements: Vec<u64>) -> bool {
    placements.sort_unstable();
    let shares =
        |bits: u32| placements.chunk_by(move |one, other| one >> (64 - bits) == other >> (64 - bits));
    let fullest = shares(FEW_BITS).map(<[u64]>::len).max().unwrap_or(0);
    let together: usize = shares(MANY_BITS).map(<[u64]>::len).filter(|count| *count > 1).sum();
    fullest >= CLUSTERED || together >= CLUSTERED
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeyHasher;

    fn is_clustered(keys: impl Iterator<Item = Vec<u8>>) -> bool {
        let uniformity = Uniformity::default();
        keys.for_each(|key| uniformity.note(KeyHasher::Identity.hash(&key)));
        uniformity.is_clustered()
    }

    #[test]
    fn uniform_keys_are_not_clustered_however_often_one_is_put() {
        let hash = |number: u64| mix(number + 1).to_be_bytes().to_vec();
        assert!(!is_clustered((0..50_000).map(hash)));
        assert!(!is_clustered((0..50_000).map(|number| hash(number % 7))));
    }

    #[test]
    fn keys_in_the_order_of_time_or_count_and_keys_with_equal_beginnings_are_clustered() {
        let uuid_v7 = |number: u64| {
            [&(1_790_000_000_000 + number / 50).to_be_bytes()[2..], &mix(number).to_be_bytes()[..]].concat()
        };
        assert!(is_clustered((0..5_000).map(uuid_v7)));
        assert!(is_clustered((0..5_000u64).map(|number| number.to_be_bytes().to_vec())));
        assert!(is_clustered((0..5_000u64).map(|number| [[7; 8], mix(number).to_be_bytes()].concat())));
        let of_few = |number: u64| [mix(number % 100).to_be_bytes(), mix(number).to_be_bytes()].concat();
        assert!(is_clustered((0..5_000).map(of_few)));
    }
}
