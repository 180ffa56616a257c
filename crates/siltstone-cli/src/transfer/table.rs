//! CSV and TSV: one record per row, with the key in one column and the value in one or more others.

use super::columns::{Columns, EXPIRES_AT_MS, NAMES, Places};
use super::rows::Rows;
use super::{Fault, RecordSink, Source};
use crate::notation::Notation;
use anyhow::{Context, anyhow, bail, ensure};
use siltstone::key::{KEY_LENGTH_MAX, VALUE_LENGTH_MAX};
use siltstone::{Bytes, Record};
use siltstone_bench::quantity::counted;
use std::io::{BufRead, Write};

/// The format of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// RFC 4180: a delimiter, mostly a comma, and quotes if needed.
    Csv { delimiter: u8 },
    /// Tabs without quotes: a field cannot contain a tab or a newline.
    Tsv,
}

impl Table {
    fn delimiter(self) -> u8 {
        match self {
            Table::Csv { delimiter } => delimiter,
            Table::Tsv => b'\t',
        }
    }

    fn has_quotes(self) -> bool {
        self != Table::Tsv
    }

    fn writer<W: Write>(self, target: W) -> csv::Writer<W> {
        let style = if self.has_quotes() { csv::QuoteStyle::Necessary } else { csv::QuoteStyle::Never };
        csv::WriterBuilder::new()
            .delimiter(self.delimiter())
            .quote_style(style)
            .flexible(true)
            .from_writer(target)
    }
}

/// Parses a delimiter of CSV.
pub fn parse_delimiter(text: &str) -> Result<u8, String> {
    match *text.as_bytes() {
        [byte] if !matches!(byte, b'"' | b'\r' | b'\n') => Ok(byte),
        _ if matches!(text, "tab" | "\\t") => Ok(b'\t'),
        _ => Err("expected one ASCII character other than a quote, or `tab`".to_owned()),
    }
}

/// Returns the most bytes of a row that are needed for a record: its key and its value in this notation.
fn row_bytes_max(notation: Notation) -> usize {
    let bytes_per_byte = match notation {
        Notation::Plain => 1,
        Notation::Hex => 2,
        Notation::Escaped => 4,
    };
    bytes_per_byte * (KEY_LENGTH_MAX + VALUE_LENGTH_MAX) + 1024
}

/// Reads the records of a table.
pub struct Reader<R> {
    rows: Rows<R>,
    table: Table,
    places: Places,
    /// The number of fields of the first row, and whether others may have another one.
    width: usize,
    is_ragged: bool,
    notation: Notation,
    /// Whether the first row is a record that was not returned yet.
    has_first: bool,
}

impl<R: BufRead> Reader<R> {
    /// Creates a reader and finds the columns.
    pub fn new(table: Table, columns: &Columns, source: R) -> anyhow::Result<Reader<R>> {
        let limit = row_bytes_max(columns.notation);
        let mut rows = Rows::new(source, table.delimiter(), table.has_quotes(), limit);
        let has_first = rows.next().map_err(|fault| fault.into_error().context("the first row"))?;
        let width = rows.columns();
        let places = match has_first {
            true => {
                let first: Vec<&[u8]> = (0..width).filter_map(|column| rows.field(column)).collect();
                Places::find(columns, &first).context("the first row")?
            }
            false => Places { key: 0, values: Vec::new(), expires_at_ms: None, has_header: false },
        };
        rows.keep(places.all());
        let (is_ragged, notation) = (columns.is_ragged, columns.notation);
        Ok(Reader {
            rows,
            table,
            width,
            is_ragged,
            notation,
            has_first: has_first && !places.has_header,
            places,
        })
    }

