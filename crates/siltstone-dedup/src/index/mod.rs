//! The two databases of an index, and the commits that change both.
//!
//! Every chunk has a count of its occurrences in the files of the catalogue. The catalogue has the hashes of each
//! file's chunks, so that a file can be forgotten. Changes of both databases are collected and committed together:
//!
//! ```text
//! write the catalogue    one synced batch: entries, hashes, the state, and the new records of all changed chunks
//! write the chunks       one batch, then a sync
//! ```
//!
//! If a crash separates the two steps, the next open repeats the second one. It writes whole records, so repeating
//! it changes nothing.
//!
//! Both have the number of the last commit, and a random number that names it: an older copy of one of the two
//! databases is known.

use super::chunks::Chunking;
use super::formats::{self, Commit, FileEntry, METADATA_BYTES, Metadata, REFERENCES_MAX, State, Totals};
use super::recorder::Recorder;
use crate::place::{CHUNKS, FILES, check_repaired};
use anyhow::{Context, bail};
use siltstone::{Batch, Database, Durability, WriteOptions};
use siltstone_bench::tuning::{MemoryArgs, SettingArgs};
use siltstone_command::database;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// The number of chunks that are looked up together.
const BATCH_CHUNKS: usize = 1024;
/// The number of chunks and records of the catalogue at which changes are committed.
const CHANGES_MAX: usize = 16_384;
/// The work that a killed run loses at most.
const COMMIT_INTERVAL: Duration = Duration::from_secs(2);

/// The key of the catalogue's state.
pub const STATE_KEY: &[u8] = b"state";
/// The key of the chunks' records that the last commit changed.
const CHANGES_KEY: &[u8] = b"changes";
/// The first byte of the keys of hashes. The keys of files begin with a slash, those of streams with `stream:`.
const SEGMENT: u8 = 0;
/// The first byte of the keys of earlier versions of files whose last versions are not read to their ends yet.
const SUPERSEDED: u8 = 1;
/// The first byte of the keys of runs.
pub(super) const RUN: u8 = 2;
/// The first byte of the keys of directories on which a file system may be mounted.
const MOUNTED: u8 = 3;
/// The first byte of the keys of reports of runs.
pub(super) const REPORT: u8 = 4;
/// The beginning of the keys of streams.
pub const STREAM: &[u8] = b"stream:";

/// The counters of a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    /// Chunks added.
    pub chunks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Chunks looked up in the database. The others are among the changes that are not committed yet.
    pub lookups: u64,
    /// The time spent in lookups.
    pub lookup_time: Duration,
    /// Records of chunks written or removed.
    pub writes: u64,
    /// The time spent in writes.
    pub write_time: Duration,
    /// The bytes of holes, which are in no chunk.
    pub hole_bytes: u64,
    /// Chunks that were in no file before.
    pub new_chunks: u64,
    /// Their bytes.
    pub new_bytes: u64,
}

/// An index: its chunks, its catalogue, and the changes that are not committed.
pub struct Index {
    pub chunks: Database,
    pub(super) catalogue: Database,
    pub(super) hash_bytes: usize,
    pub(super) state: State,
    changed: HashMap<Vec<u8>, Option<Metadata>>,
    records: HashMap<Vec<u8>, Option<Vec<u8>>>,
    committed: Instant,
    pub(super) counts: Counts,
    /// How long the references were counted again when the index was opened.
    pub(super) recount_time: Duration,
    recorder: Option<Recorder>,
}

