//! How a database is set up and opened.

use super::place::{Place, engine_of_number};
use super::{Database, Inner, clock::Clock, lock::DirectoryLock, usage::UsageCounters, workers::Workers};
use crate::batch::Durability;
use crate::device::{Access, Directory, open_files_default};
use crate::engine::common::CommonSettings;
use crate::engine::{EngineInfo, EngineKind, EngineSettings, Opening};
use crate::progress::Progress;
use crate::{Error, Result};
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The minimum of [`Builder::open_files_max`]: the database's own files, those that a batch of reads is reading, and
/// some stores.
const OPEN_FILES_MIN: u64 = 64;

/// Sets up a [`Database`].
///
/// The builder has the settings that every engine understands. Those of one engine are given with the engine
/// ([`SiltSettings`](crate::SiltSettings), [`MicaSettings`](crate::MicaSettings)). `fixed`, `hashed_keys`, `expiring`,
/// `partitions` and `block_bytes` are fixed when a database is created: later they must be the same or left out.
pub struct Builder {
    path: PathBuf,
    engine: Option<Box<dyn EngineSettings>>,
    /// Settings of the engine by name, for an engine that may not be known yet.
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
    progress: Option<Box<Progress<'static>>>,
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
        }
    }

    /// The engine, as an [`EngineKind`] or as its settings. Default: the engine of the database in the directory, or
    /// `silt` for a new one. It is an error if the database in the directory has another engine.
    ///
    /// Settings that shape the data are kept in the database: they hold until another value is given. A setting that is
    /// not given has the value that the database keeps, or its default.
    pub fn engine(mut self, engine: impl Into<Box<dyn EngineSettings>>) -> Self {
        self.engine = Some(engine.into());
        self
    }

    /// Sets a setting of the engine by its name, as it is read from a command line or a file. It applies after
    /// [`engine`](Self::engine). `siltstone engines` lists the settings, and [`EngineSettings::describe`] returns them.
    pub fn set(mut self, name: impl Into<String>, value: impl fmt::Display) -> Self {
        self.named_settings.push((name.into(), value.to_string()));
        self
    }

    /// Whether to create a database where there is none. Default: yes.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Opens the database read-only: no file is changed or created, and neither the right to write nor a writable
    /// medium is needed. Several readers may have the database open, but no writer at the same time
    /// ([`Error::Locked`]). Writes, `sync`, `compact` and `checkpoint` return [`Error::ReadOnly`]. The operations of
    /// this opening are not counted in the usage of the database. Default: no.
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// All keys have `key_length` bytes and all values `value_length`, and their lengths are not stored.
    pub fn fixed(mut self, key_length: usize, value_length: usize) -> Self {
        self.common.fixed = Some((key_length, value_length));
        self
    }

    /// The keys are uniform hashes of 8 bytes or more and are not hashed again. Only for keys that no adversary can
    /// choose.
    pub fn hashed_keys(mut self) -> Self {
        self.common.hashed_keys = Some(true);
        self
    }

    /// Whether fixed-size records have an expiry time, 8 bytes each. Records of any size always can. Default: no.
    pub fn expiring(mut self, expiring: bool) -> Self {
        self.common.expiring = Some(expiring);
        self
    }

    /// The number of partitions (P), a power of two up to 1,024. They are merged one at a time, so the extra space
    /// during a merge is one P-th of the data. Default: 16.
    pub fn partitions(mut self, partitions: u32) -> Self {
        self.common.partitions = Some(partitions);
        self
    }

    /// The size of a block on flash: a power of two from 512 to 65,536 bytes. Default: 4,096.
    pub fn block_bytes(mut self, block_bytes: u32) -> Self {
        self.common.block_bytes = Some(block_bytes);
        self
    }

    /// Limits all memory of the database, in bytes, including buffers and caches, but not what is returned to callers,
    /// iterators, nor single records of more than some KiB while they are read or written. Memory that indexes and
    /// filters do not need caches records. Where they do not fit, filters and then indexes stay on flash, which costs
    /// more reads ([`Stats::degraded`](crate::Stats::degraded) lists the stores); below that LogStores and buffers
    /// become smaller. At least 256 KiB and 4 KiB per partition. Default: no limit, and no cache; 256 MiB for an engine
    /// that keeps all data in memory.
    pub fn memory_budget(mut self, bytes: u64) -> Self {
        self.common.memory_budget = Some(bytes);
        self
    }

    /// The durability of writes without a durability of their own. Default: [`Durability::Written`].
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Whether store files are read and written through the page cache. The log always is. Default: yes.
    pub fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// Whether a get verifies the checksum of the block that it reads. Without it, a bit flip on the device or in
    /// memory can be returned as data. Merges, iterations, checkpoints and [`Database::verify`] verify everything in
    /// any case, and gets that read the log verify the record. Default: yes.
    pub fn verify_checksums(mut self, verify: bool) -> Self {
        self.verify_checksums = verify;
        self
    }

    /// The number of threads for background work. With none, the caller drives it with [`Database::step`], and writers
    /// execute a step where they would have to wait. Default: 2, so that a LogStore can be converted during a merge.
    pub fn background_threads(mut self, threads: usize) -> Self {
        self.background_threads = threads;
        self
    }

    /// How many files of the database are open at a time, at least 64. A store has one file, and gets are fastest while
    /// at most half of this number are open; beyond that, the least recently used ones are closed and reopened when
    /// they are needed, which costs some microseconds. Files with unsynced writes and removed files that an iterator
    /// still reads stay open beyond it. Default: three quarters of the limit of the process (`RLIMIT_NOFILE`). When
    /// half of that are open, the soft limit is raised to the hard one.
    pub fn open_files_max(mut self, files: u64) -> Self {
        self.open_files_max = Some(files);
        self
    }

    /// Returns how many files a database with these settings has open at most once it holds `keys` records of
    /// `record_bytes` each, as long as no iterator holds merged stores: its stores, its log, and what background work
    /// writes. For planning; 0 for an engine that keeps all data in memory.
    pub fn open_files(&self, keys: u64, record_bytes: u64) -> u64 {
        match &self.engine {
            Some(engine) => engine.open_files(&self.common, keys, record_bytes),
            None => EngineKind::default().settings().open_files(&self.common, keys, record_bytes),
        }
    }

    /// Called with the bytes processed and the total while the database is opened. Returns whether to go on.
    pub fn progress(mut self, progress: impl FnMut(u64, u64) -> bool + 'static) -> Self {
        self.progress = Some(Box::new(progress));
        self
    }

    /// All settings that every engine understands, for simulations.
    #[doc(hidden)]
    pub fn common(mut self, common: CommonSettings) -> Self {
        self.common = common;
        self
    }

    /// The seed of the hash of a database that is created, for simulations. Default: random.
    #[doc(hidden)]
    pub fn seed(mut self, seed: [u64; 2]) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Takes the time, in milliseconds, from this number, for simulations.
    #[doc(hidden)]
    pub fn simulated_clock(mut self, now_ms: Arc<AtomicU64>) -> Self {
        self.clock = Clock::Simulated(now_ms);
        self
    }

    /// Opens the database in its directory, or creates it.
    ///
    /// Settings that are refused leave nothing behind. A database that never held a record is created anew if it was
    /// created with other settings.
    pub fn open(mut self) -> Result<Database> {
        self.common.check()?;
        self.check_open_files()?;
        let (path, access) = (self.path.clone(), self.access);
        let opened = match (self.read_only, self.create) {
            (true, _) => Directory::system_read_only(&path, access),
            (false, false) => Directory::system(&path, access),
            (false, true) => {
                // The settings of an existing database are checked when it is opened.
                if !path.exists() {
                    let engine = self.choose_engine(None)?;
                    engine.check(&self.common, true)?;
                    self.engine = Some(engine);
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

    /// Checks that the process may have enough files open, now or after the limit was raised.
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

    /// Opens the database in any directory of the module `device`.
    pub fn open_in(mut self, directory: Directory) -> Result<Database> {
        let directory = directory.trust_gets(!self.verify_checksums);
        if self.read_only && !directory.is_read_only() {
            let problem = "the directory was opened for writing; use `Directory::system_read_only`".into();
            return Err(Error::Setting { name: "read_only", problem });
        }
        self.read_only = directory.is_read_only();
        // Before the lock, which creates a file.
        self.engine = Some(self.examine_place(&directory)?);
        let lock = if self.read_only { directory.lock_shared()? } else { directory.lock()? };
        let lock = Arc::new(DirectoryLock::new(lock, self.read_only));
        // Again: another process may have created a database before the lock was taken.
        let settings = self.examine_place(&directory)?;
        let mut go_on = |_, _| true;
        let engine = settings.open(Opening {
            directory: directory.clone(),
            common: &self.common,
            create: self.create,
            seed: self.seed,
            now_ms: self.clock.now_ms(),
            progress: self.progress.as_deref_mut().unwrap_or(&mut go_on),
        })?;
        let directory = engine.capabilities().persistent.then_some(directory);
        let usage = Arc::new(UsageCounters::open(directory, self.clock.now_ms())?);
        let Builder { durability, clock, background_threads, .. } = self;
        let workers =
            Workers::start(engine.clone(), lock.clone(), clock.clone(), usage.clone(), background_threads)?;
        let (shape, hasher) = (engine.shape(), engine.hasher());
        let inner = Inner { workers, engine, durability, clock, usage, shape, hasher, lock };
        Ok(Database { inner: Arc::new(inner) })
    }

    /// Checks that a directory has a database of the engine, or that one can be created there, with these settings.
    /// Returns the engine.
    fn examine_place(&mut self, directory: &Directory) -> Result<Box<dyn EngineSettings>> {
        let path = directory.path();
        let number = match Place::read(directory)? {
            Place::Database(number) => Some(number),
            Place::Occupied { file: found, is_data: true } => return Err(Error::NoManifest { path, found }),
            Place::Occupied { file: found, is_data: false } => {
                return Err(Error::NotADatabase { path, found });
            }
            Place::Free if self.create && !self.read_only => None,
            Place::Free => return Err(Error::NotFound { path }),
        };
        let found = number.map(|number| engine_of_number(number, directory));
        let engine = self.choose_engine(found)?;
        if let Some(number) = number.filter(|number| engine.info().number != Some(*number)) {
            let found = EngineKind::from_number(number)
                .map_or_else(|| format!("with the number {number}"), |kind| format!("`{}`", kind.name()));
            let problem = format!(
                "the engine is `{}`, but the database in {} has the engine {found}; leave `engine` out",
                engine.info().name,
                path.display()
            );
            return Err(Error::Setting { name: "engine", problem });
        }
        self.common.check()?;
        self.check_effects(engine.info())?;
        engine.check(&self.common, number.is_none())?;
        Ok(engine)
    }

    /// Takes the stated engine, else the one that was found, else the default, and applies the settings by name.
    fn choose_engine(
        &mut self,
        found: Option<Result<Box<dyn EngineSettings>>>,
    ) -> Result<Box<dyn EngineSettings>> {
        let mut engine = match (self.engine.take(), found) {
            (Some(stated), _) => stated,
            (None, Some(found)) => found?,
            (None, None) => EngineKind::default().settings(),
        };
        for (name, value) in std::mem::take(&mut self.named_settings) {
            engine.set(&name, &value)?;
        }
        Ok(engine)
    }

    /// Checks that the settings have an effect with this engine.
    fn check_effects(&self, engine: &EngineInfo) -> Result<()> {
        if engine.number.is_some() {
            return Ok(());
        }
        if self.read_only {
            return Err(Error::Unsupported { engine: engine.name, operation: "opening for reading only" });
        }
        let of_files = [
            ("block_bytes", self.common.block_bytes.is_some()),
            ("access", self.access != Access::default()),
            ("verify_checksums", !self.verify_checksums),
            ("open_files_max", self.open_files_max.is_some()),
        ];
        let set = of_files.into_iter().find(|(_, is_set)| *is_set);
        set.map_or(Ok(()), |(name, _)| {
            let problem = format!(
                "the engine `{}` keeps all data in memory and has no such setting; leave it out or choose another engine",
                engine.name
            );
            Err(Error::Setting { name, problem })
        })
    }
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
