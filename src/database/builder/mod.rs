//! Configures and opens a database.

mod named;
mod open;

use super::clock::Clock;
use super::resources::Resources;
use crate::batch::Durability;
use crate::compression::Compression;
use crate::engine::CommonSettings;
use crate::engine::{EngineKind, EngineSettings};
use crate::error::{Error, Result};
use crate::store::CompactionFilter;
use siltstone_device::sync::Mutex;
use siltstone_device::{Access, Directory};
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// The minimum of [`Builder::open_files_max`]: the database's own files, those of a batch of reads, and some stores.
const OPEN_FILES_MIN: u64 = 64;

/// The name of the setting for the engine.
const ENGINE: &str = "engine";

/// A [`Progress`](crate::Progress) that a builder keeps.
type OwnedProgress = Box<dyn FnMut(u64, u64) -> bool + Send>;

/// Configures a [`Database`](crate::Database).
///
/// The builder has the settings common to all engines. Settings of a particular engine are part of the engine
/// ([`SiltSettings`](crate::SiltSettings), [`MicaSettings`](crate::MicaSettings)). `fixed`, `hashed_keys`, `expiring`,
/// `partitions`, `block_bytes` and `compression` are fixed when a database is created; later they must be the same or
/// be left out.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("db");
/// use siltstone::{Access, Compression, Database, Durability, SiltSettings};
///
/// // How the records are stored.
/// let database = Database::builder(&path)
///     .engine(SiltSettings::default())
///     .set("log_slots_min", 4096)
///     .partitions(4)
///     .compression(Compression::None)
///     .fixed(8, 100)
///     .hashed_keys()
///     .expiring(true)
///     .open()?;
/// database.close()?;
///
/// // What a process may use, and what it observes.
/// let builder = Database::builder(&path)
///     .create(false)
///     .durability(Durability::Synced)
///     .access(Access::Buffered)
///     .memory_budget(64 << 20)
///     .open_files_max(1_000)
///     .background_threads(2)
///     .verify_checksums(true)
///     .latencies(true)
///     .progress(|done_bytes, all_bytes| {
///         eprintln!("{done_bytes} of {all_bytes} bytes");
///         true
///     });
/// # #[cfg(feature = "tracing")]
/// # let builder = builder.slow_operations(std::time::Duration::from_millis(100));
/// assert!(builder.open_files(1_000_000, 108) < 1_000);
/// builder.open()?.put(7u64.to_le_bytes(), [0; 100])?;
/// assert_eq!(Database::builder(&path).read_only(true).open()?.len()?, 1);
/// # Ok::<(), siltstone::Error>(())
/// ```
#[derive(Clone)]
#[doc(alias("Config", "Options"))]
pub struct Builder {
    path: PathBuf,
    engine: Option<Box<dyn EngineSettings>>,
    /// Engine settings by name, for an engine that may not be known yet.
    named_settings: Vec<(String, String)>,
    common: CommonSettings,
    create: bool,
    read_only: bool,
    durability: Durability,
    access: Access,
    verify_checksums: bool,
    background_threads: usize,
    open_files_max: Option<u64>,
    seed: Option<[u64; 2]>,
    clock: Clock,
    progress: Option<Arc<Mutex<OwnedProgress>>>,
    latencies: bool,
    slow: Option<Duration>,
    resources: Option<Resources>,
    change_feed: Option<u64>,
}

impl fmt::Debug for Builder {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = to.debug_struct("Builder");
        fields.field("path", &self.path).field("engine", &self.engine);
        fields.field("named_settings", &self.named_settings).field("common", &self.common);
        fields.field("durability", &self.durability).field("access", &self.access).finish_non_exhaustive()
    }
}

impl Builder {
    pub(super) fn new(path: &Path) -> Builder {
        Builder {
            path: path.to_owned(),
            engine: None,
            named_settings: Vec::new(),
            common: CommonSettings::default(),
            create: true,
            read_only: false,
            durability: Durability::default(),
            access: Access::default(),
            verify_checksums: true,
            background_threads: 2,
            open_files_max: None,
            seed: None,
            clock: Clock::default(),
            progress: None,
            latencies: false,
            slow: None,
            resources: None,
            change_feed: None,
        }
    }

