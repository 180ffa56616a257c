//! Random operations on a database and on a `BTreeMap` at the same time: both must return the same.
//!
//! `SILTSTONE_MODEL_OPERATIONS` and `SILTSTONE_MODEL_SEED` set the length and the seed.

#![expect(clippy::print_stderr, reason = "a test says which operation failed")]

use crate::beds::{TestBed, all_beds, spread};
use siltstone::batch::NEVER;
use siltstone::{Batch, Change, Database, Durability, Iter, Snapshot, WriteOptions};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

/// Few enough keys that each is written, overwritten and deleted many times.
const KEYS: u64 = 700;
const PAST: u64 = 1;
const FUTURE: u64 = 1 << 50;

/// A value with its expiry time; an expired record counts as absent.
type Model = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(1);
        spread(self.0) % limit
    }
}

/// One run of random operations.
struct Run<'a> {
    bed: &'a TestBed,
    database: Database,
    model: Model,
    random: Random,
    versions: u64,
    /// An earlier snapshot, and its expected contents.
    snapshot: Option<(Snapshot, Model)>,
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |value| value.parse().unwrap())
}

#[test]
fn a_database_behaves_as_a_map() {
    let operations = setting("SILTSTONE_MODEL_OPERATIONS", 2_500);
    let first_seed = setting("SILTSTONE_MODEL_SEED", 1);
    let beds: Vec<_> = all_beds().zip(first_seed..).collect();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((bed, seed)) = beds.get(next.fetch_add(1, Relaxed)) {
                    operate(bed, *seed, operations);
                }
            });
        }
    });
}

fn operate(bed: &TestBed, seed: u64, operations: u64) {
    let mut run = Run {
        bed,
        database: bed.open(),
        model: Model::new(),
        random: Random(spread(seed)),
        versions: 0,
        snapshot: None,
    };
    for operation in 0..operations {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run.operate()));
        if let Err(panic) = outcome {
            eprintln!("{bed}, seed {seed}: operation {operation}");
            std::panic::resume_unwind(panic);
        }
    }
    run.compare_all();
}

