//! Random operations on a database, by swarm testing (Groce et al., ISSTA 2012): each run leaves out some kinds of
//! operations and draws its own sizes, because a mixture of everything rarely reaches an extreme of anything.
//!
//! Operations name keys by number, and values by serial number and length. So a list of operations is short, and any of
//! them can be left out without changing the meaning of the others.

use super::simulated::{Crash, Faults};
use siltstone::batch::{Durability, TimestampMs};
use std::ops::RangeInclusive;

/// The number of a key in a [`Workload`].
pub type KeyNumber = u32;

/// A value. Its number determines its bytes; two values of eight bytes or more with different numbers differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value {
    /// The number of the value.
    pub serial: u64,
    /// Its length, in bytes.
    pub length: usize,
}

impl Value {
    /// Returns the bytes.
    pub fn bytes(self) -> Vec<u8> {
        let mut bytes = vec![0; self.length];
        fastrand::Rng::with_seed(self.serial).fill(&mut bytes);
        for (to, from) in bytes.iter_mut().zip(self.serial.to_le_bytes()) {
            *to = from;
        }
        bytes
    }
}

/// A write of a batch. The value `None` deletes the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchWrite {
    /// The key.
    pub key: KeyNumber,
    /// Its new value, and in how many milliseconds it expires, 0 for never.
    pub value: Option<(Value, TimestampMs)>,
}

/// What an update does with the value that it finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Modification {
    /// Leaves it.
    Keep,
    /// Removes it.
    Delete,
    /// Replaces it by [`modified`], or puts a value if there is none.
    Modify {
        /// The value that is put if there is none.
        if_absent: Value,
    },
}

/// Returns the value that [`Modification::Modify`] puts: as long, with each byte greater by one.
pub fn modified(value: &[u8]) -> Vec<u8> {
    value.iter().map(|byte| byte.wrapping_add(1)).collect()
}

/// One operation on a database or on its device.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// Puts a value that expires after a time, or never.
    Put {
        /// The key.
        key: KeyNumber,
        /// Its new value.
        value: Value,
        /// In how many milliseconds it expires, 0 for never.
        expires_in_ms: TimestampMs,
        /// The durability.
        durability: Durability,
    },
    /// Deletes a key.
    Delete {
        /// The key.
        key: KeyNumber,
        /// The durability.
        durability: Durability,
    },
    /// Writes a batch.
    Batch {
        /// The writes, in order.
        writes: Vec<BatchWrite>,
        /// The durability.
        durability: Durability,
    },
    /// Reads and modifies a value.
    Update {
        /// The key.
        key: KeyNumber,
        /// The modification.
        modification: Modification,
        /// The durability.
        durability: Durability,
    },
    /// Reads and modifies several values in one transaction.
    Transact {
        /// The keys with their modifications.
        modifications: Vec<(KeyNumber, Modification)>,
        /// The durability.
        durability: Durability,
    },
    /// Puts those of the records whose keys are absent, in one transaction.
    InsertManyIfAbsent(Vec<(KeyNumber, Value)>),
    /// Syncs the database, and loads the records.
    BulkLoad(Vec<(KeyNumber, Value)>),
    /// Replaces the value of a key, or deletes it.
    CompareAndSwap {
        /// The key.
        key: KeyNumber,
        /// Whether the expected value is the present one.
        matches: bool,
        /// The new value.
        new: Option<Value>,
    },
    /// Removes a key and returns its value.
    Remove(KeyNumber),
    /// Gets a key.
    Get(KeyNumber),
    /// Gets several keys in one call.
    GetMany(Vec<KeyNumber>),
    /// Reads all records.
    Iterate,
    /// Reads a page of at most this number of records of the current scan, or of a new one.
    Scan(u32),
    /// Syncs the database.
    Sync,
    /// Executes this number of steps of background work.
    Step(u32),
    /// Merges everything into the last store.
    Compact,
    /// This number of milliseconds passes.
    Wait(TimestampMs),
    /// Sets or removes the memory budget, in bytes. Simulations insert it between the operations of a workload.
    Budget(Option<u64>),
    /// Verifies the database.
    Verify,
    /// Makes a checkpoint.
    Checkpoint,
    /// Closes the database and opens it again.
    Reopen,
    /// Ends it without closing it, and opens what is left. The seed is that of the crash.
    Crash(Crash, u64),
    /// The power fails at this change of the device, counted from now, whichever operation is running then.
    PowerOff(u64),
    /// The device fails like this from now on.
    Fail(Faults),
}

