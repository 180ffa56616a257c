//! Random permutations that need no memory.

use siltstone_index::coding::mix;

/// The increment of SplitMix64: 2^64 divided by the golden ratio, odd.
const INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;

/// A random permutation of the numbers below a count: a Feistel network of four rounds over the next even power of two,
/// repeated until the result is below the count.
#[derive(Debug, Clone)]
pub struct Permutation {
    count: u64,
    half_bits: u32,
    seed: u64,
}

impl Permutation {
    /// Returns the permutation of the seed.
    pub fn new(count: u64, seed: u64) -> Self {
        let bits = u64::BITS - count.saturating_sub(1).leading_zeros();
        Permutation { count, half_bits: bits.div_ceil(2).max(1), seed }
    }

    /// Returns the number at `position`, which must be below the count.
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
            let scrambled = mix(right ^ self.seed.wrapping_add(INCREMENT.wrapping_mul(round))) & mask;
            (left, right) = (right, left ^ scrambled);
        }
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_returns_every_number_once() {
        for count in [1, 2, 3, 10, 64, 65, 1000, 4097] {
            let order = Permutation::new(count, 7);
            let mut numbers: Vec<u64> = (0..count).map(|position| order.at(position)).collect();
            assert!(count < 10 || !numbers.is_sorted(), "{count}");
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(0..count), "{count}");
        }
    }
}
