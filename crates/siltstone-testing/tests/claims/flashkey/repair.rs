//! Verify and repair: the files of small databases are damaged, and what is reported and kept is compared with what was
//! written.

use crate::repairs::{
    History, SEED, all, check_history, check_interruptions, check_power_losses, copy_of, memory, overwrite,
    repair,
};
use siltstone::engine::CommonSettings;
use siltstone::{Batch, Builder, DamagedPart, Database, Error, FlashKeySettings, RepairReport};
use siltstone_device::{Access, Directory};
use siltstone_testing::{Damage, SimulatedDirectory, Survival};

fn builder(is_fixed: bool) -> Builder {
    let fixed = is_fixed.then_some((8, 24));
    let common = CommonSettings { fixed, partitions: Some(4), ..CommonSettings::default() };
    let settings = FlashKeySettings::default().segment_bytes(1 << 13).space(1.1).unconfirmed_max(0.0);
    Database::builder("db").engine(settings).common(common).background_threads(0).seed(SEED)
}

fn key_of(number: u64) -> Vec<u8> {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec()
}

/// Writes rounds of keys, with deletes, with a step of background work now and then.
fn fill(
    database: &Database,
    is_fixed: bool,
    rounds: std::ops::Range<u64>,
    count: u64,
    history: &mut History,
) {
    for round in rounds {
        for number in (0..count).filter(|number| round == 0 || (number + round).is_multiple_of(3)) {
            let length = if is_fixed { 24 } else { 1 + (number * 7 + round) % 90 };
            let value: Vec<u8> = (0..length).map(|at| (number * 31 + round * 7 + at) as u8).collect();
            let value = ((number + round) % 11 != 5).then_some(value);
            match &value {
                Some(value) => database.put(key_of(number), value).unwrap(),
                None => database.delete(key_of(number)).unwrap(),
            }
            history.entry(key_of(number)).or_default().push(value);
            if number.is_multiple_of(20) {
                database.step().unwrap();
            }
        }
    }
}

/// Closes a database with finished segments of users and of moved records, a saved index, and redo after it.
fn closed(is_fixed: bool, directory: &Directory, count: u64) -> History {
    let mut history = History::new();
    let database = builder(is_fixed).open_in(directory.clone()).unwrap();
    fill(&database, is_fixed, 0..3, count, &mut history);
    database.compact().unwrap();
    fill(&database, is_fixed, 3..6, count, &mut history);
    database.settle().unwrap();
    fill(&database, is_fixed, 6..8, count / 4, &mut history);
    database.close().unwrap();
    history
}

/// Checks what a repair has kept, and that the database continues: new writes replace everything, and segments are
/// cleaned. Returns how many keys do not have their last value.
fn check(is_fixed: bool, directory: &Directory, report: &RepairReport, history: &History) -> usize {
    let database = builder(is_fixed).create(false).open_in(directory.clone()).unwrap();
    let lost = check_history(&database, report, history);
    for round in 0..3u8 {
        history.keys().for_each(|key| database.put(key, [round; 24]).unwrap());
        database.compact().unwrap();
    }
    assert!(history.keys().all(|key| database.get(key).unwrap().as_deref() == Some(&[2; 24])));
    database.close().unwrap();
    drop(database);
    assert!(repair(directory).unwrap().found.damage.is_empty());
    lost
}

#[test]
fn an_intact_database_is_not_changed() {
    for is_fixed in [true, false] {
        let directory = memory();
        closed(is_fixed, &directory, 900);
        let before = all(&directory);
        for part in ["MANIFEST", "log-", "moved", "redo-", ".index"] {
            assert!(before.keys().any(|name| name.contains(part)), "{part} of {:?}", before.keys());
        }
        let report = repair(&directory).unwrap();
        assert!(report.found.damage.is_empty() && report.set_aside.is_none(), "{report:#?}");
        assert!(report.found.checked_records > 700 && report.found.torn_bytes == 0, "{report:#?}");
        assert!(all(&directory) == before);
    }
}

