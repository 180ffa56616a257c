//! A store whose writes are noted for those who watch its keys, for a program that writes besides the clients.

use super::call::Context;
use crate::failure::Failure;
use crate::store::{Act, ChangePage, KeyCount, KeyPage, Show, Store, StoreInfo};
use std::sync::Arc;

/// A database of a server, for the program that runs it.
pub struct NotingStore {
    /// The server.
    pub context: Arc<Context>,
    /// The number of the database.
    pub number: usize,
    /// The database.
    pub store: Arc<dyn Store>,
}

impl Store for NotingStore {
    fn get_many(&self, keys: &[&[u8]], show: &mut Show<'_>) -> Result<(), Failure> {
        self.store.get_many(keys, show)
    }

    fn get_many_in_memory(&self, keys: &[&[u8]], show: &mut Show<'_>) -> Result<Vec<usize>, Failure> {
        self.store.get_many_in_memory(keys, show)
    }

    fn keys_at_once(&self) -> usize {
        self.store.keys_at_once()
    }

    fn keys(&self, position: u64, keys_max: usize) -> Result<KeyPage, Failure> {
        self.store.keys(position, keys_max)
    }

    fn random_key(&self) -> Result<Option<Vec<u8>>, Failure> {
        self.store.random_key()
    }

    fn count(&self) -> Result<KeyCount, Failure> {
        self.store.count()
    }

    fn transact(&self, keys: &[&[u8]], act: &mut Act<'_>) -> Result<(), Failure> {
        // Until the changes are visible.
        let _noted = self.context.watches.note(self.number, keys.iter().copied());
        self.store.transact(keys, act)
    }

    fn write(&self, keys: &[&[u8]], act: &mut Act<'_>) -> Result<(), Failure> {
        let _noted = self.context.watches.note(self.number, keys.iter().copied());
        self.store.write(keys, act)
    }

    fn changes(&self, since: Option<&str>, keys_max: usize) -> Result<ChangePage, Failure> {
        self.store.changes(since, keys_max)
    }

    fn sync(&self) -> Result<(), Failure> {
        self.store.sync()
    }

    fn close(&self) -> Result<(), siltstone::Error> {
        self.store.close()
    }

    fn is_in_memory(&self) -> bool {
        self.store.is_in_memory()
    }

    fn metrics(&self, labels: &[(&str, &str)]) -> String {
        self.store.metrics(labels)
    }

    fn truncate(&self) -> siltstone::Result<Arc<dyn Store>> {
        self.store.truncate()
    }

    fn set_memory_budget(&self, bytes: Option<u64>) -> siltstone::Result<()> {
        self.store.set_memory_budget(bytes)
    }

    fn memory_budget_min(&self) -> u64 {
        self.store.memory_budget_min()
    }

    fn about(&self) -> StoreInfo {
        self.store.about()
    }
}
