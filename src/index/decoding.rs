//! Reading the structures of this room back from bytes that are not trusted.

use super::DecodeError;

/// What a reader says that it wants, where it is not there.
type Expected = &'static str;

/// A place in the bytes of one structure. All numbers are little endian.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    structure: &'static str,
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    /// Starts at the first byte, and reads the magic and the version, which every format begins with.
    pub(crate) fn new(
        structure: &'static str,
        bytes: &'a [u8],
        magic: [u8; 4],
        version: u16,
    ) -> Result<Self, DecodeError> {
        let mut reader = Self { structure, bytes, offset: 0 };
        let got: [u8; 4] = reader.array("a magic")?;
        reader.check(4, got == magic, || format!("the magic {magic:02x?}"), || format!("{got:02x?}"))?;
        let got = reader.u16("a version")?;
        reader.check(2, got == version, || format!("version {version}"), || got.to_string())?;
        Ok(reader)
    }

    /// The next bytes, which must be there.
    pub(crate) fn take(&mut self, count: usize, expected: Expected) -> Result<&'a [u8], DecodeError> {
        let rest = &self.bytes[self.offset..];
        let taken = rest.get(..count).ok_or_else(|| {
            self.error(self.offset, format!("{count} bytes of {expected}"), format!("{} bytes", rest.len()))
        })?;
        self.offset += count;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, expected: Expected) -> Result<[u8; N], DecodeError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N, expected)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self, expected: Expected) -> Result<u8, DecodeError> {
        self.array(expected).map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self, expected: Expected) -> Result<u16, DecodeError> {
        self.array(expected).map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self, expected: Expected) -> Result<u32, DecodeError> {
        self.array(expected).map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self, expected: Expected) -> Result<u64, DecodeError> {
        self.array(expected).map(u64::from_le_bytes)
    }

    /// So many 64-bit words.
    pub(crate) fn words(&mut self, count: usize, expected: Expected) -> Result<Vec<u64>, DecodeError> {
        let bytes = self.take(count.saturating_mul(8), expected)?;
        Ok(bytes.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word)).collect())
    }

    /// An error unless `allowed`, about the last `width` bytes read.
    pub(crate) fn check(
        &self,
        width: usize,
        allowed: bool,
        expected: impl FnOnce() -> String,
        got: impl FnOnce() -> String,
    ) -> Result<(), DecodeError> {
        if allowed { Ok(()) } else { Err(self.error(self.offset - width, expected(), got())) }
    }

    /// An error at a place of the bytes.
    pub(crate) fn error(&self, offset: usize, expected: String, got: String) -> DecodeError {
        DecodeError { structure: self.structure, offset, expected, got }
    }

    /// An error unless every byte was read.
    pub(crate) fn end(self) -> Result<(), DecodeError> {
        let left = self.bytes.len() - self.offset;
        self.check(0, left == 0, || "the end".into(), || format!("{left} more bytes"))
    }
}
