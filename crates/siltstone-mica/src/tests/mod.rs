use super::*;
use crate::NEVER;
use std::collections::BTreeMap;

mod concurrent;
mod handle;

/// A hash that puts keys in few buckets with few tags, so that everything collides.
fn crowded(key: &[u8]) -> u64 {
    let number = key.iter().fold(7u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    (number % 5) << 62 | (number % 3)
}

fn spread(key: &[u8]) -> u64 {
    key.iter().fold(0x9e37_79b9_7f4a_7c15, |sum: u64, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0xd6e8_feb8_6659_fd93).rotate_left(29)
    })
}

fn hashed(key: &[u8], hash: fn(&[u8]) -> u64) -> HashedKey<'_> {
    HashedKey { hash: hash(key), bytes: key }
}

fn key(number: u64, layout: ItemLayout) -> Vec<u8> {
    let length = layout.fixed.map_or(1 + number as usize % 11, |(length, _)| length);
    let mut key = number.to_le_bytes().to_vec();
    key.resize(length.max(2), number as u8);
    key
}

fn value(random: &mut fastrand::Rng, layout: ItemLayout) -> Vec<u8> {
    let length = match layout.fixed {
        Some((_, length)) => length,
        None if random.u32(..20) == 0 => random.usize(..1_500),
        None => random.usize(..40),
    };
    (0..length).map(|_| random.u8(..)).collect()
}

const LAYOUTS: [ItemLayout; 3] = [
    ItemLayout { fixed: None, expiring: false },
    ItemLayout { fixed: Some((8, 8)), expiring: false },
    ItemLayout { fixed: Some((5, 14)), expiring: true },
];

const STEPS: usize = if cfg!(miri) { 300 } else { 20_000 };

fn get<S: Space, M: Mode>(partition: &Partition<S, M>, key: HashedKey<'_>, now_ms: u64) -> Option<Vec<u8>> {
    let mut value = vec![];
    partition.get(key, now_ms, &mut value).map(|_| value)
}

type Model = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;

/// Executes random operations on a store and a map; the store may refuse one, and then has not changed.
fn churn<M: Mode>(layout: ItemLayout, hash: fn(&[u8]) -> u64, seed: u64) -> u64 {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut settings = StoreSettings::for_items(layout, 300, 8, 40);
    settings.buckets = 40;
    settings.spare_buckets = 10;
    let mut store = settings.open::<M>().unwrap();
    let free_words = store.free_words();
    let mut model = Model::new();
    let mut refused = 0;
    for step in 0..STEPS {
        let now_ms = step as u64 / 10;
        let name = key(random.u64(..500), layout);
        let name_hashed = hashed(&name, hash);
        match random.u32(..10) {
            0..4 => {
                let value = value(&mut random, layout);
                let expires = layout.fixed.is_none() || layout.expiring;
                let expires_at_ms =
                    if expires && random.bool() { now_ms + random.u64(1..300) } else { NEVER };
                match store.put(name_hashed, &value, expires_at_ms) {
                    Ok(()) => drop(model.insert(name.clone(), (value, expires_at_ms))),
                    Err(full) => {
                        assert!(matches!(full, Full::Memory | Full::Index), "{full:?}");
                        refused += 1;
                    }
                }
            }
            4..7 => assert_eq!(store.remove(name_hashed), model.remove(&name).is_some()),
            _ => {}
        }
        let expected = model.get(&name).filter(|(_, until)| *until == NEVER || *until > now_ms);
        assert_eq!(get(&store, name_hashed, now_ms).as_ref(), expected.map(|(value, _)| value), "{name:?}");
        assert_eq!(store.len(), model.len() as u64);
    }
    let mut seen = Model::new();
    store.for_each(0, |key, value, until| {
        assert!(seen.insert(key.to_vec(), (value.to_vec(), until)).is_none());
    });
    assert_eq!(seen, model);
    let expired = model.values().filter(|(_, until)| *until != NEVER).count() as u64;
    assert_eq!(store.collect(u64::MAX), expired);
    assert_eq!(store.len(), model.len() as u64 - expired);
    for key in model.keys() {
        assert_eq!(store.remove(hashed(key, hash)), model[key].1 == NEVER);
    }
    assert_eq!((store.free_words(), store.buckets.free_spares()), (free_words, 10), "all space is back");
    assert!(store.is_empty());
    refused
}

