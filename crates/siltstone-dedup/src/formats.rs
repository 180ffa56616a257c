//! The formats of the index's records; `docs/formats/dedup.md` has their diagrams.

use anyhow::{bail, ensure};
use siltstone_index::coding::Reader;
use std::hash::{BuildHasher, RandomState};

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
    /// How often it occurs in the files of the index. [`REFERENCES_MAX`] stays as it is.
    pub references: u32,
}

/// The number of references at which a chunk is no longer counted, and never removed.
pub const REFERENCES_MAX: u32 = u32::MAX;

impl Metadata {
    /// Encodes the value.
    pub fn encode(&self) -> Vec<u8> {
        let Metadata { file_id, offset, position, seen_at_ms, length, run, references } = *self;
        let mut bytes = [file_id, offset, position, seen_at_ms].map(u64::to_le_bytes).concat();
        bytes.extend([length, run, references].map(u32::to_le_bytes).concat());
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
            references: fields.u32()?,
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
    /// The number of records with the hashes of its chunks.
    pub segments: u32,
    /// The last run that saw the file.
    pub run: u32,
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
const FILE_ENTRY_BYTES: usize = 6 * 8 + 2 * 4 + 1;

impl FileEntry {
    /// Encodes the value.
    pub fn encode(&self) -> Vec<u8> {
        let FileEntry { id, stamp, done_bytes, chunks, segments, run, complete } = *self;
        let Stamp { size, modified_ns, changed_ns } = stamp;
        let fields = [id, size, modified_ns as u64, changed_ns as u64, done_bytes, chunks];
        let mut bytes = fields.map(u64::to_le_bytes).concat();
        bytes.extend([segments, run].map(u32::to_le_bytes).concat());
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
                segments: fields.u32()?,
                run: fields.u32()?,
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

/// Numbers of files, and of their contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Totals {
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their chunks.
    pub chunks: u64,
    /// Distinct chunks.
    pub unique_chunks: u64,
    /// Their bytes.
    pub unique_bytes: u64,
}

impl Totals {
    fn encode(&self) -> [u64; 5] {
        [self.files, self.bytes, self.chunks, self.unique_chunks, self.unique_bytes]
    }

    fn decode(fields: &mut Reader<'_>) -> Option<Totals> {
        Some(Totals {
            files: fields.u64()?,
            bytes: fields.u64()?,
            chunks: fields.u64()?,
            unique_chunks: fields.u64()?,
            unique_bytes: fields.u64()?,
        })
    }
}

/// A commit of both databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Commit {
    /// Its number, from 1 on.
    pub number: u64,
    /// A random number, which names it.
    pub name: u64,
}

impl Commit {
    /// Returns the one after it, with a new name.
    pub fn next(self) -> Commit {
        // Keys of hash maps are random.
        let name = RandomState::new().hash_one(self.number);
        Commit { number: self.number + 1, name }
    }

    /// Returns the record among the chunks.
    pub fn as_metadata(self) -> Metadata {
        let (file_id, offset) = (self.number, self.name);
        let references = REFERENCES_MAX;
        Metadata { file_id, offset, position: 0, seen_at_ms: 0, length: 0, run: 0, references }
    }

    /// Returns the commit of the record among the chunks.
    pub fn of(record: &Metadata) -> Commit {
        Commit { number: record.file_id, name: record.offset }
    }
}

/// The catalogue's record of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct RunEntry {
    /// When it began, in milliseconds since the Unix epoch.
    pub started_at_ms: u64,
    /// Its duration.
    pub milliseconds: u64,
    /// Files below its paths.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that it read.
    pub bytes_read: u64,
    /// Bytes of chunks that were in no file before.
    pub new_bytes: u64,
    /// Files and directories that could not be read.
    pub files_failed: u64,
}

impl RunEntry {
    /// Encodes the value.
    pub fn encode(&self) -> Vec<u8> {
        let RunEntry { started_at_ms, milliseconds, files, bytes, bytes_read, new_bytes, files_failed } =
            *self;
        let fields = [started_at_ms, milliseconds, files, bytes, bytes_read, new_bytes, files_failed];
        fields.map(u64::to_le_bytes).concat()
    }

