//! Opens a log: complete frames are kept, and the torn end of what was being written is truncated.
//!
//! The same examination as for verify and repair decides what is intact. Opening refuses damage, truncates the torn
//! end, and removes segments that are no longer needed. In a read-only directory the log is left unchanged, and read up
//! to its intact end.

use super::format::{Frame, LogFormat};
use super::segment::Segment;
use super::{Log, segment_name};
use crate::device::{Access, AlignedBuffer, Directory, Purpose};
use crate::progress::Progress;
use crate::store::examine::{ExaminedLog, ExaminedSegment, LogToExamine, Unreadable};
use crate::store::record::{RecordProblem, RecordView};
use crate::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The bytes that a scan reads at a time.
const WINDOW_BYTES: usize = 256 << 10;

/// The result of opening a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovered {
    /// The end of the log.
    pub end: u64,
    /// The incomplete bytes after it, which were truncated, or are ignored in a read-only directory.
    pub lost_tail_bytes: u64,
}

/// The settings of opening a log.
pub struct LogSettings {
    /// The parameters of the log's bytes.
    pub format: LogFormat,
    /// The size at which a new segment is started, in bytes.
    pub segment_bytes: u64,
    /// The position of the first record that is still needed.
    pub from: u64,
    /// A position before which everything is known to have been synced.
    pub durable: u64,
}

impl Log {
    /// Opens the log of a directory: verifies every frame from `from` on, truncates a torn end, and removes segments
    /// that are no longer needed. In a read-only directory nothing is changed, and a torn end is ignored.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if anything that was synced is damaged or missing; nothing is changed then.
    pub fn open(
        directory: &Directory,
        settings: &LogSettings,
        progress: &mut Progress<'_>,
    ) -> Result<(Arc<Log>, Recovered)> {
        let LogSettings { format, segment_bytes, from, durable } = *settings;
        let log = LogToExamine { format, from, durable };
        let total = log.bytes(directory)?;
        let mut done = 0;
        let examined = log.examine(directory, Unreadable::Fails, &mut |bytes| {
            done = total.min(done + bytes);
            progress(done, total)
        })?;
        if let Some((_, damage)) = examined.damage.first() {
            return Err(damage.error());
        }
        let segments = match directory.is_read_only() {
            true => sound_segments(directory, &examined)?,
            false => carry_out(directory, &format, &examined)?,
        };
        for pair in segments.windows(2) {
            pair[0].finish(pair[1].base);
        }
        let segments = segments.into_iter().map(Arc::new).collect();
        let log = Self::assemble(directory, format, segment_bytes, segments, examined.end);
        log.start_synced(durable, examined.records_end <= durable)?;
        Ok((Arc::new(log), Recovered { end: examined.end, lost_tail_bytes: examined.torn_bytes }))
    }

    /// Passes every written record at or after `from` to `visit`, with its position.
    pub fn scan(
        &self,
        from: u64,
        progress: &mut Progress<'_>,
        visit: &mut dyn FnMut(u64, &RecordView<'_>) -> Result<()>,
    ) -> Result<()> {
        // In this order: frames written before `end` are in these segments, though later segments may be added.
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

fn open_segment(directory: &Directory, base: u64) -> Result<Segment> {
    Ok(Segment::new(directory.open(&segment_name(base), Access::Buffered)?, base))
}

/// Returns the segments with the intact part, or the one that it follows.
fn sound_segments(directory: &Directory, examined: &ExaminedLog) -> Result<Vec<Segment>> {
    let bases: Vec<u64> = match (&examined.segments[..], &examined.dead[..]) {
        ([], [.., last]) => vec![*last],
        (segments, _) => segments.iter().map(|segment| segment.base).collect(),
    };
    bases.into_iter().map(|base| open_segment(directory, base)).collect()
}

/// Truncates the torn end and removes unneeded segments, durably: torn bytes must never appear after frames that will
/// be written at the end.
fn carry_out(directory: &Directory, format: &LogFormat, examined: &ExaminedLog) -> Result<Vec<Segment>> {
    let mut segments = Vec::new();
    for ExaminedSegment { base, .. } in &examined.segments {
        segments.push(open_segment(directory, *base)?);
    }
    if let (Some(last), Some(found)) = (segments.last(), examined.segments.last())
        && found.end > examined.end
    {
        last.file.truncate(last.offset_of(examined.end))?;
        last.file.sync(Purpose::Recover)?;
    }
    for torn in &examined.torn {
        directory.remove(&segment_name(torn.base))?;
    }
    if segments.is_empty() {
        segments.push(Log::create_segment(directory, format, examined.end)?);
    }
    if !examined.dead.is_empty() {
        // The last dead segment is the evidence that the first live one may never have been durable: before it is
        // removed, that one must be.
        segments[0].file.sync(Purpose::Recover)?;
    }
    if !examined.torn.is_empty() || !examined.dead.is_empty() {
        directory.sync(Purpose::Recover)?;
    }
    examined.dead.iter().try_for_each(|base| directory.remove(&segment_name(*base)))?;
    Ok(segments)
}

/// The frames of a segment, in order.
pub(super) struct Scan<'a> {
    format: &'a LogFormat,
    segment: &'a Segment,
    /// The position after the current frame.
    pub position: u64,
    /// Where the current frame begins.
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

    /// Moves to the next frame. Returns its length in bytes, or why there is no frame where one should be; `None` at
    /// the end.
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
                    // The frame would end after the segment.
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
                // Reads again with at least one byte more, so the loop ends.
                Err(RecordProblem::Short(needed)) => wanted = needed.max(wanted + 1),
                Err(malformed) => return Ok(Some(Err(malformed))),
            }
        }
    }

    /// Returns the bytes of the current frame.
    pub fn frame_bytes(&self) -> &[u8] {
        let range =
            (self.frame_position - self.window_base) as usize..(self.position - self.window_base) as usize;
        self.window.get(range).unwrap_or_default()
    }

    /// Returns the current frame, whose checksum was verified.
    fn frame(&self) -> Option<Frame<'_>> {
        let start = (self.frame_position - self.window_base) as usize;
        self.format.parse_frame(self.window.get(start..)?).ok().map(|(frame, _)| frame)
    }
}

