//! Reads a key and a value from the columns of a file. A row group is read page by page.

use super::writer::EXPIRES_AT_MS;
use crate::notation::Notation;
use crate::transfer::table::{Column, Columns};
use ::parquet::basic::ConvertedType;
use ::parquet::file::reader::FileReader;
use ::parquet::file::serialized_reader::SerializedFileReader;
use ::parquet::record::reader::RowIter;
use ::parquet::record::{Field, Row};
use ::parquet::schema::types::{Type, TypePtr};
use anyhow::{Context, bail, ensure};
use indicatif::ProgressBar;
use serde_json::{Map, Value};
use siltstone::{Bytes, Record};
use std::fs::File;
use std::sync::Arc;

/// The number of rows after which the bar advances.
const ROWS_PER_STEP: u64 = 1024;
/// The range of dates and times that have a year of at most six digits, in days and in seconds since 1970.
const DAYS_MAX: u64 = 90_000_000;
const SECONDS_MAX: u64 = DAYS_MAX * 86_400;

/// Reads the records of a file.
pub struct Reader {
    rows: RowIter<'static>,
    /// Places in a row, which has only the columns that are needed.
    key: usize,
    values: Vec<usize>,
    expires_at_ms: Option<usize>,
    notation: Notation,
    read: u64,
    all: u64,
    bytes: u64,
    bar: ProgressBar,
    ended: bool,
}

impl Reader {
    /// Reads the end of the file, and finds the columns.
    pub fn new(file: File, columns: &Columns, bar: ProgressBar) -> anyhow::Result<Reader> {
        let bytes = file.metadata()?.len();
        let reader = SerializedFileReader::new(file)?;
        let metadata = reader.metadata().file_metadata();
        let all = u64::try_from(metadata.num_rows()).context("the number of rows is negative")?;
        let schema = metadata.schema_descr().root_schema_ptr();
        let fields = schema.get_fields();
        let key = find(fields, &columns.key)?;
        let values: Vec<usize> =
            columns.values.iter().map(|column| find(fields, column)).collect::<Result<_, _>>()?;
        let expires_at_ms = fields.iter().position(|field| field.name() == EXPIRES_AT_MS);
        let expires_at_ms = expires_at_ms
            .filter(|place| !columns.values.is_empty() && *place != key && !values.contains(place));
        let mut needed: Vec<usize> = values.iter().copied().chain([key]).chain(expires_at_ms).collect();
        needed.sort_unstable();
        needed.dedup();
        let kept: Vec<TypePtr> = needed.iter().map(|&place| fields[place].clone()).collect();
        kept.iter().try_for_each(check)?;
        let kept = Type::group_type_builder(schema.name()).with_fields(kept).build()?;
        let place = |wanted: usize| needed.partition_point(|&place| place < wanted);
        Ok(Reader {
            rows: RowIter::from_file_into(Box::new(reader)).project(Some(kept))?,
            key: place(key),
            values: values.into_iter().map(place).collect(),
            expires_at_ms: expires_at_ms.map(place),
            notation: columns.notation,
            read: 0,
            all,
            bytes,
            bar,
            ended: false,
        })
    }

    fn next_record(&mut self) -> anyhow::Result<Option<Record>> {
        let row = self.rows.next();
        if row.is_none() || self.read.is_multiple_of(ROWS_PER_STEP) {
            // The first step is 0, and the last one reaches the end.
            let position = |rows: u64| (self.bytes as f64 * rows as f64 / self.all.max(1) as f64) as u64;
            let begin = self.read.saturating_sub(1) / ROWS_PER_STEP * ROWS_PER_STEP;
            self.bar.inc(position(self.read).saturating_sub(position(begin)));
        }
        let Some(row) = row else { return Ok(None) };
        self.read += 1;
        row.map_err(anyhow::Error::from)
            .and_then(|row| self.record(&row))
            .map(Some)
            .with_context(|| format!("row {}", self.read))
    }

