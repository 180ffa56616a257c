//! Claims about opening, closing and what they leave behind.

use super::*;
use crate::device::Directory;
use crate::device::memory::MemoryDirectory;
use crate::device::system::synced;
use crate::{Access, Change};

#[test]
fn a_new_database_and_a_checkpoint_are_synced_by_name() {
    let folder = tempfile::tempdir().unwrap();
    synced::forget();
    let database = Database::builder(folder.path().join("above/db")).open().unwrap();
    for path in [folder.path().to_owned(), folder.path().join("above"), folder.path().join("above/db")] {
        assert!(synced::has(&path), "{}", path.display());
    }
    database.put("key", "value").unwrap();
    synced::forget();
    database.checkpoint(folder.path().join("copies/one")).unwrap();
    for path in [folder.path().to_owned(), folder.path().join("copies"), folder.path().join("copies/one")] {
        assert!(synced::has(&path), "{}", path.display());
    }
}

#[test]
fn settings_that_are_refused_leave_no_directory_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("above/db");
    let builder = || Database::builder(&path);
    let refused = [
        builder().partitions(3),
        builder().block_bytes(1000),
        builder().fixed(0, 8),
        builder().memory_budget(1000),
        builder().memory_budget(300 << 10),
        builder().merge_ratio(-1.0),
        builder().engine(EngineKind::Mica).memory_budget(1000),
        builder().create(false),
        builder().read_only(true),
    ];
    for builder in refused {
        let error = builder.open().err().unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{error}");
    }
    drop(builder().open().unwrap());
}

#[test]
fn a_directory_of_others_is_refused_without_a_file_left_there() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("letter.txt"), "dear").unwrap();
    for builder in [
        Database::builder(folder.path()),
        Database::builder(folder.path()).engine(EngineKind::Mica),
        Database::builder(folder.path()).create(false),
        Database::builder(folder.path()).read_only(true),
    ] {
        assert!(matches!(builder.open(), Err(Error::NotADatabase { .. })));
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn close_gives_the_directory_back_though_other_handles_are_alive() {
    let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
    let open = || Database::builder("memory").open_in(directory.clone());
    let first = open().unwrap();
    let clone = first.clone();
    first.put("key", "value").unwrap();
    assert!(matches!(open(), Err(Error::Locked { .. })));
    clone.close().unwrap();
    let second = open().unwrap();
    assert_eq!(second.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    for handle in [&first, &clone] {
        let outcomes = [
            handle.put("key", "other"),
            handle.delete("key"),
            handle.update("key", |_| Ok(Change::Delete)),
            handle.sync(),
            handle.step().map(drop),
            handle.settle(),
            handle.compact(),
            handle.get("key").map(drop),
        ];
        for outcome in outcomes {
            assert!(matches!(outcome, Err(Error::Closed)), "{outcome:?}");
        }
        handle.close().unwrap();
    }
    // Handles of the first database no longer have a part in the lock.
    drop((first, clone));
    assert!(matches!(open(), Err(Error::Locked { .. })));
    drop(second);
    drop(open().unwrap());
}

#[test]
fn close_waits_for_the_writes_under_way() {
    let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
    let mut acknowledged = 0u64;
    for _ in 0..20 {
        let database = Database::builder("memory").background_threads(1).open_in(directory.clone()).unwrap();
        let writer = database.clone();
        let (started, wait) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            (acknowledged..).find(|number| {
                let outcome = writer.put(number.to_le_bytes(), "value");
                let _ = started.send(());
                outcome.is_err()
            })
        });
        wait.recv().unwrap();
        database.close().unwrap();
        // The next one reads what the log holds, while the thread may still try to write.
        let next = Database::builder("memory").open_in(directory.clone()).unwrap();
        acknowledged = thread.join().unwrap().unwrap();
        let missing = (0..acknowledged).filter(|number| !next.contains(number.to_le_bytes()).unwrap());
        assert_eq!(missing.count(), 0);
        assert!(next.verify(&mut |_, _| true).unwrap().damage.is_empty());
        next.close().unwrap();
    }
}
