//! CSV and TSV: one record per row, with the key in one column and the value in one or more others.

use super::RecordSink;
use crate::notation::Notation;
use anyhow::{Context, anyhow, ensure};
use siltstone::{Bytes, Record};
use std::io::{Read, Write};
use std::str::FromStr;

/// A column: its number, from 1 on, or its name in the first row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Column {
    Number(usize),
    Name(String),
}

impl FromStr for Column {
    type Err = String;

    fn from_str(text: &str) -> Result<Column, String> {
        match text.parse() {
            Ok(0) => Err("columns are numbered from 1".to_owned()),
            Ok(number) => Ok(Column::Number(number)),
            Err(_) => Ok(Column::Name(text.to_owned())),
        }
    }
}

/// The columns of a record.
#[derive(Debug, Clone)]
pub struct Columns {
    pub key: Column,
    /// Several columns are stored as one row with the same delimiter. None: the values are empty.
    pub values: Vec<Column>,
    /// Whether the first row has names.
    pub has_header: bool,
    pub notation: Notation,
}

/// The format of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// RFC 4180: commas, and quotes if needed.
    Csv,
    /// Tabs without quotes: a field cannot contain a tab or a newline.
    Tsv,
}

impl Table {
    fn delimiter(self) -> u8 {
        match self {
            Table::Csv => b',',
            Table::Tsv => b'\t',
        }
    }

    fn reader<R: Read>(self, source: R) -> csv::Reader<R> {
        csv::ReaderBuilder::new()
            .delimiter(self.delimiter())
            .quoting(self == Table::Csv)
            .flexible(true)
            .has_headers(false)
            .from_reader(source)
    }

    fn writer<W: Write>(self, target: W) -> csv::Writer<W> {
        let style = if self == Table::Csv { csv::QuoteStyle::Necessary } else { csv::QuoteStyle::Never };
        csv::WriterBuilder::new()
            .delimiter(self.delimiter())
            .quote_style(style)
            .flexible(true)
            .from_writer(target)
    }
}

/// Reads the records of a table.
pub struct Reader<R> {
    rows: csv::Reader<R>,
    table: Table,
    key: usize,
    values: Vec<usize>,
    notation: Notation,
    row: csv::ByteRecord,
    ended: bool,
}

impl<R: Read> Reader<R> {
    /// Creates a reader and finds the columns.
    pub fn new(table: Table, columns: &Columns, source: R) -> anyhow::Result<Reader<R>> {
        let mut rows = table.reader(source);
        let mut names = csv::ByteRecord::new();
        let is_named = |column: &Column| matches!(column, Column::Name(_));
        if columns.has_header || columns.values.iter().chain([&columns.key]).any(is_named) {
            rows.read_byte_record(&mut names).context("cannot read the names of the columns")?;
        }
        let place = |column: &Column| match column {
            Column::Number(number) => Ok(number - 1),
            Column::Name(name) => names.iter().position(|field| field == name.as_bytes()).ok_or_else(|| {
                let names: Vec<_> = names.iter().map(|name| Notation::Escaped.show(name)).collect();
                anyhow!("no column is named {name}; the first row is {}", names.join(", "))
            }),
        };
        Ok(Reader {
            key: place(&columns.key)?,
            values: columns.values.iter().map(place).collect::<anyhow::Result<_>>()?,
            notation: columns.notation,
            rows,
            table,
            row: csv::ByteRecord::new(),
            ended: false,
        })
    }

    fn next_record(&mut self) -> anyhow::Result<Option<Record>> {
        if !self.rows.read_byte_record(&mut self.row).context("cannot read the table")? {
            return Ok(None);
        }
        let line = self.row.position().map_or(0, csv::Position::line);
        self.record().map(Some).with_context(|| format!("line {line}"))
    }

