//! One limit for the memory of all databases.
//!
//! ```text
//! limit   |  dictionaries  |  database 0  |  database 1  |          each open database has the same share
//! limit   |  dictionaries  | database 0 | database 1 | database 2 | when one more is opened
//! ```
//!
//! A database of `mica` has its memory from its creation on, so that its share is that of all databases that there may
//! be.

use super::Store;
use std::sync::Arc;

/// A limit for the memory of all databases together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedMemory {
    /// The limit, in bytes.
    pub bytes: u64,
    /// The number of equal shares, for databases that keep the memory that they have when they are created; `None` if
    /// the memory is divided among those that are open.
    pub fixed_shares: Option<usize>,
}

impl SharedMemory {
    /// Returns the share of each database, in bytes, when these stores and `opening` more databases are open.
    pub fn share(&self, stores: &[Arc<dyn Store>], opening: usize) -> u64 {
        let (taken, databases) = taken_by_dictionaries(stores);
        self.bytes.saturating_sub(taken) / self.shares(databases.len() + opening)
    }

    fn shares(&self, databases: usize) -> u64 {
        self.fixed_shares.unwrap_or(databases).max(1) as u64
    }

    /// Returns the least limit with which these stores work, in bytes: databases that keep the memory that they have
    /// when they are created need that.
    pub fn least(&self, stores: &[Arc<dyn Store>]) -> u64 {
        let (taken, databases) = taken_by_dictionaries(stores);
        let largest = databases.iter().map(|store| store.memory_budget_min()).max();
        taken + largest.unwrap_or(0) * self.shares(databases.len())
    }

    /// Gives each open database its share, as if there were `opening` more, and returns the share.
    ///
    /// # Errors
    /// The share is too small for one of them; all have what they had before.
    pub fn divide(&self, stores: &[Arc<dyn Store>], opening: usize) -> siltstone::Result<u64> {
        let share = self.share(stores, opening);
        if self.fixed_shares.is_some() {
            return Ok(share);
        }
        let mut changed = 0;
        let outcome = stores.iter().try_for_each(|store| {
            store.set_memory_budget(Some(share))?;
            changed += 1;
            Ok(())
        });
        if let Err(error) = outcome {
            let before = self.share(stores, 0);
            // They had this share, so it is not too small.
            stores[..changed].iter().for_each(|store| drop(store.set_memory_budget(Some(before))));
            return Err(self.explained(error));
        }
        Ok(share)
    }

    /// Returns the error of a database whose share is too small, with the name of the limit.
    pub fn explained(&self, error: siltstone::Error) -> siltstone::Error {
        match error {
            siltstone::Error::Setting { name: "memory_budget", problem } => {
                let bytes = self.bytes;
                let problem = format!(
                    "{problem}; the databases share {bytes} B equally: allow more memory, or use fewer databases"
                );
                siltstone::Error::Setting { name: "memory", problem }
            }
            error => error,
        }
    }

    /// Checks that dictionaries leave memory.
    ///
    /// # Errors
    /// [`siltstone::Error::Setting`] if they need more than there is.
    pub fn check(&self, stores: &[Arc<dyn Store>]) -> siltstone::Result<()> {
        let (taken, _) = taken_by_dictionaries(stores);
        if taken <= self.bytes {
            return Ok(());
        }
        let problem =
            format!("the dictionaries need {taken} B, and {} B are allowed; allow more", self.bytes);
        Err(siltstone::Error::Setting { name: "memory", problem })
    }
}

/// Returns the memory of the dictionaries, in bytes, and the databases.
fn taken_by_dictionaries(stores: &[Arc<dyn Store>]) -> (u64, Vec<&Arc<dyn Store>>) {
    let (mut taken, mut databases) = (0, Vec::new());
    for store in stores {
        let about = store.about();
        if about.is_read_only {
            taken += about.memory_bytes;
        } else {
            databases.push(store);
        }
    }
    (taken, databases)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MapStore;

    #[test]
    fn databases_that_keep_their_memory_share_it_with_those_that_may_be_created() {
        let stores: Vec<Arc<dyn Store>> = vec![Arc::new(MapStore::default()), Arc::new(MapStore::default())];
        let mut memory = SharedMemory { bytes: 1600, fixed_shares: None };
        assert_eq!(
            [memory.share(&[], 1), memory.share(&stores, 0), memory.share(&stores, 1)],
            [1600, 800, 533]
        );
        memory.fixed_shares = Some(16);
        assert_eq!([memory.share(&[], 1), memory.share(&stores, 1)], [100, 100]);
        assert_eq!(memory.divide(&stores, 1).unwrap(), 100);
    }
}
