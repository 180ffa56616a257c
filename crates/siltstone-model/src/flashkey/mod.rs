//! The FlashKey engine of Siltstone: its memory, reads, writes and space.

mod costs;
mod index;
mod layout;

pub use costs::{FlashKeyRam, FlashKeyWrites};
pub(crate) use layout::{Appends, notes_bytes};
pub use layout::{FlashKeyLayout, FlashKeyStore};
