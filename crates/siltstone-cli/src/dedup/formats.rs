//! The formats of the index's records; `docs/formats/dedup.md` has their diagrams.

use anyhow::{bail, ensure};
use siltstone::coding::Reader;

/// The length of a chunk's metadata, in bytes.
pub const METADATA_BYTES: usize = 44;

/// Where a chunk was first seen: the value of its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metadata {
    /// The number of the file's version in the catalogue.
    pub file_id: u64,
    /// Its offset in the file, in bytes.
    pub offset: u64,
    /// Its ordinal number in the file.
    pub position: u64,
    /// When it was first seen, in milliseconds since the Unix epoch.
    pub seen_at_ms: u64,
    /// Its length, in bytes.
    pub length: u32,
    /// The run that first saw it, from 1 on.
    pub run: u32,
}

impl Metadata {
    /// Encodes the value.
    pub fn encode(&self) -> Vec<u8> {
        let Metadata { file_id, offset, position, seen_at_ms, length, run } = *self;
        let mut bytes = [file_id, offset, position, seen_at_ms].map(u64::to_le_bytes).concat();
        bytes.extend([length, run].map(u32::to_le_bytes).concat());
        bytes.resize(METADATA_BYTES, 0);
        bytes
    }

    /// Decodes a value; `None` if its length is wrong.
    pub fn decode(value: &[u8]) -> Option<Metadata> {
        let mut fields = Reader::new(value);
        let metadata = Metadata {
            file_id: fields.u64()?,
            offset: fields.u64()?,
            position: fields.u64()?,
            seen_at_ms: fields.u64()?,
            length: fields.u32()?,
            run: fields.u32()?,
        };
        (value.len() == METADATA_BYTES).then_some(metadata)
    }
}

/// The catalogue's entry for a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileEntry {
    /// The number of this version of the file.
    pub id: u64,
    /// The file's size and times when it was read.
    pub stamp: Stamp,
    /// The number of indexed bytes.
    pub done_bytes: u64,
    /// The number of indexed chunks.
    pub chunks: u64,
    /// Whether the file was read to its end.
    pub complete: bool,
}

/// The properties that reveal a change of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stamp {
    /// The size, in bytes.
    pub size: u64,
    /// When the contents changed, in nanoseconds since the Unix epoch.
    pub modified_ns: i64,
    /// When the file or its attributes changed.
    pub changed_ns: i64,
}

/// The length of an entry, in bytes.
const FILE_ENTRY_BYTES: usize = 6 * 8 + 1;

impl FileEntry {
    /// Encodes the value.
    pub fn encode(&self) -> Vec<u8> {
        let FileEntry { id, stamp, done_bytes, chunks, complete } = *self;
        let Stamp { size, modified_ns, changed_ns } = stamp;
        let fields = [id, size, modified_ns as u64, changed_ns as u64, done_bytes, chunks];
        let mut bytes = fields.map(u64::to_le_bytes).concat();
        bytes.push(complete.into());
        bytes
    }

    /// Decodes a value.
    pub fn decode(value: &[u8]) -> anyhow::Result<FileEntry> {
        let mut fields = Reader::new(value);
        let entry = (|| {
            Some(FileEntry {
                id: fields.u64()?,
                stamp: Stamp {
                    size: fields.u64()?,
                    modified_ns: fields.u64()? as i64,
                    changed_ns: fields.u64()? as i64,
                },
                done_bytes: fields.u64()?,
                chunks: fields.u64()?,
                complete: fields.u8()? != 0,
            })
        })();
        match entry {
            Some(entry) if fields.at() == value.len() => Ok(entry),
            _ => {
                bail!(
                    "the catalogue is damaged: an entry has {} bytes, not {FILE_ENTRY_BYTES}; run `siltstone verify`",
                    value.len()
                )
            }
        }
    }
}

/// The totals of all runs. Every version of a file counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Totals {
    /// Versions of files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their chunks.
    pub chunks: u64,
    /// Distinct chunks: the records of the index.
    pub unique_chunks: u64,
    /// Their bytes.
    pub unique_bytes: u64,
}

/// The catalogue's state record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    /// The number of runs so far.
    pub runs: u32,
    /// The highest number of a version of a file.
    pub next_file_id: u64,
    /// Entries with lower numbers are invalid: records have been lost since, and the files must be read again.
    pub first_valid_id: u64,
    /// Whether records were lost and the chunks are not counted again yet: all numbers here may be wrong.
    pub recount: bool,
    /// The totals of all runs.
    pub totals: Totals,
}

const MAGIC: [u8; 8] = *b"SILTDEDU";
const VERSION: u32 = 1;

