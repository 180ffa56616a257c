//! Blocks: the unit of reads from stores, each with a checksum.
//!
//! ```text
//! | CRC-32C | used | first record | rest of a record | record | record | first part of a reco | padding |
//! 0         4      6              8                  first record                          used
//! ```
//!
//! The checksum covers everything after it and starts with the store's tag and the block's number, so a block in a
//! wrong place is detected. The header also has the number of bytes used and the offset of the first record that begins
//! in the block. A record may continue in the next block. `docs/formats/block.md` has the format.

use crate::error::{CorruptFile, Error, Result};
use siltstone_device::File;
use siltstone_index::coding::checksum;

/// The bytes of a block's header.
pub const BLOCK_HEADER_BYTES: usize = 8;

/// Returns whether blocks may have this size: a power of two from 512 to 65,536 bytes.
pub fn is_block_size(bytes: u32) -> bool {
    bytes.is_power_of_two() && (512..=65_536).contains(&bytes)
}

/// Replaces the offset of the first record if no record begins in the block.
const NO_RECORD_BEGINS: u16 = u16::MAX;

/// Returns the checksum of a block, from the bytes after the checksum.
fn checksum(store_tag: u64, block_number: u64, rest: &[u8]) -> u32 {
    // First, so that the checksum differs for another block, and for the same block of another store.
    let place = (u128::from(store_tag) << 64 | u128::from(block_number)).to_le_bytes();
    checksum::crc32c_append(checksum::crc32c(&place), rest)
}

/// Fills blocks with payload and seals them.
pub struct BlockBuilder {
    store_tag: u64,
    block_bytes: usize,
    header_bytes: usize,
    bytes: Vec<u8>,
    first_record: Option<u16>,
}

impl BlockBuilder {
    /// Starts with an empty block. `block_bytes` is a power of two from 512 to 65,536.
    pub fn new(store_tag: u64, block_bytes: usize) -> Self {
        BlockBuilder::with_header(store_tag, block_bytes, BLOCK_HEADER_BYTES)
    }

    /// Starts with an empty block without a header: its contents have checksums of their own.
    pub fn bare(store_tag: u64, block_bytes: usize) -> Self {
        BlockBuilder::with_header(store_tag, block_bytes, 0)
    }

    fn with_header(store_tag: u64, block_bytes: usize, header_bytes: usize) -> Self {
        let mut bytes = Vec::with_capacity(block_bytes);
        bytes.resize(header_bytes, 0);
        BlockBuilder { store_tag, block_bytes, header_bytes, bytes, first_record: None }
    }

    /// Returns the number of bytes in the block, without its header.
    pub fn used(&self) -> usize {
        self.bytes.len() - self.header_bytes
    }

    /// Returns the number of bytes that still fit in the block.
    pub fn room(&self) -> usize {
        self.block_bytes - self.bytes.len()
    }

    /// Returns whether the block is empty.
    pub fn is_empty(&self) -> bool {
        self.used() == 0
    }

    /// Notes that a record begins at the next byte.
    pub fn begin_record(&mut self) {
        let at = self.used() as u16;
        // Only the first: readers that enter the stream here skip the rest of an earlier record.
        self.first_record.get_or_insert(at);
    }

    /// Appends as much of `payload` as fits; returns how much that was.
    pub fn fill(&mut self, payload: &[u8]) -> usize {
        let taken = payload.len().min(self.room());
        self.bytes.extend_from_slice(&payload[..taken]);
        taken
    }

