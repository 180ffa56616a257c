//! Sends a trace of chunks to a store, one operation after the other, and counts and times what it costs.

use super::super::Settings;
use crate::stores::Peer;
use crate::synthetic::Synthetic;
use crate::{Error, Result};
use siltstone::{Database, EngineKind, RamAccount};
use siltstone_bench::place::Place;
use siltstone_bench::trace::{Kind, Operation};
use siltstone_bench::tuning::{SettingArgs, Tuning};
use siltstone_device::{IoSnapshot, Purpose};
use std::sync::atomic::Ordering::Relaxed;
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
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Costs {
    pub lookups: u64,
    pub found: u64,
    pub lookup_time: Duration,
    pub lookup_reads: u64,
    pub inserts: u64,
    pub insert_time: Duration,
    pub written_bytes: u64,
    /// The memory at the end, in bytes.
    pub ram_bytes: u64,
}

impl Engine {
    /// Creates a database of an engine with these settings, and those of the command line.
    pub fn create(
        settings: &Settings,
        place: &Place,
        trace: Synthetic,
        engine: EngineKind,
        named: &[(&str, String)],
    ) -> Result<Engine> {
        let mut named: Vec<_> =
            named.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        named.extend(settings.more.settings.iter().cloned());
        let tuning = Tuning {
            engine,
            settings: SettingArgs { settings: named },
            access: settings.access,
            partitions: Some(partitions(settings.num)),
            ..Tuning::default()
        };
        let (key_bytes, value_bytes) = trace.lengths();
        let builder = Database::builder(place.directory());
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

impl Peer for Engine {
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.database.put(key, value)?)
    }

    fn lookup(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.database.get(key)?.map(|value| value.to_vec()))
    }

    fn settle(&mut self) -> Result<()> {
        Ok(self.database.settle()?)
    }

    fn ram_bytes(&self) -> u64 {
        self.database.stats().ram.total_bytes()
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

/// Sends a trace of as many new chunks as the settings have keys.
///
/// # Errors
/// A wrong value. A chunk that is missing is not one: stores may drop their oldest records.
pub(super) fn send(settings: &Settings, trace: Synthetic, peer: &mut dyn Peer) -> Result<Costs> {
    let scale = settings.num as f64 / trace.keys(1.0) as f64;
    let (mut costs, mut key) = (Costs::default(), Vec::new());
    let before = peer.io();
    for operation in trace.open(scale, settings.seed)? {
        if settings.stop.load(Relaxed) {
            return Err(Error::STOPPED);
        }
        let operation = operation?;
        operation.write_key(&mut key);
        let begun = Instant::now();
        if operation.kind == Kind::Get {
            let found = peer.lookup(&key)?;
            costs.lookup_time += begun.elapsed();
            costs.lookups += 1;
            costs.found += u64::from(found.is_some());
            if found.is_some_and(|found| found != value_of(&operation)) {
                return Err(siltstone_bench::Error::WrongValue {
                    benchmark: trace.name(),
                    number: costs.lookups,
                }
                .into());
            }
        } else {
            let value = value_of(&operation);
            let begun = Instant::now();
            peer.insert(&key, &value)?;
            costs.insert_time += begun.elapsed();
            costs.inserts += 1;
        }
    }
    let io = peer.io() - before;
    costs.lookup_reads = io.of(Purpose::Get).reads;
    costs.written_bytes = io.total().write_bytes;
    // Buffers of background work are no memory of what is stored.
    peer.settle()?;
    costs.ram_bytes = peer.ram_bytes();
    Ok(costs)
}
