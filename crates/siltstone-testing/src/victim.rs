//! A process that writes to a database and is killed, and the check of what it left: all acknowledged writes, and each
//! batch completely or not at all.
//!
//! The number of a step determines what the process does in it, so the check needs no record of what was written.

use crate::TestEngine;
use siltstone::{Access, Batch, Builder, Database, Durability, WriteOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// The number of records in a batch.
const BATCH: u64 = 8;
/// A record that is deleted at all is deleted this number of steps later.
const DELETED_AFTER: u64 = 43;
const ACKNOWLEDGED: &str = "acknowledged ";

/// The shapes of records: the lengths of keys and values, if they are fixed, and whether keys are hashes.
const SHAPES: [(Option<(usize, usize)>, bool); 4] =
    [(None, false), (Some((20, 44)), false), (None, true), (Some((32, 12)), true)];

/// A database whose process is killed.
#[derive(Debug, Clone)]
pub struct Victim {
    /// Its engine, which is persistent.
    pub engine: TestEngine,
    /// Its directory.
    pub directory: PathBuf,
    /// The shape of its records, below [`Victim::SHAPES`].
    pub shape: usize,
    /// How its stores are read and written.
    pub access: Access,
}

/// What the process does in a step.
#[derive(Debug, PartialEq, Eq)]
enum Action {
    Put,
    Batch,
    Delete { earlier: u64 },
}

fn action(step: u64) -> Action {
    match step % 5 {
        0 => Action::Batch,
        4 if step > 50 => Action::Delete { earlier: step - DELETED_AFTER },
        _ => Action::Put,
    }
}

/// Returns the step that deletes what this one puts, if there is one.
fn deleted_by(step: u64) -> Option<u64> {
    let by = step + DELETED_AFTER;
    (action(by) == Action::Delete { earlier: step }).then_some(by)
}

impl Victim {
    /// How many shapes there are.
    pub const SHAPES: usize = SHAPES.len();

    /// Returns a builder with settings so small that a few thousand records reach all stores.
    fn builder(&self) -> Builder {
        let (fixed, hashed_keys) = SHAPES[self.shape % SHAPES.len()];
        let builder = self.engine.builder(&self.directory, fixed).access(self.access).background_threads(1);
        if hashed_keys { builder.hashed_keys() } else { builder }
    }

    /// Returns the key of a step's record, or of one of the records of its batch.
    fn key(&self, step: u64, member: u64) -> Vec<u8> {
        let length =
            SHAPES[self.shape % SHAPES.len()].0.map_or(8 + (step % 23) as usize, |(length, _)| length);
        let mut key = vec![0; length];
        fastrand::Rng::with_seed(step * BATCH + member).fill(&mut key);
        key
    }

    fn value(&self, step: u64, member: u64) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(!(step * BATCH + member));
        let length = SHAPES[self.shape % SHAPES.len()].0.map(|(_, length)| length);
        let mut value =
            vec![0; length.unwrap_or_else(|| if random.u8(..50) == 0 { 5000 } else { random.usize(..200) })];
        random.fill(&mut value);
        value
    }

    /// Does the work of the process: writes from step `start` on, and prints a line after each acknowledged step. Ends
    /// only with an error.
    pub fn write(&self, start: u64, said: &mut dyn Write) -> siltstone::Result<()> {
        let database = self.builder().open()?;
        for step in start.. {
            // Most writes survive the process only; some kills happen during a sync.
            let durability = if step % 64 == 0 { Durability::Synced } else { Durability::Written };
            let options = WriteOptions::default().durability(durability);
            match action(step) {
                Action::Put => database.put_with(self.key(step, 0), self.value(step, 0), options)?,
                Action::Delete { earlier } => database.delete_with(self.key(earlier, 0), options)?,
                Action::Batch => {
                    let mut batch = Batch::new();
                    for member in 0..BATCH {
                        batch.put(self.key(step, member), self.value(step, member))?;
                    }
                    database.write_with(&batch, options)?;
                }
            }
            let said = writeln!(said, "{ACKNOWLEDGED}{step}").and_then(|()| said.flush());
            said.map_err(|error| siltstone::Error::Io {
                operation: "write",
                file: "the standard output".into(),
                source: Arc::new(error),
            })?;
        }
        Ok(())
    }

    /// Starts `command`, which must call [`write`](Victim::write) from step `start` on with its standard output, and
    /// kills it after this number of acknowledgements. Returns the last acknowledged step.
    ///
    /// # Errors
    /// If it does not start, or ends before it is killed.
    pub fn kill(command: &mut Command, start: u64, acknowledgements: u64) -> Result<u64, String> {
        let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
        let outcome = kill_after(&mut child, start + acknowledgements);
        child.wait().map_err(|error| error.to_string())?;
        outcome
    }

    /// Opens the database and checks that all acknowledged writes are present.
    ///
    /// # Errors
    /// What is missing, damaged, or present although it was deleted.
    pub fn check(&self, acknowledged: u64) -> Result<(), String> {
        let database = self.builder().create(false).open().map_err(|error| error.to_string())?;
        for step in 0..=acknowledged {
            self.check_step(&database, step, acknowledged)?;
        }
        // The next step may have been executed or not, but not in part.
        let next = acknowledged + 1;
        if action(next) == Action::Batch {
            let mut there = 0;
            for member in 0..BATCH {
                there += u64::from(self.get(&database, next, member)?.is_some());
            }
            if there != 0 && there != BATCH {
                return Err(format!("{there} records of the batch of step {next} are present"));
            }
        }
        let report = database.verify().map_err(|error| error.to_string())?;
        if report.damage.is_empty() { Ok(()) } else { Err(format!("{:?}", report.damage)) }
    }

    fn get(&self, database: &Database, step: u64, member: u64) -> Result<Option<Vec<u8>>, String> {
        let found = database.get(self.key(step, member)).map_err(|error| format!("step {step}: {error}"))?;
        Ok(found.map(|value| value.to_vec()))
    }

    fn check_step(&self, database: &Database, step: u64, acknowledged: u64) -> Result<(), String> {
        let members = match action(step) {
            Action::Delete { .. } => 0,
            Action::Batch => BATCH,
            Action::Put => 1,
        };
        for member in 0..members {
            let found = self.get(database, step, member)?;
            let deleted_by = deleted_by(step).filter(|_| members == 1);
            match found {
                Some(_) if deleted_by.is_some_and(|by| by <= acknowledged) => {
                    return Err(format!("step {step} was deleted and is there again"));
                }
                None if deleted_by.is_some_and(|by| by <= acknowledged + 1) => {}
                None => return Err(format!("step {step}, record {member}: it is missing")),
                Some(value) if value != self.value(step, member) => {
                    return Err(format!("step {step}, record {member}: it has another value"));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}

fn kill_after(child: &mut Child, kill_at: u64) -> Result<u64, String> {
    let said = child.stdout.take().ok_or("its output is missing")?;
    let (mut last, mut killed) = (None, false);
    // Lines that it prints before it dies count too: these steps were acknowledged.
    for line in BufReader::new(said).lines() {
        let Ok(line) = line else { break };
        let Some(step) = line.strip_prefix(ACKNOWLEDGED).and_then(|step| step.parse().ok()) else { continue };
        last = Some(step);
        if step >= kill_at && !killed {
            child.kill().map_err(|error| error.to_string())?;
            killed = true;
        }
    }
    if killed {
        last.ok_or("it acknowledged nothing".into())
    } else {
        Err("it ended before it was killed".into())
    }
}
