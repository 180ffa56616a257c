//! The external dictionary (ECT, chapter 3): a file of key-value records that is built once and read by many processes.
//! A lookup takes one flash read, and an index of a few bits per key in memory.
//!
//! The records are an [`OrderedTable`] whose header block also contains the header of the dictionary (`format`). It is
//! built by an external sort (3.1.2, [`crate::store::sort`]), updated by merging a sorted batch into a new file (3.1.5,
//! `builder`), and can be given a new dense or sparse index over the same blocks (3.1.6, `reindex`).
//!
//! Deviations: the index of records of any size consists of fences between blocks, not of a trie over byte positions,
//! and is smaller. Complete keys are stored and compared, so hash collisions never lead to a wrong value.
//!
//! A dictionary reads no clock, so its records do not expire, and starts no threads.

mod builder;
mod format;
mod lookup;
mod reindex;
mod scan;
mod verify;

pub use builder::{DictionaryBuilder, DictionaryWriter};
pub use format::DICTIONARY_VERSION;

use crate::damage::{Damage, DamagedPart, VerifyReport};
use crate::engine::Record;
use crate::error::{CorruptFile, Error, Result};
use crate::progress::Progress;
use crate::store::file::StoreFile;
use crate::store::merge::Cursor;
use crate::store::table::{IndexKind, OrderedCursor, OrderedTable, StoreIndex};
use format::Header;
use siltstone_device::{Access, Directory, IoSnapshot, Purpose, SystemDirectory};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The bytes that an iteration, a verification or a merge reads at a time.
const PIECE_BYTES: usize = 256 << 10;

/// How the records of a dictionary are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum DictionaryIndex {
    /// Elias–Fano fences between the blocks: the smallest and the fastest index. For records of any size.
    #[default]
    Fences,
    /// The entropy-coded trie, pruned to blocks (ECT 3.1.6). For records of a fixed size smaller than a block.
    SparseTrie,
    /// The entropy-coded trie with a leaf per record (ECT 3.1.4): about 2.5 bits per key. For records of a fixed size
    /// smaller than a block.
    DenseTrie,
    /// No index: a lookup searches the blocks, with a few reads.
    None,
}

impl DictionaryIndex {
    /// All kinds.
    #[doc(hidden)]
    pub const ALL: [DictionaryIndex; 4] = [
        DictionaryIndex::Fences,
        DictionaryIndex::SparseTrie,
        DictionaryIndex::DenseTrie,
        DictionaryIndex::None,
    ];

    /// Returns the name, as a user types it.
    #[doc(hidden)]
    pub fn name(self) -> &'static str {
        match self {
            DictionaryIndex::Fences => "fences",
            DictionaryIndex::SparseTrie => "sparse_trie",
            DictionaryIndex::DenseTrie => "dense_trie",
            DictionaryIndex::None => "none",
        }
    }

    fn kind(self) -> Option<IndexKind> {
        match self {
            DictionaryIndex::Fences => Some(IndexKind::Fences),
            DictionaryIndex::SparseTrie => Some(IndexKind::EntropyTrie),
            DictionaryIndex::DenseTrie => Some(IndexKind::DenseTrie),
            DictionaryIndex::None => None,
        }
    }

    fn of(store: &OrderedTable) -> DictionaryIndex {
        match store.index().and_then(|index| index.kind()) {
            Some(IndexKind::Fences) => DictionaryIndex::Fences,
            Some(IndexKind::EntropyTrie) => DictionaryIndex::SparseTrie,
            // A dictionary with a perfect index is refused when it is opened: its records are not in hash order.
            Some(kind) if kind.locates_slots() => DictionaryIndex::DenseTrie,
            _ => DictionaryIndex::None,
        }
    }
}

