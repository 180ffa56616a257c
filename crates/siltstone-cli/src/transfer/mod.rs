//! The formats of import and export: streams of records, which can go through a pipe.

pub mod binary;
pub mod jsonl;

use anyhow::{Context, bail};
use clap::ValueEnum;
use siltstone::Record;
use std::io::{BufRead, Write};

/// The formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Siltstone's export format (docs/formats/export.md): compact, with checksums
    Binary,
    /// JSON, one record per line
    Jsonl,
}

/// Writes records, one after the other.
pub trait RecordSink {
    /// Adds a record.
    fn write(&mut self, record: &Record) -> anyhow::Result<()>;
    /// Ends the stream and flushes it.
    fn finish(&mut self) -> anyhow::Result<()>;
}

/// Reads records, one after the other. Errors include the position in the stream.
pub type RecordSource<'a> = Box<dyn Iterator<Item = anyhow::Result<Record>> + 'a>;

impl Format {
    /// Returns a writer of records to `target`. `hex` selects hex instead of Base64 for bytes that are not text, if the
    /// format has a choice.
    pub fn sink<'a>(self, target: impl Write + 'a, hex: bool) -> anyhow::Result<Box<dyn RecordSink + 'a>> {
        Ok(match self {
            Format::Binary => Box::new(binary::Writer::new(target)?),
            Format::Jsonl => Box::new(jsonl::Writer::new(target, hex)),
        })
    }

    /// Returns a reader of records from `source`. The format is detected if none is given.
    pub fn source<'a>(
        format: Option<Format>,
        mut source: impl BufRead + 'a,
    ) -> anyhow::Result<RecordSource<'a>> {
        let format = match format {
            Some(format) => format,
            None => Format::recognised(source.fill_buf().context("cannot read the input")?)?,
        };
        Ok(match format {
            Format::Binary => Box::new(binary::Reader::new(source)?),
            Format::Jsonl => Box::new(jsonl::Reader::new(source)),
        })
    }

    /// Detects the format of a stream from its first bytes.
    fn recognised(start: &[u8]) -> anyhow::Result<Format> {
        const COMPRESSED: [(&str, &[u8]); 5] = [
            ("gzip", b"\x1f\x8b"),
            ("zstd", b"\x28\xb5\x2f\xfd"),
            ("xz", b"\xfd7zXZ"),
            ("bzip2", b"BZh"),
            ("zip", b"PK\x03\x04"),
        ];
        if start.first() == Some(&binary::MAGIC[0]) {
            return Ok(Format::Binary);
        }
        let text = start.strip_prefix(jsonl::BYTE_ORDER_MARK).unwrap_or(start).trim_ascii_start();
        if text.is_empty() || text[0] == b'{' {
            return Ok(Format::Jsonl);
        }
        if let Some((name, _)) = COMPRESSED.iter().find(|(_, magic)| start.starts_with(magic)) {
            bail!("the input is compressed with {name}; decompress it first");
        }
        bail!(
            "the input is neither a siltstone export nor lines of JSON: it begins with \"{}\"; state the format with \
             --format",
            start[..start.len().min(16)].escape_ascii()
        )
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
    fn an_input_in_another_format_is_refused_with_its_name() {
        for (input, message) in
            [(&b"\x1f\x8b\x08\0"[..], "gzip"), (b"PAR1\x15\x04", "PAR1"), (b"word,meaning\n", "word,meaning")]
        {
            let error = Format::source(None, input).err().unwrap().to_string();
            assert!(error.contains(message) && !error.contains("expected value"), "{error}");
        }
        for empty in [&b""[..], b"\n \n", b"\xef\xbb\xbf"] {
            assert_eq!(Format::source(None, empty).unwrap().count(), 0);
        }
        let marked = b"\xef\xbb\xbf{\"key\":\"k\",\"value\":\"v\"}\n";
        assert_eq!(Format::source(None, &marked[..]).unwrap().map(Result::unwrap).count(), 1);
    }

    #[test]
    fn exports_are_imported_in_every_format() {
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
