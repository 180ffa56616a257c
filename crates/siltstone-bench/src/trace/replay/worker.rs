//! One thread of a replay: generates keys and values, times each operation, and verifies each result.

use super::Settings;
use crate::keys::Values;
use crate::timings::Timings;
use crate::trace::{Kind, Operation};
use crate::{Error, Result};
use siltstone::{Bytes, Database};
use std::collections::HashMap;
use std::time::Instant;

/// The seed of the contents of values, in addition to their key and operation.
const CONTENTS_SEED: u64 = 0;

/// The results of a thread, and the contents of its keys at the end.
#[derive(Default)]
pub struct Work {
    pub timings: Timings,
    pub found: u64,
    pub keys: u64,
    pub data_bytes: u64,
}

impl Work {
    /// Adds the results of another thread.
    pub fn merge(&mut self, other: &Work) {
        self.timings.merge(&other.timings);
        self.found += other.found;
        self.keys += other.keys;
        self.data_bytes += other.data_bytes;
    }
}

/// The expected value of a key: its length, and the number of the operation that set it; `None` after a delete.
type Held = Option<(u32, u64)>;

pub struct Worker<'a> {
    settings: &'a Settings,
    database: &'a Database,
    held: HashMap<(u64, u16), Held>,
    key: Vec<u8>,
    value: Vec<u8>,
    work: Work,
}

impl<'a> Worker<'a> {
    pub fn new(settings: &'a Settings, database: &'a Database) -> Self {
        let held = HashMap::new();
        Worker { settings, database, held, key: Vec::new(), value: Vec::new(), work: Work::default() }
    }

    /// Sends one operation; `number` is its position in the trace.
    pub fn send(&mut self, number: u64, operation: &Operation) -> Result<()> {
        operation.write_key(&mut self.key);
        match operation.kind {
            Kind::Get => self.get(number, operation),
            Kind::Set => self.set(number, operation),
            Kind::Delete => {
                let started = Instant::now();
                self.database.delete(&self.key)?;
                self.done(operation.kind, started);
                self.held.insert((operation.key, operation.key_length), None);
                Ok(())
            }
        }
    }

    /// Returns the results.
    pub fn finish(mut self) -> Work {
        for ((_, key_length), held) in &self.held {
            if let Some((value_length, _)) = held {
                self.work.keys += 1;
                self.work.data_bytes += u64::from(*key_length) + u64::from(*value_length);
            }
        }
        self.work
    }

    fn done(&mut self, kind: Kind, started: Instant) {
        self.work.timings.record(kind.name(), started.elapsed());
    }

    fn set(&mut self, number: u64, operation: &Operation) -> Result<()> {
        write_value(operation, operation.value_length, number, &mut self.value);
        let started = Instant::now();
        self.database.put(&self.key, &self.value)?;
        self.done(Kind::Set, started);
        self.held.insert((operation.key, operation.key_length), Some((operation.value_length, number)));
        Ok(())
    }

    fn get(&mut self, number: u64, operation: &Operation) -> Result<()> {
        let started = Instant::now();
        let value = self.database.get(&self.key)?;
        self.done(Kind::Get, started);
        self.work.found += u64::from(value.is_some());
        self.check(number, operation, value.as_ref())?;
        if value.is_none() && self.settings.fill_misses && operation.value_length > 0 {
            return self.set(number, operation);
        }
        Ok(())
    }

    fn check(&mut self, number: u64, operation: &Operation, value: Option<&Bytes>) -> Result<()> {
        match (self.held.get(&(operation.key, operation.key_length)), value) {
            (None, _) if self.settings.use_existing_db => Ok(()),
            (Some(Some(_)), None) => Err(Error::Lost { benchmark: "trace", number }),
            (None | Some(None), Some(_)) => Err(Error::Surplus { benchmark: "trace", number }),
            (None | Some(None), None) => Ok(()),
            (Some(Some((length, set_by))), Some(value)) => {
                write_value(operation, *length, *set_by, &mut self.value);
                if *value == self.value {
                    Ok(())
                } else {
                    Err(Error::WrongValue { benchmark: "trace", number })
                }
            }
        }
    }
}

/// Writes the value that an operation sets. With at least 16 bytes it is different for every operation.
fn write_value(operation: &Operation, length: u32, set_by: u64, value: &mut Vec<u8>) {
    let key = operation.key.wrapping_add(operation.key_length.into());
    Values::new(length as usize, CONTENTS_SEED).write(key, set_by, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(kind: Kind, key: u64) -> Operation {
        Operation { kind, key, key_length: 20, value_length: 40, time_ms: 0, time_to_live_s: 0 }
    }

    #[test]
    fn every_wrong_result_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::builder(directory.path()).open().unwrap();
        let settings = Settings::default();
        let mut worker = Worker::new(&settings, &database);
        for key in 0..4 {
            worker.send(key, &operation(Kind::Set, key)).unwrap();
            worker.send(key, &operation(Kind::Get, key)).unwrap();
        }
        worker.send(9, &operation(Kind::Delete, 3)).unwrap();
        worker.send(9, &operation(Kind::Get, 3)).unwrap();
        let mut keys = [const { Vec::new() }; 5];
        (0..).zip(&mut keys).for_each(|(number, key)| operation(Kind::Get, number).write_key(key));
        let old = database.get(&keys[1]).unwrap().unwrap();
        worker.send(10, &operation(Kind::Set, 1)).unwrap();
        database.delete(&keys[0]).unwrap();
        database.put(&keys[1], &old).unwrap();
        database.put(&keys[3], &old).unwrap();
        database.put(&keys[4], &old).unwrap();
        let mut get = |key| worker.send(11, &operation(Kind::Get, key));
        assert!(matches!(get(0), Err(Error::Lost { number: 11, .. })));
        assert!(matches!(get(1), Err(Error::WrongValue { number: 11, .. })));
        assert!(get(2).is_ok());
        assert!(matches!(get(3), Err(Error::Surplus { number: 11, .. })));
        assert!(matches!(get(4), Err(Error::Surplus { number: 11, .. })));
        let work = worker.finish();
        assert_eq!((work.keys, work.data_bytes), (3, 180));
    }
}
