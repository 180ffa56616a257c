use super::*;
use crate::coding::checksum::Secret;
use crate::coding::mix;
use crate::device::memory::MemoryDirectory;
use crate::device::{Access, AlignedBuffer, Directory, Purpose};
use crate::store::log::format::{LogClass, LogFormat, SEGMENT_HEADER_BYTES};
use crate::store::record::RecordLayout;
use std::collections::BTreeMap;

const SETTINGS: LogIndexSettings = LogIndexSettings { hash_bits: 24, shards_log2: 3 };

const FORMAT: LogFormat = LogFormat {
    layout: RecordLayout { fixed: None, expiring: false },
    database_id: 1,
    secret: Secret::new(2),
    class: LogClass::Redo,
    unit_bytes: 1,
};

fn directory() -> Directory {
    Directory::new(MemoryDirectory::default(), Access::Buffered)
}

fn created(settings: LogIndexSettings) -> LogIndex {
    LogIndex::create(&directory(), settings, &FORMAT).unwrap()
}

fn open(directory: &Directory) -> Result<(LogIndex, RecoveredIndex)> {
    LogIndex::open(directory, SETTINGS, &FORMAT, &mut |_, _| true)
}

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
        let index = created(settings);
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
    let index = created(SETTINGS);
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
    let index = created(SETTINGS);
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
        assert_eq!(LogIndex::create(&directory(), settings, &FORMAT).is_ok(), is_allowed, "{settings:?}");
    }
}

/// Flushes all operations. Returns the end of the redo log.
fn flush(index: &LogIndex, covered: Covered) -> u64 {
    let mut flush = index.start_flush();
    flush.take_operations();
    flush.log(&covered).unwrap();
    index.redo().end()
}

/// Returns a copy of a directory in which the only segment of the redo log ends at a position.
fn copy_until(directory: &Directory, end: u64) -> Directory {
    let copy = self::directory();
    for name in directory.list().unwrap() {
        let file = directory.open(&name, Access::Buffered).unwrap();
        let length = file.length().unwrap().min(end + SEGMENT_HEADER_BYTES as u64);
        let mut buffer = AlignedBuffer::default();
        let bytes = file.read(Purpose::Maintain, 0, length as usize, &mut buffer).unwrap();
        copy.create(&name, Access::Buffered).unwrap().write(Purpose::Maintain, 0, bytes).unwrap();
    }
    copy
}

#[test]
fn after_a_crash_the_index_is_that_of_the_last_flush_that_is_left() {
    for seed in 0..30 {
        let (mut numbers, mut reference) = (Numbers(seed << 32), Reference::default());
        let mut directory = directory();
        let mut index = LogIndex::create(&directory, SETTINGS, &FORMAT).unwrap();
        for round in 0..4u64 {
            let mut flushes = vec![(index.redo().end(), reference.clone(), round)];
            for number in 0..numbers.next() % 5 {
                (0..numbers.next() % 600).for_each(|_| change(&mut numbers, &index, &mut reference));
                flushes.push((flush(&index, [number + 10, 1, 2, round]), reference.clone(), number + 10));
                if numbers.next() % 3 == 0 {
                    index.sync_redo().unwrap();
                    flushes.drain(..flushes.len() - 1);
                }
            }
            (0..50).for_each(|_| change(&mut numbers, &index, &mut reference));
            let (synced, end) = (flushes[0].0, index.redo().end());
            let left = synced + numbers.next() % (end - synced + 1);
            let (_, kept, covered) = flushes.iter().rfind(|flush| flush.0 <= left).unwrap().clone();
            directory = copy_until(&directory, left);
            let (opened, recovered) = open(&directory).unwrap();
            assert!(opened.snapshot().entries().eq(kept.entries()), "seed {seed}, round {round}");
            assert!(recovered.covered == [covered, 1, 2, round] || covered == round, "{recovered:?}");
            assert_eq!(opened.pending_bytes(), 0);
            (index, reference) = (opened, kept);
        }
    }
}

#[test]
fn operations_that_were_taken_and_not_logged_end_all_writing() {
    let index = created(SETTINGS);
    index.insert(1, 1);
    drop(index.start_flush());
    flush(&index, Covered::default());
    index.insert(2, 2);
    index.start_flush().take_operations();
    let mut flush = index.start_flush();
    flush.take_operations();
    assert!(matches!(flush.log(&Covered::default()), Err(Error::Poisoned { .. })));
}

#[test]
fn a_redo_log_without_a_flush_or_of_another_index_is_refused() {
    let directory = directory();
    let index = LogIndex::create(&directory, SETTINGS, &FORMAT).unwrap();
    (0..100).for_each(|unit| index.insert(mix(unit), unit));
    // A flush that is left out.
    *index.redo.flush.lock() += 1;
    flush(&index, Covered::default());
    let error = open(&directory).err().unwrap().to_string();
    assert!(error.contains("expected flush 0 or one before it, got flush 1"), "{error}");
    let other = LogIndexSettings { hash_bits: 25, ..SETTINGS };
    assert!(LogIndex::open(&directory, other, &FORMAT, &mut |_, _| true).is_err());
}

#[test]
fn an_operation_on_an_entry_that_does_not_exist_is_damage() {
    let directory = directory();
    let index = LogIndex::create(&directory, SETTINGS, &FORMAT).unwrap();
    index.shards[0].write().pending.push(Operation::remove(0, 7));
    flush(&index, Covered::default());
    assert!(matches!(open(&directory), Err(Error::Corrupt { .. })));
}