#[test]
fn a_store_behaves_as_a_map_and_frees_all_its_space_after_random_churn() {
    let mut refused = 0;
    for (seed, layout) in (0..).zip(LAYOUTS) {
        refused += churn::<Erew>(layout, spread, seed);
        refused += churn::<Crew>(layout, crowded, seed);
        refused += churn::<Crcw>(layout, spread, seed);
    }
    assert!(refused > 0 || cfg!(miri), "the store was full at times");
}

/// Executes random operations on a cache and a map: an item has its last value, or is absent.
fn cache_churn<M: Mode>(
    layout: ItemLayout,
    offset_bits: u32,
    eviction: Eviction,
    seed: u64,
) -> (usize, usize) {
    let mut random = fastrand::Rng::with_seed(seed);
    let settings = CacheSettings {
        log_bytes: 8 << 10,
        buckets: 40,
        offset_bits,
        eviction,
        ..CacheSettings::for_items(layout, 300, 8, 40)
    };
    let mut cache = settings.open::<M>().unwrap();
    let mut model = Model::new();
    let (mut hits, mut asked) = (0, 0);
    for step in 0..STEPS {
        let now_ms = step as u64 / 10;
        // Some keys are never written again: their offsets are those that wrap around.
        let keys = if random.bool() { 60 } else { 2_000 };
        let name = key(random.u64(..keys), layout);
        let name_hashed = hashed(&name, spread);
        match random.u32(..10) {
            0..5 => {
                let value = value(&mut random, layout);
                cache.put(name_hashed, &value, NEVER).unwrap();
                model.insert(name.clone(), (value, NEVER));
            }
            5 => {
                let there = cache.remove(name_hashed);
                assert!(model.remove(&name).is_some() || !there);
            }
            _ => {}
        }
        let mut got = Vec::new();
        let found = match random.bool() {
            true => cache.get_and_keep(name_hashed, now_ms, &mut got),
            false => cache.get(name_hashed, now_ms, &mut got),
        };
        if found.is_some() {
            assert_eq!(Some(&got), model.get(&name).map(|(value, _)| value), "{name:?}");
            hits += 1;
        }
        asked += usize::from(model.contains_key(&name));
    }
    let mut count = 0;
    cache.for_each(0, |key, value, _| {
        assert_eq!(model[key].0, value);
        count += 1;
    });
    assert_eq!(cache.len(), count);
    (hits, asked)
}

#[test]
fn an_item_of_a_cache_has_its_last_value_or_is_absent_however_often_offsets_wrap_around() {
    for (seed, layout) in (0..).zip(LAYOUTS) {
        for offset_bits in [11, 12, 14, 32] {
            for eviction in [Eviction::Fifo, Eviction::Lru, Eviction::ApproximateLru] {
                let (hits, asked) = cache_churn::<Erew>(layout, offset_bits, eviction, seed);
                assert!(hits < asked && hits > asked / 4, "{hits} of {asked}");
            }
        }
        cache_churn::<Crcw>(layout, 11, Eviction::Lru, seed);
        cache_churn::<Crew>(layout, 11, Eviction::ApproximateLru, seed);
    }
}

fn small_cache(eviction: Eviction) -> Partition<CircularLog, Erew> {
    let layout = ItemLayout { fixed: Some((8, 8)), expiring: false };
    let settings = CacheSettings { eviction, buckets: 2_000, ..CacheSettings::for_items(layout, 256, 8, 8) };
    settings.open().unwrap()
}

fn put_number(cache: &mut Partition<CircularLog, Erew>, number: u64) {
    let key = number.to_le_bytes();
    cache.put(hashed(&key, spread), &key, NEVER).unwrap();
}

fn has_number(cache: &Partition<CircularLog, Erew>, number: u64) -> bool {
    get(cache, hashed(&number.to_le_bytes(), spread), 0).is_some()
}

