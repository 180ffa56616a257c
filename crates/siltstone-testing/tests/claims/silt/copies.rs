//! Verification, checkpoints and counters: faults that simulations found.

use super::simulated::{self, Expected};
use siltstone::Durability;
use siltstone_testing::{Damage, SimulatedDirectory};

#[test]
fn verification_reads_what_is_written_and_its_progress_never_goes_back() {
    let device = SimulatedDirectory::new(1);
    let database = simulated::open(&device).unwrap();
    let mut expected = Expected::default();
    expected.put(&database, 0..60, Durability::Written);
    database.settle().unwrap();
    expected.put(&database, 0..5, Durability::Buffered);
    let (mut last, mut calls) = (0, 0);
    let report = database.verify_with(&mut |done, all| {
        assert!(last <= done && done <= all, "{last} {done} {all}");
        (last, calls) = (done, calls + 1);
        true
    });
    assert!(report.unwrap().damage.is_empty() && calls > 1);
}

#[test]
fn the_bytes_of_all_files_are_counted() {
    let device = SimulatedDirectory::new(1);
    let database = simulated::open(&device).unwrap();
    let mut expected = Expected::default();
    for _ in 0..4 {
        expected.put(&database, 0..60, Durability::Written);
        assert_eq!(database.stats().disk_bytes, device.named_bytes());
        database.settle().unwrap();
        assert_eq!(database.stats().disk_bytes, device.named_bytes());
    }
}

#[test]
fn a_checkpoint_copies_no_damage_of_the_log() {
    let device = SimulatedDirectory::new(1);
    let database = simulated::open(&device).unwrap();
    Expected::default().put(&database, 0..5, Durability::Written);
    let target = tempfile::tempdir().unwrap();
    assert!(device.damage("log-0000000000000000", Damage::FlipBit(8 * 200)).unwrap());
    assert!(database.checkpoint(target.path()).is_err());
}
