//! The slots of the logs of data: ranges of numbers of units, which segments take and return. A unit's number says in
//! which segment it is, and where.
//!
//! ```text
//! units    0 ..             units_per_slot ..    2 units_per_slot ..    3 units_per_slot ..
//! slots    | log-0          | moved1-0           | free                 | log-..2000000, two slots ...
//! ```

use super::segment::Segment;
use crate::batch::BATCH_BYTES_MAX;
use crate::error::{CorruptFile, Error, Result};
use crate::store::log_format::Slots;
use siltstone_device::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use siltstone_device::sync::{Mutex, Published};
use std::collections::BTreeSet;
use std::iter;
use std::ops::Range;
use std::sync::Arc;

/// The number of a unit of a log of data.
pub type Unit = u64;

/// All units are below this.
pub const UNITS_MAX: Unit = 1 << 40;

/// The number of slots of a part of the list.
const PART_SLOTS: usize = 4096;

/// More bytes than a batch needs, which is in one segment. No segment has more slots than these bytes need.
const SEGMENT_BYTES_MAX: u64 = BATCH_BYTES_MAX + (1 << 20);

/// The memory of a part of the list without its slots, in bytes.
const PART_BYTES: usize = size_of::<Arc<[Option<Arc<Segment>>]>>() + 2 * size_of::<usize>();

/// The memory of a segment in the list, in bytes.
pub const SEGMENT_BYTES: usize = size_of::<Segment>() + size_of::<Option<Arc<Segment>>>();

/// The slots of a database, and the segments that have them.
pub(in crate::store) struct SlotTable {
    unit_bytes: u64,
    units_per_slot: u64,
    /// The slots that are taken: before the segment is in the list, and until it is removed.
    taken: Mutex<BTreeSet<u32>>,
    list: Published<SlotList>,
    version: AtomicU64,
    /// The bytes of all segments.
    bytes: AtomicU64,
    /// The number of segments that are complete and not finished.
    unfinished: AtomicU64,
    /// The length at which a segment is complete, and the most that it may be.
    segment_bytes: AtomicU64,
    length_max: AtomicU64,
    /// The bytes of a sequential read of segments.
    pub read_bytes: AtomicUsize,
}

/// The most bytes of a sequential read of segments: while a step works on the records of one, the next one is read.
const READ_BYTES: usize = 512 << 10;

/// A segment has at most one part in this many of all bytes of the logs, or as many as a slot, or the minimum.
const SEGMENTS: u64 = 64;
const SEGMENT_LENGTH_MIN: u64 = 2 << 20;

/// Returns the length at which a segment is complete, of logs with this many bytes, unless that is limited.
pub fn segment_length(log_bytes: u64) -> u64 {
    (log_bytes / SEGMENTS).max(SEGMENT_LENGTH_MIN)
}

/// The segments at one moment.
#[derive(Default)]
pub(in crate::store) struct SlotList {
    version: u64,
    /// By slot, in parts of [`PART_SLOTS`]. A segment with several slots is there several times. A part ends with its
    /// last segment, and a part without segments is empty: one segment with a high slot needs little memory.
    parts: Vec<Arc<[Option<Arc<Segment>>]>>,
}

impl SlotTable {
    /// Makes a table without segments. A slot has as many units as `segment_bytes` bytes need.
    pub fn new(unit_bytes: u32, segment_bytes: u64) -> SlotTable {
        let unit_bytes = u64::from(unit_bytes.max(1));
        SlotTable {
            unit_bytes,
            units_per_slot: segment_bytes.div_ceil(unit_bytes).max(1),
            taken: Mutex::new(BTreeSet::new()),
            list: Published::new(Arc::default()),
            version: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            unfinished: AtomicU64::new(0),
            segment_bytes: AtomicU64::new(segment_bytes.min(SEGMENT_LENGTH_MIN)),
            length_max: AtomicU64::new(u64::MAX),
            read_bytes: AtomicUsize::new(READ_BYTES),
        }
    }

    /// Limits the length at which a segment is complete.
    pub fn limit_segments(&self, bytes: u64) {
        self.length_max.store(bytes, Ordering::Relaxed);
        // At once for the segments that grow. `change` keeps to the limit later.
        self.segment_bytes.fetch_min(bytes, Ordering::Relaxed);
    }

    /// Limits the bytes of a sequential read of segments.
    pub fn limit_reads(&self, bytes: usize) {
        self.read_bytes.store(bytes.min(READ_BYTES), Ordering::Relaxed);
    }

