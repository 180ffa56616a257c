//! Models of stores as papers describe them. `siltstone_model` has those of the engines, and what both are computed
//! from: popularities, and the distinct keys among requests.
//!
//! - [`LevelDb`], with [`LevelDbSimulator`] to check it and [`LevelDb::optimize`] to choose the sizes of its levels;
//!   [`Cola`]; [`Samt`]: Lim's dissertation, chapter 4.
//! - [`FlashKey`]: section VI-C of its paper. [`FlashStore`], [`BloomStore`]: what their papers state about memory and
//!   recycling. All three have a log that is cleaned from its oldest end: [`Cleaning`]; [`Separation`] is the least
//!   that any cleaning can write.
//!
//! `docs/MODELS.md` lists the assumptions of each model, where it fails, and how accurate it is.

mod bloomstore;
mod cleaning;
mod cola;
mod flashkey;
mod flashstore;
mod lambert_w;
mod level_optimizer;
mod leveldb;
mod leveldb_simulator;
mod samt;

pub use bloomstore::BloomStore;
pub use cleaning::{Cleaning, Separation};
pub use cola::Cola;
pub use flashkey::FlashKey;
pub use flashstore::{FlashStore, Recycling};
pub use lambert_w::lambert_w;
pub use level_optimizer::OptimizedLevels;
pub use leveldb::{GROWTH_FACTOR, LevelDb, LevelDbWrites};
pub use leveldb_simulator::{LevelDbSimulated, LevelDbSimulator, simulate_leveldb};
pub use samt::Samt;

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone::Victim;
    use siltstone_model::{Missed, Popularity, SegmentCleaning, SegmentRecycling};

    #[test]
    fn the_engine_cleans_what_the_formula_of_the_oldest_segment_first_says() {
        for keys in [10_000, 10_000_000_000] {
            let uniform = Popularity::uniform(keys).unwrap();
            for over_provision in [0.11, 0.25, 0.67, 2.0] {
                let space = 1.0 + over_provision;
                let engine =
                    SegmentCleaning { space, segments: 1e4, victim: Victim::CostBenefit, classes: 3 };
                let appends = engine.appends_per_put(&uniform).unwrap();
                let formula = Cleaning::steady(&uniform, keys as f64 * space).unwrap().appends_per_put;
                assert!((0.93..1.01).contains(&(appends / formula)), "{appends} for {formula}");
            }
        }
    }

    #[test]
    fn one_queue_of_the_engine_is_the_second_chance_of_flashstores_paper() {
        let near = |got: f64, expected: f64, tolerance: f64| {
            assert!((got / expected - 1.0).abs() <= tolerance, "{got} for {expected}");
        };
        for (skew, share) in [(0.0, 0.5), (0.7, 0.3), (0.99, 0.3), (0.99, 0.8)] {
            let popularity = Popularity::zipf(1_000_000, skew).unwrap();
            let room = share * 1e6;
            let (segments, queues, gets_per_put, missed) = (100.0, 1, 1.0, Missed::Stays);
            let engine = SegmentRecycling { room, segments, queues, gets_per_put, missed };
            let recycled = engine.steady(&popularity).unwrap();
            let paper = FlashStore::paper(64.0, room * 64.0 / 0.8).recycling(&popularity, 1.0).unwrap();
            near(recycled.appends_per_put(), paper.flash_writes_per_put, 0.01);
            near(recycled.destaged, paper.disk_writes_per_put, 0.02);
            near(recycled.flash_gets, paper.flash_gets, 0.01);
            near(recycled.keys_on_flash, paper.keys_on_flash, 0.02);
        }
    }
}
