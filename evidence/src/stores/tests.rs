use super::*;
use siltstone::Access;
use siltstone_bench::random;
use siltstone_device::Directory;
use siltstone_device::memory::MemoryDirectory;
use std::collections::HashMap;

const LENGTHS: Lengths = Lengths { key: 20, value: 44 };

fn directory() -> Directory {
    Directory::new(MemoryDirectory::default(), Access::Buffered)
}

/// A number of operations: `default`, or that of `SILTSTONE_MODEL_OPERATIONS`.
fn operations(default: u64) -> u64 {
    std::env::var("SILTSTONE_MODEL_OPERATIONS").map_or(default, |text| text.parse().unwrap())
}

fn skimpystash(keys: u64, bucket_records: f64, compact_records: Option<u32>) -> SkimpyStash {
    let settings = SkimpyStashSettings {
        lengths: LENGTHS,
        expected_keys: keys,
        bucket_records,
        filter_bits: 8.0,
        compact_records,
    };
    SkimpyStash::create(directory(), settings).unwrap()
}

fn bufferhash(keys: u64, table_pages: u32, tables: u32, eviction: Eviction) -> BufferHash {
    let settings = BufferHashSettings {
        lengths: LENGTHS,
        expected_keys: keys,
        table_pages,
        tables,
        filter_bits: 16,
        eviction,
    };
    BufferHash::create(directory(), settings).unwrap()
}

fn key(number: u64) -> Vec<u8> {
    let mut key = vec![0; LENGTHS.key];
    key[..8].copy_from_slice(&mix(number + 1).to_le_bytes());
    key
}

fn value(number: u64, version: u64) -> Vec<u8> {
    let mut value = vec![version as u8; LENGTHS.value];
    value[..8].copy_from_slice(&number.to_le_bytes());
    value[8..16].copy_from_slice(&version.to_le_bytes());
    value
}

/// Runs random operations, a third are inserts, and compares each lookup with a map. A key may be missing only
/// if `loses` is set; it never has an older value than the map has.
fn compare(peer: &mut dyn Peer, operations: u64, keys: u64, loses: bool) -> u64 {
    let (mut map, mut random, mut lost) = (HashMap::new(), random::stream(5, keys), 0);
    for version in 0..operations {
        let number = random.u64(..keys);
        if random.u8(..3) == 0 {
            peer.insert(&key(number), &value(number, version)).unwrap();
            map.insert(number, version);
        } else {
            let found = peer.lookup(&key(number)).unwrap();
            let wanted = map.get(&number).map(|version| value(number, *version));
            if loses && found.is_none() && wanted.is_some() {
                lost += 1;
            } else {
                assert_eq!(found, wanted, "key {number}, operation {version}");
            }
        }
    }
    lost
}

#[test]
fn skimpystash_returns_what_a_map_returns() {
    let operations = operations(30_000);
    for compact_records in [None, Some(3)] {
        let mut peer = skimpystash(operations / 10, 5.0, compact_records);
        compare(&mut peer, operations, operations / 10, false);
        assert!(peer.io().total().writes > 0);
    }
}

#[test]
fn bufferhash_returns_what_a_map_returns_unless_its_oldest_table_has_left() {
    let operations = operations(30_000);
    let keys = operations / 10;
    // Space for all versions.
    let mut all = bufferhash(operations / 2, 1, 16, Eviction::Fifo);
    assert_eq!(compare(&mut all, operations, keys, true), 0);
    let mut live = bufferhash(keys * 2, 1, 8, Eviction::Reinsert);
    assert_eq!(compare(&mut live, operations, keys, false), 0);
    let mut lossy = bufferhash(keys / 2, 1, 4, Eviction::Fifo);
    assert!(compare(&mut lossy, operations, keys, true) > operations / 10);
}

#[test]
fn a_bufferhash_of_live_records_that_is_full_refuses_more() {
    let mut peer = bufferhash(200, 1, 4, Eviction::Reinsert);
    let inserted = (0..2_000).take_while(|number| peer.insert(&key(*number), &value(*number, 0)).is_ok());
    let inserted = inserted.count() as u64;
    assert!((80..400).contains(&inserted), "{inserted}");
}

/// Inserts keys 0 to `keys`.
fn fill(peer: &mut dyn Peer, keys: u64) {
    (0..keys).for_each(|number| peer.insert(&key(number), &value(number, 0)).unwrap());
}

#[test]
fn memory_per_key_is_that_of_the_published_formulas() {
    let keys = 40_000;
    let close = |ram: u64, keys: u64, formula: f64| {
        let ratio = ram as f64 / keys as f64 / formula;
        assert!((0.95..1.05).contains(&ratio), "{ratio} of {formula}");
    };
    for bucket_records in [4.0, 10.0, 20.0] {
        let mut peer = skimpystash(keys, bucket_records, None);
        fill(&mut peer, keys);
        // A page that is filled and one that is read are of a fixed size.
        close(peer.ram_bytes() - 2 * PAGE_BYTES as u64, keys, 1.0 + 4.0 / bucket_records);
    }
    // A partition of 16 tables. Each has 504 keys when it is half full; some end a little earlier.
    let mut peer = bufferhash(16 * 504, 16, 16, Eviction::Fifo);
    let keys = 16 * 504 * 97 / 100;
    fill(&mut peer, keys);
    close(peer.ram_bytes() - PAGE_BYTES as u64, keys, 64.0 / (16.0 * 0.5) + 2.0);
    assert!((0..keys).all(|number| peer.lookup(&key(number)).unwrap().is_some()));
}

#[test]
fn a_list_costs_half_its_records_in_reads_and_a_compacted_one_little_more_than_one() {
    let keys = 30_000;
    let reads = |compact_records| {
        let mut peer = skimpystash(keys, 10.0, compact_records);
        fill(&mut peer, keys);
        let before = peer.io();
        for number in 0..2_000 {
            let number = mix(number) % keys;
            assert_eq!(peer.lookup(&key(number)).unwrap(), Some(value(number, 0)));
        }
        (peer.io() - before).of(siltstone_device::Purpose::Get).reads as f64 / 2_000.0
    };
    let (lists, compacted) = (reads(None), reads(Some(5)));
    // Half of the list of 10, and wrong filters.
    assert!((5.0..6.5).contains(&lists), "{lists}");
    assert!((1.0..3.5).contains(&compacted), "{compacted}");
}

#[test]
fn a_bufferhash_reads_less_than_two_pages_for_a_key_on_flash_and_hardly_one_for_a_missing_key() {
    let keys = 16 * 504;
    let mut peer = bufferhash(keys, 16, 16, Eviction::Fifo);
    fill(&mut peer, keys * 97 / 100);
    let mut reads = |first: u64| {
        let before = peer.io();
        (first..first + 2_000).for_each(|number| drop(peer.lookup(&key(number)).unwrap()));
        (peer.io() - before).of(siltstone_device::Purpose::Get).reads as f64 / 2_000.0
    };
    let found = reads(0);
    assert!((1.0..1.8).contains(&found), "{found}");
    assert!(reads(1 << 40) < 0.05);
}

#[test]
fn keys_of_another_length_are_refused() {
    let mut peer = skimpystash(10, 4.0, None);
    assert!(peer.insert(b"short", &value(1, 1)).is_err() && peer.lookup(b"short").is_err());
    assert!(peer.insert(&key(1), b"short").is_err());
}
