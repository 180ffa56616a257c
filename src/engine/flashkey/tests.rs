use super::FlashKeySettings;
use crate::Database;
use crate::batch::{Durability, HashedWrite, TimestampMs};
use crate::engine::flashkey::FlashKeyEngine;
use crate::engine::flashkey::FlashKeyFamilySettings;
use crate::engine::{Change, CommonSettings, Engine, Found, Step};
use siltstone_device::memory::MemoryDirectory;
use siltstone_device::{Access, Directory, Purpose};
use std::collections::BTreeMap;

const NOW_MS: TimestampMs = 1;

/// A database in memory, and the values that it must have.
struct Checked {
    engine: FlashKeyEngine,
    directory: Directory,
    wanted: BTreeMap<u32, Vec<u8>>,
}

/// Settings with which some overwrites are confirmed before their segments are cleaned.
fn settings() -> FlashKeySettings {
    FlashKeySettings::default().segment_bytes(4096).unconfirmed_max(0.05)
}

fn common() -> CommonSettings {
    CommonSettings { partitions: Some(4), ..CommonSettings::default() }
}

impl Checked {
    fn create() -> Checked {
        Checked::create_with(&settings())
    }

    fn create_with(settings: &FlashKeySettings) -> Checked {
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        settings.create(&directory, &common(), Some([1, 2])).unwrap();
        let engine = settings.open_logs(directory.clone(), &common(), None, &mut |_, _| true).unwrap();
        Checked { engine, directory, wanted: BTreeMap::new() }
    }

    fn open_again(&mut self, settings: &FlashKeySettings) {
        self.engine.close().unwrap();
        self.engine = settings.open_logs(self.directory.clone(), &common(), None, &mut |_, _| true).unwrap();
    }

    fn put(&mut self, keys: impl Iterator<Item = u32>, value: &[u8]) {
        let hasher = self.engine.hasher();
        for key in keys {
            let bytes = key.to_be_bytes();
            let write = HashedWrite::put(hasher.key(&bytes), value, 0);
            self.engine.write(&[write], Durability::Buffered, &|| NOW_MS).unwrap();
            self.wanted.insert(key, value.to_vec());
        }
    }

    fn delete(&mut self, keys: impl Iterator<Item = u32>) {
        let hasher = self.engine.hasher();
        for key in keys {
            let bytes = key.to_be_bytes();
            let write = HashedWrite::delete(hasher.key(&bytes));
            self.engine.write(&[write], Durability::Buffered, &|| NOW_MS).unwrap();
            self.wanted.remove(&key);
        }
    }

    fn work(&self) {
        while self.engine.step(NOW_MS).unwrap() == Step::Worked {}
    }

    fn detail(&self, name: &str) -> f64 {
        let details = self.engine.stats().details;
        details.iter().find(|(other, _)| *other == name).unwrap().1
    }

    fn check(&self, keys: u32) {
        for key in 0..keys {
            let mut value = Vec::new();
            let bytes = key.to_be_bytes();
            let found = self.engine.get_into(self.engine.hasher().key(&bytes), NOW_MS, &mut value).unwrap();
            assert_eq!(found.map(|_| value), self.wanted.get(&key).cloned(), "key {key}");
        }
    }
}

#[test]
fn no_step_works_once_no_work_is_pending() {
    // A segment that is finished while another one is cleaned may leave no excess.
    for space in [1.25, 1.5] {
        let mut checked = Checked::create_with(&settings().segment_bytes(16 << 10).space(space));
        checked.put(0..1_000, &[1; 60]);
        for round in 0..30 {
            let step = [3, 5, 7, 2][usize::from(round) % 4];
            checked.put((0..1_000).filter(|key| key % step == 0), &[round; 60]);
            if round % 3 == 2 {
                checked.delete((0..1_000).filter(|key| key % 5 == 1));
            }
            while checked.engine.background().has_work {
                checked.engine.step(NOW_MS).unwrap();
            }
            assert_eq!(checked.engine.step(NOW_MS).unwrap(), Step::Idle, "space {space}, round {round}");
        }
        checked.check(1_000);
    }
}

