//! Compression of values: every engine has it, the choice is the database's, and the dictionary survives what the
//! records survive. The other suites also run with compression (`tests/claims/beds/mod.rs`).

use siltstone::engine::CommonSettings;
use siltstone::{Builder, Compression, Database, EngineKind, Error, RepairOptions};
use siltstone_testing::engines::complete_settings;
use std::path::{Path, PathBuf};

const ZSTD: Compression = Compression::Zstd { level: 3 };
const COPIES: [&str; 2] = ["COMPRESSION", "COMPRESSION.mirror"];
/// Enough records to train a dictionary.
const MANY: u32 = 2_000;

fn builder(path: &Path, engine: EngineKind, compression: Compression) -> Builder {
    let sample_bytes = Some(20 << 10);
    let memory_budget = (engine == EngineKind::Mica).then_some(32 << 20);
    let common =
        CommonSettings { sample_bytes, memory_budget, partitions: Some(2), ..CommonSettings::default() };
    Database::builder(path)
        .engine(complete_settings(engine))
        .common(common)
        .background_threads(0)
        .compression(compression)
}

fn json(number: u32) -> String {
    let name = number.wrapping_mul(2_654_435_761);
    format!(
        "{{\"id\":{number},\"customer\":\"customer-{name:x}\",\"status\":\"delivered\",\"currency\":\"EUR\"}}"
    )
}

fn fill(database: &Database) {
    for number in 0..MANY {
        database.put(number.to_le_bytes(), json(number)).unwrap();
        database.step().unwrap();
    }
}

fn check(database: &Database) {
    for number in 0..MANY {
        let value = database.get(number.to_le_bytes()).unwrap().unwrap();
        assert_eq!(value, json(number).as_bytes());
    }
}

fn detail(database: &Database, name: &str) -> f64 {
    let details = database.stats().details;
    details.iter().find(|(detail, _)| *detail == name).map_or(0.0, |(_, value)| *value)
}

#[test]
fn with_every_engine_json_takes_less_than_half_the_bytes_and_is_read_back() {
    for &engine in EngineKind::ALL {
        let directory = tempfile::tempdir().unwrap();
        let database = builder(directory.path(), engine, ZSTD).open().unwrap();
        fill(&database);
        check(&database);
        assert_eq!(database.stats().shape.compression, ZSTD);
        let (values, stored) = (detail(&database, "value_bytes"), detail(&database, "stored_value_bytes"));
        assert!(2.0 * stored < values, "{}: {stored} of {values} bytes", engine.name());
        let written: usize = (0..MANY).map(|number| 4 + json(number).len()).sum();
        assert_eq!(database.stats().user_bytes, written as u64, "{}", engine.name());
        if engine.info().number.is_some() {
            database.close().unwrap();
            let database = Database::open(directory.path()).unwrap();
            assert_eq!(database.stats().shape.compression, ZSTD);
            check(&database);
            assert!(database.verify().unwrap().damage.is_empty());
        }
    }
}

#[test]
fn a_checkpoint_has_the_dictionary() {
    for engine in EngineKind::ALL.iter().filter(|engine| engine.info().number.is_some()) {
        let directory = tempfile::tempdir().unwrap();
        let (path, copy) = (directory.path().join("db"), directory.path().join("copy"));
        let database = builder(&path, *engine, ZSTD).open().unwrap();
        fill(&database);
        database.checkpoint(&copy).unwrap();
        assert!(COPIES.iter().all(|name| copy.join(name).exists()));
        check(&Database::open_read_only(&copy).unwrap());
    }
}

