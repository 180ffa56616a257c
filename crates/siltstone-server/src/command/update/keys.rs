//! DEL, RENAME, COPY, OBJECT.

use super::UpdateCall;
use crate::command::ReadCall;
use crate::command::arguments::{integer, is};
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

/// The options of COPY.
#[derive(Debug, Default)]
pub struct CopyOptions {
    pub replaces: bool,
    /// The number of the database to copy to, if it is stated.
    pub database: Option<i64>,
}

impl CopyOptions {
    /// Reads the words after the keys.
    pub fn parse(words: &[&[u8]]) -> Result<CopyOptions, Failure> {
        let (mut options, mut words) = (CopyOptions::default(), words.iter());
        while let Some(word) = words.next() {
            if is(word, "REPLACE") {
                options.replaces = true;
            } else if is(word, "DB") {
                options.database = Some(integer(words.next().ok_or(Failure::SYNTAX)?)?);
            } else {
                return Err(Failure::SYNTAX);
            }
        }
        Ok(options)
    }
}

/// Returns whether the words of a COPY may name a database, so that it is not one of the keys of one database.
pub fn names_database(words: &mut dyn Iterator<Item = &[u8]>) -> bool {
    words.skip(3).any(|word| is(word, "DB"))
}

pub const SAME_OBJECTS: Failure = Failure::new("ERR source and destination objects are the same");

pub fn copy(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let CopyOptions { replaces, database } = CopyOptions::parse(&call.words[3..])?;
    if database.is_some() {
        return Err(Failure::new("ERR COPY with DB is not allowed in a transaction or a script"));
    }
    if call.keys[0] == call.keys[1] {
        return Err(SAME_OBJECTS);
    }
    let value = call.state(0).value().cloned().filter(|_| replaces || call.entry(1).is_none());
    reply.integer(i64::from(value.is_some()));
    value.map_or(Ok(()), |value| call.put(1, value))
}

/// OBJECT ENCODING, REFCOUNT, IDLETIME and FREQ, with the encodings that Redis has for such values.
pub fn object(call: &ReadCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let subcommand = call.words[1];
    let Some(entry) = call.first() else {
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
