//! The prefilter of the BloomStore engine: the prefixes of placements in Elias–Fano form
//! (`siltstone_index::prefilter`).

/// The list on flash without its numbers, and the numbers for which its low bits are chosen: a zero takes 5/4 bits.
const HEADER_BYTES: f64 = 6.0 + 17.0;
const ZEROS_PER_NUMBER: f64 = 1.6;
/// A number in memory says where each 128th zero is.
const SAMPLE_BITS_PER_ZERO: f64 = 32.0 / 128.0;
/// Two words of 8 bytes in memory that have no numbers.
const SPARE_BYTES: f64 = 16.0;

/// A prefilter of keys.
pub(super) struct Prefilter {
    prefixes: f64,
    /// The prefixes that keys have.
    taken: f64,
}

impl Prefilter {
    pub fn new(keys: f64, prefixes: f64) -> Self {
        Prefilter { prefixes, taken: prefixes * -(-keys / prefixes).exp_m1() }
    }

    /// Returns the share of missing keys that are looked up.
    pub fn passing(&self) -> f64 {
        self.taken / self.prefixes
    }

    /// Returns the bits of the list, and its zeros.
    fn bits_and_zeros(&self) -> (f64, f64) {
        let zeros_max = ZEROS_PER_NUMBER * self.taken.max(1.0);
        let low_bits = (self.prefixes / (zeros_max + 1.0)).log2().ceil().max(0.0);
        let zeros = (self.prefixes / low_bits.exp2()).ceil();
        (self.taken * (1.0 + low_bits) + zeros, zeros)
    }

    /// Returns the memory, in bytes.
    pub fn ram_bytes(&self) -> f64 {
        let (bits, zeros) = self.bits_and_zeros();
        (bits + SAMPLE_BITS_PER_ZERO * zeros) / 8.0 + SPARE_BYTES
    }

    /// Returns the length on flash, in bytes.
    pub fn flash_bytes(&self) -> f64 {
        HEADER_BYTES + self.bits_and_zeros().0 / 8.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone_index::prefilter::{PrefilterBuilder, prefixes_for};

    #[test]
    fn a_prefilter_takes_the_memory_and_passes_the_keys_that_the_model_says() {
        for (keys, full, bits) in
            [(20_000_u64, 20_000.0, 4.0), (20_000, 80_000.0, 4.0), (9_000, 9_000.0, 8.0)]
        {
            let prefixes = prefixes_for(full, bits);
            let mut random = fastrand::Rng::with_seed(7);
            let mut placements: Vec<u64> = (0..keys).map(|_| random.u64(..)).collect();
            placements.sort_unstable();
            let mut builder = PrefilterBuilder::new(keys, prefixes);
            placements.iter().for_each(|placement| builder.push(*placement));
            let (built, model) = (builder.finish(), Prefilter::new(keys as f64, prefixes as f64));
            let passing = (0..50_000).filter(|_| built.may_contain(random.u64(..))).count();
            let ratio = built.heap_bytes() as f64 / model.ram_bytes();
            assert!((0.97..1.03).contains(&ratio), "{keys} keys, {bits} bits: {ratio}");
            let ratio = passing as f64 / 50_000.0 / model.passing();
            assert!((0.9..1.1).contains(&ratio), "{keys} keys, {bits} bits: {ratio}");
        }
    }
}
