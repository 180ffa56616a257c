//! Files whose names have numbers that the database has given to none.

use super::{KINDS, check, closed};
use crate::repairs::{all, check_power_losses, copy_of, memory, overwrite, repair};
use siltstone::{Database, RepairReport};
use siltstone_device::{Access, Directory, Purpose};
use siltstone_testing::{SimulatedDirectory, Survival};

/// A repair once began the new log after the position in the name, and no open accepted its manifest.
#[test]
fn of_a_log_only_the_segment_whose_name_has_an_impossible_position_is_lost() {
    for kind in KINDS {
        let directory = memory();
        let mut history = closed(kind, &directory, 300);
        let database = kind.builder().set("log_slots_min", 4096).open_in(directory.clone()).unwrap();
        kind.fill(&database, 900, 2, &mut history).unwrap();
        database.close().unwrap();
        drop(database);
        let sound = all(&directory);
        let logs: Vec<_> = sound.keys().filter(|name| name.starts_with("log-0")).collect();
        let [_, .., last] = logs[..] else { panic!("{logs:?}") };
        let without = copy_of(&sound);
        without.remove(last).unwrap();
        repair(&without).unwrap();
        let database = kind.builder().create(false).open_in(without).unwrap();
        let is_lost = |key: &Vec<u8>, value: &Option<Vec<u8>>| {
            database.get(key).unwrap().map(|found| found.to_vec()) != *value
        };
        let lost = history.iter().filter(|&(key, values)| is_lost(key, values.last().unwrap())).count();
        assert!(lost > 0, "{kind:?}");
        // Each is the name with a flipped bit.
        for prefix in ["log-1", "log-2", "log-4", "log-8"] {
            let (directory, renamed) = (copy_of(&sound), last.replacen("log-0", prefix, 1));
            directory.rename(last, &renamed).unwrap();
            assert!(kind.builder().open_in(directory.clone()).is_err(), "the segment is not passed over");
            let report = repair(&directory).unwrap();
            assert!(report.set_aside_files.contains(&renamed), "{kind:?} {report:#?}");
            assert_eq!(check(kind, &directory, &report, &history), lost, "{kind:?} {renamed}");
        }
    }
}

/// The segment was once still there when the new manifest was, and no open accepted both.
#[test]
fn a_repair_of_a_log_with_a_renamed_segment_can_be_cut_off_at_any_moment() {
    let device = SimulatedDirectory::new(1);
    let directory = Directory::new(device.clone(), Access::Buffered);
    let history = closed(KINDS[3], &directory, 400);
    let log = directory.list().unwrap().into_iter().rfind(|name| name.starts_with("log-0")).unwrap();
    directory.rename(&log, &log.replacen("log-0", "log-8", 1)).unwrap();
    directory.sync(Purpose::Maintain).unwrap();
    let check = |directory: &Directory, report: &RepairReport| check(KINDS[3], directory, report, &history);
    check_power_losses(&device, Survival::Everything, check);
}

#[test]
fn a_log_whose_only_segment_has_a_name_with_an_impossible_position_is_replaced() {
    let builder = || Database::builder("db").partitions(1).background_threads(0);
    let directory = memory();
    let database = builder().open_in(directory.clone()).unwrap();
    database.put("key", "value").unwrap();
    database.close().unwrap();
    drop(database);
    let sound = all(&directory);
    for name in ["log-ffffffffffffffff", "log-1000000000000000", "log-0fffffffffffffff"] {
        let directory = copy_of(&sound);
        directory.rename("log-0000000000000000", name).unwrap();
        let report = repair(&directory).unwrap();
        assert!(report.found.may_affect(b"key") && report.set_aside_files.contains(&name.to_owned()));
        let database = builder().open_in(directory.clone()).unwrap();
        assert_eq!(database.get("key").unwrap(), None, "{name}");
        database.put("key", "new").unwrap();
        database.close().unwrap();
        drop(database);
        assert!(repair(&directory).unwrap().found.damage.is_empty(), "{name}");
        assert!(builder().open_in(directory).unwrap().contains("key").unwrap());
    }
}

/// A new store once got the number after that of the file.
#[test]
fn a_file_with_the_last_number_that_no_manifest_names_does_not_hinder_a_repair() {
    for kind in [KINDS[0], KINDS[3]] {
        let directory = memory();
        let history = closed(kind, &directory, 600);
        let sound = all(&directory);
        let store = sound.keys().find(|name| name.ends_with(".sorted")).unwrap();
        for stray in ["ffffffffffffffff.hash", "ffffffffffffffff.sorted", "fffffffffffffffe.sorted"] {
            let directory = copy_of(&sound);
            directory.create(stray, Access::Buffered).unwrap();
            overwrite(&directory, store, 700, b"damage");
            let report = repair(&directory).unwrap();
            assert!(report.kept_records > 0 && !report.found.damage.is_empty(), "{report:#?}");
            check(kind, &directory, &report, &history);
        }
    }
}
