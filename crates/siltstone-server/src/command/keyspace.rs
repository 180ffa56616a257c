//! Commands that may read the whole store, or load one. A helper thread executes them; only their connection waits.

use super::arguments::{check_timeout, cursor, integer, is};
use super::call::{Context, SlowCall};
use super::pattern;
use super::runtime::Syncs;
use super::session::database_of;
use super::update::keys::{self as update_keys, CopyOptions};
use crate::failure::{Failure, Outcome};
use crate::protocol::Reply;
use crate::store::{DATABASES, Entry, KeyState, Store, ValueType};

/// The number of keys of a page that KEYS reads.
const KEYS_PER_PAGE: usize = 1024;

/// The largest number of keys of a page that SCAN reads, whatever COUNT says.
const COUNT_MAX: usize = 100_000;

pub fn dbsize(call: &SlowCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let count = call.store.map_or(Ok(0), |store| Ok::<_, Failure>(store.count()?.keys))?;
    reply.integer(i64::try_from(count).unwrap_or(i64::MAX));
    Ok(())
}

pub fn random_key(call: &SlowCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let key = call.store.map_or(Ok(None), Store::random_key)?;
    reply.optional(key.as_deref());
    Ok(())
}

pub fn keys(call: &SlowCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let wanted = call.words[1];
    let (mut found, mut bytes, mut next) = (Vec::new(), 0, call.store.map(|_| 0));
    while let (Some(position), Some(store)) = (next, call.store) {
        call.check_cancelled()?;
        let page = store.keys(position, KEYS_PER_PAGE)?;
        next = page.next;
        for key in page.keys {
            if pattern::matches(wanted, &key) {
                bytes += key.len() + size_of::<Vec<u8>>();
                found.push(key);
            }
        }
        if bytes > call.context.limits.keys_bytes_max {
            let limit = call.context.limits.keys_bytes_max;
            return Err(Failure::from(format!(
                "ERR the keys that match have more than {limit} bytes; read them in pages with SCAN"
            )));
        }
    }
    reply.array(found.len());
    found.iter().for_each(|key| reply.bulk(key));
    Ok(())
}

pub fn scan(call: &SlowCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let position = cursor(call.words[1])?;
    let (mut wanted, mut count, mut wanted_type) = (None, 10, None);
    let mut words = call.words[2..].iter();
    while let Some(option) = words.next() {
        let value = words.next().ok_or(Failure::SYNTAX)?;
        if is(option, "MATCH") {
            wanted = Some(*value);
        } else if is(option, "COUNT") {
            count = integer(value)?;
            if count < 1 {
                return Err(Failure::SYNTAX);
            }
        } else if is(option, "TYPE") {
            wanted_type = Some(*value);
        } else {
            return Err(Failure::SYNTAX);
        }
    }
    let count = usize::try_from(count).unwrap_or(COUNT_MAX).min(COUNT_MAX);
    let mut page = call.store.map_or_else(|| Ok(Default::default()), |store| store.keys(position, count))?;
    if let Some(wanted) = wanted {
        page.keys.retain(|key| pattern::matches(wanted, key));
    }
    if let (Some(wanted), Some(store)) = (wanted_type, call.store) {
        page.keys = keys_of_type(store, page.keys, wanted)?;
    }
    reply.array(2);
    reply.bulk(page.next.unwrap_or(0).to_string().as_bytes());
    reply.array(page.keys.len());
    page.keys.iter().for_each(|key| reply.bulk(key));
    Ok(())
}

/// Returns the keys whose values have this type.
fn keys_of_type(store: &dyn Store, keys: Vec<Vec<u8>>, wanted: &[u8]) -> Result<Vec<Vec<u8>>, Failure> {
    let is_wanted = |found: ValueType| is(wanted, found.name());
    let mut are_wanted = vec![false; keys.len()];
    let borrowed: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    store.get_many(&borrowed, &mut |number, found| {
        are_wanted[number] = found.is_some_and(|entry| is_wanted(entry.value_type));
    })?;
    Ok(keys.into_iter().zip(are_wanted).filter(|(_, is_wanted)| *is_wanted).map(|(key, _)| key).collect())
}

/// The number of keys that SILTSTONE CHANGES returns at most.
const CHANGES_MAX: usize = 100_000;

