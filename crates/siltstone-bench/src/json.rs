//! Values that look like the JSON records of an application, for compression: names that repeat, and a few random
//! numbers and words.

use std::io::Write;

/// The minimum length of such a value, in bytes.
pub const LENGTH_MIN: usize = 64;
/// Each value begins with the number of its write, in as many hexadecimal digits.
const WRITE_DIGITS: usize = 16;
const BEGINNING: &[u8] = b"{\"write\":\"";
const NOTE: &[u8] = b",\"note\":\"";
const END: &[u8] = b"\"}";

const NAMES: [&str; 16] = [
    "Ada", "Alan", "Barbara", "Claude", "Donald", "Edsger", "Frances", "Grace", "Hedy", "John", "Ken",
    "Leslie", "Margaret", "Niklaus", "Radia", "Tony",
];
const CITIES: [&str; 8] = ["Berlin", "Boston", "Kyoto", "Lagos", "Lima", "Oslo", "Pune", "Zurich"];
const STATES: [&str; 4] = ["ordered", "paid", "shipped", "delivered"];
const WORDS: [&str; 32] = [
    "after", "all", "and", "at", "before", "box", "call", "customer", "delivery", "door", "for", "from",
    "gate", "in", "invoice", "leave", "left", "noon", "of", "on", "order", "package", "please", "ring",
    "street", "the", "then", "to", "two", "until", "week", "with",
];

/// Appends a value of `length` bytes to `value`. The words make what is random in it.
pub fn write(length: usize, write: u64, words: &mut impl Iterator<Item = u64>, value: &mut Vec<u8>) {
    let start = value.len();
    let mut word = || words.next().unwrap_or_default();
    value.extend_from_slice(BEGINNING);
    value.extend_from_slice(format!("{write:016x}\"").as_bytes());
    let mut field = Vec::new();
    for kind in 0..7 {
        field.clear();
        let random = word();
        let pick = |from: &[&'static str], shift: u32| from[(random >> shift) as usize % from.len()];
        // Writing to memory cannot fail.
        let _ = match kind {
            0 => write!(field, ",\"id\":{}", random >> 24),
            1 => write!(field, ",\"name\":\"{} {}\"", pick(&NAMES, 0), pick(&NAMES, 8)),
            2 => write!(field, ",\"email\":\"{}{}@example.com\"", pick(&NAMES, 0), random >> 50),
            3 => write!(
                field,
                ",\"address\":{{\"city\":\"{}\",\"zip\":\"{:05}\"}}",
                pick(&CITIES, 0),
                random >> 48
            ),
            4 => write!(
                field,
                ",\"created\":\"2026-{:02}-{:02}T{:02}:{:02}:00Z\"",
                random % 12 + 1,
                (random >> 8) % 28 + 1,
                (random >> 16) % 24,
                (random >> 24) % 60
            ),
            5 => {
                write!(field, ",\"amount\":{}.{:02},\"currency\":\"EUR\"", random >> 54, (random >> 8) % 100)
            }
            _ => write!(field, ",\"status\":\"{}\",\"express\":{}", pick(&STATES, 0), random >> 63 == 1),
        };
        if value.len() - start + field.len() + NOTE.len() + END.len() <= length {
            value.extend_from_slice(&field);
        }
    }
    value.extend_from_slice(NOTE);
    let note_end = start + length - END.len();
    while value.len() < note_end {
        let mut random = word();
        for _ in 0..8 {
            value.extend_from_slice(WORDS[random as usize % WORDS.len()].as_bytes());
            value.push(b' ');
            random >>= 8;
        }
    }
    value.truncate(note_end);
    value.extend_from_slice(END);
}

/// Returns the number of the write of a value.
pub fn write_of(value: &[u8]) -> Option<u64> {
    let digits = value.strip_prefix(BEGINNING)?.get(..WRITE_DIGITS)?;
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_json_of_the_length() {
        for length in (LENGTH_MIN..400).chain([10_000]) {
            let mut value = Vec::new();
            write(
                length,
                77,
                &mut (1..).map(|number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
                &mut value,
            );
            assert_eq!((value.len(), write_of(&value)), (length, Some(77)));
            let parsed: serde_json::Value = serde_json::from_slice(&value).unwrap();
            assert!(parsed["note"].is_string());
        }
    }
}
