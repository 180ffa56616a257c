//! A database of the library as a store.

use super::{
    Act, ChangePage, Entry, KEYS_AT_ONCE, KeyCount, KeyPage, KeyState, NewValue, Show, Store, StoreInfo,
    TRANSACTION_BYTES_MAX, ValueForm,
};
use crate::failure::{Failure, Outcome};
use siltstone::key::{HASH_LENGTH_MIN, KEY_LENGTH_MAX};
use siltstone::{Batch, Bytes, Change, Database, Error, Found, FoundRef, NEVER, Shape};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// About how many keys are counted exactly.
const COUNTED_KEYS_MAX: u64 = 10_000;

/// The keys that are looked up at once to see how long their values are.
const CHECKED_KEYS: usize = 128;

/// The bytes of the longest value, before some lookups have shown more.
const FIRST_LONGEST: usize = TRANSACTION_BYTES_MAX / CHECKED_KEYS;

/// The lookups after which a generation of lengths ends.
const GENERATION_LOOKUPS: usize = 4096;

/// The bytes of the longest value that was read or written lately: in this generation of lookups, or in the one before.
/// A long one that is not met again is forgotten.
struct Longest {
    current: AtomicUsize,
    previous: AtomicUsize,
    lookups: AtomicUsize,
}

impl Longest {
    fn new() -> Longest {
        let length = || AtomicUsize::new(FIRST_LONGEST);
        Longest { current: length(), previous: length(), lookups: AtomicUsize::new(0) }
    }

    fn bytes(&self) -> usize {
        self.current.load(Relaxed).max(self.previous.load(Relaxed))
    }

    /// Notes the bytes of a value.
    fn note(&self, bytes: usize) {
        // Hardly ever: all threads share the number.
        if bytes > self.current.load(Relaxed) {
            self.current.fetch_max(bytes, Relaxed);
        }
    }

    /// Notes a lookup, of any number of keys.
    fn note_lookup(&self) {
        if self.lookups.fetch_add(1, Relaxed) % GENERATION_LOOKUPS == GENERATION_LOOKUPS - 1 {
            self.previous.store(self.current.swap(0, Relaxed), Relaxed);
        }
    }
}

/// A database.
pub struct DatabaseStore {
    database: Database,
    shape: Shape,
    form: ValueForm,
    is_persistent: bool,
    /// The engine holds all values that it finds in a call, so the longer they may be, the fewer keys a call has.
    longest: Longest,
    /// The bytes of the values that a transaction may find.
    found_bytes_max: usize,
}

impl DatabaseStore {
    /// Serves a database, whose values have this form.
    pub fn new(database: Database, form: ValueForm) -> DatabaseStore {
        let shape = database.stats().shape;
        let is_persistent = database.capabilities().persistent;
        let (longest, found_bytes_max) = (Longest::new(), TRANSACTION_BYTES_MAX);
        DatabaseStore { database, shape, form, is_persistent, longest, found_bytes_max }
    }