#[test]
fn only_the_compression_of_the_database_can_be_stated() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let database = builder(&path, EngineKind::Silt, Compression::Lz4).open().unwrap();
    fill(&database);
    drop(database);
    for other in [Compression::None, ZSTD] {
        let error = builder(&path, EngineKind::Silt, other).open().unwrap_err();
        assert!(error.to_string().contains("compression") && error.to_string().contains("lz4"), "{error}");
    }
    check(&Database::builder(&path).set("compression", "lz4").open().unwrap());
    let fixed = Database::builder(directory.path().join("fixed")).fixed(8, 100).compression(ZSTD);
    assert!(fixed.open().unwrap_err().to_string().contains("leave out `fixed`"));
    let level =
        Database::builder(directory.path().join("level")).compression(Compression::Zstd { level: 20 });
    assert!(level.open().unwrap_err().to_string().contains("from 1 to 19"));
}

#[test]
fn one_copy_of_the_dictionary_suffices_and_repair_restores_the_other() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let database = builder(&path, EngineKind::Silt, ZSTD).open().unwrap();
    fill(&database);
    drop(database);
    for name in COPIES {
        let mut bytes = std::fs::read(path.join(name)).unwrap();
        bytes[100] ^= 1;
        std::fs::write(path.join(name), &bytes).unwrap();
        check(&Database::open(&path).unwrap());
        let report = Database::verify_closed(&path, &mut |_, _| true).unwrap();
        assert_eq!(report.damage.len(), 1);
        let report = Database::repair(&path, &RepairOptions::default(), &mut |_, _| true).unwrap();
        assert_eq!(report.new_files, [name]);
        let report = Database::verify_closed(&path, &mut |_, _| true).unwrap();
        assert!(report.damage.is_empty());
    }
    for name in COPIES {
        std::fs::write(path.join(name), "nothing").unwrap();
    }
    let error = Database::open(&path).unwrap_err();
    assert!(
        matches!(error, Error::Corrupt { .. }) && error.to_string().contains("siltstone repair"),
        "{error}"
    );
}

#[test]
fn without_the_dictionary_a_value_is_an_error_and_no_other_one_is_trained() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let database = builder(&path, EngineKind::FlashKey, ZSTD).open().unwrap();
    fill(&database);
    drop(database);
    COPIES.iter().for_each(|name| std::fs::remove_file(path.join(name)).unwrap());
    let database = builder(&path, EngineKind::FlashKey, ZSTD).open().unwrap();
    let last = (MANY - 1).to_le_bytes();
    let error = database.get(last).unwrap_err();
    assert!(error.to_string().contains("dictionary") && matches!(error, Error::Corrupt { .. }), "{error}");
    assert_eq!(database.verify().unwrap().damage.len(), 1);
    for number in 0..MANY / 2 {
        database.put(number.to_le_bytes(), json(number)).unwrap();
        database.step().unwrap();
    }
    assert!(!path.join(COPIES[0]).exists());
    assert!(database.get(last).is_err());
    assert_eq!(database.get(7u32.to_le_bytes()).unwrap().unwrap(), json(7).as_bytes());
}

#[test]
fn a_database_that_has_lost_both_copies_of_its_dictionary_is_damaged() {
    for engine in EngineKind::ALL.iter().filter(|engine| engine.info().number.is_some()) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("db");
        let database = builder(&path, *engine, ZSTD).open().unwrap();
        fill(&database);
        drop(database);
        let verify = || Database::verify_closed(&path, &mut |_, _| true).unwrap();
        assert_eq!(verify().damage.len(), 0, "{}", engine.name());
        COPIES.iter().for_each(|name| std::fs::remove_file(path.join(name)).unwrap());
        assert_eq!(verify().damage.len(), 1, "{}", engine.name());
        let report = Database::repair(&path, &RepairOptions::default(), &mut |_, _| true).unwrap();
        assert!(report.found.damage.len() == 1 && report.found.may_affect(&7u32.to_le_bytes()));
        assert!(COPIES.iter().all(|name| !path.join(name).exists()));
    }
}