#[test]
fn a_fifo_cache_has_exactly_the_last_items() {
    let mut cache = small_cache(Eviction::Fifo);
    for number in 0..1_000u64 {
        put_number(&mut cache, number);
        cache.get_and_keep(hashed(&0u64.to_le_bytes(), spread), 0, &mut Vec::new());
    }
    assert!((0..744).all(|number| !has_number(&cache, number)));
    assert!((744..1_000).all(|number| has_number(&cache, number)), "4,096 bytes hold 256 items of 16");
}

#[test]
fn used_items_stay_in_an_lru_cache_and_nearly_so_in_an_approximate_one() {
    for (eviction, kept) in [(Eviction::Lru, 120..=150), (Eviction::ApproximateLru, 220..=256)] {
        let mut cache = small_cache(eviction);
        for number in 0..1_000u64 {
            put_number(&mut cache, number);
            // Each of these is used every 10 items, long before 120 others are written.
            let key = (number % 10).to_le_bytes();
            let found = cache.get_and_keep(hashed(&key, spread), 0, &mut Vec::new());
            assert!(found.is_some() || number < 10, "{eviction:?}: {number}");
        }
        assert!((0..10).all(|number| has_number(&cache, number)));
        // An item that is appended again leaves its old place unused until the log reaches it.
        let others = (10..1_000).filter(|number| has_number(&cache, *number)).count();
        assert!(kept.contains(&(others + 10)), "{eviction:?}: {others}");
        assert!((995..1_000).all(|number| has_number(&cache, number)));
    }
}

#[test]
fn an_update_that_fits_in_the_first_size_takes_no_space() {
    let settings = CacheSettings {
        log_bytes: 4 << 10,
        eviction: Eviction::Fifo,
        ..CacheSettings::for_items(ItemLayout::default(), 50, 8, 40)
    };
    let mut cache = settings.open::<Erew>().unwrap();
    let witness = hashed(b"witness", spread);
    cache.put(witness, b"there", NEVER).unwrap();
    let key = hashed(b"key", spread);
    cache.put(key, &[1; 40], NEVER).unwrap();
    for length in (0..1_000).map(|round| round * 7 % 41) {
        cache.put(key, &vec![length as u8; length], NEVER).unwrap();
        assert_eq!(get(&cache, key, 0).unwrap(), vec![length as u8; length]);
    }
    assert_eq!(get(&cache, witness, 0).unwrap(), b"there", "nothing was appended");
    (0..100).for_each(|round| cache.put(key, &vec![1; 41 + 8 * round], NEVER).unwrap());
    assert!(get(&cache, witness, 0).is_none(), "a longer value is appended");
}

#[test]
fn requests_of_a_batch_are_executed_in_order() {
    let layout = ItemLayout::default();
    let mut store = StoreSettings::for_items(layout, 1_000, 8, 40).open::<Erew>().unwrap();
    let mut model = Model::new();
    let mut random = fastrand::Rng::with_seed(1);
    let keys: Vec<Vec<u8>> = (0..200).map(|number| key(number, layout)).collect();
    for size in [0, 1, 2, 11, 12, 13, 23, 24, 25, 100, 1_000] {
        let values: Vec<Vec<u8>> = (0..size).map(|_| value(&mut random, layout)).collect();
        let chosen: Vec<usize> = (0..size).map(|_| random.usize(..200)).collect();
        let requests: Vec<Request<'_>> = (0..size)
            .map(|at| {
                let operation = match random.u32(..4) {
                    0 => Operation::Put { value: &values[at], expires_at_ms: NEVER },
                    1 => Operation::Delete,
                    _ => Operation::Get,
                };
                Request { key: hashed(&keys[chosen[at]], spread), operation }
            })
            .collect();
        let mut next = 0;
        store.execute(&requests, 0, |at, reply| {
            assert_eq!(at, next);
            next += 1;
            let key = requests[at].key.bytes;
            let there = model.get(key).cloned();
            match (requests[at].operation, there) {
                (Operation::Get, Some((value, _))) => {
                    assert_eq!(reply, Reply::Found { value: &value, expires_at_ms: NEVER });
                }
                (Operation::Delete, Some(_)) => {
                    assert_eq!(reply, Reply::Deleted);
                    model.remove(key);
                }
                (Operation::Put { value, .. }, _) => {
                    assert_eq!(reply, Reply::Stored);
                    model.insert(key.to_vec(), (value.to_vec(), NEVER));
                }
                (Operation::Get | Operation::Delete, None) => assert_eq!(reply, Reply::Absent),
            }
        });
        assert_eq!(next, size);
        let mut seen = Vec::new();
        let place = |at: usize| (&*store, hashed(&keys[chosen[at]], spread));
        get_many(size, place, 0, |at, found| seen.push((at, found.map(|(value, _)| value.to_vec()))));
        let expected = |at: usize| model.get(&keys[chosen[at]]).map(|(value, _)| value.clone());
        assert!(seen.into_iter().eq((0..size).map(|at| (at, expected(at)))));
    }
}

