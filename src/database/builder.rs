//! How a database is set up and opened.

use super::{Database, Inner, clock::Clock, lock::DirectoryLock, usage::UsageCounters, workers::Workers};
use crate::batch::Durability;
use crate::device::{Access, Directory, open_files_default};
use crate::engine::mica::{self, ItemShape, MicaSettings};
use crate::engine::silt::{FilterKind, HashStoreKind, IndexKind, Silt, SiltSettings};
use crate::engine::{Engine, EngineKind};
use crate::key::KeyHasher;
use crate::progress::Progress;
use crate::store::names::list_files;
use crate::{Error, Result};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// A database does not do with fewer open files: its own, those that a batch of reads is at, and some stores.
const OPEN_FILES_MIN: u64 = 64;

/// Sets up a [`Database`]. What shapes the records (`fixed`, `hashed_keys`, `expiring`, `partitions`, `block_bytes`) is
/// chosen when a database is created and kept in it; stated again later it must be the same.
pub struct Builder {
    path: PathBuf,
    engine: EngineKind,
    create: bool,
    read_only: bool,
    durability: Durability,
    access: Access,
    verify_checksums: bool,
    background_threads: usize,
    open_files_max: Option<u64>,
    settings: SiltSettings,
    mica: Option<MicaSettings>,
    seed: Option<[u64; 2]>,
    clock: Clock,
    progress: Option<Box<Progress<'static>>>,
}

impl Builder {
    pub(super) fn new(path: &Path) -> Builder {
        Builder {
            path: path.to_owned(),
            engine: EngineKind::default(),
            create: true,
            read_only: false,
            durability: Durability::default(),
            access: Access::default(),
            verify_checksums: true,
            background_threads: 2,
            open_files_max: None,
            settings: SiltSettings::default(),
            mica: None,
            seed: None,
            clock: Clock::default(),
            progress: None,
        }
    }

    /// Which engine. Default: `silt`.
    pub fn engine(mut self, engine: EngineKind) -> Self {
        self.engine = engine;
        self
    }

    /// Whether to create a database where there is none. Default: yes.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Opens the database for reading only: no file is changed or made, none is locked for others who read, and neither
    /// the right to write nor a medium that can be written is needed. A writer is kept out as long as a reader has the
    /// database open, and the other way round ([`Error::Locked`]). Writes, `sync`, `compact` and `checkpoint` answer
    /// [`Error::ReadOnly`]. What the database was asked meanwhile is not counted in its usage. Default: no.
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// All keys have `key_length` bytes and all values `value_length`: no byte is spent on lengths.
    pub fn fixed(mut self, key_length: usize, value_length: usize) -> Self {
        self.settings.shape.fixed = Some((key_length, value_length));
        self
    }

    /// The keys are uniform hashes already, of 8 bytes or more, and are not hashed again. Only for keys that no
    /// adversary can choose.
    pub fn hashed_keys(mut self) -> Self {
        self.settings.shape.hashed_keys = Some(true);
        self
    }

    /// Whether records of a fixed size have room for an expiry time, 8 bytes each. Others always have. Default: no.
    pub fn expiring(mut self, expiring: bool) -> Self {
        self.settings.shape.expiring = Some(expiring);
        self
    }

    /// The number of partitions (P), a power of two up to 1,024. They are merged one at a time, so the extra space
    /// during a merge is one P-th of the data. Default: 16.
    pub fn partitions(mut self, partitions: u32) -> Self {
        self.settings.shape.partitions = Some(partitions);
        self
    }

    /// The size of a block on flash: a power of two from 512 to 65,536 bytes. Default: 4,096.
    pub fn block_bytes(mut self, block_bytes: u32) -> Self {
        self.settings.shape.block_bytes = Some(block_bytes);
        self
    }

    /// How many keys all HashStores together may hold before a partition is merged, as a share of all keys (the
    /// paper's d·P/N). More means less write amplification (2.1 + 1/ratio) and more memory. Default: 0.3.
    pub fn merge_ratio(mut self, ratio: f64) -> Self {
        self.settings.merge_ratio = ratio;
        self
    }

