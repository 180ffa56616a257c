//! The records of a frozen LogStore in hash order, for conversions, merges and iterations.

use super::log_batch::LogBatch;
use super::log_store::FrozenLog;
use crate::error::Result;
use crate::key::{KeyHash, PartitionHasher};
use crate::store::log::LogView;
use crate::store::merge::{Cursor, PlacedRecord};
use crate::store::record::RecordSpan;
use siltstone_device::{AlignedBuffer, Purpose};
use std::cmp::Reverse;
use std::sync::Arc;

/// The records of a frozen LogStore in hash order. Loads one region of the index at a time: tags ascend with the
/// hashes, so each record is read once, in its turn; only records with equal tags are read before, to compare their
/// keys. The end of the log is usually in the page cache.
pub struct LogCursor {
    view: LogView,
    frozen: Arc<FrozenLog>,
    hasher: PartitionHasher,
    purpose: Purpose,
    next_region: u32,
    /// The region from which ranks are counted.
    first_region: u32,
    /// Records follow the slots of the index, not their hashes.
    in_slot_order: bool,
    /// The remaining records of the loaded regions, the next one at the end.
    order: Vec<Ordered>,
    /// As many records at the end of `order` are in their final order, and in the batch if there is one.
    ready: usize,
    batch: Option<LogBatch>,
    buffer: AlignedBuffer,
    current: Option<Current>,
}

/// The current record.
struct Current {
    hash: KeyHash,
    /// Its place in the batch or in the buffer.
    span: RecordSpan,
    is_in_batch: bool,
}

/// A record of the loaded regions: 8 bytes, since there are thousands of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Ordered {
    /// The number of the region, and the tag.
    rank: u32,
    /// The position as the index stores it.
    packed: u32,
}

/// The most regions whose records are in order together.
const REGIONS_MAX: u32 = 1 << 16;

impl LogCursor {
    /// Makes a cursor before the first record.
    pub fn new(view: LogView, frozen: Arc<FrozenLog>, hasher: PartitionHasher, purpose: Purpose) -> Self {
        LogCursor {
            view,
            frozen,
            hasher,
            purpose,
            next_region: 0,
            first_region: 0,
            in_slot_order: false,
            order: Vec::new(),
            ready: 0,
            batch: None,
            buffer: AlignedBuffer::default(),
            current: None,
        }
    }

    /// Returns the cursor with the records in the order of the slots of the index.
    pub fn in_slot_order(self) -> LogCursor {
        LogCursor { in_slot_order: true, ..self }
    }

    /// Returns the cursor, which reads batches of records in pieces of the log if that costs less than to read each
    /// record. A batch takes at most `bytes_max`; `partitions` share the log.
    pub fn in_batches(self, partitions: usize, bytes_max: usize) -> LogCursor {
        let batch = LogBatch::suited(&self.view, &self.frozen, partitions, bytes_max);
        LogCursor { batch, ..self }
    }

    /// Returns how many records are loaded together, if there are as many.
    fn wanted(&self) -> usize {
        self.batch.as_ref().map_or(1, LogBatch::records)
    }

    /// Loads the next regions with records, until there are enough; of the first region only those from a tag on.
    fn load_regions(&mut self, mut first_tag: u16) {
        let mut rest = std::mem::take(&mut self.order);
        let mut loaded = if rest.is_empty() { std::mem::take(&mut rest) } else { Vec::new() };
        if rest.is_empty() {
            self.first_region = self.next_region;
        }
        let (tables, wanted) = (self.frozen.tables(), self.wanted());
        while loaded.len() + rest.len() < wanted {
            let region = self.next_region - self.first_region;
            // A rank has 16 bits for the number of the region.
            if region >= REGIONS_MAX || tables.iter().all(|table| self.next_region >= table.region_count()) {
                break;
            }
            let slots: u32 = tables.iter().map(|table| table.settings().slots_per_region()).sum();
            loaded.reserve_exact(slots.min(self.frozen.len()) as usize);
            let slots = tables.iter().flat_map(|table| table.region_slots(self.next_region));
            let slots = slots.filter(|(_, tag, _)| *tag >= first_tag);
            loaded.extend(
                slots.map(|(_, tag, packed)| Ordered { rank: region << 16 | u32::from(tag), packed }),
            );
            // A seek bounds the first region only: all tags of later ones are behind its placement.
            (self.next_region, first_tag) = (self.next_region + 1, 0);
        }
        match self.in_slot_order {
            true => loaded.reverse(),
            false => loaded.sort_unstable_by(|one, two| two.cmp(one)),
        }
        // The next record is the last one: what was left comes before the regions that were loaded now.
        loaded.append(&mut rest);
        self.order = loaded;
    }

