//! Reads records by their units.

use super::{Frames, SegmentInfo, Shared, no_segment};
use crate::error::{Error, Result};
use crate::store::log::{Decoded, Log, Segment, SlotList, Unit};
use crate::store::read_batches::ReadBuffers;
use crate::store::record::{RecordSpan, RecordView};
use siltstone_device::{AlignedBuffer, Purpose, ReadRequest};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The maximum number of reads that are executed together, each with a buffer of its own. A memory budget limits them
/// further.
const READS_MAX: usize = 128;

/// The logs at one moment. Their contents can be read while the view is held.
#[derive(Clone)]
pub struct DataView {
    shared: Arc<Shared>,
    list: Arc<SlotList>,
}

/// A record to read: its number among the wanted ones, and its place.
struct Wanted<'v> {
    number: usize,
    log: &'v Log,
    segment: &'v Segment,
    position: u64,
    /// The bytes to read. There may be fewer at the end of a segment.
    bytes: usize,
}

impl DataView {
    pub(super) fn new(shared: Arc<Shared>, list: Arc<SlotList>) -> DataView {
        DataView { shared, list }
    }

    pub(super) fn list(&self) -> &SlotList {
        &self.list
    }

    fn find(&self, unit: Unit) -> Result<(&Log, &Segment, u64)> {
        // In the list of the view: now another segment may have the slots.
        let found = self.shared.slots.find(&self.list, unit);
        let found = found.and_then(|(segment, position)| Some((self.log_of(segment)?, &**segment, position)));
        found.ok_or_else(|| no_segment(self.shared.logs[0].directory(), unit))
    }

    fn log_of(&self, segment: &Segment) -> Option<&Log> {
        self.shared.logs.get(usize::from(segment.class.number())).map(|log| &**log)
    }

    /// Reads the record at a unit into `buffer`, and returns its place there. Takes one read, two for a large record of
    /// a database without fixed sizes, and none for a record that is not yet written.
    #[inline]
    pub fn read(&self, purpose: Purpose, unit: Unit, buffer: &mut AlignedBuffer) -> Result<RecordSpan> {
        let (log, segment, position) = self.find(unit)?;
        // Only the last segment of a log has bytes in its buffer. A released one is read from its own file.
        log.read_record(segment, purpose, position, buffer)
    }

    /// Passes the records at several units to `visit`, each with its number among `units`, in any order. The reads
    /// overlap where the system supports it.
    pub fn read_many(
        &self,
        purpose: Purpose,
        units: &[Unit],
        visit: &mut dyn FnMut(usize, &RecordView<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut buffers = self.shared.batches.begin();
        let mut buffer = AlignedBuffer::default();
        for (units, first) in units.chunks(READS_MAX).zip((0..).step_by(READS_MAX)) {
            let mut wanted = Vec::with_capacity(units.len());
            for (unit, number) in units.iter().zip(first..) {
                let (log, segment, position) = self.find(*unit)?;
                // The others have no place in the file yet: they are copied from the buffer of the log.
                if log.is_written(position) {
                    wanted.push(Wanted { number, log, segment, position, bytes: log.first_read_bytes() });
                } else {
                    let span = log.read_record(segment, purpose, position, &mut buffer)?;
                    visit(number, &span.view(&buffer))?;
                }
            }
            while !wanted.is_empty() {
                // Each round asks for more bytes of a record than the one before, so this ends.
                wanted = read_round(purpose, wanted, &mut buffers, visit)?;
            }
        }
        Ok(())
    }

    /// Returns whether the segment of a unit is read through the page cache, because it is not finished.
    pub fn is_open(&self, unit: Unit) -> bool {
        self.shared.slots.find(&self.list, unit).is_some_and(|(segment, _)| !segment.is_finished())
    }

    /// Returns class and base of the segment of a unit.
    pub fn segment_of(&self, unit: Unit) -> Option<(u8, u64)> {
        let (segment, _) = self.shared.slots.find(&self.list, unit)?;
        Some((segment.class.number(), segment.base))
    }

    /// Returns class and base of the segment of a unit, and the number of the unit among those of the segment; `None`
    /// also if that has more than 32 bits.
    pub fn locate(&self, unit: Unit) -> Option<((u8, u64), u32)> {
        let (segment, number) = self.shared.slots.locate(&self.list, unit)?;
        Some(((segment.class.number(), segment.base), u32::try_from(number).ok()?))
    }

    /// Returns the [order](SegmentInfo::order) of the segment of a unit.
    pub fn order_of(&self, unit: Unit) -> Option<u64> {
        let (segment, _) = self.shared.slots.find(&self.list, unit)?;
        Some(segment.order.load(Relaxed))
    }

    /// Returns all segments, in the order of slots.
    pub fn segments(&self) -> Vec<SegmentInfo> {
        let info = |segment: &Arc<Segment>| {
            let end = segment.end();
            let last = end.or_else(|| self.log_of(segment).map(Log::end)).unwrap_or(segment.base);
            // The log may have started another segment meanwhile.
            let last = segment.end().unwrap_or(last);
            SegmentInfo {
                class: segment.class.number(),
                base: segment.base,
                end,
                slot: segment.slots.first,
                slots: segment.slots.count,
                bytes: last - segment.base,
                records: segment.records.load(Relaxed),
                dead: segment.dead_bytes.load(Relaxed),
                order: segment.order.load(Relaxed),
                is_finished: segment.is_finished(),
            }
        };
        self.list.segments().map(info).collect()
    }

    /// Returns a sequential reader of all records of the segment with this class and base; without any if there is no
    /// such segment.
    pub fn frames(&self, class: u8, base: u64, purpose: Purpose) -> Frames {
        let is_it = |segment: &&Arc<Segment>| segment.class.number() == class && segment.base == base;
        // Of this view: it stays readable after its release.
        let segment = self.list.segments().find(is_it).cloned();
        let log = self.shared.logs.get(usize::from(class)).cloned();
        Frames::new(self.shared.slots.clone(), log.zip(segment), purpose)
    }
}

/// Reads the wanted records. Returns those that need more bytes.
fn read_round<'v>(
    purpose: Purpose,
    wanted: Vec<Wanted<'v>>,
    buffers: &mut ReadBuffers<'_>,
    visit: &mut dyn FnMut(usize, &RecordView<'_>) -> Result<()>,
) -> Result<Vec<Wanted<'v>>> {
    let mut requests = Vec::with_capacity(wanted.len());
    for wanted in &wanted {
        // May be fewer bytes than wanted, if the segment ends: `decode` then takes a short frame for damage.
        let (offset, length) = wanted.log.extent(wanted.segment, wanted.position, wanted.bytes)?;
        requests.push(ReadRequest { file: wanted.segment.file(), offset, length });
    }
    let mut more = Vec::new();
    buffers.read(purpose, &requests, |number, bytes| {
        let wanted = &wanted[number];
        match wanted.log.decode(wanted.segment, wanted.position, bytes?, wanted.bytes)? {
            Decoded::Record(record) => visit(wanted.number, &record)?,
            Decoded::Short(bytes) => more.push(Wanted { bytes, ..*wanted }),
        }
        Ok::<_, Error>(())
    })?;
    Ok(more)
}
