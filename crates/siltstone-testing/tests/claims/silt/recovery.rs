//! Recovery: faults that simulations found.

use super::simulated::{self, Expected};
use siltstone::{Durability, Error};
use siltstone_testing::{Crash, Damage, Faults, SimulatedDirectory, Survival};

const SCATTERED: Crash = Crash::PowerLost(Survival::Scattered);

#[test]
fn what_a_killed_process_left_unsynced_is_durable_before_it_is_acted_on() {
    for seed in 0..600 {
        let mut random = fastrand::Rng::with_seed(seed);
        let device = SimulatedDirectory::new(seed);
        let database = simulated::open(&device).unwrap();
        let mut expected = Expected::default();
        expected.put(&database, 0..60, Durability::Synced);
        device.power_off_after(seed % 60);
        let _ = database.compact();
        // As if the process had been killed during its work: all that it wrote remains.
        let device = device.crash(Crash::ProcessKilled, &mut random);
        drop(database);
        let database = simulated::open(&device).unwrap();
        let device = device.crash(SCATTERED, &mut random);
        drop(database);
        expected.check(&simulated::open(&device).unwrap());
    }
}

/// Closes a database with all kinds of files.
fn closed(device: &SimulatedDirectory) -> Expected {
    let database = simulated::open(device).unwrap();
    let mut expected = Expected::default();
    expected.put(&database, 0..50, Durability::Written);
    database.compact().unwrap();
    expected.put(&database, 20..70, Durability::Written);
    database.settle().unwrap();
    expected.put(&database, 60..64, Durability::Written);
    database.close().unwrap();
    expected
}

/// Flips every seventh bit, one at a time: the database opens with all its records, or returns an error and has changed
/// nothing.
fn flip_every_bit(wanted: &str) {
    let device = SimulatedDirectory::new(1);
    let expected = closed(&device);
    let names = device.names().unwrap();
    let (mut damaged, mut harmless) = (0, 0);
    for name in names.iter().filter(|name| name.starts_with(wanted)) {
        for bit in (0..).step_by(7) {
            let copy = device.crash_image();
            if !copy.damage(name, Damage::FlipBit(bit)).unwrap() {
                break;
            }
            match simulated::open(&copy) {
                Ok(database) => {
                    harmless += 1;
                    expected.check(&database);
                }
                Err(Error::Corrupt { .. } | Error::Version { .. }) => {
                    damaged += 1;
                    copy.damage(name, Damage::FlipBit(bit)).unwrap();
                    expected.check(&simulated::open(&copy).unwrap());
                }
                Err(other) => panic!("{name} bit {bit}: {other}"),
            }
        }
    }
    println!("{wanted}: {damaged} bits were found damaged, {harmless} are harmless");
    assert!(damaged > 200);
}

#[test]
fn a_flipped_bit_in_the_manifest_is_detected_or_harmless_and_causes_no_removal() {
    flip_every_bit("MANIFEST");
}

#[test]
fn a_flipped_bit_in_the_log_of_a_closed_database_is_detected_or_harmless() {
    flip_every_bit("log-");
}

#[test]
fn a_segment_whose_sync_failed_is_read_from_the_device_and_not_from_the_cache() {
    for seed in 0..100 {
        let mut random = fastrand::Rng::with_seed(seed);
        let device = SimulatedDirectory::new(seed);
        let database = simulated::open(&device).unwrap();
        let mut expected = Expected::default();
        expected.put(&database, 0..20, Durability::Synced);
        let long = vec![7; 5000];
        database.put("long", &long).unwrap();
        device.set_faults(Faults { sync_error: 0.5, ..Faults::default() });
        let durable = database.put("next", "in a new segment").is_ok() && database.sync().is_ok();
        let mut device = device.crash(Crash::ProcessKilled, &mut random);
        for crash in [Crash::ProcessKilled, SCATTERED, SCATTERED] {
            let database = simulated::open(&device).unwrap();
            assert!(!durable || database.get("next").unwrap().is_some());
            expected.check_keys(&database);
            expected.put(&database, 0..20, Durability::Synced);
            device = device.crash(crash, &mut random);
        }
    }
}

#[test]
fn a_log_without_its_beginning_is_damage_and_not_an_empty_log() {
    for lost in [false, true] {
        let device = SimulatedDirectory::new(1);
        let expected = closed(&device);
        let copy = device.crash_image();
        let names = device.names().unwrap();
        let log: Vec<_> = names.iter().filter(|name| name.starts_with("log-")).collect();
        let gone: Vec<_> = if lost { log } else { log[..1].to_vec() };
        gone.iter().for_each(|name| copy.remove_name(name).unwrap());
        let outcome = simulated::open(&copy);
        assert!(matches!(outcome, Err(Error::Corrupt { .. })), "{:?}", outcome.err());
        expected.check(&simulated::open(&device).unwrap());
    }
}

#[test]
fn a_bit_that_flips_during_a_read_loses_nothing() {
    let mut failed = 0;
    for seed in 0..400 {
        let device = SimulatedDirectory::new(seed);
        let expected = closed(&device);
        device.set_faults(Faults { read_flip: 0.1, ..Faults::default() });
        let outcome = simulated::open(&device);
        failed += u32::from(outcome.is_err());
        device.set_faults(Faults::default());
        let database = outcome.or_else(|_| simulated::open(&device)).unwrap();
        expected.check(&database);
    }
    assert!(failed > 50, "only {failed} opens met a wrong bit");
}