    /// Sets the engine, as an [`EngineKind`] or as its settings. Default: the engine of the database in the directory,
    /// or `silt` for a new one. It is an error if the database in the directory has another engine.
    ///
    /// Settings that affect the stored data are kept in the database: they apply until they are changed. A setting
    /// that is left out has the value stored in the database, or its default.
    pub fn engine(mut self, engine: impl Into<Box<dyn EngineSettings>>) -> Self {
        self.engine = Some(engine.into());
        self
    }

    /// Sets a setting by its name, with a value as text: one of the engine, or a setting of this builder with the name
    /// of its method, as `engine`, `fixed` (`32,8`) or `memory_budget` (`64MiB`). Overrides the methods. `siltstone
    /// engines` and [`EngineSettings::describe`] list the settings of engines. A wrong name or value is an error of
    /// [`open`](Self::open).
    pub fn set(mut self, name: impl Into<String>, value: impl fmt::Display) -> Self {
        self.named_settings.push((name.into(), value.to_string()));
        self
    }

    /// Sets whether to create a database if there is none. Default: yes.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Opens the database read-only: no file is changed or created, and neither write permission nor a writable medium
    /// is needed. Several readers may have the database open at the same time, but no writer ([`Error::Locked`]).
    /// Writes, `sync`, `compact` and `checkpoint` return [`Error::ReadOnly`]. The operations of this open are not
    /// counted in the usage of the database. Default: no.
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Declares that all keys have `key_length` bytes and all values `value_length`. Their lengths are not stored.
    pub fn fixed(mut self, key_length: usize, value_length: usize) -> Self {
        self.common.fixed = Some((key_length, value_length));
        self
    }

    /// Declares that keys are uniform hashes of at least 8 bytes, which are not hashed again: their first 8 bytes are
    /// the place of a record. Only for keys that no adversary can choose, and not for UUIDv7, ULID, Snowflake,
    /// counters, or keys with equal beginnings: with such keys an engine is slow, 20 to 100 times with SILT and
    /// BloomStore. FlashKey and FlashStore refuse a put when 256 keys begin with the same `hash_bits` bits
    /// ([`Error::HashClustered`]). The detail `keys_clustered` of [`Database::stats`](crate::Database::stats) is 1
    /// once keys that were put since the open are not uniform.
    pub fn hashed_keys(mut self) -> Self {
        self.common.hashed_keys = Some(true);
        self
    }

    /// Sets whether fixed-size records have an expiry time, 8 bytes each. Records of any size always may. Default: no.
    pub fn expiring(mut self, expiring: bool) -> Self {
        self.common.expiring = Some(expiring);
        self
    }

    /// Sets the number of partitions (P), a power of two up to 1,024. A merge takes one P-th of the data as extra space
    /// until it ends. With up to two [`background_threads`](Self::background_threads) one partition is merged at a
    /// time; with more of them several, as far as there is space. Default: 16.
    pub fn partitions(mut self, partitions: u32) -> Self {
        self.common.partitions = Some(partitions);
        self
    }

    /// Sets the size of a block on flash: a power of two from 512 to 65,536 bytes. Default: 4,096.
    pub fn block_bytes(mut self, block_bytes: u32) -> Self {
        self.common.block_bytes = Some(block_bytes);
        self
    }

    /// Sets how values are compressed, with the feature `compression` of this crate. Fixed when the database is
    /// created; later it must be the same or be left out. Not for [`fixed`](Self::fixed) lengths. Default:
    /// [`Compression::None`].
    ///
    /// Each value is compressed on its own, when it is written, and decompressed by each get, also from the record
    /// cache. A value that does not shrink takes one byte more than without compression. The maximum length of a value
    /// is one byte less than [`VALUE_LENGTH_MAX`](crate::VALUE_LENGTH_MAX).
    ///
    /// Zstandard trains a dictionary on the first values of about 1 MiB altogether, which makes small values that
    /// resemble each other several times smaller. The database keeps it, in two copies. Values from before the
    /// dictionary stay as they are until they are written again. [`Stats::details`](crate::Stats::details) has the
    /// bytes of values before and after compression. The memory of the dictionary and of the contexts, some MiB per
    /// writing thread, is not part of the [`memory_budget`](Self::memory_budget).
    pub fn compression(mut self, compression: Compression) -> Self {
        self.common.compression = Some(compression);
        self
    }

