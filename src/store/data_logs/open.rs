//! Creates and opens the logs. An open does this:
//!
//! 1. The headers of the finished segments are read, and their slots are taken. Their frames are not read.
//! 2. In each class, every frame behind the last finished segment is verified. Damage before what is known to be synced
//!    is an error. A torn end is cut off, durably, before anything is appended.
//! 3. Segments before that which are not among the finished ones were released. They are removed.

use super::{CLASSES, DataLogs, FinishedSegment, OPENING, Shared};
use crate::error::{CorruptFile, Error, Result};
use crate::health::Health;
use crate::key::RecordLayout;
use crate::names::LogClass;
use crate::progress::Progress;
use crate::store::log::{DataSegments, Log, LogSettings, Segment, SlotTable};
use crate::store::log_format::{LOG_VERSION, LogFormat, SEGMENT_HEADER_BYTES, SegmentHeader, Slots};
use crate::store::read_batches::ReadBatches;
use siltstone_device::{Directory, File, ReadRequest, read_batch};
use siltstone_index::coding::checksum::Secret;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The number of headers that are read together.
const HEADERS_MAX: usize = 64;

/// The settings of the logs, which never change.
#[derive(Debug, Clone, Copy)]
pub struct DataLogSettings {
    /// The layout of the records.
    pub layout: RecordLayout,
    /// The id of the database.
    pub database_id: u64,
    /// The secret that the checksums of frames start with.
    pub secret: Secret,
    /// The unit of the lengths of frames, in bytes: 1 to 65,536.
    pub unit_bytes: u32,
    /// The bytes of frames in a slot. A segment has one slot, or more for a longer batch.
    pub segment_bytes: u64,
    /// The number of logs of moved records: 1 to 3.
    pub moved: u8,
}

/// What an open of the logs has found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecoveredLogs {
    /// The end of each log.
    pub ends: [u64; CLASSES],
    /// The incomplete bytes after all ends, which were truncated, or are ignored in a read-only directory.
    pub lost_tail_bytes: u64,
}

impl DataLogSettings {
    /// Returns the format of the log of class `User`.
    pub fn format(&self) -> LogFormat {
        let plain = LogFormat::new(self.layout, self.database_id, self.secret);
        LogFormat { unit_bytes: self.unit_bytes, ..plain }
    }

    /// Returns the unit of the lengths of frames, in bytes, at least 1.
    pub fn unit_bytes(&self) -> u64 {
        u64::from(self.unit_bytes.max(1))
    }

    /// Returns the number of units of a slot.
    pub fn units_per_slot(&self) -> u64 {
        self.segment_bytes.div_ceil(self.unit_bytes()).max(1)
    }

    /// Returns the format of each log.
    pub(super) fn formats(&self) -> impl Iterator<Item = LogFormat> {
        let format = self.format();
        (0..=self.moved.min(LogClass::MOVED_MAX))
            .filter_map(LogClass::from_number)
            .map(move |class| format.of(class))
    }
}

impl DataLogs {
    /// Creates empty logs. They are durable once the directory is synced.
    pub fn create(directory: &Directory, settings: &DataLogSettings) -> Result<()> {
        for (format, first) in settings.formats().zip(0..) {
            // A slot for each, because no two segments of a database share one.
            Log::begin_in(directory, &format, 0, Slots { first, count: 1 })?;
        }
        Ok(())
    }