impl State {
    /// Encodes the value.
    pub fn encode(&self) -> Vec<u8> {
        let Totals { files, bytes: indexed, chunks, unique_chunks, unique_bytes } = self.totals;
        let mut bytes = MAGIC.to_vec();
        bytes.extend([VERSION, self.runs].map(u32::to_le_bytes).concat());
        bytes.extend([self.next_file_id, self.first_valid_id].map(u64::to_le_bytes).concat());
        bytes.push(self.recount.into());
        bytes.extend([files, indexed, chunks, unique_chunks, unique_bytes].map(u64::to_le_bytes).concat());
        bytes
    }

    /// Decodes a value.
    pub fn decode(value: &[u8]) -> anyhow::Result<State> {
        let mut fields = Reader::new(value);
        ensure!(
            fields.array() == Some(MAGIC),
            "the catalogue is damaged: its state has a wrong magic number; run `siltstone verify` on the index"
        );
        let version = fields.u32().unwrap_or_default();
        ensure!(
            version == VERSION,
            "the catalogue has format version {version}, but this program reads version {VERSION}; create a new index"
        );
        let state = (|| {
            let (runs, next_file_id, first_valid_id) = (fields.u32()?, fields.u64()?, fields.u64()?);
            let recount = match fields.u8()? {
                0 => false,
                1 => true,
                _ => return None,
            };
            let totals = Totals {
                files: fields.u64()?,
                bytes: fields.u64()?,
                chunks: fields.u64()?,
                unique_chunks: fields.u64()?,
                unique_bytes: fields.u64()?,
            };
            Some(State { runs, next_file_id, first_valid_id, recount, totals })
        })();
        match state {
            Some(state) if fields.at() == value.len() => Ok(state),
            _ => bail!(
                "the catalogue is damaged: its state has a wrong length; run `siltstone verify` on the index"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        State {
            runs: 3,
            next_file_id: 4,
            first_valid_id: 2,
            recount: true,
            totals: Totals { files: 5, bytes: 6, chunks: 7, unique_chunks: 8, unique_bytes: 9 },
        }
    }

    /// Metadata, an entry and a state, concatenated.
    const GOLDEN: &[u8] = include_bytes!("../../../../fixtures/dedup-v1.bin");

    #[test]
    fn version_1_is_written_unchanged() {
        let metadata =
            Metadata { file_id: 7, offset: 8192, position: 2, seen_at_ms: 1, length: 4096, run: 1 };
        let stamp = Stamp { size: 2, modified_ns: -3, changed_ns: 4 };
        let entry = FileEntry { id: 1, stamp, done_bytes: 5, chunks: 6, complete: true };
        let bytes = [&metadata.encode()[..], &entry.encode(), &state().encode()].concat();
        if std::env::var_os("SILTSTONE_BLESS").is_some() {
            std::fs::write("../../fixtures/dedup-v1.bin", &bytes).unwrap();
        }
        assert_eq!(bytes, GOLDEN);
    }

    #[test]
    fn metadata_has_44_bytes_and_names_the_first_place_of_the_chunk() {
        let metadata =
            Metadata { file_id: 7, offset: 8192, position: 2, seen_at_ms: 1, length: 4096, run: 1 };
        assert_eq!(Metadata::decode(&metadata.encode()), Some(metadata));
        assert_eq!(Metadata::decode(&[0; METADATA_BYTES - 1]), None);
        assert_eq!(metadata.encode()[32..36], 4096u32.to_le_bytes());
        assert_eq!(metadata.encode().len(), METADATA_BYTES);
    }

    #[test]
    fn records_are_read_back_as_they_were_written() {
        let stamp = Stamp { size: 2, modified_ns: -3, changed_ns: 4 };
        let entry = FileEntry { id: 1, stamp, done_bytes: 5, chunks: 6, complete: true };
        assert_eq!(FileEntry::decode(&entry.encode()).unwrap(), entry);
        assert_eq!(State::decode(&state().encode()).unwrap(), state());
    }

    #[test]
    fn bytes_that_are_not_a_record_are_refused() {
        let bytes = state().encode();
        for length in 0..bytes.len() {
            assert!(State::decode(&bytes[..length]).is_err(), "{length} bytes");
            assert!(
                FileEntry::decode(&[0; FILE_ENTRY_BYTES + 1][..length.min(FILE_ENTRY_BYTES - 1)]).is_err()
            );
        }
        let newer = [&bytes[..8], &2u32.to_le_bytes(), &bytes[12..]].concat();
        assert!(State::decode(&newer).unwrap_err().to_string().contains("version 2"));
    }
}
