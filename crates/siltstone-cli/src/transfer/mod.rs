//! Streams of records in the formats of import and export, which can go through a pipe.

pub mod binary;
mod jsonl;
pub mod parquet;
pub mod table;

pub use jsonl::write_line;

use crate::notation::NotationArgs;
use anyhow::{Context, bail};
use clap::ValueEnum;
use indicatif::ProgressBar;
use siltstone::Record;
use std::io::{BufRead, Write};
use std::path::Path;
use table::{Columns, Table};

/// The formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Siltstone's export format (docs/formats/export.md): compact, with checksums
    Binary,
    /// JSON, one record per line
    Jsonl,
    /// Comma-separated values, with quotes if needed
    Csv,
    /// Tab-separated values, without quotes
    Tsv,
    /// Apache Parquet; needs a build with the feature parquet
    Parquet,
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
    /// Returns a writer of records to `target`, with the notation of bytes that are not text (JSONL: hex or Base64), or
    /// of all (CSV, TSV).
    pub fn sink<'a>(
        self,
        target: impl Write + 'a,
        notation: NotationArgs,
    ) -> anyhow::Result<Box<dyn RecordSink + 'a>> {
        Ok(match self {
            Format::Binary => Box::new(binary::Writer::new(target)?),
            Format::Jsonl => Box::new(jsonl::Writer::new(target, notation.is_hex())),
            Format::Csv => Box::new(table::Writer::new(Table::Csv, notation.typed(), target)),
            Format::Tsv => Box::new(table::Writer::new(Table::Tsv, notation.typed(), target)),
            Format::Parquet => parquet::sink(target, notation.typed())?,
        })
    }

    /// Returns a reader of records from `source`. The format is detected if none is given. Without values in `columns`,
    /// JSONL needs none either.
    pub fn source<'a>(
        format: Option<Format>,
        columns: &Columns,
        mut source: impl BufRead + 'a,
    ) -> anyhow::Result<RecordSource<'a>> {
        let format = match format {
            Some(format) => format,
            None => Format::recognised(source.fill_buf().context("cannot read the input")?)?,
        };
        Ok(match format {
            Format::Binary => Box::new(binary::Reader::new(source)?),
            Format::Jsonl => Box::new(jsonl::Reader::new(source, !columns.values.is_empty())),
            Format::Csv => Box::new(table::Reader::new(Table::Csv, columns, source)?),
            Format::Tsv => Box::new(table::Reader::new(Table::Tsv, columns, source)?),
            Format::Parquet => {
                let mut copy = tempfile::tempfile()?;
                std::io::copy(&mut source, &mut copy).context("cannot read the input")?;
                parquet::source(copy, columns, ProgressBar::hidden())?
            }
        })
    }

    /// Returns whether the output is not text.
    pub fn is_binary(self) -> bool {
        matches!(self, Format::Binary | Format::Parquet)
    }

    /// Returns the format of a file's extension, if it has a known one. That of a compression is not part of it.
    pub fn of_name(path: &Path) -> Option<Format> {
        let is_compressed = path.extension().is_some_and(|extension| extension == "gz" || extension == "zst");
        let name = if is_compressed { Path::new(path.file_stem()?) } else { path };
        match name.extension()?.to_str()? {
            "csv" => Some(Format::Csv),
            "tsv" | "tab" => Some(Format::Tsv),
            "parquet" => Some(Format::Parquet),
            _ => None,
        }
    }

    /// Detects the format of a stream from its first bytes.
    fn recognised(start: &[u8]) -> anyhow::Result<Format> {
        const COMPRESSED: [(&str, &[u8]); 3] =
            [("xz", b"\xfd7zXZ"), ("bzip2", b"BZh"), ("zip", b"PK\x03\x04")];
        if start.first() == Some(&binary::MAGIC[0]) {
            return Ok(Format::Binary);
        }
        if start.starts_with(&parquet::BEGINNING) {
            return Ok(Format::Parquet);
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
    use crate::notation::Notation;
    use siltstone::Bytes;
    use std::path::PathBuf;

    /// The first column is the key, the second one the value.
    pub fn columns() -> Columns {
        let (key, values) = ("1".parse().unwrap(), vec!["2".parse().unwrap()]);
        Columns { key, values, has_header: false, notation: Notation::Plain }
    }

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
            [(&b"BZh91AY"[..], "bzip2"), (b"\x7fELF", "ELF"), (b"word,meaning\n", "word,meaning")]
        {
            let error = Format::source(None, &columns(), input).err().unwrap().to_string();
            assert!(error.contains(message) && !error.contains("expected value"), "{error}");
        }
        for empty in [&b""[..], b"\n \n", b"\xef\xbb\xbf"] {
            assert_eq!(Format::source(None, &columns(), empty).unwrap().count(), 0);
        }
        let marked = b"\xef\xbb\xbf{\"key\":\"k\",\"value\":\"v\"}\n";
        assert_eq!(Format::source(None, &columns(), &marked[..]).unwrap().map(Result::unwrap).count(), 1);
    }

    #[test]
    fn exports_are_imported_in_every_format() {
        let hex = NotationArgs { hex: true, escaped: false };
        for (format, notation) in [
            (Format::Binary, NotationArgs::default()),
            (Format::Jsonl, NotationArgs::default()),
            (Format::Jsonl, hex),
            (Format::Csv, NotationArgs::default()),
            (Format::Tsv, hex),
        ] {
            let mut bytes = Vec::new();
            let mut sink = format.sink(&mut bytes, notation).unwrap();
            some_records().iter().for_each(|record| sink.write(record).unwrap());
            sink.finish().unwrap();
            drop(sink);
            let columns = Columns { notation: notation.typed(), ..columns() };
            let stated = Some(format).filter(|format| matches!(format, Format::Csv | Format::Tsv));
            let read = Format::source(stated, &columns, &bytes[..]).unwrap().map(Result::unwrap);
            let expected = some_records().into_iter().map(|record| match stated {
                // Tables have no expiry times.
                Some(_) => Record { expires_at_ms: 0, ..record },
                None => record,
            });
            assert!(read.eq(expected), "{format:?}");
        }
    }

    #[test]
    fn tables_are_recognised_by_their_names() {
        let of_name = |name: &str| Format::of_name(&PathBuf::from(name));
        assert_eq!(["a.csv", "a.b.csv.gz", "/d/a.csv.zst"].map(of_name), [Some(Format::Csv); 3]);
        assert_eq!(["a.tsv", "a.tab.gz"].map(of_name), [Some(Format::Tsv); 2]);
        assert_eq!(["csv", "a.gz", "a.jsonl.gz", "-"].map(of_name), [None; 4]);
    }
}
