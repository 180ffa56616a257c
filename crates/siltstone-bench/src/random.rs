//! Random numbers from a seed, and random orders that take no memory.

pub use fastrand::Rng;
pub use siltstone_index::coding::mix;
pub use siltstone_model::Permutation;

/// The increment of SplitMix64: 2^64 divided by the golden ratio, odd.
pub const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the generator of a seed and a stream. Each pair has a sequence of its own.
pub fn stream(seed: u64, stream: u64) -> Rng {
    Rng::with_seed(mix(seed.wrapping_add(mix(stream.wrapping_add(GOLDEN)))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stream_has_its_own_sequence() {
        assert_ne!(stream(1, 0).u64(..), stream(1, 1).u64(..));
        assert_eq!(stream(1, 1).u64(..), stream(1, 1).u64(..));
    }
}
