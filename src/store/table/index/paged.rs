//! A perfect index whose seeds are on flash: in memory are its outline, which says which of them a key needs, and the
//! checksums of their pages.

use super::pages::Pages;
use crate::error::{CorruptFile, Error, Result};
use crate::store::Query;
use crate::store::file::StoreFile;
use siltstone_device::{AlignedBuffer, Purpose};
use siltstone_index::perfect::{PerfectIndex, PerfectOutline};
use std::ops::Range;
use std::sync::Arc;

/// The part of a perfect index that stays in memory.
pub(super) struct PagedIndex {
    pub outline: Arc<PerfectOutline>,
    pages: Pages,
}

impl PagedIndex {
    /// Returns the bytes of an index's section, and the part that stays in memory.
    pub fn encode(index: &PerfectIndex) -> (Vec<u8>, PagedIndex) {
        let mut bytes = Vec::new();
        index.encode(&mut bytes);
        let outline = index.outline().clone();
        // The seeds are last, so the part that an open reads is contiguous.
        let (bytes, pages) = Pages::encode(&bytes, bytes.len() as u64 - outline.seeds_bytes());
        (bytes, PagedIndex { outline, pages })
    }

    /// Decodes the whole index from the bytes of its section, which were verified, and the part that stays in memory.
    pub fn decode(file: &StoreFile, bytes: &[u8]) -> Result<(PerfectIndex, PagedIndex)> {
        let section = &file.footer().index;
        let offset = StoreFile::section_offset(section);
        // The checksums of the pages are for later reads of parts.
        let (pages, bytes) = Pages::split(file, section, bytes)?;
        let index = PerfectIndex::decode(bytes).map_err(Error::decode(file.file().path(), offset))?;
        // Blocks follow from the number of records before, so that of another table would locate others.
        if index.len() != file.footer().records {
            let expected = format!("an index of {} records", file.footer().records);
            return Err(file.file().corrupt(offset, expected, index.len().to_string()));
        }
        let outline = index.outline().clone();
        Ok((index, PagedIndex { outline, pages }))
    }

    /// Reads the outline and the checksums of the pages.
    pub fn open(file: &StoreFile) -> Result<PagedIndex> {
        let section = &file.footer().index;
        // Two reads, whatever the size: the table of pages, then the head that it delimits.
        let pages = Pages::open(file, section)?;
        let mut buffer = AlignedBuffer::default();
        let (_, bytes) = pages.read(file, Purpose::Recover, 0..pages.head_bytes, &mut buffer)?;
        // The last page of the head may also have seeds.
        let head = bytes.get(..pages.head_bytes as usize).unwrap_or_default();
        let offset = StoreFile::section_offset(section);
        let outline = PerfectOutline::decode(head).map_err(Error::decode(file.file().path(), offset))?;
        // The outline says which seeds a key needs, so both must agree on where these are.
        if pages.head_bytes.checked_add(outline.seeds_bytes()) != Some(pages.index_bytes) {
            let got = format!("{} of {} bytes", pages.head_bytes, pages.index_bytes);
            return Err(file.file().corrupt(offset, "a resident part that fits the index", got));
        }
        Ok(PagedIndex { outline: Arc::new(outline), pages })
    }

    /// Returns the units that may contain the record of a key. Takes one read.
    pub fn locate(
        &self,
        file: &StoreFile,
        query: &Query<'_>,
        buffer: &mut AlignedBuffer,
    ) -> Result<Range<u64>> {
        let placement = query.hash.placement;
        let Range { start, end } = self.outline.seeds_for(placement);
        // Without keys there are no seeds to read.
        if start >= end {
            return Ok(0..self.outline.blocks().min(1));
        }
        let head_bytes = self.pages.head_bytes;
        let (from, bytes) =
            self.pages.read(file, query.purpose, head_bytes + start..head_bytes + end, buffer)?;
        // Whole pages are read, so the first one may begin in the head.
        let skip = head_bytes.saturating_sub(from);
        let seeds = bytes.get(skip as usize..).unwrap_or_default();
        Ok(self.outline.locate_in(placement, (from + skip) - head_bytes, seeds))
    }

    /// Returns the heap memory of the checksums, in bytes.
    pub fn pages_bytes(&self) -> usize {
        self.pages.heap_bytes()
    }
}
