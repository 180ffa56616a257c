//! Concurrent threads. Miri runs these tests too, with many interleavings of its own.

use super::*;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const KEYS: u64 = 24;
const ROUNDS: u64 = if cfg!(miri) { 30 } else { 20_000 };

/// Returns a value of any length whose bytes are all the same, derived from the key: torn values are detected.
fn whole(key: u64, version: u64) -> Vec<u8> {
    let length = 1 + (version.wrapping_mul(7) + key) as usize % 60;
    vec![(key * 10 + version % 10) as u8; length]
}

fn check(key: u64, value: &[u8]) {
    assert!(!value.is_empty() && value.iter().all(|byte| *byte == value[0]), "torn: {value:?}");
    assert_eq!(u64::from(value[0]) / 10, key, "of another key");
}

fn store<M: Mode>() -> Partition<SegregatedFits, M> {
    let settings = StoreSettings::for_items(ItemLayout::default(), KEYS * 2, 8, 64);
    StoreSettings { buckets: 3, spare_buckets: 20, ..settings }.open().unwrap()
}

/// A log so short that items are overwritten while they are read.
fn cache<M: Mode>() -> Partition<CircularLog, M> {
    let settings = CacheSettings::for_items(ItemLayout::default(), KEYS, 8, 64);
    let eviction = Eviction::ApproximateLru;
    CacheSettings { log_bytes: 4096, buckets: 6, offset_bits: 12, eviction, ..settings }.open().unwrap()
}

fn one_writer<S: Space>(mut partition: Partition<S, Crew>) {
    let done = AtomicBool::new(false);
    let reader = partition.reader();
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (reader, done) = (reader.clone(), &done);
            scope.spawn(move || {
                let (mut value, mut at) = (Vec::new(), thread);
                while !done.load(Relaxed) {
                    at = (at + 1) % KEYS;
                    value.clear();
                    if reader.get(hashed(&at.to_le_bytes(), spread), 0, &mut value).is_some() {
                        check(at, &value);
                    }
                }
                let keys: Vec<[u8; 8]> = (0..KEYS).map(u64::to_le_bytes).collect();
                let place = |at: usize| (&*reader, hashed(&keys[at], spread));
                get_many(keys.len(), place, 0, |at, found| {
                    found.iter().for_each(|(value, _)| check(at as u64, value));
                });
            });
        }
        for round in 0..ROUNDS {
            let number = round * 7 % KEYS;
            let key = number.to_le_bytes();
            if round % 5 == 4 {
                partition.remove(hashed(&key, spread));
            } else {
                let _ = partition.put(hashed(&key, spread), &whole(number, round), NEVER);
                let mut value = Vec::new();
                if partition.get_and_keep(hashed(&key, spread), 0, &mut value).is_some() {
                    assert_eq!(value, whole(number, round));
                }
            }
        }
        done.store(true, Relaxed);
    });
}

#[test]
fn readers_during_a_write_see_complete_values() {
    one_writer(store::<Crew>());
    one_writer(cache::<Crew>());
}

fn many_writers<S: Space>(shared: &Shared<S>) {
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let mut shared = shared.clone();
            scope.spawn(move || {
                for round in 0..ROUNDS / 2 {
                    let number = (round * 5 + thread * 7) % KEYS;
                    let bytes = number.to_le_bytes();
                    let key = hashed(&bytes, spread);
                    let mut value = Vec::new();
                    if shared.get_and_keep(key, 0, &mut value).is_some() {
                        check(number, &value);
                    }
                    if round % 4 == 0 {
                        shared.remove(key);
                    } else {
                        shared.put(key, &whole(number, round), NEVER).unwrap();
                    }
                }
            });
        }
    });
    for number in 0..KEYS {
        let mut value = Vec::new();
        if shared.get(hashed(&number.to_le_bytes(), spread), 0, &mut value).is_some() {
            check(number, &value);
        }
    }
}

#[test]
fn concurrent_writers_leave_complete_values_and_lose_no_space() {
    let mut store = store::<Crcw>();
    let free_words = store.free_words();
    let mut shared = store.share();
    many_writers(&shared);
    for number in 0..KEYS {
        shared.remove(hashed(&number.to_le_bytes(), spread));
    }
    assert!(shared.is_empty());
    assert_eq!(shared.free_words(), free_words);
    many_writers(&cache::<Crcw>().share());
}
