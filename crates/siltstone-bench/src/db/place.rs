//! Where the database of a benchmark stands, and opening it there.

use super::{BenchError, Result, Settings};
use siltstone::Database;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The directory of the database.
pub struct Place {
    directory: PathBuf,
    _temporary: Option<TempDir>,
}

impl Place {
    /// The directory that was named, or a temporary one. What stands in it is never removed unless we wrote it.
    pub fn prepare(settings: &Settings) -> Result<Place> {
        let Some(directory) = &settings.directory else {
            if settings.use_existing_db {
                return Err(BenchError::Settings(
                    "an existing database has a directory: name it with --db".into(),
                ));
            }
            let temporary = tempfile::Builder::new().prefix("siltstone-bench-").tempdir();
            let temporary = temporary
                .map_err(|error| BenchError::System("cannot make a temporary directory".into(), error))?;
            return Ok(Place { directory: temporary.path().join("db"), _temporary: Some(temporary) });
        };
        if !settings.use_existing_db && !is_empty(directory)? {
            return Err(BenchError::Settings(format!(
                "{}: something stands here already; use --use_existing_db, name a new directory, or remove it",
                directory.display()
            )));
        }
        Ok(Place { directory: directory.clone(), _temporary: None })
    }

    /// Opens the database, or creates it unless it should be there.
    pub fn open(&self, settings: &Settings) -> Result<Database> {
        let mut builder = Database::builder(&self.directory)
            .create(!settings.use_existing_db)
            .durability(settings.durability);
        if settings.fixed {
            builder = builder.fixed(settings.key_size, settings.value_size);
        }
        if settings.hashed_keys {
            builder = builder.hashed_keys();
        }
        Ok((settings.set_up)(builder).open()?)
    }

    /// Removes the database that this run has written.
    pub fn clear(&self) -> Result<()> {
        match std::fs::remove_dir_all(&self.directory) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(BenchError::System(format!("cannot remove {}", self.directory.display()), error))
            }
            _ => Ok(()),
        }
    }
}

fn is_empty(directory: &Path) -> Result<bool> {
    match std::fs::read_dir(directory) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(BenchError::System(format!("cannot list {}", directory.display()), error)),
    }
}
