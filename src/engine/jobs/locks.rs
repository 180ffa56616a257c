//! Locks of numbered things, taken in ascending order: the writers of partitions, and the stripes of keys.

use crate::key::KeyHash;
use siltstone_device::sync::{Mutex, MutexGuard};

/// How many key stripes there are. Shuttle explores every lock, so its tests have few.
const STRIPES: usize = if cfg!(shuttle) { 8 } else { 1024 };
/// The memory of the key stripes of a database, in bytes.
pub const KEY_STRIPES_BYTES: usize = STRIPES * size_of::<Mutex<()>>();
/// Numbers of locks are below this.
const LOCKS_MAX: usize = 4096;

/// Runs `work` while the locks with these numbers are held. Every thread takes them in ascending order and each only
/// once, so no two threads wait for each other.
#[inline]
pub(in crate::engine) fn with_locks<'a, T>(
    lock: impl Fn(usize) -> &'a Mutex<()>,
    mut numbers: impl ExactSizeIterator<Item = usize>,
    work: impl FnOnce() -> T,
) -> T {
    if numbers.len() == 1
        && let Some(number) = numbers.next()
    {
        let _locked = lock(number).lock();
        return work();
    }
    with_several_locks(lock, numbers, work)
}

fn with_several_locks<'a, T>(
    lock: impl Fn(usize) -> &'a Mutex<()>,
    numbers: impl ExactSizeIterator<Item = usize>,
    work: impl FnOnce() -> T,
) -> T {
    let count = numbers.len();
    // One bit per lock: iteration over the bits is in order and finds no number twice.
    let mut wanted = [0u64; LOCKS_MAX / 64];
    for number in numbers {
        // The remainder only avoids a panic: no number is as high.
        wanted[number / 64 % wanted.len()] |= 1 << (number % 64);
    }
    let mut locked = Vec::with_capacity(count.min(LOCKS_MAX));
    for (word, mut bits) in wanted.into_iter().enumerate() {
        while bits != 0 {
            locked.push(lock(64 * word + bits.trailing_zeros() as usize).lock());
            bits &= bits - 1;
        }
    }
    work()
}

/// Locks of keys: each key belongs to one of 1,024 stripes, by its hash. A write locks the stripes of its keys before
/// anything else. An update holds them from before it reads its keys until its writes are in the index, so no other
/// write to these keys comes in between, while other keys of the partition are written.
pub(in crate::engine) struct KeyStripes(Box<[Mutex<()>]>);

impl KeyStripes {
    pub fn new() -> KeyStripes {
        KeyStripes((0..STRIPES).map(|_| Mutex::new(())).collect())
    }

    /// Locks the stripe of a key. Partitions take the first bits of the placement, tables and filters the first bits of
    /// the fingerprint.
    #[inline]
    pub fn lock(&self, hash: KeyHash) -> MutexGuard<'_, ()> {
        self.0[hash.fingerprint as usize % STRIPES].lock()
    }

    /// Takes and releases each stripe, one after another. Every thread that held one before the call has released it
    /// since.
    pub fn pass_all(&self) {
        self.0.iter().for_each(|stripe| drop(stripe.lock()));
    }

    /// Runs `work` while the stripes of these keys are held.
    #[inline]
    pub fn with<T>(&self, keys: impl ExactSizeIterator<Item = KeyHash>, work: impl FnOnce() -> T) -> T {
        let stripes = keys.map(|hash| hash.fingerprint as usize % STRIPES);
        with_locks(|number| &self.0[number], stripes, work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(fingerprint: u64) -> KeyHash {
        KeyHash { placement: 7, fingerprint }
    }

    #[test]
    fn each_stripe_is_held_once_and_only_during_the_work() {
        let stripes = KeyStripes::new();
        let is_free = |number: usize| stripes.0[number].try_lock().is_some();
        for keys in [vec![5], vec![4095, 5, 5 + 1024, 64, 0]] {
            stripes.with(keys.iter().map(|&key| hash(key)), || {
                for number in 0..STRIPES {
                    let is_wanted = keys.iter().any(|&key| key as usize % STRIPES == number);
                    assert_eq!(is_free(number), !is_wanted, "{number} of {keys:?}");
                }
            });
            assert!((0..STRIPES).all(is_free));
        }
    }

    /// Two threads that lock the same stripes in opposite orders would wait for each other.
    #[test]
    fn threads_that_name_the_same_keys_in_any_order_all_finish() {
        let stripes = KeyStripes::new();
        let mut counts = [0u64; 2];
        let shared = std::sync::Mutex::new(&mut counts);
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (stripes, shared) = (&stripes, &shared);
                scope.spawn(move || {
                    for round in 0..500 {
                        let (one, other) = if thread % 2 == 0 { (1, 2) } else { (2, 1) };
                        let keys = [one, other, 3 + round % 5].map(hash);
                        stripes.with(keys.into_iter(), || shared.lock().unwrap()[0] += 1);
                    }
                });
            }
        });
        assert_eq!(counts[0], 2000);
    }
}
