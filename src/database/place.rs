//! Which database is in a directory.

use crate::engine::{EngineInfo, EngineKind, EngineSettings};
use crate::error::{Error, Result};
use crate::names::{
    CLAIM_NAME, FileName, MANIFEST_NAME, TRUNCATED_MARK, TRUNCATED_NAME, TRUNCATED_PREFIX, is_beside,
};
use crate::store::manifest::Header;
use siltstone_device::{Access, AlignedBuffer, Directory, LOCK, Purpose};
use std::io::ErrorKind;
use std::path::PathBuf;

/// What is in a directory.
pub(super) enum Contents {
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

impl Contents {
    /// Reads what is in a directory. `stated` is the engine that the user chose, which may be none of the table.
    pub fn read(directory: &Directory, stated: Option<&dyn EngineSettings>) -> Result<Contents> {
        let compiled: Vec<_> = EngineKind::ALL.iter().map(|kind| kind.settings()).collect();
        Contents::read_with(
            directory,
            &compiled.iter().map(|engine| &**engine).chain(stated).collect::<Vec<_>>(),
        )
    }

    /// Reads what is in a directory, in a program that has these engines. The files of all others are recognised too.
    fn read_with(directory: &Directory, engines: &[&dyn EngineSettings]) -> Result<Contents> {
        // First: a database has the files of its engine as well.
        if let Some(header) = Header::read(directory)? {
            return Ok(Contents::Database(header.engine));
        }
        // Before the names: these files have the names of an engine's data, but no record. Those of an engine that
        // this program does not have pass for data, so nothing is created over them.
        for engine in engines {
            if engine.is_half_created(directory)? {
                return Ok(Contents::Free);
            }
        }
        let names = directory.list()?;
        // A database that has lost its manifest must not pass for an empty directory, whichever engine it had.
        let is_data = |name: &&String| {
            FileName::parse(name).is_some_and(FileName::is_data)
                || engines.iter().any(|engine| engine.owns(name))
        };
        if let Some(file) = names.iter().find(is_data) {
            return Ok(Contents::Occupied { file: file.clone(), is_data: true });
        }
        // The root of a file system has `lost+found`.
        let is_free = |name: &str| {
            ["LOCK", "lost+found"].contains(&name)
                || is_beside(name)
                || engines.iter().any(|engine| is_left(name, *engine))
        };
        let user_file = names.into_iter().find(|name| !is_free(name));
        Ok(user_file.map_or(Contents::Free, |file| Contents::Occupied { file, is_data: false }))
    }

