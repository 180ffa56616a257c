use super::*;
use crate::batch::NEVER;
use crate::key::PartitionHasher;
use crate::key::{KeyHasher, RecordLayout};
use siltstone_device::Access;
use siltstone_device::memory::MemoryDirectory;

use std::collections::BTreeMap;

const HASHER: PartitionHasher = PartitionHasher { key_hasher: KeyHasher::Keyed([5, 6]), partitions_log2: 0 };
const SETTINGS: SortSettings = SortSettings {
    shape: RecordShape { layout: RecordLayout { fixed: None, expiring: false }, hasher: HASHER },
    memory_bytes: SORT_MEMORY_BYTES_MIN,
    fan_in_max: FAN_IN_MAX,
    duplicates: Duplicates::LastWins,
};

fn directory() -> Directory {
    Directory::new(MemoryDirectory::default(), Access::Buffered)
}

type Model = BTreeMap<(crate::key::KeyHash, Vec<u8>), Option<Vec<u8>>>;

fn push(sort: &mut ExternalSort, key: &[u8], value: Option<&[u8]>) -> Result<()> {
    sort.push(&RecordView { key, value, expires_at_ms: NEVER }, &mut |_, _| true)
}

/// Pushes random records, many of them with a key that was pushed before, and some tombstones.
fn fill(sort: &mut ExternalSort, count: usize, value_length: impl Fn(&mut fastrand::Rng) -> usize) -> Model {
    let mut random = fastrand::Rng::with_seed(11);
    let mut model = Model::new();
    for number in 0..count {
        let key = random.usize(..count).to_string().into_bytes();
        let value = (random.u8(..) < 230).then(|| vec![number as u8; value_length(&mut random)]);
        push(sort, &key, value.as_deref()).unwrap();
        model.insert((sort.settings.shape.hasher.hash(&key), key), value);
    }
    model
}

fn assert_same(mut sorted: SortedRecords, model: &Model) {
    assert!(sorted.records_max() >= model.len() as u64);
    for ((hash, key), value) in model {
        assert!(sorted.advance().unwrap());
        let entry = sorted.entry().unwrap();
        assert_eq!((entry.hash, entry.record.key, entry.record.value), (*hash, &key[..], value.as_deref()));
    }
    assert!(!sorted.advance().unwrap());
}

#[test]
fn records_are_in_hash_order_and_the_last_of_a_key_applies_for_any_number_of_levels() {
    for (fan_in_max, count, runs_min) in
        [(128, 0, 0), (128, 100, 0), (128, 20_000, 20), (2, 20_000, 50), (3, 20_000, 40)]
    {
        let directory = directory();
        let mut sort = ExternalSort::new(directory.clone(), SortSettings { fan_in_max, ..SETTINGS }).unwrap();
        let model = fill(&mut sort, count, |random| random.usize(..120));
        assert!(sort.runs.len() <= 12 && sort.runs_written >= runs_min, "{} runs", sort.runs_written);
        let sorted = sort.finish(&mut |_, _| true).unwrap();
        assert_eq!(directory.list().unwrap(), [""; 0], "no file has a name");
        assert_same(sorted, &model);
        assert_eq!(directory.io().total().syncs, 0, "nothing needs to survive");
    }
}

#[test]
fn records_larger_than_the_memory_are_sorted_too() {
    let mut sort = ExternalSort::new(directory(), SETTINGS).unwrap();
    let length = |random: &mut fastrand::Rng| if random.u8(..) < 20 { 150_000 } else { random.usize(..300) };
    let model = fill(&mut sort, 800, length);
    assert_eq!(sort.fan_in(), 2);
    assert_same(sort.finish(&mut |_, _| true).unwrap(), &model);
}

#[test]
fn keys_with_equal_placements_are_distinguished() {
    let hasher = PartitionHasher { key_hasher: KeyHasher::Identity, partitions_log2: 0 };
    let settings = SortSettings { shape: RecordShape { hasher, ..SETTINGS.shape }, ..SETTINGS };
    let mut sort = ExternalSort::new(directory(), settings).unwrap();
    let mut model = Model::new();
    for number in 0..3000u32 {
        // The same first 16 bytes for many of them: only the key distinguishes them.
        let key =
            [&[number as u8 % 3; 16][..], &(number.wrapping_mul(0x9E37_79B1) >> 20).to_be_bytes()].concat();
        push(&mut sort, &key, Some(&number.to_le_bytes())).unwrap();
        model.insert((hasher.hash(&key), key), Some(number.to_le_bytes().to_vec()));
    }
    assert!(sort.runs_written > 0);
    assert_same(sort.finish(&mut |_, _| true).unwrap(), &model);
}

#[test]
fn the_memory_stays_within_its_limit() {
    for memory_bytes in [64 << 10, 200_000, 1 << 20] {
        let directory = directory();
        let mut sort = ExternalSort::new(directory, SortSettings { memory_bytes, ..SETTINGS }).unwrap();
        for number in 0..(memory_bytes / 10) as u64 {
            push(&mut sort, &number.to_le_bytes(), Some(&[1; 20])).unwrap();
            assert!(sort.heap_bytes() <= memory_bytes, "{} bytes", sort.heap_bytes());
        }
        let mut sorted = sort.finish(&mut |_, _| true).unwrap();
        while sorted.advance().unwrap() {
            assert!(sorted.heap_bytes() <= memory_bytes, "{} of {memory_bytes} bytes", sorted.heap_bytes());
        }
    }
}

#[test]
fn a_duplicate_key_is_refused_by_its_name_in_memory_and_across_runs() {
    for between in [0, 10_000u32] {
        let settings = SortSettings { duplicates: Duplicates::Refused, ..SETTINGS };
        let mut sort = ExternalSort::new(directory(), settings).unwrap();
        push(&mut sort, b"tw\xffce", Some(b"1")).unwrap();
        for number in 0..between {
            push(&mut sort, &number.to_le_bytes(), Some(b"x")).unwrap();
        }
        push(&mut sort, b"tw\xffce", Some(b"2")).unwrap();
        assert_eq!(sort.runs_written > 0, between > 0);
        let mut sorted = sort.finish(&mut |_, _| true).unwrap();
        let error = loop {
            match sorted.advance() {
                Ok(there) => assert!(there, "the duplicate was not noticed"),
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains("tw\\xffce"), "{error}");
    }
}

#[test]
fn a_stopped_sort_returns_an_error_and_leaves_no_file() {
    let directory = directory();
    let settings = SortSettings { memory_bytes: 8 << 20, ..SETTINGS };
    let mut sort = ExternalSort::new(directory.clone(), settings).unwrap();
    let outcome = (0..u64::MAX).try_for_each(|number| {
        let record = RecordView { key: &number.to_le_bytes(), value: Some(&[0; 1000]), expires_at_ms: NEVER };
        sort.push(&record, &mut |done, all| {
            assert!(done > 0 && all == 0);
            false
        })
    });
    assert!(matches!(outcome, Err(Error::Interrupted)));
    assert_eq!(directory.list().unwrap(), [""; 0]);
}

#[test]
fn too_little_memory_and_no_fan_in_are_refused() {
    for wrong in
        [SortSettings { memory_bytes: 65_535, ..SETTINGS }, SortSettings { fan_in_max: 1, ..SETTINGS }]
    {
        assert!(matches!(ExternalSort::new(directory(), wrong), Err(Error::Setting { .. })));
    }
}
