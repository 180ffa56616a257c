//! Parses and formats counts, bytes, rates and times with their units.

use std::fmt::Display;
use std::time::Duration;

/// Seconds in a year.
const YEAR_S: f64 = 365.25 * 86_400.0;
/// Below this, whole numbers are exact.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
/// Units. Of two names for one unit, the later one is printed.
const DECIMAL: [(&str, f64); 6] = [("", 1.0), ("K", 1e3), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12)];
const BINARY: [(&str, f64); 5] =
    [("", 1.0), ("Ki", 1024.0), ("Mi", 1048576.0), ("Gi", 1073741824.0), ("Ti", 1099511627776.0)];
const TIMES: [(&str, f64); 9] = [
    ("ms", 1e-3),
    ("", 1.0),
    ("s", 1.0),
    ("m", 60.0),
    ("min", 60.0),
    ("h", 3600.0),
    ("d", 86_400.0),
    ("mo", YEAR_S / 12.0),
    ("y", YEAR_S),
];

/// Splits a text into the number at its beginning and the rest.
fn number(text: &str) -> Result<(f64, &str), String> {
    let is_number = |end: &usize| text.get(..*end).is_some_and(|text| text.parse::<f64>().is_ok());
    let end = (1..=text.len()).rev().find(is_number);
    let (digits, unit) = end.and_then(|end| text.split_at_checked(end)).ok_or("expected a number")?;
    let value: f64 = digits.parse().map_err(|_| "expected a number")?;
    if value.is_finite() && value >= 0.0 {
        Ok((value, unit.trim()))
    } else {
        Err("expected 0 or more".into())
    }
}

fn with_unit(text: &str, units: &[(&str, f64)]) -> Result<f64, String> {
    let (value, unit) = number(text)?;
    let found = units.iter().find(|(name, _)| *name == unit);
    let names: Vec<&str> = units.iter().map(|(name, _)| *name).filter(|name| !name.is_empty()).collect();
    // Finite: `1e308T` is no number.
    found
        .map(|(_, factor)| value * factor)
        .filter(|value| value.is_finite())
        .ok_or_else(|| format!("unknown unit {unit:?}; use {}", names.join(", ")))
}

/// Parses a count such as `1e9`, `250M` or `64Ki`.
pub fn parse_count(text: &str) -> Result<f64, String> {
    with_unit(text, &DECIMAL)
        .or_else(|_| with_unit(text, &BINARY))
        .map_err(|_| format!("{text:?} is not a number; use one such as 5000, 1e6, 10k, 250M or 64Ki"))
}

/// Parses bytes such as `2GiB`, `1TB`, `64M`, `4096`.
pub fn parse_bytes(text: &str) -> Result<f64, String> {
    parse_count(text.strip_suffix('B').unwrap_or(text))
        .map_err(|_| format!("{text:?} is not a number of bytes; use one such as 4096, 64kB, 2GB or 512MiB"))
}

/// Parses a share in percent: a whole number up to 100.
pub fn parse_percent(text: &str) -> Result<u8, String> {
    let percent = parse_whole::<u8>(text).ok().filter(|percent| *percent <= 100);
    percent.ok_or_else(|| format!("expected a whole number from 0 to 100, not {text}"))
}

/// Whether a difference from a value is at most that of rounding a decimal and its product with a unit.
fn is_rounding(difference: f64, value: f64) -> bool {
    difference.abs() <= value * f64::EPSILON * 2.0
}

/// Parses a whole number of things or bytes, like [`parse_bytes`], within the range of the type.
pub fn parse_whole<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    // Digits alone are parsed exactly, however large.
    let value = text.parse::<u64>().or_else(|_| match parse_bytes(text) {
        Ok(value) if value.fract() == 0.0 && value < u64::MAX as f64 => Ok(value as u64),
        // Decimals are rounded: `16.1k` is 16100.000000000002.
        Ok(value) if value < EXACT_MAX && is_rounding(value - value.round(), value) => {
            Ok(value.round() as u64)
        }
        Ok(_) => Err(format!("{text} is not a whole number")),
        Err(_) => Err(format!("{text:?} is not a number; use one such as 5000, 1e6, 10k, 250M or 64KiB")),
    })?;
    T::try_from(value).map_err(|_| format!("{text} is too large"))
}

/// Like [`parse_whole`], from `least` to `most`.
pub fn parse_within<T>(
    least: T,
    most: T,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: TryFrom<u64> + PartialOrd + Copy + Display + Send + Sync + 'static,
{
    move |text| match parse_whole(text)? {
        value if (least..=most).contains(&value) => Ok(value),
        value => Err(format!("{value} is out of range; use {least} to {most}")),
    }
}

/// Formats a number of things with their name: `1 record`, `2 records`.
pub fn counted(number: u64, name: &str) -> String {
    format!("{number} {name}{}", if number == 1 { "" } else { "s" })
}

/// Parses a rate such as `5000/s` or `20k/min`; without a slash, a count per second.
pub fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = match text.split_once('/') {
        Some((count, time)) => match TIMES.iter().find(|(name, _)| *name == time && !name.is_empty()) {
            Some((_, seconds)) => parse_count(count).map(|count| count / seconds),
            None => Err(String::new()),
        },
        None => parse_count(text),
    };
    let rate = rate.and_then(|rate| if rate.is_finite() { Ok(rate) } else { Err(String::new()) });
    rate.map_err(|_| format!("{text:?} is not a rate; use one such as 5000/s, 20k/min or 1M"))
}

