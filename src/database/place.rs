//! Which database is in a directory.

use crate::device::Directory;
use crate::engine::{EngineKind, EngineSettings};
use crate::error::{Error, Result};
use crate::store::manifest::Header;

/// What is in a directory.
pub(super) enum Place {
    /// A database of the engine with this number.
    Database(u8),
    /// Nothing, or the remains of an interrupted creation.
    Free,
    /// The file `file`, and no database.
    Occupied {
        /// One of the files.
        file: String,
        /// Whether it is a data file of a database.
        is_data: bool,
    },
}

impl Place {
    /// Reads what is in a directory. `stated` is the engine that the user chose, which may be none of the table.
    pub fn read(directory: &Directory, stated: Option<&dyn EngineSettings>) -> Result<Place> {
        if let Some(header) = Header::read(directory)? {
            return Ok(Place::Database(header.engine));
        }
        let table: Vec<_> = EngineKind::ALL.iter().map(|kind| kind.settings()).collect();
        let engines = || table.iter().map(|engine| &**engine).chain(stated);
        for engine in engines() {
            if engine.is_half_created(directory)? {
                return Ok(Place::Free);
            }
        }
        let names = directory.list()?;
        if let Some(file) = names.iter().find(|name| engines().any(|engine| engine.owns(name))) {
            return Ok(Place::Occupied { file: file.clone(), is_data: true });
        }
        let user_file = names.into_iter().find(|name| name != "LOCK" && name != "lost+found");
        Ok(user_file.map_or(Place::Free, |file| Place::Occupied { file, is_data: false }))
    }
}

/// Returns the default settings of the engine whose database is in a directory.
///
/// # Errors
/// [`Error::NotFound`] or [`Error::NoManifest`] if there is no database, [`Error::UnknownEngine`] if this program does
/// not have its engine.
pub(super) fn engine_of(directory: &Directory) -> Result<Box<dyn EngineSettings>> {
    match Place::read(directory, None)? {
        Place::Database(number) => engine_of_number(number, directory),
        Place::Occupied { file, is_data: true } => {
            Err(Error::NoManifest { path: directory.path(), found: file })
        }
        Place::Free | Place::Occupied { .. } => Err(Error::NotFound { path: directory.path() }),
    }
}

/// Returns the default settings of the engine with a number that was read from the header of a directory.
pub(super) fn engine_of_number(number: u8, directory: &Directory) -> Result<Box<dyn EngineSettings>> {
    let kind = EngineKind::from_number(number);
    kind.map(EngineKind::settings).ok_or_else(|| Error::UnknownEngine { path: directory.path(), number })
}
