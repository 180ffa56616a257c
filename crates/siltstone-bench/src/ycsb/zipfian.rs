//! The Zipfian generators of YCSB 0.17, reproduced step by step, so that the same records are popular.
//!
//! The ranks are drawn by the method of Gray et al. ("Quickly Generating Billion-Record Synthetic Databases", SIGMOD
//! 1994). YCSB departs from an exact Zipf distribution in three ways, and this module reproduces all of them: ranks
//! from the third on come from a continuous approximation; the scrambled generator draws from 10^10 items regardless of
//! the number of records, so popular items may share a record; a generator that grows keeps its first number of items
//! in η.

/// θ, the skew of all of YCSB's workloads.
pub const ZIPFIAN_CONSTANT: f64 = 0.99;
/// ζ(10^10, 0.99), which would take minutes to sum up. It is a constant in YCSB as well.
const ZETA_SCRAMBLED: f64 = 26.469_028_201_783_02;
/// The items from which the scrambled generator draws: 0 to 10^10, inclusive, as in YCSB.
const ITEMS_SCRAMBLED: u64 = 10_000_000_001;

/// Ranks whose popularity is proportional to 1 / rank^θ; rank 0 is the most popular.
#[derive(Debug, Clone)]
pub struct Zipfian {
    first_items: u64,
    items: u64,
    theta: f64,
    zeta_two: f64,
    zeta: f64,
    eta: f64,
}

impl Zipfian {
    /// Creates a generator of ranks below `items`. Sums up ζ, which takes about 10 ns per item.
    pub fn new(items: u64, theta: f64) -> Zipfian {
        Zipfian::with_zeta(items, theta, zeta(0, items, theta))
    }

    fn with_zeta(items: u64, theta: f64, zeta: f64) -> Zipfian {
        let zeta_two = self::zeta(0, 2, theta);
        let mut zipfian = Zipfian { first_items: items, items, theta, zeta_two, zeta, eta: 0.0 };
        zipfian.set_eta();
        zipfian
    }

    fn set_eta(&mut self) {
        let first = 1.0 - (2.0 / self.first_items as f64).powf(1.0 - self.theta);
        self.eta = first / (1.0 - self.zeta_two / self.zeta);
    }

    /// Extends the range of items, at the cost of summing the new ones. A smaller number is ignored.
    pub fn grow(&mut self, items: u64) {
        if items > self.items {
            self.zeta += zeta(self.items, items, self.theta);
            self.items = items;
            self.set_eta();
        }
    }

    /// Maps a number from 0 to 1 (exclusive) to a rank below the number of items.
    pub fn rank(&self, uniform: f64) -> u64 {
        let share = uniform * self.zeta;
        if share < 1.0 {
            return 0;
        }
        if share < self.zeta_two {
            return 1;
        }
        let position = (self.eta * uniform - self.eta + 1.0).powf(1.0 / (1.0 - self.theta));
        ((self.items as f64 * position) as u64).min(self.items.saturating_sub(1))
    }
}

/// Σ 1 / rank^θ over the ranks after `from`, up to `to`.
fn zeta(from: u64, to: u64, theta: f64) -> f64 {
    (from..to).map(|rank| 1.0 / ((rank + 1) as f64).powf(theta)).sum()
}

/// Zipfian numbers, with the popular ones spread over the whole range.
#[derive(Debug, Clone)]
pub struct ScrambledZipfian {
    zipfian: Zipfian,
    items: u64,
}

impl ScrambledZipfian {
    /// Creates a generator of numbers below `items`, which must not be 0.
    pub fn new(items: u64) -> ScrambledZipfian {
        let zipfian = Zipfian::with_zeta(ITEMS_SCRAMBLED, ZIPFIAN_CONSTANT, ZETA_SCRAMBLED);
        ScrambledZipfian { zipfian, items }
    }

    /// Maps a number from 0 to 1 (exclusive) to an item.
    pub fn number(&self, uniform: f64) -> u64 {
        fnv_64(self.zipfian.rank(uniform)) % self.items
    }
}

