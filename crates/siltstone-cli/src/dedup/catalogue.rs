//! Which files are indexed, and how far: a small database beside that of the chunks.

use super::chunks::{Chunking, HashKind};
use super::formats::{FileEntry, State, Totals};
use crate::open;
use anyhow::{bail, ensure};
use siltstone::{Batch, Database, Durability, WriteOptions};
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The key of the catalogue's own record; those of files begin with a slash.
const STATE_KEY: &[u8] = b"state";

/// Which files are indexed, and how far. What is set is kept in memory until [`commit`](Catalogue::commit).
pub struct Catalogue {
    database: Database,
    state: State,
    pending: HashMap<PathBuf, FileEntry>,
}

impl Catalogue {
    /// Opens the catalogue or begins one. What is chosen must be what the index was made with.
    pub fn open(
        directory: &Path,
        average_size: Option<u32>,
        hash: Option<HashKind>,
        hash_bytes: Option<u8>,
    ) -> anyhow::Result<Catalogue> {
        let default = Chunking::default();
        let asked = Chunking {
            average_size: average_size.unwrap_or(default.average_size),
            hash: hash.unwrap_or(default.hash),
            hash_bytes: hash_bytes.unwrap_or(default.hash_bytes),
        };
        asked.check()?;
        let database = open::open(Database::builder(directory).partitions(1).log_slots_min(256))?;
        let mut state = match database.get(STATE_KEY)? {
            Some(value) => State::decode(&value)?,
            None => State { chunking: asked, runs: 0, next_file_id: 0, totals: Totals::default() },
        };
        let made = &state.chunking;
        let same = average_size.is_none_or(|size| size == made.average_size)
            && hash.is_none_or(|hash| hash == made.hash)
            && hash_bytes.is_none_or(|bytes| bytes == made.hash_bytes);
        ensure!(
            same,
            "this index was made with --average-size {} --hash {} --hash-bytes {}: \
             leave these flags away, or name another directory with --db",
            made.average_size,
            made.hash.name(),
            made.hash_bytes
        );
        state.runs += 1;
        Ok(Catalogue { database, state, pending: HashMap::new() })
    }

    /// How files are cut and chunks hashed.
    pub fn chunking(&self) -> &Chunking {
        &self.state.chunking
    }

    /// The number of this run, from 1 on.
    pub fn run(&self) -> u32 {
        self.state.runs
    }

    /// What all runs have indexed.
    pub fn totals(&self) -> Totals {
        self.state.totals
    }

    /// What all runs have indexed, to add to.
    pub fn totals_mut(&mut self) -> &mut Totals {
        &mut self.state.totals
    }

    /// What is known of a file.
    pub fn get(&self, path: &Path) -> anyhow::Result<Option<FileEntry>> {
        if let Some(entry) = self.pending.get(path) {
            return Ok(Some(*entry));
        }
        self.database.get(key(path)?)?.map(|value| FileEntry::decode(&value)).transpose()
    }

    /// Sets what is known of a file.
    pub fn set(&mut self, path: &Path, entry: FileEntry) {
        self.pending.insert(path.to_owned(), entry);
    }

    /// A number for a version of a file.
    pub fn new_file_id(&mut self) -> u64 {
        self.state.next_file_id += 1;
        self.state.next_file_id
    }

    /// Makes durable all that was set, at once. The chunks that it tells of must be durable already.
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

    /// Memory and disk of the catalogue itself, in bytes.
    pub fn cost(&self) -> (u64, u64) {
        let stats = self.database.stats();
        (stats.ram.total_bytes(), stats.disk_bytes)
    }

    /// Closes the database.
    pub fn close(&self) -> anyhow::Result<()> {
        Ok(self.database.close()?)
    }
}

fn key(path: &Path) -> anyhow::Result<&[u8]> {
    let key = path.as_os_str().as_bytes();
    match key.first() {
        Some(b'/') => Ok(key),
        _ => bail!("{}: the path is not absolute", path.display()),
    }
}
