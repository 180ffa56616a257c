use super::*;
use crate::damage::{Damage, DamagedPart, KeyRange};
use crate::key::RecordLayout;
use crate::names::{FileName, LogClass};
use crate::store::log_format::{LogFormat, SEGMENT_HEADER_BYTES};
use siltstone_device::memory::MemoryDirectory;
use siltstone_device::{Access, AlignedBuffer, Directory, Purpose};
use siltstone_index::coding::checksum::Secret;
use siltstone_index::coding::mix;
use std::collections::BTreeMap;
use std::sync::Arc;

mod loading;

const SETTINGS: LogIndexSettings = LogIndexSettings { hash_bits: 24, shards_log2: 3, slot_units: 1 << 30 };

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
    LogIndex::create(&directory(), settings, &FORMAT, &Arc::default()).unwrap()
}

fn open(directory: &Directory) -> Result<(LogIndex, RecoveredIndex)> {
    open_saved(directory, SETTINGS, None, 8)
}

/// Returns all entries of an index.
fn entries(snapshot: &IndexSnapshot) -> Vec<(u64, Unit)> {
    let mut entries = Vec::new();
    let push = &mut |hash, unit| {
        entries.push((hash, unit));
        Ok(())
    };
    snapshot.visit(Purpose::Index, push).unwrap();
    entries
}

/// What an index has to contain: the units of the kept bits of each hash, the newest first.
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
            assert!(match unit % 2 {
                0 => index.replace(hash, from, unit),
                _ => index.replace_found(&index.look_up(&[hash]).unwrap()[0], from, unit),
            });
        }
        (1, Some(from)) => {
            units.remove(chosen);
            assert!(index.remove(hash, from));
        }
        (2, _) if index.residency().pages_on_flash == 0 && !index.residency().is_moving => {
            assert!(!index.remove(hash, unit) && !index.replace(hash, unit, 1));
        }
        _ => {
            units.insert(0, unit);
            index.insert(hash, unit);
        }
    }
    if !numbers.next().is_multiple_of(8) {
        return;
    }
    let known = index.known_candidates(hash);
    assert!(known.0.iter().all(|unit| units.contains(unit)) && (!known.1 || *known.0 == **units));
    assert!(units.is_empty() || index.may_contain(hash));
    assert_eq!(*index.candidates(hash).unwrap(), *units);
}

#[test]
fn random_changes_give_the_entries_of_a_map_whatever_the_number_of_shards() {
    for (hash_bits, shards_log2) in [(38, 6), (24, 3), (18, 0), (30, 12)] {
        let settings = LogIndexSettings { hash_bits, shards_log2, slot_units: 1 };
        let (mut numbers, mut reference) = (Numbers(1), Reference::default());
        let index = created(settings);
        for _ in 0..3_000 {
            change(&mut numbers, &index, &mut reference);
        }
        let snapshot = index.snapshot();
        assert_eq!(entries(&snapshot), reference.entries());
        assert_eq!((snapshot.len(), index.len()), (index.len(), reference.entries().len() as u64));
    }
}

#[test]
fn a_snapshot_keeps_its_entries() {
    let (mut numbers, mut reference) = (Numbers(2), Reference::default());
    let index = created(SETTINGS);
    (0..2_000).for_each(|_| change(&mut numbers, &index, &mut reference));
    let (snapshot, kept) = (index.snapshot(), reference.clone());
    (0..2_000).for_each(|_| change(&mut numbers, &index, &mut reference));
    assert_eq!(entries(&snapshot), kept.entries());
    let hashes: Vec<u64> = kept.0.keys().copied().collect();
    for (hash, units) in hashes.iter().zip(snapshot.candidates(Purpose::Index, &hashes).unwrap()) {
        assert_eq!(units.to_vec(), kept.0[hash]);
        let known = |unit: &Unit| snapshot.known(*hash, *unit);
        assert!(units.first().is_none_or(|unit| known(unit) == KnownEntry::IsNewest));
        let mut older = units.iter().filter(|unit| Some(*unit) != units.first());
        assert!(older.all(|unit| known(unit) == KnownEntry::Unclear));
        assert_eq!(known(&(1 << 39)), KnownEntry::IsMissing);
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
            let range = index.range(start, limit).unwrap();
            let same = snapshot.range(start, limit).unwrap();
            assert_eq!((&range.entries, range.next), (&same.entries, same.next));
            assert!(range.entries.len() >= limit || range.next.is_none());
            from = range.next;
            found.extend(range.entries);
        }
        assert_eq!(found, wanted, "limit {limit}");
    }
    let from = wanted[wanted.len() / 2].0;
    let rest: Vec<_> = wanted.iter().copied().filter(|entry| entry.0 >= from).collect();
    assert_eq!(
        index.range(from | 1, usize::MAX).unwrap().entries,
        rest,
        "all hashes with the kept bits of the first"
    );
}

