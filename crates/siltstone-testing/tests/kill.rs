//! A child process writes and is killed, again and again: what it was told is written is there, and every batch is
//! there whole or not at all. `siltstone-testing kill` does the same at length.
//!
//! The child is this test program itself, told by environment variables to write.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use siltstone::Access;
use siltstone_testing::Victim;
use std::process::Command;

const ROUNDS: u64 = 6;
const DIRECTORY: &str = "SILTSTONE_KILL_DIRECTORY";
const SHAPE: &str = "SILTSTONE_KILL_SHAPE";
const START: &str = "SILTSTONE_KILL_START";

/// Direct where the file system has it; every other shape buffered.
fn access(shape: usize) -> Access {
    if shape.is_multiple_of(2) { Access::Buffered } else { Access::DirectOrBuffered }
}

/// Not a test of its own: what the child does.
#[test]
fn child() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let number = |name| std::env::var(name).unwrap().parse::<u64>().unwrap();
    let shape = number(SHAPE) as usize;
    let victim = Victim { directory: directory.into(), shape, access: access(shape) };
    victim.write(number(START), &mut std::io::stdout().lock()).unwrap();
}

#[test]
fn what_was_acknowledged_survives_a_kill() {
    for shape in 0..Victim::SHAPES {
        let directory = tempfile::tempdir().unwrap();
        let victim = Victim { directory: directory.path().into(), shape, access: access(shape) };
        let mut random = fastrand::Rng::with_seed(shape as u64);
        let mut start = 0;
        for round in 0..ROUNDS {
            let mut child = Command::new(std::env::current_exe().unwrap());
            child.args(["--exact", "child", "--nocapture", "--test-threads=1"]);
            child.env(DIRECTORY, &victim.directory).env(SHAPE, shape.to_string());
            child.env(START, start.to_string());
            let acknowledged = Victim::kill(&mut child, start, random.u64(20..1500)).unwrap();
            victim.check(acknowledged).unwrap_or_else(|lost| panic!("{victim:?}, round {round}: {lost}"));
            // The step that was under way is done again.
            start = acknowledged + 1;
        }
    }
}

/// A victim that was killed after a hundred steps, the first of them `start`, and the last that was acknowledged.
fn killed(directory: &std::path::Path, start: u64) -> (Victim, u64) {
    let victim = Victim { directory: directory.into(), shape: 1, access: Access::Buffered };
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "child", "--nocapture", "--test-threads=1"]);
    child.env(DIRECTORY, directory).env(SHAPE, "1").env(START, start.to_string());
    let acknowledged = Victim::kill(&mut child, start, 100).unwrap();
    (victim, acknowledged)
}

/// Steps that no process did stand for some that were lost: here the first, which is a batch.
#[test]
fn a_lost_put_is_missed() {
    let directory = tempfile::tempdir().unwrap();
    let (victim, acknowledged) = killed(directory.path(), 1);
    let lost = victim.check(acknowledged).unwrap_err();
    assert!(lost.contains("step 0, record 0: it is not there"), "{lost}");
}

/// Of steps that were never done, the first that shows is a delete: what it deletes is older.
#[test]
fn a_lost_delete_is_missed() {
    let directory = tempfile::tempdir().unwrap();
    let (victim, acknowledged) = killed(directory.path(), 0);
    let lost = victim.check(acknowledged + 1000).unwrap_err();
    assert!(lost.contains("was deleted and is there again"), "{lost}");
}
