mod cache;

use super::FlashStoreSettings;
use super::claim::{self, CLAIM_BYTES};
use super::settings::hash_bits;
use crate::engine::CommonSettings;
use crate::engine::flashkey::{self, FlashKeyFamilySettings};
use crate::names::CLAIM_NAME;
use crate::{Database, Disk, Error, Result, Step};
use siltstone_device::memory::MemoryDirectory;
use siltstone_device::{Access, AlignedBuffer, Directory, Purpose};
use std::collections::BTreeMap;
use std::path::Path;

const SEGMENT_BYTES: u64 = 4 << 10;

fn tiered() -> FlashStoreSettings {
    FlashStoreSettings::default()
        .segment_bytes(SEGMENT_BYTES)
        .flash_bytes(32 * SEGMENT_BYTES)
        .disk(Disk::at("slow"))
}

fn open(files: &MemoryDirectory, settings: FlashStoreSettings) -> Result<Database> {
    let directory = Directory::new(files.clone(), Access::Buffered);
    Database::builder("db").engine(settings).background_threads(0).seed([1, 2]).open_in(directory)
}

/// A database, and the values that it must have.
struct Checked {
    files: MemoryDirectory,
    database: Database,
    wanted: BTreeMap<u32, Vec<u8>>,
}

impl Checked {
    fn create(settings: FlashStoreSettings) -> Checked {
        let files = MemoryDirectory::default();
        let database = open(&files, settings).unwrap();
        Checked { files, database, wanted: BTreeMap::new() }
    }

    fn put(&mut self, keys: impl Iterator<Item = u32>, value: &[u8]) {
        for key in keys {
            self.database.put(key.to_be_bytes(), value).unwrap();
            self.wanted.insert(key, value.to_vec());
        }
    }

    fn delete(&mut self, keys: impl Iterator<Item = u32>) {
        for key in keys {
            self.database.delete(key.to_be_bytes()).unwrap();
            self.wanted.remove(&key);
        }
    }

    fn work(&self) {
        while self.database.step().unwrap() == Step::Worked {}
    }

    fn detail(&self, name: &str) -> f64 {
        let details = self.database.stats().details;
        details.iter().find(|(other, _)| *other == name).unwrap().1
    }

    fn check(&self) {
        let keys: Vec<_> = (0..4_000u32).map(u32::to_be_bytes).collect();
        for (key, found) in (0..).zip(self.database.get_many(&keys).unwrap()) {
            assert_eq!(found.as_deref(), self.wanted.get(&key).map(Vec::as_slice), "key {key}");
        }
        let wanted = || self.wanted.iter().map(|(key, value)| (key.to_be_bytes().to_vec(), value.clone()));
        let all: BTreeMap<Vec<u8>, Vec<u8>> = self
            .database
            .iter()
            .unwrap()
            .map(|record| record.map(|record| (record.key.to_vec(), record.value.to_vec())))
            .collect::<Result<_>>()
            .unwrap();
        assert!(all.into_iter().eq(wanted()));
        let (mut scanned, mut next) = (BTreeMap::new(), Some(0));
        while let Some(from) = next {
            let page = self.database.scan(from.., 50).unwrap();
            for record in page.records {
                assert!(scanned.insert(record.key.to_vec(), record.value.to_vec()).is_none());
            }
            next = page.next;
        }
        assert!(scanned.into_iter().eq(wanted()));
    }
}

#[test]
fn records_that_do_not_fit_leave_to_the_disk_and_all_are_found_in_one_of_both() {
    for queues in [1, 2] {
        let mut checked = Checked::create(tiered().queues(queues));
        checked.put(0..3_000, &[1; 100]);
        checked.work();
        assert!(checked.detail("disk_records") > 1_000.0, "{}", checked.detail("disk_records"));
        assert!(checked.detail("log_bytes") < 33.0 * SEGMENT_BYTES as f64);
        checked.check();
        // Overwritten and deleted, on flash and on the disk.
        checked.put((0..3_000).filter(|key| key % 3 == 0), &[2; 90]);
        checked.delete((0..3_000).filter(|key| key % 3 == 1));
        checked.check();
        checked.work();
        checked.check();
        checked.database.compact().unwrap();
        checked.work();
        checked.check();
        let stats = checked.database.stats();
        let count = checked.wanted.len() as u64;
        assert_eq!((stats.records, stats.merged_records), (count, count));
        checked.database.close().unwrap();
        checked.database = open(&checked.files, FlashStoreSettings::default()).unwrap();
        checked.check();
        assert!(checked.database.verify().unwrap().damage.is_empty());
    }
}

