//! Determines the state of a log with any damage: which segments are needed, where the log ends, and what is damage
//! rather than the torn end. Open, verify and repair all use this code: what one refuses, the others report.
//!
//! Bytes that are not a frame may be the torn end of the log after a crash, or damage to data that was durable. They
//! are distinguished by what is known to have been synced: the manifest states a position, and so do the sync markers
//! in the log. Incomplete data before such a position is damage.
//!
//! 1. The needed segments are listed. A missing one is a gap.
//! 2. Their frames are read in order. Each gap is noted with what was complete before it, because a batch is kept
//!    completely or not at all. Sync markers raise the position that is known to be synced, also those after a gap.
//! 3. At the end, when this position is final, the first gap that was never synced is the end of the log. Gaps before
//!    it are damage. What follows it is torn, even if it is intact: it was written later.
//!
//! Nothing is changed here, so the same state is found again after a crash.

use super::frames::{Seen, Unreadable, examine_frames};
use super::{Advance, read_if_readable};
use crate::damage::{Damage, DamagedPart};
use crate::error::{Error, Result};
use crate::names::FileName;
use crate::store::log_format::{
    Frame, LOG_VERSION, LogFormat, POSITION_MAX, SEGMENT_FILE_BYTES_MAX, SEGMENT_HEADER_BYTES, SegmentHeader,
    Slots,
};
use crate::store::record::RecordView;
use crate::store::segment_bases;
use siltstone_device::{Access, AlignedBuffer, Directory, File, Purpose};
use std::ops::Range;

/// No segment of a log begins later: all of it is before [`POSITION_MAX`], and another log may begin after it.
const BASE_MAX: u64 = POSITION_MAX - SEGMENT_FILE_BYTES_MAX - 1;

/// Removes those of some files that are segments which no log has, durably. Before a repair takes effect, because they
/// would be damage of the new log too.
pub fn remove_strays(directory: &Directory, names: &[String]) -> Result<()> {
    let mut is_changed = false;
    for name in names {
        if matches!(FileName::parse(name), Some(FileName::Segment { base, .. }) if base > BASE_MAX) {
            directory.remove(name)?;
            is_changed = true;
        }
    }
    if is_changed { Ok(directory.sync(Purpose::Maintain)?) } else { Ok(()) }
}

/// Returns where a log begins that replaces one with files up to `files_end`: records found there belong to the new
/// log.
///
/// # Errors
/// [`Error::Corrupt`] if no log can begin there.
pub fn begin_after(directory: &Directory, files_end: u64) -> Result<u64> {
    let begin = files_end.saturating_add(1);
    if begin <= POSITION_MAX {
        return Ok(begin);
    }
    Err(Error::Corrupt {
        file: directory.path(),
        offset: 0,
        expected: format!("files of logs that end before position {POSITION_MAX}"),
        got: format!("position {files_end}"),
    })
}

/// The expected log.
#[derive(Debug, Clone, Copy)]
pub struct LogToExamine {
    /// The parameters of its bytes.
    pub format: LogFormat,
    /// The position of the first frame that is still needed.
    pub from: u64,
    /// A position before which everything is known to have been synced.
    pub durable: u64,
    /// Whether a segment begins at `from` and is known to be durable, and all earlier ones are not part of this log.
    pub begins_durably: bool,
}

/// An existing segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExaminedSegment {
    /// The position of its first frame.
    pub base: u64,
    /// The position after its last byte.
    pub end: u64,
    /// Its slots, by its header.
    pub slots: Slots,
    /// The number of its intact records at or after the start of the needed log, without those of the torn end.
    pub records: u64,
    /// What the first order marker in it states.
    pub order: Option<u64>,
}

impl ExaminedSegment {
    /// Makes a segment that is not yet examined.
    pub fn new(base: u64, end: u64) -> ExaminedSegment {
        ExaminedSegment { base, end, slots: Slots::default(), records: 0, order: None }
    }
}

