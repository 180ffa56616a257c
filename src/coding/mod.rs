//! What all formats are made of: readers of untrusted bytes, checksums, a hash of numbers.

pub mod checksum;
mod decoder;
mod mixing;
mod reader;

pub use decoder::DecodeError;
pub(crate) use decoder::Decoder;
pub use mixing::mix;
pub use reader::Reader;