    /// Makes the next records ready: all that are loaded, or a batch of them.
    fn make_ready(&mut self) -> Result<()> {
        if self.in_slot_order {
            self.ready = self.order.len();
            return Ok(());
        }
        let wanted = self.batch.as_ref().map_or(usize::MAX, LogBatch::records);
        let mut start = self.order.len().saturating_sub(wanted);
        // Records with equal tags stay together.
        while start > 0 && self.order[start - 1].rank == self.order[start].rank {
            start -= 1;
        }
        if let Some(batch) = &mut self.batch {
            batch.clear();
            let records = &mut self.order[start..];
            // In the order of the log: each piece is read once for the batch.
            records.sort_unstable_by_key(|ordered| ordered.packed);
            for &Ordered { packed, .. } in &*records {
                // Numbers ascend with the positions, as `take` requires: `packed` is a distance in the log.
                batch.take(&self.view, self.purpose, packed, self.frozen.position(packed));
            }
            records.sort_unstable_by(|one, two| two.cmp(one));
        }
        self.ready = self.order.len() - start;
        self.order_equal_tags(start)
    }

    /// Sorts records with the same tag by hash, then by key, and those of a key from the newest on; from a record in
    /// `order` on.
    fn order_equal_tags(&mut self, mut start: usize) -> Result<()> {
        while start < self.order.len() {
            let rank = self.order[start].rank;
            let run = self.order[start..].iter().take_while(|ordered| ordered.rank == rank).count();
            if run > 1 {
                let mut keyed = Vec::with_capacity(run);
                for at in start..start + run {
                    let ordered = self.order[at];
                    let position = self.frozen.position(ordered.packed);
                    let Current { hash, span, is_in_batch } = self.read(ordered)?;
                    let key = span.view(self.bytes(is_in_batch)).key.to_vec();
                    keyed.push((hash, key, Reverse(position), ordered));
                }
                // Descending, since the next record is taken from the end: of one key the newest comes first.
                keyed.sort_unstable_by(|one, two| two.cmp(one));
                for (slot, (.., ordered)) in self.order[start..].iter_mut().zip(keyed) {
                    *slot = ordered;
                }
            }
            start += run;
        }
        Ok(())
    }

    /// Reads a record, unless it is in the batch.
    fn read(&mut self, ordered: Ordered) -> Result<Current> {
        let batch = self.batch.as_ref();
        if let Some(batch) = batch
            && let Some(record) = batch.record(&self.view, ordered.packed)
        {
            let span = RecordSpan::within(batch.bytes(), &record);
            return Ok(Current { hash: self.hasher.hash(record.key), span, is_in_batch: true });
        }
        // It did not fit into the batch, or could not be read: reading it alone returns it or the error.
        let position = self.frozen.position(ordered.packed);
        let span = self.view.read(self.purpose, position, &mut self.buffer)?;
        let hash = self.hasher.hash(span.view(&self.buffer).key);
        Ok(Current { hash, span, is_in_batch: false })
    }

    /// Returns the bytes that a span refers to.
    fn bytes(&self, is_in_batch: bool) -> &[u8] {
        match &self.batch {
            Some(batch) if is_in_batch => batch.bytes(),
            _ => &self.buffer,
        }
    }
}

impl Cursor for LogCursor {
    fn advance(&mut self) -> Result<bool> {
        // First, so that after an error the record before is not taken for the current one.
        self.current = None;
        if self.ready == 0 {
            if self.order.len() < self.wanted() {
                self.load_regions(0);
            }
            self.make_ready()?;
        }
        let Some(ordered) = self.order.pop() else { return Ok(false) };
        self.ready = self.ready.saturating_sub(1);
        self.current = Some(self.read(ordered)?);
        Ok(true)
    }

    /// Reads nothing.
    fn seek(&mut self, placement: u64) -> Result<()> {
        let settings = self.frozen.settings();
        // Before the first `advance`, so nothing is loaded that would have to be dropped.
        self.next_region = settings.region_of(placement);
        // Tags ascend with placements, so records of lower tags are before this placement.
        self.load_regions(settings.tag_of(placement));
        Ok(())
    }

