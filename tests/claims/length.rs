//! The approximate number of keys of every engine is as precise as documented, whatever was overwritten, deleted,
//! expired, opened again or cut off by a kill.

use siltstone::{Builder, Database, WriteOptions};
use siltstone_device::{Access, Directory};
use siltstone_testing::SimulatedDirectory;
use std::path::Path;

/// Four times the standard error of 0.6 %.
const ERROR: f64 = 0.024;
/// The engines, by their settings.
const ENGINES: [&[(&str, &str)]; 7] = [
    &[("engine", "silt")],
    &[("engine", "bloomstore")],
    &[("engine", "mica")],
    &[("engine", "flashkey")],
    &[("engine", "flashkey"), ("ordered", "true"), ("segment_bytes", "65536")],
    &[("engine", "flashkey"), ("index_in_memory", "0"), ("segment_bytes", "262144")],
    &[("engine", "flashstore"), ("disk", "disk"), ("flash_bytes", "2097152"), ("segment_bytes", "65536")],
];

struct Bed {
    settings: &'static [(&'static str, &'static str)],
    device: SimulatedDirectory,
    database: Database,
}

fn builder(settings: &[(&'static str, &'static str)]) -> Builder {
    let builder = Database::builder("db").background_threads(0).seed([5, 6]);
    settings.iter().fold(builder, |builder, (name, value)| builder.set(*name, *value))
}

fn key(number: u32) -> [u8; 4] {
    number.wrapping_mul(0x9e37_79b9).to_be_bytes()
}

impl Bed {
    fn new(settings: &'static [(&'static str, &'static str)]) -> Bed {
        let device = SimulatedDirectory::new(1);
        let directory = Directory::new(device.clone(), Access::Buffered);
        Bed { settings, database: builder(settings).open_in(directory).unwrap(), device }
    }

    fn is_in_memory(&self) -> bool {
        self.settings[0].1 == "mica"
    }

    fn open_again(&mut self, is_killed: bool) {
        if self.is_in_memory() {
            return;
        }
        if is_killed {
            self.device = self.device.crash_image();
        } else {
            self.database.close().unwrap();
        }
        let directory = Directory::new(self.device.clone(), Access::Buffered);
        self.database = builder(self.settings).open_in(directory).unwrap();
    }

    fn check(&self, expected: u64, what: &str) {
        let found = self.database.approximate_len().unwrap();
        let exact = self.database.iter().unwrap().count() as u64;
        let name = format!("{:?}, {what}: {found} for {exact}", self.settings);
        assert_eq!(exact, expected, "{name}");
        assert!(found.abs_diff(exact) as f64 <= ERROR * exact as f64, "{name}");
    }
}

fn length_is_right(settings: &'static [(&'static str, &'static str)], keys: u32) {
    let mut bed = Bed::new(settings);
    let put = |bed: &Bed, key_of: u32, round: u8| bed.database.put(key(key_of), [round; 30]).unwrap();
    for round in 0..3 {
        (0..keys).for_each(|number| put(&bed, number, round));
        bed.check(keys.into(), "put");
    }
    (0..keys / 2).for_each(|number| bed.database.delete(key(number)).unwrap());
    bed.check((keys - keys / 2).into(), "half deleted");
    (keys / 2..keys).for_each(|number| put(&bed, number, 4));
    bed.check((keys - keys / 2).into(), "the rest put again");
    bed.open_again(false);
    bed.check((keys - keys / 2).into(), "opened again");
    bed.database.compact().unwrap();
    bed.check((keys - keys / 2).into(), "compacted");
    (0..keys / 4).for_each(|number| put(&bed, number, 5));
    bed.database.sync().unwrap();
    bed.open_again(true);
    bed.check((keys - keys / 2 + keys / 4).into(), "killed");
    let gone = WriteOptions::default().expires_at_ms(1);
    (0..keys / 8).for_each(|number| bed.database.put_with(key(number), [6; 30], gone).unwrap());
    if !bed.is_in_memory() {
        bed.check((keys - keys / 2 + keys / 4 - keys / 8).into(), "expired");
    }
    (0..keys).for_each(|number| bed.database.delete(key(number)).unwrap());
    assert_eq!(bed.database.approximate_len().unwrap(), 0, "{settings:?}: all are deleted");
    bed.database.compact().unwrap();
    bed.open_again(false);
    assert_eq!(bed.database.approximate_len().unwrap(), 0, "{settings:?}: all are deleted and compacted");
}

#[test]
fn the_length_of_every_engine_is_within_its_error() {
    ENGINES.iter().for_each(|settings| length_is_right(settings, 20_000));
}

#[test]
fn the_length_of_a_small_database_is_exact() {
    for settings in ENGINES {
        let bed = Bed::new(settings);
        (0..2_000).for_each(|number| bed.database.put(key(number), [1; 30]).unwrap());
        (0..2_000).for_each(|number| bed.database.put(key(number), [2; 30]).unwrap());
        (0..700).for_each(|number| bed.database.delete(key(number)).unwrap());
        assert_eq!(bed.database.approximate_len().unwrap(), 1_300, "{settings:?}");
        (0..2_000).for_each(|number| bed.database.delete(key(number)).unwrap());
        assert_eq!(bed.database.approximate_len().unwrap(), 0, "{settings:?}");
    }
}

/// Different keys of equal hashes: their first 8 bytes are.
#[test]
fn keys_of_equal_hashes_all_count() {
    let settings: [&[(&str, &str)]; 3] = [
        &[("engine", "flashkey"), ("segment_bytes", "16384")],
        &[("engine", "flashkey"), ("ordered", "true")],
        &[("engine", "flashstore"), ("disk", "disk"), ("flash_bytes", "2097152"), ("segment_bytes", "65536")],
    ];
    for settings in settings {
        let device = SimulatedDirectory::new(1);
        let open = || {
            let directory = Directory::new(device.clone(), Access::Buffered);
            builder(settings).hashed_keys().open_in(directory).unwrap()
        };
        let database = open();
        for number in 0..200u64 {
            database.put([[7; 8], number.to_be_bytes()].concat(), "value").unwrap();
        }
        database.compact().unwrap();
        drop(database);
        assert_eq!(open().approximate_len().unwrap(), 200, "{settings:?}");
    }
}

/// With its segments a small database takes little more than its records.
#[test]
fn a_small_database_takes_little_more_space_than_its_records() {
    let folder = tempfile::tempdir().unwrap();
    for settings in ENGINES.iter().filter(|settings| settings[0].1 != "mica" && settings[1..].is_empty()) {
        let path = folder.path().join(settings[0].1);
        let builder =
            settings.iter().fold(Database::builder(&path), |to, (name, value)| to.set(*name, *value));
        let database = builder.background_threads(0).open().unwrap();
        let put = |number: u32| database.put(key(number), [number as u8; 296]).unwrap();
        (0..5).for_each(|_| (0..40_000).for_each(put));
        database.settle().unwrap();
        let bytes = database.stats().disk_bytes;
        assert!(bytes < 56 << 20, "{settings:?}: {bytes} bytes for 12 MB of records");
        assert!(Path::new(&path).exists());
    }
}
