//! An index that is stored such that parts of it can be read and verified one by one: it follows a table with the
//! checksum of each of its pages (docs/formats/store_file.md).

use crate::error::{CorruptFile, Result};
use crate::store::file::{Section, StoreFile};
use siltstone_device::{AlignedBuffer, Purpose};
use siltstone_index::coding::checksum;
use std::ops::Range;

/// The bytes of a page: a multiple of the sector of any device, and about ten times what a lookup needs.
const PAGE_BYTES: u64 = 1024;
/// The bytes before the checksums: the table's own checksum, then the bytes of a page, of the head and of the index.
const TABLE_HEAD_BYTES: usize = 4 + 4 + 8 + 8;

/// The location of an index's pages, and their checksums.
#[derive(Debug, Clone)]
pub(super) struct Pages {
    /// Where the index begins, in bytes from the beginning of its section.
    start: u64,
    /// The part of the index that has to be in memory while the rest is on flash, in bytes.
    pub head_bytes: u64,
    /// The bytes of the index.
    pub index_bytes: u64,
    checksums: Box<[u32]>,
}

fn table_bytes(pages: usize) -> usize {
    TABLE_HEAD_BYTES + pages * size_of::<u32>()
}

impl Pages {
    /// Makes the pages of an encoded index that begins at `start` of its section.
    pub fn of(index: &[u8], head_bytes: u64, start: u64) -> Pages {
        let checksums = index.chunks(PAGE_BYTES as usize).map(checksum::crc32c).collect();
        Pages { start, head_bytes, index_bytes: index.len() as u64, checksums }
    }

    /// Puts the table before an encoded index. Also returns its pages.
    pub fn encode(index: &[u8], head_bytes: u64) -> (Vec<u8>, Pages) {
        let start = table_bytes(index.len().div_ceil(PAGE_BYTES as usize));
        let pages = Pages::of(index, head_bytes, start as u64);
        let mut bytes = Vec::with_capacity(start + index.len());
        bytes.extend([0; 4]);
        bytes.extend((PAGE_BYTES as u32).to_le_bytes());
        bytes.extend(pages.head_bytes.to_le_bytes());
        bytes.extend(pages.index_bytes.to_le_bytes());
        bytes.extend(pages.checksums.iter().flat_map(|checksum| checksum.to_le_bytes()));
        let checksum = checksum::crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        bytes.extend_from_slice(index);
        (bytes, pages)
    }

    /// Decodes the table from the first bytes of an index's section.
    fn decode(file: &StoreFile, section: &Section, bytes: &[u8]) -> Result<Pages> {
        let damaged =
            |got: &str| file.file().corrupt(StoreFile::section_offset(section), "a table of pages", got);
        let (table, _) =
            bytes.split_first_chunk::<TABLE_HEAD_BYTES>().ok_or_else(|| damaged("too few bytes"))?;
        let [c0, c1, c2, c3, p0, p1, p2, p3, numbers @ ..] = *table;
        let (head, index) = numbers.split_at(8);
        let number = |bytes: &[u8]| bytes.try_into().map_or(u64::MAX, u64::from_le_bytes);
        let (head_bytes, index_bytes) = (number(head), number(index));
        // Nothing here is verified yet. Wrong lengths saturate or differ from those computed below.
        let start = section.length.saturating_sub(index_bytes);
        let length = TABLE_HEAD_BYTES as u64 + index_bytes.div_ceil(PAGE_BYTES) * 4;
        let is_sound = u64::from(u32::from_le_bytes([p0, p1, p2, p3])) == PAGE_BYTES
            && index_bytes <= section.length
            && start == length
            && head_bytes <= index_bytes;
        // The lengths are checked first: the checksum covers what they delimit.
        let Some(table) = bytes.get(..length as usize).filter(|_| is_sound) else {
            return Err(damaged("invalid lengths"));
        };
        if checksum::crc32c(&table[4..]) != u32::from_le_bytes([c0, c1, c2, c3]) {
            return Err(damaged("a wrong checksum"));
        }
        let checksums = table[TABLE_HEAD_BYTES..].as_chunks().0.iter().map(|&sum| u32::from_le_bytes(sum));
        Ok(Pages { start, head_bytes, index_bytes, checksums: checksums.collect() })
    }

    /// Removes the table from a complete section, which was verified.
    pub fn split<'b>(file: &StoreFile, section: &Section, bytes: &'b [u8]) -> Result<(Pages, &'b [u8])> {
        let pages = Pages::decode(file, section, bytes)?;
        let index = bytes.get(pages.start as usize..).unwrap_or_default();
        Ok((pages, index))
    }

    /// Reads only the table.
    pub fn open(file: &StoreFile, section: &Section) -> Result<Pages> {
        let offset = StoreFile::section_offset(section);
        let mut buffer = AlignedBuffer::default();
        file.check_section(section)?;
        // 4 bytes per page are a 256th of the index, so for correct lengths the guess is never too short.
        let guess = (section.length / (PAGE_BYTES / 4) + 64).min(section.length) as usize;
        let bytes = file.file().read(Purpose::Recover, offset, guess, &mut buffer)?;
        Pages::decode(file, section, bytes)
    }

    /// Reads a range of the index, extended to complete pages, and verifies these. Returns where in the index the bytes
    /// begin, and the bytes.
    pub fn read<'b>(
        &self,
        file: &StoreFile,
        purpose: Purpose,
        wanted: Range<u64>,
        buffer: &'b mut AlignedBuffer,
    ) -> Result<(u64, &'b [u8])> {
        // Whole pages, because only these have checksums.
        let first = wanted.start / PAGE_BYTES;
        let start = first * PAGE_BYTES;
        let end = (wanted.end.div_ceil(PAGE_BYTES) * PAGE_BYTES).min(self.index_bytes);
        let offset = StoreFile::section_offset(&file.footer().index) + self.start + start;
        let length = end.saturating_sub(start) as usize;
        let bytes = file.file().read(purpose, offset, length, buffer)?;
        // `end` is within the index, so every page that was read has a checksum here.
        let checksums = self.checksums.get(first as usize..).unwrap_or_default();
        for (page, checksum) in bytes.chunks(PAGE_BYTES as usize).zip(checksums) {
            let got = checksum::crc32c(page);
            if got != *checksum {
                let expected = format!("a page of an index with checksum {checksum:#010x}");
                return Err(file.file().corrupt(offset, expected, format!("{got:#010x}")));
            }
        }
        Ok((start, bytes))
    }

    /// Returns the memory of the checksums, in bytes.
    pub fn heap_bytes(&self) -> usize {
        size_of_val(&*self.checksums)
    }
}
