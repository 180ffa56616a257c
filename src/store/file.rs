//! The file of an immutable store: a header block, data blocks, the saved index and filter, a footer.
//! docs/formats/store_file.md draws it.

use super::block::is_block_size;
use crate::error::{CorruptFile, Error, Result};
use siltstone_device::{AlignedBuffer, Appender, Directory, File, Purpose, ReadAhead};
use siltstone_index::coding::Reader;
use siltstone_index::coding::checksum;
use std::ops::Range;
use std::sync::Arc;

/// The first bytes of every store file.
const MAGIC: &[u8; 8] = b"SILTSTOR";
/// The version of the format, header and footer.
pub const STORE_VERSION: u32 = 1;
/// The length of a footer, at the very end of the file, in bytes.
pub const FOOTER_BYTES: usize = 128;
/// The used bytes of the header. The rest of its block is zero.
pub(super) const HEADER_BYTES: usize = 32;
/// The maximum length of a section, in bytes, besides multiples of the number of records and of the bytes of the
/// blocks. The filter of a cuckoo table has a tag for each slot of its LogStore, however few slots were taken. A chain
/// has no records: its prefilter has at most 16 bits per key, and the filters in its blocks at least 4.
const SECTION_BYTES: u64 = 64 << 20;
const SECTION_BYTES_PER_RECORD: u64 = 16;
const SECTION_BYTES_PER_BLOCK_BYTE: u64 = 4;
/// A section longer than this is verified before memory is allocated for it, in bytes.
const SECTION_BYTES_READ_ONCE: u64 = 16 << 20;
/// The number of copies of the footer before it.
pub const FOOTER_COPIES: u8 = 1;
/// The file ends at a multiple of this, in bytes.
pub const FILE_ALIGNMENT: u64 = 4096;

/// A range of the file with a checksum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Section {
    /// The kind of structure; 0 for none.
    pub kind: u8,
    offset: u64,
    pub(super) length: u64,
    crc: u32,
}

impl Section {
    /// Returns the length, in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }
}

/// The footer of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreFooter {
    /// The kind of store, as defined by the store's format.
    pub kind: u8,
    /// A random number for each file, by which a misplaced file is detected. The manifest has it too.
    pub tag: u64,
    /// The size of a block, in bytes.
    pub block_bytes: u32,
    /// The number of data blocks.
    pub blocks: u64,
    /// The number of records, including deletes.
    pub records: u64,
    /// The number of deletes.
    pub deleted: u64,
    /// The saved index.
    pub index: Section,
    /// The saved filter.
    pub filter: Section,
}

impl StoreFooter {
    /// Returns a substitute for an unreadable footer, with this many blocks and without index and filter.
    pub(super) fn guessed(kind: u8, tag: u64, block_bytes: u32, blocks: u64) -> StoreFooter {
        let (index, filter) = (Section::default(), Section::default());
        StoreFooter { kind, tag, block_bytes, blocks, records: 0, deleted: 0, index, filter }
    }

    fn encode(&self) -> [u8; FOOTER_BYTES] {
        let mut out = Vec::with_capacity(FOOTER_BYTES);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&STORE_VERSION.to_le_bytes());
        out.extend_from_slice(&[self.kind, self.index.kind, self.filter.kind, 0]);
        out.extend_from_slice(&self.block_bytes.to_le_bytes());
        for field in [self.tag, self.blocks, self.records, self.deleted] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        for section in [&self.index, &self.filter] {
            out.extend_from_slice(&section.offset.to_le_bytes());
            out.extend_from_slice(&section.length.to_le_bytes());
            out.extend_from_slice(&section.crc.to_le_bytes());
        }
        out.push(FOOTER_COPIES);
        let mut footer = [0; FOOTER_BYTES];
        footer[..out.len()].copy_from_slice(&out);
        let crc = checksum::crc32c(&footer[..FOOTER_BYTES - 4]);
        footer[FOOTER_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        footer
    }

