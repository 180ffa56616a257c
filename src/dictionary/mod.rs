//! The external dictionary (ECT, chapter 3): a file of key-value records that is built once and read by many processes.
//! A lookup takes one flash read, and the index in memory takes a few bits per key.
//!
//! The records are an [`OrderedTable`] whose header block also contains the header of the dictionary ([`format`]).
//! A dictionary is built by an external sort (3.1.2, [`crate::store::sort`]), updated by merging a sorted batch into a
//! new file (3.1.5, [`builder`]), and given another index over the same blocks (3.1.6, [`reindex`]). Without an index
//! it is searched ([`lookup`]).
//!
//! Deviations: the index of records of any size is not a trie over byte positions but fences between blocks, which are
//! smaller; keys are stored whole and compared, so that an answer is never wrong by a collision of hashes.
//!
//! A dictionary reads no clock, so its records do not expire, and starts no thread.

mod builder;
mod format;
mod lookup;
mod reindex;
mod verify;

pub use builder::{DictionaryBuilder, DictionaryWriter};
pub use format::DICTIONARY_VERSION;

use crate::batch::NEVER;
use crate::damage::{Damage, DamagedPart, VerifyReport};
use crate::device::{Access, Directory, IoSnapshot, Purpose, SystemDirectory};
use crate::engine::Record;
use crate::progress::Progress;
use crate::store::file::StoreFile;
use crate::store::merge::Cursor;
use crate::store::ordered::{IndexKind, OrderedCursor, OrderedTable, StoreIndex};
use crate::{Error, Result};
use bytes::Bytes;
use format::Header;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What an iteration, a check or a merge reads at a time, in bytes.
const PIECE_BYTES: usize = 256 << 10;

/// How the records of a dictionary are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum DictionaryIndex {
    /// Elias–Fano fences between the blocks: the smallest and the fastest. Records of any size.
    #[default]
    Fences,
    /// The entropy-coded trie, pruned to blocks (ECT 3.1.6). Records of a fixed size that is smaller than a block.
    SparseTrie,
    /// The entropy-coded trie with a leaf for each record (ECT 3.1.4): about 2.5 bits a key. Records of a fixed size
    /// that is smaller than a block.
    DenseTrie,
    /// None: records are searched for, with a handful of reads each.
    None,
}

impl DictionaryIndex {
    /// All of them.
    pub const ALL: [DictionaryIndex; 4] = [
        DictionaryIndex::Fences,
        DictionaryIndex::SparseTrie,
        DictionaryIndex::DenseTrie,
        DictionaryIndex::None,
    ];

    /// The name, as it is typed.
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
        match store.index().map(StoreIndex::kind) {
            Some(IndexKind::Fences) => DictionaryIndex::Fences,
            Some(IndexKind::EntropyTrie) => DictionaryIndex::SparseTrie,
            Some(IndexKind::DenseTrie) => DictionaryIndex::DenseTrie,
            // No dictionary that has a block-perfect index is opened: there would be no order to search in.
            Some(IndexKind::BlockPerfect | IndexKind::SlotPerfect) | None => DictionaryIndex::None,
        }
    }
}

/// A build-once, read-only file of key-value records.
///
/// Handles are cheap to clone and can be used from any thread and, after a fork, from any process: all reads name their
/// position. The file is never changed while it is read: an update makes a new one, and those who have the old one open
/// go on reading it.
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
    /// What stands behind the index that it was built with.
    later_index: LaterIndex,
}

/// What [`Dictionary::reindex`] left behind the index that a dictionary was built with.
enum LaterIndex {
    /// Nothing.
    None,
    /// The index in use.
    Used,
    /// What an interrupted change of the index left there, which is passed over.
    Damaged(Error),
}

/// How a dictionary is opened.
#[derive(Debug, Clone, Default)]
pub struct DictionaryOptions {
    access: Access,
    queue_depth: Option<usize>,
    without_index: bool,
}

impl DictionaryOptions {
    /// Leaves the index on flash: opening reads a block or two and takes no memory by key, and a lookup searches with a
    /// handful of reads, at most 8 and the binary logarithm of the number of blocks.
    pub fn without_index(mut self) -> Self {
        self.without_index = true;
        self
    }

    /// Whether reads go through the page cache. Default: yes.
    pub fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// How many reads of a [`get_many`](Dictionary::get_many) are under way at a time, 1 to 256. Default: 32.
    pub fn queue_depth(mut self, depth: usize) -> Self {
        self.queue_depth = Some(depth);
        self
    }

