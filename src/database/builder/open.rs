//! Opens a database: examines the directory, takes its lock, and starts what an open database consists of.
//!
//! 1. Check the settings that need no directory. Nothing is created if one is invalid.
//! 2. Examine the directory without its lock, so that a refused open creates no `LOCK`.
//! 3. Take the lock. Give the files of a database that was truncated their new names. Examine the directory again:
//!    another process may have created a database in between.
//! 4. Remove the runs of an interrupted sort. No other process can be writing them now.
//! 5. Lock and open the disk, if there is one, then open the engine. Each engine recovers its own files.
//! 6. Put the compression over the engine. It reads the dictionary, or takes samples from the recovered records.
//! 7. Open the change feed and the usage counters. If recovery has failed, both are unchanged. End a truncation.
//! 8. Start the worker threads. This is the last step that can fail, so no thread outlives a failed open.

use super::named::of_unknown;
use super::{Builder, ENGINE, OPEN_FILES_MIN};
use crate::database::changes::Feed;
use crate::database::changes::state::FEED_BYTES;
use crate::database::compressed;
use crate::database::disk;
use crate::database::latencies::Latencies;
use crate::database::place::{
    Contents, check_access, engine_of_number, is_truncated, not_opened, refuse_disk,
};
use crate::database::resources::check_threads;
use crate::database::truncate::{self, Remover, Reopening};
use crate::database::{
    Database, Inner, lock::DirectoryLock, uniformity::Uniformity, usage::UsageCounters, workers::Workers,
};
use crate::engine::{Engine, EngineInfo, EngineKind, EngineSettings, Lookups, Opening};
use crate::error::{Error, Result};
use crate::key::RecordLayout;
use crate::stats::Shape;
use crate::store::sort::remove_stale_runs;
use siltstone_device::memory::MemoryDirectory;
use siltstone_device::sync::Mutex;
use siltstone_device::{Access, Directory, open_files_default};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

/// A directory that is locked, and what is opened or created there.
struct LockedPlace {
    lock: Box<dyn Send + Sync>,
    settings: Box<dyn EngineSettings>,
    /// Whether a truncation has removed the database that was there.
    is_emptied: bool,
}

impl Builder {
    /// Opens or creates the database in its directory.
    ///
    /// Invalid settings leave nothing behind. A database that never held a record is created again if it was created
    /// with other settings.
    pub fn open(mut self) -> Result<Database> {
        // The names first: a limit that was set by its name must not contradict that of the resources either.
        self = self.with_common_settings()?.with_shares()?;
        self.common.check()?;
        check_threads("background_threads", self.background_threads)?;
        self.check_open_files()?;
        let (path, access) = (self.path.clone(), self.access);
        let opened = match (self.read_only, self.create) {
            (true, _) => Directory::system_read_only(&path, access),
            (false, false) => Directory::system(&path, access),
            (false, true) => {
                // The settings of an existing database are checked when it is opened.
                if !path.exists() {
                    // Before the directory is created, which a refused open must not leave.
                    let engine = self.choose_engine(None)?;
                    self.check_effects(engine.info())?;
                    engine.check(&self.common, true)?;
                    self.engine = Some(engine);
                }
                Directory::create_system(&path, access)
            }
        };
        let directory = opened.map_err(|error| not_opened(path, error.into()))?;
        // Before the first file is opened.
        if let Some(max) = self.open_files_max {
            directory.limit_open_files(max);
        }
        self.open_in(directory)
    }

