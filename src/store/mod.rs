//! The structures on flash, one a folder, each with its bytes in a `format.rs`.

pub mod block;
mod confirm;
pub mod hash;
pub mod log;
pub mod manifest;
pub mod merge;
pub mod record;
pub mod sorted;

mod fields;
pub mod file;

pub use file::{FilterKind, StoreFile, StoreFileWriter, StoreFooter};
