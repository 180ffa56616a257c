//! DEL, RENAME, COPY, OBJECT.

use super::UpdateCall;
use crate::command::arguments::is;
use crate::failure::{Failure, Outcome};
use crate::protocol::{Reply, number};
use crate::store::ValueType;

pub fn del(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let deleted = (0..call.keys.len()).filter(|key| call.states[call.keys[*key]].delete()).count();
    reply.integer(deleted as i64);
    Ok(())
}

pub fn rename(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    move_value(call)?;
    reply.ok();
    Ok(())
}

pub fn renamenx(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    if call.entry(0).is_none() {
        return Err(NO_SUCH_KEY);
    }
    let is_free = call.entry(1).is_none();
    if is_free {
        move_value(call)?;
    }
    reply.integer(i64::from(is_free));
    Ok(())
}

const NO_SUCH_KEY: Failure = Failure::new("ERR no such key");

fn move_value(call: &mut UpdateCall<'_>) -> Outcome {
    let value = call.state(0).value().cloned().ok_or(NO_SUCH_KEY)?;
    if call.keys[0] != call.keys[1] {
        call.put(1, value)?;
        call.state(0).delete();
    }
    Ok(())
}

pub fn copy(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let mut replaces = false;
    for word in &call.words[3..] {
        if is(word, "REPLACE") {
            replaces = true;
        } else if is(word, "DB") {
            return Err(Failure::new(
                "ERR COPY copies within a database only; read the value, and put it there",
            ));
        } else {
            return Err(Failure::SYNTAX);
        }
    }
    if call.keys[0] == call.keys[1] {
        return Err(Failure::new("ERR source and destination objects are the same"));
    }
    let value = call.state(0).value().cloned().filter(|_| replaces || call.entry(1).is_none());
    reply.integer(i64::from(value.is_some()));
    value.map_or(Ok(()), |value| call.put(1, value))
}

/// OBJECT ENCODING, REFCOUNT, IDLETIME and FREQ, with the encodings that Redis has for such values.
pub fn object(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let subcommand = call.words[1];
    let Some(entry) = call.entry(0) else {
        reply.null();
        return Ok(());
    };
    if is(subcommand, "ENCODING") {
        let encoding = match entry.value_type {
            ValueType::String if number(entry.value).is_some() => "int",
            ValueType::String if entry.value.len() <= 44 => "embstr",
            ValueType::String => "raw",
            ValueType::Hash => "listpack",
        };
        reply.bulk(encoding.as_bytes());
    } else if is(subcommand, "REFCOUNT") {
        reply.integer(1);
    } else if is(subcommand, "IDLETIME") {
        // Lookups keep no time of their last use.
        reply.integer(0);
    } else if is(subcommand, "FREQ") {
        return Err(Failure::new(
            "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.",
        ));
    } else {
        return Err(Failure::SYNTAX);
    }
    Ok(())
}
