//! Lookups of missing keys: with `filter_last_store=auto` merges build filters when such lookups are frequent and there
//! is memory for the filters.

use siltstone::{Builder, Database, SiltSettings};
use siltstone_device::memory::MemoryDirectory;
use siltstone_device::{Access, Directory, Purpose};

const KEYS: u64 = 20_000;
const LOOKUPS: u64 = 10_000;

fn builder() -> Builder {
    let settings = SiltSettings::default().log_slots_min(64);
    Database::builder("memory").background_threads(0).fixed(8, 8).partitions(2).engine(settings)
}

fn memory() -> Directory {
    Directory::new(MemoryDirectory::default(), Access::Buffered)
}

fn put(database: &Database, keys: std::ops::Range<u64>) {
    for key in keys {
        database.put(key.to_be_bytes(), key.to_le_bytes()).unwrap();
    }
}

/// Looks up `gets` keys of which one in `one_in` is missing; 0 for none.
fn look_up(database: &Database, gets: u64, one_in: u64) {
    for number in 0..gets {
        let is_missing = one_in > 0 && number % one_in == 0;
        let key = number % KEYS + if is_missing { 1 << 40 } else { 0 };
        assert_eq!(database.contains(key.to_be_bytes()).unwrap(), !is_missing);
    }
}

/// Returns the reads of 1,000 lookups of missing keys.
fn reads_of_missing_keys(database: &Database) -> u64 {
    let reads = || database.stats().io.of(Purpose::Get).reads;
    let before = reads();
    for key in (1_u64 << 41..).take(1_000) {
        assert_eq!(database.get(key.to_be_bytes()).unwrap(), None);
    }
    reads() - before
}

fn bits_of_the_next_filter(database: &Database) -> f64 {
    let details = database.stats().details;
    details.iter().find(|(name, _)| *name == "filter_last_store_bits").unwrap().1
}

#[test]
fn merges_build_filters_once_a_tenth_of_the_lookups_find_nothing() {
    let directory = memory();
    let database = builder().open_in(directory.clone()).unwrap();
    put(&database, 0..KEYS);
    look_up(&database, LOOKUPS, 0);
    database.compact().unwrap();
    assert_eq!(bits_of_the_next_filter(&database), 0.0);
    assert!(reads_of_missing_keys(&database) > 900, "without filters a missing key costs a read");

    look_up(&database, LOOKUPS, 5);
    assert_eq!(bits_of_the_next_filter(&database), 8.0, "stats say it before a merge has built any");
    // Nothing is young: the compaction writes the stores again for their filters alone, and once.
    let merged = || database.stats().io.of(Purpose::Merge).write_bytes;
    let before = merged();
    database.compact().unwrap();
    let written = merged();
    assert!(written > before);
    let reads = reads_of_missing_keys(&database);
    assert!(reads <= 20, "{reads} reads of 1,000 missing keys");
    database.compact().unwrap();
    assert_eq!(merged(), written, "stores that are as the settings say are left alone");
    look_up(&database, LOOKUPS, 5);

    // What an earlier open has counted is known.
    drop(database);
    let database = builder().open_in(directory).unwrap();
    assert_eq!(bits_of_the_next_filter(&database), 8.0);
    // Nothing is missing any more: the next merges leave the filters out.
    look_up(&database, 40 * LOOKUPS, 0);
    look_up(&database, LOOKUPS, 0);
    assert_eq!(bits_of_the_next_filter(&database), 0.0);
    put(&database, 0..KEYS / 10);
    database.compact().unwrap();
    assert!(reads_of_missing_keys(&database) > 900);
}

#[test]
fn a_filter_that_was_not_asked_for_is_not_built_where_its_memory_is_not_left_over() {
    // A filter of 80,000 keys takes 160 KB while it is written, more than a quarter of the lower budget.
    for (budget, is_built) in [(4 << 20, true), (520 << 10, false)] {
        let builder = builder().engine(SiltSettings::default()).memory_budget(budget);
        let database = builder.open_in(memory()).unwrap();
        put(&database, 0..8 * KEYS);
        look_up(&database, LOOKUPS, 2);
        database.compact().unwrap();
        let reads = reads_of_missing_keys(&database);
        assert_eq!(reads < 100, is_built, "{budget} bytes: {reads} reads of 1,000 missing keys");
        let peak = database.stats().ram_peak.total_bytes();
        assert!(peak <= budget, "{peak} of {budget} bytes");
    }
}

#[test]
fn a_number_that_is_set_is_kept_whatever_is_looked_up() {
    for bits in [0, 8] {
        let settings = SiltSettings::default().log_slots_min(64).filter_last_store(Some(bits));
        let database = builder().engine(settings).open_in(memory()).unwrap();
        put(&database, 0..KEYS);
        look_up(&database, LOOKUPS, if bits == 0 { 1 } else { 0 });
        database.compact().unwrap();
        assert_eq!(reads_of_missing_keys(&database) < 100, bits > 0);
    }
}
