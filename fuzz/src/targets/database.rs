//! An intact database that is damaged, either by a failing drive or by an adversary who corrects the checksums. It is
//! then opened, read, verified, written and merged.

use crate::input::{Input, contents, put};
use crate::seal::{seal_manifest, seal_segment, seal_store, secret_in};
use siltstone::device::{Access, Directory};
use siltstone::store::record::RecordLayout;
use siltstone::{Builder, Database, HashStoreKind, IndexKind, SiltSettings};
use siltstone_testing::{Damage, SimulatedDirectory};
use std::sync::LazyLock;

/// How a database is made: whether its records have a fixed size, the kind of its HashStores and its index.
type Made = (bool, HashStoreKind, IndexKind);

const MADE: [Made; 5] = [
    (true, HashStoreKind::CuckooTable, IndexKind::EntropyTrie),
    (true, HashStoreKind::HashOrdered, IndexKind::BlockPerfect),
    (true, HashStoreKind::HashOrdered, IndexKind::SlotPerfect),
    (true, HashStoreKind::CuckooTable, IndexKind::Fences),
    (false, HashStoreKind::HashOrdered, IndexKind::Fences),
];

static DATABASES: LazyLock<Vec<SimulatedDirectory>> = LazyLock::new(|| MADE.map(build).into());

fn builder((fixed, hash_store, index): Made) -> Builder {
    let settings = SiltSettings::default().log_slots_min(64).hash_store(hash_store).index(Some(index));
    let builder = Database::builder("damaged").background_threads(0).seed([1, 2]).partitions(2);
    let builder = builder.block_bytes(512).engine(settings);
    if fixed { builder.fixed(8, 8) } else { builder }
}

/// Returns the layout of its records.
fn layout((fixed, ..): Made) -> RecordLayout {
    RecordLayout { fixed: fixed.then_some((8, 8)), expiring: !fixed }
}

/// Makes a database with a log, HashStores and SortedStores.
fn build(made: Made) -> SimulatedDirectory {
    let files = SimulatedDirectory::new(1);
    let directory = Directory::new(files.clone(), Access::Buffered);
    let database = builder(made).open_in(directory).expect("no failure");
    let put = |number: u64| database.put(number.to_be_bytes(), number.to_le_bytes()).expect("no failure");
    (0..200).for_each(put);
    database.compact().expect("no failure");
    (150..300).for_each(put);
    database.settle().expect("no failure");
    (290..310).for_each(put);
    database.close().expect("no failure");
    files
}

/// Damages a file. Returns whether a checksum can detect it.
fn damage(files: &SimulatedDirectory, made: Made, input: &mut Input<'_>) -> bool {
    let names = files.names().expect("the power is on");
    let name = &names[usize::from(input.u8()) % names.len()];
    let damage = match input.u8() % 8 {
        0 => Damage::FlipBit(input.u32().into()),
        1 => Damage::SwapSectors(input.u8().into(), input.u8().into()),
        2 => Damage::StaleSector(input.u8().into()),
        3 => Damage::MisdirectedSector { from: input.u8().into(), to: input.u8().into() },
        4 => {
            files.remove_name(name).expect("it is listed");
            return true;
        }
        _ => {
            forge(files, made, name, input);
            return false;
        }
    };
    files.damage(name, damage).expect("it is listed");
    true
}

/// Changes bytes and corrects their checksums.
fn forge(files: &SimulatedDirectory, made: Made, name: &str, input: &mut Input<'_>) {
    let directory = Directory::new(files.clone(), Access::Buffered);
    let mut bytes = contents(&directory, name);
    let is_there = files.names().expect("the power is on").iter().any(|name| name == "MANIFEST");
    let manifest = if is_there { contents(&directory, "MANIFEST") } else { Vec::new() };
    input.mutate(&mut bytes);
    let _ = match name {
        "MANIFEST" | "MANIFEST.mirror" => seal_manifest(&mut bytes),
        segment if segment.starts_with("log-") => {
            secret_in(&manifest).and_then(|secret| seal_segment(layout(made), secret, &mut bytes))
        }
        _ => seal_store(&layout(made), &mut bytes),
    };
    files.remove_name(name).expect("it is listed");
    put(&directory, name, &bytes);
}

/// The input selects a database, the number of times it is damaged, and the damage. The database is repaired, and then
/// has all keys that were not reported as lost.
pub fn repair(data: &[u8]) {
    let mut input = Input(data);
    let which = usize::from(input.u8()) % MADE.len();
    let files = DATABASES[which].crash_image();
    let mut honest = true;
    for _ in 0..=input.u8() % 3 {
        honest &= damage(&files, MADE[which], &mut input);
    }
    let directory = Directory::new(files.clone(), Access::Buffered);
    let Ok(report) = Database::repair_in(&directory, &mut |done, all| done <= all) else { return };
    let again = Database::repair_in(&directory, &mut |_, _| true).expect("it was repaired");
    assert!(again.found.damage.is_empty() || !honest, "{:?}", again.found.damage);
    let database = match builder(MADE[which]).open_in(directory) {
        Ok(database) => database,
        Err(error) => {
            assert!(!honest, "{error}");
            return;
        }
    };
    for number in 0..310u64 {
        let key = number.to_be_bytes();
        let found = database.get(key).map(|value| value.map(|value| value.to_vec()));
        let is_right = matches!(&found, Ok(Some(value)) if *value == number.to_le_bytes());
        assert!(is_right || !honest || report.found.may_affect(&key), "{number}: {found:?}");
    }
    let _ = database.compact();
    let _ = database.close();
}

/// The input selects a database, the number of times it is damaged, and the damage.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let which = usize::from(input.u8()) % MADE.len();
    let files = DATABASES[which].crash_image();
    for _ in 0..=input.u8() % 3 {
        damage(&files, MADE[which], &mut input);
    }
    let Ok(database) = builder(MADE[which]).open_in(Directory::new(files, Access::Buffered)) else { return };
    for number in (0..310u64).step_by(17) {
        let _ = database.get(number.to_be_bytes());
    }
    if let Ok(records) = database.iter() {
        assert!(records.take_while(Result::is_ok).count() < 10_000);
    }
    let _ = database.verify(&mut |done, all| {
        assert!(done <= all);
        true
    });
    let _ = database.put(7u64.to_be_bytes(), 8u64.to_be_bytes());
    let _ = database.compact();
    let _ = database.close();
}