#[test]
fn settings_outside_their_limits_are_refused() {
    for (hash_bits, shards_log2, is_allowed) in
        [(18, 0, true), (17, 0, false), (41, 0, true), (42, 0, false), (53, 12, true), (54, 13, false)]
    {
        let settings = LogIndexSettings { hash_bits, shards_log2, slot_units: 1 };
        assert_eq!(
            LogIndex::create(&directory(), settings, &FORMAT, &Arc::default()).is_ok(),
            is_allowed,
            "{settings:?}"
        );
    }
}

/// Flushes all operations.
fn flush(index: &LogIndex, covered: Covered) {
    let mut flush = index.start_flush();
    flush.take_operations();
    flush.log(&covered).unwrap();
}

/// Returns a copy of a directory in which the redo log ends at a position.
fn copy_until(directory: &Directory, end: u64) -> Directory {
    let copy = self::directory();
    for name in directory.list().unwrap() {
        let file = directory.open(&name, Access::Buffered).unwrap();
        let mut length = file.length().unwrap();
        if let Some(base) = FileName::parse(&name).and_then(|name| name.segment_base(LogClass::Redo)) {
            let Some(left) = end.checked_sub(base) else { continue };
            length = length.min(left + SEGMENT_HEADER_BYTES as u64);
        }
        let mut buffer = AlignedBuffer::default();
        let bytes = file.read(Purpose::Maintain, 0, length as usize, &mut buffer).unwrap();
        copy.create(&name, Access::Buffered).unwrap().write(Purpose::Maintain, 0, bytes).unwrap();
    }
    copy
}

fn open_saved(
    directory: &Directory,
    settings: LogIndexSettings,
    saved: Option<SavedIndex>,
    memory_shards: usize,
) -> Result<(LogIndex, RecoveredIndex)> {
    open_and_load(directory, settings, saved, memory_shards, u64::MAX)
}

fn open_and_load(
    directory: &Directory,
    settings: LogIndexSettings,
    saved: Option<SavedIndex>,
    memory_shards: usize,
    load_later_bytes: u64,
) -> Result<(LogIndex, RecoveredIndex)> {
    let health = &Arc::default();
    let to_open =
        IndexToOpen { settings, format: FORMAT, saved, redo_synced: 0, memory_shards, load_later_bytes };
    LogIndex::open(directory, &to_open, health, &mut |_, _| true)
}

/// Returns the number of entries of each slot.
fn slots(entries: &[(u64, Unit)]) -> SlotEntries {
    let mut slots = SlotEntries::new(SETTINGS.slot_units);
    entries.iter().for_each(|(_, unit)| slots.count(*unit));
    slots
}

/// An index that is used at random: changed, flushed, synced, saved.
struct Use {
    numbers: Numbers,
    index: LogIndex,
    reference: Reference,
    /// The end of the redo log after each flush that a crash may leave, with what the index then has to contain.
    flushes: Vec<(u64, Reference, Covered)>,
    save: Option<IndexSave>,
    load: Option<IndexLoad>,
    /// How many shards were loaded after an open.
    loaded: u32,
    committed: Option<SavedIndex>,
    saves: u64,
}

impl Use {
    fn new(seed: u64, directory: &Directory) -> Use {
        let index = LogIndex::create(directory, SETTINGS, &FORMAT, &Arc::default()).unwrap();
        let flushes = vec![(0, Reference::default(), Covered::default())];
        let (numbers, reference) = (Numbers(seed << 32), Reference::default());
        Use {
            numbers,
            index,
            reference,
            flushes,
            save: None,
            load: None,
            loaded: 0,
            committed: None,
            saves: 0,
        }
    }

