//! Builds a dictionary (ECT 3.1.2), or updates one by merging a batch into it (3.1.5).
//!
//! 1. Collect the records. When the memory is full, sort them and write them to a temporary file as a run.
//! 2. Merge the runs, and the dictionary that is updated, into a file with a random temporary name.
//! 3. Write the header, which makes the file a dictionary, and sync the file.
//! 4. Lock the file that has the final name, if there is one: no other process may be changing its index.
//! 5. Rename the new file to the final name, and sync the directory. Readers of the old file keep it.
//!
//! An error removes the temporary file. A crash leaves it, but never an incomplete file with the final name.

use super::format::Header;
use super::{Dictionary, DictionaryIndex, DictionaryOptions, PIECE_BYTES, split};
use crate::batch::NEVER;
use crate::error::{Error, Result};
use crate::key::{KeyHasher, check_key_length, check_value_length};
use crate::progress::Progress;
use crate::store::block::is_block_size;
use crate::store::merge::{Cursor, MergeCursor};
use crate::store::record::RecordView;
use crate::store::sort::{Duplicates, ExternalSort, FAN_IN_MAX, SortSettings, SortedRecords};
use crate::store::table::{BlockForm, OrderedTableSettings, OrderedTableWriter, TableForm};
use siltstone_device::random_number;
use siltstone_device::{Access, Directory, Purpose};
use std::path::{Path, PathBuf};

/// The bytes of keys and values between two reports of progress.
const PROGRESS_BYTES: u64 = 1 << 20;

/// Configures the building of a [`Dictionary`], or an update of one. The dictionary stores what its records have in
/// common (`fixed`, `hashed_keys`), and updates keep it.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("capitals.dict");
/// # use siltstone::Dictionary;
/// use siltstone::DictionaryIndex;
///
/// let mut writer = Dictionary::builder()
///     .fixed(4, 8)
///     .block_bytes(512)
///     .index(DictionaryIndex::SparseTrie)
///     .memory_bytes(16 << 20)
///     .temporary_directory(directory.path())
///     .refuse_duplicates()
///     .progress(|_done, _all| true)
///     .create(&path)?;
/// for number in 0..1_000u32 {
///     writer.put(number.to_be_bytes(), u64::from(number).to_be_bytes())?;
/// }
/// assert!(writer.heap_bytes() < 16 << 20);
/// assert_eq!(writer.finish()?.len(), 1_000);
/// # Ok::<(), siltstone::Error>(())
/// ```
pub struct DictionaryBuilder {
    base: Option<Dictionary>,
    fixed: Option<(usize, usize)>,
    hashed_keys: bool,
    block_bytes: u32,
    index: DictionaryIndex,
    memory_bytes: usize,
    temporary: Option<PathBuf>,
    duplicates: Duplicates,
    progress: Option<Box<Progress<'static>>>,
    random: fn() -> Result<[u64; 3]>,
    /// Why the index of the base could not be read, if the device is the cause.
    unreadable: Option<Error>,
}

impl Default for DictionaryBuilder {
    fn default() -> Self {
        DictionaryBuilder {
            base: None,
            fixed: None,
            hashed_keys: false,
            block_bytes: 4096,
            index: DictionaryIndex::default(),
            memory_bytes: 256 << 20,
            temporary: None,
            duplicates: Duplicates::default(),
            progress: None,
            random: || {
                let [seed0, seed1, tag] = [random_number()?, random_number()?, random_number()?];
                Ok([seed0, seed1, tag])
            },
            unreadable: None,
        }
    }
}

impl DictionaryBuilder {
    pub(super) fn update_of(base: Dictionary) -> DictionaryBuilder {
        let info = base.info();
        // That of the file, which an open may have left there. A damaged one is replaced by the default.
        let (index, unreadable) = match base.store().with_index() {
            Ok(store) => (DictionaryIndex::of(&store), None),
            Err(Error::Corrupt { .. }) => (DictionaryIndex::default(), None),
            Err(error) => (DictionaryIndex::default(), Some(error)),
        };
        DictionaryBuilder {
            fixed: info.fixed,
            hashed_keys: info.hashed_keys,
            block_bytes: info.block_bytes,
            index,
            unreadable,
            base: Some(base),
            ..DictionaryBuilder::default()
        }
    }

    /// Replaces random numbers by constants, so the same records always lead to the same file.
    #[cfg(test)]
    pub(super) fn without_randomness(mut self) -> Self {
        self.random = || Ok([1, 2, 3]);
        self
    }

