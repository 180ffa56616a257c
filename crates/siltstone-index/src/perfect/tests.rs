use super::*;
use crate::BuildError;
use crate::testing::Numbers;

fn settings(target: Target, expected_records: u64) -> PerfectIndexSettings {
    let records_per_block = target.unit_len() as u32;
    PerfectIndexSettings { expected_records, records_per_block, bucket_records: u32::MAX }
}

/// Builds an index, and returns the unit of each key.
fn built(settings: PerfectIndexSettings, placements: &[u64]) -> (PerfectIndex, Vec<u64>) {
    let mut builder = PerfectIndexBuilder::new(settings).unwrap();
    let mut units = Vec::new();
    for &placement in placements {
        units.extend(builder.push(placement).unwrap().into_iter().flatten());
    }
    assert_eq!((builder.len(), builder.is_empty()), (placements.len() as u64, placements.is_empty()));
    let (index, last) = builder.finish();
    units.extend(last);
    (index, units)
}

pub(crate) fn built_in_blocks(count: usize, records_per_block: u32) -> PerfectIndex {
    let settings = settings(Target::of(records_per_block), count as u64);
    built(settings, &Numbers(count as u64).sorted_placements(count)).0
}

/// Asserts that every unit is full and every key is found in its unit.
fn assert_perfect(target: Target, expected_keys: u64, placements: &[u64]) -> PerfectIndex {
    let (index, units) = built(settings(target, expected_keys), placements);
    let mut sorted = units.clone();
    sorted.sort_unstable();
    assert!(sorted.into_iter().eq((0..placements.len() as u64).map(|key| key / target.unit_len())));
    for (&placement, unit) in placements.iter().zip(units) {
        let found = index.locate(placement);
        let solved =
            index.outline.solution(bucket_of(index.outline.counts.len(), placement)) != Solution::Ordered;
        assert!(found.contains(&unit) && (!solved || found.end - found.start == 1), "{unit} in {found:?}");
    }
    let end = index.len().div_ceil(target.unit_len());
    assert_eq!((index.outline().blocks(), index.is_empty()), (end, placements.is_empty()));
    for placement in (0..1_000).map(|part| part * (u64::MAX / 999)) {
        let found = index.locate(placement);
        assert!(found.end <= end && found.is_empty() == (end == 0), "{found:?} of {end}");
    }
    index
}

const TARGETS: [Target; 7] = [
    Target::Slots,
    Target::Blocks(2),
    Target::Blocks(4),
    Target::Blocks(7),
    Target::Blocks(63),
    Target::Blocks(64),
    Target::Blocks(256),
];

#[test]
fn every_key_gets_a_place_of_its_own_whatever_their_number() {
    for target in TARGETS {
        for count in (0..20).chain([63, 64, 65, 300, 511, 512, 513, 700, 1_025, 3_000, 20_000]) {
            let index = assert_perfect(target, count as u64, &Numbers(count as u64).sorted_placements(count));
            assert_eq!(
                index
                    .outline
                    .exceptions
                    .iter()
                    .filter(|exception| exception.solution == Solution::Ordered)
                    .count(),
                0
            );
        }
    }
}

#[test]
fn hardly_any_bucket_needs_a_salt() {
    for target in TARGETS {
        let index = assert_perfect(target, 100_000, &Numbers(1).sorted_placements(100_000));
        assert!(index.outline.exceptions.len() < 2, "{target:?}: {:?}", index.outline.exceptions);
    }
}

#[test]
fn they_take_few_bits_per_key() {
    for (target, bits_max) in [
        (Target::Slots, 1.50),
        (Target::Blocks(4), 0.65),
        (Target::Blocks(16), 0.25),
        (Target::Blocks(64), 0.105),
    ] {
        let (index, _) = built(settings(target, 200_000), &Numbers(2).sorted_placements(200_000));
        let bits = index.heap_bytes() as f64 * 8.0 / 200_000.0;
        assert!(bits < bits_max, "{target:?}: {bits}");
    }
}

#[test]
fn an_estimate_of_half_or_many_times_the_keys_costs_memory_only() {
    for target in [Target::Slots, Target::Blocks(4), Target::Blocks(64)] {
        let placements = Numbers(3).sorted_placements(10_000);
        for expected_keys in [5_000, 40_000, 1_000_000] {
            let index = assert_perfect(target, expected_keys, &placements);
            assert!(index.outline.exceptions.iter().all(|exception| exception.solution != Solution::Ordered));
        }
    }
}

#[test]
fn a_bucket_far_too_large_is_kept_in_order() {
    for target in [Target::Slots, Target::Blocks(4)] {
        let placements = Numbers(4).sorted_placements(10_000);
        let index = assert_perfect(target, 0, &placements);
        assert_eq!(index.outline.exceptions, [Exception { bucket: 0, solution: Solution::Ordered }].into());
        assert_eq!(index.locate(7), 0..10_000 / target.unit_len());
    }
}

