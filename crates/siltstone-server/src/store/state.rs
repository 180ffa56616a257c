//! A key in a transaction: what was found, and what it becomes.

use super::{Entry, Mark, NEVER, ValueType};
use crate::failure::{Failure, Outcome};
use siltstone::Bytes;
use std::cell::Cell;
use std::rc::Rc;

/// The callback of a transaction.
pub type Act<'a> = dyn FnMut(&mut [KeyState]) + 'a;

/// The bytes of the values that a transaction may find and put, as many as a batch of the library may have.
pub const TRANSACTION_BYTES_MAX: usize = 1 << 30;

/// What the states of a transaction share: how many bytes of values they hold. Those that were found are held until its
/// end, also if others take their place.
#[derive(Debug)]
pub struct Budget {
    max: usize,
    used: Cell<usize>,
    is_exceeded: Cell<bool>,
}

impl Budget {
    /// Limits the bytes of the values that states have and get. Without this they have no limit.
    pub fn share(max: usize, states: &mut [KeyState]) -> Rc<Budget> {
        let used = states.iter().map(KeyState::bytes).sum();
        let budget = Rc::new(Budget { max, used: Cell::new(used), is_exceeded: Cell::new(used > max) });
        for state in states {
            (state.budget, state.counted) = (Some(budget.clone()), 0);
        }
        budget
    }

    /// Returns whether there were more than the limit, or would have been.
    pub fn is_exceeded(&self) -> bool {
        self.is_exceeded.get()
    }

    fn release(&self, bytes: usize) {
        self.used.set(self.used.get().saturating_sub(bytes));
    }

    /// Takes bytes that it had before.
    fn retake(&self, bytes: usize) {
        self.used.set(self.used.get().saturating_add(bytes));
    }

    fn take(&self, bytes: usize) -> Outcome {
        let used = self.used.get().saturating_add(bytes);
        if used > self.max {
            self.is_exceeded.set(true);
            return Err(Failure::TRANSACTION_TOO_LONG);
        }
        self.used.set(used);
        Ok(())
    }
}

/// A value that a command puts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewValue {
    /// Its type.
    pub value_type: ValueType,
    /// Its bytes.
    pub bytes: Bytes,
    /// When it expires, or [`NEVER`].
    pub expires_at_ms: u64,
    /// Its mark, if a command of memcached stores it.
    pub mark: Option<Mark>,
}

/// What is known of a key.
#[derive(Debug, Clone, Default)]
pub struct KeyState {
    value: Option<NewValue>,
    is_changed: bool,
    /// The store keeps values without their marks.
    loses_marks: bool,
    /// Why the store cannot have this key.
    refused: Option<Failure>,
    /// Of all states of the transaction, if it is limited.
    budget: Option<Rc<Budget>>,
    /// The bytes that the budget has counted for the value, if it was put.
    counted: usize,
}

impl KeyState {
    /// Makes the state of a key with the value that was found.
    pub fn found(value: Option<NewValue>) -> KeyState {
        KeyState { value, ..KeyState::default() }
    }

    /// Makes the state of a key with a copy of the value that was found.
    pub fn copy_of(found: Option<Entry<'_>>) -> KeyState {
        KeyState::found(found.map(|Entry { value_type, value, expires_at_ms, mark }| NewValue {
            value_type,
            bytes: Bytes::copy_from_slice(value),
            expires_at_ms,
            mark,
        }))
    }

    /// Returns the state for a store that keeps values with or without their marks.
    pub fn losing_marks(self, loses_marks: bool) -> KeyState {
        KeyState { loses_marks, ..self }
    }

    /// Makes the state of a key that the store cannot have.
    pub fn refused(failure: Failure) -> KeyState {
        KeyState { refused: Some(failure), ..KeyState::default() }
    }

