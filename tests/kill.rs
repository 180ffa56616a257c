//! A child process writes and is killed, again and again: what it was told is written is there, and every batch is
//! there whole or not at all.
//!
//! The child is this test program itself, told by an environment variable to write and to print what was acknowledged.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "only the shapes and their keys are of use here")]
mod beds;

use beds::{Bed, SHAPES, Shape, spread};
use siltstone::{Batch, Builder, Database, EngineKind};
use std::io::{BufRead, BufReader, Write, stdout};
use std::path::Path;
use std::process::{Command, Stdio};

const ROUNDS: u64 = 10;
/// Records of a batch.
const BATCH: u64 = 8;
const DIRECTORY: &str = "SILTSTONE_KILL_DIRECTORY";
const SHAPE: &str = "SILTSTONE_KILL_SHAPE";
const START: &str = "SILTSTONE_KILL_START";

/// Each step of the child, by its number: a put, a batch, a delete of an earlier put.
#[derive(Debug, PartialEq, Eq)]
enum Action {
    Put,
    Batch,
    Delete { earlier: u64 },
}

fn action(number: u64) -> Action {
    match number % 5 {
        0 => Action::Batch,
        4 if number > 50 => Action::Delete { earlier: number - 43 },
        _ => Action::Put,
    }
}

/// The key of a step's record, or of one of the records of its batch.
fn key(bed: &Bed, number: u64, member: u64) -> Vec<u8> {
    bed.key(number * BATCH + member)
}

fn builder(bed: &Bed, directory: &Path) -> Builder {
    bed.builder_at(directory).background_threads(1)
}

/// Not a test of its own: what the child does.
#[test]
fn child() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let number = |name| std::env::var(name).unwrap().parse::<u64>().unwrap();
    let bed = Bed::in_memory(EngineKind::default(), SHAPES[number(SHAPE) as usize]);
    let database = builder(&bed, Path::new(&directory)).open().unwrap();
    for step in number(START).. {
        match action(step) {
            Action::Put => database.put(key(&bed, step, 0), bed.value(step, 0)).unwrap(),
            Action::Delete { earlier } => database.delete(key(&bed, earlier, 0)).unwrap(),
            Action::Batch => {
                let mut batch = Batch::new();
                for member in 0..BATCH {
                    batch.put(key(&bed, step, member), bed.value(step, member)).unwrap();
                }
                database.write(&batch).unwrap();
            }
        }
        let mut out = stdout().lock();
        writeln!(out, "acknowledged {step}").unwrap();
        out.flush().unwrap();
    }
}

/// Lets a child write from step `start` on, kills it after so many acknowledgements, and answers the last of them.
fn write_and_be_killed(directory: &Path, shape: u64, start: u64, acknowledgements: u64) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, directory)
        .env(SHAPE, shape.to_string())
        .env(START, start.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut last = None;
    let mut kill_at = Some(start + acknowledgements);
    // What it still says while it dies counts too: it was acknowledged.
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let Ok(line) = line else { break };
        let Some(step) = line.strip_prefix("acknowledged ").and_then(|step| step.parse().ok()) else {
            continue;
        };
        last = Some(step);
        if kill_at.is_some_and(|kill_at| step >= kill_at) {
            child.kill().unwrap();
            kill_at = None;
        }
    }
    child.wait().unwrap();
    assert!(kill_at.is_none(), "the child ended before it was killed");
    last.unwrap()
}

/// The step after the last acknowledged one may have been carried out or not, but not in part.
fn check(bed: &Bed, database: &Database, acknowledged: u64) {
    let get = |step, member| database.get(key(bed, step, member)).unwrap();
    let deleted_by = |step: u64| Some(step + 43).filter(|by| action(*by) == Action::Delete { earlier: step });
    for step in 0..=acknowledged {
        let members = match action(step) {
            Action::Put if deleted_by(step).is_some_and(|by| by <= acknowledged) => {
                assert!(get(step, 0).is_none(), "{bed}: step {step} was deleted");
                continue;
            }
            Action::Put if deleted_by(step) == Some(acknowledged + 1) && get(step, 0).is_none() => continue,
            Action::Put => 1,
            Action::Batch => BATCH,
            Action::Delete { .. } => continue,
        };
        for member in 0..members {
            let got = get(step, member);
            assert_eq!(got.unwrap(), bed.value(step, member), "{bed}: step {step}, record {member}");
        }
    }
    let next = acknowledged + 1;
    if action(next) == Action::Batch {
        let there = (0..BATCH).filter(|member| get(next, *member).is_some()).count() as u64;
        assert!(there == 0 || there == BATCH, "{bed}: {there} records of the batch of step {next}");
    }
}

fn survives(number: usize, shape: Shape) {
    let bed = Bed::in_memory(EngineKind::default(), shape);
    let directory = tempfile::tempdir().unwrap();
    let mut start = 0;
    for round in 0..ROUNDS {
        let acknowledgements = 20 + spread(round) % 1_500;
        let acknowledged = write_and_be_killed(directory.path(), number as u64, start, acknowledgements);
        let database = builder(&bed, directory.path()).create(false).open().unwrap();
        check(&bed, &database, acknowledged);
        let report = database.verify(&mut |_, _| true).unwrap();
        assert!(report.damage.is_empty(), "{bed}, round {round}: {:?}", report.damage);
        // The step that was under way is done again.
        start = acknowledged + 1;
    }
}

#[test]
fn what_was_acknowledged_survives_a_kill() {
    for (number, shape) in SHAPES.into_iter().enumerate().step_by(2) {
        survives(number, shape);
    }
}
