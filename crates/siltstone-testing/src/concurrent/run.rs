//! One run: the threads, and the checks after them.

use super::Counts;
use super::plan::{Action, KEY_BYTES, Key, Plan, SHARED_KEYS};
use super::witness::{Done, State, Trouble, Witness};
use crate::linearizability::Action as Seen;
use crate::reference::{Cell, Ending, Records};
use crate::simulated::{Crash, SimulatedDirectory, Survival};
use shuttle::thread;
use siltstone::{Batch, Bytes, Change, Database, Durability, Error, Iter, Step, WriteOptions};
use siltstone_device::{Access, Directory};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(super) type Outcome = Result<Counts, String>;

/// The number of changes that a thread tries after one has failed: none may be acknowledged.
const REFUSED_MAX: u32 = 2;

/// What all threads share. The witness is never locked across a scheduling point.
struct TestBed {
    plan: Plan,
    device: SimulatedDirectory,
    database: Database,
    witness: Mutex<Witness>,
    users: AtomicUsize,
}

pub(super) fn run(plan: Plan) -> Outcome {
    let device = SimulatedDirectory::new(plan.seed);
    let database = open(&plan, &device).map_err(|error| format!("the database is not created: {error}"))?;
    device.set_failing_call(plan.failing);
    if let Some(changes) = plan.power_off {
        device.power_off_after(changes);
    }
    let witness = Mutex::new(Witness::new(&plan));
    let users = AtomicUsize::new(plan.threads.len());
    let bed = Arc::new(TestBed { plan, device, database, witness, users });
    let user = |number| {
        let bed = bed.clone();
        thread::spawn(move || {
            User { bed: &bed, number, next_value: 0, refused: 0 }.work();
            bed.users.fetch_sub(1, SeqCst);
        })
    };
    let worker = |_| {
        let bed = bed.clone();
        thread::spawn(move || bed.work_in_background())
    };
    let threads: Vec<_> = (0..bed.plan.threads.len()).map(user).collect();
    let workers: Vec<_> = (0..bed.plan.common.threads).map(worker).collect();
    for thread in threads.into_iter().chain(workers) {
        thread.join().map_err(|_| "a thread panicked")?;
    }
    let bed = Arc::into_inner(bed).ok_or("a thread still has the database")?;
    bed.finish()
}

fn open(plan: &Plan, device: &SimulatedDirectory) -> siltstone::Result<Database> {
    let clock = Arc::new(AtomicU64::new(1_000_000));
    Database::builder("simulated")
        .engine(plan.settings())
        .common(plan.common.clone())
        .durability(plan.durability)
        .background_threads(0)
        .simulated_clock(clock)
        .seed([plan.seed, !plan.seed])
        .open_in(Directory::new(device.clone(), Access::Buffered))
}

fn collect(records: Iter) -> siltstone::Result<Records> {
    records
        .map(|record| {
            record
                .map(|record| (record.key, Cell { value: record.value, expires_at_ms: record.expires_at_ms }))
        })
        .collect()
}

impl TestBed {
    fn witness(&self) -> MutexGuard<'_, Witness> {
        self.witness.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a call returned an error; `ends_writing` if no change of the database may be acknowledged
    /// from now on.
    fn failed(&self, what: &str, error: &Error, ends_writing: bool) {
        let trouble = Trouble::of(&self.device);
        self.witness().failed(what, error, trouble, ends_writing);
    }

    fn work_in_background(&self) {
        while self.users.load(SeqCst) > 0 && self.witness().violation.is_none() {
            match self.database.step() {
                Ok(Step::Worked) => {}
                Ok(Step::Idle) => thread::yield_now(),
                Err(error) => self.failed("step", &error, true),
            }
        }
    }

    /// Returns all possible keys.
    fn keys(&self) -> Vec<Key> {
        let own = |writer| (0..self.plan.own_keys).map(move |number| Key::Own { writer, number });
        let shared = (0..SHARED_KEYS).flat_map(|number| [Key::Counter(number), Key::Inserted(number)]);
        (0..self.plan.writers).flat_map(own).chain(shared).collect()
    }

    fn get(&self, key: Key) {
        let called = self.witness().moment();
        let outcome = self.database.get(key.bytes());
        match outcome {
            Ok(found) => {
                let mut witness = self.witness();
                let state = witness.state(key, found.as_ref());
                witness.read(called, key, state);
            }
            Err(error) => self.failed("get", &error, false),
        }
    }

    fn get_many(&self, keys: &[Key]) {
        let called = self.witness().moment();
        let bytes: Vec<[u8; KEY_BYTES]> = keys.iter().map(|key| key.bytes()).collect();
        let outcome = self.database.get_many(&bytes);
        match outcome {
            Ok(found) => {
                let mut witness = self.witness();
                for (&key, found) in keys.iter().zip(found) {
                    let state = witness.state(key, found.as_ref());
                    witness.read(called, key, state);
                }
            }
            Err(error) => self.failed("get_many", &error, false),
        }
    }

