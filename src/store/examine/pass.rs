//! Reads all blocks of a store, damaged or not.

use super::{Advance, Belonging, Visit, read_if_readable};
use crate::damage::{Damage, DamagedPart, KeyRange};
use crate::device::{AlignedBuffer, Purpose};
use crate::index::filter::{CuckooFilter, Filter};
use crate::index::perfect::PerfectOutline;
use crate::key::KeyHash;
use crate::store::StoreFilter;
use crate::store::block::Block;
use crate::store::cuckoo::{CUCKOO_TABLE_KIND, Geometry as CuckooGeometry};
use crate::store::file::{FOOTER_BYTES, Section, StoreFile};
use crate::store::ordered::{BlockForm, StoreIndex};
use crate::store::record::{RecordProblem, RecordView};
use crate::store::slots::CheckedSlots;
use crate::{Error, Result};
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

/// A store with its readable index and filter.
pub struct StoreView<'a> {
    /// The file.
    pub file: &'a StoreFile,
    /// The common properties of the records.
    pub belonging: Belonging,
    /// The index of a store in hash order.
    pub index: Option<&'a StoreIndex>,
    /// The filter of a store in hash order.
    pub filter: Option<&'a StoreFilter>,
    /// The filter of a cuckoo table.
    pub table: Option<&'a CuckooFilter>,
    /// Whether the footer is known, and with it the number of records and blocks.
    pub end_is_known: bool,
    /// Whether the store must have an index.
    pub needs_index: bool,
    /// Whether sections and the copy of the footer are checked.
    pub checks_end: bool,
}

impl StoreView<'_> {
    /// Reads everything, and calls `visit` with every intact record.
    ///
    /// # Errors
    /// Read errors, except for bytes that the device has lost; errors of `visit`; [`Error::Interrupted`] if `advance`
    /// returns false.
    pub fn examine(&self, advance: &mut Advance<'_>, visit: &mut Visit<'_>) -> Result<Examined> {
        let footer = self.file.footer();
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
        if self.checks_end {
            self.check_sections(&mut examined)?;
        }
        let (_, blocks_bytes) = self.file.extent_of(&(0..footer.blocks));
        if advance(self.file.length().saturating_sub(blocks_bytes as u64)) {
            Ok(examined)
        } else {
            Err(Error::Interrupted)
        }
    }

    fn check_sections(&self, examined: &mut Examined) -> Result<()> {
        let footer = self.file.footer();
        let is_table = footer.kind == CUCKOO_TABLE_KIND;
        let index_is_there = self.index.is_some();
        let filter_is_there = if is_table { self.table.is_some() } else { self.filter.is_some() };
        let needs_index = self.needs_index && self.end_is_known && !is_table;
        let sections = [
            (&footer.index, DamagedPart::Index, index_is_there, needs_index),
            (&footer.filter, DamagedPart::Filter, filter_is_there, self.end_is_known && is_table),
        ];
        let checked = if self.end_is_known { self.file.check_copy(Purpose::Maintain) } else { Ok(()) };
        match checked {
            Err(error @ (Error::Corrupt { .. } | Error::Io { .. })) => {
                let length = FOOTER_BYTES as u64;
                examined.damage.push(Damage::of(&error, DamagedPart::StoreFooter, length));
            }
            Err(error) => return Err(error),
            Ok(()) => {}
        }
        for (section, part, is_there, is_needed) in sections {
            if section.kind == 0 && !is_needed {
                continue;
            }
            let found = match self.file.read_section(section, Purpose::Maintain) {
                Err(error @ (Error::Corrupt { .. } | Error::Io { .. })) => Damage::of(&error, part, 0),
                Err(error) => return Err(error),
                Ok(_) if is_there => continue,
                Ok(_) => {
                    let path = self.file.file().path();
                    Damage::new(path, part, 0, 0).because("a section that can be decoded", "other bytes")
                }
            };
            let (offset, length) = extent_of(section);
            examined.damage.push(Damage { offset, length, ..found });
        }
        Ok(())
    }

    /// Returns the positions of the slots of a cuckoo table.
    fn geometry(&self) -> Option<CuckooGeometry> {
        let footer = self.file.footer();
        let is_table = footer.kind == CUCKOO_TABLE_KIND;
        CuckooGeometry::new(self.belonging.shape, footer).filter(|_| is_table)
    }

    /// Returns the number of slots in a full block of a cuckoo table.
    fn slots_per_block(&self) -> Option<u64> {
        self.geometry().map(|geometry| geometry.slots_per_block)
    }

    /// Returns the positions of the slots, if each has a checksum.
    fn checked(&self) -> Option<CheckedSlots> {
        match self.geometry() {
            Some(geometry) => Some(geometry.checked),
            None => {
                let layout = &self.belonging.shape.layout;
                BlockForm::of(self.file, layout).ok().and_then(|form| form.checked(self.file, layout))
            }
        }
    }

    /// Checks that a lookup of this hash reads these blocks. The error is the part that prevents it.
    fn finds(&self, hash: KeyHash, blocks: &Range<u64>) -> std::result::Result<(), DamagedPart> {
        if let Some(table) = self.table {
            let slots = self.slots_per_block().unwrap_or(1);
            let mut candidates = table.candidate_slots(hash.placement, hash.fingerprint);
            let found = candidates.any(|slot| u64::from(slot.rank) / slots == blocks.start);
            return if found { Ok(()) } else { Err(DamagedPart::Filter) };
        }
        if self.filter.is_some_and(|filter| !filter.may_contain(hash)) {
            return Err(DamagedPart::Filter);
        }
        match self.index {
            None => Ok(()),
            Some(index) => {
                let found = index.locate(hash);
                let all = found.start <= blocks.start && blocks.end <= found.end;
                if all { Ok(()) } else { Err(DamagedPart::Index) }
            }
        }
    }

    /// Returns the range of placements that records of lost blocks may have, from those of the neighbouring blocks.
    fn placements_of(&self, blocks: &Range<u64>, before: Option<u64>, after: Option<u64>) -> (u64, u64) {
        let (before, after) = (before.unwrap_or(0), after.unwrap_or(u64::MAX));
        if self.is_in_order() {
            return (before, after.max(before));
        }
        if let Some(outline) = self.index.and_then(StoreIndex::outline) {
            return (bucket_start(outline, before), bucket_end(outline, after));
        }
        match (self.table, self.slots_per_block()) {
            (Some(table), Some(slots)) => {
                placements_of_ranks(table, blocks.start * slots..blocks.end * slots)
            }
            _ => (0, u64::MAX),
        }
    }

    /// Returns whether all records are in hash order.
    fn is_in_order(&self) -> bool {
        let footer = self.file.footer();
        let in_buckets = !self.end_is_known || StoreIndex::is_in_buckets(footer);
        footer.kind == BlockForm::Stream as u8 || (footer.kind != CUCKOO_TABLE_KIND && !in_buckets)
    }
}

