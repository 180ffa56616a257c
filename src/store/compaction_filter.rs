//! A function of the user that decides which records stay when background work writes them again.
//!
//! It is called only where tombstones are dropped too, so that no older version of a record is found again: by the
//! merge of a partition ([`merge`](super::merge)), which has all versions of a key, and by cleaning, which drops a
//! record only if no older entry has its hash and there is no store below. It gets values as the user has put them.

use super::record::RecordView;
use std::fmt;
use std::sync::Arc;

/// The function: it gets a key and a value, and returns whether the record stays.
type Keep = dyn Fn(&[u8], &[u8]) -> bool + Send + Sync;

/// A function that decides which records stay.
#[derive(Clone)]
pub struct CompactionFilter(Arc<Keep>);

impl CompactionFilter {
    /// Makes a filter of a function.
    pub fn new(keep: impl Fn(&[u8], &[u8]) -> bool + Send + Sync + 'static) -> CompactionFilter {
        CompactionFilter(Arc::new(keep))
    }

    /// Returns whether a key and its value stay.
    pub fn keeps_value(&self, key: &[u8], value: &[u8]) -> bool {
        (self.0)(key, value)
    }

    /// Returns whether a record stays. A tombstone does.
    pub fn keeps(&self, record: &RecordView<'_>) -> bool {
        // A tombstone hides older versions. Only what has all versions may drop it.
        record.value.is_none_or(|value| self.keeps_value(record.key, value))
    }
}

impl fmt::Debug for CompactionFilter {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("CompactionFilter")
    }
}

/// Filters are equal if they are the same one.
impl PartialEq for CompactionFilter {
    fn eq(&self, other: &CompactionFilter) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
