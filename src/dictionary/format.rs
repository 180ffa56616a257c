//! The header of a dictionary, in the header block of its store file; `docs/formats/dictionary.md` has the diagram.

use crate::error::{CorruptFile, Error, Result};
use crate::key::{KeyHasher, PartitionHasher, RecordLayout, check_key_length, check_value_length};
use crate::store::file::StoreFile;
use crate::store::record::RecordShape;
use siltstone_device::{AlignedBuffer, File, Purpose};
use siltstone_index::coding::Reader;
use siltstone_index::coding::checksum;

const MAGIC: &[u8; 8] = b"SILTDICT";
/// The version that is written, and the only one that is read.
pub const DICTIONARY_VERSION: u32 = 1;
/// The minimum length of the header block of a store file, in bytes.
const HEADER_BLOCK_BYTES: usize = 512;
/// The store's own header, at the beginning of the block.
const STORE_HEADER_BYTES: usize = 32;
/// The offset of the checksum, in bytes: after everything that it covers.
const CHECKSUM_AT: usize = 104;

const HASHER_KEYED: u8 = 0;
const HASHER_IDENTITY: u8 = 1;

/// The header of a dictionary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub shape: RecordShape,
    /// The random tag of the store: blocks of another dictionary are not mistaken for blocks of this one.
    pub tag: u64,
    /// The length of the file as it was built, in bytes. A later index follows.
    pub first_end: u64,
    /// The bytes of all keys.
    pub key_bytes: u64,
    /// The bytes of all values.
    pub value_bytes: u64,
}

/// Returns the error for a file that was never a dictionary.
fn no_dictionary(file: &File, found: String) -> Error {
    Error::NotADictionary { path: file.path().to_owned(), found }
}

impl Header {
    /// Returns the shape of a dictionary's records, which have no expiry time and are in one partition.
    pub fn shape_of(fixed: Option<(usize, usize)>, hasher: KeyHasher) -> RecordShape {
        RecordShape {
            layout: RecordLayout { fixed, expiring: false },
            hasher: PartitionHasher { key_hasher: hasher, partitions_log2: 0 },
        }
    }

    /// Writes the header to the header block, after that of the store, which the checksum covers as well.
    fn encode_into(&self, block: &mut [u8; HEADER_BLOCK_BYTES]) {
        let (hasher, [seed0, seed1]) = match self.shape.hasher.key_hasher {
            // A hash of 64 bits is in no file.
            KeyHasher::Keyed(seed) | KeyHasher::Keyed64(seed) => (HASHER_KEYED, seed),
            KeyHasher::Identity => (HASHER_IDENTITY, [0; 2]),
        };
        let fixed = self.shape.layout.fixed;
        let (key_length, value_length) = fixed.unwrap_or_default();
        let mut fields = Vec::with_capacity(CHECKSUM_AT - STORE_HEADER_BYTES);
        fields.extend_from_slice(MAGIC);
        fields.extend_from_slice(&DICTIONARY_VERSION.to_le_bytes());
        fields.extend_from_slice(&[hasher, u8::from(fixed.is_some()), 0, 0]);
        fields.extend_from_slice(&(key_length as u32).to_le_bytes());
        fields.extend_from_slice(&(value_length as u32).to_le_bytes());
        for field in [seed0, seed1, self.tag, self.first_end, self.key_bytes, self.value_bytes] {
            fields.extend_from_slice(&field.to_le_bytes());
        }
        block[STORE_HEADER_BYTES..CHECKSUM_AT].copy_from_slice(&fields);
        let crc = checksum::crc32c(&block[..CHECKSUM_AT]);
        block[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&crc.to_le_bytes());
    }

    /// Writes the header of a file whose store is complete, which makes it a dictionary. Does not sync.
    pub fn write(&self, file: &File) -> Result<()> {
        // With direct I/O only whole units can be written, so the rest of the unit is written back as it was.
        let bytes = HEADER_BLOCK_BYTES.next_multiple_of(file.alignment());
        let mut buffer = AlignedBuffer::default();
        file.read(Purpose::Maintain, 0, bytes, &mut buffer)?;
        if let Some(block) = buffer.first_chunk_mut() {
            self.encode_into(block);
        }
        Ok(file.write(Purpose::Maintain, 0, &buffer)?)
    }