    /// The bits of a tag in the LogStore (k), 8 to 15; also of the HashStores' filters where these are the LogStore's
    /// tags: with [`FilterKind::CuckooTags`] and [`HashStoreKind::CuckooTable`]. Default: 15.
    pub fn tag_bits(mut self, bits: u8) -> Self {
        self.settings.tag_bits = bits;
        self
    }

    /// The slots of a LogStore's index in each partition, at the least; it grows with the data. Default: 4,096.
    pub fn log_slots_min(mut self, slots: u32) -> Self {
        self.settings.log_slots_min = slots;
        self
    }

    /// Keeps all memory of the database within so many bytes: buffers and caches too, but not what is handed out to
    /// callers, iterators, nor what single records of more than some KiB take while they are read or written. Of what
    /// the indexes and filters leave, records are cached. Where they do not fit, filters and then indexes stay on
    /// flash, at the price of more reads ([`Stats::degraded`](crate::Stats::degraded) names the stores); below that
    /// LogStores and buffers become smaller. At least 256 KiB and 4 KiB for each partition. Default: no bound, and no
    /// cache.
    pub fn memory_budget(mut self, bytes: u64) -> Self {
        self.settings.memory_budget = Some(bytes);
        self
    }

    /// Gives each SortedStore a filter that is wrong about one absent key in 2^`bits`: for those whose lookups mostly
    /// miss, which then seldom read. 8 bits make it at most 0.01 reads a miss, the false positives of HashStores among
    /// them, for 8.4 bits of memory a key. It is made by merges: stores that are there get one when they are merged
    /// next. Under a memory budget it is the first to be left on flash. Default: none.
    pub fn filter_last_store(mut self, bits: u8) -> Self {
        self.settings.last_filter_bits = Some(bits);
        self
    }

    /// How HashStores stand on flash. A kind that does not suit the records is an error. Default: in hash order.
    pub fn hash_store(mut self, kind: HashStoreKind) -> Self {
        self.settings.hash_store = Some(kind);
        self
    }

    /// The filter of HashStores in hash order. Cuckoo tables have tags: a ribbon filter for them is an error. Default:
    /// a ribbon filter.
    pub fn filter(mut self, kind: FilterKind) -> Self {
        self.settings.filter = Some(kind);
        self
    }

    /// The false-positive rate of ribbon filters, as its number of bits: 2^-bits for each HashStore, 1 to 32. An error
    /// where HashStores have tags as their filter. Default: 11.
    pub fn filter_bits(mut self, bits: u8) -> Self {
        self.settings.filter_bits = Some(bits);
        self
    }

    /// How SortedStores are indexed. A kind that does not suit the records is an error. Default: block-perfect where
    /// that suits the records, else fences. With [`IndexKind::SlotPerfect`] gets read less, and keys take 0.1 B to 0.2
    /// B more.
    pub fn index(mut self, kind: IndexKind) -> Self {
        self.settings.index = Some(kind);
        self
    }

    /// All settings of MICA; an error for another engine, as settings of SILT are for MICA.
    /// [`partitions`](Self::partitions), [`memory_budget`](Self::memory_budget) and [`fixed`](Self::fixed) set the same
    /// values as fields of these settings: where both are stated, they have to agree. With neither it takes 256 MiB.
    pub fn mica(mut self, settings: MicaSettings) -> Self {
        self.mica = Some(settings);
        self
    }

    /// The durability of writes that state none. Default: [`Durability::Written`].
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Whether store files go through the page cache. The log always does. Default: yes.
    pub fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// Whether a lookup computes the checksum of the block that it reads. Without it a bit that turned
    /// over on the device or in memory may be answered as if it had been written. Merges, iterations, checkpoints and
    /// [`Database::verify`] check everything in any case, and gets that are answered from the log check their record.
    /// Default: yes.
    pub fn verify_checksums(mut self, verify: bool) -> Self {
        self.verify_checksums = verify;
        self
    }

    /// Threads for background work; with none the caller drives it with [`Database::step`], and writers do a step
    /// themselves where they would have to wait. Default: 2, so that a LogStore can be converted during a merge.
    pub fn background_threads(mut self, threads: usize) -> Self {
        self.background_threads = threads;
        self
    }

