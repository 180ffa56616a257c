//! Values with fields.

use super::UpdateCall;
use super::packed::Fields;
use crate::command::ReadCall;
use crate::command::arguments::{cursor, integer, is, is_infinite, sum_of_floats};
use crate::command::pattern;
use crate::failure::{Failure, Outcome};
use crate::protocol::{Reply, Version, number};
use crate::store::{NewValue, ValueType};

/// Returns the fields of the key of a command that reads; none if it does not exist.
fn fields<'a>(call: &ReadCall<'a>) -> Result<Fields<'a>, Failure> {
    Fields::decode(call.value_of(ValueType::Hash)?.unwrap_or_default())
}

/// Changes the fields of the key of a command, by a function that also returns whether it has changed any; setting the
/// same value is a change, as in Redis. The key exists as long as it has fields.
fn change<T>(
    call: &mut UpdateCall<'_>,
    change: impl for<'f> FnOnce(&mut Fields<'f>, &'f [&'f [u8]]) -> Result<(T, bool), Failure>,
) -> Result<T, Failure> {
    let expires_at_ms = call.expires_at_ms(0);
    let stored = call.value_of(0, ValueType::Hash)?.unwrap_or_default().to_vec();
    let mut fields = Fields::decode(&stored)?.for_many(call.words.len());
    let (result, is_changed) = change(&mut fields, call.words)?;
    if fields.is_empty() {
        call.state(0).delete();
    } else if is_changed {
        let bytes = fields.encode()?.into();
        call.put(0, NewValue { value_type: ValueType::Hash, bytes, expires_at_ms, mark: None })?;
    }
    Ok(result)
}

pub fn hset(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let added = set_pairs(call, "hset")?;
    reply.integer(added);
    Ok(())
}

pub fn hmset(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    set_pairs(call, "hmset")?;
    reply.ok();
    Ok(())
}

fn set_pairs(call: &mut UpdateCall<'_>, command: &str) -> Result<i64, Failure> {
    if !call.words.len().is_multiple_of(2) {
        return Err(Failure::arity(command));
    }
    change(call, |fields, words| {
        let pairs = words[2..].chunks_exact(2);
        Ok((pairs.map(|pair| i64::from(fields.set(pair[0], pair[1]))).sum(), true))
    })
}

pub fn hsetnx(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let is_set = change(call, |fields, words| {
        let is_set = fields.get(words[2]).is_none() && fields.set(words[2], words[3]);
        Ok((is_set, is_set))
    })?;
    reply.integer(i64::from(is_set));
    Ok(())
}

pub fn hdel(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let removed = change(call, |fields, words| {
        let removed = words[2..].iter().filter(|field| fields.remove(field)).count();
        Ok((removed, removed > 0))
    })?;
    reply.integer(removed as i64);
    Ok(())
}

pub fn hincrby(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let step = integer(call.words[3])?;
    let sum = change(call, |fields, words| {
        let before = fields.get(words[2]).map_or(Some(0), number);
        let before = before.ok_or(Failure::new("ERR hash value is not an integer"))?;
        let sum = before.checked_add(step);
        let sum = sum.ok_or(Failure::new("ERR increment or decrement would overflow"))?;
        fields.set(words[2], sum.to_string().into_bytes());
        Ok((sum, true))
    })?;
    reply.integer(sum);
    Ok(())
}

pub fn hincrbyfloat(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    // INCRBYFLOAT has another error for an increment that is infinite.
    if is_infinite(call.words[3]) {
        return Err(Failure::new("ERR value is NaN or Infinity"));
    }
    sum_of_floats(b"0", call.words[3])?;
    let sum = change(call, |fields, words| {
        let before = fields.get(words[2]).unwrap_or(b"0");
        sum_of_floats(before, b"0").map_err(|_| Failure::new("ERR hash value is not a float"))?;
        let sum = sum_of_floats(before, words[3])?;
        fields.set(words[2], sum.clone().into_bytes());
        Ok((sum, true))
    })?;
    reply.bulk(sum.as_bytes());
    Ok(())
}