/// The state of a log.
#[derive(Debug, Clone, Default)]
pub struct ExaminedLog {
    /// The damage, each with the positions that are lost.
    pub damage: Vec<(Range<u64>, Damage)>,
    /// The end of the intact part: what follows was being written during a crash.
    pub end: u64,
    /// The number of bytes after it.
    pub torn_bytes: u64,
    /// A position after everything that any file of the log could contain.
    pub files_end: u64,
    /// The number of intact records, without those of the torn end.
    pub records: u64,
    /// The position after the last of them.
    pub records_end: u64,
    /// The segments with data before `end`; none if there is none and the first segment was never durable.
    pub segments: Vec<ExaminedSegment>,
    /// The segments with nothing but the torn end.
    pub torn: Vec<ExaminedSegment>,
    /// The segments that are not needed: they end at or before the start of the needed log.
    pub dead: Vec<u64>,
    /// Incomplete data counts as torn only from this position on.
    pub synced: u64,
}

impl ExaminedLog {
    /// Returns the names of the needed files, of a log of this format.
    pub fn files(&self, format: &LogFormat) -> impl Iterator<Item = String> {
        self.segments.iter().chain(&self.torn).map(|segment| format.segment_name(segment.base))
    }
}

/// Which segments are needed.
struct Needed {
    dead: Vec<u64>,
    bases: Vec<u64>,
    /// Whether there is a segment that ends at the start of the needed log. It is removed only when the next one is
    /// durable, so the next one may never have been durable.
    follows_another: bool,
}

impl LogToExamine {
    /// Reads every needed segment, and changes nothing. Incomplete data is damage if it was synced, else the torn end
    /// of the log.
    ///
    /// # Errors
    /// Errors of reading, except for data that the device has lost, if that counts as damage; [`Error::Version`] for a
    /// log of another version; [`Error::Interrupted`] if `advance` returned `false`.
    pub fn examine(
        &self,
        directory: &Directory,
        unreadable: Unreadable,
        advance: &mut Advance<'_>,
    ) -> Result<ExaminedLog> {
        let Needed { dead, mut bases, follows_another } = self.needed(directory)?;
        // First: from here on no sum of a position and a length overflows.
        let strays = bases.split_off(bases.partition_point(|&base| base <= BASE_MAX));
        let mut examination = LogExamination::new(self, unreadable, dead);
        // The first one must exist, unless the one before it is there to prove that a crash may have lost it.
        let is_certain = |number: usize| number == 0 && !follows_another;
        for (number, &base) in bases.iter().enumerate() {
            let file = self.open(directory, base)?;
            // After a failed sync the page cache may contain data that never reached the device.
            file.drop_cache();
            if base > examination.position {
                examination.miss_segment(directory, base, is_certain(number));
            }
            let end = segment_end(&file, base)?;
            // Frames must reach the next segment. If they end before, the rest is a gap, not reserved space.
            let reach = bases.get(number + 1).copied();
            examination.segment(
                &file,
                ExaminedSegment::new(base, end),
                reach,
                is_certain(number),
                advance,
            )?;
        }
        // Every log has a segment from its creation on.
        if bases.is_empty() && !follows_another {
            examination.miss_segment(directory, u64::MAX, true);
            examination.position = self.from;
        }
        let mut examined = examination.finish(directory)?;
        for base in strays {
            let stray = self.stray(directory, base, examined.end)?;
            examined.damage.push(stray);
        }
        Ok(examined)
    }

    /// Returns the damage of a segment that no log has. No crash can cause this, but a flipped bit of the name. Where
    /// its records were is not known, so the log that ends at `end` counts as that much longer.
    fn stray(&self, directory: &Directory, base: u64, end: u64) -> Result<(Range<u64>, Damage)> {
        let file = self.open(directory, base)?;
        let damage = Damage::new(file.path(), DamagedPart::File, 0, file.length()?)
            .because(format!("a segment with a base up to {BASE_MAX}"), format!("base {base}"));
        Ok((end..end.saturating_add(segment_end(&file, 0)?), damage))
    }

