//! Opening a log that was not closed: what is whole is kept, what was being written at the end is cut off.
//!
//! A frame that is not whole may be the torn end of the log after a crash, or damage to what was durable long before.
//! The sync markers tell them apart: damage lies before a position that had been synced, and is an error.

use super::format::{
    Frame, LOG_VERSION, LogFormat, MARKER_OVERLAP_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader,
};
use super::segment::Segment;
use super::{Log, segment_name};
use crate::device::{Access, AlignedBuffer, Directory, File, Purpose};
use crate::progress::Progress;
use crate::store::confirm::confirm;
use crate::store::names::segment_bases;
use crate::store::record::{RecordProblem, RecordView};
use crate::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The bytes that a scan reads at a time.
const WINDOW_BYTES: usize = 256 << 10;
/// No log comes so far, an exabyte; so no damage of a position makes a sum of positions and lengths overflow.
const POSITION_MAX: u64 = 1 << 60;

/// What was found when a log was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovered {
    /// The end of the log.
    pub end: u64,
    /// Bytes behind it that were not whole and were cut off.
    pub lost_tail_bytes: u64,
}

/// What a log is opened with.
pub struct LogSettings {
    /// What its bytes depend on.
    pub format: LogFormat,
    /// The size at which a segment is followed by another, in bytes.
    pub segment_bytes: u64,
    /// The position of the first record that is still needed.
    pub from: u64,
    /// A position before which everything is known to have been synced.
    pub durable: u64,
}

impl Log {
    /// Opens the log of a directory: checks every frame from `from` on, cuts off a torn end, removes segments that are
    /// not needed any more.
    pub fn open(
        directory: &Directory,
        settings: &LogSettings,
        progress: &mut Progress<'_>,
    ) -> Result<(Arc<Log>, Recovered)> {
        let bases = live_segments(directory, settings.from)?;
        let mut opening =
            Opening { directory, settings, segments: Vec::new(), recovered: Recovered::default() };
        if bases.is_empty() && settings.durable > 0 {
            return Err(opening.no_beginning(None));
        }
        let end = opening.check(&bases, progress)?;
        if let Some((position, number)) = end {
            opening.cut(position, &bases[number..])?;
        }
        let Opening { mut segments, mut recovered, .. } = opening;
        recovered.end = end.map_or(settings.from, |(position, _)| position);
        if segments.is_empty() {
            // Synced, unlike those that follow it: so the first segment that is needed is never missing but by damage.
            let first = Self::create_segment(directory, &settings.format, settings.from)?;
            first.file.sync(Purpose::Recover)?;
            directory.sync(Purpose::Recover)?;
            segments.push(first);
        }
        for pair in segments.windows(2) {
            pair[0].finish(pair[1].base);
        }
        let segments = segments.into_iter().map(Arc::new).collect();
        let log = Self::assemble(directory, settings.format, settings.segment_bytes, segments, recovered.end);
        Ok((Arc::new(log), recovered))
    }

    /// Shows every record at or behind `from` with its position, as far as they are written.
    pub fn scan(
        &self,
        from: u64,
        progress: &mut Progress<'_>,
        visit: &mut dyn FnMut(u64, &RecordView<'_>) -> Result<()>,
    ) -> Result<()> {
        // In this order: what is written before `end` stands in these segments, though others may follow.
        let end = self.written.load(Ordering::Acquire);
        let segments = self.segments.read().clone();
        for segment in &segments.0 {
            let until = segment.end().unwrap_or(end);
            if until <= from {
                continue;
            }
            let mut scan = Scan::new(&self.format, segment, segment.base.max(from), until);
            while let Some(outcome) = scan.advance()? {
                outcome.map_err(|problem| damaged(segment, scan.position, problem))?;
                if let Some(Frame::Record { record, .. }) = scan.frame() {
                    visit(scan.frame_position, &record)?;
                }
                if scan.refilled && !progress(scan.position - from, end - from) {
                    return Err(Error::Interrupted);
                }
            }
        }
        Ok(())
    }
}

/// The bases of the segments that hold anything at or behind `from`, or end there: the next one may not be durable. The
/// others are removed.
fn live_segments(directory: &Directory, from: u64) -> Result<Vec<u64>> {
    let mut bases = segment_bases(directory)?;
    let last = bases.last().copied().unwrap_or(0).max(from);
    if last > POSITION_MAX {
        return Err(Error::Corrupt {
            file: directory.path_of(&segment_name(last)),
            offset: 0,
            expected: format!("a position up to {POSITION_MAX}"),
            got: format!("position {last}"),
        });
    }
    let mut first = bases.partition_point(|&base| base < from).saturating_sub(1);
    if let [before, at, ..] = bases[first..]
        && at == from
    {
        let length = directory.open(&segment_name(before), Access::Buffered)?.length()?;
        // One that ends before is left over from a release that was not finished.
        first += usize::from(before + length < from + SEGMENT_HEADER_BYTES as u64);
    }
    for &base in &bases[..first] {
        directory.remove(&segment_name(base))?;
    }
    Ok(bases.split_off(first))
}

struct Opening<'a> {
    directory: &'a Directory,
    settings: &'a LogSettings,
    segments: Vec<Segment>,
    recovered: Recovered,
}

