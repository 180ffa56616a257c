//! SET and its relatives, and parts of strings.

use super::expiry::{Unit, time_of};
use super::{UpdateCall, check_length};
use crate::command::arguments::{integer, is};
use crate::failure::{Failure, Outcome};
use crate::protocol::Reply;
use crate::store::{NEVER, NewValue};

/// The options of SET.
#[derive(Default)]
struct SetOptions<'a> {
    /// When the value expires, if the command says so.
    expiry: Option<(Unit, &'a [u8])>,
    keeps_expiry: bool,
    only_absent: bool,
    only_present: bool,
    returns_old: bool,
}

impl<'a> SetOptions<'a> {
    fn parse(words: &[&'a [u8]]) -> Result<SetOptions<'a>, Failure> {
        let mut options = SetOptions::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if is(word, "NX") && !options.only_present {
                options.only_absent = true;
            } else if is(word, "XX") && !options.only_absent {
                options.only_present = true;
            } else if is(word, "GET") {
                options.returns_old = true;
            } else if is(word, "KEEPTTL") && options.expiry.is_none() {
                options.keeps_expiry = true;
            } else if let Some(unit) = Unit::of_set(word) {
                // The same unit may be repeated.
                if options.keeps_expiry || options.expiry.is_some_and(|(other, _)| other != unit) {
                    return Err(Failure::SYNTAX);
                }
                options.expiry = Some((unit, words.next().copied().ok_or(Failure::SYNTAX)?));
            } else {
                return Err(Failure::SYNTAX);
            }
        }
        Ok(options)
    }
}

/// Returns whether a SET needs not know the value before.
pub fn is_blind_set(words: &mut dyn Iterator<Item = &[u8]>) -> bool {
    words.skip(3).all(|word| !["NX", "XX", "GET", "KEEPTTL"].iter().any(|option| is(word, option)))
}

pub fn set(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let options = SetOptions::parse(&call.words[3..])?;
    // After all words: a word that is no option is the first error.
    let expires_at_ms = match options.expiry {
        Some((unit, time)) => Some(time_of(time, unit, call.now_ms, "set")?),
        None => None,
    };
    check_length(call.words[2].len())?;
    let old = match options.returns_old {
        true => call.string(0)?.map(<[u8]>::to_vec),
        false => None,
    };
    let exists = call.entry(0).is_some();
    let is_set = !(options.only_absent && exists || options.only_present && !exists);
    if is_set {
        let kept = if options.keeps_expiry { call.expires_at_ms(0) } else { NEVER };
        let expires_at_ms = expires_at_ms.unwrap_or(kept);
        let value = NewValue::string(call.words[2].to_vec()).expiring(expires_at_ms);
        call.put(0, value)?;
    }
    match (options.returns_old, is_set) {
        (true, _) => reply.optional(old.as_deref()),
        (false, true) => reply.ok(),
        (false, false) => reply.null(),
    }
    Ok(())
}

pub fn setnx(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let is_set = call.entry(0).is_none();
    if is_set {
        call.put(0, NewValue::string(call.words[2].to_vec()))?;
    }
    reply.integer(i64::from(is_set));
    Ok(())
}

pub fn setex(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    set_expiring(call, Unit::Seconds, "setex", reply)
}

pub fn psetex(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    set_expiring(call, Unit::Milliseconds, "psetex", reply)
}

fn set_expiring(call: &mut UpdateCall<'_>, unit: Unit, command: &str, reply: &mut Reply<'_>) -> Outcome {
    let expires_at_ms = time_of(call.words[2], unit, call.now_ms, command)?;
    call.put(0, NewValue::string(call.words[3].to_vec()).expiring(expires_at_ms))?;
    reply.ok();
    Ok(())
}

pub fn getset(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let old = call.string(0)?.map(<[u8]>::to_vec);
    call.put(0, NewValue::string(call.words[2].to_vec()))?;
    reply.optional(old.as_deref());
    Ok(())
}

pub fn getdel(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.optional(call.string(0)?);
    call.state(0).delete();
    Ok(())
}

pub fn getex(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let expiry = match call.words {
        [_, _] => None,
        [_, _, option] if is(option, "PERSIST") => Some(None),
        [_, _, option, time] => Some(Some((Unit::of_set(option).ok_or(Failure::SYNTAX)?, *time))),
        _ => return Err(Failure::SYNTAX),
    };
    let value = call.string(0)?;
    // The time of a key that does not exist may be anything.
    let expires_at_ms = match expiry.filter(|_| value.is_some()) {
        Some(Some((unit, time))) => Some(time_of(time, unit, call.now_ms, "getex")?),
        Some(None) => Some(NEVER),
        None => None,
    };
    reply.optional(value);
    let is_same = expires_at_ms == Some(NEVER) && call.expires_at_ms(0) == NEVER;
    if let Some(expires_at_ms) = expires_at_ms.filter(|_| !is_same) {
        call.set_expiry(0, expires_at_ms);
    }
    Ok(())
}

/// Returns the pairs of MSET; the keys are found by their positions.
fn values_of_pairs<'a>(call: &UpdateCall<'a>, command: &str) -> Result<Vec<&'a [u8]>, Failure> {
    if call.words.len().is_multiple_of(2) {
        return Err(Failure::arity(command));
    }
    let values: Vec<&[u8]> = call.words[1..].chunks_exact(2).map(|pair| pair[1]).collect();
    values.iter().try_for_each(|value| check_length(value.len()))?;
    Ok(values)
}

pub fn mset(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    put_all(call, "mset")?;
    reply.ok();
    Ok(())
}

pub fn msetnx(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    values_of_pairs(call, "msetnx")?;
    let is_set = (0..call.keys.len()).all(|key| call.entry(key).is_none());
    if is_set {
        put_all(call, "msetnx")?;
    }
    reply.integer(i64::from(is_set));
    Ok(())
}

fn put_all(call: &mut UpdateCall<'_>, command: &str) -> Outcome {
    let values = values_of_pairs(call, command)?;
    // All keys before the first change.
    (0..values.len()).try_for_each(|key| call.state(key).check())?;
    for (key, value) in values.into_iter().enumerate() {
        call.put(key, NewValue::string(value.to_vec()))?;
    }
    Ok(())
}

pub fn append(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let mut value = call.string(0)?.unwrap_or_default().to_vec();
    check_length(value.len() + call.words[2].len())?;
    value.extend_from_slice(call.words[2]);
    let length = value.len();
    call.put_string(0, value)?;
    reply.integer(length as i64);
    Ok(())
}

pub fn setrange(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let offset = integer(call.words[2])?;
    let offset = usize::try_from(offset).map_err(|_| Failure::new("ERR offset is out of range"))?;
    let part = call.words[3];
    let mut value = call.string(0)?.unwrap_or_default().to_vec();
    if !part.is_empty() {
        let end = offset.saturating_add(part.len());
        check_length(end)?;
        value.resize(value.len().max(end), 0);
        value[offset..end].copy_from_slice(part);
        let length = value.len();
        call.put_string(0, value)?;
        reply.integer(length as i64);
    } else {
        reply.integer(value.len() as i64);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_blind_unless_an_option_needs_the_value_before() {
        let is_blind_set = |line: &'static str| is_blind_set(&mut line.split(' ').map(str::as_bytes));
        for line in ["SET k v", "SET k v EX 10", "set k NX"] {
            assert!(is_blind_set(line), "{line}");
        }
        for line in ["SET k v NX", "SET k v EX 10 get", "SET k v keepttl"] {
            assert!(!is_blind_set(line), "{line}");
        }
    }
}
