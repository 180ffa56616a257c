//! Claims about the memory budget.

use crate::engine::Step;
use crate::engine::silt::SiltSettings;
use crate::{Builder, Database, Durability, Error, RamAccount};
use siltstone_device::memory::MemoryDirectory;
use siltstone_device::{Access, Directory, Purpose};
use std::collections::BTreeMap;

const KEYS: u64 = 20_000;

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

fn builder() -> Builder {
    Database::builder("memory").partitions(4).background_threads(0).set("log_slots_min", 256)
}

/// The possible formats of stores.
fn forms() -> Vec<(&'static str, Builder, usize)> {
    forms_of(builder)
}

fn forms_of(builder: impl Fn() -> Builder) -> Vec<(&'static str, Builder, usize)> {
    let fixed = |index| builder().fixed(8, 32).set("index", index);
    vec![
        ("block-perfect", fixed("block_perfect"), 32),
        ("slot-perfect", fixed("slot_perfect"), 32),
        ("fences", fixed("fences"), 32),
        ("entropy trie", fixed("entropy_trie"), 32),
        ("cuckoo tables", fixed("fences").set("hash_store", "cuckoo_table"), 32),
        ("any size", builder().set("filter", "cuckoo_tags"), 150),
        ("filter on the last store", builder().set("filter_last_store", 7), 150),
    ]
}

fn value(number: u64, round: u64, bytes: usize) -> Vec<u8> {
    let mut value = vec![number as u8; bytes];
    value[..8].copy_from_slice(&(number * 3 + round).to_be_bytes());
    value
}

/// The read buffer of the thread of a test, in bytes.
const READ_BUFFER_BYTES: u64 = 4 << 10;

/// Returns the bytes of an account without the read buffers of tests that run at the same time, which it has as well.
fn own_bytes(ram: &RamAccount) -> u64 {
    let read_buffers = ram.items().iter().find(|(name, _)| *name == "read_buffers").unwrap().1;
    ram.total_bytes() - read_buffers + read_buffers.min(READ_BUFFER_BYTES)
}

fn assert_holds(database: &Database, expected: &BTreeMap<u64, Vec<u8>>, what: &str) {
    let keys: Vec<_> = (0..KEYS + 100).step_by(7).collect();
    let found = database.get_many(&keys.iter().map(|&number| key(number)).collect::<Vec<_>>()).unwrap();
    for (number, found) in keys.into_iter().zip(found) {
        assert_eq!(found.as_deref(), expected.get(&number).map(|value| &value[..]), "{what}: {number}");
        let again = database.get(key(number)).unwrap();
        assert_eq!(again, found, "{what}: {number}");
    }
}

/// Fuzz target `simulation`: an index that the budget had left on flash was reported as damaged.
#[test]
fn an_index_that_is_on_flash_for_the_budget_is_not_damaged() {
    for (what, builder, value_bytes) in forms() {
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        let database = builder.open_in(directory).unwrap();
        for number in 0..KEYS {
            database.put(key(number), value(number, 0, value_bytes)).unwrap();
        }
        database.compact().unwrap();
        database.set_memory_budget(Some(530 << 10)).unwrap();
        database.settle().unwrap();
        let report = database.verify().unwrap();
        assert!(report.damage.is_empty(), "{what}: {:?}", report.damage);
    }
}

#[test]
fn memory_stays_within_the_budget_during_all_operations() {
    let budget = 530 << 10;
    for (what, builder, value_bytes) in forms() {
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        let database = builder.memory_budget(budget).open_in(directory).unwrap();
        let mut expected = BTreeMap::new();
        let check = |database: &Database| {
            let stats = database.stats();
            let (now, peak) = (own_bytes(&stats.ram), own_bytes(&stats.ram_peak));
            assert!(now <= budget && peak <= budget, "{what}: {now}, at most {:?}", stats.ram_peak);
        };
        for round in 0..2 {
            for number in 0..KEYS {
                let number = number * 7919 % KEYS;
                if (number + round).is_multiple_of(5) {
                    database.delete(key(number)).unwrap();
                    expected.remove(&number);
                } else {
                    let value = value(number, round, value_bytes);
                    database.put(key(number), &value).unwrap();
                    expected.insert(number, value);
                }
                if number.is_multiple_of(3) {
                    database.get(key(number * 31 % KEYS)).unwrap();
                }
                if number.is_multiple_of(1000) {
                    check(&database);
                }
            }
            assert_holds(&database, &expected, what);
            check(&database);
        }
        database.compact().unwrap();
        assert_holds(&database, &expected, what);
        check(&database);
    }
}

