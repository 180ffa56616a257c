//! Examines logs whose bytes may be damaged: finds the damage, the units that it affects, and every intact record.

use super::{CLASSES, DataLogSettings, DataLogs, FinishedSegment, Unit};
use crate::damage::{Damage, DamagedPart};
use crate::device::{Access, Directory, File};
use crate::store::examine::{
    Advance, ExaminedLog, ExaminedSegment, LogToExamine, Seen, Unreadable, examine_frames,
    read_segment_header,
};
use crate::store::log::SlotTable;
use crate::store::log::format::{Frame, LogFormat, SEGMENT_HEADER_BYTES, Slots};
use crate::store::record::RecordView;
use crate::{Error, Result};
use std::io::ErrorKind;
use std::ops::Range;

/// The expected logs of a database that is not open.
pub struct DataLogsToExamine<'a> {
    /// The directory.
    pub directory: &'a Directory,
    /// The settings of the logs.
    pub settings: DataLogSettings,
    /// The finished segments that were not released, ascending in each class.
    pub finished: &'a [FinishedSegment],
    /// Where the last finished segment of each class ended.
    pub finished_to: [u64; CLASSES],
}

/// A damaged part of a log.
#[derive(Debug, Clone)]
pub struct LostPart {
    /// The class of the log.
    pub class: u8,
    /// The positions without a record. None if only a header is damaged.
    pub positions: Range<u64>,
    /// The units of these positions, as far as they are known.
    pub units: Range<Unit>,
    /// The damage.
    pub damage: Damage,
}

/// The state of the logs.
#[derive(Debug, Default)]
pub struct ExaminedLogs {
    /// The damage.
    pub damage: Vec<LostPart>,
    /// The number of intact records, dead ones included, without those of torn ends.
    pub records: u64,
    /// The end of the intact part of each log: what follows was being written during a crash.
    pub ends: [u64; CLASSES],
    /// The bytes after these ends.
    pub torn_bytes: u64,
    /// The files of the logs that exist.
    pub files: Vec<String>,
    /// The segments that are not finished, of each class.
    unfinished: Vec<Vec<ExaminedSegment>>,
}

/// A record that is intact.
pub struct FoundRecord<'a> {
    /// The class of its log.
    pub class: u8,
    /// Its unit, unless the header of its segment is damaged.
    pub unit: Option<Unit>,
    /// Which of several records of a key was written last.
    pub version: Version,
    /// The record.
    pub record: RecordView<'a>,
}

/// The order of the records of a key: the later one was written later. A record that was moved is younger than all that
/// users wrote before the position that its order marker states, and older than all later ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// A position of the log of class `User`.
    pub position: u64,
    /// Whether the record is at that position.
    pub is_by_user: bool,
}

/// A segment, all of which must be intact.
struct WholeSegment {
    positions: Range<u64>,
    slots: Slots,
    /// See [`SegmentInfo::order`](super::SegmentInfo::order).
    order: u64,
}