    /// Opens the logs. `finished` has the finished segments that were not released, `finished_to` where the last
    /// finished segment of each class ended, and `synced` up to where each log is known to be synced. Verifies every
    /// frame of the segments that are not finished, truncates torn ends, and removes segments that were released. In a
    /// read-only directory nothing is changed.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if a segment is missing, or anything that was synced is damaged. The frames of finished
    /// segments are not read.
    pub fn open(
        directory: &Directory,
        settings: &DataLogSettings,
        finished: &[FinishedSegment],
        finished_to: [u64; CLASSES],
        synced: [u64; CLASSES],
        health: &Arc<Health>,
        progress: &mut Progress<'_>,
    ) -> Result<(DataLogs, RecoveredLogs)> {
        let slots = Arc::new(SlotTable::new(settings.unit_bytes, settings.segment_bytes));
        let mut segments = Vec::with_capacity(finished.len());
        for some in finished.chunks(HEADERS_MAX) {
            segments.extend(open_finished(directory, settings, some)?);
        }
        // Before any log takes the slots of its other segments: one of these with the slots of a finished segment is
        // damage.
        slots.claim(&segments)?;
        // Moved records are appended in long pieces, which a mapping does not make cheaper.
        let unmapped = directory.clone().map_appends(false);
        let (mut logs, mut recovered) = (Vec::new(), RecoveredLogs::default());
        let ends = finished_to.into_iter().zip(synced).zip(&mut recovered.ends);
        for (format, ((from, synced), end)) in settings.formats().zip(ends) {
            let mut finished: Vec<_> =
                segments.iter().filter(|segment| segment.class == format.class).cloned().collect();
            finished.sort_unstable_by_key(|segment| segment.base);
            // A segment is finished only after it was synced, so each log is durable up to there.
            let durable = synced.max(from);
            let log_settings = LogSettings { format, segment_bytes: settings.segment_bytes, from, durable };
            let data = DataSegments { slots: slots.clone(), finished };
            let directory = if format.class == LogClass::User { directory } else { &unmapped };
            let (log, found) = Log::open_data(directory, &log_settings, health, data, progress)?;
            *end = found.end;
            // The table counts complete segments. This is the one that grows.
            slots.add_bytes(log.last_bytes());
            recovered.lost_tail_bytes += found.lost_tail_bytes;
            logs.push(log);
        }
        let shared = Arc::new(Shared { logs, slots, batches: ReadBatches::default() });
        let format = settings.format();
        let logs = DataLogs { directory: directory.clone(), format, health: health.clone(), shared };
        Ok((logs, recovered))
    }
}

/// Opens finished segments, with one batch of reads for their headers.
fn open_finished(
    directory: &Directory,
    settings: &DataLogSettings,
    finished: &[FinishedSegment],
) -> Result<Vec<Arc<Segment>>> {
    let mut files = Vec::with_capacity(finished.len());
    for segment in finished {
        files.push(open_file(directory, settings, segment)?);
    }
    let reads = files.iter().map(|(file, _)| ReadRequest { file, offset: 0, length: SEGMENT_HEADER_BYTES });
    let mut headers = vec![None; files.len()];
    read_batch(OPENING, &reads.collect::<Vec<_>>(), &mut Vec::new(), |number, bytes| {
        headers[number] = SegmentHeader::decode(bytes?);
        Ok::<_, Error>(())
    })?;
    let mut segments = Vec::with_capacity(finished.len());
    for (((file, header), decoded), wanted) in files.into_iter().zip(headers).zip(finished) {
        let (version, found) = decoded.unwrap_or((LOG_VERSION, None));
        if version != LOG_VERSION {
            let file = file.path().to_owned();
            return Err(Error::Version { file, found: version, supported: LOG_VERSION });
        }
        // A file of this name may be of another database, or of an older copy.
        if found != Some(header) {
            let got = found.map_or("other bytes".into(), |found| format!("{found:?}"));
            return Err(file.corrupt(0, format!("the header of a segment: {header:?}"), got));
        }
        let segment = Segment::new(file, &header);
        segment.complete(wanted.end);
        // The file was opened with the access of finished segments already.
        segment.set_finished(None);
        segment.records.store(wanted.records, Relaxed);
        segment.order.store(wanted.order, Relaxed);
        segments.push(Arc::new(segment));
    }
    Ok(segments)
}

/// Opens the file of a finished segment. Returns its expected header as well.
fn open_file(
    directory: &Directory,
    settings: &DataLogSettings,
    wanted: &FinishedSegment,
) -> Result<(File, SegmentHeader)> {
    let FinishedSegment { class, base, end, slot: first, slots: count, database_id, .. } = *wanted;
    let class = LogClass::from_number(class).filter(|_| class <= settings.moved);
    let format = class.map(|class| LogFormat { database_id, ..settings.format().of(class) });
    let Some(format) = format.filter(|_| base < end) else {
        return Err(Error::Corrupt {
            file: directory.path(),
            offset: 0,
            expected: "a finished segment of a log of the database".into(),
            got: format!("{wanted:?}"),
        });
    };
    let name = format.segment_name(base);
    let file = match directory.open(&name, directory.access()) {
        Ok(file) => file,
        Err(error) if error.is_not_found() => {
            return Err(Error::Corrupt {
                file: directory.path_of(&name),
                offset: 0,
                expected: "the file of a finished segment named by the manifest".into(),
                got: "no such file".into(),
            });
        }
        Err(error) => return Err(error.into()),
    };
    let (length, expected) = (file.length()?, SEGMENT_HEADER_BYTES as u64 + (end - base));
    // The segment was synced before the manifest named it, so no crash makes it shorter.
    if length < expected {
        let got = format!("{length} bytes");
        return Err(file.corrupt(length, format!("a segment of {expected} bytes"), got));
    }
    Ok((file, format.header(base, Slots { first, count })))
}
