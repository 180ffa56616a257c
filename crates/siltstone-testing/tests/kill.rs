//! A child process writes and is killed, several times: all acknowledged writes are present, and each batch completely
//! or not at all. `siltstone-testing kill` does the same at length.
//!
//! The child is this test program itself. Environment variables make it write.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use siltstone::Access;
use siltstone_testing::{TestEngine, Victim};
use std::process::Command;

const ROUNDS: u64 = 6;
const ENGINE: &str = "SILTSTONE_KILL_ENGINE";
const DIRECTORY: &str = "SILTSTONE_KILL_DIRECTORY";
const SHAPE: &str = "SILTSTONE_KILL_SHAPE";
const START: &str = "SILTSTONE_KILL_START";

/// Returns the access of a shape: every other one uses direct I/O where the file system supports it.
fn access(shape: usize) -> Access {
    if shape.is_multiple_of(2) { Access::Buffered } else { Access::DirectOrBuffered }
}

/// Does the work of the child; not a test of its own.
#[test]
fn child() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let number = |name| std::env::var(name).unwrap().parse::<u64>().unwrap();
    let shape = number(SHAPE) as usize;
    let name = std::env::var(ENGINE).unwrap();
    let engine = TestEngine::all().into_iter().find(|engine| engine.info.name == name).unwrap();
    let victim = Victim { engine, directory: directory.into(), shape, access: access(shape) };
    victim.write(number(START), &mut std::io::stdout().lock()).unwrap();
}

#[test]
fn what_was_acknowledged_survives_a_kill() {
    let shapes = TestEngine::persistent()
        .flat_map(|engine| (0..Victim::SHAPES).map(move |shape| (engine.clone(), shape)));
    for (engine, shape) in shapes {
        let directory = tempfile::tempdir().unwrap();
        let victim = Victim { engine, directory: directory.path().into(), shape, access: access(shape) };
        let mut random = fastrand::Rng::with_seed(shape as u64);
        let mut start = 0;
        for round in 0..ROUNDS {
            let mut child = Command::new(std::env::current_exe().unwrap());
            child.args(["--exact", "child", "--nocapture", "--test-threads=1"]);
            child.env(DIRECTORY, &victim.directory).env(SHAPE, shape.to_string());
            child.env(START, start.to_string()).env(ENGINE, victim.engine.info.name);
            let acknowledged = Victim::kill(&mut child, start, random.u64(20..1500)).unwrap();
            victim.check(acknowledged).unwrap_or_else(|lost| panic!("{victim:?}, round {round}: {lost}"));
            // The step during which it was killed is repeated.
            start = acknowledged + 1;
        }
    }
}

/// Returns a victim that was killed after a hundred steps from `start` on, and the last acknowledged step.
fn killed(directory: &std::path::Path, start: u64) -> (Victim, u64) {
    let victim = Victim {
        engine: TestEngine::silt(),
        directory: directory.into(),
        shape: 1,
        access: Access::Buffered,
    };
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "child", "--nocapture", "--test-threads=1"]);
    child.env(DIRECTORY, directory).env(SHAPE, "1").env(ENGINE, "silt").env(START, start.to_string());
    let acknowledged = Victim::kill(&mut child, start, 100).unwrap();
    (victim, acknowledged)
}

/// Steps that were never executed count as lost: here the first one, which is a batch.
#[test]
fn a_lost_put_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let (victim, acknowledged) = killed(directory.path(), 1);
    let lost = victim.check(acknowledged).unwrap_err();
    assert!(lost.contains("step 0, record 0: it is missing"), "{lost}");
}

/// The first step that was never executed and has a visible effect is a delete of an older record.
#[test]
fn a_lost_delete_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let (victim, acknowledged) = killed(directory.path(), 0);
    let lost = victim.check(acknowledged + 1000).unwrap_err();
    assert!(lost.contains("was deleted and is there again"), "{lost}");
}
