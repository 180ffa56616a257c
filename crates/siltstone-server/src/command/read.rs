//! Commands that read the values of keys.

use super::arguments::{byte_range, integer, is};
use super::help::help;
use crate::failure::{Failure, Outcome};
use crate::protocol::Reply;
use crate::store::{Entry, MARKED_BYTES, NEVER, ValueType};

/// A call of such a command.
pub struct ReadCall<'a> {
    /// All words; the first one is the name of the command.
    pub words: &'a [&'a [u8]],
    /// What was found of the command's keys, in their order.
    pub found: &'a [Option<Entry<'a>>],
    /// The time, in milliseconds since the Unix epoch.
    pub now_ms: u64,
}

impl<'a> ReadCall<'a> {
    /// Returns the only or first key's value, if it exists.
    pub(super) fn first(&self) -> Option<Entry<'a>> {
        self.found.first().copied().flatten()
    }

    /// Returns the first key's string, if it exists.
    pub(super) fn string(&self) -> Result<Option<&'a [u8]>, Failure> {
        self.value_of(ValueType::String)
    }

    /// Returns the first key's value of this type, if it exists.
    pub(super) fn value_of(&self, wanted: ValueType) -> Result<Option<&'a [u8]>, Failure> {
        match self.first() {
            None => Ok(None),
            Some(entry) if entry.value_type == wanted => Ok(Some(entry.value)),
            Some(_) => Err(Failure::WRONG_TYPE),
        }
    }

    /// Replies with the first key's expiry time, or -1 if it does not expire and -2
    /// if it does not exist.
    fn expiry(&self, reply: &mut Reply<'_>, time: impl Fn(u64) -> u64) -> Outcome {
        reply.integer(match self.first() {
            None => -2,
            Some(Entry { expires_at_ms: NEVER, .. }) => -1,
            Some(entry) => i64::try_from(time(entry.expires_at_ms)).unwrap_or(i64::MAX),
        });
        Ok(())
    }
}

pub fn get(call: &ReadCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.optional(call.string()?);
    Ok(())
}

pub fn mget(call: &ReadCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.array(call.found.len());
    for found in call.found {
        // Another type is no error here, as in Redis.
        let string = found.filter(|entry| entry.value_type == ValueType::String);
        reply.optional(string.map(|entry| entry.value));
    }
    Ok(())
}

pub fn exists(call: &ReadCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.integer(call.found.iter().flatten().count() as i64);
    Ok(())
}

pub fn strlen(call: &ReadCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.integer(call.string()?.map_or(0, <[u8]>::len) as i64);
    Ok(())
}

pub fn getrange(call: &ReadCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (start, end) = (integer(call.words[2])?, integer(call.words[3])?);
    let value = call.string()?.unwrap_or_default();
    reply.bulk(&value[byte_range(start, end, value.len())]);
    Ok(())
}

pub fn value_type(call: &ReadCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.status(call.first().map_or("none", |entry| entry.value_type.name()));
    Ok(())
}

/// MEMORY USAGE key [SAMPLES count]: the bytes of the key and of the value with its type, before compression. What an
/// engine stores besides is not known here.
pub fn memory(call: &ReadCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    match call.words {
        [_, subcommand] if is(subcommand, "HELP") => help(
            reply,
            "MEMORY",
            &[
                "USAGE <key> [SAMPLES <count>]",
                "    Return the bytes of <key> and its value, before compression.",
            ],
        ),
        [_, _, key, options @ ..] => {
            match options {
                [] => {}
                [option, count] if is(option, "SAMPLES") && integer(count)? >= 0 => {}
                _ => return Err(Failure::SYNTAX),
            }
            match call.first() {
                None => reply.null(),
                Some(Entry { value, mark, .. }) => {
                    let before_value = if mark.is_some() { MARKED_BYTES } else { 1 };
                    reply.integer((key.len() + before_value + value.len()) as i64);
                }
            }
        }
        _ => return Err(Failure::SYNTAX),
    }
    Ok(())
}

pub fn ttl(call: &ReadCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    // Rounded as in Redis.
    call.expiry(reply, |at_ms| at_ms.saturating_sub(call.now_ms).saturating_add(500) / 1000)
}

pub fn pttl(call: &ReadCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    call.expiry(reply, |at_ms| at_ms.saturating_sub(call.now_ms))
}

pub fn expiretime(call: &ReadCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    call.expiry(reply, |at_ms| at_ms.saturating_add(500) / 1000)
}

pub fn pexpiretime(call: &ReadCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    call.expiry(reply, |at_ms| at_ms)
}
