//! The log that all LogStores of a database share (SILT 3.1): an append-only sequence of records, cut into segments.
//!
//! A *position* is the place of a frame in the whole sequence since the database was created, in bytes. Segments whose
//! records were all converted are removed. One log for all partitions keeps writing sequential, makes a batch over
//! several partitions one piece, and lets writers that wait for a sync share it. The paper has one log a LogStore.

mod copy;
mod examine;
pub mod format;
mod recovery;
mod segment;

pub use recovery::{LogSettings, Recovered};
pub use segment::LogView;

use crate::batch::Durability;
use crate::device::{Access, Directory, Purpose};
use crate::health::{FailStop, Health};
use crate::store::names::FileName;
use crate::store::record::RecordView;
use crate::sync::RwLock;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::{Error, Result};
use format::{LogFormat, MARKER_BYTES, SEGMENT_HEADER_BYTES};
use segment::{Segment, Segments};
use std::sync::Arc;

/// What may wait in memory before it is written, in bytes.
const BUFFER_BYTES_MAX: usize = 64 << 10;
/// What is read at first of a record whose size is not known, in bytes, at the most.
const READ_BYTES_GUESS: usize = 4096;

/// The log. Appends are serialised by a lock, which reads take only for records that are not yet written; otherwise
/// they look up the list of segments under a shared lock.
pub struct Log {
    directory: Directory,
    format: LogFormat,
    segment_bytes: u64,
    segments: RwLock<Arc<Segments>>,
    health: Arc<Health>,
    tail: FailStop<Tail>,
    /// Everything before this position can be read from the files.
    written: AtomicU64,
    /// Everything before this position survives a loss of power.
    synced: AtomicU64,
    /// Between `synced` and this position there is no record.
    recordless: AtomicU64,
    syncing: FailStop<Syncing>,
    /// What may wait in memory before it is written, in bytes.
    buffer_bytes_max: AtomicUsize,
    /// The longest frame so far, up to what is read at a time.
    frame_bytes: AtomicUsize,
}

/// The end of the log: what was appended and not yet written.
struct Tail {
    segment: Arc<Segment>,
    /// The position of the first byte of `buffer`.
    buffer_base: u64,
    buffer: Vec<u8>,
    writeback_base: u64,
}

impl Tail {
    fn end(&self) -> u64 {
        self.buffer_base + self.buffer.len() as u64
    }
}

/// What the next sync has to cover.
struct Syncing {
    /// Everything from the segment that holds this position on is unsynced.
    from: u64,
    directory_base: u64,
}

/// The name of the segment whose first frame has this position.
pub(in crate::store) fn segment_name(base: u64) -> String {
    FileName::Segment(base).to_string()
}

impl Log {
    /// Starts an empty log at `position`.
    pub fn create(
        directory: &Directory,
        format: LogFormat,
        segment_bytes: u64,
        position: u64,
    ) -> Result<Log> {
        let segment = Self::create_segment(directory, &format, position)?;
        Ok(Self::assemble(directory, format, segment_bytes, vec![Arc::new(segment)], position))
    }

    fn assemble(
        directory: &Directory,
        format: LogFormat,
        segment_bytes: u64,
        segments: Vec<Arc<Segment>>,
        end: u64,
    ) -> Log {
        let last = segments[segments.len() - 1].clone();
        let first_base = segments[0].base;
        let health = Arc::new(Health::default());
        Log {
            directory: directory.clone(),
            format,
            segment_bytes,
            segments: RwLock::new(Arc::new(Segments(segments))),
            tail: FailStop::new(
                &health,
                Tail { segment: last, buffer_base: end, buffer: Vec::new(), writeback_base: end },
            ),
            written: AtomicU64::new(end),
            synced: AtomicU64::new(0),
            recordless: AtomicU64::new(0),
            syncing: FailStop::new(&health, Syncing { from: first_base, directory_base: 0 }),
            health,
            buffer_bytes_max: AtomicUsize::new(BUFFER_BYTES_MAX),
            frame_bytes: AtomicUsize::new(0),
        }
    }

