//! MULTI, DISCARD, WATCH, UNWATCH. EXEC is executed with the updates of a turn.

use super::session::SessionCall;
use super::table::{Action, Command};
use crate::failure::{Failure, Outcome};
use crate::protocol::Reply;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};

/// The most bytes of the words that a connection may queue.
const QUEUED_BYTES_MAX: usize = 64 << 20;

/// A command that waits for EXEC.
#[derive(Debug, Clone)]
pub struct Queued {
    /// The command.
    pub command: &'static Command,
    /// Its words.
    pub words: Vec<Vec<u8>>,
}

/// The commands between MULTI and EXEC.
#[derive(Debug, Clone, Default)]
pub struct Transaction {
    /// The commands.
    pub queued: Vec<Queued>,
    /// One of the commands could not be queued, so EXEC fails.
    pub is_failed: bool,
    bytes: usize,
}

impl Transaction {
    /// Adds a command.
    ///
    /// # Errors
    /// A command that cannot be part of a transaction, or too many bytes.
    pub fn add(&mut self, command: &'static Command, words: &[&[u8]]) -> Outcome {
        let outcome = self.check(command, words);
        match &outcome {
            Ok(()) => {
                let words = words.iter().map(|word| word.to_vec()).collect();
                self.queued.push(Queued { command, words });
            }
            Err(_) => self.is_failed = true,
        }
        outcome
    }

    fn check(&mut self, command: &Command, words: &[&[u8]]) -> Outcome {
        self.bytes += words.iter().map(|word| word.len() + size_of::<Vec<u8>>()).sum::<usize>();
        if self.bytes > QUEUED_BYTES_MAX {
            return Err(Failure::from(format!(
                "ERR the queued commands have more than {QUEUED_BYTES_MAX} bytes; use several transactions"
            )));
        }
        match command.action {
            // It would read the whole store while the keys of the transaction wait, or change the database.
            Action::Slow(_) => Err(NOT_ALLOWED),
            _ if ["select", "watch"].contains(&command.name) => Err(NOT_ALLOWED),
            _ => Ok(()),
        }
    }
}

const NOT_ALLOWED: Failure = Failure::new("ERR Command not allowed inside a transaction");

impl Command {
    /// Returns whether the command is executed at once also between MULTI and EXEC.
    pub fn is_never_queued(&self) -> bool {
        ["multi", "exec", "discard", "watch", "quit", "reset"].contains(&self.name)
    }
}

pub fn multi(call: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    if call.client.transaction.is_some() {
        return Err(Failure::new("ERR MULTI calls can not be nested"));
    }
    call.client.transaction = Some(Box::default());
    reply.ok();
    Ok(())
}

pub fn discard(call: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    call.client.transaction.take().ok_or(Failure::new("ERR DISCARD without MULTI"))?;
    call.context.watches.release(&mut call.client.watched);
    reply.ok();
    Ok(())
}

pub fn unwatch(call: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    call.context.watches.release(&mut call.client.watched);
    reply.ok();
    Ok(())
}

/// The most bytes of the keys that a connection may watch, with what is stored of each.
const WATCHED_BYTES_MAX: usize = 1 << 20;

/// Returns the memory of a watched key, in bytes, which is there for the connection and for all of them.
fn watched_bytes(key: &[u8]) -> usize {
    2 * key.len() + size_of::<Watched>() + size_of::<((usize, Vec<u8>), WatchedKey)>()
}

pub fn watch(call: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    if call.client.transaction.is_some() {
        return Err(Failure::new("ERR WATCH inside MULTI is not allowed"));
    }
    let database = call.client.database;
    let watched = &call.client.watched;
    let mut known: HashSet<&[u8]> = watched
        .iter()
        .filter(|watched| watched.database == database)
        .map(|watched| &watched.key[..])
        .collect();
    let mut keys = call.words[1..].to_vec();
    keys.retain(|key| known.insert(key));
    let bytes = watched.iter().map(|watched| &watched.key[..]).chain(keys.iter().copied()).map(watched_bytes);
    if bytes.sum::<usize>() > WATCHED_BYTES_MAX {
        return Err(Failure::from(format!(
            "ERR the watched keys have more than {WATCHED_BYTES_MAX} bytes; watch fewer of them"
        )));
    }
    // Before the keys are read: what changes in between counts as a change.
    let first = call.client.watched.len();
    for key in &keys {
        call.client.watched.push(call.context.watches.add(database, key));
    }
    if let Some(store) = call.context.places.get(database) {
        let watched = &mut call.client.watched[first..];
        store.get_many(&keys, &mut |number, found| watched[number].existed = found.is_some())?;
    }
    reply.ok();
    Ok(())
}

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
type WatchedKey = (usize, u64);

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
