//! The interface of the engines, and the engines: each combines stores and decides when to move records between them.
//!
//! An engine starts no thread and reads no clock. Its background work is a series of bounded steps that the caller
//! runs ([`Engine::step`]), so a simulation can replay it.

#[cfg(feature = "bloomstore")]
pub mod bloomstore;
mod common;
mod family;
#[cfg(feature = "flashkey")]
pub mod flashkey;
#[cfg(feature = "flashstore")]
pub mod flashstore;
pub(crate) mod info;
#[cfg(any(feature = "silt", feature = "flashkey"))]
mod jobs;
mod lookups;
#[cfg(feature = "mica")]
pub mod mica;
mod ordered;
mod scan;
mod setting_value;
mod settings;
mod shown;
#[cfg(feature = "silt")]
pub mod silt;
mod spelling;
mod writes;

pub use common::CommonSettings;
pub use family::EngineKind;
pub use info::EngineInfo;
pub use lookups::Lookups;
pub(crate) use setting_value::SettingValue;
pub use setting_value::parse_bytes;
pub(crate) use settings::{DISK_FILTER_BITS, budget_of_disk};
pub use settings::{Disk, EngineSettings, OpenDisk, Opening, SettingInfo};

use crate::batch::{Durability, HashedWrite, TimestampMs};
use crate::damage::VerifyReport;
use crate::error::{Error, Result};
use crate::key::{Key, KeyHasher};
use crate::progress::Progress;
use crate::stats::{Shape, Stats};
use crate::store::record::RecordView;
use bytes::Bytes;
pub use ordered::{Direction, KeyBounds, Keys, Ordered};
#[doc(hidden)]
pub use scan::PageBuilder;
pub(crate) use scan::by_partition;
pub use scan::{ScanLimit, ScanPage};
pub use shown::{Show, Shown, ShownValue};
pub(crate) use shown::{collect_many, show_all};
use siltstone_device::Directory;
pub use spelling::nearest as nearest_name;
pub(crate) use spelling::unknown_setting;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// What an engine can do beyond the common interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Capabilities {
    /// Writes survive the process.
    pub persistent: bool,
    /// The engine may remove records to make space for others.
    pub lossy: bool,
}

/// A value that a lookup found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The value. Cloning it copies no bytes.
    pub value: Bytes,
    /// When it expires, or [`NEVER`](crate::batch::NEVER).
    pub expires_at_ms: TimestampMs,
}

impl Found {
    /// Returns the value that `read` appends to an empty vector, if it returns its expiry time.
    #[inline]
    pub(crate) fn read(
        read: impl FnOnce(&mut Vec<u8>) -> Result<Option<TimestampMs>>,
    ) -> Result<Option<Found>> {
        let mut value = Vec::new();
        Ok(read(&mut value)?.map(|expires_at_ms| Found { value: Bytes::from(value), expires_at_ms }))
    }
}

/// A value that a lookup found, in memory that is valid only during the call that shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundRef<'a> {
    /// The value.
    pub value: &'a [u8],
    /// When it expires, or [`NEVER`](crate::batch::NEVER).
    pub expires_at_ms: TimestampMs,
}

/// A key with its value, as iterators and scans return it.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let database = siltstone::Database::open(directory.path().join("db"))?;
/// use siltstone::{Bytes, Record, Result};
/// use std::collections::HashMap;
///
/// database.put("key", "value")?;
/// for record in &database {
///     let Record { key, value, .. } = record?;
///     assert_eq!((&key[..], &value[..]), (&b"key"[..], &b"value"[..]));
/// }
/// let pairs = database.iter()?.map(|record| record.map(Record::into));
/// let values: HashMap<Bytes, Bytes> = pairs.collect::<Result<_>>()?;
/// assert_eq!(values[&b"key"[..]], "value");
/// # Ok::<(), siltstone::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The key.
    pub key: Bytes,
    /// The value.
    pub value: Bytes,
    /// When the record expires, or [`NEVER`](crate::batch::NEVER).
    pub expires_at_ms: TimestampMs,
}

impl Record {
    /// Copies a record, without its value if `keys_only`.
    pub(crate) fn copy_of(record: &RecordView<'_>, keys_only: bool) -> Record {
        Record {
            key: Bytes::copy_from_slice(record.key),
            value: record.value.filter(|_| !keys_only).map_or_else(Bytes::new, Bytes::copy_from_slice),
            expires_at_ms: record.expires_at_ms,
        }
    }
}