/// The search for values with the dictionary was once interrupted after the repair of other damage, without its report.
#[test]
fn an_interrupted_repair_of_a_database_that_has_lost_its_dictionary_has_repaired_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let database = builder(&path, EngineKind::Silt, ZSTD).open().unwrap();
    fill(&database);
    drop(database);
    COPIES.iter().for_each(|name| std::fs::remove_file(path.join(name)).unwrap());
    let mirror = path.join("MANIFEST.mirror");
    let mut damaged = std::fs::read(&mirror).unwrap();
    damaged[80] ^= 1;
    std::fs::write(&mirror, &damaged).unwrap();
    let mut stopped = 0;
    let report = loop {
        let mut left = stopped;
        let outcome = Database::repair(&path, &RepairOptions::default(), &mut |_, _| {
            left -= 1;
            left >= 0
        });
        match outcome {
            Err(Error::Interrupted) => stopped += 1,
            outcome => break outcome.unwrap(),
        }
        assert!(std::fs::read(&mirror).unwrap() == damaged, "after {stopped} calls");
    };
    assert!(stopped > 0 && report.set_aside.is_some());
}

/// Each repair reports the loss again, and a follower that has read everything after the first one need not repeat it.
#[test]
fn a_lost_dictionary_does_not_end_the_change_feed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let open = || builder(&path, EngineKind::Silt, ZSTD).change_feed(1 << 20).open().unwrap();
    let database = open();
    fill(&database);
    let position = database.change_position().unwrap();
    database.put("key", "value").unwrap();
    database.close().unwrap();
    drop(database);
    COPIES.iter().for_each(|name| std::fs::remove_file(path.join(name)).unwrap());
    for _ in 0..2 {
        let report = Database::repair(&path, &RepairOptions::default(), &mut |_, _| true).unwrap();
        assert_eq!(report.found.damage.len(), 1);
        let database = open();
        let changes = database.changes(position, 10).unwrap();
        assert!(changes.keys.iter().any(|key| &key[..] == b"key"));
        database.close().unwrap();
    }
}

#[test]
fn a_dictionary_is_trained_when_all_records_from_before_the_open_were_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let open = || builder(&path, EngineKind::Silt, ZSTD).open().unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    let database = open();
    // Too long for samples, and more than an open reads.
    for number in 0..150u64 {
        let value: Vec<u8> = (0..20 << 10).map(|_| random.u8(..)).collect();
        database.put(number.to_le_bytes(), value).unwrap();
    }
    drop(database);
    let database = open();
    for number in 0..MANY {
        database.put(number.to_le_bytes(), json(number)).unwrap();
    }
    for _ in 0..10_000 {
        database.step().unwrap();
    }
    assert!(path.join(COPIES[0]).exists());
    check(&database);
}

#[test]
fn a_database_without_a_dictionary_is_intact_as_long_as_no_value_needs_one() {
    let directory = tempfile::tempdir().unwrap();
    let database = builder(directory.path(), EngineKind::Silt, ZSTD).open().unwrap();
    database.put("key", json(1)).unwrap();
    assert!(database.verify().unwrap().damage.is_empty());
    drop(database);
    let report = Database::verify_closed(directory.path(), &mut |_, _| true).unwrap();
    assert!(report.damage.is_empty() && report.live_records == Some(1));
}

