//! The FlashStore engine of Siltstone: its memory, reads and writes, and what leaves flash.

mod costs;
mod layout;

pub use costs::{FlashStoreRam, FlashStoreWrites};
pub use layout::{Below, FlashStoreLayout, FlashStoreStore};