#[test]
fn dropped_pieces_cost_no_results_and_come_back_when_they_fit() {
    let settings = || SiltSettings::default().resident_bytes_max(200);
    let small = || Database::builder("memory").engine(settings()).background_threads(0);
    for (what, builder, value_bytes) in forms_of(|| small().partitions(4).set("log_slots_min", 256)) {
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        let database = builder.open_in(directory.clone()).unwrap();
        let mut expected = BTreeMap::new();
        for number in 0..KEYS {
            let value = value(number, 0, value_bytes);
            database.put(key(number), &value).unwrap();
            expected.insert(number, value);
        }
        database.compact().unwrap();
        for number in (0..KEYS).step_by(7) {
            database.delete(key(number)).unwrap();
            expected.remove(&number);
        }
        database.settle().unwrap();
        let stats = database.stats();
        assert!(stats.degraded.is_empty(), "{what}: {:?}", stats.degraded);
        let whole = stats.ram.total_bytes();
        database.set_memory_budget(Some(530 << 10)).unwrap();
        let stats = database.stats();
        assert!(
            stats.degraded.iter().any(|store| store.index_on_flash || store.filter_on_flash),
            "{what}: {:?}",
            stats.ram
        );
        assert!(stats.details.contains(&("record_cache_records", 0.0)));
        assert_holds(&database, &expected, what);
        let reads = |count: u64, get: &dyn Fn(u64)| {
            let before = directory.io().of(Purpose::Get).reads;
            (0..count).for_each(get);
            (directory.io().of(Purpose::Get).reads - before) as f64 / count as f64
        };
        let get = |number: u64| drop(database.get(key(number * 37 % KEYS)).unwrap());
        let degraded = reads(1000, &get);
        database.set_memory_budget(None).unwrap();
        assert!(!database.stats().degraded.is_empty(), "{what}: reading back is background work");
        while database.step().unwrap() == Step::Worked {}
        assert!(database.stats().degraded.is_empty(), "{what}");
        let resident = reads(1000, &get);
        println!("{what}: {degraded} reads per lookup instead of {resident}, {whole} bytes");
        assert!(resident < 1.1 && degraded > resident, "{what}: {degraded} {resident}");
        assert_holds(&database, &expected, what);
        let details = database.stats().details;
        assert!(details.contains(&("unreadable_sections", 0.0)), "{what}: {details:?}");
    }
}

#[test]
fn an_opened_database_serves_lookups_before_its_indexes_are_read() {
    for (what, builder, value_bytes) in forms() {
        let files = MemoryDirectory::default();
        let open =
            |builder: Builder| builder.open_in(Directory::new(files.clone(), Access::Buffered)).unwrap();
        let mut expected = BTreeMap::new();
        let database = open(builder);
        for number in 0..KEYS {
            let value = value(number, 0, value_bytes);
            database.put(key(number), &value).unwrap();
            expected.insert(number, value);
        }
        database.compact().unwrap();
        (0..2000).for_each(|number| database.put(key(number), &expected[&number]).unwrap());
        database.close().unwrap();
        drop(database);
        let database = open(Database::builder("memory").background_threads(0));
        let index_bytes = || {
            let ram = database.stats().ram;
            let indexes = ram.items().iter().filter(|(item, _)| *item == "sorted_index");
            indexes.map(|(_, bytes)| bytes).sum::<u64>()
        };
        let before = index_bytes();
        // What is still to be read is no loss.
        assert!(database.stats().degraded.is_empty(), "{what}");
        assert_holds(&database, &expected, what);
        database.settle().unwrap();
        assert!(index_bytes() > 2 * before, "{what}: {before} and then {}", index_bytes());
        assert!(database.stats().degraded.is_empty(), "{what}");
        assert_holds(&database, &expected, what);
    }
}

