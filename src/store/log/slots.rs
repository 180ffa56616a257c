//! The slots of the logs of data: ranges of numbers of units, which segments take and return. A unit's number says in
//! which segment it is, and where.
//!
//! ```text
//! units    0 ..             units_per_slot ..    2 units_per_slot ..    3 units_per_slot ..
//! slots    | log-0          | moved1-0           | free                 | log-..2000000, two slots ...
//! ```

use super::format::Slots;
use super::segment::Segment;
use crate::error::{Error, Result};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, RwLock};
use std::sync::Arc;

/// The number of a unit of a log of data.
pub type Unit = u64;

/// All units are below this.
pub const UNITS_MAX: Unit = 1 << 40;

/// The memory of a segment in the list, in bytes.
pub const SEGMENT_BYTES: usize = size_of::<Segment>() + size_of::<Option<Arc<Segment>>>();

/// The slots of a database, and the segments that have them.
pub(in crate::store) struct SlotTable {
    unit_bytes: u64,
    units_per_slot: u64,
    /// Whether each slot is taken: before the segment is in the list, and until it is removed.
    taken: Mutex<Vec<bool>>,
    list: RwLock<Arc<SlotList>>,
    version: AtomicU64,
    /// The number of segments that are complete and not finished.
    unfinished: AtomicU64,
}

/// The segments at one moment.
#[derive(Default)]
pub(in crate::store) struct SlotList {
    version: u64,
    /// By slot. A segment with several slots is there several times.
    segments: Vec<Option<Arc<Segment>>>,
}

impl SlotTable {
    /// Makes a table without segments. A slot has as many units as `segment_bytes` bytes need.
    pub fn new(unit_bytes: u32, segment_bytes: u64) -> SlotTable {
        let unit_bytes = u64::from(unit_bytes.max(1));
        SlotTable {
            unit_bytes,
            units_per_slot: segment_bytes.div_ceil(unit_bytes).max(1),
            taken: Mutex::new(Vec::new()),
            list: RwLock::default(),
            version: AtomicU64::new(0),
            unfinished: AtomicU64::new(0),
        }
    }

    /// Returns the number of units of a slot.
    pub fn units_per_slot(&self) -> u64 {
        self.units_per_slot
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
        let mut taken = self.taken.lock();
        let mut first = 0;
        for (slot, is_taken) in taken.iter().enumerate() {
            if *is_taken {
                first = slot + 1;
            } else if (slot - first + 1) as u64 == count {
                break;
            }
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
            let range = Self::range(slots);
            let is_taken = taken.iter().take(range.end).skip(range.start).any(|&is_taken| is_taken);
            if is_taken || slots.count == 0 || !self.is_possible(slots) {
                let got = format!("{} slots from slot {} on", slots.count, slots.first);
                return Err(segment.file().corrupt(0, "a segment with slots that no other one has", got));
            }
            Self::mark(&mut taken, slots, true);
        }
        drop(taken);
        self.change(segments.iter().map(|segment| (segment.slots, Some(segment))));
        Ok(())
    }

    fn is_possible(&self, slots: Slots) -> bool {
        let end = u64::from(slots.first) + u64::from(slots.count);
        end.checked_mul(self.units_per_slot).is_some_and(|end| end <= UNITS_MAX)
    }

    fn range(slots: Slots) -> std::ops::Range<usize> {
        slots.first as usize..slots.first as usize + slots.count as usize
    }

    fn mark(taken: &mut Vec<bool>, slots: Slots, is_taken: bool) {
        let range = Self::range(slots);
        if taken.len() < range.end {
            taken.resize(range.end, false);
        }
        taken[range].fill(is_taken);
    }

    /// Adds a segment, whose slots were taken.
    pub fn add(&self, segment: &Arc<Segment>) {
        self.change([(segment.slots, Some(segment))].into_iter());
    }

    /// Removes a segment. Its slots are free then.
    pub fn remove(&self, segment: &Segment) {
        self.change([(segment.slots, None)].into_iter());
        Self::mark(&mut self.taken.lock(), segment.slots, false);
    }

    fn change<'a>(&self, changes: impl Iterator<Item = (Slots, Option<&'a Arc<Segment>>)>) {
        let mut list = self.list.write();
        let mut segments = list.segments.clone();
        for (slots, segment) in changes {
            let range = Self::range(slots);
            if segments.len() < range.end {
                segments.resize(range.end, None);
            }
            segments[range].fill(segment.cloned());
        }
        let version = list.version + 1;
        *list = Arc::new(SlotList { version, segments });
        self.version.store(version, Ordering::Release);
    }

    /// Returns the segments now.
    pub fn list(&self) -> Arc<SlotList> {
        self.list.read().clone()
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
        let segment = list.segments.get((unit / self.units_per_slot) as usize)?.as_ref()?;
        Some((segment, unit - u64::from(segment.slots.first) * self.units_per_slot))
    }

    /// Returns the position in the log of the unit with this number among those of a segment.
    pub fn position_in(&self, segment: &Segment, number: u64) -> u64 {
        segment.base + number * self.unit_bytes
    }
}

impl SlotList {
    /// Returns each segment once, in the order of slots.
    pub fn segments(&self) -> impl Iterator<Item = &Arc<Segment>> {
        let with_slots = self.segments.iter().zip(0..);
        with_slots
            .filter_map(|(segment, slot)| segment.as_ref().filter(|segment| segment.slots.first == slot))
    }

    /// Returns the memory of the list, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let segments = self.segments().count() * size_of::<Segment>();
        segments + self.segments.capacity() * size_of::<Option<Arc<Segment>>>()
    }
}
