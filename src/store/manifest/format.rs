//! The bytes of the manifest: a header with the shape of the database, then commits of some edits, each commit with a
//! checksum.
//! docs/formats/manifest.md draws them.

use crate::coding::Reader;
use crate::coding::checksum::{self, Secret};
use crate::key::{KeyHasher, Placing};
use crate::store::log::format::LogFormat;
use crate::store::record::{RecordLayout, RecordShape};

/// The version of the format; that of the whole database.
pub const MANIFEST_VERSION: u32 = 1;
/// The bytes of the header.
pub const MANIFEST_HEADER_BYTES: usize = 64;
/// The bytes before a commit's body: its checksum and its length.
pub const COMMIT_HEADER_BYTES: usize = 8;

const MAGIC: &[u8; 8] = b"SILTMANI";

/// What is fixed when a database is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// The shape of the records.
    pub layout: RecordLayout,
    /// How keys are hashed.
    pub hasher: KeyHasher,
    /// The base-2 logarithm of the number of partitions.
    pub partitions_log2: u32,
    /// The size of a block, in bytes.
    pub block_bytes: u32,
    /// Tells the database's log from those of others.
    pub database_id: u64,
    /// Tells the frames of the log from bytes that were stored as values.
    pub secret: Secret,
}

const FLAG_FIXED: u8 = 1;
const FLAG_HASHED_KEYS: u8 = 2;
const FLAG_EXPIRING: u8 = 4;

impl Shape {
    /// The header's bytes.
    pub fn encode(&self) -> [u8; MANIFEST_HEADER_BYTES] {
        let mut header = [0; MANIFEST_HEADER_BYTES];
        let (key_length, value_length) = self.layout.fixed.unwrap_or_default();
        let (flag, seed) = match self.hasher {
            KeyHasher::Keyed(seed) => (0, seed),
            KeyHasher::Identity => (FLAG_HASHED_KEYS, [0; 2]),
        };
        let fixed = if self.layout.fixed.is_some() { FLAG_FIXED } else { 0 };
        let expiring = if self.layout.expiring { FLAG_EXPIRING } else { 0 };
        header[..8].copy_from_slice(MAGIC);
        header[8..12].copy_from_slice(&MANIFEST_VERSION.to_le_bytes());
        header[12] = flag | fixed | expiring;
        header[13] = self.partitions_log2 as u8;
        header[16..20].copy_from_slice(&self.block_bytes.to_le_bytes());
        header[20..24].copy_from_slice(&(key_length as u32).to_le_bytes());
        header[24..28].copy_from_slice(&(value_length as u32).to_le_bytes());
        header[28..36].copy_from_slice(&self.database_id.to_le_bytes());
        header[36..44].copy_from_slice(&seed[0].to_le_bytes());
        header[44..52].copy_from_slice(&seed[1].to_le_bytes());
        header[52..60].copy_from_slice(&self.secret.number().to_le_bytes());
        let crc = checksum::crc32c(&header[..MANIFEST_HEADER_BYTES - 4]);
        header[MANIFEST_HEADER_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        header
    }

    /// Reads a header back: the version found and, if the rest is sound, the shape.
    pub fn decode(bytes: &[u8]) -> Option<(u32, Option<Shape>)> {
        let mut fields = Reader::new(bytes);
        if fields.bytes(8)? != MAGIC {
            return None;
        }
        let version = fields.u32()?;
        let (flags, partitions_log2) = (fields.u8()?, u32::from(fields.u8()?));
        fields.u16()?;
        let block_bytes = fields.u32()?;
        let (key_length, value_length) = (fields.u32()? as usize, fields.u32()? as usize);
        let database_id = fields.u64()?;
        let seed = [fields.u64()?, fields.u64()?];
        let secret = Secret::new(fields.u64()?);
        let shape = Shape {
            layout: RecordLayout {
                fixed: (flags & FLAG_FIXED != 0).then_some((key_length, value_length)),
                expiring: flags & FLAG_EXPIRING != 0,
            },
            hasher: if flags & FLAG_HASHED_KEYS != 0 { KeyHasher::Identity } else { KeyHasher::Keyed(seed) },
            partitions_log2,
            block_bytes,
            database_id,
            secret,
        };
        Some((version, (bytes == shape.encode() && shape.is_possible()).then_some(shape)))
    }

    /// The shape of the records of all stores.
    pub fn records(&self) -> RecordShape {
        let placing = Placing { hasher: self.hasher, partitions_log2: self.partitions_log2 };
        RecordShape { layout: self.layout, placing }
    }

    /// What the bytes of the log depend on.
    pub fn log_format(&self) -> LogFormat {
        LogFormat { layout: self.layout, database_id: self.database_id, secret: self.secret }
    }

    fn is_possible(&self) -> bool {
        let lengths = self.layout.fixed.is_none_or(|(key_length, value_length)| {
            (1..=crate::key::KEY_LENGTH_MAX).contains(&key_length)
                && value_length <= crate::key::VALUE_LENGTH_MAX
        });
        let block = self.block_bytes.is_power_of_two() && (512..=65_536).contains(&self.block_bytes);
        lengths && block && self.partitions_log2 <= 10
    }
}

/// The part that a store plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Role {
    /// A HashStore in the form of a cuckoo table.
    CuckooTable = 1,
    /// A HashStore in hash order.
    HashOrdered = 2,
    /// The SortedStore.
    Sorted = 3,
}

/// A store that is live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreEntry {
    /// Its number, of which its name is made.
    pub number: u64,
    /// Its tag, drawn at random, which the file has too: a file of another database, or of a copy of this one that
    /// was written to, is not taken for it, though it has the same name.
    pub tag: u64,
    /// Its part.
    pub role: Role,
}

