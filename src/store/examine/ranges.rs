//! Checksums of any ranges of a file. To look for something with a checksum at every place of a file, each of which may
//! claim any length, takes time in proportion to the file and not to its square.

use super::read_if_readable;
use crate::Result;
use crate::coding::checksum::{crc32c_append, crc32c_behind};
use crate::device::{AlignedBuffer, File};
use std::collections::VecDeque;
use std::ops::Range;

/// From one kept checksum to the next, in bytes.
const STEP_BYTES: u64 = 512;
/// What is read at a time, in bytes; some steps.
const PIECE_BYTES: u64 = 256 << 10;

/// The checksum of everything from the first byte on, and how many steps of that the device has lost.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Sum {
    crc: u32,
    lost: u32,
}

/// Checksums of ranges. Each takes at most two steps of reading, once the bytes up to its end were gone over, which
/// happens once. Holds 8 bytes for each 512, from what was forgotten to the furthest end that was asked for.
pub(in crate::store) struct RangeChecksums<'a> {
    file: &'a File,
    end: u64,
    reads_twice: bool,
    /// Where the first of `sums` ends, and one step further each that follows; the last one perhaps less.
    first: u64,
    sums: VecDeque<Sum>,
    piece: AlignedBuffer,
}

impl<'a> RangeChecksums<'a> {
    /// Of ranges within `offsets` of a file. With `reads_twice` its bytes are read twice, and it is an error if they
    /// differ.
    pub fn new(file: &'a File, offsets: Range<u64>, reads_twice: bool) -> Self {
        let (Range { start: first, end }, piece) = (offsets, AlignedBuffer::default());
        RangeChecksums {
            file,
            end,
            reads_twice,
            first,
            sums: VecDeque::from([Sum { crc: 0, lost: 0 }]),
            piece,
        }
    }

    /// No range that is asked for from now on begins before `offset`.
    pub fn forget_before(&mut self, offset: u64) {
        let steps = offset.saturating_sub(self.first) / STEP_BYTES;
        let steps = steps.min(self.sums.len() as u64 - 1);
        self.sums.drain(..steps as usize);
        self.first += steps * STEP_BYTES;
    }

    /// The CRC-32C of a range, started with `start`. `None` if it is not within what can be asked for, or the device
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
        Ok((front.lost == whole.lost).then(|| crc32c_behind(start, front.crc, whole.crc, length)))
    }

    /// Sums up everything up to the first step that ends at or behind `offset`.
    fn go_on_to(&mut self, offset: u64) -> Result<()> {
        while let Some(mut sum) = self.sums.back().copied() {
            let from = (self.first + (self.sums.len() as u64 - 1) * STEP_BYTES).min(self.end);
            if from >= offset {
                break;
            }
            let wanted = PIECE_BYTES.min(self.end - from);
            match read_if_readable(self.file, from, wanted as usize, &mut self.piece)? {
                Some(piece) => {
                    if self.reads_twice {
                        self.file.confirm(from, piece)?;
                    }
                    for step in piece.chunks(STEP_BYTES as usize) {
                        sum.crc = crc32c_append(sum.crc, step);
                        self.sums.push_back(sum);
                    }
                }
                None => {
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

    /// The sum of everything before `offset`, which is behind the first sum and gone over.
    fn until(&mut self, offset: u64) -> Result<Option<Sum>> {
        let (step, rest) = ((offset - self.first) / STEP_BYTES, (offset - self.first) % STEP_BYTES);
        let Some(sum) = self.sums.get(step as usize).copied() else { return Ok(None) };
        if rest == 0 {
            return Ok(Some(sum));
        }
        let Some(next) = self.sums.get(step as usize + 1).filter(|next| next.lost == sum.lost) else {
            return Ok(None);
        };
        let (from, rest) = (offset - rest, rest as usize);
        let length = STEP_BYTES.min(self.end - from) as usize;
        let Some(bytes) = read_if_readable(self.file, from, length, &mut self.piece)? else {
            return Ok(None);
        };
        let part = crc32c_append(sum.crc, &bytes[..rest]);
        if crc32c_append(part, &bytes[rest..]) != next.crc {
            return Err(self.file.differs());
        }
        Ok(Some(Sum { crc: part, ..sum }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::memory::MemoryDirectory;
    use crate::device::{Access, Directory, Purpose};

    #[test]
    fn every_range_has_the_checksum_of_its_bytes() {
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        let file = directory.create("f", Access::Buffered).unwrap();
        let bytes: Vec<u8> = (0..700_001u32).map(|at| (at ^ at >> 9) as u8).collect();
        file.write(Purpose::Maintain, 0, &bytes).unwrap();
        let mut sums = RangeChecksums::new(&file, 0..bytes.len() as u64, false);
        let ends = [700_001, 300_000, 700_001, 5_000, 262_144, 600_123, 600_124];
        for (start, end) in [0, 1, 255, 256, 3_000, 262_100, 600_000].into_iter().zip(ends) {
            sums.forget_before(start as u64);
            let expected = crc32c_append(77, &bytes[start..end]);
            assert_eq!(sums.of(start as u64..end as u64, 77).unwrap(), Some(expected), "{start}..{end}");
        }
        assert_eq!(sums.of(600_001..700_002, 0).unwrap(), None);
        assert!(sums.sums.len() <= 3 + 100_000 / 512, "what is not needed any more is not held");
    }
}