    /// Returns what is there for an open that, if `is_emptied`, creates the empty database of a truncation: files that
    /// are none of a database were with the old one, and are with the new one.
    pub fn with_others(self, is_emptied: bool) -> Contents {
        match self {
            Contents::Occupied { is_data: false, .. } if is_emptied => Contents::Free,
            contents => contents,
        }
    }
}

/// Returns whether a truncation has left a file of this name, in a database of an engine that may be none of the table.
pub(super) fn is_left(name: &str, engine: &dyn EngineSettings) -> bool {
    crate::names::is_left(name) || name.strip_prefix(TRUNCATED_PREFIX).is_some_and(|of| engine.owns(of))
}

/// Returns whether a directory has the mark of a truncation, which makes it empty whatever else it has. Before the
/// directory is locked, another process may be about to set or to remove the mark.
pub(super) fn is_truncated(directory: &Directory) -> Result<bool> {
    // Without opening it: a directory of this name is the user's.
    if directory.list()?.iter().all(|name| name != TRUNCATED_NAME) {
        return Ok(false);
    }
    let file = match directory.open(TRUNCATED_NAME, Access::Buffered) {
        Err(error) if error.is_not_found() => return Ok(false),
        file => file?,
    };
    if file.length()? != TRUNCATED_MARK.len() as u64 {
        return Ok(false);
    }
    let mut buffer = AlignedBuffer::default();
    Ok(file.read(Purpose::Maintain, 0, TRUNCATED_MARK.len(), &mut buffer)? == TRUNCATED_MARK)
}

/// Returns the default settings of the engine whose database is in a directory.
///
/// # Errors
/// [`Error::NotFound`] or [`Error::NoManifest`] if there is no database, and those of [`engine_of_number`].
pub(super) fn engine_of(directory: &Directory) -> Result<Box<dyn EngineSettings>> {
    match Contents::read(directory, None)? {
        Contents::Database(number) => engine_of_number(number, directory),
        Contents::Occupied { file, is_data: true } => {
            Err(Error::NoManifest { path: directory.path(), found: file })
        }
        Contents::Free | Contents::Occupied { .. } => Err(Error::NotFound { path: directory.path() }),
    }
}

/// Returns the default settings of the engine with a number that was read from the header of a directory.
///
/// # Errors
/// [`Error::UnknownEngine`] for a number that no engine has, [`Error::AbsentEngine`] for that of an engine that this
/// program is compiled without.
pub(super) fn engine_of_number(number: u8, directory: &Directory) -> Result<Box<dyn EngineSettings>> {
    kind_among(EngineKind::ALL, number, directory).map(EngineKind::settings)
}

/// Returns the engine with this number in a program that is compiled with some engines.
fn kind_among(compiled: &[EngineKind], number: u8, directory: &Directory) -> Result<EngineKind> {
    let info = EngineInfo::of_number(number)
        .ok_or_else(|| Error::UnknownEngine { path: directory.path(), number })?;
    let kind = compiled.iter().copied().find(|kind| kind.info() == info);
    kind.ok_or_else(|| Error::AbsentEngine { path: directory.path(), engine: info.name })
}

/// Refuses to write to the disk of another database by itself: its records on flash are newer than what is written
/// here, and would hide it.
pub(super) fn refuse_disk(directory: &Directory) -> Result<()> {
    let names = directory.list()?;
    if names.iter().all(|name| name != CLAIM_NAME) {
        return Ok(());
    }
    let problem = format!(
        "{} is the disk of another database, as {CLAIM_NAME} in it says; open that one, or this one read-only; if that \
         one is lost, remove {CLAIM_NAME}",
        directory.path().display()
    );
    Err(Error::Setting { name: "disk", problem })
}

/// Checks that the file system has direct I/O if it is required, before anything is written that could not be read.
pub(super) fn check_access(directory: &Directory) -> Result<()> {
    if directory.access() != Access::Direct {
        return Ok(());
    }
    // A directory in memory has no file of the lock, and a new database no manifest.
    Ok([LOCK, MANIFEST_NAME].into_iter().try_for_each(|name| match directory.open(name, Access::Direct) {
        Err(error) if error.is_not_found() => Ok(()),
        opened => opened.map(drop),
    })?)
}

/// Returns the error for a directory that could not be opened.
pub(super) fn not_opened(path: PathBuf, error: Error) -> Error {
    let Error::Io { source, .. } = &error else { return error };
    match source.kind() {
        ErrorKind::NotFound => Error::NotFound { path },
        ErrorKind::NotADirectory if path.exists() => Error::NotADirectory { path },
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Database;
    use crate::names::{MIRROR_NAME, NEW_MANIFEST_NAME};

    /// Creates a database with a record of each engine that has files, and passes it to `check`.
    fn with_each(check: impl Fn(EngineKind, &Directory)) {
        let folder = tempfile::tempdir().unwrap();
        for &kind in EngineKind::ALL.iter().filter(|kind| kind.info().number.is_some()) {
            let path = folder.path().join(kind.name());
            let database = Database::builder(&path).engine(kind.complete_settings()).open().unwrap();
            database.put("key", "value").unwrap();
            database.close().unwrap();
            check(kind, &Directory::system(&path, Access::Buffered).unwrap());
        }
    }

    #[test]
    fn the_database_of_an_engine_that_is_left_out_is_refused_with_the_feature_that_adds_it() {
        with_each(|kind, directory| {
            let Contents::Database(number) = Contents::read_with(directory, &[]).unwrap() else {
                panic!("{} is not recognised", kind.name());
            };
            let others: Vec<_> = EngineKind::ALL.iter().copied().filter(|other| *other != kind).collect();
            let error = kind_among(&others, number, directory).unwrap_err();
            assert!(matches!(error, Error::AbsentEngine { engine, .. } if engine == kind.name()));
            assert!(error.to_string().contains(&format!("add the feature `{}`", kind.name())), "{error}");
            assert_eq!(kind_among(EngineKind::ALL, number, directory).unwrap(), kind);
        });
    }

    #[test]
    fn files_of_each_engine_are_data_without_a_manifest_whichever_engines_a_program_has() {
        with_each(|kind, directory| {
            for name in [MANIFEST_NAME, MIRROR_NAME] {
                directory.remove(name).unwrap();
            }
            for left_out in EngineKind::ALL {
                let others = EngineKind::ALL.iter().filter(|other| *other != left_out);
                let settings: Vec<_> = others.map(|other| other.settings()).collect();
                for engines in [settings.iter().map(|engine| &**engine).collect(), Vec::new()] {
                    let contents = Contents::read_with(directory, &engines).unwrap();
                    assert!(matches!(contents, Contents::Occupied { is_data: true, .. }), "{}", kind.name());
                }
            }
            // What is left of a creation is free only for an engine that knows it.
            let names = directory.list().unwrap();
            names.iter().for_each(|name| directory.remove(name).unwrap());
            directory.create("log-0000000000000000", Access::Buffered).unwrap();
            directory.create(NEW_MANIFEST_NAME, Access::Buffered).unwrap();
            let contents = Contents::read_with(directory, &[]).unwrap();
            assert!(matches!(contents, Contents::Occupied { is_data: true, .. }));
        });
    }

    #[test]
    fn the_disk_of_flashstore_is_refused_without_asking_an_engine() {
        with_each(|kind, directory| {
            assert!(refuse_disk(directory).is_ok());
            if let Ok(disk) = directory.other("disk".as_ref(), false) {
                assert!(
                    matches!(refuse_disk(&disk), Err(Error::Setting { name: "disk", .. })),
                    "{}",
                    kind.name()
                );
            }
        });
    }
}
