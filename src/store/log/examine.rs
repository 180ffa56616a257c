//! Reading all of a log that is open.

use super::Log;
use super::format::{Frame, SEGMENT_HEADER_BYTES};
use crate::Result;
use crate::damage::{Damage, DamagedPart};
use crate::device::{AlignedBuffer, Purpose};
use crate::store::examine::{Advance, Seen, examine_frames};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Damage, and the positions that are lost with it.
type Gap = (Range<u64>, Damage);

impl Log {
    /// Reads every frame at or behind `from`, as far as they are written. Answers how many records are sound, and what
    /// is damaged, each with the positions that are lost with it.
    pub fn examine(&self, from: u64, advance: &mut Advance<'_>) -> Result<(u64, Vec<Gap>)> {
        // In this order: what is written before `end` stands in these segments, though others may follow.
        let end = self.written.load(Ordering::Acquire);
        let segments = self.segments.read().clone();
        let (mut records, mut damage) = (0, Vec::new());
        for segment in &segments.0 {
            let until = segment.end().unwrap_or(end);
            if until <= from {
                continue;
            }
            let (file, base) = (&segment.file, segment.base);
            let mut buffer = AlignedBuffer::default();
            let header = file.read(Purpose::Maintain, 0, SEGMENT_HEADER_BYTES, &mut buffer)?;
            if header != self.format.header(base).encode() {
                let found = Damage::new(file.path(), DamagedPart::LogHeader, 0, SEGMENT_HEADER_BYTES as u64);
                let found = found.because("the header of a segment of the log", "other bytes");
                damage.push((base..base, found));
            }
            examine_frames(file, &self.format, base, base.max(from)..until, advance, &mut |seen| {
                match seen {
                    Seen::Frame { frame: Frame::Record { .. }, .. } => records += 1,
                    Seen::Frame { .. } => {}
                    Seen::Gap { positions, key } => {
                        let (offset, length) =
                            (segment.offset_of(positions.start), positions.end - positions.start);
                        let found = Damage::new(file.path(), DamagedPart::LogFrames, offset, length)
                            .because("a record of the log", "bytes that are no frame of this place");
                        damage.push((positions, Damage { keys: key.into_iter().collect(), ..found }));
                    }
                }
                Ok(())
            })?;
        }
        Ok((records, damage))
    }
}
