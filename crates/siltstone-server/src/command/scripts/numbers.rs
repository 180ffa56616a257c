//! Numbers as C writes them, and Redis's generator of random numbers.

/// Returns a number with at most this many digits, as `%.{digits}g` of C writes it.
pub fn general(number: f64, digits: usize) -> String {
    if number.is_nan() {
        return if number.is_sign_negative() { "-nan" } else { "nan" }.to_owned();
    }
    if number.is_infinite() {
        return if number < 0.0 { "-inf" } else { "inf" }.to_owned();
    }
    if number.fract() == 0.0 && number.abs() < 1e14 && (number != 0.0 || number.is_sign_positive()) {
        return (number as i64).to_string();
    }
    let scientific = format!("{number:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..digits as i32).contains(&exponent) {
        let fraction = (digits as i32 - 1 - exponent).max(0) as usize;
        without_zeros(&format!("{number:.fraction$}")).to_owned()
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.unsigned_abs())
    }
}

/// Returns a number without the zeros at the end of its fraction.
fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// Returns the whole part of a number, as C converts it on most machines: what does not fit is the least number.
pub fn truncated(number: f64) -> i64 {
    // 2^63, the first number that is too large.
    const END: f64 = 9_223_372_036_854_775_808.0;
    if (-END..END).contains(&number) { number as i64 } else { i64::MIN }
}

/// The generator of math.random: that of `lrand48`, so a seed has the same numbers as in Redis.
pub struct Random(u64);

/// The state has 48 bits.
const STATE_MASK: u64 = (1 << 48) - 1;

impl Random {
    /// Begins with a seed.
    pub fn new(seed: i32) -> Random {
        Random((u64::from(seed as u32) << 16) | 0x330e)
    }

    /// Returns a number from 0 up to, and without, 1.
    pub fn fraction(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & STATE_MASK;
        let number = (self.0 >> 17) as i32;
        f64::from(number % i32::MAX) / f64::from(i32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_c_writes_them() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (3.0, "3"),
            (-17.0, "-17"),
            (0.1, "0.1"),
            (1e14, "1e+14"),
            (123_456_789_012_345.0, "1.2345678901234e+14"),
            (99_999_999_999_999.0, "99999999999999"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (-2.5e-7, "-2.5e-07"),
            (1e100, "1e+100"),
            (1.0 / 3.0, "0.33333333333333"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (number, expected) in cases {
            assert_eq!(general(number, 14), expected);
        }
        assert_eq!(general(0.1, 17), "0.10000000000000001");
        assert_eq!(general(1e16, 17), "10000000000000000");
        assert_eq!(general(1e17, 17), "1e+17");
    }

    #[test]
    fn numbers_that_do_not_fit_are_the_least_one() {
        assert_eq!(truncated(3.99), 3);
        assert_eq!(truncated(-3.99), -3);
        for number in [1e300, f64::NAN, 9_223_372_036_854_775_808.0, f64::INFINITY] {
            assert_eq!(truncated(number), i64::MIN);
        }
        assert_eq!(truncated(-9_223_372_036_854_775_808.0), i64::MIN);
    }
}