    /// Decodes a footer.
    pub(super) fn decode(file: &File, offset: u64, bytes: &[u8]) -> Result<StoreFooter> {
        let damaged = || file.corrupt(offset, "a store footer with a correct checksum", "other bytes");
        let (body, crc) = bytes.split_last_chunk::<4>().ok_or_else(damaged)?;
        if !bytes.starts_with(MAGIC) {
            return Err(file.corrupt(offset, "the footer of a store file", "other bytes"));
        }
        let mut fields = Reader::new(body);
        let parse = |fields: &mut Reader<'_>| {
            fields.bytes(MAGIC.len())?;
            Some((fields.u32()?, fields.u8()?, fields.u8()?, fields.u8()?, fields.u8()?, fields.u32()?))
        };
        let (version, kind, index_kind, filter_kind, _, block_bytes) =
            parse(&mut fields).ok_or_else(damaged)?;
        if version != STORE_VERSION {
            let file = file.path().to_owned();
            return Err(Error::Version { file, found: version, supported: STORE_VERSION });
        }
        if checksum::crc32c(body) != u32::from_le_bytes(*crc) {
            return Err(damaged());
        }
        let section = |fields: &mut Reader<'_>, kind| {
            Some(Section { kind, offset: fields.u64()?, length: fields.u64()?, crc: fields.u32()? })
        };
        let parse = |fields: &mut Reader<'_>| {
            let footer = StoreFooter {
                kind,
                tag: fields.u64()?,
                block_bytes,
                blocks: fields.u64()?,
                records: fields.u64()?,
                deleted: fields.u64()?,
                index: section(fields, index_kind)?,
                filter: section(fields, filter_kind)?,
            };
            (fields.u8()? == FOOTER_COPIES).then_some(footer)
        };
        parse(&mut fields).ok_or_else(damaged)
    }
}

/// Describes the expected file, for errors.
pub(super) fn expected_tag(tag: u64) -> String {
    format!("the store with tag {tag:016x}")
}

/// Describes a file with a wrong tag, for errors.
pub(super) fn found_tag(tag: u64) -> String {
    format!("another store's file, with tag {tag:016x}")
}

pub(super) fn encode_header(kind: u8, tag: u64, block_bytes: u32) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&STORE_VERSION.to_le_bytes());
    header[12] = kind;
    header[16..20].copy_from_slice(&block_bytes.to_le_bytes());
    header[20..28].copy_from_slice(&tag.to_le_bytes());
    let crc = checksum::crc32c(&header[..28]);
    header[28..].copy_from_slice(&crc.to_le_bytes());
    header
}

/// Writes a store file from its first block to its footer.
pub struct StoreFileWriter {
    appender: Appender,
    kind: u8,
    tag: u64,
    block_bytes: u32,
    blocks: u64,
}

impl StoreFileWriter {
    /// Starts a new file with its header. It is written in pieces of `piece_bytes`.
    pub fn create(
        file: File,
        kind: u8,
        tag: u64,
        block_bytes: u32,
        purpose: Purpose,
        piece_bytes: usize,
    ) -> Result<Self> {
        let mut appender = Appender::new(file, purpose, piece_bytes.max(block_bytes as usize));
        appender.append(&encode_header(kind, tag, block_bytes))?;
        appender.align(u64::from(block_bytes))?;
        Ok(StoreFileWriter { appender, kind, tag, block_bytes, blocks: 0 })
    }

    /// Returns the number of the next block.
    pub fn next_block(&self) -> u64 {
        self.blocks
    }

    /// Appends a sealed block.
    pub fn append_block(&mut self, block: &[u8]) -> Result<()> {
        self.blocks += 1;
        Ok(self.appender.append(block)?)
    }

    /// Writes the blocks so far, so that they can be read through another handle. Their end is a multiple of the
    /// file's alignment.
    pub fn write_buffered(&mut self) -> Result<()> {
        Ok(self.appender.write_buffered()?)
    }

    /// Returns the number of blocks that can be read already.
    pub fn readable_blocks(&self) -> u64 {
        // The header takes a block.
        (self.appender.readable_bytes() / u64::from(self.block_bytes)).saturating_sub(1)
    }

