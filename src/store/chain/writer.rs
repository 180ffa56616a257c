//! Writes a chain, page by page: the columns of an older chain, and those of newer runs.
//!
//! 1. A step reads some pages of the older chain in one read, and verifies each: damage must get no new checksum.
//! 2. To each page it adds the columns of the newer runs, and writes it. Pages are in the order of ranges.
//! 3. The file ends with the places of the pages and the prefilter. It is synced before a manifest names it.

use super::directory::{ChainRun, PageDirectory};
use super::page::PageBuilder;
use super::{BLOCK_BYTES, COLUMNS_MAX, Chain, PREFILTER_KIND, SECTION_KIND, STORE_KIND};
use crate::error::{Error, Result};
use crate::store::file::StoreFileWriter;
use siltstone_device::{AlignedBuffer, Directory, Purpose};
use siltstone_index::PlacementIndex;
use siltstone_index::prefilter::Prefilter;
use siltstone_index::run_columns::RunColumns;
use std::sync::Arc;

/// The settings of a new chain.
#[derive(Debug, Clone, Copy)]
pub struct ChainSettings {
    /// The tag of the file, a random number.
    pub tag: u64,
    /// The purpose of reads and writes.
    pub purpose: Purpose,
    /// The size of reads and writes, in bytes.
    pub piece_bytes: usize,
}

/// A run that a new chain has and the older one has not.
#[derive(Clone)]
pub struct AddedRun {
    /// The number of its store.
    pub number: u64,
    /// Its columns: of as many ranges as the chain has, or a multiple of that.
    pub columns: Arc<RunColumns>,
}

/// A chain that is being written.
pub struct ChainWriter {
    settings: ChainSettings,
    old: Option<Arc<Chain>>,
    added: Vec<AddedRun>,
    directory: PageDirectory,
    file: StoreFileWriter,
    page: Vec<u8>,
    /// Whether the older chain could not be read.
    older_failed: bool,
}

impl ChainWriter {
    /// Starts a new file for a chain of `ranges` ranges, with the runs of an older chain and these newer ones, the
    /// oldest first.
    ///
    /// # Errors
    /// [`Error::Setting`] if the runs have too many columns or other ranges, and those of the device.
    pub fn create(
        directory: &Directory,
        name: &str,
        settings: ChainSettings,
        ranges: u32,
        old: Option<Arc<Chain>>,
        added: Vec<AddedRun>,
    ) -> Result<ChainWriter> {
        let mut runs = old.as_ref().map_or(Vec::new(), |old| old.runs().to_vec());
        runs.reserve_exact(added.len());
        for AddedRun { number, columns } in &added {
            runs.push(ChainRun { number: *number, columns: columns.ranges() / ranges.max(1) });
        }
        let columns: u32 = runs.iter().map(|run| run.columns).sum();
        // A column of a run must not extend over two ranges: the page of a range has all that a lookup needs.
        let fits = added.iter().all(|run| run.columns.ranges().checked_rem(ranges) == Some(0))
            && old.as_ref().is_none_or(|old| old.ranges() == ranges)
            && columns <= COLUMNS_MAX;
        if !fits {
            let problem = format!("{columns} columns in {ranges} ranges cannot be one chain");
            return Err(Error::Setting { name: "chain_length", problem });
        }
        let (tag, purpose) = (settings.tag, settings.purpose);
        // No manifest names the file before it is complete and synced. After a crash the next open removes it.
        let file = directory.create_over_retired(name, 0)?;
        let file =
            StoreFileWriter::create(file, STORE_KIND, tag, BLOCK_BYTES, purpose, settings.piece_bytes)?;
        let first_blocks = Vec::with_capacity(ranges as usize + 1);
        let directory = PageDirectory { ranges, runs, first_blocks };
        Ok(ChainWriter { settings, old, added, directory, file, page: Vec::new(), older_failed: false })
    }