    fn record(&self) -> anyhow::Result<Record> {
        let width = self.rows.columns();
        ensure!(
            self.is_ragged || width == self.width,
            "the row has {}, but the first row has {}; fields with delimiters need quotes, and --ragged takes rows of \
             any length",
            counted(width as u64, "field"),
            self.width
        );
        let field = |column: usize| {
            let wanted = column + 1;
            let field = self.rows.field(column);
            field.with_context(|| format!("column {wanted} is missing; the row ends with column {width}"))
        };
        let value = match self.places.values[..] {
            [] => Vec::new(),
            [column] => self.notation.parse(field(column)?)?,
            _ => {
                let mut row = self.table.writer(Vec::new());
                let fields = self.places.values.iter().map(|&column| field(column));
                row.write_byte_record(&fields.collect::<anyhow::Result<_>>()?)?;
                let mut bytes = row.into_inner().map_err(|error| anyhow!("cannot write a row: {error}"))?;
                ensure!(bytes.pop() == Some(b'\n'), "a row has no end");
                bytes
            }
        };
        let key = Bytes::from(self.notation.parse(field(self.places.key)?)?);
        let expires_at_ms = self.places.expires_at_ms.map(|column| time(field(column)?)).transpose()?;
        Ok(Record { key, value: value.into(), expires_at_ms: expires_at_ms.unwrap_or(0) })
    }
}

/// Parses an expiry time. An empty one is none.
fn time(field: &[u8]) -> anyhow::Result<u64> {
    match str::from_utf8(field).map(str::trim) {
        Ok("") => Ok(0),
        Ok(text) if text.parse::<u64>().is_ok() => Ok(text.parse()?),
        _ => {
            bail!("{EXPIRES_AT_MS}: {} is no time in milliseconds since 1970", Notation::Escaped.show(field))
        }
    }
}

impl<R: BufRead> Source for Reader<R> {
    fn next(&mut self) -> Result<Option<Record>, Fault> {
        if !std::mem::take(&mut self.has_first) && !self.rows.next()? {
            return Ok(None);
        }
        self.record().map(Some).map_err(Fault::Bad)
    }

    fn place(&self) -> String {
        format!("line {}", self.rows.row_line())
    }
}

/// Writes records as rows, after one with the names of the columns.
pub struct Writer<W: Write> {
    rows: csv::Writer<W>,
    table: Table,
    notation: Notation,
}

impl<W: Write> Writer<W> {
    /// Creates a writer, and writes the names.
    pub fn new(table: Table, notation: Notation, target: W) -> anyhow::Result<Writer<W>> {
        let mut rows = table.writer(target);
        rows.write_record(NAMES)?;
        Ok(Writer { rows, table, notation })
    }
}

