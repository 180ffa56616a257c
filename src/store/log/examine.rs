//! Verifies a log that is open.

use super::Log;
use crate::error::Result;
use crate::store::examine::{Advance, ExaminedLog, ExaminedSegment, Found, LogToExamine};
use siltstone_device::Access;
use std::sync::atomic::Ordering;

impl Log {
    /// Reads every frame at or after `from` that is written, and checks that the segments still exist under their
    /// names.
    pub fn examine(&self, from: u64, advance: &mut Advance<'_>) -> Result<ExaminedLog> {
        // In this order: frames written before `end` are in these segments, though later segments may be added.
        let end = self.written.load(Ordering::Acquire);
        let held = self.segments.read();
        let segment_end = |end_of: Option<u64>| end_of.unwrap_or(end);
        // While they are held, segments that are released are not truncated.
        let segments: Vec<ExaminedSegment> = held
            .0
            .iter()
            .map(|segment| ExaminedSegment::new(segment.base, segment_end(segment.end())))
            .filter(|segment| segment.end > from)
            .collect();
        // The part before the first of them was released since `from` was determined.
        let from = from.max(segments.first().map_or(end, |first| first.base));
        let log = LogToExamine { format: self.format, from, durable: end, begins_durably: false };
        log.examine_open(&self.directory, &segments, &mut |segment| self.find(segment), advance)
    }

    fn find(&self, wanted: ExaminedSegment) -> Result<Found> {
        match self.directory.open(&self.format.segment_name(wanted.base), Access::Buffered) {
            Ok(file) => Ok(Found::File(file)),
            Err(error) if error.is_not_found() => {
                Ok(if self.has_segment(wanted.base) { Found::Missing } else { Found::Released })
            }
            Err(error) => Err(error.into()),
        }
    }
}
