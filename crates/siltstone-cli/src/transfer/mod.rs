//! The formats of import and export: records in a stream, that can go through a pipe.

pub mod binary;
pub mod jsonl;

use anyhow::Context;
use clap::ValueEnum;
use siltstone::Record;
use std::io::{BufRead, Write};

/// The formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Siltstone's export format (docs/formats/export.md): compact, checked, complete or refused
    Binary,
    /// JSON, a line each record, to read and to process
    Jsonl,
}

/// Writes records, one after the other.
pub trait RecordSink {
    /// Adds a record.
    fn write(&mut self, record: &Record) -> anyhow::Result<()>;
    /// Ends the stream and flushes it.
    fn finish(&mut self) -> anyhow::Result<()>;
}

/// Reads records, one after the other; errors say where in the stream they are.
pub type RecordSource<'a> = Box<dyn Iterator<Item = anyhow::Result<Record>> + 'a>;

impl Format {
    /// Writes records to `target`. `hex` shows bytes that are no text in hex and not in Base64, where there is a
    /// choice.
    pub fn sink<'a>(self, target: impl Write + 'a, hex: bool) -> anyhow::Result<Box<dyn RecordSink + 'a>> {
        Ok(match self {
            Format::Binary => Box::new(binary::Writer::new(target)?),
            Format::Jsonl => Box::new(jsonl::Writer::new(target, hex)),
        })
    }

    /// Reads records from `source`; the format is recognised if none is given.
    pub fn source<'a>(
        format: Option<Format>,
        mut source: impl BufRead + 'a,
    ) -> anyhow::Result<RecordSource<'a>> {
        let recognised = match source.fill_buf().context("cannot read the input")?.first() {
            Some(first) if *first == binary::MAGIC[0] => Format::Binary,
            _ => Format::Jsonl,
        };
        Ok(match format.unwrap_or(recognised) {
            Format::Binary => Box::new(binary::Reader::new(source)?),
            Format::Jsonl => Box::new(jsonl::Reader::new(source)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone::Bytes;

    pub fn some_records() -> Vec<Record> {
        let record = |key: &'static [u8], value: &'static [u8], expires_at_ms| Record {
            key: Bytes::from_static(key),
            value: Bytes::from_static(value),
            expires_at_ms,
        };
        vec![
            record(b"plain", b"text with \"quotes\", a\ttab and gr\xc3\xbcn", 0),
            record(b"\x00\xff", b"\xfe\xed", 1_700_000_000_000),
            record(b"empty", b"", u64::MAX),
        ]
    }

    #[test]
    fn what_is_exported_is_imported_in_every_format() {
        for (format, hex) in [(Format::Binary, false), (Format::Jsonl, false), (Format::Jsonl, true)] {
            let mut bytes = Vec::new();
            let mut sink = format.sink(&mut bytes, hex).unwrap();
            some_records().iter().for_each(|record| sink.write(record).unwrap());
            sink.finish().unwrap();
            drop(sink);
            let read: Vec<Record> = Format::source(None, &bytes[..]).unwrap().map(Result::unwrap).collect();
            assert_eq!(read, some_records(), "{format:?}");
        }
    }
}
