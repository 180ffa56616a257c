//! The record of what the threads saw and what was guaranteed to them, and the check whether all of it is consistent.

use super::plan::{Key, Plan};
use crate::linearizability::{Action, Event, NEVER_RETURNED, check};
use crate::reference::{Ending, Records, Reference};
use crate::simulated::SimulatedDirectory;
use siltstone::batch::Write;
use siltstone::{Bytes, Durability, Error};
use std::collections::BTreeMap;

/// The state of a key: the number of its value, or `None`.
pub(super) type State = Option<u64>;

/// The failures of the device up to some moment. A call of the device is a scheduling point, so they are read before
/// the witness is locked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trouble {
    pub faults: u64,
    pub failed_syncs: u64,
    pub is_off: bool,
}

impl Trouble {
    pub fn of(device: &SimulatedDirectory) -> Trouble {
        Trouble { faults: device.fault_count(), failed_syncs: device.failed_syncs(), is_off: device.is_off() }
    }
}

/// An operation on a key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Done {
    pub key: Key,
    pub action: Action,
}

/// A writer with the sequence of its writes.
#[derive(Default)]
struct Writer {
    reference: Reference,
    /// When each write of the sequence was called and returned.
    moments: Vec<(u64, u64)>,
}

/// An acknowledged write of a shared key: the key has this value, or a later one, since then.
struct Shared {
    key: Key,
    value: u64,
    returned: u64,
    durability: Durability,
}

pub(super) struct Witness {
    value_bytes: (usize, usize),
    clock: u64,
    events: BTreeMap<Key, Vec<Event>>,
    writers: Vec<Writer>,
    shared: Vec<Shared>,
    /// Everything acknowledged before this moment was synced afterwards.
    synced_before: u64,
    /// When a call first returned that a write, sync or step had failed: none that begins later may be acknowledged.
    refused_from: u64,
    pub acknowledged: u64,
    pub violation: Option<String>,
}

impl Witness {
    pub fn new(plan: &Plan) -> Witness {
        Witness {
            value_bytes: plan.value_bytes,
            clock: 0,
            events: BTreeMap::new(),
            writers: (0..plan.writers).map(|_| Writer::default()).collect(),
            shared: Vec::new(),
            synced_before: 0,
            refused_from: u64::MAX,
            acknowledged: 0,
            violation: None,
        }
    }