#[test]
fn as_in_the_paper_moved_records_go_to_the_log_of_the_puts_and_all_are_found_after_an_opening() {
    let paper = || FlashKeySettings::paper().segment_bytes(4096).space(1.1);
    for next in [paper(), paper().classes(3)] {
        let mut checked = Checked::create_with(&paper());
        for round in 0..20 {
            checked.put((0..1_000).filter(|key| key % 3 == u32::from(round) % 3), &[round; 60]);
            checked.delete((0..1_000).filter(|key| key % 50 == u32::from(round)));
            checked.work();
        }
        assert!(checked.detail("cleanings") > 30.0, "{}", checked.detail("cleanings"));
        let moved = |checked: &Checked| {
            let names = checked.directory.list().unwrap();
            let moved = names.iter().filter(|name| name.starts_with("moved"));
            moved.map(|name| checked.directory.length_of(name).unwrap() - 64).sum::<u64>()
        };
        checked.check(1_000);
        checked.open_again(&next);
        assert_eq!(moved(&checked), 0);
        checked.check(1_000);
        checked.put((0..1_000).step_by(2), &[99; 60]);
        checked.work();
        checked.open_again(&next);
        checked.check(1_000);
    }
}

/// Some of the opens are interrupted.
#[test]
fn a_database_serves_and_takes_changes_while_its_index_is_loaded_after_an_opening() {
    let mut checked = Checked::create();
    let keys = 3_000;
    checked.put(0..keys, &[0; 20]);
    checked.engine.request_compaction().unwrap();
    checked.work();
    let mut loaded = 0;
    for round in 1..24u8 {
        checked.open_again(&settings());
        assert_eq!(checked.detail("index_shards_to_load"), 4.0);
        assert_eq!(checked.detail("index_shards_in_memory"), 0.0);
        checked.check(keys);
        for step in 0..round {
            let number = u32::from(round) * 32 + u32::from(step);
            checked.put((0..keys).filter(|key| key % 97 == number % 97), &[round; 20]);
            checked.delete((0..keys).filter(|key| key % 89 == number % 89));
            (0..=round / 6).for_each(|_| _ = checked.engine.step(NOW_MS).unwrap());
        }
        checked.check(keys);
        loaded += u32::from(checked.detail("index_shards_in_memory") == 4.0);
    }
    assert!((5..20).contains(&loaded), "{loaded} opens with the whole index in memory at the end");
    checked.engine.request_compaction().unwrap();
    checked.work();
    assert_eq!(checked.engine.stats().records, checked.wanted.len() as u64);
    checked.check(keys);
}

#[test]
fn the_index_of_a_database_that_is_opened_read_only_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let builder = || Database::builder(folder.path()).engine(settings()).background_threads(0);
    let database = builder().open().unwrap();
    (0..2_000u32).for_each(|key| database.put(key.to_be_bytes(), [7; 20]).unwrap());
    database.compact().unwrap();
    database.close().unwrap();
    let database = Database::builder(folder.path()).read_only(true).background_threads(0).open().unwrap();
    let to_load = || {
        let details = database.stats().details;
        details.iter().find(|(name, _)| *name == "index_shards_to_load").unwrap().1
    };
    let check = || (0..2_000u32).all(|key| database.get(key.to_be_bytes()).unwrap().is_some());
    assert!(to_load() > 0.0 && check());
    while database.step().unwrap() == Step::Worked {}
    assert!(to_load() == 0.0 && check());
}

#[test]
fn a_segment_that_was_released_after_it_was_chosen_is_not_cleaned_again() {
    let mut checked = Checked::create();
    checked.put(0..1_000, &[0; 60]);
    checked.work();
    let before = checked.engine.parts.logs.segments();
    for round in 1..4 {
        checked.put((0..1_000).filter(|key| key % 3 != 0), &[round; 60]);
        checked.work();
    }
    let logs = &checked.engine.parts.logs;
    let now = logs.segments();
    let is_live = |class: u8, base: u64| now.iter().any(|other| (other.class, other.base) == (class, base));
    let released = before.iter().filter(|segment| !is_live(segment.class, segment.base));
    assert!(released.inspect(|segment| assert!(!logs.hold(segment))).count() > 0);
    assert!(logs.hold(&now[0]) && !logs.hold(&now[0]));
}

#[test]
fn logs_without_records_do_not_grow_when_the_index_is_written_to_redo() {
    let mut checked = Checked::create_with(&settings().space(4.0));
    for round in 0..5 {
        checked.put(0..1_000, &[round; 60]);
        checked.work();
        checked.engine.sync().unwrap();
    }
    let segments = checked.engine.parts.logs.segments();
    assert!(checked.engine.stats().io.of(Purpose::Index).write_bytes > 0);
    let moved = segments.iter().filter(|segment| segment.class > 0);
    assert_eq!(moved.map(|segment| segment.bytes).sum::<u64>(), 0, "nothing is moved in so much space");
}

