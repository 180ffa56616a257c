//! The compression of values: which one a database has, and the bytes of compressed values.

#[cfg(feature = "compression")]
pub mod codec;

use crate::error::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// The level of Zstandard if none is stated.
const ZSTD_LEVEL_DEFAULT: u8 = 3;
/// The highest level of Zstandard. Higher ones need much memory, and have hardly any effect on single values.
const ZSTD_LEVEL_MAX: u8 = 19;
/// From here on, the first byte of a stored value is the number of the dictionary with which it is compressed.
pub(crate) const DICTIONARIES: u8 = 4;
/// The number of LZ4 in the header of a database. Levels of Zstandard have their own numbers.
const LZ4_NUMBER: u8 = 255;

/// How a database compresses its values; fixed when it is created: [`Builder::compression`].
///
/// Its text is `none`, `lz4` or `zstd:LEVEL`; `zstd` alone is level 3.
///
/// ```
/// use siltstone::Compression;
///
/// assert_eq!("zstd:9".parse::<Compression>()?, Compression::Zstd { level: 9 });
/// assert_eq!(Compression::Zstd { level: 3 }.to_string(), "zstd:3");
/// # Ok::<(), siltstone::Error>(())
/// ```
///
/// [`Builder::compression`]: crate::Builder::compression
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Compression {
    /// Values are stored as they are.
    #[default]
    None,
    /// LZ4, for values of some hundred bytes or more that repeat themselves.
    Lz4,
    /// Zstandard, with a dictionary that is trained on the first values.
    Zstd {
        /// From 1, the fastest, to 19, the smallest.
        level: u8,
    },
}

impl Compression {
    /// Returns the compression with this text.
    #[doc(hidden)]
    pub fn from_name(text: &str) -> Option<Compression> {
        let compression = match text.split_once(':') {
            None if text == "none" => Compression::None,
            None if text == "lz4" => Compression::Lz4,
            None if text == "zstd" => Compression::Zstd { level: ZSTD_LEVEL_DEFAULT },
            Some(("zstd", level)) => Compression::Zstd { level: level.parse().ok()? },
            _ => return None,
        };
        compression.is_possible().then_some(compression)
    }

    /// Returns whether the level is within its limits.
    pub(crate) fn is_possible(self) -> bool {
        match self {
            Compression::None | Compression::Lz4 => true,
            Compression::Zstd { level } => (1..=ZSTD_LEVEL_MAX).contains(&level),
        }
    }

    /// Returns the number in the header of a database.
    pub(crate) fn number(self) -> u8 {
        match self {
            Compression::None => 0,
            Compression::Lz4 => LZ4_NUMBER,
            Compression::Zstd { level } => level,
        }
    }

    /// Returns the compression with this number.
    pub(crate) fn from_number(number: u8) -> Option<Compression> {
        let compression = match number {
            0 => Compression::None,
            LZ4_NUMBER => Compression::Lz4,
            level => Compression::Zstd { level },
        };
        compression.is_possible().then_some(compression)
    }

    /// Checks that this program has the codec. `who` says what has the compression, and that it has it.
    pub(crate) fn check_feature(self, who: impl FnOnce() -> String) -> Result<()> {
        if cfg!(feature = "compression") || self == Compression::None {
            return Ok(());
        }
        let problem = format!(
            "{} values compressed with {self}, but this program was built without the feature `compression` of the \
             crate siltstone; build it with that feature",
            who()
        );
        Err(Error::Setting { name: "compression", problem })
    }

    /// Returns whether values may be compressed with a dictionary.
    pub(crate) fn has_dictionary(self) -> bool {
        matches!(self, Compression::Zstd { .. })
    }
}

/// Returns the number of the dictionary of a stored value, if it has one.
pub(crate) fn dictionary_of(stored: &[u8]) -> Option<u8> {
    stored.first().copied().filter(|first| *first >= DICTIONARIES)
}

impl FromStr for Compression {
    type Err = Error;

    fn from_str(text: &str) -> Result<Compression> {
        Compression::from_name(text).ok_or_else(|| {
            let problem = format!("`{text}` is not possible; use none, lz4, zstd, or zstd:1 to zstd:19");
            Error::Setting { name: "compression", problem }
        })
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Compression::None => to.write_str("none"),
            Compression::Lz4 => to.write_str("lz4"),
            Compression::Zstd { level } => write!(to, "zstd:{level}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts_are_those_of_one_compression() {
        let possible: Vec<_> = (0..=u8::MAX).filter_map(Compression::from_number).collect();
        assert_eq!(possible.len(), 21);
        for compression in possible {
            assert_eq!(Compression::from_number(compression.number()), Some(compression));
            assert_eq!(Compression::from_name(&compression.to_string()), Some(compression));
        }
        for text in ["", "zstd:", "zstd:0", "zstd:20", "zstd:-1", "lz4:1", "gzip", "ZSTD"] {
            assert_eq!(Compression::from_name(text), None, "{text}");
        }
    }
}
