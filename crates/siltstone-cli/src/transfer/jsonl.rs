//! JSONL: one JSON object per line. UTF-8 keys and values are strings in the fields `key` and `value`; other bytes are
//! in `key_base64` and `value_base64`, or `key_hex` and `value_hex`. `expires_at_ms` is present if the record expires.
//! Objects with other fields are read by the names of these, `fields` has the rules.

use super::columns::Columns;
use super::fields::{Fields, described};
use super::{Fault, RecordSink, Source};
use crate::stream::Lines;
use anyhow::{anyhow, bail};
use data_encoding::{BASE64, HEXLOWER, HEXLOWER_PERMISSIVE};
use serde::{Deserialize, Deserializer, Serialize};
use siltstone::key::{KEY_LENGTH_MAX, VALUE_LENGTH_MAX};
use siltstone::{Bytes, Record};
use std::borrow::Cow;
use std::io::{BufRead, Write};

/// The maximum length of a line: the longest value in hex, or as text with escapes, and a key of escapes.
const LINE_BYTES_MAX: usize = 2 * VALUE_LENGTH_MAX + 6 * KEY_LENGTH_MAX + 1024;

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    #[serde(default, skip_serializing_if = "Option::is_none", borrow)]
    key: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key_hex: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key_base64: Option<String>,
    /// Null is `Some(None)`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    value: Option<Option<Cow<'a, str>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value_hex: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value_base64: Option<String>,
    #[serde(default, skip_serializing_if = "is_never", deserialize_with = "never_if_null")]
    expires_at_ms: u64,
}

fn is_never(expires_at_ms: &u64) -> bool {
    *expires_at_ms == 0
}

fn never_if_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(Option::<u64>::deserialize(deserializer)?.unwrap_or_default())
}

/// Distinguishes null from a field that is missing.
fn present<'de, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<Cow<'a, str>>>, D::Error> {
    Option::<Cow<'a, str>>::deserialize(deserializer).map(Some)
}

/// Writes JSONL.
pub struct Writer<W> {
    target: W,
    hex: bool,
}

impl<W: Write> Writer<W> {
    /// Creates a writer; bytes that are not UTF-8 are written in hex or in Base64.
    pub fn new(target: W, hex: bool) -> Self {
        Writer { target, hex }
    }
}

impl<W: Write> RecordSink for Writer<W> {
    fn write(&mut self, record: &Record) -> anyhow::Result<()> {
        write_line(&mut self.target, record, true, self.hex)
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        Ok(self.target.flush()?)
    }
}

/// Writes a record as a line, with or without its value. Bytes that are not UTF-8 are in hex or in Base64.
pub fn write_line(
    target: &mut impl Write,
    record: &Record,
    with_value: bool,
    hex: bool,
) -> anyhow::Result<()> {
    let mut line = Line { expires_at_ms: record.expires_at_ms, ..Line::default() };
    match std::str::from_utf8(&record.key) {
        Ok(text) => line.key = Some(text.into()),
        Err(_) if hex => line.key_hex = Some(HEXLOWER.encode(&record.key)),
        Err(_) => line.key_base64 = Some(BASE64.encode(&record.key)),
    }
    if with_value {
        match std::str::from_utf8(&record.value) {
            Ok(text) if is_short_as_text(text) => line.value = Some(Some(text.into())),
            _ if hex => line.value_hex = Some(HEXLOWER.encode(&record.value)),
            _ => line.value_base64 = Some(BASE64.encode(&record.value)),
        }
    }
    serde_json::to_writer(&mut *target, &line).map_err(std::io::Error::from)?;
    Ok(target.write_all(b"\n")?)
}

/// Returns whether a line with this text, and escapes, is one that is read again.
fn is_short_as_text(text: &str) -> bool {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' => 2,
        ..b' ' => 6,
        _ => 1,
    };
    text.len() <= VALUE_LENGTH_MAX / 3 || text.bytes().map(escaped).sum::<usize>() <= 2 * VALUE_LENGTH_MAX
}

/// Reads JSONL. Empty lines are skipped.
pub struct Reader<R> {
    lines: Lines<R>,
    needs_values: bool,
    null: Option<String>,
    fields: Option<Fields>,
}

impl<R: BufRead> Reader<R> {
    /// Creates a reader. If it needs no values, they may be missing.
    pub fn new(source: R, columns: &Columns) -> anyhow::Result<Self> {
        let (lines, needs_values) = (Lines::new(source, LINE_BYTES_MAX), columns.has_values());
        Ok(Reader { lines, needs_values, null: columns.null.clone(), fields: Fields::of(columns)? })
    }
}

