//! How often each key of a trace is requested.

use anyhow::Context;
use siltstone::model::{ModelError, Popularity};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// A trace that was read.
pub struct Trace {
    /// Requests of each key.
    counts: HashMap<u64, u64>,
    /// The mean length of a requested key.
    pub key_bytes: f64,
}

/// Reads a file with a key on each line; empty lines count for nothing. Some 32 bytes of memory a key.
pub fn read(path: &Path) -> anyhow::Result<Trace> {
    let name = path.display();
    let mut lines = BufReader::new(File::open(path).with_context(|| format!("cannot open {name}"))?);
    let mut counts = HashMap::new();
    let (mut requests, mut bytes) = (0u64, 0u64);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).with_context(|| format!("cannot read {name}"))? > 0 {
        let key = line.trim_ascii_end();
        if !key.is_empty() {
            *counts.entry(short_hash(key)).or_insert(0) += 1;
            requests += 1;
            bytes += key.len() as u64;
        }
        line.clear();
    }
    Ok(Trace { counts, key_bytes: bytes as f64 / requests.max(1) as f64 })
}

/// Two keys of a billion have the same with a probability of a few per cent: nothing that a histogram shows.
fn short_hash(key: &[u8]) -> u64 {
    let hash = blake3::hash(key);
    hash.as_bytes().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

impl Trace {
    /// The popularity of the keys that occur; of more keys than that if so many items are stated, of which the others
    /// are taken to be requested half as often as those that occurred once.
    pub fn popularity(&self, items: Option<f64>) -> Result<Popularity, ModelError> {
        let mut histogram: HashMap<u64, u64> = HashMap::new();
        for count in self.counts.values() {
            *histogram.entry(2 * count).or_insert(0) += 1;
        }
        let unseen = items.unwrap_or(0.0) - self.counts.len() as f64;
        if unseen >= 1.0 {
            *histogram.entry(1).or_insert(0) += unseen as u64;
        }
        Popularity::from_histogram(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_counted_line_by_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace");
        std::fs::write(&path, "abcd\nab\r\n\nabcd\nabcd\n").unwrap();
        let trace = read(&path).unwrap();
        assert_eq!(trace.key_bytes, 3.5);
        let popularity = trace.popularity(None).unwrap();
        assert_eq!(popularity.keys(), 2.0);
        assert_eq!(popularity.groups()[0].probability, 0.75);
        assert_eq!(trace.popularity(Some(10.0)).unwrap().keys(), 10.0);
        assert!(read(&directory.path().join("none")).is_err());
    }
}
