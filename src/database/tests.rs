//! Claims about an open and a close, and what they leave behind.

use super::*;
use crate::engine::EngineKind;
use crate::engine::mica::MicaSettings;
use crate::key::HASHES;
use crate::{Access, Change};
use siltstone_device::Directory;
use siltstone_device::memory::MemoryDirectory;
use siltstone_device::system::synced;

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
        builder().memory_budget(500 << 10),
        builder().set("merge_ratio", -1.0),
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
fn a_directory_with_other_files_is_refused_and_not_changed() {
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
fn close_unlocks_the_directory_even_if_other_handles_exist() {
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
    // Handles of the first database do not hold the lock any more.
    drop((first, clone));
    assert!(matches!(open(), Err(Error::Locked { .. })));
    drop(second);
    drop(open().unwrap());
}

#[test]
fn close_waits_for_running_writes() {
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
        // The new database reads the log while the thread may still try to write.
        let next = Database::builder("memory").open_in(directory.clone()).unwrap();
        acknowledged = thread.join().unwrap().unwrap();
        let missing = (0..acknowledged).filter(|number| !next.contains(number.to_le_bytes()).unwrap());
        assert_eq!(missing.count(), 0);
        assert!(next.verify().unwrap().damage.is_empty());
        next.close().unwrap();
    }
}

#[test]
fn a_database_that_never_held_a_record_can_change_its_format() {
    let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
    let builder = || Database::builder("memory");
    let first = builder().fixed(3, 3).hashed_keys().open_in(directory.clone());
    assert!(first.is_err(), "keys of 3 bytes are not hashes");
    let first = builder().fixed(9, 3).hashed_keys().open_in(directory.clone()).unwrap();
    assert!(matches!(first.put("a", "b"), Err(Error::RecordSize { .. })));
    first.sync().unwrap();
    first.close().unwrap();
    // With `create(false)` the directory is not changed.
    let asked = || builder().fixed(1, 1).partitions(4).block_bytes(512);
    assert!(matches!(asked().create(false).open_in(directory.clone()), Err(Error::Setting { .. })));
    let second = asked().open_in(directory.clone()).unwrap();
    second.put("a", "b").unwrap();
    second.delete("a").unwrap();
    second.close().unwrap();
    let third = builder().fixed(2, 2).open_in(directory.clone());
    assert!(matches!(third, Err(Error::Setting { name: "fixed", .. })));
    let third = builder().open_in(directory).unwrap();
    third.put("a", "c").unwrap();
    assert_eq!(third.get("a").unwrap().as_deref(), Some(&b"c"[..]));
    assert!(third.verify().unwrap().damage.is_empty());
}

#[test]
fn settings_that_cannot_take_effect_are_errors_that_name_them() {
    let memory = |builder: Builder| {
        builder.background_threads(0).open_in(Directory::new(MemoryDirectory::default(), Access::Buffered))
    };
    let silt = || Database::builder("memory");
    let mica = || silt().engine(EngineKind::Mica);
    let cuckoo = || silt().fixed(8, 8).set("hash_store", "cuckoo_table");
    let of_mica = |settings: MicaSettings| silt().engine(settings);
    let refused = [
        ("index", silt().set("index", "block_perfect")),
        ("index", silt().set("index", "slot_perfect")),
        ("index", silt().set("index", "entropy_trie")),
        ("index", silt().set("index", "block_perfect").fixed(8, 3000)),
        ("index", silt().set("index", "slot_perfect").fixed(8, 5000)),
        ("index", silt().set("index", "entropy_trie").fixed(8, 600).block_bytes(512)),
        ("hash_store", silt().set("hash_store", "cuckoo_table")),
        ("hash_store", cuckoo().fixed(8, 5000)),
        ("filter", cuckoo().set("filter", "ribbon")),
        ("filter_bits", cuckoo().set("filter_bits", 9)),
        ("filter_bits", silt().set("filter", "cuckoo_tags").set("filter_bits", 9)),
        ("block_bytes", mica().block_bytes(4096)),
        ("open_files_max", mica().open_files_max(100)),
        ("access", mica().access(Access::Direct)),
        ("verify_checksums", mica().verify_checksums(false)),
        ("record_bytes", of_mica(MicaSettings::default().record_bytes(100)).fixed(8, 8)),
    ];
    for (setting, builder) in refused {
        match memory(builder) {
            Err(Error::Setting { name, problem }) => {
                assert_eq!(name, setting, "{problem}");
                assert!(problem.contains("leave"), "it names the remedy: {problem}");
            }
            outcome => panic!("{setting}: {:?}", outcome.err()),
        }
    }
    // An existing database keeps its format, which later settings must match.
    let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
    let database = silt().background_threads(0).open_in(directory.clone()).unwrap();
    database.put("key", "value").unwrap();
    drop(database);
    let outcome = silt().set("index", "slot_perfect").open_in(directory);
    assert!(matches!(outcome.err(), Some(Error::Setting { name: "index", .. })));
    for builder in [
        silt().fixed(8, 8).set("index", "slot_perfect"),
        cuckoo().set("filter", "cuckoo_tags"),
        of_mica(MicaSettings::default().record_bytes(16)).fixed(8, 8),
    ] {
        memory(builder).unwrap();
    }
}

/// With and without a record cache, wherever the key is stored.
#[test]
fn an_operation_hashes_each_of_its_keys_once() {
    for (engine, budget) in
        [(EngineKind::Silt, None), (EngineKind::Silt, Some(64 << 20)), (EngineKind::Mica, None)]
    {
        let builder = Database::builder("memory").engine(engine).partitions(4).background_threads(0);
        let builder = if let Some(bytes) = budget { builder.memory_budget(bytes) } else { builder };
        let database = builder.open_in(Directory::new(MemoryDirectory::default(), Access::Buffered)).unwrap();
        let hashes = |name: &str, keys: u64, work: &mut dyn FnMut() -> Result<()>| {
            let before = HASHES.get();
            work().unwrap();
            assert_eq!(HASHES.get() - before, keys, "{engine:?}, budget {budget:?}: {name}");
        };
        for _ in 0..2 {
            hashes("put", 1, &mut || database.put("a", "1"));
            hashes("get", 1, &mut || database.get("a").map(drop));
            hashes("get again", 1, &mut || database.get("a").map(drop));
            hashes("update", 1, &mut || database.update("a", |_| Ok(Change::Delete)));
            hashes("insert_if_absent", 1, &mut || database.insert_if_absent("a", "2").map(drop));
            hashes("remove", 1, &mut || database.remove("a").map(drop));
            hashes("delete", 1, &mut || database.delete("a"));
            let mut batch = Batch::new();
            batch.put("a", "3").unwrap().put("b", "3").unwrap().delete("c").unwrap();
            hashes("write", 3, &mut || database.write(&batch));
            hashes("get_many", 3, &mut || database.get_many(&["a", "b", "c"]).map(drop));
            let records = [("a", "4"), ("b", "4"), ("c", "4")];
            hashes("insert_many_if_absent", 3, &mut || database.insert_many_if_absent(&records).map(drop));
            database.compact().unwrap();
        }
    }
}