impl DataLogsToExamine<'_> {
    /// Reads every segment, and changes nothing.
    ///
    /// # Errors
    /// Errors of reading, except for data that the device has lost; [`Error::Version`] for a log of another version;
    /// [`Error::Interrupted`] if `advance` returned `false`.
    pub fn examine(&self, advance: &mut Advance<'_>) -> Result<ExaminedLogs> {
        let slots = SlotTable::new(self.settings.unit_bytes, self.settings.segment_bytes);
        let mut all = ExaminedLogs::default();
        for (format, from) in self.settings.formats().zip(self.finished_to) {
            for (format, segment) in self.finished_of(&format) {
                all.finished(self.directory, &slots, &format, &segment, advance)?;
            }
            let log = LogToExamine { format, from, durable: from, begins_durably: true };
            let examined = log.examine(self.directory, Unreadable::IsDamage, advance)?;
            all.unfinished(&slots, &format, examined);
        }
        Ok(all)
    }

    /// Passes every intact record to `visit`, in no order of keys. `examined` is the result of
    /// [`examine`](DataLogsToExamine::examine).
    ///
    /// # Errors
    /// See [`examine`](DataLogsToExamine::examine); also errors of `visit`.
    pub fn records(
        &self,
        examined: &ExaminedLogs,
        advance: &mut Advance<'_>,
        visit: &mut dyn FnMut(FoundRecord<'_>) -> Result<()>,
    ) -> Result<()> {
        let slots = SlotTable::new(self.settings.unit_bytes, self.settings.segment_bytes);
        let classes = self.settings.formats().zip(&examined.unfinished).zip(examined.ends);
        for ((format, unfinished), end) in classes {
            for (format, segment) in self.finished_of(&format) {
                self.records_of(&format, segment, &slots, advance, visit)?;
            }
            for ExaminedSegment { base, end: segment_end, slots: own, order, .. } in unfinished {
                let positions = *base..end.min(*segment_end);
                let segment = WholeSegment { positions, slots: *own, order: order.unwrap_or(0) };
                self.records_of(&format, segment, &slots, advance, visit)?;
            }
        }
        Ok(())
    }

    /// Returns the finished segments of a class, each with the format of the database that wrote it.
    fn finished_of(&self, format: &LogFormat) -> impl Iterator<Item = (LogFormat, WholeSegment)> {
        let format = *format;
        let own = self.finished.iter().filter(move |segment| segment.class == format.class.number());
        own.map(move |segment| {
            let slots = Slots { first: segment.slot, count: segment.slots };
            let format = LogFormat { database_id: segment.database_id, ..format };
            (format, WholeSegment { positions: segment.base..segment.end, slots, order: segment.order })
        })
    }

    fn records_of(
        &self,
        format: &LogFormat,
        WholeSegment { positions, slots, mut order }: WholeSegment,
        table: &SlotTable,
        advance: &mut Advance<'_>,
        visit: &mut dyn FnMut(FoundRecord<'_>) -> Result<()>,
    ) -> Result<()> {
        let base = positions.start;
        let Some(file) = open(self.directory, format, base)? else { return Ok(()) };
        let header = read_segment_header(&file, Unreadable::IsDamage)?.0;
        if header.is_some_and(|header| header != format.header(base, slots)) {
            return Ok(());
        }
        let positions = base..positions.end.min(end_of(&file, base)?);
        let class = format.class.number();
        let mut see = |seen: Seen<'_>| match seen {
            Seen::Frame { frame: Frame::OrderMarker(position), .. } => {
                order = position;
                Ok(())
            }
            Seen::Frame { frame: Frame::Record { record, .. }, positions, .. } => {
                let unit = (slots.count > 0).then(|| table.unit_in(slots, positions.start - base));
                let version = match class {
                    super::USER => Version { position: positions.start, is_by_user: true },
                    _ => Version { position: order, is_by_user: false },
                };
                visit(FoundRecord { class, unit, version, record })
            }
            _ => Ok(()),
        };
        examine_frames(&file, Unreadable::IsDamage, format, base, positions, advance, &mut see).map(drop)
    }
}

impl DataLogs {
    /// Reads every frame that is written, and checks that the segments still exist under their names.
    ///
    /// # Errors
    /// Errors of reading, except for data that the device has lost; [`Error::Interrupted`] if `advance` returned
    /// `false`.
    pub fn examine(&self, advance: &mut Advance<'_>) -> Result<ExaminedLogs> {
        let slots = &*self.shared.slots;
        let mut all = ExaminedLogs::default();
        for log in &self.shared.logs {
            // While they are held, segments that are released are not truncated.
            let held = log.finished_segments();
            let mut from = 0;
            for segment in &held {
                let Some(end) = segment.end() else { continue };
                let whole = WholeSegment { positions: segment.base..end, slots: segment.slots, order: 0 };
                let mut one = ExaminedLogs::default();
                let format = LogFormat { database_id: segment.database_id, ..*log.format() };
                one.finished(&self.directory, slots, &format, &whole, advance)?;
                if one.damage.is_empty() || log.has_segment(segment.base) {
                    all.add(one);
                }
                from = end;
            }
            let examined = log.examine(from, advance)?;
            all.unfinished(slots, log.format(), examined);
        }
        Ok(all)
    }
}

impl ExaminedLogs {
    fn add(&mut self, other: ExaminedLogs) {
        self.damage.extend(other.damage);
        self.records += other.records;
        self.files.extend(other.files);
    }

