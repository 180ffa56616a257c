//! Distributes the operations of a trace to the threads that send them.

use super::worker::{Work, Worker};
use super::{Report, Settings};
use crate::clock::spawn_scoped;
use crate::place::Place;
use crate::random::mix;
use crate::trace::{Kind, Operation, Source};
use crate::{Error, Result};
use siltstone::Database;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Instant;

/// Operations passed to a thread at once.
const BATCH: usize = 1024;
/// The maximum number of batches that wait for a thread.
const BATCHES_WAITING: usize = 8;
/// If record sizes are taken from the first set, it must be among this many operations.
const OPERATIONS_BEFORE_SET_MAX: usize = 1 << 20;

type Batch = Vec<(u64, Operation)>;

/// Replays a trace.
///
/// # Errors
/// The first error ends the replay, as does a wrong result.
pub fn run(settings: &Settings, place: &Place, trace: Source) -> Result<Report> {
    if settings.threads == 0 {
        return Err(Error::settings("there is at least one thread"));
    }
    if !settings.use_existing_db {
        place.check_empty()?;
    }
    let mut builder = Database::builder(place.directory())
        .create(!settings.use_existing_db)
        .durability(settings.durability);
    let (mut first, mut trace) = (Vec::new(), trace);
    if settings.fixed {
        let (key_length, value_length) = sizes_of_first_set(&mut trace, &mut first)?;
        builder = builder.fixed(key_length, value_length);
    }
    if settings.hashed_keys {
        builder = builder.hashed_keys();
    }
    let database = settings.tuning.apply(builder).open()?;
    let trace = first.into_iter().map(Ok).chain(trace);
    let trace = trace.take(settings.operations.unwrap_or(u64::MAX).try_into().unwrap_or(usize::MAX));
    let before = database.stats();
    database.reset_ram_peak();
    let started = Instant::now();
    let work = in_threads(settings, &database, trace)?;
    let seconds = started.elapsed().as_secs_f64();
    database.settle()?;
    let settled_seconds = started.elapsed().as_secs_f64();
    let report = Report::new(settings, &work, seconds, settled_seconds, &before, &database.stats());
    database.close()?;
    Ok(report)
}

/// Reads up to the first set, and keeps the operations read.
fn sizes_of_first_set(trace: &mut Source, read: &mut Vec<Operation>) -> Result<(usize, usize)> {
    for operation in trace.take(OPERATIONS_BEFORE_SET_MAX) {
        let operation = operation?;
        read.push(operation);
        if operation.kind == Kind::Set {
            return Ok((operation.key_length.into(), operation.value_length as usize));
        }
    }
    Err(Error::settings("the trace has no set near its beginning, so that fixed sizes are not known"))
}

fn in_threads(
    settings: &Settings,
    database: &Database,
    trace: impl Iterator<Item = crate::trace::Result<Operation>>,
) -> Result<Work> {
    std::thread::scope(|scope| {
        let start = |_| {
            let (sender, receiver) = sync_channel(BATCHES_WAITING);
            Ok((sender, spawn_scoped(scope, move || work(settings, database, &receiver))?))
        };
        let started = (0..settings.threads).map(start).collect::<Result<Vec<_>>>()?;
        let (senders, workers): (Vec<_>, Vec<_>) = started.into_iter().unzip();
        let handed_out = hand_out(settings, senders, trace);
        let mut all = Work::default();
        for worker in workers {
            all.merge(&worker.join().map_err(|_| Error::Panicked)??);
        }
        handed_out?;
        Ok(all)
    })
}

fn work(settings: &Settings, database: &Database, batches: &Receiver<Batch>) -> Result<Work> {
    let mut worker = Worker::new(settings, database);
    for (number, operation) in batches.iter().flatten() {
        worker.send(number, &operation)?;
    }
    Ok(worker.finish())
}

/// Passes each operation to the thread of its key. Ends early if a thread has ended: that thread returns the error.
fn hand_out(
    settings: &Settings,
    senders: Vec<SyncSender<Batch>>,
    trace: impl Iterator<Item = crate::trace::Result<Operation>>,
) -> Result<()> {
    let mut batches = vec![Vec::with_capacity(BATCH); senders.len()];
    for (number, operation) in (0..).zip(trace) {
        let operation = operation?;
        let thread = ((u128::from(mix(operation.key)) * senders.len() as u128) >> 64) as usize;
        batches[thread].push((number, operation));
        if batches[thread].len() >= BATCH {
            let batch = std::mem::replace(&mut batches[thread], Vec::with_capacity(BATCH));
            if settings.stop.load(Relaxed) || senders[thread].send(batch).is_err() {
                return Ok(());
            }
        }
    }
    for (sender, batch) in senders.into_iter().zip(batches) {
        // A thread that has ended returns its own error.
        let _ = sender.send(batch);
    }
    Ok(())
}
