//! Slots with checksums of their own (docs/formats/checked_slots.md): a lookup that knows the slot of a record reads
//! the sectors of the slot, and needs no other byte of the block to verify it.

use super::block::Block;
use crate::error::{CorruptFile, Result};
use siltstone_device::File;
use siltstone_index::coding::checksum;
use std::ops::Range;

/// The bytes after each slot: its CRC-32C, started with the store's tag and the slot's number.
pub const SLOT_CHECKSUM_BYTES: usize = 4;

/// The slots of a store in its blocks: block n has the slots from number `n × per_block` on, one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckedSlots {
    /// The tag of the store.
    pub store_tag: u64,
    /// The bytes of a slot without its checksum.
    pub slot_bytes: usize,
    /// The bytes of a block.
    pub block_bytes: usize,
    /// The total number of slots.
    pub slots: u64,
}

/// Returns the number of slots, with their checksums, per block.
pub fn checked_slots_per_block(slot_bytes: usize, block_bytes: usize) -> usize {
    block_bytes / (slot_bytes + SLOT_CHECKSUM_BYTES)
}

/// Returns the checksum of a slot.
pub fn slot_checksum(store_tag: u64, slot_number: u64, slot: &[u8]) -> [u8; SLOT_CHECKSUM_BYTES] {
    // So a slot of another store, or of another number, is damage.
    let place = (u128::from(store_tag) << 64 | u128::from(slot_number)).to_le_bytes();
    checksum::crc32c_append(checksum::crc32c(&place), slot).to_le_bytes()
}

impl CheckedSlots {
    /// Returns the distance from one slot to the next, in bytes.
    pub fn stride(&self) -> usize {
        self.slot_bytes + SLOT_CHECKSUM_BYTES
    }

    /// Returns the number of slots in a full block.
    pub fn per_block(&self) -> u64 {
        checked_slots_per_block(self.slot_bytes, self.block_bytes).max(1) as u64
    }

    /// Returns the slots of a range of blocks.
    pub fn in_blocks(&self, blocks: &Range<u64>) -> Range<u64> {
        let first_of = |block: u64| block.saturating_mul(self.per_block()).min(self.slots);
        first_of(blocks.start)..first_of(blocks.end)
    }

    /// Returns the offset of a slot from the beginning of the first block, in bytes.
    pub fn offset_of(&self, slot: u64) -> u64 {
        let (block, index) = (slot / self.per_block(), slot % self.per_block());
        block * self.block_bytes as u64 + index * self.stride() as u64
    }

    /// Returns the offset and length of a range of slots in the file, whose first block follows that of the header, in
    /// bytes: from the first byte of the first slot to the last one of the last checksum.
    pub fn extent_of(&self, slots: &Range<u64>) -> (u64, usize) {
        let start = self.offset_of(slots.start);
        let end = match slots.is_empty() {
            true => start,
            false => self.offset_of(slots.end - 1) + self.stride() as u64,
        };
        (self.block_bytes as u64 + start, (end - start) as usize)
    }

    /// Verifies a slot and removes its checksum.
    pub fn open<'a>(&self, file: &File, slot_number: u64, bytes: &'a [u8]) -> Result<&'a [u8]> {
        let damaged = |expected: String, got: String| {
            let offset = self.offset_of(slot_number).saturating_add(self.block_bytes as u64);
            Err(file.corrupt(offset, expected, got))
        };
        let Some((slot, stated)) = bytes.split_at_checked(self.slot_bytes) else {
            return damaged(format!("a slot of {} bytes", self.stride()), format!("{} bytes", bytes.len()));
        };
        let computed = slot_checksum(self.store_tag, slot_number, slot);
        // Also if the bytes are too many or too few: then what is stated has another length.
        if stated != computed {
            let expected = format!("a slot with checksum {stated:02x?}");
            return damaged(expected, format!("{computed:02x?}"));
        }
        Ok(slot)
    }

    /// Returns the slots of a block with their checksums, which are verified if `check` is set.
    pub fn open_block<'a>(
        &self,
        file: &File,
        block_number: u64,
        bytes: &'a [u8],
        check: bool,
    ) -> Result<Block<'a>> {
        // The last block may have fewer slots, and padding after them.
        let slots = self.in_blocks(&(block_number..block_number.saturating_add(1)));
        let length = (slots.end - slots.start) as usize * self.stride();
        let Some(payload) = bytes.get(..length) else {
            let offset = block_number.saturating_add(1).saturating_mul(self.block_bytes as u64);
            return Err(file.corrupt(offset, format!("{length} bytes of slots"), bytes.len().to_string()));
        };
        if check {
            for (number, slot) in slots.zip(payload.chunks_exact(self.stride())) {
                self.open(file, number, slot)?;
            }
        }
        Ok(Block { payload, first_record: (length > 0).then_some(0) })
    }

    /// Returns the minimum number of slots in a block, if the number of records is unknown: up to the last intact one.
    pub fn least_in_block(&self, file: &File, block_number: u64, bytes: &[u8]) -> u64 {
        let numbers = block_number.saturating_mul(self.per_block())..;
        let slots = (1..).zip(numbers.zip(bytes.chunks_exact(self.stride())));
        // Padding has no right checksum, and damaged slots before an intact one were slots, too.
        let sound = slots.filter(|(_, (number, slot))| self.open(file, *number, slot).is_ok());
        sound.map(|(count, _)| count).last().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone_device::memory::MemoryDirectory;
    use siltstone_device::{Access, Directory};

    const SLOTS: CheckedSlots = CheckedSlots { store_tag: 3, slot_bytes: 100, block_bytes: 512, slots: 10 };

    fn block(number: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for slot in SLOTS.in_blocks(&(number..number + 1)) {
            let content = [slot as u8; 100];
            bytes.extend(content);
            bytes.extend(slot_checksum(SLOTS.store_tag, slot, &content));
        }
        bytes.resize(512, 0);
        bytes
    }

    #[test]
    fn every_flipped_bit_of_a_slot_and_every_wrong_place_is_detected() {
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        let file = directory.create("f", Access::Buffered).unwrap();
        let good = block(1);
        assert_eq!(SLOTS.open(&file, 5, &good[104..208]).unwrap(), &[5; 100]);
        assert!(SLOTS.open(&file, 4, &good[104..208]).is_err());
        let other = CheckedSlots { store_tag: 4, ..SLOTS };
        assert!(other.open(&file, 5, &good[104..208]).is_err());
        for bit in 0..104 * 8 {
            let mut bad = good[104..208].to_vec();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(SLOTS.open(&file, 5, &bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn blocks_have_the_slots_of_their_numbers() {
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        let file = directory.create("f", Access::Buffered).unwrap();
        for (number, slots) in [(0, 4), (1, 4), (2, 2), (3, 0)] {
            let bytes = block(number);
            let opened = SLOTS.open_block(&file, number, &bytes, true).unwrap();
            assert_eq!(opened.payload.len(), slots * 104);
            assert_eq!(SLOTS.least_in_block(&file, number, &bytes), slots as u64);
        }
        let mut damaged = block(1);
        damaged[0] ^= 1;
        assert_eq!(SLOTS.least_in_block(&file, 1, &damaged), 4);
        assert_eq!(SLOTS.extent_of(&(3..5)), (512 + 312, 304));
        assert_eq!(SLOTS.extent_of(&(9..9)).1, 0);
        assert!(SLOTS.open_block(&file, 0, &block(0)[..300], false).is_err());
    }
}