    /// Reads all records at the moment of the call, in the order of their keys every other time if the database has it.
    fn iterate(&self) {
        let called = self.witness().moment();
        let records = match self.database.ordered() {
            Some(ordered) if called.is_multiple_of(2) => ordered.range(..),
            _ => self.database.iter(),
        };
        let returned = self.witness().moment();
        let records = records.and_then(collect);
        match records {
            Ok(records) => {
                let (mut witness, mut found) = (self.witness(), BTreeMap::new());
                for (bytes, cell) in records {
                    match Key::from_bytes(&bytes) {
                        Some(key) => {
                            found.extend(witness.state(key, Some(&cell.value)).map(|state| (key, state)))
                        }
                        None => witness.violate(format!("a key that was never written: {bytes:?}")),
                    }
                }
                witness.read_all(called, returned, &found, &self.keys());
            }
            Err(error) => self.failed("iter", &error, false),
        }
    }

    fn verify(&self) {
        let outcome = self.database.verify();
        let trouble = Trouble::of(&self.device);
        match outcome {
            Ok(report) if !report.damage.is_empty() && trouble.faults == 0 && !trouble.is_off => {
                let words = format!("damage is reported where there is none: {:?}", report.damage);
                self.witness().violate(words);
            }
            Ok(_) => {}
            Err(error) => self.failed("verify", &error, false),
        }
    }

    /// Does the checks after the threads: reading, the end of the database, opening it again, and the same after a
    /// compaction.
    fn finish(self) -> Outcome {
        self.device.set_failing_call(None);
        self.device.power_off_after(u64::MAX);
        let off = self.device.is_off();
        if !off {
            self.iterate();
            self.keys().into_iter().for_each(|key| self.get(key));
            self.verify();
        }
        let stats = self.database.stats();
        let count = |job: &'static str| {
            let found = stats.details.iter().find(|(name, _)| *name == job);
            (job, found.map_or(0, |(_, count)| *count as u64))
        };
        let further = self.plan.engine.further_jobs.iter().copied();
        let counts = Counts {
            runs: 1,
            failed_calls: u64::from(self.device.fault_count() > 0),
            power_losses: u64::from(off),
            operations: self.witness().acknowledged,
            jobs: self.plan.engine.jobs.iter().map(|job| job.name).chain(further).map(count).collect(),
        };
        self.witness().check_order();
        let TestBed { plan, device, database, witness, .. } = self;
        let mut witness = witness.into_inner().unwrap_or_else(PoisonError::into_inner);
        if witness.violation.is_none() {
            reopen(&plan, &device, database, &mut witness, off);
        }
        match witness.violation {
            Some(violation) => Err(violation),
            None => Ok(counts),
        }
    }
}

/// Ends the database and opens it again.
fn reopen(plan: &Plan, device: &SimulatedDirectory, database: Database, witness: &mut Witness, off: bool) {
    let mut random = fastrand::Rng::with_seed(plan.seed ^ 0xE4D);
    let crash = match plan.ending {
        _ if off => Some(Crash::PowerLost(
            [Survival::Nothing, Survival::Prefix, Survival::Scattered, Survival::Everything]
                [random.usize(..4)],
        )),
        Some(crash) => Some(crash),
        None => {
            let called = witness.moment();
            match database.close() {
                Ok(()) => {
                    witness.check_acknowledged("closing", called);
                    witness.synced(called);
                    None
                }
                Err(error) => {
                    witness.failed("close", &error, Trouble::of(device), true);
                    Some(Crash::ProcessKilled)
                }
            }
        }
    };
    let ending = crash.map_or(Ending::Closed, Ending::from);
    let trouble = Trouble::of(device);
    let left = match crash {
        Some(crash) => device.crash(crash, &mut random),
        None => device.clone(),
    };
    drop(database);
    if let Err(error) = check_reopened(plan, &left, ending, trouble, witness) {
        witness.violate(format!("after {ending:?}: {error}"));
    }
}

fn check_reopened(
    plan: &Plan,
    device: &SimulatedDirectory,
    ending: Ending,
    trouble: Trouble,
    witness: &mut Witness,
) -> siltstone::Result<()> {
    let database = open(plan, device)?;
    let records = collect(database.iter()?)?;
    witness.restarted(ending, &records, trouble);
    let report = database.verify()?;
    if let Some(damage) = report.damage.first() {
        witness.violate(format!("after {ending:?}, damage is reported where there is none: {damage}"));
    }
    for (key, cell) in &records {
        if database.get(key)?.as_ref() != Some(&cell.value) {
            witness.violate(format!("get and iter disagree on {key:?} after the open"));
        }
    }
    if plan.seed.is_multiple_of(2) {
        database.compact()?;
        witness.check_again(&records, &collect(database.iter()?)?, "a compaction");
    }
    database.close()?;
    drop(database);
    witness.check_again(&records, &collect(open(plan, device)?.iter()?)?, "closing and opening");
    Ok(())
}

/// A thread that uses the database.
struct User<'a> {
    bed: &'a TestBed,
    number: usize,
    next_value: u64,
    refused: u32,
}

