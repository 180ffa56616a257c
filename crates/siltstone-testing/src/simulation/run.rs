//! One run: the operations, executed on a database and on its model.

use super::configuration::BEGINNING_MS;
use super::model::{Model, Outcome};
use super::{Configuration, Counts, Simulation};
use crate::operations::{BatchWrite, KeyNumber, Operation};
use crate::reference::{Cell, DOUBTS_MAX, Ending, Records, Violation};
use crate::simulated::{Crash, Faults, SimulatedDirectory, Survival};
use siltstone::batch::TimestampMs;
use siltstone::engine::Found;
use siltstone::{Bytes, Database, Error, Iter, Snapshot, Step};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A database that accepts no more writes is opened again after this number of operations.
const POISONED_OPERATIONS_MAX: u32 = 10;
/// A crash that is to be within a background job is after at most this number of steps.
const STEPS_INTO_A_JOB: u32 = 64;
/// The power fails before this number of calls of the device after a compaction was requested for it.
const CALLS_INTO_A_COMPACTION: u64 = 50;
/// Background work that takes more steps than this counts as endless.
pub(super) const STEPS_MAX: u32 = 1_000_000;
/// The number of keys that are looked up after an open.
pub(super) const KEYS_CHECKED: u32 = 40;

/// The maximum probability of a flipped bit in a read while a database is opened.
const READ_FLIP_MAX: f64 = 0.01;

/// A snapshot that is read later, and the model at its moment.
pub(super) struct Held {
    pub snapshot: Snapshot,
    pub reference: Model,
    pub now_ms: TimestampMs,
}

/// A scan that has not reached the end. It holds no part of the database, so it continues after crashes.
pub(super) struct Scan {
    pub next: u64,
    /// The keys that were returned.
    pub returned: BTreeSet<Bytes>,
    /// The keys that have been present since the scan began.
    pub present: BTreeSet<Vec<u8>>,
}

/// What happened to the device and the database since the database was opened.
#[derive(Default)]
pub(super) struct Session {
    /// The device's counts when the session began.
    pub failed_changes: u64,
    pub failed_syncs: u64,
    pub faults: u64,
    /// The current faults, if any.
    pub disturbed: Option<Faults>,
    /// A call returned an error after which the database may accept no more writes.
    pub may_be_poisoned: bool,
    pub operations_poisoned: u32,
    pub writes_done: u64,
    pub writes_in_doubt: u64,
}

pub(super) struct Run<'a> {
    pub simulation: &'a Simulation,
    pub configuration: Configuration,
    pub scratch: Option<&'a Path>,
    pub backend: SimulatedDirectory,
    pub clock: Arc<AtomicU64>,
    pub database: Option<Database>,
    pub reference: Model,
    pub random: fastrand::Rng,
    pub session: Session,
    pub held: Option<Held>,
    pub scan: Option<Scan>,
    pub counts: Counts,
}