    /// How many files of the database are open at a time, 64 at the least. A store takes one, and gets are fastest
    /// while at most half of this number are open; of more, those that were not used of late are closed and opened
    /// again when they are needed, which costs some microseconds. Files with writes that are not synced and removed
    /// files that an iterator still reads stay open beyond it. Default: three quarters of the limit of the process
    /// (`RLIMIT_NOFILE`). When half of that are open the soft limit is raised to the hard one.
    pub fn open_files_max(mut self, files: u64) -> Self {
        self.open_files_max = Some(files);
        self
    }

    /// How many files a database with these settings has open at the most once it holds `keys` records that take
    /// `record_bytes` each, as long as no iterator holds on to stores that were merged: its stores, its log, and what
    /// background work writes. For planning; 0 for an engine in memory.
    pub fn open_files(&self, keys: u64, record_bytes: u64) -> u64 {
        if self.engine == EngineKind::Silt { self.settings.open_files(keys, record_bytes) } else { 0 }
    }

    /// Is told the bytes done and the bytes in all while the database is opened; answers whether to go on.
    pub fn progress(mut self, progress: impl FnMut(u64, u64) -> bool + 'static) -> Self {
        self.progress = Some(Box::new(progress));
        self
    }

    /// All settings of the engine at once, for simulations.
    #[doc(hidden)]
    pub fn silt_settings(mut self, settings: SiltSettings) -> Self {
        self.settings = settings;
        self
    }

    /// The secret of the hash of a database that is created, for simulations: otherwise it is drawn by chance.
    #[doc(hidden)]
    pub fn seed(mut self, seed: [u64; 2]) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Takes the time, in milliseconds, from what is stored there, for simulations.
    #[doc(hidden)]
    pub fn simulated_clock(mut self, now_ms: Arc<AtomicU64>) -> Self {
        self.clock = Clock::Simulated(now_ms);
        self
    }

    /// Opens the database in its directory, or creates it.
    ///
    /// Settings that are refused leave nothing behind. A database that never held a record is created anew if another
    /// shape is asked for.
    pub fn open(self) -> Result<Database> {
        self.check()?;
        self.check_open_files()?;
        let (path, access) = (self.path.clone(), self.access);
        let opened = match (self.read_only, self.create) {
            (true, _) => Directory::system_read_only(&path, access),
            (false, false) => Directory::system(&path, access),
            (false, true) => {
                // What a database that is there was created with is checked when it is opened.
                if !path.exists() {
                    self.check_creation()?;
                }
                Directory::create_system(&path, access)
            }
        };
        let directory = opened.map_err(|error| not_opened(path, error))?;
        if let Some(max) = self.open_files_max {
            directory.limit_open_files(max);
        }
        self.open_in(directory)
    }

    /// Checks that enough files may be open, now or after the limit was raised.
    fn check_open_files(&self) -> Result<()> {
        let default = open_files_default();
        let max = self.open_files_max.unwrap_or(default);
        if (OPEN_FILES_MIN..=default.max(OPEN_FILES_MIN)).contains(&max) {
            return Ok(());
        }
        let problem = format!(
            "{max} is not within {OPEN_FILES_MIN} to {default}, three quarters of the limit on open files of this process; \
             raise that limit (`ulimit -n`) for more"
        );
        Err(Error::Setting { name: "open_files_max", problem })
    }

    /// Opens the database in any directory of the device room.
    pub fn open_in(mut self, directory: Directory) -> Result<Database> {
        self.check()?;
        let directory = directory.trust_gets(!self.verify_checksums);
        if self.read_only && !directory.is_read_only() {
            let problem = "the directory was opened for writing; use `Directory::system_read_only`".into();
            return Err(Error::Setting { name: "read_only", problem });
        }
        self.read_only = directory.is_read_only();
        // Before the lock, which leaves a file.
        self.check_place(&directory)?;
        let lock = if self.read_only { directory.lock_shared()? } else { directory.lock()? };
        let lock = Arc::new(DirectoryLock::new(lock, self.read_only));
        let engine = match self.engine {
            EngineKind::Silt => self.open_silt(directory.clone())?,
            EngineKind::Mica => self.open_mica()?,
        };
        let directory = engine.capabilities().persistent.then_some(directory);
        let usage = Arc::new(UsageCounters::open(directory, self.clock.now_ms())?);
        let Builder { durability, clock, background_threads, .. } = self;
        let workers =
            Workers::start(engine.clone(), lock.clone(), clock.clone(), usage.clone(), background_threads)?;
        let (shape, hasher) = (engine.shape(), engine.hasher());
        let inner = Inner { workers, engine, durability, clock, usage, shape, hasher, lock };
        Ok(Database { inner: Arc::new(inner) })
    }

