//! Writes, single or in batches, as an engine receives them.

use crate::error::{Error, Result};
use crate::key::{Key, KeyHasher, check_key, check_value};
use std::ops::Range;

/// A time, in milliseconds since the Unix epoch. Engines read no clock; callers pass the time.
pub type TimestampMs = u64;

/// The expiry time of a record that never expires.
pub const NEVER: TimestampMs = 0;

/// A time at which no record has expired yet.
pub(crate) const BEFORE_ALL_EXPIRY: TimestampMs = 0;

/// Threads that read the clock at the same moment get times that differ by less than this.
const CLOCK_SKEW_MS: u64 = 1_000;

/// Returns whether an interval has passed since a time, for everything that is done now and then. A clock that was set
/// back is not waited for.
#[inline]
pub(crate) fn has_passed(since_ms: TimestampMs, interval_ms: u64, now_ms: TimestampMs) -> bool {
    let was_set_back = now_ms.saturating_add(CLOCK_SKEW_MS) < since_ms;
    was_set_back || now_ms.saturating_sub(since_ms) >= interval_ms
}

/// Returns whether a record with this expiry time has expired.
#[inline]
pub(crate) fn has_expired(expires_at_ms: TimestampMs, now_ms: TimestampMs) -> bool {
    expires_at_ms != NEVER && expires_at_ms <= now_ms
}

/// What an acknowledged write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord)]
#[non_exhaustive]
#[doc(alias("fsync", "PersistMode"))]
pub enum Durability {
    /// Nothing: it may be lost with the process.
    Buffered,
    /// The end of the process, but not a power loss.
    #[default]
    Written,
    /// A power loss. Concurrent writers share a sync.
    Synced,
}

impl Durability {
    /// All levels, from the weakest to the strongest.
    #[doc(hidden)]
    pub const ALL: [Durability; 3] = [Durability::Buffered, Durability::Written, Durability::Synced];

    /// Returns the name, as typed on a command line.
    #[doc(hidden)]
    pub fn name(self) -> &'static str {
        match self {
            Durability::Buffered => "buffered",
            Durability::Written => "written",
            Durability::Synced => "synced",
        }
    }
}

/// One write, borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write<'a> {
    /// Sets the value of a key.
    Put {
        /// The key, 1 to 65,535 bytes.
        key: &'a [u8],
        /// The value, 0 to 256 MiB.
        value: &'a [u8],
        /// When the record expires, or [`NEVER`].
        expires_at_ms: TimestampMs,
    },
    /// Removes the key, if it exists.
    Delete {
        /// The key, 1 to 65,535 bytes.
        key: &'a [u8],
    },
}

impl<'a> Write<'a> {
    /// Returns the key.
    pub fn key(&self) -> &'a [u8] {
        match self {
            Write::Put { key, .. } | Write::Delete { key } => key,
        }
    }

    /// Returns the bytes of key and value.
    pub fn user_bytes(&self) -> usize {
        match self {
            Write::Put { key, value, .. } => key.len() + value.len(),
            Write::Delete { key } => key.len(),
        }
    }
}

/// A write with the hash of its key, as an engine receives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashedWrite<'a> {
    /// The key with its hash.
    pub key: Key<'a>,
    /// The write, which is of this key.
    pub write: Write<'a>,
}

impl<'a> HashedWrite<'a> {
    /// Hashes the key of a write.
    pub fn new(write: Write<'a>, hasher: &KeyHasher) -> Self {
        HashedWrite { key: hasher.key(write.key()), write }
    }

    /// Makes a put of a key that is already hashed.
    pub fn put(key: Key<'a>, value: &'a [u8], expires_at_ms: TimestampMs) -> Self {
        HashedWrite { key, write: Write::Put { key: key.bytes(), value, expires_at_ms } }
    }

    /// Makes a delete of a key that is already hashed.
    pub fn delete(key: Key<'a>) -> Self {
        HashedWrite { key, write: Write::Delete { key: key.bytes() } }
    }
}

/// The maximum of the bytes of a batch: 1 GiB of keys and values, and 64 bytes for each write.
pub const BATCH_BYTES_MAX: u64 = 1 << 30;
/// What a write of a batch counts besides its key and value, in bytes. No engine writes more.
const WRITE_BYTES: u64 = 64;

