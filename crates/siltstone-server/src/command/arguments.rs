//! Numbers and options of the words of a command.

use crate::failure::Failure;
use crate::protocol::number;

/// Parses a whole number, as Redis does.
pub fn integer(word: &[u8]) -> Result<i64, Failure> {
    number(word).ok_or(Failure::NOT_AN_INTEGER)
}

/// Returns whether a word is this option, whatever its case.
pub fn is(word: &[u8], option: &str) -> bool {
    word.eq_ignore_ascii_case(option.as_bytes())
}

/// Returns the range of bytes that Redis's `start` and `end` name in a value: both inclusive, negative from the end.
pub fn byte_range(start: i64, end: i64, length: usize) -> std::ops::Range<usize> {
    let length = length as i64;
    let from_end = |at: i64| if at < 0 { at.saturating_add(length) } else { at };
    if start < 0 && end < 0 && start > end {
        return 0..0;
    }
    let (start, end) = (from_end(start).max(0), from_end(end).max(0).min(length - 1));
    if start > end || length == 0 { 0..0 } else { start as usize..end as usize + 1 }
}

/// The digits after the point of a sum, as in Redis.
const FRACTION_DIGITS: u32 = 17;

/// A word is no number with a fraction.
const NOT_A_FLOAT: Failure = Failure::new("ERR value is not a valid float");

/// Returns the sum of two numbers with fractions, as Redis writes it: with at most 17 digits after the point, and none
/// that are not needed. Redis adds with 64 bits of precision, so sums of short decimal numbers are exact.
///
/// # Errors
/// A word that is no number, or a sum that is infinite.
pub fn sum_of_floats(one: &[u8], other: &[u8]) -> Result<String, Failure> {
    let sum = float(one)? + float(other)?;
    if !sum.is_finite() {
        return Err(Failure::new("ERR increment would produce NaN or Infinity"));
    }
    let exact = decimal(one).zip(decimal(other)).and_then(|(one, other)| one.checked_add(other));
    Ok(match exact {
        Some(sum) => show_decimal(sum),
        None => format!("{sum}"),
    })
}

fn float(word: &[u8]) -> Result<f64, Failure> {
    let text = std::str::from_utf8(word).ok().filter(|text| !text.is_empty() && text.len() < 256);
    let number = text.and_then(|text| text.parse::<f64>().ok()).filter(|number| !number.is_nan());
    number.ok_or(NOT_A_FLOAT)
}

/// Returns a number in units of its last possible digit, if it has no more digits than that and no exponent.
fn decimal(word: &[u8]) -> Option<i128> {
    let text = std::str::from_utf8(word).ok()?;
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let fraction_digits = u32::try_from(fraction.len()).ok().filter(|length| *length <= FRACTION_DIGITS)?;
    let is_plain =
        whole.len() <= 18 && whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit());
    let number: i128 = format!("0{whole}{fraction}").parse().ok().filter(|_| is_plain)?;
    let scaled = number * 10i128.pow(FRACTION_DIGITS - fraction_digits);
    Some(if is_negative { -scaled } else { scaled })
}

fn show_decimal(number: i128) -> String {
    let unit = 10u128.pow(FRACTION_DIGITS);
    let (whole, fraction) = (number.unsigned_abs() / unit, number.unsigned_abs() % unit);
    let sign = if number < 0 { "-" } else { "" };
    let text = format!("{sign}{whole}.{fraction:017}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
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
    fn sums_are_exact_where_redis_shows_them_so() {
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
