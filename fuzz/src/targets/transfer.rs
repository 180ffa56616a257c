//! What the command line reads: exports, JSONL, and the records of a dedup index.

use crate::cli::formats::{FileEntry, METADATA_BYTES, Metadata, State};
use crate::cli::transfer::{Format, binary};
use crate::input::Input;
use crate::seal::with_crc;

/// How many records a stream holds, until the first error.
fn records(format: Format, bytes: &[u8]) -> usize {
    let source = Format::source(Some(format), bytes);
    source.map_or(0, |records| records.take_while(Result::is_ok).count())
}

/// The stream of `siltstone export`, as it comes and with right checksums.
pub fn export(data: &[u8]) {
    assert!(records(Format::Binary, data) <= data.len());
    let mut input = Input(data);
    let mut bytes = with_crc(&[&binary::MAGIC[..], &binary::VERSION.to_le_bytes()].concat());
    for _ in 0..input.u8() % 8 {
        let length = usize::from(input.u8());
        bytes.extend(with_crc(input.bytes(length)));
    }
    assert!(records(Format::Binary, &bytes) <= bytes.len());
}

/// Records in JSON, a line each.
pub fn jsonl(data: &[u8]) {
    assert!(records(Format::Jsonl, data) <= data.len());
}

/// The records of a dedup index.
pub fn dedup(data: &[u8]) {
    if let Some(metadata) = Metadata::decode(data) {
        assert_eq!(metadata.encode()[..40], data[..40]);
        assert_eq!(data.len(), METADATA_BYTES);
    }
    if let Ok(entry) = FileEntry::decode(data) {
        assert_eq!(FileEntry::decode(&entry.encode()).expect("what was encoded is decoded"), entry);
    }
    if let Ok(state) = State::decode(data) {
        assert_eq!(state.encode(), data);
    }
}
