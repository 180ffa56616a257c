//! Apache Parquet, with the feature `parquet`: a key and one or more other columns of each row.

#[cfg(feature = "parquet")]
mod json;
#[cfg(feature = "parquet")]
mod reader;
#[cfg(feature = "parquet")]
mod writer;

use super::columns::Columns;
use super::{RecordSink, RecordSource};
use crate::notation::Notation;
use indicatif::ProgressBar;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

/// The bytes with which a file begins and ends.
pub const BEGINNING: [u8; 4] = *b"PAR1";

/// Opens a plain file that begins as Parquet does. Other inputs are copied to a temporary file: what a file of Parquet
/// contains is listed at its end.
pub fn plain_file(path: &Path) -> Option<File> {
    let mut file = File::open(path).ok().filter(|file| file.metadata().is_ok_and(|data| data.is_file()))?;
    let mut start = [0; BEGINNING.len()];
    file.read_exact(&mut start).ok()?;
    (start == BEGINNING).then_some(file)
}

/// Returns an error if this build cannot read and write Parquet.
pub fn check_built() -> anyhow::Result<()> {
    #[cfg(not(feature = "parquet"))]
    anyhow::bail!(MISSING);
    #[cfg(feature = "parquet")]
    Ok(())
}

/// Returns a reader of records. The bar advances by the length of the file.
#[cfg(feature = "parquet")]
pub fn source(file: File, columns: &Columns, bar: ProgressBar) -> anyhow::Result<RecordSource<'static>> {
    Ok(Box::new(reader::Reader::new(file, columns, bar)?))
}

/// Returns a writer of records, as text in a notation or as bytes.
#[cfg(feature = "parquet")]
pub fn sink<'a>(target: impl Write + 'a, notation: Notation) -> anyhow::Result<Box<dyn RecordSink + 'a>> {
    Ok(Box::new(writer::Writer::new(target, notation)?))
}

#[cfg(not(feature = "parquet"))]
pub fn source(_file: File, _columns: &Columns, _bar: ProgressBar) -> anyhow::Result<RecordSource<'static>> {
    anyhow::bail!(MISSING)
}

#[cfg(not(feature = "parquet"))]
pub fn sink<'a>(_target: impl Write + 'a, _notation: Notation) -> anyhow::Result<Box<dyn RecordSink + 'a>> {
    anyhow::bail!(MISSING)
}

#[cfg(not(feature = "parquet"))]
const MISSING: &str = "this `siltstone` was built without Parquet; install it with `make install FEATURES=parquet`, or \
     `cargo install --path crates/siltstone-cli --features parquet`";

#[cfg(test)]
#[cfg(not(feature = "parquet"))]
mod tests {
    use super::*;

    #[test]
    fn a_build_without_parquet_says_how_to_install_it() {
        let error = sink(Vec::new(), Notation::Plain).err().unwrap().to_string();
        assert!(error.contains("make install FEATURES=parquet"), "{error}");
        let file = tempfile::tempfile().unwrap();
        let error = source(file, &super::super::tests::columns(), ProgressBar::hidden()).err().unwrap();
        assert_eq!(error.to_string(), MISSING);
    }
}