impl Run<'_> {
    fn operate(&mut self) {
        match self.random.below(1_000) {
            0..300 => self.put(),
            300..400 => self.delete(),
            400..560 => self.get(),
            560..600 => self.get_from_snapshot(),
            600..630 => self.insert_if_absent(),
            630..640 => self.insert_many_if_absent(),
            640..650 => self.compare_and_swap(),
            650..660 => self.remove(),
            660..690 => self.update(),
            690..720 => self.transact(),
            720..800 => self.write_batch(),
            800..840 => self.get_many(),
            840..850 => self.scan(),
            850 => self.delete_prefix(),
            851 => self.retain(),
            852..990 => (0..=self.random.below(4)).for_each(|_| assert!(self.database.step().is_ok())),
            990..993 => self.database.sync().unwrap(),
            993..995 => self.compare_all(),
            995 => self.database.settle().unwrap(),
            996 => self.database.compact().unwrap(),
            // The following operations need writes to survive.
            997.. if !self.bed.is_persistent() => self.compare_all(),
            997 => self.reopen(true),
            998 => self.reopen(false),
            _ => self.checkpoint(),
        }
    }

    fn choose_key(&mut self) -> Vec<u8> {
        let number = self.random.below(KEYS);
        self.bed.key(number)
    }

    fn new_value(&mut self) -> Vec<u8> {
        self.versions += 1;
        self.bed.value(self.random.below(1 << 40), self.versions)
    }

    fn choose_expiry(&mut self) -> u64 {
        match self.random.below(10) {
            0 if self.bed.shape.expiring => PAST,
            1 if self.bed.shape.expiring => FUTURE,
            _ => NEVER,
        }
    }

    fn expected(&self, key: &[u8]) -> Option<&(Vec<u8>, u64)> {
        self.model.get(key)
    }

    fn set(&mut self, key: Vec<u8>, value: Vec<u8>, expires_at_ms: u64) {
        if expires_at_ms == PAST {
            self.model.remove(&key);
        } else {
            self.model.insert(key, (value, expires_at_ms));
        }
    }

    fn put(&mut self) {
        let (key, value, expires_at_ms) = (self.choose_key(), self.new_value(), self.choose_expiry());
        let durability = if self.random.below(40) == 0 { Durability::Synced } else { Durability::Written };
        let options = WriteOptions::default().expires_at_ms(expires_at_ms).durability(durability);
        self.database.put_with(&key, &value, options).unwrap();
        self.set(key, value, expires_at_ms);
    }

    fn delete(&mut self) {
        let key = self.choose_key();
        self.database.delete(&key).unwrap();
        self.model.remove(&key);
    }

    fn get(&mut self) {
        let key = self.choose_key();
        let found = self.database.get_found(&key).unwrap();
        let found = found.map(|found| (found.value.to_vec(), found.expires_at_ms));
        assert_eq!(found.as_ref(), self.expected(&key));
        let mut value = Vec::new();
        let expires_at_ms = self.database.get_into(&key, &mut value).unwrap();
        assert_eq!(expires_at_ms.map(|expires_at_ms| (value, expires_at_ms)), found);
        assert_eq!(self.database.contains(&key).unwrap(), found.is_some());
        assert!(found.is_none() || self.database.may_contain(&key).unwrap());
    }

    fn get_from_snapshot(&mut self) {
        let keys: Vec<Vec<u8>> = (0..self.random.below(8)).map(|_| self.choose_key()).collect();
        let renew = self.random.below(20) == 0;
        if self.snapshot.is_none() || renew {
            self.snapshot = Some((self.database.snapshot().unwrap(), self.model.clone()));
        }
        let Some((snapshot, model)) = &self.snapshot else { return };
        for (key, value) in keys.iter().zip(snapshot.get_many(&keys).unwrap()) {
            let found = snapshot.get_found(key).unwrap();
            assert_eq!(value, found.as_ref().map(|found| found.value.clone()));
            assert_eq!(
                found.map(|found| (found.value.to_vec(), found.expires_at_ms)).as_ref(),
                model.get(key)
            );
        }
        if renew {
            compare(self.bed, snapshot.iter(), model);
        }
    }

    fn insert_if_absent(&mut self) {
        let (key, value) = (self.choose_key(), self.new_value());
        let expires_at_ms = self.choose_expiry();
        let options = WriteOptions::default().expires_at_ms(expires_at_ms);
        let inserted = self.database.insert_if_absent_with(&key, &value, options).unwrap();
        assert_eq!(inserted, self.expected(&key).is_none());
        if inserted {
            self.set(key, value, expires_at_ms);
        }
    }

    fn update(&mut self) {
        let (key, value, expires_at_ms) = (self.choose_key(), self.new_value(), self.choose_expiry());
        let change = match self.random.below(4) {
            0 => Change::Keep,
            1 => Change::Delete,
            _ => Change::Put { value: value.clone().into(), expires_at_ms },
        };
        let mut seen = None;
        let changed = self.database.update(&key, |found| {
            seen = found.map(|found| (found.value.to_vec(), found.expires_at_ms));
            Ok(change.clone())
        });
        changed.unwrap();
        assert_eq!(seen.as_ref(), self.expected(&key));
        match change {
            Change::Keep => {}
            Change::Delete => drop(self.model.remove(&key)),
            Change::Put { .. } => self.set(key, value, expires_at_ms),
        }
    }

    fn transact(&mut self) {
        let mut keys: Vec<Vec<u8>> = (0..self.random.below(20)).map(|_| self.choose_key()).collect();
        keys.sort();
        keys.dedup();
        let mut changes = Vec::new();
        for _ in &keys {
            let (value, expires_at_ms) = (self.new_value().into(), self.choose_expiry());
            changes.push(match self.random.below(4) {
                0 => Change::Keep,
                1 => Change::Delete,
                _ => Change::Put { value, expires_at_ms },
            });
        }
        let mut seen = Vec::new();
        let transacted = self.database.transact(&keys, |found, to| {
            let found = found.iter().map(Option::as_ref);
            seen =
                found.map(|found| found.map(|found| (found.value.to_vec(), found.expires_at_ms))).collect();
            to.clone_from_slice(&changes);
            Ok(())
        });
        transacted.unwrap();
        for ((key, change), seen) in keys.into_iter().zip(changes).zip(seen) {
            assert_eq!(seen.as_ref(), self.expected(&key));
            match change {
                Change::Keep => {}
                Change::Delete => drop(self.model.remove(&key)),
                Change::Put { value, expires_at_ms } => self.set(key, value.to_vec(), expires_at_ms),
            }
        }
    }

    fn insert_many_if_absent(&mut self) {
        let count = self.random.below(20);
        let records: Vec<_> = (0..count).map(|_| (self.choose_key(), self.new_value())).collect();
        let inserted = self.database.insert_many_if_absent(&records).unwrap();
        for ((key, value), inserted) in records.into_iter().zip(inserted) {
            assert_eq!(inserted, self.expected(&key).is_none());
            if inserted {
                self.set(key, value, NEVER);
            }
        }
    }

    fn compare_and_swap(&mut self) {
        let (key, value) = (self.choose_key(), self.new_value());
        let there = self.expected(&key).map(|(value, _)| value.clone());
        let expected = if self.random.below(4) == 0 { Some(vec![7; value.len()]) } else { there.clone() };
        let new = Some(value).filter(|_| self.random.below(3) > 0);
        let swapped = self.database.compare_and_swap(&key, expected.as_deref(), new.as_deref()).unwrap();
        assert_eq!(swapped, there == expected);
        match new {
            _ if !swapped => {}
            Some(value) => self.set(key, value, NEVER),
            None => drop(self.model.remove(&key)),
        }
    }

    fn remove(&mut self) {
        let key = self.choose_key();
        let removed = self.database.remove(&key).unwrap();
        assert_eq!(removed.map(|value| value.to_vec()), self.model.remove(&key).map(|(value, _)| value));
    }

    /// Deletes the keys of up to 256 numbers, or rarely all.
    fn delete_prefix(&mut self) {
        let key = self.choose_key();
        let length = match (self.random.below(20), self.bed.shape.hashed_keys) {
            (0, _) => return self.clear(),
            (_, true) => 1,
            (_, false) => 7,
        };
        let before = self.model.len();
        self.model.retain(|other, _| !other.starts_with(&key[..length]));
        let deleted = self.database.delete_prefix(&key[..length]).unwrap();
        assert_eq!(deleted as usize, before - self.model.len(), "{}", self.bed);
    }

    fn clear(&mut self) {
        let before = self.model.len();
        self.model.clear();
        assert_eq!(self.database.clear().unwrap() as usize, before, "{}", self.bed);
    }

    fn retain(&mut self) {
        let salt = self.random.below(5) as u8;
        let keeps = |value: &[u8]| value.first().is_none_or(|byte| byte % 5 != salt);
        let before = self.model.len();
        self.model.retain(|_, (value, _)| keeps(value));
        let removed = self.database.retain(|record| keeps(&record.value)).unwrap();
        assert_eq!(removed as usize, before - self.model.len(), "{}", self.bed);
    }

    fn write_batch(&mut self) {
        let mut batch = Batch::new();
        for _ in 0..self.random.below(40) {
            let key = self.choose_key();
            if self.random.below(3) == 0 {
                batch.delete(&key).unwrap();
                self.model.remove(&key);
            } else {
                let (value, expires_at_ms) = (self.new_value(), self.choose_expiry());
                batch.put_until(&key, &value, expires_at_ms).unwrap();
                self.set(key, value, expires_at_ms);
            }
        }
        self.database.write(&batch).unwrap();
    }

    fn get_many(&mut self) {
        let keys: Vec<Vec<u8>> = (0..self.random.below(60)).map(|_| self.choose_key()).collect();
        let values = self.database.get_many(&keys).unwrap();
        assert_eq!(values.len(), keys.len());
        for (key, value) in keys.iter().zip(values) {
            assert_eq!(value.as_deref(), self.expected(key).map(|(value, _)| &value[..]));
        }
    }

    /// Reads a part of all records by pages.
    fn scan(&mut self) {
        let limit = self.random.below(200) as usize;
        let (start, end) = match self.random.below(2) {
            0 => (0, u64::MAX),
            _ => (self.random.below(1 << 60) << 4, self.random.below(1 << 60) << 4),
        };
        let (mut records, mut next) = (BTreeMap::new(), Some(start));
        while let Some(position) = next {
            let page = self.database.scan(position..=end, limit).unwrap();
            for record in page.records {
                let old = records.insert(record.key.to_vec(), (record.value.to_vec(), record.expires_at_ms));
                assert!(old.is_none(), "{}: each key is returned once", self.bed);
            }
            next = page.next;
        }
        assert!(records.iter().all(|(key, value)| self.expected(key) == Some(value)), "{}", self.bed);
        if (start, end) == (0, u64::MAX) {
            assert_eq!(records.len(), self.model.len(), "{}", self.bed);
        }
    }

    fn compare_all(&self) {
        compare(self.bed, self.database.iter().unwrap(), &self.model);
        if let Some((snapshot, model)) = &self.snapshot {
            compare(self.bed, snapshot.iter(), model);
        }
    }

    fn reopen(&mut self, closing: bool) {
        // The snapshot would keep the database open.
        self.snapshot = None;
        if closing {
            self.database.close().unwrap();
        }
        let placeholder = TestBed::in_memory(self.bed.engine.clone(), self.bed.shape).open();
        drop(std::mem::replace(&mut self.database, placeholder));
        self.database = self.bed.open();
        self.compare_all();
    }

    fn checkpoint(&mut self) {
        let target = tempfile::tempdir().unwrap();
        self.database.checkpoint(target.path()).unwrap();
        let copy = self.bed.builder_at(target.path()).create(false).open().unwrap();
        compare(self.bed, copy.iter().unwrap(), &self.model);
        assert!(copy.verify().unwrap().damage.is_empty());
    }
}

fn compare(bed: &TestBed, records: Iter, model: &Model) {
    let mut seen = Model::new();
    for record in records {
        let record = record.unwrap();
        let old = seen.insert(record.key.to_vec(), (record.value.to_vec(), record.expires_at_ms));
        assert!(old.is_none(), "{bed}: each key is returned once");
    }
    assert!(seen == *model, "{bed}: {} records, not {}", seen.len(), model.len());
}
