//! BloomStore with damaged chains.

use siltstone::{BloomStoreSettings, Database, Step};
use siltstone_device::{Access, Directory};
use siltstone_testing::{Call, FailingCall, SimulatedDirectory};
use std::fs;
use std::path::{Path, PathBuf};

const KEYS: u32 = 3_000;
/// The places of the merged run that are damaged, one after the other.
const PLACES: usize = 48;

fn open(path: &Path) -> siltstone::Result<Database> {
    let settings = BloomStoreSettings::default().chain_length(4).buffered_filters(2).runs(2);
    let builder = Database::builder(path).engine(settings.log_slots_min(64)).partitions(1).seed([1, 2]);
    builder.background_threads(0).open()
}

/// Returns the files with this extension.
fn files(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let paths = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|found| found == extension)).collect()
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

/// Copies a database without its lock.
fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// The columns of a run may be damaged as well as the chain that was made of them: then its records are merged alone.
/// If these are damaged too, nothing more is written.
#[test]
fn a_damaged_chain_is_made_again_whatever_part_of_its_run_is_damaged() {
    let directory = tempfile::tempdir().unwrap();
    let original = directory.path().join("original");
    let database = open(&original).unwrap();
    (0..KEYS).for_each(|key| database.put(key.to_be_bytes(), [7; 20]).unwrap());
    database.compact().unwrap();
    database.close().unwrap();
    let (mut remade, mut refused) = (0, 0);
    for place in 0..PLACES {
        let damaged = directory.path().join(format!("damaged-{place}"));
        copy(&original, &damaged);
        files(&damaged, "chain")
            .iter()
            .for_each(|chain| (0..8).for_each(|page| flip(chain, 100 + 512 * page)));
        let run = &files(&damaged, "sorted")[0];
        let length = fs::metadata(run).unwrap().len() as usize;
        flip(run, length * place / PLACES);
        let Ok(database) = open(&damaged) else { continue };
        // A get finds the damage of the chain.
        (0..KEYS).for_each(|key| drop(database.get(key.to_be_bytes())));
        let steps = (0..500).take_while(|_| matches!(database.step(), Ok(Step::Worked))).count();
        assert!(steps < 500, "place {place}: background work does not end");
        match database.put("a", "b") {
            Ok(()) => {
                let degraded = database.stats().degraded;
                assert!(degraded.is_empty(), "place {place}: {degraded:?} is not made again");
                remade += 1;
            }
            Err(_) => refused += 1,
        }
    }
    assert!(remade > 0 && remade + refused > PLACES as u32 / 2, "{remade} remade, {refused} refused");
}

/// Only the chain is damaged: gets search the runs, and it is made again of the columns that these have.
#[test]
fn a_damaged_chain_loses_no_key_and_is_made_again_in_the_background() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("damaged");
    let database = open(&path).unwrap();
    (0..KEYS).for_each(|key| database.put(key.to_be_bytes(), key.to_le_bytes()).unwrap());
    database.settle().unwrap();
    database.close().unwrap();
    let chains = files(&path, "chain");
    assert!(!chains.is_empty(), "there are chains");
    // The first page is after the header of the file.
    chains.iter().for_each(|chain| flip(chain, 512 + 100));
    let database = open(&path).unwrap();
    let has_all = || {
        (0..KEYS)
            .all(|key| database.get(key.to_be_bytes()).unwrap().as_deref() == Some(&key.to_le_bytes()[..]))
    };
    assert!(has_all(), "gets search");
    let is_chain = |name: &str| name.ends_with(".chain");
    assert!(database.stats().degraded.iter().any(|store| is_chain(&store.file)), "the damage is reported");
    database.settle().unwrap();
    assert!(database.stats().degraded.is_empty(), "{:?} is not made again", database.stats().degraded);
    assert!(has_all());
    database.close().unwrap();
    let remade = files(&path, "chain");
    assert!(chains.iter().all(|damaged| !remade.contains(damaged)), "damaged chains are gone");
}

/// A chain is made of an older one. Whichever write of it fails, also the first after pages of the older one were read,
/// is not damage of the older chain: nothing more is written.
#[test]
fn a_write_of_a_chain_that_fails_stops_all_later_writes() {
    let mut failures = 0;
    for after in 0..200 {
        let device = SimulatedDirectory::new(1);
        device.set_failing_call(Some(FailingCall {
            call: Some(Call::Write),
            name_part: ".chain",
            after,
            for_ever: false,
        }));
        let settings = BloomStoreSettings::default().chain_length(32).buffered_filters(2).runs(16);
        let builder = Database::builder("simulated").engine(settings.log_slots_min(64)).partitions(1);
        let directory = Directory::new(device.clone(), Access::Buffered);
        let database = builder.seed([1, 2]).background_threads(0).open_in(directory).unwrap();
        let put_all = || -> siltstone::Result<()> {
            for key in 0..KEYS {
                database.put(key.to_be_bytes(), [7; 20])?;
                database.step()?;
            }
            database.settle()
        };
        let outcome = put_all();
        assert_eq!(outcome.is_err(), device.failed_changes() > 0, "write {after}: {outcome:?}");
        assert_eq!(database.put("a", "b").is_err(), outcome.is_err(), "write {after}");
        failures += u32::from(outcome.is_err());
        if outcome.is_ok() {
            break;
        }
    }
    assert!(failures > 8, "{failures} writes of chains failed");
}
