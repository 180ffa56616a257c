//! What the tests of repairs of all engines share: the files of a database in memory, what its keys had, and checks of
//! repairs that end early.

use siltstone::key::KeyHasher;
use siltstone::{Database, Error, RepairReport, Result};
use siltstone_device::memory::MemoryDirectory;
use siltstone_device::{Access, AlignedBuffer, Directory, Purpose};
use siltstone_testing::{Crash, SimulatedDirectory, Survival};
use std::collections::BTreeMap;

/// The seed of the hash of all databases.
pub const SEED: [u64; 2] = [7, 9];

/// All values that each key had, the last one at the end; `None` is a tombstone.
pub type History = BTreeMap<Vec<u8>, Vec<Option<Vec<u8>>>>;
/// The bytes of each file.
pub type Files = BTreeMap<String, Vec<u8>>;

pub fn memory() -> Directory {
    Directory::new(MemoryDirectory::default(), Access::Buffered)
}

pub fn contents(directory: &Directory, name: &str) -> Vec<u8> {
    let file = directory.open(name, Access::Buffered).unwrap();
    let length = file.length().unwrap() as usize;
    file.read(Purpose::Get, 0, length, &mut AlignedBuffer::default()).unwrap().to_vec()
}

pub fn all(directory: &Directory) -> Files {
    directory.list().unwrap().into_iter().map(|name| (name.clone(), contents(directory, &name))).collect()
}

pub fn copy_of(files: &Files) -> Directory {
    let directory = memory();
    for (name, bytes) in files {
        directory.create(name, Access::Buffered).unwrap().write(Purpose::Log, 0, bytes).unwrap();
    }
    directory
}

pub fn overwrite(directory: &Directory, name: &str, at: u64, bytes: &[u8]) {
    directory.open(name, Access::Buffered).unwrap().write(Purpose::Log, at, bytes).unwrap();
}

pub fn repair(directory: &Directory) -> Result<RepairReport> {
    Database::repair_in(directory, &mut |_, _| true)
}

/// Checks that every key that is not reported as affected has its last value, and that every other key has its last
/// value, none, or an older one where the report says so. Returns how many do not have their last value.
pub fn check_history(database: &Database, report: &RepairReport, history: &History) -> usize {
    let (mut lost, older) = (0, report.found.may_be_older());
    for (key, values) in history {
        let found = database.get(key).unwrap().map(|value| value.to_vec());
        if found == *values.last().unwrap() {
            continue;
        }
        lost += 1;
        assert!(report.found.may_affect(key), "{key:?}: {:#?}", report.found);
        let placement = KeyHasher::Keyed(SEED).hash(key).placement;
        let is_older = older.iter().any(|range| range.contains(placement));
        assert!(found.is_none() || (is_older && values.contains(&found)), "{key:?} {found:?}");
    }
    assert!(database.iter().unwrap().all(|record| history.contains_key(&record.unwrap().key.to_vec())));
    let again = database.verify().unwrap();
    assert!(again.damage.is_empty(), "{:#?}", again.damage);
    lost
}

/// Repairs copies of a damaged device whose power fails at the first change, at the second one, and so on, until a
/// repair ends before that. Afterwards another repair finds no damage, or does all that the first one would have done.
/// `check` returns how many keys do not have their last value.
pub fn check_power_losses(
    device: &SimulatedDirectory,
    survival: Survival,
    check: impl Fn(&Directory, &RepairReport) -> usize,
) {
    let image = |device: &SimulatedDirectory| Directory::new(device.clone(), Access::Buffered);
    let whole = device.crash_image();
    let report = repair(&image(&whole)).unwrap();
    let lost = check(&image(&whole), &report);
    for operations in 1.. {
        let mut random = fastrand::Rng::with_seed(operations);
        let device = device.crash_image();
        device.power_off_after(operations);
        let outcome = repair(&image(&device));
        let ended = !device.is_off();
        let device = device.crash(Crash::PowerLost(survival), &mut random);
        let again = repair(&image(&device)).unwrap();
        let report = if again.found.damage.is_empty() { &report } else { &again };
        assert_eq!(check(&image(&device), report), lost, "{operations}");
        if ended {
            assert!(outcome.is_ok() && again.found.damage.is_empty());
            break;
        }
    }
}

/// Interrupts repairs of a damaged database at the first report of their progress, at the second one, and so on, until
/// one is complete. None of the others has changed a byte.
pub fn check_interruptions(directory: &Directory, check: impl FnOnce(&RepairReport)) {
    let before = all(directory);
    let mut stopped = 0;
    let report = loop {
        let mut left = stopped;
        let outcome = Database::repair_in(directory, &mut |_, _| {
            left -= 1;
            left >= 0
        });
        match outcome {
            Err(Error::Interrupted) => stopped += 1,
            outcome => break outcome.unwrap(),
        }
        assert!(all(directory) == before, "after {stopped} calls");
    };
    check(&report);
    assert!(stopped > 10, "{stopped}");
}
