//! Going through the frames of a segment of the log, and finding the next one behind damage.
//!
//! A frame's checksum is started with its position, so that one that was found anywhere is one that was written there.
//! The length that a damaged frame states is tried first; then every place, at each of which only few bytes are looked
//! at unless they look like a frame.
//!
//! A bit that turned over on its way from the device looks like damage, or like the torn end of the log. So from the
//! first bytes on that are no frame, everything is read twice.

use super::{Advance, read_if_readable};
use crate::device::{AlignedBuffer, File, Purpose};
use crate::store::confirm::confirm;
use crate::store::log::format::{
    FLAG_FRAME, FLAG_SYNC_MARKER, FRAME_CRC_BYTES, Frame, LogFormat, MARKER_BYTES, SEGMENT_HEADER_BYTES,
};
use crate::store::record::RecordProblem;
use crate::{Error, Result};
use bytes::Bytes;
use std::ops::Range;

/// What is read at a time, in bytes.
const WINDOW_BYTES: u64 = 256 << 10;
/// The bytes of a frame's head, at most: checksum, flags, both lengths.
const HEAD_BYTES: u64 = 16;
/// Bits that no frame has set.
const FLAGS_UNUSED: u8 = 0b0001_1100;
/// A longer frame must be followed by what looks like another one, before its checksum is computed.
const LENGTH_TRUSTED_BYTES: u64 = 64 << 10;
/// By how many.
const FOLLOWERS: u32 = 3;

/// What stands at some positions of a segment.
#[derive(Debug)]
pub enum Seen<'a> {
    /// A sound frame.
    Frame {
        /// From its first to behind its last byte.
        positions: Range<u64>,
        /// The frame.
        frame: Frame<'a>,
    },
    /// No sound frame.
    Gap {
        /// From the first position to behind the last.
        positions: Range<u64>,
        /// The key of the one frame that stood there, if that can be read.
        key: Option<Bytes>,
        /// Whether the device could not read some of it.
        is_unreadable: bool,
    },
}

/// What becomes of bytes that the device cannot read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    /// They are an error.
    Fails,
    /// They are damage.
    IsDamage,
}

struct Frames<'a> {
    file: &'a File,
    unreadable: Unreadable,
    format: &'a LogFormat,
    base: u64,
    end: u64,
    window: AlignedBuffer,
    /// The positions of what is in the window.
    held: Range<u64>,
    read_bytes: u64,
    reads_twice: bool,
    has_met_unreadable: bool,
}

