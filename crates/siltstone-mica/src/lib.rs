//! MICA's stores in memory (dissertation, chapter 5; H. Lim, D. Han, D. G. Andersen, M. Kaminsky, "MICA: A Holistic
//! Approach to Fast In-Memory Key-Value Storage", NSDI 2014): an index of buckets, and items in a circular log (a
//! cache) or in segregated fits (a store).
//!
//! ```text
//! hash of a key    | partition | bucket ......... | tag (16 bits) |
//!                                   |                    |
//! buckets          | .. | tag, offset | tag, offset | .. |        one cache line
//!                                |
//! items            | .. | header, key, value | .. |                circular log or segregated fits
//! ```
//!
//! | file | dissertation |
//! |---|---|
//! | `buckets` | 5.3.3: lossy and lossless index; 5.3.1: modes |
//! | `circular_log`, `segregated_fits` | 5.3.3: circular log, store mode |
//! | `item` | 5.3.3: the contents of a log entry |
//! | `table` | 5.3.3: get, in what all threads share |
//! | `batch` | 5.3.3: multi-stage prefetching |
//! | `partition`, `state_access` | 5.3.1: partitions, and which threads write them in which mode; 5.3.3: put, delete |
//! | `collection` | when expired items are removed; not in the dissertation |
//! | `access_mode`, `partition_handle` | the modes as values, and one type for a partition in any mode |
//!
//! The crate has no `unsafe`: words are atomics, accessed with relaxed order, which are plain moves on x86-64. The
//! caller passes the hash of a key, as MICA's clients do.

/// Unit tests. `tests/interleavings.rs` compiles `buckets` with loom's atomics and omits them.
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
mod collection;
mod error;
mod item;
mod layout;
mod partition;
mod partition_handle;
mod segregated_fits;
mod settings;
mod state_access;
mod table;

#[cfg(test)]
mod tests;

pub use access_mode::AccessMode;
pub use batch::{Operation, Reply, Request, get_many};
pub use buckets::{Crcw, Crew, Erew, Mode};
pub use circular_log::{CircularLog, Eviction, Sweep};
use collection::CollectionTimer;
pub use error::{Error, Full, Result};
pub(crate) use layout::has_expired;
pub use layout::{ItemLayout, KEY_LENGTH_MAX, NEVER, TimestampMs, VALUE_LENGTH_MAX};
pub use partition::{Partition, Prepared, Reader, Shared};
pub use partition_handle::{Handle, Handles};
pub use segregated_fits::{FreeLists, SegregatedFits};
pub use settings::{CacheSettings, StoreSettings};
pub use state_access::{OwnedState, StateAccess, WriterState};
pub use table::{Account, Table, Value};

use siltstone_device::Pages;

/// The atomics of `buckets`. `tests/interleavings.rs` replaces them with loom's.
mod atomic {
    pub(super) use std::hint::spin_loop;
    pub(super) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
    pub(super) use std::thread::yield_now;
}

/// A key with its hash: 64 uniform bits. The highest bits select the partition.
#[derive(Debug, Clone, Copy)]
pub struct HashedKey<'a> {
    /// The hash. Keys of one partition have the same high bits.
    pub hash: u64,
    /// The key.
    pub bytes: &'a [u8],
}

/// The memory of items: what differs between a cache and a store.
pub trait Space: Send + Sync + 'static {
    /// The state that only writers need.
    type State: Send;
    /// Whether items are evicted.
    const LOSSY: bool;

    /// Returns the memory.
    fn pages(&self) -> &Pages;
    /// Returns the number of the first word of the item at this offset.
    fn first_word(&self, offset: u32) -> usize;
    /// Returns whether the item at this offset still exists.
    #[inline]
    fn is_live(&self, _offset: u32) -> bool {
        true
    }
    /// Returns how long ago the item at this offset was stored, in words; the oldest live item has the highest age.
    fn age(&self, _offset: u32) -> u32 {
        0
    }
    /// Returns whether a use of the item at this offset should append it again.
    #[inline]
    fn is_fading(&self, _offset: u32) -> bool {
        false
    }
    /// Allocates an item.
    ///
    /// # Errors
    /// [`Full`] if there is no space.
    fn reserve(&self, state: &mut Self::State, words: u32) -> Result<u32, Full>;
    /// Releases an item.
    fn release(&self, _state: &mut Self::State, _offset: u32, _words: u32) {}
    /// Returns the buckets of the index, modulo their number, that have to be swept now of offsets that are not live.
    fn due(&self, _state: &mut Self::State) -> std::ops::Range<u32> {
        0..0
    }
    /// Returns the memory of the state, in bytes.
    fn state_bytes(&self) -> u64;
}
