use super::*;
use std::collections::HashMap;

fn hash(number: u64) -> u64 {
    let mixed = (number ^ number >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

fn hash_of(key: &[u8]) -> u64 {
    hash(u64::from_le_bytes(key.try_into().unwrap()))
}

fn ticket(cache: &RecordCache, number: u64) -> Option<Ticket> {
    cache.get(hash(number), &number.to_le_bytes(), &mut Vec::new()).err()
}

fn put(cache: &RecordCache, number: u64, value: &[u8]) {
    if let Some(ticket) = ticket(cache, number) {
        cache.insert(ticket, &number.to_le_bytes(), value, 7);
    }
}

fn found(cache: &RecordCache, number: u64) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    let expires_at_ms = cache.get(hash(number), &number.to_le_bytes(), &mut value).ok()?;
    assert_eq!(expires_at_ms, 7);
    Some(value)
}

#[test]
fn the_last_records_are_found_and_the_capacity_is_not_exceeded() {
    let mut random = fastrand::Rng::with_seed(1);
    let cache = RecordCache::new(1 << 20);
    let mut values = HashMap::new();
    for round in 0..60_000u64 {
        let number = random.u64(..4000);
        match random.u8(..4) {
            0 => {
                drop(cache.write(hash(number), &number.to_le_bytes()));
                let value = vec![round as u8; random.usize(..900)];
                put(&cache, number, &value);
                values.insert(number, value);
            }
            1 if round % 1000 == 1 => cache.resize(random.usize(..3 << 20), &hash_of),
            _ => {
                if let Some(value) = found(&cache, number) {
                    assert_eq!(Some(&value.to_vec()), values.get(&number));
                }
            }
        }
        assert!(round % 50 > 0 || cache.heap_bytes() <= cache.capacity() + 16 * size_of::<Shard>() * 2);
    }
    assert!(cache.hits_and_misses().0 > 10_000);
    cache.resize(0, &hash_of);
    assert_eq!((cache.len(), cache.is_empty()), (0, true));
    put(&cache, 1, b"value");
    assert_eq!(found(&cache, 1), None);
}

#[test]
fn records_that_are_read_outlive_those_that_are_not() {
    let cache = RecordCache::new(1 << 20);
    for number in 0..500 {
        put(&cache, number, &[1; 100]);
    }
    let mut lost = 0;
    for number in 1000..100_000 {
        put(&cache, number, &[2; 100]);
        put(&cache, number, &[2; 100]);
        if number % 50 == 0 && found(&cache, number / 50 % 20).is_none() {
            lost += 1;
            (0..2).for_each(|_| put(&cache, number / 50 % 20, &[1; 100]));
        }
    }
    assert!(lost <= 20, "a lossy index loses few of 1980: {lost}");
    let kept = (400..500).filter(|&number| found(&cache, number).is_some()).count();
    assert_eq!(kept, 0);
}

#[test]
fn a_first_miss_evicts_nothing_and_a_second_miss_is_admitted() {
    let cache = RecordCache::new(1 << 20);
    (0..20_000).for_each(|number| put(&cache, number, &[1; 100]));
    let kept = cache.len();
    assert!(kept > 5000, "everything is kept until the log is full: {kept}");
    (20_000..60_000).for_each(|number| put(&cache, number, &[1; 100]));
    assert_eq!((20_000..60_000).filter(|&number| found(&cache, number).is_some()).count(), 0);
    for number in 60_000..61_000 {
        (0..2).for_each(|_| put(&cache, number, &[1; 100]));
    }
    let there = (60_000..61_000).filter(|&number| found(&cache, number).is_some()).count();
    assert!(there > 990, "{there}");
    let kept = (0..20_000).filter(|&number| found(&cache, number).is_some()).count();
    assert!(kept > 4000, "{kept}");
}

#[test]
fn resizing_keeps_the_newest_records() {
    let cache = RecordCache::new(1 << 20);
    (0..3000).for_each(|number| put(&cache, number, &[1; 100]));
    let there = |numbers: std::ops::Range<u64>| {
        let count = numbers.end - numbers.start;
        numbers.filter(|&number| found(&cache, number).is_some()).count() as f64 / count as f64
    };
    assert!(there(0..3000) > 0.99);
    cache.resize(990 << 10, &hash_of);
    assert!(there(0..3000) > 0.99, "a small change changes nothing");
    cache.resize(2 << 20, &hash_of);
    assert!(there(0..3000) > 0.92, "all shards but one");
    cache.resize(256 << 10, &hash_of);
    assert!(there(2000..3000) > 0.8 && there(0..1000) < 0.05, "{} {}", there(2000..3000), there(0..1000));
}

#[test]
fn an_index_made_for_other_lengths_is_replaced() {
    for (first, then) in [(10_000, 20), (20, 10_000)] {
        let cache = RecordCache::new(4 << 20);
        (0..64).for_each(|number| put(&cache, number, &vec![1; first]));
        for number in 100..300_000 {
            (0..2).for_each(|_| put(&cache, number, &vec![2; then]));
        }
        let bytes = cache.len() * (8 + then);
        let least = if then == 20 { 1 << 20 } else { 3 << 20 };
        assert!(bytes > least, "{first} {then}: {bytes}");
    }
}

#[test]
fn nearly_all_of_the_capacity_is_used() {
    for value_bytes in [10, 100, 1000, 10_000] {
        let cache = RecordCache::new(4 << 20);
        for number in 0..100_000 {
            put(&cache, number, &vec![0; value_bytes]);
        }
        let share = cache.heap_bytes() as f64 / cache.capacity() as f64;
        assert!((0.75..=1.01).contains(&share), "{value_bytes}: {share}");
    }
}

#[test]
fn a_record_larger_than_its_share_is_not_kept() {
    let cache = RecordCache::new(1 << 20);
    put(&cache, 1, &vec![0; 20_000]);
    assert!(cache.is_empty());
}

#[test]
fn a_read_that_began_before_a_write_ended_keeps_nothing() {
    let cache = RecordCache::new(1 << 20);
    let (number, key) = (5u64, 5u64.to_le_bytes());
    // Read before the write, insert during and after it.
    let before = ticket(&cache, number).unwrap();
    let write = cache.write(hash(number), &key);
    cache.insert(before, &key, b"old", 7);
    assert_eq!(found(&cache, number), None);
    // Read during the write, insert during and after it.
    let during = ticket(&cache, number).unwrap();
    cache.insert(during, &key, b"old", 7);
    assert_eq!(found(&cache, number), None);
    drop(write);
    cache.insert(before, &key, b"old", 7);
    cache.insert(during, &key, b"old", 7);
    assert_eq!(found(&cache, number), None);
    put(&cache, number, b"new");
    assert_eq!(found(&cache, number).as_deref(), Some(&b"new"[..]));
    let _write = cache.write(hash(number), &key);
    assert_eq!(found(&cache, number), None, "a record that is being written is not returned");
}

#[test]
fn many_keys_at_once_have_the_results_of_each_alone() {
    let cache = RecordCache::new(4 << 20);
    let numbers: Vec<u64> = (0..200).chain([3, 3, 7]).collect();
    for number in (0..200).filter(|number| number % 3 == 0) {
        put(&cache, number, &vec![number as u8; 20 * number as usize]);
    }
    let keys: Vec<[u8; 8]> = numbers.iter().map(|number| number.to_le_bytes()).collect();
    let hashed = |(number, key)| HashedKey { hash: hash(number), bytes: key };
    let hashed: Vec<_> = numbers.iter().copied().zip(keys.iter().map(|key| &key[..])).map(hashed).collect();
    let mut got = vec![None; numbers.len()];
    let mut tickets = Vec::new();
    cache.get_many(&hashed, |at, cached| match cached {
        Ok((value, expires_at_ms)) => got[at] = Some((value, expires_at_ms)),
        Err(ticket) => tickets.push((at, ticket)),
    });
    assert_eq!(tickets.len(), got.iter().filter(|got| got.is_none()).count());
    for (number, got) in numbers.iter().zip(&got) {
        assert_eq!(*got, found(&cache, *number).map(|value| (value, 7)), "key {number}");
    }
    let (at, ticket) = tickets[0];
    cache.insert(ticket, &keys[at], b"from the store", 7);
    assert_eq!(found(&cache, numbers[at]).as_deref(), Some(&b"from the store"[..]));
    let (at, ticket) = tickets[1];
    drop(cache.write(hash(numbers[at]), &keys[at]));
    cache.insert(ticket, &keys[at], b"outdated", 7);
    assert_eq!(found(&cache, numbers[at]), None, "a write came between");
    let none = RecordCache::new(0);
    let mut misses = 0;
    none.get_many(&hashed, |_, cached| misses += usize::from(cached.is_err()));
    assert_eq!(misses, numbers.len());
}