/// A read-only file of key-value records that is built once.
///
/// Handles are cheap to clone and can be used from any thread and, after a fork, from any process: every read states
/// its position. The file never changes while it is read: an update writes a new file, and readers that have the old
/// one open can continue.
///
///
/// ```
/// # fn main() -> siltstone::Result<()> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("capitals.dict");
/// use siltstone::Dictionary;
/// let dictionary = Dictionary::builder().build(&path, [("France", "Paris"), ("Peru", "Lima")])?;
/// assert_eq!(dictionary.get("Peru")?.as_deref(), Some(&b"Lima"[..]));
///
/// let mut update = dictionary.update().create(&path)?;
/// update.put("Chad", "N'Djamena")?;
/// update.delete("Peru")?;
/// assert_eq!(update.finish()?.len(), 2);
/// assert_eq!(Dictionary::open(&path)?.get("Peru")?, None);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Dictionary {
    inner: Arc<Inner>,
}

struct Inner {
    directory: Directory,
    header: Header,
    store: Arc<OrderedTable>,
    /// The index after the one that the dictionary was built with.
    later_index: LaterIndex,
}

/// The bytes that [`Dictionary::reindex`] has written after the index that the dictionary was built with.
enum LaterIndex {
    /// None.
    None,
    /// The index in use.
    Used,
    /// The remains of an interrupted change of the index, which are ignored.
    Damaged(Error),
}

/// How a dictionary is opened.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("capitals.dict");
/// # use siltstone::Dictionary;
/// Dictionary::builder().build(&path, [("France", "Paris")])?;
/// let dictionary = Dictionary::options().without_index().queue_depth(64).open(&path)?;
/// assert!(dictionary.contains("France")?);
/// # Ok::<(), siltstone::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct DictionaryOptions {
    access: Access,
    queue_depth: Option<usize>,
    without_index: bool,
}

impl DictionaryOptions {
    /// Leaves the index on flash: an open reads one or two blocks and takes no memory per key, and a lookup searches
    /// the blocks with at most 8 + log2(blocks) reads, usually a few.
    pub fn without_index(mut self) -> Self {
        self.without_index = true;
        self
    }

    /// Sets buffered or direct access. Default: buffered.
    pub fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// Sets how many reads of a [`get_many`](Dictionary::get_many) are in flight, 1 to 256. Default: 32.
    pub fn queue_depth(mut self, depth: usize) -> Self {
        self.queue_depth = Some(depth);
        self
    }

    /// Opens the dictionary at `path` for reading: its file may be on a read-only medium or belong to another user.
    ///
    /// # Errors
    /// [`Error::Io`] if the file does not exist, [`Error::NotADictionary`] if it is another file, [`Error::Corrupt`] if
    /// it is damaged, [`Error::Version`] if it has another format version.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Dictionary> {
        let path = path.as_ref();
        if path.is_dir() {
            return Err(Error::NotADictionary { path: path.to_owned(), found: "it is a directory".into() });
        }
        let (directory, name) = split(path)?;
        let directory = Directory::new(SystemDirectory::open_read_only(directory)?, self.access).read_only();
        self.open_in(directory, name)
    }

    /// Opens the dictionary of this name in any [`Directory`].
    ///
    /// # Errors
    /// See [`open`](DictionaryOptions::open).
    #[doc(hidden)]
    pub fn open_in(&self, directory: Directory, name: &str) -> Result<Dictionary> {
        let directory = match self.queue_depth {
            Some(depth) => directory.queue_depth(depth),
            None => directory,
        };
        let file = directory.open(name, directory.access())?;
        let header = Header::read(&file)?;
        let length = file.length()?;
        // Before the store is opened: its footer would be missing, and the error would not say why.
        if length < header.first_end {
            let expected = format!("a dictionary of {} bytes", header.first_end);
            return Err(file.corrupt(length, expected, format!("{length} bytes: the file is truncated")));
        }
        let open_until = |file, end| {
            let file = StoreFile::open_until(file, header.tag, end)?;
            header.check_against(&file)?;
            // Iterations and updates merge records in hash order.
            if StoreIndex::is_in_buckets(file.footer()) {
                let got = "a block-perfect index";
                return Err(file.file().corrupt(file.length(), "records in hash order", got));
            }
            OrderedTable::in_file(file, header.shape, !self.without_index)
        };
        let (store, later_index) = match open_until(file, length) {
            Ok(store) if length == header.first_end => (store, LaterIndex::None),
            Ok(store) => (store, LaterIndex::Used),
            // A failure of the device is no interrupted change of the index.
            Err(error @ Error::Io { .. }) => return Err(error),
            Err(error) if length == header.first_end => return Err(error),
            // Only the bytes after `first_end` can be damaged by an interrupted change of the index.
            Err(error) => {
                // The first handle is gone with the failed attempt.
                let file = directory.open(name, directory.access())?;
                (open_until(file, header.first_end)?, LaterIndex::Damaged(error))
            }
        };
        let inner = Inner { directory, header, store: Arc::new(store), later_index };
        Ok(Dictionary { inner: Arc::new(inner) })
    }
}

