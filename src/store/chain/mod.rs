//! The chain of a partition (BloomStore, III-A): on flash, the columns of its runs side by side, so that one read finds
//! the blocks of all runs that may have a key.
//!
//! ```text
//! hashes of the partition   |  range 0  |  range 1  |  range 2  |  ...
//! run, the oldest           |  column   |  column   |  column   |        a column: a filter and the blocks of the
//! run                       |  column   |  column   |  column   |        run's records in the range
//! run, the newest           |  column   |  column   |  column   |
//!                              page 0      page 1      page 2            a page is read at once
//! ```
//!
//! A chain is an immutable file. It is made from an older chain and the columns of newer runs, page by page; from
//! columns alone, it has all that a chain can have, so nothing is lost with a chain. In memory are the number of the
//! first block of each page and the numbers of the runs.
//!
//! A chain may have a [`Prefilter`] of the keys of all its runs, which is in memory, so that for most missing keys no
//! page is read. A chain is made with it by reading the placements of the runs that are added.
//!
//! A run may have several columns per range: the oldest run, with most of the records, has a column for each
//! [`OLD_COLUMNS`]th of a range, because the filters of one page that are tested together are short.
//!
//! `docs/formats/chain.md` has the bytes.

mod directory;
mod page;
#[cfg(test)]
mod tests;
mod writer;

pub use directory::ChainRun;
pub use page::ChainPage;
pub use writer::{AddedRun, ChainSettings, ChainWriter};

use crate::error::{CorruptFile, Error, Result};
use directory::PageDirectory;
use siltstone_device::sync::atomic::{AtomicBool, Ordering::Relaxed};
use siltstone_device::{AlignedBuffer, Directory, Purpose};
use siltstone_index::coding::checksum;
use siltstone_index::prefilter::Prefilter;
use siltstone_index::run_columns::range_of;
use std::ops::Range;

use super::file::StoreFile;

/// The kind of the store file, and of its index section.
const STORE_KIND: u8 = 8;
const SECTION_KIND: u8 = 8;
/// The kind of the filter section.
const PREFILTER_KIND: u8 = 4;
/// A page takes whole blocks of this many bytes.
pub const BLOCK_BYTES: u32 = 512;
/// The columns per range of a run that has the records of many.
pub const OLD_COLUMNS: u32 = 8;
/// The maximum number of columns of a page.
pub const COLUMNS_MAX: u32 = siltstone_index::bloom::COLUMNS_MAX;

/// Where a record may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunBlocks {
    /// The run, by its age: 0 is the oldest of the chain.
    pub run: usize,
    /// Its blocks.
    pub blocks: Range<u64>,
}

/// A chain, open for reading.
pub struct Chain {
    file: StoreFile,
    directory: PageDirectory,
    is_damaged: AtomicBool,
}

impl Chain {
    /// Opens a chain, and reads the places of its pages.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the file, its footer or the places of the pages are damaged.
    pub fn open(directory: &Directory, name: &str, tag: u64) -> Result<Chain> {
        let file = StoreFile::open(directory, name, tag)?;
        let footer = file.footer();
        let section = &footer.index;
        // `StoreFile::open` has compared the tag. The kinds say that this number is a chain and not a store.
        let is_chain =
            (footer.kind, section.kind, footer.block_bytes) == (STORE_KIND, SECTION_KIND, BLOCK_BYTES);
        if !is_chain || ![0, PREFILTER_KIND].contains(&footer.filter.kind) {
            let got = format!("a store of kind {}", footer.kind);
            return Err(file.file().corrupt(file.length(), "a chain", got));
        }
        let bytes = file.read_section(section, Purpose::Recover)?;
        let damaged = Error::decode(file.file().path(), StoreFile::section_offset(section));
        // The places of the pages are checked against the blocks of the file, so no lookup reads behind them.
        let directory = PageDirectory::decode(&bytes, footer.blocks).map_err(damaged)?;
        Ok(Chain::of(file, directory))
    }

    fn of(file: StoreFile, directory: PageDirectory) -> Chain {
        // Damage is not stored: after an open, the next read of the page finds it again.
        Chain { file, directory, is_damaged: AtomicBool::new(false) }
    }

    /// Returns the file.
    pub fn file(&self) -> &StoreFile {
        &self.file
    }

    /// Returns the runs, the oldest first.
    pub fn runs(&self) -> &[ChainRun] {
        &self.directory.runs
    }

    /// Returns the number of ranges, each with a page.
    pub fn ranges(&self) -> u32 {
        self.directory.ranges
    }

    /// Returns the number of columns of a page.
    pub fn columns(&self) -> u32 {
        self.runs().iter().map(|run| run.columns).sum()
    }