/// The kinds of operations, in the order of a workload's weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the operations of the same names are documented")]
pub enum OperationKind {
    Put,
    Delete,
    Batch,
    Update,
    Transact,
    InsertManyIfAbsent,
    CompareAndSwap,
    Remove,
    Get,
    GetMany,
    Iterate,
    Scan,
    Sync,
    Step,
    Compact,
    Wait,
    Verify,
    Checkpoint,
    Reopen,
    Crash,
    PowerOff,
    Fail,
    BulkLoad,
}

use OperationKind as Kind;

impl OperationKind {
    /// All kinds.
    pub const ALL: [Kind; 23] = [
        Kind::Put,
        Kind::Delete,
        Kind::Batch,
        Kind::Update,
        Kind::Transact,
        Kind::InsertManyIfAbsent,
        Kind::CompareAndSwap,
        Kind::Remove,
        Kind::Get,
        Kind::GetMany,
        Kind::Iterate,
        Kind::Scan,
        Kind::Sync,
        Kind::Step,
        Kind::Compact,
        Kind::Wait,
        Kind::Verify,
        Kind::Checkpoint,
        Kind::Reopen,
        Kind::Crash,
        Kind::PowerOff,
        Kind::Fail,
        Kind::BulkLoad,
    ];

    /// Returns the maximum weight of the kind in a workload. Operations that are expensive or end a database are rare.
    fn weight_max(self) -> u32 {
        match self {
            Kind::Put => 1000,
            Kind::Get | Kind::Step => 500,
            Kind::Delete | Kind::Batch | Kind::Update => 300,
            Kind::GetMany | Kind::Scan | Kind::Sync | Kind::Wait => 100,
            Kind::Transact | Kind::InsertManyIfAbsent | Kind::CompareAndSwap | Kind::Remove => 100,
            Kind::Reopen | Kind::Crash | Kind::Iterate => 20,
            Kind::Compact | Kind::PowerOff | Kind::Fail | Kind::BulkLoad => 10,
            Kind::Verify | Kind::Checkpoint => 5,
        }
    }
}

/// Which operations a run executes, how often, on how many keys, with which sizes.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// The weight of each kind, in the order of [`OperationKind::ALL`]; 0 leaves it out.
    pub weights: [u32; Kind::ALL.len()],
    /// The weights of the durabilities: buffered, written, synced.
    pub durabilities: [u32; 3],
    /// How many keys there are.
    pub keys: KeyNumber,
    /// Whether a few keys are used much more often than the others.
    pub skewed: bool,
    /// The lengths of keys, in bytes, long enough that all keys differ.
    pub key_lengths: RangeInclusive<usize>,
    /// The lengths of values, in bytes.
    pub value_lengths: RangeInclusive<usize>,
    /// The maximum number of writes in a batch, and of keys in a [`Operation::GetMany`].
    pub batch_max: usize,
    /// The longest lifetime of an expiring record, in milliseconds; 0 if none expires.
    pub lifetime_ms: TimestampMs,
    /// Determines the bytes of the keys.
    pub key_seed: u64,
    serial: u64,
}

/// The bytes at the end of a key in which it differs from all others.
const KEY_NUMBER_BYTES: usize = KeyNumber::BITS as usize / 8;

