//! A truncated database is empty at once, and keeps its settings; a crash leaves all records or none.

use crate::beds::{all_beds, contents, fill};
use siltstone::names::{MANIFEST_NAME, TRUNCATED_MARK, TRUNCATED_NAME, TRUNCATED_PREFIX, VALUES_NAME};
use siltstone::{Database, Durability, EngineKind, Error, WriteOptions};
use siltstone_device::memory::MemoryDirectory;
use siltstone_device::sync::Mutex;
use siltstone_device::{Access, Directory, DirectoryBackend, FileBackend, LockMode, OpenMode, Purpose};
use siltstone_testing::{Call, Crash, Intercepted, SimulatedDirectory, TestEngine};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// A file of the user.
const NOTES: &str = "notes.txt";

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

/// Returns the engines of the table that have files.
fn engines() -> impl Iterator<Item = TestEngine> {
    TestEngine::persistent().filter(|engine| EngineKind::ALL.iter().any(|kind| kind.info() == engine.info))
}

/// Adds a file of the user to the directory of a database, and to that of its disk. Returns both directories.
fn add_notes(directory: &Directory) -> Vec<Directory> {
    let disk = directory.other("disk".as_ref(), false).ok();
    let places: Vec<Directory> = [directory.clone()].into_iter().chain(disk).collect();
    for place in &places {
        place.create(NOTES, Access::Buffered).unwrap().sync(Purpose::Maintain).unwrap();
        place.sync(Purpose::Maintain).unwrap();
    }
    places
}

fn has(directory: &Directory, name: &str) -> bool {
    directory.list().unwrap().iter().any(|found| found == name)
}

#[test]
fn a_crash_between_any_two_steps_leaves_all_records_or_none() {
    let random = &mut fastrand::Rng::with_seed(7);
    for engine in engines() {
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
            // In two of four runs, of which the power of either device fails in one.
            let has_notes = (after / 2).is_multiple_of(2_u64);
            if has_notes {
                add_notes(&directory(&device));
            }
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
            let place = directory(&device);
            for place in [place.other("disk".as_ref(), false).ok(), Some(place)].into_iter().flatten() {
                assert_eq!(has(&place, NOTES), has_notes, "{} step {after}", engine.info.name);
            }
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
    std::fs::write(path.join(TRUNCATED_NAME), TRUNCATED_MARK).unwrap();
    std::fs::write(path.join("CODECS"), "of a binding").unwrap();
    assert!(matches!(Database::open_read_only(&path), Err(Error::NotFound { .. })));
    let database = Database::open(&path).unwrap();
    assert_eq!(database.len().unwrap(), 0);
    assert!(path.join("CODECS").exists() && !path.join("TRUNCATED").exists());
    drop(database);
    std::fs::write(path.join(TRUNCATED_NAME), TRUNCATED_MARK).unwrap();
    Database::destroy(&path).unwrap();
    assert!(!path.join("TRUNCATED").exists() && !path.join("CODECS").exists());
}

#[test]
fn files_of_the_user_stay_where_a_database_and_its_disk_are_truncated() {
    for engine in engines() {
        let directory = Directory::new(SimulatedDirectory::new(1), Access::Buffered);
        let open = || builder(&engine).open_in(directory.clone()).unwrap();
        let database = open();
        database.put("key", "value").unwrap();
        let places = add_notes(&directory);
        let database = database.truncate().unwrap_or_else(|error| panic!("{}: {error}", engine.info.name));
        assert!(contents(&database).is_empty(), "{}", engine.info.name);
        database.put("other", "value").unwrap();
        database.close().unwrap();
        assert_eq!(contents(&open()).len(), 1, "{}", engine.info.name);
        assert!(places.iter().all(|place| has(place, NOTES)), "{}", engine.info.name);
    }
}

#[test]
fn a_file_of_the_user_is_no_mark_and_is_not_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let open = || Database::builder(&path).background_threads(0).open().unwrap();
    open().put("key", "value").unwrap();
    let (mark, notes) = (path.join(TRUNCATED_NAME), path.join(format!("{TRUNCATED_PREFIX}{NOTES}")));
    std::fs::write(&notes, "mine").unwrap();
    // An empty one too, which a crash may leave of a file whose contents were not yet written.
    for bytes in ["", "SILTVOI", "SILTVOIX", "SILTVOIDS"] {
        std::fs::write(&mark, bytes).unwrap();
        assert!(Database::open_read_only(&path).unwrap().contains("key").unwrap(), "{bytes}");
        let database = open();
        assert!(database.contains("key").unwrap(), "{bytes}");
        // The mark would be written over it.
        assert!(matches!(database.truncate(), Err(Error::Io { .. })), "{bytes}");
        assert_eq!(std::fs::read_to_string(&mark).unwrap(), bytes);
    }
    std::fs::remove_file(&mark).unwrap();
    assert!(contents(&open().truncate().unwrap()).is_empty());
    std::fs::write(&mark, "mine").unwrap();
    Database::destroy(&path).unwrap();
    let mut left: Vec<_> = path.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    left.sort();
    assert_eq!(left, [mark, notes]);
}

