//! The header of a database: the first 64 bytes of its manifest and of the mirror. It is the same for all engines and
//! says which engine the database belongs to. docs/formats/manifest.md draws it.

use super::owner::owner_of_files;
use crate::compression::Compression;
use crate::error::{CorruptFile, Error, Result};
use crate::key::{KEY_LENGTH_MAX, KeyHasher, PartitionHasher, RecordLayout, VALUE_LENGTH_MAX};
use crate::names::{MANIFEST_NAME, MIRROR_NAME};
use crate::stats::Shape;
use crate::store::block::is_block_size;
use crate::store::log_format::LogFormat;
use crate::store::record::RecordShape;
use siltstone_device::{Access, AlignedBuffer, Directory, File, Purpose};
use siltstone_index::coding::Reader;
use siltstone_index::coding::checksum::{self, Secret};

/// The version of the format; it is that of the whole database.
pub const FORMAT_VERSION: u32 = 1;
/// The length of the header, in bytes.
pub const HEADER_BYTES: usize = 64;
/// The maximum base-2 logarithm of the number of partitions.
const PARTITIONS_LOG2_MAX: u32 = 10;

const MAGIC: &[u8; 8] = b"SILTMANI";

const FLAG_FIXED: u8 = 1;
const FLAG_HASHED_KEYS: u8 = 2;
const FLAG_EXPIRING: u8 = 4;

/// The properties of a database that are fixed when it is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The number of the engine.
    pub engine: u8,
    /// The layout of the records.
    pub layout: RecordLayout,
    /// How keys are hashed.
    pub hasher: KeyHasher,
    /// The base-2 logarithm of the number of partitions.
    pub partitions_log2: u32,
    /// The size of a block, in bytes.
    pub block_bytes: u32,
    /// How values are compressed. Engines see only compressed values.
    pub compression: Compression,
    /// Distinguishes the log of the database from those of other databases.
    pub database_id: u64,
    /// Distinguishes the frames of the log from equal bytes that were stored as values.
    pub secret: Secret,
}

impl Header {
    /// Reads the header of the database in a directory: from the manifest or, if that is missing, damaged or of another
    /// database than the other files, from its mirror. Returns `None` if there is neither.
    ///
    /// # Errors
    /// [`Error::Version`] for a version that this program does not read, and [`Error::Corrupt`] if both are damaged.
    pub fn read(directory: &Directory) -> Result<Option<Header>> {
        let names = directory.list()?;
        let read = |name: &str| -> Option<Result<Header>> {
            let is_there = names.iter().any(|found| found == name);
            is_there.then(|| Header::read_file(&directory.open(name, Access::Buffered)?))
        };
        match (read(MANIFEST_NAME), read(MIRROR_NAME)) {
            (Some(Ok(header)), Some(Ok(mirror))) if header.database_id != mirror.database_id => {
                // A restore may have put one of the two into the wrong directory, so the log decides.
                let owner = owner_of_files(directory, [header.database_id, mirror.database_id])?;
                Ok(Some(if owner == Some(mirror.database_id) { mirror } else { header }))
            }
            // One is enough: both have the same header, each with its checksum.
            (Some(Ok(header)), _) | (_, Some(Ok(header))) => Ok(Some(header)),
            (Some(Err(error)), _) | (None, Some(Err(error))) => Err(error),
            (None, None) => Ok(None),
        }
    }

    /// Reads the header at the start of a file.
    pub fn read_file(file: &File) -> Result<Header> {
        let mut buffer = AlignedBuffer::default();
        let length = file.length()?.min(HEADER_BYTES as u64);
        Header::parse(file, file.read(Purpose::Recover, 0, length as usize, &mut buffer)?)
    }

    /// Parses the header at the start of `bytes`, which were read from `file`.
    pub(super) fn parse(file: &File, bytes: &[u8]) -> Result<Header> {
        match bytes.get(..HEADER_BYTES).and_then(Header::decode) {
            Some((FORMAT_VERSION, Some(header))) => Ok(header),
            // The version first: of another one, the rest may be anything.
            Some((found, _)) if found != FORMAT_VERSION => {
                Err(Error::Version { file: file.path().to_owned(), found, supported: FORMAT_VERSION })
            }
            _ => Err(file.corrupt(0, "the header of a manifest", "other bytes")),
        }
    }