/// SILTSTONE RELOAD opens the files of dictionaries again. SILTSTONE CHANGES returns the position of the change feed,
/// or the keys since one, with the position after them. SILTSTONE RETAIN removes the keys of other nodes of the
/// cluster.
pub fn siltstone(call: &SlowCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    match call.words {
        [_, subcommand] if is(subcommand, "RETAIN") => {
            reply.integer(retain(call)? as i64);
            Ok(())
        }
        [_, subcommand, stated @ ..] if is(subcommand, "CHANGES") => {
            let (since, keys_max) = match stated {
                [] => (None, 0),
                [since] => (Some(since), 1000),
                [since, option, count] if is(option, "COUNT") => {
                    let count = usize::try_from(integer(count)?).ok().filter(|count| *count > 0);
                    (Some(since), count.ok_or(Failure::SYNTAX)?.min(CHANGES_MAX))
                }
                _ => return Err(Failure::SYNTAX),
            };
            let since = since.map(|since| String::from_utf8_lossy(since));
            let store = call.store.ok_or(Failure::new("ERR the database does not exist yet"))?;
            let page = store.changes(since.as_deref(), keys_max)?;
            reply.array(2);
            reply.bulk(page.next.as_bytes());
            reply.array(page.keys.len());
            page.keys.iter().for_each(|key| reply.bulk(key));
            Ok(())
        }
        [_, subcommand] if is(subcommand, "RELOAD") => {
            reply.integer(call.context.reload(&mut call.outbox.borrow_mut())? as i64);
            Ok(())
        }
        _ => Err(Failure::SYNTAX),
    }
}

/// Removes the keys of other nodes. Returns their number.
fn retain(call: &SlowCall<'_>) -> Result<u64, Failure> {
    let context = call.context;
    let cluster = context.cluster.as_ref().ok_or(Failure::new("ERR this server is no node of a cluster"))?;
    if context.follow.is_some() {
        return Err(Failure::FOLLOWS);
    }
    let (mut position, mut removed) = (call.store.map(|_| 0), 0);
    while let Some((from, store)) = position.zip(call.store) {
        call.check_cancelled()?;
        let page = store.keys(from, KEYS_PER_PAGE)?;
        let mut others: Vec<&[u8]> = page.keys.iter().map(Vec::as_slice).collect();
        others.retain(|key| !cluster.is_own(key));
        let noted = context.watches.note(call.database, others.iter().copied());
        let mut outcome = Ok(());
        store.write(&others, &mut |states| {
            outcome = states.iter_mut().try_for_each(|state| state.replace(None));
        })?;
        drop(noted);
        outcome?;
        removed += others.len() as u64;
        position = page.next;
    }
    call.store.map_or(Ok(()), |store| sync_if_always(context, store))?;
    Ok(removed)
}

/// COPY source destination DB number: reads the value, and puts it into the other database in one step. A write to the
/// source in between is not copied.
pub fn copy(call: &SlowCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let CopyOptions { replaces, database } = CopyOptions::parse(&call.words[3..])?;
    let (source, destination) = (call.words[1], call.words[2]);
    let database = database.map_or(Ok(call.database), |number| database_of(call.context, number))?;
    if database == call.database && source == destination {
        return Err(update_keys::SAME_OBJECTS);
    }
    let mut found = KeyState::default();
    if let Some(store) = call.store {
        store.get_many(&[source], &mut |_, entry| found = KeyState::copy_of(entry))?;
    }
    let is_copied =
        found.value().is_some() && put_copy(call.context, database, destination, &found, replaces)?;
    reply.integer(i64::from(is_copied));
    Ok(())
}

/// MOVE key number: puts the value into the other database, durably, and then deletes it here if it is still the same.
/// A crash between both leaves it in both databases.
pub fn move_key(call: &SlowCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let key = call.words[1];
    let database = database_of(call.context, integer(call.words[2])?)?;
    if call.context.cluster.is_some() {
        return Err(Failure::new("ERR MOVE is not allowed in cluster mode"));
    }
    if database == call.database {
        return Err(update_keys::SAME_OBJECTS);
    }
    let is_moved = match call.store {
        Some(store) if store.about().is_read_only => return Err(Failure::READ_ONLY),
        Some(store) => move_from(call, store, key, database)?,
        None => false,
    };
    reply.integer(i64::from(is_moved));
    Ok(())
}

fn move_from(call: &SlowCall<'_>, store: &dyn Store, key: &[u8], database: usize) -> Result<bool, Failure> {
    loop {
        call.check_cancelled()?;
        let mut found = KeyState::default();
        store.get_many(&[key], &mut |_, entry| found = KeyState::copy_of(entry))?;
        if found.value().is_none() || !put_copy(call.context, database, key, &found, false)? {
            return Ok(false);
        }
        // Whatever writes survive otherwise: of two logs, the one with the delete could be the only one that does.
        call.context.places.on_current(database, |store| store.map_or(Ok(()), |store| store.sync()))?;
        if delete_unchanged(call, store, key, &found)? {
            return Ok(true);
        }
        // It was written meanwhile: the copy is not what it has now.
        remove_copy(call.context, database, key, &found)?;
    }
}

