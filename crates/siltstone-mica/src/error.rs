//! The errors of the crate.

use std::fmt;

/// The result when a store or a cache is opened.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a store or a cache could not be opened.
#[derive(Debug, Clone)]
pub enum Error {
    /// A setting is outside its limits.
    Setting {
        /// The setting.
        name: &'static str,
        /// The problem and the remedy.
        problem: String,
    },
    /// The system refused the memory.
    Memory(siltstone_device::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Setting { name, problem } => write!(to, "{name}: {problem}"),
            Error::Memory(error) => error.fmt(to),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Setting { .. } => None,
            Error::Memory(error) => error.source(),
        }
    }
}

impl From<siltstone_device::Error> for Error {
    fn from(error: siltstone_device::Error) -> Error {
        Error::Memory(error)
    }
}

/// Why an item could not be stored in memory. The previous value of its key remains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Full {
    /// No free block is long enough.
    Memory,
    /// No spare bucket is left to chain to a full one.
    Index,
    /// The item alone is larger than the memory.
    Item,
    /// The store has items of fixed sizes, and this item has others, or an expiry time without space for it.
    Shape,
}

impl fmt::Display for Full {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Full::Memory => {
                "the memory for items is full; delete items, use more memory, or let old items be evicted"
            }
            Full::Index => {
                "the index is full; delete items, use more memory, or state how small the records are (record_bytes)"
            }
            Full::Item => "the item is larger than the memory for items of its partition; use more memory",
            Full::Shape => {
                "the item does not have the sizes that the store was created for; use another store for it"
            }
        })
    }
}

impl std::error::Error for Full {}