impl<'a> Run<'a> {
    pub fn new(simulation: &'a Simulation, scratch: Option<&'a Path>) -> Run<'a> {
        let configuration = simulation.configuration.clone();
        Run {
            simulation,
            scratch,
            backend: SimulatedDirectory::new(simulation.seed)
                .direct_alignment(configuration.direct_alignment),
            reference: Model::new(configuration.engine.is_lossy),
            configuration,
            clock: Arc::new(AtomicU64::new(BEGINNING_MS)),
            database: None,
            random: fastrand::Rng::with_seed(simulation.seed ^ 0x5EED),
            session: Session::default(),
            held: None,
            scan: None,
            counts: Counts { runs: 1, ..Counts::default() },
        }
    }

    /// Returns the number of executed operations.
    pub fn done(&self) -> usize {
        self.counts.operations as usize
    }

    /// Executes all operations, then a crash and a compaction, with which every run ends.
    pub fn go(&mut self) -> Result<Counts, Violation> {
        self.open(Ending::Closed)?;
        for operation in &self.simulation.operations {
            self.operate(operation)?;
            self.counts.operations += 1;
        }
        let crash = Crash::random(&mut self.random);
        self.crash(crash, None)?;
        self.verify()?;
        if self.random.bool() {
            self.compact()?;
            self.check_all()?;
        }
        self.close_and_reopen()?;
        self.note_faults();
        let both = self.counts.crashes > 0 && self.counts.faults > 0;
        self.counts.runs_with_crash_and_fault = u64::from(both);
        Ok(std::mem::take(&mut self.counts))
    }

    pub fn now_ms(&self) -> TimestampMs {
        self.clock.load(Relaxed)
    }

    pub fn database(&self) -> Result<Database, Violation> {
        self.database.clone().ok_or_else(|| Violation::new("there is no database".into()))
    }

    pub fn key(&self, number: KeyNumber) -> Vec<u8> {
        self.configuration.key(&self.simulation.workload, number)
    }

    /// Executes one operation.
    fn operate(&mut self, operation: &Operation) -> Outcome {
        self.carry_out(operation)?;
        if self.backend.failed_syncs() > self.session.failed_syncs {
            self.reference.sync_failed();
        }
        if self.session.may_be_poisoned {
            self.session.operations_poisoned += 1;
        }
        if self.backend.is_off() {
            self.counts.power_losses_within += 1;
            let crash = Crash::PowerLost(self.random_survival());
            self.crash(crash, None)?;
        } else if self.session.operations_poisoned > POISONED_OPERATIONS_MAX
            || self.reference.doubts() == DOUBTS_MAX
        {
            let crash = Crash::random(&mut self.random);
            self.crash(crash, None)?;
        }
        Ok(())
    }

    fn carry_out(&mut self, operation: &Operation) -> Outcome {
        match operation {
            Operation::Put { key, value, expires_in_ms, durability } => {
                self.write(&[BatchWrite { key: *key, value: Some((*value, *expires_in_ms)) }], *durability)
            }
            Operation::Delete { key, durability } => {
                self.write(&[BatchWrite { key: *key, value: None }], *durability)
            }
            Operation::Batch { writes, durability } => self.write(writes, *durability),
            Operation::Update { key, modification, durability } => {
                self.update(*key, *modification, *durability)
            }
            Operation::Transact { modifications, durability } => self.transact(modifications, *durability),
            Operation::InsertManyIfAbsent(records) => self.insert_many_if_absent(records),
            Operation::BulkLoad(records) => self.bulk_load(records),
            Operation::CompareAndSwap { key, matches, new } => self.compare_and_swap(*key, *matches, *new),
            Operation::Remove(key) => self.remove(*key),
            Operation::Get(key) => self.get(*key),
            Operation::GetMany(keys) => self.get_many(keys),
            Operation::Iterate => self.iterate(),
            Operation::Scan(limit) => self.scan_page(*limit),
            Operation::Sync => self.sync(),
            Operation::Step(count) => self.step(*count),
            Operation::Compact => self.compact(),
            Operation::Wait(ms) => {
                self.clock.fetch_add(*ms, Relaxed);
                Ok(())
            }
            Operation::Budget(bytes) => match self.database()?.set_memory_budget(*bytes) {
                Ok(()) | Err(Error::Unsupported { .. }) => Ok(()),
                // After a batch that failed half-way, nothing is read or set.
                Err(Error::Torn { .. }) if self.session.may_be_poisoned => Ok(()),
                Err(error) => Err(Violation::new(format!("memory_budget: {error}"))),
            },
            Operation::Verify => self.verify(),
            Operation::Checkpoint => self.checkpoint(),
            Operation::Reopen => self.close_and_reopen(),
            Operation::Crash(crash, seed) => self.crash(*crash, Some(*seed)),
            Operation::PowerOff(changes) => {
                self.backend.power_off_after(*changes);
                Ok(())
            }
            Operation::Fail(faults) => {
                self.disturb(faults);
                Ok(())
            }
        }
    }

    fn disturb(&mut self, faults: &Faults) {
        self.backend.set_faults(faults.clone());
        self.session.disturbed = Some(faults.clone());
    }

    fn random_survival(&mut self) -> Survival {
        [Survival::Nothing, Survival::Prefix, Survival::Scattered, Survival::Everything]
            [self.random.usize(..4)]
    }

    /// Returns whether a change of the device may fail.
    pub fn may_fail(&self) -> bool {
        self.session.disturbed.is_some() || self.session.may_be_poisoned || self.backend.is_off()
    }

    /// Returns whether reads may fail.
    pub fn reads_may_fail(&self) -> bool {
        let disturbed = self.session.disturbed.as_ref();
        let by_fault =
            disturbed.is_some_and(|faults| faults.read_error + faults.short_read + faults.read_flip > 0.0);
        // A sync that failed may have lost what was written.
        by_fault || self.backend.is_off() || self.backend.failed_syncs() > self.session.failed_syncs
    }

    /// Returns whether a write must be refused: a change of the device has failed.
    pub fn must_refuse(&self) -> bool {
        self.backend.failed_changes() > self.session.failed_changes
    }

    pub fn failed(&mut self, what: &str, error: &Error) -> Outcome {
        match error {
            // A get that puts a record to flash returns what it has found, also if that write fails.
            Error::Poisoned { .. } | Error::Torn { .. }
                if !self.session.may_be_poisoned && !self.must_refuse() =>
            {
                Err(Violation::new(format!("{what}: {error}, but nothing had failed")))
            }
            error if !self.may_fail() => Err(Violation::new(format!("{what}: {error}"))),
            _ => {
                self.session.may_be_poisoned = true;
                Ok(())
            }
        }
    }

    pub fn read_failed(&self, what: &str, error: &Error) -> Outcome {
        let is_torn = self.session.may_be_poisoned && matches!(error, Error::Torn { .. });
        if is_torn || self.reads_may_fail() {
            Ok(())
        } else {
            Err(Violation::new(format!("{what}: {error}")))
        }
    }

    fn step(&mut self, count: u32) -> Outcome {
        let database = self.database()?;
        for _ in 0..count {
            match database.step() {
                Ok(Step::Worked) => {}
                Ok(Step::Idle) => break,
                Err(error) => return self.failed("step", &error),
            }
        }
        Ok(())
    }

    fn close_and_reopen(&mut self) -> Outcome {
        self.held = None;
        let refuse = self.must_refuse();
        let Some(database) = self.database.take() else { return Ok(()) };
        self.note_jobs(&database);
        match database.close() {
            Ok(()) if refuse => {
                Err(Violation::new("closing was acknowledged after a change had failed".into()))
            }
            Ok(()) => {
                drop(database);
                self.reference.synced();
                self.open(Ending::Closed)
            }
            Err(error) => {
                self.failed("close", &error)?;
                self.database = Some(database);
                self.crash(Crash::ProcessKilled, None)
            }
        }
    }

    fn note_jobs(&mut self, database: &Database) {
        let stats = database.stats();
        let detail = |wanted: &str| {
            let found = stats.details.iter().find(|(name, _)| *name == wanted);
            found.map_or(0, |(_, count)| *count as u64)
        };
        for job in self.configuration.engine.jobs {
            *self.counts.jobs.entry(job.name).or_default() += detail(job.name);
        }
    }

    fn note_faults(&mut self) {
        self.counts.faults += self.backend.fault_count() - self.session.faults;
        self.session.faults = self.backend.fault_count();
    }

    /// Returns the jobs that have begun and not ended, by the items of their memory.
    fn jobs_at_work(&self, database: &Database) -> Vec<&'static str> {
        let ram = database.stats().ram;
        let items = ram.items();
        let is_used = |job: &&str| items.iter().any(|(name, bytes)| name == job && *bytes > 0);
        self.configuration.engine.job_buffers.iter().copied().filter(is_used).collect()
    }

    /// Does background work until a job has begun and not ended. If there is none, the power fails in a compaction.
    fn begin_job(&mut self) -> Outcome {
        let Some(database) = self.database.clone() else { return Ok(()) };
        let mut is_requested = false;
        for _ in 0..STEPS_INTO_A_JOB {
            if self.backend.is_off() || !self.jobs_at_work(&database).is_empty() {
                break;
            }
            match database.step() {
                Ok(Step::Worked) => {}
                Ok(Step::Idle) if is_requested => break,
                Ok(Step::Idle) => {
                    is_requested = true;
                    self.backend.power_off_after(self.random.u64(1..CALLS_INTO_A_COMPACTION));
                    if let Err(error) = database.compact() {
                        return self.failed("compact", &error);
                    }
                }
                Err(error) => return self.failed("step", &error),
            }
        }
        Ok(())
    }

    /// Ends the database without closing it, and opens what is left, with faults in some seeds. Two of three crashes
    /// are within a job, if there is work for one.
    fn crash(&mut self, mut crash: Crash, seed: Option<u64>) -> Outcome {
        self.held = None;
        if !self.backend.is_off() && self.random.u8(..3) > 0 {
            self.begin_job()?;
            if self.backend.is_off() {
                crash = Crash::PowerLost(self.random_survival());
            }
        }
        if self.backend.failed_syncs() > self.session.failed_syncs {
            self.reference.sync_failed();
        }
        self.restart_device(crash);
        if let Some(database) = self.database.take() {
            self.note_jobs(&database);
            for job in self.jobs_at_work(&database) {
                *self.counts.crashes_in_jobs.entry(job).or_default() += 1;
                self.counts.runs_with_crash_in_jobs.insert(job, 1);
            }
        }
        if let Some(seed) = seed {
            let mut random = fastrand::Rng::with_seed(seed);
            if random.u8(..4) == 0 {
                self.configuration.redraw(&mut random);
            }
            match random.u8(..6) {
                0 => self.disturb(&Faults::random(&mut random)),
                1 | 2 => self.backend.power_off_after(random.u64(1..20)),
                _ => {}
            }
        }
        self.open(crash.into())
    }

    fn restart_device(&mut self, crash: Crash) {
        self.note_faults();
        self.counts.crashes += 1;
        self.backend = self.backend.crash(crash, &mut self.random);
        self.begin_session(None);
    }

    fn begin_session(&mut self, disturbed: Option<Faults>) {
        self.session = Session {
            failed_changes: self.backend.failed_changes(),
            failed_syncs: self.backend.failed_syncs(),
            faults: self.backend.fault_count(),
            disturbed,
            ..Session::default()
        };
    }

    /// Opens the database, if necessary after more crashes, and checks its records.
    fn open(&mut self, mut ending: Ending) -> Outcome {
        if let Some(faults) = &self.session.disturbed {
            self.backend.set_faults(opening_faults(faults));
        }
        loop {
            let outcome = self.configuration.open(&self.backend, &self.clock);
            if self.backend.failed_syncs() > self.session.failed_syncs {
                self.reference.sync_failed();
            }
            let off = self.backend.is_off();
            match outcome {
                Ok(database) if !off => {
                    self.database = Some(database);
                    break;
                }
                Err(error) if !self.may_fail() => {
                    return Err(Violation::new(format!("the database does not open: {error}")));
                }
                _ => {}
            }
            self.counts.failed_openings += 1;
            let crash = if off { Crash::PowerLost(self.random_survival()) } else { Crash::ProcessKilled };
            ending = worse(ending, crash.into());
            self.restart_device(crash);
        }
        self.counts.reopenings += 1;
        self.note_faults();
        let disturbed = self.session.disturbed.take();
        self.backend.set_faults(Faults::default());
        self.begin_session(None);
        self.check_opened(ending)?;
        if let Some(faults) = disturbed {
            self.disturb(&faults);
        }
        Ok(())
    }

    fn check_opened(&mut self, ending: Ending) -> Outcome {
        let records = self.database()?.iter().and_then(collect);
        let records = records.map_err(|error| Violation::new(format!("iter after opening: {error}")))?;
        self.reference.restarted(ending, &records, self.now_ms())?;
        if let Some(scan) = &mut self.scan {
            scan.present.retain(|key| records.contains_key(&key[..]));
        }
        let keys = self.simulation.workload.keys;
        for _ in 0..keys.min(KEYS_CHECKED) {
            let key = self.random.u32(..keys);
            self.get(key)?;
        }
        self.check_stats(true)
    }
}

