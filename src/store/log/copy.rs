//! Copies a log while it is written to.
//!
//! 1. The list of segments is taken. The caller sees to it that none of them is released, and that all frames up to the
//!    end are written.
//! 2. Each frame is verified and copied to the same position. Its checksum has the secret and the position, which are
//!    those of the copy, too; only the headers get its id.
//! 3. Each file is synced. The caller writes the manifest of the copy last, so a crash leaves no database.

use super::Log;
use crate::error::Result;
use crate::store::log_format::{LogFormat, SEGMENT_HEADER_BYTES};
use siltstone_device::{Access, Directory, Purpose};

/// The bytes per write.
const PIECE_BYTES: usize = 1 << 20;

impl Log {
    /// Copies the frames from `from` to `end` to another directory, verifying each, as the log of a database with this
    /// id, and syncs the files. During the call nothing at or after `from` may be released, and everything before `end`
    /// must be written.
    pub fn copy_to(&self, target: &Directory, database_id: u64, from: u64, end: u64) -> Result<()> {
        let format = LogFormat { database_id, ..self.format };
        let segments = self.segments.read();
        for segment in segments.0.iter().filter(|segment| segment.base <= end) {
            let until = segment.end().unwrap_or(end).min(end);
            // A checkpoint of logs of data has links to the segments before `from`.
            if until < from || self.slots.is_some() && segment.base < from {
                continue;
            }
            let file = target.create(&format.segment_name(segment.base), Access::Buffered)?;
            file.write(Purpose::Maintain, 0, &format.header(segment.base, segment.slots).encode())?;
            // Frames before `from` are not needed: the file has a hole there.
            let start = segment.base.max(from);
            let mut offset = SEGMENT_HEADER_BYTES as u64 + (start - segment.base);
            let mut piece = Vec::new();
            segment.frames(&self.format, start..until, &mut |_| true, &mut |_, _, frame| {
                piece.extend_from_slice(frame);
                if piece.len() >= PIECE_BYTES {
                    file.write(Purpose::Maintain, offset, &piece)?;
                    offset += piece.len() as u64;
                    piece.clear();
                }
                Ok(())
            })?;
            if !piece.is_empty() {
                file.write(Purpose::Maintain, offset, &piece)?;
            }
            // The manifest of the copy will state that everything before `end` is synced.
            file.sync(Purpose::Maintain)?;
        }
        Ok(())
    }
}