    /// Returns the next moment. All moments are different.
    pub fn moment(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    pub fn violate(&mut self, words: String) {
        self.violation.get_or_insert(words);
    }

    /// Returns the bytes of a value.
    pub fn value(&self, number: u64) -> Vec<u8> {
        let (least, most) = self.value_bytes;
        let length = least + (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize % (most - least + 1);
        number.to_le_bytes().into_iter().cycle().take(length).collect()
    }

    /// Returns the number of a value that was read. Every byte of the value must be as it was written.
    pub fn state(&mut self, key: Key, value: Option<&Bytes>) -> State {
        let value = value?;
        let number = value.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        if self.value(number) != *value {
            self.violate(format!("{key:?} has a value that was never written: {value:?}"));
        }
        Some(number)
    }

    /// Checks that a call may return this error. After an error of a change, no change may be acknowledged.
    pub fn failed(&mut self, what: &str, error: &Error, trouble: Trouble, ends_writing: bool) {
        let returned = self.moment();
        if trouble.faults == 0 && !trouble.is_off {
            self.violate(format!("{what}: {error}, but nothing had failed"));
        }
        if matches!(error, Error::Corrupt { .. }) && trouble.failed_syncs == 0 && !trouble.is_off {
            self.violate(format!("{what}: {error}, but nothing was damaged"));
        }
        if ends_writing || matches!(error, Error::Poisoned { .. }) {
            self.refused_from = self.refused_from.min(returned);
        }
    }

    /// Checks that a call that began at this moment may be acknowledged.
    pub fn check_acknowledged(&mut self, what: &str, called: u64) {
        self.acknowledged += 1;
        if called > self.refused_from {
            self.violate(format!("{what} was acknowledged after a change had failed"));
        }
    }

    fn note(&mut self, called: u64, returned: u64, done: Done) {
        self.events.entry(done.key).or_default().push(Event { called, returned, action: done.action });
    }

    pub fn read(&mut self, called: u64, key: Key, found: State) {
        let returned = self.moment();
        self.acknowledged += 1;
        self.note(called, returned, Done { key, action: Action::Read(found) });
    }

    /// Reads of all keys at one moment.
    pub fn read_all(&mut self, called: u64, returned: u64, found: &BTreeMap<Key, u64>, keys: &[Key]) {
        self.acknowledged += 1;
        for &key in keys {
            self.note(called, returned, Done { key, action: Action::Read(found.get(&key).copied()) });
        }
    }

    /// Records a write of own keys, acknowledged or not.
    pub fn wrote(
        &mut self,
        writer: usize,
        writes: &[(u32, State)],
        durability: Durability,
        called: u64,
        outcome: Result<(), (Error, Trouble)>,
    ) {
        let is_done = outcome.is_ok();
        match outcome {
            Ok(()) => self.check_acknowledged("a write", called),
            Err((error, trouble)) => self.failed("write", &error, trouble, true),
        }
        let returned = if is_done { self.moment() } else { NEVER_RETURNED };
        let key = |number| Key::Own { writer, number };
        let owned: Vec<_> = writes
            .iter()
            .map(|&(number, state)| (key(number).bytes(), state.map(|value| self.value(value))))
            .collect();
        let listed: Vec<Write<'_>> = owned
            .iter()
            .map(|(key, value)| match value {
                Some(value) => Write::Put { key, value, expires_at_ms: siltstone::batch::NEVER },
                None => Write::Delete { key },
            })
            .collect();
        let Writer { reference, moments } = &mut self.writers[writer];
        match is_done {
            true => reference.acknowledged(&listed, durability),
            false => reference.attempted(&listed),
        }
        moments.push((called, returned));
        for &(number, state) in writes {
            self.note(called, returned, Done { key: key(number), action: Action::Write(state) });
        }
    }

    /// Records that a shared key was changed, or was present already. `value` is its value then.
    pub fn shared(&mut self, called: u64, done: Done, value: u64, durability: Durability) {
        self.check_acknowledged("a write", called);
        let returned = self.moment();
        self.note(called, returned, done);
        self.shared.push(Shared { key: done.key, value, returned, durability });
    }

    /// Records that a shared key may have been changed, or may still be.
    pub fn in_doubt(&mut self, called: u64, done: Done) {
        self.note(called, NEVER_RETURNED, done);
    }

    /// Records that a sync of everything, called at this moment, was acknowledged.
    pub fn synced(&mut self, called: u64) {
        self.synced_before = self.synced_before.max(called);
        for Writer { reference, moments } in &mut self.writers {
            let known = moments.iter().rposition(|(_, returned)| *returned < called);
            reference.synced_to(known.map_or(0, |at| at + 1));
        }
    }

    /// Checks that some order of all operations explains what each thread saw.
    pub fn check_order(&mut self) {
        for (key, events) in &self.events {
            if let Err(found) = check(None, events) {
                self.violation.get_or_insert(format!("{key:?}: {found}"));
                return;
            }
        }
    }

    /// Compares the records after the database was opened again with what was guaranteed.
    pub fn restarted(&mut self, ending: Ending, records: &Records, trouble: Trouble) {
        let lost_sync = trouble.failed_syncs > 0;
        let mut ends = Vec::new();
        for (number, writer) in self.writers.iter_mut().enumerate() {
            if lost_sync && ending != Ending::Closed {
                writer.reference.sync_failed();
            }
            let own = |key: &Bytes| matches!(Key::from_bytes(key), Some(Key::Own { writer, .. }) if writer == number);
            let own = records.iter().filter(|(key, _)| own(key));
            let own = own.map(|(key, cell)| (key.clone(), cell.clone())).collect();
            match writer.reference.restarted(ending, &own, 0) {
                Ok(range) => ends.push(range),
                Err(violation) => {
                    self.violation.get_or_insert(format!("writer {number}, after {ending:?}: {violation}"));
                    return;
                }
            }
        }
        self.check_prefix(&ends);
        let least = match ending {
            Ending::Closed => Durability::Buffered,
            Ending::ProcessKilled if !lost_sync => Durability::Written,
            Ending::ProcessKilled | Ending::PowerLost => Durability::Synced,
        };
        let shared: Vec<Key> = self.events.keys().copied().collect();
        for key in shared.into_iter().filter(|key| !matches!(key, Key::Own { .. })) {
            let found = records.get(&key.bytes()[..]).map(|cell| cell.value.clone());
            let found = self.state(key, found.as_ref());
            self.check_shared(key, found, least);
        }
    }

    /// Checks that all writes have one order: a write of one thread is not present without the earlier writes
    /// of the others.
    fn check_prefix(&mut self, ends: &[std::ops::RangeInclusive<usize>]) {
        for (later, range) in ends.iter().enumerate() {
            let Some(&(called, _)) =
                range.start().checked_sub(1).and_then(|at| self.writers[later].moments.get(at))
            else {
                continue;
            };
            for (earlier, ends) in ends.iter().enumerate() {
                let moments = &self.writers[earlier].moments;
                let before =
                    moments.iter().rposition(|(_, returned)| *returned < called).map_or(0, |at| at + 1);
                if before > *ends.end() {
                    self.violation.get_or_insert(format!(
                        "write {} of writer {later} is there, but of writer {earlier} only {} of the {before} that \
                         had been acknowledged before it",
                        range.start(),
                        ends.end()
                    ));
                }
            }
        }
    }

    fn check_shared(&mut self, key: Key, found: State, least: Durability) {
        let synced_before = self.synced_before;
        let promised = self.shared.iter().filter(|shared| {
            shared.key == key && (shared.durability >= least || shared.returned < synced_before)
        });
        let promised = promised.map(|shared| shared.value).max();
        let written = |event: &Event| match event.action {
            Action::Update { written, .. } => written,
            Action::InsertIfAbsent { value, inserted } => inserted.then_some(value),
            Action::Read(_) | Action::Write(_) | Action::Differs(_) => None,
        };
        let mut possible = self.events[&key].iter().filter_map(written);
        let is_counter = matches!(key, Key::Counter(_));
        let holds = match found {
            None => promised.is_none(),
            Some(found) if is_counter => {
                found >= promised.unwrap_or(0) && possible.any(|value| value == found)
            }
            Some(found) => possible.any(|value| value == found),
        };
        if !holds {
            self.violate(format!("{key:?} is {found:?} after the open, {promised:?} was guaranteed"));
        }
    }

    /// Checks that the records no longer change.
    pub fn check_again(&mut self, before: &Records, after: &Records, what: &str) {
        if before != after {
            let changed =
                before.iter().find(|(key, cell)| after.get(*key) != Some(*cell)).map(|(key, _)| key);
            self.violate(format!("{what} changed records, such as {changed:?}"));
        }
    }
}