impl Opening<'_> {
    /// Opens segments as long as they are sound. Answers where the sound part ends, and which of `bases` holds that
    /// end; `None` if there is no log yet.
    fn check(&mut self, bases: &[u64], progress: &mut Progress<'_>) -> Result<Option<(u64, usize)>> {
        let from = self.settings.from;
        let mut end: Option<(u64, usize)> = None;
        for (number, &base) in bases.iter().enumerate() {
            let file = self.directory.open(&segment_name(base), Access::Buffered)?;
            // After a sync that failed the page cache may show what never reached the device.
            file.drop_cache();
            let length = file.length()?;
            let sound_header = self.header_is_sound(&file, base, length)?;
            match end {
                None if base > from => return Err(self.no_beginning(Some(base))),
                None if !sound_header && self.is_unborn(bases, length) => return Ok(Some((from, number))),
                None if !sound_header => {
                    return Err(file.corrupt(0, "the header of a segment of the log", "other bytes"));
                }
                Some((position, _)) if base != position || !sound_header => {
                    self.refuse_loss_of_synced(position, &bases[number..])?;
                    return Ok(end);
                }
                _ => {}
            }
            let segment = Segment::new(file, base);
            let until = base + length - SEGMENT_HEADER_BYTES as u64;
            let mut sound = base.max(from);
            let mut scan = Scan::new(&self.settings.format, &segment, sound, until);
            let mut broken = false;
            while let Some(outcome) = scan.advance()? {
                if outcome.is_err() {
                    confirm(&segment.file, segment.offset_of(scan.position), scan.unread())?;
                    broken = true;
                    break;
                }
                if !matches!(scan.frame(), Some(Frame::Record { batch_goes_on: true, .. })) {
                    sound = scan.position;
                }
                if scan.refilled && !progress(scan.position - from, until - from) {
                    return Err(Error::Interrupted);
                }
            }
            // A batch never goes over the end of a segment, so an unfinished one is a torn end too.
            broken |= sound < until;
            self.segments.push(segment);
            end = Some((sound, number));
            if broken {
                self.refuse_loss_of_synced(sound, &bases[number..])?;
                break;
            }
        }
        if let Some((position, number)) = end
            && number + 1 == bases.len()
        {
            self.refuse_loss_of_synced(position, &[])?;
        }
        Ok(end)
    }

    /// Whether the log was being created when the system went down: its first segment is synced before anything is
    /// appended to it.
    fn is_unborn(&self, bases: &[u64], length: u64) -> bool {
        self.settings.durable == 0 && bases.len() == 1 && length <= SEGMENT_HEADER_BYTES as u64
    }

    /// The log lacks what comes before its first segment, which `base` is.
    fn no_beginning(&self, base: Option<u64>) -> Error {
        let from = self.settings.from;
        Error::Corrupt {
            file: self.directory.path_of(&segment_name(base.unwrap_or(from))),
            offset: 0,
            expected: format!("the segment of the log that holds position {from}"),
            got: base.map_or("no segment".into(), |base| format!("none before position {base}")),
        }
    }

    fn header_is_sound(&self, file: &File, base: u64, length: u64) -> Result<bool> {
        if length < SEGMENT_HEADER_BYTES as u64 {
            return Ok(false);
        }
        let mut buffer = AlignedBuffer::default();
        let bytes = file.read(Purpose::Recover, 0, SEGMENT_HEADER_BYTES, &mut buffer)?;
        let expected = self.settings.format.header(base);
        match SegmentHeader::decode(bytes) {
            Some((LOG_VERSION, Some(header))) if header == expected => Ok(true),
            Some((LOG_VERSION, Some(header))) => {
                let got = format!("one of database {:016x}", header.database_id);
                Err(file.corrupt(0, format!("a log of database {:016x}", expected.database_id), got))
            }
            Some((found, _)) if found != LOG_VERSION => {
                Err(Error::Version { file: file.path().to_owned(), found, supported: LOG_VERSION })
            }
            _ => confirm(file, 0, bytes).map(|()| false),
        }
    }

    /// An error if anything behind `end`, where the sound part ends, had been synced.
    fn refuse_loss_of_synced(&self, end: u64, bases: &[u64]) -> Result<()> {
        let mut synced = self.settings.durable;
        for &base in bases {
            let file = self.directory.open(&segment_name(base), Access::Buffered)?;
            let length = file.length()?;
            let mut buffer = AlignedBuffer::default();
            let mut offset = SEGMENT_HEADER_BYTES as u64 + end.saturating_sub(base);
            while offset < length {
                let bytes = (length - offset).min(WINDOW_BYTES as u64) as usize;
                let window = file.read(Purpose::Recover, offset, bytes, &mut buffer)?;
                let position = base + offset - SEGMENT_HEADER_BYTES as u64;
                synced = synced.max(self.settings.format.find_sync_marker(position, window).unwrap_or(0));
                confirm(&file, offset, window)?;
                let step = if bytes == WINDOW_BYTES { bytes - MARKER_OVERLAP_BYTES } else { bytes };
                offset += step as u64;
            }
        }
        if synced <= end {
            return Ok(());
        }
        let holder = bases.first().copied().unwrap_or(self.settings.from);
        Err(Error::Corrupt {
            file: self.directory.path_of(&segment_name(holder)),
            offset: end.saturating_sub(holder) + SEGMENT_HEADER_BYTES as u64,
            expected: format!("a log that is whole up to position {synced}, as it was synced"),
            got: format!("a log that ends at {end}"),
        })
    }

    /// Cuts the log off at `end`, which the first of `bases` holds, durably: what was written there before must never
    /// be seen behind what will be.
    fn cut(&mut self, end: u64, bases: &[u64]) -> Result<()> {
        let mut removed = false;
        for (number, &base) in bases.iter().enumerate() {
            let file = self.directory.open(&segment_name(base), Access::Buffered)?;
            let length = file.length()?;
            let keep = match self.segments.iter().any(|segment| segment.base == base) && number == 0 {
                true => end - base + SEGMENT_HEADER_BYTES as u64,
                false => 0,
            };
            self.recovered.lost_tail_bytes += length.saturating_sub(keep.max(SEGMENT_HEADER_BYTES as u64));
            if keep == 0 {
                self.directory.remove(&segment_name(base))?;
                removed = true;
            } else if keep < length {
                file.truncate(keep)?;
                file.sync(Purpose::Recover)?;
            }
        }
        if removed { self.directory.sync(Purpose::Recover) } else { Ok(()) }
    }
}