    /// Declares that all keys have `key_length` bytes and all values `value_length`; records then store no lengths.
    pub fn fixed(mut self, key_length: usize, value_length: usize) -> Self {
        self.fixed = Some((key_length, value_length));
        self
    }

    /// Declares that keys are uniform hashes, of 8 bytes or more, which are not hashed again. Only for keys that no
    /// adversary can choose. Otherwise keys are placed by a keyed hash with a random seed per dictionary.
    pub fn hashed_keys(mut self) -> Self {
        self.hashed_keys = true;
        self
    }

    /// Sets the size of a block: a power of two from 512 to 65,536 bytes. Default: 4,096.
    pub fn block_bytes(mut self, block_bytes: u32) -> Self {
        self.block_bytes = block_bytes;
        self
    }

    /// Sets how records are found. [`Dictionary::reindex`] can change it later. Default: [`DictionaryIndex::Fences`].
    pub fn index(mut self, index: DictionaryIndex) -> Self {
        self.index = index;
        self.unreadable = None;
        self
    }

    /// Sets the memory for sorting, in bytes, 64 KiB or more. Merging takes more if it has to hold several records of
    /// that size. The index being built is not included. Default: 256 MiB.
    pub fn memory_bytes(mut self, memory_bytes: usize) -> Self {
        self.memory_bytes = memory_bytes;
        self
    }

    /// Sets the directory for records that do not fit in memory. It needs as much free space as the records take, twice
    /// as much if they take hundreds of times the memory. Default: the directory of the dictionary.
    pub fn temporary_directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.temporary = Some(path.into());
        self
    }

    /// Makes a key that is given twice an error. Default: the last record of a key applies.
    pub fn refuse_duplicates(mut self) -> Self {
        self.duplicates = Duplicates::Refused;
        self
    }

    /// Sets a function that is called periodically with the number of bytes of keys and values processed and the total;
    /// it returns `false` to stop. While records are still being added the total is 0 (unknown), and the first number
    /// counts the bytes written to temporary files.
    pub fn progress(mut self, progress: impl FnMut(u64, u64) -> bool + 'static) -> Self {
        self.progress = Some(Box::new(progress));
        self
    }

    /// Starts to build the dictionary at `path`, whose directory must exist. The file gets this name, and replaces an
    /// existing file, when [`finish`](DictionaryWriter::finish) returns.
    ///
    /// # Errors
    /// [`Error::Setting`] for settings that contradict each other; errors if the directories cannot be opened, or if
    /// the index of a dictionary that is updated cannot be read from the device.
    pub fn create(self, path: impl AsRef<Path>) -> Result<DictionaryWriter> {
        let (directory, name) = split(path.as_ref())?;
        self.create_in(Directory::system(&directory, Access::Buffered)?, name)
    }

    /// Starts to build a dictionary in any [`Directory`].
    ///
    /// # Errors
    /// See [`create`](DictionaryBuilder::create).
    #[doc(hidden)]
    pub fn create_in(mut self, directory: Directory, name: &str) -> Result<DictionaryWriter> {
        if let Some(error) = self.unreadable.take() {
            return Err(error);
        }
        let [seed0, seed1, tag] = (self.random)()?;
        let hasher = if self.hashed_keys { KeyHasher::Identity } else { KeyHasher::Keyed([seed0, seed1]) };
        // An update keeps the hasher of its base: both are merged in the order of their hashes.
        let hasher = self.base.as_ref().map_or(hasher, |base| base.header().shape.hasher.key_hasher);
        let header = Header {
            shape: Header::shape_of(self.fixed, hasher),
            tag,
            first_end: 0,
            key_bytes: 0,
            value_bytes: 0,
        };
        self.check(&header)?;
        let temporary = match &self.temporary {
            Some(path) => Directory::system(path, Access::Buffered)?,
            None => directory.clone(),
        };
        let sort = ExternalSort::new(
            temporary,
            SortSettings {
                shape: header.shape,
                memory_bytes: self.memory_bytes,
                fan_in_max: FAN_IN_MAX,
                duplicates: self.duplicates,
            },
        )?;
        let progress = self.progress.unwrap_or_else(|| Box::new(|_, _| true));
        Ok(DictionaryWriter {
            directory,
            name: name.to_owned(),
            base: self.base,
            block_bytes: self.block_bytes,
            index: self.index,
            header,
            sort,
            progress,
        })
    }

    fn check(&self, header: &Header) -> Result<()> {
        let refused = |name, problem| Err(Error::Setting { name, problem });
        if !is_block_size(self.block_bytes) {
            let problem = format!("{} is not a power of two from 512 to 65,536 bytes", self.block_bytes);
            return refused("block_bytes", problem);
        }
        if let Some((key_length, value_length)) = self.fixed {
            let no_size = |error: Error| Error::Setting { name: "fixed", problem: error.to_string() };
            check_key_length(key_length).map_err(no_size)?;
            check_value_length(value_length).map_err(no_size)?;
            if self.hashed_keys && key_length < 8 {
                let problem = format!("keys of {key_length} bytes are too short for hashes; use 8 or more");
                return refused("hashed_keys", problem);
            }
        }
        if let Some(base) = &self.base
            && base.header().shape.layout.fixed != self.fixed
        {
            return refused(
                "fixed",
                "an update keeps the shape of the records; build a new dictionary to change it".into(),
            );
        }
        if let Some(base) = &self.base
            && (base.header().shape.hasher.key_hasher == KeyHasher::Identity) != self.hashed_keys
        {
            let problem = "an update keeps how keys are hashed; build a new dictionary to change it".into();
            return refused("hashed_keys", problem);
        }
        let form = TableForm::for_index(&header.shape.layout, self.block_bytes, self.index.kind());
        check_index(self.index, form.blocks)
    }

    /// Builds the dictionary at `path` from all records of an iterator.
    ///
    /// # Errors
    /// See [`create`](DictionaryBuilder::create) and the methods of [`DictionaryWriter`].
    pub fn build<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        self,
        path: impl AsRef<Path>,
        records: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Dictionary> {
        let mut writer = self.create(path)?;
        for (key, value) in records {
            writer.put(key, value)?;
        }
        writer.finish()
    }
}

