//! How many keys there are: counted in a sample. The last store has each key once, so its count is exact; how many keys
//! the younger stores add or remove is known only from merging them.
//!
//! Keys are in hash order, so the first records of a partition are a random sample of it. The stores are merged from
//! the beginning until enough records were read; what they added there is scaled to all records.

use super::Core;
use super::partition::Partition;
use super::snapshot::{PartitionSnapshot, cursor};
use crate::Result;
use crate::batch::TimestampMs;
use crate::store::merge::Cursor;

/// The records that are read of all partitions together. If all keys are new, the standard error is 0.6 %.
const SAMPLED_RECORDS: u64 = 32 << 10;
/// The records that are read of one partition, at the least.
const PARTITION_RECORDS_MIN: u64 = 512;
/// What is read at a time of each store, in bytes.
const PIECE_BYTES: usize = 16 << 10;

impl Core {
    /// About how many keys there are.
    pub(super) fn approximate_len(&self, now_ms: TimestampMs) -> Result<u64> {
        let sampled = (SAMPLED_RECORDS / self.partitions.len() as u64).max(PARTITION_RECORDS_MIN);
        let keys = self.partitions.iter().map(|partition| self.count_keys(partition, sampled, now_ms));
        Ok(keys.sum::<Result<f64>>()?.round() as u64)
    }

    fn count_keys(&self, partition: &Partition, sampled: u64, now_ms: TimestampMs) -> Result<f64> {
        let (snapshot, log) = PartitionSnapshot::take(partition, &self.log);
        let view = &snapshot.view;
        let sorted = view.sorted_records();
        let records = u64::from(snapshot.active.len()) + view.frozen_records() + view.hash_records() + sorted;
        if records == sorted {
            return Ok(sorted as f64);
        }
        let mut cursor = cursor(self, &snapshot, &log, now_ms, |_| PIECE_BYTES);
        let mut keys = 0;
        while cursor.advance()? {
            if cursor.passed() >= sampled {
                break;
            }
            keys += 1;
        }
        // The last source is the last store, if there is one.
        let sorted_passed = if sorted > 0 { cursor.passed_of_last() } else { 0 };
        let added = f64::from(keys) - sorted_passed as f64;
        Ok((sorted as f64 + added * records as f64 / cursor.passed().max(1) as f64).max(0.0))
    }
}
