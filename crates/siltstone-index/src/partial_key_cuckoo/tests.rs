use super::*;
use crate::testing::Numbers;
use std::collections::BTreeMap;

fn settings(regions: u32, buckets_per_region_log2: u8, tag_bits: u8) -> CuckooSettings {
    CuckooSettings { regions, buckets_per_region_log2, tag_bits }
}

/// Fills a table until the first failure; the position of a key is its number.
fn filled(settings: CuckooSettings, seed: u64) -> (PartialKeyCuckoo, Vec<(u64, u64)>, (u64, u64)) {
    let index = PartialKeyCuckoo::new(settings, 32).unwrap();
    let (mut numbers, mut keys) = (Numbers(seed), Vec::new());
    loop {
        let key = (numbers.next(), numbers.next());
        if index.insert(key.0, key.1, keys.len() as u32).is_err() {
            return (index, keys, key);
        }
        keys.push(key);
    }
}

fn contents(index: &PartialKeyCuckoo) -> Vec<(Slot, u16, u32)> {
    (0..index.region_count()).flat_map(|region| index.region_slots(region)).collect()
}

#[test]
fn every_key_is_found_when_the_table_is_full() {
    for settings in
        [settings(1, 0, 15), settings(1, 1, 8), settings(7, 3, 12), settings(5, 10, 15), settings(1, 12, 16)]
    {
        let (index, keys, _) = filled(settings, 1);
        assert_eq!(index.len() as usize, keys.len());
        for (number, &(placement, fingerprint)) in keys.iter().enumerate() {
            let found = index
                .candidates(placement, fingerprint)
                .find(|found| found.position == number as u32)
                .unwrap();
            assert_eq!(index.position(found.slot), Some(number as u32));
        }
        let positions: std::collections::BTreeSet<u32> =
            contents(&index).iter().map(|&(_, _, position)| position).collect();
        assert_eq!(positions.len(), keys.len(), "each key once");
    }
}

#[test]
fn a_failed_insertion_changes_nothing() {
    for seed in 0..20 {
        let (index, _, (placement, fingerprint)) = filled(settings(3, 5, 15), seed);
        let before = contents(&index);
        let full = index.insert(placement, fingerprint, 77).unwrap_err();
        assert_eq!((full.len, full.slots), (index.len(), index.slots()));
        assert_eq!(contents(&index), before);
    }
}

#[test]
fn it_fills_to_93_percent_and_more() {
    for settings in [settings(1, 14, 15), settings(4, 10, 15), settings(9, 10, 15), settings(16, 10, 15)] {
        let (index, ..) = filled(settings, 3);
        assert!(index.occupancy() >= 0.93, "{settings:?}: {}", index.occupancy());
    }
}

#[test]
fn a_region_holds_one_range_of_placements() {
    let (index, keys, _) = filled(settings(13, 6, 15), 4);
    let mut last_of_region_before = None;
    let mut slots_end = 0;
    for region in 0..index.region_count() {
        let placements: Vec<u64> =
            index.region_slots(region).map(|(_, _, position)| keys[position as usize].0).collect();
        assert!(placements.iter().min().copied() > last_of_region_before);
        last_of_region_before = placements.iter().max().copied();
        assert!(index.region_slots(region).is_sorted());
        assert!(index.region_slots(region).all(|(slot, ..)| slot >= slots_end && slot < slots_end + 4 * 64));
        slots_end += 4 * 64;
    }
    assert_eq!(index.region_slots(13).count() + index.region_slots(u32::MAX).count(), 0);
}

#[test]
fn equal_keys_fill_both_buckets_and_no_more() {
    let index = PartialKeyCuckoo::new(settings(3, 4, 15), 32).unwrap();
    for position in 0..8 {
        index.insert(u64::MAX, u64::MAX, position).unwrap();
    }
    assert!(index.insert(u64::MAX, u64::MAX, 8).is_err());
    let mut positions: Vec<u32> = index.candidates(u64::MAX, u64::MAX).map(|found| found.position).collect();
    positions.sort_unstable();
    assert_eq!(positions, [0, 1, 2, 3, 4, 5, 6, 7]);
    assert!(index.insert(0, 0, 8).is_ok(), "other keys can still be inserted");
}

#[test]
fn it_follows_a_map_through_insertions_changes_and_removals() {
    let index = PartialKeyCuckoo::new(settings(2, 4, 9), 32).unwrap();
    let mut map: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    let mut numbers = Numbers(5);
    for step in 0..20_000u32 {
        let chosen = map
            .iter()
            .nth(numbers.next() as usize % map.len().max(1))
            .map(|(&position, &key)| (position, key));
        let slot_of = |index: &PartialKeyCuckoo, position, key: (u64, u64)| {
            index.candidates(key.0, key.1).find(|found| found.position == position).map(|found| found.slot)
        };
        match (numbers.next() % 5, chosen) {
            (0, Some((position, key))) => {
                let slot = slot_of(&index, position, key).unwrap();
                assert_eq!(index.remove(slot), Some(position));
                assert_eq!((index.position(slot), index.set_position(slot, 1)), (None, None));
                map.remove(&position);
            }
            (1, Some((position, key))) => {
                let slot = slot_of(&index, position, key).unwrap();
                assert_eq!(index.set_position(slot, step), Some(position));
                map.remove(&position);
                map.insert(step, key);
            }
            _ => {
                let key = (numbers.next(), numbers.next());
                if index.insert(key.0, key.1, step).is_ok() {
                    map.insert(step, key);
                } else {
                    assert!(index.occupancy() > 0.7);
                }
            }
        }
        assert_eq!(index.len() as usize, map.len());
    }
    let mut positions: Vec<u32> = contents(&index).iter().map(|&(_, _, position)| position).collect();
    positions.sort_unstable();
    assert!(positions.into_iter().eq(map.into_keys()));
}

