//! The errors of the crate. Each message names the object, the limit and the remedy.

use crate::names::{COMPRESSION_NAMES, FileName};
use siltstone_device::is_shortage;
use siltstone_index::{BuildError, DecodeError};
use std::fmt;
use std::path::{Path, PathBuf};

/// The result of every operation of this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// Makes the enum of errors, of a row per error: its documentation, its fields and its message. The message has the
/// format and the arguments of `format!`, where the fields have their names. `Debug` prints the name of the error and
/// the message, which is what a user sees if `main` or `unwrap` ends with it.
macro_rules! errors {
    (
        $(#[$about:meta])*
        pub enum $enum:ident {
            $(
                $(#[doc = $doc:literal])+
                $error:ident $({ $($(#[doc = $field_doc:literal])+ $field:ident: $kind:ty,)+ })?
                = ($($message:tt)+);
            )+
        }
        same {
            $($(#[doc = $same_doc:literal])+ $same:ident($inner:ty);)+
        }
    ) => {
        $(#[$about])*
        pub enum $enum {
            $($(#[doc = $doc])+ $error $({ $($(#[doc = $field_doc])+ $field: $kind,)+ })?,)+
            $($(#[doc = $same_doc])+ $same($inner),)+
        }

        impl fmt::Display for $enum {
            fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $($enum::$error $({ $($field),+ })? => {
                        // Not every field is in the message.
                        $(let _ = ($($field),+);)?
                        write!(to, $($message)+)
                    })+
                    $($enum::$same(error) => error.fmt(to),)+
                }
            }
        }

        impl fmt::Debug for $enum {
            fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                let name = match self {
                    $($enum::$error { .. } => stringify!($error),)+
                    $($enum::$same { .. } => stringify!($same),)+
                };
                write!(to, "{name}: {self}")
            }
        }

        $(
            impl From<$inner> for $enum {
                fn from(error: $inner) -> $enum {
                    $enum::$same(error)
                }
            }
        )+
    };
}

errors! {
    /// An error of a database, a dictionary or one of their structures.
    ///
    /// `Display` prints the message, `Debug` the name of the error and the message: a `main` that returns [`Result`]
    /// ends with `Error: NotFound: visits: no database here; ...`.
    #[derive(Clone)]
    #[non_exhaustive]
    pub enum Error {
        /// The operating system refused an operation on a file.
        Io {
            /// The operation, as a verb: `read`, `write`, `sync`, `open`.
            operation: &'static str,
            /// The file.
            file: PathBuf,
            /// The error of the operating system.
            source: std::sync::Arc<std::io::Error>,
        } = ("cannot {operation} {}: {source}{}", file.display(), hint(source));
        /// Bytes on disk differ from those that were written. Other data is not affected.
        Corrupt {
            /// The damaged file.
            file: PathBuf,
            /// Where the damage begins, in bytes.
            offset: u64,
            /// The expected content.
            expected: String,
            /// The content found.
            got: String,
        } = ("{}: damaged at byte {offset}: expected {expected}, got {got}{}", file.display(), remedy(file));
        /// A key is empty or longer than 65,535 bytes.
        KeyLength {
            /// The length of the given key, in bytes.
            length: usize,
        } = ("{}; keys must have 1 to 65,535 bytes", match length {
            0 => "the key is empty".to_owned(),
            _ => format!("the key has {length} bytes (use a hash of it)"),
        });
        /// A value is longer than 256 MiB.
        ValueLength {
            /// The length of the given value, in bytes.
            length: usize,
        } = ("the value has {length} bytes; the maximum is 268435456 bytes (256 MiB); split it over several keys");
        /// A batch, or the changes of a transaction, are longer than 1 GiB. Nothing was written.
        BatchLength {
            /// The length of the batch: keys, values, and 64 bytes for each write.
            bytes: u64,
        } = (
            "the batch has {bytes} bytes, with 64 for each write; the maximum is 1073741824 bytes (1 GiB); split it into several batches"
        );
        /// A key or a value does not have the size that was fixed when the database was created.
        RecordSize {
            /// `key` or `value`.
            what: &'static str,
            /// The size fixed when the database was created, in bytes.
            expected: usize,
            /// The given size, in bytes.
            got: usize,
        } = (
            "the {what} has {got} bytes, but this database was created with fixed {what}s of {expected} bytes; create a database without `fixed` for other sizes"
        );
        /// A key is too short for a database whose keys are hashes.
        HashLength {
            /// The length of the given key, in bytes.
            got: usize,
        } = (
            "the key has {got} bytes, but the keys of this database are hashes of 8 bytes or more; create a database without `hashed_keys` for other keys"
        );
        /// Too many keys of a database whose keys are hashes begin with the same bits.
        HashClustered {
            /// The keys with these bits.
            keys: usize,
            /// The bits that are compared.
            bits: u32,
        } = (
            "{keys} keys begin with the same {bits} bits, but the keys of this database are uniform hashes; create a database without `hashed_keys` for keys such as UUIDv7, ULID, Snowflake or counters"
        );
        /// A record with an expiry time was put into a fixed-size database that has no expiry times.
        ExpiryUnsupported = (
            "this fixed-size database was created without expiry times; create it with `Builder::expiring(true)` to use them"
        );
        /// The directory contains no database, and `create` was not set.
        NotFound {
            /// The directory.
            path: PathBuf,
        } = ("{}: no database here; create one with `Builder::create(true)` or use another directory", path.display());
        /// The directory contains files, but no database.
        NotADatabase {
            /// The directory.
            path: PathBuf,
            /// One of the files in it.
            found: String,
        } = (
            "{}: the directory contains other files ({found}) and no database; use an empty or a new directory",
            path.display()
        );
        /// The path is that of a file, not of a directory.
        NotADirectory {
            /// The file.
            path: PathBuf,
        } = ("{}: this is a file, but a database is a directory; use another path", path.display());
        /// The target directory of a copy is not empty.
        NotEmpty {
            /// The directory.
            path: PathBuf,
            /// One of the files in it.
            found: String,
        } = ("{}: the directory is not empty ({found}); use an empty or a new directory", path.display());
        /// The directory contains stores of a database, but neither its manifest nor the mirror.
        NoManifest {
            /// The directory.
            path: PathBuf,
            /// One of the stores or logs.
            found: String,
        } = (
            "{}: MANIFEST and MANIFEST.mirror are both missing, but {found} exists; the database cannot be read without them; restore one of them from a backup",
            path.display()
        );
        /// The database in the directory belongs to an engine that this program does not have.
        UnknownEngine {
            /// The directory.
            path: PathBuf,
            /// The number of the engine in the header of the database.
            number: u8,
        } = (
            "{}: the database has the engine with the number {number}, which this program does not have; use a newer siltstone",
            path.display()
        );
        /// The database in the directory belongs to an engine that this program is compiled without.
        AbsentEngine {
            /// The directory.
            path: PathBuf,
            /// The name of the engine, and of the feature.
            engine: &'static str,
        } = (
            "{}: the database has the engine `{engine}`, which this program is compiled without; add the feature `{engine}` of the crate siltstone",
            path.display()
        );
        /// The file is not a dictionary.
        NotADictionary {
            /// The file.
            path: PathBuf,
            /// The content found in place of the header.
            found: String,
        } = ("{}: this is not a dictionary: {found}; create one with `siltstone dict build`", path.display());
        /// The file has a format version that this program cannot read.
        Version {
            /// The file.
            file: PathBuf,
            /// The version of the file.
            found: u32,
            /// The version that this program reads.
            supported: u32,
        } = (
            "{}: format version {found}, but this program reads version {supported}; {}",
            file.display(), remedy_of_version(*found, *supported)
        );
        /// The database is open elsewhere, or the dictionary is being changed.
        Locked {
            /// The directory of the database, or the file of the dictionary.
            path: PathBuf,
            /// The process that writes to it; `None` if it is open only for reading, or if the process is unknown.
            process: Option<u32>,
            /// That process has ended. A child that it has forked still has the files open, and with them the lock.
            /// Also true if the process is in another container, where this one cannot see it.
            has_ended: bool,
        } = ("{}: in use by {}; close it there first", path.display(), user(*process, *has_ended));
        /// The directory of the database, or its manifest, was removed while the database was open.
        Removed {
            /// The directory, as it was named.
            path: PathBuf,
        } = (
            "{}: the directory of the database, or its MANIFEST, was removed while the database was open; what was written is lost when it is closed; export it, or put the directory back",
            path.display()
        );
        /// An earlier write or sync failed; the database accepts no writes until it is reopened.
        Poisoned {
            /// The first failure.
            cause: String,
        } = (
            "the database accepts no writes because an earlier one failed ({cause}); reads still work; reopening recovers all durable data"
        );
        /// A batch failed when a part of it was visible already. Nothing is read or written until the database is
        /// reopened.
        Torn {
            /// The failure.
            cause: String,
        } = (
            "a batch failed when a part of it was visible ({cause}); nothing is read until the database is reopened, which recovers all durable data"
        );
        /// A setting is invalid or contradicts other settings or the database.
        Setting {
            /// The method of the builder, or the setting of the engine.
            name: &'static str,
            /// The problem and the remedy.
            problem: String,
        } = ("{name}: {problem}");
        /// The database is closed.
        Closed = ("the database is closed");
        /// The database was opened read-only.
        ReadOnly = ("the database was opened read-only; open it without `Builder::read_only` to write");
        /// A write from a process that was forked from the one that opened the database.
        Forked {
            /// The process that opened the database.
            opened_by: u32,
        } = (
            "this process was forked from process {opened_by}, which opened the database; only that process may write; close the database there and open it here"
        );
        /// The engine does not support the operation.
        Unsupported {
            /// The engine.
            engine: &'static str,
            /// The operation.
            operation: &'static str,
        } = ("the engine {engine} does not support {operation}");
        /// A record of a table has a key or a value that is not of the table's type.
        TableType {
            /// The name of the table.
            table: String,
            /// The first 64 bytes of the key within the table, with non-printable bytes escaped.
            key: String,
            /// `key` or `value`.
            part: &'static str,
            /// The type of the table's keys or values.
            expected: &'static str,
        } = (
            "the table \"{table}\": the {part} of the record with the key \"{key}\" is not of the type {expected}; use the table with the types that it was written with"
        );
        /// The change feed does not have what was written since a position.
        ChangesLost {
            /// Why.
            reason: String,
        } = (
            "changes since the position are lost: {reason}; take a new position, read all records, then read the changes since that position"
        );
        /// The caller stopped a long operation.
        Interrupted = ("interrupted; completed work is kept");
        /// A key occurs twice in the input.
        DuplicateKey {
            /// The first 64 bytes of the key, with non-printable bytes escaped.
            key: String,
        } = ("the key \"{key}\" occurs twice; drop one of the records, or let the last one win");
        /// The live records would take more space than the database may have.
        NoRoom {
            /// The capacity, in bytes.
            capacity: u64,
            /// The bytes that the records would take.
            needed: u64,
        } = (
            "the records with their spare space would take {needed} bytes, but the capacity is {capacity} bytes; delete records, or raise `capacity`"
        );
        /// The file system has too little free space for a put. Nothing was written, and deletes are accepted.
        NoSpace {
            /// The directory of the database.
            path: PathBuf,
            /// The free bytes of its file system.
            free: u64,
            /// The bytes that puts leave free.
            reserve: u64,
        } = (
            "{}: the file system has {free} free bytes, of which {reserve} are reserved for deletes and background work; delete records, or free some space",
            path.display()
        );
    }
    same {
        /// A store in memory is full.
        Full(siltstone_mica::Full);
        /// An index could not be built.
        Build(BuildError);
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Returns the remedy for a damaged file. `repair` supports the files of databases, but not dictionaries.
fn remedy(file: &Path) -> &'static str {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    match FileName::parse(&name).is_some() || COMPRESSION_NAMES.contains(&&*name) {
        true => "; intact data can still be read, and `siltstone repair` keeps it",
        false => "",
    }
}

fn remedy_of_version(found: u32, supported: u32) -> &'static str {
    match found > supported {
        true => "use a newer siltstone",
        false => "export the data with the version that wrote it and import it with this one",
    }
}

fn hint(source: &std::io::Error) -> &'static str {
    use std::io::ErrorKind;
    match source.kind() {
        ErrorKind::StorageFull => "; free some space and reopen; all data acknowledged as durable is safe",
        ErrorKind::PermissionDenied => "; check the owner and mode of the directory",
        ErrorKind::NotADirectory => "; a part of the path is a file: use another path",
        _ if is_shortage(source) => {
            "; raise the limit on open files (`ulimit -n`), or lower `Builder::open_files_max`"
        }
        _ => "",
    }
}

fn user(process: Option<u32>, has_ended: bool) -> String {
    match process {
        Some(process) if has_ended => format!(
            "a child that process {process} had forked before it ended, or by process {process} of another container"
        ),
        Some(own) if own == std::process::id() => "another handle of this process".to_owned(),
        Some(process) => format!("process {process}"),
        None => "another process, or by another handle of this one".to_owned(),
    }
}

impl Error {
    /// Returns an error of the operating system, with the operation and the file.
    pub(crate) fn io(
        operation: &'static str,
        file: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Error {
        let file = file.into();
        move |source| Error::Io { operation, file, source: std::sync::Arc::new(source) }
    }

    /// Returns the error for a key that occurs twice.
    pub(crate) fn duplicate_key(key: &[u8]) -> Error {
        Error::DuplicateKey { key: key[..key.len().min(64)].escape_ascii().to_string() }
    }

    /// Returns the error for a structure in `file` at offset `base` that could not be decoded.
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

impl From<siltstone_device::Error> for Error {
    fn from(error: siltstone_device::Error) -> Error {
        match error {
            siltstone_device::Error::Locked { path, process, has_ended } => {
                Error::Locked { path, process, has_ended }
            }
            siltstone_device::Error::Memory { problem } => Error::Setting { name: "memory", problem },
            siltstone_device::Error::Removed { path } => Error::Removed { path },
            siltstone_device::Error::Io { operation, file, source } => Error::Io { operation, file, source },
        }
    }
}

impl From<siltstone_mica::Error> for Error {
    fn from(error: siltstone_mica::Error) -> Error {
        match error {
            siltstone_mica::Error::Setting { name, problem } => Error::Setting { name, problem },
            siltstone_mica::Error::Memory(error) => error.into(),
        }
    }
}

/// A file whose content is not what was written.
pub(crate) trait CorruptFile {
    /// Returns an error that names this file: there is `got` at `offset` instead of `expected`.
    fn corrupt(&self, offset: u64, expected: impl Into<String>, got: impl Into<String>) -> Error;
}

impl CorruptFile for siltstone_device::File {
    fn corrupt(&self, offset: u64, expected: impl Into<String>, got: impl Into<String>) -> Error {
        Error::Corrupt { file: self.path().to_path_buf(), offset, expected: expected.into(), got: got.into() }
    }
}