impl Workload {
    /// Returns a random workload for records of any size.
    pub fn random(random: &mut fastrand::Rng) -> Workload {
        let shortest = KEY_NUMBER_BYTES + random.usize(..12);
        let longest = shortest + log_uniform(random, 300) as usize - 1;
        let values = log_uniform(random, 20_000) as usize - 1;
        Workload::draw(random, shortest..=longest, random_start(values)..=values)
    }

    /// Returns a workload for records of a fixed size, in bytes.
    ///
    /// # Panics
    /// If keys are shorter than 4 bytes, which are needed to make them different.
    pub fn fixed(random: &mut fastrand::Rng, key_length: usize, value_length: usize) -> Workload {
        assert!(key_length >= KEY_NUMBER_BYTES, "keys of {key_length} bytes would not all differ");
        Workload::draw(random, key_length..=key_length, value_length..=value_length)
    }

    fn draw(
        random: &mut fastrand::Rng,
        key_lengths: RangeInclusive<usize>,
        value_lengths: RangeInclusive<usize>,
    ) -> Workload {
        let mut weights = Kind::ALL.map(|kind| match random.u8(..3) {
            0 => 0,
            _ => log_uniform(random, kind.weight_max()),
        });
        // Without a write there is nothing to check.
        weights[Kind::Put as usize] = weights[Kind::Put as usize].max(20);
        let mut durabilities = [0; 3].map(|_: u32| random.u32(..4));
        if durabilities == [0; 3] {
            durabilities[1] = 1;
        }
        Workload {
            weights,
            durabilities,
            keys: log_uniform(random, 3000),
            skewed: random.bool(),
            key_lengths,
            value_lengths,
            batch_max: log_uniform(random, 100) as usize,
            lifetime_ms: if random.bool() { u64::from(log_uniform(random, 100_000)) } else { 0 },
            key_seed: random.u64(..),
            serial: 0,
        }
    }

    /// Leaves a kind of operation out.
    pub fn without(mut self, kind: OperationKind) -> Workload {
        self.weights[kind as usize] = 0;
        self
    }

