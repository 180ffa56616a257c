//! Reads all blocks of a store, damaged or not.

use super::{Advance, OpenedStore, RecordScope, Visit, is_damage, read_if_readable};
use crate::damage::{Damage, DamagedPart, KeyRange};
use crate::error::{CorruptFile, Error, Result};
use crate::key::KeyHash;
use crate::store::block::Block;
use crate::store::file::{FOOTER_BYTES, StoreFile};
use crate::store::record::{RecordProblem, RecordView};
use crate::store::slots::CheckedSlots;
use crate::store::table::{BlockForm, StoreIndex};
use siltstone_device::{AlignedBuffer, Purpose};
use std::ops::Range;

/// The size of reads, in bytes.
const PIECE_BYTES: u64 = 256 << 10;

/// The result of examining a store.
#[derive(Debug, Default)]
pub struct Examined {
    /// The damage.
    pub damage: Vec<Damage>,
    /// The number of intact records, including deletes.
    pub records: u64,
    /// The lowest possible placement of a record after the last intact block.
    pub behind: u64,
}

impl OpenedStore {
    /// Reads everything, and calls `visit` with every intact record.
    ///
    /// # Errors
    /// Read errors, except for bytes that the device has lost; errors of `visit`; [`Error::Interrupted`] if `advance`
    /// returns false.
    pub fn examine(&self, advance: &mut Advance<'_>, visit: &mut Visit<'_>) -> Result<Examined> {
        let footer = self.file.footer();
        // After a failed sync the page cache may contain bytes that never reached the device.
        self.file.file().drop_cache();
        let mut pass = Pass::new(self, visit);
        let block_bytes = u64::from(footer.block_bytes);
        let per_piece = (PIECE_BYTES / block_bytes).max(1);
        let mut buffer = AlignedBuffer::default();
        let mut next = 0;
        while next < footer.blocks {
            let blocks = next..(next + per_piece).min(footer.blocks);
            let (offset, length) = self.file.extent_of(&blocks);
            match read_if_readable(self.file.file(), offset, length, &mut buffer)? {
                Some(bytes) => {
                    for (number, block) in blocks.clone().zip(bytes.chunks_exact(block_bytes as usize)) {
                        pass.take(number, Some(block))?;
                    }
                }
                None => {
                    // Block by block: only those that the device has lost are unusable.
                    for number in blocks.clone() {
                        let (offset, length) = self.file.extent_of(&(number..number + 1));
                        pass.take(number, read_if_readable(self.file.file(), offset, length, &mut buffer)?)?;
                    }
                }
            }
            next = blocks.end;
            if !advance(length as u64) {
                return Err(Error::Interrupted);
            }
        }
        let mut examined = pass.finish();
        // In front: the lines below find the damage of the footer as the first one.
        examined.damage.splice(0..0, self.damage.iter().cloned());
        if !self.end_is_known
            && let Some(footer) = examined.damage.first_mut()
        {
            // The last block found is not necessarily the last one of the store.
            footer.lost.push(self.scope.range(examined.behind, u64::MAX));
        }
        if self.checks_end && self.end_is_known {
            match self.file.check_copy(Purpose::Maintain) {
                Err(error) if is_damage(&error) => {
                    let length = FOOTER_BYTES as u64;
                    examined.damage.push(Damage::of(&error, DamagedPart::StoreFooter, length));
                }
                checked => checked?,
            }
        }
        let (_, blocks_bytes) = self.file.extent_of(&(0..footer.blocks));
        if advance(self.file.length().saturating_sub(blocks_bytes as u64)) {
            Ok(examined)
        } else {
            Err(Error::Interrupted)
        }
    }

    fn form(&self) -> Option<BlockForm> {
        BlockForm::from_kind(self.file.footer().kind)
    }

