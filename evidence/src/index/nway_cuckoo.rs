//! The index of FlashStore's paper (4.4): a hash table in which a key has n candidate slots, with a compact signature
//! and a pointer per slot. It is a structure of the benchmarks only; the engine has growing pages instead.
//!
//! The hash of candidate i gives the slot by its low bits and the signature by its high bits. So the other candidates
//! of a slot's key are not known from the slot: to relocate the key, its record has to be read from flash. These reads
//! are the relocations that are counted.

use super::Options;
use super::sample::{Key, Sample};
use super::subject::{Inserts, Subject, Verified};
use siltstone_bench::random::{self, GOLDEN, Rng, mix};
use siltstone_index::BuildError;
use std::collections::HashMap;

/// The relocations of an insert, after which the key without a slot moves to the auxiliary table: the paper's "small
/// number".
const RELOCATIONS_MAX: u32 = 16;
/// The bits of a signature in a slot of 6 bytes.
const SIGNATURE_BITS_MAX: u32 = 16;
const CANDIDATES_MAX: u32 = 64;
/// The pointer of an empty slot.
const EMPTY: u32 = 0;

/// A table with a fixed number of slots.
pub(super) struct NwayCuckoo {
    candidates: u32,
    signature_shift: u32,
    signatures: Box<[u16]>,
    pointers: Box<[u32]>,
    /// The keys for which no slot was found, with their pointers.
    auxiliary: HashMap<Key, u32>,
    inserted: u64,
    relocations: u64,
    /// The keys in the table when the first one moved to the auxiliary table.
    first_failure: Option<u64>,
    random: Rng,
}

impl NwayCuckoo {
    /// Creates an empty table. `bits`: a lookup of a missing key finds about 2^-bits wrong candidates in a full table,
    /// so a signature has as many bits and the logarithm of the number of candidates.
    pub(super) fn new(slots: u64, candidates: u32, bits: u8) -> Result<NwayCuckoo, BuildError> {
        let refused = |name, got, limit| Err(BuildError::Setting { name, got, limit });
        if !(1..=CANDIDATES_MAX).contains(&candidates) {
            return refused("candidates", candidates.into(), "1 to 64");
        }
        let signature_bits = u32::from(bits) + candidates.next_power_of_two().ilog2();
        if bits == 0 || signature_bits > SIGNATURE_BITS_MAX {
            return refused("bits", bits.into(), "1 to 16, less the logarithm of the candidates");
        }
        if slots > u64::from(u32::MAX) {
            return refused("slots", slots, "below 2^32");
        }
        let slots = slots.max(1) as usize;
        Ok(NwayCuckoo {
            candidates,
            signature_shift: u64::BITS - signature_bits,
            signatures: vec![0; slots].into(),
            pointers: vec![EMPTY; slots].into(),
            auxiliary: HashMap::new(),
            inserted: 0,
            relocations: 0,
            first_failure: None,
            random: random::stream(slots as u64, u64::from(candidates)),
        })
    }

    /// Returns the slot and the signature of a candidate.
    #[inline]
    fn place(&self, key: Key, candidate: u32) -> (usize, u16) {
        let hash = mix(key.placement.wrapping_add(GOLDEN.wrapping_mul(u64::from(candidate) + 1)));
        let slot = ((hash & u64::from(u32::MAX)) * self.pointers.len() as u64) >> 32;
        (slot as usize, (hash >> self.signature_shift) as u16)
    }

    /// Inserts a key that is not in the table, with a pointer that is not 0. `key_of` reads the key of a pointer from
    /// its record.
    fn insert(&mut self, key: Key, pointer: u32, key_of: impl Fn(u32) -> Key) {
        let (mut key, mut pointer) = (key, pointer);
        for relocation in 0..=RELOCATIONS_MAX {
            let mut places = (0..self.candidates).map(|candidate| self.place(key, candidate));
            if let Some((slot, signature)) = places.find(|(slot, _)| self.pointers[*slot] == EMPTY) {
                (self.signatures[slot], self.pointers[slot]) = (signature, pointer);
                self.inserted += 1;
                return;
            }
            if relocation == RELOCATIONS_MAX {
                break;
            }
            let candidate = self.random.u32(..self.candidates);
            let (slot, signature) = self.place(key, candidate);
            self.signatures[slot] = signature;
            pointer = std::mem::replace(&mut self.pointers[slot], pointer);
            key = key_of(pointer);
            self.relocations += 1;
        }
        self.first_failure.get_or_insert(self.inserted);
        self.inserted += 1;
        self.auxiliary.insert(key, pointer);
    }

    /// Returns the pointers whose records a lookup reads, in this order, up to the right one.
    #[inline]
    fn pointers(&self, key: Key) -> impl Iterator<Item = u32> {
        let of_slots = (0..self.candidates).filter_map(move |candidate| {
            let (slot, signature) = self.place(key, candidate);
            let pointer = self.pointers[slot];
            (pointer != EMPTY && self.signatures[slot] == signature).then_some(pointer)
        });
        of_slots.chain(self.auxiliary.get(&key).copied())
    }
}

