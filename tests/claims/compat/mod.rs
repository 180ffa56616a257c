//! Databases written by earlier versions: `fixtures/databases/` has complete ones, with a log, every kind of store,
//! every index and every filter. A copy of each is opened, read, written and merged.
//!
//! `SILTSTONE_BLESS=1` writes a database that is missing. An existing one is never overwritten: it must remain what the
//! program of its time wrote.

mod bloomstore;
mod flashkey;
mod flashstore;

use siltstone::batch::NEVER;
use siltstone::engine::silt::live::{Manifest, Role};
use siltstone::key::KeyHasher;
use siltstone::store::StoreFile;
use siltstone::{
    Batch, Builder, Database, Durability, Error, FilterKind, HashStoreKind, IndexKind, SiltSettings,
    WriteOptions,
};
use siltstone_device::{Access, Directory};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const SEED: [u64; 2] = [0x5117, 0x570e];
const PARTITIONS: u32 = 4;
/// In the far past, and in the far future, in milliseconds since the Unix epoch.
const PAST: u64 = 1;
const FUTURE: u64 = 1 << 50;

/// A database of `fixtures/databases/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Golden {
    name: &'static str,
    fixed: bool,
}

const ALL: [Golden; 2] =
    [Golden { name: "v1-fixed", fixed: true }, Golden { name: "v1-variable", fixed: false }];

/// A put of a version of a value, or a delete.
#[derive(Debug, Clone, Copy)]
enum Operation {
    Put { number: u32, version: u32, expires_at_ms: u64 },
    Delete { number: u32 },
}

/// The work between opening a database and closing it.
struct Session {
    stores: Stores,
    operations: Vec<Operation>,
    /// Whether queued conversions and merges are executed at the end.
    settle: bool,
}

/// The stores that a session makes.
#[derive(Debug, Clone, Copy)]
enum Stores {
    /// SortedStores: HashStores are merged as soon as they have any records.
    Sorted(IndexKind),
    /// HashStores, which are not merged.
    Hash(HashStoreKind, FilterKind),
}

impl Golden {
    fn key(self, number: u32) -> Vec<u8> {
        let key = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().repeat(5);
        let length = if self.fixed { 8 } else { 4 + number as usize % 37 };
        [&number.to_be_bytes()[..], &key].concat()[..length].to_vec()
    }

    fn value(self, number: u32, version: u32) -> Vec<u8> {
        let length = match number + version {
            _ if self.fixed => 12,
            sum if sum % 40 == 7 => 1_300,
            sum => sum as usize * 11 % 120,
        };
        (0..length as u32).map(|at| (number * 7 + version * 31 + at) as u8).collect()
    }

    fn builder(self, path: &Path, stores: Stores) -> Builder {
        let builder = Database::builder(path).seed(SEED).partitions(PARTITIONS).block_bytes(512);
        let settings = match stores {
            Stores::Sorted(index) => {
                let settings = SiltSettings::default().merge_ratio(0.01).log_slots_min(16);
                settings.index(Some(index))
            }
            Stores::Hash(kind, filter) => {
                let settings = SiltSettings::default().merge_ratio(10.0).log_slots_min(64);
                settings.hash_store(kind).filter(filter)
            }
        };
        let builder = builder.engine(settings).background_threads(0);
        if self.fixed { builder.fixed(8, 12) } else { builder }
    }

    /// Returns the first `count` numbers, from `from` on, whose keys are in this partition.
    fn of_partition(self, partition: usize, from: u32, count: usize) -> Vec<u32> {
        let hasher = KeyHasher::Keyed(SEED);
        let own = |number: &u32| hasher.hash(&self.key(*number)).partition(PARTITIONS.ilog2()) == partition;
        (from..).filter(own).take(count).collect()
    }

