//! More hashes out of one.

/// A number for each number, with every bit of the one depending on every bit of the other (the finalizer of
/// splitmix64, variant 13 of Stafford's). It is its own contract with every format that names it: it never changes.
#[inline]
pub(crate) fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
