//! Where the database of a benchmark stands.

use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The directory of a database. A temporary one is removed with everything in it when it is dropped.
pub struct Place {
    directory: PathBuf,
    _temporary: Option<TempDir>,
}

/// Why a database cannot stand there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// What stands in a directory is never removed unless we wrote it.
    #[error("{0}: something stands here already; use --use-existing-db, name a new directory, or remove it")]
    Occupied(PathBuf),
    /// An existing database has a directory.
    #[error("an existing database has a directory: name it with --db")]
    Nameless,
    /// The operating system refused something.
    #[error("{0}: {1}")]
    System(String, io::Error),
}

impl Place {
    /// The directory that was named, or a temporary one. It must be empty or not yet there, unless it is said to hold
    /// an existing database.
    pub fn prepare(directory: Option<&Path>, existing: bool) -> Result<Place, PlaceError> {
        let Some(directory) = directory else {
            if existing {
                return Err(PlaceError::Nameless);
            }
            let temporary = tempfile::Builder::new().prefix("siltstone-bench-").tempdir();
            let temporary = temporary
                .map_err(|error| PlaceError::System("cannot make a temporary directory".into(), error))?;
            return Ok(Place { directory: temporary.path().join("db"), _temporary: Some(temporary) });
        };
        if !existing && !is_empty(directory)? {
            return Err(PlaceError::Occupied(directory.to_owned()));
        }
        Ok(Place { directory: directory.to_owned(), _temporary: None })
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Removes the database that this run has written.
    pub fn clear(&self) -> Result<(), PlaceError> {
        match std::fs::remove_dir_all(&self.directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(PlaceError::System(format!("cannot remove {}", self.directory.display()), error))
            }
            _ => Ok(()),
        }
    }
}

fn is_empty(directory: &Path) -> Result<bool, PlaceError> {
    match std::fs::read_dir(directory) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(PlaceError::System(format!("cannot list {}", directory.display()), error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_a_directory_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("file"), "kept").unwrap();
        let prepared = Place::prepare(Some(directory.path()), false);
        assert!(matches!(prepared, Err(PlaceError::Occupied(_))));
        assert!(Place::prepare(Some(directory.path()), true).is_ok());
        assert!(matches!(Place::prepare(None, true), Err(PlaceError::Nameless)));
        assert_eq!(std::fs::read(directory.path().join("file")).unwrap(), b"kept");
    }

    #[test]
    fn a_temporary_place_goes_away() {
        let place = Place::prepare(None, false).unwrap();
        std::fs::create_dir(place.directory()).unwrap();
        place.clear().unwrap();
        place.clear().unwrap();
        assert!(!place.directory().exists());
        let above = place.directory().parent().unwrap().to_owned();
        drop(place);
        assert!(!above.exists());
    }
}
