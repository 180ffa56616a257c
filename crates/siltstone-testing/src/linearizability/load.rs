//! Threads that use a database at the same time, mostly the same few keys, and record what they saw.

use super::checker::{Action, Event, check};
use siltstone::{Batch, Bytes, Change, Database, Durability, Error, WriteOptions};
use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// The threads and their operations.
#[derive(Debug, Clone)]
pub struct Load {
    /// The number of threads.
    pub threads: usize,
    /// The number of operations of each thread before the history is checked.
    pub operations: usize,
    /// The number of keys that are used half of the time.
    pub hot_keys: u32,
    /// The number of all keys: enough to keep the background busy.
    pub keys: u32,
    /// The length of values, in bytes, at least 8; `None` for many lengths.
    pub value_length: Option<usize>,
    /// Determines all random choices, but not the schedule of the threads.
    pub seed: u64,
}

/// Counts of what was done and checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Operations.
    pub operations: u64,
    /// Operations that overlapped another one on the same key.
    pub overlapping: u64,
    /// Snapshots among them.
    pub snapshots: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.operations += other.operations;
        self.overlapping += other.overlapping;
        self.snapshots += other.snapshots;
    }
}

/// The state of each key.
type States = BTreeMap<u32, Option<u64>>;
type History = Vec<(u32, Event)>;

impl Load {
    /// The length of keys, in bytes.
    pub const KEY_BYTES: usize = 16;

    /// Runs the operations of all threads and checks what they saw, as often as `go_on` returns true.
    ///
    /// # Errors
    /// A message if a history is not linearizable, or if an operation failed.
    pub fn run(&self, database: &Database, mut go_on: impl FnMut(&Counts) -> bool) -> Result<Counts, String> {
        let (clock, mut counts) = (AtomicU64::new(0), Counts::default());
        let mut states: States = (0..self.keys).map(|key| (key, None)).collect();
        let mut round = 0;
        while go_on(&counts) {
            let (threads, together) = (0..self.threads, Barrier::new(self.threads));
            let outcomes: Vec<_> = std::thread::scope(|scope| {
                let user = |thread| User {
                    load: self,
                    database,
                    clock: &clock,
                    random: fastrand::Rng::with_seed(self.seed ^ round << 32 ^ (thread as u64) << 8),
                    next_value: (round << 40) + ((thread as u64) << 32),
                    history: History::new(),
                    snapshots: 0,
                };
                let spawn = |thread| {
                    let (user, together) = (user(thread), &together);
                    scope.spawn(move || {
                        together.wait();
                        user.work()
                    })
                };
                let threads: Vec<_> = threads.map(spawn).collect();
                threads.into_iter().map(|thread| thread.join()).collect()
            });
            let mut history = History::new();
            for outcome in outcomes {
                let (seen, snapshots) = outcome.map_err(|_| "a thread panicked")??;
                history.extend(seen);
                counts.snapshots += snapshots;
            }
            counts.operations += (self.threads * self.operations) as u64;
            let after = self.read_all(database)?;
            counts.overlapping += check_all(&states, history, &after, &clock)?;
            states = after;
            round += 1;
        }
        Ok(counts)
    }

    /// Returns the bytes of a key.
    fn key(number: u32) -> [u8; Self::KEY_BYTES] {
        fastrand::Rng::with_seed(number.into()).u128(..).to_be_bytes()
    }

    fn value(&self, number: u64) -> Vec<u8> {
        let length = self.value_length.unwrap_or(8 + (number % 7) as usize * 150);
        number.to_le_bytes().into_iter().cycle().take(length).collect()
    }

    /// Returns the number of a value. Every byte of the value must be as it was written.
    fn number(&self, value: &[u8]) -> Result<u64, String> {
        let first = value.first_chunk().ok_or("a value is too short")?;
        let number = u64::from_le_bytes(*first);
        if value == self.value(number) { Ok(number) } else { Err(format!("a damaged value: {value:?}")) }
    }

    fn state(&self, value: Option<&Bytes>) -> Result<Option<u64>, String> {
        value.map(|value| self.number(value)).transpose()
    }

    fn read_all(&self, database: &Database) -> Result<States, String> {
        let read = |key| Ok((key, self.state(database.get(Load::key(key)).map_err(told)?.as_ref())?));
        (0..self.keys).map(read).collect()
    }
}

fn told(error: Error) -> String {
    error.to_string()
}

