//! JSONL: one JSON object per line. UTF-8 keys and values are strings in the fields `key` and `value`; other bytes are
//! in `key_base64` and `value_base64`, or `key_hex` and `value_hex`. `expires_at_ms` is present if the record expires.

use super::RecordSink;
use anyhow::{Context, anyhow, bail};
use data_encoding::{BASE64, HEXLOWER, HEXLOWER_PERMISSIVE};
use serde::{Deserialize, Serialize};
use siltstone::{Bytes, Record};
use std::borrow::Cow;
use std::io::{BufRead, Read, Write};

/// The maximum length of a line: the longest value in hex or with every byte escaped, and its key.
const LINE_BYTES_MAX: u64 = 7 << 28;

/// The mark that some programs write before UTF-8; it is not part of the text.
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    #[serde(default, skip_serializing_if = "Option::is_none", borrow)]
    key: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key_hex: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key_base64: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", borrow)]
    value: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value_hex: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value_base64: Option<String>,
    #[serde(default, skip_serializing_if = "is_never")]
    expires_at_ms: u64,
}

fn is_never(expires_at_ms: &u64) -> bool {
    *expires_at_ms == 0
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
            Ok(text) => line.value = Some(text.into()),
            Err(_) if hex => line.value_hex = Some(HEXLOWER.encode(&record.value)),
            Err(_) => line.value_base64 = Some(BASE64.encode(&record.value)),
        }
    }
    serde_json::to_writer(&mut *target, &line).map_err(std::io::Error::from)?;
    Ok(target.write_all(b"\n")?)
}

/// Reads JSONL. Empty lines are skipped.
pub struct Reader<R> {
    source: R,
    needs_values: bool,
    line: Vec<u8>,
    number: u64,
    ended: bool,
}

impl<R: BufRead> Reader<R> {
    /// Creates a reader. If it needs no values, they may be missing.
    pub fn new(source: R, needs_values: bool) -> Self {
        Reader { source, needs_values, line: Vec::new(), number: 0, ended: false }
    }

    fn next_record(&mut self) -> anyhow::Result<Option<Record>> {
        loop {
            self.line.clear();
            self.number += 1;
            let read = (&mut self.source).take(LINE_BYTES_MAX).read_until(b'\n', &mut self.line);
            if read.with_context(|| format!("cannot read line {}", self.number))? == 0 {
                return Ok(None);
            }
            let mark = if self.number == 1 { BYTE_ORDER_MARK } else { b"" };
            let line = self.line.strip_prefix(mark).unwrap_or(&self.line);
            if !line.trim_ascii().is_empty() {
                return parse(line, self.needs_values)
                    .with_context(|| format!("line {}", self.number))
                    .map(Some);
            }
        }
    }
}

impl<R: BufRead> Iterator for Reader<R> {
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

fn parse(line: &[u8], needs_value: bool) -> anyhow::Result<Record> {
    // The parser's line 1 is the line that the caller names.
    let wrong = |error: serde_json::Error| {
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or_default();
        anyhow!("not a JSON record: {message} at column {}", error.column())
    };
    let line: Line<'_> = serde_json::from_slice(line).map_err(wrong)?;
    let has_value = line.value.is_some() || line.value_hex.is_some() || line.value_base64.is_some();
    Ok(Record {
        key: one_of("key", line.key, line.key_hex, line.key_base64)?,
        value: match needs_value || has_value {
            true => one_of("value", line.value, line.value_hex, line.value_base64)?,
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
            let read: Vec<_> = Reader::new(lines.as_bytes(), true).collect();
            assert_eq!(read.len(), 2, "{wrong}");
            let message = format!("{:#}", read[1].as_ref().unwrap_err());
            assert!(message.contains("line 3") && !message.contains("line 1"), "{message}");
        }
    }
}