impl<R: BufRead> Source for Reader<R> {
    fn next(&mut self) -> Result<Option<Record>, Fault> {
        loop {
            let line = match self.lines.next().map_err(|error| Fault::Fatal(error.into()))? {
                None => return Ok(None),
                Some(line) => line.map_err(Fault::Bad)?,
            };
            if line.trim_ascii().is_empty() {
                continue;
            }
            let record = match &self.fields {
                Some(fields) => fields.record(line),
                None => parse(line, self.needs_values, self.null.as_deref()),
            };
            return record.map(Some).map_err(Fault::Bad);
        }
    }

    fn place(&self) -> String {
        format!("line {}", self.lines.number())
    }
}

/// Reads a record. `null` is the text that is stored for a value that is null.
fn parse(line: &[u8], needs_value: bool, null: Option<&str>) -> anyhow::Result<Record> {
    let line: Line<'_> = serde_json::from_slice(line).map_err(|error| described(&error))?;
    let is_alone = line.value_hex.is_none() && line.value_base64.is_none();
    let text = match (line.value, null) {
        (Some(None), Some(null)) if needs_value && is_alone => Some(Cow::Owned(null.to_owned())),
        (Some(None), None) if needs_value && is_alone => {
            bail!("the field value: is null; --null states what is stored")
        }
        (text, _) => text.flatten(),
    };
    let has_value = text.is_some() || !is_alone;
    Ok(Record {
        key: one_of("key", line.key, line.key_hex, line.key_base64)?,
        value: match needs_value || has_value {
            true => one_of("value", text, line.value_hex, line.value_base64)?,
            false => Bytes::new(),
        },
        expires_at_ms: line.expires_at_ms,
    })
}

fn one_of(
    name: &str,
    text: Option<Cow<'_, str>>,
    hex: Option<String>,
    base64: Option<String>,
) -> anyhow::Result<Bytes> {
    match (text, hex, base64) {
        (Some(text), None, None) => Ok(Bytes::from(text.into_owned())),
        (None, Some(hex), None) => {
            let bytes = HEXLOWER_PERMISSIVE.decode(hex.as_bytes());
            bytes.map(Bytes::from).map_err(|error| anyhow!("{name}_hex is not hex: {error}"))
        }
        (None, None, Some(base64)) => {
            let bytes = BASE64.decode(base64.as_bytes());
            bytes.map(Bytes::from).map_err(|error| anyhow!("{name}_base64 is not Base64: {error}"))
        }
        _ => bail!("expected exactly one of {name}, {name}_hex and {name}_base64"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::columns;
    use super::*;

    #[test]
    fn text_stays_readable() {
        let mut bytes = Vec::new();
        let record = Record { key: "k".into(), value: "grün\n".into(), expires_at_ms: 0 };
        Writer::new(&mut bytes, false).write(&record).unwrap();
        assert_eq!(String::from_utf8(bytes).unwrap(), "{\"key\":\"k\",\"value\":\"grün\\n\"}\n");
    }

    #[test]
    fn an_invalid_line_is_named_by_its_number() {
        for wrong in [
            "{\"key\":\"a\"}",
            "{\"value\":\"a\"}",
            "{\"key\":\"a\",\"key_hex\":\"61\",\"value\":\"\"}",
            "{\"key_hex\":\"6\",\"value\":\"\"}",
            "{\"key_base64\":\"?\",\"value\":\"\"}",
            "{\"key\":\"a\",\"value\":\"\",\"other\":1}",
            "[1]",
            "\u{0}",
        ] {
            let lines =
                format!("{{\"key\":\"a\",\"value\":\"\"}}\n\n{wrong}\n{{\"key\":\"b\",\"value\":\"\"}}\n");
            let mut reader = Reader::new(lines.as_bytes(), &columns()).unwrap();
            assert!(reader.next().is_ok());
            let Err(Fault::Bad(error)) = reader.next() else { panic!("{wrong} is taken") };
            assert!(!error.to_string().contains("line 1"), "{error}");
            assert_eq!(reader.place(), "line 3");
            assert_eq!(reader.next().unwrap().unwrap().key, "b", "the next line is read");
        }
    }

    #[test]
    fn null_is_what_the_user_states_and_no_expiry_time() {
        let read = |line: &str, null: Option<&str>| {
            let columns = Columns { null: null.map(str::to_owned), ..columns() };
            match Reader::new(line.as_bytes(), &columns).unwrap().next() {
                Ok(record) => Ok(record.unwrap()),
                Err(fault) => Err(fault.into_error().to_string()),
            }
        };
        let line = r#"{"key":"a","value":null,"expires_at_ms":null}"#;
        let record = read(line, Some("none")).unwrap();
        assert_eq!((&record.key[..], &record.value[..], record.expires_at_ms), (&b"a"[..], &b"none"[..], 0));
        assert!(read(line, None).unwrap_err().contains("--null"));
        assert!(read(r#"{"key":"a"}"#, Some("none")).unwrap_err().contains("exactly one"));
        let hex = read(r#"{"key":"a","value":null,"value_hex":"62"}"#, Some("none")).unwrap();
        assert_eq!(hex.value, "b");
    }
}