    /// Opens the dictionary at `path` for reading: its file may be on a read-only medium or belong to another user.
    ///
    /// # Errors
    /// [`Error::Io`] if there is none, [`Error::Corrupt`] if it is none or damaged, [`Error::Version`] if it is of
    /// another version.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Dictionary> {
        let (directory, name) = split(path.as_ref())?;
        let directory = Directory::new(SystemDirectory::open_read_only(directory)?, self.access);
        self.open_in(directory, name)
    }

    /// Opens the dictionary of this name in any directory of the device room.
    ///
    /// # Errors
    /// As [`open`](DictionaryOptions::open).
    pub fn open_in(&self, directory: Directory, name: &str) -> Result<Dictionary> {
        let directory = match self.queue_depth {
            Some(depth) => directory.queue_depth(depth),
            None => directory,
        };
        let file = directory.open(name, directory.access())?;
        let header = Header::read(&file)?;
        let length = file.length()?;
        if length < header.first_end {
            let expected = format!("a dictionary of {} bytes", header.first_end);
            return Err(file.corrupt(length, expected, format!("{length} bytes: the file is truncated")));
        }
        let open_until = |file, end| {
            let file = StoreFile::open_until(file, header.tag, end)?;
            header.check_against(&file)?;
            let store = OrderedTable::in_file(file, header.shape(), !self.without_index)?;
            if store.is_in_buckets() {
                let end = store.file().length();
                return Err(store.file().file().corrupt(
                    end,
                    "records in hash order",
                    "a block-perfect index",
                ));
            }
            Ok(store)
        };
        let (store, later_index) = match open_until(file, length) {
            Ok(store) if length == header.first_end => (store, LaterIndex::None),
            Ok(store) => (store, LaterIndex::Used),
            Err(error @ Error::Io { .. }) => return Err(error),
            Err(error) if length == header.first_end => return Err(error),
            Err(error) => {
                let file = directory.open(name, directory.access())?;
                (open_until(file, header.first_end)?, LaterIndex::Damaged(error))
            }
        };
        let inner = Inner { directory, header, store: Arc::new(store), later_index };
        Ok(Dictionary { inner: Arc::new(inner) })
    }
}

/// The directory and the name of a file.
fn split(path: &Path) -> Result<(PathBuf, &str)> {
    let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(|| Error::Setting {
        name: "path",
        problem: format!("{} does not end with a file name in UTF-8", path.display()),
    })?;
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    Ok((directory.unwrap_or(Path::new(".")).to_owned(), name))
}

/// What a dictionary holds and costs.
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
    /// The lengths of keys and values, in bytes, if all are the same.
    pub fixed: Option<(usize, usize)>,
    /// Whether keys are taken as hashes and not hashed.
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
    /// Whether an interrupted change of the index left bytes at the end of the file that are passed over.
    pub has_damaged_end: bool,
}

impl DictionaryInfo {
    /// The memory of the index by key, in bits; 0 if there are no keys.
    pub fn bits_per_key(&self) -> f64 {
        if self.records == 0 { 0.0 } else { self.index_bytes as f64 * 8.0 / self.records as f64 }
    }
}

impl Dictionary {
    /// Sets up the building of a dictionary.
    pub fn builder() -> DictionaryBuilder {
        DictionaryBuilder::default()
    }

    /// Sets up the opening of a dictionary.
    pub fn options() -> DictionaryOptions {
        DictionaryOptions::default()
    }

    /// Opens the dictionary at `path` for reading. Reads its index back, which is all that takes time.
    ///
    /// # Errors
    /// As [`DictionaryOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Dictionary> {
        DictionaryOptions::default().open(path)
    }

    /// Sets up an update: what the writer is given is merged with this dictionary into a new one (ECT 3.1.5), in one
    /// sequential pass over both. This one is not changed, also where the new one takes its name.
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

    /// The number of records.
    pub fn len(&self) -> u64 {
        self.store().records()
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All records, in the dictionary's own order, which is that of their hashes. Reads ahead by 256 KiB.
    pub fn iter(&self) -> DictionaryIter {
        DictionaryIter { cursor: Some(self.cursor(Purpose::Iterate)) }
    }

    /// What it holds and costs.
    pub fn info(&self) -> DictionaryInfo {
        let footer = self.store().file().footer();
        let header = self.header();
        DictionaryInfo {
            version: DICTIONARY_VERSION,
            records: footer.records,
            key_bytes: header.key_bytes,
            value_bytes: header.value_bytes,
            fixed: header.fixed,
            hashed_keys: header.hasher == crate::key::KeyHasher::Identity,
            block_bytes: footer.block_bytes,
            blocks: footer.blocks,
            file_bytes: self.store().file().length(),
            index: DictionaryIndex::of(self.store()),
            index_bytes: self.store().index_bytes(),
            has_damaged_end: matches!(self.inner.later_index, LaterIndex::Damaged(_)),
        }
    }

    /// Operations and bytes on the device since it was opened, by purpose.
    pub fn io(&self) -> IoSnapshot {
        self.inner.directory.io()
    }

    /// Reads everything and says what is damaged. `progress` is given the bytes done and the bytes in all.
    ///
    /// # Errors
    /// [`Error::Io`] where the file cannot be read, [`Error::Interrupted`] if `progress` answered so. Damage is no
    /// error but stands in the report.
    pub fn verify(&self, progress: &mut Progress<'_>) -> Result<VerifyReport> {
        let mut report = verify::verify(self, progress)?;
        if let LaterIndex::Damaged(error) = &self.inner.later_index {
            report.damage.push(Damage::of(error, DamagedPart::Index, 0));
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

/// The records of a [`Dictionary`]. It ends at the first error.
pub struct DictionaryIter {
    cursor: Option<OrderedCursor>,
}

impl Iterator for DictionaryIter {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Result<Record>> {
        let cursor = self.cursor.as_mut()?;
        let outcome = cursor.advance();
        let record = cursor.entry().map(|entry| Record {
            key: Bytes::copy_from_slice(entry.record.key),
            value: Bytes::copy_from_slice(entry.record.value.unwrap_or_default()),
            expires_at_ms: NEVER,
        });
        match outcome {
            Ok(true) => record.map(Ok),
            Ok(false) => {
                self.cursor = None;
                None
            }
            Err(error) => {
                self.cursor = None;
                Some(Err(error))
            }
        }
    }
}

#[cfg(test)]
mod tests;
