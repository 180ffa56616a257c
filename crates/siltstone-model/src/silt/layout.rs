//! The parameters of [`Silt`] for this crate's SILT engine, derived from its formats (docs/formats/) and settings byte
//! by byte. The sizes of filters and indexes are measured, and correct within 2 %. `tests/model_vs_measured.rs`
//! compares the results with the engine's own counters.

use super::Silt;
use super::sizes::{
    FENCES_BYTES, FILE_ALIGNMENT, FOOTER_BYTES, block_perfect_bytes, fences_bytes, freed_share, log_tables,
    ribbon_bytes, varint_bytes,
};
use crate::error::{ModelError, positive};
use siltstone::engine::silt::{SiltSettings, costs};

/// A frame of the log without its record.
const FRAME_BYTES: f64 = costs::FRAME_CRC_BYTES as f64;
/// The flags of a record in stream form.
const FLAGS_BYTES: f64 = 1.0;
const EXPIRY_BYTES: f64 = costs::EXPIRY_BYTES as f64;
const BLOCK_HEADER_BYTES: f64 = costs::BLOCK_HEADER_BYTES as f64;
const UNUSED_SHARE: f64 = costs::UNUSED_SHARE as f64;
const REGIONS: f64 = costs::REGIONS as f64;
const EXCEPTIONS_BYTES: f64 = costs::EXCEPTIONS_BYTES as f64;
/// The share of the boundaries of blocks at which two records have one cell of the fences.
const PAIRS_SHARE: f64 = 0.2;
const OPEN_STORE_BYTES: f64 = costs::STORE_BYTES as f64;
const PARTITION_BYTES: f64 = costs::PARTITION_BYTES as f64;
const HASH_STORES_MAX: f64 = costs::HASH_STORES_MAX as f64;
const SLOTS_PER_RECORD_OF_SMALL: f64 = costs::SLOTS_PER_RECORD_OF_SMALL as f64;
const LOG_RECORD_BYTES: f64 = costs::LOG_RECORD_BYTES as f64;
const LOG_PART_OF_DATA: f64 = costs::LOG_PART_OF_DATA as f64;
/// The longest part of the log that the positions of a LogStore can span, in bytes.
const LOG_REACH_BYTES_MAX: f64 = (1u64 << costs::POSITION_BITS_MAX) as f64;
const POSITION_BITS_MIN: f64 = costs::POSITION_BITS_MIN as f64;
const POSITION_BITS_MAX: f64 = costs::POSITION_BITS_MAX as f64;
const PARTITIONS_PER_FROZEN: f64 = costs::PARTITIONS_PER_FROZEN as f64;
const FROZEN_MAX_MIN: f64 = costs::FROZEN_MAX_MIN as f64;
const KEYS_PER_PIECE_BYTE: f64 = costs::KEYS_PER_PIECE_BYTE as f64;
const PIECE_BYTES_MIN: f64 = costs::PIECE_BYTES_MIN as f64;
const BUCKET_RECORDS: f64 = costs::BUCKET_KEYS as f64;
const FREED_PAYLOAD_MAX: f64 = costs::FREED_PAYLOAD_MAX as f64;
const PIECES_PER_BUCKET_MIN: f64 = costs::PIECES_PER_BUCKET_MIN as f64;
const PIECES_PER_BUCKET_MAX: f64 = costs::PIECES_PER_BUCKET_MAX as f64;
const BUCKET_RECORDS_MIN: f64 = costs::BUCKET_RECORDS_MIN as f64;
const BUCKET_BYTES_MAX: f64 = costs::BUCKET_BYTES_MAX as f64;
const KEYS_PER_RANGE: f64 = costs::KEYS_PER_RANGE as f64;
/// As counted by the test `the_constants_of_the_merge_policy_are_those_of_its_simulation` for 4 to 64 partitions that
/// merge 3 to 33 HashStores at once: the first within 0.12, the others within 0.15.
const MERGE_EXCESS_STORES: f64 = 0.9;
const MERGE_LOGGED_STORES: f64 = 0.35;
/// The LogStore after a merge is converted before it is full, at a different number of keys in each partition.
const PARTIAL_STORES: f64 = 0.45;
/// At the peak of memory, as measured by `tests/model_vs_measured.rs`: the share of the LogStores' tables that is
/// allocated; the share by which HashStores exceed their bound; the share of the keys of a merge that are written again
/// before the merge ends.
const TABLES_ALLOCATED_PEAK: f64 = 0.75;
const HASH_EXCESS: f64 = 0.07;
const REFILLED_SHARE: f64 = 0.5;
/// The largest bucket of a block-perfect index exceeds the mean by this many standard deviations.
const LARGEST_BUCKET_DEVIATIONS: f64 = 3.0;
/// The memory of a block-perfect index that is not part of its bytes on flash.
const OUTLINE_BYTES: f64 = 100.0;
/// Bytes of memory besides the record itself: in a merge for each record waiting in a bucket, in a conversion for each
/// record of the filter, and in both for each record of a LogStore's region.
const WAITING_BYTES: f64 = 28.0;
const FILTER_BUILDING_BYTES: f64 = 13.0;
const REGION_RECORD_BYTES: f64 = 8.0;
/// The share of a short payload that a cursor of a merge holds: on average, and how much one cursor holds more at the
/// peak of memory.
const HELD_SHARE: f64 = 0.58;
const HELD_SHARE_MORE: f64 = 0.7;
/// A range of a SortedStore's filter: bytes besides its ribbon filter, and bytes per key while it is built.
const RANGE_BYTES: f64 = 40.0;
const RANGE_BUILDING_BYTES: f64 = 16.0;

