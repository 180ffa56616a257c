//! FlashStore on simulated devices: as a cache, and with a disk.

use siltstone::device::{Access, Directory};
use siltstone::{Database, Durability, FlashStoreSettings, WriteOptions};
use siltstone_testing::{Crash, SimulatedDirectory, Survival};

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
        (0..500).for_each(|key| database.put(key_of(key), [7; 100]).unwrap());
        database.sync().unwrap();
        for _ in 0..steps {
            database.step().unwrap();
        }
        let lost: Vec<_> = (0..500).filter(|key| !database.contains(key_of(*key)).unwrap()).collect();
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