impl Index {
    /// Opens or creates the databases of the index in `directory`, completes a commit that was stopped, and counts the
    /// references again if records were lost. The catalogue has a quarter of the memory.
    pub fn open(
        directory: &Path,
        chunking: &Chunking,
        settings: &SettingArgs,
        MemoryArgs { memory }: MemoryArgs,
    ) -> anyhow::Result<Index> {
        let of_files = memory.map(|bytes| bytes / 4);
        let of_chunks = memory.zip(of_files).map(|(all, of_files)| all - of_files);
        let open = |builder, share, part| {
            let builder = settings.apply(MemoryArgs { memory: share }.apply(builder));
            database::open_part(builder, memory, part)
        };
        let builder = Database::builder(directory.join(CHUNKS));
        let builder = builder.fixed(chunking.hash_bytes.into(), METADATA_BYTES).hashed_keys();
        let chunks = open(builder, of_chunks, "the chunks have three quarters")?;
        let catalogue = open(
            Database::builder(directory.join(FILES)).partitions(1),
            of_files,
            "the catalogue of files has a quarter",
        )?;
        // Both databases are locked now, so no repair can begin.
        check_repaired(directory)?;
        let state = read_state(&catalogue)?;
        let must_recount = state.as_ref().is_none_or(|state| state.recount);
        let mut index = Index {
            chunks,
            catalogue,
            hash_bytes: chunking.hash_bytes.into(),
            state: state.unwrap_or_default(),
            changed: HashMap::new(),
            records: HashMap::new(),
            committed: Instant::now(),
            counts: Counts::default(),
            recount_time: Duration::ZERO,
            recorder: None,
        };
        if must_recount {
            index.recount()?;
        } else {
            check_moment(directory, &index.chunks, &index.catalogue, index.hash_bytes)?;
            index.complete_commit()?;
        }
        let was_forgetting = index.state.forgotten_segments > 0;
        index.remove_forgotten()?;
        if was_forgetting {
            // Readers of the chunks see no change that is not committed.
            index.commit()?;
        }
        Ok(index)
    }

    /// Durably records, in the catalogue in `directory`, that records of the index are lost.
    pub fn note_loss(directory: &Path) -> anyhow::Result<()> {
        let catalogue = database::open(Database::builder(directory).create(false))?;
        let state = State { recount: true, ..read_state(&catalogue)?.unwrap_or_default() };
        catalogue.put_with(STATE_KEY, state.encode(), synced())?;
        Ok(catalogue.close()?)
    }

    /// Returns an error if the two databases of the index are not of one moment, as when one of them was replaced by an
    /// older copy. Opens both.
    pub fn check(directory: &Path, chunking: &Chunking) -> anyhow::Result<()> {
        let open = |name: &str| database::open(Database::builder(directory.join(name)).read_only(true));
        let (chunks, catalogue) = (open(CHUNKS)?, open(FILES)?);
        check_moment(directory, &chunks, &catalogue, chunking.hash_bytes.into())
    }

    /// Begins a run: it gets the next number.
    pub fn begin_run(&mut self, recorder: Option<Recorder>) {
        self.state.runs += 1;
        self.recorder = recorder;
    }

    /// Returns the number of the last run, from 1 on.
    pub fn run(&self) -> u32 {
        self.state.runs
    }

    /// Returns what is in the index.
    pub fn now(&self) -> Totals {
        self.state.now
    }

    /// Returns what all runs have added.
    pub fn ever(&self) -> Totals {
        self.state.ever
    }

    /// Returns the counters of the run.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the entry of a file.
    pub fn entry(&self, key: &[u8]) -> anyhow::Result<Option<FileEntry>> {
        self.record(key)?.map(|value| FileEntry::decode(&value)).transpose()
    }

    /// Sets the entry of a file that is in the index.
    pub fn set_entry(&mut self, key: &[u8], entry: &FileEntry) {
        self.records.insert(key.to_vec(), Some(entry.encode()));
    }

    /// Adds a file without contents, and returns its entry.
    pub fn add_file(&mut self) -> FileEntry {
        self.state.next_file_id += 1;
        self.state.now.files += 1;
        self.state.ever.files += 1;
        FileEntry { id: self.state.next_file_id, run: self.state.runs, ..FileEntry::default() }
    }

    /// Adds a hole to a file: bytes without a chunk.
    pub fn add_hole(&mut self, entry: &mut FileEntry, bytes: u64) {
        entry.done_bytes += bytes;
        self.counts.hole_bytes += bytes;
        self.state.now.bytes += bytes;
        self.state.ever.bytes += bytes;
    }

