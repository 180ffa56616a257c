//! The sizes of filters and indexes, as measured, within 2 %.

use siltstone::engine::silt::{SiltSettings, costs};

/// The footer of a store file and its copies.
pub(crate) const FOOTER_BYTES: f64 = costs::FOOTER_BYTES as f64 * (1.0 + costs::FOOTER_COPIES as f64);
pub(crate) const FILE_ALIGNMENT: f64 = costs::FILE_ALIGNMENT as f64;
/// The memory of a list of fences or of exceptions that does not grow with it.
pub(super) const FENCES_BYTES: f64 = 28.0;
/// Bits of a block-perfect index per bucket.
const BUCKET_BITS: f64 = 11.0;
/// The share of a filter's memory that can be freed while the rest is in use.
const FREEABLE_SHARE: f64 = 0.94;

/// Returns the bytes of a ribbon filter: 0.036 bits per key over its rate, and some blocks of half-empty rows, as
/// measured with 100 to 3,000 keys.
pub(crate) fn ribbon_bytes(keys: f64, bits: f64) -> f64 {
    keys * (bits + 0.036) / 8.0 + (5.5 * bits + 40.0) * (keys / 600.0).powf(0.25)
}

/// Returns the bytes of Elias–Fano fences. On average each is 4 · records / blocks cells after the previous one.
pub(super) fn fences_bytes(records: f64, blocks: f64) -> f64 {
    ascending_bytes(blocks, 4.0 * records)
}

/// Returns the bytes of this many ascending numbers below an end, with Elias–Fano coding.
pub(crate) fn ascending_bytes(count: f64, end: f64) -> f64 {
    FENCES_BYTES + count * (2.87 + (end / count.max(1e-9)).max(1.0).log2()) / 8.0
}

/// Returns the bytes of the block-perfect index with b records in a block: the information, (log2 √(2πb)) / b bits per
/// record, the overhead of the search, and the cost of its buckets.
pub(super) fn block_perfect_bytes(records: f64, slots: f64, bucket_records: f64) -> f64 {
    let bits = 0.5 * (std::f64::consts::TAU * slots).log2() / slots + 0.0085 + 0.12 / slots;
    24.0 + records * (bits + BUCKET_BITS / bucket_records) / 8.0
}

/// Returns the share that is freed of the filters of what a merge of this many records has merged, before it ends: all
/// but a part of the merge, or a step if that is more; none if the new SortedStore has a filter.
pub(super) fn freed_share(records: f64, last_filter_bits: f64) -> f64 {
    let step_share = SiltSettings::default().step_records as f64 / records;
    let kept =
        if last_filter_bits > 0.0 { 1.0 } else { step_share.clamp(1.0 / costs::MERGE_PARTS as f64, 1.0) };
    FREEABLE_SHARE * (1.0 - kept)
}

/// Returns the tables of a LogStore with this many slots.
pub(crate) fn log_tables(slots: f64) -> f64 {
    if slots < costs::TABLES_SLOTS_MIN as f64 { 1.0 } else { costs::LOG_TABLES_MAX as f64 }
}

/// Returns the bytes of a length, seven bits per byte.
pub(crate) fn varint_bytes(length: f64) -> f64 {
    (length.max(1.0).log2() / 7.0).floor() + 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_takes_a_byte_for_seven_bits() {
        for (length, bytes) in [(0.0, 1.0), (1.0, 1.0), (127.0, 1.0), (128.0, 2.0), (16_384.0, 3.0)] {
            assert_eq!(varint_bytes(length), bytes, "{length}");
        }
    }
}
