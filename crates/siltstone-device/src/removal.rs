//! The space of removed files, reused or freed in steps.
//!
//! A drive serves no read while it frees space: on ext4 mounted with `discard`, 20 ms for a file of 64 MiB. Closing the
//! last handle of a removed file would free all its space at once, possibly in the thread of a get. So the last handle
//! is kept here. A *retired* file keeps its name as well, and a new file of about its length is written over it: its
//! space is not freed at all. Other files are truncated in steps, between which reads are served. Each step also
//! waits for what the drive was given before, so steps are large while no gets read.
//!
//! Each step of background work frees twice as many bytes as were written since the step before. So the space of
//! removed files is free before as much is written again, and a merge needs no more space than if they were freed at
//! once. While gets read from the directory, 256 KiB are freed at a time. Otherwise it is 4 MiB at a time: each time
//! also waits for what the drive was given before, and small steps take the whole time of a worker during writes at
//! full speed.
//! What is left when there is no other work is freed in steps with pauses, or without them if a caller waits.
//! `stats().disk_bytes` includes both. A file that a checkpoint has a link to, or that a forked child may read, is
//! only closed.

use super::counters::RecentGets;
use super::{FileBackend, FileState, IoCounters};
use crate::sync::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The bytes that are freed in one step: while gets read, and otherwise. The drive takes 0.15 ms and 1.3 ms for them.
const STEP_BYTES_MIN: u64 = 256 << 10;
const STEP_BYTES_MAX: u64 = 4 << 20;
/// This many bytes are freed for each one that is written, so that the space of removed files is free before as much is
/// written again.
const FREED_PER_WRITTEN: u64 = 2;

/// How a file was removed.
pub(super) enum Removed {
    /// Its name is removed.
    Nameless,
    /// It was retired in this generation, and has this name.
    Named(String, u64),
}

/// The removed files of a directory.
#[derive(Default)]
pub(super) struct Removals {
    /// Those without a name and without readers that still take more space than one step frees, with their lengths.
    files: Mutex<Vec<(Arc<dyn FileBackend>, u64)>>,
    retired: Mutex<Retired>,
    /// The lengths of `files` and of retired files without readers.
    bytes: AtomicU64,
    /// The lengths of retired files that have readers, and of those that are written over.
    held_bytes: AtomicU64,
    /// Locked while space is freed, by one thread.
    progress: Mutex<Progress>,
}

/// Retired files.
#[derive(Default)]
struct Retired {
    /// The names and lengths of all of them.
    names: BTreeMap<String, u64>,
    /// Those without readers, the latest last.
    spares: Vec<Spare>,
    /// The most bytes of all of them.
    bytes_max: u64,
    /// How often all names were forgotten. Since then another file may have got such a name, and be retired too.
    generation: u64,
}

/// A retired file without readers.
pub(super) struct Spare {
    pub name: String,
    pub file: Arc<dyn FileBackend>,
    pub bytes: u64,
}

/// The state of the directory at the last call of `free`.
#[derive(Default)]
struct Progress {
    /// All bytes that had been written, and those at the last call while there was no other work.
    written_bytes: u64,
    written_bytes_when_idle: u64,
    gets: RecentGets,
}

impl Progress {
    fn step_bytes(&mut self, counters: &IoCounters) -> u64 {
        if self.gets.check(counters) { STEP_BYTES_MIN } else { STEP_BYTES_MAX }
    }
}

/// Truncates a removed file to `length`, unless it may be in use elsewhere. Returns the length that is left to be freed
/// by truncating.
fn shorten(file: &dyn FileBackend, length: u64) -> io::Result<u64> {
    // A checkpoint may have a link to the file, and a forked child may read it: closing it is all that can be done.
    if file.state()?.names != Some(0) {
        return Ok(0);
    }
    file.truncate(length)?;
    Ok(length)
}

impl Removals {
    /// Takes a removed file from its last reader. Does no I/O except for reading the length.
    pub fn add(&self, removed: Removed, file: Arc<dyn FileBackend>) {
        // Without a length it is closed here, which frees its space at once.
        let Ok(FileState { length: bytes, .. }) = file.state() else { return };
        match removed {
            Removed::Named(name, generation) => {
                let mut retired = self.retired.lock();
                // After `forget_names` it is removed by its name, and is no spare any more.
                let is_kept = retired.generation == generation;
                if let Some(&bytes) = retired.names.get(&name).filter(|_| is_kept) {
                    self.bytes.fetch_add(bytes, Relaxed);
                    self.held_bytes.fetch_sub(bytes, Relaxed);
                    return retired.spares.push(Spare { name, file, bytes });
                }
            }
            Removed::Nameless => {}
        }
        self.add_nameless(file, bytes);
    }

    fn add_nameless(&self, file: Arc<dyn FileBackend>, bytes: u64) {
        // Otherwise closing the file frees its space, which for a small one is a single step.
        if bytes > STEP_BYTES_MIN {
            self.bytes.fetch_add(bytes, Relaxed);
            self.files.lock().push((file, bytes));
        }
    }

    /// Records that a file of this many bytes is retired and keeps its name.
    pub fn keep(&self, name: String, bytes: u64) -> Removed {
        let mut retired = self.retired.lock();
        retired.names.insert(name.clone(), bytes);
        self.held_bytes.fetch_add(bytes, Relaxed);
        Removed::Named(name, retired.generation)
    }