#[test]
fn a_prepared_item_is_not_found_before_it_is_published_and_leaves_nothing_if_abandoned() {
    let mut store = StoreSettings::for_items(ItemLayout::default(), 100, 8, 40).open::<Crew>().unwrap();
    let keys: Vec<[u8; 2]> = (0..40u16).map(u16::to_le_bytes).collect();
    let keys: Vec<HashedKey<'_>> = keys.iter().map(|key| hashed(key, spread)).collect();
    store.put(keys[0], b"old", NEVER).unwrap();
    let before = store.free_words();
    let items: Vec<Prepared> = keys.iter().map(|key| store.prepare(*key, b"new", NEVER).unwrap()).collect();
    assert!(store.len() == 1 && get(&store, keys[0], 0).unwrap() == b"old");
    items.into_iter().for_each(|item| store.abandon(item));
    assert_eq!(store.free_words(), before);
    let long = vec![0; store.account().item_bytes as usize - 24];
    assert!(matches!(store.prepare(keys[2], &long, NEVER), Err(Full::Memory)));
    assert_eq!((store.check_index(&[1; 9 * 40]), store.check_index(&[1; 40])), (Err(Full::Index), Ok(())));
    for key in &keys {
        let item = store.prepare(*key, b"new", NEVER).unwrap();
        store.publish(*key, item).unwrap();
    }
    assert!(
        store.len() == 40
            && !store.is_empty()
            && keys.iter().all(|key| get(&store, *key, 0).unwrap() == b"new")
    );
}

#[test]
fn what_cannot_be_stored_is_refused_and_the_previous_value_remains() {
    let mut store = StoreSettings::for_items(ItemLayout::default(), 10, 8, 40).open::<Erew>().unwrap();
    let key = hashed(b"key", spread);
    store.put(key, b"old", NEVER).unwrap();
    assert_eq!(store.put(key, &[0; 5_000], NEVER), Err(Full::Item));
    let room = store.account().item_bytes as usize;
    assert_eq!(store.put(key, &vec![0; room - 20], NEVER), Err(Full::Memory));
    assert_eq!(get(&store, key, 0).unwrap(), b"old");
    let fixed = ItemLayout { fixed: Some((3, 4)), expiring: false };
    let mut store = StoreSettings::for_items(fixed, 10, 3, 4).open::<Erew>().unwrap();
    assert_eq!(store.put(key, b"five5", NEVER), Err(Full::Shape));
    assert_eq!(store.put(hashed(b"longer", spread), b"four", NEVER), Err(Full::Shape));
    assert_eq!(store.put(key, b"four", 1), Err(Full::Shape));
    assert!(store.is_empty() && get(&store, hashed(b"longer", spread), 0).is_none());
    let mut cache = small_cache(Eviction::Fifo);
    assert_eq!(cache.put(key, b"", NEVER), Err(Full::Shape));
}

#[test]
fn a_store_made_for_a_number_of_items_holds_them() {
    for (layout, key_length) in [(LAYOUTS[0], 8), (LAYOUTS[1], 8)] {
        for items in [1, 10, 1_000, 50_000].into_iter().filter(|items| *items <= STEPS as u64 * 3) {
            let mut store = StoreSettings::for_items(layout, items, key_length, 8).open::<Erew>().unwrap();
            for number in 0..items {
                store.put(hashed(&number.to_le_bytes(), spread), &number.to_le_bytes(), NEVER).unwrap();
            }
            let account = store.account();
            let bytes = account.total_bytes() as f64 / items as f64;
            let most = if layout.fixed.is_some() { 30.0 } else { 38.0 };
            assert!(items < 50_000 || bytes < most, "{bytes} bytes per item");
            assert_eq!(account.item_bytes / 8, items * if layout.fixed.is_some() { 2 } else { 3 });
        }
    }
}

