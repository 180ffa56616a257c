//! Times of expiry.

use super::UpdateCall;
use crate::command::arguments::{integer, is};
use crate::failure::{Failure, Outcome};
use crate::protocol::Reply;
use crate::store::NEVER;

/// What a number means as a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Seconds from now.
    Seconds,
    /// Milliseconds from now.
    Milliseconds,
    /// Seconds since 1970.
    UnixSeconds,
    /// Milliseconds since 1970.
    UnixMilliseconds,
}

impl Unit {
    /// Returns the unit of an option of SET and GETEX.
    pub fn of_set(word: &[u8]) -> Option<Unit> {
        let units = [
            ("EX", Unit::Seconds),
            ("PX", Unit::Milliseconds),
            ("EXAT", Unit::UnixSeconds),
            ("PXAT", Unit::UnixMilliseconds),
        ];
        units.into_iter().find(|(name, _)| is(word, name)).map(|(_, unit)| unit)
    }

    /// Returns the time of a number, in milliseconds since 1970, which may be before it.
    fn at(self, number: i64, now_ms: u64) -> Option<i64> {
        let now_ms = i64::try_from(now_ms).unwrap_or(i64::MAX);
        match self {
            Unit::Seconds => number.checked_mul(1000)?.checked_add(now_ms),
            Unit::Milliseconds => number.checked_add(now_ms),
            Unit::UnixSeconds => number.checked_mul(1000),
            Unit::UnixMilliseconds => Some(number),
        }
    }
}

/// Returns the error for a time that is none.
pub fn invalid_expiry(command: &str) -> Failure {
    Failure::from(format!("ERR invalid expire time in '{command}' command"))
}

/// Returns the time of a word, in milliseconds since 1970. It must be above 0.
pub fn time_of(word: &[u8], unit: Unit, now_ms: u64, command: &str) -> Result<u64, Failure> {
    let number = integer(word)?;
    let at_ms = Some(number).filter(|number| *number > 0).and_then(|number| unit.at(number, now_ms));
    at_ms.and_then(|at_ms| u64::try_from(at_ms).ok()).ok_or_else(|| invalid_expiry(command))
}

pub fn expire(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    set_expiry(call, Unit::Seconds, "expire", reply)
}

pub fn pexpire(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    set_expiry(call, Unit::Milliseconds, "pexpire", reply)
}

pub fn expireat(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    set_expiry(call, Unit::UnixSeconds, "expireat", reply)
}

pub fn pexpireat(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    set_expiry(call, Unit::UnixMilliseconds, "pexpireat", reply)
}

/// On which condition a time of expiry is set.
#[derive(Debug, Default)]
struct Conditions {
    only_never: bool,
    only_expiring: bool,
    only_later: bool,
    only_earlier: bool,
}

impl Conditions {
    fn parse(words: &[&[u8]]) -> Result<Conditions, Failure> {
        let mut conditions = Conditions::default();
        for word in words {
            let condition = match word {
                word if is(word, "NX") => &mut conditions.only_never,
                word if is(word, "XX") => &mut conditions.only_expiring,
                word if is(word, "GT") => &mut conditions.only_later,
                word if is(word, "LT") => &mut conditions.only_earlier,
                word => {
                    let word = String::from_utf8_lossy(word);
                    return Err(Failure::from(format!("ERR Unsupported option {word}")));
                }
            };
            *condition = true;
        }
        let Conditions { only_never, only_expiring, only_later, only_earlier } = conditions;
        if only_never && (only_expiring || only_later || only_earlier) {
            return Err(Failure::new("ERR NX and XX, GT or LT options at the same time are not compatible"));
        }
        if only_later && only_earlier {
            return Err(Failure::new("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(conditions)
    }

    fn allow(&self, before_ms: u64, after_ms: i64) -> bool {
        let expires = before_ms != NEVER;
        let before_ms = i64::try_from(before_ms).unwrap_or(i64::MAX);
        // A key that does not expire counts as one that expires after all others.
        !(self.only_never && expires
            || self.only_expiring && !expires
            || self.only_later && (!expires || after_ms <= before_ms)
            || self.only_earlier && expires && after_ms >= before_ms)
    }
}

fn set_expiry(call: &mut UpdateCall<'_>, unit: Unit, command: &str, reply: &mut Reply<'_>) -> Outcome {
    let conditions = Conditions::parse(&call.words[3..])?;
    let number = integer(call.words[2])?;
    let at_ms = unit.at(number, call.now_ms).ok_or_else(|| invalid_expiry(command))?;
    let is_set = call.entry(0).is_some_and(|entry| conditions.allow(entry.expires_at_ms, at_ms));
    if is_set {
        // A time before 1970 has passed as much as its first millisecond, and NEVER is none.
        call.set_expiry(0, u64::try_from(at_ms).unwrap_or_default().max(1));
    }
    reply.integer(i64::from(is_set));
    Ok(())
}

pub fn persist(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let expires = call.expires_at_ms(0) != NEVER;
    if expires {
        call.state(0).set_expiry(NEVER);
    }
    reply.integer(i64::from(expires));
    Ok(())
}
