//! Random numbers from a seed, and random orders that need no memory.

/// Spreads a number over all 64 bits; a bijection (the finaliser of SplitMix64, Steele et al. 2014).
#[inline]
pub fn mix(mut number: u64) -> u64 {
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// The increment of SplitMix64: 2^64 over the golden ratio, odd.
pub const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64: small, fast, good enough to choose keys with.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A series of its own for each seed and stream.
    pub fn new(seed: u64, stream: u64) -> Self {
        Random(mix(seed.wrapping_add(mix(stream.wrapping_add(GOLDEN)))))
    }

    /// The next number.
    #[inline]
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// A number below `limit`, which must not be 0; uniform up to a bias of `limit` in 2^64.
    #[inline]
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(limit)) >> 64) as u64
    }
}

/// A random order of the numbers below a count: a Feistel network of four rounds over the next even power of two,
/// walked until it falls below the count.
#[derive(Debug, Clone)]
pub struct Permutation {
    count: u64,
    half_bits: u32,
    seed: u64,
}

impl Permutation {
    /// The order that belongs to the seed.
    pub fn new(count: u64, seed: u64) -> Self {
        let bits = u64::BITS - count.saturating_sub(1).leading_zeros();
        Permutation { count, half_bits: bits.div_ceil(2).max(1), seed }
    }

    /// The number at a position, both below the count.
    pub fn at(&self, position: u64) -> u64 {
        debug_assert!(position < self.count);
        let mut number = self.round_trip(position);
        while number >= self.count {
            number = self.round_trip(number);
        }
        number
    }

    fn round_trip(&self, number: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (number >> self.half_bits, number & mask);
        for round in 1..=4 {
            let scrambled = mix(right ^ self.seed.wrapping_add(GOLDEN.wrapping_mul(round))) & mask;
            (left, right) = (right, left ^ scrambled);
        }
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_gives_every_number_once() {
        for count in [1, 2, 3, 10, 64, 65, 1000, 4097] {
            let order = Permutation::new(count, 7);
            let mut numbers: Vec<u64> = (0..count).map(|position| order.at(position)).collect();
            assert!(count < 10 || !numbers.is_sorted(), "{count}");
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(0..count), "{count}");
        }
    }

    #[test]
    fn numbers_below_a_limit_cover_it_evenly() {
        let mut random = Random::new(1, 2);
        let mut counts = [0; 10];
        (0..100_000).for_each(|_| counts[random.below(10) as usize] += 1);
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    }

    #[test]
    fn every_stream_is_another_series() {
        assert_ne!(Random::new(1, 0).draw(), Random::new(1, 1).draw());
        assert_eq!(Random::new(1, 1).draw(), Random::new(1, 1).draw());
    }
}