#[test]
fn settings_outside_their_limits_are_refused() {
    let layout = ItemLayout::default();
    let store = StoreSettings::for_items(layout, 100, 8, 8);
    for bad in [
        StoreSettings { item_bytes: 0, ..store },
        StoreSettings { item_bytes: 1 << 40, ..store },
        StoreSettings { buckets: 0, ..store },
        StoreSettings { spare_buckets: u32::MAX, ..store },
        StoreSettings { partition_bits: 17, ..store },
    ] {
        assert!(bad.open::<Erew>().is_err(), "{bad:?}");
    }
    let cache = CacheSettings::for_items(layout, 100, 8, 8);
    for bad in [
        CacheSettings { log_bytes: 0, ..cache },
        CacheSettings { log_bytes: 1 << 40, ..cache },
        CacheSettings { buckets: 0, ..cache },
        CacheSettings { partition_bits: 17, ..cache },
    ] {
        assert!(bad.open::<Erew>().is_err(), "{bad:?}");
    }
    // The limits themselves, and a log of half of the offsets but no more.
    assert!(StoreSettings { partition_bits: 16, item_bytes: 16, ..store }.open::<Erew>().is_ok());
    let log = |log_bytes| CacheSettings { log_bytes, offset_bits: 10, partition_bits: 16, ..cache };
    assert!(log(4096).open::<Erew>().is_ok() && log(4097).open::<Erew>().is_err());
}

#[test]
fn memory_that_is_given_is_used_and_not_exceeded() {
    for (bytes, record_bytes) in [(64 << 10, 40), (1 << 20, 40), (5_000_000, 40), (5_000_000, 1_000)] {
        let store = StoreSettings::for_memory(ItemLayout::default(), bytes, record_bytes);
        let cache = CacheSettings::for_memory(ItemLayout::default(), bytes, record_bytes);
        let (store, cache) = (store.open::<Erew>().unwrap(), cache.open::<Erew>().unwrap());
        assert!(cache.account().index_bytes + cache.account().item_bytes <= bytes);
        for used in [store.account().total_bytes(), cache.account().total_bytes()] {
            assert!(used as f64 <= bytes as f64 * 1.003 + 16_384.0, "{used} of {bytes}");
            assert!(used as f64 >= bytes as f64 * 0.997 - 8_192.0, "{used} of {bytes}");
        }
    }
}

#[test]
fn an_index_for_some_memory_is_as_long_as_the_items_that_fit_need() {
    for layout in LAYOUTS {
        let record_bytes = layout.fixed.map_or(40, |(key, value)| key + value);
        let item = f64::from(layout.words(record_bytes, 0, false)) * 8.0;
        let store = StoreSettings::for_memory(layout, 1 << 20, record_bytes);
        let per_bucket = store.item_bytes as f64 / item / f64::from(store.buckets);
        assert!((6.1..6.4).contains(&per_bucket), "{per_bucket}");
        let cache = CacheSettings::for_memory(layout, 1 << 20, record_bytes);
        let per_bucket = cache.log_bytes as f64 / item / f64::from(cache.buckets);
        assert!((4.9..5.1).contains(&per_bucket), "{per_bucket}");
    }
}

#[test]
fn a_store_has_spare_buckets_for_a_tenth_and_for_what_varies() {
    let settings = |items| StoreSettings::for_items(ItemLayout::default(), items, 8, 8);
    let spares = [1, 620, 62_000].map(settings).map(|of| (of.buckets, of.spare_buckets));
    assert_eq!(spares, [(1, 3), (100, 25), (10_000, 1_132)]);
}

