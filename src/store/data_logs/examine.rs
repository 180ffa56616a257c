//! Examines logs whose bytes may be damaged: finds the damage, the units that it affects, and every intact record.
//!
//! 1. Finished segments are read from the first to the last frame that the manifest states. They were synced, so
//!    everything that is missing is damage.
//! 2. The segments behind them are examined as by an open, which finds the torn end of each log.
//! 3. These are read again to pass their records on: only now it is known which of them are torn.

use super::{CLASSES, DataLogSettings, DataLogs, FinishedSegment, Unit};
use crate::damage::{Damage, DamagedPart};
use crate::error::Result;
use crate::names::LogClass;
use crate::store::examine::{
    Advance, ExaminedLog, ExaminedSegment, LogToExamine, Seen, Unreadable, examine_frames,
    read_segment_header,
};
use crate::store::log::SlotTable;
use crate::store::log_format::{Frame, LogFormat, SEGMENT_FILE_BYTES_MAX, SEGMENT_HEADER_BYTES, Slots};
use crate::store::record::RecordView;
use siltstone_device::{Access, Directory, File};
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
    /// Up to where each log is known to be synced, if that is later.
    pub synced: [u64; CLASSES],
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
    /// A position after everything that any file of each log could contain.
    pub files_end: [u64; CLASSES],
    /// The segments that are not finished, of each class.
    unfinished: Vec<Vec<ExaminedSegment>>,
}

/// A record that is intact.
pub struct FoundRecord<'a> {
    /// Its segment.
    pub segment: FoundSegment,
    /// Its position in the log.
    pub position: u64,
    /// Its unit, unless the slots of its segment are unknown.
    pub unit: Option<Unit>,
    /// Which of several records of a key was written last.
    pub version: Version,
    /// The record.
    pub record: RecordView<'a>,
}

/// The order of the records of a key: the later one was written later. A record that was moved is newer than all that
/// users wrote before the position that its order marker states, or in the log of class `User` before its segment, and
/// older than all later ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// A position of the log of class `User`.
    pub position: u64,
    /// Whether the record is at that position, and was not moved there.
    pub is_by_user: bool,
}

/// A segment that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoundSegment {
    /// The class of its log.
    pub class: u8,
    /// The position of its first frame.
    pub base: u64,
    /// The position after its last frame.
    pub end: u64,
    /// Its first slot.
    pub slot: u32,
    /// The number of its slots; 0 if they are unknown, because its header is damaged.
    pub slots: u32,
    /// Whether it is finished.
    pub is_finished: bool,
}

/// Called with every intact record.
pub type VisitRecord<'a> = dyn FnMut(FoundRecord<'_>) -> Result<()> + 'a;

/// A segment that must be intact from its first to its last frame.
#[derive(Clone)]
struct WholeSegment {
    positions: Range<u64>,
    slots: Slots,
    /// See [`SegmentInfo::order`](super::SegmentInfo::order).
    order: u64,
    is_finished: bool,
}

/// The place and the version of each record of a segment.
struct Finder<'a> {
    table: &'a SlotTable,
    slots: Slots,
    segment: FoundSegment,
    /// What the last order marker states.
    order: u64,
}

impl<'a> Finder<'a> {
    fn new(table: &'a SlotTable, class: u8, whole: &WholeSegment) -> Finder<'a> {
        let WholeSegment { positions, slots, order, is_finished } = whole;
        let segment = FoundSegment {
            class,
            base: positions.start,
            end: positions.end,
            slot: slots.first,
            slots: slots.count,
            is_finished: *is_finished,
        };
        Finder { table, slots: *slots, segment, order: *order }
    }

    /// Passes the record of a frame to `visit`.
    fn see(&mut self, frame: Frame<'_>, position: u64, visit: &mut VisitRecord<'_>) -> Result<()> {
        let (record, is_moved) = match frame {
            Frame::Record { record, is_moved, .. } => (record, is_moved),
            Frame::OrderMarker(position) => {
                // For the records that follow in this segment: each segment of moved records begins with a marker.
                self.order = position;
                return Ok(());
            }
            Frame::SyncMarker(_) => return Ok(()),
        };
        let Finder { table, slots, segment, order } = self;
        let unit = (slots.count > 0).then(|| table.unit_in(*slots, position - segment.base));
        let version = match segment.class {
            super::USER if !is_moved => Version { position, is_by_user: true },
            // Its original was in a finished segment, which are all before this one.
            super::USER => Version { position: segment.base, is_by_user: false },
            _ => Version { position: *order, is_by_user: false },
        };
        visit(FoundRecord { segment: *segment, position, unit, version, record })
    }
}

impl DataLogsToExamine<'_> {
    /// Reads every segment, and changes nothing. Passes every intact record to `visit`; those of segments that are not
    /// finished are read a second time for it.
    ///
    /// # Errors
    /// Errors of reading, except for data that the device has lost; [`Error::Version`] for a log of another version;
    /// [`Error::Interrupted`] if `advance` returned `false`; errors of `visit`.
    pub fn examine(&self, advance: &mut Advance<'_>, visit: &mut VisitRecord<'_>) -> Result<ExaminedLogs> {
        let slots = SlotTable::new(self.settings.unit_bytes, self.settings.segment_bytes);
        let mut all = ExaminedLogs::default();
        for ((format, from), synced) in self.settings.formats().zip(self.finished_to).zip(self.synced) {
            for (format, segment) in self.finished_of(&format) {
                all.finished(self.directory, &slots, &format, &segment, advance, visit)?;
            }
            // A segment is finished only when the next one is durable, so one must begin there.
            let log = LogToExamine { format, from, durable: synced.max(from), begins_durably: true };
            let examined = log.examine(self.directory, Unreadable::IsDamage, advance)?;
            all.unfinished(&slots, &format, examined);
        }
        // Only now it is known where the torn end of each log begins.
        self.records(&all, &|segment| !segment.is_finished, &mut |_| true, visit)?;
        Ok(all)
    }

