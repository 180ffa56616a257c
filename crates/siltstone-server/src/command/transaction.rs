//! MULTI, DISCARD, WATCH, UNWATCH. EXEC is executed with the updates of a turn.

use super::call::SessionCall;
use crate::failure::{Failure, Outcome};
use crate::protocol::Reply;

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

pub fn watch(call: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    if call.client.transaction.is_some() {
        return Err(Failure::new("ERR WATCH inside MULTI is not allowed"));
    }
    let database = call.client.database;
    let keys = &call.words[1..];
    // Before the keys are read: what changes in between counts as a change.
    let first = call.client.watched.len();
    for key in keys {
        call.client.watched.push(call.context.watches.add(database, key));
    }
    if let Some(store) = call.context.places.get(database) {
        let watched = &mut call.client.watched[first..];
        store.get_many(keys, &mut |number, found| watched[number].existed = found.is_some())?;
    }
    reply.ok();
    Ok(())
}
