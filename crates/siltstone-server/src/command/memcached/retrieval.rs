//! get, gets, gat, gats, touch.

use super::arguments::{check_key, expiry, seconds};
use super::item::mark_of;
use crate::command::{ReadCall, UpdateCall};
use crate::failure::{Failure, Outcome};
use crate::protocol::Reply;
use crate::store::{Entry, ValueType, has_expired};

const BAD_TIME: Failure = Failure::new("CLIENT_ERROR invalid exptime argument");

pub fn get(call: &ReadCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply_all(call, false, reply)
}

pub fn gets(call: &ReadCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply_all(call, true, reply)
}

fn reply_all(call: &ReadCall<'_>, with_version: bool, reply: &mut Reply<'_>) -> Outcome {
    let keys = &call.words[1..];
    keys.iter().try_for_each(|key| check_key(key))?;
    for (key, found) in keys.iter().zip(call.found) {
        if let Some(entry) = found.filter(is_string) {
            reply_value(key, &entry, with_version, reply);
        }
    }
    reply.raw("END\r\n");
    Ok(())
}

/// Returns whether a value is returned. One of several keys without a string must not make the others fail.
fn is_string(entry: &Entry<'_>) -> bool {
    entry.value_type == ValueType::String
}

fn reply_value(key: &[u8], entry: &Entry<'_>, with_version: bool, reply: &mut Reply<'_>) {
    reply.raw("VALUE ");
    reply.raw(key);
    reply.raw(" ");
    reply.raw_number(entry.mark.map_or(0, |mark| mark.flags.into()));
    reply.raw(" ");
    reply.raw_number(entry.value.len() as u64);
    if with_version {
        reply.raw(" ");
        reply.raw_number(mark_of(entry).version);
    }
    reply.raw("\r\n");
    reply.raw_value(entry.value);
    reply.raw("\r\n");
}

pub fn gat(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    get_and_touch(call, false, reply)
}

pub fn gats(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    get_and_touch(call, true, reply)
}

fn get_and_touch(call: &mut UpdateCall<'_>, with_version: bool, reply: &mut Reply<'_>) -> Outcome {
    let expires_at_ms = expiry(seconds(call.words[1]).ok_or(BAD_TIME)?, call.now_ms);
    let keys = &call.words[2..];
    keys.iter().try_for_each(|key| check_key(key))?;
    for (number, key) in keys.iter().enumerate() {
        if let Some(entry) = call.entry(number).filter(is_string) {
            reply_value(key, &entry, with_version, reply);
            touch_key(call, number, expires_at_ms);
        }
    }
    reply.raw("END\r\n");
    Ok(())
}

pub fn touch(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    check_key(call.words[1])?;
    let expires_at_ms = expiry(seconds(call.words[2]).ok_or(BAD_TIME)?, call.now_ms);
    let exists = touch_key(call, 0, expires_at_ms);
    reply.raw(if exists { "TOUCHED\r\n" } else { "NOT_FOUND\r\n" });
    Ok(())
}

/// Sets when a value expires. Returns whether there is one.
fn touch_key(call: &mut UpdateCall<'_>, key: usize, expires_at_ms: u64) -> bool {
    let before_ms = call.entry(key).map(|entry| entry.expires_at_ms);
    if has_expired(expires_at_ms, call.now_ms) {
        call.state(key).delete();
    } else if before_ms.is_some_and(|before_ms| before_ms != expires_at_ms) {
        call.state(key).set_expiry(expires_at_ms);
    }
    before_ms.is_some()
}
