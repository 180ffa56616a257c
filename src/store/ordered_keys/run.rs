//! A run: an immutable file of keys in their order. `docs/formats/key_run.md` has the diagrams.
//!
//! Keys are in *pages*. A page begins in a new block, and has one block unless its only key is longer. Within a page a
//! key is stored without the bytes that it shares with the one before. In memory is a *separator* per page: the first
//! bytes of its first key, as many as distinguish it from the last key of the page before.

use super::batch::Batch;
use super::{KeyRun, KeyState};
use crate::error::{CorruptFile, Result};
use crate::key::KEY_LENGTH_MAX;
use crate::store::block::{BLOCK_HEADER_BYTES, Block, BlockBuilder};
use crate::store::file::{StoreFile, StoreFileWriter};
use siltstone_device::{AlignedBuffer, Directory, Purpose, with_scratch};
use siltstone_index::coding::{Reader, push_varint};
use std::ops::{Bound, Range};

/// The kind of the store file, and of its index section.
const STORE_KIND: u8 = 7;
const SECTION_KIND: u8 = 6;
const BLOCK_BYTES: usize = 4096;
/// The bytes of keys in a page, unless a single key has more.
const PAGE_BYTES: usize = BLOCK_BYTES - BLOCK_HEADER_BYTES;
/// The most blocks of a page: its only key is the longest one, after two numbers of a few bytes.
const PAGE_BLOCKS_MAX: u64 = (KEY_LENGTH_MAX + 16).div_ceil(PAGE_BYTES) as u64;
/// The lowest two bits of the number before a key are its state.
const STATE_BITS: u32 = 2;

/// The separators of the pages, in memory.
#[derive(Default)]
struct Separators {
    bytes: Vec<u8>,
    /// For each page, where its separator ends, and its first block.
    pages: Vec<(usize, u64)>,
}

impl Separators {
    fn get(&self, page: usize) -> &[u8] {
        let start = page.checked_sub(1).map_or(0, |before| self.pages[before].0);
        &self.bytes[start..self.pages[page].0]
    }

    fn push(&mut self, separator: &[u8], first_block: u64) {
        self.bytes.extend_from_slice(separator);
        self.pages.push((self.bytes.len(), first_block));
    }

    /// Returns the only page that may have a key.
    fn page_of(&self, key: &[u8]) -> usize {
        // The last page whose separator is not above the key. The separator of the first page is empty.
        let (mut low, mut high) = (0, self.pages.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.get(middle) <= key { low = middle + 1 } else { high = middle }
        }
        low.saturating_sub(1)
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        push_varint(&mut out, self.pages.len() as u64);
        for (page, (_, block)) in self.pages.iter().enumerate() {
            let separator = self.get(page);
            push_varint(&mut out, *block);
            push_varint(&mut out, separator.len() as u64);
            out.extend_from_slice(separator);
        }
        out
    }

    /// Decodes the separators of pages with this number of blocks.
    fn decode(bytes: &[u8], blocks: u64) -> Option<Separators> {
        let mut reader = Reader::new(bytes);
        let mut separators = Separators::default();
        // Each page takes two bytes or more, so with a damaged count the bytes end first.
        for page in 0..reader.varint()? {
            let block = reader.varint()?;
            let length = usize::try_from(reader.varint()?).ok()?;
            let separator = reader.bytes(length)?;
            let is_after = match separators.pages.last() {
                // The first page has all keys below the second separator, so its own one is empty.
                None => block == 0 && separator.is_empty(),
                Some((_, before)) => {
                    is_page(*before, block) && separators.get(separators.pages.len() - 1) < separator
                }
            };
            // Ascending, so that only one page may have a key, and within the file.
            if !is_after || block >= blocks || page >= blocks {
                return None;
            }
            separators.push(separator, block);
        }
        let is_last = |(_, last): &(usize, u64)| is_page(*last, blocks);
        let is_whole = reader.at() == bytes.len() && separators.pages.last().is_some_and(is_last);
        is_whole.then_some(separators)
    }

