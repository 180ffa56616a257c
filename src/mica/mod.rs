//! MICA's stores in memory (dissertation, chapter 5): an index of buckets over items that stand in a circular log (a
//! cache) or in segregated fits (a store).
//!
//! | file | dissertation |
//! |---|---|
//! | `buckets` | 5.3.3: lossy and lossless index; 5.3.1: modes |
//! | `circular_log`, `segregated_fits` | 5.3.3: circular log, store mode |
//! | `item` | 5.3.3: what an entry of the log holds |
//! | `table` | 5.3.3: get, put and delete on both |
//! | `batch` | 5.3.3: multi-stage prefetching |
//! | `partition`, `state_access` | 5.3.1: partitions, and who writes them in which mode |
//! | `access_mode`, `partition_handle` | the modes as values, and one type for a partition in any mode |
//!
//! Nothing here is unsafe: words are atomics, read and written with relaxed order, which are plain moves on x86-64. The
//! hash of a key is given by whoever asks, as MICA's clients do.

/// Unit tests. `tests/interleavings.rs` compiles `buckets` with loom's atomics and leaves them out.
#[cfg(test)]
macro_rules! unit_tests {
    ($tests:item) => {
        $tests
    };
}

mod access_mode;
mod batch;
mod buckets;
mod circular_log;
mod item;
mod partition;
mod partition_handle;
mod segregated_fits;
mod settings;
mod state_access;
mod table;

#[cfg(test)]
mod tests;

pub use access_mode::AccessMode;
pub use batch::{Operation, Reply, Request};
pub use buckets::{Crcw, Crew, Erew, Mode};
pub use circular_log::{CircularLog, Eviction, Sweep};
pub use item::ItemShape;
pub use partition::{Partition, Reader, Shared};
pub use partition_handle::{Handle, Handles};
pub use segregated_fits::{FreeLists, SegregatedFits};
pub use settings::{CacheSettings, StoreSettings};
pub use state_access::{NoState, OwnedState, SharedState, StateAccess};
pub(crate) use table::Prepared;
pub use table::{Account, Value};

use crate::device::Pages;

/// The atomics that `buckets` uses. `tests/interleavings.rs` replaces them with loom's.
mod atomic {
    pub(super) use std::hint::spin_loop;
    pub(super) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
    pub(super) use std::thread::yield_now;
}

/// A key with its hash: 64 bits, uniform. The highest choose the partition.
#[derive(Debug, Clone, Copy)]
pub struct HashedKey<'a> {
    /// The hash. Keys of one partition have its high bits in common.
    pub hash: u64,
    /// The key.
    pub bytes: &'a [u8],
}

/// Why an item could not be stored. What was stored under its key before stays.
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
    /// The store has items of one size, and this is another, or has an expiry time for which there is no room.
    #[error("the item does not have the sizes that the store was created for; use another store for it")]
    Shape,
}

/// Where items stand: what differs between a cache and a store.
pub trait Space: Send + Sync + 'static {
    /// What only writers need.
    type State: Send;
    /// Whether items go away by themselves.
    const LOSSY: bool;

    /// The memory.
    fn pages(&self) -> &Pages;
    /// The longest item.
    fn words_max(&self) -> u32;
    /// The first word of the item at that offset.
    fn first_word(&self, offset: u32) -> usize;
    /// Whether the item at that offset is still there.
    fn is_live(&self, offset: u32) -> bool;
    /// How long ago the item at that offset was put there, in words; of those that are live, the highest is the oldest.
    fn age(&self, offset: u32) -> u32;
    /// Whether an item at that offset, having been asked for, shall be appended anew.
    fn is_fading(&self, offset: u32) -> bool;
    /// A place for an item.
    ///
    /// # Errors
    /// [`Full`] if there is none.
    fn reserve(&self, state: &mut Self::State, words: u32) -> Result<u32, Full>;
    /// Gives a place back.
    fn release(&self, state: &mut Self::State, offset: u32, words: u32);
    /// The buckets of the index, modulo their number, that have to be swept now of offsets that are not live.
    fn due(&self, _state: &mut Self::State) -> std::ops::Range<u32> {
        0..0
    }
    /// The memory of the state, in bytes.
    fn state_bytes(&self) -> u64;
}