    /// Returns the length at which a segment is complete, although a longer one would fit into its slots.
    pub fn segment_bytes(&self) -> u64 {
        self.segment_bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of units of a slot.
    pub fn units_per_slot(&self) -> u64 {
        self.units_per_slot
    }

    /// Returns the bytes of all segments, without what is reserved for appending.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Counts bytes that were appended to a segment.
    pub fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the number of segments that are complete and not finished.
    pub fn unfinished(&self) -> u64 {
        self.unfinished.load(Ordering::Acquire)
    }

    /// Counts a segment that became complete.
    pub fn add_unfinished(&self) {
        self.unfinished.fetch_add(1, Ordering::AcqRel);
    }

    /// Counts a segment that became finished.
    pub fn subtract_unfinished(&self) {
        self.unfinished.fetch_sub(1, Ordering::AcqRel);
    }

    /// Returns how many bytes of frames fit into this many slots.
    pub fn capacity(&self, slots: u32) -> u64 {
        u64::from(slots).saturating_mul(self.units_per_slot * self.unit_bytes)
    }

    /// Takes the lowest free slots that have space for `bytes`, at least one.
    ///
    /// # Errors
    /// [`Error::Setting`] if the number of a unit would exceed 40 bits.
    pub fn take(&self, bytes: u64) -> Result<Slots> {
        let count = bytes.div_ceil(self.capacity(1)).max(1);
        // Locked from the search to the mark: the logs of all classes take slots.
        let mut taken = self.taken.lock();
        // The lowest free ones, because the list is as long as the highest slot.
        let mut first = 0;
        for slot in taken.iter().map(|&slot| u64::from(slot)) {
            // Not negative: slots ascend, and `first` is at most the one after the last.
            if slot - first >= count {
                break;
            }
            first = slot + 1;
        }
        let slots = u32::try_from(first).ok().zip(u32::try_from(count).ok());
        let slots =
            slots.map(|(first, count)| Slots { first, count }).filter(|slots| self.is_possible(*slots));
        let Some(slots) = slots else {
            let problem = "is too small for so much data: the numbers of units have 40 bits";
            return Err(Error::Setting { name: "segment_bytes", problem: problem.into() });
        };
        Self::mark(&mut taken, slots, true);
        Ok(slots)
    }

    /// Takes the slots of a segment that is not in the list. Slots that are not possible are left out.
    pub fn reserve(&self, slots: Slots) {
        if self.is_possible(slots) {
            Self::mark(&mut self.taken.lock(), slots, true);
        }
    }

    /// Adds segments that exist, and takes their slots.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if another segment has one of them.
    pub fn claim(&self, segments: &[Arc<Segment>]) -> Result<()> {
        let mut taken = self.taken.lock();
        for segment in segments {
            let slots = segment.slots;
            let is_possible = slots.count > 0 && self.is_possible(slots);
            if !is_possible || taken.range(Self::range(slots)).next().is_some() {
                let got = format!("{} slots from slot {} on", slots.count, slots.first);
                return Err(segment.file().corrupt(0, "a segment with slots that no other one has", got));
            }
            Self::mark(&mut taken, slots, true);
        }
        // The list has a lock of its own, and no thread holds both.
        drop(taken);
        self.add_bytes(segments.iter().map(|segment| segment.file_bytes()).sum());
        self.change(segments.iter().map(|segment| (segment.slots, Some(segment))));
        Ok(())
    }

    /// Returns whether all units of these slots have numbers, and none is beyond what the longest record needs.
    fn is_possible(&self, slots: Slots) -> bool {
        // Slots may come from a damaged header. What is refused here could overflow in `unit_in`.
        let end = slots.first.checked_add(slots.count).map(u64::from);
        let units = end.and_then(|end| end.checked_mul(self.units_per_slot));
        let slots_max = SEGMENT_BYTES_MAX.div_ceil(self.capacity(1)).max(1);
        units.is_some_and(|units| units <= UNITS_MAX) && u64::from(slots.count) <= slots_max
    }

    fn range(slots: Slots) -> Range<u32> {
        slots.first..slots.first.saturating_add(slots.count)
    }

    fn mark(taken: &mut BTreeSet<u32>, slots: Slots, is_taken: bool) {
        for slot in Self::range(slots) {
            match is_taken {
                true => taken.insert(slot),
                false => taken.remove(&slot),
            };
        }
    }

    /// Adds a segment, whose slots were taken.
    pub fn add(&self, segment: &Arc<Segment>) {
        self.add_bytes(segment.file_bytes());
        self.change([(segment.slots, Some(segment))].into_iter());
    }

    /// Removes a segment. Its slots are free then.
    pub fn remove(&self, segment: &Segment) {
        // Not below zero: the segment is complete, so its header and all of its frames were added.
        self.bytes.fetch_sub(segment.file_bytes(), Ordering::Relaxed);
        self.change([(segment.slots, None)].into_iter());
        // Last: the list must have lost the segment before another one can take its slots.
        Self::mark(&mut self.taken.lock(), segment.slots, false);
    }

    fn change<'a>(&self, changes: impl Iterator<Item = (Slots, Option<&'a Arc<Segment>>)>) {
        let version = self.list.change(|list| {
            // Views keep the old list. Only the parts that change are copied.
            let mut parts = list.parts.clone();
            for (slots, segment) in changes {
                for slot in Self::range(slots) {
                    SlotList::set(&mut parts, slot as usize, segment);
                }
            }
            let list = SlotList { version: list.version + 1, parts };
            // Those that grow are left out: their ends are under the locks of their logs.
            let lengths = list.segments().map(|segment| segment.end().map_or(0, |end| end - segment.base));
            let length = segment_length(lengths.sum()).min(self.length_max.load(Ordering::Relaxed));
            // Here, where one thread changes the list at a time.
            self.segment_bytes.store(length.min(self.capacity(1)), Ordering::Relaxed);
            let version = list.version;
            (Some(list), version)
        });
        // After the list, so that a view of the new version has it. Another thread may have added a newer one.
        self.version.fetch_max(version, Ordering::AcqRel);
    }

    /// Returns the segments now.
    pub fn list(&self) -> Arc<SlotList> {
        self.list.read().to_arc()
    }

    /// Returns whether no segment was added or removed since a list was taken.
    pub fn is_current(&self, list: &SlotList) -> bool {
        self.version.load(Ordering::Acquire) == list.version
    }

    /// Returns the number of the unit at a position of a segment.
    pub fn unit_of(&self, segment: &Segment, position: u64) -> Unit {
        self.unit_in(segment.slots, position - segment.base)
    }

    /// Returns the number of the unit at a distance from the first frame of a segment with these slots; at most the one
    /// after its last unit.
    pub fn unit_in(&self, slots: Slots, distance: u64) -> Unit {
        let units = u64::from(slots.count) * self.units_per_slot;
        u64::from(slots.first) * self.units_per_slot + (distance / self.unit_bytes).min(units)
    }

    /// Returns the segment that a unit is in, and its position in the log.
    pub fn find<'a>(&self, list: &'a SlotList, unit: Unit) -> Option<(&'a Arc<Segment>, u64)> {
        let (segment, number) = self.locate(list, unit)?;
        Some((segment, self.position_in(segment, number)))
    }

    /// Returns the segment that a unit is in, and its number among the units of the segment.
    pub fn locate<'a>(&self, list: &'a SlotList, unit: Unit) -> Option<(&'a Arc<Segment>, u64)> {
        // A unit may be damaged, or older than the list: then no segment has its slot.
        let segment = list.get((unit / self.units_per_slot) as usize)?;
        // Not negative: the list has a segment at none but its own slots.
        Some((segment, unit - u64::from(segment.slots.first) * self.units_per_slot))
    }

    /// Returns the position in the log of the unit with this number among those of a segment.
    pub fn position_in(&self, segment: &Segment, number: u64) -> u64 {
        segment.base + number * self.unit_bytes
    }
}

