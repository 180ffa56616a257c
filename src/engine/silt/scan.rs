//! Scans: a merge of all stores of a partition, as in an iteration, that begins at a position.
//!
//! A page holds the state of a partition only while it is read. Every store seeks the first record of the page:
//!
//! | store | seek |
//! |---|---|
//! | LogStore | region and tag of its index, in memory |
//! | in hash order | the block that its index names; a search of some blocks if the index is on flash |
//! | in buckets (perfect index) | the first block of the bucket; all its 512 records are read |
//! | cuckoo table | its region; all its records are read: some thousand |
//!
//! The last piece that a page reads of a store is read again by the next page. A scan of stores in hash order reads
//! about one block per store and page more than an iteration, and an eighth of the page if that is more.
//!
//! The position of a record is the placement of its key, 64 bits, and records are returned in the order of their
//! positions. This order is the order of the partitions and of the records in every store, so it survives writes,
//! conversions, merges and restarts.
//!
//! 1. A page begins at a position, which selects a partition. Under the partition's shared lock the scan takes the
//!    view and the LogStore's index, as a snapshot does, but of this partition only.
//! 2. Each store seeks the first record of the page: by the index if it is in memory, else by an interpolation search.
//!    In a bucket of a perfect index and in a region of a cuckoo table the records have no order, so these are read as
//!    a whole.
//! 3. A cursor merges the stores as an iteration does, until the limit is reached; at the end of the partition the
//!    page continues in the next one. Records of equal positions are never divided between two pages. The next page
//!    begins one position after the last record.

use super::parts::Parts;
use super::snapshot::{READ_BYTES, cursor};
use super::view::PartitionSnapshot;
use crate::batch::TimestampMs;
use crate::engine::{PageBuilder, Record, ScanLimit, ScanPage, by_partition};
use crate::error::Result;
use crate::store::merge::Cursor;
use std::ops::RangeInclusive;

/// How many reads of a store a page takes, if the records of all stores are of one size.
const READS_PER_PAGE: f64 = 4.0;

/// Reads one page of the records whose scan positions are in a range.
pub(super) fn scan(
    parts: &Parts,
    positions: RangeInclusive<u64>,
    limit: ScanLimit,
    now_ms: TimestampMs,
) -> Result<ScanPage> {
    let Parts { configuration, partitions, .. } = parts;
    let partitions_log2 = configuration.hasher.partitions_log2;
    let mut page = PageBuilder::new(limit);
    for (number, positions) in by_partition(positions, partitions_log2) {
        if page.is_full() {
            return Ok(page.finish(Some(*positions.start())));
        }
        // One partition at a time: a page holds no stores and no log for those that it does not reach.
        let (snapshot, log) = partitions.snapshot_of(number);
        let share = share_of_page(&snapshot, limit);
        let block_bytes = configuration.header.block_bytes as usize;
        let read_bytes = |store_bytes: u64| {
            let bytes = store_bytes as f64 * share / READS_PER_PAGE;
            (bytes as usize).clamp(block_bytes, block_bytes.max(READ_BYTES))
        };
        let mut cursor = cursor(configuration.hasher, &snapshot, &log, Some(now_ms), read_bytes);
        // The bits that select the partition are not part of the placement within it.
        cursor.seek(positions.start() << partitions_log2)?;
        while cursor.advance()? {
            let Some(entry) = cursor.entry() else { break };
            let position = entry.hash.whole_placement(number, partitions_log2);
            if position > *positions.end() {
                break;
            }
            if !page.push(position, || Record::copy_of(&entry.record, limit.keys_only)) {
                return Ok(page.finish(None));
            }
        }
    }
    Ok(page.finish(None))
}

/// Returns about which share of a partition's records a page holds.
fn share_of_page(snapshot: &PartitionSnapshot, limit: ScanLimit) -> f64 {
    let by_records = limit.records.max(1) as f64 / snapshot.records().max(1) as f64;
    by_records.min(limit.bytes as f64 / snapshot.view.disk_bytes().max(1) as f64).min(1.0)
}