    /// Passes every intact record of the segments that `select` chooses to `visit`, in no order of keys; those of a
    /// class in the order of their versions, those that were moved for themselves. `examined` is the result of
    /// [`examine`](DataLogsToExamine::examine).
    ///
    /// # Errors
    /// See [`examine`](DataLogsToExamine::examine).
    pub fn records(
        &self,
        examined: &ExaminedLogs,
        select: &dyn Fn(&FoundSegment) -> bool,
        advance: &mut Advance<'_>,
        visit: &mut VisitRecord<'_>,
    ) -> Result<()> {
        let table = SlotTable::new(self.settings.unit_bytes, self.settings.segment_bytes);
        for (format, unfinished) in self.settings.formats().zip(&examined.unfinished) {
            let unfinished = unfinished.iter().map(|segment| (format, examined.whole(&format, segment)));
            for (format, whole) in self.finished_of(&format).chain(unfinished) {
                let mut finder = Finder::new(&table, format.class.number(), &whole);
                if select(&finder.segment) {
                    self.records_of(&format, &whole, &mut finder, advance, visit)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the damage of a segment with slots that another one has.
    pub fn slots_taken(&self, segment: &FoundSegment) -> Damage {
        let class = LogClass::from_number(segment.class).unwrap_or(LogClass::User);
        let name = self.settings.format().of(class).segment_name(segment.base);
        let got = format!("{} slots from slot {} on", segment.slots, segment.slot);
        Damage::new(self.directory.path_of(&name), DamagedPart::LogHeader, 0, SEGMENT_HEADER_BYTES as u64)
            .because("a segment with slots that no other one has", got)
    }

    /// Returns all segments: the finished ones, whether their files exist or not, and the others.
    pub fn segments(&self, examined: &ExaminedLogs) -> Vec<FoundSegment> {
        let table = SlotTable::new(self.settings.unit_bytes, self.settings.segment_bytes);
        let mut all = Vec::new();
        for (format, unfinished) in self.settings.formats().zip(&examined.unfinished) {
            let unfinished = unfinished.iter().map(|segment| (format, examined.whole(&format, segment)));
            let segments = self.finished_of(&format).chain(unfinished);
            all.extend(
                segments.map(|(format, whole)| Finder::new(&table, format.class.number(), &whole).segment),
            );
        }
        all
    }

    /// Returns the finished segments of a class, each with the format of the database that wrote it.
    fn finished_of(&self, format: &LogFormat) -> impl Iterator<Item = (LogFormat, WholeSegment)> {
        let format = *format;
        let own = self.finished.iter().filter(move |segment| segment.class == format.class.number());
        own.map(move |segment| {
            let slots = Slots { first: segment.slot, count: segment.slots };
            // A checkpoint shares files with the database that it was made of, and has another id.
            let format = LogFormat { database_id: segment.database_id, ..format };
            let (positions, order) = (segment.base..segment.end, segment.order);
            (format, WholeSegment { positions, slots, order, is_finished: true })
        })
    }

    fn records_of(
        &self,
        format: &LogFormat,
        WholeSegment { positions, slots, .. }: &WholeSegment,
        finder: &mut Finder<'_>,
        advance: &mut Advance<'_>,
        visit: &mut VisitRecord<'_>,
    ) -> Result<()> {
        let base = positions.start;
        let Some(file) = open(self.directory, format, base)? else { return Ok(()) };
        let header = read_segment_header(&file, Unreadable::IsDamage)?.0;
        // Its frames are those of another segment.
        if header.is_some_and(|header| header != format.header(base, *slots)) {
            return Ok(());
        }
        // What a shorter file lacks is damage that was found already. The rest counts.
        let positions = base..positions.end.min(end_of(&file, base)?);
        let mut see = |seen: Seen<'_>| match seen {
            Seen::Frame { frame, positions, .. } => finder.see(frame, positions.start, visit),
            Seen::Gap { .. } => Ok(()),
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
        let table = &*self.shared.slots;
        let mut all = ExaminedLogs::default();
        for log in &self.shared.logs {
            // While they are held, segments that are released are not truncated.
            let held = log.finished_segments();
            // Behind the held segments the log is examined as a whole, with what is finished from now on.
            let mut from = 0;
            for segment in &held {
                let Some(end) = segment.end() else { continue };
                let (positions, slots) = (segment.base..end, segment.slots);
                // Without an order: no record is passed on, so no version is needed.
                let whole = WholeSegment { positions, slots, order: 0, is_finished: true };
                // Apart from the others, until it is known whether the segment still exists.
                let mut one = ExaminedLogs::default();
                let format = LogFormat { database_id: segment.database_id, ..*log.format() };
                one.finished(&self.directory, table, &format, &whole, advance, &mut |_| Ok(()))?;
                // A segment that was released during this may have no file any more, which is no damage.
                if one.damage.is_empty() || log.has_segment(segment.base) {
                    all.add(one);
                }
                from = end;
            }
            let examined = log.examine(from, advance)?;
            all.unfinished(table, log.format(), examined);
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

    /// Returns the positions of a segment that is not finished, up to the torn end of its log.
    fn whole(&self, format: &LogFormat, segment: &ExaminedSegment) -> WholeSegment {
        let ExaminedSegment { base, end, slots, order, .. } = *segment;
        // Records after the end are torn: recovery drops them, so they must not be passed on.
        let log_end = self.ends.get(usize::from(format.class.number())).copied().unwrap_or(end);
        let positions = base..end.min(log_end).max(base);
        WholeSegment { positions, slots, order: order.unwrap_or(0), is_finished: false }
    }

    /// Sets the slots of a segment whose header is damaged.
    pub fn set_slots(&mut self, segment: &FoundSegment, slot: u32, slots: u32) {
        let of_class = self.unfinished.get_mut(usize::from(segment.class));
        let found = of_class.and_then(|all| all.iter_mut().find(|found| found.base == segment.base));
        if let Some(found) = found {
            found.slots = Slots { first: slot, count: slots };
        }
    }

    /// Adds a finished segment.
    fn finished(
        &mut self,
        directory: &Directory,
        table: &SlotTable,
        format: &LogFormat,
        segment: &WholeSegment,
        advance: &mut Advance<'_>,
        visit: &mut VisitRecord<'_>,
    ) -> Result<()> {
        let WholeSegment { positions, slots, .. } = segment;
        let base = positions.start;
        note_end(&mut self.files_end, format, positions.end);
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
        note_end(&mut self.files_end, format, end_of(&file, base)?);
        let mut finder = Finder::new(table, format.class.number(), segment);
        // After a failed sync the page cache may contain data that never reached the device.
        file.drop_cache();
        // With the slots that the manifest states: with others, units would lead to other records.
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
            // The frames are found without it: their checksums depend on the database and the position.
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
        // What a shorter file lacks is lost, too: see below.
        let reach = positions.end.min(end_of(&file, base)?);
        let mut records = 0;
        let end =
            examine_frames(&file, Unreadable::IsDamage, format, base, base..reach, advance, &mut |seen| {
                match seen {
                    Seen::Frame { frame, positions, .. } => {
                        records += u64::from(matches!(frame, Frame::Record { .. }));
                        finder.see(frame, positions.start, visit)?;
                    }
                    Seen::Gap { positions, key, .. } => {
                        let damage = gap(&positions);
                        lose(positions, Damage { keys: key.into_iter().collect(), ..damage });
                    }
                }
                Ok(())
            })?;
        // Also zeros: a finished segment was cut to its frames, so none of it is reserved space.
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
        note_end(&mut self.files_end, format, examined.files_end.max(examined.end));
        if let Some(end) = self.ends.get_mut(usize::from(class)) {
            *end = examined.end;
        }
        for (positions, damage) in examined.damage {
            let with_slots = examined.segments.iter().rfind(|segment| segment.base <= positions.start);
            // Without its header, no unit of the segment is known.
            let units = with_slots.filter(|segment| segment.slots.count > 0).map(|segment| {
                let unit_of = |position: u64| table.unit_in(segment.slots, position - segment.base);
                unit_of(positions.start)..unit_of(positions.end)
            });
            self.damage.push(LostPart { class, positions, units: units.unwrap_or(0..0), damage });
        }
        self.unfinished.push(examined.segments);
    }
}

fn note_end(files_end: &mut [u64; CLASSES], format: &LogFormat, end: u64) {
    if let Some(files_end) = files_end.get_mut(usize::from(format.class.number())) {
        *files_end = end.max(*files_end);
    }
}

fn open(directory: &Directory, format: &LogFormat, base: u64) -> Result<Option<File>> {
    match directory.open(&format.segment_name(base), Access::Buffered) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the position after the last byte of a segment.
fn end_of(file: &File, base: u64) -> Result<u64> {
    let length = file.length()?.min(SEGMENT_FILE_BYTES_MAX);
    Ok(base.saturating_add(length.saturating_sub(SEGMENT_HEADER_BYTES as u64)))
}
