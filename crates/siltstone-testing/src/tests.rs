//! All doubles together: a small log store passes under them, and each of its mistakes is found.

use super::operations::{BatchWrite, Modification, modified};
use super::reference::{Cell, DOUBTS_MAX, Records};
use super::*;
use bytes::Bytes;
use siltstone::batch::{Durability, NEVER, Write};
use siltstone::{Error, Result};
use siltstone_device::{Access, AlignedBuffer, Directory, File, Purpose};
use siltstone_index::coding::checksum;

/// A mistake of the store.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mistake {
    None,
    NoChecksum,
    NoSyncOfTheFile,
    NoSyncOfTheDirectory,
    AcknowledgesBeforeItWrites,
    WritesABatchInTwo,
    KeepsATornTail,
    GoesOnAfterAFailedSync,
    TrustsTheCache,
}

/// A log of records, each with its length and checksum, that is replayed when it is opened.
struct LogStore {
    file: File,
    records: Records,
    end: u64,
    buffered: Vec<u8>,
    poisoned: bool,
    mistake: Mistake,
}

fn encode(writes: &[Write<'_>]) -> Vec<u8> {
    let mut payload = Vec::new();
    for write in writes {
        let (value, kind) = match write {
            Write::Put { value, .. } => (*value, 1),
            Write::Delete { .. } => (&b""[..], 0),
        };
        payload.extend([kind, write.key().len() as u8]);
        payload.extend((value.len() as u32).to_le_bytes());
        payload.extend_from_slice(write.key());
        payload.extend_from_slice(value);
    }
    let mut record = (payload.len() as u32).to_le_bytes().to_vec();
    record.extend(checksum::crc32c(&payload).to_le_bytes());
    record.extend(payload);
    record
}

fn apply(records: &mut Records, mut payload: &[u8]) -> Option<()> {
    while let Some((head, rest)) = payload.split_at_checked(6) {
        let length = u32::from_le_bytes(head[2..].try_into().ok()?);
        let (key, rest) = rest.split_at_checked(head[1] as usize)?;
        let (value, rest) = rest.split_at_checked(length as usize)?;
        let cell = Cell { value: Bytes::copy_from_slice(value), expires_at_ms: NEVER };
        match head[0] {
            0 => drop(records.remove(key)),
            _ => drop(records.insert(Bytes::copy_from_slice(key), cell)),
        }
        payload = rest;
    }
    Some(())
}

impl LogStore {
    fn open(backend: &SimulatedDirectory, mistake: Mistake) -> Result<LogStore> {
        let directory = Directory::new(backend.clone(), Access::Buffered);
        let file = match directory.list()?.is_empty() {
            true => directory.create("log", Access::Buffered)?,
            false => directory.open("log", Access::Buffered)?,
        };
        if mistake != Mistake::NoSyncOfTheDirectory {
            directory.sync(Purpose::Recover)?;
        }
        let mut store = LogStore {
            file,
            records: Records::new(),
            end: 0,
            buffered: Vec::new(),
            poisoned: false,
            mistake,
        };
        store.replay()?;
        Ok(store)
    }

    fn replay(&mut self) -> Result<()> {
        if self.mistake != Mistake::TrustsTheCache {
            self.file.drop_cache();
        }
        let length = self.file.length()? as usize;
        let mut buffer = AlignedBuffer::default();
        let mut rest = self.file.read(Purpose::Recover, 0, length, &mut buffer)?;
        while let Some((head, tail)) = rest.split_at_checked(8) {
            let length = u32::from_le_bytes(head[..4].try_into().unwrap_or_default()) as usize;
            let Some((payload, tail)) = tail.split_at_checked(length) else { break };
            let sound = checksum::crc32c(payload).to_le_bytes() == head[4..];
            if !(sound || self.mistake == Mistake::NoChecksum) || length == 0 {
                break;
            }
            let mut records = self.records.clone();
            if apply(&mut records, payload).is_none() {
                break;
            }
            (self.records, rest) = (records, tail);
            self.end += 8 + length as u64;
        }
        match self.mistake {
            Mistake::KeepsATornTail => self.end = length as u64,
            _ => self.file.truncate(self.end)?,
        }
        Ok(())
    }

    fn write(&mut self, writes: &[Write<'_>], durability: Durability) -> Result<()> {
        if self.poisoned {
            return Err(Error::Closed);
        }
        if self.mistake == Mistake::WritesABatchInTwo && writes.len() > 1 {
            let (first, second) = writes.split_at(writes.len() / 2);
            return self.write(first, durability).and_then(|()| self.write(second, durability));
        }
        let record = encode(writes);
        self.buffered.extend_from_slice(&record);
        let outcome = match durability {
            Durability::Buffered => Ok(()),
            Durability::Written if self.mistake == Mistake::AcknowledgesBeforeItWrites => Ok(()),
            Durability::Written => self.flush(),
            _ => self.sync(),
        };
        self.poisoned |= outcome.is_err() && self.mistake != Mistake::GoesOnAfterAFailedSync;
        apply(&mut self.records, &record[8..]);
        outcome
    }

    fn flush(&mut self) -> Result<()> {
        if !self.buffered.is_empty() {
            self.file.write(Purpose::Log, self.end, &self.buffered)?;
            self.end += self.buffered.len() as u64;
            self.buffered.clear();
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        if self.poisoned {
            return Err(Error::Closed);
        }
        let outcome = self.flush().and_then(|()| match self.mistake {
            Mistake::NoSyncOfTheFile => Ok(()),
            _ => Ok(self.file.sync(Purpose::Log)?),
        });
        self.poisoned |= outcome.is_err() && self.mistake != Mistake::GoesOnAfterAFailedSync;
        outcome
    }
}

/// A store, its device, and its model.
struct Run {
    backend: SimulatedDirectory,
    store: LogStore,
    reference: Reference,
    workload: Workload,
    random: fastrand::Rng,
}

impl Run {
    fn new(seed: u64, mistake: Mistake) -> Run {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut workload = Workload::random(&mut random);
        (workload.lifetime_ms, workload.key_lengths) = (0, 4..=20);
        let backend = SimulatedDirectory::new(seed);
        let store = LogStore::open(&backend, mistake).unwrap();
        Run { backend, store, reference: Reference::new(), workload, random }
    }

    fn go(mut self, operations: usize) -> std::result::Result<(), Violation> {
        for _ in 0..operations {
            let operation = self.workload.next(&mut self.random);
            let failed_syncs = self.backend.failed_syncs();
            self.do_one(operation)?;
            if self.backend.failed_syncs() > failed_syncs {
                self.reference.sync_failed();
            }
            if self.backend.is_off() || self.store.poisoned || self.reference.doubts() == DOUBTS_MAX {
                let crash = Crash::random(&mut self.random);
                self.crash(crash)?;
            }
        }
        self.reference.check_all(&self.store.records, 0)
    }

    fn do_one(&mut self, operation: Operation) -> std::result::Result<(), Violation> {
        match operation {
            Operation::Put { key, value, durability, .. } => {
                self.write(vec![BatchWrite { key, value: Some((value, 0)) }], durability);
            }
            Operation::Delete { key, durability } => {
                self.write(vec![BatchWrite { key, value: None }], durability);
            }
            Operation::Batch { writes, durability } => self.write(writes, durability),
            Operation::Update { key, modification: Modification::Modify { if_absent }, durability } => {
                let key = self.workload.key(key);
                let value = match self.store.records.get(&key[..]) {
                    Some(cell) => modified(&cell.value),
                    None => if_absent.bytes(),
                };
                self.write_bytes(
                    &[Write::Put { key: &key, value: &value, expires_at_ms: NEVER }],
                    durability,
                );
            }
            Operation::Get(key) => {
                let key = self.workload.key(key);
                self.reference.check(&key, self.store.records.get(&key[..]), 0)?;
            }
            Operation::Iterate => self.reference.check_all(&self.store.records, 0)?,
            Operation::Sync => {
                let outcome = self.store.sync();
                outcome.iter().for_each(|()| self.reference.synced());
            }
            Operation::Crash(crash, _) => self.crash(crash)?,
            Operation::PowerOff(changes) => self.backend.power_off_after(changes),
            Operation::Fail(faults) => {
                self.backend.set_faults(Faults { sync_error: faults.sync_error, ..Faults::default() });
            }
            _ => {}
        }
        Ok(())
    }

    fn write(&mut self, writes: Vec<BatchWrite>, durability: Durability) {
        let writes: Vec<_> = writes
            .iter()
            .map(|write| (self.workload.key(write.key), write.value.map(|(value, _)| value.bytes())))
            .collect();
        let writes: Vec<_> = writes
            .iter()
            .map(|(key, value)| match value {
                Some(value) => Write::Put { key, value, expires_at_ms: NEVER },
                None => Write::Delete { key },
            })
            .collect();
        self.write_bytes(&writes, durability);
    }

    fn write_bytes(&mut self, writes: &[Write<'_>], durability: Durability) {
        match self.store.write(writes, durability) {
            Ok(()) => self.reference.acknowledged(writes, durability),
            Err(_) => self.reference.attempted(writes),
        }
    }

    fn crash(&mut self, crash: Crash) -> std::result::Result<(), Violation> {
        self.backend = self.backend.crash(crash, &mut self.random);
        self.store = LogStore::open(&self.backend, self.store.mistake).unwrap();
        self.reference.restarted(crash.into(), &self.store.records, 0).map(drop)
    }
}

fn first_failure(mistake: Mistake, seeds: u64) -> Option<(u64, Violation)> {
    (0..seeds).find_map(|seed| Run::new(seed, mistake).go(150).err().map(|violation| (seed, violation)))
}

#[test]
fn a_correct_store_breaks_no_guarantee() {
    assert_eq!(first_failure(Mistake::None, 300), None);
}

#[test]
fn every_mistake_is_found() {
    for mistake in [
        Mistake::NoChecksum,
        Mistake::NoSyncOfTheFile,
        Mistake::NoSyncOfTheDirectory,
        Mistake::AcknowledgesBeforeItWrites,
        Mistake::WritesABatchInTwo,
        Mistake::KeepsATornTail,
        Mistake::GoesOnAfterAFailedSync,
        Mistake::TrustsTheCache,
    ] {
        let failure = first_failure(mistake, 3000);
        println!("{mistake:?}: {failure:?}");
        assert!(failure.is_some(), "{mistake:?} was not found");
    }
}
