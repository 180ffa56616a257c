//! Numbers with a mantissa of 64 bits, as processors of x86 have them. Redis adds with these, so the replies of
//! INCRBYFLOAT show their precision: 1000.1 + 0 is 1000.09999999999999998.

/// The digits after the point that are shown, as in Redis.
const FRACTION_DIGITS: u32 = 17;

/// The most digits after the point that are parsed: with one more, a step of the division would not fit 128 bits.
const PARSED_FRACTION_DIGITS: u32 = 19;

/// The bits below those of the larger number that an addition keeps of the smaller one.
const GUARD_BITS: u32 = 62;

/// A number: the mantissa, divided by 2 to the power of the scale. The highest bit of the mantissa is 1 unless it is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extended {
    is_negative: bool,
    mantissa: u64,
    scale: i32,
}

impl Extended {
    /// Returns the number that is nearest to a decimal one; `None` if that has more than 19 digits after the point, is
    /// not below 2^126, or is no number.
    pub fn parse(word: &[u8]) -> Option<Extended> {
        let text = std::str::from_utf8(word).ok()?;
        let (is_negative, text) = match text.strip_prefix('-') {
            Some(text) => (true, text),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (decimal, exponent) = match text.split_once(['e', 'E']) {
            Some((decimal, exponent)) => (decimal, exponent.parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (whole, fraction) = decimal.split_once('.').unwrap_or((decimal, ""));
        if !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
        let fraction_digits = i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
        let digits = digits.checked_mul(10u128.checked_pow((-fraction_digits).max(0).try_into().ok()?)?)?;
        let fraction_digits = u32::try_from(fraction_digits.max(0)).ok()?;
        let divisor = (fraction_digits <= PARSED_FRACTION_DIGITS).then(|| 10u128.pow(fraction_digits))?;
        Extended::quotient(is_negative, digits, divisor)
    }

    fn quotient(is_negative: bool, number: u128, divisor: u128) -> Option<Extended> {
        if number == 0 {
            return Some(Extended { is_negative: false, mantissa: 0, scale: 0 });
        }
        let limit = divisor << 64;
        if number >= limit {
            // Of the digits after the point only their presence decides the rounding.
            let quotient = Some(number / divisor).filter(|quotient| quotient >> 126 == 0)?;
            let is_inexact = u128::from(!number.is_multiple_of(divisor));
            return Some(Extended::normalised(is_negative, quotient << 2 | is_inexact, 2));
        }
        let is_below = |scale: &u32| number.leading_zeros() >= *scale && number << *scale < limit;
        let scale = (0..128).take_while(is_below).last()?;
        let (quotient, rest) = ((number << scale) / divisor, (number << scale) % divisor);
        let is_up = 2 * rest > divisor || 2 * rest == divisor && quotient & 1 == 1;
        Some(Extended::normalised(is_negative, quotient + u128::from(is_up), scale as i32))
    }

    /// Returns the number with the nearest mantissa, the even one of two that are equally near.
    fn normalised(is_negative: bool, number: u128, scale: i32) -> Extended {
        let excess = 64 - number.leading_zeros() as i32;
        let (mantissa, scale) = match u32::try_from(excess) {
            Ok(bits) => (halves(number, bits), scale - excess),
            Err(_) => (number << -excess, scale - excess),
        };
        match u64::try_from(mantissa) {
            Ok(0) => Extended { is_negative: false, mantissa: 0, scale: 0 },
            Ok(mantissa) => Extended { is_negative, mantissa, scale },
            Err(_) => Extended { is_negative, mantissa: 1 << 63, scale: scale - 1 },
        }
    }

    /// Returns the sum.
    pub fn add(self, other: Extended) -> Extended {
        let (large, small) = match (self.mantissa, other.mantissa) {
            (0, _) => return other,
            (_, 0) => return self,
            _ if self.scale <= other.scale => (self, other),
            _ => (other, self),
        };
        let whole = i128::from(large.mantissa) << GUARD_BITS;
        let unshifted = i128::from(small.mantissa) << GUARD_BITS;
        let shift = (small.scale - large.scale).unsigned_abs().min(127);
        // What is lost below the guard bits is one bit that only decides a rounding.
        let is_inexact = unshifted >> shift << shift != unshifted;
        let part = unshifted >> shift | i128::from(is_inexact);
        let signed = |number: Extended, part: i128| if number.is_negative { -part } else { part };
        let sum = signed(large, whole) + signed(small, part);
        Extended::normalised(sum < 0, sum.unsigned_abs(), large.scale + GUARD_BITS as i32)
    }

    /// Returns the number with at most 17 digits after the point, and none that are not needed.
    pub fn show(self) -> String {
        let sign = if self.is_negative { "-" } else { "" };
        let Ok(scale) = u32::try_from(self.scale) else {
            // A sum of two numbers below 2^126.
            return format!("{sign}{}", u128::from(self.mantissa) << self.scale.unsigned_abs());
        };
        let unit = 10u128.pow(FRACTION_DIGITS);
        let units = halves(u128::from(self.mantissa) * unit, scale);
        if units == 0 {
            return "0".to_owned();
        }
        let text = format!("{sign}{}.{:017}", units / unit, units % unit);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// Divides by a power of 2, and rounds to the nearest number, to the even one of two.
fn halves(number: u128, bits: u32) -> u128 {
    match bits {
        0 => number,
        1..128 => {
            let (quotient, rest, half) = (number >> bits, number & ((1 << bits) - 1), 1u128 << (bits - 1));
            quotient + u128::from(rest > half || rest == half && quotient & 1 == 1)
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_have_the_digits_that_redis_shows() {
        // Replies of Redis 7.0 on x86 to SET k first, INCRBYFLOAT k second.
        let cases = [
            ("1000.1", "0", "1000.09999999999999998"),
            ("0.1", "0.2", "0.3"),
            ("10.50", "0.1", "10.6"),
            ("5.0e3", "200", "5200"),
            ("-1.5", "1.5", "0"),
            ("-0.25", "-.25", "-0.5"),
            ("1e-3", "3.", "3.001"),
            ("123456789.123", "-0.001", "123456789.1220000000030268"),
            ("9223372036854775807", "0.5", "9223372036854775807.5"),
            ("-9223372036854775808", "-1.5", "-9223372036854775810"),
            ("9223372036854775807", "9223372036854775807", "18446744073709551614"),
            ("18446744073709551615", "18446744073709551615", "36893488147419103230"),
            ("0.00000000000000001", "-0.00000000000000002", "-0.00000000000000001"),
            ("1e-18", "-2e-18", "0"),
            ("1234.56", "1e-17", "1234.56000000000000005"),
            ("1", "-1e-19", "1"),
            ("99999.99999", "0.00001", "100000"),
            ("-0", "0", "0"),
        ];
        for (first, second, expected) in cases {
            let number = |text: &str| Extended::parse(text.as_bytes()).unwrap();
            assert_eq!(number(first).add(number(second)).show(), expected, "{first} + {second}");
        }
        let large = Extended::parse(b"2.5e37").unwrap().add(Extended::parse(b".5").unwrap());
        assert_eq!(large.show(), "24999999999999999999828150112149831680");
        let large = Extended::parse(b"-92233720368547758083.25").unwrap();
        assert_eq!(large.add(Extended::parse(b"2.5e3").unwrap()).show(), "-92233720368547755584");
        for other in [
            "",
            "a",
            "1e",
            "1.2.3",
            "170141183460469231731687303715884105728",
            "1e-20",
            "inf",
            "1e99999999999",
        ] {
            assert_eq!(Extended::parse(other.as_bytes()), None, "{other}");
        }
    }
}