    fn flush(&mut self) {
        let covered = [self.numbers.next(), self.numbers.next(), 0, 1];
        flush(&self.index, covered);
        self.flushes.push((self.index.redo().end(), self.reference.clone(), covered));
    }

    fn sync(&mut self) {
        self.index.sync_redo().unwrap();
        self.flushes.drain(..self.flushes.len() - 1);
    }

    fn step(&mut self) {
        match self.numbers.next() % 12 {
            0..=4 => {
                let count = self.numbers.next() % 300;
                (0..count).for_each(|_| change(&mut self.numbers, &self.index, &mut self.reference));
            }
            5 | 6 => self.flush(),
            7 => self.sync(),
            _ if self.load.is_some() || self.save.is_none() && self.index.shards_to_load() > 0 => self.load(),
            _ => self.save(),
        }
        let wanted = self.reference.entries();
        if self.numbers.next().is_multiple_of(8) {
            assert_eq!(self.index.len(), wanted.len() as u64);
            let snapshot = self.index.snapshot();
            (0..50).for_each(|_| change(&mut self.numbers, &self.index, &mut self.reference));
            assert_eq!(entries(&snapshot), wanted);
        }
    }

    fn save(&mut self) {
        let mut save = self.save.take().unwrap_or_else(|| {
            self.saves += 1;
            self.index.set_memory_shards(self.numbers.next() as usize % 9);
            self.index.start_save(self.saves, self.numbers.next()).unwrap()
        });
        match self.index.save_step(&mut save, &mut |_| ()).unwrap() {
            SaveStep::Continues => self.save = Some(save),
            SaveStep::Flush => {
                self.flush();
                self.save = Some(save);
            }
            SaveStep::Written(saved) => {
                self.committed = Some(saved);
                let synced = self.index.redo().synced();
                let kept = self.flushes.iter().rposition(|flush| flush.0 <= synced).unwrap();
                self.flushes.drain(..kept);
                self.index.saved(&saved).unwrap();
            }
        }
    }

    fn load(&mut self) {
        let Some(load) = self.load.take().or_else(|| self.index.start_load().unwrap()) else { return };
        self.load = self.index.load_step(load).unwrap();
        self.loaded += u32::from(self.load.is_none());
    }

    /// Ends the redo log somewhere after its synced part, and opens the index again.
    fn crash(&mut self, directory: &Directory) -> Directory {
        let (synced, end) = (self.index.redo().synced().max(self.flushes[0].0), self.index.redo().end());
        let left = synced + self.numbers.next() % (end.saturating_sub(synced) + 1);
        let directory = copy_until(directory, left);
        let kept = self.flushes.iter().rposition(|flush| flush.0 <= left).unwrap();
        self.flushes.drain(..kept);
        self.flushes.truncate(1);
        let memory_shards = self.numbers.next() as usize % 9;
        let later = [0, u64::MAX][self.numbers.next() as usize % 2];
        let (index, recovered) =
            open_and_load(&directory, SETTINGS, self.committed, memory_shards, later).unwrap();
        let wanted = self.flushes[0].1.entries();
        assert_eq!(entries(&index.snapshot()), wanted);
        assert!(recovered.slots.counts().eq(slots(&wanted).counts()));
        assert_eq!(recovered.covered, self.flushes[0].2);
        assert_eq!((index.len(), index.pending_bytes()), (wanted.len() as u64, 0));
        (self.index, self.reference) = (index, self.flushes[0].1.clone());
        (self.save, self.load) = (None, None);
        directory
    }
}

#[test]
fn after_a_crash_the_index_is_that_of_the_last_flush_that_is_left_whatever_was_saved_meanwhile() {
    let (mut from_saved, mut loaded) = (0, 0);
    for seed in 0..40 {
        let mut directory = directory();
        let mut used = Use::new(seed, &directory);
        for _ in 0..4 {
            (0..used.numbers.next() % 80).for_each(|_| used.step());
            directory = used.crash(&directory);
            from_saved += u32::from(used.committed.is_some());
        }
        loaded += used.loaded;
    }
    assert!(loaded > 60, "{loaded} shards that were loaded after an open");
    assert!(from_saved > 30, "{from_saved} opens with a saved index");
}

