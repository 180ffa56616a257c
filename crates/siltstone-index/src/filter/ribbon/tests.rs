use super::*;
use crate::testing::Numbers;

fn assert_contains_all(filter: &RibbonFilter, keys: &[(u64, u64)]) {
    assert!(keys.iter().all(|&(placement, fingerprint)| filter.may_contain(placement, fingerprint)));
}

#[test]
fn every_key_is_contained_whatever_their_number() {
    for count in (0..150).chain([500, 1_000, 1_001, 4_096, 15_000, 50_000]) {
        let keys = Numbers(count as u64).sorted_keys(count);
        for bits in [1, 12, 32] {
            let filter = RibbonFilter::new(keys.iter().copied(), bits).unwrap();
            assert_contains_all(&filter, &keys);
            assert_eq!((filter.len(), filter.is_empty()), (count as u64, count == 0));
        }
    }
}

#[test]
fn other_keys_are_contained_at_the_rate_of_the_bits() {
    for (count, bits) in [(3, 4), (1_000, 4), (1_000, 8), (20_000, 9), (20_000, 12)] {
        let filter = RibbonFilter::new(Numbers(1).keys(count), bits).unwrap();
        let asked = 400 << bits;
        let wrong = Numbers(2).keys(asked).into_iter().filter(|&(p, f)| filter.may_contain(p, f)).count();
        assert!(
            (300..500).contains(&wrong) || count == 3 && wrong < 100,
            "{count} keys, {bits} bits: {wrong} wrong of {asked}"
        );
    }
}

#[test]
fn a_dozen_bits_cost_a_few_percent_more_than_a_dozen_bits() {
    for (count, bits_max) in [(1_000, 14.3), (4_000, 12.8), (15_000, 12.3), (200_000, 12.1)] {
        let filter = RibbonFilter::new(Numbers(3).keys(count), 12).unwrap();
        assert!(filter.bits_per_key() < bits_max, "{count} keys: {}", filter.bits_per_key());
    }
}

#[test]
fn the_order_of_the_keys_and_their_repetition_change_nothing() {
    let keys = Numbers(4).sorted_keys(3_000);
    let filter = RibbonFilter::new(keys.iter().copied(), 12).unwrap();
    let again = keys.iter().rev().chain(&keys).chain(&keys).copied();
    assert_eq!(RibbonFilter::new(again, 12).unwrap(), filter);
}

#[test]
fn a_filter_of_pushed_keys_contains_them_whatever_number_was_expected() {
    let keys = Numbers(9).sorted_keys(3_000);
    for expected in [0, 1, 12, 13, 1_000, 3_000, 9_000] {
        let mut builder = RibbonBuilder::new(expected, 12).unwrap();
        for &(placement, fingerprint) in &keys {
            builder.push(placement, fingerprint).unwrap();
            builder.push(placement, fingerprint).unwrap();
        }
        let filter = builder.finish();
        assert_contains_all(&filter, &keys);
        assert_eq!(filter.len(), 3_000, "each key counts once");
        assert!(Numbers(10).keys(40_960).into_iter().filter(|&(p, f)| filter.may_contain(p, f)).count() < 30);
    }
}

#[test]
fn a_key_out_of_order_is_refused() {
    let mut builder = RibbonBuilder::new(1_000, 12).unwrap();
    builder.push(1 << 63, 0).unwrap();
    assert!(matches!(builder.push(1, 0), Err(BuildError::OutOfOrder { .. })));
}

#[test]
fn equal_placements_are_distinguished_by_their_fingerprints() {
    let mut numbers = Numbers(5);
    let keys: Vec<(u64, u64)> = (0..5_000).map(|number| ((number / 1_000) << 62, numbers.next())).collect();
    let filter = RibbonFilter::new(keys.iter().copied(), 12).unwrap();
    assert_contains_all(&filter, &keys);
    let wrong = (0..100_000).filter(|_| filter.may_contain(0, numbers.next())).count();
    assert!(wrong < 50, "{wrong}");
}

#[test]
fn bits_outside_their_limits_are_refused() {
    for bits in [0, 33] {
        assert!(matches!(RibbonFilter::new([], bits), Err(BuildError::Setting { .. })));
    }
}

#[test]
fn a_filter_without_low_placements_takes_less_and_contains_the_others_at_the_same_rate() {
    let keys = Numbers(11).sorted_keys(20_000);
    let whole = RibbonFilter::new(keys.iter().copied(), 9).unwrap();
    let mut part = whole.clone();
    for eighths in [0, 3, 3, 7] {
        let placement = eighths << 61;
        part = part.without_before(placement);
        assert_contains_all(&part, &keys);
        let share = part.heap_bytes() as f64 / whole.heap_bytes() as f64;
        assert!((share - (1.0 - 0.94 * eighths as f64 / 8.0)).abs() < 0.02, "{eighths} eighths: {share}");
        let others = Numbers(12).keys(200_000).into_iter().filter(|&(p, _)| p >= placement);
        for (placement, fingerprint) in others {
            assert_eq!(part.may_contain(placement, fingerprint), whole.may_contain(placement, fingerprint));
        }
    }
    let few = RibbonFilter::new(keys[..9].iter().copied(), 9).unwrap();
    assert_contains_all(&few.without_before(u64::MAX), &keys[..9]);
}

#[test]
fn a_builder_holds_the_equations_of_its_rows_and_the_keys_that_wait() {
    for expected in [30_000, 0] {
        let mut builder = RibbonBuilder::new(expected, 12).unwrap();
        let before = builder.heap_bytes();
        Numbers(5).sorted_keys(30_000).into_iter().for_each(|(p, f)| builder.push(p, f).unwrap());
        let held = builder.heap_bytes();
        if expected == 0 {
            // A list of keys of 16 bytes, which grows by doubling.
            assert!(before == 0 && (480_000..960_000).contains(&held), "{held}");
        } else {
            // A coefficient and a value for each row, a threshold for each bucket, and some keys.
            assert!(
                (330_000..350_000).contains(&before) && (1_000..40_000).contains(&(held - before)),
                "{before} {held}"
            );
        }
    }
}
