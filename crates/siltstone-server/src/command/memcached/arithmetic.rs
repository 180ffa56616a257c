//! incr and decr: numbers of 64 bits without a sign. A sum wraps around, and a difference is at least 0. A value keeps
//! its length if the number is shorter, with spaces after it.

use super::arguments::{check_key, unsigned};
use super::item::{mark_of, put, string_of};
use crate::command::UpdateCall;
use crate::failure::{Failure, Outcome};
use crate::protocol::Reply;
use crate::store::NewValue;

/// What has become of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// It is now this one.
    To(u64),
    NotFound,
    /// The value has another version.
    Exists,
}

/// Adds to the number of the first key, or subtracts from it. `compared` is the version that it must have; 0 is that of
/// any.
pub fn change(
    call: &mut UpdateCall<'_>,
    subtracts: bool,
    delta: u64,
    compared: u64,
) -> Result<Changed, Failure> {
    let Some(before) = string_of(call.entry(0))? else { return Ok(Changed::NotFound) };
    let mark = mark_of(&before);
    if compared != 0 && compared != mark.version {
        return Ok(Changed::Exists);
    }
    let number = unsigned(before.value)
        .ok_or(Failure::new("CLIENT_ERROR cannot increment or decrement non-numeric value"))?;
    let number = match subtracts {
        true => number.saturating_sub(delta),
        false => number.wrapping_add(delta),
    };
    let mut text = number.to_string().into_bytes();
    text.resize(text.len().max(before.value.len()), b' ');
    let value = NewValue::string(text).expiring(before.expires_at_ms);
    put(call, value.marked(mark.renewed()))?;
    Ok(Changed::To(number))
}

pub fn incr(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    execute(call, false, reply)
}

pub fn decr(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    execute(call, true, reply)
}

fn execute(call: &mut UpdateCall<'_>, subtracts: bool, reply: &mut Reply<'_>) -> Outcome {
    check_key(call.words[1])?;
    let delta = unsigned(call.words[2]).ok_or(Failure::new("CLIENT_ERROR invalid numeric delta argument"))?;
    match change(call, subtracts, delta, 0)? {
        Changed::To(number) => {
            reply.raw_number(number);
            reply.raw("\r\n");
        }
        Changed::NotFound | Changed::Exists => reply.raw("NOT_FOUND\r\n"),
    }
    Ok(())
}
