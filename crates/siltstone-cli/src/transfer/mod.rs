//! Streams of records in the formats of import and export, which can go through a pipe.

pub mod binary;
pub mod columns;
mod fields;
mod jsonl;
mod lines;
pub mod parquet;
mod rows;
mod table;

pub use jsonl::write_line;
pub use table::parse_delimiter;

use crate::notation::NotationArgs;
use crate::stream;
use anyhow::{Context, bail};
use clap::ValueEnum;
use columns::Columns;
use indicatif::ProgressBar;
use siltstone::Record;
use std::io::{BufRead, Write};
use std::path::Path;
use table::Table;

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
    /// One key per line, without values
    Lines,
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

/// What is wrong with an input.
#[derive(Debug)]
pub enum Fault {
    /// One record is invalid. Those after it can be read.
    Bad(anyhow::Error),
    /// The rest cannot be read.
    Fatal(anyhow::Error),
}

impl Fault {
    /// Returns the error.
    pub fn into_error(self) -> anyhow::Error {
        match self {
            Fault::Bad(error) | Fault::Fatal(error) => error,
        }
    }
}

/// Reads records, one after the other.
pub trait Source {
    /// Returns the next record; `None` at the end. Not called again after a [fatal](Fault::Fatal) error.
    fn next(&mut self) -> Result<Option<Record>, Fault>;
    /// Returns where the last record is, such as `line 3`.
    fn place(&self) -> String;
}

/// A reader of records.
pub type RecordSource<'a> = Box<dyn Source + 'a>;

