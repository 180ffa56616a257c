//! INCR and its relatives.

use super::UpdateCall;
use crate::command::arguments::{integer, sum_of_floats};
use crate::failure::{Failure, Outcome};
use crate::protocol::Reply;

pub fn incr(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    add(call, 1, reply)
}

pub fn decr(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    add(call, -1, reply)
}

pub fn incrby(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let number = integer(call.words[2])?;
    add(call, number, reply)
}

pub fn decrby(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let number = integer(call.words[2])?.checked_neg();
    add(call, number.ok_or(Failure::new("ERR decrement would overflow"))?, reply)
}

fn add(call: &mut UpdateCall<'_>, number: i64, reply: &mut Reply<'_>) -> Outcome {
    let before = call.string(0)?.map_or(Ok(0), integer)?;
    let sum = before.checked_add(number).ok_or(Failure::new("ERR increment or decrement would overflow"))?;
    call.put_string(0, sum.to_string().into_bytes())?;
    reply.integer(sum);
    Ok(())
}

pub fn incrbyfloat(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let sum = sum_of_floats(call.string(0)?.unwrap_or(b"0"), call.words[2])?;
    call.put_string(0, sum.clone().into_bytes())?;
    reply.bulk(sum.as_bytes());
    Ok(())
}