    /// Adds the next chunks of a file: their references, their hashes, and the entry of the file, which is changed.
    /// `seen_at_ms` is the time of chunks that are in no file yet.
    pub fn add(
        &mut self,
        key: &[u8],
        entry: &mut FileEntry,
        seen_at_ms: u64,
        hashes: Vec<u8>,
        lengths: &[u32],
    ) -> anyhow::Result<()> {
        let batches = hashes.chunks(BATCH_CHUNKS * self.hash_bytes).zip(lengths.chunks(BATCH_CHUNKS));
        for (hashes, lengths) in batches {
            self.load(hashes)?;
            for (hash, &length) in hashes.chunks_exact(self.hash_bytes).zip(lengths) {
                let (run, references) = (self.state.runs, 0);
                let (offset, position) = (entry.done_bytes, entry.chunks);
                let place =
                    Metadata { file_id: entry.id, offset, position, seen_at_ms, length, run, references };
                self.add_chunk(hash, place)?;
                entry.done_bytes += u64::from(length);
                entry.chunks += 1;
            }
        }
        if !lengths.is_empty() {
            self.records.insert(segment_key(entry.id, entry.segments), Some(hashes));
            entry.segments += 1;
        }
        self.set_entry(key, entry);
        Ok(())
    }

    /// Adds a reference to a chunk that was looked up, and the chunk itself if it is in no file yet.
    fn add_chunk(&mut self, hash: &[u8], place: Metadata) -> anyhow::Result<()> {
        let slot = self.changed.get_mut(hash).context("the chunk was looked up")?;
        if let Some(recorder) = &mut self.recorder {
            recorder.lookup(hash, slot.is_some())?;
            if slot.is_none() {
                recorder.insert(hash)?;
            }
        }
        let (is_new, bytes) = (u64::from(slot.is_none()), u64::from(place.length));
        let metadata = slot.get_or_insert(place);
        metadata.references = metadata.references.saturating_add(1);
        self.counts.chunks += 1;
        self.counts.bytes += bytes;
        self.counts.new_chunks += is_new;
        self.counts.new_bytes += is_new * bytes;
        for totals in [&mut self.state.now, &mut self.state.ever] {
            totals.chunks += 1;
            totals.bytes += bytes;
            totals.unique_chunks += is_new;
            totals.unique_bytes += is_new * bytes;
        }
        Ok(())
    }

    /// Forgets a file: its entry, its hashes, and its references to chunks.
    pub fn forget(&mut self, key: &[u8], entry: &FileEntry) -> anyhow::Result<()> {
        self.records.insert(key.to_vec(), None);
        let now = &mut self.state.now;
        now.files = now.files.saturating_sub(1);
        now.bytes = now.bytes.saturating_sub(entry.done_bytes);
        now.chunks = now.chunks.saturating_sub(entry.chunks);
        (self.state.forgotten_id, self.state.forgotten_segments) = (entry.id, entry.segments);
        self.remove_forgotten()
    }

    /// Keeps a version of a file until the next one is complete, so that chunks of both stay in the index.
    pub fn supersede(&mut self, key: &[u8], entry: &FileEntry) -> anyhow::Result<()> {
        let earlier = superseded_key(key);
        if self.record(&earlier)?.is_some() {
            // This version was never complete.
            return self.forget(key, entry);
        }
        self.set_entry(&earlier, entry);
        Ok(())
    }

    /// Forgets the earlier version of a file that is complete now.
    pub fn forget_superseded(&mut self, key: &[u8]) -> anyhow::Result<()> {
        let earlier = superseded_key(key);
        match self.entry(&earlier)? {
            Some(entry) => self.forget(&earlier, &entry),
            None => Ok(()),
        }
    }

    /// Removes the references of the file that is being forgotten. A commit in between keeps how far it is.
    fn remove_forgotten(&mut self) -> anyhow::Result<()> {
        while let Some(segment) = self.state.forgotten_segments.checked_sub(1) {
            let key = segment_key(self.state.forgotten_id, segment);
            let Some(hashes) = self.record(&key)? else { bail!(DAMAGED) };
            for hashes in hashes.chunks(BATCH_CHUNKS * self.hash_bytes) {
                self.load(hashes)?;
                hashes.chunks_exact(self.hash_bytes).try_for_each(|hash| self.release(hash))?;
            }
            self.records.insert(key, None);
            self.state.forgotten_segments = segment;
            self.commit_if_due()?;
        }
        self.state.forgotten_id = 0;
        Ok(())
    }