/// The records and the engine's settings. All but the records have the engine's defaults.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct SiltLayout {
    /// The mean length of a key, in bytes.
    pub key_bytes: f64,
    /// The mean length of a value, in bytes.
    pub value_bytes: f64,
    /// Whether all records have one size, which the database is configured with.
    pub fixed: bool,
    /// Whether records have an expiry time.
    pub expiring: bool,
    /// A block on flash, in bytes.
    pub block_bytes: f64,
    /// P.
    pub partitions: f64,
    /// d · P / N.
    pub merge_ratio: f64,
    /// The bits of a tag of LogStores.
    pub tag_bits: f64,
    /// The false positive rate of HashStores' filters is 2^-this.
    pub filter_bits: f64,
    /// The minimum number of slots of a LogStore.
    pub log_slots_min: f64,
    /// Keys per slot of all LogStores, if that gives more slots.
    pub keys_per_log_slot: f64,
    /// A LogStore is converted after this many bytes of log at the latest, or after a tenth of the data if that is
    /// more.
    pub log_bytes_max: f64,
    /// The false positive rate of the filter of each SortedStore is 2^-this; 0 for no filter.
    pub last_filter_bits: f64,
    /// The bytes of a segment of the log.
    pub log_segment_bytes: f64,
    /// The maximum number of bytes that background work reads or writes at a time.
    pub piece_bytes_max: f64,
    /// The maximum number of slots of a region of a LogStore's index, unless there would be more than about four.
    pub region_slots_max: f64,
}

/// A file of records in hash order.
struct StoreFile {
    bytes: f64,
    /// Its memory while it is open.
    ram_bytes: f64,
}

impl SiltLayout {
    /// Returns the engine's defaults, for records of one size.
    pub fn new(key_bytes: f64, value_bytes: f64) -> Self {
        let settings = SiltSettings::default();
        SiltLayout {
            key_bytes,
            value_bytes,
            fixed: true,
            expiring: false,
            block_bytes: costs::BLOCK_BYTES_DEFAULT.into(),
            partitions: costs::PARTITIONS_DEFAULT.into(),
            merge_ratio: settings.merge_ratio,
            tag_bits: settings.tag_bits.into(),
            filter_bits: settings.filter_bits.into(),
            log_slots_min: settings.log_slots_min.into(),
            keys_per_log_slot: settings.keys_per_log_slot.into(),
            // One LogStore may take half of the log that is not converted yet.
            log_bytes_max: settings.log_bytes_max as f64 / 2.0,
            last_filter_bits: 0.0,
            log_segment_bytes: settings.log_segment_bytes as f64,
            piece_bytes_max: settings.piece_bytes_max as f64,
            region_slots_max: settings.region_slots_max.into(),
        }
    }

