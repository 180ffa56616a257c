//! Counters of the operations on a database. They are saved to a file, which may get lost, and continue after the next
//! open (`usage_file`).

use super::usage_file;
use crate::batch::{Write, has_passed};
use crate::engine::Lookups;
use crate::error::Result;
use crate::names::COMPANION_NAMES;
use crate::stats::Usage;
use siltstone_device::sync::Mutex;
use siltstone_device::{Directory, Striped};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The maximum age of the file, if there are worker threads.
const SAVE_INTERVAL_MS: u64 = 60_000;
/// The keys are counted again after one put or delete per this many keys.
const KEYS_PER_UNCOUNTED_WRITE: u64 = 100;

/// The bytes that a record takes besides its key and its value, at most.
const RECORD_OVERHEAD_BYTES: u64 = 32;

/// Counts of some writes.
#[derive(Debug, Clone, Copy)]
pub(super) struct WriteCounts {
    pub puts: u64,
    pub deletes: u64,
    /// The bytes of the keys that are put.
    pub key_bytes: u64,
    pub value_bytes: u64,
    /// The bytes of the keys that are deleted.
    pub deleted_bytes: u64,
}

impl WriteCounts {
    /// The counts of no writes.
    pub const NONE: WriteCounts =
        WriteCounts { puts: 0, deletes: 0, key_bytes: 0, value_bytes: 0, deleted_bytes: 0 };

    /// Counts writes.
    pub fn of<'a>(writes: impl Iterator<Item = Write<'a>>) -> WriteCounts {
        let mut counts = WriteCounts::NONE;
        for write in writes {
            match write {
                Write::Put { key, value, .. } => {
                    counts.puts += 1;
                    counts.key_bytes += key.len() as u64;
                    counts.value_bytes += value.len() as u64;
                }
                Write::Delete { key } => {
                    counts.deletes += 1;
                    counts.deleted_bytes += key.len() as u64;
                }
            }
        }
        counts
    }

    /// Returns the bytes that the puts take, at most.
    pub fn put_bytes(&self) -> u64 {
        self.key_bytes + self.value_bytes + self.puts * RECORD_OVERHEAD_BYTES
    }
}

/// The counters of an open database.
pub(super) struct UsageCounters {
    lookups: Lookups,
    /// The bytes of keys and of values, puts, and deletes.
    writes: Striped<4>,
    /// The content of the file when the database was opened.
    before: Usage,
    /// The number of keys when they were last counted, and the number of puts and deletes up to then.
    counted: Mutex<(u64, u64)>,
    opened_at_ms: u64,
    saved_at_ms: AtomicU64,
    /// The operations since the open that the file includes.
    saved_operations: AtomicU64,
    /// The length of the file, in bytes.
    file_bytes: AtomicU64,
    /// The directory of the file; `None` for engines that store nothing.
    directory: Option<Directory>,
    /// The bytes written to the directory before the database was opened.
    written_before: u64,
}

fn written_bytes(directory: &Directory) -> u64 {
    directory.io().total().write_bytes
}

impl UsageCounters {
    /// Adds the files that bindings keep with the database to a checkpoint.
    pub fn share_companions(&self, target: &Directory) -> Result<()> {
        let Some(directory) = &self.directory else { return Ok(()) };
        let names = directory.list()?;
        let mut companions = names.iter().filter(|name| COMPANION_NAMES.contains(&name.as_str()));
        Ok(companions.try_for_each(|name| directory.share(name, target))?)
    }

    /// Continues from the content of the directory's file, or from zero if it cannot be read. `lookups` are the
    /// counters that the engine reads.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) if the directory cannot be listed or changed.
    pub fn open(directory: Option<Directory>, lookups: Lookups, now_ms: u64) -> Result<UsageCounters> {
        let file_bytes = directory.as_ref().map_or(Ok(0), usage_file::tidy)?;
        // A file that is missing or damaged counts as zeros: no operation depends on it.
        let before = directory.as_ref().and_then(usage_file::read).unwrap_or_default();
        lookups.count(before.gets, before.misses);
        Ok(UsageCounters {
            saved_operations: AtomicU64::new(lookups.sum().0),
            lookups,
            writes: Striped::default(),
            counted: Mutex::new((before.records, before.counted_writes)),
            before,
            file_bytes: AtomicU64::new(file_bytes),
            opened_at_ms: now_ms,
            saved_at_ms: AtomicU64::new(now_ms),
            written_before: directory.as_ref().map_or(0, written_bytes),
            directory,
        })
    }

    /// Counts lookups of keys, and how many of the keys were missing.
    pub fn count_gets(&self, gets: usize, misses: usize) {
        self.lookups.count(gets as u64, misses as u64);
    }

    /// Counts writes, once they can be read.
    pub fn count_writes(&self, counts: &WriteCounts) {
        // Puts and deletes last: a thread that reads these counts, and then records, reads what was written.
        self.writes.add([counts.key_bytes, counts.value_bytes, counts.puts, counts.deletes]);
    }

    /// Returns the number of puts and deletes that were counted before anything that the caller reads afterwards.
    pub fn writes(&self) -> u64 {
        let [.., puts, deletes] = self.writes.sums();
        puts + deletes
    }

