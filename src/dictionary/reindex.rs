//! Gives a dictionary another index over the same blocks (ECT 3.1.6).
//!
//! 1. Lock the file against another change, and against an update that gives its file this name.
//! 2. Read all records once, and build the index in memory.
//! 3. Compare their number with that of the footer: an index of fewer records would make the others unreachable.
//! 4. Write the index after the first one, over an earlier change, with a footer of its own, and sync the file.
//!
//! The first index remains, so an interrupted change leaves a dictionary with the index that it was built with:
//!
//! ```text
//! | header | blocks ...... | first index, footer | later index, footer |
//!                                              first_end
//! ```

use super::{Dictionary, DictionaryIndex, DictionaryOptions, PIECE_BYTES, builder::check_index, split};
use crate::error::{CorruptFile, Error, Result};
use crate::progress::Progress;
use crate::store::file::StoreFile;
use crate::store::merge::Cursor;
use crate::store::table::{StoreIndex, StoreIndexBuilder};
use siltstone_device::{Access, Directory, Purpose};
use std::path::Path;

/// The records between two reports of progress.
const PROGRESS_RECORDS: u64 = 1 << 14;

impl Dictionary {
    /// Gives the dictionary at `path` another index, and returns it, open. Reads all records once and writes none.
    /// Readers that have the dictionary open keep using the previous index. `progress` receives the number of records
    /// processed and the total, and returns `false` to stop.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("numbers.dict");
    /// # use siltstone::Dictionary;
    /// use siltstone::DictionaryIndex;
    ///
    /// let squares = (0..1_000u32).map(|number| (number.to_be_bytes(), (number * number).to_be_bytes()));
    /// Dictionary::builder().fixed(4, 4).build(&path, squares)?;
    /// let smaller = Dictionary::reindex(&path, DictionaryIndex::SparseTrie, &mut |_done, _all| true)?;
    /// assert_eq!(smaller.info().index, DictionaryIndex::SparseTrie);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Setting`] for an index that does not suit the records; [`Error::Locked`] if another index is being
    /// written; [`Error::Interrupted`]; errors of reading and writing. The dictionary stays readable in any case.
    pub fn reindex(
        path: impl AsRef<Path>,
        index: DictionaryIndex,
        progress: &mut Progress<'_>,
    ) -> Result<Dictionary> {
        let (directory, name) = split(path.as_ref())?;
        Dictionary::reindex_in(Directory::system(&directory, Access::Buffered)?, name, index, progress)
    }

    /// Like [`reindex`](Dictionary::reindex), in any [`Directory`].
    ///
    /// # Errors
    /// See [`reindex`](Dictionary::reindex).
    #[doc(hidden)]
    pub fn reindex_in(
        directory: Directory,
        name: &str,
        index: DictionaryIndex,
        progress: &mut Progress<'_>,
    ) -> Result<Dictionary> {
        let options = DictionaryOptions::default();
        // Against another change of the index, and against an update whose file gets this name.
        let _locked = directory.lock_file(name)?;
        // The index that is replaced need not be intact.
        let dictionary = options.clone().without_index().open_in(directory.clone(), name)?;
        let store = dictionary.store();
        check_index(index, store.form())?;
        let settings = index.kind().map(|kind| store.index_settings(kind));
        // In memory, so that the file is written only when the index is complete.
        let mut builder = settings.as_ref().map(StoreIndexBuilder::new).transpose()?;
        let mut cursor = dictionary.cursor(Purpose::Maintain);
        let mut done = 0;
        while cursor.advance()? {
            let Some(entry) = cursor.entry() else { break };
            if let Some(builder) = &mut builder {
                builder.push(entry.hash.placement, cursor.blocks())?;
            }
            done += 1;
            // Nothing is written before the loop ends, so an interruption changes nothing.
            if done % PROGRESS_RECORDS == 0 && !progress(done, store.records()) {
                return Err(Error::Interrupted);
            }
        }
        // An index of fewer records would make the others unreachable.
        if done != store.records() {
            let expected = format!("{} records", store.records());
            return Err(store.file().file().corrupt(0, expected, done.to_string()));
        }
        let mut index = builder.map(StoreIndexBuilder::finish).transpose()?;
        let (kind, bytes) = index.as_mut().map_or((0, Vec::new()), StoreIndex::encode);
        let file = directory.open(name, directory.access())?;
        let header = dictionary.header();
        // The new index follows the first one, so until its footer is complete the file opens with the first one.
        let first = StoreFile::open_until(file, header.tag, header.first_end)?;
        first.append_index(Purpose::Maintain, PIECE_BYTES, (kind, &bytes))?;
        // Opened as any reader does it, which checks the new index and its footer.
        options.open_in(directory, name)
    }
}
