//! The operations that write.

use super::model::Outcome;
use super::run::{Run, cell, collect};
use crate::operations::{BatchWrite, KeyNumber, Modification, Value, modified};
use crate::reference::Violation;
use crate::simulated::Faults;
use siltstone::batch::{Batch, Durability, NEVER, Write};
use siltstone::engine::{Change, Found};
use siltstone::key::KeyHasher;
use siltstone::{Database, Error, WriteOptions};
use std::collections::{BTreeMap, BTreeSet};

/// An engine that appends everything gets fewer bytes in one batch.
const LOADED_BYTES_MAX: usize = 1 << 20;

impl Run<'_> {
    /// Adds the outcome of a write to the model.
    pub(super) fn note_write(
        &mut self,
        writes: &[Write<'_>],
        durability: Durability,
        refuse: bool,
        outcome: siltstone::Result<()>,
    ) -> Outcome {
        self.note_for_scan(writes);
        match outcome {
            Ok(()) if refuse => {
                Err(Violation::new("a write was acknowledged after another had failed".into()))
            }
            Ok(()) => {
                self.reference.acknowledged(writes, durability);
                self.session.writes_done += writes.len() as u64;
                self.counts.writes += 1;
                Ok(())
            }
            // Nothing was written.
            Err(Error::HashClustered { .. }) if self.may_be_clustered() => Ok(()),
            Err(error) => {
                self.failed("write", &error)?;
                if !matches!(error, Error::Poisoned { .. } | Error::Torn { .. }) {
                    self.reference.attempted(writes);
                    self.session.writes_in_doubt += writes.len() as u64;
                    self.check_is_whole(writes)?;
                }
                Ok(())
            }
        }
    }

    /// Returns whether more than 256 keys of the workload may have one hash, so that a put may be refused.
    fn may_be_clustered(&self) -> bool {
        let keys = self.simulation.workload.keys;
        self.configuration.collisions.is_some_and(|collisions| keys.div_ceil(collisions.groups) > 256)
    }

    /// After a batch has failed, and before the database is opened again: all of it can be read, or none of it, one way
    /// or the other. Values of 8 bytes and more are of one write only.
    fn check_is_whole(&mut self, writes: &[Write<'_>]) -> Outcome {
        let last: BTreeMap<&[u8], &Write<'_>> = writes.iter().map(|write| (write.key(), write)).collect();
        if last.len() < 2 || self.configuration.engine.is_lossy || self.backend.is_off() {
            return Ok(());
        }
        self.backend.set_faults(Faults::default());
        let database = self.database()?;
        let all = database.iter().and_then(collect);
        let each = last.keys().map(|key| Ok(database.get_found(key)?.map(cell))).collect();
        let each: siltstone::Result<Vec<_>> = each;
        self.backend.set_faults(self.session.disturbed.clone().unwrap_or_default());
        let by_iterator = match all {
            Ok(all) => last.keys().map(|key| all.get(*key).cloned()).collect(),
            Err(error) => return self.read_failed("iter after a failed batch", &error),
        };
        let by_gets = match each {
            Ok(each) => each,
            Err(error) => return self.read_failed("get after a failed batch", &error),
        };
        let now_ms = self.now_ms();
        for found in [by_iterator, by_gets] {
            let applied: BTreeSet<bool> = last
                .values()
                .zip(&found)
                .filter_map(|(write, found)| match (write, found) {
                    (Write::Put { value, expires_at_ms, .. }, found) if value.len() >= size_of::<u64>() => {
                        let is_new = found.as_ref().is_some_and(|found| found.value == *value);
                        (*expires_at_ms > now_ms).then_some(is_new)
                    }
                    (Write::Delete { .. }, Some(_)) => Some(false),
                    _ => None,
                })
                .collect();
            if applied.len() > 1 {
                let found: Vec<_> = found.iter().map(Option::is_some).collect();
                return Err(Violation::new(format!("half of a failed batch can be read: {found:?}")));
            }
        }
        Ok(())
    }

    /// Takes from the keys that the current scan must return those that may be absent from now on.
    fn note_for_scan(&mut self, writes: &[Write<'_>]) {
        let now_ms = self.now_ms();
        let Some(scan) = &mut self.scan else { return };
        for write in writes {
            let stays = matches!(write, Write::Put { .. }) && self.reference.is_present(write.key(), now_ms);
            if !stays {
                scan.present.remove(write.key());
            }
        }
    }

    /// Loads records after a sync. If the load fails, each partition has all of its records or none.
    pub(super) fn bulk_load(&mut self, records: &[(KeyNumber, Value)]) -> Outcome {
        if self.reference.doubts() > 0 {
            // Those of each partition are added, and there may be no more.
            return Ok(());
        }
        self.sync()?;
        if self.session.may_be_poisoned {
            return Ok(());
        }
        let mut records: Vec<_> =
            records.iter().map(|(key, value)| (self.key(*key), value.bytes())).collect();
        let mut bytes = 0;
        records.retain(|(key, value)| {
            bytes += key.len() + value.len();
            bytes < LOADED_BYTES_MAX
        });
        let writes: Vec<_> =
            records.iter().map(|(key, value)| Write::Put { key, value, expires_at_ms: NEVER }).collect();
        let refuse = self.must_refuse();
        let Err(error) = self.database()?.bulk_load(records.iter().map(|(key, value)| (key, value))) else {
            return self.note_write(&writes, Durability::Synced, refuse, Ok(()));
        };
        self.note_for_scan(&writes);
        self.failed("bulk_load", &error)?;
        let mut by_partition: BTreeMap<usize, Vec<Write<'_>>> = BTreeMap::new();
        for write in writes {
            by_partition.entry(self.partition(write.key())).or_default().push(write);
        }
        for writes in by_partition.values() {
            self.reference.attempted(writes);
            self.session.writes_in_doubt += writes.len() as u64;
        }
        Ok(())
    }

    /// Returns the partition of a key.
    fn partition(&self, key: &[u8]) -> usize {
        let common = &self.configuration.common;
        let hasher = match common.hashed_keys {
            Some(true) => KeyHasher::Identity,
            _ => KeyHasher::Keyed(self.configuration.hash_seed),
        };
        hasher.hash(key).partition(common.partitions.unwrap_or(1).ilog2())
    }

    pub(super) fn write(&mut self, writes: &[BatchWrite], durability: Durability) -> Outcome {
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

    pub(super) fn update(
        &mut self,
        key: KeyNumber,
        modification: Modification,
        durability: Durability,
    ) -> Outcome {
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
            // The lookup failed, or a step of background work.
            return outcome.or_else(|error| self.failed("update", &error));
        };
        let write = match &written {
            Some((value, expires_at_ms)) => Write::Put { key: &key, value, expires_at_ms: *expires_at_ms },
            None => Write::Delete { key: &key },
        };
        self.note_write(&[write], durability, refuse, outcome)
    }

    pub(super) fn transact(
        &mut self,
        modifications: &[(KeyNumber, Modification)],
        durability: Durability,
    ) -> Outcome {
        let (now_ms, refuse) = (self.now_ms(), self.must_refuse());
        let keys: Vec<_> = modifications.iter().map(|(key, _)| self.key(*key)).collect();
        let options = WriteOptions::default().durability(durability);
        let (mut seen, mut changes) = (Vec::new(), Vec::new());
        let outcome = self.database()?.transact_with(&keys, options, |found, to| {
            for ((change_to, found), (_, modification)) in to.iter_mut().zip(found).zip(modifications) {
                *change_to = change(*modification, found.as_ref());
            }
            (seen, changes) = (found.to_vec(), to.to_vec());
            Ok(())
        });
        for (key, seen) in keys.iter().zip(seen) {
            self.reference.check(key, seen.map(cell).as_ref(), now_ms)?;
        }
        let writes = keys.iter().zip(&changes).filter_map(|(key, change)| match change {
            Change::Keep => None,
            Change::Put { value, expires_at_ms } => {
                Some(Write::Put { key, value, expires_at_ms: *expires_at_ms })
            }
            Change::Delete => Some(Write::Delete { key }),
        });
        let writes: Vec<_> = writes.collect();
        if writes.is_empty() {
            return outcome.or_else(|error| self.failed("transact", &error));
        }
        self.note_write(&writes, durability, refuse, outcome)
    }

    pub(super) fn insert_many_if_absent(&mut self, records: &[(KeyNumber, Value)]) -> Outcome {
        let (now_ms, refuse) = (self.now_ms(), self.must_refuse());
        let records: Vec<_> = records.iter().map(|(key, value)| (self.key(*key), value.bytes())).collect();
        if records.iter().any(|(key, _)| self.reference.is_in_doubt(key)) {
            // If it failed, it would not be known which of them it has put.
            return Ok(());
        }
        let mut absent = BTreeSet::new();
        let inserts: Vec<bool> = records
            .iter()
            .map(|(key, _)| !self.reference.is_present(key, now_ms) && absent.insert(key))
            .collect();
        let outcome = self.database()?.insert_many_if_absent(&records);
        if outcome.as_ref().is_ok_and(|inserted| *inserted != inserts) {
            return Err(Violation::new(format!("{outcome:?} were inserted, and {inserts:?} were absent")));
        }
        let outcome = outcome.map(drop);
        let writes = records.iter().zip(&inserts).filter(|(_, inserts)| **inserts);
        let writes: Vec<_> =
            writes.map(|((key, value), _)| Write::Put { key, value, expires_at_ms: NEVER }).collect();
        if writes.is_empty() {
            return outcome.or_else(|error| self.failed("insert_many_if_absent", &error));
        }
        self.note_write(&writes, Durability::default(), refuse, outcome)
    }

    pub(super) fn compare_and_swap(&mut self, key: KeyNumber, matches: bool, new: Option<Value>) -> Outcome {
        let (key, new, refuse) = (self.key(key), new.map(Value::bytes), self.must_refuse());
        let database = self.database()?;
        let found = match database.get(&key) {
            Ok(found) => found,
            Err(error) => return self.read_failed("get", &error),
        };
        let other = found.is_none().then_some(&b"other"[..]);
        let expected = if matches { found.as_deref() } else { other };
        let outcome = database.compare_and_swap(&key, expected, new.as_deref());
        let swapped = *outcome.as_ref().unwrap_or(&matches);
        // The record of a cache may leave after the get: the swap may have waited for space.
        let may_leave = self.configuration.engine.is_lossy && found.is_some();
        if swapped != matches && !may_leave {
            return Err(Violation::new(format!("a compare-and-swap returned {outcome:?}, not {matches}")));
        }
        let outcome = outcome.map(drop);
        if !swapped {
            return outcome.or_else(|error| self.failed("compare_and_swap", &error));
        }
        let write = match &new {
            Some(value) => Write::Put { key: &key, value, expires_at_ms: NEVER },
            None => Write::Delete { key: &key },
        };
        self.note_write(&[write], Durability::default(), refuse, outcome)
    }

    pub(super) fn remove(&mut self, key: KeyNumber) -> Outcome {
        let (key, refuse) = (self.key(key), self.must_refuse());
        let outcome = self.database()?.remove(&key);
        if let Ok(removed) = &outcome {
            self.reference.check_value(&key, removed.as_ref(), self.now_ms())?;
            if removed.is_none() {
                return Ok(());
            }
        }
        self.note_write(&[Write::Delete { key: &key }], Durability::default(), refuse, outcome.map(drop))
    }

    pub(super) fn sync(&mut self) -> Outcome {
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

fn apply(database: &Database, writes: &[Write<'_>], durability: Durability) -> siltstone::Result<()> {
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