    /// Reads the header of a dictionary.
    pub fn read(file: &File) -> Result<Header> {
        let length = file.length()?;
        // Before the read, which fails for a shorter file: that is another file, and no damaged dictionary.
        if length < HEADER_BLOCK_BYTES as u64 {
            return Err(no_dictionary(file, format!("it has {length} bytes")));
        }
        let mut buffer = AlignedBuffer::default();
        let block = file.read(Purpose::Recover, 0, HEADER_BLOCK_BYTES, &mut buffer)?;
        Header::decode(file, block)
    }

    /// Checks that the records counted in header and footer fit in the blocks, so memory can be allocated by these
    /// counts.
    pub fn check_against(&self, file: &StoreFile) -> Result<()> {
        let footer = file.footer();
        // Saturating: these numbers are not trusted, and a product that wraps around could be small.
        let all_bytes = footer.blocks.saturating_mul(footer.block_bytes.into());
        let record_bytes = self.key_bytes.saturating_add(self.value_bytes);
        if footer.records > all_bytes || record_bytes > all_bytes || footer.deleted > 0 {
            let got =
                format!("{} records of {record_bytes} bytes, {} tombstones", footer.records, footer.deleted);
            let expected = format!("records that fit into {all_bytes} bytes, and no tombstones");
            return Err(file.file().corrupt(file.length(), expected, got));
        }
        Ok(())
    }

    fn decode(file: &File, block: &[u8]) -> Result<Header> {
        let at = STORE_HEADER_BYTES as u64;
        let short = || file.corrupt(at, "the header of a dictionary", "too few bytes");
        let (covered, rest) = block.split_at_checked(CHECKSUM_AT).ok_or_else(short)?;
        let crc = rest.first_chunk().ok_or_else(short)?;
        let mut fields = Reader::new(covered.get(STORE_HEADER_BYTES..).ok_or_else(short)?);
        // Before the checksum: a file of another kind is not a damaged dictionary.
        if fields.bytes(MAGIC.len()) != Some(MAGIC) {
            return Err(no_dictionary(file, "the header has another magic number".into()));
        }
        let found = fields.u32().ok_or_else(short)?;
        // Before the checksum, too: another version may have it at another place.
        if found != DICTIONARY_VERSION {
            let file = file.path().to_owned();
            return Err(Error::Version { file, found, supported: DICTIONARY_VERSION });
        }
        let (stated, computed) = (u32::from_le_bytes(*crc), checksum::crc32c(covered));
        if stated != computed {
            let expected = format!("the header of a dictionary with checksum {stated:#010x}");
            return Err(file.corrupt(at, expected, format!("{computed:#010x}")));
        }
        let header = Header::parse(&mut fields);
        header.ok_or_else(|| {
            file.corrupt(at + 12, "valid fields in the header of a dictionary", "impossible values")
        })
    }

    /// Parses the fields after the version; `None` if they are invalid.
    fn parse(fields: &mut Reader<'_>) -> Option<Header> {
        let (hasher, fixed) = (fields.u8()?, fields.u8()?);
        // Reserved. The checksum covers them, and this version ignores them.
        fields.bytes(2)?;
        let lengths = (fields.u32()? as usize, fields.u32()? as usize);
        let seed = [fields.u64()?, fields.u64()?];
        let hasher = match hasher {
            HASHER_KEYED => KeyHasher::Keyed(seed),
            HASHER_IDENTITY => KeyHasher::Identity,
            _ => return None,
        };
        let fixed = match fixed {
            0 => None,
            1 => Some(lengths),
            _ => return None,
        };
        // The checksum shows damage, not bad intent: impossible lengths must not reach the code that uses them.
        if let Some((key_length, value_length)) = fixed {
            check_key_length(key_length).and(check_value_length(value_length)).ok()?;
        }
        Some(Header {
            shape: Header::shape_of(fixed, hasher),
            tag: fields.u64()?,
            first_end: fields.u64()?,
            key_bytes: fields.u64()?,
            value_bytes: fields.u64()?,
        })
    }
}