/// Returns the directory and the name of a file.
fn split(path: &Path) -> Result<(PathBuf, &str)> {
    let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(|| Error::Setting {
        name: "path",
        problem: format!("{} does not end with a file name in UTF-8", path.display()),
    })?;
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    Ok((directory.unwrap_or(Path::new(".")).to_owned(), name))
}

/// The content and the cost of a dictionary.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DictionaryInfo {
    /// The version of the format.
    pub version: u32,
    /// The number of records.
    pub records: u64,
    /// The bytes of all keys.
    pub key_bytes: u64,
    /// The bytes of all values.
    pub value_bytes: u64,
    /// The lengths of all keys and values, in bytes, if they are fixed.
    pub fixed: Option<(usize, usize)>,
    /// Whether keys are hashes already and are not hashed again.
    pub hashed_keys: bool,
    /// The size of a block, in bytes.
    pub block_bytes: u32,
    /// The number of blocks.
    pub blocks: u64,
    /// The length of the file, in bytes.
    pub file_bytes: u64,
    /// The index in use.
    pub index: DictionaryIndex,
    /// The memory of the index, in bytes.
    pub index_bytes: usize,
    /// Whether an interrupted change of the index left bytes at the end of the file, which are ignored.
    pub has_damaged_end: bool,
}

impl DictionaryInfo {
    /// Returns the memory of the index per key, in bits; 0 if there are no keys.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("capitals.dict");
    /// # use siltstone::Dictionary;
    /// let dictionary = Dictionary::builder().build(&path, (0..10_000u32).map(|n| (n.to_be_bytes(), [0; 8])))?;
    /// assert!(dictionary.info().bits_per_key() < 2.0);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    pub fn bits_per_key(&self) -> f64 {
        if self.records == 0 { 0.0 } else { self.index_bytes as f64 * 8.0 / self.records as f64 }
    }
}

impl Dictionary {
    /// Returns a builder of a dictionary.
    pub fn builder() -> DictionaryBuilder {
        DictionaryBuilder::default()
    }

    /// Returns the options with which a dictionary is opened.
    pub fn options() -> DictionaryOptions {
        DictionaryOptions::default()
    }