    /// Limits the memory of the database, in bytes, including buffers and caches. Not included are values returned to
    /// callers, iterators, and single records of more than some KiB while they are read or written. Memory that
    /// indexes and filters do not need caches records. If they do not fit, first filters and then indexes stay on
    /// flash, which costs more reads ([`Stats::degraded`](crate::Stats::degraded) lists the stores); with even less
    /// memory, LogStores and buffers shrink. The minimum is 512 KiB and 4 KiB per partition;
    /// FlashKey needs 0.3 bytes per key more. Default: no limit and no cache; 256 MiB for an engine that keeps all data
    /// in memory.
    #[doc(alias("block_cache", "cache_size"))]
    pub fn memory_budget(mut self, bytes: u64) -> Self {
        self.common.memory_budget = Some(bytes);
        self
    }

    /// Sets a function that decides which records stay when background work writes them again: it gets a key and its
    /// value, and returns whether the record stays. What it refuses disappears without a delete. For records that are
    /// of no use any more by a rule of their own; [`retain`](crate::Database::retain) removes such records at once,
    /// and an expiry time hides them at once.
    ///
    /// - A record is written again when a partition is merged, or when a segment of a log with overwritten records is
    ///   cleaned. Until then reads find it; [`compact`](crate::Database::compact) merges and cleans only where
    ///   something is young, overwritten or deleted. The record cache may return it somewhat longer. What FlashStore
    ///   has on flash above a disk stays there.
    /// - The function is called by background threads, often, so it must be quick, and must not use the database. It
    ///   must refuse a record always or never, as long as the record is not written. If it panics, the database
    ///   accepts no more writes.
    /// - It is not kept in the database: state it at each open. Records that disappear are not in the [change
    ///   feed](Self::change_feed). It is refused for FlashKey with `ordered`, whose set of keys would keep theirs, and
    ///   for an engine that keeps all data in memory.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// use siltstone::Database;
    ///
    /// let path = directory.path().join("db");
    /// let database = Database::builder(&path).compaction_filter(|key, _| !key.starts_with(b"v1:")).open()?;
    /// database.put("v1:a", "old")?;
    /// database.put("v2:a", "new")?;
    /// database.compact()?;
    /// assert!(!database.contains("v1:a")? && database.contains("v2:a")?);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    pub fn compaction_filter(mut self, keep: impl Fn(&[u8], &[u8]) -> bool + Send + Sync + 'static) -> Self {
        self.common.compaction_filter = Some(CompactionFilter::new(keep));
        self
    }

    /// Sets the default durability of writes. Default: [`Durability::Written`].
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Returns how many threads do background work: those of the database, or those that it shares.
    fn threads(&self) -> usize {
        let own = self.resources.as_ref().map_or(self.background_threads, Resources::threads);
        self.common.threads.max(own)
    }

    /// Sets whether store files are read and written through the page cache. The log always is. Default: yes.
    pub fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// Sets whether gets verify the checksums of the blocks that they read. Without it, a bit flip on the device or in
    /// memory can be returned as data. Merges, iterations, checkpoints and
    /// [`Database::verify`](crate::Database::verify) always verify everything, and gets that read the log always
    /// verify the record. Default: yes.
    pub fn verify_checksums(mut self, verify: bool) -> Self {
        self.verify_checksums = verify;
        self
    }

    /// Sets the number of threads for background work. Without threads, the caller drives the work with
    /// [`Database::step`](crate::Database::step), and writers execute a step where they would have to wait. Default:
    /// 2, so that a LogStore can be converted during a merge. With more, up to one less than these of each kind of job,
    /// and up to 8, are in progress at once while writes or a compaction wait for them. At most 256.
    pub fn background_threads(mut self, threads: usize) -> Self {
        self.background_threads = threads;
        self
    }

    /// Keeps a feed of the keys that are written, for followers: [`Database::changes`](crate::Database::changes).
    /// `bytes` is about how much of it is kept on flash, from 64 KiB to 1 PiB; a write takes 6 bytes and the length of
    /// its key. The database keeps this setting; 0 removes the feed. Default: what the database has, and no feed for a
    /// new one.
    ///
    /// Each write appends its keys to the feed first, also a [buffered](Durability::Buffered) one, which costs 4 to 10
    /// % of the puts per second. The feed survives a kill of the process. It is synced when it is closed, so if the
    /// system ends while the database is open, a new feed begins, and followers read all records again; also after a
    /// failed write. On systems other than Linux a kill of the process counts as such an end. The feed takes up to 64
    /// KiB of memory in addition to the [`memory_budget`](Self::memory_budget).
    pub fn change_feed(mut self, bytes: u64) -> Self {
        self.change_feed = Some(bytes);
        self
    }

    /// Sets threads, memory and open files that the database shares with others, instead of its own
    /// [`background_threads`](Self::background_threads).
    pub fn resources(mut self, resources: &Resources) -> Self {
        self.resources = Some(resources.clone());
        self
    }

    /// Sets the maximum number of open files, at least 64. Each store is a file. Gets are fastest while at most half
    /// of this number are open; above that, the least recently used files are closed, and reopened on demand, which
    /// takes some microseconds. Files with unsynced writes, and removed files that an iterator still reads, stay open
    /// beyond the limit. Default: three quarters of the limit of the process (`RLIMIT_NOFILE`). When half of that are
    /// open, the soft limit is raised to the hard limit.
    pub fn open_files_max(mut self, files: u64) -> Self {
        self.open_files_max = Some(files);
        self
    }

    /// Returns the maximum number of open files of a database with these settings and `keys` records of `record_bytes`
    /// each, as long as no iterator holds merged stores: its stores, its log, and the files that background work
    /// writes. For planning. Returns 0 for an engine that keeps all data in memory, and if no engine is stated and the
    /// library is compiled without the default one.
    pub fn open_files(&self, keys: u64, record_bytes: u64) -> u64 {
        let common = CommonSettings { threads: self.threads(), ..self.common.clone() };
        let engine =
            self.engine.clone().or_else(|| EngineKind::of_new(ENGINE).ok().map(EngineKind::settings));
        engine.map_or(0, |engine| engine.open_files(&common, keys, record_bytes))
    }

    /// Sets a function that is called with the bytes processed and the total while the database is opened. It returns
    /// whether to continue.
    pub fn progress(mut self, progress: impl FnMut(u64, u64) -> bool + Send + 'static) -> Self {
        self.progress = Some(Arc::new(Mutex::new(Box::new(progress))));
        self
    }

    /// Sets whether the times that operations take are counted in histograms: [`Stats::latencies`], and
    /// [`Stats::to_prometheus`]. Costs two readings of the clock per operation, and some 15 KiB. Default: no.
    ///
    /// [`Stats::latencies`]: crate::Stats::latencies
    /// [`Stats::to_prometheus`]: crate::Stats::to_prometheus
    pub fn latencies(mut self, latencies: bool) -> Self {
        self.latencies = latencies;
        self
    }

    /// Sets the time from which an operation is slow: then it is an event at the level `warn`, with the operation and
    /// the time. Costs two readings of the clock per operation. Default: no operation is slow.
    #[cfg(feature = "tracing")]
    pub fn slow_operations(mut self, from: Duration) -> Self {
        self.slow = Some(from);
        self
    }

    /// Sets all common settings at once, for simulations.
    #[doc(hidden)]
    pub fn common(mut self, common: CommonSettings) -> Self {
        self.common = common;
        self
    }

    /// Sets the seed of the key hash of a new database, for simulations. Default: random.
    #[doc(hidden)]
    pub fn seed(mut self, seed: [u64; 2]) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets a number that replaces the clock, in milliseconds, for simulations.
    #[doc(hidden)]
    pub fn simulated_clock(mut self, now_ms: Arc<AtomicU64>) -> Self {
        self.clock = Clock::Simulated(now_ms);
        self
    }
}

/// Creates the directory durably if it does not exist, and refuses one with contents.
pub(super) fn create_empty_directory(path: &Path) -> Result<Directory> {
    let directory = Directory::create_system(path, Access::Buffered)?;
    // Not by `list`, which leaves out subdirectories.
    let mut entries = std::fs::read_dir(path).map_err(Error::io("list", path))?;
    match entries.next() {
        Some(Ok(entry)) => Err(Error::NotEmpty {
            path: path.to_owned(),
            found: entry.file_name().to_string_lossy().into_owned(),
        }),
        _ => Ok(directory),
    }
}

/// Removes a directory if it is empty.
pub(super) fn remove_empty_directory(path: &Path) -> Result<()> {
    match std::fs::remove_dir(path) {
        // Files that are not of the database stay, and so does their directory.
        Err(error) if error.kind() != ErrorKind::DirectoryNotEmpty => Err(Error::io("remove", path)(error)),
        _ => Ok(()),
    }
}
