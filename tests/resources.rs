//! Databases that share threads, memory and open files. A program of its own, because it counts the threads of the
//! process.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use siltstone::{Database, EngineKind, Error, FlashKeySettings, Resources, SiltSettings};
use std::sync::Mutex;

/// Held by each test, since one counts the threads of the process.
static THREADS: Mutex<()> = Mutex::new(());

/// Returns how many threads of this process belong to resources.
#[cfg(target_os = "linux")]
fn shared_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let name =
        |task: std::io::Result<std::fs::DirEntry>| std::fs::read_to_string(task.unwrap().path().join("comm"));
    tasks.filter_map(|task| name(task).ok()).filter(|name| name.starts_with("siltstone-")).count()
}

#[cfg(target_os = "linux")]
#[test]
fn a_hundred_databases_have_four_threads_that_do_the_work_of_all() {
    let _alone = THREADS.lock();
    let directory = tempfile::tempdir().unwrap();
    let resources = Resources::new(100, 4).unwrap().memory_budget(100 << 20).open_files_max(6_400);
    let open = |number: usize| {
        let builder = Database::builder(directory.path().join(number.to_string())).partitions(1);
        let builder = match number % 2 {
            0 => builder.engine(SiltSettings::default().log_slots_min(64)),
            _ => builder.engine(FlashKeySettings::default()),
        };
        builder.resources(&resources).open()
    };
    let databases: Vec<Database> = (0..100).map(|number| open(number).unwrap()).collect();
    assert_eq!(shared_threads(), 4);
    assert!(matches!(open(100), Err(Error::Setting { name: "resources", .. })));
    for (number, database) in databases.iter().enumerate() {
        for key in 0..200u32 {
            database.put(key.to_be_bytes(), number.to_be_bytes()).unwrap();
        }
    }
    for (number, database) in databases.iter().enumerate() {
        match number % 12 {
            0 => database.compact().unwrap(),
            1 => database.settle().unwrap(),
            _ => {}
        }
        assert_eq!(database.get(7u32.to_be_bytes()).unwrap().unwrap(), &number.to_be_bytes()[..]);
        assert!(database.stats().ram.total_bytes() <= 1 << 20, "a share of a hundredth");
        if number % 12 == 0 {
            assert_eq!(database.stats().merged_records, 200);
        }
    }
    // A place is free again.
    databases[17].close().unwrap();
    let again = open(17).unwrap();
    assert_eq!(again.iter().unwrap().count(), 200);
    // The databases keep the threads.
    drop(resources);
    again.compact().unwrap();
    drop((again, databases));
    assert_eq!(shared_threads(), 0);
}

#[test]
fn settings_that_contradict_shared_resources_are_refused() {
    let _alone = THREADS.lock();
    let directory = tempfile::tempdir().unwrap();
    assert!(matches!(Resources::new(0, 1), Err(Error::Setting { name: "databases", .. })));
    assert!(matches!(Resources::new(1, 0), Err(Error::Setting { name: "threads", .. })));
    let path = directory.path().join("db");
    let resources = Resources::new(10, 1).unwrap().memory_budget(100 << 20);
    let both = Database::builder(&path).resources(&resources).memory_budget(1 << 20).open();
    assert!(matches!(both, Err(Error::Setting { name: "memory_budget", .. })));
    let few = Resources::new(10, 1).unwrap().open_files_max(100);
    let opened = Database::builder(&path).resources(&few).open();
    assert!(matches!(opened, Err(Error::Setting { name: "open_files_max", .. })));
    assert!(!path.exists());
    let mica = Database::builder(&path).engine(EngineKind::Mica).resources(&resources).open().unwrap();
    mica.put("key", "value").unwrap();
    assert!(format!("{resources:?}").contains("databases: 10"));
}
