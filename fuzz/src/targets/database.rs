//! An intact database that is damaged, either by a failing drive or by an adversary who corrects the checksums. It is
//! then opened, read, verified, written and merged.

use crate::input::{Input, contents, put};
use crate::seal::{VARIABLE, seal_manifest, seal_saved_index, seal_segment, seal_store, secret_in};
use siltstone::engine::CommonSettings;
use siltstone::key::RecordLayout;
use siltstone::names::FileName;
use siltstone::{Builder, Database};
use siltstone_device::{Access, Directory};
use siltstone_testing::engines::FileKind;
use siltstone_testing::flips::file_kinds;
use siltstone_testing::{Damage, SimulatedDirectory};
use std::sync::LazyLock;

/// A database per kind of file that an engine has.
static DATABASES: LazyLock<Vec<(FileKind, SimulatedDirectory)>> =
    LazyLock::new(|| file_kinds().map(|kind| (kind, build(kind))).collect());

fn builder(kind: FileKind) -> Builder {
    let common = CommonSettings {
        fixed: kind.is_fixed.then_some((8, 8)),
        partitions: Some(2),
        block_bytes: kind.block_bytes,
        ..CommonSettings::default()
    };
    let builder = Database::builder("damaged").engine((kind.settings)(&common)).common(common);
    builder.background_threads(0).seed([1, 2])
}

/// Returns the layout of its records.
fn layout(kind: FileKind) -> RecordLayout {
    RecordLayout { fixed: kind.is_fixed.then_some((8, 8)), expiring: !kind.is_fixed }
}

/// Makes a database with a log, HashStores and SortedStores.
fn build(kind: FileKind) -> SimulatedDirectory {
    let files = SimulatedDirectory::new(1);
    let directory = Directory::new(files.clone(), Access::Buffered);
    let database = builder(kind).open_in(directory).expect("no failure");
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
fn damage(files: &SimulatedDirectory, kind: FileKind, input: &mut Input<'_>) -> bool {
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
            forge(files, kind, name, input);
            return false;
        }
    };
    files.damage(name, damage).expect("it is listed");
    true
}

/// Changes bytes and corrects their checksums.
fn forge(files: &SimulatedDirectory, kind: FileKind, name: &str, input: &mut Input<'_>) {
    let directory = Directory::new(files.clone(), Access::Buffered);
    let mut bytes = contents(&directory, name);
    let is_there = files.names().expect("the power is on").iter().any(|name| name == "MANIFEST");
    let manifest = if is_there { contents(&directory, "MANIFEST") } else { Vec::new() };
    input.mutate(&mut bytes);
    let _ = match FileName::parse(name) {
        Some(FileName::Manifest | FileName::Mirror) => seal_manifest(&mut bytes),
        Some(FileName::Segment { .. }) => {
            secret_in(&manifest).and_then(|secret| seal_segment(layout(kind), secret, &mut bytes))
        }
        Some(FileName::SavedIndex(_)) => seal_saved_index(&mut bytes),
        Some(FileName::KeyRun(_)) => seal_store(&VARIABLE, &mut bytes),
        _ => seal_store(&layout(kind), &mut bytes),
    };
    files.remove_name(name).expect("it is listed");
    put(&directory, name, &bytes);
}

/// The input selects a database, the number of times it is damaged, and the damage. The database is repaired, and then
/// has all keys that were not reported as lost.
pub fn repair(data: &[u8]) {
    let mut input = Input(data);
    let (kind, files) = &DATABASES[usize::from(input.u8()) % DATABASES.len()];
    let (kind, files) = (*kind, files.crash_image());
    let mut honest = true;
    for _ in 0..=input.u8() % 3 {
        honest &= damage(&files, kind, &mut input);
    }
    let directory = Directory::new(files.clone(), Access::Buffered);
    let Ok(report) = Database::repair_in(&directory, &mut |done, all| done <= all) else { return };
    let again = Database::repair_in(&directory, &mut |_, _| true).expect("it was repaired");
    assert!(again.found.damage.is_empty() || !honest, "{:?}", again.found.damage);
    let database = match builder(kind).open_in(directory) {
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
    let (kind, files) = &DATABASES[usize::from(input.u8()) % DATABASES.len()];
    let (kind, files) = (*kind, files.crash_image());
    for _ in 0..=input.u8() % 3 {
        damage(&files, kind, &mut input);
    }
    let Ok(database) = builder(kind).open_in(Directory::new(files, Access::Buffered)) else { return };
    for number in (0..310u64).step_by(17) {
        let _ = database.get(number.to_be_bytes());
    }
    if let Ok(records) = database.iter() {
        assert!(records.take_while(Result::is_ok).count() < 10_000);
    }
    let _ = database.verify_with(&mut |done, all| {
        assert!(done <= all);
        true
    });
    let _ = database.put(7u64.to_be_bytes(), 8u64.to_be_bytes());
    let _ = database.compact();
    let _ = database.close();
}
