//! Finds the frames of a segment of the log, also after damage.
//!
//! A frame's checksum starts with a secret and its position, so a frame with a correct checksum was written where it is
//! found. After damage, the length that the damaged frame states is tried first, then every following position. Each
//! position takes a bounded amount of work, independent of the length stated there:
//!
//! ```text
//! | frame | frame | damaged: length 300 | frame ...      next frame at the stated length
//! | frame | frame | damaged: length ?????????? | frame   every position is tried
//! ```
//!
//! A checksum has 32 bits, so among very many positions an attacker could place a record with a guessed checksum. After
//! a long gap, the first record found is therefore not trusted; it only locates the next frame.
//!
//! A bit that flipped on its way from the device looks like damage, or like the torn end of the log. So from the first
//! bytes that are not a frame on, everything is read twice. Up to there every frame is where the one before it ends, so
//! its checksum is computed directly.

use super::{Advance, RangeChecksums, read_if_readable};
use crate::error::{Error, Result};
use crate::key::KEY_LENGTH_MAX;
use crate::names::LogClass;
use crate::store::log_format::{
    FLAG_FRAME, FLAG_ORDER, FLAG_SYNC_MARKER, FRAME_CRC_BYTES, Frame, LogFormat, SEGMENT_HEADER_BYTES,
};
use crate::store::record::{EXPIRY_BYTES, RecordProblem};
use bytes::Bytes;
use siltstone_device::{AlignedBuffer, File, Purpose};
use std::ops::Range;

/// The bytes per read.
const WINDOW_BYTES: u64 = 256 << 10;
/// The maximum length of a frame's head: checksum, flags, both lengths.
const HEAD_BYTES: u64 = 16;
/// Flags that no frame has.
const FLAGS_UNUSED: u8 = 0b0000_1100;
/// After damage, the checksum of a longer frame is combined from those of ranges, which are computed once.
const DIRECT_BYTES: u64 = 1 << 10;
/// The number of bytes that are compared with zeros at a time.
const ZEROS_BYTES: u64 = 512;
/// After a longer gap, the first record found is not trusted.
const GAP_BELIEVED_BYTES: u64 = 64 << 10;

/// What is at a range of positions of a segment.
#[derive(Debug)]
pub enum Seen<'a> {
    /// An intact frame.
    Frame {
        /// The positions from its first byte to after its last byte.
        positions: Range<u64>,
        /// The frame.
        frame: Frame<'a>,
        /// Its bytes.
        bytes: &'a [u8],
    },
    /// No intact frame.
    Gap {
        /// The positions without a frame.
        positions: Range<u64>,
        /// The key of the one damaged frame there, if it can be read.
        key: Option<Bytes>,
        /// Whether the device could not read a part of it.
        is_unreadable: bool,
    },
}

/// How bytes that the device cannot read are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    /// As an error.
    Fails,
    /// As damage.
    IsDamage,
}

struct Frames<'a> {
    file: &'a File,
    unreadable: Unreadable,
    format: &'a LogFormat,
    base: u64,
    end: u64,
    window: AlignedBuffer,
    /// The positions of the bytes in the window, and where there the first one is.
    held: Range<u64>,
    skip: usize,
    /// From the first damage on.
    sums: Option<RangeChecksums<'a>>,
    read_bytes: u64,
    has_met_unreadable: bool,
}