fn in_memory(files: &MemoryDirectory) -> Directory {
    Directory::new(files.clone(), Access::Buffered)
}

fn open_in(directory: Directory) -> Database {
    Database::builder("db").background_threads(0).open_in(directory).unwrap()
}

fn keys(database: &Database) -> Vec<Vec<u8>> {
    contents(database).into_keys().collect()
}

/// Writes the mark of a truncation, as a process that is killed then.
fn set_mark(files: &MemoryDirectory) {
    let file = in_memory(files).create(TRUNCATED_NAME, Access::Buffered).unwrap();
    file.write(Purpose::Maintain, 0, TRUNCATED_MARK).unwrap();
}

/// What another process does.
type Meanwhile = Box<dyn FnOnce() + Send>;

/// A directory in which another process does something just before it is locked for the first time.
struct BeforeLock {
    files: MemoryDirectory,
    meanwhile: Mutex<Option<Meanwhile>>,
}

impl DirectoryBackend for BeforeLock {
    fn open(&self, name: &str, access: Access, mode: OpenMode) -> io::Result<Box<dyn FileBackend>> {
        self.files.open(name, access, mode)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.files.list()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.files.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.files.rename(from, to)
    }

    fn sync(&self) -> io::Result<()> {
        self.files.sync()
    }

    fn lock(&self, name: &str, mode: LockMode) -> io::Result<Box<dyn Send + Sync>> {
        let meanwhile = self.meanwhile.lock().take();
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
        self.files.lock(name, mode)
    }

    fn path(&self) -> PathBuf {
        self.files.path()
    }
}

/// Returns the files of a database with the record `old`, and a directory of them in which another process does
/// something before the lock is taken.
fn locked_late(meanwhile: impl FnOnce(&MemoryDirectory) + Send + 'static) -> (MemoryDirectory, Directory) {
    let files = MemoryDirectory::default();
    let database = open_in(in_memory(&files));
    database.put("old", "value").unwrap();
    database.close().unwrap();
    let of_other = files.clone();
    let meanwhile: Meanwhile = Box::new(move || meanwhile(&of_other));
    let late = BeforeLock { files: files.clone(), meanwhile: Mutex::new(Some(meanwhile)) };
    (files, Directory::new(late, Access::Buffered))
}

#[test]
fn what_another_process_puts_after_a_truncation_survives_an_open_that_has_seen_its_mark() {
    let (files, late) = locked_late(|files| {
        let database = open_in(in_memory(files));
        let synced = WriteOptions::default().durability(Durability::Synced);
        database.put_with("new", "value", synced).unwrap();
        database.close().unwrap();
    });
    set_mark(&files);
    let database = open_in(late);
    assert_eq!(keys(&database), [b"new"]);
    database.close().unwrap();
    assert_eq!(keys(&open_in(in_memory(&files))), [b"new"]);
}

