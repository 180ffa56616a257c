//! The types that settings of engines can have: how their values are read, written and limited.

use std::ops::RangeInclusive;

/// The engine chooses.
const AUTO: &str = "auto";

/// A type that a setting can have.
pub trait SettingValue: Clone {
    /// What limits it.
    type Limits;

    /// Parses a value.
    fn parse(text: &str) -> Option<Self>;

    /// Returns the value as [`parse`](Self::parse) takes it.
    fn text(self) -> String;

    /// Returns whether the value is within its limits.
    fn is_within(&self, limits: Self::Limits) -> bool;

    /// Returns the limits, for users.
    fn limits_text(limits: Self::Limits) -> String;
}

/// Returns the number that a text such as `64MiB` is: the settings by name take it for numbers of bytes. The units are
/// KiB, MiB, GiB and TiB.
///
/// ```
/// assert_eq!(siltstone::parse_bytes("64MiB"), Some(64 << 20));
/// assert_eq!(siltstone::parse_bytes("1_000"), Some(1_000));
/// assert_eq!(siltstone::parse_bytes("64 megabytes"), None);
/// ```
pub fn parse_bytes(text: &str) -> Option<u64> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];
    let unit = units.into_iter().find_map(|(unit, bits)| Some((text.strip_suffix(unit)?, bits)));
    let (digits, bits) = unit.unwrap_or((text, 0));
    digits.trim().replace(['_', ','], "").parse::<u64>().ok()?.checked_mul(1 << bits)
}

macro_rules! numbers {
    ($($number:ty: $parse:expr;)*) => {$(
        impl SettingValue for $number {
            type Limits = RangeInclusive<$number>;

            fn parse(text: &str) -> Option<Self> {
                let parse: fn(&str) -> Option<$number> = $parse;
                parse(text)
            }

            fn text(self) -> String {
                self.to_string()
            }

            fn is_within(&self, limits: Self::Limits) -> bool {
                limits.contains(self)
            }

            fn limits_text(limits: Self::Limits) -> String {
                format!("{} to {}", limits.start(), limits.end())
            }
        }
    )*};
}

numbers! {
    f64: |text| text.parse().ok();
    u8: |text| parse_bytes(text)?.try_into().ok();
    u32: |text| parse_bytes(text)?.try_into().ok();
    u64: |text| parse_bytes(text);
    usize: |text| parse_bytes(text)?.try_into().ok();
}

/// A number, or `auto` for `None`.
impl SettingValue for Option<u8> {
    type Limits = RangeInclusive<u8>;

    fn parse(text: &str) -> Option<Self> {
        if text == AUTO { Some(None) } else { u8::parse(text).map(Some) }
    }

    fn text(self) -> String {
        self.map_or_else(|| AUTO.to_owned(), |number| number.text())
    }

    fn is_within(&self, limits: Self::Limits) -> bool {
        self.is_none_or(|number| number.is_within(limits))
    }

    fn limits_text(limits: Self::Limits) -> String {
        format!("{AUTO}, {}", u8::limits_text(limits))
    }
}

/// Implements [`SettingValue`] for a type with few values: from a list of names and values, or from an iterator of
/// pairs.
macro_rules! named_values {
    ($kind:ty { $($name:literal => $value:expr,)* }) => {
        $crate::engine::setting_value::named_values!($kind, [$(($name, $value)),*]);
    };
    ($kind:ty, $values:expr) => {
        impl $crate::engine::setting_value::SettingValue for $kind {
            type Limits = ();

            fn parse(text: &str) -> Option<Self> {
                let text = text.replace('-', "_");
                $values.into_iter().find(|(name, _)| *name == text).map(|(_, value)| value)
            }

            fn text(self) -> String {
                let named = $values.into_iter().find(|(_, value)| *value == self);
                named.map_or_else(String::new, |(name, _)| name.to_owned())
            }

            fn is_within(&self, (): ()) -> bool {
                true
            }

            fn limits_text((): ()) -> String {
                $values.into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(", ")
            }
        }
    };
}
pub(super) use named_values;

named_values!(bool, [("false", false), ("true", true)]);