    /// Checks that a lookup of this hash reads these blocks. Returns the part that prevents it.
    fn hidden_by(&self, hash: KeyHash, blocks: &Range<u64>) -> Result<Option<DamagedPart>> {
        if self.filter.as_ref().is_some_and(|filter| !filter.may_contain(hash)) {
            return Ok(Some(DamagedPart::Filter));
        }
        match &self.index {
            Some(index) if !index.leads_to(&self.file, hash, blocks)? => {
                Ok(Some(StoreIndex::section_of(self.file.footer()).1))
            }
            // There may be no index, or its damage is in the report already.
            _ => Ok(None),
        }
    }

    /// Returns the range of placements that records of lost blocks may have, from those of the neighbouring blocks.
    fn placements_between(&self, before: Option<u64>, after: Option<u64>) -> (u64, u64) {
        let (before, after) = (before.unwrap_or(0), after.unwrap_or(u64::MAX));
        if self.is_in_order() {
            return (before, after.max(before));
        }
        let (Some(first), Some(last)) = (self.bucket_of(before), self.bucket_of(after)) else {
            return (0, u64::MAX);
        };
        let start = lowest(|placement| self.bucket_of(placement) >= Some(first));
        let end = match self.bucket_of(u64::MAX) == Some(last) {
            true => u64::MAX,
            false => lowest(|placement| self.bucket_of(placement) > Some(last)).saturating_sub(1),
        };
        (start, end)
    }

    /// Returns the bucket of a placement, if the records are ordered between these only and it is known.
    fn bucket_of(&self, placement: u64) -> Option<u64> {
        self.index.as_ref().and_then(|index| index.bucket_of(placement))
    }

    /// Returns whether all records are in hash order.
    fn is_in_order(&self) -> bool {
        self.form() == Some(BlockForm::Stream)
            || (self.end_is_known && !StoreIndex::is_in_buckets(self.file.footer()))
    }
}

/// Returns the lowest number for which a monotone condition is true.
fn lowest(is_true: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, u64::MAX);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_true(middle) { high = middle } else { low = middle + 1 }
    }
    low
}

/// Adjacent unusable blocks.
struct Run {
    blocks: Range<u64>,
    damage: Damage,
    /// The highest placement before them, and the lowest one in the next readable block.
    before: Option<u64>,
    after: Option<u64>,
}

struct Pass<'v, 'f> {
    store: &'v OpenedStore,
    visit: &'f mut Visit<'f>,
    form: Option<BlockForm>,
    /// The bytes of a slot without its checksum, if records are in slots.
    slot_bytes: Option<usize>,
    /// The positions of the slots, if each has a checksum.
    checked: Option<CheckedSlots>,
    runs: Vec<Run>,
    /// The number of runs, at the end of the list, whose following placement is not known yet.
    open_runs: usize,
    /// Payload of a stream that was read and not yet decoded, from the beginning of a record on.
    pending: Vec<u8>,
    /// The block in which it begins; `None` if the next beginning of a record is not known.
    begins: Option<u64>,
    highest: Option<u64>,
    lowest_in_block: Option<u64>,
    records: u64,
    /// The first record that index or filter do not find, with the part concerned.
    not_found: Option<(DamagedPart, u64)>,
}

impl<'v, 'f> Pass<'v, 'f> {
    fn new(store: &'v OpenedStore, visit: &'f mut Visit<'f>) -> Self {
        let (form, layout) = (store.form(), &store.scope.shape.layout);
        Pass {
            store,
            visit,
            form,
            slot_bytes: form.and_then(|form| form.slot_bytes(layout)),
            checked: form.and_then(|form| form.checked(&store.file, layout)),
            runs: Vec::new(),
            open_runs: 0,
            pending: Vec::new(),
            begins: Some(0),
            highest: None,
            lowest_in_block: None,
            records: 0,
            not_found: None,
        }
    }

