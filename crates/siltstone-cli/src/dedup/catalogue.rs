//! The catalogue: which files are indexed, and how far. A small database next to that of the chunks.

use super::formats::{FileEntry, Metadata, State, Totals};
use super::with_log_slots;
use crate::open;
use anyhow::bail;
use siltstone::{Batch, Database, Durability, WriteOptions};
use siltstone_bench::tuning::SettingArgs;
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The minimum number of slots of a LogStore.
const LOG_SLOTS_MIN: u32 = 256;
/// The key of the catalogue's state record. The keys of files begin with a slash.
const STATE_KEY: &[u8] = b"state";

/// Which files are indexed, and how far. Changes are kept in memory until [`commit`](Catalogue::commit).
pub struct Catalogue {
    database: Database,
    state: State,
    pending: HashMap<PathBuf, FileEntry>,
}

impl Catalogue {
    /// Opens or creates the catalogue of the index of `chunks`, for the next run. If records of the index were lost, or
    /// the state record is missing, counts the chunks again and treats all files as unread.
    pub fn open(directory: &Path, chunks: &Database, settings: &SettingArgs) -> anyhow::Result<Catalogue> {
        let builder = with_log_slots(Database::builder(directory), directory, LOG_SLOTS_MIN);
        let database = open::open(settings.apply(builder.partitions(1)))?;
        let state = read_state(&database)?;
        let mut state = match state {
            Some(state) if !state.recount => state,
            _ => recount(chunks)?,
        };
        state.runs += 1;
        Ok(Catalogue { database, state, pending: HashMap::new() })
    }

    /// Durably records, in the catalogue in `directory`, that records of the index are lost.
    pub fn note_loss(directory: &Path) -> anyhow::Result<()> {
        let database = open::open(Database::builder(directory).create(false))?;
        let state = State { recount: true, ..read_state(&database)?.unwrap_or_default() };
        let synced = WriteOptions::default().durability(Durability::Synced);
        database.put_with(STATE_KEY, state.encode(), synced)?;
        Ok(database.close()?)
    }

    /// Returns the number of this run, from 1 on.
    pub fn run(&self) -> u32 {
        self.state.runs
    }

    /// Returns the totals of all runs.
    pub fn totals(&self) -> Totals {
        self.state.totals
    }

    /// Returns the totals of all runs for updating.
    pub fn totals_mut(&mut self) -> &mut Totals {
        &mut self.state.totals
    }

    /// Returns the entry of a file.
    pub fn get(&self, path: &Path) -> anyhow::Result<Option<FileEntry>> {
        if let Some(entry) = self.pending.get(path) {
            return Ok(Some(*entry));
        }
        let entry = self.database.get(key(path)?)?.map(|value| FileEntry::decode(&value)).transpose()?;
        Ok(entry.filter(|entry| entry.id >= self.state.first_valid_id))
    }

    /// Sets the entry of a file.
    pub fn set(&mut self, path: &Path, entry: FileEntry) {
        self.pending.insert(path.to_owned(), entry);
    }

    /// Returns a new number for a version of a file.
    pub fn new_file_id(&mut self) -> u64 {
        self.state.next_file_id += 1;
        self.state.next_file_id
    }

    /// Makes all changes durable, atomically. The chunks of these files must be durable already.
    pub fn commit(&mut self) -> anyhow::Result<()> {
        let mut batch = Batch::new();
        for (path, entry) in &self.pending {
            batch.put(key(path)?, entry.encode())?;
        }
        batch.put(STATE_KEY, self.state.encode())?;
        self.database.write_with(&batch, WriteOptions::default().durability(Durability::Synced))?;
        self.pending.clear();
        Ok(())
    }

    /// Returns the memory and the disk space of the catalogue itself, in bytes.
    pub fn cost(&self) -> (u64, u64) {
        let stats = self.database.stats();
        (stats.ram.total_bytes(), stats.disk_bytes)
    }

    /// Closes the database.
    pub fn close(&self) -> anyhow::Result<()> {
        Ok(self.database.close()?)
    }
}

fn read_state(database: &Database) -> anyhow::Result<Option<State>> {
    database.get(STATE_KEY)?.map(|value| State::decode(&value)).transpose()
}

/// Returns the state of an index with these chunks and no known files. Reads all chunks.
fn recount(chunks: &Database) -> anyhow::Result<State> {
    let mut state = State::default();
    for record in chunks.iter()? {
        let record = record?;
        let Some(metadata) = Metadata::decode(&record.value) else {
            bail!(
                "the record of a chunk has a wrong length, {} bytes; run `siltstone verify` on the index",
                record.value.len()
            )
        };
        state.totals.unique_chunks += 1;
        state.totals.unique_bytes += u64::from(metadata.length);
        state.runs = state.runs.max(metadata.run);
        state.next_file_id = state.next_file_id.max(metadata.file_id);
    }
    // The number of a version is never reused: the next one is higher than all numbers in the chunks' records.
    state.first_valid_id = state.next_file_id + 1;
    Ok(state)
}

fn key(path: &Path) -> anyhow::Result<&[u8]> {
    let key = path.as_os_str().as_bytes();
    match key.first() {
        Some(b'/') => Ok(key),
        _ => bail!("{}: the path is not absolute", path.display()),
    }
}
