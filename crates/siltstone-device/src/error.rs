//! The errors of the crate. Each names the operation and the file.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// The result of every operation of this crate that can fail, except those of backends.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a directory or a file.
#[derive(Debug, Clone)]
pub enum Error {
    /// The operating system refused an operation.
    Io {
        /// The operation, as a verb: `read`, `write`, `sync`, `open`.
        operation: &'static str,
        /// The file.
        file: PathBuf,
        /// The error of the operating system.
        source: Arc<io::Error>,
    },
    /// The lock of the directory or of the file has another holder.
    Locked {
        /// The directory or the file.
        path: PathBuf,
        /// The process that holds the lock; `None` if it is unknown.
        process: Option<u32>,
        /// That process has ended, as far as this one can see. A child that it has forked still has the files open.
        has_ended: bool,
    },
    /// The directory, or a file of it that must be there, was removed while the directory was open.
    Removed {
        /// The directory, as it was named.
        path: PathBuf,
    },
    /// Memory of a size that cannot be mapped.
    Memory {
        /// The problem and the remedy.
        problem: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { operation, file, source } => {
                write!(to, "cannot {operation} {}: {source}", file.display())
            }
            Error::Locked { path, .. } => write!(to, "{}: locked by another holder", path.display()),
            Error::Removed { path } => write!(to, "{}: removed while it was open", path.display()),
            Error::Memory { problem } => write!(to, "memory: {problem}"),
        }
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

impl Error {
    /// Returns an error of the operating system, with the operation and the file.
    pub fn io(operation: &'static str, file: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let file = file.into();
        move |source| Error::Io { operation, file, source: Arc::new(source) }
    }

    /// Returns whether the file or directory does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// The codes of the systems for a process, and for a system, that has no descriptors left: EMFILE and ENFILE.
const SHORTAGES: [i32; 2] = [24, 23];

/// Returns whether the process or the system has no descriptors left.
pub fn is_shortage(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| SHORTAGES.contains(&code))
}