#[test]
fn pieces_in_flight_stay_within_the_budget() {
    let program = std::env::current_exe().unwrap();
    for budget in [530 << 10, 4 << 20] {
        for (what, builder, value_bytes) in forms().into_iter().step_by(6) {
            let folder = tempfile::tempdir_in(program.parent().unwrap()).unwrap();
            let directory = Directory::system(folder.path(), Access::DirectOrBuffered).unwrap();
            let database = builder.memory_budget(budget).open_in(directory).unwrap();
            for number in 0..KEYS {
                database.put(key(number * 7919 % KEYS), value(number, 0, value_bytes)).unwrap();
            }
            database.compact().unwrap();
            let peak = database.stats().ram_peak;
            assert!(own_bytes(&peak) <= budget, "{what}: {peak:?}");
        }
    }
}

#[test]
fn absent_keys_seldom_cost_a_read_with_a_filter_on_the_last_store() {
    for fixed in [true, false] {
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        let builder = builder().set("filter_last_store", 7);
        let builder = if fixed { builder.fixed(8, 32) } else { builder };
        let database = builder.open_in(directory.clone()).unwrap();
        (0..KEYS).for_each(|number| database.put(key(number), value(number, 0, 32)).unwrap());
        database.compact().unwrap();
        let reads = || directory.io().of(Purpose::Get).reads;
        let before = reads();
        for number in KEYS..5 * KEYS {
            assert_eq!(database.get(key(number)).unwrap(), None);
        }
        let reads_per_miss = (reads() - before) as f64 / (4 * KEYS) as f64;
        assert!(reads_per_miss < 0.01, "{reads_per_miss}");
        let ram = database.stats().ram;
        let filter = ram.items().iter().find(|(item, _)| *item == "sorted_filter").unwrap().1;
        assert!((1..KEYS + KEYS / 4).contains(&filter), "{filter}");
    }
}

#[test]
fn repeated_reads_come_from_memory_until_the_record_changes() {
    let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
    let database = builder().memory_budget(8 << 20).open_in(directory.clone()).unwrap();
    (0..KEYS).for_each(|number| database.put(key(number), value(number, 0, 100)).unwrap());
    database.compact().unwrap();
    let reads = || directory.io().of(Purpose::Get).reads;
    let get = |number| database.get(key(number)).unwrap();
    (0..1000).for_each(|number| assert_eq!(get(number).unwrap(), value(number, 0, 100)));
    let before = reads();
    (0..1000).for_each(|number| assert_eq!(get(number).unwrap(), value(number, 0, 100)));
    let many = database.get_many(&(0..1000).map(key).collect::<Vec<_>>()).unwrap();
    assert!(many.iter().all(Option::is_some));
    assert_eq!(reads(), before);
    database.put(key(5), value(5, 1, 100)).unwrap();
    database.delete(key(6)).unwrap();
    let mut batch = crate::Batch::new();
    batch.put(key(7), value(7, 1, 100)).unwrap().delete(key(8)).unwrap();
    database.write(&batch).unwrap();
    for _ in 0..2 {
        assert_eq!((get(5), get(6)), (Some(value(5, 1, 100).into()), None));
        assert_eq!((get(7), get(8)), (Some(value(7, 1, 100).into()), None));
    }
    database.set_memory_budget(None).unwrap();
    assert!(database.stats().details.contains(&("record_cache_records", 0.0)));
    assert_eq!(get(5), Some(value(5, 1, 100).into()));
}

#[test]
fn a_budget_that_is_too_small_is_refused_with_the_minimum() {
    let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
    let refused = builder().memory_budget(10_000).open_in(directory.clone());
    let Err(Error::Setting { name: "memory_budget", problem }) = refused else { panic!("it was taken") };
    assert!(problem.contains("needs 540672 or more"), "{problem}");
    let database = builder().open_in(directory).unwrap();
    assert!(database.set_memory_budget(Some(540_671)).is_err());
    database.set_memory_budget(Some(540_672)).unwrap();
}