    /// Returns the file as if it ended with some of the [`readable_blocks`](Self::readable_blocks), with this many
    /// records and deletes, and without index and filter.
    pub fn readable_part(&self, blocks: u64, records: u64, deleted: u64) -> StoreFile {
        let footer = StoreFooter { blocks, ..self.footer(records, deleted) };
        let length = (blocks + 1) * u64::from(self.block_bytes);
        StoreFile { file: self.appender.file().clone(), footer, length }
    }

    /// Returns the memory held, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.appender.heap_bytes()
    }

    fn footer(&self, records: u64, deleted: u64) -> StoreFooter {
        StoreFooter {
            kind: self.kind,
            tag: self.tag,
            block_bytes: self.block_bytes,
            blocks: self.blocks,
            records,
            deleted,
            index: Section::default(),
            filter: Section::default(),
        }
    }

    /// Saves index and filter, each a kind and its bytes, and writes the footer. Does not sync.
    pub fn finish(
        self,
        records: u64,
        deleted: u64,
        index: (u8, &[u8]),
        filter: (u8, &[u8]),
    ) -> Result<StoreFile> {
        finish(self.footer(records, deleted), self.appender, index, filter)
    }

    /// Ends a temporary file that only this process reads: writes no index and no footer, and does not sync.
    pub fn finish_temporary(self, records: u64, deleted: u64) -> Result<StoreFile> {
        let footer = self.footer(records, deleted);
        let (file, length) = self.appender.finish()?;
        Ok(StoreFile { file, footer, length })
    }
}

fn append_section(appender: &mut Appender, kind: u8, bytes: &[u8]) -> Result<Section> {
    if kind == 0 {
        return Ok(Section::default());
    }
    let section = Section {
        kind,
        offset: appender.position(),
        length: bytes.len() as u64,
        crc: checksum::crc32c(bytes),
    };
    appender.append(bytes)?;
    Ok(section)
}

/// Appends the sections and the footer.
fn finish(
    footer: StoreFooter,
    mut appender: Appender,
    index: (u8, &[u8]),
    filter: (u8, &[u8]),
) -> Result<StoreFile> {
    let index = append_section(&mut appender, index.0, index.1)?;
    let filter = append_section(&mut appender, filter.0, filter.1)?;
    let footer = StoreFooter { index, filter, ..footer };
    let end = (appender.position() + 2 * FOOTER_BYTES as u64).next_multiple_of(FILE_ALIGNMENT);
    let padding = end - 2 * FOOTER_BYTES as u64 - appender.position();
    appender.append(&vec![0; padding as usize])?;
    // At the end of the file: one that was cut off has no footer there, and is refused.
    appender.append(&footer.encode().repeat(2))?;
    let (file, length) = appender.finish()?;
    Ok(StoreFile { file, footer, length })
}

/// An immutable store file, open for reading.
pub struct StoreFile {
    file: Arc<File>,
    footer: StoreFooter,
    length: u64,
}

impl StoreFile {
    /// Opens a file and checks its tag.
    pub fn open(directory: &Directory, name: &str, tag: u64) -> Result<StoreFile> {
        let file = directory.open(name, directory.access())?;
        let length = file.length()?;
        StoreFile::open_until(file, tag, length)
    }

    /// Like [`open`](StoreFile::open), for a file whose footer ends at the position `end`, with any bytes after it.
    pub fn open_until(file: File, tag: u64, end: u64) -> Result<StoreFile> {
        let length = end;
        let mut buffer = AlignedBuffer::default();
        if length < (HEADER_BYTES + FOOTER_BYTES) as u64 {
            let got = format!("{length} bytes");
            return Err(file.corrupt(0, format!("a store file of {FILE_ALIGNMENT} bytes or more"), got));
        }
        let at = length - FOOTER_BYTES as u64;
        let footer =
            StoreFooter::decode(&file, at, file.read(Purpose::Recover, at, FOOTER_BYTES, &mut buffer)?)?;
        let header = file.read(Purpose::Recover, 0, HEADER_BYTES, &mut buffer)?;
        if footer.tag != tag {
            return Err(file.corrupt(at, expected_tag(tag), found_tag(footer.tag)));
        }
        if header != encode_header(footer.kind, tag, footer.block_bytes) {
            return Err(file.corrupt(0, "a header that agrees with the footer", "other bytes"));
        }
        StoreFile::with_footer(file, footer, length)
    }