    /// Sets how many bytes retired files may have. What exceeds it is freed by `free`.
    pub fn limit(&self, bytes_max: u64) {
        self.retired.lock().bytes_max = bytes_max;
    }

    /// Takes the longest retired file of about this length that nothing else refers to.
    pub fn take(&self, expected_bytes: u64) -> io::Result<Option<Spare>> {
        let fits = expected_bytes / 2..=expected_bytes + expected_bytes / 8;
        let mut retired = self.retired.lock();
        let mut longest = None;
        for (at, spare) in retired.spares.iter().enumerate() {
            let is_longer = longest.is_none_or(|(_, bytes)| spare.bytes > bytes);
            // A file that others refer to is left to `free`.
            if is_longer && fits.contains(&spare.bytes) && spare.file.state()?.names == Some(1) {
                longest = Some((at, spare.bytes));
            }
        }
        let Some((at, _)) = longest else { return Ok(None) };
        let spare = retired.spares.remove(at);
        retired.names.remove(&spare.name);
        self.bytes.fetch_sub(spare.bytes, Relaxed);
        self.held_bytes.fetch_add(spare.bytes, Relaxed);
        Ok(Some(spare))
    }

    /// Records that a reused file of this many bytes is complete, or given up.
    pub fn end_reuse(&self, bytes: u64) {
        self.held_bytes.fetch_sub(bytes, Relaxed);
    }

    /// Returns the lengths of retired files that have readers, and of those that are written over.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Relaxed)
    }

    /// Returns the names of all retired files. From now on these count as nameless.
    pub fn forget_names(&self) -> BTreeMap<String, u64> {
        let mut retired = self.retired.lock();
        retired.generation += 1;
        let names = std::mem::take(&mut retired.names);
        let mut held_bytes: u64 = names.values().sum();
        for spare in std::mem::take(&mut retired.spares) {
            held_bytes -= spare.bytes;
            self.bytes.fetch_sub(spare.bytes, Relaxed);
            self.add_nameless(spare.file, spare.bytes);
        }
        self.held_bytes.fetch_sub(held_bytes, Relaxed);
        names
    }

    /// Returns how many bytes can be freed.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Returns how many bytes one step frees now.
    pub fn step_bytes(&self, counters: &IoCounters) -> u64 {
        self.progress.lock().step_bytes(counters)
    }

    /// Frees a step, and further steps in proportion to the bytes written since the last call. Returns whether
    /// there was anything to free; false if another thread is freeing. With `is_idle` there is no other work: if
    /// nothing was written since the last such call, retired files are freed too. With `is_short` all is freed.
    /// `remove` removes a name.
    pub fn free(
        &self,
        counters: &IoCounters,
        is_idle: bool,
        is_short: bool,
        remove: impl Fn(&str) -> io::Result<()>,
    ) -> io::Result<bool> {
        let Some(mut progress) = self.progress.try_lock() else { return Ok(false) };
        let written_bytes = counters.snapshot().total().write_bytes;
        let written = written_bytes.saturating_sub(progress.written_bytes);
        progress.written_bytes = written_bytes;
        let is_unused = is_idle && progress.written_bytes_when_idle == written_bytes;
        if is_idle {
            progress.written_bytes_when_idle = written_bytes;
        }
        self.give_up_retired(is_unused || is_short, remove)?;
        let step_bytes = progress.step_bytes(counters);
        let wanted = if is_short { self.bytes() } else { FREED_PER_WRITTEN * written };
        let steps = wanted.div_ceil(step_bytes).max(1);
        for done in 0..steps {
            let Some((file, length)) = self.next() else { return Ok(done > 0) };
            let outcome = shorten(&*file, length.saturating_sub(step_bytes));
            // After an error the file is closed here too, which frees all of it.
            let left = *outcome.as_ref().unwrap_or(&0);
            self.bytes.fetch_sub(length - left, Relaxed);
            outcome?;
            if left > 0 {
                self.files.lock().push((file, left));
            }
        }
        Ok(true)
    }

    /// Removes the names of the retired files that exceed the limit, the oldest first, or of all.
    fn give_up_retired(&self, all: bool, remove: impl Fn(&str) -> io::Result<()>) -> io::Result<()> {
        let given_up = {
            let mut retired = self.retired.lock();
            let bytes_max = if all { 0 } else { retired.bytes_max };
            let mut bytes: u64 = retired.spares.iter().map(|spare| spare.bytes).sum();
            let mut given_up = 0;
            while bytes > bytes_max {
                bytes -= retired.spares[given_up].bytes;
                given_up += 1;
            }
            let given_up: Vec<_> = retired.spares.drain(..given_up).collect();
            given_up.iter().for_each(|spare| _ = retired.names.remove(&spare.name));
            given_up
        };
        // Without the lock of the retired files, which a reader takes when it drops one.
        let mut outcome = Ok(());
        for Spare { name, file, bytes } in given_up {
            self.bytes.fetch_sub(bytes, Relaxed);
            match remove(&name) {
                Ok(()) => self.add_nameless(file, bytes),
                // Something else has removed the name.
                Err(error) if error.kind() == io::ErrorKind::NotFound => self.add_nameless(file, bytes),
                // The name stays until the next open, and the others are removed all the same.
                Err(error) => outcome = Err(error),
            }
        }
        outcome
    }

    fn next(&self) -> Option<(Arc<dyn FileBackend>, u64)> {
        self.files.lock().pop()
    }
}
