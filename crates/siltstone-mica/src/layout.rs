//! What items have in common, their limits, and when they expire.

/// A time: milliseconds since the Unix epoch.
pub type TimestampMs = u64;

/// The expiry time of an item that does not expire.
pub const NEVER: TimestampMs = 0;

/// The maximum length of a key, in bytes.
pub const KEY_LENGTH_MAX: usize = 65_535;
/// The maximum length of a value, in bytes.
pub const VALUE_LENGTH_MAX: usize = 256 << 20;

/// What all items of a partition have in common.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ItemLayout {
    /// The lengths of all keys and all values, in bytes, if they are fixed: items then store no lengths.
    pub fixed: Option<(usize, usize)>,
    /// Whether items of fixed lengths have space for an expiry time; other items have it as needed.
    pub expiring: bool,
}

/// Returns whether an item with this expiry time has expired.
#[inline]
pub(crate) fn has_expired(expires_at_ms: TimestampMs, now_ms: TimestampMs) -> bool {
    expires_at_ms != NEVER && expires_at_ms <= now_ms
}
