//! The number of keys: exact by a merge of all stores, or estimated from a sample.
//!
//! The SortedStore has each key once, so its count is exact. How many keys the newer stores add or remove is known only
//! after a merge.
//!
//! Keys are in hash order, so the first records of a partition are a random sample of it. The stores are merged from
//! the start until enough records were read, and the number of keys that the newer stores added is extrapolated.

use super::partitions::Partitions;
use super::snapshot::{READ_BYTES, cursor};
use crate::batch::TimestampMs;
use crate::engine::{GoOn, pass};
use crate::error::Result;
use crate::key::PartitionHasher;
use crate::store::merge::Cursor;

/// The number of records that are read of all partitions. If all keys are new, the standard error is 0.6 %.
const SAMPLED_RECORDS: u64 = 32 << 10;
/// The number of records that are read of each partition, at least.
const PARTITION_RECORDS_MIN: u64 = 512;
/// The size of a read of each store for a sample, in bytes.
const SAMPLE_READ_BYTES: usize = 16 << 10;

/// Returns the exact number of keys of one moment. Reads all records, in the memory of an iterator.
pub(super) fn count_keys(
    partitions: &Partitions,
    hasher: PartitionHasher,
    now_ms: TimestampMs,
    go_on: &mut GoOn<'_>,
) -> Result<u64> {
    let (snapshots, log) = partitions.snapshot();
    let (mut keys, mut passed) = (0, 0);
    for snapshot in snapshots {
        let mut cursor = cursor(hasher, &snapshot, &log, None, |_| READ_BYTES);
        while cursor.advance()? {
            passed += 1;
            pass(passed, go_on)?;
            keys += u64::from(cursor.entry().is_some_and(|entry| !entry.record.is_gone(now_ms)));
        }
    }
    Ok(keys)
}

/// Returns the number of keys, about.
pub(super) fn approximate_len(
    partitions: &Partitions,
    hasher: PartitionHasher,
    now_ms: TimestampMs,
) -> Result<u64> {
    let sampled = (SAMPLED_RECORDS / partitions.len() as u64).max(PARTITION_RECORDS_MIN);
    let keys = (0..partitions.len()).map(|number| sample_keys(partitions, number, hasher, sampled, now_ms));
    Ok(keys.sum::<Result<f64>>()?.round() as u64)
}

fn sample_keys(
    partitions: &Partitions,
    number: usize,
    hasher: PartitionHasher,
    sampled: u64,
    now_ms: TimestampMs,
) -> Result<f64> {
    let (snapshot, log) = partitions.snapshot_of(number);
    let (records, sorted) = (snapshot.records(), snapshot.view.sorted_records());
    if records == sorted {
        return Ok(sorted as f64);
    }
    let mut cursor = cursor(hasher, &snapshot, &log, Some(now_ms), |_| SAMPLE_READ_BYTES);
    let mut keys = 0;
    while cursor.advance()? {
        if cursor.passed() >= sampled {
            break;
        }
        keys += 1;
    }
    // The last source is the SortedStore, if there is one.
    let sorted_passed = if sorted > 0 { cursor.passed_of_last() } else { 0 };
    let added = f64::from(keys) - sorted_passed as f64;
    Ok((sorted as f64 + added * records as f64 / cursor.passed().max(1) as f64).max(0.0))
}
