//! Looks up chunks in batches and inserts new ones.

use super::formats::{Metadata, Totals};
use super::recorder::Recorder;
use siltstone::{Batch, Database};
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// The number of chunks in a batch.
const BATCH_CHUNKS: usize = 1024;

/// Looks up chunks in batches and inserts new ones.
pub struct Indexer {
    database: Database,
    hash_bytes: usize,
    /// The keys of the waiting chunks, concatenated.
    hashes: Vec<u8>,
    waiting: Vec<Metadata>,
    batch: Batch,
    counts: Counts,
    recorder: Option<Recorder>,
}

/// The counters of an indexer.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    /// Chunks looked up.
    pub lookups: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Chunks inserted.
    pub inserts: u64,
    /// Chunks counted for the first time: those inserted, and those inserted by an interrupted run.
    pub new_chunks: u64,
    /// Their bytes.
    pub new_bytes: u64,
    /// The time spent in lookups.
    pub lookup_time: Duration,
    /// The time spent in inserts.
    pub insert_time: Duration,
}

impl Indexer {
    /// Creates an indexer for keys of this length, in bytes.
    pub fn new(database: Database, hash_bytes: u8) -> Indexer {
        Indexer {
            database,
            hash_bytes: hash_bytes.into(),
            hashes: Vec::with_capacity(BATCH_CHUNKS * usize::from(hash_bytes)),
            waiting: Vec::with_capacity(BATCH_CHUNKS),
            batch: Batch::new(),
            counts: Counts::default(),
            recorder: None,
        }
    }

    /// Records lookups and inserts from now on.
    pub fn record(&mut self, recorder: Option<Recorder>) {
        self.recorder = recorder;
    }

    /// Ends the recording.
    pub fn end_recording(&mut self) -> anyhow::Result<()> {
        self.recorder.take().map_or(Ok(()), Recorder::finish)
    }

    /// Returns the counters, without the waiting chunks.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Adds a chunk. Returns whether the pending chunks should be [flushed](Indexer::flush).
    pub fn add(&mut self, hash: &[u8], metadata: Metadata) -> bool {
        self.hashes.extend_from_slice(hash);
        self.waiting.push(metadata);
        self.waiting.len() >= BATCH_CHUNKS
    }

    /// Looks up all waiting chunks, inserts new ones, and updates `totals`.
    ///
    /// A chunk counts as new when it is inserted, and also when its record names this very place as the first: then an
    /// earlier run inserted it and was killed before it could count it.
    pub fn flush(&mut self, totals: &mut Totals) -> anyhow::Result<()> {
        let keys: Vec<&[u8]> = self.hashes.chunks_exact(self.hash_bytes).collect();
        let started = Instant::now();
        let found = self.database.get_many(&keys)?;
        let looked_up = Instant::now();
        if let Some(recorder) = &mut self.recorder {
            for (key, found) in keys.iter().zip(&found) {
                recorder.lookup(key, found.is_some())?;
            }
        }
        let mut inserted: HashSet<&[u8]> = HashSet::new();
        for ((key, metadata), found) in keys.iter().zip(&self.waiting).zip(found) {
            let is_new = match found {
                Some(value) => Metadata::decode(&value).is_some_and(|first| {
                    (first.file_id, first.offset) == (metadata.file_id, metadata.offset)
                }),
                None if inserted.insert(key) => {
                    self.batch.put(key, metadata.encode())?;
                    true
                }
                None => false,
            };
            let length = u64::from(metadata.length);
            totals.chunks += 1;
            totals.bytes += length;
            self.counts.bytes += length;
            if is_new {
                totals.unique_chunks += 1;
                totals.unique_bytes += length;
                self.counts.new_chunks += 1;
                self.counts.new_bytes += length;
            }
        }
        let prepared = Instant::now();
        self.database.write(&self.batch)?;
        self.counts.insert_time += prepared.elapsed();
        if let Some(recorder) = &mut self.recorder {
            self.batch.writes().try_for_each(|write| recorder.insert(write.key()))?;
        }
        self.counts.lookup_time += looked_up - started;
        self.counts.lookups += self.waiting.len() as u64;
        self.counts.inserts += self.batch.len() as u64;
        self.hashes.clear();
        self.waiting.clear();
        self.batch.clear();
        Ok(())
    }

    /// Makes all inserts durable: they survive a power failure.
    pub fn sync(&self) -> siltstone::Result<()> {
        self.database.sync()
    }
}

#[cfg(test)]
mod tests {
    use super::super::formats::METADATA_BYTES;
    use super::*;

    fn place(file_id: u64, offset: u64) -> Metadata {
        Metadata { file_id, offset, position: 0, seen_at_ms: 0, length: 100, run: 1 }
    }

    fn database(directory: &std::path::Path) -> Database {
        Database::builder(directory)
            .fixed(20, METADATA_BYTES)
            .hashed_keys()
            .set("log_slots_min", 64)
            .open()
            .unwrap()
    }

    #[test]
    fn a_chunk_counts_once_even_if_it_is_in_a_batch_twice() {
        let directory = tempfile::tempdir().unwrap();
        let mut indexer = Indexer::new(database(directory.path()), 20);
        let mut totals = Totals::default();
        let [one, two] = [[1; 20], [2; 20]];
        for (hash, offset) in [(one, 0), (one, 100), (two, 200), (one, 300)] {
            indexer.add(&hash, place(1, offset));
        }
        indexer.flush(&mut totals).unwrap();
        indexer.add(&two, place(2, 0));
        indexer.flush(&mut totals).unwrap();
        assert_eq!((totals.chunks, totals.bytes), (5, 500));
        assert_eq!((totals.unique_chunks, totals.unique_bytes, indexer.counts().inserts), (2, 200, 2));
    }

    #[test]
    fn chunks_inserted_by_a_killed_run_are_counted_by_the_next() {
        let directory = tempfile::tempdir().unwrap();
        let database = database(directory.path());
        let index = |indexer: &mut Indexer, totals: &mut Totals| {
            for (hash, offset) in [([1; 20], 0), ([1; 20], 100), ([2; 20], 200)] {
                indexer.add(&hash, place(1, offset));
            }
            indexer.flush(totals).unwrap();
        };
        let mut lost = Totals::default();
        index(&mut Indexer::new(database.clone(), 20), &mut lost);
        let mut again = Totals::default();
        let mut indexer = Indexer::new(database, 20);
        index(&mut indexer, &mut again);
        assert_eq!(again, lost);
        assert_eq!((indexer.counts().new_chunks, indexer.counts().inserts), (2, 0));
    }
}
