//! The notation of bytes: as text, with escapes, or in hex.

use anyhow::{Context, bail};
use clap::Args;
use data_encoding::{BASE64, HEXLOWER_PERMISSIVE};
use std::borrow::Cow;
use std::fmt::Write;

/// The flags for the notation of keys and values.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct NotationArgs {
    /// Read and write keys and values in hex
    #[arg(long, conflicts_with = "escaped")]
    pub hex: bool,
    /// Read keys and values with escapes (\n \t \r \\ \xNN), as `list` prints them
    #[arg(long)]
    pub escaped: bool,
}

/// A notation of bytes as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notation {
    /// The bytes themselves.
    Plain,
    /// Unprintable bytes as `\xNN`, `\n`, `\t` or `\r`; backslashes doubled.
    Escaped,
    /// Two hex digits per byte.
    Hex,
}

impl NotationArgs {
    /// Returns the notation of arguments.
    pub fn typed(self) -> Notation {
        match self {
            NotationArgs { hex: true, .. } => Notation::Hex,
            NotationArgs { escaped: true, .. } => Notation::Escaped,
            _ => Notation::Plain,
        }
    }

    /// Returns whether bytes are printed in hex.
    pub fn is_hex(self) -> bool {
        self.hex
    }

    /// Returns the notation of lists, which have one item per line.
    pub fn listed(self) -> Notation {
        if self.hex { Notation::Hex } else { Notation::Escaped }
    }
}

/// Returns a path on one line, as `list` prints keys: what is not printable is escaped.
pub fn shown(path: &std::path::Path) -> String {
    Notation::Escaped.show(path.as_os_str().as_encoded_bytes())
}

/// Adds a name to a JSON object: as text under `field`, or, if it is no UTF-8, in Base64 under `field_base64`.
pub fn insert_name(object: &mut serde_json::Map<String, serde_json::Value>, field: &str, name: &[u8]) {
    match std::str::from_utf8(name) {
        Ok(text) => object.insert(field.to_owned(), text.into()),
        Err(_) => object.insert(format!("{field}_base64"), BASE64.encode(name).into()),
    };
}

impl Notation {
    /// Parses `text`.
    pub fn parse(self, text: &[u8]) -> anyhow::Result<Vec<u8>> {
        match self {
            Notation::Plain => Ok(text.to_vec()),
            Notation::Hex => HEXLOWER_PERMISSIVE
                .decode(text.trim_ascii())
                .context("invalid hex; expected an even number of digits 0-9, a-f"),
            Notation::Escaped => unescape(text),
        }
    }

    /// Formats `bytes`, unless they are written as they are.
    pub fn bytes(self, bytes: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Notation::Plain => bytes.into(),
            notation => notation.show(bytes).into_bytes().into(),
        }
    }

    /// Formats `bytes` on one line.
    pub fn show(self, bytes: &[u8]) -> String {
        match self {
            Notation::Hex => HEXLOWER_PERMISSIVE.encode(bytes),
            Notation::Plain | Notation::Escaped => escape(bytes),
        }
    }
}

fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    let escape_byte = |text: &mut String, byte: u8| {
        let _ = write!(text, "\\x{byte:02x}");
    };
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\t' => text.push_str("\\t"),
                '\r' => text.push_str("\\r"),
                _ if character.is_control() => {
                    let mut bytes = [0; 4];
                    character.encode_utf8(&mut bytes).bytes().for_each(|byte| escape_byte(&mut text, byte));
                }
                _ => text.push(character),
            }
        }
        chunk.invalid().iter().for_each(|&byte| escape_byte(&mut text, byte));
    }
    text
}

fn unescape(text: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        let (byte, tail) = match rest {
            [b'\\', tail @ ..] => (b'\\', tail),
            [b'n', tail @ ..] => (b'\n', tail),
            [b't', tail @ ..] => (b'\t', tail),
            [b'r', tail @ ..] => (b'\r', tail),
            [b'x', high, low, tail @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                let digit = |digit: u8| (digit as char).to_digit(16).unwrap_or_default() as u8;
                (digit(*high) << 4 | digit(*low), tail)
            }
            _ => {
                bail!("invalid escape; use \\n, \\t, \\r, \\xNN, or \\\\ for a backslash")
            }
        };
        bytes.push(byte);
        rest = tail;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_bytes_can_be_typed_again() {
        let all: Vec<u8> = (0..=255).chain("grün\u{85}\\x41".bytes()).collect();
        for notation in [Notation::Escaped, Notation::Hex] {
            let shown = notation.show(&all);
            assert!(!shown.chars().any(char::is_control), "{notation:?}");
            assert_eq!(notation.parse(shown.as_bytes()).unwrap(), all, "{notation:?}");
        }
    }

    #[test]
    fn invalid_notation_is_refused() {
        for (notation, text) in [
            (Notation::Hex, "abc"),
            (Notation::Hex, "xy"),
            (Notation::Escaped, "a\\"),
            (Notation::Escaped, "\\x4"),
            (Notation::Escaped, "\\q"),
        ] {
            assert!(notation.parse(text.as_bytes()).is_err(), "{text}");
        }
        assert_eq!(Notation::Hex.parse(b"AbCd\n").unwrap(), [0xab, 0xcd]);
    }
}