    /// Returns the file with a footer found elsewhere. Returns an error if the blocks exceed the file.
    pub(super) fn with_footer(file: File, footer: StoreFooter, length: u64) -> Result<StoreFile> {
        let blocks_end =
            footer.blocks.checked_add(1).and_then(|all| all.checked_mul(footer.block_bytes.into()));
        if !is_block_size(footer.block_bytes) || blocks_end.is_none_or(|end| end > length) {
            let got = format!("{} blocks of {} bytes", footer.blocks, footer.block_bytes);
            return Err(file.corrupt(length, format!("blocks that fit into {length} bytes"), got));
        }
        // Indexes are sized by the footer's number of records, which must not exceed the number of bytes.
        if footer.records > length || footer.deleted > footer.records {
            let got = format!("{} records, {} of them tombstones", footer.records, footer.deleted);
            return Err(file.corrupt(length, format!("records that fit into {length} bytes"), got));
        }
        Ok(StoreFile { file: file.into(), footer, length })
    }

    /// Appends another index, a kind and its bytes, and a footer that refers to it and to no filter. The bytes before
    /// are unchanged, so the old file can still be opened up to its end; anything after that end is truncated first.
    /// Synced. The file must be open for writing.
    pub fn append_index(self, purpose: Purpose, piece_bytes: usize, index: (u8, &[u8])) -> Result<StoreFile> {
        let end = self.length.next_multiple_of(FILE_ALIGNMENT);
        // A longer rest of an earlier attempt would hide the new footer, which is read at the end of the file.
        self.file.truncate(end)?;
        let appender = Appender::starting_at(self.file, purpose, piece_bytes, end);
        let file = finish(self.footer, appender, index, (0, &[]))?;
        file.sync(purpose)?;
        Ok(file)
    }

    /// Returns the footer.
    pub fn footer(&self) -> &StoreFooter {
        &self.footer
    }

    /// Returns the file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Syncs the file. It survives a power failure once its directory is synced too.
    pub fn sync(&self, purpose: Purpose) -> Result<()> {
        Ok(self.file.sync(purpose)?)
    }

    /// Returns an error if the copy of the footer differs.
    pub fn check_copy(&self, purpose: Purpose) -> Result<()> {
        let at = self.length.saturating_sub(2 * FOOTER_BYTES as u64);
        let mut buffer = AlignedBuffer::default();
        if self.file.read(purpose, at, FOOTER_BYTES, &mut buffer)? == self.footer.encode() {
            return Ok(());
        }
        Err(self.file.corrupt(at, "a copy of the store's footer", "other bytes"))
    }

    /// Returns the length, in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns the offset of a section in the file, in bytes.
    pub fn section_offset(section: &Section) -> u64 {
        section.offset
    }

    /// Returns an error if a section is not within the file, or longer than records and blocks account for. Before
    /// any of it is read: the length may be damaged.
    pub(super) fn check_section(&self, section: &Section) -> Result<()> {
        let end = section.offset.checked_add(section.length);
        if end.is_none_or(|end| end > self.length) {
            let got = format!("{} bytes at offset {}", section.length, section.offset);
            return Err(self.file.corrupt(self.length, "sections within the file", got));
        }
        let StoreFooter { records, blocks, .. } = self.footer;
        let block_bytes = blocks.saturating_mul(self.footer.block_bytes.into());
        let most = SECTION_BYTES
            .saturating_add(records.saturating_mul(SECTION_BYTES_PER_RECORD))
            .saturating_add(block_bytes.saturating_mul(SECTION_BYTES_PER_BLOCK_BYTE));
        if section.length > most {
            let got = format!("a section of {} bytes", section.length);
            let expected =
                format!("a section of at most {most} bytes for {records} records in {blocks} blocks");
            return Err(self.file.corrupt(section.offset, expected, got));
        }
        Ok(())
    }