/// Checks an index: tries count slots, so they need records in slots.
pub(super) fn check_index(index: DictionaryIndex, form: BlockForm) -> Result<()> {
    match index {
        DictionaryIndex::SparseTrie | DictionaryIndex::DenseTrie if form == BlockForm::Stream => {
            let problem = "a trie requires records of a fixed size that is smaller than a block; use fences";
            Err(Error::Setting { name: "index", problem: problem.into() })
        }
        _ => Ok(()),
    }
}

/// Takes the records of a new dictionary, in any order. If it is dropped before [`finish`](DictionaryWriter::finish),
/// no file remains.
pub struct DictionaryWriter {
    directory: Directory,
    name: String,
    base: Option<Dictionary>,
    block_bytes: u32,
    index: DictionaryIndex,
    header: Header,
    sort: ExternalSort,
    progress: Box<Progress<'static>>,
}

impl DictionaryWriter {
    /// Adds a record. The last record of a key applies, unless duplicates are refused. Occasionally this sorts a run of
    /// records and writes it to a temporary file, which takes about a second.
    ///
    /// # Errors
    /// [`Error::KeyLength`], [`Error::HashLength`], [`Error::ValueLength`] or [`Error::RecordSize`] for an invalid
    /// record, which is not added; [`Error::DuplicateKey`], [`Error::Interrupted`] or an error of the device, after
    /// which the writer should be dropped.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.header.shape.layout.check_value(value, false)?;
        self.push(&RecordView { key, value: Some(value), expires_at_ms: NEVER })
    }

    /// Removes a key: its record in the dictionary that is updated, and one that was put before.
    ///
    /// # Errors
    /// See [`put`](DictionaryWriter::put).
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.push(&RecordView { key: key.as_ref(), value: None, expires_at_ms: NEVER })
    }

    fn push(&mut self, record: &RecordView<'_>) -> Result<()> {
        // Before the sort, so a refused record leaves the writer as it was.
        self.header.shape.layout.check_key(record.key)?;
        self.header.shape.hasher.key_hasher.check_key(record.key)?;
        self.sort.push(record, &mut *self.progress)
    }

    /// Sorts and merges the records, writes and syncs the dictionary, and gives it its name. Returns it, open.
    ///
    /// # Errors
    /// Errors of reading and writing, [`Error::DuplicateKey`], [`Error::Interrupted`]. No new file remains then, and an
    /// existing file of this name is unchanged.
    pub fn finish(self) -> Result<Dictionary> {
        let DictionaryWriter { directory, name, base, block_bytes, index, mut header, sort, mut progress } =
            self;
        let sorted = sort.finish(&mut *progress)?;
        // After the sort, so that a build which is given up before leaves no partial file.
        let partial = PartialFile::new(directory.clone(), &name)?;
        let settings = store_settings(&header, block_bytes, &sorted, base.as_ref());
        // At most as many: duplicates and deletes leave fewer, so the last report is made with this number.
        let all_bytes = settings.expected_bytes;
        let form = TableForm::for_index(&header.shape.layout, block_bytes, index.kind());
        let form = TableForm { fill_blocks: true, ..form };
        let mut writer = OrderedTableWriter::create(&directory, &partial.name, form, settings)?;
        // The newest source first: of equal keys its record applies.
        let mut sources: Vec<Box<dyn Cursor>> = vec![Box::new(sorted)];
        if let Some(base) = &base {
            sources.push(Box::new(base.cursor(Purpose::Maintain)));
        }
        // No store is older than the base, so tombstones can be dropped.
        let mut records = MergeCursor::new(sources, Some(NEVER));
        let mut reported_bytes = 0;
        while records.advance()? {
            let Some(entry) = records.entry() else { break };
            writer.push(&entry)?;
            // Counted after the merge, in which replaced and deleted records are dropped.
            header.key_bytes += entry.record.key.len() as u64;
            header.value_bytes += entry.record.value.map_or(0, <[u8]>::len) as u64;
            let done_bytes = header.key_bytes + header.value_bytes;
            if done_bytes - reported_bytes >= PROGRESS_BYTES {
                reported_bytes = done_bytes;
                if !progress(done_bytes.min(all_bytes), all_bytes) {
                    return Err(Error::Interrupted);
                }
            }
        }
        // The runs are freed before the index is finished.
        drop(records);
        let store = writer.finish(None)?;
        let file = store.file();
        // The header makes the file a dictionary, so it is written last, when the store is complete.
        header.first_end = file.length();
        header.write(file.file())?;
        // Before the rename: a file that has the name is complete, also after a loss of power.
        file.file().sync(Purpose::Maintain)?;
        // The last moment to stop: after the rename the dictionary has its name.
        if !progress(all_bytes, all_bytes) {
            return Err(Error::Interrupted);
        }
        partial.complete(&name)?;
        DictionaryOptions::default().open_in(directory, &name)
    }

    /// Returns the memory held between two calls, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.sort.heap_bytes()
    }
}

