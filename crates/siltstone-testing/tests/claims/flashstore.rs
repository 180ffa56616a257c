//! FlashStore on simulated devices: as a cache, and with a disk.

use siltstone::{Database, Disk, Durability, Error, FlashStoreSettings, RepairOptions, WriteOptions};
use siltstone_device::{Access, Directory};
use siltstone_testing::{Crash, SimulatedDirectory, Survival};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const SEGMENT_BYTES: u64 = 4 << 10;

fn small() -> FlashStoreSettings {
    FlashStoreSettings::default().segment_bytes(SEGMENT_BYTES).flash_bytes(16 * SEGMENT_BYTES)
}

fn open(files: &SimulatedDirectory, settings: FlashStoreSettings) -> siltstone::Result<Database> {
    let directory = Directory::new(files.clone(), Access::Buffered);
    Database::builder("db").engine(settings).background_threads(0).seed([1, 2]).open_in(directory)
}

fn key_of(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

#[test]
fn a_delete_of_a_record_that_a_cache_has_lost_holds_after_a_power_loss() {
    let mut deletes = 0;
    // The power fails after each of the first steps in which records leave.
    for steps in 0..40 {
        let files = SimulatedDirectory::new(1);
        let database = open(&files, small().cache(true)).unwrap();
        (0..600).for_each(|key| database.put(key_of(key), [7; 100]).unwrap());
        database.sync().unwrap();
        for _ in 0..steps {
            database.step().unwrap();
        }
        let lost: Vec<_> = (0..600).filter(|key| !database.contains(key_of(*key)).unwrap()).collect();
        for key in &lost {
            let options = WriteOptions::default().durability(Durability::Synced);
            database.delete_with(key_of(*key), options).unwrap();
        }
        deletes += lost.len();
        let files = files.crash(Crash::PowerLost(Survival::Nothing), &mut fastrand::Rng::with_seed(1));
        let database = open(&files, FlashStoreSettings::default()).unwrap();
        for key in lost {
            assert_eq!(database.get(key_of(key)).unwrap(), None, "{steps} steps, key {key}");
        }
    }
    assert!(deletes > 100, "{deletes}");
}

/// Returns the files below a directory with their bytes, except those of locks.
fn files_below(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else if !path.ends_with("LOCK") {
            files.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    files
}

#[test]
fn a_database_and_its_copy_are_read_with_their_disks_and_not_changed_by_a_read_only_opening() {
    let folder = tempfile::tempdir().unwrap();
    let [flash, copy] = ["flash", "copy"].map(|name| folder.path().join(name));
    let settings = small().disk(Disk::at(folder.path().join("slow")));
    let database = Database::builder(&flash).engine(settings).background_threads(0).open().unwrap();
    (0..3_000).for_each(|key| database.put(key_of(key), [7; 100]).unwrap());
    database.settle().unwrap();
    (0..500).for_each(|key| database.delete(key_of(key)).unwrap());
    database.checkpoint(&copy).unwrap();
    database.close().unwrap();
    drop(database);
    let before = files_below(folder.path());
    assert!(before.keys().any(|path| path.ends_with("copy/disk/FLASHSTORE")), "{:?}", before.keys());
    for path in [&flash, &copy] {
        let database = Database::builder(path).read_only(true).open().unwrap();
        assert!((0..3_000).all(|key| database.contains(key_of(key)).unwrap() == (key >= 500)));
        assert_eq!(database.iter().unwrap().map(Result::unwrap).count(), 2_500);
        assert!(database.verify().unwrap().damage.is_empty());
        assert!(matches!(database.put("key", "value"), Err(Error::ReadOnly)));
        drop(database);
        assert!(Database::verify_closed(path, &mut |_, _| true).unwrap().damage.is_empty());
        let repaired = Database::repair(path, &RepairOptions::default(), &mut |_, _| true).unwrap();
        assert!(repaired.found.damage.is_empty());
    }
    assert!(files_below(folder.path()) == before);
}