    fn operations(&self) -> u64 {
        self.lookups.sum().0.wrapping_add(self.writes())
    }

    /// Returns the counts up to now.
    pub fn until(&self, now_ms: u64) -> Usage {
        let (records, counted_writes) = *self.counted.lock();
        let saved_at_ms = self.saved_at_ms.load(Relaxed);
        let (gets, misses) = self.lookups.sum();
        let mut usage = Usage { gets, misses, records, counted_writes, saved_at_ms, ..self.before };
        usage.open_ms = usage.open_ms.saturating_add(now_ms.saturating_sub(self.opened_at_ms));
        // One after the other: an operation meanwhile may be in one count and not in another.
        let [key_bytes, value_bytes, puts, deletes] = self.writes.sums();
        usage.key_bytes = usage.key_bytes.saturating_add(key_bytes);
        usage.value_bytes = usage.value_bytes.saturating_add(value_bytes);
        usage.puts = usage.puts.saturating_add(puts);
        usage.deletes = usage.deletes.saturating_add(deletes);
        let written = self.directory.as_ref().map_or(0, written_bytes).saturating_sub(self.written_before);
        usage.written_bytes = usage.written_bytes.saturating_add(written);
        usage
    }

    /// Returns whether the file is due to be written. Returns true to one of several concurrent callers.
    pub fn is_due(&self, now_ms: u64) -> bool {
        let saved_at_ms = self.saved_at_ms.load(Relaxed);
        self.directory.is_some()
            && has_passed(saved_at_ms, SAVE_INTERVAL_MS, now_ms)
            && self.saved_at_ms.compare_exchange(saved_at_ms, now_ms, Relaxed, Relaxed).is_ok()
    }

    /// Counts the keys with `count`, if more than a hundredth of them were put or deleted since they were last counted.
    fn count_keys(&self, count: impl FnOnce() -> Result<u64>) {
        let Usage { puts, deletes, records, counted_writes, .. } = self.until(0);
        let writes = puts.saturating_add(deletes);
        if writes.saturating_sub(counted_writes) > records / KEYS_PER_UNCOUNTED_WRITE
            // Without a count the old one stays, and the next save tries again.
            && let Ok(records) = count()
        {
            *self.counted.lock() = (records, writes);
        }
    }

    /// Writes the file if there were operations since it was last written. `count` counts the keys. An error is
    /// ignored, because no operation depends on the file.
    pub fn save(&self, now_ms: u64, count: impl FnOnce() -> Result<u64>) {
        // Before the counts are read: an operation that comes later is left to the next save.
        let operations = self.operations();
        if let Some(directory) = self.directory.as_ref().filter(|directory| !directory.is_read_only())
            // Swapped: of two callers at once, the second one finds nothing new.
            && self.saved_operations.swap(operations, Relaxed) != operations
        {
            self.saved_at_ms.store(now_ms, Relaxed);
            self.count_keys(count);
            if usage_file::write(directory, &self.until(now_ms)).is_ok() {
                self.file_bytes.store(usage_file::USAGE_BYTES as u64, Relaxed);
            }
        }
    }

    /// Returns the length of the file, in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone_device::Access;
    use siltstone_device::memory::MemoryDirectory;

    #[test]
    fn counts_continue_after_the_next_opening() {
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        for opening in 1..4 {
            let counters = UsageCounters::open(Some(directory.clone()), Lookups::default(), 1_000).unwrap();
            counters.count_gets(10, 3);
            let writes = [
                Write::Put { key: b"key", value: b"value", expires_at_ms: 0 },
                Write::Delete { key: b"key" },
            ];
            counters.count_writes(&WriteCounts::of(writes.into_iter()));
            counters.save(3_000, || Ok(7));
            let found = usage_file::read(&directory).unwrap();
            let counts = (found.gets, found.misses, found.puts, found.deletes);
            assert_eq!(counts, (10 * opening, 3 * opening, opening, opening));
            assert_eq!((found.key_bytes, found.value_bytes), (3 * opening, 5 * opening));
            assert_eq!((found.open_ms, found.records, found.saved_at_ms), (2_000 * opening, 7, 3_000));
        }
    }

    #[test]
    fn the_file_is_written_after_a_minute_and_only_after_operations() {
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        let counters = UsageCounters::open(Some(directory.clone()), Lookups::default(), 0).unwrap();
        assert!(!counters.is_due(59_999));
        assert!(counters.is_due(60_000) && !counters.is_due(60_000));
        counters.save(60_000, || Ok(0));
        assert_eq!(usage_file::read(&directory), None);
        counters.count_gets(1, 0);
        counters.save(60_001, || Ok(0));
        assert_eq!(usage_file::read(&directory).unwrap().gets, 1);
        let nowhere = UsageCounters::open(None, Lookups::default(), 0).unwrap();
        nowhere.count_writes(&WriteCounts { deletes: 1, ..WriteCounts::NONE });
        assert!(!nowhere.is_due(60_000));
        assert_eq!(nowhere.until(5).deletes, 1);
    }
}
