//! The databases of a server by number: those below its directory, and what is mounted in place of them.

use super::{DictionaryStore, SharedMemory, Store, ValueForm};
use crate::failure::Failure;
use siltstone::names::MANIFEST_NAME;
use siltstone::{Dictionary, DictionaryOptions};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// The most databases, as many as frameworks expect.
pub const DATABASES: usize = 16;

/// A database or a dictionary at a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The number, below [`DATABASES`].
    pub number: usize,
    /// A directory of a database, or a file of a dictionary.
    pub path: PathBuf,
}

/// Opens the database in a directory, whose values have this form, and creates it there if it does not exist. The
/// number is its memory budget in bytes, if there is a limit.
pub type OpenStore = dyn Fn(&Path, ValueForm, Option<u64>) -> siltstone::Result<Arc<dyn Store>> + Send + Sync;

/// Where the databases of a server are.
pub struct PlacesSettings {
    /// The directory of the databases, each in a directory with its number as its name. Without it there are only
    /// mounts.
    pub directory: Option<PathBuf>,
    /// The number of databases, 1 to [`DATABASES`]: they have the numbers from 0 on.
    pub databases: usize,
    /// What is in place of them.
    pub mounts: Vec<Mount>,
    /// The databases keep the memory that they have when they are created, as those of `mica`: a limit is divided by
    /// the number of databases, and not by that of the open ones.
    pub are_shares_fixed: bool,
    /// Opens a database.
    pub open: Box<OpenStore>,
    /// Opens a dictionary.
    pub dictionary: DictionaryOptions,
    /// Whether new databases have values with types. Otherwise, and with fixed lengths, all values are strings.
    pub are_values_typed: bool,
}

/// The databases of a server.
pub struct Places {
    settings: PlacesSettings,
    stores: Vec<RwLock<Option<Arc<dyn Store>>>>,
    /// The limit of memory, if there is one. Locked while a database is opened, or replaced.
    memory: Mutex<Option<SharedMemory>>,
}

impl Places {
    /// Opens what is mounted, what exists, and the database 0. The others are created when they are first written to.
    /// `memory` limits the bytes of all of them together.
    ///
    /// # Errors
    /// Those of opening a database or a dictionary; [`siltstone::Error::Setting`] for a number that is too large or
    /// stated twice, for a directory that is a database, and for too little memory.
    pub fn open(settings: PlacesSettings, memory: Option<u64>) -> siltstone::Result<Places> {
        let refuse = |problem: String| siltstone::Error::Setting { name: "mount", problem };
        if !(1..=DATABASES).contains(&settings.databases) {
            let problem = format!("{} is not 1 to {DATABASES}", settings.databases);
            return Err(siltstone::Error::Setting { name: "databases", problem });
        }
        if let Some(directory) = settings.directory.as_ref().filter(|path| path.join(MANIFEST_NAME).exists())
        {
            let path = directory.display();
            let problem =
                format!("{path} is a database, and not a directory of databases; mount it: 0={path}");
            return Err(siltstone::Error::Setting { name: "directory", problem });
        }
        for (at, Mount { number, .. }) in settings.mounts.iter().enumerate() {
            if *number >= DATABASES {
                return Err(refuse(format!("{number} is above {}; use a number from 0 on", DATABASES - 1)));
            }
            if settings.mounts[..at].iter().any(|other| other.number == *number) {
                return Err(refuse(format!("{number} has two paths; mount one of them at another number")));
            }
        }
        let stores = (0..DATABASES).map(|_| RwLock::default()).collect();
        let places = Places { settings, stores, memory: Mutex::default() };
        *places.memory() = places.shared(memory);
        for number in 0..DATABASES {
            let exists = places.directory(number).is_some_and(|directory| directory.exists());
            // The first one always: a wrong setting must be seen now, and not by the first write.
            if exists || number == 0 || places.mount(number).is_some() {
                places.open_at(number)?;
            }
        }
        if let Some(memory) = *places.memory() {
            memory.check(&places.opened())?;
        }
        Ok(places)
    }