    /// Returns the bytes of a key: as random as those of a hash, except for the last four, which are its number.
    pub fn key(&self, number: KeyNumber) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(self.key_seed ^ u64::from(number).rotate_left(32));
        let mut key = vec![0; random.usize(self.key_lengths.clone())];
        random.fill(&mut key);
        for (to, from) in key.iter_mut().rev().zip(number.to_le_bytes()) {
            *to = from;
        }
        key
    }

    /// Returns the next operation.
    pub fn next(&mut self, random: &mut fastrand::Rng) -> Operation {
        let kind = Kind::ALL[pick(&self.weights, random)];
        self.next_of(kind, random)
    }

    /// Returns the next operation of this kind.
    pub fn next_of(&mut self, kind: OperationKind, random: &mut fastrand::Rng) -> Operation {
        match kind {
            Kind::Put => {
                let (value, expires_in_ms) = self.value(random);
                let (key, durability) = (self.pick_key(random), self.durability(random));
                Operation::Put { key, value, expires_in_ms, durability }
            }
            Kind::Delete => {
                Operation::Delete { key: self.pick_key(random), durability: self.durability(random) }
            }
            Kind::Batch => self.batch(random),
            Kind::Update => self.update(random),
            Kind::Transact => {
                let keys = self.some_keys(random);
                let modifications = keys.into_iter().map(|key| (key, self.modification(random))).collect();
                Operation::Transact { modifications, durability: self.durability(random) }
            }
            Kind::InsertManyIfAbsent => {
                let keys = self.some_keys(random);
                let records = keys.into_iter().map(|key| (key, self.value(random).0)).collect();
                Operation::InsertManyIfAbsent(records)
            }
            Kind::CompareAndSwap => {
                let new = (random.u8(..4) > 0).then(|| self.value(random).0);
                Operation::CompareAndSwap { key: self.pick_key(random), matches: random.u8(..4) > 0, new }
            }
            Kind::Remove => Operation::Remove(self.pick_key(random)),
            Kind::Get => Operation::Get(self.pick_key(random)),
            Kind::GetMany => Operation::GetMany(self.some_keys(random)),
            Kind::Iterate => Operation::Iterate,
            Kind::Scan => Operation::Scan(log_uniform(random, 500)),
            Kind::Sync => Operation::Sync,
            Kind::Step => Operation::Step(log_uniform(random, 100)),
            Kind::Compact => Operation::Compact,
            Kind::Wait => Operation::Wait(u64::from(log_uniform(random, 20_000))),
            Kind::Verify => Operation::Verify,
            Kind::Checkpoint => Operation::Checkpoint,
            Kind::Reopen => Operation::Reopen,
            Kind::Crash => Operation::Crash(Crash::random(random), random.u64(..)),
            Kind::PowerOff => Operation::PowerOff(u64::from(log_uniform(random, 2000))),
            Kind::Fail => Operation::Fail(Faults::random(random)),
            Kind::BulkLoad => {
                let keys = self.some_keys(random);
                Operation::BulkLoad(keys.into_iter().map(|key| (key, self.value(random).0)).collect())
            }
        }
    }

    fn batch(&mut self, random: &mut fastrand::Rng) -> Operation {
        let writes = (0..random.usize(1..=self.batch_max))
            .map(|_| {
                let value = (random.u8(..4) > 0).then(|| self.value(random));
                BatchWrite { key: self.pick_key(random), value }
            })
            .collect();
        Operation::Batch { writes, durability: self.durability(random) }
    }

    fn update(&mut self, random: &mut fastrand::Rng) -> Operation {
        let modification = self.modification(random);
        Operation::Update { key: self.pick_key(random), modification, durability: self.durability(random) }
    }

    fn modification(&mut self, random: &mut fastrand::Rng) -> Modification {
        match random.u8(..6) {
            0 => Modification::Keep,
            1 => Modification::Delete,
            _ => Modification::Modify { if_absent: self.value(random).0 },
        }
    }

    /// Returns at most as many keys as a batch has writes. A key may come twice.
    fn some_keys(&self, random: &mut fastrand::Rng) -> Vec<KeyNumber> {
        (0..random.usize(..=self.batch_max)).map(|_| self.pick_key(random)).collect()
    }

    fn pick_key(&self, random: &mut fastrand::Rng) -> KeyNumber {
        if self.skewed { log_uniform(random, self.keys) - 1 } else { random.u32(..self.keys) }
    }

    /// Returns a new value, and its lifetime.
    fn value(&mut self, random: &mut fastrand::Rng) -> (Value, TimestampMs) {
        self.serial += 1;
        let value = Value { serial: self.serial, length: random.usize(self.value_lengths.clone()) };
        let expires = self.lifetime_ms > 0 && random.bool();
        (value, if expires { random.u64(1..=self.lifetime_ms) } else { 0 })
    }

    fn durability(&self, random: &mut fastrand::Rng) -> Durability {
        [Durability::Buffered, Durability::Written, Durability::Synced][pick(&self.durabilities, random)]
    }
}

fn random_start(end: usize) -> usize {
    if end.is_multiple_of(2) { 0 } else { end / 2 }
}

/// Returns an index, with a probability proportional to its weight.
fn pick(weights: &[u32], random: &mut fastrand::Rng) -> usize {
    let mut at = random.u32(..weights.iter().sum::<u32>().max(1));
    for (index, &weight) in weights.iter().enumerate() {
        if at < weight {
            return index;
        }
        at -= weight;
    }
    0
}

