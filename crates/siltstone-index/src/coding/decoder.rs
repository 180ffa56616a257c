//! Decodes a structure from untrusted bytes, with errors that name the structure and the offset.

use super::Reader;
use std::fmt;

/// The bytes do not decode to the structure that was expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError {
    /// The name of the structure, as users know it.
    pub structure: &'static str,
    /// The offset in the decoded bytes.
    pub offset: usize,
    /// What the format requires there.
    pub expected: String,
    /// What was found.
    pub got: String,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DecodeError { structure, offset, expected, got } = self;
        write!(to, "{structure}: at byte {offset}: expected {expected}, got {got}")
    }
}

impl std::error::Error for DecodeError {}

/// What a read expects, for its error message.
type Expected = &'static str;

/// A [`Reader`] of one structure. All numbers are little-endian.
#[derive(Debug)]
pub struct Decoder<'a> {
    structure: &'static str,
    bytes: &'a [u8],
    reader: Reader<'a>,
}

impl<'a> Decoder<'a> {
    /// Reads the magic number and the version, with which every format begins.
    pub fn new<const N: usize>(
        structure: &'static str,
        bytes: &'a [u8],
        magic: [u8; N],
        version: u16,
    ) -> Result<Self, DecodeError> {
        let mut decoder = Self { structure, bytes, reader: Reader::new(bytes) };
        let got: [u8; N] = decoder.array("a magic number")?;
        decoder.check(N, got == magic, || format!("the magic {magic:02x?}"), || format!("{got:02x?}"))?;
        let got = decoder.u16("a version")?;
        decoder.check(2, got == version, || format!("version {version}"), || got.to_string())?;
        Ok(decoder)
    }

    /// Returns the next `count` bytes.
    pub fn take(&mut self, count: usize, expected: Expected) -> Result<&'a [u8], DecodeError> {
        self.reader.bytes(count).ok_or_else(|| self.too_few(count, expected))
    }

    /// Returns the next `N` bytes.
    pub fn array<const N: usize>(&mut self, expected: Expected) -> Result<[u8; N], DecodeError> {
        self.reader.array().ok_or_else(|| self.too_few(N, expected))
    }

    /// Returns the next `count` arrays of `N` bytes.
    pub fn arrays<const N: usize>(
        &mut self,
        count: u64,
        expected: Expected,
    ) -> Result<&'a [[u8; N]], DecodeError> {
        // A number of bytes that does not fit becomes one that `take` refuses.
        let bytes = usize::try_from(count.saturating_mul(N as u64)).unwrap_or(usize::MAX);
        Ok(self.take(bytes, expected)?.as_chunks().0)
    }

    fn too_few(&self, count: usize, expected: Expected) -> DecodeError {
        let left = self.bytes.len() - self.reader.at();
        self.error(self.reader.at(), format!("{count} bytes of {expected}"), format!("{left} bytes"))
    }

    /// Returns the next byte.
    pub fn u8(&mut self, expected: Expected) -> Result<u8, DecodeError> {
        self.array(expected).map(u8::from_le_bytes)
    }

    /// Returns the next number of 16 bits, little-endian.
    pub fn u16(&mut self, expected: Expected) -> Result<u16, DecodeError> {
        self.array(expected).map(u16::from_le_bytes)
    }

    /// Returns the next number of 32 bits, little-endian.
    pub fn u32(&mut self, expected: Expected) -> Result<u32, DecodeError> {
        self.array(expected).map(u32::from_le_bytes)
    }

    /// Returns the next number of 64 bits, little-endian.
    pub fn u64(&mut self, expected: Expected) -> Result<u64, DecodeError> {
        self.array(expected).map(u64::from_le_bytes)
    }

    /// Reads a 64-bit number of at most `limit`.
    pub fn at_most(&mut self, limit: u64, expected: Expected) -> Result<u64, DecodeError> {
        let got = self.u64(expected)?;
        self.check(8, got <= limit, || format!("{expected}: at most {limit}"), || got.to_string())?;
        Ok(got)
    }

    /// Reads a number of variable length.
    pub fn varint(&mut self, expected: Expected) -> Result<u64, DecodeError> {
        self.reader.varint().ok_or_else(|| self.unexpected(expected, "the end or too large a number"))
    }

    /// Returns whether all bytes were read.
    pub fn is_at_end(&self) -> bool {
        self.reader.at() == self.bytes.len()
    }

    /// Reads `count` 64-bit words.
    pub fn words(&mut self, count: usize, expected: Expected) -> Result<Vec<u64>, DecodeError> {
        // Taken before memory is allocated, so a damaged count reserves none.
        let bytes = self.take(count.saturating_mul(8), expected)?;
        Ok(bytes.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word)).collect())
    }

    /// Returns an error about the last `width` bytes read unless they are `allowed`.
    pub fn check(
        &self,
        width: usize,
        allowed: bool,
        expected: impl FnOnce() -> String,
        got: impl FnOnce() -> String,
    ) -> Result<(), DecodeError> {
        // The last `width` bytes were read, so the difference is not negative.
        if allowed { Ok(()) } else { Err(self.error(self.reader.at() - width, expected(), got())) }
    }

    /// Returns an error about the bytes after those read so far.
    pub fn unexpected(&self, expected: impl ToString, got: impl ToString) -> DecodeError {
        self.error(self.reader.at(), expected.to_string(), got.to_string())
    }

    /// Returns an error at an offset in the bytes.
    pub fn error(&self, offset: usize, expected: String, got: String) -> DecodeError {
        DecodeError { structure: self.structure, offset, expected, got }
    }

    /// Returns an error unless all bytes were read.
    pub fn end(self) -> Result<(), DecodeError> {
        let left = self.bytes.len() - self.reader.at();
        self.check(0, left == 0, || "the end".into(), || format!("{left} more bytes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoder() -> Decoder<'static> {
        Decoder::new("list", b"LIST\x02\x00\x07\x08\x09", *b"LIST", 2).unwrap()
    }

    fn message<T: fmt::Debug>(result: Result<T, DecodeError>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn an_error_names_the_structure_the_offset_and_the_bytes_that_are_left() {
        let other = |magic, version| message(Decoder::new("list", b"LIST\x02\x00", magic, version));
        assert!(other(*b"TREE", 2).starts_with("list: at byte 0: expected the magic [54, 52, 45, 45]"));
        assert_eq!(other(*b"LIST", 3), "list: at byte 4: expected version 3, got 2");
        assert_eq!(
            message(decoder().u32("a length")),
            "list: at byte 6: expected 4 bytes of a length, got 3 bytes"
        );
        let mut read = decoder();
        assert_eq!((read.u8("a width").unwrap(), read.is_at_end()), (7, false));
        let refused = read.check(1, false, || "at most 6".into(), || "7".into());
        assert_eq!(message(refused), "list: at byte 6: expected at most 6, got 7");
        assert_eq!(message(read.end()), "list: at byte 7: expected the end, got 2 more bytes");
        let mut read = decoder();
        assert_eq!(read.take(3, "numbers").unwrap(), [7, 8, 9]);
        assert!(read.is_at_end() && read.end().is_ok());
    }

    #[test]
    fn a_number_of_bytes_that_no_memory_has_is_refused() {
        assert!(decoder().arrays::<8>(u64::MAX, "numbers").is_err());
        assert!(decoder().words(usize::MAX, "words").is_err());
        assert!(decoder().arrays::<1>(4, "numbers").is_err() && decoder().arrays::<1>(3, "numbers").is_ok());
    }
}
