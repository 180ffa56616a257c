//! Opens a log: complete frames are kept, and the torn end of what was being written is truncated.
//!
//! 1. The log is examined as for verify and repair. Damage is an error, and nothing is changed then.
//! 2. The torn end of the last segment is truncated, and that is synced. Segments with nothing but the torn end are
//!    removed.
//! 3. If there are segments that are no longer needed, the first needed one is synced: the last of them is the evidence
//!    that it may never have been durable.
//! 4. The directory is synced, so no torn segment comes back behind frames that are written later.
//! 5. The segments that are no longer needed are removed. The log is ready for appends at its end.
//!
//! In a read-only directory the log is left unchanged, and read up to its intact end.

use super::segment::Segment;
use super::slots::SlotTable;
use super::{Log, Shared};
use crate::error::Result;
use crate::health::Health;
use crate::progress::Progress;
use crate::store::examine::{ExaminedLog, ExaminedSegment, LogToExamine, Unreadable};
use crate::store::log_format::{Frame, LogFormat, Slots};
use crate::store::record::RecordView;
use siltstone_device::{Access, Directory, Purpose};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What the open of a log has found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovered {
    /// The end of the log.
    pub end: u64,
    /// The incomplete bytes after it, which were truncated, or are ignored in a read-only directory.
    pub lost_tail_bytes: u64,
}

/// The settings with which a log is opened.
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

/// What is known of the segments of a log of data when it is opened.
pub(in crate::store) struct DataSegments {
    /// The slots of all logs. Those of the finished segments of all of them are taken.
    pub slots: Arc<SlotTable>,
    /// The finished segments of this log, ascending.
    pub finished: Vec<Arc<Segment>>,
}

impl DataSegments {
    /// Takes the slots of the segments that are not finished. Returns these after the finished ones.
    fn and_open(self, segments: Vec<Arc<Segment>>) -> Result<Vec<Arc<Segment>>> {
        self.slots.claim(&segments)?;
        segments.iter().filter(|segment| segment.end().is_some()).for_each(|_| self.slots.add_unfinished());
        let mut all = self.finished;
        all.extend(segments);
        Ok(all)
    }
}

impl Log {
    /// Opens the log of a directory: verifies every frame from `from` on, truncates a torn end, and removes segments
    /// that are no longer needed. In a read-only directory nothing is changed, and a torn end is ignored.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) if anything that was synced is damaged or missing; nothing is changed
    /// then.
    pub fn open(
        directory: &Directory,
        settings: &LogSettings,
        progress: &mut Progress<'_>,
    ) -> Result<(Arc<Log>, Recovered)> {
        Self::open_in(directory, settings, &Arc::default(), progress)
    }

    /// Like [`open`](Log::open), with a health that logs share.
    pub(crate) fn open_in(
        directory: &Directory,
        settings: &LogSettings,
        health: &Arc<Health>,
        progress: &mut Progress<'_>,
    ) -> Result<(Arc<Log>, Recovered)> {
        let shared = Shared { health: health.clone(), slots: None };
        Self::open_with(directory, settings, shared, None, progress)
    }

    /// Opens a log of data with its finished segments. The log is needed from the end of the last segment that was ever
    /// finished, where a durable segment begins. Segments before that which are not among the finished ones are
    /// removed.
    pub(in crate::store) fn open_data(
        directory: &Directory,
        settings: &LogSettings,
        health: &Arc<Health>,
        data: DataSegments,
        progress: &mut Progress<'_>,
    ) -> Result<(Arc<Log>, Recovered)> {
        let shared = Shared { health: health.clone(), slots: Some(data.slots.clone()) };
        Self::open_with(directory, settings, shared, Some(data), progress)
    }

    fn open_with(
        directory: &Directory,
        settings: &LogSettings,
        shared: Shared,
        data: Option<DataSegments>,
        progress: &mut Progress<'_>,
    ) -> Result<(Arc<Log>, Recovered)> {
        let LogSettings { format, segment_bytes, from, durable } = *settings;
        let log = LogToExamine { format, from, durable, begins_durably: data.is_some() };
        let total = log.bytes(directory)?;
        let mut done = 0;
        let mut examined = log.examine(directory, Unreadable::Fails, &mut |bytes| {
            done = total.min(done + bytes);
            progress(done, total)
        })?;
        // Before anything is changed: a repair reads the log as the crash has left it.
        if let Some((_, damage)) = examined.damage.first() {
            return Err(damage.error());
        }
        if let Some(data) = &data {
            let finished = &data.finished;
            // Finished segments before `from` belong to the log of data. Only the others are dead.
            examined.dead.retain(|base| finished.binary_search_by_key(base, |segment| segment.base).is_err());
        }
        let segments = match directory.is_read_only() {
            true => sound_segments(directory, &format, &examined)?,
            false => carry_out(directory, &format, &examined)?,
        };
        // All but the last are complete: each ends where the next one begins.
        for pair in segments.windows(2) {
            pair[0].complete(pair[1].base);
        }
        let segments: Vec<_> = segments.into_iter().map(Arc::new).collect();
        let segments = match data {
            Some(data) => data.and_open(segments)?,
            None => segments,
        };
        let log = Self::assemble(directory, format, segment_bytes, shared, segments, examined.end);
        // Records after `durable` may be in the page cache only, so the first sync covers their segments too.
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
        self.scan_segments(from, progress, &mut |_, position, record, _| visit(position, record))
    }