fn store_settings(
    header: &Header,
    block_bytes: u32,
    sorted: &SortedRecords,
    base: Option<&Dictionary>,
) -> OrderedTableSettings {
    let (base_records, base_bytes) = base.map_or((0, 0), |base| {
        let info = base.info();
        (info.records, info.key_bytes.saturating_add(info.value_bytes))
    });
    OrderedTableSettings {
        tag: header.tag,
        shape: header.shape,
        block_bytes,
        expected_records: base_records.saturating_add(sorted.records_max()),
        expected_bytes: base_bytes.saturating_add(sorted.record_bytes()),
        purpose: Purpose::Maintain,
        piece_bytes: PIECE_BYTES,
    }
}

/// The file of a dictionary that is being written. It is removed on drop unless it was renamed.
struct PartialFile {
    directory: Directory,
    name: String,
    is_complete: bool,
}

impl PartialFile {
    fn new(directory: Directory, name: &str) -> Result<PartialFile> {
        // Random, so that two builds of one dictionary do not write to one file.
        let name = format!(".{name}.{:016x}.partial", random_number()?);
        Ok(PartialFile { directory, name, is_complete: false })
    }

    /// Renames the file to its final name, and replaces an existing dictionary. Fails if that one is being given
    /// another index.
    fn complete(mut self, name: &str) -> Result<()> {
        // Held until the name is durable: a change of the index must not go to a file that has lost its name.
        let _locked = match self.directory.lock_file(name) {
            Err(error) if error.is_not_found() => None,
            outcome => Some(outcome?),
        };
        self.directory.rename(&self.name, name)?;
        // Before the sync: if that fails, the file has the final name and must not be removed.
        self.is_complete = true;
        Ok(self.directory.sync(Purpose::Maintain)?)
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if !self.is_complete {
            // The error that led here is returned by the caller.
            let _ = self.directory.remove(&self.name);
        }
    }
}
