use super::*;

fn near(got: f64, expected: f64, tolerance: f64) {
    assert!((got / expected - 1.0).abs() <= tolerance, "{got} for {expected}");
}

#[test]
fn frames_are_whole_units() {
    for (value_bytes, fixed, unit, frame) in
        [(100.0, true, 121.0, 121.0), (984.0, true, 252.0, 1_008.0), (100.0, false, 16.0, 130.5)]
    {
        let layout = FlashKeyLayout { fixed, ..FlashKeyLayout::new(16.0, value_bytes) };
        let store = layout.store(1e6).unwrap();
        assert_eq!((store.unit_bytes, store.frame_bytes), (unit, frame));
    }
}

#[test]
fn the_index_takes_some_five_bytes_for_each_of_a_hundred_million_keys() {
    let uniform = Popularity::uniform(100_000_000).unwrap();
    for (value_bytes, ram, filling, overwriting) in [(100.0, 5.1, 1.13, 2.9), (984.0, 5.4, 1.02, 2.45)] {
        let store = FlashKeyLayout::new(16.0, value_bytes).store(1e8).unwrap();
        let appends = store.appends_per_put(&uniform).unwrap();
        near(store.ram().total() / 1e8, ram, 0.05);
        near(store.writes_of_filling().total(), filling, 0.05);
        near(store.writes(&uniform, appends).total(), overwriting, 0.05);
    }
}

#[test]
fn a_key_that_is_put_again_soon_is_replaced_at_once() {
    let store = FlashKeyLayout::new(16.0, 100.0).store(1e8).unwrap();
    let replaced = |skew| store.replaced_at_once(&Popularity::zipf(100_000_000, skew).unwrap());
    assert!(replaced(0.0) < 0.002 && replaced(0.99) > 0.4, "{} {}", replaced(0.0), replaced(0.99));
}

#[test]
fn impossible_settings_are_refused() {
    let layout = FlashKeyLayout::new(16.0, 100.0);
    assert!(layout.store(0.0).is_err());
    assert!(FlashKeyLayout { space: 1.0, ..layout.clone() }.check().is_err());
    assert!(FlashKeyLayout { hash_bits: 12.0, ..layout }.check().is_err());
}