    /// Like [`scan`](Log::scan); also passes the segment of each record, and whether it was moved.
    pub(in crate::store) fn scan_segments(
        &self,
        from: u64,
        progress: &mut Progress<'_>,
        visit: &mut dyn FnMut(&Segment, u64, &RecordView<'_>, bool) -> Result<()>,
    ) -> Result<()> {
        // In this order: frames written before `end` are in these segments, though later segments may be added.
        let end = self.written.load(Ordering::Acquire);
        let segments = self.segments.read();
        let (total, mut done) = (end.saturating_sub(from), 0);
        let mut advance = |bytes| {
            done = total.min(done + bytes);
            progress(done, total)
        };
        for segment in &segments.0 {
            let positions = segment.base.max(from)..segment.end().unwrap_or(end);
            segment.frames(&self.format, positions, &mut advance, &mut |position, frame, _| match frame {
                Frame::Record { record, is_moved, .. } => visit(segment, position, &record, is_moved),
                Frame::SyncMarker(_) | Frame::OrderMarker(_) => Ok(()),
            })?;
        }
        Ok(())
    }
}

fn open_segment(directory: &Directory, format: &LogFormat, found: &ExaminedSegment) -> Result<Segment> {
    let ExaminedSegment { base, slots, records, order, .. } = *found;
    let file = directory.open(&format.segment_name(base), Access::Buffered)?;
    let segment = Segment::new(file, &format.header(base, slots));
    segment.records.store(records, Ordering::Relaxed);
    if let Some(order) = order {
        segment.order.store(order, Ordering::Relaxed);
    }
    Ok(segment)
}

/// Returns the segments with the intact part, or the one that it follows.
fn sound_segments(directory: &Directory, format: &LogFormat, examined: &ExaminedLog) -> Result<Vec<Segment>> {
    match (&examined.segments[..], &examined.dead[..]) {
        // A log has at least one segment, and none may be created here: the last dead one ends where the log begins.
        ([], [.., last]) => {
            open_segment(directory, format, &ExaminedSegment::new(*last, *last)).map(|segment| vec![segment])
        }
        (segments, _) => segments.iter().map(|segment| open_segment(directory, format, segment)).collect(),
    }
}

/// Truncates the torn end and removes unneeded segments, durably: torn bytes must never appear after frames that will
/// be written at the end.
fn carry_out(directory: &Directory, format: &LogFormat, examined: &ExaminedLog) -> Result<Vec<Segment>> {
    let mut segments = Vec::new();
    for segment in &examined.segments {
        segments.push(open_segment(directory, format, segment)?);
    }
    if let (Some(last), Some(found)) = (segments.last(), examined.segments.last())
        && found.end > examined.end
    {
        last.file().truncate(last.offset_of(examined.end))?;
        last.file().sync(Purpose::Recover)?;
    }
    // They begin after the end, where a new segment could get the same name.
    for torn in &examined.torn {
        directory.remove(&format.segment_name(torn.base))?;
    }
    if segments.is_empty() {
        // Only for a log without slots: one of data without its first segment is damaged.
        segments.push(Log::create_segment(directory, format, examined.end, Slots::default())?);
    }
    if !examined.dead.is_empty() {
        // The last dead segment is the evidence that the first live one may never have been durable: before it is
        // removed, that one must be.
        segments[0].file().sync(Purpose::Recover)?;
    }
    if !examined.torn.is_empty() || !examined.dead.is_empty() {
        directory.sync(Purpose::Recover)?;
    }
    examined.dead.iter().try_for_each(|base| directory.remove(&format.segment_name(*base)))?;
    Ok(segments)
}

#[cfg(test)]
mod tests {
    use super::super::READ_BYTES_GUESS;
    use super::*;
    use crate::batch::Durability;
    use crate::error::Error;
    use crate::key::RecordLayout;
    use siltstone_device::AlignedBuffer;
    use siltstone_device::memory::MemoryDirectory;
    use siltstone_index::coding::checksum::Secret;

    const FORMAT: LogFormat =
        LogFormat::new(RecordLayout { fixed: None, expiring: false }, 1, Secret::new(2));

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

    #[test]
    fn gets_after_an_opening_read_no_more_than_the_longest_record_read_before() {
        let (directory, end) = filled();
        let (log, _) = open(&directory, end).unwrap();
        let mut positions = Vec::new();
        log.scan(0, &mut |_, _| true, &mut |position, _| {
            positions.push(position);
            Ok(())
        })
        .unwrap();
        let mut buffer = AlignedBuffer::default();
        for position in &positions {
            log.view().read(Purpose::Get, *position, &mut buffer).unwrap();
        }
        // Only the first one reads as much as for a record of unknown length.
        let gets = directory.io().of(Purpose::Get);
        let frame_bytes = positions[1] - positions[0];
        assert_eq!(gets.reads, 30);
        assert!(gets.read_bytes < READ_BYTES_GUESS as u64 + 30 * frame_bytes, "{}", gets.read_bytes);
    }
}
