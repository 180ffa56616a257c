use super::*;
use crate::coding::mix;
use std::collections::BTreeMap;

const SETTINGS: LogIndexSettings = LogIndexSettings { hash_bits: 24, shards_log2: 3 };

/// What an index has to contain: the units of the kept bits of each hash, the youngest first.
#[derive(Debug, Default, Clone, PartialEq)]
struct Reference(BTreeMap<u64, Vec<Unit>>);

impl Reference {
    fn of(&mut self, settings: LogIndexSettings, hash: u64) -> &mut Vec<Unit> {
        let shift = 64 - settings.hash_bits;
        self.0.entry(hash >> shift << shift).or_default()
    }

    fn entries(&self) -> Vec<(u64, Unit)> {
        self.0.iter().flat_map(|(&hash, units)| units.iter().map(move |&unit| (hash, unit))).collect()
    }
}

/// Random numbers.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 += 1;
        mix(self.0)
    }
}

/// Changes an index and its reference at random. Hashes are few, so that many are equal.
fn change(numbers: &mut Numbers, index: &LogIndex, reference: &mut Reference) {
    let (hash, unit) = (mix(numbers.next() % 500), numbers.next() >> 24);
    let units = reference.of(index.settings(), hash);
    let chosen = numbers.next() as usize % units.len().max(1);
    match (numbers.next() % 5, units.get(chosen).copied()) {
        (0, Some(from)) => {
            units[chosen] = unit;
            assert!(index.replace(hash, from, unit));
        }
        (1, Some(from)) => {
            units.remove(chosen);
            assert!(index.remove(hash, from));
        }
        (2, _) => assert!(!index.remove(hash, unit) && !index.replace(hash, unit, 1)),
        _ => {
            units.insert(0, unit);
            index.insert(hash, unit);
        }
    }
    assert_eq!(*index.candidates(hash), *units);
}

#[test]
fn random_changes_give_the_entries_of_a_map_whatever_the_number_of_shards() {
    for (hash_bits, shards_log2) in [(38, 6), (24, 3), (18, 0), (30, 12)] {
        let settings = LogIndexSettings { hash_bits, shards_log2 };
        let (mut numbers, mut reference) = (Numbers(1), Reference::default());
        let index = LogIndex::create(settings).unwrap();
        for _ in 0..3_000 {
            change(&mut numbers, &index, &mut reference);
        }
        let snapshot = index.snapshot();
        assert!(snapshot.entries().eq(reference.entries()));
        assert_eq!((snapshot.len(), index.len()), (index.len(), reference.entries().len() as u64));
    }
}

#[test]
fn a_snapshot_keeps_its_entries_and_finds_those_of_equal_hashes() {
    let (mut numbers, mut reference) = (Numbers(2), Reference::default());
    let index = LogIndex::create(SETTINGS).unwrap();
    (0..2_000).for_each(|_| change(&mut numbers, &index, &mut reference));
    let (snapshot, kept) = (index.snapshot(), reference.clone());
    (0..2_000).for_each(|_| change(&mut numbers, &index, &mut reference));
    assert!(snapshot.entries().eq(kept.entries()));
    let equal = kept.0.iter().filter(|(_, units)| units.len() > 1);
    let found: Vec<_> = snapshot.equal_hashes().map(|(hash, units)| (hash, units.to_vec())).collect();
    assert!(found.iter().map(|(hash, units)| (hash, units)).eq(equal));
    for (hash, unit) in kept.entries() {
        assert!(snapshot.contains(hash, unit) && !snapshot.contains(hash, 1 << 39));
        assert_eq!(snapshot.candidates(hash).to_vec(), kept.0[&hash]);
    }
}

#[test]
fn ranges_of_any_length_together_have_every_entry_once() {
    let (mut numbers, mut reference) = (Numbers(3), Reference::default());
    let index = LogIndex::create(SETTINGS).unwrap();
    (0..2_000).for_each(|_| change(&mut numbers, &index, &mut reference));
    let wanted = reference.entries();
    let snapshot = index.snapshot();
    for limit in [1, 2, 50, 10_000] {
        let (mut found, mut from) = (Vec::new(), Some(0));
        while let Some(start) = from {
            let range = index.range(start, limit);
            let same = snapshot.range(start, limit);
            assert_eq!((&range.entries, range.next), (&same.entries, same.next));
            assert!(range.entries.len() >= limit || range.next.is_none());
            from = range.next;
            found.extend(range.entries);
        }
        assert_eq!(found, wanted, "limit {limit}");
    }
    let from = wanted[wanted.len() / 2].0;
    let rest: Vec<_> = wanted.iter().copied().filter(|entry| entry.0 >= from).collect();
    assert_eq!(index.range(from | 1, usize::MAX).entries, rest, "all hashes with the kept bits of the first");
}

#[test]
fn settings_outside_their_limits_are_refused() {
    for (hash_bits, shards_log2, is_allowed) in
        [(18, 0, true), (17, 0, false), (41, 0, true), (42, 0, false), (53, 12, true), (54, 13, false)]
    {
        let settings = LogIndexSettings { hash_bits, shards_log2 };
        assert_eq!(LogIndex::create(settings).is_ok(), is_allowed, "{settings:?}");
    }
}
