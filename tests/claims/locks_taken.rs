//! How many locks operations take: each writes a cache line that the other threads write as well.

use siltstone::{Builder, Database};
use siltstone_device::sync::locks_taken;
use std::collections::BTreeMap;
use std::path::Path;

const KEYS: u64 = 20_000;

/// The locks that an operation takes for each of some keys, after all keys were used once.
struct Taken {
    per_key: f64,
    /// How often each place in the code took one, for all keys.
    places: BTreeMap<String, u64>,
}

impl Taken {
    fn by(mut operation: impl FnMut(u64)) -> Taken {
        (0..KEYS).for_each(&mut operation);
        let mut places = locks_taken(|| (0..KEYS).for_each(&mut operation));
        // Each thread has a stripe of its own.
        places.retain(|place, _| !place.contains("striped.rs"));
        Taken { per_key: places.values().sum::<u64>() as f64 / KEYS as f64, places }
    }

    #[track_caller]
    fn at_most(&self, most: f64, what: &str) {
        assert!(self.per_key <= most, "{what}: {} locks; of {KEYS} keys {:#?}", self.per_key, self.places);
    }
}

/// Names and values of settings.
type Settings<'s> = &'s [(&'s str, &'s str)];

fn open(path: &Path, settings: Settings<'_>) -> Database {
    let builder: Builder = Database::builder(path).background_threads(0).fixed(8, 8);
    settings.iter().fold(builder, |builder, (name, value)| builder.set(*name, *value)).open().unwrap()
}

fn get(database: &Database) -> impl FnMut(u64) {
    let mut value = Vec::new();
    move |key| {
        value.clear();
        database.get_into(key.to_be_bytes(), &mut value).unwrap();
        assert_eq!(value, key.to_le_bytes());
    }
}

/// Small databases of engines whose records are all in files, and how many locks a get and a put of theirs take at
/// most. A put of SILT takes those of the key's stripe, of the partition's writer and state, of the tail of the log and
/// of its file; with a memory budget also, three times, that of the key's shard of the record cache. A put of
/// FlashStore includes moving records to the disk.
const ENGINES: [(Settings<'_>, f64, f64); 5] = [
    (&[("engine", "silt"), ("partitions", "2"), ("log_slots_min", "64")], 0.0, 6.0),
    (&[("engine", "silt"), ("partitions", "2"), ("memory_budget", "16777216")], 0.0, 9.0),
    (&[("engine", "bloomstore"), ("partitions", "2")], 0.0, 6.0),
    // The lock of the key's shard of the index.
    (&[("engine", "flashkey")], 1.0, 10.0),
    // That for the lookup and again for the mark of a use, and sometimes that of what moves to the disk.
    (&FLASHSTORE, 2.1, 12.0),
];

const FLASHSTORE: [(&str, &str); 5] = [
    ("engine", "flashstore"),
    ("disk", "disk"),
    ("disk.engine", "silt"),
    ("flash_bytes", "1048576"),
    ("segment_bytes", "65536"),
];

#[test]
fn gets_of_young_old_and_missing_keys_take_no_lock_but_one_where_the_index_is_written_in_place() {
    for (settings, locks_per_get, locks_per_put) in ENGINES {
        let directory = tempfile::tempdir().unwrap();
        let database = open(&directory.path().join("db"), settings);
        let put = Taken::by(|key| database.put(key.to_be_bytes(), key.to_le_bytes()).unwrap());
        put.at_most(locks_per_put, &format!("{settings:?}, a put"));
        Taken::by(get(&database)).at_most(locks_per_get, &format!("{settings:?}, a get of a young key"));
        database.compact().unwrap();
        Taken::by(get(&database)).at_most(locks_per_get, &format!("{settings:?}, a get of an old key"));
        let missing = Taken::by(|key| assert!(!database.contains((key + KEYS).to_be_bytes()).unwrap()));
        missing.at_most(locks_per_get, &format!("{settings:?}, a get of a missing key"));
    }
}