/// What an update does with a key after it has read its value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Change {
    /// Keeps the record.
    #[default]
    Keep,
    /// Puts a value.
    Put {
        /// The new value.
        value: Bytes,
        /// When the record expires, or [`NEVER`](crate::batch::NEVER).
        expires_at_ms: TimestampMs,
    },
    /// Deletes the key.
    Delete,
}

impl Change {
    /// Returns the write that makes this change to a key; `None` for [`Change::Keep`].
    #[doc(hidden)]
    pub fn to_write<'a>(&'a self, key: Key<'a>) -> Option<HashedWrite<'a>> {
        match self {
            Change::Keep => None,
            Change::Put { value, expires_at_ms } => Some(HashedWrite::put(key, value, *expires_at_ms)),
            Change::Delete => Some(HashedWrite::delete(key)),
        }
    }
}

/// Whether a step did background work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// There was no work.
    Idle,
    /// One bounded piece of work was done. There may be more.
    Worked,
}

/// The state of an engine's background work.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Background {
    /// Work is pending or running.
    pub has_work: bool,
    /// Some of it is not running, so one more thread would find something to do.
    pub wants_thread: bool,
    /// All work that is pending waits for a limit of its rate: a step finds nothing to do until time has passed.
    pub is_limited: bool,
    /// How far the work is behind the writes. 0: not behind. From 1 on, writers must wait for a step.
    pub pressure: f64,
    /// How far the work is ahead of what writes need. 0: writers wait for it or soon will. The larger it is, the longer
    /// a thread may pause between two steps.
    pub slack: f64,
}

/// What an engine's background work demands of writers: a part of [`Background`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backpressure {
    /// How far the work is behind the writes, as in [`Background`].
    pub pressure: f64,
    /// A sleeping thread should be woken. Work that no write has caused may be left out.
    pub wants_thread: bool,
}

/// What is known of a key without a read of flash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InMemory {
    /// It has a value, which expires at this time.
    Found(TimestampMs),
    /// It is absent, or has expired.
    Absent,
    /// Flash has to be read.
    Unknown,
}

impl From<Option<TimestampMs>> for InMemory {
    fn from(found: Option<TimestampMs>) -> InMemory {
        found.map_or(InMemory::Absent, InMemory::Found)
    }
}

/// Returns the time, in milliseconds since the Unix epoch. Called only where the time is needed.
pub type Now<'a> = dyn Fn() -> TimestampMs + 'a;

/// The callback of [`Engine::update_many`]: it gets the values that were found, and sets the changes.
pub type Changing<'a> = dyn FnMut(&[Option<Found>], &mut [Change]) -> Result<()> + 'a;

/// Records in the order of the engine. Reading each of them can fail.
pub type Records = Box<dyn Iterator<Item = Result<Record>> + Send>;