    /// Examines the next block; `None` if the device has lost it.
    fn take(&mut self, number: u64, bytes: Option<&[u8]>) -> Result<()> {
        let file = &self.store.file;
        self.lowest_in_block = None;
        let opened = match (bytes, &self.checked) {
            (Some(bytes), Some(checked)) => checked.open_block(file.file(), number, bytes, true),
            (Some(bytes), None) => Block::open(file.file(), file.footer().tag, number, bytes, true),
            (None, _) => Err(file.file().corrupt(0, "a block that can be read", "an error of the device")),
        };
        match opened {
            Err(error) => {
                self.lose(number, Damage::of(&error, DamagedPart::Blocks, 0));
                if let (Some(bytes), Some(checked)) = (bytes, self.checked) {
                    self.save_slots(&checked, number, bytes)?;
                }
            }
            Ok(block) if self.form == Some(BlockForm::Stream) => self.take_stream(number, &block)?,
            Ok(block) => self.take_slots(number, block.payload)?,
        }
        // The first readable block after damage limits which placements are lost.
        if let Some(lowest) = self.lowest_in_block {
            let open = self.runs.len() - self.open_runs;
            self.runs[open..].iter_mut().for_each(|run| run.after = Some(lowest));
            self.open_runs = 0;
        }
        Ok(())
    }

    /// Records that a block is unusable, and with it a record that began before and continues in it.
    fn lose(&mut self, number: u64, damage: Damage) {
        let pending = std::mem::take(&mut self.pending);
        // The record that continues in this block began in an intact one, and its key may be there.
        let cut_key = self.store.scope.shape.layout.decode_stream_key(&pending).ok();
        let cut_key = cut_key.map(bytes::Bytes::copy_from_slice);
        // Up to the first record that begins in a later block, bytes may be the rest of a lost one.
        self.begins = None;
        let before = self.highest;
        match self.runs.last_mut() {
            Some(run) if run.blocks.end == number && run.damage.part == damage.part && cut_key.is_none() => {
                run.blocks.end = number + 1;
            }
            _ => {
                let damage = Damage { keys: cut_key.into_iter().collect(), ..damage };
                self.runs.push(Run { blocks: number..number + 1, damage, before, after: None });
                self.open_runs += 1;
            }
        }
    }

    /// Records that the checksum of a block is correct but its contents are not.
    fn lose_misplaced(&mut self, number: u64, expected: &str, got: &str) {
        if self.runs.last().is_some_and(|run| run.blocks.end == number + 1) {
            return;
        }
        let path = self.store.file.file().path();
        self.lose(number, Damage::new(path, DamagedPart::Records, 0, 0).because(expected, got));
    }

    /// Visits the slots of a damaged block that are intact themselves.
    fn save_slots(&mut self, checked: &CheckedSlots, number: u64, bytes: &[u8]) -> Result<()> {
        let file = self.store.file.file();
        for (slot_number, slot) in
            checked.in_blocks(&(number..number + 1)).zip(bytes.chunks_exact(checked.stride()))
        {
            if let Ok(slot) = checked.open(file, slot_number, slot)
                && let Some(record) = self.decode_slot(slot)
            {
                self.take_record(&record, number..number + 1)?;
            }
        }
        // These slots do not reveal which placements follow the damage.
        self.lowest_in_block = None;
        Ok(())
    }

    fn take_slots(&mut self, number: u64, payload: &[u8]) -> Result<()> {
        // The footer states a kind of blocks that these records do not have.
        let Some(slot_bytes) = self.slot_bytes else {
            self.lose_misplaced(number, "blocks of the database's records", "blocks of another kind");
            return Ok(());
        };
        let stride = self.checked.map_or(slot_bytes, |checked| checked.stride());
        for slot in payload.chunks_exact(stride) {
            match self.decode_slot(slot.get(..slot_bytes).unwrap_or_default()) {
                Some(record) => self.take_record(&record, number..number + 1)?,
                None => self.lose_misplaced(number, "a record in each slot", "other bytes"),
            }
        }
        Ok(())
    }

