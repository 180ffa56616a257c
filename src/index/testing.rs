//! Helpers for the tests of this module.

use super::DecodeError;
use crate::coding::mix;
use std::path::Path;

/// A sequence of uniform pseudo-random numbers (splitmix64).
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns `count` pairs of a placement and a fingerprint.
    pub(crate) fn keys(&mut self, count: usize) -> Vec<(u64, u64)> {
        (0..count).map(|_| (self.next(), self.next())).collect()
    }

    /// Returns the same in ascending order.
    pub(crate) fn sorted_keys(&mut self, count: usize) -> Vec<(u64, u64)> {
        let mut keys = self.keys(count);
        keys.sort_unstable();
        keys
    }
}

/// Compares the bytes of a structure with the golden file `name`. `SILTSTONE_BLESS=1` overwrites the file; only a new
/// version of the format justifies that.
pub(crate) fn assert_golden(name: &str, bytes: &[u8]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/index").join(name);
    if std::env::var_os("SILTSTONE_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
    }
    let golden = std::fs::read(&path).unwrap();
    assert!(golden == bytes, "{} has {} other bytes", path.display(), golden.len());
}

/// Damages the bytes of a structure: decodes prefixes, the bytes with one more at the end, and the bytes with each of
/// the first 64 and a sample of the rest changed. Prefixes and added bytes must be refused; what can still be decoded
/// is passed to `ask`, which must not panic.
pub(crate) fn assert_withstands_damage<T>(
    bytes: &[u8],
    decode: impl Fn(&[u8]) -> Result<T, DecodeError>,
    ask: impl Fn(&T),
) {
    for end in (0..bytes.len().min(200)).chain([bytes.len() - 1]) {
        assert!(decode(&bytes[..end]).is_err(), "a prefix of {end} bytes");
    }
    assert!(decode(&[bytes, &[0]].concat()).is_err(), "a byte too many");
    let stride = (bytes.len() / 100).max(1);
    for at in (0..bytes.len().min(64)).chain((64..bytes.len()).step_by(stride)) {
        for flip in [0x01, 0x10, 0x80, 0xff] {
            let mut damaged = bytes.to_vec();
            damaged[at] ^= flip;
            if let Ok(structure) = decode(&damaged) {
                ask(&structure);
            }
        }
    }
}
