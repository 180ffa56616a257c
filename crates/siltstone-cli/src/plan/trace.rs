//! The input of a plan from a trace: how often each key is requested, the sizes of records, and the ratio of gets to
//! puts.

use super::load::Load;
use anyhow::Context;
use siltstone_bench::trace::csv::CsvReader;
use siltstone_bench::trace::{self, Kind, MAGIC, Operation, identity_of};
use siltstone_model::{ModelError, Popularity};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::Path;

/// The number of bytes that distinguish a table of requests from a list of keys.
const HEAD_BYTES: u64 = 4096;

/// The contents of a trace. Takes about 32 bytes of memory per key.
#[derive(Default)]
pub struct Trace {
    /// Requests of each key.
    counts: HashMap<u64, u64>,
    requests: u64,
    request_key_bytes: u64,
    sets: u64,
    set_value_bytes: u64,
    /// The lengths of the first record that was set.
    lengths: Option<(u16, u32)>,
    differs: bool,
    /// The operations, if the trace has them.
    pub load: Option<Load>,
}

/// Reads a recorded trace, a table of requests, or a file with one key per line. Empty lines are skipped.
pub fn read(path: &Path) -> anyhow::Result<Trace> {
    let name = path.display();
    let mut head = Vec::new();
    let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
    file.take(HEAD_BYTES).read_to_end(&mut head).with_context(|| format!("cannot read {name}"))?;
    if head.starts_with(&MAGIC) || is_table(&head) {
        let mut operations = trace::open(path).with_context(|| format!("cannot read {name}"))?;
        operations.try_fold(Trace::default(), |mut trace, operation| {
            trace.count(&operation.with_context(|| name.to_string())?);
            Ok(trace)
        })
    } else {
        read_lines(path).with_context(|| format!("cannot read {name}"))
    }
}

/// Returns whether a file with this beginning is a table of requests: its first line is a request, or names the fields
/// of one.
fn is_table(head: &[u8]) -> bool {
    let end = head.iter().rposition(|byte| *byte == b'\n').map_or(head.len(), |at| at + 1);
    matches!(CsvReader::new(Cursor::new(&head[..end])).next(), Some(Ok(_)))
}

fn read_lines(path: &Path) -> std::io::Result<Trace> {
    let mut lines = BufReader::new(File::open(path)?);
    let mut trace = Trace::default();
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 0 {
        let key = line.trim_ascii_end();
        if !key.is_empty() {
            trace.request(identity_of(key), key.len() as u64);
        }
        line.clear();
    }
    Ok(trace)
}

impl Trace {
    fn request(&mut self, key: u64, key_bytes: u64) {
        *self.counts.entry(key).or_insert(0) += 1;
        self.requests += 1;
        self.request_key_bytes += key_bytes;
    }

    fn count(&mut self, operation: &Operation) {
        let load = self.load.get_or_insert_default();
        load.seconds = operation.time_ms as f64 / 1e3;
        match operation.kind {
            // Traces of caches do not record what a get found. A key that was requested before may have been there.
            Kind::Get if operation.value_length == 0 && !self.counts.contains_key(&operation.key) => {
                load.gets += 1.0;
                load.misses += 1.0;
                return;
            }
            Kind::Get => load.gets += 1.0,
            Kind::Set => {
                load.writes += 1.0;
                self.sets += 1;
                self.set_value_bytes += u64::from(operation.value_length);
                let lengths = (operation.key_length, operation.value_length);
                self.differs |= *self.lengths.get_or_insert(lengths) != lengths;
            }
            Kind::Delete => load.writes += 1.0,
        }
        self.request(operation.key, operation.key_length.into());
    }

    /// Returns the number of keys that are requested.
    pub fn keys(&self) -> f64 {
        self.counts.len() as f64
    }

    /// Returns the mean length of a requested key, in bytes.
    pub fn key_bytes(&self) -> f64 {
        self.request_key_bytes as f64 / self.requests.max(1) as f64
    }

    /// Returns the mean length of a value that was set, in bytes, if one was.
    pub fn value_bytes(&self) -> Option<f64> {
        (self.sets > 0).then(|| self.set_value_bytes as f64 / self.sets as f64)
    }

    /// Returns whether all records that were set have the same lengths.
    pub fn is_fixed(&self) -> bool {
        !self.differs
    }

    /// Returns the popularity of the keys in the trace. If `items` is larger than their number, the remaining keys are
    /// assumed to be requested half as often as those that occur once.
    pub fn popularity(&self, items: Option<f64>) -> Result<Popularity, ModelError> {
        let mut histogram: HashMap<u64, u64> = HashMap::new();
        for count in self.counts.values() {
            *histogram.entry(2 * count).or_insert(0) += 1;
        }
        let unseen = items.unwrap_or(0.0) - self.keys();
        if unseen >= 1.0 {
            *histogram.entry(1).or_insert(0) += unseen as u64;
        }
        Popularity::from_histogram(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone_bench::trace::Writer;

    #[test]
    fn keys_are_counted_line_by_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace");
        std::fs::write(&path, "abcd\nab\r\n\nabcd\nabcd\n").unwrap();
        let trace = read(&path).unwrap();
        assert_eq!((trace.key_bytes(), trace.value_bytes(), trace.load), (3.5, None, None));
        let popularity = trace.popularity(None).unwrap();
        assert_eq!(popularity.keys(), 2.0);
        assert_eq!(popularity.groups()[0].probability, 0.75);
        assert_eq!(trace.popularity(Some(10.0)).unwrap().keys(), 10.0);
        assert!(read(&directory.path().join("none")).is_err());
    }

    #[test]
    fn a_table_and_the_trace_made_of_it_have_the_same_load() {
        let directory = tempfile::tempdir().unwrap();
        let (table, binary) = (directory.path().join("table"), directory.path().join("binary"));
        let lines = "0,abc,3,0,0,get,0\n0,abc,3,5,0,set,0\n4,abc,3,5,0,get,0\n4,xyzuv,5,9,0,set,0\n4,abc,3,0,0,get,0\n";
        std::fs::write(&table, format!("timestamp,key,key_size,value_size,client,op,ttl\n{lines}")).unwrap();
        let mut writer = Writer::new(File::create(&binary).unwrap()).unwrap();
        trace::open(&table).unwrap().for_each(|operation| writer.write(&operation.unwrap()).unwrap());
        writer.finish().unwrap();
        for path in [table, binary] {
            let trace = read(&path).unwrap();
            let load = Load { gets: 3.0, misses: 1.0, writes: 2.0, seconds: 4.0 };
            assert_eq!((trace.load, trace.value_bytes(), trace.is_fixed()), (Some(load), Some(7.0), false));
            assert_eq!((trace.key_bytes(), trace.popularity(None).unwrap().keys()), (3.5, 2.0));
        }
    }

    #[test]
    fn a_trace_that_was_cut_short_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace");
        let mut writer = Writer::new(File::create(&path).unwrap()).unwrap();
        let operation = Operation {
            kind: Kind::Set,
            key: 7,
            key_length: 8,
            value_length: 1,
            time_ms: 0,
            time_to_live_s: 0,
        };
        writer.write(&operation).unwrap();
        writer.finish().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        let error = format!("{:#}", read(&path).err().unwrap());
        assert!(error.contains("cut short") && error.contains("trace"), "{error}");
    }
}