    /// Checks that such records and settings are possible.
    pub fn check(&self) -> Result<(), ModelError> {
        positive("key bytes", self.key_bytes)?;
        positive("key and value bytes", self.item_bytes())?;
        // What a block always has for records: the header and the most that is left unused are taken off.
        positive("payload of a block", self.payload_bytes() - self.block_bytes / UNUSED_SHARE / 2.0)?;
        positive("partitions", self.partitions)?;
        positive("merge ratio", self.merge_ratio)?;
        positive("tag bits", self.tag_bits)?;
        positive("filter bits", self.filter_bits)?;
        positive("log slots", self.log_slots_min)?;
        positive("keys per log slot", self.keys_per_log_slot)?;
        positive("log bytes", self.log_bytes_max)?;
        if self.last_filter_bits != 0.0 {
            positive("bits of the last filter", self.last_filter_bits)?;
        }
        Ok(())
    }

    /// Returns the store for this many keys.
    pub fn silt(&self, keys: f64) -> Result<Silt, ModelError> {
        self.check()?;
        positive("keys", keys)?;
        let partition_keys = keys / self.partitions;
        let (table_slots, table_occupancy) = self.table(partition_keys);
        let log_record_bytes = self.log_record_bytes();
        let sorted_store = self.sorted_store(partition_keys);
        let log_bytes_max = (self.partitions * sorted_store.bytes / LOG_PART_OF_DATA)
            .max(self.log_bytes_max)
            .min(LOG_REACH_BYTES_MAX);
        let table_keys =
            (table_slots * table_occupancy).min(log_bytes_max / log_record_bytes / self.partitions).max(1.0);
        let merge_keys = self.merge_keys(partition_keys, table_keys);
        let filter_bits = self.filter_bits_of(partition_keys, merge_keys);
        let hash_store = self.hash_store(table_keys, filter_bits);
        let hash_stores = merge_keys / table_keys + MERGE_EXCESS_STORES;
        let tables = log_tables(table_slots);
        // A LogStore that never becomes full allocates only the tables that its keys need.
        let tables_needed = (tables * (partition_keys / (table_slots * table_occupancy)).min(1.0)).ceil();
        let allocated = |share: f64| share.min(tables_needed / tables);
        let partial_stores = PARTIAL_STORES * (1.0 - 1.0 / self.partitions);
        // The fixed memory of a HashStore also counts for those that are not full.
        let empty = self.hash_store(0.0, filter_bits);
        let half_full = self.hash_store(table_keys / 2.0, filter_bits);
        let fixed_bytes = 2.0 * half_full.ram_bytes - hash_store.ram_bytes;
        let partial_ram_bytes = fixed_bytes * partial_stores / (hash_stores / 2.0).max(1.0);
        let hash_ram_bytes = hash_store.ram_bytes + partial_ram_bytes;
        // A merge frees filters as it goes, and the other memory of HashStores when it ends.
        let freed = freed_share(partition_keys + merge_keys, self.last_filter_bits)
            * ribbon_bytes(table_keys, filter_bits)
            / hash_ram_bytes;
        Ok(Silt {
            keys,
            item_bytes: self.item_bytes(),
            partitions: self.partitions,
            merge_keys,
            merge_keys_min: self.merge_keys_min(),
            merge_keys_added: self.merge_keys_added(),
            merge_excess_stores: MERGE_EXCESS_STORES,
            merge_logged_stores: MERGE_LOGGED_STORES,
            partial_stores,
            table_slots,
            table_occupancy,
            log_bytes_max,
            log_record_bytes,
            hash_record_bytes: (hash_store.bytes - empty.bytes) / table_keys,
            hash_store_bytes: empty.bytes,
            sorted_record_bytes: (sorted_store.bytes - empty.bytes) / partition_keys,
            sorted_store_bytes: empty.bytes,
            log_slot_bytes: self.log_slot_bytes(table_slots, log_record_bytes),
            log_slots_allocated: allocated((tables + 1.0) / (2.0 * tables)),
            log_slots_allocated_peak: allocated(if tables > 1.0 { TABLES_ALLOCATED_PEAK } else { 1.0 }),
            frozen_stores_peak: 1.0 + (self.partitions / PARTITIONS_PER_FROZEN).max(FROZEN_MAX_MIN),
            hash_excess: HASH_EXCESS,
            refilled_share: REFILLED_SHARE * (1.0 - freed),
            filter_bytes: hash_ram_bytes / table_keys,
            sorted_index_bytes: (sorted_store.ram_bytes + PARTITION_BYTES) / partition_keys,
            // On average half of the slots are taken, in two buckets of four.
            log_false_positives: 4.0 * table_occupancy / self.tag_bits.exp2(),
            false_positives: (-filter_bits).exp2(),
            last_false_positives: (-self.last_filter_bits).exp2(),
            buffer_bytes: self.buffer_bytes(keys, hash_stores, table_keys),
            fixed_bytes: costs::KEY_STRIPES_BYTES as f64,
            log_tail_bytes: self.log_segment_bytes,
        })
    }

