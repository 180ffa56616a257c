//! The forms of the blocks of a table, and what each needs of the records.

use crate::error::{CorruptFile, Result};
use crate::key::RecordLayout;
use crate::store::block::BLOCK_HEADER_BYTES;
use crate::store::file::StoreFile;

use crate::store::slots::{CheckedSlots, checked_slots_per_block};

/// The form of the records in the blocks of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum BlockForm {
    /// Consecutive, across the ends of blocks where that saves space.
    Stream = 1,
    /// A whole number of fixed-size records in each block.
    Slots = 2,
    /// The same, with a checksum for each slot.
    CheckedSlots = 4,
    /// The same, with flags, so that slots can be tombstones; in the order of the slots of a LogStore.
    CuckooSlots = 5,
}

impl BlockForm {
    /// Returns the form of the blocks of a store file of this kind.
    pub(in crate::store) fn from_kind(kind: u8) -> Option<BlockForm> {
        use BlockForm::{CheckedSlots, CuckooSlots, Slots, Stream};
        [Stream, Slots, CheckedSlots, CuckooSlots].into_iter().find(|form| *form as u8 == kind)
    }

    /// Returns the form that the file states for records of this layout.
    pub(in crate::store) fn of(file: &StoreFile, layout: &RecordLayout) -> Result<BlockForm> {
        let footer = file.footer();
        let refused =
            || Err(file.file().corrupt(0, "a sorted store", format!("a store of kind {}", footer.kind)));
        // LogStores are sized by the number of records.
        let payload_bytes = footer.blocks.saturating_mul(footer.block_bytes.into());
        if footer.records > payload_bytes / layout.bytes_min() as u64 {
            let got = format!("{} records", footer.records);
            let expected = format!("records that fit into {} blocks", footer.blocks);
            return Err(file.file().corrupt(file.length(), expected, got));
        }
        let Some(form) = BlockForm::from_kind(footer.kind) else { return refused() };
        // Slots need the fixed lengths of the layout, which the file does not state.
        if form != BlockForm::Stream && form.slots_in(layout, footer.block_bytes).is_none() {
            return refused();
        }
        // Checked slots are located by their numbers, so the counts of records and blocks must agree.
        let blocks_of_slots = |checked: CheckedSlots| checked.slots.div_ceil(checked.per_block());
        match form.checked(file, layout).map(blocks_of_slots) {
            Some(blocks) if blocks != footer.blocks => {
                let got = format!("{} records in {} blocks", footer.records, footer.blocks);
                Err(file.file().corrupt(file.length(), format!("{blocks} blocks of slots"), got))
            }
            _ => Ok(form),
        }
    }

    /// Returns the bytes of a slot without its checksum, if the form has slots and the layout a fixed size.
    pub(in crate::store) fn slot_bytes(self, layout: &RecordLayout) -> Option<usize> {
        layout.slot_bytes(self.has_flags()).filter(|bytes| self != BlockForm::Stream && *bytes > 0)
    }

    /// Returns whether slots have flags.
    pub(in crate::store) fn has_flags(self) -> bool {
        self == BlockForm::CuckooSlots
    }

    /// Returns whether each slot has a checksum.
    pub(in crate::store) fn is_checked(self) -> bool {
        matches!(self, BlockForm::CheckedSlots | BlockForm::CuckooSlots)
    }

    /// Returns the number of records in a full block, if they are in slots and at least one fits.
    pub fn slots_in(self, layout: &RecordLayout, block_bytes: u32) -> Option<u32> {
        // `None` for a slot longer than a block: then the records are a stream.
        let (slot_bytes, block_bytes) = (self.slot_bytes(layout)?, block_bytes as usize);
        let slots = match self.is_checked() {
            true => checked_slots_per_block(slot_bytes, block_bytes),
            false => block_bytes.saturating_sub(BLOCK_HEADER_BYTES) / slot_bytes,
        };
        Some(slots as u32).filter(|slots| *slots > 0)
    }

    /// Returns the positions of the slots of a file, if each has a checksum.
    pub(in crate::store) fn checked(self, file: &StoreFile, layout: &RecordLayout) -> Option<CheckedSlots> {
        let footer = file.footer();
        let slot_bytes = self.slot_bytes(layout).filter(|_| self.is_checked())?;
        let block_bytes = footer.block_bytes as usize;
        Some(CheckedSlots { store_tag: footer.tag, slot_bytes, block_bytes, slots: footer.records })
    }
}
