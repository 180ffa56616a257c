//! Bits of strings. Bit 0 is the highest bit of the first byte.

use super::{UpdateCall, check_length};
use crate::command::ReadCall;
use crate::command::arguments::{inclusive_range, integer, is, is_reversed};
use crate::failure::{Failure, Outcome};
use crate::protocol::Reply;
use crate::store::NewValue;
use std::ops::Range;

const NOT_AN_OFFSET: Failure = Failure::new("ERR bit offset is not an integer or out of range");

/// Parses the number of a bit.
pub(super) fn offset(word: &[u8]) -> Result<u64, Failure> {
    let offset = integer(word).ok().and_then(|number| u64::try_from(number).ok()).ok_or(NOT_AN_OFFSET)?;
    check_length((offset / 8) as usize + 1).map_err(|_| NOT_AN_OFFSET)?;
    Ok(offset)
}

fn bit(value: &[u8], offset: u64) -> bool {
    value.get((offset / 8) as usize).is_some_and(|byte| byte >> (7 - offset % 8) & 1 == 1)
}

pub fn setbit(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let offset = offset(call.words[2])?;
    let is_set = match call.words[3] {
        b"0" => false,
        b"1" => true,
        _ => return Err(Failure::new("ERR bit is not an integer or out of range")),
    };
    let stored = call.string(0)?;
    let mut value = stored.unwrap_or_default().to_vec();
    let before = bit(&value, offset);
    let byte = (offset / 8) as usize;
    // Otherwise nothing changes, for those who watch the key either.
    let is_changed = before != is_set || stored.is_none_or(|stored| stored.len() <= byte);
    value.resize(value.len().max(byte + 1), 0);
    let mask = 1 << (7 - offset % 8);
    if is_set {
        value[byte] |= mask;
    } else {
        value[byte] &= !mask;
    }
    if is_changed {
        call.put_string(0, value)?;
    }
    reply.integer(i64::from(before));
    Ok(())
}

pub fn getbit(call: &ReadCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let offset = offset(call.words[2])?;
    reply.integer(i64::from(bit(call.string()?.unwrap_or_default(), offset)));
    Ok(())
}

/// Returns whether the unit of a range is a bit and not a byte.
fn is_in_bits(unit: Option<&&[u8]>) -> Result<bool, Failure> {
    match unit {
        Some(unit) if is(unit, "BIT") => Ok(true),
        Some(unit) if !is(unit, "BYTE") => Err(Failure::SYNTAX),
        _ => Ok(false),
    }
}

/// Returns the bits between two positions of a value, both inclusive.
fn bit_range(start: i64, end: i64, is_in_bits: bool, value: &[u8]) -> Range<u64> {
    let bits_per_unit = if is_in_bits { 1 } else { 8 };
    let units = inclusive_range(start, end, value.len() * 8 / bits_per_unit);
    (units.start * bits_per_unit) as u64..(units.end * bits_per_unit) as u64
}

pub fn bitcount(call: &ReadCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let Some(value) = call.string()? else {
        reply.integer(0);
        return Ok(());
    };
    let bits = match call.words {
        [_, _] => 0..value.len() as u64 * 8,
        [_, _, start, end, unit @ ..] if unit.len() < 2 => {
            let (start, end) = (integer(start)?, integer(end)?);
            // Before the unit is looked at.
            if is_reversed(start, end) {
                0..0
            } else {
                bit_range(start, end, is_in_bits(unit.first())?, value)
            }
        }
        _ => return Err(Failure::SYNTAX),
    };
    reply.integer(count(value, bits) as i64);
    Ok(())
}

fn count(value: &[u8], bits: Range<u64>) -> u64 {
    let (mut at, mut ones) = (bits.start, 0);
    while at < bits.end {
        if at.is_multiple_of(8) && bits.end - at >= 8 {
            ones += u64::from(value[(at / 8) as usize].count_ones());
            at += 8;
        } else {
            ones += u64::from(bit(value, at));
            at += 1;
        }
    }
    ones
}

pub fn bitpos(call: &ReadCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let wanted = match integer(call.words[2])? {
        0 => false,
        1 => true,
        _ => return Err(Failure::new("ERR The bit argument must be 1 or 0.")),
    };
    let Some(value) = call.string()? else {
        // Zeros, whatever the range is.
        reply.integer(if wanted { -1 } else { 0 });
        return Ok(());
    };
    let words = &call.words[3..];
    let bits = match words {
        [] => 0..value.len() as u64 * 8,
        [start] => bit_range(integer(start)?, -1, false, value),
        [start, end, unit @ ..] if unit.len() < 2 => {
            let (start, is_in_bits) = (integer(start)?, is_in_bits(unit.first())?);
            bit_range(start, integer(end)?, is_in_bits, value)
        }
        _ => return Err(Failure::SYNTAX),
    };
    // Without an end, zeros follow the value.
    let ends_nowhere = words.len() < 2;
    reply.integer(match position(value, bits.clone(), wanted) {
        Some(at) => at as i64,
        None if !wanted && ends_nowhere && !bits.is_empty() => bits.end as i64,
        None => -1,
    });
    Ok(())
}

fn position(value: &[u8], bits: Range<u64>, wanted: bool) -> Option<u64> {
    let without = if wanted { 0 } else { u8::MAX };
    let mut at = bits.start;
    while at < bits.end {
        if at.is_multiple_of(8) && bits.end - at >= 8 && value[(at / 8) as usize] == without {
            at += 8;
        } else if bit(value, at) == wanted {
            return Some(at);
        } else {
            at += 1;
        }
    }
    None
}

/// How BITOP combines bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
    Not,
}

impl Operation {
    fn parse(word: &[u8]) -> Result<Operation, Failure> {
        let operations = [
            ("AND", Operation::And),
            ("OR", Operation::Or),
            ("XOR", Operation::Xor),
            ("NOT", Operation::Not),
        ];
        let found = operations.into_iter().find(|(name, _)| is(word, name));
        found.map(|(_, operation)| operation).ok_or(Failure::SYNTAX)
    }
}

/// BITOP operation destination sources: the keys are the destination and the sources.
pub fn bitop(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let operation = Operation::parse(call.words[1])?;
    if operation == Operation::Not && call.keys.len() != 2 {
        return Err(Failure::new("ERR BITOP NOT must be called with a single source key."));
    }
    let sources = (1..call.keys.len()).map(|key| call.string(key).map(Option::unwrap_or_default));
    let sources: Vec<&[u8]> = sources.collect::<Result<_, _>>()?;
    let length = sources.iter().map(|source| source.len()).max().unwrap_or(0);
    let byte = |source: &&[u8], at: usize| source.get(at).copied().unwrap_or(0);
    let combine = |one, other| match operation {
        Operation::And => one & other,
        Operation::Or => one | other,
        Operation::Xor | Operation::Not => one ^ other,
    };
    // The complement is what differs from ones.
    let begin = (operation == Operation::Not).then_some(u8::MAX);
    let bytes = |at: usize| begin.into_iter().chain(sources.iter().map(move |source| byte(source, at)));
    let result: Vec<u8> = (0..length).map(|at| bytes(at).reduce(combine).unwrap_or(0)).collect();
    if result.is_empty() {
        call.state(0).delete();
    } else {
        call.put(0, NewValue::string(result))?;
    }
    reply.integer(length as i64);
    Ok(())
}