/// Checks the length of a batch, before anything is written.
pub(crate) fn check_batch<'a>(writes: impl Iterator<Item = Write<'a>>) -> Result<()> {
    let bytes = writes.map(|write| write.user_bytes() as u64 + WRITE_BYTES).sum();
    if bytes <= BATCH_BYTES_MAX { Ok(()) } else { Err(Error::BatchLength { bytes }) }
}

/// Writes that are applied atomically, across partitions and across a crash. If two writes have the same key, the later
/// one applies.
///
/// A batch can be collected from pairs of keys and values. If one of them is refused, [`Database::write`] returns the
/// error and writes nothing.
///
/// A batch has at most 1 GiB: its keys and values, and 64 bytes for each write. A longer one is refused with
/// [`Error::BatchLength`], and nothing is written.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let database = siltstone::Database::open(directory.path().join("db"))?;
/// use siltstone::Batch;
///
/// let squares: Batch = (0..100u32).map(|n| (n.to_be_bytes(), (n * n).to_be_bytes())).collect();
/// database.write(&squares)?;
/// assert_eq!(database.get(7u32.to_be_bytes())?.as_deref(), Some(&49u32.to_be_bytes()[..]));
/// # Ok::<(), siltstone::Error>(())
/// ```
///
/// [`Database::write`]: crate::Database::write
#[derive(Debug, Clone, Default)]
#[doc(alias = "WriteBatch")]
pub struct Batch {
    bytes: Vec<u8>,
    entries: Vec<BatchedWrite>,
    /// The first record that was to be added and is refused.
    refused: Option<Error>,
}

#[derive(Debug, Clone)]
struct BatchedWrite {
    key: Range<usize>,
    value: Option<Range<usize>>,
    expires_at_ms: TimestampMs,
}

impl Batch {
    /// Makes an empty batch.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// let mut batch = siltstone::Batch::new();
    /// assert!(batch.is_empty());
    /// batch.put("new", "value")?.delete("old")?;
    /// assert_eq!(batch.len(), 2);
    /// database.write(&batch)?;
    /// batch.clear();
    /// assert!(batch.is_empty());
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    pub fn new() -> Self {
        Batch::default()
    }

    /// Makes an empty batch with memory for this many writes of this many bytes of keys and values altogether.
    ///
    /// ```
    /// let mut batch = siltstone::Batch::with_capacity(1_000, 1_000 * 12);
    /// for number in 0..1_000u32 {
    ///     batch.put(number.to_be_bytes(), [0; 8])?;
    /// }
    /// assert_eq!(batch.len(), 1_000);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    pub fn with_capacity(writes: usize, bytes: usize) -> Self {
        Batch { bytes: Vec::with_capacity(bytes), entries: Vec::with_capacity(writes), refused: None }
    }

    /// Adds a put of a record that never expires.
    #[doc(alias = "insert")]
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<&mut Self> {
        self.put_until(key, value, NEVER)
    }

    /// Adds a put of a record that expires at `expires_at_ms`.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// let mut batch = siltstone::Batch::new();
    /// batch.put_until("session:9", "token", 4_102_444_800_000)?;
    /// database.write(&batch)?;
    /// assert!(database.get_found("session:9")?.unwrap().expires_at().is_some());
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    pub fn put_until(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expires_at_ms: TimestampMs,
    ) -> Result<&mut Self> {
        let (key, value) = (key.as_ref(), value.as_ref());
        check_key(key)?;
        check_value(value)?;
        let key = self.keep(key);
        let value = Some(self.keep(value));
        self.entries.push(BatchedWrite { key, value, expires_at_ms });
        Ok(self)
    }

    /// Adds a delete.
    #[doc(alias = "remove")]
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<&mut Self> {
        check_key(key.as_ref())?;
        let key = self.keep(key.as_ref());
        self.entries.push(BatchedWrite { key, value: None, expires_at_ms: NEVER });
        Ok(self)
    }

    fn keep(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    /// Returns the number of writes.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the batch is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Removes the writes after the first `len`, and keeps the memory: a savepoint is the number of writes that there
    /// were. If there are fewer, nothing changes.
    ///
    /// ```
    /// let mut batch = siltstone::Batch::new();
    /// batch.put("order:7", "paid")?;
    /// let savepoint = batch.len();
    /// batch.put("stock:3", "-1")?.delete("cart:9")?;
    /// batch.truncate(savepoint);
    /// assert_eq!(batch.len(), 1);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    pub fn truncate(&mut self, len: usize) {
        let Some(first) = self.entries.get(len) else { return };
        // The bytes of a write follow those of the write before.
        self.bytes.truncate(first.key.start);
        self.entries.truncate(len);
    }

    /// Removes all writes and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        self.refused = None;
    }

    /// Returns the error of the first record that was to be collected and is refused.
    pub(crate) fn check(&self) -> Result<()> {
        self.refused.clone().map_or(Ok(()), Err)
    }

    /// Returns the writes in the order in which they were added.
    #[doc(hidden)]
    pub fn writes(&self) -> impl Iterator<Item = Write<'_>> {
        self.entries.iter().map(|entry| {
            let key = &self.bytes[entry.key.clone()];
            match &entry.value {
                Some(value) => {
                    Write::Put { key, value: &self.bytes[value.clone()], expires_at_ms: entry.expires_at_ms }
                }
                None => Write::Delete { key },
            }
        })
    }
}