    fn heap_bytes(&self) -> usize {
        self.bytes.capacity() + self.pages.capacity() * size_of::<(usize, u64)>()
    }
}

/// Returns whether these may be the first block of a page, and that of the next one: a page is read at once.
fn is_page(first: u64, next: u64) -> bool {
    next.checked_sub(first).is_some_and(|blocks| (1..=PAGE_BLOCKS_MAX).contains(&blocks))
}

/// Returns the number of bytes that two keys share at their start.
fn shared(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

/// Writes a run.
pub(super) struct RunWriter {
    run: KeyRun,
    file: StoreFileWriter,
    block: BlockBuilder,
    /// The bytes of the page that is being filled.
    page: Vec<u8>,
    first: Vec<u8>,
    last: Vec<u8>,
    separators: Separators,
    keys: u64,
    deleted: u64,
}

impl RunWriter {
    pub fn create(
        directory: &Directory,
        run: KeyRun,
        purpose: Purpose,
        piece_bytes: usize,
    ) -> Result<RunWriter> {
        let file = directory.create(&run.file_name(), directory.access())?;
        let block_bytes = BLOCK_BYTES as u32;
        let file = StoreFileWriter::create(file, STORE_KIND, run.tag, block_bytes, purpose, piece_bytes)?;
        Ok(RunWriter {
            run,
            file,
            block: BlockBuilder::new(run.tag, BLOCK_BYTES),
            page: Vec::new(),
            first: Vec::new(),
            last: Vec::new(),
            separators: Separators::default(),
            keys: 0,
            deleted: 0,
        })
    }

    /// Adds the next key.
    pub fn push(&mut self, key: &[u8], state: KeyState) -> Result<()> {
        let same = shared(&self.last, key);
        let start = self.page.len();
        if start > 0 {
            self.encode(same, key, state);
            // Too long: the page ends before this key, which begins the next one.
            if self.page.len() > PAGE_BYTES {
                self.page.truncate(start);
                self.seal_page()?;
            }
        }
        if self.page.is_empty() {
            // The bytes that the last key shares and one more: the separator is above that key and not above this one.
            let distinct = if self.keys == 0 { 0 } else { same + 1 };
            self.separators.push(&key[..distinct], self.file.next_block());
            // The first key is stored whole, so that a page is decoded without the page before.
            self.encode(0, key, state);
        }
        if self.keys == 0 {
            self.first.extend_from_slice(key);
        }
        self.keys += 1;
        self.deleted += u64::from(state == KeyState::Deleted);
        self.last.clear();
        self.last.extend_from_slice(key);
        Ok(())
    }

    fn encode(&mut self, same: usize, key: &[u8], state: KeyState) {
        let rest = &key[same..];
        push_varint(&mut self.page, same as u64);
        push_varint(&mut self.page, (rest.len() as u64) << STATE_BITS | state as u64);
        self.page.extend_from_slice(rest);
    }

    fn seal_page(&mut self) -> Result<()> {
        let mut rest = &self.page[..];
        // Once: the further blocks of a long page begin within its key.
        self.block.begin_record();
        while !rest.is_empty() {
            let taken = self.block.fill(rest);
            rest = &rest[taken..];
            let file = &mut self.file;
            self.block.seal(file.next_block(), |block| file.append_block(block))?;
        }
        self.page.clear();
        Ok(())
    }

    /// Writes the rest, and syncs the file. It has at least one key.
    pub fn finish(mut self, purpose: Purpose) -> Result<Run> {
        self.seal_page()?;
        let section = self.separators.encode();
        let file = self.file.finish(self.keys, self.deleted, (SECTION_KIND, &section), (0, &[]))?;
        // Before the commit that names the run: after a crash, the manifest names no incomplete file.
        file.sync(purpose)?;
        self.separators.bytes.shrink_to_fit();
        self.separators.pages.shrink_to_fit();
        let ends = Some((self.first, self.last));
        Ok(Run { run: self.run, file, separators: self.separators, ends })
    }

    /// Returns the memory, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.file.heap_bytes()
            + self.block.heap_bytes()
            + self.page.capacity()
            + self.first.capacity()
            + self.last.capacity()
            + self.separators.heap_bytes()
    }
}