#[test]
fn records_that_are_read_stay_on_flash_and_others_leave() {
    let mut checked = Checked::create(tiered().caches_reads(false));
    checked.put(0..300, &[1; 100]);
    for round in 1..20u32 {
        for key in 0..100 {
            assert!(checked.database.contains(key_of(key)).unwrap());
        }
        checked.put(round * 150 + 200..round * 150 + 350, &[1; 100]);
        checked.work();
    }
    let reads = |checked: &Checked| checked.detail("disk_read_operations");
    let before = reads(&checked);
    (0..100).for_each(|key| assert!(checked.database.contains(key_of(key)).unwrap()));
    assert_eq!(reads(&checked), before);
    (100..200).for_each(|key| assert!(checked.database.contains(key_of(key)).unwrap()));
    assert!(reads(&checked) - before >= 90.0, "{}", reads(&checked) - before);
}

fn key_of(key: u32) -> [u8; 4] {
    key.to_be_bytes()
}

#[test]
fn a_record_that_is_found_on_the_disk_twice_is_read_from_flash_then() {
    let mut checked = Checked::create(tiered());
    checked.put(0..3_000, &[1; 100]);
    checked.work();
    let reads = |checked: &Checked| {
        let before = checked.detail("disk_read_operations");
        (0..50).for_each(|key| assert!(checked.database.contains(key_of(key)).unwrap()));
        checked.detail("disk_read_operations") - before
    };
    assert!(reads(&checked) >= 50.0 && reads(&checked) >= 45.0);
    assert!(reads(&checked) <= 5.0);
    assert!(checked.detail("clean_records") >= 45.0);
    checked.put(0..25, &[2; 100]);
    checked.delete(25..40);
    checked.check();
    checked.database.compact().unwrap();
    checked.work();
    checked.check();
    assert_eq!(checked.database.stats().records, checked.wanted.len() as u64);
}

#[test]
fn a_record_that_is_read_once_from_the_disk_is_put_to_flash_only_if_that_is_not_full() {
    let mut checked = Checked::create(tiered());
    checked.put(0..300, &[1; 100]);
    checked.database.compact().unwrap();
    checked.work();
    assert_eq!(checked.detail("clean_records"), 0.0);
    (0..100).for_each(|key| assert!(checked.database.contains(key_of(key)).unwrap()));
    assert_eq!(checked.detail("clean_records"), 100.0);
    // From now on flash is full, and has a little space after each recycling.
    checked.put(300..3_000, &[1; 100]);
    checked.work();
    let before = checked.detail("clean_records");
    for key in 300..500 {
        assert!(checked.database.contains(key_of(key)).unwrap());
        checked.put((key * 10..).take(5), &[1; 100]);
        checked.work();
    }
    assert!(checked.detail("clean_records") <= before, "{} {before}", checked.detail("clean_records"));
}

#[test]
fn an_absent_key_costs_no_read_of_either_store() {
    let mut checked = Checked::create(tiered());
    checked.put(0..3_000, &[1; 100]);
    checked.database.compact().unwrap();
    checked.work();
    let flash_reads = || checked.database.stats().io.of(Purpose::Get).reads as f64;
    let before = checked.detail("disk_read_operations") + flash_reads();
    (100_000..102_000).for_each(|key| assert!(!checked.database.contains(key_of(key)).unwrap()));
    // A filter of 10 bits per key is wrong for one key of 700.
    assert!(checked.detail("disk_read_operations") + flash_reads() - before < 30.0);
}