#[test]
fn of_damaged_segments_every_intact_record_is_kept_and_of_others_no_byte_is_moved() {
    for is_fixed in [true, false] {
        let directory = memory();
        let history = closed(is_fixed, &directory, 3000);
        let sound = all(&directory);
        for prefix in ["log-", "moved"] {
            let (directory, mut random) = (copy_of(&sound), fastrand::Rng::with_seed(4));
            let mut damaged = 0;
            // The last segments are not finished.
            for (name, bytes) in sound.iter().filter(|(name, _)| name.starts_with(prefix)).step_by(2) {
                for at in (100..bytes.len()).step_by(3000) {
                    let at = (at + random.usize(..90)).min(bytes.len() - 1);
                    overwrite(&directory, name, at as u64, &[bytes[at] ^ 1 << random.u8(..8)]);
                    damaged += 1;
                }
            }
            assert!(damaged > 2, "{prefix}: {:?}", sound.keys());
            let report = repair(&directory).unwrap();
            assert!(!report.found.damage.is_empty() && report.kept_records > 0);
            let is_kept = |name: &&String| !report.set_aside_files.contains(name);
            let is_same = |name: &&String| all(&directory).get(*name) == Some(&sound[*name]);
            let finished = sound.keys().filter(|name| name.starts_with("log-") || name.starts_with("moved"));
            assert!(finished.filter(is_kept).filter(is_same).count() > 2, "{report:#?}");
            let lost = check(is_fixed, &directory, &report, &history);
            assert!(lost <= damaged, "{prefix}: {lost} lost of {damaged} damaged frames");
        }
    }
}

#[test]
fn a_damaged_index_is_built_again_from_all_logs_and_no_record_is_lost() {
    for is_fixed in [true, false] {
        let directory = memory();
        let history = closed(is_fixed, &directory, 2000);
        let sound = all(&directory);
        let index = sound.keys().find(|name| name.ends_with(".index")).unwrap();
        let redo = sound.keys().find(|name| name.starts_with("redo-")).unwrap();
        let page = |at: u64| (index, at, vec![0x5A; 40]);
        for (name, at, bytes) in [page(4100), page(6000), (redo, 100, vec![7; 9]), (index, 0, vec![9; 300])] {
            let directory = copy_of(&sound);
            overwrite(&directory, name, at, &bytes);
            let report = repair(&directory).unwrap();
            assert!(report.found.damage.iter().all(|damage| damage.may_be_older), "{report:#?}");
            let database = builder(is_fixed).create(false).open_in(directory.clone()).unwrap();
            for (key, values) in &history {
                let found = database.get(key).unwrap().map(|value| value.to_vec());
                assert!(found.is_some() || values.last() == Some(&None), "{name}: {key:?} is lost");
            }
            drop(database);
            let changed = check(is_fixed, &directory, &report, &history);
            assert!(changed * 2 < history.len(), "{name} {at}: {changed} of {} are older", history.len());
        }
        let directory = copy_of(&sound);
        directory.remove(index).unwrap();
        directory.remove(redo).unwrap();
        let report = repair(&directory).unwrap();
        assert!(report.found.damage.iter().any(|damage| damage.part == DamagedPart::File));
        check(is_fixed, &directory, &report, &history);
    }
}

#[test]
fn damage_of_headers_and_manifests_loses_nothing() {
    for is_fixed in [true, false] {
        let directory = memory();
        let history = closed(is_fixed, &directory, 1200);
        let sound = all(&directory);
        let is_log = |name: &&String| name.starts_with("log-") || name.starts_with("moved");
        let headers = sound.keys().filter(is_log).map(|name| (name.as_str(), 20));
        let manifests = [("MANIFEST", 70), ("MANIFEST", 3), ("MANIFEST.mirror", 70)];
        for (name, at) in headers.chain(manifests) {
            let directory = copy_of(&sound);
            overwrite(&directory, name, at, &[sound[name][at as usize] ^ 16]);
            let report = repair(&directory).unwrap();
            assert_eq!(report.found.lost(), [], "{name}: {:#?}", report.found);
            assert!(report.set_aside_files.iter().any(|file| file == name), "{name}: {report:#?}");
            assert_eq!(check(is_fixed, &directory, &report, &history), 0, "{name}");
        }
        let directory = copy_of(&sound);
        overwrite(&directory, "MANIFEST", 3, b"?");
        overwrite(&directory, "MANIFEST.mirror", 3, b"?");
        let damaged = all(&directory);
        assert!(matches!(repair(&directory), Err(Error::Corrupt { .. })));
        assert!(all(&directory) == damaged);
    }
}

