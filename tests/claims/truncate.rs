//! A truncated database is empty at once, and keeps its settings; a crash leaves all records or none.

use crate::beds::{all_beds, contents, fill};
use siltstone::names::{TRUNCATED_PREFIX, VALUES_NAME};
use siltstone::{Database, EngineKind, Error};
use siltstone_device::{Access, Directory};
use siltstone_testing::{Crash, SimulatedDirectory, TestEngine};

#[test]
fn a_truncated_database_is_empty_and_has_its_shape_and_its_settings() {
    for bed in all_beds() {
        let database = bed.open();
        fill(&bed, &database, 700);
        let (before, other) = (database.stats(), database.clone());
        let database = database.truncate().unwrap_or_else(|error| panic!("{bed}: {error}"));
        assert!(matches!(other.get(bed.key(1)), Err(Error::Closed)), "{bed}");
        assert!(contents(&database).is_empty(), "{bed}");
        assert_eq!(database.get(bed.key(1)).unwrap(), None, "{bed}");
        let after = database.stats();
        assert_eq!((&before.shape, before.settings), (&after.shape, after.settings), "{bed}");
        // It takes records again, and a second truncation removes these.
        fill(&bed, &database, 300);
        assert_eq!(contents(&database).len(), 300, "{bed}");
        let database = database.truncate().unwrap();
        database.put(bed.key(5), bed.value(5, 9)).unwrap();
        database.close().unwrap();
        if bed.is_persistent() {
            let database = bed.open();
            assert_eq!(contents(&database).len(), 1, "{bed}");
            assert_eq!(database.get(bed.key(5)).unwrap().as_deref(), Some(&bed.value(5, 9)[..]), "{bed}");
            database.verify().unwrap();
        }
        if let Some(path) = bed.path().filter(|path| path.exists()) {
            let left = |name: &str| name.starts_with(TRUNCATED_PREFIX);
            let mut names = path.read_dir().unwrap().map(|entry| entry.unwrap().file_name());
            assert!(!names.any(|name| left(&name.to_string_lossy())), "{bed}");
        }
    }
}

/// Returns the builder of a small database of an engine. FlashStore has a disk on a device of its own.
fn builder(engine: &TestEngine) -> siltstone::Builder {
    engine.builder("db".as_ref(), None).background_threads(0)
}

#[test]
fn a_crash_between_any_two_steps_leaves_all_records_or_none() {
    let random = &mut fastrand::Rng::with_seed(7);
    for engine in TestEngine::persistent()
        .filter(|engine| EngineKind::ALL.iter().any(|kind| kind.info() == engine.info))
    {
        let (mut kept, mut gone, mut done, mut after) = (0, 0, 0, 0);
        // The power of either device fails in every other run.
        while done < 2 {
            after += 1;
            let device = SimulatedDirectory::new(after);
            let directory = |device: &SimulatedDirectory| Directory::new(device.clone(), Access::Buffered);
            // As a server makes it before the database.
            directory(&device).create(VALUES_NAME, Access::Buffered).unwrap();
            let database = builder(&engine).open_in(directory(&device)).unwrap();
            for number in 0..400u64 {
                database.put(number.to_be_bytes(), vec![7; 40]).unwrap();
                database.step().unwrap();
            }
            database.sync().unwrap();
            device.power_off_after(after);
            let outcome = database.truncate();
            let is_done = !device.is_off();
            let acknowledged = outcome.is_ok();
            drop(outcome);
            let device = device.crash(Crash::random(random), random);
            let database = builder(&engine).open_in(directory(&device)).unwrap();
            let found = contents(&database).len();
            assert!(
                found == 0 || (found == 400 && !acknowledged),
                "{} step {after}: {found}",
                engine.info.name
            );
            (kept, gone) = if found == 0 { (kept, gone + 1) } else { (kept + 1, gone) };
            // It is a database like others.
            database.put("key", "value").unwrap();
            database.close().unwrap();
            let database = builder(&engine).open_in(directory(&device)).unwrap();
            assert_eq!(contents(&database).len(), found + 1, "{} step {after}", engine.info.name);
            database.verify().unwrap();
            let names = device.names().unwrap();
            assert!(names.iter().all(|name| !name.starts_with(TRUNCATED_PREFIX)));
            assert!(names.iter().any(|name| name == VALUES_NAME), "{} step {after}", engine.info.name);
            done = if is_done { done + 1 } else { 0 };
        }
        assert!(kept > 0 && gone > 10, "{}: {kept} {gone}", engine.info.name);
    }
}

#[test]
fn a_database_that_is_read_only_is_not_truncated_and_an_interrupted_truncation_is_no_database() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let database = Database::open(&path).unwrap();
    database.put("key", "value").unwrap();
    database.close().unwrap();
    let reader = Database::open_read_only(&path).unwrap();
    assert!(matches!(reader.truncate(), Err(Error::ReadOnly)));
    // As a crash leaves it before the files have other names.
    std::fs::write(path.join("TRUNCATED"), "").unwrap();
    std::fs::write(path.join("CODECS"), "of a binding").unwrap();
    assert!(matches!(Database::open_read_only(&path), Err(Error::NotFound { .. })));
    let database = Database::open(&path).unwrap();
    assert_eq!(database.len().unwrap(), 0);
    assert!(path.join("CODECS").exists() && !path.join("TRUNCATED").exists());
    drop(database);
    std::fs::write(path.join("TRUNCATED"), "").unwrap();
    Database::destroy(&path).unwrap();
    assert!(!path.join("TRUNCATED").exists() && !path.join("CODECS").exists());
}
