//! One run: the operations carried out on a database and on its model.

use super::configuration::BEGINNING_MS;
use super::{Configuration, Simulation, Tally};
use crate::batch::{Batch, Durability, NEVER, TimestampMs, Write};
use crate::device::{Access, Directory};
use crate::engine::{Change, Found};
use crate::testing::operations::{BatchWrite, KeyNumber, Modification, Operation, modified};
use crate::testing::reference::{Cell, DOUBTS_MAX, Ending, Records, Reference, Violation};
use crate::testing::simulated::{Crash, Faults, SimulatedDirectory, Survival};
use crate::{Database, Error, Iter, Step, WriteOptions};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

type Outcome = Result<(), Violation>;

/// A database that takes no more writes is opened anew after so many operations.
const POISONED_OPERATIONS_MAX: u32 = 10;
/// Background work that has not ended after so many steps never will.
const STEPS_MAX: u32 = 1_000_000;
/// The keys that are looked up one by one when a database was opened.
const KEYS_CHECKED: u32 = 100;

/// How often a bit may be wrong that is read while a database is opened.
const READ_FLIP_MAX: f64 = 0.01;

/// A snapshot that is read later, and the model as it was then.
struct Held {
    records: Iter,
    reference: Reference,
    now_ms: TimestampMs,
}

/// What was seen of the device and the database since the database was opened.
#[derive(Default)]
struct Session {
    /// The device's counts when the session began.
    failed_changes: u64,
    failed_syncs: u64,
    faults: u64,
    /// What goes wrong now, if anything.
    disturbed: Option<Faults>,
    /// An error was answered that may have ended the taking of writes.
    may_be_poisoned: bool,
    operations_poisoned: u32,
    writes_done: u64,
    writes_in_doubt: u64,
}

pub(super) struct Run<'a> {
    simulation: &'a Simulation,
    configuration: Configuration,
    scratch: Option<&'a Path>,
    backend: SimulatedDirectory,
    clock: Arc<AtomicU64>,
    database: Option<Database>,
    reference: Reference,
    random: fastrand::Rng,
    session: Session,
    held: Option<Held>,
    tally: Tally,
}

