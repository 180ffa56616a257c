//! A ribbon filter per range of placements. It is built while keys are pushed in order, with memory for the keys of one
//! range, and behaves as one filter of all keys. Its bytes: `docs/formats/ranged_filter.md`.

use super::{Filter, RibbonBuilder, RibbonFilter};
use crate::coding::Decoder;
use crate::{BuildError, DecodeError, list_bytes};

const STRUCTURE: &str = "ranged ribbon filter";
const MAGIC: [u8; 4] = *b"SSRR";
const VERSION: u16 = 1;

/// The expected keys per range. With more, building takes more memory; with fewer, the filter does.
pub const KEYS_PER_RANGE: u64 = 4096;
/// The minimum number of encoded bytes per range.
const RANGE_BYTES_MIN: usize = 4;

/// Builds a [`RangedFilter`] from keys pushed in the order of their placements.
#[derive(Debug)]
pub struct RangedFilterBuilder {
    bits: u8,
    ranges: u64,
    filters: Vec<RibbonFilter>,
    /// The keys of the current range.
    keys: Vec<(u64, u64)>,
}

/// Returns the range of a placement, one of `ranges`, and its position in the range, from 0 at the begin to 2^64 at the
/// end.
#[inline]
fn range_of(ranges: u64, placement: u64) -> (u64, u64) {
    let product = u128::from(placement) * u128::from(ranges);
    ((product >> 64) as u64, product as u64)
}

impl RangedFilterBuilder {
    /// Makes a builder for about `expected_keys` keys, with a false-positive rate of 2^-`bits`; `bits` is 1 to 32.
    ///
    /// # Errors
    /// [`BuildError::Setting`] if `bits` is outside its limits.
    pub fn new(expected_keys: u64, bits: u8) -> Result<Self, BuildError> {
        // The bits are checked here, not when the first range ends.
        RibbonBuilder::new(0, bits)?;
        let ranges = expected_keys.div_ceil(KEYS_PER_RANGE).max(1);
        Ok(Self { bits, ranges, filters: Vec::new(), keys: Vec::new() })
    }

    /// Adds a key. Takes about 100 ns for 12 bits.
    ///
    /// # Errors
    /// [`BuildError::OutOfOrder`] for a placement in an earlier range than the previous one.
    pub fn push(&mut self, placement: u64, fingerprint: u64) -> Result<(), BuildError> {
        let (range, position) = range_of(self.ranges, placement);
        // The filter of that range is complete, and would exclude the key.
        if range < self.filters.len() as u64 {
            return Err(BuildError::OutOfOrder { last: u64::MAX, got: placement });
        }
        // A range without keys has a filter too, because ranges are found by their numbers.
        while (self.filters.len() as u64) < range {
            self.finish_range()?;
        }
        self.keys.push((position, fingerprint));
        Ok(())
    }

    fn finish_range(&mut self) -> Result<(), BuildError> {
        self.filters.push(RibbonFilter::new(self.keys.drain(..), self.bits)?);
        Ok(())
    }

    /// Returns the filter.
    ///
    /// # Errors
    /// None that correct use can lead to.
    pub fn finish(mut self) -> Result<RangedFilter, BuildError> {
        while (self.filters.len() as u64) < self.ranges {
            self.finish_range()?;
        }
        Ok(RangedFilter { filters: self.filters.into() })
    }

    /// Returns the heap memory, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.filters.iter().map(Filter::heap_bytes).sum::<usize>()
            + list_bytes(&self.filters)
            + list_bytes(&self.keys)
    }
}

/// A set of keys near the information bound: 12.6 bits per key at a false-positive rate of 2^-12, 7.5 at 2^-7.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangedFilter {
    filters: Box<[RibbonFilter]>,
}