    /// Looks up keys, a few at once if their values may be long.
    fn find(&self, keys: &[&[u8]], mut show: impl FnMut(usize, Option<FoundRef<'_>>)) -> Outcome {
        self.longest.note_lookup();
        let mut first = 0;
        while first < keys.len() {
            // Also after the values of this lookup.
            let some = &keys[first..keys.len().min(first + self.keys_at_once())];
            self.database.get_many_with(some, |number, found| show(first + number, found))?;
            first += some.len();
        }
        Ok(())
    }

    /// Checks that a transaction can hold the values of its keys. They are looked up before only if some values are so
    /// long that it may not.
    fn check_found(&self, keys: &[&[u8]]) -> Outcome {
        self.longest.note_lookup();
        if self.longest.bytes().saturating_mul(keys.len()) <= self.found_bytes_max {
            return Ok(());
        }
        let (mut bytes, mut rest) = (0_usize, keys);
        while !rest.is_empty() {
            // Also after the values of the piece before.
            let piece = rest.len().min(self.keys_at_once()).min(CHECKED_KEYS);
            let (piece, others) = rest.split_at(piece);
            self.database.get_many_with(piece, |_, found| {
                let length = found.map_or(0, |found| found.value.len());
                self.longest.note(length);
                bytes += length;
            })?;
            if bytes > self.found_bytes_max {
                return Err(Failure::TRANSACTION_TOO_LONG);
            }
            rest = others;
        }
        Ok(())
    }

    /// Returns whether the database may have this key.
    fn is_possible(&self, key: &[u8]) -> bool {
        let least = if self.shape.hashed_keys { HASH_LENGTH_MIN } else { 1 };
        let is_of_length = self.shape.fixed.is_none_or(|(key_length, _)| key_length == key.len());
        is_of_length && (least..=KEY_LENGTH_MAX).contains(&key.len())
    }

    /// Returns whether values are stored without their marks.
    fn loses_marks(&self) -> bool {
        self.form == ValueForm::Plain
    }

    /// Returns why the database cannot have this key.
    fn refusal(&self, key: &[u8]) -> Failure {
        let got = key.len();
        Failure::from(match self.shape.fixed {
            Some((expected, _)) if expected != got => Error::RecordSize { what: "key", expected, got },
            _ if self.shape.hashed_keys && got < HASH_LENGTH_MIN => Error::HashLength { got },
            _ => Error::KeyLength { length: got },
        })
    }

    fn entry<'a>(&self, stored: &'a [u8], expires_at_ms: u64) -> Result<Entry<'a>, Failure> {
        self.longest.note(stored.len());
        self.form.entry(stored, expires_at_ms).ok_or(UNKNOWN_TYPE)
    }

    /// Returns what shows the values of a lookup, or sets the failure of one that is not understood.
    fn decoding<'a>(
        &'a self,
        numbers: &'a [usize],
        show: &'a mut Show<'_>,
        outcome: &'a mut Result<(), Failure>,
    ) -> impl FnMut(usize, Option<FoundRef<'_>>) + 'a {
        move |number, found| match found.map(|found| self.entry(found.value, found.expires_at_ms)).transpose()
        {
            Ok(entry) => show(numbers[number], entry),
            Err(failure) => *outcome = Err(failure),
        }
    }

    fn state(&self, found: Option<&Found>) -> Result<KeyState, Failure> {
        let Some(found) = found else { return Ok(KeyState::default().losing_marks(self.loses_marks())) };
        self.longest.note(found.value.len());
        let value = self.form.value(&found.value, found.expires_at_ms).ok_or(UNKNOWN_TYPE)?;
        Ok(KeyState::found(Some(value)).losing_marks(self.loses_marks()))
    }

    /// Returns a value as it is stored.
    fn stored(&self, value: &NewValue) -> Result<Bytes, Failure> {
        self.form.encode_value(value).ok_or(ONLY_STRINGS)
    }

    fn check_value(&self, stored: &[u8], expires_at_ms: u64) -> Outcome {
        let got = stored.len();
        if let Some((_, expected)) = self.shape.fixed {
            if expected != got {
                return Err(Failure::from(Error::RecordSize { what: "value", expected, got }));
            }
            if expires_at_ms != NEVER && !self.shape.expiring {
                return Err(Failure::from(Error::ExpiryUnsupported));
            }
        }
        Ok(())
    }

    /// Returns the change that a state makes.
    fn change(&self, state: &KeyState) -> Result<Change, Failure> {
        Ok(match state.change() {
            None => Change::Keep,
            Some(None) => Change::Delete,
            Some(Some(value)) => {
                let (stored, expires_at_ms) = (self.stored(value)?, value.expires_at_ms);
                self.longest.note(stored.len());
                self.check_value(&stored, expires_at_ms)?;
                Change::Put { value: stored, expires_at_ms }
            }
        })
    }
}

const UNKNOWN_TYPE: Failure =
    Failure::new("ERR the value has a type that this server does not know; use a newer siltstone");
const ONLY_STRINGS: Failure = Failure::new(
    "ERR this database was not created by the server, so its values are strings; use another database for hashes",
);

