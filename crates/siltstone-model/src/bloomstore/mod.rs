//! The BloomStore engine of Siltstone: its memory, reads and writes.

mod layout;
mod lookups;
mod overwritten;
mod partition;
mod prefilter;

pub use layout::{BloomStoreGrown, BloomStoreLayout, BloomStoreRam, BloomStoreWrites};
pub use overwritten::{BloomStoreSteady, LogStorePuts};