    /// Reads and verifies a saved index or filter.
    pub fn read_section(&self, section: &Section, purpose: Purpose) -> Result<Vec<u8>> {
        self.check_section(section)?;
        if section.length > SECTION_BYTES_READ_ONCE {
            self.go_over(section, purpose, &mut |_| ())?;
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(section.length as usize).map_err(|_| {
            let problem = std::io::Error::from(std::io::ErrorKind::OutOfMemory);
            Error::io("allocate memory for a section of", self.file.path())(problem)
        })?;
        self.go_over(section, purpose, &mut |piece| bytes.extend_from_slice(piece))?;
        Ok(bytes)
    }

    /// Reads and verifies a section piece by piece. Returns an error if its checksum is wrong.
    fn go_over(&self, section: &Section, purpose: Purpose, take: &mut dyn FnMut(&[u8])) -> Result<()> {
        let mut buffer = AlignedBuffer::default();
        let (mut done, mut crc) = (0, 0);
        while done < section.length {
            let now = (section.length - done).min(256 << 10);
            let piece = self.file.read(purpose, section.offset + done, now as usize, &mut buffer)?;
            crc = checksum::crc32c_append(crc, piece);
            take(piece);
            done += now;
        }
        if crc != section.crc {
            return Err(self.file.corrupt(
                section.offset,
                "a section with a correct checksum",
                "other bytes",
            ));
        }
        Ok(())
    }

    /// Returns the position of some blocks in the file: offset and length in bytes.
    pub fn extent_of(&self, blocks: &Range<u64>) -> (u64, usize) {
        let block_bytes = u64::from(self.footer.block_bytes);
        // An index may locate blocks that do not exist. They are left out, and no product overflows.
        let blocks = blocks.start.min(self.footer.blocks)..blocks.end.min(self.footer.blocks);
        let count = blocks.end.saturating_sub(blocks.start);
        ((blocks.start + 1) * block_bytes, (count * block_bytes) as usize)
    }

    /// Reads some blocks without verification, in one read.
    pub fn read_blocks<'a>(
        &self,
        purpose: Purpose,
        blocks: Range<u64>,
        buffer: &'a mut AlignedBuffer,
    ) -> Result<&'a [u8]> {
        let (offset, length) = self.extent_of(&blocks);
        if length == 0 {
            return Ok(&[]);
        }
        Ok(self.file.read(purpose, offset, length, buffer)?)
    }

    /// Passes the bytes of blocks from `first` on to `take`, with the number of the first of them: at least a piece and
    /// `needed` bytes, or all that are left. Returns the number of the next block.
    pub(super) fn read_blocks_ahead(
        &self,
        reader: &mut ReadAhead,
        first: u64,
        needed: usize,
        mut take: impl FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<u64> {
        let block_bytes = u64::from(self.footer.block_bytes);
        let (start, length) = self.extent_of(&(first..self.footer.blocks));
        let number = |offset: u64| offset / block_bytes - 1;
        let take = |offset, bytes: &[u8]| take(number(offset), bytes);
        Ok(number(reader.read(&self.file, start..start + length as u64, needed, take)?))
    }
}

impl StoreFile {
    /// Reads some bytes, at a position as returned by [`extent_of`](StoreFile::extent_of), and returns their range in
    /// `buffer`: a read is extended to the file's alignment.
    pub fn read_extent(
        &self,
        purpose: Purpose,
        (offset, length): (u64, usize),
        buffer: &mut AlignedBuffer,
    ) -> Result<Range<usize>> {
        if length == 0 {
            return Ok(0..0);
        }
        let bytes = self.file.read(purpose, offset, length, buffer)?;
        let (address, length) = (bytes.as_ptr().addr(), bytes.len());
        let start = address - buffer.as_ptr().addr();
        Ok(start..start + length)
    }
}

#[cfg(test)]
pub(crate) mod tests;