impl Store for DatabaseStore {
    fn get_many(&self, keys: &[&[u8]], show: &mut Show<'_>) -> Result<(), Failure> {
        let possible = super::possible_keys(keys, |key| self.is_possible(key), show);
        let mut outcome = Ok(());
        self.find(&possible.keys, self.decoding(&possible.numbers, show, &mut outcome))?;
        outcome
    }

    fn keys_at_once(&self) -> usize {
        let fit = TRANSACTION_BYTES_MAX / self.longest.bytes().max(1);
        fit.clamp(1, KEYS_AT_ONCE)
    }

    fn get_many_in_memory(&self, keys: &[&[u8]], show: &mut Show<'_>) -> Result<Vec<usize>, Failure> {
        let possible = super::possible_keys(keys, |key| self.is_possible(key), show);
        let mut outcome = Ok(());
        let decoding = self.decoding(&possible.numbers, show, &mut outcome);
        let unknown = self.database.get_many_in_memory(&possible.keys, decoding)?;
        outcome?;
        Ok(unknown.into_iter().map(|number| possible.numbers[number]).collect())
    }

    fn keys(&self, position: u64, keys_max: usize) -> Result<KeyPage, Failure> {
        Ok(KeyPage::from(self.database.scan(position.., super::page_limit(keys_max))?))
    }

    fn random_key(&self) -> Result<Option<Vec<u8>>, Failure> {
        Ok(self.database.sample(1)?.pop().map(|record| Vec::from(record.key)))
    }

    fn count(&self) -> Result<KeyCount, Failure> {
        let keys = self.database.approximate_len()?;
        match keys <= COUNTED_KEYS_MAX {
            true => Ok(KeyCount { keys: self.database.len()?, is_exact: true }),
            false => Ok(KeyCount { keys, is_exact: false }),
        }
    }

    fn transact(&self, keys: &[&[u8]], act: &mut Act<'_>) -> Result<(), Failure> {
        let mut possible = Vec::with_capacity(keys.len());
        possible.extend((0..keys.len()).filter(|number| self.is_possible(keys[*number])));
        let of_database: Vec<&[u8]> = possible.iter().map(|number| keys[*number]).collect();
        self.check_found(&of_database)?;
        let mut failed = None;
        let outcome = self.database.transact(&of_database, |found, changes| {
            let mut run = || -> Result<(), Failure> {
                let mut states: Vec<KeyState> = match possible.len() == keys.len() {
                    true => Vec::with_capacity(keys.len()),
                    false => keys.iter().map(|key| KeyState::refused(self.refusal(key))).collect(),
                };
                for (at, found) in found.iter().enumerate() {
                    let state = self.state(found.as_ref())?;
                    match states.get_mut(possible[at]) {
                        Some(place) => *place = state,
                        None => states.push(state),
                    }
                }
                act(&mut states);
                for (change, number) in changes.iter_mut().zip(&possible) {
                    *change = self.change(&states[*number])?;
                }
                Ok(())
            };
            run().map_err(|failure| {
                failed = Some(failure);
                Error::Interrupted
            })
        });
        match failed {
            Some(failure) => Err(failure),
            None => Ok(outcome?),
        }
    }

    fn write(&self, keys: &[&[u8]], act: &mut Act<'_>) -> Result<(), Failure> {
        let state = |key: &&[u8]| match self.is_possible(key) {
            true => KeyState::default().losing_marks(self.loses_marks()),
            false => KeyState::refused(self.refusal(key)),
        };
        let mut states: Vec<KeyState> = keys.iter().map(state).collect();
        act(&mut states);
        let mut batch = Batch::new();
        for (key, state) in keys.iter().zip(&states) {
            match self.change(state)? {
                Change::Keep => {}
                Change::Delete => drop(batch.delete(key)?),
                Change::Put { value, expires_at_ms } => drop(batch.put_until(key, &value, expires_at_ms)?),
            }
        }
        Ok(self.database.write(&batch)?)
    }

