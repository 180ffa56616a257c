//! Which keys may be in any of the runs of a chain, so that a lookup of a missing key reads nothing (BloomStore,
//! III-C).
//!
//! The paper has a Bloom filter of a fixed size. Here it is the set of the prefixes of all placements, in Elias–Fano
//! form, which grows with its keys. Runs are in the order of placements, so the prefilter of a longer chain is the
//! merge of two ascending lists.
//!
//! ```text
//! placements    0 |--x-----xx----------x---x-----------------x------| 2^64
//! prefixes        0    1    2    3    4    5    6    7    8    9   10        1, 2, 4, 5, 9: absent from 0, 3, 6, ...
//! ```
//!
//! A missing key passes with the probability that its prefix is taken: with *p* prefixes per key at most 1/*p*, more
//! exactly 1 - e^(-1/*p*).

use super::DecodeError;
use super::elias_fano::{EliasFano, EliasFanoBuilder, LEN_MAX};
use crate::coding::Decoder;

const STRUCTURE: &str = "prefilter";
const MAGIC: [u8; 4] = *b"SSPF";
const VERSION: u16 = 1;

/// The prefixes per key, with 4 bits per key.
const PREFIXES_PER_KEY: f64 = 5.0;
const BITS_OF_THESE: f64 = 4.0;
/// The maximum number of prefixes.
const PREFIXES_MAX: f64 = LEN_MAX as f64;

/// Returns the number of prefixes with which a prefilter of this many keys has about `bits` per key.
pub fn prefixes_for(keys: f64, bits: f64) -> u64 {
    (keys * PREFIXES_PER_KEY * (bits - BITS_OF_THESE).exp2()).clamp(1.0, PREFIXES_MAX) as u64
}

/// The prefixes of the placements of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefilter {
    prefixes: EliasFano,
}

/// Builds a [`Prefilter`] from ascending placements.
pub struct PrefilterBuilder {
    prefixes: EliasFanoBuilder,
    end: u64,
    last: Option<u64>,
}

impl PrefilterBuilder {
    /// Makes a builder for about `expected_keys` keys and, at most, this many prefixes, at least one.
    pub fn new(expected_keys: u64, prefixes: u64) -> Self {
        let end = prefixes.max(1);
        PrefilterBuilder { prefixes: EliasFanoBuilder::new(expected_keys.min(end), end), end, last: None }
    }

    /// Adds a placement. One lower than the last one has no effect.
    pub fn push(&mut self, placement: u64) {
        self.push_prefix(prefix_of(placement, self.end));
    }

    fn push_prefix(&mut self, prefix: u64) {
        // Keys that share a prefix take it once.
        if self.last.is_none_or(|last| last < prefix) && self.prefixes.push(prefix) {
            self.last = Some(prefix);
        }
    }

    /// Returns the memory held, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.prefixes.heap_bytes()
    }

    /// Returns the prefilter.
    pub fn finish(self) -> Prefilter {
        Prefilter { prefixes: self.prefixes.finish() }
    }
}

fn prefix_of(placement: u64, prefixes: u64) -> u64 {
    // Ascends with the placement, so a chain in the order of placements pushes its prefixes in order.
    ((u128::from(placement) * u128::from(prefixes)) >> 64) as u64
}

impl Prefilter {
    /// Returns false only if no key has this placement. Reads two or three cache lines.
    #[inline]
    pub fn may_contain(&self, placement: u64) -> bool {
        self.prefixes.contains(prefix_of(placement, self.prefixes.end()))
    }

    /// Returns how many prefixes there can be.
    pub fn prefixes(&self) -> u64 {
        self.prefixes.end()
    }

    /// Returns the prefilter of the keys of both. `None` if the prefixes have different lengths.
    pub fn merged(&self, other: &Prefilter) -> Option<Prefilter> {
        // Prefixes of different lengths are of different placements: together they would exclude keys that exist.
        if self.prefixes() != other.prefixes() {
            return None;
        }
        let mut merged = PrefilterBuilder::new(self.prefixes.len() + other.prefixes.len(), self.prefixes());
        let mut others = other.prefixes.iter().peekable();
        // Both lists ascend. A prefix in both is taken once.
        for prefix in self.prefixes.iter() {
            while let Some(other) = others.next_if(|other| *other < prefix) {
                merged.push_prefix(other);
            }
            merged.push_prefix(prefix);
        }
        others.for_each(|other| merged.push_prefix(other));
        Some(merged.finish())
    }

