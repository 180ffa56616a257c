//! CRC-32C (Castagnoli), the checksum of everything on flash, computed with the widest instructions of the processor.
//! `docs/REPAIR.md` has its cost per lookup and the command that measures it.

use super::mix;
use crc_fast::CrcAlgorithm::Crc32Iscsi;
use crc_fast::Digest;

/// Returns the CRC-32C of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    #[cfg(feature = "count-work")]
    work::count(bytes);
    crc_fast::crc32_iscsi(bytes)
}

/// Continues a CRC-32C: `crc` is that of some bytes, the result that of the same bytes followed by `bytes`.
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    #[cfg(feature = "count-work")]
    work::count(bytes);
    // A digest keeps its state without the final inversion.
    let mut digest = Digest::new_with_init_state(Crc32Iscsi, u64::from(!crc));
    digest.update(bytes);
    digest.finalize() as u32
}

/// Returns the CRC-32C of the last `length` bytes of a sequence, started with `start`, from the CRC-32C of the `whole`
/// sequence and that of the `front` before those bytes. Reads no bytes: CRC is linear, so the contribution of the front
/// can be shifted and removed.
pub fn crc32c_behind(start: u32, front: u32, whole: u32, length: u64) -> u32 {
    whole ^ shift(front ^ start, length)
}

/// The polynomial, reflected as in the checksums.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// Multiplies two polynomials modulo that of the checksum. Bit 31 is the coefficient of x^0.
const fn product(one: u32, mut other: u32) -> u32 {
    let (mut sum, mut bit) = (0, 32);
    while bit > 0 {
        bit -= 1;
        if one >> bit & 1 == 1 {
            sum ^= other;
        }
        other = if other & 1 == 1 { other >> 1 ^ POLYNOMIAL } else { other >> 1 };
    }
    sum
}

/// `POWERS[n]` is x^(8 * 2^n): a multiplication by it appends 2^n zero bytes.
const POWERS: [u32; 64] = {
    let (mut powers, mut n) = ([0; 64], 1);
    powers[0] = 1 << (31 - 8);
    while n < 64 {
        powers[n] = product(powers[n - 1], powers[n - 1]);
        n += 1;
    }
    powers
};

/// Returns the contribution of `crc` after `length` more bytes.
fn shift(mut crc: u32, mut length: u64) -> u32 {
    // In any order of the bits: the factors commute.
    while length > 0 {
        crc = product(POWERS[length.trailing_zeros() as usize], crc);
        length &= length - 1;
    }
    crc
}

/// Counts the bytes that a thread computes checksums of, for tests of how work grows.
#[cfg(feature = "count-work")]
pub mod work {
    use std::cell::Cell;

    thread_local!(static SUMMED_BYTES: Cell<u64> = const { Cell::new(0) });

    pub(super) fn count(bytes: &[u8]) {
        SUMMED_BYTES.set(SUMMED_BYTES.get() + bytes.len() as u64);
    }

    /// Returns the number of bytes so far.
    pub fn summed_bytes() -> u64 {
        SUMMED_BYTES.get()
    }
}

/// A database's secret number. The checksums of its log start with it, so a user's value cannot imitate frames of the
/// log.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(u64);

impl Secret {
    /// Makes a secret of a number.
    pub const fn new(number: u64) -> Secret {
        Secret(number)
    }

    /// Returns the number, for the manifest and the dictionary of compressed values, which have it.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// Returns the checksum of `bytes` that are stored at `position`. CRC is linear in its start, so the start is a
    /// nonlinear hash of secret and position: a checksum known for one position says nothing about those of others.
    pub fn checksum(self, position: u64, bytes: &[u8]) -> u32 {
        crc32c_append(self.start(position), bytes)
    }

    /// Returns the checksum of zero bytes at `position`.
    pub fn start(self, position: u64) -> u32 {
        // The hash is not linear. With a linear start, one known checksum would give those of other positions.
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

    /// Computes it bit by bit with the reflected polynomial.
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
    fn that_of_the_end_follows_from_those_of_the_front_and_of_all() {
        let bytes: Vec<u8> = (0..2500u32).map(|at| (at * at / 11) as u8).collect();
        for (from, to) in [(0, 0), (0, 1), (0, 2500), (7, 7), (7, 8), (255, 1400), (1024, 2048), (1, 2500)] {
            for start in [0, crc32c(b"something")] {
                let (front, whole) = (crc32c(&bytes[..from]), crc32c(&bytes[..to]));
                let behind = crc32c_behind(start, front, whole, (to - from) as u64);
                assert_eq!(behind, crc32c_append(start, &bytes[from..to]), "{from}..{to}");
            }
        }
        assert_eq!(shift(7, 1 << 35), shift(shift(7, 1 << 34), 1 << 34));
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