#[test]
fn a_save_finds_each_hash_of_which_flash_has_an_entry_once_after_it_got_another_one() {
    let index = created(SETTINGS);
    index.set_memory_shards(0);
    let save = |number: u64| {
        let mut save = index.start_save(number, number).unwrap();
        let mut found = Vec::new();
        loop {
            match index.save_step(&mut save, &mut |hash| found.push(hash)).unwrap() {
                SaveStep::Continues => {}
                SaveStep::Flush => flush(&index, Covered::default()),
                SaveStep::Written(saved) => {
                    index.saved(&saved).unwrap();
                    return found;
                }
            }
        }
    };
    let (hash, shift) = (mix, 64 - SETTINGS.hash_bits);
    (0..1_000).for_each(|unit| index.insert(hash(unit), unit));
    assert!(save(1).is_empty());
    assert_eq!(index.residency().memory_shards, 0);
    let again: Vec<u64> = (0..1_000).step_by(7).collect();
    again.iter().for_each(|unit| index.insert(hash(*unit), unit + 1_000));
    let mut wanted: Vec<u64> = again.iter().map(|unit| hash(*unit) >> shift << shift).collect();
    wanted.sort_unstable();
    let mut found = save(2);
    found.sort_unstable();
    assert_eq!(found, wanted);
    // Neither a change of one of its entries nor a hash with one entry is found.
    again.iter().for_each(|unit| assert!(index.replace(hash(*unit), unit + 1_000, unit + 2_000)));
    (1_000..1_100).for_each(|unit| index.insert(hash(unit), unit));
    assert!(save(3).is_empty());
}

#[test]
fn a_saved_index_shortens_what_an_opening_reads() {
    let directory = directory();
    let mut used = Use::new(1, &directory);
    for unit in 0..20_000 {
        used.index.insert(mix(unit), unit);
        if unit % 1_000 == 0 {
            flush(&used.index, Covered::default());
        }
    }
    let before = used.index.redo_bytes();
    while used.committed.is_none() {
        used.save();
    }
    assert!(used.index.redo_bytes() * 5 < before, "{} of {before} bytes", used.index.redo_bytes());
    assert!(used.index.redo().disk_bytes() < before / 2, "released segments");
    let (opened, recovered) = open_saved(&directory, SETTINGS, used.committed, 8).unwrap();
    assert_eq!((opened.len(), recovered.operations), (20_000, 0));
    assert_eq!(opened.disk_bytes(), used.index.disk_bytes());
    let io = directory.io();
    assert!(io.of(Purpose::Index).write_bytes > used.index.disk_bytes());
    assert_eq!(io.of(Purpose::Log).write_bytes, 0);
}

#[test]
fn a_saved_index_with_damage_or_of_another_shape_or_tag_is_refused() {
    let directory = directory();
    let mut used = Use::new(1, &directory);
    (0..5_000).for_each(|unit| used.index.insert(mix(unit), unit));
    while used.committed.is_none() {
        used.save();
    }
    let saved = used.committed.unwrap();
    let open = |settings: LogIndexSettings, saved: SavedIndex| {
        open_saved(&directory, settings, Some(saved), 8).err()
    };
    assert!(open(SETTINGS, saved).is_none());
    assert!(open(SETTINGS, SavedIndex { tag: saved.tag ^ 1, ..saved }).is_some());
    assert!(open(LogIndexSettings { hash_bits: 25, ..SETTINGS }, saved).is_some());
    let file = directory.open(&saved.file_name(), Access::Buffered).unwrap();
    let length = file.length().unwrap();
    let examined = || {
        let saved = Some(saved);
        let closed = IndexToExamine {
            directory: &directory,
            settings: SETTINGS,
            format: FORMAT,
            saved,
            redo_synced: 0,
        };
        let closed = closed.examine(&mut |_| true).unwrap().damage;
        let open = used.index.examine(saved, &mut |_| true).unwrap();
        assert_eq!(format!("{open:?}"), format!("{closed:?}"));
        closed
    };
    assert!(examined().is_empty());
    let (mut refused, mut pages) = (0, Vec::new());
    for at in (4096..length).step_by(197) {
        let mut byte = AlignedBuffer::default();
        let right = file.read(Purpose::Maintain, at, 1, &mut byte).unwrap()[0];
        file.write(Purpose::Maintain, at, &[right ^ 0x10]).unwrap();
        let damage = examined();
        match open(SETTINGS, saved) {
            // Padding has no checksum, and an open does not read the copy of the footer.
            None => assert_eq!(
                (right, damage.is_empty()),
                (if at < length - 256 { 0 } else { right }, at < length - 256)
            ),
            Some(Error::Corrupt { .. }) => {
                refused += 1;
                assert_eq!(damage.len(), 1, "byte {at}");
                pages.extend((damage[0].part == DamagedPart::Index).then_some(damage[0].lost[0]));
            }
            Some(other) => panic!("byte {at}: {other}"),
        }
        file.write(Purpose::Maintain, at, &[right]).unwrap();
    }
    assert!(refused * 197 > 15_000, "{refused} refusals of {length} bytes");
    // All pages together have all hashes.
    pages.dedup();
    assert_eq!((pages[0].first, pages[pages.len() - 1].last), (0, u64::MAX));
    assert!(pages.is_sorted_by(|one, other| one.last.wrapping_add(1) == other.first), "{pages:?}");
}