    /// Takes over that everything before `durable` was synced before the log was opened, and whether there is no record
    /// behind it: nothing has to be synced then.
    fn start_synced(&self, durable: u64, is_all: bool) -> Result<()> {
        self.synced.store(durable, Ordering::Release);
        if is_all {
            self.recordless.store(self.end(), Ordering::Release);
        }
        self.syncing.run(|syncing| {
            syncing.from = syncing.from.max(durable);
            Ok(())
        })
    }

    /// Makes a log that begins at `position` and holds nothing, durably once the directory is synced.
    pub fn begin(directory: &Directory, format: &LogFormat, position: u64) -> Result<String> {
        Self::create_segment(directory, format, position)?.file.sync(Purpose::Recover)?;
        Ok(segment_name(position))
    }

    fn create_segment(directory: &Directory, format: &LogFormat, base: u64) -> Result<Segment> {
        let file = directory.create(&segment_name(base), Access::Buffered)?;
        file.write(Purpose::Log, 0, &format.header(base).encode())?;
        Ok(Segment::new(file, base))
    }

    /// The position where the next frame will stand.
    pub fn end(&self) -> u64 {
        self.tail.look(Tail::end)
    }

    /// Whether anything of the log failed. The engine records its own failures there too.
    pub(crate) fn health(&self) -> &Arc<Health> {
        &self.health
    }