#[test]
fn a_batch_that_is_not_damaged_stays_whole() {
    let directory = memory();
    let database = builder(false).open_in(directory.clone()).unwrap();
    for number in 0..60u64 {
        let mut batch = Batch::new();
        for part in 0..10 {
            batch.put(key_of(10 * number + part), [number as u8; 40]).unwrap();
        }
        database.write(&batch).unwrap();
        database.step().unwrap();
    }
    database.close().unwrap();
    drop(database);
    let sound = all(&directory);
    let (name, bytes) = sound.iter().find(|(name, _)| name.starts_with("log-")).unwrap();
    overwrite(&directory, name, 2000, &[bytes[2000] ^ 4]);
    let report = repair(&directory).unwrap();
    let database = builder(false).create(false).open_in(directory).unwrap();
    let whole = (0..60u64).filter(|number| {
        let found = (0..10).filter(|part| database.contains(key_of(10 * number + part)).unwrap()).count();
        let affected = (0..10).any(|part| report.found.may_affect(&key_of(10 * number + part)));
        assert!(found == 10 || affected && found == 9, "batch {number}: {found} records");
        found == 10
    });
    assert_eq!(whole.count(), 59);
}

/// Damages segments, the index and the manifest, with a power loss at every change of the repair.
#[test]
fn a_repair_that_is_cut_off_at_any_moment_has_lost_nothing() {
    for survival in [Survival::Nothing, Survival::Scattered, Survival::Everything] {
        let device = SimulatedDirectory::new(1);
        let history = closed(false, &Directory::new(device.clone(), Access::Buffered), 300);
        let image = |device: &SimulatedDirectory| Directory::new(device.clone(), Access::Buffered);
        let sound = all(&image(&device));
        let name = |part: &str| sound.keys().find(|name| name.contains(part)).unwrap().clone();
        for (name, at) in [(name("log-"), 900), (name("moved"), 300), (name(".index"), 4200)] {
            device.damage(&name, Damage::FlipBit(8 * at)).unwrap();
        }
        device.damage("MANIFEST", Damage::FlipBit(8 * 80)).unwrap();
        let check = |directory: &Directory, report: &RepairReport| check(false, directory, report, &history);
        check_power_losses(&device, survival, check);
    }
}

#[test]
fn an_interrupted_repair_changes_nothing() {
    let directory = memory();
    let history = closed(false, &directory, 600);
    let name = directory.list().unwrap().into_iter().find(|name| name.starts_with("log-")).unwrap();
    overwrite(&directory, &name, 700, b"damage");
    check_interruptions(&directory, |report| _ = check(false, &directory, report, &history));
}

/// A repair once took the position in the name for the end of the log, and gave up.
#[test]
fn of_logs_with_a_segment_whose_name_has_an_impossible_position_the_other_segments_are_kept() {
    for is_fixed in [true, false] {
        let directory = memory();
        let history = closed(is_fixed, &directory, 1200);
        let sound = all(&directory);
        for prefix in ["log-", "moved", "redo-"] {
            let name = sound.keys().rfind(|name| name.starts_with(prefix)).unwrap();
            for digit in ["-1", "-8"] {
                let (directory, renamed) = (copy_of(&sound), name.replacen("-0", digit, 1));
                directory.rename(name, &renamed).unwrap();
                let report = repair(&directory).unwrap();
                assert!(report.set_aside_files.contains(&renamed), "{name}: {report:#?}");
                let lost = check(is_fixed, &directory, &report, &history);
                assert!(lost * 2 < history.len(), "{name}: {lost} of {} lost", history.len());
            }
        }
    }
}

/// The new index once got the number after that of the file.
#[test]
fn an_index_with_the_last_number_that_no_manifest_names_does_not_hinder_a_repair() {
    let directory = memory();
    let history = closed(false, &directory, 600);
    let index = directory.list().unwrap().into_iter().find(|name| name.ends_with(".index")).unwrap();
    directory.create("ffffffffffffffff.index", Access::Buffered).unwrap();
    overwrite(&directory, &index, 4100, &[0x5A; 40]);
    let report = repair(&directory).unwrap();
    assert!(!report.found.damage.is_empty());
    check(false, &directory, &report, &history);
}
