//! The cache without a disk: its counters, and its budget for writes.

use super::{SEGMENT_BYTES, key_of};
use crate::{Batch, Database, FlashStoreSettings, Step};
use siltstone_device::memory::MemoryDirectory;
use siltstone_device::{Access, Directory, Purpose};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

fn open(settings: FlashStoreSettings, clock: &Arc<AtomicU64>) -> Database {
    let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
    let settings = settings.segment_bytes(SEGMENT_BYTES).flash_bytes(64 * SEGMENT_BYTES).cache(true);
    let builder = Database::builder("db").engine(settings).background_threads(0).seed([1, 2]);
    builder.simulated_clock(clock.clone()).open_in(directory).unwrap()
}

#[test]
fn with_a_memory_budget_a_rejected_put_is_found_until_the_database_is_closed() {
    let clock = Arc::new(AtomicU64::new(1_000_000));
    let files = MemoryDirectory::default();
    let open = || {
        let settings = FlashStoreSettings::default().write_bytes_per_s(100);
        let settings = settings.segment_bytes(SEGMENT_BYTES).flash_bytes(64 * SEGMENT_BYTES).cache(true);
        let builder = Database::builder("db").engine(settings).background_threads(0).seed([1, 2]);
        let builder = builder.memory_budget(8 << 20).simulated_clock(clock.clone());
        builder.open_in(Directory::new(files.clone(), Access::Buffered)).unwrap()
    };
    let database = open();
    let values: Vec<_> = (0..4_000u32).map(|put| [&put.to_be_bytes()[..], &[0; 92]].concat()).collect();
    for (put, value) in (0u32..).zip(&values) {
        clock.fetch_add(10, Relaxed);
        database.put(key_of(put % 500), value).unwrap();
        work(&database);
        assert_eq!(database.get(key_of(put % 500)).unwrap().as_deref(), Some(&value[..]), "put {put}");
    }
    assert!(detail(&database, "rejected") > 3_000, "{}", detail(&database, "rejected"));
    // An update knows it as well, and a delete removes it.
    assert!(!database.insert_if_absent(key_of(7), "other").unwrap());
    assert_eq!(database.get(key_of(7)).unwrap().as_deref(), Some(&values[3_507][..]));
    database.delete(key_of(7)).unwrap();
    assert_eq!(database.get(key_of(7)).unwrap(), None);
    let mut batch = Batch::new();
    batch.put(key_of(8), "first").unwrap();
    batch.delete(key_of(8)).unwrap();
    batch.put(key_of(9), "first").unwrap();
    batch.put(key_of(9), "second").unwrap();
    database.write(&batch).unwrap();
    assert_eq!(database.get(key_of(8)).unwrap(), None);
    assert_eq!(database.get(key_of(9)).unwrap().as_deref(), Some(&b"second"[..]));
    database.close().unwrap();
    drop(database);
    let database = open();
    let found = (10..500).filter_map(|key| Some((key, database.get(key_of(key)).unwrap()?)));
    let found = found.inspect(|(key, value)| assert_eq!(*value, values[3_500 + *key as usize])).count();
    assert!(found < 250, "{found}");
}

fn work(database: &Database) {
    while database.step().unwrap() == Step::Worked {}
}

fn detail(database: &Database, name: &str) -> u64 {
    let details = database.stats().details;
    details.iter().find(|(other, _)| *other == name).unwrap().1 as u64
}

#[test]
fn hits_misses_and_records_that_have_left_are_counted() {
    let database = open(FlashStoreSettings::default(), &Arc::default());
    for key in 0..4_000 {
        database.put(key_of(key), [1; 100]).unwrap();
        work(&database);
    }
    let mut found = 0;
    for key in 0..2_000 {
        found += u64::from(database.contains(key_of(2 * key)).unwrap());
    }
    let keys: Vec<_> = (0..2_000).map(|key| key_of(2 * key + 1)).collect();
    found += database.get_many(&keys).unwrap().iter().flatten().count() as u64;
    assert_eq!(detail(&database, "flash_hits"), found);
    assert_eq!(detail(&database, "flash_misses"), 4_000 - found);
    assert_eq!(detail(&database, "left"), 4_000 - found);
    assert_eq!((detail(&database, "promoted"), detail(&database, "rejected")), (0, 0));
    assert!((1_000..3_000).contains(&found), "{found}");
}