#[test]
fn a_cache_keeps_within_its_space_and_returns_nothing_that_was_overwritten() {
    let settings = FlashStoreSettings::default()
        .segment_bytes(SEGMENT_BYTES)
        .flash_bytes(32 * SEGMENT_BYTES)
        .usage(0.8)
        .cache(true);
    let files = MemoryDirectory::default();
    let database = open(&files, settings).unwrap();
    assert!(database.capabilities().lossy);
    for version in 0..10u8 {
        for key in 0..1_000 {
            database.put(key_of(key), [version; 100]).unwrap();
            while database.step().unwrap() == Step::Worked {}
            let details = database.stats().details;
            let log_bytes = details.iter().find(|(name, _)| *name == "log_bytes").unwrap().1;
            assert!(log_bytes < 33.0 * SEGMENT_BYTES as f64);
        }
    }
    let count = |database: &Database| {
        let found = (0..1_000).filter_map(|key| database.get(key_of(key)).unwrap());
        found.inspect(|value| assert_eq!(value[..], [9; 100])).count()
    };
    let found = count(&database);
    assert!((400..1_000).contains(&found), "{found}");
    database.close().unwrap();
    assert_eq!(count(&open(&files, FlashStoreSettings::default()).unwrap()), found);
}

fn problem_of(opened: Result<Database>) -> String {
    match opened {
        Err(Error::Setting { name: "disk", problem }) => problem,
        other => panic!("{:?}", other.map(drop)),
    }
}

#[test]
fn another_disk_or_none_is_refused_with_the_names_of_both() {
    let files = MemoryDirectory::default();
    let database = open(&files, tiered()).unwrap();
    database.put("key", "value").unwrap();
    database.close().unwrap();
    // Another one.
    let other = problem_of(open(&files, FlashStoreSettings::default().disk(Disk::at("other"))));
    assert!(other.contains("memory/other") && other.contains("database in memory"), "{other}");
    // None.
    let none = problem_of(open(&files, FlashStoreSettings::default().disk(Disk::default())));
    assert!(none.contains("slow") && none.contains("memory"), "{none}");
    // One of another database: both have one.
    let second = MemoryDirectory::default();
    drop(open(&second, tiered()).unwrap());
    for (flash, disk) in [(&files, &second), (&second, &files)] {
        let disk = disk.detach(Path::new("slow")).unwrap();
        let own = flash.detach(Path::new("slow")).unwrap();
        flash.attach(Path::new("slow"), disk.clone());
        let exchanged = problem_of(open(flash, FlashStoreSettings::default()));
        assert!(exchanged.contains("memory/slow") || exchanged.contains("memory"), "{exchanged}");
        flash.attach(Path::new("slow"), own);
        let back = if std::ptr::eq(flash, &files) { &second } else { &files };
        back.attach(Path::new("slow"), disk);
    }
    // The directory of flash is gone, and an empty one is in its place.
    let empty = MemoryDirectory::default();
    empty.attach(Path::new("slow"), files.detach(Path::new("slow")).unwrap());
    let gone = problem_of(open(&empty, tiered()));
    assert!(gone.contains("belongs to the database") && gone.contains("has no database"), "{gone}");
    // The disk is gone.
    let missing = problem_of(open(&files, FlashStoreSettings::default()));
    assert!(missing.contains("slow"), "{missing}");
    files.attach(Path::new("slow"), empty.detach(Path::new("slow")).unwrap());
    let database = open(&files, FlashStoreSettings::default()).unwrap();
    assert_eq!(database.get("key").unwrap().unwrap(), "value");
}

#[test]
fn settings_without_an_effect_are_refused() {
    let refused = |settings: FlashStoreSettings| match open(&MemoryDirectory::default(), settings) {
        Err(Error::Setting { name, .. }) => name,
        other => panic!("{:?}", other.map(drop)),
    };
    assert_eq!(refused(tiered().write_bytes_per_s(1)), "write_bytes_per_s");
    let cache = tiered().disk(Disk::default()).cache(true);
    assert_eq!(refused(cache.clone().caches_reads(true)), "caches_reads");
    assert_eq!(refused(cache.flash_bytes(0)), "flash_bytes");
    assert_eq!(refused(tiered().cache(true).flash_bytes(1 << 30)), "cache");
    assert_eq!(refused(tiered().flash_bytes(15 * SEGMENT_BYTES)), "flash_bytes");
    assert_eq!(refused(FlashStoreSettings::default().disk(Disk::default().set("merge_ratio", 2))), "disk");
    assert_eq!(refused(tiered().disk(Disk::at("slow").set("engine", "mica"))), "disk");
    assert_eq!(refused(tiered().disk(Disk::at("slow").set("engine", "tape"))), "disk");
}