impl Format {
    /// Returns a writer of records to `target`, with the notation of bytes that are not text (JSONL: hex or Base64), or
    /// of all (CSV, TSV, lines), and the delimiter of CSV.
    pub fn sink<'a>(
        self,
        target: impl Write + 'a,
        notation: NotationArgs,
        delimiter: u8,
    ) -> anyhow::Result<Box<dyn RecordSink + 'a>> {
        Ok(match self {
            Format::Binary => Box::new(binary::Writer::new(target)?),
            Format::Jsonl => Box::new(jsonl::Writer::new(target, notation.is_hex())),
            Format::Csv => Box::new(table::Writer::new(Table::Csv { delimiter }, notation.typed(), target)?),
            Format::Tsv => Box::new(table::Writer::new(Table::Tsv, notation.typed(), target)?),
            Format::Lines => Box::new(lines::Writer::new(target, notation.typed())),
            Format::Parquet => parquet::sink(target, notation.typed())?,
        })
    }

    /// Returns a reader of records from `source`. The format is detected if none is given. Without values in `columns`,
    /// JSONL needs none either.
    ///
    /// # Errors
    /// The source begins as no records do, or is a text in another encoding than UTF-8.
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
            Format::Jsonl => Box::new(jsonl::Reader::new(stream::text(source)?, columns)?),
            Format::Csv => {
                let table = Table::Csv { delimiter: columns.delimiter };
                Box::new(table::Reader::new(table, columns, stream::text(source)?)?)
            }
            Format::Tsv => Box::new(table::Reader::new(Table::Tsv, columns, stream::text(source)?)?),
            Format::Lines => Box::new(lines::Reader::new(stream::text(source)?, columns.notation)),
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
        if start.first() == Some(&binary::MAGIC[0]) {
            return Ok(Format::Binary);
        }
        if start.starts_with(&parquet::BEGINNING) {
            return Ok(Format::Parquet);
        }
        stream::text(start)?;
        let text = start.strip_prefix(stream::BYTE_ORDER_MARK).unwrap_or(start).trim_ascii_start();
        if text.is_empty() || text[0] == b'{' {
            return Ok(Format::Jsonl);
        }
        bail!(
            "the input is neither a siltstone export nor lines of JSON: it begins with \"{}\"; state the format with \
             --format: csv or tsv for tables, lines for keys alone",
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
        Columns {
            key: None,
            values: None,
            has_header: false,
            is_ragged: false,
            delimiter: b',',
            notation: Notation::Plain,
            null: None,
        }
    }

    /// Reads all records, or returns the first error with its place.
    pub fn all(mut source: RecordSource<'_>) -> anyhow::Result<Vec<Record>> {
        let mut records = Vec::new();
        loop {
            match source.next() {
                Ok(Some(record)) => records.push(record),
                Ok(None) => return Ok(records),
                Err(fault) => return Err(fault.into_error().context(source.place())),
            }
        }
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

    fn read(format: Option<Format>, columns: &Columns, bytes: &[u8]) -> anyhow::Result<Vec<Record>> {
        all(Format::source(format, columns, bytes)?)
    }

    #[test]
    fn an_input_in_another_format_is_refused_with_its_name() {
        for (input, message) in
            [(&b"{\0\"\0k\0"[..], "UTF-16LE"), (b"\x7fELF", "ELF"), (b"word,meaning\n", "word,meaning")]
        {
            let error = read(None, &columns(), input).unwrap_err().to_string();
            assert!(error.contains(message) && !error.contains("expected value"), "{error}");
        }
        for empty in [&b""[..], b"\n \n", b"\xef\xbb\xbf"] {
            assert_eq!(read(None, &columns(), empty).unwrap(), []);
        }
        let marked = b"\xef\xbb\xbf{\"key\":\"k\",\"value\":\"v\"}\n";
        assert_eq!(read(None, &columns(), marked).unwrap().len(), 1);
    }

    fn exported(
        format: Format,
        notation: NotationArgs,
        delimiter: u8,
        records: &[Record],
    ) -> anyhow::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut sink = format.sink(&mut bytes, notation, delimiter)?;
        records.iter().try_for_each(|record| sink.write(record))?;
        sink.finish()?;
        drop(sink);
        Ok(bytes)
    }

    const NOTATIONS: [NotationArgs; 3] = [
        NotationArgs { hex: false, escaped: false },
        NotationArgs { hex: true, escaped: false },
        NotationArgs { hex: false, escaped: true },
    ];

    /// Exports, imports, and compares, unless the format refuses a record.
    fn imported_equals_exported(records: &[Record], delimiter: u8) -> usize {
        let mut refused = 0;
        for format in [Format::Binary, Format::Jsonl, Format::Csv, Format::Tsv, Format::Lines] {
            for notation in NOTATIONS {
                let Ok(bytes) = exported(format, notation, delimiter, records) else {
                    assert!(matches!(format, Format::Tsv | Format::Lines), "{format:?} takes all records");
                    refused += 1;
                    continue;
                };
                let columns = Columns { notation: notation.typed(), delimiter, ..columns() };
                let plain = stream::decompressed(std::io::Cursor::new(bytes.clone())).unwrap();
                let stated = (format != Format::Jsonl && format != Format::Binary).then_some(format);
                let read = all(Format::source(stated, &columns, std::io::BufReader::new(plain)).unwrap());
                assert_eq!(
                    read.unwrap(),
                    records,
                    "{format:?} {notation:?} {:?}",
                    bytes.escape_ascii().to_string()
                );
            }
        }
        refused
    }

    #[test]
    fn exports_are_imported_in_every_format_with_the_same_bytes() {
        assert_eq!(
            imported_equals_exported(&some_records(), b','),
            4,
            "lines have no values, and a tab needs escapes"
        );
        let record = |key: Vec<u8>, value: Vec<u8>, expires_at_ms| Record {
            key: Bytes::from(key),
            value: Bytes::from(value),
            expires_at_ms,
        };
        // What begins or ends like something else: marks, other encodings, compressed data, ends of lines, quotes.
        let mut texts: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
        for start in [
            &b"\xef\xbb\xbf"[..],
            b"\xff\xfe",
            b"\xfe\xff",
            b"a\0b\0",
            b"\0a\0b",
            b"a\0\0\0",
            b"\x1f\x8b\x08",
            b"BZh91AY&SY",
            b"\x28\xb5\x2f\xfd",
            b"PK\x03\x04",
            b"PAR1",
            b"\x93SILTEXP",
            b"\r\n",
            b"\"\"",
            b"\"a",
            b"a\"",
            b"key",
            b" a ",
            b"{",
            b"=1",
            b"#",
            b"\\",
            b"\\n",
            b"a\r",
            b"1e5",
            b"null",
        ] {
            texts.extend([start.to_vec(), start.repeat(20)]);
        }
        for delimiter in [b',', b';', b'|', b'\t', b' ', b'k', b'0'] {
            for text in &texts {
                imported_equals_exported(&[record(text.clone(), text.clone(), 0)], delimiter);
                imported_equals_exported(&[record(text.clone(), Vec::new(), 0)], delimiter);
            }
        }
        let mut random = fastrand_like(1);
        for _ in 0..500 {
            let mut text =
                |longest: usize| (0..random(longest)).map(|_| random(256) as u8).collect::<Vec<_>>();
            let records: Vec<_> =
                (0..3).map(|at| record([&[at], &text(9)[..]].concat(), text(20), at.into())).collect();
            imported_equals_exported(&records, b',');
        }
    }

    /// Numbers below a limit.
    fn fastrand_like(mut state: u64) -> impl FnMut(usize) -> usize {
        move |below| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
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
