//! Scans: pages of records in the order of the entries of the index. Each record costs a read, and the reads of a page
//! overlap.

use crate::batch::TimestampMs;
use crate::engine::flashkey::{Groups, IndexedLogs};
use crate::engine::{PageBuilder, Record, ScanLimit, ScanPage};
use crate::error::Result;
use std::ops::RangeInclusive;

/// The maximum number of records that are read together.
const RECORDS_AT_ONCE: usize = 128;

/// Reads one page of the records whose scan positions are in a range.
pub(super) fn scan(
    logs: &IndexedLogs,
    positions: RangeInclusive<u64>,
    limit: ScanLimit,
    now_ms: TimestampMs,
) -> Result<ScanPage> {
    let mut page = PageBuilder::new(limit);
    let mut next = (!positions.is_empty()).then_some(*positions.start());
    let (mut last, mut left) = (None, limit.records.max(1));
    while let Some(from) = next {
        if from > *positions.end() {
            break;
        }
        if page.is_full() {
            // The next entry is of a higher position than the last record.
            return Ok(page.finish(last.and_then(|last: u64| last.checked_add(1))));
        }
        let entries = left.clamp(1, RECORDS_AT_ONCE);
        let groups = Groups::read(logs, from, entries)?;
        next = groups.next;
        left = left.saturating_sub(groups.records.len());
        for (position, record) in groups.records {
            if !positions.contains(&position) || record.view().is_gone(now_ms) {
                continue;
            }
            let value = record.value.filter(|_| !limit.keys_only).unwrap_or_default().into();
            let record = Record { key: record.key.into(), value, expires_at_ms: record.expires_at_ms };
            if !page.push(position, || record) {
                return Ok(page.finish(None));
            }
            last = Some(position);
        }
    }
    Ok(page.finish(None))
}
