//! Numbers and options of the words of a command.

use super::extended::Extended;
use crate::failure::{Failure, Outcome};
use crate::protocol::number;
use std::ops::Range;

/// Parses a whole number, as Redis does.
pub fn integer(word: &[u8]) -> Result<i64, Failure> {
    number(word).ok_or(Failure::NOT_AN_INTEGER)
}

/// Parses the cursor of a scan as Redis does: an empty one is 0, and a negative one counts from the largest.
pub fn cursor(word: &[u8]) -> Result<u64, Failure> {
    let text = std::str::from_utf8(word).map_err(|_| NOT_A_CURSOR)?;
    let (digits, is_negative) = text.strip_prefix('-').map_or((text, false), |digits| (digits, true));
    match digits.parse::<u64>() {
        _ if text.is_empty() => Ok(0),
        Ok(number) if !is_negative => Ok(number),
        Ok(number) if !digits.starts_with('+') => Ok(number.wrapping_neg()),
        _ => Err(NOT_A_CURSOR),
    }
}

const NOT_A_CURSOR: Failure = Failure::new("ERR invalid cursor");

/// Checks the timeout of a command that would wait.
pub fn check_timeout(word: &[u8]) -> Outcome {
    match integer(word) {
        Ok(0..) => Ok(()),
        Ok(_) => Err(Failure::new("ERR timeout is negative")),
        Err(_) => Err(Failure::new("ERR timeout is not an integer or out of range")),
    }
}

/// Checks the name of a connection, which must fit into the lines of CLIENT LIST.
pub fn check_name(name: &[u8]) -> Outcome {
    match name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        true => Ok(()),
        false => Err(Failure::new("ERR Client names cannot contain spaces, newlines or special characters.")),
    }
}

/// Returns whether a word is this option, whatever its case.
pub fn is(word: &[u8], option: &str) -> bool {
    word.eq_ignore_ascii_case(option.as_bytes())
}

/// Returns the range of bytes that Redis's `start` and `end` name in a value: both inclusive, negative from the end.
pub fn byte_range(start: i64, end: i64, length: usize) -> Range<usize> {
    if is_reversed(start, end) { 0..0 } else { inclusive_range(start, end, length) }
}

/// Returns whether a range from the end names nothing, whatever the length is.
pub fn is_reversed(start: i64, end: i64) -> bool {
    start < 0 && end < 0 && start > end
}

/// Like [`byte_range`], but a reversed range before the begin of the value names its first byte.
pub fn inclusive_range(start: i64, end: i64, length: usize) -> Range<usize> {
    let length = length as i64;
    let from_end = |at: i64| if at < 0 { at.saturating_add(length) } else { at };
    let (start, end) = (from_end(start).max(0), from_end(end).max(0).min(length - 1));
    if start > end || length == 0 { 0..0 } else { start as usize..end as usize + 1 }
}

/// A word is no number with a fraction.
const NOT_A_FLOAT: Failure = Failure::new("ERR value is not a valid float");

/// Returns the sum of two numbers with fractions, as Redis writes it: with at most 17 digits after the point, and none
/// that are not needed, and with the digits of a sum of 64 bits where the numbers are below 2^64.
///
/// # Errors
/// A word that is no number, or a sum that is infinite.
pub fn sum_of_floats(one: &[u8], other: &[u8]) -> Result<String, Failure> {
    let sum = float(one)? + float(other)?;
    if !sum.is_finite() {
        return Err(Failure::new("ERR increment would produce NaN or Infinity"));
    }
    let extended = Extended::parse(one).zip(Extended::parse(other));
    Ok(match extended {
        Some((one, other)) => one.add(other).show(),
        // At most 17 digits after the point here too.
        None if sum.abs() < 1.0 => match format!("{sum:.17}").trim_end_matches('0').trim_end_matches('.') {
            "-0" => "0".to_owned(),
            text => text.to_owned(),
        },
        None => format!("{sum}"),
    })
}

/// Returns whether a word is the name of an infinite number.
pub fn is_infinite(word: &[u8]) -> bool {
    let unsigned = word.strip_prefix(b"+").or(word.strip_prefix(b"-")).unwrap_or(word);
    ["inf", "infinity"].iter().any(|name| is(unsigned, name))
}

fn float(word: &[u8]) -> Result<f64, Failure> {
    let text = std::str::from_utf8(word).ok().filter(|text| !text.is_empty() && text.len() < 256);
    let number = text.and_then(|text| text.parse::<f64>().ok()).filter(|number| !number.is_nan());
    number.ok_or(NOT_A_FLOAT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_redis() {
        let cases = [
            ((0, 3), 0..4),
            ((0, -1), 0..13),
            ((-3, -1), 10..13),
            ((5, 100), 5..13),
            ((-100, 2), 0..3),
            ((9, 2), 0..0),
            ((-1, -5), 0..0),
            ((13, 20), 0..0),
            ((0, -100), 0..1),
            ((i64::MIN, i64::MAX), 0..13),
        ];
        for ((start, end), expected) in cases {
            assert_eq!(byte_range(start, end, 13), expected, "{start} {end}");
        }
        assert_eq!(byte_range(0, -1, 0), 0..0);
    }

    #[test]
    fn sums_are_those_of_redis() {
        let cases = [
            ("0.1", "0.2", "0.3"),
            ("10.50", "0.1", "10.6"),
            ("3.0", "1.5", "4.5"),
            ("5.0e3", "200", "5200"),
            ("-1.5", "1.5", "0"),
            ("-0.25", "-.25", "-0.5"),
            ("1", "-3", "-2"),
            ("1e20", "1", "100000000000000000000"),
        ];
        for (one, other, expected) in cases {
            assert_eq!(sum_of_floats(one.as_bytes(), other.as_bytes()).unwrap(), expected, "{one} + {other}");
        }
        for wrong in ["", "a", " 1", "nan", "1.2.3"] {
            assert!(sum_of_floats(wrong.as_bytes(), b"1").is_err(), "{wrong}");
        }
        assert!(sum_of_floats(b"inf", b"1").is_err());
    }
}