    /// Returns the bytes that a get reads from a store at a time: the block of the record, or all blocks that the
    /// record spans.
    pub fn read_bytes(&self) -> f64 {
        match self.slots_per_block() {
            Some(_) => self.block_bytes,
            None => self.block_bytes * (1.0 + self.stream_bytes() / self.payload_bytes()),
        }
    }

    /// Returns the share of the blocks of SortedStores that records in slots leave unused.
    pub fn unused_share(&self) -> f64 {
        self.slots_per_block().map_or(0.0, |slots| 1.0 - slots * self.slot_bytes() / self.payload_bytes())
    }

    fn item_bytes(&self) -> f64 {
        self.key_bytes + self.value_bytes
    }

    fn slot_bytes(&self) -> f64 {
        self.item_bytes() + if self.expiring { EXPIRY_BYTES } else { 0.0 }
    }

    /// Returns a record in stream form.
    pub(crate) fn stream_bytes(&self) -> f64 {
        let lengths =
            if self.fixed { 0.0 } else { varint_bytes(self.key_bytes) + varint_bytes(self.value_bytes) };
        FLAGS_BYTES + lengths + self.slot_bytes()
    }

    /// Returns a record in the log.
    pub(crate) fn log_record_bytes(&self) -> f64 {
        FRAME_BYTES + self.stream_bytes()
    }

    pub(crate) fn payload_bytes(&self) -> f64 {
        self.block_bytes - BLOCK_HEADER_BYTES
    }

    /// Returns the records that fill a block, if they are stored in slots.
    fn slots_per_block(&self) -> Option<f64> {
        let slots = (self.payload_bytes() / self.slot_bytes()).floor();
        (self.fixed && slots >= 1.0).then_some(slots)
    }

    /// Returns the slots of a LogStore, and the share of them that is used when the first insertion fails. A table of
    /// several regions is full when its fullest region is; the shares were measured, within 1 %.
    pub(crate) fn table(&self, partition_keys: f64) -> (f64, f64) {
        let wanted = self.log_slots(partition_keys);
        let tables = log_tables(wanted);
        let slots = (wanted / tables).floor();
        let power_of_two = |slots: f64| slots.max(1.0).log2().ceil().exp2();
        let region_slots =
            power_of_two(slots).min(self.region_slots_max / tables).max(power_of_two(slots / REGIONS));
        let regions = ((slots + region_slots / 2.0) / region_slots).floor();
        let occupancy = 0.982 - 0.0315 * (512.0 / region_slots).powf(0.4) * regions.ln();
        (tables * regions * region_slots, occupancy)
    }

    /// Returns a slot of a LogStore's index: tag and position; four of them take whole bytes.
    pub(crate) fn log_slot_bytes(&self, table_slots: f64, log_record_bytes: f64) -> f64 {
        let reach = costs::LOG_REACH * table_slots * self.partitions * log_record_bytes;
        let position_bits = reach.log2().ceil().clamp(POSITION_BITS_MIN, POSITION_BITS_MAX);
        ((self.tag_bits + position_bits) / 2.0).ceil() / 4.0
    }

