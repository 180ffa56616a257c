//! Lines: one key per line, without a value, as seen-sets and lists of words are.

use super::{Fault, RecordSink, Source};
use crate::notation::Notation;
use crate::stream::{self, KEY_LINE_BYTES_MAX, Lines};
use anyhow::ensure;
use siltstone::{Bytes, Record};
use std::io::{BufRead, Write};

/// Reads lines. Empty ones are skipped.
pub struct Reader<R> {
    lines: Lines<R>,
    notation: Notation,
}

impl<R: BufRead> Reader<R> {
    /// Reads keys in a notation.
    pub fn new(source: R, notation: Notation) -> Self {
        Reader { lines: Lines::new(source, KEY_LINE_BYTES_MAX), notation }
    }
}

impl<R: BufRead> Source for Reader<R> {
    fn next(&mut self) -> Result<Option<Record>, Fault> {
        loop {
            let key = match self.lines.next().map_err(|error| Fault::Fatal(error.into()))? {
                None => return Ok(None),
                Some(Ok([])) => continue,
                Some(line) => line.and_then(|line| self.notation.parse(line)).map_err(Fault::Bad)?,
            };
            return Ok(Some(Record { key: Bytes::from(key), value: Bytes::new(), expires_at_ms: 0 }));
        }
    }

    fn place(&self) -> String {
        format!("line {}", self.lines.number())
    }
}

/// Writes the keys of records that have nothing else.
pub struct Writer<W> {
    target: W,
    notation: Notation,
    is_first: bool,
}

impl<W: Write> Writer<W> {
    /// Writes keys in a notation.
    pub fn new(target: W, notation: Notation) -> Self {
        Writer { target, notation, is_first: true }
    }
}

impl<W: Write> RecordSink for Writer<W> {
    fn write(&mut self, record: &Record) -> anyhow::Result<()> {
        let key = self.notation.bytes(&record.key);
        let shown = || Notation::Escaped.show(&record.key);
        ensure!(
            record.value.is_empty() && record.expires_at_ms == 0,
            "the record of {} has a value or an expiry time, and lines have keys alone; use another --format",
            shown()
        );
        // What the reader would take for the end of a line or for another encoding.
        let is_read = !key.iter().any(|byte| matches!(byte, b'\n' | 0)) && !key.ends_with(b"\r");
        ensure!(
            is_read && (!self.is_first || stream::is_text(&key)),
            "the key {} is no line of text; use --escaped, --hex or another --format",
            shown()
        );
        self.is_first = false;
        self.target.write_all(&key)?;
        Ok(self.target.write_all(b"\n")?)
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        Ok(self.target.flush()?)
    }
}