impl RangedFilter {
    /// Decodes what [`Filter::encode`] wrote.
    ///
    /// # Errors
    /// Bytes that the format does not allow, with their offset.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Decoder::new(STRUCTURE, bytes, MAGIC, VERSION)?;
        reader.u16("two bytes of padding")?;
        let ranges = reader.u64("a number of ranges")?;
        // The bytes bound the number of filters, and so the memory that is reserved.
        let possible = 1..=(bytes.len() / RANGE_BYTES_MIN) as u64;
        let allowed = possible.contains(&ranges);
        reader.check(8, allowed, || format!("{possible:?} ranges"), || ranges.to_string())?;
        let mut filters = Vec::with_capacity(ranges as usize);
        for _ in 0..ranges {
            let length = reader.u32("the length of a filter")?;
            // Each filter must use all of its bytes, so a wrong length is an error.
            filters.push(RibbonFilter::decode(reader.take(length as usize, "a filter")?)?);
        }
        reader.end()?;
        Ok(Self { filters: filters.into() })
    }
}

impl Filter for RangedFilter {
    #[inline]
    fn may_contain(&self, placement: u64, fingerprint: u64) -> bool {
        let (range, position) = range_of(self.filters.len() as u64, placement);
        self.filters.get(range as usize).is_some_and(|filter| filter.may_contain(position, fingerprint))
    }

    fn len(&self) -> u64 {
        self.filters.iter().map(Filter::len).sum()
    }

    fn heap_bytes(&self) -> usize {
        self.filters.iter().map(Filter::heap_bytes).sum::<usize>() + size_of_val(&*self.filters)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend([0; 2]);
        out.extend((self.filters.len() as u64).to_le_bytes());
        for filter in &self.filters {
            let at = out.len();
            out.extend([0; 4]);
            filter.encode(out);
            let length = (out.len() - at - 4) as u32;
            out[at..at + 4].copy_from_slice(&length.to_le_bytes());
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::testing::Numbers;

    pub(crate) fn built(count: usize, expected: u64, bits: u8) -> (RangedFilter, Vec<(u64, u64)>) {
        let keys = Numbers(count as u64).sorted_keys(count);
        let mut builder = RangedFilterBuilder::new(expected, bits).unwrap();
        keys.iter().for_each(|&(placement, fingerprint)| builder.push(placement, fingerprint).unwrap());
        assert!(builder.heap_bytes() >= count.min(100));
        (builder.finish().unwrap(), keys)
    }

    #[test]
    fn every_key_is_contained_and_others_at_the_rate_of_the_bits() {
        for (count, expected, bits) in [(0, 0, 7), (1, 1, 7), (50_000, 50_000, 7), (50_000, 9_000, 12)] {
            let (filter, keys) = built(count, expected, bits);
            assert_eq!(filter.len(), count as u64);
            assert!(keys.iter().all(|&(placement, fingerprint)| filter.may_contain(placement, fingerprint)));
            let others = Numbers(77).keys(200_000);
            let wrong = others.iter().filter(|&&(placement, other)| filter.may_contain(placement, other));
            let rate = wrong.count() as f64 / others.len() as f64;
            assert!(rate < 1.25 * 0.5f64.powi(bits.into()), "{count} keys, {bits} bits: {rate}");
            assert!(count < 50_000 || filter.bits_per_key() < f64::from(bits) * 1.05 + 0.4);
        }
    }

    #[test]
    fn keys_of_an_earlier_range_are_refused() {
        let mut builder = RangedFilterBuilder::new(100_000, 7).unwrap();
        builder.push(u64::MAX, 0).unwrap();
        assert!(matches!(builder.push(0, 0), Err(BuildError::OutOfOrder { .. })));
        assert!(RangedFilterBuilder::new(1, 33).is_err());
    }

    #[test]
    fn a_builder_holds_the_filters_of_the_ranges_before_and_the_keys_of_one() {
        let keys = Numbers(4).sorted_keys(9_000);
        let mut builder = RangedFilterBuilder::new(9_000, 12).unwrap();
        assert_eq!(builder.heap_bytes(), 0);
        keys.iter().for_each(|&(placement, fingerprint)| builder.push(placement, fingerprint).unwrap());
        let (held, keys_bytes) = (builder.heap_bytes(), builder.keys.capacity() * 16);
        let filter = builder.finish().unwrap();
        assert_eq!(filter.filters.len(), 3);
        let filters_bytes = held - keys_bytes;
        assert!((filter.heap_bytes() / 2..filter.heap_bytes()).contains(&filters_bytes), "{filters_bytes}");
    }
}
