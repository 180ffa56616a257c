//! The settings of a log with an index.

use super::policy::Victim;

/// The settings of a database whose data is in logs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LogSettings {
    /// The bytes of finished segments per byte of live records.
    pub space: f64,
    /// The most bytes of the logs.
    pub capacity: u64,
    /// The bits of a hash that the index keeps.
    pub hash_bits: u32,
    /// Which segment is cleaned next.
    pub victim: Victim,
    /// The number of logs for moved records.
    pub classes: u8,
    /// The size of a segment, in bytes.
    pub segment_bytes: u64,
    /// The share of keys with an unconfirmed overwriting from which the index is searched for them.
    pub sweep_at: f64,
    /// Whether the keys are kept in order as well.
    pub ordered: bool,
}