    /// Returns the value as it is now.
    pub fn entry(&self) -> Option<Entry<'_>> {
        let NewValue { value_type, bytes, expires_at_ms, mark } = self.value.as_ref()?;
        Some(Entry { value_type: *value_type, value: bytes, expires_at_ms: *expires_at_ms, mark: *mark })
    }

    /// Returns the value with its owner, to put it elsewhere.
    pub fn value(&self) -> Option<&NewValue> {
        self.value.as_ref()
    }

    /// Sets the value, or that there is none, whether or not the value before is known.
    ///
    /// # Errors
    /// The store cannot have this key, or not the mark of the value; the transaction has too many bytes.
    pub fn replace(&mut self, mut value: Option<NewValue>) -> Outcome {
        self.check()?;
        let mark = value.as_mut().filter(|_| self.loses_marks).and_then(|value| value.mark.take());
        if !mark.is_none_or(Mark::is_plain) {
            return Err(NO_FLAGS);
        }
        self.release();
        if let Some((budget, value)) = self.budget.as_ref().zip(value.as_ref()) {
            budget.take(value.bytes.len())?;
            self.counted = value.bytes.len();
        }
        (self.value, self.is_changed) = (value, true);
        Ok(())
    }

    /// Checks whether the store can have this key.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn check(&self) -> Outcome {
        self.refused.clone().map_or(Ok(()), Err)
    }

    /// Removes the value. Returns whether there was one.
    pub fn delete(&mut self) -> bool {
        self.release();
        let had = self.value.take().is_some();
        self.is_changed |= had;
        had
    }

    /// Sets when the value expires. Nothing happens without a value.
    pub fn set_expiry(&mut self, expires_at_ms: u64) {
        if let Some(value) = &mut self.value {
            value.expires_at_ms = expires_at_ms;
            self.is_changed = true;
        }
    }

    /// Returns the bytes of the value.
    fn bytes(&self) -> usize {
        self.value.as_ref().map_or(0, |value| value.bytes.len())
    }

    /// Gives the bytes of a value that was put back to the budget.
    fn release(&mut self) {
        let counted = std::mem::take(&mut self.counted);
        if let Some(budget) = &self.budget {
            budget.release(counted);
        }
    }

    /// Makes the state what it was before, for the budget too.
    pub fn restore(&mut self, before: KeyState) {
        self.release();
        *self = before;
        if let Some(budget) = &self.budget {
            budget.retake(self.counted);
        }
    }

    /// Returns what the key becomes: `None` if it was not changed, `Some(None)` if it was deleted.
    pub fn change(&self) -> Option<Option<&NewValue>> {
        self.is_changed.then_some(self.value.as_ref())
    }
}

const NO_FLAGS: Failure = Failure::new(
    "ERR this database was not created by the server, so its values have no flags; use 0, or another database",
);

impl NewValue {
    /// Makes a string that does not expire.
    pub fn string(bytes: impl Into<Bytes>) -> NewValue {
        NewValue { value_type: ValueType::String, bytes: bytes.into(), expires_at_ms: NEVER, mark: None }
    }

    /// Returns the value with another expiry time.
    pub fn expiring(self, expires_at_ms: u64) -> NewValue {
        NewValue { expires_at_ms, ..self }
    }

    /// Returns the value with a mark.
    pub fn marked(self, mark: Mark) -> NewValue {
        NewValue { mark: Some(mark), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_counts_what_was_found_and_what_is_put_last() {
        let value = |bytes: usize| Some(NewValue::string(vec![0_u8; bytes]));
        let mut states = [KeyState::found(value(40)), KeyState::default()];
        let budget = Budget::share(100, &mut states);
        let [found, new] = &mut states;
        assert_eq!(found.replace(value(30)), Ok(()));
        (0..10).for_each(|_| assert_eq!(new.replace(value(30)), Ok(())));
        assert!(new.delete() && !new.delete());
        assert_eq!(new.replace(value(30)), Ok(()));
        assert!(!budget.is_exceeded());
        assert_eq!(new.replace(value(31)), Err(Failure::TRANSACTION_TOO_LONG));
        assert!(budget.is_exceeded());
        let mut states = [KeyState::found(value(60)), KeyState::found(value(41))];
        assert!(Budget::share(100, &mut states).is_exceeded());
    }

    #[test]
    fn a_value_that_was_found_is_counted_to_the_end() {
        let value = |bytes: usize| Some(NewValue::string(vec![0_u8; bytes]));
        let mut states = [KeyState::found(value(60)), KeyState::found(value(20)), KeyState::default()];
        let budget = Budget::share(100, &mut states);
        let [replaced, deleted, new] = &mut states;
        replaced.set_expiry(1);
        deleted.set_expiry(1);
        assert_eq!(replaced.replace(value(0)), Ok(()));
        assert!(deleted.delete());
        assert_eq!(budget.used.get(), 80);
        assert_eq!(new.replace(value(21)), Err(Failure::TRANSACTION_TOO_LONG));
    }

    #[test]
    fn a_state_that_is_restored_has_what_it_had_of_the_budget() {
        let value = |bytes: usize| Some(NewValue::string(vec![0_u8; bytes]));
        let mut states = [KeyState::found(value(10)), KeyState::default(), KeyState::default()];
        let budget = Budget::share(100, &mut states);
        assert_eq!(states[1].replace(value(20)), Ok(()));
        let before = states.to_vec();
        assert_eq!(states[0].replace(value(30)), Ok(()));
        assert!(states[1].delete());
        assert_eq!(states[2].replace(value(40)), Ok(()));
        assert_eq!(budget.used.get(), 80);
        states.iter_mut().zip(before).for_each(|(state, before)| state.restore(before));
        assert_eq!(budget.used.get(), 30);
        let lengths = states.each_ref().map(KeyState::bytes);
        assert_eq!(lengths, [10, 20, 0]);
        assert!(states[1].delete());
        assert_eq!(budget.used.get(), 10);
    }
}