    /// Like [`examine`](LogToExamine::examine), for an open log, whose segments must all exist. `find` opens one of
    /// them; a segment that was released meanwhile counts as empty.
    pub fn examine_open(
        &self,
        directory: &Directory,
        segments: &[ExaminedSegment],
        find: &mut dyn FnMut(ExaminedSegment) -> Result<Found>,
        advance: &mut Advance<'_>,
    ) -> Result<ExaminedLog> {
        let mut examination = LogExamination::new(self, Unreadable::IsDamage, Vec::new());
        for &segment in segments {
            match find(segment)? {
                // Nothing needs its records any more, so this is no gap.
                Found::Released => examination.position = segment.end,
                Found::Missing => examination.miss_segment(directory, segment.end, true),
                Found::File(file) => {
                    if segment.base > examination.position {
                        examination.miss_segment(directory, segment.base, true);
                    }
                    // The file may have grown since, or have reserved space.
                    let end = segment_end(&file, segment.base)?.min(segment.end);
                    let reach = Some(segment.end);
                    examination.segment(&file, ExaminedSegment { end, ..segment }, reach, true, advance)?;
                }
            }
        }
        examination.finish(directory)
    }

    /// Passes every intact record before the position `end` to `visit`, with its position.
    ///
    /// # Errors
    /// See [`examine`](LogToExamine::examine); also errors of `visit`.
    pub fn records(
        &self,
        directory: &Directory,
        end: u64,
        advance: &mut Advance<'_>,
        visit: &mut dyn FnMut(u64, &RecordView<'_>) -> Result<()>,
    ) -> Result<()> {
        for base in self.needed(directory)?.bases {
            let file = self.open(directory, base)?;
            // The torn end is left out: an open drops it.
            let until = segment_end(&file, base)?.min(end);
            let positions = base.max(self.from)..until;
            let header = read_segment_header(&file, Unreadable::IsDamage)?.0;
            if positions.is_empty() || header.is_some_and(|found| found != self.header_of(base, header)) {
                continue;
            }
            let unreadable = Unreadable::IsDamage;
            examine_frames(
                &file,
                unreadable,
                &self.format,
                base,
                positions,
                advance,
                &mut |seen| match seen {
                    Seen::Frame { positions, frame: Frame::Record { record, .. }, .. } => {
                        visit(positions.start, &record)
                    }
                    _ => Ok(()),
                },
            )?;
        }
        Ok(())
    }

    /// Returns the bytes of the needed segments.
    pub fn bytes(&self, directory: &Directory) -> Result<u64> {
        let mut bytes = 0;
        for base in self.needed(directory)?.bases {
            bytes += self.open(directory, base)?.length()?;
        }
        Ok(bytes)
    }

    fn open(&self, directory: &Directory, base: u64) -> Result<File> {
        Ok(directory.open(&self.format.segment_name(base), Access::Buffered)?)
    }

    /// Returns the expected header of a segment. Which slots it has, only the header states.
    fn header_of(&self, base: u64, found: Option<SegmentHeader>) -> SegmentHeader {
        self.format.header(base, found.map_or(Slots::default(), |header| header.slots))
    }

    fn needed(&self, directory: &Directory) -> Result<Needed> {
        let mut dead = segment_bases(directory, self.format.class)?;
        let end_of = |base: u64| segment_end(&self.open(directory, base)?, base);
        if self.begins_durably {
            // What begins before is finished or released, and no part of this log.
            let bases = dead.split_off(dead.partition_point(|&base| base < self.from));
            return Ok(Needed { dead, bases, follows_another: false });
        }
        let after = dead.partition_point(|&base| base <= self.from);
        let (first, follows_another) = match dead[..after] {
            [] => (0, false),
            // A segment is removed only after the next one is synced: while it exists, the next one may be lost.
            [.., before, at] if at == self.from => (after - 1, end_of(before)? >= self.from),
            // The same, and the next one does not exist: it was never durable.
            [.., last] if last < self.from && end_of(last)? == self.from => (after, true),
            [..] => (after - 1, false),
        };
        let bases = dead.split_off(first);
        Ok(Needed { dead, bases, follows_another })
    }
}

/// Returns the header of a segment, if it is intact, the version that it states, and whether the device cannot read it.
pub(in crate::store) fn read_segment_header(
    file: &File,
    unreadable: Unreadable,
) -> Result<(Option<SegmentHeader>, u32, bool)> {
    let mut buffer = AlignedBuffer::default();
    let wanted = (SEGMENT_HEADER_BYTES as u64).min(file.length()?) as usize;
    let bytes = match unreadable {
        Unreadable::Fails => file.read(Purpose::Recover, 0, wanted, &mut buffer)?,
        Unreadable::IsDamage => read_if_readable(file, 0, wanted, &mut buffer)?.unwrap_or_default(),
    };
    let (version, header) = SegmentHeader::decode(bytes).unwrap_or((LOG_VERSION, None));
    if header.is_none() && !bytes.is_empty() {
        // A bit that flipped on its way must not make a durable segment look torn.
        file.confirm(0, bytes)?;
    }
    Ok((header, version, bytes.len() < wanted))
}

/// A segment of an open log.
pub enum Found {
    /// Its file.
    File(File),
    /// It was released and is no longer needed.
    Released,
    /// It is missing.
    Missing,
}

/// Returns the position after the last byte of a segment.
fn segment_end(file: &File, base: u64) -> Result<u64> {
    let length = file.length()?.min(SEGMENT_FILE_BYTES_MAX);
    Ok(base.saturating_add(length.saturating_sub(SEGMENT_HEADER_BYTES as u64)))
}

/// The position up to which all batches are complete, and the number of records before it.
#[derive(Clone, Copy)]
struct CompletePart {
    until: u64,
    records: u64,
}

/// A range without complete data.
struct Gap {
    positions: Range<u64>,
    before: CompletePart,
    /// The number of segments with data before it.
    segments: usize,
    /// Whether it is damage even if nothing after it was synced.
    is_certain: bool,
    damage: Damage,
}

struct LogExamination<'a> {
    log: &'a LogToExamine,
    unreadable: Unreadable,
    examined: ExaminedLog,
    gaps: Vec<Gap>,
    /// The position after everything that was examined.
    position: u64,
    complete: CompletePart,
    /// The number of records of an incomplete batch.
    in_batch: u64,
}