    /// An error for a setting that the engine does not have, or that another one overrules.
    fn check_effects(&self) -> Result<()> {
        let setting = |name, problem: String| Err(Error::Setting { name, problem });
        if self.engine == EngineKind::Silt {
            let problem = "these settings are for the engine `mica`, but the engine is `silt`; choose `mica` \
                           or leave them out";
            return if self.mica.is_some() { setting("mica", problem.into()) } else { Ok(()) };
        }
        let (silt, default) = (&self.settings, SiltSettings::default());
        let of_silt = [
            ("block_bytes", silt.shape.block_bytes.is_some()),
            ("merge_ratio", silt.merge_ratio != default.merge_ratio),
            ("tag_bits", silt.tag_bits != default.tag_bits),
            ("log_slots_min", silt.log_slots_min != default.log_slots_min),
            ("filter_last_store", silt.last_filter_bits.is_some()),
            ("hash_store", silt.hash_store.is_some()),
            ("filter", silt.filter.is_some()),
            ("filter_bits", silt.filter_bits.is_some()),
            ("index", silt.index.is_some()),
            ("access", self.access != Access::default()),
            ("verify_checksums", !self.verify_checksums),
            ("open_files_max", self.open_files_max.is_some()),
        ];
        if let Some((name, _)) = of_silt.into_iter().find(|(_, is_set)| *is_set) {
            let problem = "the engine `mica` keeps all data in memory and has no such setting; leave it out \
                           or choose the engine `silt`";
            return setting(name, problem.into());
        }
        let (mica, default) = (self.mica.clone().unwrap_or_default(), MicaSettings::default());
        let record_bytes =
            silt.shape.fixed.map(|(key_length, value_length)| (key_length + value_length) as u64);
        for (name, other, stated, overruling, default) in [
            (
                "mica.record_bytes",
                "fixed",
                mica.record_bytes as u64,
                record_bytes,
                default.record_bytes as u64,
            ),
            (
                "mica.memory_bytes",
                "memory_budget",
                mica.memory_bytes,
                silt.memory_budget,
                default.memory_bytes,
            ),
            (
                "mica.partitions",
                "partitions",
                mica.partitions.into(),
                silt.shape.partitions.map(u64::from),
                default.partitions.into(),
            ),
        ] {
            if let Some(overruling) = overruling.filter(|value| *value != stated && stated != default) {
                let problem = format!("{stated}, but `{other}` is {overruling}; leave one of them out");
                return setting(name, problem);
            }
        }
        Ok(())
    }

    /// Checks the settings, whatever database they are for.
    fn check(&self) -> Result<()> {
        self.check_effects()?;
        match self.engine {
            EngineKind::Silt => self.settings.check(),
            EngineKind::Mica if self.read_only => {
                let (engine, operation) = (EngineKind::Mica.name(), "opening for reading only");
                Err(Error::Unsupported { engine, operation })
            }
            EngineKind::Mica => self.mica_settings().check(),
        }
    }

    /// Checks what only matters to a database that is created.
    fn check_creation(&self) -> Result<()> {
        if self.engine == EngineKind::Silt { self.settings.check_creation() } else { Ok(()) }
    }