/// The name and the bytes of each file of a directory.
fn bytes_of(directory: &Directory) -> BTreeMap<String, Vec<u8>> {
    let read = |name: String| {
        let file = directory.open(&name, Access::Buffered).unwrap();
        let length = file.length().unwrap() as usize;
        let bytes = file.read(Purpose::Get, 0, length, &mut AlignedBuffer::default()).unwrap().to_vec();
        (name, bytes)
    };
    directory.list().unwrap().into_iter().map(read).collect()
}

#[test]
fn without_a_disk_or_cache_nothing_is_created_and_the_error_names_both_and_flashkey() {
    let files = MemoryDirectory::default();
    for settings in [FlashStoreSettings::default(), tiered().disk(Disk::default())] {
        let refused = problem_of(open(&files, settings));
        assert!(["`disk`", "`cache`", "`flashkey`"].iter().all(|name| refused.contains(name)), "{refused}");
        assert!(bytes_of(&Directory::new(files.clone(), Access::Buffered)).is_empty());
    }
}

#[test]
fn a_database_with_neither_a_disk_nor_cache_is_refused_and_not_changed() {
    let files = MemoryDirectory::default();
    let directory = Directory::new(files.clone(), Access::Buffered);
    let header = CommonSettings::default()
        .header(crate::engine::info::FLASHSTORE.number.unwrap(), Some([1, 2]))
        .unwrap();
    let kept = [("cache", "false"), ("hash_bits", "38"), ("segment_bytes", "4096"), ("space", "1.3")];
    let kept = kept.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    flashkey::create(&directory, &header, &tiered().of_logs(), &kept).unwrap();
    let before = bytes_of(&directory);
    for settings in [FlashStoreSettings::default(), tiered(), tiered().disk(Disk::default()).cache(true)] {
        let refused = problem_of(open(&files, settings));
        assert!(["`disk`", "`cache`", "`flashkey`"].iter().all(|name| refused.contains(name)), "{refused}");
    }
    let verified = Database::verify_closed_in(&directory, &mut |_, _| true).map(drop);
    let repaired = Database::repair_in(&directory, &mut |_, _| true).map(drop);
    for outcome in [verified, repaired] {
        assert!(matches!(outcome, Err(Error::Setting { name: "disk", .. })), "{outcome:?}");
    }
    let mut after = bytes_of(&directory);
    after.remove(siltstone_device::LOCK);
    assert!(after == before);
}

#[test]
fn any_engine_with_files_can_be_the_disk_also_one_that_has_records() {
    for engine in ["silt", "flashkey", "flashstore"] {
        let files = MemoryDirectory::default();
        let directory = Directory::new(files.clone(), Access::Buffered);
        let below = directory.other(Path::new("slow"), true).unwrap();
        let database = Database::builder("slow")
            .engine(crate::EngineKind::from_name(engine).unwrap().complete_settings())
            .background_threads(0)
            .open_in(below)
            .unwrap();
        (0..100u32).for_each(|key| database.put(key_of(key), [7; 50]).unwrap());
        database.close().unwrap();
        drop(database);
        let mut checked =
            Checked { database: open(&files, tiered()).unwrap(), files, wanted: BTreeMap::new() };
        checked.wanted.extend((0..100).map(|key| (key, vec![7; 50])));
        checked.check();
        checked.put(50..2_000, &[8; 80]);
        checked.delete(0..25);
        checked.work();
        checked.check();
    }
}

#[test]
fn a_compaction_of_few_large_records_takes_all_to_the_disk() {
    let mut checked = Checked::create(tiered().flash_bytes(16 * SEGMENT_BYTES));
    for key in 0..6 {
        checked.put(key..key + 1, &[1; 1500]);
    }
    checked.delete(1..2);
    checked.database.compact().unwrap();
    checked.work();
    checked.check();
    assert_eq!(checked.database.stats().records, 5);
    assert_eq!(checked.detail("disk_records"), 5.0);
}

