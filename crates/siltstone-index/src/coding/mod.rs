//! What all formats are made of: readers of untrusted bytes, numbers of variable length, checksums, a hash of numbers.

pub mod checksum;
mod decoder;
mod mixing;
mod reader;
mod varint;

pub use decoder::DecodeError;
pub use decoder::Decoder;
pub use mixing::mix;
pub use reader::Reader;
pub use varint::push_varint;
