//! What a log of data does besides: it keeps segments within their slots, finishes them, and releases them in any
//! order.
//!
//! A complete segment is finished by one thread at a time, under the lock of syncs:
//!
//! 1. What follows its last frame is cut off: reserved space, or the torn end of a crash.
//! 2. The segment is synced, then the next one and the directory. An open reads the log from the end of the segment on,
//!    and requires a durable segment there.
//! 3. Only then does the segment count as finished. Later syncs skip it.
//! 4. The caller commits it to the manifest. After a crash before that, an open examines the segment as one that is not
//!    finished, and it is finished again.
//!
//! A release comes after the commit that drops the segment: it leaves the list, its file is removed, and its slots are
//! free last. Views that have the segment still read it.

use super::segment::{Segment, Segments};
use super::{Log, Tail};
use crate::error::Result;
use crate::store::record::RecordView;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Log {
    /// Starts a segment, unless the present one has space for a batch. Writes an order marker if the segment has none
    /// of this position.
    pub(super) fn make_room<'a>(
        &self,
        tail: &mut Tail,
        order: Option<u64>,
        records: impl ExactSizeIterator<Item = RecordView<'a>>,
    ) -> Result<()> {
        let count = records.len() as u64;
        let mut bytes: u64 = records.map(|record| self.format.record_bytes(&record) as u64).sum();
        if order.is_some() {
            bytes += self.format.marker_bytes() as u64;
        }
        self.make_room_for(tail, bytes)?;
        if let Some(order) = order.filter(|order| tail.order != Some(*order)) {
            if tail.order.is_none() && tail.segment.records.load(Ordering::Relaxed) == 0 {
                tail.segment.order.store(order, Ordering::Relaxed);
            }
            self.format.encode_order_marker(tail.end(), order, &mut tail.buffer);
            tail.order = Some(order);
        }
        tail.segment.records.fetch_add(count, Ordering::Relaxed);
        Ok(())
    }

    /// Starts a segment, unless the present one has space for these bytes. Does nothing in a log without slots.
    pub(super) fn make_room_for(&self, tail: &mut Tail, bytes: u64) -> Result<()> {
        let Some(slots) = &self.slots else { return Ok(()) };
        let used = tail.end() - tail.segment.base;
        let count = tail.segment.slots.count;
        // One for a long batch is filled.
        let is_short = count > 1 || used < slots.segment_bytes();
        if used + bytes <= slots.capacity(count) && is_short {
            return Ok(());
        }
        if used == 0 {
            // Two segments with the same base would have the same name.
            self.format.encode_sync_marker(tail.end(), self.synced(), &mut tail.buffer);
        }
        self.start_segment(tail, bytes)
    }

    /// Returns the finished segments, ascending.
    pub(in crate::store) fn finished_segments(&self) -> Vec<Arc<Segment>> {
        let segments = self.segments.read();
        segments.0.iter().filter(|segment| segment.is_finished()).cloned().collect()
    }

    /// Returns whether there is a segment with this base, which was not released.
    pub(in crate::store) fn has_segment(&self, base: u64) -> bool {
        self.segments.read().0.binary_search_by_key(&base, |segment| segment.base).is_ok()
    }

    /// Returns where the written part of a segment ends, and the frames after it, which are in memory.
    pub(in crate::store) fn unwritten_of(&self, segment: &Segment) -> (u64, Vec<u8>) {
        self.tail.look(|tail| match segment.end() {
            Some(end) => (end, Vec::new()),
            None => (tail.buffer_base, tail.buffer.clone()),
        })
    }

    /// Returns the bytes of frames in the segment that grows.
    pub(in crate::store) fn last_bytes(&self) -> u64 {
        self.tail.look(|tail| tail.end() - tail.segment.base)
    }

    /// Returns where the segment that grows begins: all others end there or before.
    pub(in crate::store) fn last_base(&self) -> u64 {
        self.tail.look(|tail| tail.segment.base)
    }

    /// Finishes the first complete segment that is not finished: makes it durable, and the existence of the next one,
    /// and reads it with the access of the directory from then on. Returns it; `None` if there is none.
    pub(in crate::store) fn finish_segment(&self) -> Result<Option<(Arc<Segment>, u64)>> {
        self.syncing.run(|syncing| {
            let segments = self.segments.read();
            // A complete segment always has a next one: the last one still grows.
            let mut unfinished = segments.0.iter().filter(|segment| !segment.is_finished());
            let Some((segment, next)) = unfinished.next().zip(unfinished.next()) else { return Ok(None) };
            let Some(end) = segment.end() else { return Ok(None) };
            let synced = self.synced();
            // A crash may have left reserved space, or the torn end of a batch that was cut off.
            let (length, wanted) = (segment.file().length()?, segment.offset_of(end));
            if length > wanted {
                segment.file().truncate(wanted)?;
            }
            if synced < end || length > wanted {
                segment.file().sync(self.format.purpose())?;
            }
            // A sync beyond the end has covered the next segment already.
            if synced <= end {
                next.file().sync(self.format.purpose())?;
            }
            if syncing.directory_base <= next.base {
                self.directory.sync(self.format.purpose())?;
                syncing.directory_base = next.base + 1;
            }
            // All segments before it are finished, so everything before its end is durable.
            syncing.from = syncing.from.max(end);
            self.synced.fetch_max(end, Ordering::AcqRel);
            let access = self.directory.access();
            let mut other = None;
            if access.is_direct() {
                other = Some(self.directory.open(&self.format.segment_name(segment.base), access)?);
                segment.file().drop_cache();
            }
            // Only now: what is finished counts as durable, and later syncs skip it.
            segment.set_finished(other);
            if let Some(slots) = &self.slots {
                slots.subtract_unfinished();
            }
            Ok(Some((segment.clone(), end)))
        })
    }

    /// Removes a finished segment, whose slots are free then. Returns whether there was one with this base.
    pub(in crate::store) fn release(&self, base: u64) -> Result<bool> {
        let released = self.segments.change(|segments| {
            let found = segments.0.binary_search_by_key(&base, |segment| segment.base);
            let released = found.ok().and_then(|at| segments.0.get(at)).filter(|found| found.is_finished());
            let rest = || segments.0.iter().filter(|segment| segment.base != base).cloned().collect();
            (released.map(|_| Segments(rest())), released.cloned())
        });
        let Some(released) = released else { return Ok(false) };
        // Views that have the segment still read its file.
        self.directory.remove_open(&self.format.segment_name(base), released.file())?;
        if let Some(slots) = &self.slots {
            slots.remove(&released);
        }
        Ok(true)
    }
}