impl<'a> LogExamination<'a> {
    fn new(log: &'a LogToExamine, unreadable: Unreadable, dead: Vec<u64>) -> LogExamination<'a> {
        let examined = ExaminedLog { dead, synced: log.durable, ..ExaminedLog::default() };
        let complete = CompletePart { until: log.from, records: 0 };
        LogExamination {
            log,
            unreadable,
            examined,
            gaps: Vec::new(),
            position: log.from,
            complete,
            in_batch: 0,
        }
    }

    fn gap(&mut self, positions: Range<u64>, is_certain: bool, damage: Damage) {
        let segments = self.examined.segments.len();
        self.gaps.push(Gap { positions, before: self.complete, segments, is_certain, damage });
    }

    /// Records that a segment is missing: the next one begins at `until`.
    fn miss_segment(&mut self, directory: &Directory, until: u64, is_certain: bool) {
        let position = self.position;
        let mut expected = format!("the segment of the log that holds position {position}");
        if self.log.durable > position {
            expected += &format!(", which was synced up to position {}", self.log.durable);
        }
        let damage =
            Damage::new(directory.path_of(&self.log.format.segment_name(position)), DamagedPart::File, 0, 0)
                .because(expected, "no such file");
        self.gap(position..until, is_certain, damage);
        self.position = until;
    }

    /// Examines a segment, in which there should be frames up to the position `reach`.
    fn segment(
        &mut self,
        file: &File,
        segment: ExaminedSegment,
        reach: Option<u64>,
        is_certain: bool,
        advance: &mut Advance<'_>,
    ) -> Result<()> {
        let ExaminedSegment { base, end, .. } = segment;
        let found = Damage::new(file.path(), DamagedPart::LogHeader, 0, SEGMENT_HEADER_BYTES as u64);
        self.examined.files_end = self.examined.files_end.max(end);
        let (header, version, is_unreadable) = read_segment_header(file, self.unreadable)?;
        let (start, wanted) = (base.max(self.log.from), self.log.header_of(base, header));
        if let Some(header) = header.filter(|header| *header != wanted) {
            // A crash cannot cause this: the file is a complete segment of another log.
            let told = |header: SegmentHeader| {
                format!("the segment of database {:016x} with base {}", header.database_id, header.base)
            };
            let found = Damage { part: DamagedPart::File, length: file.length()?, ..found };
            self.gap(start..end.max(start + 1), true, found.because(told(wanted), told(header)));
            self.examined.segments.push(segment);
            self.position = end.max(self.position);
            return Ok(());
        }
        if header.is_none() {
            let found = found.because("the header of a log segment", "other bytes");
            // A crash may have come before the header was written. It leaves no bytes that cannot be read.
            self.gap(start..start, is_certain || is_unreadable, found);
        } else if base < self.position && !self.examined.segments.is_empty() {
            // A crash cannot cause this: a segment begins where the previous one ends.
            let expected = format!("a segment with base {}", self.position);
            self.gap(start..start, true, found.because(expected, format!("a segment with base {base}")));
        }
        let slots = header.map_or(Slots::default(), |header| header.slots);
        self.examined.segments.push(ExaminedSegment { slots, ..segment });
        let before = self.examined.records;
        if start < end {
            let end = self.frames(file, base, start..end, reach, advance)?;
            if let Some(last) = self.examined.segments.last_mut() {
                last.end = end;
                last.records = self.examined.records - before;
            }
        }
        // A single damaged byte could state another version; but then the frames are still of this one.
        let is_damage = self.unreadable == Unreadable::IsDamage && self.examined.records > before;
        if header.is_none() && version != LOG_VERSION && !is_damage && end > start {
            let file = file.path().to_owned();
            return Err(Error::Version { file, found: version, supported: LOG_VERSION });
        }
        Ok(())
    }

    /// Examines the frames of a segment. Returns their end: what follows is reserved space.
    fn frames(
        &mut self,
        file: &File,
        base: u64,
        positions: Range<u64>,
        reach: Option<u64>,
        advance: &mut Advance<'_>,
    ) -> Result<u64> {
        let (format, unreadable) = (self.log.format, self.unreadable);
        let mut end =
            examine_frames(file, unreadable, &format, base, positions.clone(), advance, &mut |seen| {
                self.see(file, base, seen);
                Ok(())
            })?;
        let reach = reach.map_or(end, |reach| reach.min(positions.end));
        if end < reach {
            self.see(file, base, Seen::Gap { positions: end..reach, key: None, is_unreadable: false });
            end = reach;
        }
        self.position = end;
        // No batch continues in the next segment.
        if self.in_batch > 0 {
            let damage = Damage::new(file.path(), DamagedPart::LogFrames, 0, 0)
                .because("the rest of a batch", "the end of the segment");
            self.gap(end..end, false, damage);
            self.in_batch = 0;
        }
        self.complete = CompletePart { until: end, records: self.examined.records };
        Ok(end)
    }

    fn see(&mut self, file: &File, base: u64, seen: Seen<'_>) {
        let (positions, key, is_unreadable) = match seen {
            Seen::Gap { positions, key, is_unreadable } => (positions, key, is_unreadable),
            Seen::Frame { positions, frame, .. } => {
                match frame {
                    Frame::Record { batch_goes_on, .. } => {
                        self.examined.records += 1;
                        self.examined.records_end = positions.end;
                        self.in_batch = if batch_goes_on { self.in_batch + 1 } else { 0 };
                    }
                    Frame::SyncMarker(position) => {
                        // It was written after a sync that the manifest may not state yet.
                        self.examined.synced = self.examined.synced.max(position);
                    }
                    Frame::OrderMarker(position) => {
                        if let Some(last) = self.examined.segments.last_mut() {
                            last.order.get_or_insert(position);
                        }
                    }
                }
                // Within a batch the log may not end: recovery keeps all records of a batch or none.
                if self.in_batch == 0 {
                    self.complete = CompletePart { until: positions.end, records: self.examined.records };
                }
                return;
            }
        };
        let offset = positions.start - base + SEGMENT_HEADER_BYTES as u64;
        let length = positions.end - positions.start;
        let got = if is_unreadable {
            "bytes that cannot be read"
        } else {
            "bytes that are not a frame of this position"
        };
        let damage = Damage::new(file.path(), DamagedPart::LogFrames, offset, length)
            .because("a record of the log", got);
        let end = positions.end;
        self.gap(positions, is_unreadable, Damage { keys: key.into_iter().collect(), ..damage });
        self.in_batch = 0;
        // After the gap, which keeps what was complete before it.
        self.complete = CompletePart { until: end, records: self.examined.records };
    }

    /// Records that the log extends further than its files do, by an unknown number of bytes.
    fn miss_end(&mut self, directory: &Directory) {
        let (position, synced) = (self.position, self.examined.synced);
        let last = self.examined.segments.last();
        let (base, offset) = match last {
            Some(last) => (last.base, position - last.base + SEGMENT_HEADER_BYTES as u64),
            None => (position, 0),
        };
        let damage = Damage::new(
            directory.path_of(&self.log.format.segment_name(base)),
            DamagedPart::LogFrames,
            offset,
            0,
        )
        .because(
            format!("a log that reaches position {synced}, up to which it was synced"),
            format!("a log that ends at position {position}"),
        );
        self.gap(position..u64::MAX, true, damage);
        self.position = synced;
    }

    fn finish(mut self, directory: &Directory) -> Result<ExaminedLog> {
        let synced = self.examined.synced;
        let is_gone = self.gaps.last().is_some_and(|gap| gap.is_certain && gap.positions.end == u64::MAX);
        if is_gone {
            self.position = self.position.max(synced);
        } else if self.position < synced {
            // Everything before `synced` was durable: a shorter log is damaged, however intact it is.
            self.miss_end(directory);
        }
        // Incomplete data from here on was never synced.
        // Also what would be cut off before the gap, a part of a batch, must not have been synced.
        let is_torn =
            |gap: &Gap| !gap.is_certain && gap.positions.start >= synced && gap.before.until >= synced;
        let mut end = self.position;
        // The log ends before the first such gap: what follows was written later, and is torn even if it is intact.
        if let Some(at) = self.gaps.iter().position(is_torn) {
            let Gap { before: CompletePart { until, records }, segments, .. } = self.gaps[at];
            (end, self.examined.records) = (until, records);
            self.examined.torn = self.examined.segments.split_off(segments);
            self.gaps.truncate(at);
        }
        let examined = &mut self.examined;
        examined.end = end.max(self.log.from);
        if let Some((last, others)) = examined.segments.split_last_mut() {
            let before: u64 = others.iter().map(|segment| segment.records).sum();
            last.records = examined.records.saturating_sub(before);
        }
        let in_last = examined.segments.last().map_or(0, |last| last.end.saturating_sub(examined.end));
        let in_torn = |segment: &ExaminedSegment| segment.end - segment.base;
        examined.torn_bytes = in_last + examined.torn.iter().map(in_torn).sum::<u64>();
        examined.files_end = examined.files_end.max(self.position).max(synced);
        examined.damage = self.gaps.into_iter().map(|gap| (gap.positions, gap.damage)).collect();
        Ok(self.examined)
    }
}