/// Adds puts of records that never expire.
impl<K: AsRef<[u8]>, V: AsRef<[u8]>> Extend<(K, V)> for Batch {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, records: I) {
        for (key, value) in records {
            if let Err(error) = self.put(key, value) {
                // `extend` returns no error, so this one waits for the write.
                self.refused.get_or_insert(error);
            }
        }
    }
}

impl<K: AsRef<[u8]>, V: AsRef<[u8]>> FromIterator<(K, V)> for Batch {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(records: I) -> Batch {
        let mut batch = Batch::new();
        batch.extend(records);
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_truncated_batch_has_the_writes_before_its_savepoint_and_those_added_later() {
        let mut batch = Batch::new();
        batch.put(b"a", b"1").unwrap().put(b"b", b"22").unwrap().delete(b"c").unwrap();
        batch.truncate(5);
        assert_eq!(batch.len(), 3);
        batch.truncate(1);
        batch.put(b"dd", b"4").unwrap();
        let keys: Vec<_> = batch.writes().map(|write| write.key()).collect();
        assert_eq!(keys, [b"a" as &[u8], b"dd"]);
        let values: usize = batch.writes().map(|write| write.user_bytes()).sum();
        assert_eq!(values, 2 + 3);
        batch.truncate(0);
        assert!(batch.is_empty());
    }

    #[test]
    fn a_batch_of_more_than_a_gibibyte_is_refused_whatever_its_writes_are() {
        let value = vec![0; 256 << 20];
        let put = Write::Put { key: b"key", value: &value, expires_at_ms: NEVER };
        let one = put.user_bytes() as u64 + WRITE_BYTES;
        assert!(check_batch(std::iter::repeat_n(put, 3)).is_ok());
        let refused = check_batch(std::iter::repeat_n(put, 4));
        assert!(matches!(refused, Err(Error::BatchLength { bytes }) if bytes == 4 * one));
        let deletes = |count| std::iter::repeat_n(Write::Delete { key: b"" }, count);
        let most = (BATCH_BYTES_MAX / WRITE_BYTES) as usize;
        assert!(check_batch(deletes(most)).is_ok() && check_batch(deletes(most + 1)).is_err());
    }

    #[test]
    fn a_batch_returns_its_writes_in_order() {
        let mut batch = Batch::new();
        batch.put(b"a", b"1").unwrap().delete(b"b").unwrap().put_until(b"c", b"", 9).unwrap();
        let writes: Vec<_> = batch.writes().collect();
        assert_eq!(
            writes,
            [
                Write::Put { key: b"a", value: b"1", expires_at_ms: NEVER },
                Write::Delete { key: b"b" },
                Write::Put { key: b"c", value: b"", expires_at_ms: 9 },
            ]
        );
        assert!(batch.put(b"", b"").is_err());
        assert_eq!(batch.len(), 3, "a refused write leaves the batch as it was");
        assert!(batch.check().is_ok());
    }

    #[test]
    fn a_collected_record_that_is_refused_fails_the_write() {
        let mut batch: Batch = [("a", "1"), ("", "2"), ("c", "3")].into_iter().collect();
        assert!(matches!(batch.check(), Err(Error::KeyLength { length: 0 })));
        batch.clear();
        batch.extend([("a", "1")]);
        assert!(batch.check().is_ok() && batch.len() == 1);
    }
}
