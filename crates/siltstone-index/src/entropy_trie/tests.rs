//! Compares every trie with the slow oracle: the sorted placements themselves.

use super::*;
use crate::coding::mix;

/// Makes uniform placements from numbers.
fn placement(number: u64) -> u64 {
    mix(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn uniform(count: u64) -> Vec<u64> {
    let mut placements: Vec<u64> = (1..=count).map(placement).collect();
    placements.sort_unstable();
    placements
}

pub(crate) fn build(settings: TrieSettings, placements: &[u64]) -> EntropyTrie {
    let mut builder = EntropyTrieBuilder::new(settings).unwrap();
    for &placement in placements {
        builder.push(placement).unwrap();
    }
    builder.finish().unwrap()
}

/// Settings for `count` keys, with each coder.
fn all_coders(count: u64) -> Vec<TrieSettings> {
    [Coder::Paper, Coder::Fast]
        .map(|coder| TrieSettings { coder, expected_keys: count, ..TrieSettings::default() })
        .to_vec()
}

/// Asserts that every placement is located exactly.
fn check(trie: &EntropyTrie, placements: &[u64]) {
    let context = trie.settings();
    let records_per_block = u64::from(context.records_per_block);
    assert_eq!(trie.len(), placements.len() as u64);
    let mut first = 0;
    for equal in placements.chunk_by(|a, b| a == b) {
        let last = first + equal.len() as u64 - 1;
        let expected = first / records_per_block..last / records_per_block + 1;
        assert_eq!(trie.locate(equal[0]), expected, "{:#x} under {context:?}", equal[0]);
        first = last + 1;
    }
}

/// Asserts that any placement, indexed or not, is located within the trie.
fn check_bounds(trie: &EntropyTrie) {
    let end = trie.len().div_ceil(u64::from(trie.settings().records_per_block));
    for probe in (0..60).map(placement).chain([0, 1, u64::MAX, u64::MAX - 1, 1 << 63]) {
        let range = trie.locate(probe);
        assert!(range.end <= end, "{range:?} beyond {end}");
        assert_eq!(range.is_empty(), trie.is_empty());
    }
}

#[test]
fn a_dense_trie_locates_every_record() {
    for settings in all_coders(20_000) {
        let trie = build(settings, &uniform(20_000));
        check(&trie, &uniform(20_000));
        check_bounds(&trie);
    }
}

#[test]
fn a_sparse_trie_locates_every_block() {
    for records_per_block in [2, 3, 4, 16, 64, 1000, u32::MAX] {
        for settings in all_coders(10_000) {
            let trie = build(TrieSettings { records_per_block, ..settings }, &uniform(10_000));
            check(&trie, &uniform(10_000));
            check_bounds(&trie);
        }
    }
}

#[test]
fn any_bucket_and_huffman_size_works() {
    for (bucket_keys, huffman_max) in [(1, 1), (2, 64), (7, 3), (64, 16), (128, 33), (1000, 64), (65_536, 1)]
    {
        for settings in all_coders(5_000) {
            for records_per_block in [1, 5] {
                let settings = TrieSettings { bucket_keys, huffman_max, records_per_block, ..settings };
                check(&build(settings, &uniform(5_000)), &uniform(5_000));
            }
        }
    }
}

#[test]
fn any_small_number_of_keys_works() {
    for count in 0..70 {
        for expected_keys in [0, count, 1000] {
            for settings in all_coders(expected_keys) {
                let trie = build(settings, &uniform(count));
                check(&trie, &uniform(count));
                check_bounds(&trie);
                let sparse = build(TrieSettings { records_per_block: 4, ..settings }, &uniform(count));
                check(&sparse, &uniform(count));
                check_bounds(&sparse);
            }
        }
    }
}

#[test]
fn a_wrong_expectation_costs_memory_only() {
    for settings in all_coders(0) {
        for expected_keys in [0, 1, 100, 1_000, 4_000, 16_000, 64_000] {
            let trie = build(TrieSettings { expected_keys, ..settings }, &uniform(4_000));
            check(&trie, &uniform(4_000));
            if (1_000..=16_000).contains(&expected_keys) {
                assert!(trie.bits_per_key() < 3.5, "{} bits with {expected_keys}", trie.bits_per_key());
            }
        }
    }
}

/// Placements that no hash would produce, each kind ascending.
fn unlikely() -> Vec<Vec<u64>> {
    let mut clustered: Vec<u64> =
        (0..3000).map(|i| (placement(i) >> 60 << 60) | placement(i + 9) >> 50).collect();
    clustered.sort_unstable();
    let mut in_pairs: Vec<u64> = uniform(2000).into_iter().flat_map(|placement| [placement; 2]).collect();
    in_pairs.sort_unstable();
    let mut some_equal = uniform(3000);
    some_equal.extend_from_slice(&[placement(5); 300]);
    some_equal.extend_from_slice(&[placement(6), placement(6), placement(7), 0, 0, u64::MAX, u64::MAX]);
    // Many subtries remain to be skipped before the keys on the right: a pair at each of 60 depths.
    let mut staircase: Vec<u64> = (2..62).flat_map(|bit| [1 << bit, 3 << (bit - 1)]).collect();
    staircase.extend((0..60).map(|i| (1 << 62) + placement(i) / 4));
    let mut neighbours = uniform(500);
    neighbours.extend((1..=500).map(|i| placement(i) ^ 1));
    vec![
        staircase,
        neighbours,
        (0..3000).collect(),
        (u64::MAX - 2999..=u64::MAX).collect(),
        (0..64).map(|bit| 1 << bit).collect(),
        (0..64).map(|bit| u64::MAX << bit).collect(),
        vec![0; 1000],
        vec![u64::MAX; 1000],
        vec![placement(1); 3],
        clustered,
        in_pairs,
        some_equal,
    ]
}

#[test]
fn placements_that_are_equal_or_not_uniform_are_located_as_well() {
    for mut placements in unlikely() {
        placements.sort_unstable();
        for settings in all_coders(placements.len() as u64) {
            for (records_per_block, bucket_keys) in [(1, 256), (1, 16), (4, 256), (64, 64)] {
                let settings = TrieSettings { records_per_block, bucket_keys, ..settings };
                let trie = build(settings, &placements);
                check(&trie, &placements);
                check_bounds(&trie);
                let mut bytes = Vec::new();
                trie.encode(&mut bytes);
                check(&EntropyTrie::decode(&bytes).unwrap(), &placements);
            }
        }
    }
}

#[test]
fn placements_must_ascend() {
    let mut builder = EntropyTrieBuilder::new(TrieSettings::default()).unwrap();
    builder.push(7).unwrap();
    builder.push(7).unwrap();
    assert_eq!(builder.push(6), Err(BuildError::OutOfOrder { last: 7, got: 6 }));
    builder.push(8).unwrap();
    check(&builder.finish().unwrap(), &[7, 7, 8]);
}

#[test]
fn settings_outside_their_limits_are_refused() {
    let default = TrieSettings::default();
    let refused = [
        ("bucket_keys", TrieSettings { bucket_keys: 0, ..default }),
        ("bucket_keys", TrieSettings { bucket_keys: 65_537, ..default }),
        ("huffman_max", TrieSettings { huffman_max: 0, ..default }),
        ("huffman_max", TrieSettings { huffman_max: 65, ..default }),
        ("records_per_block", TrieSettings { records_per_block: 0, ..default }),
        ("expected_keys", TrieSettings { expected_keys: (1 << 40) + 1, ..default }),
    ];
    for (setting, settings) in refused {
        let error = EntropyTrieBuilder::new(settings).err();
        assert!(matches!(error, Some(BuildError::Setting { name, .. }) if name == setting), "{error:?}");
    }
}

#[test]
fn memory_is_what_the_paper_says_or_less() {
    // ECT, figure 3.3 and 3.1.3: about 2.38 bits of code and 0.133 of index; 3.1.6: below 1 bit with 16 records per
    // block.
    let placements = uniform(200_000);
    let settings = TrieSettings { expected_keys: 200_000, ..TrieSettings::default() };
    for (coder, dense_limit, sparse_limit) in [(Coder::Paper, 2.54, 0.94), (Coder::Fast, 2.43, 0.86)] {
        let dense = build(TrieSettings { coder, ..settings }, &placements);
        assert!((2.333..dense_limit).contains(&dense.bits_per_key()), "{coder:?}: {}", dense.bits_per_key());
        let sparse = build(TrieSettings { coder, records_per_block: 16, ..settings }, &placements);
        assert!(sparse.bits_per_key() < sparse_limit, "{coder:?}: {}", sparse.bits_per_key());
    }
}

/// Placements whose tries have every kind of code, with a bucket that is far too full and equal placements.
pub(crate) fn of_every_code() -> Vec<u64> {
    let mut placements = uniform(1_000);
    placements.extend((0..100).map(|i| 1 << 63 | placement(i) >> 40));
    placements.extend([placement(3), placement(3), placement(4)]);
    placements.sort_unstable();
    placements
}

#[test]
fn every_kind_of_code_is_read_back() {
    for settings in all_coders(8_000) {
        let settings = TrieSettings { bucket_keys: 80, huffman_max: 32, ..settings };
        check(&build(settings, &of_every_code()), &of_every_code());
    }
}
