//! Reads a key and a value from the columns of a file. A row group is read page by page.

use super::json::{json, json_text};
use crate::notation::Notation;
use crate::transfer::columns::{Column, Columns, EXPIRES_AT_MS, place};
use crate::transfer::{Fault, Source};
use ::parquet::basic::ConvertedType;
use ::parquet::file::reader::FileReader;
use ::parquet::file::serialized_reader::SerializedFileReader;
use ::parquet::record::reader::RowIter;
use ::parquet::record::{Field, Row};
use ::parquet::schema::types::{Type, TypePtr};
use anyhow::{Context, bail, ensure};
use indicatif::ProgressBar;
use serde_json::Map;
use siltstone::{Bytes, Record};
use std::fs::File;
use std::sync::Arc;

/// The number of rows after which the bar advances.
const ROWS_PER_STEP: u64 = 1024;

/// Reads the records of a file.
pub struct Reader {
    rows: RowIter<'static>,
    /// Places in a row, which has only the columns that are needed.
    key: usize,
    values: Vec<usize>,
    expires_at_ms: Option<usize>,
    /// The types of the columns of a row.
    types: Vec<TypePtr>,
    notation: Notation,
    null: Option<String>,
    read: u64,
    all: u64,
    bytes: u64,
    bar: ProgressBar,
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
        let names: Vec<&[u8]> = fields.iter().map(|field| field.name().as_bytes()).collect();
        let find = |column: &Column| place(column, &names, names.len());
        let key = find(columns.key.as_ref().unwrap_or(&Column::NumberOnly(1)))?;
        let by_default = [Column::NumberOnly(2)];
        let values = columns.values.as_deref().unwrap_or(&by_default).iter().map(find);
        let values: Vec<usize> = values.collect::<anyhow::Result<_>>()?;
        let expires_at_ms = fields.iter().position(|field| field.name() == EXPIRES_AT_MS);
        let expires_at_ms =
            expires_at_ms.filter(|place| columns.has_values() && *place != key && !values.contains(place));
        let mut needed: Vec<usize> = values.iter().copied().chain([key]).chain(expires_at_ms).collect();
        needed.sort_unstable();
        needed.dedup();
        let kept: Vec<TypePtr> = needed.iter().map(|&place| fields[place].clone()).collect();
        kept.iter().try_for_each(check)?;
        let types = kept.clone();
        let kept = Type::group_type_builder(schema.name()).with_fields(kept).build()?;
        let place = |wanted: usize| needed.partition_point(|&place| place < wanted);
        Ok(Reader {
            rows: RowIter::from_file_into(Box::new(reader)).project(Some(kept))?,
            key: place(key),
            values: values.into_iter().map(place).collect(),
            expires_at_ms: expires_at_ms.map(place),
            types,
            notation: columns.notation,
            null: columns.null.clone(),
            read: 0,
            all,
            bytes,
            bar,
        })
    }

    fn record(&self, row: &Row) -> anyhow::Result<Record> {
        let cells: Vec<(&String, &Field)> = row.get_column_iter().collect();
        let cell = |place: usize| cells.get(place).copied().context("a column is missing");
        let type_of = |place: usize| self.types.get(place).map(|kind| &**kind);
        let bytes = |place: usize| {
            let (name, field) = cell(place)?;
            self.bytes(field, type_of(place)).with_context(|| format!("column {name}"))
        };
        let value = match self.values[..] {
            [] => Vec::new(),
            [column] => bytes(column)?,
            _ => {
                let mut object = Map::new();
                for &place in &self.values {
                    let (name, field) = cell(place)?;
                    let value = json(field, type_of(place)).with_context(|| format!("column {name}"))?;
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
    fn bytes(&self, field: &Field, kind: Option<&Type>) -> anyhow::Result<Vec<u8>> {
        match (field, &self.null) {
            (Field::Bytes(bytes), _) => Ok(bytes.data().to_vec()),
            (Field::Str(text), _) => self.notation.parse(text.as_bytes()),
            (Field::Null, Some(null)) => Ok(null.clone().into_bytes()),
            (Field::Null, None) => bail!("the cell is null; --null TEXT states what is stored for null"),
            (field, _) => Ok(json_text(json(field, kind)?).into_bytes()),
        }
    }
}

impl Source for Reader {
    fn next(&mut self) -> Result<Option<Record>, Fault> {
        let row = self.rows.next();
        if row.is_none() || self.read.is_multiple_of(ROWS_PER_STEP) {
            // The first step is 0, and the last one reaches the end.
            let position = |rows: u64| (self.bytes as f64 * rows as f64 / self.all.max(1) as f64) as u64;
            let begin = self.read.saturating_sub(1) / ROWS_PER_STEP * ROWS_PER_STEP;
            self.bar.inc(position(self.read).saturating_sub(position(begin)));
        }
        let Some(row) = row else { return Ok(None) };
        self.read += 1;
        let row = row.map_err(|error| Fault::Fatal(error.into()))?;
        self.record(&row).map(Some).map_err(Fault::Bad)
    }

    fn place(&self) -> String {
        format!("row {}", self.read)
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
