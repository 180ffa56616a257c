//! A dictionary file as a store that is only read.

use super::{Act, Entry, KeyCount, KeyPage, NEVER, Show, Store, StoreInfo, ValueType};
use crate::failure::Failure;
use siltstone::{Dictionary, KEY_LENGTH_MAX};
use std::sync::Arc;

/// A dictionary. Its values are strings that do not expire.
pub struct DictionaryStore {
    dictionary: Dictionary,
}

impl DictionaryStore {
    /// Serves a dictionary.
    pub fn new(dictionary: Dictionary) -> DictionaryStore {
        DictionaryStore { dictionary }
    }
}

impl Store for DictionaryStore {
    fn get_many(&self, keys: &[&[u8]], show: &mut Show<'_>) -> Result<(), Failure> {
        let possible = super::possible_keys(keys, |key| (1..=KEY_LENGTH_MAX).contains(&key.len()), show);
        Ok(self.dictionary.get_many_with(&possible.keys, |number, found| {
            let value_type = ValueType::String;
            let entry =
                found.map(|found| Entry { value_type, value: found.value, expires_at_ms: NEVER, mark: None });
            show(possible.numbers[number], entry);
        })?)
    }

    fn keys(&self, position: u64, keys_max: usize) -> Result<KeyPage, Failure> {
        let page = self.dictionary.scan(position, super::page_limit(keys_max))?;
        Ok(KeyPage::from(page))
    }

    fn random_key(&self) -> Result<Option<Vec<u8>>, Failure> {
        let first_from = |position: u64| -> Result<Option<Vec<u8>>, Failure> {
            let page = self.dictionary.scan(position, super::page_limit(1))?;
            Ok(page.records.into_iter().next().map(|record| Vec::from(record.key)))
        };
        // The positions are a circle.
        first_from(fastrand::u64(..))?.map_or_else(|| first_from(0), |key| Ok(Some(key)))
    }

    fn count(&self) -> Result<KeyCount, Failure> {
        Ok(KeyCount { keys: self.dictionary.len(), is_exact: true })
    }

    fn transact(&self, _: &[&[u8]], _: &mut Act<'_>) -> Result<(), Failure> {
        Err(Failure::READ_ONLY)
    }

    fn write(&self, _: &[&[u8]], _: &mut Act<'_>) -> Result<(), Failure> {
        Err(Failure::READ_ONLY)
    }

    fn sync(&self) -> Result<(), Failure> {
        Ok(())
    }

    fn close(&self) -> Result<(), siltstone::Error> {
        Ok(())
    }

    fn truncate(&self) -> siltstone::Result<Arc<dyn Store>> {
        Err(siltstone::Error::ReadOnly)
    }

    fn is_in_memory(&self) -> bool {
        false
    }

    fn about(&self) -> StoreInfo {
        let info = self.dictionary.info();
        StoreInfo {
            kind: "dictionary",
            keys: info.records,
            memory_bytes: info.index_bytes as u64,
            is_read_only: true,
        }
    }
}
