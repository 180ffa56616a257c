//! Going through all of a log, whatever is damaged or missing of it.

use super::frames::{Seen, examine_frames};
use super::{Advance, read_if_readable};
use crate::damage::{Damage, DamagedPart};
use crate::device::{Access, AlignedBuffer, Directory, File};
use crate::store::log::format::{Frame, LOG_VERSION, LogFormat, SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::store::log::segment_name;
use crate::store::names::segment_bases;
use crate::store::record::RecordView;
use crate::{Error, Result};
use std::ops::Range;

/// A log as it should be.
#[derive(Debug, Clone, Copy)]
pub struct LogToExamine {
    /// What its bytes depend on.
    pub format: LogFormat,
    /// The position of the first frame that is still needed.
    pub from: u64,
    /// A position before which everything is known to have been synced.
    pub durable: u64,
}

/// What a log was found to hold.
#[derive(Debug, Clone, Default)]
pub struct ExaminedLog {
    /// What is damaged, each with the positions that are lost with it.
    pub damage: Vec<(Range<u64>, Damage)>,
    /// Where the sound part ends: what follows was being written when the system went down.
    pub end: u64,
    /// How many bytes follow it.
    pub torn_bytes: u64,
    /// Behind everything that any file of the log could hold.
    pub files_end: u64,
    /// How many records are sound, the torn end's left out.
    pub records: u64,
    /// The files of the log that are needed.
    pub files: Vec<String>,
}

impl LogToExamine {
    /// Reads every segment that is needed, and changes nothing. A part that is not whole is damage if it had been
    /// synced, else the torn end of the log, as it is when the log is opened.
    ///
    /// # Errors
    /// Those of reading, but not of what the device has lost; [`Error::Version`] for a log of another version;
    /// [`Error::Interrupted`] if `advance` answered so.
    pub fn examine(&self, directory: &Directory, advance: &mut Advance<'_>) -> Result<ExaminedLog> {
        let examined = ExaminedLog { end: self.from, ..ExaminedLog::default() };
        let whole = Whole { until: self.from, records: 0 };
        let synced = self.durable;
        let mut course =
            Course { log: self, examined, gaps: Vec::new(), position: self.from, whole, in_batch: 0, synced };
        let bases = self.needed(directory)?;
        if let Some(&first) = bases.first().filter(|&&first| first > self.from) {
            course.miss(directory, first, true);
        }
        for (number, &base) in bases.iter().enumerate() {
            let is_unborn = self.durable == 0 && bases.len() == 1;
            course.segment(directory, base, number == 0 && !is_unborn, advance)?;
        }
        Ok(course.finish(directory))
    }

    /// Shows every sound record before `end`, a position, with its own.
    ///
    /// # Errors
    /// As [`examine`](LogToExamine::examine), and those of `visit`.
    pub fn records(
        &self,
        directory: &Directory,
        end: u64,
        advance: &mut Advance<'_>,
        visit: &mut dyn FnMut(u64, &RecordView<'_>) -> Result<()>,
    ) -> Result<()> {
        for base in self.needed(directory)? {
            let file = directory.open(&segment_name(base), Access::Buffered)?;
            let until = segment_end(&file, base)?.min(end);
            let positions = base.max(self.from)..until;
            if positions.is_empty() || self.is_foreign(&file)? {
                continue;
            }
            examine_frames(&file, &self.format, base, positions, advance, &mut |seen| match seen {
                Seen::Frame { positions, frame: Frame::Record { record, .. } } => {
                    visit(positions.start, &record)
                }
                _ => Ok(()),
            })?;
        }
        Ok(())
    }

    fn needed(&self, directory: &Directory) -> Result<Vec<u64>> {
        let mut bases = segment_bases(directory)?;
        let first = bases.partition_point(|&base| base <= self.from).saturating_sub(1);
        bases.drain(..first);
        Ok(bases)
    }

    /// The header of a segment, if it is sound, and the version that it states.
    fn header(&self, file: &File) -> Result<(Option<SegmentHeader>, u32)> {
        let mut buffer = AlignedBuffer::default();
        let wanted = (SEGMENT_HEADER_BYTES as u64).min(file.length()?) as usize;
        let bytes = read_if_readable(file, 0, wanted, &mut buffer)?.unwrap_or_default();
        Ok(match SegmentHeader::decode(bytes) {
            Some((version, header)) => (header, version),
            None => (None, LOG_VERSION),
        })
    }

    fn is_foreign(&self, file: &File) -> Result<bool> {
        Ok(self.header(file)?.0.is_some_and(|header| header.database_id != self.format.database_id))
    }
}

/// The position behind the last byte of a segment.
fn segment_end(file: &File, base: u64) -> Result<u64> {
    Ok(base.saturating_add(file.length()?.saturating_sub(SEGMENT_HEADER_BYTES as u64)))
}

/// Up to where all batches are whole, and how many records stand before it.
#[derive(Clone, Copy)]
struct Whole {
    until: u64,
    records: u64,
}

/// Something that is not whole.
struct Gap {
    positions: Range<u64>,
    before: Whole,
    /// Whether it is damage even if nothing behind it was synced.
    is_certain: bool,
    damage: Damage,
}

struct Course<'a> {
    log: &'a LogToExamine,
    examined: ExaminedLog,
    gaps: Vec<Gap>,
    /// Behind everything that was gone over.
    position: u64,
    whole: Whole,
    /// The records of a batch that is not yet whole.
    in_batch: u64,
    synced: u64,
}

impl Course<'_> {
    fn gap(&mut self, positions: Range<u64>, is_certain: bool, damage: Damage) {
        self.gaps.push(Gap { positions, before: self.whole, is_certain, damage });
    }

    /// A segment that should be there is not: the next one begins at `until`.
    fn miss(&mut self, directory: &Directory, until: u64, is_certain: bool) {
        self.miss_positions(directory, self.position..until, is_certain);
        self.position = until;
    }

    fn miss_positions(&mut self, directory: &Directory, missing: Range<u64>, is_certain: bool) {
        let damage = Damage::new(directory.path_of(&segment_name(missing.start)), DamagedPart::File, 0, 0)
            .because(format!("the log from position {} on", missing.start), "no such file");
        self.gap(missing, is_certain, damage);
    }

    fn segment(
        &mut self,
        directory: &Directory,
        base: u64,
        is_certain: bool,
        advance: &mut Advance<'_>,
    ) -> Result<()> {
        let name = segment_name(base);
        let file = directory.open(&name, Access::Buffered)?;
        file.drop_cache();
        let (length, end) = (file.length()?, segment_end(&file, base)?);
        self.examined.files.push(name);
        self.examined.files_end = self.examined.files_end.max(end);
        if base > self.position {
            self.miss(directory, base, false);
        }
        let (header, version) = self.log.header(&file)?;
        let start = base.max(self.log.from);
        let found = Damage::new(file.path(), DamagedPart::LogHeader, 0, SEGMENT_HEADER_BYTES as u64);
        match header {
            Some(header) if header.database_id != self.log.format.database_id => {
                let expected = format!("a log of database {:016x}", self.log.format.database_id);
                let found = Damage { part: DamagedPart::File, length, ..found };
                let found = found.because(expected, format!("one of database {:016x}", header.database_id));
                self.gap(start..end.max(start + 1), true, found);
                self.position = end.max(self.position);
                return Ok(());
            }
            Some(header) if header.base == base => {}
            _ => {
                let found = found.because("the header of a segment of the log", "other bytes");
                self.gap(start..start, is_certain, found);
            }
        }
        let before = self.examined.records;
        if start < end {
            self.frames(&file, base, start..end, advance)?;
        }
        if header.is_none() && version != LOG_VERSION && self.examined.records == before && end > start {
            let file = file.path().to_owned();
            return Err(Error::Version { file, found: version, supported: LOG_VERSION });
        }
        Ok(())
    }

    fn frames(
        &mut self,
        file: &File,
        base: u64,
        positions: Range<u64>,
        advance: &mut Advance<'_>,
    ) -> Result<()> {
        let format = self.log.format;
        examine_frames(file, &format, base, positions.clone(), advance, &mut |seen| {
            self.see(file, base, seen);
            Ok(())
        })?;
        self.position = positions.end;
        if self.in_batch > 0 {
            let damage = Damage::new(file.path(), DamagedPart::LogFrames, 0, 0)
                .because("the rest of a batch", "the end of the segment");
            self.gap(positions.end..positions.end, false, damage);
            self.in_batch = 0;
        }
        self.whole = Whole { until: positions.end, records: self.examined.records };
        Ok(())
    }

    fn see(&mut self, file: &File, base: u64, seen: Seen<'_>) {
        let (positions, key) = match seen {
            Seen::Gap { positions, key } => (positions, key),
            Seen::Frame { positions, frame } => {
                match frame {
                    Frame::Record { batch_goes_on, .. } => {
                        self.examined.records += 1;
                        self.in_batch = if batch_goes_on { self.in_batch + 1 } else { 0 };
                    }
                    Frame::SyncMarker(position) => self.synced = self.synced.max(position),
                }
                if self.in_batch == 0 {
                    self.whole = Whole { until: positions.end, records: self.examined.records };
                }
                return;
            }
        };
        let offset = positions.start - base + SEGMENT_HEADER_BYTES as u64;
        let length = positions.end - positions.start;
        let damage = Damage::new(file.path(), DamagedPart::LogFrames, offset, length)
            .because("a record of the log", "bytes that are no frame of this place");
        let end = positions.end;
        self.gap(positions, false, Damage { keys: key.into_iter().collect(), ..damage });
        self.in_batch = 0;
        self.whole = Whole { until: end, records: self.examined.records };
    }

    fn finish(mut self, directory: &Directory) -> ExaminedLog {
        let synced = self.synced;
        let is_gone = self.examined.files.is_empty() && self.log.durable > 0;
        if is_gone || self.position < synced {
            // The log reached so far at the least: nobody knows how much more there was.
            self.miss_positions(directory, self.position..u64::MAX, true);
            self.position = self.position.max(synced);
        }
        // What is not whole from here on was never synced.
        let is_torn =
            |gap: &Gap| !gap.is_certain && gap.positions.start >= synced && gap.before.until >= synced;
        let end = match self.gaps.iter().position(is_torn) {
            Some(at) => {
                let Whole { until, records } = self.gaps[at].before;
                self.examined.records = records;
                self.gaps.truncate(at);
                until
            }
            None => self.position,
        };
        self.examined.end = end.max(self.log.from);
        self.examined.torn_bytes = self.position.saturating_sub(self.examined.end);
        self.examined.files_end = self.examined.files_end.max(self.position).max(synced);
        self.examined.damage = self.gaps.into_iter().map(|gap| (gap.positions, gap.damage)).collect();
        self.examined
    }
}