pub fn hget(call: &ReadCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.optional(fields(call)?.get(call.words[2]));
    Ok(())
}

pub fn hmget(call: &ReadCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let fields = fields(call)?.for_many(call.words.len());
    reply.array(call.words.len() - 2);
    call.words[2..].iter().for_each(|field| reply.optional(fields.get(field)));
    Ok(())
}

pub fn hgetall(call: &ReadCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let fields = fields(call)?;
    reply.map(fields.len());
    for (field, value) in fields.iter() {
        reply.bulk(field);
        reply.bulk(value);
    }
    Ok(())
}

pub fn hkeys(call: &ReadCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let fields = fields(call)?;
    reply.array(fields.len());
    fields.iter().for_each(|(field, _)| reply.bulk(field));
    Ok(())
}

pub fn hvals(call: &ReadCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let fields = fields(call)?;
    reply.array(fields.len());
    fields.iter().for_each(|(_, value)| reply.bulk(value));
    Ok(())
}

pub fn hlen(call: &ReadCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.integer(fields(call)?.len() as i64);
    Ok(())
}

pub fn hexists(call: &ReadCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.integer(i64::from(fields(call)?.get(call.words[2]).is_some()));
    Ok(())
}

pub fn hstrlen(call: &ReadCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.integer(fields(call)?.get(call.words[2]).map_or(0, <[u8]>::len) as i64);
    Ok(())
}

/// HSCAN returns all fields at once: a hash is one value.
pub fn hscan(call: &ReadCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    cursor(call.words[2])?;
    // An absent key has no fields, whatever the options are, and a wrong type is an error before theirs.
    let Some(stored) = call.value_of(ValueType::Hash)? else {
        reply.array(2);
        reply.bulk(b"0");
        reply.array(0);
        return Ok(());
    };
    let mut wanted = None;
    let mut words = call.words[3..].iter();
    while let Some(option) = words.next() {
        let value = words.next().ok_or(Failure::SYNTAX)?;
        if is(option, "MATCH") {
            wanted = Some(*value);
        } else if !is(option, "COUNT") || integer(value)? < 1 {
            return Err(Failure::SYNTAX);
        }
    }
    let fields = Fields::decode(stored)?;
    let is_wanted = |field: &[u8]| wanted.is_none_or(|wanted| pattern::matches(wanted, field));
    let found: Vec<_> = fields.iter().filter(|(field, _)| is_wanted(field)).collect();
    reply.array(2);
    reply.bulk(b"0");
    reply.array(2 * found.len());
    for (field, value) in found {
        reply.bulk(field);
        reply.bulk(value);
    }
    Ok(())
}

/// HRANDFIELD key [count [WITHVALUES]]: with a negative count fields may be returned several times.
pub fn hrandfield(call: &ReadCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (count, with_values) = match call.words {
        [_, _] => (None, false),
        [_, _, count] => (Some(integer(count)?), false),
        [_, _, count, option] if is(option, "WITHVALUES") => (Some(integer(count)?), true),
        _ => return Err(Failure::SYNTAX),
    };
    let fields = fields(call)?;
    let all: Vec<_> = fields.iter().collect();
    let Some(count) = count else {
        reply.optional(fastrand::choice(&all).map(|(field, _)| *field));
        return Ok(());
    };
    if count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(Failure::new("ERR value is out of range"));
    }
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    let chosen = if count >= 0 {
        fastrand::choose_multiple(&all, wanted.min(all.len()))
    } else if wanted > RANDOM_FIELDS_MAX {
        return Err(Failure::new("ERR value is out of range"));
    } else {
        (0..wanted).filter_map(|_| fastrand::choice(&all)).collect()
    };
    let pairs = with_values && reply.version() == Version::Resp3;
    reply.array(if with_values && !pairs { 2 * chosen.len() } else { chosen.len() });
    for (field, value) in chosen {
        if pairs {
            reply.array(2);
        }
        reply.bulk(field);
        if with_values {
            reply.bulk(value);
        }
    }
    Ok(())
}

/// The largest number of fields that may be repeated in a reply.
const RANDOM_FIELDS_MAX: usize = 1 << 20;