/// A table of the keys of a sample, in insertion order.
pub(super) struct Filled<'a> {
    table: NwayCuckoo,
    arrived: &'a [Key],
}

impl Filled<'_> {
    /// Inserts all keys into a table that is then filled to the load.
    pub(super) fn new(sample: &Sample, options: Options) -> Result<Filled<'_>, BuildError> {
        let load = options.load.unwrap_or_default();
        let slots = (sample.len() as f64 / load).ceil() as u64;
        let (candidates, bits) = (options.candidates.unwrap_or_default(), options.bits.unwrap_or_default());
        let mut table = NwayCuckoo::new(slots, candidates, bits)?;
        let arrived = sample.arrived();
        for (pointer, key) in (1..).zip(arrived) {
            table.insert(*key, pointer, |pointer| arrived[pointer as usize - 1]);
        }
        Ok(Filled { table, arrived })
    }
}

impl Subject for Filled<'_> {
    fn heap_bytes(&self) -> usize {
        let slots = size_of_val(&*self.table.signatures) + size_of_val(&*self.table.pointers);
        slots + self.table.auxiliary.capacity() * 8 / 7 * (size_of::<(Key, u32)>() + 1)
    }

    #[inline]
    fn look_up(&self, key: Key) -> u64 {
        self.table.pointers(key).map(u64::from).sum()
    }

    /// Counts the records that a lookup reads. The last one is right.
    fn verify(&self, _sorted: &[Key]) -> Verified {
        let mut verified = Verified::default();
        for (pointer, key) in (1..).zip(self.arrived) {
            let wrong = self.table.pointers(*key).take_while(|found| *found != pointer).count();
            let is_right = self.table.pointers(*key).nth(wrong) == Some(pointer);
            verified.add(is_right, wrong as u64 + u64::from(is_right));
        }
        verified
    }

    fn may_contain(&self, key: Key) -> Option<bool> {
        Some(self.table.pointers(key).next().is_some())
    }

    fn inserts(&self) -> Option<Inserts> {
        let NwayCuckoo { pointers, auxiliary, inserted, relocations, first_failure, .. } = &self.table;
        Some(Inserts {
            load: (inserted - auxiliary.len() as u64) as f64 / pointers.len() as f64,
            relocations_per_insert: *relocations as f64 / (*inserted).max(1) as f64,
            load_at_first_failure: first_failure.map(|keys| keys as f64 / pointers.len() as f64),
            auxiliary_keys: auxiliary.len() as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(sample: &Sample, candidates: u32, load: f64) -> Filled<'_> {
        let options =
            Options { candidates: Some(candidates), load: Some(load), bits: Some(8), ..Options::default() };
        Filled::new(sample, options).unwrap()
    }

    #[test]
    fn every_key_has_the_pointer_that_a_map_has_also_when_the_table_is_too_small() {
        let sample = Sample::new(5_000, 3);
        for (candidates, load) in [(1, 0.5), (2, 0.5), (4, 0.9), (16, 0.9), (16, 1.2), (64, 1.0)] {
            let map: HashMap<Key, u32> = sample.arrived().iter().copied().zip(1..).collect();
            let filled = filled(&sample, candidates, load);
            let has =
                |(key, pointer): (&Key, &u32)| filled.table.pointers(*key).any(|found| found == *pointer);
            assert!(map.iter().all(has), "{candidates} candidates, load {load}");
            let taken = filled.table.pointers.iter().filter(|pointer| **pointer != EMPTY).count();
            assert_eq!(taken + filled.table.auxiliary.len(), 5_000);
            assert_eq!(filled.verify(sample.sorted()).keys, 5_000);
        }
    }

    #[test]
    fn a_missing_key_has_a_candidate_as_rarely_as_its_signatures_are_long() {
        let sample = Sample::new(10_000, 5);
        let filled = filled(&sample, 16, 0.9);
        let found =
            sample.absent().take(100_000).filter(|key| filled.may_contain(*key) == Some(true)).count();
        let expected = 100_000.0 * 0.9 / 256.0;
        assert!((found as f64 / expected - 1.0).abs() < 0.2, "{found}, {expected}");
    }

    #[test]
    fn relocations_and_failures_grow_with_the_load_and_shrink_with_the_candidates() {
        let sample = Sample::new(20_000, 7);
        let inserts = |candidates, load| filled(&sample, candidates, load).inserts().unwrap();
        let (low, paper, full) = (inserts(16, 0.5), inserts(16, 0.9), inserts(16, 1.0));
        assert!(low.relocations_per_insert < 0.001 && low.load_at_first_failure.is_none());
        assert!(paper.auxiliary_keys == 0 && paper.relocations_per_insert < 1.0, "{paper:?}");
        assert!(full.auxiliary_keys > 0 && full.load_at_first_failure.unwrap() > 0.9, "{full:?}");
        let few = inserts(4, 0.9);
        assert!(few.relocations_per_insert > paper.relocations_per_insert, "{few:?}, {paper:?}");
    }
}
