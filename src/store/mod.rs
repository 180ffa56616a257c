//! The structures on flash, one a folder, each with its bytes in a `format.rs`.

pub mod block;
mod confirm;
pub mod hash;
pub mod log;
pub mod manifest;
pub mod merge;
pub mod record;
pub mod sort;
pub mod sorted;

pub(crate) mod fields;
pub mod file;

pub use file::{FilterKind, StoreFile, StoreFileWriter, StoreFooter};