impl User<'_> {
    fn work(&mut self) {
        for action in &self.bed.plan.threads[self.number] {
            if self.bed.witness().violation.is_some() || self.bed.device.is_off() {
                return;
            }
            self.act(action);
        }
    }

    fn act(&mut self, action: &Action) {
        let changes = matches!(action, Action::Write(..) | Action::Increment(..) | Action::Insert(_));
        if changes && self.refused > REFUSED_MAX {
            return;
        }
        match action {
            Action::Write(writes, durability) => self.write(writes, *durability),
            Action::Increment(number, durability) => self.increment(Key::Counter(*number), *durability),
            Action::Insert(number) => self.insert(Key::Inserted(*number)),
            Action::Get(key) => self.bed.get(*key),
            Action::GetMany(keys) => self.bed.get_many(keys),
            Action::Iterate => self.bed.iterate(),
            Action::Verify => self.bed.verify(),
            Action::Sync => {
                let called = self.bed.witness().moment();
                let outcome = self.bed.database.sync();
                self.acknowledge("a sync", called, outcome, true);
            }
            Action::Compact => {
                let called = self.bed.witness().moment();
                let outcome = self.bed.database.compact();
                self.acknowledge("a compaction", called, outcome, false);
            }
        }
    }

    fn acknowledge(&mut self, what: &str, called: u64, outcome: siltstone::Result<()>, syncs: bool) {
        match outcome {
            Ok(()) => {
                let mut witness = self.bed.witness();
                witness.check_acknowledged(what, called);
                if syncs {
                    witness.synced(called);
                }
            }
            Err(error) => self.bed.failed(what, &error, true),
        }
    }

    /// Returns the number of a new value.
    fn take_value(&mut self) -> u64 {
        self.next_value += 1;
        ((self.number as u64 + 1) << 32) + self.next_value
    }

    fn write(&mut self, writes: &[(u32, bool)], durability: Durability) {
        let writes: Vec<(u32, State)> =
            writes.iter().map(|&(number, puts)| (number, puts.then(|| self.take_value()))).collect();
        let called = self.bed.witness().moment();
        let outcome = self.apply(&writes, durability);
        self.refused += u32::from(outcome.is_err());
        let outcome = outcome.map_err(|error| (error, Trouble::of(&self.bed.device)));
        self.bed.witness().wrote(self.number, &writes, durability, called, outcome);
    }

    fn apply(&self, writes: &[(u32, State)], durability: Durability) -> siltstone::Result<()> {
        let options = WriteOptions::default().durability(durability);
        let mut batch = Batch::new();
        for &(number, state) in writes {
            let key = Key::Own { writer: self.number, number }.bytes();
            let value = state.map(|state| self.bed.witness().value(state));
            match (writes, value) {
                ([_], Some(value)) => return self.bed.database.put_with(key, value, options),
                ([_], None) => return self.bed.database.delete_with(key, options),
                (_, Some(value)) => batch.put(key, value)?,
                (_, None) => batch.delete(key)?,
            };
        }
        self.bed.database.write_with(&batch, options)
    }

    fn increment(&mut self, key: Key, durability: Durability) {
        let called = self.bed.witness().moment();
        let mut seen = None;
        let options = WriteOptions::default().durability(durability);
        let outcome = self.bed.database.update_with(key.bytes(), options, |found| {
            let mut witness = self.bed.witness();
            let state = witness.state(key, found.map(|found| &found.value));
            let value = Bytes::from(witness.value(state.unwrap_or(0) + 1));
            seen = Some(state);
            Ok(Change::Put { value, expires_at_ms: siltstone::batch::NEVER })
        });
        let action = seen.map(|seen: State| {
            let written = seen.unwrap_or(0) + 1;
            (Done { key, action: Seen::Update { seen, written: Some(written) } }, written)
        });
        match (outcome, action) {
            (Ok(()), Some((done, written))) => {
                self.bed.witness().shared(called, done, written, durability);
            }
            (Ok(()), None) => {
                self.bed.witness().violate("an update was acknowledged whose function was not called".into())
            }
            (Err(error), action) => {
                // The lookup of an update may fail without ending the writing.
                self.bed.failed("update", &error, action.is_some());
                if let Some((done, _)) = action {
                    self.bed.witness().in_doubt(called, done);
                }
                self.refused += 1;
            }
        }
    }

    fn insert(&mut self, key: Key) {
        let number = self.take_value();
        let (called, value) = {
            let mut witness = self.bed.witness();
            (witness.moment(), witness.value(number))
        };
        let outcome = self.bed.database.insert_if_absent(key.bytes(), value);
        let done = |inserted| Done { key, action: Seen::InsertIfAbsent { value: number, inserted } };
        match outcome {
            Ok(inserted) => {
                self.bed.witness().shared(called, done(inserted), number, self.bed.plan.durability);
            }
            Err(error) => {
                self.bed.failed("insert", &error, false);
                self.bed.witness().in_doubt(called, done(true));
                self.refused += 1;
            }
        }
    }
}