/// YCSB's hash of numbers: FNV-1a over the eight little-endian bytes, without the sign.
pub fn fnv_64(number: u64) -> u64 {
    let hash = number.to_le_bytes().into_iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(1_099_511_628_211)
    });
    hash.cast_signed().unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random;

    /// The values that YCSB 0.17.0 drew from these numbers: `ZipfianGenerator(1000)`, `ScrambledZipfianGenerator(0,
    /// 1000)`.
    const DRAWN_BY_YCSB: [(f64, u64, u64); 10] = [
        (0.30119234109800685, 4, 594),
        (0.904120689250289, 486, 801),
        (0.6177596912090076, 54, 869),
        (0.49458746683826926, 21, 128),
        (0.4460340457053068, 14, 270),
        (0.9854301824352952, 896, 824),
        (0.9578480972837081, 729, 767),
        (0.27357510438250365, 3, 903),
        (0.9643317390991271, 765, 936),
        (0.07484172167879066, 0, 679),
    ];

    #[test]
    fn ranks_and_scrambled_numbers_are_those_of_ycsb() {
        let (zipfian, scrambled) = (Zipfian::new(1000, ZIPFIAN_CONSTANT), ScrambledZipfian::new(1001));
        for (uniform, rank, number) in DRAWN_BY_YCSB {
            assert_eq!((zipfian.rank(uniform), scrambled.number(uniform)), (rank, number), "{uniform}");
        }
    }

    #[test]
    fn numbers_are_hashed_as_ycsb_does() {
        for (number, hash) in [
            (0, 6_284_781_860_667_377_211),
            (1, 8_517_097_267_634_966_620),
            (2, 1_820_151_046_732_198_393),
            (999, 2_071_219_101_098_386_137),
            (1_000_000_000_000, 6_795_675_215_962_365_636),
        ] {
            assert_eq!(fnv_64(number), hash, "{number}");
        }
    }

    /// Counts how often each number is drawn.
    fn frequencies(items: u64, draws: u64, mut draw: impl FnMut(f64) -> u64) -> Vec<f64> {
        let mut random = random::stream(3, 4);
        let mut counts = vec![0u64; items as usize];
        (0..draws).for_each(|_| counts[draw(random.f64()) as usize] += 1);
        counts.into_iter().map(|count| count as f64 / draws as f64).collect()
    }

    /// The share of the numbers from 0 to 1 that map to a rank, by inverting the approximation.
    fn share(zipfian: &Zipfian, rank: u64) -> f64 {
        let first_two = [0.0, 1.0 / zipfian.zeta, zipfian.zeta_two / zipfian.zeta];
        if rank < 2 {
            return first_two[rank as usize + 1] - first_two[rank as usize];
        }
        let until = |rank: u64| {
            let position = rank as f64 / zipfian.items as f64;
            let uniform = (position.powf(1.0 - zipfian.theta) - 1.0) / zipfian.eta + 1.0;
            uniform.max(first_two[2])
        };
        until(rank + 1) - until(rank)
    }

    #[test]
    fn ranks_come_as_often_as_ycsb_has_it_and_about_as_zipfs_law_has_it() {
        let (items, draws) = (500, 2_000_000);
        let zipfian = Zipfian::new(items, ZIPFIAN_CONSTANT);
        let got = frequencies(items, draws, |uniform| zipfian.rank(uniform));
        let of_zipf: Vec<f64> =
            (1..=items).map(|rank| (rank as f64).powf(-ZIPFIAN_CONSTANT) / zipfian.zeta).collect();
        for rank in 0..items {
            let (got, expected) = (got[rank as usize], share(&zipfian, rank));
            // Six standard deviations of a count.
            let tolerance = 6.0 * (expected / draws as f64).sqrt();
            assert!((got - expected).abs() < tolerance, "{rank}: {got} for {expected}");
        }
        for end in [1, 2, 10, 50, 100, 250] {
            let (got, expected) = (got[..end].iter().sum::<f64>(), of_zipf[..end].iter().sum::<f64>());
            assert!((got / expected - 1.0).abs() < 0.06, "the first {end}: {got} for {expected}");
        }
    }

    #[test]
    fn scrambled_numbers_come_as_often_as_the_ranks_that_fall_on_them() {
        let (items, draws) = (101, 2_000_000);
        let scrambled = ScrambledZipfian::new(items);
        let got = frequencies(items, draws, |uniform| scrambled.number(uniform));
        // The most popular of the 10^10 ranks one by one; all others are distributed evenly.
        let mut expected = vec![0.0; items as usize];
        let mut rest = 1.0;
        for rank in 0..100_000 {
            let share = share(&scrambled.zipfian, rank);
            expected[(fnv_64(rank) % items) as usize] += share;
            rest -= share;
        }
        for (number, expected) in expected.into_iter().enumerate() {
            let expected = expected + rest / items as f64;
            assert!((got[number] / expected - 1.0).abs() < 0.05, "{number}: {} for {expected}", got[number]);
        }
    }

    #[test]
    fn growing_sums_up_the_same_zeta() {
        let mut grown = Zipfian::new(10, ZIPFIAN_CONSTANT);
        [11, 50, 49, 1000].into_iter().for_each(|items| grown.grow(items));
        let whole = Zipfian::new(1000, ZIPFIAN_CONSTANT);
        assert!(grown.items == 1000 && (grown.zeta / whole.zeta - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_fewest_items_have_ranks_too() {
        for items in 0..4 {
            let zipfian = Zipfian::new(items, ZIPFIAN_CONSTANT);
            for uniform in [0.0, 0.3, 0.6, 0.999_999_999] {
                assert!(zipfian.rank(uniform) < items.max(1), "{items}: {uniform}");
            }
        }
    }

    #[test]
    fn the_constant_for_ten_billion_items_is_their_zeta() {
        // By the Euler–Maclaurin formula from rank 1000 on.
        let (from, to, theta) = (1000.0_f64, 1e10_f64, ZIPFIAN_CONSTANT);
        let integral = (to.powf(1.0 - theta) - from.powf(1.0 - theta)) / (1.0 - theta);
        let tail = integral
            + (to.powf(-theta) - from.powf(-theta)) / 2.0
            + theta * (from.powf(-theta - 1.0) - to.powf(-theta - 1.0)) / 12.0;
        let sum = zeta(0, 1000, theta) + tail;
        assert!((sum - ZETA_SCRAMBLED).abs() < 1e-8, "{sum}");
    }
}