/// Threads read and write while the budget goes up and down: a value never goes back.
#[test]
fn no_lookup_returns_a_value_that_was_overwritten_before() {
    let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
    let database = &builder().memory_budget(2 << 20).open_in(directory).unwrap();
    let number_in = |value: &[u8]| u64::from_be_bytes(value[..8].try_into().unwrap());
    std::thread::scope(|scope| {
        for thread in 0..2u64 {
            scope.spawn(move || {
                for round in 1..4000u64 {
                    let number = thread * 8 + round % 8;
                    database.put(key(number), round.to_be_bytes()).unwrap();
                    let found = database.get(key(number)).unwrap().unwrap();
                    assert_eq!(number_in(&found), round);
                    if round % 500 == 0 {
                        let budget = if round % 1000 == 0 { Some(2 << 20) } else { None };
                        database.set_memory_budget(budget).unwrap();
                        while database.step().unwrap() == Step::Worked {}
                    }
                }
            });
            scope.spawn(move || {
                let mut seen = [0; 16];
                for round in 0..20_000u64 {
                    let at = (round % 16) as usize;
                    if let Some(found) = database.get(key(at as u64)).unwrap() {
                        let found = number_in(&found);
                        assert!(found >= seen[at], "{found} after {}", seen[at]);
                        seen[at] = found;
                    }
                }
            });
        }
    });
}

/// Simulations did not terminate: the first missing piece was read back although only a later one fitted.
#[test]
fn a_piece_that_does_not_fit_is_not_read_back_and_dropped_repeatedly() {
    let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
    let open = |resident_bytes_max| {
        let settings = SiltSettings::default().resident_bytes_max(resident_bytes_max).log_slots_min(256);
        let builder = Database::builder("memory").engine(settings).hashed_keys().fixed(8, 32);
        let builder = builder.partitions(2).block_bytes(512).background_threads(0).memory_budget(8 << 20);
        builder.set("index", "fences").open_in(directory.clone()).unwrap()
    };
    let database = open(u64::MAX);
    // Many keys in the first partition, few in the second.
    let few = (0..200u64).map(|number| u64::MAX - (number << 40));
    for key in (0..KEYS).map(|number| number << 45).chain(few) {
        database.put(key.to_be_bytes(), [7; 32]).unwrap();
    }
    database.compact().unwrap();
    database.close().unwrap();
    drop(database);
    let mut steps_to_rest = Vec::new();
    for resident_bytes_max in (0..16).map(|log2| 1 << log2) {
        let database = open(resident_bytes_max);
        let steps = (0..200).take_while(|_| database.step().unwrap() == Step::Worked).count();
        assert!(steps < 200, "with {resident_bytes_max} bytes it never finishes");
        steps_to_rest.push(steps);
    }
    assert!(steps_to_rest.contains(&0) && steps_to_rest.contains(&1), "{steps_to_rest:?}");
}

/// Steps of `settle` after each put: reading pieces back ends when none fits, also where pieces do not all fit.
#[test]
fn settling_after_every_put_takes_no_more_steps_than_there_are_pieces() {
    use crate::batch::{HashedWrite, NEVER};
    use crate::engine::{CommonSettings, EngineSettings, Opening};
    const PUTS: u64 = 3_000;
    for resident_bytes_max in [0, 1_000, 3_000, 10_000, u64::MAX] {
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        let settings = SiltSettings::default().resident_bytes_max(resident_bytes_max).log_slots_min(64);
        let memory_budget = Some(530 << 10);
        let common = CommonSettings { partitions: Some(4), memory_budget, ..CommonSettings::default() };
        let opening = Opening {
            directory,
            common: &common,
            create: true,
            seed: Some([1, 2]),
            now_ms: 0,
            disk: None,
            progress: &mut |_, _| true,
        };
        let engine = settings.open(opening).unwrap();
        let hasher = engine.hasher();
        for number in 0..PUTS {
            let (key, value) = (key(number), value(number, 0, 32));
            let write = HashedWrite::put(hasher.key(&key), &value, NEVER);
            engine.write(&[write], Durability::Buffered, &|| 0).unwrap();
            let (mut steps, stores) = (0, engine.stats().stores.iter().map(|kind| kind.count).sum::<u64>());
            while engine.background().has_work {
                engine.step(0).unwrap();
                steps += 1;
                // Two pieces of each store, a conversion, a merge of some steps, and a commit.
                assert!(
                    steps <= 2 * stores + 10,
                    "{steps} steps, {stores} stores, {resident_bytes_max} bytes"
                );
            }
        }
    }
}
