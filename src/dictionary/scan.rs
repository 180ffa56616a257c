//! Scans: reading all records in pages, as those of a database.

use super::Dictionary;
use crate::engine::{PageBuilder, Record, ScanLimit, ScanPage};
use crate::error::Result;
use crate::store::merge::Cursor;
use crate::store::table::OrderedCursor;
use siltstone_device::Purpose;

/// About the bytes of a record besides those of its key and its value.
const RECORD_BYTES: usize = 4;

/// The shortest and the longest read of a page, in blocks.
const READ_BLOCKS: std::ops::RangeInclusive<usize> = 1..=64;

impl Dictionary {
    /// Returns one page of the records from a scan position on, in the order of the positions. A scan reads all records
    /// in pages and holds nothing between two pages: [`ScanPage::next`] is all that it needs to continue. A position
    /// is the hash of a key; another dictionary has other positions.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("capitals.dict");
    /// # use siltstone::Dictionary;
    /// let dictionary = Dictionary::builder().build(&path, [("France", "Paris"), ("Peru", "Lima")])?;
    /// let (mut keys, mut next) = (Vec::new(), Some(0));
    /// while let Some(position) = next {
    ///     let page = dictionary.scan(position, 1)?;
    ///     keys.extend(page.records.into_iter().map(|record| record.key));
    ///     next = page.next;
    /// }
    /// keys.sort();
    /// assert_eq!(keys, ["France", "Peru"]);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// Errors of reading.
    pub fn scan(&self, position: u64, limit: impl Into<ScanLimit>) -> Result<ScanPage> {
        let limit = limit.into();
        let mut page = PageBuilder::new(limit);
        let mut cursor = OrderedCursor::new(self.store(), Purpose::Iterate, self.page_read_bytes(limit));
        cursor.seek(position)?;
        while cursor.advance()? {
            let Some(entry) = cursor.entry().filter(|entry| entry.hash.placement >= position) else {
                continue;
            };
            if !page.push(entry.hash.placement, || Record::copy_of(&entry.record, limit.keys_only)) {
                break;
            }
        }
        Ok(page.finish(None))
    }

    /// Returns the bytes of a read that a page makes: about a quarter of what it returns.
    fn page_read_bytes(&self, limit: ScanLimit) -> usize {
        let info = self.info();
        let record_bytes = (info.key_bytes + info.value_bytes) / info.records.max(1);
        let record_bytes = usize::try_from(record_bytes).unwrap_or(usize::MAX).saturating_add(RECORD_BYTES);
        let page_bytes = limit.records.saturating_mul(record_bytes).min(limit.bytes);
        let block_bytes = info.block_bytes as usize;
        (page_bytes / 4 / block_bytes).clamp(*READ_BLOCKS.start(), *READ_BLOCKS.end()) * block_bytes
    }
}