    /// Returns the sessions that made it: one per kind of store, index and filter, and a last one for the log.
    fn sessions(self) -> Vec<Session> {
        let put = |version| move |number| Operation::Put { number, version, expires_at_ms: NEVER };
        let puts = |numbers: Vec<u32>, version| numbers.into_iter().map(put(version)).collect::<Vec<_>>();
        let deletes = |numbers: Vec<u32>| numbers.into_iter().map(|number| Operation::Delete { number });
        let of = |partition, from, count| self.of_partition(partition, from, count);
        // Tries, perfect indexes and cuckoo tables are for records of a fixed size.
        let table = if self.fixed { HashStoreKind::CuckooTable } else { HashStoreKind::HashOrdered };
        let sorted = |index| Stores::Sorted(if self.fixed { index } else { IndexKind::Fences });
        let cuckoo_table = Stores::Hash(table, FilterKind::CuckooTags);
        let ribbon = Stores::Hash(HashStoreKind::HashOrdered, FilterKind::Ribbon);
        let cuckoo_tags = Stores::Hash(HashStoreKind::HashOrdered, FilterKind::CuckooTags);
        let mut expiring = Vec::new();
        if !self.fixed {
            expiring.push(Operation::Put { number: 60, version: 7, expires_at_ms: PAST });
            expiring.push(Operation::Put { number: 61, version: 7, expires_at_ms: FUTURE });
        }
        let sessions = [
            (sorted(IndexKind::EntropyTrie), puts((0..300).collect(), 1)),
            (sorted(IndexKind::Fences), puts(of(1, 100, 80), 2)),
            (sorted(IndexKind::BlockPerfect), puts(of(2, 100, 80), 3)),
            (cuckoo_table, puts(of(0, 150, 90), 4)),
            (ribbon, puts(of(3, 150, 90), 5).into_iter().chain(deletes(of(3, 0, 10))).collect()),
            (cuckoo_tags, deletes(of(0, 0, 30)).chain(puts(of(0, 400, 60), 6)).collect()),
            (
                ribbon,
                puts((40..48).collect(), 7)
                    .into_iter()
                    .chain(deletes(vec![48, 49]))
                    .chain(expiring)
                    .collect(),
            ),
        ];
        let last = sessions.len() - 1;
        let session = |(number, (stores, operations))| Session { stores, operations, settle: number < last };
        sessions.into_iter().enumerate().map(session).collect()
    }

    /// Returns its contents: the value and the expiry time of each key.
    fn contents(self) -> BTreeMap<Vec<u8>, (Vec<u8>, u64)> {
        let mut contents = BTreeMap::new();
        for operation in self.sessions().into_iter().flat_map(|session| session.operations) {
            match operation {
                Operation::Put { number, version, expires_at_ms } if expires_at_ms != PAST => {
                    contents.insert(self.key(number), (self.value(number, version), expires_at_ms));
                }
                Operation::Put { number, .. } | Operation::Delete { number } => {
                    contents.remove(&self.key(number));
                }
            }
        }
        contents
    }

    fn write(self, path: &Path) -> siltstone::Result<()> {
        for Session { stores, operations, settle } in self.sessions() {
            let database = self.builder(path, stores).open()?;
            for operation in operations {
                match operation {
                    Operation::Put { number, version, expires_at_ms } => database.put_with(
                        self.key(number),
                        self.value(number, version),
                        WriteOptions::default().expires_at_ms(expires_at_ms),
                    )?,
                    Operation::Delete { number } => database.delete(self.key(number))?,
                }
            }
            if settle {
                database.settle()?;
            }
            database.close()?;
        }
        fs::remove_file(path.join("LOCK")).map_err(|error| panic!("{error}"))
    }

    /// Returns a copy of the fixture, which may be changed.
    fn copy(self) -> TempDir {
        copy_of(&fixture(self.name, |path| self.write(path).unwrap()))
    }
}

/// Returns the directory of a fixture. Where it is missing, `write` makes it in an empty place, if that is asked for.
fn fixture(name: &str, write: impl FnOnce(&Path)) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/databases").join(name);
    if !path.exists() && std::env::var_os("SILTSTONE_BLESS").is_some() {
        // Written to another directory first, since other tests may read it at the same time.
        let beside = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let written = beside.path().join("db");
        write(&written);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let _another_was_faster = fs::rename(written, &path);
    }
    path
}

/// Returns a copy of a directory with those in it.
fn copy_of(directory: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    copy_files(directory, copy.path());
    copy
}

/// Copies the files of a database that may be open, without its locks.
fn copy_files(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_files(&entry.path(), &to);
        } else if entry.file_name() != "LOCK" {
            fs::write(to, fs::read(entry.path()).unwrap()).unwrap();
        }
    }
}

fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    entries.map(|path| (name(&path), fs::read(&path).unwrap())).collect()
}

/// Opens a database without knowledge of its settings.
fn open(path: &Path) -> siltstone::Result<Database> {
    Database::builder(path).create(false).background_threads(0).open()
}

fn check(golden: Golden, database: &Database, expected: &BTreeMap<Vec<u8>, (Vec<u8>, u64)>) {
    for number in 0..1_000 {
        let found = database.get_found(golden.key(number)).unwrap();
        let found = found.map(|found| (found.value.to_vec(), found.expires_at_ms));
        assert_eq!(found.as_ref(), expected.get(&golden.key(number)), "{}, key {number}", golden.name);
    }
    let records = database.iter().unwrap().map(Result::unwrap);
    let records = records.map(|record| (record.key.to_vec(), (record.value.to_vec(), record.expires_at_ms)));
    assert_eq!(&records.collect::<BTreeMap<_, _>>(), expected, "{}", golden.name);
}

