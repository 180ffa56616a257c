//! What scans read.

use super::{key, open};
use crate::engine::silt::{HashStoreKind, IndexKind, SiltSettings};
use crate::{Builder, Database};
use siltstone_device::memory::MemoryDirectory;
use siltstone_device::{Directory, Purpose};

const KEYS: u64 = 30_000;
const BLOCK_BYTES: u64 = 4096;

/// A database of 4 partitions with records in every kind of store.
fn loaded(settings: SiltSettings) -> (Database, Directory) {
    let setup = |builder: Builder| builder.engine(settings.log_slots_min(512)).fixed(8, 100).seed([3, 17]);
    let (database, directory) = open(&MemoryDirectory::default(), setup);
    for number in 0..KEYS {
        database.put(key(number), [number as u8; 100]).unwrap();
    }
    database.compact().unwrap();
    for number in 0..KEYS / 5 {
        database.put(key(number * 7), [7; 100]).unwrap();
        assert!(database.step().is_ok());
    }
    (database, directory)
}

/// The number that `read` returns, and the reads of the device and the bytes that it takes.
fn cost(directory: &Directory, read: impl FnOnce() -> u64) -> (u64, u64, u64) {
    let before = directory.io().of(Purpose::Iterate);
    let pages = read();
    let after = directory.io().of(Purpose::Iterate);
    (pages, after.reads - before.reads, after.read_bytes - before.read_bytes)
}

fn scan(database: &Database, limit: usize) -> u64 {
    let (mut pages, mut records, mut next) = (0, 0, Some(0));
    while let Some(position) = next {
        let page = database.scan(position.., limit).unwrap();
        (pages, records, next) = (pages + 1, records + page.records.len() as u64, page.next);
    }
    let expected = KEYS + (0..KEYS / 5).filter(|number| number * 7 >= KEYS).count() as u64;
    assert_eq!(records, expected);
    pages
}

fn stores_per_partition(database: &Database) -> f64 {
    database.stats().details.iter().find(|(name, _)| *name == "hash_stores").unwrap().1 / 4.0 + 1.0
}

/// By index and kind of HashStores: the blocks that a page may read beyond its records, of each store. Where records
/// are in buckets, the bucket of the first record is read, here of 14 blocks in the last store; of a cuckoo table it is
/// the region.
const FORMS: [(IndexKind, HashStoreKind, f64); 4] = [
    (IndexKind::Fences, HashStoreKind::HashOrdered, 3.0),
    (IndexKind::EntropyTrie, HashStoreKind::HashOrdered, 3.0),
    (IndexKind::BlockPerfect, HashStoreKind::HashOrdered, 7.0),
    (IndexKind::SlotPerfect, HashStoreKind::CuckooTable, 15.0),
];

#[test]
fn a_scan_reads_what_an_iteration_reads_and_few_blocks_per_store_and_page() {
    for (index, hash_store, blocks_max) in FORMS {
        let (database, directory) = loaded(SiltSettings::default().index(Some(index)).hash_store(hash_store));
        let stores = stores_per_partition(&database);
        let (_, _, iterated) = cost(&directory, || database.iter().unwrap().count() as u64);
        for limit in [100, 1_000, 10_000] {
            let (pages, _, scanned) = cost(&directory, || scan(&database, limit));
            let blocks = (scanned - iterated) as f64 / BLOCK_BYTES as f64 / pages as f64 / stores;
            assert!(blocks <= blocks_max, "{index:?}, {hash_store:?}, {limit}: {blocks:.2} blocks");
        }
    }
}

/// If the indexes are on flash, a page costs a search in each store.
#[test]
fn a_scan_finds_its_place_also_where_the_indexes_are_on_flash() {
    for (index, hash_store, blocks_max) in FORMS {
        let settings = SiltSettings::default().index(Some(index)).hash_store(hash_store);
        let (database, directory) = loaded(settings.resident_bytes_max(200));
        let in_memory: Vec<_> = (0..20u64).map(|part| database.scan(part << 59.., 3).unwrap()).collect();
        database.set_memory_budget(Some(530 << 10)).unwrap();
        let on_flash = database.stats().degraded.iter().filter(|store| store.index_on_flash).count();
        assert!(on_flash >= 4, "{index:?}: {on_flash} indexes are on flash");
        for (part, expected) in (0..).zip(in_memory) {
            let (_, reads, _) = cost(&directory, || {
                assert!(database.scan(part << 59.., 3).unwrap() == expected, "{index:?}, {part}");
                1
            });
            let reads_max = stores_per_partition(&database) * 4.0 + blocks_max * 2.0;
            assert!(reads as f64 <= reads_max, "{index:?}, {part}: {reads} reads");
        }
    }
}