#[test]
fn a_cache_writes_no_more_than_its_budget_and_a_rejected_put_leaves_no_older_value() {
    let seconds = 300u64;
    let run = |write_bytes_per_s: u64| {
        let clock = Arc::new(AtomicU64::new(1_000_000));
        let database = open(FlashStoreSettings::default().write_bytes_per_s(write_bytes_per_s), &clock);
        let mut random = fastrand::Rng::with_seed(3);
        let (mut found, mut written) = (0, 0);
        for put in 0..100 * seconds {
            if put == 100 * seconds / 2 {
                written = database.stats().io.total().write_bytes;
            }
            clock.fetch_add(10, Relaxed);
            // Half of the puts are of a tenth of the keys.
            let key = if random.bool() { random.u32(..400) } else { random.u32(..4_000) };
            database.put(key_of(key), [&put.to_be_bytes()[..], &[0; 92]].concat()).unwrap();
            if let Some(value) = database.get(key_of(key)).unwrap() {
                assert_eq!(value[..8], put.to_be_bytes());
                found += 1;
            }
            work(&database);
        }
        let written = database.stats().io.total().write_bytes - written;
        let rejected = detail(&database, "rejected");
        assert_eq!(found + rejected, 100 * seconds);
        (written as f64 / (seconds / 2) as f64, rejected)
    };
    let (unlimited, rejected) = run(0);
    assert_eq!(rejected, 0);
    assert!(unlimited > 12_000.0, "{unlimited}");
    for share in [0.3, 0.6] {
        let budget = share * unlimited;
        let (rate, rejected) = run(budget as u64);
        assert!((0.9..1.05).contains(&(rate / budget)), "{rate} of {budget}");
        assert!(rejected > 100 * seconds / 10);
    }
    assert_eq!(run(2 * unlimited as u64).1, 0);
}

#[test]
fn a_rejected_put_removes_the_entry_of_its_key_at_once_and_writes_one_tombstone() {
    const KEYS: u32 = 2_000;
    let clock = Arc::new(AtomicU64::new(1_000_000));
    let database = open(FlashStoreSettings::default().write_bytes_per_s(1), &clock);
    // Admitted: the budget is not exceeded yet.
    (0..KEYS).for_each(|key| database.put(key_of(key), [1; 100]).unwrap());
    assert_eq!((database.stats().records, detail(&database, "rejected")), (u64::from(KEYS), 0));
    // As the budget is, no put is admitted now but one in 4,096.
    for _ in 0..200 {
        clock.fetch_add(1_000, Relaxed);
        database.put("other", [1; 100]).unwrap();
    }
    let put_all = || {
        let before = detail(&database, "rejected");
        (0..KEYS).for_each(|key| database.put(key_of(key), [2; 100]).unwrap());
        assert!(detail(&database, "rejected") - before >= u64::from(KEYS) - 10);
        (database.stats().records, detail(&database, "log_bytes"))
    };
    let (records, log_bytes) = put_all();
    assert!(records < 20, "{records}");
    assert!(put_all().1.abs_diff(log_bytes) < 2_000, "{log_bytes}");
    let is_absent = |key| database.get(key_of(key)).unwrap().is_none_or(|value| value[..] == [2; 100]);
    assert!((0..KEYS).all(is_absent));
}

#[test]
fn a_delete_beyond_the_budget_for_writes_is_written_where_a_record_may_come_back() {
    let clock = Arc::new(AtomicU64::new(1_000_000));
    let files = MemoryDirectory::default();
    let open = || {
        let settings = FlashStoreSettings::default().write_bytes_per_s(100);
        let settings = settings.segment_bytes(SEGMENT_BYTES).flash_bytes(64 * SEGMENT_BYTES).cache(true);
        let builder = Database::builder("db").engine(settings).background_threads(0).seed([1, 2]);
        let directory = Directory::new(files.clone(), Access::Buffered);
        builder.simulated_clock(clock.clone()).open_in(directory).unwrap()
    };
    open().close().unwrap();
    // After an open, the removal of any record may not be durable.
    let database = open();
    for number in 0..4_000 {
        clock.fetch_add(10, Relaxed);
        database.put(key_of(number), [1; 100]).unwrap();
        work(&database);
    }
    let rejected = detail(&database, "rejected");
    assert!(rejected > 500, "{rejected}");
    let written = || database.stats().io.of(Purpose::Log).write_bytes;
    let before = written();
    database.delete(key_of(100_000)).unwrap();
    assert!(written() > before, "there is no tombstone");
}
