//! Sends a trace of chunks to a store, one operation after the other, and counts and times what it costs.

use crate::Result;
use crate::conditions::{Conditions, Preset};
use crate::point::{Footprint, Settled, Settles};
use crate::stores::Peer;
use crate::synthetic::Synthetic;
use siltstone::{Database, EngineKind, RamAccount};
use siltstone_bench::trace::{Kind, Operation};
use siltstone_device::{IoSnapshot, Purpose};
use std::time::{Duration, Instant};

/// A partition has about as many keys, so that few keys have chains as long as many keys have.
const KEYS_PER_PARTITION: u64 = 500_000;
const PARTITIONS_MAX: u64 = 16;

/// Returns the number of partitions of a database.
pub(super) fn partitions(keys: u64) -> u32 {
    ((keys / KEYS_PER_PARTITION).clamp(1, PARTITIONS_MAX) as u32).next_power_of_two()
}

/// A database as a store that is compared.
pub(super) struct Engine {
    database: Database,
}

/// What a trace has cost.
pub(super) struct Costs {
    pub lookups: u64,
    /// The lookups of chunks that were inserted before and are not there.
    pub lost: u64,
    pub lookup_time: Duration,
    pub lookup_reads: u64,
    pub inserts: u64,
    pub insert_time: Duration,
    pub written_bytes: u64,
    /// The memory and the space at the end.
    pub settled: Settled,
}

impl Engine {
    /// Creates a database of an engine with these settings, for as many keys.
    pub fn create(
        conditions: &Conditions,
        preset: Preset,
        (trace, keys): (Synthetic, u64),
        engine: EngineKind,
        settings: &[(&str, String)],
    ) -> Result<Engine> {
        let mut tuning = conditions.tuning(engine, preset, settings);
        tuning.partitions = Some(partitions(keys));
        let (key_bytes, value_bytes) = trace.lengths();
        let builder = Database::builder(conditions.place.directory());
        let builder = builder.fixed(key_bytes.into(), value_bytes as usize);
        Ok(Engine { database: tuning.apply(builder).open()? })
    }
}

impl Engine {
    /// Returns the memory by items.
    pub fn ram(&self) -> RamAccount {
        self.database.stats().ram
    }
}

impl Settles for Engine {
    fn settled_bytes(&mut self) -> Result<Footprint> {
        self.database.settled_bytes()
    }
}

impl Peer for Engine {
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.database.put(key, value)?)
    }

    fn lookup(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.database.get(key)?.map(|value| value.to_vec()))
    }

    fn io(&self) -> IoSnapshot {
        self.database.stats().io
    }
}

/// Returns the value of a chunk.
fn value_of(operation: &Operation) -> Vec<u8> {
    let mut value = vec![operation.key as u8; operation.value_length as usize];
    let bytes = operation.key.to_be_bytes();
    let length = value.len().min(bytes.len());
    value[..length].copy_from_slice(&bytes[..length]);
    value
}

/// Sends a trace of as many new chunks, with all of its inserts, and with about as many of its lookups, at equal
/// distances.
///
/// # Errors
/// A wrong value, or one of a chunk that was not inserted. A chunk that is missing is not one: stores may drop their
/// oldest records.
pub(super) fn send(
    conditions: &Conditions,
    (trace, keys): (Synthetic, u64),
    lookups_max: u64,
    peer: &mut dyn Peer,
) -> Result<Costs> {
    let scale = keys as f64 / trace.keys(1.0) as f64;
    // Without lookups the distance is longer than the trace.
    let distance = trace.lookups(scale).checked_div(lookups_max).map_or(u64::MAX, |distance| distance.max(1));
    let (mut asked, mut lookups, mut lost, mut inserts) = (0, 0, 0, 0);
    let (mut lookup_time, mut insert_time) = (Duration::ZERO, Duration::ZERO);
    let mut key = Vec::new();
    let before = peer.io();
    let mut operations = trace.open(scale, conditions.seed)?.peekable();
    while let Some(operation) = operations.next().transpose()? {
        conditions.check()?;
        operation.write_key(&mut key);
        if operation.kind == Kind::Get {
            asked += 1;
            if asked % distance != 0 {
                continue;
            }
            // A chunk that is inserted next is new.
            let is_new = matches!(operations.peek(), Some(Ok(next)) if next.kind != Kind::Get);
            let begun = Instant::now();
            let value = peer.lookup(&key)?;
            lookup_time += begun.elapsed();
            lookups += 1;
            lost += u64::from(!is_new && value.is_none());
            if value.is_some_and(|value| is_new || value != value_of(&operation)) {
                let wrong = siltstone_bench::Error::WrongValue { benchmark: trace.name(), number: lookups };
                return Err(wrong.into());
            }
        } else {
            let value = value_of(&operation);
            let begun = Instant::now();
            peer.insert(&key, &value)?;
            insert_time += begun.elapsed();
            inserts += 1;
        }
    }
    let io = peer.io() - before;
    let (lookup_reads, written_bytes) = (io.of(Purpose::Get).reads, io.total().write_bytes);
    let settled = Settled::of(peer)?;
    Ok(Costs { lookups, lost, lookup_time, lookup_reads, inserts, insert_time, written_bytes, settled })
}