    fn merge_keys(&self, partition_keys: f64, table_keys: f64) -> f64 {
        let wanted = self.merge_ratio * partition_keys + self.merge_keys_added();
        let wanted = wanted.max(self.merge_keys_min());
        if table_keys * SLOTS_PER_RECORD_OF_SMALL < self.log_slots(partition_keys) {
            wanted.min((HASH_STORES_MAX + 1.0 - MERGE_EXCESS_STORES) * table_keys)
        } else {
            wanted
        }
    }

    /// Returns the number of slots that a LogStore should have.
    pub(crate) fn log_slots(&self, partition_keys: f64) -> f64 {
        (partition_keys / self.keys_per_log_slot).floor().max(self.smallest_log_slots())
    }

    /// Returns the number of slots of the smallest LogStore, which is larger for large records.
    pub(crate) fn smallest_log_slots(&self) -> f64 {
        let factor =
            (self.log_record_bytes() / LOG_RECORD_BYTES).clamp(1.0, costs::LOG_SLOTS_FACTOR_MAX as f64);
        (self.log_slots_min * factor).floor()
    }

    /// Returns the filter of a SortedStore, if it has one: one ribbon filter per range of keys.
    fn last_filter_bytes(&self, records: f64) -> f64 {
        if self.last_filter_bits == 0.0 {
            return 0.0;
        }
        let ranges = (records / KEYS_PER_RANGE).ceil().max(1.0);
        ranges * (ribbon_bytes(records / ranges, self.last_filter_bits) + RANGE_BYTES)
    }

    /// All HashStores together hold at least a part of a LogStore per partition.
    fn merge_keys_min(&self) -> f64 {
        costs::LOG_STORES_MIN * self.merge_keys_of_log_stores()
    }

    fn merge_keys_added(&self) -> f64 {
        costs::LOG_STORES_ADDED * self.merge_keys_of_log_stores()
    }

    /// Returns d if all HashStores together hold as much as the smallest LogStore of each partition.
    fn merge_keys_of_log_stores(&self) -> f64 {
        2.0 * self.smallest_log_slots() * costs::OCCUPANCY * self.partitions / (self.partitions + 1.0)
    }

    fn hash_store(&self, records: f64, filter_bits: f64) -> StoreFile {
        self.stream_file(records, ribbon_bytes(records, filter_bits))
    }

    /// Returns the bits of the filters of HashStores, for merges of this many keys of HashStores. They are fewer if
    /// there are few HashStores per partition.
    fn filter_bits_of(&self, partition_keys: f64, merge_keys: f64) -> f64 {
        let mean_keys = merge_keys * (self.partitions + 1.0) / (2.0 * self.partitions);
        let hash_stores = mean_keys / (self.log_slots(partition_keys) * costs::OCCUPANCY);
        costs::filter_bits(self.filter_bits as u8, hash_stores).into()
    }

    fn sorted_store(&self, records: f64) -> StoreFile {
        let filter_bytes = self.last_filter_bytes(records);
        let Some(slots) = self.slots_per_block() else { return self.stream_file(records, filter_bytes) };
        let blocks = records / slots;
        let index_bytes = if slots > 1.0 {
            block_perfect_bytes(records, slots, self.bucket_records(records * self.partitions, slots))
        } else {
            fences_bytes(records, blocks)
        };
        let file = self.file(blocks, index_bytes + filter_bytes);
        let outline_bytes = if slots > 1.0 { OUTLINE_BYTES } else { 0.0 };
        StoreFile { ram_bytes: file.ram_bytes + outline_bytes, ..file }
    }

    fn stream_file(&self, records: f64, filter_bytes: f64) -> StoreFile {
        let blocks = self.stream_blocks(records);
        let file = self.file(blocks, fences_bytes(records, blocks) + filter_bytes);
        StoreFile { ram_bytes: file.ram_bytes + self.exceptions_bytes(blocks), ..file }
    }

    /// Returns the blocks that records in hash order fill.
    pub(crate) fn stream_blocks(&self, records: f64) -> f64 {
        let record = self.stream_bytes();
        let unused_max = self.block_bytes / UNUSED_SHARE;
        // The rest of a block is equally likely to have any length below that of the record that does not fit.
        let unused = if record <= unused_max { record / 2.0 } else { unused_max * unused_max / 2.0 / record };
        records * record / (self.payload_bytes() - unused)
    }

