//! Small databases on a simulated device, with their expected records.

use siltstone::{Database, Durability, Iter, Result, WriteOptions};
use siltstone_device::{Access, Directory, DirectoryBackend};
use siltstone_testing::SimulatedDirectory;
use std::collections::BTreeMap;
use std::ops::Range;

/// Returns the smallest settings of the engine.
pub fn settings() -> siltstone::engine::silt::SiltSettings {
    let settings = siltstone::engine::silt::SiltSettings::default().log_slots_min(16);
    settings.log_segment_bytes(4096).step_records(10).manifest_bytes_max(500)
}

/// Opens a small database.
pub fn open(device: &SimulatedDirectory) -> Result<Database> {
    open_in(device.clone())
}

/// Opens a small database in any directory.
pub fn open_in(directory: impl DirectoryBackend + 'static) -> Result<Database> {
    let builder = Database::builder("simulated").engine(settings()).partitions(2).background_threads(0);
    builder.seed([1, 2]).open_in(Directory::new(directory, Access::Buffered))
}

/// The expected records of a database.
#[derive(Clone, Default)]
pub struct Expected {
    records: BTreeMap<Vec<u8>, Vec<u8>>,
    round: u8,
}

impl Expected {
    /// Puts new values of these keys, also into the database.
    pub fn put(&mut self, database: &Database, numbers: Range<u32>, durability: Durability) {
        self.round += 1;
        for number in numbers {
            let (key, value) = (number.to_be_bytes().to_vec(), vec![self.round; 50 + number as usize % 50]);
            let options = WriteOptions::default().durability(durability);
            database.put_with(&key, &value, options).unwrap();
            self.records.insert(key, value);
        }
    }

    /// Checks that all records are present.
    pub fn check_keys(&self, database: &Database) {
        self.check_if(database, |_| true);
    }

    /// Checks the records for whose keys `is_sure` returns true.
    pub fn check_if(&self, database: &Database, is_sure: impl Fn(&[u8]) -> bool) {
        for (key, value) in self.records.iter().filter(|(key, _)| is_sure(key)) {
            assert_eq!(database.get(key).unwrap().as_deref(), Some(&value[..]), "{key:?}");
        }
    }

    /// Checks that all records and no others are present, by gets and by iteration.
    pub fn check(&self, database: &Database) {
        self.check_keys(database);
        self.check_records(database.iter().unwrap());
    }

    /// Checks that these are the records.
    pub fn check_records(&self, records: Iter) {
        let found: BTreeMap<_, _> =
            records.map(|record| record.unwrap()).map(|r| (r.key.to_vec(), r.value.to_vec())).collect();
        assert!(found == self.records, "{} records instead of {}", found.len(), self.records.len());
    }
}
