//! Scans: reading all records in pages, with nothing held between two pages.
//!
//! A record has a *scan position*: the placement hash of its key, 64 bits. An engine returns records in the order of
//! their positions, so a position is all that a scan needs to continue. It stays valid after writes, merges and
//! restarts, for as long as the database exists.
//!
//! ```text
//! position   0 ......................................................... 2^64 - 1
//! records      a   b      c d        e  f          g     h i     j
//! pages      [ a   b      c ][ d     e  f ][       g     h i ][  j              ]
//! next                      ^             ^                   ^                   none
//! ```
//!
//! A position never changes and a scan never goes back, so a key is returned at most once, and exactly once if it is
//! present during the whole scan. Keys of equal positions are never divided between two pages.

use super::Record;
use bytes::Bytes;
use std::ops::RangeInclusive;

/// How much one page of a scan holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanLimit {
    /// The page ends after this many records. 0 means 1.
    pub records: usize,
    /// The page ends when its keys and values have at least this many bytes.
    pub bytes: usize,
    /// Records have empty values, which count no bytes, are not copied and not decompressed.
    pub keys_only: bool,
}

impl From<usize> for ScanLimit {
    /// Returns a limit on the number of records alone.
    fn from(records: usize) -> Self {
        ScanLimit { records, bytes: usize::MAX, keys_only: false }
    }
}

/// One page of a scan.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScanPage {
    /// The records, in the order of their scan positions. A page may be empty although more records follow.
    pub records: Vec<Record>,
    /// The scan position at which the next page begins; `None` after the last page. Never 0.
    pub next: Option<u64>,
}

/// Fills a page with records in the order of their positions.
pub struct PageBuilder {
    limit: ScanLimit,
    page: ScanPage,
    bytes: usize,
    last_position: u64,
}

impl PageBuilder {
    /// Creates an empty page.
    pub fn new(limit: ScanLimit) -> PageBuilder {
        PageBuilder { limit, page: ScanPage::default(), bytes: 0, last_position: 0 }
    }

    /// Returns whether the limit is reached. Only records of the last position are added from then on.
    pub fn is_full(&self) -> bool {
        self.page.records.len() >= self.limit.records.max(1) || self.bytes >= self.limit.bytes.max(1)
    }

    /// Adds a record. Returns false, and adds nothing, if the record belongs to the next page.
    pub fn push(&mut self, position: u64, record: impl FnOnce() -> Record) -> bool {
        if self.is_full() && position != self.last_position {
            // The position is higher than the last one, so this does not overflow.
            self.page.next = self.last_position.checked_add(1);
            return false;
        }
        let mut record = record();
        if self.limit.keys_only {
            // An engine that has copied the value need not think of it.
            record.value = Bytes::new();
        }
        self.last_position = position;
        self.bytes += record.key.len() + record.value.len();
        self.page.records.push(record);
        true
    }

    /// Returns the page, which continues at `next` unless a record was refused before.
    pub fn finish(self, next: Option<u64>) -> ScanPage {
        // A record that was refused says where the next page begins, whatever else the caller knows.
        ScanPage { next: self.page.next.or(next), records: self.page.records }
    }
}

/// Divides a range of positions among the 2^`partitions_log2` partitions that the highest bits select: the number of
/// each partition that has positions of the range, and these positions.
pub(crate) fn by_partition(
    positions: RangeInclusive<u64>,
    partitions_log2: u32,
) -> impl Iterator<Item = (usize, RangeInclusive<u64>)> {
    let (first, last) = positions.into_inner();
    let shift = u64::BITS - partitions_log2;
    // With one partition the shift is 64.
    let partition_of = move |position: u64| position.checked_shr(shift).unwrap_or(0);
    let start_of = move |partition: u64| partition.checked_shl(shift).unwrap_or(0);
    let partitions = partition_of(first)..=partition_of(last);
    let divided = partitions.map(move |partition| {
        let start = start_of(partition);
        let end = start | u64::MAX.checked_shr(partitions_log2).unwrap_or(0);
        (partition as usize, first.max(start)..=last.min(end))
    });
    divided.filter(|(_, positions)| !positions.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::NEVER;

    fn pushed(builder: &mut PageBuilder, position: u64) -> bool {
        let key = Bytes::copy_from_slice(&position.to_le_bytes());
        builder.push(position, || Record { key, value: Bytes::from_static(&[0; 92]), expires_at_ms: NEVER })
    }

    #[test]
    fn a_page_ends_at_either_limit_but_not_between_equal_positions() {
        for limit in [ScanLimit::from(2), ScanLimit { bytes: 101, ..ScanLimit::from(100) }] {
            let mut builder = PageBuilder::new(limit);
            assert!([1, 7, 7, 7].into_iter().all(|position| pushed(&mut builder, position)));
            assert!(builder.is_full() && !pushed(&mut builder, 9));
            let page = builder.finish(None);
            assert_eq!((page.records.len(), page.next), (4, Some(8)));
        }
    }

    #[test]
    fn partitions_divide_a_range_without_gaps() {
        let mut random = fastrand::Rng::with_seed(3);
        for partitions_log2 in [0, 1, 4, 10] {
            for _ in 0..100 {
                let (one, other) = (random.u64(..), random.u64(..));
                let divided: Vec<_> =
                    by_partition(one.min(other)..=one.max(other), partitions_log2).collect();
                let (first, last) = (&divided[0].1, &divided[divided.len() - 1].1);
                assert_eq!((*first.start(), *last.end()), (one.min(other), one.max(other)));
                assert!(divided.windows(2).all(|pair| pair[0].1.end() + 1 == *pair[1].1.start()));
                let hash = |placement| crate::key::KeyHash { placement, fingerprint: 0 };
                assert!(divided.iter().all(|(number, positions)| {
                    [positions.start(), positions.end()]
                        .iter()
                        .all(|position| hash(**position).partition(partitions_log2) == *number)
                }));
            }
            for (first, last) in [(7, 6), (u64::MAX, 0)] {
                assert_eq!(by_partition(first..=last, partitions_log2).count(), 0);
            }
            assert_eq!(by_partition(0..=u64::MAX, partitions_log2).count(), 1 << partitions_log2);
        }
    }

    #[test]
    fn a_page_holds_at_least_one_record() {
        for limit in [ScanLimit::from(0), ScanLimit { bytes: 0, ..ScanLimit::from(100) }] {
            let mut builder = PageBuilder::new(limit);
            assert!(pushed(&mut builder, u64::MAX) && pushed(&mut builder, u64::MAX));
            assert_eq!(builder.finish(None).next, None);
        }
    }
}
