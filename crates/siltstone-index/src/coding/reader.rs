//! Reads little-endian fields one after another from untrusted bytes.

/// A position in bytes. A read that would pass the end returns `None` and does not move.
#[derive(Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes, at: 0 }
    }

    /// Returns the number of bytes read.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Returns the next `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        // Checked, because the count may be any number of untrusted bytes.
        let end = self.at.checked_add(count)?;
        let field = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(field)
    }

    /// Returns the next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    /// Reads the next byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    /// Reads the next two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Reads the next four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Reads the next eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a number of variable length, with 1 to 10 bytes.
    pub fn varint(&mut self) -> Option<u64> {
        let (start, mut number) = (self.at, 0);
        for shift in (0..64).step_by(7) {
            let Some(byte) = self.u8() else { break };
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has one bit; others would be lost.
            if bits << shift >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        // As after every failed read, nothing is consumed.
        self.at = start;
        None
    }
}