#[test]
fn an_open_finds_the_mark_that_another_process_sets_before_the_lock_is_taken() {
    let (files, late) = locked_late(set_mark);
    let database = open_in(late);
    assert_eq!(database.len().unwrap(), 0);
    assert!(!has(&in_memory(&files), TRUNCATED_NAME));
    database.put("new", "value").unwrap();
    database.close().unwrap();
    assert_eq!(keys(&open_in(in_memory(&files))), [b"new"]);
}

#[test]
fn the_mark_of_a_truncation_is_removed_under_the_lock_and_after_the_empty_database_is_created() {
    let files = MemoryDirectory::default();
    let directory = Intercepted::new(files.clone());
    let removals = Arc::new(AtomicUsize::new(0));
    let count = removals.clone();
    directory.set_hook(move |call, name| {
        if call == Call::Remove && name == TRUNCATED_NAME {
            let outcome = in_memory(&files).lock().map(drop);
            assert!(matches!(outcome, Err(siltstone_device::Error::Locked { .. })));
            assert!(has(&in_memory(&files), MANIFEST_NAME));
            count.fetch_add(1, Relaxed);
        }
        Ok(())
    });
    let database = open_in(Directory::new(directory, Access::Buffered));
    database.put("key", "value").unwrap();
    assert_eq!(database.truncate().unwrap().len().unwrap(), 0);
    assert_eq!(removals.load(Relaxed), 1);
}

#[test]
fn a_closed_database_removes_nothing_more_of_what_a_truncation_has_left() {
    let files = MemoryDirectory::default();
    let directory = Intercepted::new(files.clone());
    let removals = Arc::new(AtomicUsize::new(0));
    let count = removals.clone();
    directory.set_hook(move |call, name| {
        if call == Call::Remove && name.starts_with(TRUNCATED_PREFIX) {
            std::thread::sleep(Duration::from_millis(200));
            count.fetch_add(1, Relaxed);
        }
        Ok(())
    });
    let builder = Database::builder("db").background_threads(1);
    let database = builder.open_in(Directory::new(directory, Access::Buffered)).unwrap();
    database.put("key", "value").unwrap();
    database.truncate().unwrap().close().unwrap();
    let removed = removals.load(Relaxed);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(removals.load(Relaxed), removed);
    // What is left the next open removes.
    drop(open_in(in_memory(&files)));
    let names = in_memory(&files).list().unwrap();
    assert!(names.iter().all(|name| !name.starts_with(TRUNCATED_PREFIX)), "{names:?}");
}

#[test]
fn a_truncated_database_keeps_its_change_feed_and_its_present_memory_budget() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let builder = || Database::builder(&path).background_threads(0);
    builder().change_feed(1 << 20).open().unwrap().put("key", "value").unwrap();
    let has_cache = |database: &Database| {
        let stats = database.stats();
        stats.ram.items().iter().any(|(item, _)| *item == "record_cache")
    };
    // Without the feed in the settings of the open: the database keeps it.
    let database = builder().open().unwrap();
    database.set_memory_budget(Some(16 << 20)).unwrap();
    let database = database.truncate().unwrap();
    assert!(has_cache(&database));
    let start = database.change_position().unwrap();
    database.put("key", "value").unwrap();
    assert_eq!(database.changes(start, 10).unwrap().keys, ["key"]);
    let settings = database.stats().settings;
    assert!(
        settings.iter().any(|(name, value)| *name == "change_feed" && value == "1048576"),
        "{settings:?}"
    );
    database.close().unwrap();
    let database = builder().memory_budget(16 << 20).change_feed(0).open().unwrap();
    database.set_memory_budget(None).unwrap();
    let database = database.truncate().unwrap();
    assert!(!has_cache(&database));
    assert!(database.change_position().is_err());
}