/// The records of an engine at one moment.
pub trait Snapshot: Send + Sync {
    /// Returns the value that a key had.
    fn get(&self, key: Key<'_>) -> Result<Option<Found>>;

    /// Returns the values that several keys had, in the order of the keys. The reads overlap.
    fn get_many(&self, keys: &[Key<'_>]) -> Result<Vec<Option<Found>>> {
        keys.iter().map(|key| self.get(*key)).collect()
    }

    /// Returns all records. The iterator may outlive the snapshot.
    fn records(&self) -> Records;

    /// Returns access in the order of the keys, if the engine keeps it.
    fn ordered(&self) -> Option<&dyn Ordered> {
        None
    }
}

/// Takes many records at once, on a shorter way than writes. Nothing is changed before [`finish`](BulkLoad::finish).
pub trait BulkLoad: Send {
    /// Adds a put. If a key is put again, the last put applies. `progress` is called now and then with the bytes that
    /// were written to temporary files, and 0.
    fn put(
        &mut self,
        key: Key<'_>,
        value: &[u8],
        expires_at_ms: TimestampMs,
        progress: &mut Progress<'_>,
    ) -> Result<()>;

    /// Makes all records visible and durable. Each is newer than all that were written before this call.
    fn finish(self: Box<Self>, now_ms: TimestampMs, progress: &mut Progress<'_>) -> Result<()>;
}

/// Called with the number of records that were passed. Returns `false` to stop the operation.
pub type GoOn<'a> = dyn FnMut(u64) -> bool + 'a;

/// The number of records that are passed between two calls of a [`GoOn`].
const RECORDS_AT_ONCE: u64 = 4096;

/// Calls `go_on` if enough records were passed since its last call; `passed` is the number of all.
pub(crate) fn pass(passed: u64, go_on: &mut GoOn<'_>) -> Result<()> {
    if !passed.is_multiple_of(RECORDS_AT_ONCE) || go_on(passed) { Ok(()) } else { Err(Error::Interrupted) }
}

/// A key-value store. All methods may be called from any thread.
///
/// Keys come with their hash, which the database computes once per operation with the engine's
/// [`hasher`](Engine::hasher). The database has checked keys and writes against the limits and the
/// [`shape`](Engine::shape); an engine does not check them again.
pub trait Engine: Send + Sync {
    /// Returns the name of the engine.
    fn name(&self) -> &'static str;

    /// Returns the shape of the records. Cheap.
    fn shape(&self) -> Shape;

    /// Returns what the engine can do beyond the common interface.
    fn capabilities(&self) -> Capabilities;

    /// Returns how the engine hashes keys. Cheap.
    fn hasher(&self) -> KeyHasher;

    /// Appends the value of a key to `value`, and returns when it expires. Returns `None` and appends nothing if the
    /// key is absent or has expired; at the time 0 nothing has expired. Space that is missing in `value` is allocated
    /// exactly.
    fn get_into(&self, key: Key<'_>, now_ms: TimestampMs, value: &mut Vec<u8>)
    -> Result<Option<TimestampMs>>;

    /// Returns the value of a key, unless it is absent or expired.
    fn get(&self, key: Key<'_>, now_ms: TimestampMs) -> Result<Option<Found>> {
        Found::read(|value| self.get_into(key, now_ms, value))
    }

    /// Looks up several keys; the reads overlap. Passes each key's number, once and in any order, to `show`, with the
    /// value unless the key is absent or expired. If it fails, it may have shown some of them.
    fn get_many(&self, keys: &[Key<'_>], now_ms: TimestampMs, show: &mut Show<'_>) -> Result<()> {
        let mut value = Vec::new();
        for (number, key) in keys.iter().enumerate() {
            value.clear();
            let found = self.get_into(*key, now_ms, &mut value)?;
            show(number, found.map(|expires_at_ms| Shown::borrowed(&value, expires_at_ms)));
        }
        Ok(())
    }

    /// Looks a key up in memory, and in the newest records, which the page cache has. Appends the value to `value` if
    /// it is found. Default: whatever a key is, flash has to be read for it.
    fn look_in_memory(&self, key: Key<'_>, now_ms: TimestampMs, value: &mut Vec<u8>) -> Result<InMemory> {
        let _ = (key, now_ms, value);
        self.check_open()?;
        Ok(InMemory::Unknown)
    }

    /// Returns false only if the key is certainly absent. Reads nothing from the device. Default: true.
    fn may_contain(&self, key: Key<'_>, now_ms: TimestampMs) -> Result<bool> {
        let _ = (key, now_ms);
        self.check_open()?;
        Ok(true)
    }

    /// Applies all writes or none. When it returns, they are visible and have the requested durability.
    fn write(&self, writes: &[HashedWrite<'_>], durability: Durability, now_ms: &Now<'_>) -> Result<()>;

    /// Reads the keys, calls `change` once with their values, and applies all the changes that it sets, or none. The
    /// changes are [`Change::Keep`] at first. No other write to these keys happens in between. When this returns, the
    /// values that were found and kept have the requested durability as well.
    ///
    /// If `change` fails, nothing changes. If a key is given twice, its later change wins.
    fn update_many(
        &self,
        keys: &[Key<'_>],
        durability: Durability,
        now_ms: TimestampMs,
        change: &mut Changing<'_>,
    ) -> Result<()>;

    /// Returns all records as they are at this moment. Later writes do not change the snapshot, and nothing in it
    /// expires.
    fn snapshot(&self, now_ms: TimestampMs) -> Result<Arc<dyn Snapshot>>;

    /// Returns one page of the records whose scan positions are in a range, in the order of the positions. The position
    /// of a key is the [`placement`](crate::key::KeyHash::placement) of its hash. Expired records are left out.
    ///
    /// Nothing is held between two calls. Each record has the value of some moment during the call.
    fn scan(&self, positions: RangeInclusive<u64>, limit: ScanLimit, now_ms: TimestampMs)
    -> Result<ScanPage>;

    /// Returns access in the order of the keys. Default: `None`, for an engine that does not keep this order.
    fn ordered(&self) -> Option<&dyn Ordered> {
        None
    }

    /// Returns about how many keys there are.
    fn approximate_len(&self, now_ms: TimestampMs) -> Result<u64>;

    /// Returns how many keys there are at one moment. Exact. `go_on` is called now and then with the number of records
    /// that were passed. Default: reads all records of a snapshot.
    ///
    /// # Errors
    /// Errors of reading; [`Error::Interrupted`] if `go_on` returned false.
    fn count_keys(&self, now_ms: TimestampMs, go_on: &mut GoOn<'_>) -> Result<u64> {
        let mut keys = 0;
        for record in self.snapshot(now_ms)?.records() {
            record?;
            keys += 1;
            pass(keys, go_on)?;
        }
        Ok(keys)
    }

    /// Blocks until all earlier writes survive a power loss.
    fn sync(&self) -> Result<()>;

    /// Does one bounded piece of background work, which takes some milliseconds. Default: there is none.
    fn step(&self, now_ms: TimestampMs) -> Result<Step> {
        let _ = now_ms;
        Ok(Step::Idle)
    }

    /// Returns the state of the background work. Cheap. Default: there is never any work.
    fn background(&self) -> Background {
        Background::default()
    }

    /// Returns what background work demands of writers. Costs a few atomic loads; every write calls it. After a failure
    /// it may be more than [`background`](Engine::background) returns. Default: what that returns.
    fn backpressure(&self) -> Backpressure {
        let Background { pressure, wants_thread, .. } = self.background();
        Backpressure { pressure, wants_thread }
    }

    /// Returns [`Error::Closed`] after [`close`](Engine::close). Cheap.
    fn check_open(&self) -> Result<()>;

    /// Returns [`Error::Closed`] if the engine is closed, and [`Error::Unsupported`] otherwise.
    fn unsupported(&self, operation: &'static str) -> Error {
        self.check_open().err().unwrap_or(Error::Unsupported { engine: self.name(), operation })
    }

    /// Returns the reason as an error if the engine accepts no more writes. Cheap.
    fn check_writable(&self) -> Result<()>;

    /// Returns an error if puts of this many bytes do not fit into the free space besides the reserve of deletes and
    /// background work, and `owed` bytes that the caller puts later. Otherwise returns how many more bytes may be put
    /// before the next call, which measures the space again. Default: all, for an engine without files.
    ///
    /// # Errors
    /// [`Error::NoSpace`].
    fn check_space(&self, bytes: u64, owed: u64) -> Result<u64> {
        let _ = (bytes, owed);
        Ok(u64::MAX)
    }

    /// Accepts no more writes, for the given cause: a failure that the engine could not see, such as a panic of a
    /// worker thread.
    fn poison(&self, cause: &str);

    /// Limits the memory, in bytes; `None` removes the limit. Memory above the limit is freed at once, except what is
    /// in use. Default: [`Error::Unsupported`], for an engine whose memory is fixed when it is opened.
    fn set_memory_budget(&self, bytes: Option<u64>) -> Result<()> {
        let _ = bytes;
        Err(self.unsupported("a change of the memory budget"))
    }

    /// Returns the least memory budget, in bytes; for an engine whose memory is fixed when it is opened, what it has.
    fn memory_budget_min(&self) -> u64;

    /// Requests that everything is merged into the last store. The following steps do it. Default: there is nothing to
    /// merge.
    fn request_compaction(&self) -> Result<()> {
        self.check_open()
    }

    /// Begins a bulk load in this much memory, in bytes. Default: `None`, for an engine that appends all records to a
    /// log anyway.
    fn bulk_load(&self, memory_bytes: usize) -> Result<Option<Box<dyn BulkLoad + '_>>> {
        let _ = memory_bytes;
        self.check_writable()?;
        Ok(None)
    }

    /// Writes a consistent copy into the empty directory `target`. Files are shared where possible. Default:
    /// [`Error::Unsupported`], for an engine without files.
    fn checkpoint(&self, target: &Directory) -> Result<()> {
        let _ = target;
        Err(self.unsupported("checkpoint"))
    }

    /// Reads everything and reports what is damaged; does not count the live records. Calls `progress` with the bytes
    /// done and the total bytes.
    fn verify(&self, progress: &mut Progress<'_>) -> Result<VerifyReport>;

    /// Returns the contents, counters and costs of the engine.
    fn stats(&self) -> Stats;

    /// Resets the peak of the memory statistics. Default: nothing, for an engine whose memory never grows.
    fn reset_ram_peak(&self) {}

    /// Makes everything durable. The engine accepts no operation afterwards.
    fn close(&self) -> Result<()>;
}