/// Shows every sound frame at `positions` of a segment whose first frame has the position `base`, and the gaps between
/// them.
///
/// # Errors
/// Those of reading, but not of what the device has lost; those of `see`; [`Error::Interrupted`] if `advance`
/// answered so.
pub fn examine_frames(
    file: &File,
    unreadable: Unreadable,
    format: &LogFormat,
    base: u64,
    positions: Range<u64>,
    advance: &mut Advance<'_>,
    see: &mut dyn FnMut(Seen<'_>) -> Result<()>,
) -> Result<()> {
    let (window, held) = (AlignedBuffer::default(), 0..0);
    let mut frames = Frames {
        file,
        unreadable,
        format,
        base,
        end: positions.end,
        window,
        held,
        read_bytes: 0,
        reads_twice: false,
        has_met_unreadable: false,
    };
    let mut position = positions.start;
    while position < positions.end {
        frames.has_met_unreadable = false;
        let next = match frames.sound_at(position)? {
            Some(length) => {
                let positions = position..position + length;
                let bytes = frames.bytes(position, length)?.unwrap_or_default();
                if let Ok((frame, _)) = format.parse_frame(bytes) {
                    see(Seen::Frame { positions, frame })?;
                }
                position + length
            }
            None if !frames.reads_twice => {
                (frames.reads_twice, frames.held) = (true, 0..0);
                position
            }
            None => {
                let (next, key) = frames.gap_from(position, advance)?;
                let is_unreadable = frames.has_met_unreadable;
                see(Seen::Gap { positions: position..next, key, is_unreadable })?;
                next
            }
        };
        position = next;
        if frames.read_bytes > 0 && !advance(std::mem::take(&mut frames.read_bytes)) {
            return Err(Error::Interrupted);
        }
    }
    Ok(())
}

impl Frames<'_> {
    /// So many bytes from a position on; `None` if they reach beyond the end, or the device has lost them.
    fn bytes(&mut self, position: u64, length: u64) -> Result<Option<&[u8]>> {
        let Some(end) = position.checked_add(length).filter(|end| *end <= self.end) else { return Ok(None) };
        if position < self.held.start || end > self.held.end {
            let wanted = length.max(WINDOW_BYTES).min(self.end - position);
            let offset = position - self.base + SEGMENT_HEADER_BYTES as u64;
            self.held = 0..0;
            self.read_bytes += wanted;
            let mut got = self.read(offset, wanted)?;
            if got.is_none() && wanted > length {
                got = self.read(offset, length)?;
            }
            let Some(got) = got else {
                self.has_met_unreadable = true;
                return Ok(None);
            };
            self.held = position..position + got as u64;
        }
        let start = (position - self.held.start) as usize;
        // The log's files have no alignment: the window begins with the first byte that was asked for.
        Ok(self.window.get(start..start + length as usize))
    }

    /// Fills the window. Returns how many bytes were read; `None` if the device has lost them.
    fn read(&mut self, offset: u64, length: u64) -> Result<Option<usize>> {
        let length = length as usize;
        match self.unreadable {
            Unreadable::Fails => drop(self.file.read(Purpose::Recover, offset, length, &mut self.window)?),
            Unreadable::IsDamage => {
                if read_if_readable(self.file, offset, length, &mut self.window)?.is_none() {
                    return Ok(None);
                }
            }
        }
        if self.reads_twice {
            confirm(self.file, offset, &self.window)?;
        }
        Ok(Some(length))
    }

    /// The length of the sound frame at a position.
    fn sound_at(&mut self, position: u64) -> Result<Option<u64>> {
        let Some(length) = self.stated_length(position)? else { return Ok(None) };
        let format = self.format;
        let sound =
            self.bytes(position, length)?.is_some_and(|bytes| format.decode_frame(position, bytes).is_ok());
        Ok(sound.then_some(length))
    }

    /// The length that what stands at a position has, if it is a frame that ends within the segment.
    fn stated_length(&mut self, position: u64) -> Result<Option<u64>> {
        let end = self.end;
        let head = HEAD_BYTES.min(end - position);
        let format = self.format;
        let Some(head) = self.bytes(position, head)? else { return Ok(None) };
        let Some(flags) = head.get(FRAME_CRC_BYTES) else { return Ok(None) };
        if flags & FLAG_FRAME == 0 || flags & FLAGS_UNUSED != 0 {
            return Ok(None);
        }
        let length = if flags & FLAG_SYNC_MARKER != 0 {
            MARKER_BYTES as u64
        } else {
            match format.parse_frame(head) {
                Ok((_, length)) => length as u64,
                Err(RecordProblem::Short(needed)) => needed as u64,
                Err(RecordProblem::Malformed(_)) => return Ok(None),
            }
        };
        Ok(Some(length).filter(|length| position + length <= end))
    }

    /// Whether what follows a position looks like frames.
    fn goes_on_at(&mut self, mut position: u64) -> Result<bool> {
        for _ in 0..FOLLOWERS {
            if position == self.end {
                return Ok(true);
            }
            let Some(length) = self.stated_length(position)? else { return Ok(false) };
            position += length;
        }
        Ok(true)
    }

    /// The end of the gap that begins at a position, and the key of the one frame that stood there, if it was one.
    fn gap_from(&mut self, position: u64, advance: &mut Advance<'_>) -> Result<(u64, Option<Bytes>)> {
        if let Some(length) = self.stated_length(position)? {
            let next = position + length;
            if next == self.end || self.sound_at(next)?.is_some() {
                let format = self.format;
                let bytes = self.bytes(position, length)?.unwrap_or_default();
                let key = match format.parse_frame(bytes) {
                    Ok((Frame::Record { record, .. }, _)) => Some(Bytes::copy_from_slice(record.key)),
                    _ => None,
                };
                return Ok((next, key));
            }
        }
        let mut next = position + 1;
        while next < self.end {
            if let Some(length) = self.stated_length(next)?
                && (length <= LENGTH_TRUSTED_BYTES || self.goes_on_at(next + length)?)
                && self.sound_at(next)?.is_some()
            {
                break;
            }
            next += 1;
            if self.read_bytes >= 16 * WINDOW_BYTES && !advance(std::mem::take(&mut self.read_bytes)) {
                return Err(Error::Interrupted);
            }
        }
        Ok((next, None))
    }
}