/// Checks the history of every key. Returns how many operations overlapped others.
fn check_all(before: &States, history: History, after: &States, clock: &AtomicU64) -> Result<u64, String> {
    let mut histories: BTreeMap<u32, Vec<Event>> = BTreeMap::new();
    for (key, event) in history {
        histories.entry(key).or_default().push(event);
    }
    let mut overlapping = 0;
    for (key, state) in after {
        let history = histories.entry(*key).or_default();
        let moment = || clock.fetch_add(1, SeqCst);
        history.push(Event { called: moment(), returned: moment(), action: Action::Read(*state) });
        check(before[key], history).map_err(|found| format!("key {key}: {found}"))?;
        history.sort_unstable_by_key(|event| event.called);
        let overlaps = |pair: &&[Event]| pair[1].called < pair[0].returned;
        overlapping += history.windows(2).filter(overlaps).count() as u64;
    }
    Ok(overlapping)
}

/// A thread.
struct User<'a> {
    load: &'a Load,
    database: &'a Database,
    clock: &'a AtomicU64,
    random: fastrand::Rng,
    next_value: u64,
    history: History,
    snapshots: u64,
}

impl User<'_> {
    fn work(mut self) -> Result<(History, u64), String> {
        for _ in 0..self.load.operations {
            match self.random.u32(..1000) {
                0..300 => self.get()?,
                300..550 => self.put()?,
                550..640 => self.delete()?,
                640..700 => self.insert_if_absent()?,
                700..740 => self.insert_many_if_absent()?,
                740..800 => self.update()?,
                800..840 => self.transact()?,
                840..870 => self.compare_and_swap()?,
                870..890 => self.remove()?,
                890..940 => self.write_batch()?,
                940..998 => self.get_many()?,
                _ => self.snapshot()?,
            }
        }
        Ok((self.history, self.snapshots))
    }

    fn key(&mut self) -> u32 {
        let keys = if self.random.bool() { self.load.hot_keys } else { self.load.keys };
        self.random.u32(..keys)
    }

    /// Returns different keys, up to eight.
    fn some_keys(&mut self) -> Vec<u32> {
        let count = self.random.usize(1..=8);
        let mut keys: Vec<_> = (0..count).map(|_| self.key()).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    fn fresh_value(&mut self) -> u64 {
        self.next_value += 1;
        self.next_value
    }

    fn options(&mut self) -> WriteOptions {
        let durability = match self.random.u8(..) {
            0 => Durability::Synced,
            1..128 => Durability::Buffered,
            _ => Durability::Written,
        };
        WriteOptions::default().durability(durability)
    }

    /// Runs an operation on some keys, and records what it did to each.
    fn note<T>(
        &mut self,
        operation: impl FnOnce(&mut Self) -> siltstone::Result<T>,
        actions: impl FnOnce(&Load, T) -> Result<Vec<(u32, Action)>, String>,
    ) -> Result<(), String> {
        let called = self.clock.fetch_add(1, SeqCst);
        let outcome = operation(self);
        let returned = self.clock.fetch_add(1, SeqCst);
        for (key, action) in actions(self.load, outcome.map_err(told)?)? {
            self.history.push((key, Event { called, returned, action }));
        }
        Ok(())
    }

    fn get(&mut self) -> Result<(), String> {
        let key = self.key();
        self.note(
            |user| user.database.get(Load::key(key)),
            |load, found| Ok(vec![(key, Action::Read(load.state(found.as_ref())?))]),
        )
    }

    fn get_many(&mut self) -> Result<(), String> {
        let keys = self.some_keys();
        let bytes: Vec<_> = keys.iter().map(|key| Load::key(*key)).collect();
        self.note(
            |user| user.database.get_many(&bytes),
            |load, found| {
                let read = |(key, found): (&u32, &Option<Bytes>)| {
                    Ok((*key, Action::Read(load.state(found.as_ref())?)))
                };
                keys.iter().zip(&found).map(read).collect()
            },
        )
    }

    fn put(&mut self) -> Result<(), String> {
        let (key, number, options) = (self.key(), self.fresh_value(), self.options());
        let value = self.load.value(number);
        self.note(
            |user| user.database.put_with(Load::key(key), value, options),
            |_, ()| Ok(vec![(key, Action::Write(Some(number)))]),
        )
    }

    fn delete(&mut self) -> Result<(), String> {
        let (key, options) = (self.key(), self.options());
        self.note(
            |user| user.database.delete_with(Load::key(key), options),
            |_, ()| Ok(vec![(key, Action::Write(None))]),
        )
    }

    fn write_batch(&mut self) -> Result<(), String> {
        let (keys, number, options) = (self.some_keys(), self.fresh_value(), self.options());
        let value = self.load.value(number);
        let mut batch = Batch::new();
        keys.iter().try_for_each(|key| batch.put(Load::key(*key), &value).map(drop)).map_err(told)?;
        self.note(
            |user| user.database.write_with(&batch, options),
            |_, ()| Ok(keys.iter().map(|key| (*key, Action::Write(Some(number)))).collect()),
        )
    }

    fn insert_if_absent(&mut self) -> Result<(), String> {
        let (key, number) = (self.key(), self.fresh_value());
        let value = self.load.value(number);
        self.note(
            |user| user.database.insert_if_absent(Load::key(key), value),
            |_, inserted| Ok(vec![(key, Action::InsertIfAbsent { value: number, inserted })]),
        )
    }

    fn update(&mut self) -> Result<(), String> {
        let (key, number, options) = (self.key(), self.fresh_value(), self.options());
        let (value, deletes) = (self.load.value(number), self.random.u8(..8) == 0);
        let mut seen = None;
        self.note(
            |user| {
                user.database.update_with(Load::key(key), options, |found| {
                    seen = found.map(|found| found.value.clone());
                    let put = Change::Put { value: value.clone().into(), expires_at_ms: 0 };
                    Ok(if deletes { Change::Delete } else { put })
                })?;
                Ok(seen)
            },
            |load, seen| {
                let written = (!deletes).then_some(number);
                Ok(vec![(key, Action::Update { seen: load.state(seen.as_ref())?, written })])
            },
        )
    }

    fn insert_many_if_absent(&mut self) -> Result<(), String> {
        let (keys, number) = (self.some_keys(), self.fresh_value());
        let value = self.load.value(number);
        let records: Vec<_> = keys.iter().map(|key| (Load::key(*key), &value)).collect();
        self.note(
            |user| user.database.insert_many_if_absent(&records),
            |_, inserted| {
                let insert = |inserted| Action::InsertIfAbsent { value: number, inserted };
                Ok(keys.iter().zip(inserted).map(|(key, inserted)| (*key, insert(inserted))).collect())
            },
        )
    }

    /// Moves the value of each key to the next key, and puts a new value to the first.
    fn transact(&mut self) -> Result<(), String> {
        let (keys, number, options) = (self.some_keys(), self.fresh_value(), self.options());
        let value = self.load.value(number);
        let bytes: Vec<_> = keys.iter().map(|key| Load::key(*key)).collect();
        let mut seen = Vec::new();
        self.note(
            |user| {
                user.database.transact_with(&bytes, options, |found, changes| {
                    seen =
                        found.iter().map(|found| found.as_ref().map(|found| found.value.clone())).collect();
                    let moved = std::iter::once(Some(Bytes::from(value.clone()))).chain(seen.iter().cloned());
                    for (change, value) in changes.iter_mut().zip(moved) {
                        *change =
                            value.map_or(Change::Delete, |value| Change::Put { value, expires_at_ms: 0 });
                    }
                    Ok(())
                })?;
                Ok(seen)
            },
            |load, seen| {
                let seen: Vec<_> =
                    seen.iter().map(|value| load.state(value.as_ref())).collect::<Result<_, _>>()?;
                let written = std::iter::once(Some(number)).chain(seen.iter().copied());
                let updates = seen.iter().zip(written);
                let updates = updates.map(|(seen, written)| Action::Update { seen: *seen, written });
                Ok(keys.iter().copied().zip(updates).collect())
            },
        )
    }

    /// Compares with the value that a get has returned before.
    fn compare_and_swap(&mut self) -> Result<(), String> {
        let (key, number) = (self.key(), self.fresh_value());
        let expected = self.database.get(Load::key(key)).map_err(told)?;
        let (seen, value) = (self.load.state(expected.as_ref())?, self.load.value(number));
        self.note(
            |user| user.database.compare_and_swap(Load::key(key), expected.as_deref(), Some(&value)),
            |_, swapped| {
                let update = Action::Update { seen, written: Some(number) };
                Ok(vec![(key, if swapped { update } else { Action::Differs(seen) })])
            },
        )
    }

    fn remove(&mut self) -> Result<(), String> {
        let key = self.key();
        self.note(
            |user| user.database.remove(Load::key(key)),
            |load, removed| {
                Ok(vec![(key, Action::Update { seen: load.state(removed.as_ref())?, written: None })])
            },
        )
    }

    /// Takes a snapshot. It is read later and shows the state at the call.
    fn snapshot(&mut self) -> Result<(), String> {
        self.snapshots += 1;
        let called = self.clock.fetch_add(1, SeqCst);
        let records = self.database.iter().map_err(told)?;
        let returned = self.clock.fetch_add(1, SeqCst);
        let mut values = BTreeMap::new();
        for record in records {
            let record = record.map_err(told)?;
            values.insert(record.key, record.value);
        }
        for key in 0..self.load.keys {
            let state = self.load.state(values.get(&Load::key(key)[..]))?;
            self.history.push((key, Event { called, returned, action: Action::Read(state) }));
        }
        Ok(())
    }
}
