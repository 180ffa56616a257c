//! Writes segments of logs that are not open: a repair makes the logs that replace damaged ones.
//!
//! No sync marker in them says that anything is durable. So as long as no manifest names them, an open takes them
//! for what a crash has left at the end of a log, and removes them.

use super::examine::FoundSegment;
use super::{CLASSES, DataLogSettings, FinishedSegment, Unit};
use crate::error::{Error, Result};
use crate::names::LogClass;
use crate::store::log::{Log, Segment, SlotTable};
use crate::store::log_format::{LogFormat, SEGMENT_HEADER_BYTES, Slots};
use crate::store::record::RecordView;
use siltstone_device::Directory;

/// The bytes that are written at a time.
const PIECE_BYTES: usize = 1 << 20;

/// A writer of finished segments.
pub struct SegmentsWriter {
    directory: Directory,
    settings: DataLogSettings,
    format: LogFormat,
    slots: SlotTable,
    /// The position of the user log that order markers state.
    order: u64,
    /// The position of the next frame.
    position: u64,
    current: Option<(Segment, FinishedSegment)>,
    /// Frames that are not written yet, and the offset of the first one in the file.
    buffer: Vec<u8>,
    offset: u64,
    finished: Vec<FinishedSegment>,
}

impl SegmentsWriter {
    /// Writes to the log of a class of moved records from a position on. The new segments have slots that none of
    /// `taken` has. `order` is a position of the user log before which all versions of the records were written.
    pub fn new(
        directory: &Directory,
        settings: DataLogSettings,
        class: LogClass,
        taken: &[FoundSegment],
        position: u64,
        order: u64,
    ) -> SegmentsWriter {
        let slots = SlotTable::new(settings.unit_bytes, settings.segment_bytes);
        for segment in taken {
            // Their units keep their meaning: the index has old and new units at once.
            slots.reserve(Slots { first: segment.slot, count: segment.slots });
        }
        SegmentsWriter {
            directory: directory.clone(),
            settings,
            format: settings.format().of(class),
            slots,
            order,
            position,
            current: None,
            buffer: Vec::new(),
            offset: 0,
            finished: Vec::new(),
        }
    }

    /// Appends a record. Returns its unit.
    pub fn push(&mut self, record: &RecordView<'_>) -> Result<Unit> {
        let bytes = self.format.record_bytes(record) as u64;
        let fits =
            |segment: &FinishedSegment, capacity: u64| self.position - segment.base + bytes <= capacity;
        let has_room = self
            .current
            .as_ref()
            .is_some_and(|(_, segment)| fits(segment, self.slots.capacity(segment.slots)));
        if !has_room {
            self.end_segment()?;
            self.begin_segment(bytes)?;
        }
        let position = self.position;
        // A batch of its own, which a segment may end after.
        self.format.encode_record(position, record, false, &mut self.buffer);
        self.position += bytes;
        let Some((_, segment)) = &mut self.current else { return Err(Error::Closed) };
        segment.records += 1;
        let slots = Slots { first: segment.slot, count: segment.slots };
        let unit = self.slots.unit_in(slots, position - segment.base);
        if self.buffer.len() >= PIECE_BYTES {
            self.write()?;
        }
        Ok(unit)
    }

    fn begin_segment(&mut self, bytes: u64) -> Result<()> {
        // With the order marker, which comes before the record.
        let slots = self.slots.take(bytes + self.format.marker_bytes() as u64)?;
        let base = self.position;
        let file = Log::create_segment(&self.directory, &self.format, base, slots)?;
        // Later records of the user log are newer than all that this segment has.
        self.format.encode_order_marker(base, self.order, &mut self.buffer);
        self.position += self.buffer.len() as u64;
        self.offset = SEGMENT_HEADER_BYTES as u64;
        let segment = FinishedSegment {
            class: self.format.class.number(),
            base,
            end: base,
            slot: slots.first,
            slots: slots.count,
            records: 0,
            order: self.order,
            database_id: self.settings.database_id,
        };
        self.current = Some((file, segment));
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        if let Some((file, _)) = &self.current {
            file.file().write(self.format.purpose(), self.offset, &self.buffer)?;
            self.offset += self.buffer.len() as u64;
            self.buffer.clear();
        }
        Ok(())
    }

    fn end_segment(&mut self) -> Result<()> {
        self.write()?;
        if let Some((file, segment)) = self.current.take() {
            // The only sync of the file before the manifest names the segment as finished.
            file.file().sync(self.format.purpose())?;
            self.finished.push(FinishedSegment { end: self.position, ..segment });
        }
        Ok(())
    }

    /// Returns the names of the files that exist so far.
    pub fn files(&self) -> impl Iterator<Item = String> {
        let current = self.current.iter().map(|(_, segment)| segment);
        self.finished.iter().chain(current).map(|segment| self.format.segment_name(segment.base))
    }

    /// Syncs the segments, and begins an empty log of each class: at these positions, and that of the records where
    /// they end. Adds the names of all files to `names`. Returns the segments and where the logs begin. All is durable
    /// once the directory is synced.
    pub fn finish(
        mut self,
        mut begins: [u64; CLASSES],
        names: &mut Vec<String>,
    ) -> Result<(Vec<FinishedSegment>, [u64; CLASSES])> {
        let ended = self.end_segment();
        // Also after a failure: the caller removes these files.
        names.extend(self.files());
        ended?;
        begins[usize::from(self.format.class.number())] = self.position;
        for (format, base) in self.settings.formats().zip(begins) {
            names.push(format.segment_name(base));
            // An open requires a segment where the last finished one of each class ends.
            Log::begin_in(&self.directory, &format, base, self.slots.take(1)?)?;
        }
        Ok((self.finished, begins))
    }
}