#[test]
fn damage_of_the_redo_log_is_found_before_an_opening_and_while_the_index_is_open() {
    let directory = directory();
    let mut used = Use::new(1, &directory);
    (0..40).for_each(|_| used.step());
    used.flush();
    used.index.sync_redo().unwrap();
    let examine = || {
        let saved = used.committed;
        let closed = IndexToExamine {
            directory: &directory,
            settings: SETTINGS,
            format: FORMAT,
            saved,
            redo_synced: 0,
        };
        let open = used.index.examine(saved, &mut |_| true).unwrap();
        (closed.examine(&mut |_| true).unwrap(), open)
    };
    let (closed, open) = examine();
    assert!(closed.damage.is_empty() && open.is_empty() && closed.torn_bytes == 0);
    assert_eq!(closed.redo_end, used.index.redo().end());
    let name = directory.list().unwrap().into_iter().find(|name| name.starts_with("redo")).unwrap();
    let file = directory.open(&name, Access::Buffered).unwrap();
    let right = file.read(Purpose::Maintain, 500, 5, &mut AlignedBuffer::default()).unwrap().to_vec();
    file.write(Purpose::Maintain, 500, &[7; 5]).unwrap();
    let (closed, open) = examine();
    for damage in [&closed.damage[..], &open] {
        assert!(matches!(damage, [Damage { lost, may_be_older: true, .. }] if *lost == [KeyRange::ALL]));
    }
    file.write(Purpose::Maintain, 500, &right).unwrap();
    let other = LogIndexSettings { hash_bits: 25, ..SETTINGS };
    let closed = IndexToExamine {
        directory: &directory,
        settings: other,
        format: FORMAT,
        saved: None,
        redo_synced: 0,
    };
    let damage = closed.examine(&mut |_| true).unwrap().damage;
    assert!(damage.iter().any(|damage| damage.part == DamagedPart::Records), "{damage:?}");
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
    let index = LogIndex::create(&directory, SETTINGS, &FORMAT, &Arc::default()).unwrap();
    (0..100).for_each(|unit| index.insert(mix(unit), unit));
    // A flush that is left out.
    *index.redo.flush.lock() += 1;
    flush(&index, Covered::default());
    let error = open(&directory).err().unwrap().to_string();
    assert!(error.contains("expected flush 0 or one before it, got flush 1"), "{error}");
    let other = LogIndexSettings { hash_bits: 25, ..SETTINGS };
    assert!(open_saved(&directory, other, None, 8).is_err());
}

#[test]
fn an_operation_on_an_entry_that_does_not_exist_is_damage() {
    let directory = directory();
    let index = LogIndex::create(&directory, SETTINGS, &FORMAT, &Arc::default()).unwrap();
    index.shards[0].write().pending.push(Operation::remove(0, 7));
    flush(&index, Covered::default());
    assert!(matches!(open(&directory), Err(Error::Corrupt { .. })));
}
