//! What can go wrong, each with the name of the thing, the limit and the mend.

use crate::index::{BuildError, DecodeError};
use crate::mica::Full;
use crate::store::names::FileName;
use std::path::{Path, PathBuf};

/// The result of everything that can fail in this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Everything that a database can answer besides what was asked for.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation on a file.
    #[error("cannot {operation} {}: {source}{}", file.display(), hint(source))]
    Io {
        /// What was being done, as a verb: `read`, `write`, `sync`, `open`.
        operation: &'static str,
        /// The file it was done to.
        file: PathBuf,
        /// What the system said.
        source: std::sync::Arc<std::io::Error>,
    },
    /// Bytes on disk are not what was written there. Nothing else is affected.
    #[error("{}: damaged at byte {offset}: expected {expected}, got {got}{}", file.display(), mend(file))]
    Corrupt {
        /// The damaged file.
        file: PathBuf,
        /// Where the damage begins, in bytes.
        offset: u64,
        /// What should be there.
        expected: String,
        /// What is there.
        got: String,
    },
    /// A key is empty or longer than 65,535 bytes.
    #[error("{}: a key has 1 to 65,535 bytes", match length {
        0 => "the key is empty".to_owned(),
        _ => format!("the key has {length} bytes; use a hash of it"),
    })]
    KeyLength {
        /// The length of the key that was given, in bytes.
        length: usize,
    },
    /// A value is longer than 256 MiB.
    #[error(
        "the value has {length} bytes: a value has at most {} bytes (256 MiB); split it over several keys",
        crate::key::VALUE_LENGTH_MAX
    )]
    ValueLength {
        /// The length of the value that was given, in bytes.
        length: usize,
    },
    /// A key or a value does not have the size that a fixed-size database was made with.
    #[error(
        "the {what} has {got} bytes, but this database was created with fixed {what}s of {expected} bytes; create one without `fixed` for records of other sizes"
    )]
    RecordSize {
        /// `key` or `value`.
        what: &'static str,
        /// The size that the database was made with, in bytes.
        expected: usize,
        /// The size that was given, in bytes.
        got: usize,
    },
    /// A key is too short to be a hash, in a database whose keys are hashes.
    #[error(
        "the key has {got} bytes, but the keys of this database are hashes of {} bytes or more; create one without `hashed_keys` for other keys",
        crate::key::HASH_LENGTH_MIN
    )]
    HashLength {
        /// The length of the key that was given, in bytes.
        got: usize,
    },
    /// A fixed-size database that was made without expiry was given an expiry time.
    #[error(
        "this fixed-size database was created without room for expiry times; create it with `Builder::expiring(true)`"
    )]
    ExpiryUnsupported,
    /// The directory holds no database, and none was to be created.
    #[error("{}: no database here; create one with `Builder::create(true)` or name another directory", path.display())]
    NotFound {
        /// The directory.
        path: PathBuf,
    },
    /// The directory holds files, but no database.
    #[error("{}: this directory holds other files and no database ({found}); name an empty or a new directory", path.display())]
    NotADatabase {
        /// The directory.
        path: PathBuf,
        /// One of the files that stand there.
        found: String,
    },
    /// The path of a database is that of a file.
    #[error("{}: this is a file, and a database is a directory; name another path", path.display())]
    NotADirectory {
        /// The file.
        path: PathBuf,
    },
    /// A copy is to be written to a directory that holds something.
    #[error("{}: this directory is not empty ({found}); name an empty or a new directory", path.display())]
    NotEmpty {
        /// The directory.
        path: PathBuf,
        /// One of the files that stand there.
        found: String,
    },
    /// The directory holds stores of a database, but neither of its manifests.
    #[error("{}: MANIFEST and MANIFEST.mirror are both missing beside {found}, and without them nothing here can be read; copy one of them back", path.display())]
    NoManifest {
        /// The directory.
        path: PathBuf,
        /// One of the stores or logs.
        found: String,
    },
    /// The file is no dictionary.
    #[error("{}: this is no dictionary: {found}; `siltstone dict build` makes one", path.display())]
    NotADictionary {
        /// The file.
        path: PathBuf,
        /// What stands where its header would be.
        found: String,
    },
    /// The files are of a version that this program cannot read.
    #[error("{}: format version {found}, but this program reads version {supported}; {}", file.display(), if found > supported { "use a newer siltstone" } else { "export it with the version that wrote it and import it here" })]
    Version {
        /// The file that says so.
        file: PathBuf,
        /// The version found there.
        found: u32,
        /// The version that this program reads.
        supported: u32,
    },
    /// Somebody else has the database open, or works on the dictionary.
    #[error("{}: it is in use by {}; close it there first", path.display(), user(*process))]
    Locked {
        /// The directory of the database, or the file of the dictionary.
        path: PathBuf,
        /// The process that writes to it; `None` if only readers have it open, or if it is not known.
        process: Option<u32>,
    },
    /// An earlier write or sync failed: nothing more is accepted until the database is opened anew.
    #[error(
        "no more writes are accepted since an earlier one failed ({cause}); reads go on; reopening recovers everything that was durable"
    )]
    Poisoned {
        /// The failure that began it.
        cause: String,
    },
    /// A setting does not fit the others or what the database was made with.
    #[error("{name}: {problem}")]
    Setting {
        /// The builder's method.
        name: &'static str,
        /// What is wrong and how to mend it.
        problem: String,
    },
    /// The database was closed.
    #[error("the database was closed")]
    Closed,
    /// The database was opened for reading only.
    #[error("the database was opened read-only; open it without `Builder::read_only` to write")]
    ReadOnly,
    /// The process that wants to write is a child, by `fork`, of the one that opened the database.
    #[error(
        "this process was forked from process {opened_by}, which opened the database and alone may write; close it there and open it here"
    )]
    Forked {
        /// The process that opened the database.
        opened_by: u32,
    },
    /// The engine does not offer what was asked for.
    #[error("the engine {engine} does not offer {operation}")]
    Unsupported {
        /// The engine.
        engine: &'static str,
        /// What was asked of it.
        operation: &'static str,
    },
    /// The caller asked a long operation to stop.
    #[error("interrupted; what was done until then is kept")]
    Interrupted,
    /// A key comes twice where that is an error.
    #[error("the key \"{key}\" comes twice: drop one of the records, or let the last one win")]
    DuplicateKey {
        /// The key, with what cannot be printed escaped; at most its first 64 bytes.
        key: String,
    },
    /// A store in memory takes no more.
    #[error(transparent)]
    Full(#[from] Full),
    /// An index could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// What to do about a damaged file: `repair` knows the files of databases, and no dictionaries.
fn mend(file: &Path) -> &'static str {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    match FileName::parse(&name) {
        Some(_) => "; what is sound can still be read, and `siltstone repair` keeps it",
        None => "",
    }
}