/// Deletes a key that has still the value that was found. Returns whether it was deleted.
fn delete_unchanged(
    call: &SlowCall<'_>,
    store: &dyn Store,
    key: &[u8],
    found: &KeyState,
) -> Result<bool, Failure> {
    let mut is_same = false;
    let noted = call.context.watches.note(call.database, std::iter::once(key));
    store.transact(&[key], &mut |states| {
        is_same = states[0].value() == found.value();
        if is_same {
            states[0].delete();
        }
    })?;
    drop(noted);
    sync_if_always(call.context, store)?;
    Ok(is_same)
}

/// Returns a value without its mark, which a database may not keep.
fn unmarked(state: &KeyState) -> Option<Entry<'_>> {
    state.entry().map(|entry| Entry { mark: None, ..entry })
}

/// Deletes a copy from another database, unless it was written there.
fn remove_copy(context: &Context, database: usize, key: &[u8], found: &KeyState) -> Outcome {
    context.places.on_current(database, |store| {
        let Some(store) = store else { return Ok(()) };
        let _noted = context.watches.note(database, std::iter::once(key));
        store.transact(&[key], &mut |states| {
            if unmarked(&states[0]) == unmarked(found) {
                states[0].delete();
            }
        })
    })
}

/// Puts the value of a state, unless the key exists and is not to be replaced. Returns whether it was put.
fn put_copy(
    context: &Context,
    database: usize,
    key: &[u8],
    found: &KeyState,
    replaces: bool,
) -> Result<bool, Failure> {
    context.places.get_or_create(database)?;
    context.places.on_current(database, |store| {
        let store = store.ok_or(Failure::new("ERR the database does not exist"))?;
        let mut outcome = Ok(false);
        let noted = context.watches.note(database, std::iter::once(key));
        store.transact(&[key], &mut |states| {
            outcome = match replaces || states[0].entry().is_none() {
                true => states[0].replace(found.value().cloned()).map(|()| true),
                false => Ok(false),
            };
        })?;
        drop(noted);
        outcome.and_then(|is_put| sync_if_always(context, store).map(|()| is_put))
    })
}

/// Makes what a command has written durable, if each acknowledged write is to survive a power loss.
fn sync_if_always(context: &Context, store: &dyn Store) -> Outcome {
    if context.runtime.syncs() == Syncs::Always { store.sync() } else { Ok(()) }
}

fn check_flush(call: &SlowCall<'_>) -> Outcome {
    match call.words {
        [_] => Ok(()),
        // Both take effect at once, and the files are removed in the background.
        [_, option] if is(option, "SYNC") || is(option, "ASYNC") => Ok(()),
        _ => Err(Failure::SYNTAX),
    }
}

pub fn flushdb(call: &SlowCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    check_flush(call)?;
    flush(call.context, call.database)?;
    reply.ok();
    Ok(())
}

pub fn flushall(call: &SlowCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    check_flush(call)?;
    for database in (0..DATABASES).filter(|database| call.context.places.is_writable(*database)) {
        flush(call.context, database)?;
    }
    reply.ok();
    Ok(())
}

pub(super) fn flush(context: &Context, database: usize) -> Outcome {
    // Watched keys that do not exist do not change, as in Redis.
    let watched = context.watches.keys_of(database);
    if let Some(store) = context.places.get(database) {
        let keys: Vec<&[u8]> = watched.iter().map(Vec::as_slice).collect();
        let mut existing = Vec::new();
        store.get_many(&keys, &mut |number, found| existing.extend(found.map(|_| keys[number])))?;
        let _noted = context.watches.note(database, existing.iter().copied());
        context.places.flush(database)?;
    }
    Ok(())
}

/// WAITAOF local replicas timeout: returns when all writes before it survive a power loss.
pub fn waitaof(call: &SlowCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (local, replicas) = (integer(call.words[1])?, integer(call.words[2])?);
    if !(0..=1).contains(&local) || replicas < 0 {
        return Err(Failure::new("ERR value is out of range, must be between 0 and 1"));
    }
    check_timeout(call.words[3])?;
    if let Some(store) = call.store {
        store.sync()?;
    }
    reply.array(2);
    reply.integer(i64::from(call.store.is_none_or(|store| !store.is_in_memory())));
    reply.integer(0);
    Ok(())
}