    /// Pads and seals the block, passes its bytes to `write`, and starts the next block.
    pub fn seal(&mut self, block_number: u64, write: impl FnOnce(&[u8]) -> Result<()>) -> Result<()> {
        // Fits, because the header leaves at most 65,528 bytes. Without a header it is not stored.
        let used = self.used() as u16;
        // The padding is in the checksum too: a reader verifies the whole block.
        self.bytes.resize(self.block_bytes, 0);
        if self.header_bytes > 0 {
            self.bytes[4..6].copy_from_slice(&used.to_le_bytes());
            self.bytes[6..8].copy_from_slice(&self.first_record.unwrap_or(NO_RECORD_BEGINS).to_le_bytes());
            let crc = checksum(self.store_tag, block_number, &self.bytes[4..]);
            self.bytes[0..4].copy_from_slice(&crc.to_le_bytes());
        }
        // The block is emptied even after an error, when the caller gives up the file.
        let outcome = write(&self.bytes);
        self.bytes.clear();
        self.bytes.resize(self.header_bytes, 0);
        self.first_record = None;
        outcome
    }

    /// Returns the memory of the builder, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

/// A block with a correct checksum.
#[derive(Debug, Clone, Copy)]
pub struct Block<'a> {
    /// The used bytes after the header.
    pub payload: &'a [u8],
    /// The offset in the payload of the first record that begins in the block, if there is one.
    pub first_record: Option<usize>,
}

impl<'a> Block<'a> {
    /// Returns the contents of block `block_number` of `file`. `verify` says whether the checksum is computed; a lookup
    /// may skip it.
    pub fn open(
        file: &File,
        store_tag: u64,
        block_number: u64,
        bytes: &'a [u8],
        verify: bool,
    ) -> Result<Block<'a>> {
        // The header of the file takes the first block.
        let offset = || block_number.saturating_add(1).saturating_mul(bytes.len() as u64);
        let Some((header, rest)) = bytes.split_first_chunk::<BLOCK_HEADER_BYTES>() else {
            return Err(file.corrupt(offset(), "a block", format!("{} bytes", bytes.len())));
        };
        let [c0, c1, c2, c3, used0, used1, first0, first1] = *header;
        if verify {
            let stated = u32::from_le_bytes([c0, c1, c2, c3]);
            let computed = checksum(store_tag, block_number, &bytes[4..]);
            if stated != computed {
                let expected = format!("a block with checksum {stated:#010x}");
                return Err(file.corrupt(offset(), expected, format!("{computed:#010x}")));
            }
        }
        // Without `verify` these may be any numbers, so they are limited to the block in any case.
        let used = usize::from(u16::from_le_bytes([used0, used1]));
        let first = u16::from_le_bytes([first0, first1]);
        let first_record = (first != NO_RECORD_BEGINS).then_some(usize::from(first));
        match rest.get(..used) {
            Some(payload) if first_record.unwrap_or(0) <= used => Ok(Block { payload, first_record }),
            _ => Err(misfit(file, offset(), used, first)),
        }
    }
}

fn misfit(file: &File, offset: u64, used: usize, first: u16) -> Error {
    file.corrupt(
        offset,
        "a block whose first record begins within it",
        format!("{used} used bytes, first record at {first}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone_device::memory::MemoryDirectory;
    use siltstone_device::{Access, Directory};

    fn sealed(payload: &[u8]) -> Vec<u8> {
        let mut builder = BlockBuilder::new(3, 512);
        builder.begin_record();
        assert_eq!(builder.fill(payload), payload.len().min(504));
        let mut bytes = Vec::new();
        builder
            .seal(7, |block| {
                bytes.extend_from_slice(block);
                Ok(())
            })
            .unwrap();
        bytes
    }

    #[test]
    fn every_flipped_bit_and_every_wrong_place_is_detected() {
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        let file = directory.create("f", Access::Buffered).unwrap();
        let good = sealed(b"some payload");
        let block = Block::open(&file, 3, 7, &good, true).unwrap();
        assert_eq!((block.payload, block.first_record), (&b"some payload"[..], Some(0)));
        assert!(
            Block::open(&file, 3, 8, &good, true).is_err() && Block::open(&file, 4, 7, &good, true).is_err()
        );
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Block::open(&file, 3, 7, &bad, true).is_err(), "bit {bit}");
        }
    }
}