/// Parses bytes per second such as `500MB/s`.
pub fn parse_byte_rate(text: &str) -> Result<f64, String> {
    parse_bytes(text.strip_suffix("/s").unwrap_or(text))
}

/// Parses a time such as `90s`, `15m`, `12h`, `30d` or `500ms`; without a unit, seconds.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let too_long = |_| format!("{text} is too long");
    Duration::try_from_secs_f64(parse_time_s(text)?).map_err(too_long)
}

/// Parses a time in seconds, such as `3y` or `18mo`.
pub fn parse_time_s(text: &str) -> Result<f64, String> {
    with_unit(text, &TIMES)
        .map_err(|_| format!("{text:?} is not a time; use one such as 500ms, 90s, 15m, 12h or 30d"))
}

/// Formats a number with few digits and the prefix of its size.
pub fn show_count(value: f64) -> String {
    let (name, factor) = prefix(value, &DECIMAL);
    format!("{}{name}", short(value / factor))
}

/// Formats bytes with their unit.
pub fn show_bytes(value: f64) -> String {
    let (name, factor) = prefix(value, &BINARY);
    format!("{} {name}B", short(value / factor))
}

/// Formats seconds in the largest unit that is not larger.
pub fn show_time(seconds: f64) -> String {
    if seconds.is_infinite() {
        return "forever".to_owned();
    }
    let (name, factor) = prefix(seconds, &TIMES);
    format!("{} {name}", short(seconds / factor))
}

/// Returns the largest unit that is not above the value, or else the smallest.
fn prefix(value: f64, units: &[(&'static str, f64)]) -> (&'static str, f64) {
    let fits = units.iter().rev().find(|(_, factor)| value >= *factor).or(units.first());
    fits.copied().unwrap_or(("", 1.0))
}

/// Formats with at least three digits.
fn short(value: f64) -> String {
    let digits = (2 - value.abs().max(1e-3).log10().floor() as i32).clamp(0, 5) as usize;
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_with_their_units() {
        assert_eq!(parse_count("1e9"), Ok(1e9));
        assert_eq!(parse_count("250M"), Ok(250e6));
        assert!(parse_count("1e308T").is_err());
        assert_eq!(parse_rate("5/s"), Ok(5.0));
        for text in ["5/", "5/0s", "5/.5s", "5/1 s", "1e308/ms"] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
        assert_eq!(parse_bytes("2GiB"), Ok(2.0 * 1024f64.powi(3)));
        assert_eq!(parse_bytes("1TB"), Ok(1e12));
        assert_eq!(parse_bytes("4096"), Ok(4096.0));
        assert_eq!(parse_whole::<u64>("1e6"), Ok(1_000_000));
        assert_eq!(parse_whole::<u64>("1GiB"), Ok(1 << 30));
        assert_eq!(parse_whole::<usize>("1.5k"), Ok(1500));
        assert_eq!(parse_whole::<usize>("1K"), Ok(1000));
        assert_eq!(parse_whole::<usize>("16.1k"), Ok(16_100));
        assert_eq!(parse_whole::<usize>("4.1M"), Ok(4_100_000));
        assert_eq!(parse_whole::<usize>("0.1Ki").ok(), None);
        assert_eq!(parse_whole::<u64>("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(parse_within(1u64, 10)("10"), Ok(10));
        assert_eq!(parse_time("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_time("15"), Ok(Duration::from_secs(15)));
        assert_eq!(parse_time("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_time("2d"), Ok(Duration::from_secs(172_800)));
        assert_eq!(parse_rate("5000/s"), Ok(5000.0));
        assert_eq!(parse_rate("6k/min"), Ok(100.0));
        assert_eq!(parse_byte_rate("500MB/s"), Ok(500e6));
        assert_eq!(parse_time_s("3y"), Ok(3.0 * YEAR_S));
    }

    #[test]
    fn invalid_quantities_are_refused() {
        for wrong in ["", "e9", "-1", "nan", "1Q", "inf"] {
            assert!(parse_count(wrong).is_err() && parse_whole::<u64>(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "s", "5x", "99999999999999999999y", "-1s"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
        assert!(parse_time("tomorrow").is_err_and(|said| said.contains("tomorrow") && said.contains("90s")));
        assert!(parse_rate("fast").is_err_and(|said| said.contains("fast") && said.contains("20k/min")));
        assert!(parse_whole::<u64>("1.0001k").is_err() && parse_whole::<u64>("1e-300").is_err());
        assert!(parse_whole::<u64>("1.5").is_err() && parse_whole::<u8>("256").is_err());
        assert!(parse_whole::<u64>("18446744073709551616").is_err());
        assert!(parse_within(1u64, 10)("0").is_err() && parse_within(1u64, 10)("1e2").is_err());
        assert!(parse_bytes("2GiBi").is_err() && parse_time_s("3 moons").is_err());
        assert!(parse_rate("5/parsec").is_err());
    }

    #[test]
    fn quantities_are_shown_in_few_digits() {
        assert_eq!(show_count(1e9), "1G");
        assert_eq!(show_count(1e4), "10k");
        assert_eq!(show_bytes(1.5 * 1024.0), "1.5 KiB");
        assert_eq!(show_time(3.15 * YEAR_S), "3.15 y");
        assert_eq!(show_time(0.988), "988 ms");
        assert_eq!(show_time(120.0), "2 min");
        assert_eq!(counted(1, "record") + &counted(2, " place"), "1 record2  places");
        assert_eq!(show_count(0.734), "0.734");
        assert_eq!(show_time(f64::INFINITY), "forever");
    }
}