pub(super) fn damaged(segment: &Segment, position: u64, problem: RecordProblem) -> Error {
    let got = match problem {
        RecordProblem::Short(_) => "the end of the log",
        RecordProblem::Malformed(_) => "bytes that are not a frame of this position",
    };
    segment.file.corrupt(segment.offset_of(position), "a record of the log", got)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Durability;
    use crate::coding::checksum::Secret;
    use crate::device::memory::MemoryDirectory;
    use crate::store::record::RecordLayout;

    const FORMAT: LogFormat = LogFormat {
        layout: RecordLayout { fixed: None, expiring: false },
        database_id: 1,
        secret: Secret::new(2),
    };

    /// Returns a directory with a log of 30 records, whose last bytes are zeros, in several segments, and its end.
    fn filled() -> (Directory, u64) {
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        let log = Log::create(&directory, FORMAT, 1000, 0).unwrap();
        for number in 0..30u8 {
            let record = RecordView { key: &[number], value: Some(&[0; 100]), expires_at_ms: 0 };
            log.append([record].into_iter(), Durability::Written, |_| ()).unwrap();
        }
        (directory, log.end())
    }

    fn open(directory: &Directory, durable: u64) -> Result<(Arc<Log>, Recovered)> {
        let settings = LogSettings { format: FORMAT, segment_bytes: 1000, from: 0, durable };
        Log::open(directory, &settings, &mut |_, _| true)
    }

    fn records(log: &Log) -> Vec<u8> {
        let mut keys = Vec::new();
        log.scan(0, &mut |_, _| true, &mut |_, record| {
            keys.extend_from_slice(record.key);
            Ok(())
        })
        .unwrap();
        keys
    }

    /// Appends zeros to each segment, as a crash leaves them.
    fn reserve(directory: &Directory) {
        for name in directory.list().unwrap() {
            let file = directory.open(&name, Access::Buffered).unwrap();
            file.write(Purpose::Log, file.length().unwrap(), &[0; 5000]).unwrap();
        }
    }

    #[test]
    fn reserved_space_is_neither_torn_nor_damaged_and_is_written_to_after_an_opening() {
        let (directory, end) = filled();
        assert!(directory.list().unwrap().len() > 2);
        for durable in [0, end] {
            reserve(&directory);
            let (log, recovered) = open(&directory, durable).unwrap();
            assert_eq!(recovered, Recovered { end, lost_tail_bytes: 0 });
            assert_eq!(records(&log), (0..30).collect::<Vec<u8>>());
        }
        let (log, _) = open(&directory, end).unwrap();
        let record = RecordView { key: &[30], value: Some(&[1]), expires_at_ms: 0 };
        log.append([record].into_iter(), Durability::Written, |_| ()).unwrap();
        drop(log);
        assert_eq!(records(&open(&directory, end).unwrap().0), (0..31).collect::<Vec<u8>>());
    }

    #[test]
    fn zeros_in_place_of_synced_frames_are_damage_and_of_others_the_torn_end() {
        for is_last in [true, false] {
            let (directory, end) = filled();
            let names = directory.list().unwrap();
            let name = if is_last { &names[names.len() - 1] } else { &names[1] };
            let file = directory.open(name, Access::Buffered).unwrap();
            // The last frame of the segment; all have the same length.
            let frame = vec![0; (end / 30) as usize];
            file.write(Purpose::Log, file.length().unwrap() - end / 30, &frame).unwrap();
            reserve(&directory);
            assert!(matches!(open(&directory, end), Err(Error::Corrupt { .. })), "{name}");
            let (log, recovered) = open(&directory, 0).unwrap();
            assert!(recovered.end < end && (recovered.lost_tail_bytes == 0) == is_last, "{recovered:?}");
            let found = records(&log);
            assert_eq!(found, (0..found.len() as u8).collect::<Vec<u8>>());
        }
    }
}