    /// Encodes the header.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let (key_length, value_length) = self.layout.fixed.unwrap_or_default();
        let (hashed_keys, seed) = match self.hasher {
            // A hash of 64 bits is in no file.
            KeyHasher::Keyed(seed) | KeyHasher::Keyed64(seed) => (0, seed),
            KeyHasher::Identity => (FLAG_HASHED_KEYS, [0; 2]),
        };
        let fixed = if self.layout.fixed.is_some() { FLAG_FIXED } else { 0 };
        let expiring = if self.layout.expiring { FLAG_EXPIRING } else { 0 };
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[12] = hashed_keys | fixed | expiring;
        bytes[13] = self.partitions_log2 as u8;
        bytes[14] = self.engine;
        bytes[15] = self.compression.number();
        bytes[16..20].copy_from_slice(&self.block_bytes.to_le_bytes());
        bytes[20..24].copy_from_slice(&(key_length as u32).to_le_bytes());
        bytes[24..28].copy_from_slice(&(value_length as u32).to_le_bytes());
        bytes[28..36].copy_from_slice(&self.database_id.to_le_bytes());
        bytes[36..44].copy_from_slice(&seed[0].to_le_bytes());
        bytes[44..52].copy_from_slice(&seed[1].to_le_bytes());
        bytes[52..60].copy_from_slice(&self.secret.number().to_le_bytes());
        let crc = checksum::crc32c(&bytes[..HEADER_BYTES - 4]);
        bytes[HEADER_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes a header: the version and, if the rest is valid, the header.
    pub fn decode(bytes: &[u8]) -> Option<(u32, Option<Header>)> {
        let mut fields = Reader::new(bytes);
        if fields.bytes(8)? != MAGIC {
            return None;
        }
        let version = fields.u32()?;
        let (flags, partitions_log2) = (fields.u8()?, u32::from(fields.u8()?));
        let engine = fields.u8()?;
        let compression = Compression::from_number(fields.u8()?);
        let block_bytes = fields.u32()?;
        let (key_length, value_length) = (fields.u32()? as usize, fields.u32()? as usize);
        let database_id = fields.u64()?;
        let seed = [fields.u64()?, fields.u64()?];
        let secret = Secret::new(fields.u64()?);
        let header = Header {
            engine,
            layout: RecordLayout {
                fixed: (flags & FLAG_FIXED != 0).then_some((key_length, value_length)),
                expiring: flags & FLAG_EXPIRING != 0,
            },
            hasher: if flags & FLAG_HASHED_KEYS != 0 { KeyHasher::Identity } else { KeyHasher::Keyed(seed) },
            partitions_log2,
            block_bytes,
            // An unknown number becomes another one, and the comparison below refuses the header.
            compression: compression.unwrap_or_default(),
            database_id,
            secret,
        };
        // Equal to its own encoding, so the checksum is right, and no unknown flag is set.
        Some((version, (bytes == header.encode() && header.is_possible()).then_some(header)))
    }

    /// Returns the shape of the database, for its statistics.
    pub fn shape(&self) -> Shape {
        Shape {
            fixed: self.layout.fixed,
            hashed_keys: self.hasher == KeyHasher::Identity,
            expiring: self.layout.expiring,
            partitions: 1 << self.partitions_log2,
            block_bytes: self.block_bytes,
            compression: self.compression,
            format_version: FORMAT_VERSION,
        }
    }

    /// Returns what the bytes of the log depend on.
    pub fn log_format(&self) -> LogFormat {
        LogFormat::new(self.layout, self.database_id, self.secret)
    }

    /// Returns the shape of the records of all stores.
    pub fn records(&self) -> RecordShape {
        let hasher = PartitionHasher { key_hasher: self.hasher, partitions_log2: self.partitions_log2 };
        RecordShape { layout: self.layout, hasher }
    }

    fn is_possible(&self) -> bool {
        let lengths = self.layout.fixed.is_none_or(|(key_length, value_length)| {
            (1..=KEY_LENGTH_MAX).contains(&key_length) && value_length <= VALUE_LENGTH_MAX
        });
        let block = is_block_size(self.block_bytes);
        let is_coded = self.compression != Compression::None;
        let compressed = !is_coded || self.layout.fixed.is_none() && self.compression.is_possible();
        // What follows divides by the size of a block, shifts by this, and allocates by the lengths.
        lengths && block && compressed && self.partitions_log2 <= PARTITIONS_LOG2_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = Header {
        engine: 3,
        layout: RecordLayout { fixed: Some((20, 44)), expiring: true },
        hasher: KeyHasher::Keyed([1, 2]),
        partitions_log2: 4,
        block_bytes: 4096,
        compression: Compression::None,
        database_id: 99,
        secret: Secret::new(98),
    };

    #[test]
    fn a_header_is_decoded_unless_it_is_damaged() {
        let mut bytes = HEADER.encode();
        assert_eq!(Header::decode(&bytes), Some((FORMAT_VERSION, Some(HEADER))));
        bytes[13] ^= 1;
        assert_eq!(Header::decode(&bytes), Some((FORMAT_VERSION, None)));
        assert_eq!(Header::decode(&[0; HEADER_BYTES]), None);
    }

    #[test]
    fn a_header_with_impossible_properties_is_refused_although_it_is_intact() {
        let fixed = |fixed| Header { layout: RecordLayout { fixed: Some(fixed), expiring: false }, ..HEADER };
        let is_possible = |header: Header| Header::decode(&header.encode()).unwrap().1 == Some(header);
        for lengths in [(1, 0), (KEY_LENGTH_MAX, VALUE_LENGTH_MAX)] {
            assert!(is_possible(fixed(lengths)), "{lengths:?}");
        }
        for lengths in [(0, 44), (KEY_LENGTH_MAX + 1, 44), (20, VALUE_LENGTH_MAX + 1)] {
            assert!(!is_possible(fixed(lengths)), "{lengths:?}");
        }
        for (partitions_log2, expected) in
            [(0, true), (PARTITIONS_LOG2_MAX, true), (PARTITIONS_LOG2_MAX + 1, false)]
        {
            assert_eq!(is_possible(Header { partitions_log2, ..HEADER }), expected);
        }
        assert!(
            !is_possible(Header { block_bytes: 0, ..HEADER })
                && !is_possible(Header { block_bytes: 4097, ..HEADER })
        );
    }

    #[test]
    fn the_shape_of_a_database_is_that_of_its_header() {
        let shape = |header: &Header| {
            let Shape { fixed, hashed_keys, expiring, partitions, block_bytes, .. } = header.shape();
            (fixed, hashed_keys, expiring, partitions, block_bytes)
        };
        assert_eq!(shape(&HEADER), (Some((20, 44)), false, true, 16, 4096));
        let hashed = Header { hasher: KeyHasher::Identity, partitions_log2: 0, ..HEADER };
        assert_eq!(shape(&hashed), (Some((20, 44)), true, true, 1, 4096));
    }

    #[test]
    fn only_values_of_any_length_are_compressed() {
        let layout = RecordLayout { fixed: None, expiring: true };
        let header = Header { layout, compression: Compression::Zstd { level: 3 }, ..HEADER };
        assert_eq!(Header::decode(&header.encode()), Some((FORMAT_VERSION, Some(header))));
        let compression = Compression::Zstd { level: 99 };
        for header in [Header { layout: HEADER.layout, ..header }, Header { compression, ..header }] {
            assert_eq!(Header::decode(&header.encode()), Some((FORMAT_VERSION, None)));
        }
    }

    #[test]
    fn a_header_is_read_from_the_mirror_if_the_manifest_is_damaged_or_missing() {
        let directory =
            Directory::new(siltstone_device::memory::MemoryDirectory::default(), Access::Buffered);
        assert_eq!(Header::read(&directory).unwrap(), None);
        let write = |name: &str, bytes: &[u8]| {
            let file = directory.create(name, Access::Buffered).unwrap();
            file.write(Purpose::Manifest, 0, bytes).unwrap();
        };
        let mut damaged = HEADER.encode();
        damaged[30] ^= 1;
        write(MANIFEST_NAME, &damaged);
        assert!(matches!(Header::read(&directory), Err(Error::Corrupt { .. })));
        write(MIRROR_NAME, &HEADER.encode());
        assert_eq!(Header::read(&directory).unwrap(), Some(HEADER));
        directory.remove(MANIFEST_NAME).unwrap();
        assert_eq!(Header::read(&directory).unwrap(), Some(HEADER));
        directory.remove(MIRROR_NAME).unwrap();
        let mut newer = HEADER.encode();
        newer[8] = 2;
        write(MANIFEST_NAME, &newer);
        write(MIRROR_NAME, &newer);
        assert!(matches!(Header::read(&directory), Err(Error::Version { found: 2, .. })));
    }
}