#[test]
fn absent_keys_meet_an_equal_tag_at_the_rate_of_the_paper() {
    let (index, ..) = filled(settings(1, 14, 10), 6);
    let mut numbers = Numbers(7);
    let asked = 100_000;
    let met =
        (0..asked).filter(|_| index.candidates(numbers.next(), numbers.next()).next().is_some()).count();
    let expected = 8.0 * index.occupancy() / 1023.0 * f64::from(asked);
    assert!((met as f64 / expected - 1.0).abs() < 0.2, "{met} met, {expected} expected");
}

#[test]
fn tags_ascend_with_the_placements_of_a_region() {
    let (index, keys, _) = filled(settings(3, 6, 15), 9);
    for region in 0..3 {
        let mut slots: Vec<(u16, u32)> =
            index.region_slots(region).map(|(_, tag, position)| (tag, position)).collect();
        slots.sort_unstable_by_key(|&(_, position)| keys[position as usize].0);
        assert!(slots.is_sorted_by_key(|&(tag, _)| tag));
        let alike = slots.windows(2).filter(|pair| pair[0].0 == pair[1].0).count();
        assert!(alike <= 5, "{alike} of {} tags are like the one before", slots.len());
    }
}

#[test]
fn short_keys_that_are_hashes_fill_a_table_equally() {
    let index = PartialKeyCuckoo::new(settings(4, 8, 15), 32).unwrap();
    let mut numbers = Numbers(12);
    // Keys of 8 bytes in one of 16 partitions: both halves of the hash have the same bits in different places.
    let mut next = || {
        let key = numbers.next() >> 4 | 7 << 60;
        (key.rotate_left(4), key)
    };
    while {
        let (placement, fingerprint) = next();
        index.insert(placement, fingerprint, 0).is_ok()
    } {}
    assert!(index.occupancy() > 0.9, "{}", index.occupancy());
}

#[test]
fn a_tag_leads_back_and_forth_between_two_different_buckets() {
    let settings = settings(6, 5, 15);
    let mut numbers = Numbers(8);
    for _ in 0..10_000 {
        let (tag, [first, second]) = settings.tag_and_buckets(numbers.next(), numbers.next());
        assert_ne!(first, second);
        assert_eq!((first >> 5, settings.other_bucket(second, tag)), (second >> 5, first));
    }
}

#[test]
fn memory_is_what_tags_and_positions_need() {
    for (tag_bits, position_bits, bucket_bytes) in [(15, 32, 24), (15, 24, 20), (13, 24, 19)] {
        let index = PartialKeyCuckoo::new(settings(3, 8, tag_bits), position_bits).unwrap();
        assert_eq!(index.heap_bytes(), bucket_bytes * index.slots() as usize / 4 + 8);
    }
}

#[test]
fn settings_outside_their_limits_are_refused() {
    for settings in
        [settings(0, 3, 15), settings(1, 29, 15), settings(3, 28, 15), settings(1, 4, 7), settings(1, 4, 17)]
    {
        assert!(
            matches!(PartialKeyCuckoo::new(settings, 32), Err(BuildError::Setting { .. })),
            "{settings:?}"
        );
    }
    assert!(settings(1 << 28, 0, 8).check().is_ok());
    assert_eq!(CuckooSettings::default().slots(), 65_536);
}

#[test]
fn slots_beyond_the_table_are_empty() {
    let index = PartialKeyCuckoo::new(settings(1, 0, 15), 32).unwrap();
    assert_eq!((index.position(4), index.set_position(u32::MAX, 1), index.remove(4)), (None, None, None));
    assert!(index.is_empty());
}

#[test]
fn positions_of_every_width_are_returned_unchanged() {
    for (position_bits, tag_bits) in [(1, 16), (7, 8), (16, 15), (24, 15), (25, 13), (31, 9), (32, 16)] {
        let index = PartialKeyCuckoo::new(settings(2, 4, tag_bits), position_bits).unwrap();
        let (mut numbers, mut expected) = (Numbers(11), BTreeMap::new());
        for _ in 0..100 {
            let position = (numbers.next() >> (64 - position_bits)) as u32;
            let Ok(slot) = index.insert(numbers.next(), numbers.next(), position) else { break };
            index.set_position(slot, !position & (u32::MAX >> (32 - position_bits))).unwrap();
            assert_eq!(
                index.set_position(slot, position),
                Some(!position & (u32::MAX >> (32 - position_bits)))
            );
            *expected.entry(position).or_insert(0) += 1;
        }
        let mut found = BTreeMap::new();
        contents(&index).iter().for_each(|&(_, _, position)| *found.entry(position).or_insert(0) += 1);
        assert_eq!(found, expected, "{position_bits} bits");
    }
    for position_bits in [0, 33] {
        let refused = PartialKeyCuckoo::new(settings(1, 0, 15), position_bits);
        assert!(matches!(refused, Err(BuildError::Setting { name: "position_bits", .. })));
    }
}