    fn entry(&self) -> Option<PlacedRecord<'_>> {
        let Current { hash, span, is_in_batch } = self.current.as_ref()?;
        Some(PlacedRecord { hash: *hash, record: span.view(self.bytes(*is_in_batch)) })
    }

    fn heap_bytes(&self) -> usize {
        self.order.capacity() * size_of::<Ordered>()
            + self.buffer.heap_bytes()
            + self.batch.as_ref().map_or(0, LogBatch::heap_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Durability;
    use crate::key::{KeyHasher, RecordLayout};
    use crate::store::log::Log;
    use crate::store::log_format::LogFormat;
    use crate::store::log_store::{LogStore, LogStoreSettings};
    use crate::store::record::RecordView;
    use siltstone_device::memory::MemoryDirectory;
    use siltstone_device::{Access, Directory};
    use siltstone_index::coding::checksum::Secret;
    use siltstone_index::partial_key_cuckoo::CuckooSettings;

    const HASHER: PartitionHasher =
        PartitionHasher { key_hasher: KeyHasher::Keyed([1, 2]), partitions_log2: 2 };
    const SEGMENT_BYTES: u64 = 50_000;
    const PARTITIONS: usize = 4;

    /// A key and its value.
    type Listed = (Vec<u8>, Option<Vec<u8>>);

    /// Writes records of four partitions to a log of several segments, whose end is not in a file, and returns it with
    /// a LogStore of every fourth record. Tags have so few bits that many are equal, and some keys are there twice.
    fn build(directory: &Directory, lengths: fn(u32) -> usize, fixed: bool) -> (Arc<Log>, Arc<FrozenLog>) {
        let layout = RecordLayout { fixed: fixed.then_some((4, lengths(0))), expiring: false };
        let format = LogFormat::new(layout, 5, Secret::new(6));
        let log = Arc::new(Log::create(directory, format, SEGMENT_BYTES, 0).unwrap());
        let table = CuckooSettings { regions: 8, buckets_per_region_log2: 5, tag_bits: 8 };
        let mut store = LogStore::new(LogStoreSettings { table, tables: 2, position_bits: 32 }, 0).unwrap();
        for number in 0..4_000_u32 {
            let key = (number % 3_000).to_le_bytes();
            let value = vec![number as u8; lengths(number)];
            let value = (number % 7 > 0).then_some(&value[..]);
            let record = RecordView { key: &key, value, expires_at_ms: 0 };
            let durability = if number < 3_900 { Durability::Written } else { Durability::Buffered };
            log.append([record].into_iter(), durability, |position| {
                if number % PARTITIONS as u32 == 0 {
                    assert!(store.insert(HASHER.hash(&key), position).unwrap());
                }
            })
            .unwrap();
        }
        let frozen = store.freeze(log.end());
        (log, Arc::new(frozen))
    }

    fn list(mut cursor: LogCursor) -> Result<Vec<Listed>> {
        let (mut listed, mut last) = (Vec::new(), None);
        while cursor.advance()? {
            let PlacedRecord { hash, record } = cursor.entry().unwrap();
            assert_eq!(hash, HASHER.hash(record.key));
            assert!(last.replace(hash) <= Some(hash), "records are in hash order");
            listed.push((record.key.to_vec(), record.value.map(<[u8]>::to_vec)));
        }
        Ok(listed)
    }

    fn cursor(log: &Arc<Log>, frozen: &Arc<FrozenLog>) -> LogCursor {
        LogCursor::new(log.view(), frozen.clone(), HASHER, Purpose::Convert)
    }

    #[test]
    fn records_read_in_batches_are_those_read_one_by_one() {
        for (lengths, fixed) in [
            ((|_| 44) as fn(u32) -> usize, true),
            (|number| (number % 90) as usize, false),
            // Longer than a piece, and at times more in a batch than it holds.
            (|number| if number % 400 == 0 { 6_000 } else { 20 }, false),
        ] {
            let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
            let (log, frozen) = build(&directory, lengths, fixed);
            let reads = || directory.io().of(Purpose::Convert).reads;
            let expected = list(cursor(&log, &frozen)).unwrap();
            let one_by_one = reads();
            assert_eq!(expected.len(), 1_000);
            let batched = cursor(&log, &frozen).in_batches(PARTITIONS, usize::MAX);
            assert_eq!(list(batched).unwrap(), expected);
            let in_batches = reads() - one_by_one;
            assert!(in_batches < one_by_one / 4, "{in_batches} reads instead of {one_by_one}");
        }
    }

    #[test]
    fn a_batch_keeps_to_its_memory_or_is_not_made() {
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        let (log, frozen) = build(&directory, |number| (number % 90) as usize, false);
        let most = frozen.end() as usize / PARTITIONS;
        let mut batched = cursor(&log, &frozen).in_batches(PARTITIONS, most);
        let single = cursor(&log, &frozen).in_batches(PARTITIONS, 1_000);
        assert!(single.batch.is_none());
        while batched.advance().unwrap() {
            let batch = batched.batch.as_ref().unwrap();
            assert!((1_000..=most + 1_000 * 8 + PIECE).contains(&batch.heap_bytes()));
        }
        // Of long records, a pass reads more than the records are worth.
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        let (log, frozen) = build(&directory, |_| 1_000, true);
        assert!(cursor(&log, &frozen).in_batches(PARTITIONS, usize::MAX).batch.is_none());
    }

    const PIECE: usize = 64 << 10;

    #[test]
    fn a_damaged_record_is_the_same_error_in_a_batch() {
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        let (log, frozen) = build(&directory, |_| 44, true);
        let position = frozen.tables()[0].region_slots(3).next().unwrap().2;
        let name = log.format().segment_name(0);
        let file = directory.open(&name, Access::Buffered).unwrap();
        assert!(u64::from(position) < SEGMENT_BYTES);
        file.write(Purpose::Log, u64::from(position) + 64 + 10, &[0xab; 3]).unwrap();
        let expected = list(cursor(&log, &frozen)).unwrap_err();
        let batched = list(cursor(&log, &frozen).in_batches(PARTITIONS, usize::MAX)).unwrap_err();
        assert_eq!(batched.to_string(), expected.to_string());
    }
}