/// A run that is open for reading.
pub(super) struct Run {
    pub run: KeyRun,
    file: StoreFile,
    separators: Separators,
    /// The first and the last key, if they could be read.
    ends: Option<(Vec<u8>, Vec<u8>)>,
}

impl Run {
    /// Opens the file and reads its separators.
    pub fn open(directory: &Directory, run: KeyRun) -> Result<Run> {
        let file = StoreFile::open(directory, &run.file_name(), run.tag)?;
        let footer = file.footer();
        let (kind, section) = (footer.kind, footer.index.kind);
        if (kind, section, footer.block_bytes) != (STORE_KIND, SECTION_KIND, BLOCK_BYTES as u32) {
            let got = format!(
                "a store of kind {kind} with an index of kind {section} and blocks of {} bytes",
                footer.block_bytes
            );
            return Err(file.file().corrupt(0, "a run of keys", got));
        }
        let bytes = file.read_section(&footer.index, Purpose::Recover)?;
        let Some(separators) = Separators::decode(&bytes, footer.blocks) else {
            let at = StoreFile::section_offset(&footer.index);
            return Err(file.file().corrupt(at, "ascending separators of pages", "other bytes"));
        };
        let mut run = Run { run, file, separators, ends: None };
        // What is damaged is an error only for those who need it.
        run.ends = run.read_ends().ok().flatten();
        Ok(run)
    }

    /// Reads the first and the last page.
    fn read_ends(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let mut batch = Batch::default();
        self.read(Purpose::Recover, 0..1, &mut batch)?;
        let first = batch.first().map(|(key, _)| key.to_vec());
        // Into the same batch: the last key there is then the last key of the run.
        if self.pages() > 1 {
            self.read(Purpose::Recover, self.pages() - 1..self.pages(), &mut batch)?;
        }
        Ok(first.zip(batch.last().map(<[u8]>::to_vec)))
    }

    /// Returns false only if the run does not have the key.
    pub fn may_have(&self, key: &[u8]) -> bool {
        // If the ends are unknown, any key may be here. Deletes are then kept, which is never wrong.
        self.ends.as_ref().is_none_or(|(first, last)| first[..] <= *key && *key <= last[..])
    }

    /// Returns the number of keys, with those that are deleted.
    pub fn keys(&self) -> u64 {
        self.file.footer().records
    }

    /// Returns the number of keys that are deleted.
    pub fn deleted(&self) -> u64 {
        self.file.footer().deleted
    }

    /// Returns the file.
    pub fn file(&self) -> &StoreFile {
        &self.file
    }

