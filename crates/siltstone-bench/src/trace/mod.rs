//! Recorded traces: what was asked of a store, in its order, with the sizes of keys and values and no contents.
//!
//! - [`Writer`] and [`Reader`]: the binary format, `docs/formats/trace.md`.
//! - [`csv`]: the traces of caches that others have published.
//! - [`replay`]: sends a trace to a database.

pub mod csv;
mod format;
mod operation;
pub mod replay;
mod source;

pub use format::{MAGIC, Reader, VERSION, Writer};
pub use operation::{Kind, Operation, identity_of};
pub use source::{Source, open};

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file could not be opened or read.
    #[error("cannot read the trace: {0}")]
    Io(#[from] std::io::Error),
    /// The trace ends before its end.
    #[error("the trace ends at byte {at} within {what}: it was cut short")]
    CutShort {
        /// How many bytes there are.
        at: u64,
        /// What was being read.
        what: &'static str,
    },
    /// The version is one that this program cannot read.
    #[error("the trace is of format version {got}, but this program reads version {VERSION}: record it anew")]
    Version {
        /// The version in the header.
        got: u32,
    },
    /// Some bytes are not what they must be.
    #[error("the trace is damaged: {what} at byte {at}: expected {expected}, got {got}")]
    Damaged {
        /// The structure.
        what: &'static str,
        /// Where it begins.
        at: u64,
        /// What would be right.
        expected: u64,
        /// What stands there.
        got: u64,
    },
    /// A line of a table of requests is not as it must be.
    #[error("line {line}: {problem}")]
    Line {
        /// The number of the line, from 1 on.
        line: u64,
        /// What is wrong with it.
        problem: String,
    },
}

/// The result of reading a trace.
pub type Result<T> = std::result::Result<T, TraceError>;