impl<W: Write> RecordSink for Writer<W> {
    fn write(&mut self, record: &Record) -> anyhow::Result<()> {
        let (key, value) = (self.notation.bytes(&record.key), self.notation.bytes(&record.value));
        let fits = |field: &[u8]| !field.iter().any(|byte| b"\t\n\r".contains(byte));
        ensure!(
            self.table.has_quotes() || (fits(&key) && fits(&value)),
            "the record of {} contains a tab or a newline; use --escaped, --hex or CSV",
            Notation::Escaped.show(&record.key)
        );
        let expires_at_ms =
            if record.expires_at_ms == 0 { String::new() } else { record.expires_at_ms.to_string() };
        Ok(self.rows.write_record([&key[..], &value, expires_at_ms.as_bytes()])?)
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        Ok(self.rows.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::columns::{Column, ColumnList};
    use super::super::tests::{all, columns as by_default};
    use super::*;

    const CSV: Table = Table::Csv { delimiter: b',' };

    fn columns(key: &str, values: &str, has_header: bool) -> Columns {
        let (key, values) = (key.parse().unwrap(), values.parse::<ColumnList>().unwrap().0);
        Columns { key: Some(key), values: Some(values), has_header, ..by_default() }
    }

    fn read(table: Table, columns: &Columns, text: &str) -> anyhow::Result<Vec<(String, String)>> {
        let utf8 = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        let records = all(Box::new(Reader::new(table, columns, text.as_bytes())?))?;
        Ok(records.iter().map(|record| (utf8(&record.key), utf8(&record.value))).collect())
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    #[test]
    fn columns_are_chosen_by_number_or_by_name() {
        let text = "id,name,note\n7,Ada,\"a, b\"\n8,Ben,\"say \"\"hi\"\" \"\n";
        let by_name = read(CSV, &columns("name", "note", false), text).unwrap();
        assert_eq!(by_name, pairs(&[("Ada", "a, b"), ("Ben", "say \"hi\" ")]));
        let by_number = read(CSV, &columns("1", "2", true), text).unwrap();
        assert_eq!(by_number, pairs(&[("7", "Ada"), ("8", "Ben")]));
        let headless = read(CSV, &columns("1", "2", false), text).unwrap();
        assert_eq!(headless[0], ("id".to_owned(), "name".to_owned()));
        let several = read(CSV, &columns("id", "name,note", false), text).unwrap();
        assert_eq!(several, pairs(&[("7", "Ada,\"a, b\""), ("8", "Ben,\"say \"\"hi\"\" \"")]));
        let spaced = read(Table::Tsv, &columns("1", "2,3", false), "a\tb\t\nc\td \t \n").unwrap();
        assert_eq!(spaced, pairs(&[("a", "b\t"), ("c", "d \t ")]));
        let semicolons = read(Table::Csv { delimiter: b';' }, &columns("1", "2", false), "a;1,5\n").unwrap();
        assert_eq!(semicolons, pairs(&[("a", "1,5")]));
    }

    #[test]
    fn tabs_separate_fields_and_quotes_are_literal() {
        let text = "a\t\"x\n\"b\ty\"\n";
        let got = read(Table::Tsv, &columns("1", "2", false), text).unwrap();
        assert_eq!(got, pairs(&[("a", "\"x"), ("\"b", "y\"")]));
    }

    #[test]
    fn rows_of_another_length_are_reported_with_their_line_unless_they_are_taken() {
        for (row, fields) in [("b", "1 field,"), ("k1,Smith, John", "3 fields")] {
            let text = format!("k,v\na,1\n{row}\n");
            let error = format!("{:#}", read(CSV, &columns("k", "v", false), &text).unwrap_err());
            assert!(error.contains("line 3") && error.contains(fields), "{error}");
        }
        let ragged = Columns { is_ragged: true, ..columns("k", "v", false) };
        let read_ragged = read(CSV, &ragged, "k,v\na,1,2\nb\n").unwrap_err();
        assert!(format!("{read_ragged:#}").contains("column 2 is missing"), "{read_ragged:#}");
        assert_eq!(read(CSV, &ragged, "k,v\na,1,2\n").unwrap(), pairs(&[("a", "1")]));
        let error = read(CSV, &columns("other", "v", false), "k,v\n").unwrap_err();
        assert!(format!("{error:#}").contains("named other; the columns are k, v"), "{error:#}");
        assert!("0".parse::<Column>().is_err());
    }

    #[test]
    fn expiry_times_are_read_from_their_column() {
        let read = |text: &str| all(Box::new(Reader::new(CSV, &by_default(), text.as_bytes())?));
        let records = read("key,value,expires_at_ms\na,1,1700000000000\nb,2,\n").unwrap();
        assert_eq!([records[0].expires_at_ms, records[1].expires_at_ms], [1_700_000_000_000, 0]);
        let error = format!("{:#}", read("key,value,expires_at_ms\na,1,soon\n").unwrap_err());
        assert!(error.contains("line 2") && error.contains("soon"), "{error}");
    }

    #[test]
    fn delimiters_are_single_characters() {
        assert_eq!([";", "tab", "\\t", "|"].map(parse_delimiter), [Ok(b';'), Ok(b'\t'), Ok(b'\t'), Ok(b'|')]);
        assert!(["", ";;", "\"", "\n", "\u{fc}"].map(parse_delimiter).iter().all(Result::is_err));
    }
}