    fn release(&mut self, hash: &[u8]) -> anyhow::Result<()> {
        let slot = self.changed.get_mut(hash).context("the chunk was looked up")?;
        let Some(metadata) = slot else { bail!(DAMAGED) };
        match metadata.references {
            REFERENCES_MAX => {}
            0 | 1 => {
                self.state.now.unique_chunks = self.state.now.unique_chunks.saturating_sub(1);
                let length = u64::from(metadata.length);
                self.state.now.unique_bytes = self.state.now.unique_bytes.saturating_sub(length);
                *slot = None;
            }
            _ => metadata.references -= 1,
        }
        Ok(())
    }

    /// Reads the records of chunks that are added soon, of several files together. Those that a commit in between has
    /// forgotten are read again.
    pub fn look_up<'a>(&mut self, hashes: impl Iterator<Item = &'a [u8]>) -> anyhow::Result<()> {
        let unknown = hashes.flat_map(|hashes| hashes.chunks_exact(self.hash_bytes));
        let unknown: Vec<_> = unknown.filter(|hash| !self.changed.contains_key(*hash)).collect();
        unknown.chunks(BATCH_CHUNKS).try_for_each(|unknown| self.read(unknown))
    }

    /// Reads the records of chunks that are not among the changes.
    fn load(&mut self, hashes: &[u8]) -> anyhow::Result<()> {
        self.look_up(std::iter::once(hashes))
    }

    fn read(&mut self, unknown: &[&[u8]]) -> anyhow::Result<()> {
        let started = Instant::now();
        let found = self.chunks.get_many(unknown).context("cannot look up the chunks")?;
        self.counts.lookup_time += started.elapsed();
        self.counts.lookups += unknown.len() as u64;
        for (hash, found) in unknown.iter().zip(found) {
            let metadata = found.map(|value| Metadata::decode(&value).context(DAMAGED)).transpose()?;
            self.changed.insert(hash.to_vec(), metadata);
        }
        Ok(())
    }

    /// Counts a reference to each of these chunks, which exist. Commits in between, so that memory stays limited.
    pub(super) fn reference(&mut self, hashes: &[u8]) -> anyhow::Result<()> {
        for hashes in hashes.chunks(BATCH_CHUNKS * self.hash_bytes) {
            self.load(hashes)?;
            for hash in hashes.chunks_exact(self.hash_bytes) {
                let slot = self.changed.get_mut(hash).context("the chunk was looked up")?;
                let metadata = slot.as_mut().context(DAMAGED)?;
                metadata.references = metadata.references.saturating_add(1);
            }
            self.commit_if_due()?;
        }
        Ok(())
    }

    /// Calls `see` with the record of each chunk of a file, in order. Sees no changes that are not committed.
    pub(super) fn for_each_chunk(
        &self,
        entry: &FileEntry,
        mut see: impl FnMut(&Metadata),
    ) -> anyhow::Result<()> {
        for segment in 0..entry.segments {
            let hashes = self.record(&segment_key(entry.id, segment))?.context(DAMAGED)?;
            let keys: Vec<&[u8]> = hashes.chunks_exact(self.hash_bytes).collect();
            for keys in keys.chunks(BATCH_CHUNKS) {
                for found in self.chunks.get_many(keys)? {
                    let found = found.and_then(|value| Metadata::decode(&value)).context(DAMAGED)?;
                    see(&found);
                }
            }
        }
        Ok(())
    }

    /// Sets a record of the catalogue.
    pub(super) fn set_record(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.records.insert(key, Some(value));
    }

    /// Removes a record of the catalogue.
    pub(super) fn remove_record(&mut self, key: &[u8]) {
        self.records.insert(key.to_vec(), None);
    }

    /// Returns a record of the catalogue.
    pub(super) fn record(&self, key: &[u8]) -> anyhow::Result<Option<Vec<u8>>> {
        match self.records.get(key) {
            Some(changed) => Ok(changed.clone()),
            None => Ok(self.catalogue.get(key)?.map(|value| value.to_vec())),
        }
    }

    /// Returns whether a commit is due, by the number of changes or by time.
    pub fn is_commit_due(&self) -> bool {
        self.changed.len().max(self.records.len()) >= CHANGES_MAX
            || self.committed.elapsed() >= COMMIT_INTERVAL
    }

    /// Commits if it is due.
    pub fn commit_if_due(&mut self) -> anyhow::Result<()> {
        if self.is_commit_due() { self.commit() } else { Ok(()) }
    }

    /// Makes all changes durable, atomically.
    pub fn commit(&mut self) -> anyhow::Result<()> {
        self.state.before = self.state.commit;
        self.state.commit = self.state.commit.next();
        // Among the changes, so that a commit without any other is completed after a crash, too.
        self.changed.insert(mark_key(self.hash_bytes), Some(self.state.commit.as_metadata()));
        let mut batch = Batch::new();
        for (key, value) in &self.records {
            match value {
                Some(value) => batch.put(key, value)?,
                None => batch.delete(key)?,
            };
        }
        let changed = self.changed.iter().map(|(key, metadata)| (&key[..], metadata.as_ref()));
        batch.put(CHANGES_KEY, formats::encode_changes(changed))?;
        batch.put(STATE_KEY, self.state.encode())?;
        self.catalogue.write_with(&batch, synced()).context("cannot write the catalogue")?;
        self.records.clear();
        let started = Instant::now();
        let changed = std::mem::take(&mut self.changed);
        self.counts.writes += changed.len() as u64 - 1;
        write_chunks(&self.chunks, changed)?;
        self.chunks.sync().context("cannot sync the chunks")?;
        self.counts.write_time += started.elapsed();
        self.committed = Instant::now();
        Ok(())
    }

    /// Repeats the second step of the last commit.
    fn complete_commit(&mut self) -> anyhow::Result<()> {
        let changes = self.record(CHANGES_KEY)?.unwrap_or_default();
        if changes.is_empty() {
            return Ok(());
        }
        let changes = formats::decode_changes(&changes, self.hash_bytes)?;
        // Changes of earlier versions have no mark.
        let mark = (mark_key(self.hash_bytes), Some(self.state.commit.as_metadata()));
        write_chunks(&self.chunks, changes.into_iter().chain([mark]))?;
        Ok(self.chunks.sync()?)
    }

    /// Notes that a file system may be mounted on a directory.
    pub fn note_mounted(&mut self, path: &Path) {
        let key = [&[MOUNTED][..], path.as_os_str().as_encoded_bytes()].concat();
        self.records.insert(key, Some(Vec::new()));
    }

    /// Returns the directories that were noted, in their order.
    pub fn mounted(&self) -> anyhow::Result<Vec<Vec<u8>>> {
        let mut paths = Vec::new();
        for record in self.catalogue.prefix([MOUNTED])? {
            paths.push(record?.key[1..].to_vec());
        }
        paths.sort();
        Ok(paths)
    }

    /// Ends the recording of lookups and inserts.
    pub fn end_recording(&mut self) -> anyhow::Result<()> {
        self.recorder.take().map_or(Ok(()), Recorder::finish)
    }

    /// Returns the memory and the disk space of the catalogue itself, in bytes.
    pub fn catalogue_cost(&self) -> (u64, u64) {
        let stats = self.catalogue.stats();
        (stats.ram.total_bytes(), stats.disk_bytes)
    }

    /// Commits all changes and closes both databases.
    pub fn close(mut self) -> anyhow::Result<()> {
        self.commit()?;
        // The commit is complete; without this, the next open repeats it.
        self.catalogue.put(CHANGES_KEY, [])?;
        self.catalogue.close()?;
        Ok(self.chunks.close()?)
    }
}