    fn decode_slot<'s>(&self, slot: &'s [u8]) -> Option<RecordView<'s>> {
        self.store.scope.shape.layout.decode_slot(slot, self.form?.has_flags())
    }

    fn take_stream(&mut self, number: u64, block: &Block<'_>) -> Result<()> {
        if self.begins.is_none() {
            // The whole block is the rest of a lost record.
            let Some(first) = block.first_record else { return Ok(()) };
            self.begins = Some(number);
            self.pending.extend_from_slice(block.payload.get(first..).unwrap_or_default());
        } else {
            if self.pending.is_empty() {
                self.begins = Some(number);
            }
            self.pending.extend_from_slice(block.payload);
        }
        let pending = std::mem::take(&mut self.pending);
        let (mut at, mut begins) = (0, self.begins.unwrap_or(number));
        let layout = self.store.scope.shape.layout;
        let problem = loop {
            match layout.decode_stream(&pending[at..]) {
                Ok((_, record, taken)) => {
                    self.take_record(&record, begins..number + 1)?;
                    at += taken;
                    begins = number;
                }
                Err(problem) => break problem,
            }
        };
        self.pending = pending;
        // What is left begins with a record that continues in the next block.
        self.pending.drain(..at);
        self.begins = Some(begins);
        if let RecordProblem::Malformed(expected) = problem {
            self.lose_misplaced(number, expected, "other bytes");
        }
        Ok(())
    }

    fn take_record(&mut self, record: &RecordView<'_>, blocks: Range<u64>) -> Result<()> {
        let RecordScope { shape, partition } = self.store.scope;
        let hasher = shape.hasher;
        let whole = hasher.key_hasher.hash(record.key);
        // A right checksum says that the block is as it was written, not that its records belong here.
        if whole.partition(hasher.partitions_log2) as u64 != partition {
            self.lose_misplaced(
                blocks.start,
                "records of the store's partition",
                "a record of another partition",
            );
            return Ok(());
        }
        let hash = whole.within_partition(hasher.partitions_log2);
        if self.store.is_in_order() && self.highest.is_some_and(|highest| hash.placement < highest) {
            self.lose_misplaced(
                blocks.start,
                "records in the order of their hashes",
                "a record out of order",
            );
            return Ok(());
        }
        self.highest = self.highest.max(Some(hash.placement));
        self.lowest_in_block =
            Some(self.lowest_in_block.map_or(hash.placement, |low| low.min(hash.placement)));
        // The record is intact, but gets do not find it.
        if let Some(part) = self.store.hidden_by(hash, &blocks)? {
            self.not_found.get_or_insert((part, blocks.start));
        }
        self.records += 1;
        (self.visit)(record)
    }

    fn finish(mut self) -> Examined {
        let footer = self.store.file.footer();
        if !self.pending.is_empty() && footer.blocks > 0 {
            self.lose_misplaced(footer.blocks - 1, "the rest of a record", "the end of the last block");
        }
        let path = self.store.file.file().path().to_owned();
        // If blocks are unusable, the number of records is lower anyway.
        if self.runs.is_empty() && self.store.end_is_known && self.records != footer.records {
            let damage = Damage::new(&path, DamagedPart::Records, 0, 0);
            let damage = damage.because(format!("{} records", footer.records), self.records.to_string());
            self.runs.push(Run { blocks: 0..footer.blocks, damage, before: None, after: None });
        }
        // Without an order, lost records at the end may have any placement.
        let behind = self.highest.filter(|_| self.store.is_in_order()).unwrap_or(0);
        let mut damage: Vec<Damage> = self.runs.into_iter().map(|run| run.damage_of(self.store)).collect();
        if let Some((part, block)) = self.not_found {
            let section = if part == DamagedPart::Index { &footer.index } else { &footer.filter };
            let (offset, length) = (StoreFile::section_offset(section), section.length());
            let expected = format!("an index that locates the records of block {block}");
            damage.push(Damage::new(path, part, offset, length).because(expected, "an index that does not"));
        }
        Examined { damage, records: self.records, behind }
    }
}

impl Run {
    fn damage_of(self, store: &OpenedStore) -> Damage {
        let (offset, length) = store.file.extent_of(&self.blocks);
        let (first, last) = match self.damage.part {
            // The placements read before the contents turned out to be foreign have no meaning.
            DamagedPart::Records => (0, u64::MAX),
            _ => store.placements_between(self.before, self.after),
        };
        let lost: Vec<KeyRange> = vec![store.scope.range(first, last)];
        Damage { offset, length: length as u64, lost, ..self.damage }
    }
}
