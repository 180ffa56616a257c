//! Recorded traces: the operations on a store, in order, with the sizes of keys and values but without contents.
//!
//! - [`Writer`] and [`Reader`]: the binary format, `docs/formats/trace.md`.
//! - [`csv`]: published traces of caches.
//! - [`replay`]: sends a trace to a database.

pub mod csv;
mod format;
mod operation;
pub mod replay;
mod source;

pub use format::{MAGIC, Reader, VERSION, Writer};
pub use operation::{Kind, Operation, identity_of};
pub use source::{Source, open};

/// An error of reading a trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file could not be opened or read.
    #[error("cannot read the trace: {0}")]
    Io(#[from] std::io::Error),
    /// The file is compressed.
    #[error("the trace is compressed with {format}: decompress it first ({program})")]
    Compressed {
        /// The format.
        format: &'static str,
        /// The program that decompresses it.
        program: &'static str,
    },
    /// The trace is truncated.
    #[error("the trace ends at byte {at} within {what}: it was cut short")]
    CutShort {
        /// The number of bytes.
        at: u64,
        /// What was being read.
        what: &'static str,
    },
    /// The version is not supported.
    #[error(
        "the trace is of format version {got}, but this program reads version {VERSION}: record the trace again"
    )]
    Version {
        /// The version in the header.
        got: u32,
    },
    /// A field has a wrong value.
    #[error("the trace is damaged: {what} at byte {at}: expected {expected}, got {got}")]
    Damaged {
        /// The structure.
        what: &'static str,
        /// Its offset.
        at: u64,
        /// The expected value.
        expected: u64,
        /// The value found.
        got: u64,
    },
    /// A line of a table of requests is invalid.
    #[error("line {line}: {problem}")]
    Line {
        /// The number of the line, from 1 on.
        line: u64,
        /// The problem.
        problem: String,
    },
}

/// The result of reading a trace.
pub type Result<T> = std::result::Result<T, TraceError>;