    /// An error if the directory holds other files, or nothing where there should be a database.
    fn check_place(&self, directory: &Directory) -> Result<()> {
        if self.engine == EngineKind::Silt && Silt::stands_in(directory)? {
            return Ok(());
        }
        let creates = self.create && !self.read_only;
        // What an interrupted creation left is removed by the next one.
        let is_free = self.engine == EngineKind::Silt && Silt::is_half_created(directory)?;
        match first_file(directory)?.filter(|_| !is_free) {
            Some(found) if self.engine == EngineKind::Silt => Err(no_database(directory, found)?),
            Some(found) => Err(Error::NotADatabase { path: directory.path(), found }),
            None if !creates => Err(Error::NotFound { path: directory.path() }),
            None => Ok(()),
        }
    }

    fn mica_settings(&self) -> MicaSettings {
        let settings = self.mica.clone().unwrap_or_default();
        let partitions = self.settings.shape.partitions.unwrap_or(settings.partitions);
        let memory_bytes = self.settings.memory_budget.unwrap_or(settings.memory_bytes);
        MicaSettings { partitions, memory_bytes, ..settings }
    }

    /// An empty engine in memory.
    fn open_mica(&self) -> Result<Arc<dyn Engine>> {
        let shape = &self.settings.shape;
        let length = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        let fixed = shape.fixed.map(|(key_length, value_length)| (length(key_length), length(value_length)));
        let expiring = shape.expiring.unwrap_or(false) && fixed.is_some();
        let hasher = match (shape.hashed_keys, self.seed) {
            (Some(true), _) => KeyHasher::Identity,
            (_, Some(seed)) => KeyHasher::Keyed(seed),
            (_, None) => KeyHasher::Keyed(KeyHasher::random_seed()?),
        };
        mica::open(&self.mica_settings(), ItemShape { fixed, expiring }, hasher)
    }

    fn open_silt(&mut self, directory: Directory) -> Result<Arc<dyn Engine>> {
        // Again: somebody may have been there before the lock was taken.
        self.check_place(&directory)?;
        if !Silt::stands_in(&directory)? {
            self.check_creation()?;
            let seed = self.seed.map_or_else(KeyHasher::random_seed, Ok)?;
            Silt::create(&directory, &self.settings.shape, seed)?;
        }
        let mut go_on = |_, _| true;
        let progress = self.progress.as_deref_mut().unwrap_or(&mut go_on);
        let (settings, now_ms) = (&self.settings, self.clock.now_ms());
        let mut opened = Silt::open(directory.clone(), settings.clone(), now_ms, progress);
        if self.create && matches!(opened, Err(Error::Setting { .. })) {
            settings.check_creation()?;
            let seed = self.seed.map_or_else(KeyHasher::random_seed, Ok)?;
            if Silt::reshape(&directory, &settings.shape, seed, now_ms)? {
                opened = Silt::open(directory, settings.clone(), now_ms, progress);
            }
        }
        Ok(Arc::new(opened?))
    }
}

/// Why a directory with this file and no manifest holds no database that can be opened.
fn no_database(directory: &Directory, found: String) -> Result<Error> {
    let path = directory.path();
    Ok(match list_files(directory)?.into_iter().find(|file| file.is_log_or_store()) {
        Some(found) => Error::NoManifest { path, found: found.to_string() },
        None => Error::NotADatabase { path, found },
    })
}

/// The error of a directory that could not be opened.
fn not_opened(path: PathBuf, error: Error) -> Error {
    let Error::Io { source, .. } = &error else { return error };
    match source.kind() {
        ErrorKind::NotFound => Error::NotFound { path },
        ErrorKind::NotADirectory if path.exists() => Error::NotADirectory { path },
        _ => error,
    }
}

/// A file that stands in the directory and belongs to its user, if there is one.
fn first_file(directory: &Directory) -> Result<Option<String>> {
    Ok(directory.list()?.into_iter().find(|name| name != "LOCK" && name != "lost+found"))
}

/// Makes the directory durably if it is not there, and refuses one that holds anything.
pub(super) fn create_empty_directory(path: &Path) -> Result<Directory> {
    let directory = Directory::create_system(path, Access::Buffered)?;
    let mut entries = std::fs::read_dir(path).map_err(Error::io("list", path))?;
    match entries.next() {
        Some(Ok(entry)) => Err(Error::NotEmpty {
            path: path.to_owned(),
            found: entry.file_name().to_string_lossy().into_owned(),
        }),
        _ => Ok(directory),
    }
}