    /// Returns the memory held, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.directory.heap_bytes()
    }

    /// Returns the length of the prefilter on flash in bytes, 0 without one.
    pub fn prefilter_bytes(&self) -> u64 {
        self.file.footer().filter.length()
    }

    /// Reads the prefilter; `None` if the chain has none.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is damaged, and those of reading it.
    pub fn read_prefilter(&self, purpose: Purpose) -> Result<Option<Prefilter>> {
        let section = &self.file.footer().filter;
        if section.kind != PREFILTER_KIND {
            return Ok(None);
        }
        let bytes = self.file.read_section(section, purpose)?;
        let damaged = Error::decode(self.file.file().path(), StoreFile::section_offset(section));
        Prefilter::decode(&bytes).map(Some).map_err(damaged)
    }

    /// Returns whether a page was found to be damaged since the chain was opened.
    pub fn is_damaged(&self) -> bool {
        // Relaxed: a thread that does not see it yet reads the page and finds the damage itself.
        self.is_damaged.load(Relaxed)
    }

    /// Notes that a page is damaged.
    pub fn note_damage(&self) {
        self.is_damaged.store(true, Relaxed);
    }

    /// Returns the position in the file of the page for a placement: offset and length in bytes.
    pub fn extent_of(&self, placement: u64) -> (u64, usize) {
        self.file.extent_of(&self.directory.blocks_of(range_of(placement, self.ranges()).0))
    }

    /// Returns where the record of a placement may be, the newest run first, from the bytes of its page.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the page is damaged.
    pub fn places(&self, placement: u64, bytes: &[u8]) -> Result<Vec<RunBlocks>> {
        let (range, position) = range_of(placement, self.ranges());
        let verifies = !self.file.file().skips_checksums_on_get();
        let page = self.page(range, bytes, verifies)?;
        Ok(page.places(self.runs(), placement, position))
    }

    /// Reads a page, and returns where the record of a placement may be, the newest run first.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the page is damaged, and those of reading it.
    pub fn look_up(
        &self,
        placement: u64,
        purpose: Purpose,
        buffer: &mut AlignedBuffer,
    ) -> Result<Vec<RunBlocks>> {
        let (offset, length) = self.extent_of(placement);
        let bytes = self.file.file().read(purpose, offset, length, buffer)?;
        self.places(placement, bytes)
    }

    /// Reads every page and the prefilter, and calls `take` with the error of each damaged one, and with the number of
    /// bytes of each other one.
    ///
    /// # Errors
    /// Those of reading that are not damage, and of `take`.
    pub fn check(
        &self,
        purpose: Purpose,
        mut take: impl FnMut(std::result::Result<u64, Error>) -> Result<()>,
    ) -> Result<()> {
        let mut buffer = AlignedBuffer::default();
        for range in 0..self.ranges() {
            let (offset, length) = self.file.extent_of(&self.directory.blocks_of(range));
            let read = self.file.file().read(purpose, offset, length, &mut buffer);
            let read = read.map_err(Error::from);
            // Verified also if lookups skip it. Damage is passed on and the check continues; an error of the device
            // ends it.
            match read.and_then(|bytes| self.page(range, bytes, true).map(|_| length as u64)) {
                Err(error) if !super::examine::is_damage(&error) => return Err(error),
                outcome => take(outcome)?,
            }
        }
        match self.read_prefilter(purpose) {
            Err(error) if !super::examine::is_damage(&error) => return Err(error),
            outcome => take(outcome.map(|_| self.prefilter_bytes()))?,
        }
        // An open reads only one of the two footers. The other one is compared here.
        take(self.file.check_copy(purpose).map(|()| 0))
    }

    /// Returns a page from its bytes.
    fn page<'b>(&self, range: u32, bytes: &'b [u8], verify: bool) -> Result<ChainPage<'b>> {
        let offset = self.file.extent_of(&self.directory.blocks_of(range)).0;
        let damaged = |got: &str| self.file.file().corrupt(offset, format!("page {range} of a chain"), got);
        let stated = page::stated_checksum(bytes).ok_or_else(|| damaged("too few bytes"))?;
        if verify && stated != page_checksum(self.file.footer().tag, range, &bytes[4..]) {
            return Err(damaged("a wrong checksum"));
        }
        // Lengths within the page are checked also where a lookup skips the checksum.
        let page = ChainPage::decode(bytes).map_err(Error::decode(self.file.file().path(), offset))?;
        // The number of a column selects its run, so with other columns a lookup would read the wrong run.
        if page.columns() != self.columns() {
            return Err(damaged(&format!("{} columns", page.columns())));
        }
        Ok(page)
    }
}

/// Returns the checksum of a page, from its bytes after the checksum.
fn page_checksum(tag: u64, range: u32, rest: &[u8]) -> u32 {
    // The tag and the range are in the checksum, so a page at a wrong place is detected.
    let place = (u128::from(tag) << 64 | u128::from(range)).to_le_bytes();
    checksum::crc32c_append(checksum::crc32c(&place), rest)
}
