//! The keys that connections watch, and whether they were changed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};

/// A key that a connection watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// The number of the database.
    pub database: usize,
    /// The key.
    pub key: Vec<u8>,
    /// Whether the key existed. One that does not any more has been deleted, or has expired.
    pub existed: bool,
    changes: u64,
}

/// The number of connections that watch a key, and the changes of it.
pub type WatchedKey = (usize, u64);

/// How often watched keys were changed since they are watched.
#[derive(Debug, Default)]
pub struct Watches {
    /// The keys, with the numbers of their databases.
    keys: Mutex<HashMap<(usize, Vec<u8>), WatchedKey>>,
    /// The number of watched keys. Writers look at it first, because it is 0 most of the time.
    count: AtomicUsize,
}

impl Watches {
    /// Begins to watch a key.
    pub fn add(&self, database: usize, key: &[u8]) -> Watched {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let (watchers, changes) = keys.entry((database, key.to_vec())).or_default();
        *watchers += 1;
        let watched = Watched { database, key: key.to_vec(), existed: false, changes: *changes };
        self.count.store(keys.len(), SeqCst);
        watched
    }

    /// Ends to watch keys.
    pub fn release(&self, watched: &mut Vec<Watched>) {
        if watched.is_empty() {
            return;
        }
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        for Watched { database, key, .. } in watched.drain(..) {
            let place = (database, key);
            if let Some((watchers, _)) = keys.get_mut(&place) {
                *watchers -= 1;
                if *watchers == 0 {
                    keys.remove(&place);
                }
            }
        }
        self.count.store(keys.len(), SeqCst);
    }

    /// Notes that keys change. Called while the keys are locked, before the change is visible.
    pub fn note<'a>(&self, database: usize, changed: impl Iterator<Item = &'a [u8]>) {
        if self.count.load(SeqCst) == 0 {
            return;
        }
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        for key in changed {
            if let Some((_, changes)) = keys.get_mut(&(database, key.to_vec())) {
                *changes += 1;
            }
        }
    }

    /// Returns the watched keys of a database.
    pub fn keys_of(&self, database: usize) -> Vec<Vec<u8>> {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.keys().filter(|(number, _)| *number == database).map(|(_, key)| key.clone()).collect()
    }

    /// Returns whether none of these keys was changed since it is watched. Called while the keys are locked.
    pub fn are_unchanged(&self, watched: &[Watched]) -> bool {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        watched.iter().all(|watched| {
            let place = (watched.database, watched.key.clone());
            keys.get(&place).is_some_and(|(_, changes)| *changes == watched.changes)
        })
    }
}