/// Returns a number from 1 to `end`, with the same probability for each order of magnitude.
fn log_uniform(random: &mut fastrand::Rng, end: u32) -> u32 {
    (f64::from(end).powf(random.f64()) as u32).clamp(1, end.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn run(seed: u64, count: usize) -> (Workload, Vec<Operation>) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut workload = Workload::random(&mut random);
        let operations = (0..count).map(|_| workload.next(&mut random)).collect();
        (workload, operations)
    }

    #[test]
    fn a_seed_repeats_itself_and_another_differs() {
        assert_eq!(run(1, 500), run(1, 500));
        assert_ne!(run(1, 500).1, run(2, 500).1);
    }

    #[test]
    fn every_kind_of_operation_is_drawn_in_some_runs_and_left_out_of_others() {
        let workloads: Vec<_> = (0..100).map(|seed| run(seed, 0).0).collect();
        for kind in Kind::ALL {
            let runs = workloads.iter().filter(|workload| workload.weights[kind as usize] > 0).count();
            assert!(runs > 30 && (runs < 90 || kind == Kind::Put), "{kind:?} in {runs} runs");
        }
        let drawn: BTreeSet<String> = (0..200)
            .flat_map(|seed| run(seed, 1000).1)
            .map(|operation| format!("{operation:?}").split(['(', ' ']).next().unwrap_or_default().to_owned())
            .collect();
        assert_eq!(drawn.len(), Kind::ALL.len(), "{drawn:?}");
    }

    #[test]
    fn a_kind_that_is_left_out_is_never_drawn() {
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..50 {
            let mut workload = Workload::random(&mut random).without(Kind::Put).without(Kind::Crash);
            if workload.weights == [0; Kind::ALL.len()] {
                continue;
            }
            for _ in 0..200 {
                let operation = workload.next(&mut random);
                assert!(!matches!(operation, Operation::Put { .. } | Operation::Crash(..)), "{operation:?}");
            }
        }
    }

    #[test]
    fn keys_and_values_differ_and_keep_to_their_lengths() {
        for seed in 0..50 {
            let (workload, operations) = run(seed, 300);
            let keys: BTreeSet<_> = (0..workload.keys).map(|number| workload.key(number)).collect();
            assert_eq!(keys.len(), workload.keys as usize);
            assert!(keys.iter().all(|key| workload.key_lengths.contains(&key.len())));
            let values: Vec<_> = operations
                .iter()
                .filter_map(|operation| match operation {
                    Operation::Put { value, .. } if value.length >= 8 => Some(*value),
                    _ => None,
                })
                .collect();
            assert!(values.iter().all(|value| workload.value_lengths.contains(&value.bytes().len())));
            let different: BTreeSet<_> = values.iter().map(|value| value.bytes()).collect();
            assert_eq!(different.len(), values.len());
        }
    }

    #[test]
    fn sizes_go_to_their_extremes() {
        let workloads: Vec<_> = (0..300).map(|seed| run(seed, 0).0).collect();
        assert!(workloads.iter().any(|workload| workload.keys <= 2));
        assert!(workloads.iter().any(|workload| workload.keys > 1500));
        assert!(workloads.iter().any(|workload| *workload.value_lengths.end() == 0));
        assert!(workloads.iter().any(|workload| *workload.value_lengths.end() > 8192));
        assert!(workloads.iter().any(|workload| workload.durabilities == [0, 0, 3]));
    }

    #[test]
    fn fixed_workloads_have_records_of_one_size() {
        let mut random = fastrand::Rng::with_seed(5);
        let mut workload = Workload::fixed(&mut random, 20, 12);
        assert!((0..workload.keys).all(|number| workload.key(number).len() == 20));
        for _ in 0..1000 {
            if let Operation::Put { value, .. } = workload.next(&mut random) {
                assert_eq!(value.bytes().len(), 12);
            }
        }
    }

    #[test]
    fn a_modified_value_is_as_long_and_no_byte_is_the_same() {
        let (old, new) = (vec![0, 7, 255], modified(&[0, 7, 255]));
        assert!(new.len() == 3 && old.iter().zip(&new).all(|(old, new)| old != new));
    }
}