impl SlotList {
    fn get(&self, slot: usize) -> Option<&Arc<Segment>> {
        self.parts.get(slot / PART_SLOTS)?.get(slot % PART_SLOTS)?.as_ref()
    }

    fn set(parts: &mut Vec<Arc<[Option<Arc<Segment>>]>>, slot: usize, segment: Option<&Arc<Segment>>) {
        let (part, slot) = (slot / PART_SLOTS, slot % PART_SLOTS);
        if parts.len() <= part {
            parts.resize_with(part + 1, Arc::default);
        }
        let part = &mut parts[part];
        if part.len() <= slot {
            *part = part.iter().cloned().chain(iter::repeat(None)).take(slot + 1).collect();
        }
        // The part is copied if another list has it, too.
        Arc::make_mut(part)[slot] = segment.cloned();
    }

    /// Returns each segment once, in the order of slots.
    pub fn segments(&self) -> impl Iterator<Item = &Arc<Segment>> {
        let parts = self.parts.iter().zip((0..).step_by(PART_SLOTS));
        let with_slots = parts.flat_map(|(part, first)| part.iter().zip(first..));
        with_slots
            .filter_map(|(segment, slot)| segment.as_ref().filter(|segment| segment.slots.first == slot))
    }

    /// Returns the memory of the list, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let segments = self.segments().count() * size_of::<Segment>();
        let slots: usize = self.parts.iter().map(|part| part.len()).sum();
        segments + slots * size_of::<Option<Arc<Segment>>>() + self.parts.capacity() * PART_BYTES
    }
}
