//! BITFIELD: numbers of any width within a string.

use super::bits::offset;
use super::{UpdateCall, check_length};
use crate::command::ReadCall;
use crate::command::arguments::{integer, is};
use crate::failure::{Failure, Outcome};
use crate::protocol::Reply;

/// The type of a number: `i5`, `u16`.
#[derive(Debug, Clone, Copy)]
struct Field {
    is_signed: bool,
    bits: u32,
}

/// What happens to a number that does not fit its field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

/// One operation on a field at a bit.
#[derive(Debug, Clone, Copy)]
enum Operation {
    Get,
    Set(i64, Overflow),
    Add(i64, Overflow),
}

impl Field {
    fn parse(word: &[u8]) -> Result<Field, Failure> {
        let failure = Failure::new(
            "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        );
        let (kind, bits) = word.split_first().ok_or(failure.clone())?;
        let bits = integer(bits).ok().and_then(|bits| u32::try_from(bits).ok()).ok_or(failure.clone())?;
        match kind {
            b'i' if (1..=64).contains(&bits) => Ok(Field { is_signed: true, bits }),
            b'u' if (1..=63).contains(&bits) => Ok(Field { is_signed: false, bits }),
            _ => Err(failure),
        }
    }

    /// Parses an offset: a bit, or `#` and a number of fields.
    fn offset(self, word: &[u8]) -> Result<u64, Failure> {
        let at = match word {
            [b'#', number @ ..] => offset(number)?.saturating_mul(u64::from(self.bits)),
            word => offset(word)?,
        };
        let end = at.saturating_add(u64::from(self.bits)).div_ceil(8);
        check_length(usize::try_from(end).unwrap_or(usize::MAX))
            .map_err(|_| Failure::new("ERR bit offset is not an integer or out of range"))?;
        Ok(at)
    }

    /// Returns the number that a word of SET means: without a sign it is above all fields instead of below 0.
    fn number(self, number: i64) -> i128 {
        if self.is_signed { i128::from(number) } else { i128::from(number as u64) }
    }

    fn range(self) -> (i128, i128) {
        match self.is_signed {
            true => (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1),
            false => (0, (1 << self.bits) - 1),
        }
    }

    /// Returns the number that a field has after an operation, or nothing if it must not overflow.
    fn fit(self, number: i128, overflow: Overflow) -> Option<i64> {
        let (low, high) = self.range();
        let fitted = match overflow {
            _ if (low..=high).contains(&number) => number,
            Overflow::Wrap => (number - low).rem_euclid(1 << self.bits) + low,
            Overflow::Saturate => number.clamp(low, high),
            Overflow::Fail => return None,
        };
        i64::try_from(fitted).ok()
    }

    fn read(self, value: &[u8], at: u64) -> i64 {
        let bits = (at..at + u64::from(self.bits)).fold(0u64, |bits, at| {
            let byte = value.get((at / 8) as usize).copied().unwrap_or(0);
            bits << 1 | u64::from(byte >> (7 - at % 8) & 1)
        });
        let shift = 64 - self.bits;
        if self.is_signed { (bits << shift) as i64 >> shift } else { bits as i64 }
    }

    /// Returns the number of bytes that a string with a field at a bit has.
    fn end(self, at: u64) -> usize {
        (at + u64::from(self.bits)).div_ceil(8) as usize
    }

    /// Writes a field, which the value has.
    fn write(self, value: &mut [u8], at: u64, number: i64) {
        for bit in 0..u64::from(self.bits) {
            let (at, is_set) = (at + bit, number >> (u64::from(self.bits) - 1 - bit) & 1 == 1);
            let mask = 1 << (7 - at % 8);
            let byte = &mut value[(at / 8) as usize];
            *byte = if is_set { *byte | mask } else { *byte & !mask };
        }
    }
}

/// Parses all operations before any is executed.
fn parse(mut words: &[&[u8]]) -> Result<Vec<(Field, u64, Operation)>, Failure> {
    let (mut operations, mut overflow) = (Vec::new(), Overflow::Wrap);
    while let [name, rest @ ..] = words {
        words = match rest {
            [kind, rest @ ..] if is(name, "OVERFLOW") => {
                overflow = match kind {
                    kind if is(kind, "WRAP") => Overflow::Wrap,
                    kind if is(kind, "SAT") => Overflow::Saturate,
                    kind if is(kind, "FAIL") => Overflow::Fail,
                    _ => return Err(Failure::new("ERR Invalid OVERFLOW type specified")),
                };
                rest
            }
            [field, at, rest @ ..] if is(name, "GET") => {
                let field = Field::parse(field)?;
                operations.push((field, field.offset(at)?, Operation::Get));
                rest
            }
            [field, at, number, rest @ ..] if is(name, "SET") || is(name, "INCRBY") => {
                let field = Field::parse(field)?;
                let at = field.offset(at)?;
                let number = integer(number)?;
                let operation = if is(name, "SET") {
                    Operation::Set(number, overflow)
                } else {
                    Operation::Add(number, overflow)
                };
                operations.push((field, at, operation));
                rest
            }
            _ => return Err(Failure::SYNTAX),
        };
    }
    Ok(operations)
}

pub fn bitfield_ro(call: &ReadCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let operations = parse(&call.words[2..])?;
    if operations.iter().any(|(.., operation)| !matches!(operation, Operation::Get)) {
        return Err(Failure::new("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    let value = call.string()?.unwrap_or_default();
    reply.array(operations.len());
    operations.iter().for_each(|(field, at, _)| reply.integer(field.read(value, *at)));
    Ok(())
}

pub fn bitfield(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let operations = parse(&call.words[2..])?;
    let before = call.string(0)?;
    let mut value = before.unwrap_or_default().to_vec();
    // As in Redis, the string has all fields that are written, also if none of them can be.
    let written = operations.iter().filter(|(.., operation)| !matches!(operation, Operation::Get));
    let end = written.map(|(field, at, _)| field.end(*at)).max();
    value.resize(value.len().max(end.unwrap_or_default()), 0);
    let mut is_changed = end.is_some() && before.is_none_or(|before| before.len() < value.len());
    reply.array(operations.len());
    for (field, at, operation) in operations {
        let before = field.read(&value, at);
        match operation {
            Operation::Get => reply.integer(before),
            Operation::Set(number, overflow) => match field.fit(field.number(number), overflow) {
                Some(number) => {
                    field.write(&mut value, at, number);
                    is_changed = true;
                    reply.integer(before);
                }
                None => reply.null(),
            },
            Operation::Add(number, overflow) => {
                match field.fit(i128::from(before) + i128::from(number), overflow) {
                    Some(sum) => {
                        field.write(&mut value, at, sum);
                        is_changed = true;
                        reply.integer(sum);
                    }
                    None => reply.null(),
                }
            }
        }
    }
    if is_changed { call.put_string(0, value) } else { Ok(()) }
}
