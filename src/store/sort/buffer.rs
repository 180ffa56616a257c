//! Records in memory, sorted in hash order: the beginning of every run.

use crate::error::Result;
use crate::key::KeyHash;
use crate::store::merge::{Cursor, PlacedRecord};
use crate::store::record::{RecordShape, RecordSpan, RecordView};
use std::cmp::Ordering;
use std::sync::Arc;

/// The share of the limit by which memory grows at a time; doubling could exceed the limit.
const GROWTH_SHARE: usize = 16;

/// The place of a record in the buffer: its placement, and where its bytes begin.
type BufferedRecord = (u64, usize);

/// Records up to a limit of memory.
pub(super) struct SortBuffer {
    shape: RecordShape,
    limit_bytes: usize,
    /// The records in stream form, in the order in which they were pushed.
    bytes: Vec<u8>,
    places: Vec<BufferedRecord>,
}

impl SortBuffer {
    pub fn new(shape: RecordShape, limit_bytes: usize) -> Self {
        SortBuffer { shape, limit_bytes, bytes: Vec::new(), places: Vec::new() }
    }

    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns the bytes of all records.
    pub fn record_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether a record of at most this many bytes in stream form fits within the limit.
    pub fn has_room(&self, record_bytes: usize) -> bool {
        // The places count too: they take 16 bytes per record.
        let places = (self.places.len() + 1) * size_of::<BufferedRecord>();
        self.bytes.len() + record_bytes + places <= self.limit_bytes
    }

    pub fn push(&mut self, record: &RecordView<'_>, record_bytes_max: usize) {
        // Before the record is encoded, because `Vec` would double the memory and exceed the limit.
        let step = self.limit_bytes / GROWTH_SHARE;
        grow(&mut self.bytes, record_bytes_max, step);
        grow(&mut self.places, 1, step / size_of::<BufferedRecord>());
        // Only the placement is kept of the hash. For equal ones, `compare_keys` computes the hash again.
        self.places.push((self.shape.hasher.hash(record.key).placement, self.bytes.len()));
        self.shape.layout.encode_stream(record, 0, &mut self.bytes);
    }

    /// Sorts the records by hash, then by key, and those of a key from the newest on.
    pub fn sort(&mut self) {
        // Taken, because the comparison reads the bytes of `self`.
        let mut places = std::mem::take(&mut self.places);
        // Of equal keys the one that was pushed last comes first, because a merge keeps the first record of a key.
        places.sort_unstable_by(|one, other| {
            one.0.cmp(&other.0).then_with(|| self.compare_keys(one.1, other.1)).then(other.1.cmp(&one.1))
        });
        self.places = places;
    }

    fn compare_keys(&self, one: usize, other: usize) -> Ordering {
        let key = |at: usize| self.record(at).map(|record| (self.shape.hasher.hash(record.key), record.key));
        key(one).cmp(&key(other))
    }

    fn record(&self, at: usize) -> Option<RecordView<'_>> {
        let decoded = self.shape.layout.decode_stream(self.bytes.get(at..)?);
        decoded.ok().map(|(_, record, _)| record)
    }

    /// Removes the records and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
    }

    pub fn heap_bytes(&self) -> usize {
        self.bytes.capacity() + self.places.capacity() * size_of::<BufferedRecord>()
    }
}

/// Reserves space for `more` elements, in steps.
fn grow<T>(elements: &mut Vec<T>, more: usize, step: usize) {
    if elements.capacity() - elements.len() < more {
        // At least a step, so that a push seldom copies the records.
        elements.reserve_exact(more.max(step));
    }
}

/// The records of a sorted buffer.
pub(super) struct BufferCursor {
    buffer: Arc<SortBuffer>,
    next: usize,
    current: Option<(KeyHash, RecordSpan)>,
}

impl BufferCursor {
    pub fn new(buffer: Arc<SortBuffer>) -> Self {
        BufferCursor { buffer, next: 0, current: None }
    }
}

impl Cursor for BufferCursor {
    fn advance(&mut self) -> Result<bool> {
        let place = self.buffer.places.get(self.next);
        self.current = place.and_then(|&(_, at)| self.buffer.record(at)).map(|record| {
            (self.buffer.shape.hasher.hash(record.key), RecordSpan::within(&self.buffer.bytes, &record))
        });
        self.next += 1;
        Ok(self.current.is_some())
    }

    fn entry(&self) -> Option<PlacedRecord<'_>> {
        let (hash, span) = self.current.as_ref()?;
        Some(PlacedRecord { hash: *hash, record: span.view(&self.buffer.bytes) })
    }

    fn heap_bytes(&self) -> usize {
        self.buffer.heap_bytes()
    }
}