    /// Returns the memory of the fences' list of exceptions. Records that span blocks share some boundaries and not
    /// others. Of shorter records, two of one cell do if they are longer together than what a block may leave unused.
    fn exceptions_bytes(&self, blocks: f64) -> f64 {
        let (record, unused_max) = (self.stream_bytes(), self.block_bytes / UNUSED_SHARE);
        let pair_spans = ((2.0 * record - unused_max) / record).clamp(0.0, 1.0);
        let shared = if record > unused_max { 1.0 } else { PAIRS_SHARE * pair_spans };
        let has_list = 1.0 - (-shared * blocks).exp();
        has_list * (EXCEPTIONS_BYTES + FENCES_BYTES)
    }

    /// Returns a file with a block for the header and, on average, half a block that the last records do not fill. The
    /// blocks are followed by index, filter and footer, up to the next multiple of the alignment.
    fn file(&self, blocks: f64, behind_bytes: f64) -> StoreFile {
        StoreFile { bytes: self.file_bytes(blocks, behind_bytes), ram_bytes: behind_bytes + OPEN_STORE_BYTES }
    }

    /// Returns the length of such a file.
    pub(crate) fn file_bytes(&self, blocks: f64, behind_bytes: f64) -> f64 {
        let unaligned = behind_bytes + FOOTER_BYTES;
        let end_bytes = match self.block_bytes >= FILE_ALIGNMENT {
            true => (unaligned / FILE_ALIGNMENT).ceil() * FILE_ALIGNMENT,
            false => unaligned + FILE_ALIGNMENT / 2.0,
        };
        (blocks + 1.5) * self.block_bytes + end_bytes
    }

    /// Returns the bytes that background work reads or writes at a time.
    fn piece_bytes(&self, keys: f64) -> f64 {
        let wanted = (keys / KEYS_PER_PIECE_BYTE).log2().ceil().exp2();
        wanted.clamp(PIECE_BYTES_MIN, self.piece_bytes_max.max(PIECE_BYTES_MIN))
    }

    /// Returns the records of a bucket of the block-perfect index.
    fn bucket_records(&self, keys: f64, slots: f64) -> f64 {
        let piece = self.piece_bytes(keys);
        let bytes = (BUCKET_RECORDS_MIN * self.slot_bytes())
            .clamp(PIECES_PER_BUCKET_MIN * piece, PIECES_PER_BUCKET_MAX * piece)
            .min(BUCKET_BYTES_MAX.max(piece));
        (bytes / self.slot_bytes()).clamp(4.0 * slots, BUCKET_RECORDS.max(4.0 * slots))
    }