/// One change of the state of a partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edit {
    /// The partition.
    pub partition: u32,
    /// All records of the partition before this position of the log stand in stores.
    pub converted_to: u64,
    /// Stores that are no more.
    pub removed: Vec<u64>,
    /// Stores that are new: the youngest.
    pub added: Vec<StoreEntry>,
}

/// Appends some edits as one commit, atomic: all of them have one checksum, for the sectors of one write may survive a
/// loss of power in any order. `sequence` is its place among all commits; the log was synced up to `log_synced`.
pub fn encode_commit(sequence: u64, log_synced: u64, edits: &[Edit], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; COMMIT_HEADER_BYTES]);
    out.extend_from_slice(&sequence.to_le_bytes());
    out.extend_from_slice(&log_synced.to_le_bytes());
    out.extend_from_slice(&(edits.len() as u32).to_le_bytes());
    edits.iter().for_each(|edit| edit.encode(out));
    let length = (out.len() - start - COMMIT_HEADER_BYTES) as u32;
    out[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
    let crc = checksum::crc32c(&out[start + 4..]);
    out[start..start + 4].copy_from_slice(&crc.to_le_bytes());
}

/// What the bytes of a commit say of it, before its checksum is computed.
pub struct CommitClaim {
    /// The checksum of what follows it.
    pub crc: u32,
    /// How many bytes the checksum covers.
    pub covered_bytes: u64,
    /// Its place among all commits.
    pub sequence: u64,
}

impl CommitClaim {
    /// That of the commit at the front of `bytes`.
    pub fn of(bytes: &[u8]) -> Option<CommitClaim> {
        let mut fields = Reader::new(bytes);
        let (crc, length, sequence) = (fields.u32()?, fields.u32()?, fields.u64()?);
        Some(CommitClaim { crc, covered_bytes: u64::from(length) + 4, sequence })
    }
}

/// Reads the commit with this sequence number from the front of `bytes`: the position before which the log was synced,
/// its edits and the bytes it takes.
pub fn decode_commit(sequence: u64, bytes: &[u8]) -> Option<(u64, Vec<Edit>, usize)> {
    let mut fields = Reader::new(bytes);
    let (crc, length) = (fields.u32()?, fields.u32()? as usize);
    let body = fields.bytes(length)?;
    let mut fields = Reader::new(body);
    if fields.u64()? != sequence || checksum::crc32c(&bytes[4..COMMIT_HEADER_BYTES + length]) != crc {
        return None;
    }
    let log_synced = fields.u64()?;
    let mut edits = Vec::new();
    for _ in 0..fields.u32()? {
        edits.push(Edit::decode(&mut fields)?);
    }
    (fields.at() == length).then_some((log_synced, edits, COMMIT_HEADER_BYTES + length))
}

impl Edit {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.partition.to_le_bytes());
        out.extend_from_slice(&self.converted_to.to_le_bytes());
        out.extend_from_slice(&(self.removed.len() as u32).to_le_bytes());
        out.extend_from_slice(&(self.added.len() as u32).to_le_bytes());
        for number in &self.removed {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for store in &self.added {
            out.extend_from_slice(&store.number.to_le_bytes());
            out.extend_from_slice(&store.tag.to_le_bytes());
            out.push(store.role as u8);
        }
    }

    fn decode(fields: &mut Reader<'_>) -> Option<Edit> {
        let mut edit = Edit { partition: fields.u32()?, converted_to: fields.u64()?, ..Edit::default() };
        let (removed, added) = (fields.u32()?, fields.u32()?);
        for _ in 0..removed {
            edit.removed.push(fields.u64()?);
        }
        for _ in 0..added {
            let (number, tag) = (fields.u64()?, fields.u64()?);
            let role = match fields.u8()? {
                1 => Role::CuckooTable,
                2 => Role::HashOrdered,
                3 => Role::Sorted,
                _ => return None,
            };
            edit.added.push(StoreEntry { number, tag, role });
        }
        Some(edit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_comes_back_and_a_damaged_one_does_not() {
        let shape = Shape {
            layout: RecordLayout { fixed: Some((20, 44)), expiring: true },
            hasher: KeyHasher::Keyed([1, 2]),
            partitions_log2: 4,
            block_bytes: 4096,
            database_id: 99,
            secret: Secret::new(98),
        };
        let mut bytes = shape.encode();
        assert_eq!(Shape::decode(&bytes), Some((MANIFEST_VERSION, Some(shape))));
        bytes[13] ^= 1;
        assert_eq!(Shape::decode(&bytes), Some((MANIFEST_VERSION, None)));
        assert_eq!(Shape::decode(&[0; MANIFEST_HEADER_BYTES]), None);
    }

    #[test]
    fn a_commit_comes_back_in_its_place_only_and_whole() {
        let edit = Edit {
            partition: 3,
            converted_to: 1 << 33,
            removed: vec![1, 2],
            added: vec![StoreEntry { number: 9, tag: 10, role: Role::Sorted }],
        };
        let edits = vec![edit.clone(), Edit { partition: 4, ..edit }];
        let mut bytes = Vec::new();
        encode_commit(5, 77, &edits, &mut bytes);
        assert_eq!(decode_commit(5, &bytes), Some((77, edits, bytes.len())));
        assert_eq!(decode_commit(6, &bytes), None);
        for length in 0..bytes.len() {
            assert_eq!(decode_commit(5, &bytes[..length]), None);
        }
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode_commit(5, &bad), None, "bit {bit}");
        }
    }
}
