//! The errors of the crate.

/// The result when a store or a cache is opened.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a store or a cache could not be opened.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A setting is outside its limits.
    #[error("{name}: {problem}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// The problem and the remedy.
        problem: String,
    },
    /// The system refused the memory.
    #[error(transparent)]
    Memory(#[from] siltstone_device::Error),
}

/// Why an item could not be stored in memory. The previous value of its key remains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Full {
    /// No free block is long enough.
    #[error("the memory for items is full; delete items, or use more memory")]
    Memory,
    /// No spare bucket is left to chain to a full one.
    #[error("the index is full; delete items, or create it for more items (or with more spare buckets)")]
    Index,
    /// The item alone is larger than the memory.
    #[error("the item is larger than the memory for items of its partition; use more memory")]
    Item,
    /// The store has items of fixed sizes, and this item has others, or an expiry time without space for it.
    #[error("the item does not have the sizes that the store was created for; use another store for it")]
    Shape,
}