    fn record(&self, row: &Row) -> anyhow::Result<Record> {
        let cells: Vec<(&String, &Field)> = row.get_column_iter().collect();
        let cell = |place: usize| cells.get(place).copied().context("a column is missing");
        let bytes = |place: usize| {
            let (name, field) = cell(place)?;
            self.bytes(field).with_context(|| format!("column {name}"))
        };
        let value = match self.values[..] {
            [] => Vec::new(),
            [column] => bytes(column)?,
            _ => {
                let mut object = Map::new();
                for &place in &self.values {
                    let (name, field) = cell(place)?;
                    let value = json(field).with_context(|| format!("column {name}"))?;
                    object.insert(name.clone(), value);
                }
                serde_json::to_vec(&object)?
            }
        };
        let expires_at_ms = match self.expires_at_ms.map(cell).transpose()? {
            None | Some((_, Field::Null)) => 0,
            Some((_, &Field::ULong(time))) => time,
            Some((_, &Field::Long(time))) if time >= 0 => time.cast_unsigned(),
            Some((name, other)) => bail!("column {name}: {other} is no time in milliseconds since 1970"),
        };
        let key = Bytes::from(bytes(self.key)?);
        Ok(Record { key, value: value.into(), expires_at_ms })
    }

    /// Returns what is stored of a cell: its bytes, its text, or its JSON.
    fn bytes(&self, field: &Field) -> anyhow::Result<Vec<u8>> {
        match field {
            Field::Bytes(bytes) => Ok(bytes.data().to_vec()),
            Field::Str(text) => self.notation.parse(text.as_bytes()),
            Field::Null => bail!("the cell is null; a single column must have a value in each row"),
            field => match json(field)? {
                Value::Null => bail!("{field} cannot be stored as a number"),
                Value::String(text) => Ok(text.into_bytes()),
                value => Ok(serde_json::to_vec(&value)?),
            },
        }
    }
}

impl Iterator for Reader {
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

fn find(fields: &[TypePtr], column: &Column) -> anyhow::Result<usize> {
    match column {
        Column::Number(number) => {
            ensure!(*number <= fields.len(), "there is no column {number}; the last one is {}", fields.len());
            Ok(number - 1)
        }
        Column::Name(name) => fields.iter().position(|field| field.name() == name).with_context(|| {
            let names: Vec<_> = fields.iter().map(|field| field.name()).collect();
            format!("no column is named {name}; the columns are {}", names.join(", "))
        }),
    }
}

/// Refuses the one type that the library cannot convert.
fn check(field: &Arc<Type>) -> anyhow::Result<()> {
    ensure!(
        field.get_basic_info().converted_type() != ConvertedType::INTERVAL,
        "the column {} has intervals of time, which cannot be imported; choose others",
        field.name()
    );
    match field.is_group() {
        true => field.get_fields().iter().try_for_each(check),
        false => Ok(()),
    }
}

/// Returns a cell as JSON: bytes in Base64, dates and times as text.
fn json(field: &Field) -> anyhow::Result<Value> {
    let (time, limit) = match *field {
        Field::Date(days) => (days.unsigned_abs().into(), DAYS_MAX),
        Field::TimestampMillis(time) => (time.unsigned_abs(), SECONDS_MAX * 1000),
        Field::TimestampMicros(time) => (time.unsigned_abs() / 1000, SECONDS_MAX * 1000),
        _ => (0, 0),
    };
    ensure!(time <= limit, "a date is more than 240,000 years from 1970");
    Ok(match field {
        Field::Group(row) => {
            let cells = row.get_column_iter().map(|(name, field)| Ok((name.clone(), json(field)?)));
            Value::Object(cells.collect::<anyhow::Result<_>>()?)
        }
        Field::ListInternal(list) => {
            Value::Array(list.elements().iter().map(json).collect::<anyhow::Result<_>>()?)
        }
        Field::MapInternal(map) => {
            let entries = map.entries().iter().map(|(key, value)| {
                let key = match json(key)? {
                    Value::String(text) => text,
                    other => other.to_string(),
                };
                Ok((key, json(value)?))
            });
            Value::Object(entries.collect::<anyhow::Result<_>>()?)
        }
        field => field.to_json_value(),
    })
}
