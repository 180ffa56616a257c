//! Scans: main buckets ascend with the hashes of their keys, so a page is a run of buckets, each sorted on its own.

use super::Mica;
use crate::batch::TimestampMs;
use crate::engine::{PageBuilder, Record, ScanLimit, ScanPage, by_partition};
use bytes::Bytes;
use siltstone_mica::Space;
use std::ops::RangeInclusive;

impl<S: Space> Mica<S> {
    /// Returns one page of the records at these positions. Writers to a partition wait while the page reads from it.
    pub(super) fn scan_page(
        &self,
        positions: RangeInclusive<u64>,
        limit: ScanLimit,
        now_ms: TimestampMs,
    ) -> ScanPage {
        let mut page = PageBuilder::new(limit);
        let mut bucket_records: Vec<(u64, Record)> = Vec::new();
        for (number, positions) in by_partition(positions, self.partition_bits) {
            if page.is_full() {
                // No record is passed by this: equal positions are all in one partition.
                return page.finish(Some(*positions.start()));
            }
            // One partition at a time: a page need not be of one moment.
            let owner = self.partitions[number].owner.lock();
            let bucket_of = |position: &u64| owner.bucket_of(*position);
            for bucket in bucket_of(positions.start())..=bucket_of(positions.end()) {
                owner.for_each_in_bucket(bucket, now_ms, |key, value, expires_at_ms| {
                    let position = self.hasher.hash(key).placement;
                    // The first and the last bucket may also have records outside of the range.
                    if positions.contains(&position) {
                        let value =
                            if limit.keys_only { Bytes::new() } else { Bytes::copy_from_slice(value) };
                        let key = Bytes::copy_from_slice(key);
                        bucket_records.push((position, Record { key, value, expires_at_ms }));
                    }
                });
                bucket_records
                    .sort_unstable_by(|one, other| (one.0, &one.1.key).cmp(&(other.0, &other.1.key)));
                for (position, record) in bucket_records.drain(..) {
                    if !page.push(position, || record) {
                        // What is left of the bucket is read again for the next page.
                        return page.finish(None);
                    }
                }
            }
        }
        page.finish(None)
    }
}