    /// Opens an empty database of an engine that keeps all data in memory, without a directory: what `path` was given
    /// is not used.
    ///
    /// ```
    /// use siltstone::{Database, MicaSettings};
    ///
    /// let database = Database::builder("").engine(MicaSettings::default()).open_in_memory()?;
    /// database.put("key", "value")?;
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Setting`] if the engine keeps its data in files, and for invalid settings.
    pub fn open_in_memory(mut self) -> Result<Database> {
        self = self.with_common_settings()?;
        let engine = self.choose_engine(None)?;
        if engine.info().number.is_some() {
            let name = engine.info().name;
            let problem = format!("`{name}` keeps its data in files; open it in a directory, or use `mica`");
            return Err(Error::Setting { name: "engine", problem });
        }
        self.engine = Some(engine);
        self.open_in(Directory::new(MemoryDirectory::default(), Access::Buffered))
    }

    /// Takes the shares of memory and open files from the resources.
    fn with_shares(mut self) -> Result<Builder> {
        let Some(resources) = &self.resources else { return Ok(self) };
        let (memory_budget, open_files_max) = resources.shares();
        for (name, share, own) in [
            ("memory_budget", memory_budget, &mut self.common.memory_budget),
            ("open_files_max", open_files_max, &mut self.open_files_max),
        ] {
            if share.is_some() && own.is_some() {
                let problem =
                    "the database has a share of what its resources limit; leave it out here".into();
                return Err(Error::Setting { name, problem });
            }
            *own = own.or(share);
        }
        Ok(self)
    }

    /// Checks that the process may open enough files, if necessary after raising the limit.
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
    #[doc(hidden)]
    pub fn open_in(self, directory: Directory) -> Result<Database> {
        self.with_common_settings()?.open_with_settings(directory)
    }

    fn open_with_settings(mut self, directory: Directory) -> Result<Database> {
        check_threads("background_threads", self.background_threads)?;
        let directory = directory.skip_checksums_on_get(!self.verify_checksums);
        if self.read_only && !directory.is_read_only() {
            let problem = "the directory was opened for writing; use `Directory::system_read_only`".into();
            return Err(Error::Setting { name: "read_only", problem });
        }
        self.read_only = directory.is_read_only();
        self.common.threads = self.threads();
        let LockedPlace { lock, settings, is_emptied } = self.lock_place(&directory)?;
        let reopening = Reopening {
            builder: Builder { engine: Some(settings.copy()), progress: None, create: true, ..self.clone() },
            directory: directory.clone(),
            memory_budget: Mutex::new(self.common.memory_budget),
        };
        let decoding = compressed::Decoding::default();
        // The engine gets the filter before the dictionary is read. Until then the filter keeps all records.
        let of_stored = |filter| compressed::filter_of_stored(filter, &decoding);
        self.common.compaction_filter = self.common.compaction_filter.take().map(of_stored);
        let progress = self.progress.take();
        let mut report = |done, all| progress.as_ref().is_none_or(|progress| progress.lock()(done, all));
        let lookups = Lookups::default();
        self.common.lookups = lookups.clone();
        let opening = Opening {
            directory: directory.clone(),
            common: &self.common,
            create: self.create,
            seed: self.seed,
            now_ms: self.clock.now_ms(),
            progress: &mut report,
            disk: None,
        };
        check_access(&directory)?;
        if !self.read_only {
            // Only with the exclusive lock: without it the files may be those of a sort that runs.
            remove_stale_runs(&directory)?;
        }
        let (engine, disks) = disk::open(&*settings, opening, is_emptied)?;
        let is_persistent = engine.capabilities().persistent;
        let compression = match is_persistent {
            true => engine.shape().compression,
            // An engine in memory has no header that could keep it.
            false => self.common.compression.unwrap_or_default(),
        };
        let place = compressed::CodingContext {
            compression,
            sample_bytes: self.common.sample_bytes,
            directory: is_persistent.then(|| directory.clone()),
            path: self.path.clone(),
            decoding,
        };
        let engine = compressed::over(engine, place)?;
        // Without files there is no feed, and no place for the counters.
        let directory = is_persistent.then_some(directory);
        let (disks, locks_of_disks): (Vec<_>, Vec<_>) = disks.into_iter().unzip();
        // One lock for all directories, so that none is unlocked before the engines are closed.
        let lock = Arc::new(DirectoryLock::new(Box::new((lock, locks_of_disks)), self.read_only));
        let directories: Vec<Directory> = directory.iter().cloned().chain(disks).collect();
        let left = if self.read_only { Vec::new() } else { truncate::left(&directories, &*settings)? };
        // After the engine: if recovery fails, the feed is as it was.
        let feed = directory
            .as_ref()
            .map_or(Ok(None), |directory| Feed::open(directory, self.change_feed))?
            .map(Arc::new);
        let usage = Arc::new(UsageCounters::open(directory, lookups, self.clock.now_ms())?);
        if is_emptied {
            // Before the first write, and when the empty database is durable.
            truncate::end(&reopening.directory)?;
        }
        let Builder { path, durability, clock, background_threads, resources, .. } = self;
        let latencies = Latencies::new(self.latencies, self.slow);
        event_of_opening(&path, &*engine);
        // The last step that can fail: a started thread must not outlive an error.
        let workers = match &resources {
            Some(resources) => {
                let (engine, lock, usage, feed) = (engine.clone(), lock.clone(), usage.clone(), feed.clone());
                Workers::join(engine, lock, clock.clone(), usage, feed, &resources.pool)?
            }
            None => {
                let (engine, lock, usage, feed) = (engine.clone(), lock.clone(), usage.clone(), feed.clone());
                Workers::start(engine, lock, clock.clone(), usage, feed, background_threads)?
            }
        };
        // After all that can fail: a failed open leaves no thread.
        let remover = Remover::start(left, background_threads > 0 || resources.is_some());
        let (shape, hasher) = (engine.shape(), engine.hasher());
        let layout = RecordLayout { fixed: shape.fixed, expiring: shape.expiring };
        let uniformity = shape.hashed_keys.then(Uniformity::default);
        let inner = Inner {
            workers,
            engine,
            durability,
            clock,
            usage,
            latencies,
            shape,
            layout,
            hasher,
            lock,
            path,
            directories,
            reopening,
            remover,
            feed,
            uniformity,
        };
        Ok(Database { inner: Arc::new(inner) })
    }

    /// Locks the directory, and examines what is there. With the mark of a truncation, which is acted on only under the
    /// lock, it has no database any more.
    fn lock_place(&mut self, directory: &Directory) -> Result<LockedPlace> {
        match is_truncated(directory)? {
            true if self.read_only => return Err(Error::NotFound { path: directory.path() }),
            // Another process may be completing the truncation, so what is there is not known yet.
            true => {}
            // Before the lock, which creates a file.
            false => match self.examine_place(directory, false) {
                // Another process that creates a database here has removed a file that was listed.
                Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound && self.create => {}
                engine => self.engine = Some(engine?),
            },
        }
        let lock = if self.read_only { directory.lock_shared()? } else { directory.lock()? };
        // Checked again: before the lock was taken, another process may have completed a truncation, or begun one.
        let is_emptied = is_truncated(directory)?;
        if self.read_only && is_emptied {
            return Err(Error::NotFound { path: directory.path() });
        }
        if !self.read_only {
            // Under the lock, which another database takes before it writes its claim here.
            refuse_disk(directory)?;
        }
        if is_emptied {
            truncate::complete(directory, self.stated_engine())?;
        }
        // Again: another process may have created a database before the lock was taken.
        let settings = self.examine_place(directory, is_emptied)?;
        Ok(LockedPlace { lock, settings, is_emptied })
    }

    /// Returns the engine that the user chose, if it is known.
    pub(in crate::database) fn stated_engine(&self) -> Option<Box<dyn EngineSettings>> {
        self.engine.as_ref().map(|engine| engine.copy())
    }

    /// Adds what a database has that is fixed when it is created, and what it keeps; and its memory budget, which may
    /// have changed since it was opened.
    pub(in crate::database) fn with_kept(
        mut self,
        shape: &Shape,
        settings: &[(&str, String)],
        feed_bytes: Option<u64>,
        memory_budget: Option<u64>,
    ) -> Result<Builder> {
        self.change_feed = self.change_feed.or(feed_bytes);
        let common = &mut self.common;
        common.memory_budget = memory_budget;
        // What was stated is what the database has.
        common.fixed = common.fixed.or(shape.fixed);
        common.expiring = common.expiring.or(shape.fixed.map(|_| shape.expiring));
        common.hashed_keys = common.hashed_keys.or(Some(shape.hashed_keys));
        common.partitions = common.partitions.or(Some(shape.partitions));
        common.block_bytes = common.block_bytes.or(Some(shape.block_bytes).filter(|bytes| *bytes > 0));
        common.compression = common.compression.or(Some(shape.compression));
        let mut engine = self.choose_engine(None)?;
        let known = engine.describe();
        for (name, value) in settings {
            // One that is as it would be may be one without an effect here, which must not be stated.
            if known.iter().any(|known| known.name == *name && known.is_kept && known.value != *value) {
                engine.set(name, value)?;
            }
        }
        // Those that the engine has not.
        while let Err(Error::Setting { name, .. }) = engine.check(&self.common, true) {
            match name {
                "block_bytes" if self.common.block_bytes.take().is_some() => {}
                "partitions" if self.common.partitions.take().is_some() => {}
                _ => break,
            }
        }
        self.engine = Some(engine);
        Ok(self)
    }

    /// Opens a database that was opened with these settings before.
    pub(in crate::database) fn open_again(self, directory: Directory) -> Result<Database> {
        self.open_with_settings(directory)
    }

    /// Checks that a directory has a database of the engine, or that one can be created there, with these settings.
    /// Returns the engine. With `is_emptied` a truncation has removed the database that was there.
    fn examine_place(&mut self, directory: &Directory, is_emptied: bool) -> Result<Box<dyn EngineSettings>> {
        let path = directory.path();
        let contents = Contents::read(directory, self.engine.as_deref())?;
        let number = match contents.with_others(is_emptied) {
            Contents::Database(number) => Some(number),
            Contents::Occupied { file: found, is_data: true } => {
                return Err(Error::NoManifest { path, found });
            }
            Contents::Occupied { file: found, is_data: false } => {
                return Err(Error::NotADatabase { path, found });
            }
            Contents::Free if self.create && !self.read_only => None,
            Contents::Free => return Err(Error::NotFound { path }),
        };
        let found = number.map(|number| engine_of_number(number, directory));
        let engine = self.choose_engine(found)?;
        if let Some(number) = number.filter(|number| engine.info().number != Some(*number)) {
            let found = EngineInfo::of_number(number)
                .map_or_else(|| format!("with the number {number}"), |info| format!("`{}`", info.name));
            let problem = format!(
                "the engine is `{}`, but the database in {} has the engine {found}; leave `engine` out",
                engine.info().name,
                path.display()
            );
            return Err(Error::Setting { name: "engine", problem });
        }
        // Again: `open_in` comes here without the check of `open`.
        self.common.check()?;
        compressed::check(directory)?;
        self.check_effects(engine.info())?;
        engine.check(&self.common, number.is_none())?;
        Ok(engine)
    }

    /// Returns the configured engine, else the one found, else the default, with the settings that were set by name.
    fn choose_engine(
        &mut self,
        found: Option<Result<Box<dyn EngineSettings>>>,
    ) -> Result<Box<dyn EngineSettings>> {
        let mut engine = match (self.engine.take(), found) {
            // Also if another one was found: `examine_place` compares them, and its error names both.
            (Some(stated), _) => stated,
            (None, Some(found)) => found?,
            (None, None) => EngineKind::of_new(ENGINE)?.settings(),
        };
        // Taken: this runs twice, and the engine that it returns has these settings already.
        for (name, value) in std::mem::take(&mut self.named_settings) {
            engine.set(&name, &value).map_err(|error| of_unknown(error, &*engine, &name))?;
        }
        Ok(engine)
    }

    /// Checks that each setting has an effect with this engine.
    fn check_effects(&self, engine: &EngineInfo) -> Result<()> {
        if let Some(bytes) = self.change_feed.filter(|bytes| *bytes > 0 && !FEED_BYTES.contains(bytes)) {
            let (least, most) = FEED_BYTES.into_inner();
            let problem = format!("{bytes} is not within {least} to {most} bytes; 0 is for no feed");
            return Err(Error::Setting { name: "change_feed", problem });
        }
        if engine.number.is_some() {
            return Ok(());
        }
        if self.read_only {
            // There would be nothing to read: such a database begins empty.
            return Err(Error::Unsupported { engine: engine.name, operation: "opening for reading only" });
        }
        let of_files = [
            ("block_bytes", self.common.block_bytes.is_some()),
            ("access", self.access != Access::default()),
            ("verify_checksums", !self.verify_checksums),
            ("open_files_max", self.open_files_max.is_some()),
            ("change_feed", self.change_feed.is_some()),
            ("compaction_filter", self.common.compaction_filter.is_some()),
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

/// Emits the events of an open: what was replayed from the log, and what was cut off.
fn event_of_opening(path: &Path, engine: &dyn Engine) {
    #[cfg(feature = "tracing")]
    if tracing::enabled!(target: "siltstone", tracing::Level::WARN) {
        let crate::stats::Stats { replayed_records, lost_tail_bytes, degraded, .. } = engine.stats();
        let (path, engine) = (path.display(), engine.name());
        event!(info, %path, engine, replayed_records, degraded_stores = degraded.len(), "opened");
        if lost_tail_bytes > 0 {
            event!(warn, %path, lost_tail_bytes, "the log ended with an incomplete write, which was cut off");
        }
    }
    #[cfg(not(feature = "tracing"))]
    let _ = (path, engine);
}