#[test]
fn a_compaction_removes_the_older_entry_of_each_key_and_the_deleted_keys() {
    for (value, keys) in [(vec![1; 20], 3_000), (vec![1; 700], 300)] {
        // So much that not all of these segments are cleaned before they are confirmed.
        let mut checked = Checked::create_with(&settings().space(2.0));
        checked.put(0..keys, &value);
        checked.work();
        for round in 0..3 {
            let other = vec![round; value.len()];
            checked.put((0..keys).filter(|key| key % 3 != 0), &other);
        }
        checked.delete((0..keys).filter(|key| key % 5 == 0));
        assert!(checked.detail("unconfirmed") > 100.0);
        checked.engine.request_compaction().unwrap();
        checked.work();
        assert!(checked.detail("confirmed_segments") >= 1.0);
        assert_eq!(checked.detail("unconfirmed"), 0.0);
        assert_eq!(checked.engine.stats().records, checked.wanted.len() as u64);
        checked.check(keys);
    }
}

#[test]
fn records_that_move_or_change_while_they_are_confirmed_are_confirmed_later() {
    let mut checked = Checked::create();
    let keys = 3_000;
    checked.put(0..keys, &[0; 20]);
    checked.work();
    for round in 1..40u8 {
        checked.put(
            (0..keys).filter(|key| key.wrapping_mul(2_654_435_761) >> 28 == u32::from(round % 16)),
            &[round; 20],
        );
        // Some pieces of cleaning and of confirming between writes to the same keys.
        for _ in 0..round {
            checked.engine.step(NOW_MS).unwrap();
        }
        checked.delete((0..keys).filter(|key| key % 40 == u32::from(round)));
    }
    checked.check(keys);
    checked.engine.request_compaction().unwrap();
    checked.work();
    assert_eq!(checked.engine.stats().records, checked.wanted.len() as u64);
    checked.check(keys);
}

#[test]
fn the_bytes_of_an_overwritten_record_count_as_dead_once_when_others_of_its_key_are_compared() {
    // No segment is cleaned, and all notes that an open makes are without a key.
    let mut checked = Checked::create_with(&settings().space(4.0).unconfirmed_max(1.0));
    let keys = 1_000;
    for round in 0..3 {
        checked.put(0..keys, &[round; 40]);
        checked.work();
    }
    checked.open_again(&settings().space(4.0).unconfirmed_max(0.5));
    checked.work();
    let stats = checked.engine.stats();
    assert_eq!(checked.detail("cleanings"), 0.0);
    assert!(checked.detail("confirmed") > 100.0, "{stats:?}");
    assert!(checked.detail("unconfirmed") > 100.0);
    assert_eq!(stats.merged_records, u64::from(keys));
    let frame_bytes = checked.detail("log_bytes") / f64::from(3 * keys);
    assert!(checked.detail("live_bytes") > 0.9 * frame_bytes * f64::from(keys));
    checked.check(keys);
}

#[test]
fn an_update_replaces_the_entry_that_it_has_read_without_a_later_comparison() {
    let mut checked = Checked::create();
    checked.put(0..500, &[0; 100]);
    checked.engine.request_compaction().unwrap();
    checked.work();
    let hasher = checked.engine.hasher();
    let before = checked.directory.io().of(Purpose::Collect).reads;
    for key in 0..500u32 {
        let bytes = key.to_be_bytes();
        let change = if key % 2 == 0 {
            Change::Delete
        } else {
            Change::Put { value: vec![1; 100].into(), expires_at_ms: 0 }
        };
        let update = &mut |found: &[Option<Found>], changes: &mut [Change]| {
            assert!(found[0].is_some());
            changes[0] = change.clone();
            Ok(())
        };
        checked.engine.update_many(&[hasher.key(&bytes)], Durability::Buffered, NOW_MS, update).unwrap();
        match key % 2 {
            0 => checked.wanted.remove(&key),
            _ => checked.wanted.insert(key, vec![1; 100]),
        };
    }
    assert_eq!(checked.detail("unconfirmed"), 0.0);
    assert_eq!(checked.engine.stats().records, 250);
    assert_eq!(checked.directory.io().of(Purpose::Collect).reads, before);
    checked.check(500);
}

