//! A hash of 64-bit numbers.

/// Hashes a number: each bit of the result depends on each bit of the argument (the finalizer of splitmix64, Stafford's
/// variant 13). Formats on flash contain its results, so it must never change.
#[inline]
pub fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