#[test]
fn keys_of_one_placement_share_a_block_or_are_located_together() {
    let mut placements = Numbers(5).sorted_placements(3_000);
    placements.extend([placements[1_500]; 3]);
    placements.sort_unstable();
    let index = assert_perfect(Target::Blocks(4), 3_000, &placements);
    assert_eq!(index.outline.exceptions.len(), 0);
    let index = assert_perfect(Target::Slots, 3_000, &placements);
    assert_eq!(index.outline.exceptions.len(), 1);
    let found = index.locate(placements[1_501]);
    assert!((400..620).contains(&(found.end - found.start)), "{found:?}");

    assert_perfect(Target::Blocks(4), 100, &[u64::MAX; 100]);
    assert_perfect(Target::Slots, 100, &[0; 100]);
    assert_perfect(Target::Blocks(64), 100, &[1 << 63; 60]);
}

#[test]
fn within_a_bucket_any_order_is_allowed() {
    let mut placements = Numbers(6).sorted_placements(5_000);
    let buckets = built(settings(Target::Slots, 5_000), &[]).0.outline.counts.len();
    placements.sort_by_key(|&placement| (bucket_of(buckets, placement), placement.rotate_left(40)));
    assert!(!placements.is_sorted());
    assert_perfect(Target::Slots, 5_000, &placements);
}

#[test]
fn a_placement_of_an_earlier_bucket_is_refused() {
    let mut builder = PerfectIndexBuilder::new(settings(Target::Blocks(4), 2_000)).unwrap();
    builder.push(1 << 62).unwrap();
    assert!(builder.push(0).is_err());
    assert_eq!(builder.push(u64::MAX).unwrap(), Some(&[0][..]));
    assert_eq!(builder.push(5), Err(BuildError::OutOfOrder { last: u64::MAX, got: 5 }));
    let (index, units) = builder.finish();
    assert_eq!((index.len(), units), (2, vec![0]));
}

#[test]
fn an_outline_locates_as_the_index_does_from_the_bytes_that_it_names() {
    for (count, records_per_block) in [(0, 4), (1, 4), (5_000, 1), (5_000, 4), (5_000, 63), (9_000, 256)] {
        let index = built_in_blocks(count, records_per_block);
        let mut bytes = Vec::new();
        index.encode(&mut bytes);
        let seeds_at = bytes.len() - index.outline().seeds_bytes() as usize;
        let outline = PerfectOutline::decode(&bytes[..seeds_at]).unwrap();
        assert_eq!((outline.len(), outline.blocks()), (index.len(), index.outline().blocks()));
        for (placement, _) in Numbers(2).keys(2_000) {
            let needed = outline.seeds_for(placement);
            let seeds = &bytes[seeds_at..][needed.start as usize..needed.end as usize];
            assert_eq!(outline.locate_in(placement, needed.start, seeds), index.locate(placement));
            assert_eq!(outline.bucket_of(placement), index.outline().bucket_of(placement));
        }
        assert!(outline.heap_bytes() * 5 < index.heap_bytes() + 300);
    }
}

#[test]
fn the_first_block_of_a_bucket_has_its_first_record() {
    for (count, records_per_block) in [(1, 4), (5_000, 1), (5_000, 4), (9_000, 256)] {
        let index = built_in_blocks(count, records_per_block);
        let outline = index.outline();
        let placements = Numbers(count as u64).sorted_placements(count);
        for placement in &placements {
            let is_before = |other: &u64| outline.bucket_of(*other) < outline.bucket_of(*placement);
            let before = placements.partition_point(is_before);
            let block = before / records_per_block as usize;
            assert_eq!(outline.first_block_of_bucket(*placement), block as u64);
        }
    }
    assert_eq!(built_in_blocks(0, 4).outline().first_block_of_bucket(5), 0);
}

#[test]
fn small_buckets_are_solved_too_for_a_fraction_of_a_bit() {
    for (records_per_block, bucket_records, bits_max) in [(4, 128, 0.78), (4, 64, 0.88), (16, 64, 0.52)] {
        let settings = PerfectIndexSettings { expected_records: 20_000, records_per_block, bucket_records };
        let placements = Numbers(20_000).sorted_placements(20_000);
        let (index, blocks) = built(settings, &placements);
        let mut records = placements.into_iter().zip(blocks);
        assert!(records.all(|(placement, block)| index.locate(placement) == (block..block + 1)));
        let bits = index.heap_bytes() as f64 * 8.0 / 20_000.0;
        assert!(bits < bits_max, "{bits}");
    }
}

#[test]
fn settings_outside_their_limits_are_refused() {
    for records_per_block in [0, 257] {
        let settings = PerfectIndexSettings { expected_records: 1, records_per_block, bucket_records: 512 };
        assert!(matches!(PerfectIndexBuilder::new(settings), Err(BuildError::Setting { .. })));
    }
}
