//! What the tests of this room share.

use super::DecodeError;
use crate::coding::mix;
use std::path::Path;

/// A sequence of well-mixed numbers (splitmix64).
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// So many pairs of a placement and a fingerprint.
    pub(crate) fn keys(&mut self, count: usize) -> Vec<(u64, u64)> {
        (0..count).map(|_| (self.next(), self.next())).collect()
    }

    /// The same, in ascending order.
    pub(crate) fn sorted_keys(&mut self, count: usize) -> Vec<(u64, u64)> {
        let mut keys = self.keys(count);
        keys.sort_unstable();
        keys
    }
}

/// Holds the bytes of a structure to the golden file of this name. `SILTSTONE_BLESS=1` writes the file anew, which only
/// a new version of the format excuses.
pub(crate) fn assert_golden(name: &str, bytes: &[u8]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/index").join(name);
    if std::env::var_os("SILTSTONE_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
    }
    let golden = std::fs::read(&path).unwrap();
    assert!(golden == bytes, "{} has {} other bytes", path.display(), golden.len());
}

/// Damages the bytes of a structure in every way that is cheap to try: each prefix, a byte too many, and each byte of
/// the first 64 and some of the rest changed. Whatever can still be decoded is handed to `ask`, which must not panic.
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
