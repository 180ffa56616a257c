//! Changes of a process with an open database: its directory is renamed, the working directory changes, a child is
//! forked, few files may be open. A program of its own, because it changes the state of the whole process.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use siltstone::{Database, Error};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Returns a lock that each test of this program holds: what one of them changes, such as the limit on open files, all
/// of them have.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes, converts and merges, so that files are created, renamed and removed.
fn work(database: &Database, round: u32) {
    for number in 0..2_000u32 {
        database.put(number.to_be_bytes(), (number ^ round).to_be_bytes()).unwrap();
    }
    database.compact().unwrap();
}

fn check(database: &Database, round: u32) {
    for number in (0..2_000u32).step_by(37) {
        let value = database.get(number.to_be_bytes()).unwrap().unwrap();
        assert_eq!(value[..], (number ^ round).to_be_bytes());
    }
    assert!(database.verify().unwrap().damage.is_empty());
}

#[test]
fn a_database_survives_a_change_of_the_working_directory_and_of_its_own_name() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    std::env::set_current_dir(folder.path()).unwrap();
    let database = Database::builder("before").partitions(2).open().unwrap();
    work(&database, 1);
    std::env::set_current_dir("/").unwrap();
    work(&database, 2);
    let [before, after] = ["before", "after"].map(|name| folder.path().join(name));
    std::fs::rename(&before, &after).unwrap();
    // The database ignores what gets its old name.
    std::fs::create_dir(&before).unwrap();
    work(&database, 3);
    database.checkpoint(folder.path().join("copy")).unwrap();
    check(&database, 3);
    database.close().unwrap();
    assert_eq!(std::fs::read_dir(&before).unwrap().count(), 0);
    for path in [after, folder.path().join("copy")] {
        check(&Database::builder(path).create(false).open().unwrap(), 3);
    }
}

/// Returns what a child finds when it tries everything that changes files; 0 if everything was refused correctly.
fn outcome_in_child(database: Database, target: &Path) -> i32 {
    let refused = |outcome: siltstone::Result<()>| matches!(outcome, Err(Error::Forked { .. }));
    let outcomes = [
        database.put("key", "child"),
        database.delete("key"),
        database.insert_if_absent("other", "child").map(drop),
        database.sync(),
        database.step().map(drop),
        database.settle(),
        database.compact(),
        database.checkpoint(target),
        database.set_memory_budget(None),
        database.close(),
    ];
    let reads = matches!(database.get("key"), Ok(Some(value)) if &value[..] == b"parent");
    drop(database);
    i32::from(!(reads && !target.exists() && outcomes.into_iter().all(refused)))
}

#[cfg(target_os = "linux")]
#[test]
fn a_forked_child_that_writes_is_refused_and_does_not_release_the_lock() {
    let _alone = alone();
    for background_threads in [0, 2] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let target = folder.path().join("copy");
        let open = || Database::builder(&path).background_threads(background_threads).open();
        let database = open().unwrap();
        database.put("key", "parent").unwrap();
        database.settle().unwrap();
        // SAFETY: the child uses only this database, which no other thread uses, and the allocator, which the C library
        // makes usable after a fork; it ends by `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let code = outcome_in_child(database, &target);
            // SAFETY: it ends this process without running the code of the parent.
            unsafe { libc::_exit(code) };
        }
        assert!(child > 0);
        let mut status = 0;
        // SAFETY: the process is our child, and `status` is ours.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "status {status:#x}");
        // The child has released neither the lock nor the files.
        assert!(matches!(open(), Err(Error::Locked { .. })));
        database.put("after", "parent").unwrap();
        database.close().unwrap();
        let again = open().unwrap();
        assert_eq!(again.iter().unwrap().count(), 2);
    }
}

/// Returns a detail of the statistics by its name.
fn detail(database: &Database, name: &str) -> u64 {
    database.stats().details.iter().find(|(found, _)| *found == name).unwrap().1 as u64
}

#[test]
fn a_database_of_more_stores_than_may_be_open_is_complete() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let open = || Database::builder(&path).partitions(256).set("log_slots_min", 16).open_files_max(64).open();
    let database = open().unwrap();
    work(&database, 1);
    let before = database.iter().unwrap();
    work(&database, 2);
    // Removed stores that the iterator reads are open in addition.
    assert_eq!(before.filter(|record| record.is_ok()).count(), 2_000);
    assert!(detail(&database, "open_files") <= 64, "{}", detail(&database, "open_files"));
    check(&database, 2);
    database.checkpoint(folder.path().join("copy")).unwrap();
    database.close().unwrap();
    drop(database);
    let database = open().unwrap();
    assert!(detail(&database, "open_files") <= 64 && detail(&database, "sorted_records") == 2_000);
    let keys: Vec<_> = (0..2_000u32).map(u32::to_be_bytes).collect();
    let values = database.get_many(&keys).unwrap();
    assert!((0u32..).zip(values).all(|(number, value)| value.unwrap()[..] == (number ^ 2).to_be_bytes()));
}

#[test]
fn the_limit_on_open_files_is_raised_when_many_are_needed_and_a_low_one_is_refused_before_anything_is_created()
 {
    let _alone = alone();
    let all = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(300), ..all }).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let builder = || Database::builder(&path).partitions(512).set("log_slots_min", 16);
    for refused in [builder().open_files_max(10), builder().open_files_max(u64::MAX)] {
        let error = refused.open().err().unwrap();
        assert!(error.to_string().contains("ulimit -n") && !path.exists(), "{error}");
    }
    assert_eq!(getrlimit(Resource::Nofile).current, Some(300));
    let database = builder().open().unwrap();
    work(&database, 1);
    check(&database, 1);
    assert!(detail(&database, "open_files") > 300);
    assert_eq!(getrlimit(Resource::Nofile).current, all.maximum);
    assert!(builder().open_files(2_000, 8) >= 512);
}