    /// Returns the buffers of a conversion and a merge at their peaks.
    fn buffer_bytes(&self, keys: f64, hash_stores: f64, table_keys: f64) -> f64 {
        let partition_keys = keys / self.partitions;
        let table_keys = table_keys.min(partition_keys);
        // A piece is at most as large as the file that it is read from.
        let file_bytes = partition_keys * self.stream_bytes() + self.block_bytes;
        let piece = self.piece_bytes(keys).min(file_bytes);
        // Each cursor holds a piece, and the part of a record that began in the previous one. Of short pieces it frees
        // what it has passed.
        let payload = (piece / hash_stores).max(self.block_bytes) + self.stream_bytes();
        let held_share = (HELD_SHARE + HELD_SHARE_MORE / hash_stores.sqrt()).min(1.0);
        let held_share = if payload <= FREED_PAYLOAD_MAX { held_share } else { 1.0 };
        let hash_cursors = hash_stores * payload * held_share;
        let slot = self.slot_bytes();
        let buckets = match self.slots_per_block() {
            Some(slots) if slots > 1.0 => {
                let records = self.bucket_records(keys, slots).min(partition_keys);
                let bucket = records + LARGEST_BUCKET_DEVIATIONS * records.sqrt();
                (bucket + piece / slot) * (slot + WAITING_BYTES) + bucket * slot
            }
            // In the other cases the SortedStore is read in pieces of its own, after the part of a record.
            _ => piece + self.stream_bytes(),
        };
        let region = table_keys.min(self.region_slots_max.max(table_keys / REGIONS)) * REGION_RECORD_BYTES;
        let range = if self.last_filter_bits > 0.0 { KEYS_PER_RANGE * RANGE_BUILDING_BYTES } else { 0.0 };
        let merge = hash_cursors + 2.0 * region + buckets + range + piece + self.block_bytes;
        let convert = region + 2.0 * piece + self.block_bytes + table_keys * FILTER_BUILDING_BYTES;
        // Readers of the log hold a record: a conversion, and a merge of two LogStores.
        let records = 3.0 * self.stream_bytes().max(FILE_ALIGNMENT);
        merge + convert + records + 2.0 * piece
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Popularity;

    fn near(got: f64, expected: f64, tolerance: f64) {
        assert!((got / expected - 1.0).abs() <= tolerance, "{got} for {expected}");
    }

    /// The sizes stated in the modules of the `index` folder.
    #[test]
    fn filters_and_indexes_are_as_large_as_was_measured() {
        for (slots, bits) in [(64.0, 0.0988), (16.0, 0.2425), (4.0, 0.6377), (2.0, 1.0118)] {
            near(block_perfect_bytes(200_000.0, slots, 512.0) * 8.0 / 200_000.0, bits, 0.02);
        }
        for (keys, bits) in [(1_000.0, 11.78), (4_000.0, 11.267), (64_000.0, 11.058)] {
            near(ribbon_bytes(keys, 11.0) * 8.0 / keys, bits, 0.02);
        }
        for (records, per_block, bytes) in [(60_000.0, 16.0, 4_200.0), (4_000.0, 4.0, 900.0)] {
            near(fences_bytes(records, records / per_block), bytes, 0.02);
        }
        let layout = SiltLayout::new(20.0, 44.0);
        for (keys, occupancy) in [(1e5, 0.9308), (614_400.0, 0.9499), (6_144_000.0, 0.963)] {
            near(layout.table(keys).1, occupancy, 0.01);
        }
    }

    #[test]
    fn records_that_do_not_fill_blocks_cost_writes() {
        let uniform = Popularity::uniform(100_000_000).unwrap();
        let writes = |layout: &SiltLayout| layout.silt(1e8).unwrap().writes(&uniform).total();
        let packed = SiltLayout::new(20.0, 44.0);
        let three_to_a_block = SiltLayout::new(20.0, 1_004.0);
        assert!(writes(&three_to_a_block) > 1.1 * writes(&packed));
        let any_size = SiltLayout { fixed: false, ..three_to_a_block.clone() };
        assert!(writes(&any_size) < writes(&three_to_a_block));
        assert!(SiltLayout { partitions: 0.0, ..packed.clone() }.silt(1e8).is_err());
        for block_bytes in [0.0, 8.0, f64::NAN, f64::INFINITY] {
            assert!(SiltLayout { block_bytes, ..packed.clone() }.silt(1e8).is_err(), "{block_bytes}");
        }
    }

    /// A merge ratio has the same effect for any amount of data.
    #[test]
    fn a_merge_ratio_costs_the_same_writes_at_any_size() {
        let writes = |keys: f64, merge_ratio: f64| {
            let layout = SiltLayout { merge_ratio, ..SiltLayout::new(24.0, 1_000.0) };
            let silt = layout.silt(keys).unwrap();
            (silt.writes_at_worst().total(), silt.ram_bytes_per_key())
        };
        for merge_ratio in [0.15, 0.3, 0.6, 1.2] {
            let (small, _) = writes(1e7, merge_ratio);
            for keys in [1e8, 1e9, 5e9] {
                let (large, ram) = writes(keys, merge_ratio);
                near(large, small, 0.06);
                assert!(ram < 0.45 + 1.1 * merge_ratio, "{ram} B per key for {keys}, {merge_ratio}");
            }
        }
    }

    /// LogStores that cannot address enough of the log are converted before they are full. With more than 48 small
    /// HashStores a partition is merged.
    #[test]
    fn beyond_what_a_log_store_can_reach_partitions_are_merged_early() {
        let silt = SiltLayout::new(20.0, 10_000.0).silt(1e10).unwrap();
        near(silt.hash_stores_max(), 49.0, 1e-6);
    }

    #[test]
    fn a_filter_on_the_last_store_costs_memory_and_saves_reads_of_what_is_missing() {
        let plain = SiltLayout::new(20.0, 44.0);
        let filtered = SiltLayout { last_filter_bits: 7.0, ..plain.clone() };
        let (plain, filtered) = (plain.silt(1e8).unwrap(), filtered.silt(1e8).unwrap());
        let bits = 8.0 * (filtered.ram_bytes_per_key() - plain.ram_bytes_per_key());
        near(bits, 7.5, 0.03);
        assert!(plain.reads_per_miss() > 1.0 && filtered.reads_per_miss() < 0.02);
        assert_eq!(filtered.reads_per_get_at_worst(), plain.reads_per_get_at_worst());
        assert!(filtered.writes_at_worst().total() > plain.writes_at_worst().total());
    }

    /// Simulates the engine's rules for merges with counts. Returns by how many LogStores a merge exceeds d, how many
    /// of those come from the LogStore, and the number of unfilled HashStores of a partition.
    fn simulate_policy(partitions: usize, merged_stores: f64) -> [f64; 3] {
        const FULL: f64 = 100.0;
        let bound = merged_stores * FULL * (partitions as f64 + 1.0) / 2.0;
        let mut logs = vec![(0.0, FULL); partitions];
        let mut hashed = vec![(0.0, 0.0); partitions];
        let mut sums = [0.0; 4];
        let (mut merges, mut samples) = (0.0, 0.0);
        let mut keys = crate::KeyStream::new(&Popularity::uniform(1 << 20).unwrap(), 9).unwrap();
        let warm = (20.0 * bound).min(300_000.0) as usize;
        for put in 0..6 * warm {
            let partition = keys.next().unwrap() as usize % partitions;
            let (records, freeze_at) = &mut logs[partition];
            *records += 1.0;
            if *records < *freeze_at {
                continue;
            }
            hashed[partition].0 += *records;
            hashed[partition].1 += 1.0;
            logs[partition] = (0.0, FULL);
            let counted = put > warm;
            if counted {
                let unfilled = |(records, stores): &(f64, f64)| stores - records / FULL;
                sums[2] += hashed.iter().map(unfilled).sum::<f64>() / partitions as f64;
                samples += 1.0;
            }
            if hashed.iter().map(|(records, _)| records).sum::<f64>() <= bound {
                continue;
            }
            let fullest = (0..partitions).max_by(|a, b| hashed[*a].0.total_cmp(&hashed[*b].0)).unwrap();
            if counted {
                sums[0] += (hashed[fullest].0 + logs[fullest].0) / FULL - merged_stores;
                sums[1] += logs[fullest].0 / FULL;
                merges += 1.0;
            }
            hashed[fullest] = (0.0, 0.0);
            // The next LogStore is converted early, at a different number of records in each partition.
            logs[fullest] = (0.0, (FULL * (fullest + 1) as f64 / partitions as f64).ceil());
        }
        [sums[0] / merges, sums[1] / merges, sums[2] / samples / (1.0 - 1.0 / partitions as f64)]
    }

    #[test]
    fn the_constants_of_the_merge_policy_are_those_of_its_simulation() {
        for partitions in [4, 16, 64] {
            for merged_stores in [3.0, 10.3, 33.0] {
                let [excess, logged, partial] = simulate_policy(partitions, merged_stores);
                println!(
                    "{partitions} partitions, d of {merged_stores}: {excess:.2} {logged:.2} {partial:.2}"
                );
                let case = format!("{partitions} partitions, d of {merged_stores} HashStores");
                assert!((excess - MERGE_EXCESS_STORES).abs() < 0.12, "{case}: {excess} more");
                assert!((logged - MERGE_LOGGED_STORES).abs() < 0.15, "{case}: {logged} from the log");
                assert!((partial - PARTIAL_STORES).abs() < 0.1, "{case}: {partial} not filled");
            }
        }
    }
}