    /// Returns the memory, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let ends = self.ends.as_ref().map_or(0, |(first, last)| first.capacity() + last.capacity());
        self.separators.heap_bytes() + ends
    }

    /// Returns the number of pages.
    pub fn pages(&self) -> usize {
        self.separators.pages.len()
    }

    /// Returns the only page that may have a key.
    pub fn page_of(&self, key: &[u8]) -> usize {
        self.separators.page_of(key)
    }

    /// Returns the pages that may have keys within the bounds.
    pub fn pages_within(&self, (start, end): (Bound<&[u8]>, Bound<&[u8]>)) -> Range<usize> {
        let page_of = |bound: Bound<&[u8]>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => Some(self.separators.page_of(key)),
            Bound::Unbounded => None,
        };
        // The page of an excluded end is included, because it may have keys below the bound.
        page_of(start).unwrap_or(0)..page_of(end).map_or(self.pages(), |last| last + 1)
    }

    /// Returns the blocks of some pages.
    pub fn blocks_of(&self, pages: &Range<usize>) -> Range<u64> {
        let first_block = |page: usize| {
            self.separators.pages.get(page).map_or(self.file.footer().blocks, |(_, block)| *block)
        };
        first_block(pages.start)..first_block(pages.end)
    }

    /// Appends the keys of some pages to `batch`, in ascending order. One read.
    pub fn read(&self, purpose: Purpose, pages: Range<usize>, batch: &mut Batch) -> Result<()> {
        with_scratch(|buffer: &mut AlignedBuffer| {
            let bytes = self.file.read_blocks(purpose, self.blocks_of(&pages), buffer)?;
            self.decode(pages, bytes, batch)
        })
    }

    /// Returns the offset and the length of some pages in the file.
    pub fn extent_of(&self, pages: &Range<usize>) -> (u64, usize) {
        self.file.extent_of(&self.blocks_of(pages))
    }

    /// Appends the keys of some pages to `batch`, in ascending order, from the bytes that were read.
    pub fn decode(&self, pages: Range<usize>, bytes: &[u8], batch: &mut Batch) -> Result<()> {
        let blocks = self.blocks_of(&pages);
        let mut long = Vec::new();
        for page in pages {
            let of_page = self.blocks_of(&(page..page + 1));
            let start = (of_page.start - blocks.start) as usize * BLOCK_BYTES;
            let end = (of_page.end - blocks.start) as usize * BLOCK_BYTES;
            // Missing bytes give an error in `decode_page`: they are no block.
            let of_page_bytes = bytes.get(start..end).unwrap_or_default();
            self.decode_page(of_page.start, of_page_bytes, &mut long, batch)?;
        }
        Ok(())
    }

    /// Decodes a page from its blocks. `long` is memory for one of several blocks.
    fn decode_page(
        &self,
        first_block: u64,
        bytes: &[u8],
        long: &mut Vec<u8>,
        batch: &mut Batch,
    ) -> Result<()> {
        let file = self.file.file();
        // Verified also if gets skip it: a merge gives these keys a new checksum.
        let open = |number: u64, bytes| Block::open(file, self.run.tag, number, bytes, true);
        let payload = if bytes.len() <= BLOCK_BYTES {
            open(first_block, bytes)?.payload
        } else {
            long.clear();
            for (number, block) in (first_block..).zip(bytes.chunks(BLOCK_BYTES)) {
                long.extend_from_slice(open(number, block)?.payload);
            }
            long
        };
        decode_keys(payload, batch).ok_or_else(|| {
            let offset = (first_block + 1) * BLOCK_BYTES as u64;
            file.corrupt(offset, "a page of ascending keys", "other bytes")
        })
    }
}

/// Decodes the keys of a page, in ascending order.
fn decode_keys(payload: &[u8], batch: &mut Batch) -> Option<()> {
    let mut reader = Reader::new(payload);
    let mut last: Vec<u8> = Vec::new();
    while reader.at() < payload.len() {
        // A page of several blocks has one key, so few bytes never make many long keys.
        if payload.len() > PAGE_BYTES && !last.is_empty() {
            return None;
        }
        let same = usize::try_from(reader.varint()?).ok()?;
        let head = reader.varint()?;
        let state = KeyState::from_number(head & ((1 << STATE_BITS) - 1))?;
        let length = usize::try_from(head >> STATE_BITS).ok()?;
        let rest = reader.bytes(length)?;
        let begin = last.get(..same)?;
        // Ascending, as cursors require. This also refuses empty keys, by which cursors mean none.
        let is_after = rest > &last[same..];
        if !is_after || same + length > KEY_LENGTH_MAX {
            return None;
        }
        batch.push_parts(begin, rest, state);
        last.truncate(same);
        last.extend_from_slice(rest);
    }
    (!last.is_empty()).then_some(())
}