fn extent_of(section: &Section) -> (u64, u64) {
    (StoreFile::section_offset(section), section.length())
}

/// Returns the lowest placement in the bucket of a placement. Buckets ascend with placements.
fn bucket_start(outline: &PerfectOutline, placement: u64) -> u64 {
    let bucket = outline.bucket_of(placement);
    lowest(|other| outline.bucket_of(other) >= bucket)
}

fn bucket_end(outline: &PerfectOutline, placement: u64) -> u64 {
    let bucket = outline.bucket_of(placement);
    if outline.bucket_of(u64::MAX) == bucket {
        return u64::MAX;
    }
    lowest(|other| outline.bucket_of(other) > bucket).saturating_sub(1)
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

/// Returns the range of placements of the regions that contain these ranks.
fn placements_of_ranks(table: &CuckooFilter, ranks: Range<u64>) -> (u64, u64) {
    let settings = table.settings();
    let last_rank = ranks.end.saturating_sub(1).min(table.len().saturating_sub(1));
    // The last region whose first rank is not above a rank contains it.
    let region_of = |rank: u64| {
        let (mut low, mut high) = (0, settings.regions);
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            if u64::from(table.first_rank_of_region(middle)) <= rank { low = middle } else { high = middle }
        }
        low
    };
    let (first, last) = (region_of(ranks.start), region_of(last_rank));
    let start = lowest(|placement| settings.region_of(placement) >= first);
    let end = if last + 1 >= settings.regions {
        u64::MAX
    } else {
        lowest(|placement| settings.region_of(placement) > last).saturating_sub(1)
    };
    (start, end)
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
    view: &'v StoreView<'v>,
    visit: &'f mut Visit<'f>,
    is_table: bool,
    slot_bytes: usize,
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
    fn new(view: &'v StoreView<'v>, visit: &'f mut Visit<'f>) -> Self {
        let is_table = view.file.footer().kind == CUCKOO_TABLE_KIND;
        let layout = &view.belonging.shape.layout;
        Pass {
            view,
            visit,
            is_table,
            slot_bytes: layout.slot_bytes(is_table).unwrap_or(usize::MAX),
            checked: view.checked(),
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
        let file = self.view.file;
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
            Ok(block) if self.is_table || file.footer().kind != BlockForm::Stream as u8 => {
                self.take_slots(number, block.payload)?;
            }
            Ok(block) => self.take_stream(number, &block)?,
        }
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
        let cut_key = self.view.belonging.shape.layout.decode_stream_key(&pending).ok();
        let cut_key = cut_key.map(bytes::Bytes::copy_from_slice);
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
        let path = self.view.file.file().path();
        self.lose(number, Damage::new(path, DamagedPart::Records, 0, 0).because(expected, got));
    }

    /// Visits the slots of a damaged block that are intact themselves.
    fn save_slots(&mut self, checked: &CheckedSlots, number: u64, bytes: &[u8]) -> Result<()> {
        let file = self.view.file.file();
        for (slot_number, slot) in
            checked.in_blocks(&(number..number + 1)).zip(bytes.chunks_exact(checked.stride()))
        {
            if let Ok(slot) = checked.open(file, slot_number, slot)
                && let Some(record) = self.view.belonging.shape.layout.decode_slot(slot, self.is_table)
            {
                self.take_record(&record, number..number + 1)?;
            }
        }
        // These slots do not reveal which placements follow the damage.
        self.lowest_in_block = None;
        Ok(())
    }

    fn take_slots(&mut self, number: u64, payload: &[u8]) -> Result<()> {
        let stride = self.checked.map_or(self.slot_bytes, |checked| checked.stride());
        for slot in payload.chunks_exact(stride.clamp(1, payload.len() + 1)) {
            let slot = slot.get(..self.slot_bytes).unwrap_or_default();
            match self.view.belonging.shape.layout.decode_slot(slot, self.is_table) {
                Some(record) => self.take_record(&record, number..number + 1)?,
                None => self.lose_misplaced(number, "a record in each slot", "other bytes"),
            }
        }
        Ok(())
    }

    fn take_stream(&mut self, number: u64, block: &Block<'_>) -> Result<()> {
        if self.begins.is_none() {
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
        let layout = self.view.belonging.shape.layout;
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
        self.pending.drain(..at);
        self.begins = Some(begins);
        if let RecordProblem::Malformed(expected) = problem {
            self.lose_misplaced(number, expected, "other bytes");
        }
        Ok(())
    }

    fn take_record(&mut self, record: &RecordView<'_>, blocks: Range<u64>) -> Result<()> {
        let Belonging { shape, partition } = self.view.belonging;
        let placing = shape.placing;
        let whole = placing.hasher.hash(record.key);
        if whole.partition(placing.partitions_log2) as u64 != partition {
            self.lose_misplaced(
                blocks.start,
                "records of the store's partition",
                "a record of another partition",
            );
            return Ok(());
        }
        let hash = whole.within_partition(placing.partitions_log2);
        if self.view.is_in_order() && self.highest.is_some_and(|highest| hash.placement < highest) {
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
        if let Err(part) = self.view.finds(hash, &blocks) {
            self.not_found.get_or_insert((part, blocks.start));
        }
        self.records += 1;
        (self.visit)(record)
    }

    fn finish(mut self) -> Examined {
        let footer = self.view.file.footer();
        if !self.pending.is_empty() && footer.blocks > 0 {
            self.lose_misplaced(footer.blocks - 1, "the rest of a record", "the end of the last block");
        }
        let path = self.view.file.file().path().to_owned();
        if self.runs.is_empty() && self.view.end_is_known && self.records != footer.records {
            let damage = Damage::new(&path, DamagedPart::Records, 0, 0);
            let damage = damage.because(format!("{} records", footer.records), self.records.to_string());
            self.runs.push(Run { blocks: 0..footer.blocks, damage, before: None, after: None });
        }
        let behind = self.highest.filter(|_| self.view.is_in_order()).unwrap_or(0);
        let mut damage: Vec<Damage> = self.runs.into_iter().map(|run| run.told(self.view)).collect();
        let is_there = |part| match part {
            DamagedPart::Index => footer.index.kind != 0,
            _ => footer.filter.kind != 0,
        };
        if let Some((part, block)) = self.not_found.filter(|(part, _)| is_there(*part)) {
            let section = if part == DamagedPart::Index { &footer.index } else { &footer.filter };
            let (offset, length) = extent_of(section);
            let expected = format!("an index that locates the records of block {block}");
            damage.push(Damage::new(path, part, offset, length).because(expected, "an index that does not"));
        }
        Examined { damage, records: self.records, behind }
    }
}

impl Run {
    fn told(self, view: &StoreView<'_>) -> Damage {
        let (offset, length) = view.file.extent_of(&self.blocks);
        let (first, last) = match self.damage.part {
            // The placements read before the contents turned out to be foreign have no meaning.
            DamagedPart::Records => (0, u64::MAX),
            _ => view.placements_of(&self.blocks, self.before, self.after),
        };
        let lost: Vec<KeyRange> = vec![view.belonging.range(first, last)];
        Damage { offset, length: length as u64, lost, ..self.damage }
    }
}
