//! Keys, numbers, and times of expiry, as memcached takes them.

use super::BAD_FORMAT;
use crate::failure::{Failure, Outcome};
use crate::store::NEVER;

/// The longest key, in bytes.
const KEY_BYTES_MAX: usize = 250;

/// The largest time that is relative, in seconds: 30 days.
const RELATIVE_S_MAX: i64 = 60 * 60 * 24 * 30;

/// A time that has passed, in milliseconds since 1970. 0 would be [`NEVER`].
const PASSED_MS: u64 = 1;

/// Checks a key of the protocol. One that was sent in base 64 may have all bytes.
pub fn check_key(key: &[u8]) -> Outcome {
    match key.iter().any(u8::is_ascii_control) {
        true => Err(BAD_FORMAT),
        false => check_key_length(key),
    }
}

/// Checks the length of a key.
pub fn check_key_length(key: &[u8]) -> Outcome {
    if (1..=KEY_BYTES_MAX).contains(&key.len()) { Ok(()) } else { Err(BAD_FORMAT) }
}

/// Parses a number of 64 bits without a sign: spaces in front are skipped, and it ends at the first one after it.
pub fn unsigned(text: &[u8]) -> Option<u64> {
    let number = text.trim_ascii_start().split(u8::is_ascii_whitespace).next()?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

/// Parses the flags of a value.
pub fn client_flags(word: &[u8]) -> Result<u32, Failure> {
    unsigned(word).and_then(|flags| flags.try_into().ok()).ok_or(BAD_FORMAT)
}

/// Parses a number of seconds, which may be negative.
pub fn seconds(word: &[u8]) -> Option<i64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// Returns the time of a number of seconds, in milliseconds since 1970: from now on up to 30 days, and otherwise since
/// 1970. 0 is never, and a negative one has passed.
pub fn expiry(seconds: i64, now_ms: u64) -> u64 {
    match seconds {
        0 => NEVER,
        ..0 => PASSED_MS,
        1..=RELATIVE_S_MAX => now_ms + seconds as u64 * 1000,
        // At most the last time that the clients of Redis can ask for.
        _ => seconds.saturating_mul(1000) as u64,
    }
}

/// Returns the seconds until a time, as many as begin; -1 for [`NEVER`].
pub fn remaining_s(expires_at_ms: u64, now_ms: u64) -> i64 {
    match expires_at_ms {
        NEVER => -1,
        at_ms => i64::try_from(at_ms.saturating_sub(now_ms).div_ceil(1000)).unwrap_or(i64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_at_a_space() {
        for (text, number) in
            [("7", 7), (" 12  ", 12), ("18446744073709551615", u64::MAX), ("5 x", 5), ("+1", 1)]
        {
            assert_eq!(unsigned(text.as_bytes()), Some(number), "{text}");
        }
        for wrong in ["", " ", "-1", "1x", "18446744073709551616"] {
            assert_eq!(unsigned(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(client_flags(b"4294967295"), Ok(u32::MAX));
        assert_eq!(client_flags(b"4294967296"), Err(BAD_FORMAT));
    }

    #[test]
    fn times_are_relative_up_to_30_days() {
        let now_ms = 1_700_000_000_500;
        assert_eq!(expiry(0, now_ms), NEVER);
        assert_eq!(expiry(-1, now_ms), PASSED_MS);
        assert_eq!(expiry(2_592_000, now_ms), now_ms + 2_592_000_000);
        assert_eq!(expiry(2_592_001, now_ms), 2_592_001_000);
        assert_eq!(expiry(i64::MAX, now_ms), i64::MAX as u64);
        assert_eq!(remaining_s(expiry(30, now_ms), now_ms), 30);
        assert_eq!(remaining_s(now_ms + 1, now_ms), 1);
        assert_eq!(remaining_s(NEVER, now_ms), -1);
    }

    #[test]
    fn keys_have_up_to_250_bytes_without_control_characters() {
        assert!(check_key(&[b'k'; 250]).is_ok() && check_key("ключ".as_bytes()).is_ok());
        assert!(check_key(&[b'k'; 251]).is_err() && check_key(b"").is_err() && check_key(b"a\tb").is_err());
        assert!(check_key_length(&[0; 250]).is_ok());
    }
}
