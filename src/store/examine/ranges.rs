//! Checksums of arbitrary ranges of a file. They make it possible to look for a frame at every position of a file,
//! although each may state any length, in time proportional to the file's length rather than its square: the checksum
//! of a range is computed from those of the two prefixes that end where it begins and ends.
//!
//! Bytes are read twice, because a bit that flips on its way from the device looks like damage. A difference is an
//! error. Around steps that the device has lost, each step is read once.

use super::read_if_readable;
use crate::error::Result;
use siltstone_device::{AlignedBuffer, File};
use siltstone_index::coding::checksum::{crc32c_append, crc32c_behind};
use std::collections::VecDeque;
use std::ops::Range;

/// The distance between two stored checksums, in bytes.
const STEP_BYTES: u64 = 512;
/// The bytes per read; several steps.
const PIECE_BYTES: u64 = 256 << 10;

/// The checksum of everything from the first byte on, and the number of its steps that the device has lost.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Sum {
    crc: u32,
    lost: u32,
}

/// Checksums of ranges. Each takes at most two steps of reading after the bytes up to its end were read, which happens
/// once. Stores 8 bytes per 512, from the forgotten part to the furthest end requested.
pub(in crate::store) struct RangeChecksums<'a> {
    file: &'a File,
    end: u64,
    /// Where the first of `sums` ends; each following one is a step further, the last one possibly less.
    first: u64,
    sums: VecDeque<Sum>,
    piece: AlignedBuffer,
}

impl<'a> RangeChecksums<'a> {
    /// Makes checksums of ranges within `offsets` of a file.
    pub fn new(file: &'a File, offsets: Range<u64>) -> Self {
        let (Range { start: first, end }, piece) = (offsets, AlignedBuffer::default());
        // The sum of no bytes: each range is between two sums.
        RangeChecksums { file, end, first, sums: VecDeque::from([Sum { crc: 0, lost: 0 }]), piece }
    }

    /// Frees the checksums before `offset`; later ranges must not begin before it.
    pub fn forget_before(&mut self, offset: u64) {
        let steps = offset.saturating_sub(self.first) / STEP_BYTES;
        // One sum stays, from which the next ones are computed.
        let steps = steps.min(self.sums.len() as u64 - 1);
        self.sums.drain(..steps as usize);
        self.first += steps * STEP_BYTES;
    }

    /// Returns the CRC-32C of a range, started with `start`. `None` if the range is outside the offsets, or the device
    /// has lost a part of it.
    pub fn of(&mut self, range: Range<u64>, start: u32) -> Result<Option<u32>> {
        if range.end > self.end || range.start < self.first || range.is_empty() {
            return Ok(None);
        }
        self.go_on_to(range.end)?;
        let (Some(front), Some(whole)) = (self.until(range.start)?, self.until(range.end)?) else {
            return Ok(None);
        };
        let length = range.end - range.start;
        // Steps that were lost before the range are in neither sum, so they do not matter.
        Ok((front.lost == whole.lost).then(|| crc32c_behind(start, front.crc, whole.crc, length)))
    }

    /// Extends the checksums to the first step that ends at or after `offset`.
    fn go_on_to(&mut self, offset: u64) -> Result<()> {
        while let Some(mut sum) = self.sums.back().copied() {
            let from = (self.first + (self.sums.len() as u64 - 1) * STEP_BYTES).min(self.end);
            if from >= offset {
                break;
            }
            let wanted = PIECE_BYTES.min(self.end - from);
            match read_if_readable(self.file, from, wanted as usize, &mut self.piece)? {
                Some(piece) => {
                    // A frame that is not found because of a flipped bit would be lost in a repair.
                    self.file.confirm(from, piece)?;
                    for step in piece.chunks(STEP_BYTES as usize) {
                        sum.crc = crc32c_append(sum.crc, step);
                        self.sums.push_back(sum);
                    }
                }
                None => {
                    // Step by step: only ranges with a lost step have no checksum.
                    for at in (from..from + wanted).step_by(STEP_BYTES as usize) {
                        let length = STEP_BYTES.min(self.end - at) as usize;
                        match read_if_readable(self.file, at, length, &mut self.piece)? {
                            Some(step) => sum.crc = crc32c_append(sum.crc, step),
                            None => sum.lost += 1,
                        }
                        self.sums.push_back(sum);
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the sum of everything before `offset`, which must be covered by the sums.
    fn until(&mut self, offset: u64) -> Result<Option<Sum>> {
        let (step, rest) = ((offset - self.first) / STEP_BYTES, (offset - self.first) % STEP_BYTES);
        let Some(sum) = self.sums.get(step as usize).copied() else { return Ok(None) };
        if rest == 0 {
            return Ok(Some(sum));
        }
        // The step in which the range begins or ends was lost.
        let Some(next) = self.sums.get(step as usize + 1).filter(|next| next.lost == sum.lost) else {
            return Ok(None);
        };
        let (from, rest) = (offset - rest, rest as usize);
        let length = STEP_BYTES.min(self.end - from) as usize;
        let Some(bytes) = read_if_readable(self.file, from, length, &mut self.piece)? else {
            return Ok(None);
        };
        let part = crc32c_append(sum.crc, &bytes[..rest]);
        // The step is read again here. It must be what was summed, or the result would be of other bytes.
        if crc32c_append(part, &bytes[rest..]) != next.crc {
            return Err(self.file.differs().into());
        }
        Ok(Some(Sum { crc: part, ..sum }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone_device::memory::MemoryDirectory;
    use siltstone_device::{Access, Directory, Purpose};

    #[test]
    fn every_range_has_the_checksum_of_its_bytes() {
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        let file = directory.create("f", Access::Buffered).unwrap();
        let bytes: Vec<u8> = (0..700_001u32).map(|at| (at ^ at >> 9) as u8).collect();
        file.write(Purpose::Maintain, 0, &bytes).unwrap();
        let mut sums = RangeChecksums::new(&file, 0..bytes.len() as u64);
        let ends = [700_001, 300_000, 700_001, 5_000, 262_144, 600_123, 600_124];
        for (start, end) in [0, 1, 255, 256, 3_000, 262_100, 600_000].into_iter().zip(ends) {
            sums.forget_before(start as u64);
            let expected = crc32c_append(77, &bytes[start..end]);
            assert_eq!(sums.of(start as u64..end as u64, 77).unwrap(), Some(expected), "{start}..{end}");
        }
        assert_eq!(sums.of(600_001..700_002, 0).unwrap(), None);
        assert!(sums.sums.len() <= 3 + 100_000 / 512, "unneeded sums are freed");
    }
}