/// The message for records that do not fit each other.
pub(super) const DAMAGED: &str = "the index is damaged: its records contradict each other; copy it from a checkpoint, \
                                  or remove it and index again";

/// Returns options for writes that survive a power failure.
pub(super) fn synced() -> WriteOptions {
    WriteOptions::default().durability(Durability::Synced)
}

/// Writes the records of chunks, and removes those without a record. A sync makes it durable.
pub(super) fn write_chunks(
    chunks: &Database,
    changes: impl IntoIterator<Item = formats::Change>,
) -> anyhow::Result<()> {
    let mut batch = Batch::new();
    for (hash, metadata) in changes {
        match metadata {
            Some(metadata) => batch.put(hash, metadata.encode())?,
            None => batch.delete(hash)?,
        };
    }
    chunks.write(&batch).context("cannot write the chunks")
}

/// Returns the key of hashes of a version of a file.
pub(super) fn segment_key(file_id: u64, segment: u32) -> Vec<u8> {
    [&[SEGMENT][..], &file_id.to_be_bytes(), &segment.to_be_bytes()].concat()
}

/// Returns the version of the file whose hashes the key has; `None` for other keys.
pub(super) fn segment_file(key: &[u8]) -> Option<u64> {
    let rest = key.strip_prefix(&[SEGMENT])?;
    Some(u64::from_be_bytes(*rest.first_chunk()?))
}

