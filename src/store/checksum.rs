//! The checksum of everything on flash: CRC-32C (Castagnoli), by the widest instructions that the processor has.
//! docs/REPAIR.md has what it costs a lookup, and the command that measures it.

use crate::index::mixing::mix;
use crc_fast::CrcAlgorithm::Crc32Iscsi;
use crc_fast::Digest;

/// The CRC-32C of these bytes.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// The CRC-32C of bytes whose own is `crc`, and of these behind them.
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    // The state is kept without the inversion at the end.
    let mut digest = Digest::new_with_init_state(Crc32Iscsi, u64::from(!crc));
    digest.update(bytes);
    digest.finalize() as u32
}

/// A secret of a database. The checksums of its log start with it, so that bytes which somebody had stored as a value
/// do not pass for the log's own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(u64);

impl Secret {
    /// This number as a secret.
    pub const fn new(number: u64) -> Secret {
        Secret(number)
    }

    /// The number, for the manifest, which alone holds it.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// The CRC-32C of `bytes` that stand at `position`. CRC is linear, so what it starts with is not: a checksum that
    /// was guessed for one position tells nothing about those of others.
    pub fn checksum(self, position: u64, bytes: &[u8]) -> u32 {
        crc32c_append(self.start(position), bytes)
    }

    /// The checksum of no bytes at `position`.
    pub fn start(self, position: u64) -> u32 {
        crc32c(&mix(self.0 ^ position).to_le_bytes())
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bit after bit, by the reflected polynomial.
    fn obvious(bytes: &[u8]) -> u32 {
        let register = bytes.iter().fold(u32::MAX, |register, &byte| {
            (0..8).fold(register ^ u32::from(byte), |register, _| {
                (register >> 1) ^ if register & 1 == 1 { 0x82f6_3b78 } else { 0 }
            })
        });
        !register
    }

    #[test]
    fn it_is_the_one_of_the_standard() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(b""), 0);
    }

    #[test]
    fn it_is_the_same_in_one_piece_and_in_two_whatever_their_lengths_and_places() {
        let bytes: Vec<u8> = (0..1500u32).map(|at| (at * at / 7) as u8).collect();
        for start in [0, 1, 7, 64] {
            for length in (0..300).chain([511, 512, 1024, 1400]) {
                let bytes = &bytes[start..start + length];
                let expected = obvious(bytes);
                assert_eq!(crc32c(bytes), expected, "{length} bytes from {start}");
                let (one, other) = bytes.split_at(length / 3);
                assert_eq!(crc32c_append(crc32c(one), other), expected, "{length} bytes from {start}");
            }
        }
    }
}
