//! The formats that the command line reads: exports, JSONL, and the records of a dedup index.

use crate::cli::formats::{
    FileEntry, METADATA_BYTES, Metadata, RunEntry, State, decode_changes, encode_changes,
};
use crate::cli::notation::Notation;
use crate::cli::transfer::columns::{Column, Columns};
use crate::cli::transfer::{Fault, Format, binary};
use crate::input::Input;
use crate::seal::with_crc;

/// Returns the number of records in a stream, until the first error.
fn records(format: Format, bytes: &[u8]) -> usize {
    let columns = Columns {
        key: Some(Column::Number(1)),
        values: Some(vec![Column::Number(2), Column::Number(1)]),
        has_header: false,
        is_ragged: false,
        delimiter: b',',
        notation: Notation::Escaped,
        null: None,
    };
    let Ok(mut source) = Format::source(Some(format), &columns, bytes) else { return 0 };
    let mut records = 0;
    loop {
        match source.next() {
            Ok(Some(_)) => records += 1,
            // The next row may be right.
            Err(Fault::Bad(_)) => {}
            Ok(None) | Err(_) => return records,
        }
    }
}

/// Reads the stream of `siltstone export`, unchanged and with correct checksums.
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

/// Reads records in JSON, one per line.
pub fn jsonl(data: &[u8]) {
    assert!(records(Format::Jsonl, data) <= data.len());
}

/// Reads rows of CSV and of TSV.
pub fn tables(data: &[u8]) {
    for format in [Format::Csv, Format::Tsv] {
        assert!(records(format, data) <= data.len());
    }
}

/// Reads the records of a dedup index.
pub fn dedup(data: &[u8]) {
    if let Some(metadata) = Metadata::decode(data) {
        assert_eq!(metadata.encode(), data);
        assert_eq!(data.len(), METADATA_BYTES);
    }
    if let Ok(entry) = FileEntry::decode(data) {
        assert_eq!(FileEntry::decode(&entry.encode()).expect("what was encoded is decoded"), entry);
    }
    if let Ok(run) = RunEntry::decode(data) {
        assert_eq!(run.encode(), data);
    }
    if let Ok(state) = State::decode(data) {
        assert_eq!(state.encode(), data);
    }
    if let Ok(changes) = decode_changes(data, 20) {
        let changes = changes.iter().map(|(key, metadata)| (&key[..], metadata.as_ref()));
        assert_eq!(encode_changes(changes), data);
    }
}