/// The key of the record of the last commit among the chunks. No chunk has this hash.
fn mark_key(hash_bytes: usize) -> Vec<u8> {
    vec![0; hash_bytes]
}

/// Returns whether a record of the chunks is that of the last commit.
pub fn is_mark(key: &[u8]) -> bool {
    key.iter().all(|&byte| byte == 0)
}

/// Returns an error if the databases are not of one moment.
fn check_moment(
    directory: &Path,
    chunks: &Database,
    catalogue: &Database,
    hash_bytes: usize,
) -> anyhow::Result<()> {
    let state = match read_state(catalogue)? {
        Some(state) if !state.recount => state,
        _ => return Ok(()),
    };
    let mark = chunks.get(mark_key(hash_bytes))?;
    let mark = mark.map(|value| Metadata::decode(&value).context(DAMAGED)).transpose()?;
    let chunks = mark.as_ref().map_or(Commit::default(), Commit::of);
    // A crash may have separated the two steps of the last commit.
    let is_stopped =
        || Ok::<_, anyhow::Error>(catalogue.get(CHANGES_KEY)?.is_some_and(|changes| !changes.is_empty()));
    if chunks == state.commit || chunks == state.before && is_stopped()? {
        return Ok(());
    }
    let (files, place) = (state.commit, directory.display());
    let older = match chunks.number.cmp(&files.number) {
        Ordering::Less => format!("{CHUNKS} is older"),
        Ordering::Greater => format!("{FILES} is older"),
        Ordering::Equal => "one of them is a copy of another time".to_owned(),
    };
    bail!(
        "{place}: the two databases of this index are not of one moment: {CHUNKS} is at commit {}, {FILES} at commit \
         {}; {older}. \
         Put back both from one copy, or run `siltstone repair {place}`: the next run counts the references \
         again, and reads the files again whose chunks are missing",
        chunks.number,
        files.number
    )
}

pub(super) fn superseded_key(key: &[u8]) -> Vec<u8> {
    [&[SUPERSEDED][..], key].concat()
}

/// Returns the key of the file or of the stream whose entry is under `key`, also if it is that of an earlier version;
/// `None` for other records.
pub fn file_of(key: &[u8]) -> Option<&[u8]> {
    Some(key.strip_prefix(&[SUPERSEDED]).unwrap_or(key)).filter(|key| is_file(key))
}

/// Returns whether the key is that of the last version of a file or of a stream.
pub fn is_file(key: &[u8]) -> bool {
    key.starts_with(b"/") || key.starts_with(STREAM)
}

pub(super) fn read_state(catalogue: &Database) -> anyhow::Result<Option<State>> {
    catalogue.get(STATE_KEY)?.map(|value| State::decode(&value)).transpose()
}

#[cfg(test)]
mod tests;