/// Passes every intact frame at `positions` of a segment, whose first frame has the position `base`, and the gaps
/// between them to `see`. Returns the end: all bytes after it are zeros, as in space that was reserved and not written.
///
/// # Errors
/// Errors of reading, except for data that the device has lost; those of `see`; [`Error::Interrupted`] if `advance`
/// returned `false`.
pub fn examine_frames(
    file: &File,
    unreadable: Unreadable,
    format: &LogFormat,
    base: u64,
    positions: Range<u64>,
    advance: &mut Advance<'_>,
    see: &mut dyn FnMut(Seen<'_>) -> Result<()>,
) -> Result<u64> {
    let (window, held) = (AlignedBuffer::default(), 0..0);
    let offset_of = |position| position - base + SEGMENT_HEADER_BYTES as u64;
    let end = offset_of(positions.end);
    let mut frames = Frames {
        file,
        unreadable,
        format,
        base,
        end: positions.end,
        window,
        held,
        skip: 0,
        sums: None,
        read_bytes: 0,
        has_met_unreadable: false,
    };
    let mut position = positions.start;
    while position < positions.end {
        frames.has_met_unreadable = false;
        let reads_twice = frames.sums.is_some();
        if let Some(sums) = &mut frames.sums {
            sums.forget_before(offset_of(position));
        }
        let bytes = match frames.sound_at(position)? {
            Some(length) => frames.bytes(position, length)?.unwrap_or_default(),
            None => &[],
        };
        // `sound_at` has compared the checksum. Without a frame `bytes` is empty, and does not parse.
        let next = match format.parse_frame(bytes) {
            Ok((frame, length)) => {
                let end = position + length as u64;
                see(Seen::Frame { positions: position..end, frame, bytes })?;
                end
            }
            // Nothing is concluded from one read: the same position is examined again.
            Err(_) if !reads_twice => {
                frames.held = 0..0;
                frames.sums = Some(RangeChecksums::new(file, offset_of(position)..end));
                position
            }
            Err(_) => {
                // Reserved space, or zeros in place of frames: the caller knows how far frames must reach.
                if frames.has_only_zeros_from(position)? {
                    return Ok(position);
                }
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
    Ok(position)
}

impl Frames<'_> {
    /// Returns `length` bytes from a position on; `None` if they extend beyond the end or the device has lost them.
    fn bytes(&mut self, position: u64, length: u64) -> Result<Option<&[u8]>> {
        let Some(end) = position.checked_add(length).filter(|end| *end <= self.end) else { return Ok(None) };
        if position < self.held.start || end > self.held.end {
            let wanted = length.max(WINDOW_BYTES).min(self.end - position);
            let offset = position - self.base + SEGMENT_HEADER_BYTES as u64;
            // Until the read has succeeded, the window holds nothing.
            self.held = 0..0;
            self.read_bytes += wanted;
            let mut got = self.read(offset, wanted)?;
            // A sector that is lost further on in the window must not hide these bytes.
            if got.is_none() && wanted > length {
                got = self.read(offset, length)?;
            }
            let Some(got) = got else {
                self.has_met_unreadable = true;
                return Ok(None);
            };
            self.held = position..position + got as u64;
        }
        let start = self.skip + (position - self.held.start) as usize;
        Ok(self.window.get(start..start + length as usize))
    }

    /// Fills the window. Returns the number of bytes read; `None` if the device has lost them.
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
        self.skip = (offset % self.file.alignment() as u64) as usize;
        if self.sums.is_some() {
            // From here on bytes may be cut off or lost: one read is not enough for that.
            let read = self.window.get(self.skip..self.skip + length).unwrap_or_default();
            self.file.confirm(offset, read)?;
        }
        Ok(Some(length))
    }

    /// Returns the length of the intact frame at a position, if there is one.
    fn sound_at(&mut self, position: u64) -> Result<Option<u64>> {
        let Some(length) = self.stated_length(position)? else { return Ok(None) };
        let format = self.format;
        if self.sums.is_some() && length > DIRECT_BYTES {
            let head = self.bytes(position, FRAME_CRC_BYTES as u64)?;
            let stated = head.and_then(|head| head.first_chunk()).map(|crc| u32::from_le_bytes(*crc));
            let start = position - self.base + SEGMENT_HEADER_BYTES as u64;
            let covered = start + FRAME_CRC_BYTES as u64..start + length;
            if let Some(sums) = &mut self.sums
                && let Some(computed) = sums.of(covered, format.checksum_start(position))?
            {
                return Ok(Some(length).filter(|_| stated == Some(computed)));
            }
            // The device has lost a part. Reading all of it yields the right error.
        }
        let bytes = self.bytes(position, length)?;
        let is_sound = bytes.is_some_and(|bytes| format.decode_frame(position, bytes).is_ok());
        Ok(is_sound.then_some(length))
    }

    /// Returns the length stated at a position, if a frame of this length would end within the segment.
    fn stated_length(&mut self, position: u64) -> Result<Option<u64>> {
        let end = self.end;
        let head = HEAD_BYTES.min(end - position);
        let format = self.format;
        let Some(head) = self.bytes(position, head)? else { return Ok(None) };
        let Some(flags) = head.get(FRAME_CRC_BYTES) else { return Ok(None) };
        // Not verified yet: whatever length is stated here, only a checksum makes a frame of it.
        let is_marker = flags & FLAG_SYNC_MARKER != 0;
        // Of a record the bit says that it was moved to a log of class `User`.
        let has_no_order = !is_marker && format.class != LogClass::User;
        if flags & FLAG_FRAME == 0 || flags & FLAGS_UNUSED != 0 || flags & FLAG_ORDER != 0 && has_no_order {
            return Ok(None);
        }
        let length = if is_marker {
            format.marker_bytes() as u64
        } else {
            match format.parse_frame(head) {
                Ok((_, length)) => length as u64,
                Err(RecordProblem::Short(needed)) => needed as u64,
                Err(RecordProblem::Malformed(_)) => return Ok(None),
            }
        };
        Ok(Some(length).filter(|length| position + length <= end))
    }

    fn has_only_zeros_from(&mut self, mut position: u64) -> Result<bool> {
        while position < self.end {
            let length = ZEROS_BYTES.min(self.end - position);
            match self.bytes(position, length)? {
                Some(bytes) if bytes.iter().all(|&byte| byte == 0) => position += length,
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Returns the end of the gap that begins at a position, and the key of the one damaged frame there, if it is only
    /// one.
    fn gap_from(&mut self, position: u64, advance: &mut Advance<'_>) -> Result<(u64, Option<Bytes>)> {
        if let Some(length) = self.stated_length(position)? {
            let next = position + length;
            // An intact frame at the stated length confirms it, so this one frame is all that is damaged.
            if next == self.end || self.sound_at(next)?.is_some() {
                return Ok((next, self.key_at(position, length)?));
            }
        }
        // Frames begin at multiples of the unit, also after damage.
        let unit = u64::from(self.format.unit_bytes);
        let (mut next, mut is_guess) = (position + unit, false);
        while next < self.end {
            match self.sound_at(next)? {
                Some(length)
                    if !is_guess && next - position > GAP_BELIEVED_BYTES && !self.is_marker(next)? =>
                {
                    // It may be guessed. The frame that follows it would have to be guessed as well.
                    (next, is_guess) = (next + length, true);
                    continue;
                }
                Some(_) => break,
                None => {
                    (next, is_guess) = (next + unit.max(self.no_frame_within(next)? / unit * unit), false)
                }
            }
            // A gap may be a whole segment: it can be interrupted, too.
            if self.read_bytes >= 16 * WINDOW_BYTES && !advance(std::mem::take(&mut self.read_bytes)) {
                return Err(Error::Interrupted);
            }
        }
        Ok((next.min(self.end), None))
    }

    /// Returns for how many bytes there are only zeros: no frame begins within them, because its flags are not zero.
    /// Without this, a hole of some gigabytes would be searched byte by byte.
    fn no_frame_within(&mut self, position: u64) -> Result<u64> {
        let length = ZEROS_BYTES.min(self.end - position);
        let Some(bytes) = self.bytes(position, length)? else { return Ok(0) };
        let zeros = bytes.iter().position(|&byte| byte != 0).unwrap_or(bytes.len()) as u64;
        Ok(zeros.saturating_sub(FRAME_CRC_BYTES as u64))
    }

    /// Returns whether an intact frame is a sync marker. Markers are always trusted: they add no record, and without a
    /// marker that proves damage the log would be truncated there.
    fn is_marker(&mut self, position: u64) -> Result<bool> {
        let head = self.bytes(position, FRAME_CRC_BYTES as u64 + 1)?;
        let flags = head.and_then(|head| head.get(FRAME_CRC_BYTES));
        Ok(flags.is_some_and(|flags| flags & (FLAG_SYNC_MARKER | FLAG_ORDER) == FLAG_SYNC_MARKER))
    }

    /// Returns the key of the damaged frame of this length, if it can be read.
    fn key_at(&mut self, position: u64, length: u64) -> Result<Option<Bytes>> {
        let format = self.format;
        let wanted = length.min(HEAD_BYTES + EXPIRY_BYTES as u64 + KEY_LENGTH_MAX as u64);
        let frame = self.bytes(position, wanted)?.unwrap_or_default();
        let is_marker = frame.get(FRAME_CRC_BYTES).is_none_or(|flags| flags & FLAG_SYNC_MARKER != 0);
        let record = frame.get(FRAME_CRC_BYTES..).filter(|_| !is_marker).unwrap_or_default();
        // Not verified: the key is only reported, and no record is made of it.
        Ok(format.layout.decode_stream_key(record).ok().map(Bytes::copy_from_slice))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::RecordLayout;
    use crate::store::record::RecordView;
    use siltstone_device::memory::MemoryDirectory;
    use siltstone_device::{Access, Directory};
    use siltstone_index::coding::checksum::Secret;
    use siltstone_index::coding::checksum::work::summed_bytes;

    const FORMAT: LogFormat =
        LogFormat::new(RecordLayout { fixed: None, expiring: false }, 1, Secret::new(2));
    const BASE: u64 = 1000;

    /// Returns the keys of the frames that are found in these bytes after a header, and the gaps.
    fn examined(bytes: &[u8]) -> (Vec<Vec<u8>>, Vec<Range<u64>>) {
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        let file = directory.create("log", Access::Buffered).unwrap();
        file.write(Purpose::Log, SEGMENT_HEADER_BYTES as u64, bytes).unwrap();
        let (mut keys, mut gaps) = (Vec::new(), Vec::new());
        let positions = BASE..BASE + bytes.len() as u64;
        examine_frames(&file, Unreadable::IsDamage, &FORMAT, BASE, positions, &mut |_| true, &mut |seen| {
            match seen {
                Seen::Frame { frame: Frame::Record { record, .. }, .. } => keys.push(record.key.to_vec()),
                Seen::Frame { .. } => {}
                Seen::Gap { positions, .. } => gaps.push(positions),
            }
            Ok(())
        })
        .unwrap();
        (keys, gaps)
    }

    fn push(bytes: &mut Vec<u8>, key: &[u8], value: &[u8]) {
        let record = RecordView { key, value: Some(value), expires_at_ms: 0 };
        FORMAT.encode_record(BASE + bytes.len() as u64, &record, false, bytes);
    }

    #[test]
    fn intact_frames_of_all_lengths_are_found_after_damage() {
        for length in [0, 900, 5_000, 300_000, 2_000_000] {
            let mut bytes = Vec::new();
            push(&mut bytes, b"before", &vec![1; length]);
            let damaged = bytes.len();
            push(&mut bytes, b"damaged", &[2; 3_000]);
            push(&mut bytes, b"behind", &vec![3; length]);
            let behind = bytes.len();
            push(&mut bytes, b"last", b"");
            // Damages the length that the frame states, then also the first byte of the next frame.
            bytes[damaged + 13] ^= 0x7F;
            let (keys, gaps) = examined(&bytes);
            assert_eq!(keys, [&b"before"[..], b"behind", b"last"], "{length}");
            bytes[damaged + 3_000 + 25] ^= 1;
            let (keys, gaps_of_both) = examined(&bytes);
            assert_eq!((gaps.len(), gaps_of_both.len()), (1, 1), "{length}");
            if length < GAP_BELIEVED_BYTES as usize {
                assert_eq!(keys, [&b"before"[..], b"last"], "{length}");
                assert_eq!(gaps_of_both[0].end, BASE + behind as u64);
            }
        }
    }

    #[test]
    fn the_first_frame_after_a_long_gap_is_not_trusted() {
        for (gap, is_believed) in [(60_000, true), (70_000, false)] {
            let mut bytes = vec![0x11; gap];
            push(&mut bytes, b"found", b"1");
            push(&mut bytes, b"next", b"2");
            let (keys, gaps) = examined(&bytes);
            let expected: &[&[u8]] = if is_believed { &[b"found", b"next"] } else { &[b"next"] };
            assert_eq!((keys, gaps.len()), (expected.iter().map(|key| key.to_vec()).collect(), 1));
        }
    }

    /// Frames whose length extends to the end, with wrong checksums; every other one follows an intact frame.
    #[test]
    fn work_is_proportional_to_the_length_of_a_log() {
        for with_sound_frames in [false, true] {
            let work = |claims: usize| {
                let mut bytes = Vec::new();
                for claim in 0..claims {
                    if with_sound_frames && claim % 2 == 0 {
                        push(&mut bytes, b"sound", b"");
                    }
                    let record = RecordView {
                        key: b"k",
                        value: Some(&vec![0; 40 * (claims - claim)]),
                        expires_at_ms: 0,
                    };
                    let mut frame = Vec::new();
                    FORMAT.encode_record(0, &record, false, &mut frame);
                    bytes.extend_from_slice(&frame[..16]);
                }
                bytes.resize(bytes.len() + 60 * claims, 0x11);
                let before = summed_bytes();
                let (keys, _) = examined(&bytes);
                assert_eq!(keys.len(), if with_sound_frames { claims / 2 } else { 0 });
                summed_bytes() - before
            };
            let (few, many) = (work(500), work(5_000));
            assert!(few > 10_000 && many < 12 * few, "{few} bytes for 500 claims, {many} for 5,000");
        }
    }
}