/// The open reads the first records, in the order of their hashes.
#[test]
fn large_values_before_those_of_a_lost_dictionary_do_not_hide_that_it_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let open = || builder(&path, EngineKind::Silt, ZSTD).hashed_keys().open().unwrap();
    let mut random = fastrand::Rng::with_seed(5);
    let mut keys = |count: usize, first: std::ops::RangeInclusive<u8>| -> Vec<[u8; 16]> {
        let key = |_| {
            let mut key = random.u128(..).to_be_bytes();
            key[0] = random.u8(first.clone());
            key
        };
        (0..count).map(key).collect()
    };
    let (large, small) = (keys(20, 0..=15), keys(MANY as usize, 16..=255));
    let fill = |database: &Database, keys: &[[u8; 16]]| {
        for (key, number) in keys.iter().zip(0..) {
            database.put(key, json(number)).unwrap();
            database.step().unwrap();
        }
    };
    let (before, after) = small.split_at(small.len() / 2);
    let database = open();
    for key in large {
        // Incompressible, and too long for a sample.
        let value: Vec<u8> = (0..200 << 10).map(|_| random.u8(..)).collect();
        database.put(key, value).unwrap();
    }
    fill(&database, before);
    assert!(path.join(COPIES[0]).exists());
    drop(database);
    COPIES.iter().for_each(|name| std::fs::remove_file(path.join(name)).unwrap());
    let database = open();
    fill(&database, after);
    assert!(!path.join(COPIES[0]).exists());
    assert!(database.get(before[before.len() - 1]).is_err());
    assert_eq!(database.verify().unwrap().damage.len(), 1);
}

#[test]
fn short_openings_train_a_dictionary_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    for number in 0..300u32 {
        let database = builder(&path, EngineKind::FlashKey, ZSTD).open().unwrap();
        database.put(number.to_le_bytes(), json(number)).unwrap();
        database.step().unwrap();
    }
    assert!(path.join(COPIES[0]).exists());
}

#[test]
fn a_bulk_load_has_the_dictionary() {
    let directory = tempfile::tempdir().unwrap();
    let database = builder(directory.path(), EngineKind::Silt, ZSTD).open().unwrap();
    database.bulk_load((0..MANY).map(|number| (number.to_le_bytes(), json(number)))).unwrap();
    check(&database);
    assert!(detail(&database, "dictionary_bytes") > 0.0);
}

#[test]
fn a_disk_has_the_values_of_the_flash_and_no_other_compression() {
    let directory = tempfile::tempdir().unwrap();
    let (flash, disk) = (directory.path().join("flash"), directory.path().join("disk"));
    let over = |compression| {
        let over = builder(&flash, EngineKind::FlashStore, compression).set("disk", disk.display());
        over.set("segment_bytes", "64KiB").set("flash_bytes", "2MiB")
    };
    drop(builder(&disk, EngineKind::Silt, Compression::None).open().unwrap());
    let error = over(ZSTD).open().unwrap_err().to_string();
    assert!(error.contains("has the compression none, and not zstd:3"), "{error}");
    Database::destroy(&disk).unwrap();
    let database = over(ZSTD).open().unwrap();
    fill(&database);
    database.compact().unwrap();
    check(&database);
    drop(database);
    check(&Database::open(&flash).unwrap());
}

/// The directory of the golden database, which a program of the first version has written.
fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/databases/v1-compressed")
}

#[test]
fn a_database_of_the_first_version_is_read() {
    if std::env::var_os("SILTSTONE_BLESS").is_some() && !golden().exists() {
        let common =
            CommonSettings { sample_bytes: Some(10 << 10), partitions: Some(1), ..CommonSettings::default() };
        let builder = Database::builder(golden()).common(common).seed([1, 2]).compression(ZSTD);
        let database = builder.background_threads(0).open().unwrap();
        for number in 0..400u32 {
            database.put(number.to_le_bytes(), json(number)).unwrap();
            database.step().unwrap();
        }
        database.compact().unwrap();
        database.put("young", "a value that is in the log").unwrap();
        database.close().unwrap();
        drop(database);
        ["LOCK", "USAGE"].iter().for_each(|name| std::fs::remove_file(golden().join(name)).unwrap());
    }
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(golden()).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    let database = Database::open(copy.path()).unwrap();
    assert_eq!(database.stats().shape.compression, ZSTD);
    for number in 0..400u32 {
        let value = database.get(number.to_le_bytes()).unwrap().unwrap();
        assert_eq!(value, json(number).as_bytes());
    }
    assert_eq!(database.get("young").unwrap().unwrap(), &b"a value that is in the log"[..]);
    assert!(database.verify().unwrap().damage.is_empty());
}