impl<'a> Run<'a> {
    pub fn new(simulation: &'a Simulation, scratch: Option<&'a Path>) -> Run<'a> {
        let configuration = simulation.configuration.clone();
        Run {
            simulation,
            scratch,
            backend: SimulatedDirectory::new(simulation.seed)
                .direct_alignment(configuration.direct_alignment),
            configuration,
            clock: Arc::new(AtomicU64::new(BEGINNING_MS)),
            database: None,
            reference: Reference::new(),
            random: fastrand::Rng::with_seed(simulation.seed ^ 0x5EED),
            session: Session::default(),
            held: None,
            tally: Tally { runs: 1, ..Tally::default() },
        }
    }

    /// How many operations were done.
    pub fn done(&self) -> usize {
        self.tally.operations as usize
    }

    /// Does all operations, then ends as every run does: with a crash, and with everything merged.
    pub fn go(&mut self) -> Result<Tally, Violation> {
        self.open(Ending::Closed)?;
        for operation in &self.simulation.operations {
            self.operate(operation)?;
            self.tally.operations += 1;
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
        let both = self.tally.crashes > 0 && self.tally.faults > 0;
        self.tally.runs_with_crash_and_fault = u64::from(both);
        Ok(self.tally)
    }

    fn now_ms(&self) -> TimestampMs {
        self.clock.load(Relaxed)
    }

    fn database(&self) -> Result<Database, Violation> {
        self.database.clone().ok_or_else(|| Violation::new("there is no database".into()))
    }

    fn key(&self, number: KeyNumber) -> Vec<u8> {
        self.configuration.key(&self.simulation.workload, number)
    }

    /// One operation, and what follows from it.
    fn operate(&mut self, operation: &Operation) -> Outcome {
        self.carry_out(operation)?;
        if self.backend.failed_syncs() > self.session.failed_syncs {
            self.reference.sync_failed();
        }
        if self.session.may_be_poisoned {
            self.session.operations_poisoned += 1;
        }
        if self.backend.is_off() {
            self.tally.power_losses_within += 1;
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
            Operation::Get(key) => self.get(*key),
            Operation::GetMany(keys) => self.get_many(keys),
            Operation::Iterate => self.iterate(),
            Operation::Sync => self.sync(),
            Operation::Step(count) => self.step(*count),
            Operation::Compact => self.compact(),
            Operation::Wait(ms) => {
                self.clock.fetch_add(*ms, Relaxed);
                Ok(())
            }
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

    /// Whether anything that changes the device may fail.
    fn may_fail(&self) -> bool {
        self.session.disturbed.is_some() || self.session.may_be_poisoned || self.backend.is_off()
    }

    /// Whether reads may fail.
    fn reads_may_fail(&self) -> bool {
        let disturbed = self.session.disturbed.as_ref();
        let by_fault =
            disturbed.is_some_and(|faults| faults.read_error + faults.short_read + faults.read_flip > 0.0);
        // A sync that failed may have taken away what was written.
        by_fault || self.backend.is_off() || self.backend.failed_syncs() > self.session.failed_syncs
    }

    /// Whether a write must be refused: something that changes the device failed before.
    fn must_refuse(&self) -> bool {
        self.backend.failed_changes() > self.session.failed_changes
    }

    fn failed(&mut self, what: &str, error: &Error) -> Outcome {
        match error {
            Error::Poisoned { .. } if !self.session.may_be_poisoned => {
                Err(Violation::new(format!("{what}: {error}, but nothing had failed")))
            }
            error if !self.may_fail() => Err(Violation::new(format!("{what}: {error}"))),
            _ => {
                self.session.may_be_poisoned = true;
                Ok(())
            }
        }
    }

    fn read_failed(&self, what: &str, error: &Error) -> Outcome {
        if self.reads_may_fail() { Ok(()) } else { Err(Violation::new(format!("{what}: {error}"))) }
    }

    /// Tells the model what became of a write.
    fn note_write(
        &mut self,
        writes: &[Write<'_>],
        durability: Durability,
        refuse: bool,
        outcome: crate::Result<()>,
    ) -> Outcome {
        match outcome {
            Ok(()) if refuse => {
                Err(Violation::new("a write was acknowledged after another had failed".into()))
            }
            Ok(()) => {
                self.reference.acknowledged(writes, durability);
                self.session.writes_done += writes.len() as u64;
                self.tally.writes += 1;
                Ok(())
            }
            Err(error) => {
                self.failed("write", &error)?;
                if !matches!(error, Error::Poisoned { .. }) {
                    self.reference.attempted(writes);
                    self.session.writes_in_doubt += writes.len() as u64;
                }
                Ok(())
            }
        }
    }

    fn write(&mut self, writes: &[BatchWrite], durability: Durability) -> Outcome {
        let now_ms = self.now_ms();
        let owned: Vec<_> = writes
            .iter()
            .map(|write| {
                let value = write.value.map(|(value, expires_in_ms)| {
                    let expires_at_ms = if expires_in_ms > 0 { now_ms + expires_in_ms } else { NEVER };
                    (value.bytes(), expires_at_ms)
                });
                (self.key(write.key), value)
            })
            .collect();
        let writes: Vec<Write<'_>> = owned
            .iter()
            .map(|(key, value)| match value {
                Some((value, expires_at_ms)) => Write::Put { key, value, expires_at_ms: *expires_at_ms },
                None => Write::Delete { key },
            })
            .collect();
        let refuse = self.must_refuse();
        let outcome = apply(&self.database()?, &writes, durability);
        self.note_write(&writes, durability, refuse, outcome)
    }

    fn update(&mut self, key: KeyNumber, modification: Modification, durability: Durability) -> Outcome {
        let (key, now_ms, refuse) = (self.key(key), self.now_ms(), self.must_refuse());
        let options = WriteOptions::default().durability(durability);
        let (mut seen, mut written) = (None, None);
        let outcome = self.database()?.update_with(&key, options, |found| {
            seen = Some(found.cloned());
            let change = change(modification, found);
            written = match &change {
                Change::Keep => None,
                Change::Put { value, expires_at_ms } => Some(Some((value.clone(), *expires_at_ms))),
                Change::Delete => Some(None),
            };
            Ok(change)
        });
        if let Some(seen) = seen {
            self.reference.check(&key, seen.map(cell).as_ref(), now_ms)?;
        }
        let Some(written) = written else {
            // It was the lookup that failed, or a step of the background work.
            return outcome.or_else(|error| self.failed("update", &error));
        };
        let write = match &written {
            Some((value, expires_at_ms)) => Write::Put { key: &key, value, expires_at_ms: *expires_at_ms },
            None => Write::Delete { key: &key },
        };
        self.note_write(&[write], durability, refuse, outcome)
    }

    fn get(&mut self, key: KeyNumber) -> Outcome {
        let key = self.key(key);
        let database = self.database()?;
        match database.get_found(&key) {
            Ok(found) => {
                self.reference.check(&key, found.clone().map(cell).as_ref(), self.now_ms())?;
                match database.contains(&key) {
                    Ok(contains) if contains != found.is_some() => {
                        Err(Violation::new("get and contains disagree".into()))
                    }
                    Ok(_) => Ok(()),
                    Err(error) => self.read_failed("contains", &error),
                }
            }
            Err(error) => self.read_failed("get", &error),
        }
    }

    fn get_many(&mut self, keys: &[KeyNumber]) -> Outcome {
        let keys: Vec<_> = keys.iter().map(|&key| self.key(key)).collect();
        let found = match self.database()?.get_many(&keys) {
            Ok(found) => found,
            Err(error) => return self.read_failed("get_many", &error),
        };
        if found.len() != keys.len() {
            return Err(Violation::new(format!(
                "{} keys were asked for, {} answered",
                keys.len(),
                found.len()
            )));
        }
        for (key, value) in keys.iter().zip(found) {
            self.reference.check_value(key, value.as_ref(), self.now_ms())?;
        }
        Ok(())
    }

    /// Reads all records now; then the snapshot that was taken last time, and takes another.
    fn iterate(&mut self) -> Outcome {
        self.check_all()?;
        if let Some(held) = self.held.take() {
            match collect(held.records) {
                Ok(records) => held.reference.check_all(&records, held.now_ms)?,
                Err(error) => self.read_failed("a snapshot", &error)?,
            }
        }
        match self.database()?.iter() {
            Ok(records) => {
                let (reference, now_ms) = (self.reference.clone(), self.now_ms());
                self.held = Some(Held { records, reference, now_ms });
                Ok(())
            }
            Err(error) => self.read_failed("iter", &error),
        }
    }

    fn check_all(&mut self) -> Outcome {
        match self.database()?.iter().and_then(collect) {
            Ok(records) => self.reference.check_all(&records, self.now_ms()),
            Err(error) => self.read_failed("iter", &error),
        }
    }

    fn sync(&mut self) -> Outcome {
        let refuse = self.must_refuse();
        match self.database()?.sync() {
            Ok(()) if refuse => {
                Err(Violation::new("a sync was acknowledged after a change had failed".into()))
            }
            Ok(()) => {
                self.reference.synced();
                Ok(())
            }
            Err(error) => self.failed("sync", &error),
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

    /// Merges everything; then the counters must be exact.
    fn compact(&mut self) -> Outcome {
        let database = self.database()?;
        if let Err(error) = database.compact() {
            return self.failed("compact", &error);
        }
        for steps in 0.. {
            match database.step() {
                Ok(Step::Idle) => break,
                Ok(Step::Worked) if steps < STEPS_MAX => {}
                Ok(Step::Worked) => return Err(Violation::new("background work does not end".into())),
                Err(error) => return self.failed("step", &error),
            }
        }
        if self.must_refuse() {
            return Err(Violation::new("a compaction was acknowledged after a change had failed".into()));
        }
        let stats = database.stats();
        let there = match database.iter().and_then(collect) {
            Ok(records) => records.len() as u64,
            Err(error) => return self.read_failed("iter", &error),
        };
        // Expired records stay where they are as long as nothing else is merged with them.
        let may_be_more = self.simulation.workload.lifetime_ms > 0;
        if stats.records != stats.merged_records
            || stats.records < there
            || (stats.records > there && !may_be_more)
        {
            return Err(Violation::new(format!(
                "{} records were merged, {} are counted, and {there} are there",
                stats.merged_records, stats.records
            )));
        }
        self.check_stats(true)
    }

    /// What the database says of itself; `idle` if no background work is under way.
    fn check_stats(&self, idle: bool) -> Outcome {
        let stats = self.database()?.stats();
        let Session { writes_done, writes_in_doubt, .. } = self.session;
        let named_bytes = self.backend.named_bytes();
        let working = |item: &&(&str, u64)| ["convert_buffers", "merge_buffers"].contains(&item.0);
        let working_bytes: u64 = stats.ram.items().iter().filter(working).map(|(_, bytes)| bytes).sum();
        let claims = [
            ("writes", (writes_done..=writes_done + writes_in_doubt).contains(&stats.writes)),
            ("a peak", stats.ram_peak.total_bytes() >= stats.ram.total_bytes()),
            ("records", stats.records >= stats.merged_records),
            ("bytes of files", !idle || stats.disk_bytes == named_bytes),
            ("memory of work that ended", !idle || working_bytes == 0),
        ];
        match claims.into_iter().find(|(_, holds)| !holds) {
            Some((what, _)) if !self.must_refuse() => Err(Violation::new(format!(
                "{what} are not as they are counted: {} for {writes_done} to {} writes, {} for {named_bytes} bytes, \
                 {working_bytes} bytes of work, {} of {} records merged",
                stats.writes,
                writes_done + writes_in_doubt,
                stats.disk_bytes,
                stats.merged_records,
                stats.records,
            ))),
            _ => Ok(()),
        }
    }

    fn verify(&mut self) -> Outcome {
        let (mut done, mut all, mut receded) = (0, 0, false);
        let outcome = self.database()?.verify(&mut |now_done, now_all| {
            receded |= now_done < done || now_done > now_all;
            (done, all) = (now_done, now_all);
            true
        });
        match outcome {
            Ok(report) if !report.damage.is_empty() && !self.reads_may_fail() => {
                Err(Violation::new(format!("what was never damaged is said to be: {:?}", report.damage)))
            }
            Ok(_) if receded => Err(Violation::new(format!("progress went back: {done} of {all}"))),
            Ok(_) => self.check_stats(false),
            Err(error) => self.read_failed("verify", &error),
        }
    }

    /// Copies the database and compares the copy.
    fn checkpoint(&mut self) -> Outcome {
        let Some(scratch) = self.scratch else { return Ok(()) };
        let outcome = self.database()?.checkpoint(scratch);
        let copied = match &outcome {
            Ok(()) => {
                let directory = Directory::system(scratch, Access::Buffered);
                directory
                    .and_then(|directory| self.configuration.builder(&self.clock).open_in(directory))
                    .and_then(|copy| copy.iter().and_then(collect))
                    .map(Some)
            }
            Err(_) => Ok(None),
        };
        clear(scratch).map_err(|error| Violation::new(format!("clearing: {error}")))?;
        match (outcome, copied) {
            (Ok(()), Ok(Some(records))) => self.reference.check_all(&records, self.now_ms()),
            (Ok(()), Err(error)) => Err(Violation::new(format!("a checkpoint does not open: {error}"))),
            (Err(error), _) => self.failed("checkpoint", &error),
            (Ok(()), Ok(None)) => Ok(()),
        }
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
        self.tally.conversions += detail("conversions");
        self.tally.merges += detail("merges");
    }

    fn note_faults(&mut self) {
        self.tally.faults += self.backend.fault_count() - self.session.faults;
        self.session.faults = self.backend.fault_count();
    }

    /// Ends the database without closing it, and opens what is left; some seeds disturb that too.
    fn crash(&mut self, crash: Crash, seed: Option<u64>) -> Outcome {
        self.held = None;
        if self.backend.failed_syncs() > self.session.failed_syncs {
            self.reference.sync_failed();
        }
        self.restart_device(crash);
        if let Some(database) = self.database.take() {
            self.note_jobs(&database);
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
        self.tally.crashes += 1;
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

    /// Opens the database, if need be after more crashes, and checks that all is there that must be.
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
                    return Err(Violation::new(format!("it does not open: {error}")));
                }
                _ => {}
            }
            self.tally.failed_openings += 1;
            let crash = if off { Crash::PowerLost(self.random_survival()) } else { Crash::ProcessKilled };
            ending = worse(ending, crash.into());
            self.restart_device(crash);
        }
        self.tally.reopenings += 1;
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
        let keys = self.simulation.workload.keys;
        for _ in 0..keys.min(KEYS_CHECKED) {
            let key = self.random.u32(..keys);
            self.get(key)?;
        }
        self.check_stats(true)
    }
}

/// Of two endings the one that promises less.
fn worse(one: Ending, other: Ending) -> Ending {
    match (one, other) {
        (Ending::PowerLost, _) | (_, Ending::PowerLost) => Ending::PowerLost,
        (Ending::ProcessKilled, _) | (_, Ending::ProcessKilled) => Ending::ProcessKilled,
        (Ending::Closed, Ending::Closed) => Ending::Closed,
    }
}

/// When a bit turns over on its way from the device, what was read looks like the torn end of a log; it is read twice
/// before it is cut off. More such bits would now and then show the same bytes twice.
fn opening_faults(faults: &Faults) -> Faults {
    Faults { read_flip: faults.read_flip.min(READ_FLIP_MAX), ..faults.clone() }
}

fn cell(found: Found) -> Cell {
    Cell { value: found.value, expires_at_ms: found.expires_at_ms }
}

fn change(modification: Modification, found: Option<&Found>) -> Change {
    match (modification, found) {
        (Modification::Keep, _) => Change::Keep,
        (Modification::Delete, _) => Change::Delete,
        (Modification::Modify { .. }, Some(found)) => {
            Change::Put { value: modified(&found.value).into(), expires_at_ms: found.expires_at_ms }
        }
        (Modification::Modify { if_absent }, None) => {
            Change::Put { value: if_absent.bytes().into(), expires_at_ms: NEVER }
        }
    }
}

fn apply(database: &Database, writes: &[Write<'_>], durability: Durability) -> crate::Result<()> {
    let options = WriteOptions::default().durability(durability);
    match writes {
        [Write::Put { key, value, expires_at_ms }] => {
            database.put_with(key, value, options.expires_at_ms(*expires_at_ms))
        }
        [Write::Delete { key }] => database.delete_with(key, options),
        several => {
            let mut batch = Batch::new();
            for write in several {
                match write {
                    Write::Put { key, value, expires_at_ms } => {
                        batch.put_until(key, value, *expires_at_ms)?
                    }
                    Write::Delete { key } => batch.delete(key)?,
                };
            }
            database.write_with(&batch, options)
        }
    }
}

fn collect(records: Iter) -> crate::Result<Records> {
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

fn clear(scratch: &Path) -> crate::Result<()> {
    let directory = Directory::system(scratch, Access::Buffered)?;
    directory.list()?.iter().try_for_each(|name| directory.remove(name))?;
    // The lock's own file is not listed; it is there only if the copy was opened.
    let _ = directory.remove("LOCK");
    Ok(())
}