/// Returns the ending that guarantees less.
fn worse(one: Ending, other: Ending) -> Ending {
    match (one, other) {
        (Ending::PowerLost, _) | (_, Ending::PowerLost) => Ending::PowerLost,
        (Ending::ProcessKilled, _) | (_, Ending::ProcessKilled) => Ending::ProcessKilled,
        (Ending::Closed, Ending::Closed) => Ending::Closed,
    }
}

/// Returns the faults during an open, with fewer flipped bits. A bit that flips during a read looks like the torn
/// end of a log, which is read twice before it is cut off: with a higher probability both reads could return the same
/// wrong bytes.
fn opening_faults(faults: &Faults) -> Faults {
    Faults { read_flip: faults.read_flip.min(READ_FLIP_MAX), ..faults.clone() }
}

pub(super) fn cell(found: Found) -> Cell {
    Cell { value: found.value, expires_at_ms: found.expires_at_ms }
}

pub(super) fn collect(records: Iter) -> siltstone::Result<Records> {
    let mut all = Records::new();
    for record in records {
        let record = record?;
        let cell = Cell { value: record.value, expires_at_ms: record.expires_at_ms };
        if all.insert(record.key.clone(), cell).is_some() {
            return Err(Error::Setting {
                name: "iter",
                problem: format!("key {} came twice", record.key.escape_ascii()),
            });
        }
    }
    Ok(all)
}
