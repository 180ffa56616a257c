//! Tests of recycling.

use super::*;

fn rules(room: f64, queues: u8, missed: Missed) -> SegmentRecycling {
    SegmentRecycling { room, segments: 100.0, queues, gets_per_put: 1.0, missed }
}

fn near(got: f64, expected: f64, tolerance: f64) {
    assert!((got / expected - 1.0).abs() <= tolerance, "{got} for {expected}");
}

#[test]
fn what_comes_to_flash_is_what_leaves_it() {
    let popularity = Popularity::zipf(1_000_000, 0.8).unwrap();
    for queues in [1, 2] {
        for missed in [
            Missed::Stays,
            Missed::Admitted { places: 65_536.0 },
            Missed::Put { admitted: 1.0, tombstone: 0.2 },
        ] {
            let recycled = rules(3e5, queues, missed).steady(&popularity).unwrap();
            assert!(recycled.keys_on_flash < 3e5 && recycled.flash_gets > 0.4, "{recycled:?}");
            let misses = 1.0 - recycled.flash_gets;
            match missed {
                // A record that is put while it is not on flash has left before.
                Missed::Stays => near(recycled.destaged, misses, 0.02),
                Missed::Admitted { .. } => assert!(recycled.promoted > 0.02, "{recycled:?}"),
                Missed::Put { .. } => near(recycled.user_appends, 1.0 + misses, 0.02),
            }
        }
    }
}

#[test]
fn impossible_logs_are_refused() {
    let popularity = Popularity::uniform(1_000).unwrap();
    assert!(rules(0.0, 1, Missed::Stays).steady(&popularity).is_err());
    let one = SegmentRecycling { segments: 1.0, ..rules(100.0, 1, Missed::Stays) };
    assert!(one.steady(&popularity).is_err());
    for gets_per_put in [-1.0, f64::NAN, f64::INFINITY] {
        let wrong = SegmentRecycling { gets_per_put, ..rules(100.0, 1, Missed::Stays) };
        assert!(wrong.steady(&popularity).is_err(), "{gets_per_put}");
    }
}