    /// Writes the next pages, about `bytes`. Returns whether all are written.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if a page of the older chain is damaged, and those of the device.
    pub fn step(&mut self, bytes: usize) -> Result<bool> {
        let mut buffer = AlignedBuffer::default();
        let mut written = 0;
        while written < bytes.max(1) {
            // The next range is the number of pages that are written, so a step continues where the last one ended.
            let first = self.next_range();
            if first == self.directory.ranges {
                return Ok(true);
            }
            // The pages of the older chain that a read of a piece has.
            let mut end = first + 1;
            let Some(old) = self.old.clone() else {
                self.write_page(first, PageBuilder::default())?;
                written += self.page.len();
                continue;
            };
            let start = old.directory.blocks_of(first).start;
            let blocks = (self.settings.piece_bytes / BLOCK_BYTES as usize) as u64;
            // At least one page, also if it is longer than a piece.
            while end < old.ranges() && old.directory.blocks_of(end).end - start <= blocks {
                end += 1;
            }
            let blocks = start..old.directory.blocks_of(end - 1).end;
            // Damage of the older chain is distinguished from errors of the new file. After the first, the chain is
            // made of columns alone. After the second, nothing more is written.
            let read = old.file().read_blocks(self.settings.purpose, blocks, &mut buffer);
            let bytes = self.of_older(read)?;
            for range in first..end {
                let blocks = old.directory.blocks_of(range);
                let block = |number: u64| ((number - start) * u64::from(BLOCK_BYTES)) as usize;
                let page = bytes.get(block(blocks.start)..block(blocks.end)).unwrap_or_default();
                let page = self.of_older(old.page(range, page, true))?;
                let (offset, _) = old.file().extent_of(&blocks);
                let page = PageBuilder::after(&page).map_err(Error::decode(old.file().file().path(), offset));
                let page = self.of_older(page)?;
                self.write_page(range, page)?;
                written += self.page.len();
            }
        }
        Ok(self.next_range() == self.directory.ranges)
    }

    /// Returns what was read of the older chain.
    fn of_older<T>(&mut self, read: Result<T>) -> Result<T> {
        self.older_failed |= read.is_err();
        read
    }

    /// Returns whether the older chain is the cause of an error of [`step`](Self::step).
    pub fn older_failed(&self) -> bool {
        self.older_failed
    }

    fn next_range(&self) -> u32 {
        self.directory.first_blocks.len() as u32
    }

    /// Adds the columns of the newer runs to a page, and writes it.
    fn write_page(&mut self, range: u32, mut page: PageBuilder) -> Result<()> {
        // Filters and blocks in the order of the runs: a column has one number in both.
        let mut filters = Vec::new();
        for AddedRun { columns, .. } in &self.added {
            let per_range = columns.ranges() / self.directory.ranges;
            for range in range * per_range..(range + 1) * per_range {
                let column = columns.column(range);
                filters.push(columns.filter_of(&column)?);
                page.push_blocks(&column);
            }
        }
        page.push_filters(&filters)?;
        self.page.clear();
        page.encode(self.settings.tag, range, &mut self.page);
        // Before its blocks are appended: the page begins at the next one.
        self.directory.first_blocks.push(self.file.next_block() as u32);
        let file = &mut self.file;
        self.page.chunks_exact(BLOCK_BYTES as usize).try_for_each(|block| file.append_block(block))
    }

    /// Returns the memory of the columns of the runs, in bytes.
    pub fn columns_bytes(&self) -> usize {
        self.added.iter().map(|run| run.columns.heap_bytes()).sum()
    }

    /// Returns the memory held, in bytes, without the columns of the runs.
    pub fn heap_bytes(&self) -> usize {
        self.file.heap_bytes() + self.page.capacity() + self.directory.heap_bytes()
    }

    /// Writes the rest of the file, with the prefilter of the keys of all runs if there is one, and syncs it.
    pub fn finish(mut self, prefilter: Option<&Prefilter>) -> Result<Chain> {
        // The end of the last page.
        self.directory.first_blocks.push(self.file.next_block() as u32);
        let (mut directory, mut filter) = (Vec::new(), Vec::new());
        self.directory.encode(&mut directory);
        let filter_kind = prefilter.map_or(0, |prefilter| {
            prefilter.encode(&mut filter);
            PREFILTER_KIND
        });
        let file = self.file.finish(0, 0, (SECTION_KIND, &directory), (filter_kind, &filter))?;
        // Before the commit that names the chain: after a crash, the manifest names no incomplete file.
        file.sync(self.settings.purpose)?;
        Ok(Chain::of(file, self.directory))
    }
}