    /// Adds a finished segment.
    fn finished(
        &mut self,
        directory: &Directory,
        table: &SlotTable,
        format: &LogFormat,
        segment: &WholeSegment,
        advance: &mut Advance<'_>,
    ) -> Result<()> {
        let WholeSegment { positions, slots, .. } = segment;
        let base = positions.start;
        let mut lose = |positions: Range<u64>, damage: Damage| {
            let unit_of = |position: u64| table.unit_in(*slots, position - base);
            let units = unit_of(positions.start)..unit_of(positions.end);
            self.damage.push(LostPart { class: format.class.number(), positions, units, damage });
        };
        let name = format.segment_name(base);
        let Some(file) = open(directory, format, base)? else {
            let damage = Damage::new(directory.path_of(&name), DamagedPart::File, 0, 0);
            lose(positions.clone(), damage.because("the file of a finished segment", "no such file"));
            return Ok(());
        };
        self.files.push(name);
        // After a failed sync the page cache may contain data that never reached the device.
        file.drop_cache();
        let wanted = format.header(base, *slots);
        let (header, ..) = read_segment_header(&file, Unreadable::IsDamage)?;
        let part = |part, length| Damage::new(file.path(), part, 0, length);
        match header {
            Some(found) if found != wanted => {
                let damage = part(DamagedPart::File, file.length()?);
                lose(positions.clone(), damage.because(format!("{wanted:?}"), format!("{found:?}")));
                return Ok(());
            }
            Some(_) => {}
            None => {
                let damage = part(DamagedPart::LogHeader, SEGMENT_HEADER_BYTES as u64);
                lose(base..base, damage.because("the header of a log segment", "other bytes"));
            }
        }
        let gap = |positions: &Range<u64>| {
            let offset = positions.start - base + SEGMENT_HEADER_BYTES as u64;
            let damage =
                Damage::new(file.path(), DamagedPart::LogFrames, offset, positions.end - positions.start);
            damage.because("a record of the log", "bytes that are not a frame of this position")
        };
        let reach = positions.end.min(end_of(&file, base)?);
        let mut records = 0;
        let end =
            examine_frames(&file, Unreadable::IsDamage, format, base, base..reach, advance, &mut |seen| {
                match seen {
                    Seen::Frame { frame: Frame::Record { .. }, .. } => records += 1,
                    Seen::Frame { .. } => {}
                    Seen::Gap { positions, key, .. } => {
                        let damage = gap(&positions);
                        lose(positions, Damage { keys: key.into_iter().collect(), ..damage });
                    }
                }
                Ok(())
            })?;
        if end < positions.end {
            lose(end..positions.end, gap(&(end..positions.end)));
        }
        self.records += records;
        Ok(())
    }

    /// Adds the segments of a log that are not finished.
    fn unfinished(&mut self, table: &SlotTable, format: &LogFormat, examined: ExaminedLog) {
        let class = format.class.number();
        self.files.extend(examined.files(format));
        self.records += examined.records;
        self.torn_bytes += examined.torn_bytes;
        if let Some(end) = self.ends.get_mut(usize::from(class)) {
            *end = examined.end;
        }
        for (positions, damage) in examined.damage {
            let with_slots = examined.segments.iter().rfind(|segment| segment.base <= positions.start);
            let units = with_slots.filter(|segment| segment.slots.count > 0).map(|segment| {
                let unit_of = |position: u64| table.unit_in(segment.slots, position - segment.base);
                unit_of(positions.start)..unit_of(positions.end)
            });
            self.damage.push(LostPart { class, positions, units: units.unwrap_or(0..0), damage });
        }
        self.unfinished.push(examined.segments);
    }
}

fn open(directory: &Directory, format: &LogFormat, base: u64) -> Result<Option<File>> {
    match directory.open(&format.segment_name(base), Access::Buffered) {
        Ok(file) => Ok(Some(file)),
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the position after the last byte of a segment.
fn end_of(file: &File, base: u64) -> Result<u64> {
    Ok(base + file.length()?.saturating_sub(SEGMENT_HEADER_BYTES as u64))
}
