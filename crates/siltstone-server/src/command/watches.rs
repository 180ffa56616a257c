//! The keys that connections watch, and whether they were changed.
//!
//! ```text
//! writer     note the change ........................ visible, the end of the note
//! WATCH                       count the changes               wait for the writers before, then reply
//! ```
//!
//! A change that WATCH has counted already must be visible to reads after it, or a transaction on the value before
//! would succeed. Writers of an epoch are counted; WATCH begins the next epoch, and waits for those of the last one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

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
    epoch: AtomicUsize,
    /// The writers of the even epochs and of the odd ones, of which one has none but in a wait.
    writers: [AtomicUsize; 2],
    /// Held during a wait.
    waiting: Mutex<()>,
}

/// A change that was noted and may not be visible yet. It is when this is dropped.
#[derive(Debug)]
#[must_use = "dropped when the change is visible"]
pub struct Noted<'a>(&'a AtomicUsize);

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// The time between two looks at the writers. Most of them end in some microseconds.
const LOOKS_EVERY: Duration = Duration::from_micros(20);

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

    /// Waits until the changes that were noted before are visible. Never waits for one that is noted later, which may
    /// wait for a lock of the thread that calls this.
    pub fn wait(&self) {
        let _waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.epoch.fetch_add(1, SeqCst);
        while self.writers[before % 2].load(SeqCst) > 0 {
            thread::sleep(LOOKS_EVERY);
        }
    }

    fn begin_write(&self) -> Noted<'_> {
        loop {
            let epoch = self.epoch.load(SeqCst);
            let writers = &self.writers[epoch % 2];
            writers.fetch_add(1, SeqCst);
            let noted = Noted(writers);
            // A wait that has begun in between may not have seen it.
            if self.epoch.load(SeqCst) == epoch {
                return noted;
            }
        }
    }

    /// Notes that keys change, before the change is visible. What is returned is kept until it is.
    pub fn note<'a>(&self, database: usize, changed: impl Iterator<Item = &'a [u8]>) -> Noted<'_> {
        let noted = self.begin_write();
        if self.count.load(SeqCst) == 0 {
            return noted;
        }
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        for key in changed {
            if let Some((_, changes)) = keys.get_mut(&(database, key.to_vec())) {
                *changes += 1;
            }
        }
        noted
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{RecvTimeoutError, channel};

    #[test]
    fn a_wait_ends_when_the_changes_noted_before_are_visible_and_not_later() {
        let watches = Watches::default();
        let before = watches.note(0, std::iter::once(&b"k"[..]));
        let (to, ended) = channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                let watched = watches.add(0, b"k");
                watches.wait();
                to.send(watched).unwrap();
            });
            while watches.epoch.load(SeqCst) == 0 {
                thread::yield_now();
            }
            // One that begins during the wait does not prolong it.
            let later = watches.note(0, std::iter::once(&b"k"[..]));
            assert_eq!(ended.recv_timeout(Duration::from_millis(20)), Err(RecvTimeoutError::Timeout));
            drop(before);
            let watched = ended.recv().unwrap();
            assert!(!watches.are_unchanged(&[watched]), "the later one is a change");
            drop(later);
        });
        watches.wait();
        assert!(watches.writers.iter().all(|writers| writers.load(SeqCst) == 0));
    }
}