/// The frames of a segment, one after the other.
pub(super) struct Scan<'a> {
    format: &'a LogFormat,
    segment: &'a Segment,
    /// Behind the frame that was shown last.
    pub position: u64,
    /// Where the frame that was shown last begins.
    frame_position: u64,
    until: u64,
    window_base: u64,
    window: AlignedBuffer,
    /// Whether the last step had to read.
    refilled: bool,
}

impl<'a> Scan<'a> {
    pub fn new(format: &'a LogFormat, segment: &'a Segment, from: u64, until: u64) -> Self {
        Scan {
            format,
            segment,
            position: from,
            frame_position: from,
            until,
            window_base: from,
            window: AlignedBuffer::default(),
            refilled: false,
        }
    }

    /// Goes on to the next frame: its length in bytes, or why there is none where one should be; `None` at the end.
    pub fn advance(&mut self) -> Result<Option<std::result::Result<usize, RecordProblem>>> {
        self.refilled = false;
        if self.position >= self.until {
            return Ok(None);
        }
        self.frame_position = self.position;
        let mut wanted = 1;
        loop {
            let start = (self.position - self.window_base) as usize;
            if self.window.len().saturating_sub(start) < wanted {
                let left = self.until - self.position;
                if left < wanted as u64 {
                    return Ok(Some(Err(RecordProblem::Short(wanted))));
                }
                let bytes = left.min(wanted.max(WINDOW_BYTES) as u64) as usize;
                let offset = self.segment.offset_of(self.position);
                self.segment.file.read(Purpose::Recover, offset, bytes, &mut self.window)?;
                self.window_base = self.position;
                self.refilled = true;
            }
            let start = (self.position - self.window_base) as usize;
            match self.format.decode_frame(self.position, &self.window[start..]) {
                Ok((_, taken)) => {
                    self.position += taken as u64;
                    return Ok(Some(Ok(taken)));
                }
                Err(RecordProblem::Short(needed)) => wanted = needed.max(wanted + 1),
                Err(malformed) => return Ok(Some(Err(malformed))),
            }
        }
    }

    /// What was read and is not gone over.
    fn unread(&self) -> &[u8] {
        self.window.get((self.position - self.window_base) as usize..).unwrap_or_default()
    }

    /// The bytes of the frame that [`advance`](Scan::advance) went over.
    pub fn frame_bytes(&self) -> &[u8] {
        let range =
            (self.frame_position - self.window_base) as usize..(self.position - self.window_base) as usize;
        self.window.get(range).unwrap_or_default()
    }

    /// The frame that [`advance`](Scan::advance) went over, whose checksum it found right.
    fn frame(&self) -> Option<Frame<'_>> {
        let start = (self.frame_position - self.window_base) as usize;
        self.format.parse_frame(self.window.get(start..)?).ok().map(|(frame, _)| frame)
    }
}

pub(super) fn damaged(segment: &Segment, position: u64, problem: RecordProblem) -> Error {
    let got = match problem {
        RecordProblem::Short(_) => "the end of the log",
        RecordProblem::Malformed(_) => "bytes that are no frame of this place",
    };
    segment.file.corrupt(segment.offset_of(position), "a record of the log", got)
}