/// What is moved while it is confirmed is noted again, and few overwrites are not confirmed otherwise.
#[test]
fn a_compaction_confirms_all_overwrites_although_cleaning_moves_records_meanwhile() {
    let mut random = fastrand::Rng::with_seed(3);
    for _ in 0..40 {
        let mut checked = Checked::create_with(&settings().unconfirmed_max(1.0).space(random.f64() + 1.05));
        for _ in 0..random.usize(2..30) {
            let keys: Vec<u32> = (0..random.usize(..100)).map(|_| random.u32(..200)).collect();
            checked.put(keys.into_iter(), &[7; 40]);
            for _ in 0..random.usize(..30) {
                checked.engine.step(NOW_MS).unwrap();
            }
        }
        checked.engine.request_compaction().unwrap();
        checked.work();
        let (stats, wanted) = (checked.engine.stats(), checked.wanted.len() as u64);
        assert_eq!((stats.records, stats.merged_records), (wanted, wanted));
        checked.check(200);
    }
}

#[test]
fn segments_whose_records_are_overwritten_after_a_compaction_are_not_cleaned_for_it() {
    let mut checked = Checked::create_with(&settings().unconfirmed_max(1.0).space(2.0));
    checked.put(0..1_000, &[7; 40]);
    checked.engine.request_compaction().unwrap();
    checked.work();
    let cleanings = checked.detail("cleanings");
    checked.put((0..1_000).step_by(100), &[8; 40]);
    checked.work();
    assert_eq!(checked.detail("cleanings"), cleanings);
    checked.check(1_000);
}

/// Changes some of three keys with equal hashes, whose entries are known from a read of the record.
#[test]
fn a_tombstone_among_entries_of_equal_hashes_is_removed_when_the_others_change() {
    let common = CommonSettings { hashed_keys: Some(true), ..common() };
    for (changed, deleted) in
        [("ba", "b"), ("bc", "b"), ("cb", "cb"), ("ab", "ab"), ("bac", "ba"), ("acb", "")]
    {
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        settings().create(&directory, &common, Some([1, 2])).unwrap();
        let engine = settings().open_logs(directory, &common, None, &mut |_, _| true).unwrap();
        let compact = || {
            engine.request_compaction().unwrap();
            while engine.step(NOW_MS).unwrap() == Step::Worked {}
        };
        let key_of = |letter: u8| [[9; 15].as_slice(), &[letter]].concat();
        for letter in *b"cba" {
            let key = key_of(letter);
            let value = [letter; 100];
            let write = HashedWrite::put(engine.hasher().key(&key), &value, 0);
            engine.write(&[write], Durability::Buffered, &|| NOW_MS).unwrap();
        }
        compact();
        for letter in changed.bytes() {
            let key = key_of(letter);
            let value = Change::Put { value: vec![letter; 50].into(), expires_at_ms: 0 };
            let change = if deleted.as_bytes().contains(&letter) { Change::Delete } else { value };
            let update = &mut |found: &[Option<Found>], changes: &mut [Change]| {
                assert!(found[0].is_some());
                changes[0] = change.clone();
                Ok(())
            };
            engine.update_many(&[engine.hasher().key(&key)], Durability::Buffered, NOW_MS, update).unwrap();
        }
        compact();
        let there = (3 - deleted.len()) as u64;
        assert_eq!(engine.stats().records, there, "changed {changed}, deleted {deleted}");
        assert_eq!(engine.stats().merged_records, there);
    }
}

#[test]
fn too_many_keys_of_one_hash_are_refused_and_nothing_is_lost() {
    let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
    let builder = Database::builder("db").engine(settings()).hashed_keys().background_threads(0);
    let database = builder.open_in(directory).unwrap();
    let key = |number: u64| [[7; 8], number.to_be_bytes()].concat();
    let refused = (0..2_000).find_map(|number| database.put(key(number), "value").err()).unwrap();
    assert!(matches!(refused, crate::Error::HashClustered { keys: 256, .. }), "{refused}");
    for name in ["UUIDv7", "ULID", "Snowflake", "hashed_keys"] {
        assert!(refused.to_string().contains(name), "{refused}");
    }
    assert!((0..256).all(|number| database.contains(key(number)).unwrap()));
    (0..100).for_each(|number| database.delete(key(number)).unwrap());
    database.compact().unwrap();
    database.put(key(9_999), "value").unwrap();
    // Others have their own hashes, however often they are put.
    for round in 0..3_000u64 {
        database.put(siltstone_index::coding::mix(round % 10).to_be_bytes(), round.to_be_bytes()).unwrap();
    }
}