    /// Decodes a value.
    pub fn decode(value: &[u8]) -> anyhow::Result<RunEntry> {
        let mut fields = Reader::new(value);
        let mut numbers = [0; 7];
        for number in &mut numbers {
            *number = fields.u64().unwrap_or_default();
        }
        ensure!(
            value.len() == 8 * numbers.len(),
            "the catalogue is damaged: a run has a wrong length; run `siltstone verify` on the index"
        );
        let [started_at_ms, milliseconds, files, bytes, bytes_read, new_bytes, files_failed] = numbers;
        Ok(RunEntry { started_at_ms, milliseconds, files, bytes, bytes_read, new_bytes, files_failed })
    }
}

/// The catalogue's state record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    /// The number of runs so far.
    pub runs: u32,
    /// The highest number of a version of a file.
    pub next_file_id: u64,
    /// Whether records were lost and the references are not counted again yet: all numbers here may be wrong.
    pub recount: bool,
    /// The version of a file whose references are being removed; 0 if none is.
    pub forgotten_id: u64,
    /// The number of its records of hashes whose references are not removed yet.
    pub forgotten_segments: u32,
    /// What is in the index now.
    pub now: Totals,
    /// What all runs have added, whether it is still there or not.
    pub ever: Totals,
    /// The last commit, which the chunks have as well, and the one before it.
    pub commit: Commit,
    pub before: Commit,
}

const MAGIC: [u8; 8] = *b"SILTDEDU";
const VERSION: u32 = 3;

impl State {
    /// Encodes the value.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([VERSION, self.runs].map(u32::to_le_bytes).concat());
        bytes.extend(self.next_file_id.to_le_bytes());
        bytes.push(self.recount.into());
        bytes.extend(self.forgotten_id.to_le_bytes());
        bytes.extend(self.forgotten_segments.to_le_bytes());
        bytes.extend([self.now.encode(), self.ever.encode()].concat().into_iter().flat_map(u64::to_le_bytes));
        for Commit { number, name } in [self.commit, self.before] {
            bytes.extend([number, name].map(u64::to_le_bytes).concat());
        }
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
            let (runs, next_file_id) = (fields.u32()?, fields.u64()?);
            let recount = match fields.u8()? {
                0 => false,
                1 => true,
                _ => return None,
            };
            let (forgotten_id, forgotten_segments) = (fields.u64()?, fields.u32()?);
            let (now, ever) = (Totals::decode(&mut fields)?, Totals::decode(&mut fields)?);
            let mut commit = || Some(Commit { number: fields.u64()?, name: fields.u64()? });
            let (commit, before) = (commit()?, commit()?);
            Some(State {
                runs,
                next_file_id,
                recount,
                forgotten_id,
                forgotten_segments,
                now,
                ever,
                commit,
                before,
            })
        })();
        match state {
            Some(state) if fields.at() == value.len() => Ok(state),
            _ => bail!(
                "the catalogue is damaged: its state has a wrong length; run `siltstone verify` on the index"
            ),
        }
    }
}

/// A change of a chunk's record: its key, and its new value; `None` removes it.
pub type Change = (Vec<u8>, Option<Metadata>);

/// Encodes the changes of the chunks that a commit of the catalogue covers. Keys have the same length.
pub fn encode_changes<'a>(changes: impl Iterator<Item = (&'a [u8], Option<&'a Metadata>)>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (key, metadata) in changes {
        bytes.extend(key);
        bytes.push(metadata.is_some().into());
        bytes.extend(metadata.map(Metadata::encode).unwrap_or_default());
    }
    bytes
}