#[cfg(test)]
#[cfg(feature = "parquet")]
mod tests {
    use super::super::Format;
    use super::super::tests::{all, columns as by_default, some_records};
    use super::*;
    use crate::notation::NotationArgs;
    use ::parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical};
    use ::parquet::data_type::{ByteArrayType, FloatType, Int64Type};
    use ::parquet::file::properties::WriterProperties;
    use ::parquet::file::writer::SerializedFileWriter;
    use ::parquet::schema::types::Type;
    use siltstone::Record;
    use std::sync::Arc;

    /// Written by pyarrow, in two row groups: three people.
    const PEOPLE: &[u8] = include_bytes!("../../../../../fixtures/people.parquet");

    fn columns(key: &str, values: &[&str]) -> Columns {
        let values = values.iter().map(|value| value.parse().unwrap()).collect();
        Columns { key: Some(key.parse().unwrap()), values: Some(values), ..by_default() }
    }

    fn read(columns: &Columns, bytes: &[u8]) -> anyhow::Result<Vec<Record>> {
        all(Format::source(None, columns, std::io::Cursor::new(bytes.to_vec()))?)
    }

    /// The records as pairs of text, or the error.
    fn people(key: &str, values: &[&str]) -> Result<Vec<(String, String)>, String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let records = read(&columns(key, values), PEOPLE).map_err(|error| format!("{error:#}"))?;
        Ok(records.iter().map(|record| (text(&record.key), text(&record.value))).collect())
    }

    fn values(key: &str, values: &[&str]) -> Vec<String> {
        people(key, values).unwrap().into_iter().map(|(_, value)| value).collect()
    }

    #[test]
    fn columns_are_chosen_by_name_or_number_in_every_row_group() {
        let by_name = people("id", &["raw"]).unwrap();
        assert_eq!(by_name.iter().map(|(key, _)| &key[..]).collect::<Vec<_>>(), ["17", "18", "19"]);
        assert_eq!(by_name, people("1", &["3"]).unwrap());
        assert_eq!(read(&columns("id", &["raw"]), PEOPLE).unwrap()[0].value, &b"\x00\xff"[..]);
        // The columns of a row are in the order of the file.
        assert_eq!(people("raw", &["id"]).unwrap()[2], ("xyz".into(), "19".into()));
        assert_eq!(people("id", &["id"]).unwrap()[1], ("18".into(), "18".into()));
    }

    #[test]
    fn several_columns_become_a_json_object_with_nulls() {
        let rows = values("id", &["name", "born", "tags", "raw", "seen", "score"]);
        let expected = [
            r#"{"born":"1815-12-10","name":"Ada","raw":"AP8=","score":1.5,"#,
            r#""seen":"2024-01-02 03:04:05.000006 +00:00","tags":["a","b"]}"#,
            r#"{"born":"1906-12-09","name":"Grace","raw":"","score":"NaN","#,
            r#""seen":"1970-01-01 00:00:00.000000 +00:00","tags":[]}"#,
            r#"{"born":null,"name":null,"raw":"eHl6","score":-3.0,"seen":null,"tags":["c"]}"#,
        ];
        assert_eq!(rows.concat(), expected.concat());
        assert_eq!(values("id", &["tags"])[0], r#"["a","b"]"#);
    }

    #[test]
    fn nulls_and_missing_columns_are_errors_with_their_row_and_name() {
        let error = |key: &str, values: &[&str]| people(key, values).unwrap_err();
        let null = error("id", &["name"]);
        assert!(null.starts_with("row 3: column name: the cell is null"), "{null}");
        let key = error("born", &["id"]);
        assert!(key.starts_with("row 3: column born: the cell is null"), "{key}");
        let with_null = Columns { null: Some("none".into()), ..columns("id", &["name"]) };
        assert_eq!(read(&with_null, PEOPLE).unwrap()[2].value, "none");
        assert_eq!(values("id", &["score"]), ["1.5", "NaN", "-3.0"]);
        let missing = error("id", &["age"]);
        assert!(missing.contains("named age; the columns are id, name, raw"), "{missing}");
        assert!(error("id", &["8"]).contains("the last one is 7"));
    }

    #[test]
    fn damaged_files_are_refused() {
        for end in [PEOPLE.len() - 1, PEOPLE.len() / 2, 8, 4] {
            assert!(read(&columns("id", &["raw"]), &PEOPLE[..end]).is_err(), "{end} bytes");
        }
    }

    #[test]
    fn records_are_exported_as_bytes_or_text_and_imported_with_their_expiry_times() {
        for notation in [
            NotationArgs::default(),
            NotationArgs { hex: true, escaped: false },
            NotationArgs { hex: false, escaped: true },
        ] {
            let mut bytes = Vec::new();
            let mut sink = Format::Parquet.sink(&mut bytes, notation, b',').unwrap();
            some_records().iter().for_each(|record| sink.write(record).unwrap());
            sink.finish().unwrap();
            drop(sink);
            for columns in [columns("key", &["value"]), columns("1", &["2"])] {
                let columns = Columns { notation: notation.typed(), ..columns };
                assert_eq!(read(&columns, &bytes).unwrap(), some_records());
            }
            // Keys alone are read without the other columns.
            let keys = read(&Columns { notation: notation.typed(), ..columns("key", &[]) }, &bytes).unwrap();
            assert!(
                keys.iter().map(|record| &record.key).eq(some_records().iter().map(|record| &record.key))
            );
        }
    }

    /// Returns a file of one row: the key `k`, a float, and a time in nanoseconds.
    fn one_row(compression: Compression, time: i64) -> Vec<u8> {
        let column = |name, physical, logical| {
            let column = Type::primitive_type_builder(name, physical).with_repetition(Repetition::REQUIRED);
            Arc::new(column.with_logical_type(logical).build().unwrap())
        };
        let nanoseconds = LogicalType::timestamp(true, TimeUnit::NANOS);
        let fields = vec![
            column("k", Physical::BYTE_ARRAY, None),
            column("f", Physical::FLOAT, None),
            column("t", Physical::INT64, Some(nanoseconds)),
        ];
        let schema = Arc::new(Type::group_type_builder("row").with_fields(fields).build().unwrap());
        let properties = Arc::new(WriterProperties::builder().set_compression(compression).build());
        let mut file = SerializedFileWriter::new(Vec::new(), schema, properties).unwrap();
        let mut group = file.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<ByteArrayType>().write_batch(&["k".into()], None, None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<FloatType>().write_batch(&[0.1], None, None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(&[time], None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        file.into_inner().unwrap()
    }

    #[test]
    fn floats_have_the_digits_that_they_need_and_nanoseconds_are_times() {
        let value = |column: &str, time: i64| {
            let file = one_row(Compression::UNCOMPRESSED, time);
            String::from_utf8(read(&columns("k", &[column]), &file).unwrap()[0].value.to_vec()).unwrap()
        };
        assert_eq!(value("f", 0), "0.1");
        assert_eq!(value("t", 1_577_836_800_000_000_001), "2020-01-01 00:00:00.000000001 +00:00");
        assert_eq!(value("t", -1), "1969-12-31 23:59:59.999999999 +00:00");
        let file = one_row(Compression::UNCOMPRESSED, 0);
        let row = read(&columns("k", &["f", "t"]), &file).unwrap()[0].value.clone();
        assert_eq!(row, r#"{"f":0.1,"t":"1970-01-01 00:00:00.000000000 +00:00"}"#);
    }

    #[test]
    fn every_compression_is_read() {
        for compression in [
            Compression::SNAPPY,
            Compression::GZIP(Default::default()),
            Compression::ZSTD(Default::default()),
            Compression::LZ4,
            Compression::LZ4_RAW,
            Compression::BROTLI(Default::default()),
        ] {
            let records = read(&columns("k", &["f"]), &one_row(compression, 0)).unwrap();
            assert_eq!(records[0].value, "0.1", "{compression}");
        }
    }
}