    /// Returns the heap memory, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.prefixes.heap_bytes()
    }

    /// Appends the encoded prefilter (`docs/formats/prefilter.md`).
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        self.prefixes.encode(out);
    }

    /// Decodes what [`encode`](Prefilter::encode) has appended.
    ///
    /// # Errors
    /// Bytes that the format does not allow, with their offset.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Decoder::new(STRUCTURE, bytes, MAGIC, VERSION)?;
        let prefixes = EliasFano::decode(&mut reader)?;
        // A placement is multiplied by the number of prefixes. Without any, all keys would be excluded.
        reader.check(0, prefixes.end() > 0, || "at least one prefix".into(), || "none".into())?;
        reader.end()?;
        Ok(Prefilter { prefixes })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::testing::Numbers;

    /// Returns the prefilter of random placements, and these.
    pub(crate) fn built(keys: usize, prefixes: u64, seed: u64) -> (Prefilter, Vec<u64>) {
        let placements = Numbers(seed).sorted_placements(keys);
        let mut builder = PrefilterBuilder::new(keys as u64, prefixes);
        placements.iter().for_each(|placement| builder.push(*placement));
        (builder.finish(), placements)
    }

    /// Returns the share of missing keys that pass.
    fn passing(prefilter: &Prefilter) -> f64 {
        let mut numbers = Numbers(9);
        (0..50_000).filter(|_| prefilter.may_contain(numbers.next())).count() as f64 / 50_000.0
    }

    #[test]
    fn with_4_bits_per_key_at_most_0_185_of_the_missing_keys_pass() {
        for (bits, most, bits_most) in [(4.0, 0.185, 4.4), (8.0, 0.013, 8.8), (2.0, 0.56, 2.7)] {
            let keys = 20_000;
            let (prefilter, placements) = built(keys, prefixes_for(keys as f64, bits), 3);
            assert!(placements.iter().all(|placement| prefilter.may_contain(*placement)));
            let held = prefilter.heap_bytes() as f64 * 8.0 / keys as f64;
            assert!(passing(&prefilter) <= most && held <= bits_most, "{bits}: {held} bits per key");
        }
    }

    #[test]
    fn a_builder_holds_about_what_its_prefilter_takes() {
        let mut builder = PrefilterBuilder::new(5_000, 90_000);
        Numbers(3).sorted_placements(5_000).into_iter().for_each(|placement| builder.push(placement));
        let (held, prefilter) = (builder.heap_bytes(), builder.finish());
        let taken = prefilter.heap_bytes();
        assert!((taken / 2..2 * taken).contains(&held), "{held} and {taken}");
        assert_eq!(prefilter.prefixes(), 90_000);
    }

    #[test]
    fn merged_prefilters_have_the_keys_of_both_as_if_they_were_made_of_all() {
        let prefixes = prefixes_for(9_000.0, 4.0);
        let ((old, of_old), (young, of_young)) = (built(8_000, prefixes, 3), built(1_000, prefixes, 4));
        let merged = old.merged(&young).unwrap();
        let mut all = [of_old, of_young].concat();
        all.sort_unstable();
        let mut builder = PrefilterBuilder::new(9_000, prefixes);
        all.iter().for_each(|placement| builder.push(*placement));
        assert!(all.iter().all(|placement| merged.may_contain(*placement)));
        assert!(merged.prefixes.iter().eq(builder.finish().prefixes.iter()));
        assert!((0.17..0.185).contains(&passing(&merged)));
        assert_eq!(old.merged(&built(10, prefixes + 1, 5).0), None);
    }

    #[test]
    fn a_prefilter_without_keys_passes_none() {
        assert_eq!(passing(&built(0, 1, 1).0), 0.0);
        assert_eq!(passing(&built(0, 1_000_000, 1).0), 0.0);
    }
}
