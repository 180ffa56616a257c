//! Records of one partition, read from the log that it shares with the others in large pieces.
//!
//! ```text
//! log     ... | a | x | y | b | x | x | c | y | a ...    x, y: of other partitions
//!             <------ one read ------>
//! batch       a b c a                                    in memory, to be returned in hash order
//! ```
//!
//! A read of one short record from the page cache takes as much time as some kilobytes of one long read. So the records
//! of a LogStore are read in a few passes over its part of the log, each for as many records in hash order as the
//! batch holds.

use crate::store::log::LogView;
use crate::store::log_format::{FRAME_CRC_BYTES, Frame};
use crate::store::log_store::FrozenLog;
use crate::store::record::{RecordProblem, RecordView};
use siltstone_device::{AlignedBuffer, Purpose};
use std::ops::Range;

/// The most bytes that are read per record, with all passes. Where more are needed, records are read one by one.
const READ_BYTES_MAX: u64 = 3 << 10;
/// With more passes the batch would hardly be smaller.
const PASSES_MAX: u64 = 8;
/// A batch is longer by one part in this many than its records are on average.
const SPARE_SHARE: u64 = 4;
/// A read takes one part in this many of the batch.
const PIECE_SHARE: usize = 8;
/// The limits of a read, in bytes. No read is longer than the batch.
const PIECE_BYTES_MIN: usize = 16 << 10;
const PIECE_BYTES_MAX: usize = 64 << 10;

/// The frames of some records.
pub(super) struct LogBatch {
    /// The number of records that should fit.
    records: usize,
    bytes_max: usize,
    bytes: Vec<u8>,
    /// The number of each record, ascending, and where its frame begins.
    places: Vec<(u32, u32)>,
    /// The bytes of the last read, where they begin in it, and their positions.
    window: AlignedBuffer,
    skip: usize,
    held: Range<u64>,
}

impl LogBatch {
    /// Makes a batch for the records of a LogStore of one of `partitions`, with frames of at most `bytes_max` together;
    /// `None` if it costs less to read them one by one.
    pub fn suited(
        view: &LogView,
        frozen: &FrozenLog,
        partitions: usize,
        bytes_max: usize,
    ) -> Option<LogBatch> {
        let (records, span) = (u64::from(frozen.len()), frozen.end() - frozen.start());
        let passes = (READ_BYTES_MAX / span.checked_div(records)?.max(1)).min(PASSES_MAX);
        let records = records.div_ceil(passes.max(1));
        let format = view.format();
        let bytes = match format.layout.fixed {
            Some(_) => records * format.padded(FRAME_CRC_BYTES + format.layout.stream_bytes_max()) as u64,
            None => {
                let mean = span / (partitions.max(1) as u64 * passes.max(1));
                mean + mean / SPARE_SHARE
            }
        };
        // No pass: the records are so far apart that one would read more per record than the limit.
        let bytes = usize::try_from(bytes).ok().filter(|bytes| passes > 0 && *bytes <= bytes_max)?;
        Some(LogBatch {
            records: records as usize,
            bytes_max: bytes,
            bytes: Vec::new(),
            places: Vec::new(),
            window: AlignedBuffer::default(),
            skip: 0,
            held: 0..0,
        })
    }

    /// Returns the number of records that should fit.
    pub fn records(&self) -> usize {
        self.records
    }

    /// Forgets all records.
    pub fn clear(&mut self) {
        self.bytes.clear();
        // Exactly, and once: a vector that grows would take up to twice the memory that the batch may have.
        self.bytes.reserve_exact(self.bytes_max);
        self.places.clear();
        self.places.reserve_exact(self.records);
        self.held = 0..0;
    }

    /// Takes the record at a position, under a number. Both must be higher than those of the last one. A record that
    /// does not fit, cannot be read, or is not intact is left out: then reading it alone returns it or the error.
    pub fn take(&mut self, view: &LogView, purpose: Purpose, number: u32, position: u64) {
        let mut has_read = false;
        loop {
            // Positions ascend, so no piece is needed a second time.
            if !self.held.contains(&position) {
                if !self.read(view, purpose, position) {
                    return;
                }
                has_read = true;
            }
            let start = self.skip + (position - self.held.start) as usize;
            let end = self.skip + (self.held.end - self.held.start) as usize;
            let bytes = self.window.get(start..end).unwrap_or_default();
            match view.format().decode_frame(position, bytes) {
                Ok((Frame::Record { .. }, length)) if self.bytes.len() + length <= self.bytes_max => {
                    self.places.push((number, self.bytes.len() as u32));
                    self.bytes.extend_from_slice(bytes.get(..length).unwrap_or_default());
                    return;
                }
                // It continues after the end of the last read.
                Err(RecordProblem::Short(_)) if !has_read => self.held = 0..0,
                _ => return,
            }
        }
    }

    /// Reads a piece of the log from a position on. Returns whether there is one.
    fn read(&mut self, view: &LogView, purpose: Purpose, position: u64) -> bool {
        let piece_bytes =
            (self.bytes_max / PIECE_SHARE).clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX).min(self.bytes_max);
        self.held = 0..0;
        // The error is not lost: the record is read alone then, which returns it.
        if let Ok(read) = view.read_bytes(purpose, position, piece_bytes, &mut self.window) {
            // Maybe less than a piece: at the end of a segment, where the next record begins in another file.
            self.held = position..position + read.len() as u64;
            self.skip = read.start;
        }
        !self.held.is_empty()
    }

    /// Returns the record with a number.
    pub fn record(&self, view: &LogView, number: u32) -> Option<RecordView<'_>> {
        let at = self.places.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        let bytes = self.bytes.get(self.places.get(at)?.1 as usize..)?;
        // Its checksum was verified when it was taken.
        match view.format().parse_frame(bytes) {
            Ok((Frame::Record { record, .. }, _)) => Some(record),
            _ => None,
        }
    }

    /// Returns the bytes that the spans of records refer to.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the memory, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.bytes.capacity() + self.places.capacity() * size_of::<(u32, u32)>() + self.window.heap_bytes()
    }
}