#[test]
fn a_database_of_an_earlier_version_has_all_records() {
    for golden in ALL {
        let copy = golden.copy();
        let database = open(copy.path()).unwrap();
        check(golden, &database, &golden.contents());
        let report = database.verify().unwrap();
        assert!(report.damage.is_empty() && report.checked_records > 300, "{}: {report:?}", golden.name);
        assert_eq!(database.stats().lost_tail_bytes, 0);
    }
}

#[test]
fn a_database_of_an_earlier_version_can_be_written_merged_and_opened_again() {
    for golden in ALL {
        let (copy, mut expected) = (golden.copy(), golden.contents());
        let database = open(copy.path()).unwrap();
        let mut batch = Batch::new();
        for number in (0..600).step_by(3) {
            batch.put(golden.key(number), golden.value(number, 9)).unwrap();
            expected.insert(golden.key(number), (golden.value(number, 9), NEVER));
        }
        for number in (1..600).step_by(9) {
            batch.delete(golden.key(number)).unwrap();
            expected.remove(&golden.key(number));
        }
        database.write_with(&batch, WriteOptions::default().durability(Durability::Synced)).unwrap();
        check(golden, &database, &expected);
        database.close().unwrap();
        drop(database);
        let database = open(copy.path()).unwrap();
        database.compact().unwrap();
        check(golden, &database, &expected);
        assert_eq!(database.stats().merged_records, expected.len() as u64);
        drop(database);
        check(golden, &open(copy.path()).unwrap(), &expected);
    }
}

#[test]
fn the_databases_have_every_kind_of_store_index_and_filter() {
    for golden in ALL {
        let copy = golden.copy();
        let directory = Directory::system(copy.path(), Access::Buffered).unwrap();
        let mut kinds = BTreeSet::new();
        for store in Manifest::open(&directory).unwrap().partitions().iter().flat_map(|entry| &entry.stores) {
            let end = if store.role == Role::Sorted { "sorted" } else { "hash" };
            let file =
                StoreFile::open(&directory, &format!("{:08x}.{end}", store.number), store.tag).unwrap();
            let footer = file.footer();
            if footer.records > 10 {
                kinds.insert((store.role as u8, footer.kind, footer.index.kind, footer.filter.kind));
            }
        }
        // The codes of docs/formats/store_file.md and manifest.md: part, kind, index, filter.
        let expected: &[_] = match golden.fixed {
            true => &[(1, 5, 0, 1), (2, 1, 2, 1), (2, 1, 2, 2), (3, 2, 1, 0), (3, 2, 2, 0), (3, 2, 4, 0)],
            false => &[(2, 1, 2, 1), (2, 1, 2, 2), (3, 1, 2, 0)],
        };
        assert_eq!(kinds.into_iter().collect::<Vec<_>>(), expected, "{}", golden.name);
        let database = open(copy.path()).unwrap();
        assert!(database.stats().replayed_records > 10, "{}", golden.name);
    }
}

#[test]
fn a_database_of_a_later_version_is_refused_by_its_number_and_unchanged() {
    let later = 2u32;
    for golden in ALL {
        let file_kinds = ["MANIFEST", ".hash", ".sorted", "log-"];
        for kind in file_kinds {
            let copy = golden.copy();
            let name = files(copy.path()).into_keys().find(|name| name.contains(kind)).unwrap();
            let mut bytes = fs::read(copy.path().join(&name)).unwrap();
            // Every file begins with a magic number of 8 bytes and its version, and so does the footer of a store.
            bytes[8..12].copy_from_slice(&later.to_le_bytes());
            if [".hash", ".sorted"].contains(&kind) {
                let footer = bytes.len() - 128;
                bytes[footer + 8..footer + 12].copy_from_slice(&later.to_le_bytes());
            }
            fs::write(copy.path().join(&name), &bytes).unwrap();
            let before = files(copy.path());
            match open(copy.path()).map(drop) {
                Err(Error::Version { file, found: 2, supported: 1 }) => assert!(file.ends_with(&name)),
                other => panic!("{name} of {}: {other:?}", golden.name),
            }
            let mut after = files(copy.path());
            after.remove("LOCK");
            assert_eq!(after, before, "{name} of {}", golden.name);
        }
    }
}