    fn changes(&self, since: Option<&str>, keys_max: usize) -> Result<ChangePage, Failure> {
        let Some(since) = since else {
            return Ok(ChangePage { keys: Vec::new(), next: self.database.change_position()?.to_string() });
        };
        let changes = self.database.changes(since.parse()?, keys_max)?;
        let keys = changes.keys.into_iter().map(Vec::from).collect();
        Ok(ChangePage { keys, next: changes.next.to_string() })
    }

    fn sync(&self) -> Result<(), Failure> {
        Ok(self.database.sync()?)
    }

    fn close(&self) -> Result<(), Error> {
        self.database.close()
    }

    fn truncate(&self) -> Result<Arc<dyn Store>, Error> {
        Ok(Arc::new(DatabaseStore::new(self.database.clone().truncate()?, self.form)))
    }

    fn is_in_memory(&self) -> bool {
        !self.is_persistent
    }

    fn metrics(&self, labels: &[(&str, &str)]) -> String {
        self.database.stats().to_prometheus(labels)
    }

    fn set_memory_budget(&self, bytes: Option<u64>) -> Result<(), Error> {
        match self.is_persistent {
            true => self.database.set_memory_budget(bytes),
            // The tables of MICA have the size with which they were made.
            false => Ok(()),
        }
    }

    fn memory_budget_min(&self) -> u64 {
        self.database.memory_budget_min()
    }

    fn about(&self) -> StoreInfo {
        let stats = self.database.stats();
        StoreInfo {
            kind: stats.engine,
            keys: self.database.approximate_len().unwrap_or_default(),
            memory_bytes: stats.ram.total_bytes(),
            is_read_only: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_may_be_long_are_looked_up_a_few_at_once_and_refused_together() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(directory.path().join("db")).unwrap();
        let mut store = DatabaseStore::new(database, ValueForm::Plain);
        let names: Vec<String> = (0..10).map(|number| number.to_string()).collect();
        let keys: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
        assert_eq!(store.keys_at_once(), 128, "before anything is known");
        let value = NewValue::string(vec![b'v'; 1 << 20]);
        let mut put = |states: &mut [KeyState]| {
            states.iter_mut().for_each(|state| state.replace(Some(value.clone())).unwrap());
        };
        store.transact(&keys, &mut put).unwrap();
        store.longest.note(400 << 20);
        assert_eq!(store.keys_at_once(), 2);
        let mut lengths = [0; 10];
        store.get_many(&keys, &mut |at, found| lengths[at] = found.unwrap().value.len()).unwrap();
        assert_eq!(lengths, [1 << 20; 10], "two at once, each with its number");
        store.found_bytes_max = 5 << 20;
        let mut calls = 0;
        let mut note = |_: &mut [KeyState]| calls += 1;
        assert_eq!(store.transact(&keys, &mut note), Err(Failure::TRANSACTION_TOO_LONG));
        store.transact(&keys[..5], &mut note).unwrap();
        store.found_bytes_max = 10 << 20;
        store.transact(&keys, &mut note).unwrap();
        assert_eq!(calls, 2, "not by the one that was refused");
    }

    #[test]
    fn a_long_value_is_forgotten_after_two_generations_of_lookups() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(directory.path().join("db")).unwrap();
        let store = DatabaseStore::new(database, ValueForm::Plain);
        let pass = |lookups: usize| (0..lookups).for_each(|_| store.longest.note_lookup());
        assert_eq!(store.keys_at_once(), 128);
        pass(2 * GENERATION_LOOKUPS - 1);
        assert_eq!(store.keys_at_once(), 128);
        // Reads note lookups, and the values that they find.
        store.get_many(&[&b"absent"[..]], &mut |_, _| {}).unwrap();
        assert_eq!(store.keys_at_once(), KEYS_AT_ONCE);
        store.longest.note(256 << 20);
        assert_eq!(store.keys_at_once(), 4);
        pass(GENERATION_LOOKUPS);
        store.longest.note(4 << 20);
        pass(GENERATION_LOOKUPS - 1);
        assert_eq!(store.keys_at_once(), 4, "in the generation before");
        pass(1);
        assert_eq!(store.keys_at_once(), 256);
        pass(GENERATION_LOOKUPS);
        assert_eq!(store.keys_at_once(), KEYS_AT_ONCE);
    }
}
