//! Counts the references to chunks again, after records of an index were lost.

use super::formats::{FileEntry, Metadata, Stamp, State};
use super::index::{self, Counts, DAMAGED, Index, STATE_KEY, synced};
use anyhow::Context;
use siltstone::Batch;
use siltstone_command::interrupt::Interrupt;
use siltstone_command::outcome::complain;
use siltstone_command::progress::{Stopwatch, with_progress};
use siltstone_command::quantity::counted;
use std::collections::HashSet;
use std::time::Instant;

/// The number of records that are written together.
const BATCH_RECORDS: usize = 4096;

impl Index {
    /// Counts the references of all files whose records are complete, and removes the rest: files with lost records,
    /// which the next run reads again, and chunks without a file. The totals of all runs start again.
    ///
    /// A process that is stopped meanwhile leaves the state's mark, so that the next one starts again. Reads all
    /// records of both databases, and the chunks of each file twice. Shows its progress, and ends at an interrupt.
    pub(super) fn recount(&mut self) -> anyhow::Result<()> {
        let runs = self.state.runs;
        let State { next_file_id, commit, before, .. } = self.state;
        self.state = State { recount: true, runs, next_file_id, commit, before, ..State::default() };
        if self.chunks.iter()?.next().is_none() && self.catalogue.iter()?.next().is_none() {
            self.state.recount = false;
            return Ok(());
        }
        self.catalogue.put_with(STATE_KEY, self.state.encode(), synced())?;
        complain(format_args!(
            "records of the index were lost: counting the references of all files again, which reads the whole index \
             in four steps, before files are read"
        ));
        let (started, watch) = (Instant::now(), Stopwatch::start());
        self.clear_references()?;
        let kept = self.count_files()?;
        self.remove_hashes_of_others(&kept)?;
        self.commit()?;
        self.remove_unreferenced()?;
        self.chunks.sync()?;
        self.state.ever = self.state.now;
        self.state.recount = false;
        self.commit()?;
        complain(format_args!("counted the references of {}{watch}", counted(self.state.now.files, "file")));
        // The run that follows counts its own lookups and writes.
        (self.recount_time, self.counts) = (started.elapsed(), Counts::default());
        Ok(())
    }

    /// Sets all references to zero.
    fn clear_references(&mut self) -> anyhow::Result<()> {
        let (mut cleared, interrupt) = (Vec::new(), Interrupt::listen()?);
        let all = self.chunks.approximate_len()?;
        for record in with_progress("1 of 4, clearing references", all, self.chunks.iter()?) {
            interrupt.check()?;
            let record = record?;
            if index::is_mark(&record.key) {
                continue;
            }
            let metadata = Metadata::decode(&record.value).context(DAMAGED)?;
            self.state.runs = self.state.runs.max(metadata.run);
            self.state.next_file_id = self.state.next_file_id.max(metadata.file_id);
            cleared.push((record.key.to_vec(), Some(Metadata { references: 0, ..metadata })));
            if cleared.len() >= BATCH_RECORDS {
                index::write_chunks(&self.chunks, cleared.drain(..))?;
            }
        }
        index::write_chunks(&self.chunks, cleared)
    }

    /// Counts the references of complete files, removes the entries of the others, and returns the versions counted.
    fn count_files(&mut self) -> anyhow::Result<HashSet<u64>> {
        let (mut kept, mut earlier) = (HashSet::new(), HashSet::new());
        let (interrupt, all) = (Interrupt::listen()?, self.catalogue.approximate_len()?);
        for record in with_progress("2 of 4, counting references", all, self.catalogue.iter()?) {
            interrupt.check()?;
            let record = record?;
            let Some(file) = index::file_of(&record.key) else { continue };
            let entry = FileEntry::decode(&record.value)?;
            self.state.next_file_id = self.state.next_file_id.max(entry.id);
            self.state.runs = self.state.runs.max(entry.run);
            // Two entries of one version are of a catalogue that reads older values since a repair. They have the same
            // hashes, which are counted for one of them and stay.
            let is_repeated =
                kept.contains(&entry.id) || self.is_under_its_path(&record.key, file, &entry)?;
            if !is_repeated && self.is_whole(&entry)? {
                kept.insert(entry.id);
                if !index::is_file(&record.key) {
                    earlier.insert(entry.id);
                }
                self.count(&entry)?;
            } else {
                self.remove_record(&record.key);
            }
            self.put_under_its_path(file, &earlier)?;
            self.commit_if_due()?;
        }
        Ok(kept)
    }