/// Decodes changes whose keys have this length.
pub fn decode_changes(value: &[u8], hash_bytes: usize) -> anyhow::Result<Vec<Change>> {
    let mut fields = Reader::new(value);
    let mut changes = Vec::new();
    let mut change = |fields: &mut Reader<'_>| {
        let key = fields.bytes(hash_bytes)?.to_vec();
        let metadata = match fields.u8()? {
            0 => None,
            1 => Some(Metadata::decode(fields.bytes(METADATA_BYTES)?)?),
            _ => return None,
        };
        changes.push((key, metadata));
        Some(())
    };
    while fields.at() < value.len() {
        ensure!(
            change(&mut fields).is_some(),
            "the catalogue is damaged: the changes of its last commit end early; run `siltstone verify` on the index"
        );
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        State {
            runs: 3,
            next_file_id: 4,
            recount: true,
            forgotten_id: 2,
            forgotten_segments: 10,
            now: Totals { files: 5, bytes: 6, chunks: 7, unique_chunks: 8, unique_bytes: 9 },
            ever: Totals { files: 15, bytes: 16, chunks: 17, unique_chunks: 18, unique_bytes: 19 },
            commit: Commit { number: 20, name: 21 },
            before: Commit { number: 22, name: 23 },
        }
    }

    fn metadata() -> Metadata {
        let (seen_at_ms, length, run, references) = (1, 4096, 1, 3);
        Metadata { file_id: 7, offset: 8192, position: 2, seen_at_ms, length, run, references }
    }

    fn entry() -> FileEntry {
        let stamp = Stamp { size: 2, modified_ns: -3, changed_ns: 4 };
        FileEntry { id: 1, stamp, done_bytes: 5, chunks: 6, segments: 8, run: 9, complete: true }
    }

    /// An insertion and a removal.
    fn changes() -> [Change; 2] {
        [(vec![1; 20], Some(metadata())), (vec![2; 20], None)]
    }

    fn encoded_changes() -> Vec<u8> {
        let changes = changes();
        encode_changes(changes.iter().map(|(key, metadata)| (&key[..], metadata.as_ref())))
    }

    fn run() -> RunEntry {
        let (started_at_ms, milliseconds, files, bytes) = (1, 2, 3, 4);
        RunEntry { started_at_ms, milliseconds, files, bytes, bytes_read: 5, new_bytes: 6, files_failed: 7 }
    }

    /// Metadata, an entry, a state, two changes and a run, concatenated.
    const GOLDEN: &[u8] = include_bytes!("../../../fixtures/dedup-v3.bin");

    #[test]
    fn version_3_is_written_unchanged() {
        let (entry, state) = (entry().encode(), state().encode());
        let bytes = [&metadata().encode()[..], &entry, &state, &encoded_changes(), &run().encode()].concat();
        if std::env::var_os("SILTSTONE_BLESS").is_some() {
            std::fs::write("../../fixtures/dedup-v3.bin", &bytes).unwrap();
        }
        assert_eq!(bytes, GOLDEN);
    }

    #[test]
    fn metadata_has_44_bytes_and_names_the_first_place_of_the_chunk() {
        let metadata = metadata();
        assert_eq!(Metadata::decode(&metadata.encode()), Some(metadata));
        assert_eq!(Metadata::decode(&[0; METADATA_BYTES - 1]), None);
        assert_eq!(metadata.encode()[32..36], 4096u32.to_le_bytes());
        assert_eq!(metadata.encode().len(), METADATA_BYTES);
    }

    #[test]
    fn records_are_read_back_as_they_were_written() {
        assert_eq!(FileEntry::decode(&entry().encode()).unwrap(), entry());
        assert_eq!(State::decode(&state().encode()).unwrap(), state());
        assert_eq!(RunEntry::decode(&run().encode()).unwrap(), run());
        assert_eq!(Commit::of(&state().commit.as_metadata()), state().commit);
        assert_eq!(decode_changes(&encoded_changes(), 20).unwrap(), changes());
        assert!(decode_changes(&encoded_changes()[1..], 20).is_err());
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
        let newer = [&bytes[..8], &4u32.to_le_bytes(), &bytes[12..]].concat();
        assert!(State::decode(&newer).unwrap_err().to_string().contains("version 4"));
    }
}