    fn record(&self) -> anyhow::Result<Record> {
        let field = |column: usize| {
            let (wanted, got) = (column + 1, self.row.len());
            self.row
                .get(column)
                .with_context(|| format!("column {wanted} is missing; the row ends with column {got}"))
        };
        let value = match self.values[..] {
            [] => Vec::new(),
            [column] => self.notation.parse(field(column)?)?,
            _ => {
                let mut row = self.table.writer(Vec::new());
                let fields = self.values.iter().map(|&column| field(column));
                row.write_byte_record(&fields.collect::<anyhow::Result<_>>()?)?;
                let mut bytes = row.into_inner().map_err(|error| anyhow!("cannot write a row: {error}"))?;
                bytes.truncate(bytes.trim_ascii_end().len());
                bytes
            }
        };
        let key = Bytes::from(self.notation.parse(field(self.key)?)?);
        Ok(Record { key, value: value.into(), expires_at_ms: 0 })
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = anyhow::Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.next_record().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

/// Writes records as rows of two columns.
pub struct Writer<W: Write> {
    rows: csv::Writer<W>,
    table: Table,
    notation: Notation,
}

impl<W: Write> Writer<W> {
    /// Creates a writer.
    pub fn new(table: Table, notation: Notation, target: W) -> Writer<W> {
        Writer { rows: table.writer(target), table, notation }
    }
}

impl<W: Write> RecordSink for Writer<W> {
    fn write(&mut self, record: &Record) -> anyhow::Result<()> {
        let (key, value) = (self.notation.bytes(&record.key), self.notation.bytes(&record.value));
        let fits = |field: &[u8]| !field.iter().any(|byte| b"\t\n\r".contains(byte));
        ensure!(
            self.table == Table::Csv || (fits(&key) && fits(&value)),
            "the record of {} contains a tab or a newline; use --escaped, --hex or CSV",
            Notation::Escaped.show(&record.key)
        );
        Ok(self.rows.write_record([key, value])?)
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        Ok(self.rows.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(key: &str, values: &[&str], has_header: bool) -> Columns {
        let values = values.iter().map(|value| value.parse().unwrap()).collect();
        Columns { key: key.parse().unwrap(), values, has_header, notation: Notation::Plain }
    }

    fn read(table: Table, columns: &Columns, text: &str) -> anyhow::Result<Vec<(String, String)>> {
        let utf8 = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        let records = Reader::new(table, columns, text.as_bytes())?;
        records.map(|record| record.map(|record| (utf8(&record.key), utf8(&record.value)))).collect()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    #[test]
    fn columns_are_chosen_by_number_or_by_name() {
        let text = "id,name,note\n7,Ada,\"a, b\"\n8,Ben,\"say \"\"hi\"\"\"\n";
        let by_name = read(Table::Csv, &columns("name", &["note"], false), text).unwrap();
        assert_eq!(by_name, pairs(&[("Ada", "a, b"), ("Ben", "say \"hi\"")]));
        let by_number = read(Table::Csv, &columns("1", &["2"], true), text).unwrap();
        assert_eq!(by_number, pairs(&[("7", "Ada"), ("8", "Ben")]));
        let headless = read(Table::Csv, &columns("1", &["2"], false), text).unwrap();
        assert_eq!(headless[0], ("id".to_owned(), "name".to_owned()));
        let several = read(Table::Csv, &columns("id", &["name", "note"], false), text).unwrap();
        assert_eq!(several, pairs(&[("7", "Ada,\"a, b\""), ("8", "Ben,\"say \"\"hi\"\"\"")]));
    }

    #[test]
    fn tabs_separate_fields_and_quotes_are_literal() {
        let text = "a\t\"x\n\"b\ty\"\n";
        let got = read(Table::Tsv, &columns("1", &["2"], false), text).unwrap();
        assert_eq!(got, pairs(&[("a", "\"x"), ("\"b", "y\"")]));
    }

    #[test]
    fn missing_columns_are_reported_with_their_line() {
        let text = "k,v\na,1\nb\n";
        let error = read(Table::Csv, &columns("k", &["v"], false), text).unwrap_err();
        assert!(format!("{error:#}").contains("line 3"), "{error:#}");
        assert!(format!("{error:#}").contains("column 2"), "{error:#}");
        let error = read(Table::Csv, &columns("other", &["v"], false), text).unwrap_err();
        assert!(format!("{error:#}").contains("named other; the first row is k, v"), "{error:#}");
        assert!("0".parse::<Column>().is_err());
    }

    #[test]
    fn rows_that_are_written_are_read_again() {
        let records = [(&b"plain"[..], &b"x"[..]), (b"a,\"b\"", b"line\nline\ttab"), (b"\xff\\", b"")];
        for (table, notation) in [
            (Table::Csv, Notation::Plain),
            (Table::Csv, Notation::Hex),
            (Table::Tsv, Notation::Escaped),
            (Table::Tsv, Notation::Hex),
        ] {
            let mut bytes = Vec::new();
            let mut writer = Writer::new(table, notation, &mut bytes);
            for (key, value) in records {
                let (key, value) = (Bytes::from_static(key), Bytes::from_static(value));
                writer.write(&Record { key, value, expires_at_ms: 0 }).unwrap();
            }
            writer.finish().unwrap();
            drop(writer);
            let columns = Columns { notation, ..columns("1", &["2"], false) };
            let read = Reader::new(table, &columns, &bytes[..]).unwrap().map(Result::unwrap);
            let read: Vec<_> = read.map(|record| (record.key, record.value)).collect();
            assert!(
                read.iter().map(|(key, value)| (&key[..], &value[..])).eq(records),
                "{table:?} {notation:?}"
            );
        }
        let mut writer = Writer::new(Table::Tsv, Notation::Plain, Vec::new());
        let record = Record { key: "a\tb".into(), value: "".into(), expires_at_ms: 0 };
        assert!(writer.write(&record).is_err());
    }
}
