//! The pages of a shard on flash. A lookup reads one of them.

use super::Unit;
use crate::error::{CorruptFile, Result};
use siltstone_device::{AlignedBuffer, File, Purpose, ReadAhead};
use siltstone_index::coding::DecodeError;
use siltstone_index::coding::checksum::{crc32c, crc32c_append};
use siltstone_index::hash_pages::{Division, HashPage};
use std::sync::Arc;

/// A page in the file: its offset and length in bytes, and its checksum.
#[derive(Debug, Clone, Copy)]
pub(super) struct PagePlace {
    pub offset: u64,
    pub length: u32,
    pub crc: u32,
}

/// The memory of a page on flash, in bytes.
pub const FLASH_PAGE_BYTES: usize = size_of::<PagePlace>();

/// The pages of a shard in a file. The file can be read as long as this exists, also after it was removed.
pub(super) struct FlashPages {
    file: Arc<File>,
    /// The tag of the file.
    tag: u64,
    division: Division,
    places: Box<[PagePlace]>,
    len: u64,
}

/// Returns the checksum of a page in the file with this tag.
pub(super) fn page_checksum(tag: u64, encoded: &[u8]) -> u32 {
    crc32c_append(crc32c(&tag.to_le_bytes()), encoded)
}

impl FlashPages {
    /// The pages of `len` entries at these places, at least one. `hash_bits` of each hash are kept.
    pub fn new(file: &Arc<File>, tag: u64, hash_bits: u32, len: u64, places: Vec<PagePlace>) -> FlashPages {
        // The number of pages determines the division, so the file does not have to state it.
        let division = Division::new(hash_bits, places.len());
        FlashPages { file: file.clone(), tag, division, places: places.into(), len }
    }

    /// Returns how the hashes are divided among the pages.
    pub fn division(&self) -> Division {
        self.division
    }

    /// Returns the places of the pages.
    pub fn places(&self) -> &[PagePlace] {
        &self.places
    }

    /// Returns the end of the last page in the file.
    pub fn end(&self) -> u64 {
        self.places.last().map_or(0, |last| last.offset + u64::from(last.length))
    }

    /// Returns the file.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Returns the number of entries.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns the heap memory, in bytes.
    pub fn heap_bytes(&self) -> usize {
        size_of::<FlashPages>() + size_of_val(&*self.places)
    }

    /// Decodes a page, and checks the order of its entries.
    pub fn decode(&self, page: usize, bytes: &[u8]) -> Result<HashPage> {
        self.decode_by(page, bytes, HashPage::decode)
    }

    /// Decodes a page without checking the order of its entries, which its checksum covers.
    pub fn decode_intact(&self, page: usize, bytes: &[u8]) -> Result<HashPage> {
        self.decode_by(page, bytes, HashPage::decode_intact)
    }

    #[inline]
    fn decode_by(
        &self,
        page: usize,
        bytes: &[u8],
        decode: fn(&[u8]) -> std::result::Result<HashPage, DecodeError>,
    ) -> Result<HashPage> {
        let place = self.places[page];
        // The checksum begins with the tag of the file: a page of another file in its place is damage, too.
        if page_checksum(self.tag, bytes) != place.crc {
            return Err(self.file.corrupt(place.offset, "a page with a correct checksum", "other bytes"));
        }
        let decoded =
            decode(bytes).map_err(|error| self.file.corrupt(place.offset, error.expected, error.got))?;
        let (wanted, got) = (self.division.tag_bits(page), decoded.tag_bits());
        // With tags of another width, lookups would compare other bits of the hash.
        if wanted != got {
            let expected = format!("a page with tags of {wanted} bits");
            return Err(self.file.corrupt(place.offset, expected, format!("{got} bits")));
        }
        Ok(decoded)
    }

    /// Returns the units of a hash. Reads a page.
    pub fn units(&self, purpose: Purpose, hash: u64, buffer: &mut AlignedBuffer) -> Result<Vec<Unit>> {
        let (page, tag) = self.division.home(hash);
        let place = self.places[page];
        // No lock is held. If a save replaces the file meanwhile, this handle still reads the old one.
        let bytes = self.file.read(purpose, place.offset, place.length as usize, buffer)?;
        Ok(self.decode_intact(page, bytes)?.candidates(tag).collect())
    }

    /// Begins to read the pages in their order, from one of them on, in pieces of about `piece_bytes`.
    pub fn read_from(
        self: &Arc<FlashPages>,
        page: usize,
        purpose: Purpose,
        piece_bytes: usize,
    ) -> PagesReader {
        let at = self.places.get(page).map_or(0, |place| place.offset);
        let reader = ReadAhead::new(purpose, piece_bytes, 1);
        PagesReader { pages: self.clone(), reader, next: page, bytes: Vec::new(), at, end: at }
    }
}

/// A sequential reader of pages.
pub(super) struct PagesReader {
    pages: Arc<FlashPages>,
    reader: ReadAhead,
    next: usize,
    /// The bytes of the file from `at` to `end`.
    bytes: Vec<u8>,
    at: u64,
    end: u64,
}

impl PagesReader {
    /// Returns the lowest hash of the next page, if there is one.
    pub fn next_hash(&self) -> Option<u64> {
        (self.next < self.pages.places.len()).then(|| self.pages.division.first_hash(self.next))
    }

    /// Returns the next page with its number.
    pub fn next_page(&mut self) -> Result<Option<(usize, HashPage)>> {
        let number = self.next;
        let Some(place) = self.pages.places.get(number).copied() else { return Ok(None) };
        // The pages of a shard follow each other without gaps, so `at` is never behind the next one.
        let mut start = (place.offset - self.at) as usize;
        if self.bytes.len() < start + place.length as usize {
            self.bytes.drain(..start.min(self.bytes.len()));
            (self.at, start) = (place.offset, 0);
            let last = self.pages.end();
            let needed = (place.offset + u64::from(place.length)).saturating_sub(self.end) as usize;
            let bytes = &mut self.bytes;
            self.end =
                self.reader.read(&self.pages.file, self.end..last, needed, |_, piece| -> Result<()> {
                    bytes.extend_from_slice(piece);
                    Ok(())
                })?;
        }
        let bytes = self.bytes.get(start..start + place.length as usize);
        // If the file has fewer bytes, the checksum fails.
        let page = self.pages.decode_intact(number, bytes.unwrap_or_default())?;
        // After the decoding, so that a page which fails is not passed over by another call.
        self.next += 1;
        Ok(Some((number, page)))
    }

    /// Returns the next entries with their hashes: those of a page.
    pub fn next_entries(&mut self) -> Result<Option<Vec<(u64, Unit)>>> {
        let Some((number, page)) = self.next_page()? else { return Ok(None) };
        let division = self.pages.division;
        let (first, shift) = (division.first_hash(number), 64 - division.hash_bits());
        Ok(Some(page.entries().map(|entry| (first | entry.tag << shift, entry.unit)).collect()))
    }

    /// Returns the memory, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.bytes.capacity() + self.reader.heap_bytes()
    }
}