    /// Moves the entry of an earlier version of a file that was counted to the file's path, if there is none: runs look
    /// there. Its stamp is that of no file then, so that the file is read again.
    fn put_under_its_path(&mut self, file: &[u8], counted: &HashSet<u64>) -> anyhow::Result<()> {
        let earlier = index::superseded_key(file);
        // Either entry may be the first one that is examined.
        if self.record(file)?.is_none()
            && let Some(entry) = self.entry(&earlier)?
            && counted.contains(&entry.id)
        {
            let stamp = Stamp { changed_ns: i64::MIN, ..entry.stamp };
            self.set_entry(file, &FileEntry { stamp, ..entry });
            self.remove_record(&earlier);
        }
        Ok(())
    }

    /// Returns whether an entry of an earlier version of a file is of the version that is under the file's path. That
    /// one is counted, because runs look there.
    fn is_under_its_path(&self, key: &[u8], file: &[u8], entry: &FileEntry) -> anyhow::Result<bool> {
        Ok(!index::is_file(key) && self.entry(file)?.is_some_and(|last| last.id == entry.id))
    }

    /// Returns whether all hashes and all chunks of a file are there.
    fn is_whole(&self, entry: &FileEntry) -> anyhow::Result<bool> {
        let mut chunks = 0;
        for segment in 0..entry.segments {
            let Some(hashes) = self.record(&index::segment_key(entry.id, segment))? else { return Ok(false) };
            let keys: Vec<&[u8]> = hashes.chunks_exact(self.hash_bytes).collect();
            for keys in keys.chunks(BATCH_RECORDS) {
                if self.chunks.contains_many(keys)?.contains(&false) {
                    return Ok(false);
                }
            }
            chunks += keys.len() as u64;
        }
        Ok(chunks == entry.chunks)
    }

    /// Counts the references of a file whose hashes and chunks are all there. Commits in between: the state has its
    /// mark until all files are counted, so a process that is stopped here begins with no reference again.
    fn count(&mut self, entry: &FileEntry) -> anyhow::Result<()> {
        self.state.now.files += 1;
        self.state.now.bytes += entry.done_bytes;
        self.state.now.chunks += entry.chunks;
        for segment in 0..entry.segments {
            let hashes = self.record(&index::segment_key(entry.id, segment))?.context(DAMAGED)?;
            self.reference(&hashes)?;
        }
        Ok(())
    }

    /// Removes the hashes of files that are not counted.
    fn remove_hashes_of_others(&mut self, kept: &HashSet<u64>) -> anyhow::Result<()> {
        let interrupt = Interrupt::listen()?;
        let all = self.catalogue.approximate_len()?;
        for record in with_progress("3 of 4, removing what belongs to no file", all, self.catalogue.iter()?) {
            interrupt.check()?;
            let key = record?.key;
            let Some(id) = index::segment_file(&key) else { continue };
            self.state.next_file_id = self.state.next_file_id.max(id);
            if !kept.contains(&id) {
                self.remove_record(&key);
            }
            self.commit_if_due()?;
        }
        Ok(())
    }

    /// Removes the chunks without a reference, and counts the others.
    fn remove_unreferenced(&mut self) -> anyhow::Result<()> {
        let (mut batch, interrupt) = (Batch::new(), Interrupt::listen()?);
        let all = self.chunks.approximate_len()?;
        for record in with_progress("4 of 4, removing chunks without a file", all, self.chunks.iter()?) {
            interrupt.check()?;
            let record = record?;
            if index::is_mark(&record.key) {
                continue;
            }
            let metadata = Metadata::decode(&record.value).context(DAMAGED)?;
            if metadata.references == 0 {
                batch.delete(&record.key)?;
            } else {
                self.state.now.unique_chunks += 1;
                self.state.now.unique_bytes += u64::from(metadata.length);
            }
            if batch.len() >= BATCH_RECORDS {
                self.chunks.write(&batch)?;
                batch.clear();
            }
        }
        Ok(self.chunks.write(&batch)?)
    }
}