/// Returns the disk of a database.
fn disk_of(files: &MemoryDirectory) -> Directory {
    Directory::new(files.clone(), Access::Buffered).other(Path::new("slow"), false).unwrap()
}

fn corrupt_path(outcome: Result<Database>) -> String {
    match outcome {
        Err(error @ Error::Corrupt { .. }) => error.to_string(),
        other => panic!("{:?}", other.map(drop)),
    }
}

#[test]
fn a_damaged_claim_is_reported_and_a_repair_writes_it_again() {
    let mut checked = Checked::create(tiered());
    checked.put(0..2_000, &[1; 100]);
    checked.work();
    checked.database.close().unwrap();
    let (directory, disk) =
        (Directory::new(checked.files.clone(), Access::Buffered), disk_of(&checked.files));
    let intact = claim::read(&directory, &disk).unwrap().unwrap();
    // A flipped bit, one that changes the version, a byte more, and an empty file.
    for (at, bytes) in [(30, &b"x"[..]), (8, &[7]), (CLAIM_BYTES, &[0]), (0, &[])] {
        if bytes.is_empty() {
            disk.remove(CLAIM_NAME).unwrap();
            disk.create(CLAIM_NAME, Access::Buffered).unwrap();
        }
        disk.open(CLAIM_NAME, Access::Buffered).unwrap().write(Purpose::Maintain, at, bytes).unwrap();
        let refused = corrupt_path(open(&checked.files, FlashStoreSettings::default()));
        assert!(refused.contains("/FLASHSTORE") && refused.contains("siltstone repair"), "{refused}");
        let verified = Database::verify_closed_in(&directory, &mut |_, _| true).unwrap();
        assert_eq!(verified.damage.len(), 1, "{:?}", verified.damage);
        assert!(verified.damage[0].file.ends_with("FLASHSTORE") && verified.lost().is_empty());
        let repaired = Database::repair_in(&directory, &mut |_, _| true).unwrap();
        assert_eq!(repaired.found.damage.len(), 1);
        assert!(repaired.new_files[0].ends_with("/FLASHSTORE"), "{:?}", repaired.new_files);
        let again = claim::read(&directory, &disk).unwrap().unwrap();
        assert_eq!(again.owner, intact.owner);
        assert!(Database::repair_in(&directory, &mut |_, _| true).unwrap().found.damage.is_empty());
        checked.database = open(&checked.files, FlashStoreSettings::default()).unwrap();
        checked.check();
        // Also while the database is open.
        disk.open(CLAIM_NAME, Access::Buffered).unwrap().write(Purpose::Maintain, 40, b"abc").unwrap();
        assert_eq!(checked.database.verify().unwrap().damage.len(), 1);
        checked.database.close().unwrap();
    }
}

#[test]
fn the_disk_of_another_database_is_neither_verified_nor_repaired() {
    let (one, two) = (MemoryDirectory::default(), MemoryDirectory::default());
    for files in [&one, &two] {
        open(files, tiered()).unwrap();
    }
    one.attach(Path::new("slow"), two.detach(Path::new("slow")).unwrap());
    let directory = Directory::new(one, Access::Buffered);
    let verified = Database::verify_closed_in(&directory, &mut |_, _| true).map(drop);
    let repaired = Database::repair_in(&directory, &mut |_, _| true).map(drop);
    for outcome in [verified, repaired] {
        assert!(matches!(outcome, Err(Error::Setting { name: "disk", .. })), "{outcome:?}");
    }
}

#[test]
fn the_bits_of_hashes_follow_from_the_bytes_of_flash_unless_they_are_given() {
    assert_eq!(hash_bits(1_000_000_000, Some((20, 44))), 35);
    assert_eq!([hash_bits(1 << 16, None), hash_bits(1 << 50, None)], [28, 41]);
    let common = CommonSettings { fixed: Some((20, 44)), ..CommonSettings::default() };
    let cache = FlashStoreSettings::default().cache(true).flash_bytes(1_000_000_000);
    assert_eq!(cache.for_creation(&common).hash_bits, 35);
    assert_eq!(cache.hash_bits(40).for_creation(&common).hash_bits, 40);
}
