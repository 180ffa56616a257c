//! A map in memory.

use super::{Act, KeyCount, KeyPage, KeyState, NewValue, Show, Store, StoreInfo, has_expired, now_ms};
use crate::failure::Failure;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A store that the tests of the commands hold the others against.
#[derive(Debug, Default)]
pub struct MapStore {
    records: Mutex<BTreeMap<Vec<u8>, NewValue>>,
}

impl MapStore {
    /// Returns the records that have not expired.
    fn live(&self) -> MutexGuard<'_, BTreeMap<Vec<u8>, NewValue>> {
        let now_ms = now_ms();
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.retain(|_, value| !has_expired(value.expires_at_ms, now_ms));
        records
    }

    fn change(&self, keys: &[&[u8]], are_read: bool, act: &mut Act<'_>) {
        let mut records = self.live();
        let found = |key: &&[u8]| KeyState::found(records.get(*key).filter(|_| are_read).cloned());
        let mut states: Vec<KeyState> = keys.iter().map(found).collect();
        act(&mut states);
        for (key, state) in keys.iter().zip(states) {
            match state.change() {
                None => {}
                Some(None) => drop(records.remove(*key)),
                Some(Some(value)) => drop(records.insert(key.to_vec(), value.clone())),
            }
        }
    }
}

impl Store for MapStore {
    fn get_many(&self, keys: &[&[u8]], show: &mut Show<'_>) -> Result<(), Failure> {
        let records = self.live();
        for (number, key) in keys.iter().enumerate() {
            let state = KeyState::found(records.get(*key).cloned());
            show(number, state.entry());
        }
        Ok(())
    }

    fn keys(&self, position: u64, keys_max: usize) -> Result<KeyPage, Failure> {
        let position = position as usize;
        let keys: Vec<_> = self.live().keys().skip(position).take(keys_max).cloned().collect();
        let next = (keys.len() == keys_max).then_some((position + keys_max) as u64);
        Ok(KeyPage { keys, next })
    }

    fn random_key(&self) -> Result<Option<Vec<u8>>, Failure> {
        Ok(self.live().keys().next().cloned())
    }

    fn count(&self) -> Result<KeyCount, Failure> {
        Ok(KeyCount { keys: self.live().len() as u64, is_exact: true })
    }

    fn transact(&self, keys: &[&[u8]], act: &mut Act<'_>) -> Result<(), Failure> {
        self.change(keys, true, act);
        Ok(())
    }

    fn write(&self, keys: &[&[u8]], act: &mut Act<'_>) -> Result<(), Failure> {
        self.change(keys, false, act);
        Ok(())
    }

    fn sync(&self) -> Result<(), Failure> {
        Ok(())
    }

    fn close(&self) -> Result<(), siltstone::Error> {
        Ok(())
    }

    fn truncate(&self) -> siltstone::Result<Arc<dyn Store>> {
        Ok(Arc::new(MapStore::default()))
    }

    fn is_in_memory(&self) -> bool {
        true
    }

    fn about(&self) -> StoreInfo {
        StoreInfo { kind: "map", keys: self.live().len() as u64, ..StoreInfo::default() }
    }
}