    /// Opens the dictionary at `path` for reading. Reads its index, which takes nearly all of the time.
    ///
    /// # Errors
    /// See [`DictionaryOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Dictionary> {
        DictionaryOptions::default().open(path)
    }

    /// Returns a builder of an updated dictionary: the records of its writer are merged with this dictionary into a new
    /// file (ECT 3.1.5), in one sequential pass over both. This dictionary does not change, even if the new one gets
    /// its name.
    pub fn update(&self) -> DictionaryBuilder {
        DictionaryBuilder::update_of(self.clone())
    }

    fn header(&self) -> &Header {
        &self.inner.header
    }

    fn store(&self) -> &Arc<OrderedTable> {
        &self.inner.store
    }

    fn cursor(&self, purpose: Purpose) -> OrderedCursor {
        OrderedCursor::new(self.store(), purpose, PIECE_BYTES)
    }

    /// Returns the number of records.
    pub fn len(&self) -> u64 {
        self.store().records()
    }

    /// Returns whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all records, in the order of their hashes. Reads ahead by 256 KiB.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("capitals.dict");
    /// # use siltstone::Dictionary;
    /// let dictionary = Dictionary::builder().build(&path, [("France", "Paris"), ("Peru", "Lima")])?;
    /// assert!(dictionary.len() == 2 && !dictionary.is_empty());
    /// for record in dictionary.iter() {
    ///     println!("{:?}", record?);
    /// }
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    pub fn iter(&self) -> DictionaryIter {
        DictionaryIter { cursor: Some(self.cursor(Purpose::Iterate)) }
    }

    /// Returns the content and the cost of the dictionary.
    pub fn info(&self) -> DictionaryInfo {
        let footer = self.store().file().footer();
        let header = self.header();
        DictionaryInfo {
            version: DICTIONARY_VERSION,
            records: footer.records,
            key_bytes: header.key_bytes,
            value_bytes: header.value_bytes,
            fixed: header.shape.layout.fixed,
            hashed_keys: header.shape.hasher.key_hasher == crate::key::KeyHasher::Identity,
            block_bytes: footer.block_bytes,
            blocks: footer.blocks,
            file_bytes: self.store().file().length(),
            index: DictionaryIndex::of(self.store()),
            index_bytes: self.store().index_bytes(),
            has_damaged_end: matches!(self.inner.later_index, LaterIndex::Damaged(_)),
        }
    }

    /// Returns the operations and bytes on the device since the dictionary was opened, by purpose.
    pub fn io(&self) -> IoSnapshot {
        self.inner.directory.io()
    }

    /// Reads and checks the complete file.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("capitals.dict");
    /// # use siltstone::Dictionary;
    /// let dictionary = Dictionary::builder().build(&path, [("France", "Paris")])?;
    /// assert_eq!(dictionary.verify()?.live_records, Some(1));
    /// assert!(dictionary.io().total().read_bytes > 0);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be read. Damage is not an error; the report lists it.
    pub fn verify(&self) -> Result<VerifyReport> {
        self.verify_with(&mut |_, _| true)
    }

    /// Like [`verify`](Dictionary::verify). `progress` is called with the bytes read and the total, and returns whether
    /// to continue.
    ///
    /// # Errors
    /// [`Error::Interrupted`] if `progress` returns false.
    pub fn verify_with(&self, progress: &mut Progress<'_>) -> Result<VerifyReport> {
        let mut report = verify::verify(self, progress)?;
        if let LaterIndex::Damaged(error) = &self.inner.later_index {
            report.damage.push(Damage::of(error, DamagedPart::Index, 0));
            // A report with damage counts no live records, although all of them are readable.
            report.live_records = None;
        }
        Ok(report)
    }
}

impl IntoIterator for &Dictionary {
    type Item = Result<Record>;
    type IntoIter = DictionaryIter;

    fn into_iter(self) -> DictionaryIter {
        self.iter()
    }
}

/// The records of a [`Dictionary`]. Ends at the first error.
pub struct DictionaryIter {
    cursor: Option<OrderedCursor>,
}

impl Iterator for DictionaryIter {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Result<Record>> {
        let cursor = self.cursor.as_mut()?;
        let outcome = cursor.advance();
        let record = cursor.entry().map(|entry| Record::copy_of(&entry.record, false));
        match outcome {
            Ok(true) => record.map(Ok),
            Ok(false) => {
                self.cursor = None;
                None
            }
            Err(error) => {
                // The cursor has passed what it could not read: going on would leave a gap.
                self.cursor = None;
                Some(Err(error))
            }
        }
    }
}

#[cfg(test)]
mod tests;