    /// The position before which everything survives a loss of power.
    pub fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    /// Appends the records of one batch and gives the position of each to `place`. They are written, not only buffered,
    /// unless `durability` is `Buffered`; syncing is [`sync_to`](Log::sync_to)'s part. On an error nothing of the batch
    /// counts as appended, and the log refuses all writes and syncs that follow.
    pub fn append<'a>(
        &self,
        records: impl ExactSizeIterator<Item = RecordView<'a>>,
        durability: Durability,
        mut place: impl FnMut(u64),
    ) -> Result<u64> {
        self.tail.run(|tail| {
            if tail.end() - tail.segment.base >= self.segment_bytes {
                self.start_segment(tail)?;
            }
            let mut left = records.len();
            for record in records {
                left -= 1;
                let position = tail.end();
                let start = tail.buffer.len();
                self.format.encode_record(position, &record, left > 0, &mut tail.buffer);
                let frame_bytes = (tail.buffer.len() - start).min(READ_BYTES_GUESS);
                if frame_bytes > self.frame_bytes.load(Ordering::Relaxed) {
                    self.frame_bytes.store(frame_bytes, Ordering::Relaxed);
                }
                place(position);
            }
            let end = tail.end();
            if durability != Durability::Buffered
                || tail.buffer.len() >= self.buffer_bytes_max.load(Ordering::Relaxed)
            {
                self.flush(tail)?;
            }
            Ok(end)
        })
    }

    /// Lets no more bytes wait in memory before they are written; by default, and at the most, 64 KiB.
    pub fn limit_buffer(&self, bytes: usize) {
        self.buffer_bytes_max.store(bytes.min(BUFFER_BYTES_MAX), Ordering::Relaxed);
    }

    fn flush(&self, tail: &mut Tail) -> Result<()> {
        if tail.buffer.is_empty() {
            return Ok(());
        }
        let offset = tail.segment.offset_of(tail.buffer_base);
        tail.segment.file.write(Purpose::Log, offset, &tail.buffer)?;
        tail.buffer_base += tail.buffer.len() as u64;
        tail.buffer.clear();
        tail.buffer.shrink_to(self.buffer_bytes_max.load(Ordering::Relaxed));
        self.written.store(tail.buffer_base, Ordering::Release);
        if tail.buffer_base - tail.writeback_base >= self.directory.writeback_bytes() {
            let start = tail.segment.offset_of(tail.writeback_base);
            tail.segment.file.start_writeback(start, tail.buffer_base - tail.writeback_base);
            tail.writeback_base = tail.buffer_base;
        }
        Ok(())
    }

    fn start_segment(&self, tail: &mut Tail) -> Result<()> {
        self.flush(tail)?;
        let base = tail.buffer_base;
        let segment = Arc::new(Self::create_segment(&self.directory, &self.format, base)?);
        tail.segment.finish(base);
        tail.segment = segment.clone();
        tail.writeback_base = base;
        let mut segments = self.segments.write();
        let mut list = segments.0.clone();
        list.push(segment);
        *segments = Arc::new(Segments(list));
        Ok(())
    }

    /// Returns when everything before `position` survives a loss of power. Callers that wait at the same time share
    /// one sync. If it fails, all of them are refused: the system may have dropped what it could not write, and another
    /// sync would succeed without it.
    pub fn sync_to(&self, position: u64) -> Result<()> {
        if self.synced() >= position {
            return Ok(());
        }
        self.syncing.run(|syncing| {
            if self.synced() >= position {
                return Ok(());
            }
            let target = self.tail.run(|tail| {
                self.flush(tail)?;
                Ok(tail.buffer_base)
            })?;
            let segments = self.segments.read().clone();
            for segment in segments.0.iter().filter(|segment| segment.base < target) {
                let end = segment.end().unwrap_or(target);
                if end > syncing.from || segment.base >= syncing.from {
                    segment.file.sync(Purpose::Log)?;
                }
            }
            let last_base = segments.0.last().map_or(0, |segment| segment.base);
            if syncing.directory_base <= last_base {
                self.directory.sync(Purpose::Log)?;
                syncing.directory_base = last_base + 1;
            }
            syncing.from = target;
            self.synced.store(target, Ordering::Release);
            self.mark(target)
        })
    }

    /// Writes down that the log is synced up to `synced`: what is damaged before it is then known to be no torn end.
    fn mark(&self, synced: u64) -> Result<()> {
        self.tail.run(|tail| {
            let position = tail.end();
            self.format.encode_sync_marker(position, synced, &mut tail.buffer);
            if position == synced {
                self.recordless.store(position + MARKER_BYTES as u64, Ordering::Release);
            }
            self.flush(tail)
        })
    }

    /// Whether all records survive a loss of power.
    pub fn is_synced(&self) -> bool {
        let end = self.end();
        self.synced() >= end || self.recordless.load(Ordering::Acquire) == end
    }

    /// Starts a new segment, unless the last one is empty, so that all before can be released once it is converted.
    pub fn start_new_segment(&self) -> Result<()> {
        self.tail.run(|tail| if tail.end() == tail.segment.base { Ok(()) } else { self.start_segment(tail) })
    }

    /// Writes what is buffered.
    pub fn write_buffered(&self) -> Result<()> {
        self.tail.run(|tail| self.flush(tail))
    }

    /// Removes segments that hold nothing at or behind `position`, except the last that is known to be durable.
    pub fn release_before(&self, position: u64) -> Result<()> {
        let synced = self.synced();
        let released = {
            let mut segments = self.segments.write();
            let released: Vec<_> = segments
                .0
                .iter()
                .filter(|segment| segment.end().is_some_and(|end| end <= position && end < synced))
                .cloned()
                .collect();
            if released.is_empty() {
                return Ok(());
            }
            *segments = Arc::new(Segments(segments.0[released.len()..].to_vec()));
            released
        };
        released.iter().try_for_each(|segment| self.directory.remove(&segment_name(segment.base)))
    }

    /// The log as it is now, for reading: its segments stay readable as long as the view is held.
    pub fn view(self: &Arc<Self>) -> LogView {
        LogView::new(self.clone(), self.segments.read().clone())
    }

    /// The bytes of all segments on flash.
    pub fn disk_bytes(&self) -> u64 {
        let segments = self.segments.read();
        let first = segments.0.first().map_or(0, |segment| segment.base);
        let headers = segments.0.len() * SEGMENT_HEADER_BYTES;
        self.written.load(Ordering::Acquire) - first + headers as u64
    }

    /// The memory held, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.tail.look(|tail| tail.buffer.capacity())
    }

    fn path_error(&self, problem: impl Into<String>) -> Error {
        Error::Corrupt {
            file: self.directory.path().join("log"),
            offset: 0,
            expected: "a position within the log".into(),
            got: problem.into(),
        }
    }
}