fn hint(source: &std::io::Error) -> &'static str {
    use std::io::ErrorKind;
    match source.kind() {
        ErrorKind::StorageFull => "; free some space and reopen: what was acknowledged as durable is safe",
        ErrorKind::PermissionDenied => "; check the owner and mode of the directory",
        _ if crate::device::is_shortage(source) => {
            "; raise the limit on open files (`ulimit -n`), or lower `Builder::open_files_max`"
        }
        _ => "",
    }
}

fn user(process: Option<u32>) -> String {
    match process {
        Some(own) if own == std::process::id() => "another handle of this process".to_owned(),
        Some(process) => format!("process {process}"),
        None => "another process, or by another handle of this one".to_owned(),
    }
}

impl Error {
    /// An error of the operating system, with what was being done to which file.
    pub(crate) fn io(
        operation: &'static str,
        file: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Error {
        let file = file.into();
        move |source| Error::Io { operation, file, source: std::sync::Arc::new(source) }
    }

    /// A key that came twice.
    pub(crate) fn duplicate_key(key: &[u8]) -> Error {
        Error::DuplicateKey { key: key[..key.len().min(64)].escape_ascii().to_string() }
    }

    /// Damage found where a structure was decoded from `file`, whose bytes began at `base` there.
    pub(crate) fn decode(file: impl Into<PathBuf>, base: u64) -> impl FnOnce(DecodeError) -> Error {
        let file = file.into();
        move |error| Error::Corrupt {
            file,
            offset: base + error.offset as u64,
            expected: format!("{} with {}", error.structure, error.expected),
            got: error.got,
        }
    }
}