#[test]
fn buckets_ascend_with_the_hash_and_have_the_items_of_their_hashes() {
    let settings = StoreSettings { buckets: 8, ..StoreSettings::for_items(ItemLayout::default(), 8, 8, 8) };
    let mut store = settings.open::<Erew>().unwrap();
    for number in 0..8u64 {
        let hash = number << 61 | 0x1234;
        assert_eq!(store.bucket_of(hash), number as u32);
        store.put(HashedKey { hash, bytes: &number.to_le_bytes() }, b"value", NEVER).unwrap();
    }
    for bucket in 0..8 {
        let mut keys = Vec::new();
        store.for_each_in_bucket(bucket, 0, |key, _, _| keys.push(key.to_vec()));
        assert_eq!(keys, [u64::from(bucket).to_le_bytes()]);
    }
}

#[test]
fn a_log_has_gone_round_when_all_of_it_was_written() {
    let mut cache = small_cache(Eviction::Fifo);
    let empty = cache.touched_bytes();
    let index_bytes = cache.account().index_bytes;
    assert!((index_bytes + 1..index_bytes + 1_000).contains(&empty), "the index, and the table itself");
    for number in 0..256 {
        assert!(!cache.has_gone_round(), "{number}");
        assert_eq!(cache.touched_bytes(), empty + 16 * number);
        put_number(&mut cache, number);
    }
    for number in 256..600 {
        assert!(cache.has_gone_round());
        assert_eq!(cache.touched_bytes(), empty + 4_096);
        put_number(&mut cache, number);
    }
}

#[test]
fn a_cache_made_for_a_number_of_items_holds_nearly_all_of_them() {
    let settings = CacheSettings::for_items(LAYOUTS[1], 5_120, 8, 8);
    assert_eq!((settings.log_bytes, settings.buckets), (5_120 * 16, 1_024));
    let mut cache = settings.open().unwrap();
    (0..5_120).for_each(|number| put_number(&mut cache, number));
    assert!(!cache.is_empty());
    let held = (0..5_120).filter(|number| has_number(&cache, *number)).count();
    assert!(held > 5_120 * 98 / 100, "{held}");
}

#[test]
fn the_account_has_the_index_the_items_and_the_state_of_the_writers() {
    let store = |item_bytes| {
        let settings = StoreSettings::for_items(ItemLayout::default(), 100, 8, 8);
        let settings = StoreSettings { item_bytes, buckets: 20, spare_buckets: 4, ..settings };
        settings.open::<Erew>().unwrap().account()
    };
    let (small, large) = (store(1 << 20), store(3 << 20));
    assert_eq!((small.index_bytes, small.item_bytes), (24 * 64, 1 << 20));
    assert_eq!(large.item_bytes - small.item_bytes, 2 << 20);
    assert_eq!(large.writer_bytes - small.writer_bytes, (2 << 20) / 64, "a bit per word");
    assert!(small.writer_bytes > (1 << 20) / 64);
    assert_eq!(large.total_bytes(), large.index_bytes + large.item_bytes + large.writer_bytes);
    let cache = small_cache(Eviction::Fifo);
    // A number of whole huge pages, which may be none.
    assert_eq!(cache.huge_bytes() % (1 << 20), 0);
    let account = cache.account();
    assert_eq!(account.index_bytes, 2_000 * 64);
    assert_eq!(account.writer_bytes, size_of::<Sweep>() as u64);
}

#[test]
fn work_is_repeated_once_and_only_if_expired_items_were_removed() {
    let mut store = StoreSettings::for_items(ItemLayout::default(), 100, 8, 8).open::<Erew>().unwrap();
    store.put(hashed(b"key", spread), b"value", 2_000).unwrap();
    let mut calls = |now_ms, full| {
        let mut calls = 0;
        let outcome: Result<(), Full> = store.with_room(now_ms, |_| {
            calls += 1;
            Err(full)
        });
        assert_eq!(outcome, Err(full));
        calls
    };
    // Nothing has expired, then it is too soon, then there is an expired item, then none any more.
    let times = [
        (0, Full::Memory),
        (999, Full::Index),
        (2_000, Full::Shape),
        (2_000, Full::Index),
        (9_000, Full::Memory),
    ];
    assert_eq!(times.map(|(now_ms, full)| calls(now_ms, full)), [1, 1, 1, 2, 1]);
    assert!(store.is_empty());
}
