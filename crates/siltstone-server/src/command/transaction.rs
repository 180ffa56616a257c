//! MULTI, DISCARD, WATCH, UNWATCH. EXEC is executed with the updates of a turn.

use super::call::SessionCall;
use super::watches::{Watched, WatchedKey};
use crate::failure::{Failure, Outcome};
use crate::protocol::Reply;
use std::collections::HashSet;

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
    call.context.watches.wait();
    let watched = &mut call.client.watched[first..];
    call.context.places.on_current(database, |store| match store {
        Some(store) => store.get_many(&keys, &mut |number, found| watched[number].existed = found.is_some()),
        None => Ok(()),
    })?;
    reply.ok();
    Ok(())
}
