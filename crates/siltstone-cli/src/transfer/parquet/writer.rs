//! Writes records as rows with the columns `key`, `value` and `expires_at_ms`.

use crate::notation::Notation;
use crate::transfer::RecordSink;
use crate::transfer::columns::EXPIRES_AT_MS;
use ::parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use ::parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::types::{Type, TypePtr};
use siltstone::{Bytes, Record};
use std::io::Write;
use std::sync::Arc;

/// The number of records or bytes after which a row group is written. A row group is in memory until then.
const GROUP_RECORDS_MAX: usize = 1 << 20;
const GROUP_BYTES_MAX: usize = 64 << 20;

/// Writes Parquet.
pub struct Writer<W> {
    target: W,
    /// Its bytes are moved to the target after each row group: it takes only what can be sent to another thread.
    file: Option<SerializedFileWriter<Vec<u8>>>,
    notation: Notation,
    keys: Vec<ByteArray>,
    values: Vec<ByteArray>,
    /// The expiry times of the records that have one, and for each record whether it has one.
    expiries: Vec<i64>,
    expires: Vec<i16>,
    bytes: usize,
}

impl<W: Write> Writer<W> {
    /// Starts the file. Keys and values are bytes, or text in another notation than [`Notation::Plain`].
    pub fn new(target: W, notation: Notation) -> anyhow::Result<Writer<W>> {
        let properties = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default()));
        let file = SerializedFileWriter::new(Vec::new(), schema(notation)?, Arc::new(properties.build()))?;
        Ok(Writer {
            target,
            file: Some(file),
            notation,
            keys: Vec::new(),
            values: Vec::new(),
            expiries: Vec::new(),
            expires: Vec::new(),
            bytes: 0,
        })
    }

    fn cell(&self, bytes: &Bytes) -> ByteArray {
        match self.notation {
            Notation::Plain => bytes.clone().into(),
            notation => notation.show(bytes).into_bytes().into(),
        }
    }

    fn write_group(&mut self) -> anyhow::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        if !self.keys.is_empty() {
            let mut group = file.next_row_group()?;
            for cells in [&self.keys, &self.values] {
                if let Some(mut column) = group.next_column()? {
                    column.typed::<ByteArrayType>().write_batch(cells, None, None)?;
                    column.close()?;
                }
            }
            if let Some(mut column) = group.next_column()? {
                column.typed::<Int64Type>().write_batch(&self.expiries, Some(&self.expires), None)?;
                column.close()?;
            }
            group.close()?;
        }
        self.keys.clear();
        self.values.clear();
        self.expiries.clear();
        self.expires.clear();
        self.bytes = 0;
        Ok(self.target.write_all(&std::mem::take(file.inner_mut()))?)
    }
}

/// Returns the three columns.
fn schema(notation: Notation) -> anyhow::Result<TypePtr> {
    let column = |name, physical, repetition, logical| {
        let column = Type::primitive_type_builder(name, physical).with_repetition(repetition);
        column.with_logical_type(logical).build().map(Arc::new)
    };
    let text = (notation != Notation::Plain).then_some(LogicalType::String);
    let number = LogicalType::integer(64, false);
    let columns = vec![
        column("key", Physical::BYTE_ARRAY, Repetition::REQUIRED, text.clone())?,
        column("value", Physical::BYTE_ARRAY, Repetition::REQUIRED, text)?,
        column(EXPIRES_AT_MS, Physical::INT64, Repetition::OPTIONAL, Some(number))?,
    ];
    Ok(Arc::new(Type::group_type_builder("record").with_fields(columns).build()?))
}

impl<W: Write> RecordSink for Writer<W> {
    fn write(&mut self, record: &Record) -> anyhow::Result<()> {
        self.keys.push(self.cell(&record.key));
        self.values.push(self.cell(&record.value));
        let expires = record.expires_at_ms != 0;
        self.expires.push(expires.into());
        if expires {
            self.expiries.push(record.expires_at_ms.cast_signed());
        }
        self.bytes += record.key.len() + record.value.len();
        if self.keys.len() >= GROUP_RECORDS_MAX || self.bytes >= GROUP_BYTES_MAX {
            self.write_group()?;
        }
        Ok(())
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        self.write_group()?;
        if let Some(file) = self.file.take() {
            self.target.write_all(&file.into_inner()?)?;
        }
        Ok(self.target.flush()?)
    }
}