    /// Returns the store of a number, if it was used before.
    pub fn get(&self, number: usize) -> Option<Arc<dyn Store>> {
        self.stores.get(number)?.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the store of a number, which is created if it does not exist; `None` if the server has no such number.
    ///
    /// # Errors
    /// Those of creating a database.
    pub fn get_or_create(&self, number: usize) -> siltstone::Result<Option<Arc<dyn Store>>> {
        match self.get(number) {
            Some(store) => Ok(Some(store)),
            None => self.open_at(number),
        }
    }

    /// Returns the store that has taken the place of one that is closed, after a flush that may still run; `None` if
    /// none has.
    pub fn replaced(&self, number: usize, closed: &Arc<dyn Store>) -> Option<Arc<dyn Store>> {
        let _opening = self.memory();
        self.get(number).filter(|store| !Arc::ptr_eq(store, closed))
    }

    /// Works on the store of a number, if it was used before, and again on the one that a flush has put in its place
    /// meanwhile. `work` finds what it has done before with the other one.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn on_current<T>(
        &self,
        number: usize,
        mut work: impl FnMut(Option<&dyn Store>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut store = self.get(number);
        loop {
            let outcome = work(store.as_deref());
            let closed =
                store.as_ref().filter(|_| matches!(&outcome, Err(failure) if *failure == Failure::CLOSED));
            match closed.and_then(|closed| self.replaced(number, closed)) {
                Some(other) => store = Some(other),
                None => return outcome,
            }
        }
    }

    /// Returns whether there is such a database, or may be.
    pub fn has(&self, number: usize) -> bool {
        self.mount(number).is_some() || self.directory(number).is_some()
    }

    /// Returns whether the database of a number exists, and can be written to.
    pub fn is_writable(&self, number: usize) -> bool {
        self.get(number).is_some_and(|store| !store.about().is_read_only)
    }

    /// Removes all records of a database, at once: an empty one takes its place, and the files of the old one are
    /// removed in the background.
    ///
    /// # Errors
    /// Those of [`siltstone::Database::truncate`]; [`siltstone::Error::ReadOnly`] for a dictionary.
    pub fn flush(&self, number: usize) -> siltstone::Result<()> {
        // Before the store is looked up: another flush may be about to replace it.
        let memory = self.memory();
        let Some(store) = self.get(number) else { return Ok(()) };
        if store.about().is_read_only {
            return Err(siltstone::Error::ReadOnly);
        }
        let share = memory.map(|memory| memory.share(&self.opened(), 0));
        let outcome = match store.truncate() {
            Ok(empty) => {
                self.set(number, empty.clone());
                // It was opened with the share of that time.
                return share.map_or(Ok(()), |share| empty.set_memory_budget(Some(share)));
            }
            Err(error) => Err(error),
        };
        // It is closed, and has all records or none: it is served as it is.
        let Some(path) = self.path(number) else { return outcome };
        self.set(number, (self.settings.open)(&path, ValueForm::of_database(&path)?, share)?);
        outcome
    }

    /// Opens the files of all dictionaries again. Requests that run keep the old ones. Returns their number.
    ///
    /// # Errors
    /// Those of opening a dictionary. That one and the following ones are as they were.
    pub fn reload(&self) -> siltstone::Result<usize> {
        let mut reloaded = 0;
        for Mount { number, path } in self.settings.mounts.iter().filter(|mount| !mount.path.is_dir()) {
            let dictionary = self.settings.dictionary.open(path)?;
            self.set(*number, Arc::new(DictionaryStore::new(dictionary)));
            reloaded += 1;
        }
        // The new files may need more memory, or less. No database is opened meanwhile, which changes the shares too.
        if let Some(memory) = *self.memory() {
            memory.divide(&self.opened(), 0)?;
        }
        Ok(reloaded)
    }

    /// Changes the limit of the bytes of all of them together; `None` removes it. Databases that keep the memory that
    /// they have when they are created have it as long as they are open.
    ///
    /// # Errors
    /// The limit is too small for what is open; the error has the least one, and nothing has changed.
    pub fn set_memory(&self, bytes: Option<u64>) -> Result<(), TooSmall> {
        let mut memory = self.memory();
        let (wanted, stores) = (self.shared(bytes), self.opened());
        if let Some(wanted) = wanted {
            let least_bytes = wanted.least(&stores);
            if wanted.bytes < least_bytes {
                return Err(TooSmall::Least(least_bytes));
            }
        }
        if let Err(error) = give(wanted, &stores) {
            // They had this.
            let _ = give(*memory, &stores);
            return Err(TooSmall::Other(error));
        }
        *memory = wanted;
        Ok(())
    }

    fn shared(&self, bytes: Option<u64>) -> Option<SharedMemory> {
        let fixed_shares = self.settings.are_shares_fixed.then_some(self.settings.databases);
        bytes.map(|bytes| SharedMemory { bytes, fixed_shares })
    }

    fn memory(&self) -> MutexGuard<'_, Option<SharedMemory>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the writes of all databases durable. One that fails to accepts no writes any more.
    pub fn sync_all(&self) {
        self.opened().iter().for_each(|store| _ = store.sync());
    }

    /// Returns the stores that are open.
    pub fn opened(&self) -> Vec<Arc<dyn Store>> {
        (0..DATABASES).filter_map(|number| self.get(number)).collect()
    }

    /// Makes everything durable, and closes the databases.
    ///
    /// # Errors
    /// That of the first database that cannot be closed; the others are closed too.
    pub fn close(&self) -> siltstone::Result<()> {
        self.opened().iter().map(|store| store.close()).fold(Ok(()), siltstone::Result::and)
    }

    fn mount(&self, number: usize) -> Option<&Path> {
        let mut mounts = self.settings.mounts.iter();
        mounts.find(|mount| mount.number == number).map(|mount| &*mount.path)
    }

    fn directory(&self, number: usize) -> Option<PathBuf> {
        let directory = self.settings.directory.as_ref().filter(|_| number < self.settings.databases)?;
        Some(directory.join(number.to_string()))
    }

    fn set(&self, number: usize, store: Arc<dyn Store>) {
        if let Some(place) = self.stores.get(number) {
            *place.write().unwrap_or_else(PoisonError::into_inner) = Some(store);
        }
    }

    /// Opens what belongs to a number.
    fn open_at(&self, number: usize) -> siltstone::Result<Option<Arc<dyn Store>>> {
        // One thread at a time: a second one would find the database locked.
        let memory = self.memory();
        if let Some(store) = self.get(number) {
            return Ok(Some(store));
        }
        let Some(path) = self.path(number) else { return Ok(None) };
        let is_missing = !path.is_file() && !path.join(MANIFEST_NAME).exists();
        if is_missing && self.mount(number).is_some() {
            // A mistake in its name must not make an empty database.
            return Err(siltstone::Error::NotFound { path });
        }
        let store: Arc<dyn Store> = if path.is_file() {
            Arc::new(DictionaryStore::new(self.open_dictionary(&path)?))
        } else {
            self.open_database(number, &path, *memory)?
        };
        self.set(number, store.clone());
        Ok(Some(store))
    }

    fn path(&self, number: usize) -> Option<PathBuf> {
        self.mount(number).map(Path::to_path_buf).or_else(|| self.directory(number))
    }

    /// Opens the database of a number. One that does not exist is created, and has values with types unless they have
    /// fixed lengths.
    fn open_database(
        &self,
        number: usize,
        path: &Path,
        memory: Option<SharedMemory>,
    ) -> siltstone::Result<Arc<dyn Store>> {
        let is_new = self.mount(number).is_none() && !path.join(MANIFEST_NAME).exists();
        if is_new && self.settings.are_values_typed {
            // First: a database whose creation was interrupted must not pass for one of plain values.
            ValueForm::declare_typed(path)?;
        }
        let Some(memory) = memory else {
            return (self.settings.open)(path, ValueForm::of_database(path)?, None);
        };
        // Before it is opened: both together must not have more than the limit at any moment.
        let stores = self.opened();
        let share = memory.divide(&stores, 1)?;
        let opened =
            ValueForm::of_database(path).and_then(|form| (self.settings.open)(path, form, Some(share)));
        if opened.is_err() {
            memory.divide(&stores, 0)?;
        }
        opened.map_err(|error| memory.explained(error))
    }

    fn open_dictionary(&self, path: &Path) -> siltstone::Result<Dictionary> {
        self.settings.dictionary.open(path)
    }
}

/// Why a limit of memory cannot be kept.
#[derive(Debug)]
pub enum TooSmall {
    /// It is less than this, in bytes.
    Least(u64),
    /// A database has refused its share.
    Other(siltstone::Error),
}

/// Gives all open databases their shares of a limit, or no limit.
fn give(memory: Option<SharedMemory>, stores: &[Arc<dyn Store>]) -> siltstone::Result<()> {
    match memory {
        Some(memory) => memory.divide(stores, 0).map(drop),
        None => stores.iter().try_for_each(|store| store.set_memory_budget(None)),
    }
}
