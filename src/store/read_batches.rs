//! Batches of reads whose buffers are counted, with no more reads at once than a limit has place for.

use siltstone_device::sync::atomic::{AtomicU64, Ordering::Relaxed};
use siltstone_device::{AlignedBuffer, Purpose, ReadRequest, read_batch};

/// Buffers have whole pages of this many bytes.
const PAGE_BYTES: u64 = 4096;

/// The memory of batches of reads.
pub struct ReadBatches {
    /// Of all batches in progress, in bytes.
    held_bytes: AtomicU64,
    /// The most that they had since this was asked for.
    highest_bytes: AtomicU64,
    /// The most bytes of a batch, unless one read needs more.
    bytes_max: AtomicU64,
}

/// The buffers of a batch of reads and of those that follow. They are counted until this is dropped.
pub struct ReadBuffers<'a> {
    buffers: Vec<AlignedBuffer>,
    held_bytes: u64,
    batches: &'a ReadBatches,
}

impl Default for ReadBatches {
    fn default() -> ReadBatches {
        ReadBatches {
            held_bytes: AtomicU64::new(0),
            highest_bytes: AtomicU64::new(0),
            bytes_max: AtomicU64::new(u64::MAX),
        }
    }
}

impl ReadBatches {
    /// Limits the buffers of each batch, in bytes. There is no limit at first.
    pub fn limit(&self, bytes: u64) {
        self.bytes_max.store(bytes, Relaxed);
    }

    /// Returns the memory of the buffers of all batches in progress, in bytes.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Relaxed)
    }

    /// Returns the most memory of buffers since the last call, in bytes.
    pub fn take_highest_bytes(&self) -> u64 {
        let held = self.held_bytes();
        self.highest_bytes.swap(held, Relaxed).max(held)
    }

    /// Begins batches of a thread, without buffers.
    pub fn begin(&self) -> ReadBuffers<'_> {
        ReadBuffers { buffers: Vec::new(), held_bytes: 0, batches: self }
    }
}

impl ReadBuffers<'_> {
    /// Executes reads as [`read_batch`] does, as many at once as the limit has place for, at least one.
    pub fn read<E>(
        &mut self,
        purpose: Purpose,
        requests: &[ReadRequest<'_>],
        mut take: impl FnMut(usize, siltstone_device::Result<&mut [u8]>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut first = 0;
        while first < requests.len() {
            let together = &requests[first..first + self.make_place(&requests[first..])];
            read_batch(purpose, together, &mut self.buffers, |number, bytes| take(first + number, bytes))?;
            self.count();
            first += together.len();
        }
        Ok(())
    }

    /// Returns the memory of the buffers that these reads take, in bytes, as many at once as the limit has place for.
    pub fn wanted_bytes(&self, requests: &[ReadRequest<'_>]) -> u64 {
        let longest = requests.iter().map(buffer_bytes).max().unwrap_or(0);
        let all = requests.iter().map(buffer_bytes).fold(0, u64::saturating_add);
        all.min(longest.max(self.batches.bytes_max.load(Relaxed)))
    }

    /// Returns how many of these reads come next, and frees the buffers if they do not fit besides those of the reads.
    fn make_place(&mut self, requests: &[ReadRequest<'_>]) -> usize {
        let bytes_max = self.batches.bytes_max.load(Relaxed);
        let (mut count, mut bytes) = (0, 0_u64);
        for request in requests {
            let with_it = bytes.saturating_add(buffer_bytes(request));
            if count > 0 && with_it > bytes_max {
                break;
            }
            (count, bytes) = (count + 1, with_it);
        }
        if self.held_bytes.saturating_add(bytes) > bytes_max {
            self.buffers = Vec::new();
            self.count();
        }
        count
    }

    fn count(&mut self) {
        let held: u64 = self.buffers.iter().map(|buffer| buffer.heap_bytes() as u64).sum();
        let before = std::mem::replace(&mut self.held_bytes, held);
        let all = self.batches.held_bytes.fetch_add(held, Relaxed) + held - before;
        self.batches.held_bytes.fetch_sub(before, Relaxed);
        self.batches.highest_bytes.fetch_max(all, Relaxed);
    }
}

impl Drop for ReadBuffers<'_> {
    fn drop(&mut self) {
        self.batches.held_bytes.fetch_sub(self.held_bytes, Relaxed);
    }
}

/// Returns the memory of the buffer of a read, in bytes. A direct read is widened to the alignment of the file.
fn buffer_bytes(request: &ReadRequest<'_>) -> u64 {
    let alignment = (request.file.alignment() as u64).max(1);
    let bytes = (request.offset % alignment).saturating_add(request.length as u64);
    bytes.div_ceil(PAGE_BYTES).saturating_mul(PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone_device::memory::MemoryDirectory;
    use siltstone_device::{Access, Directory, Error};

    const READS: usize = 10;

    /// Returns the most bytes that reads of one page each and a longer one take within a limit.
    fn read_within(limit: u64, long_bytes: usize) -> u64 {
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        let file = directory.create("pages", Access::Buffered).unwrap();
        let bytes: Vec<u8> = (0..READS * 4096).map(|at| (at / 4096) as u8).collect();
        file.write(Purpose::Log, 0, &bytes).unwrap();
        let batches = ReadBatches::default();
        batches.limit(limit);
        let request = |page: usize| ReadRequest { file: &file, offset: page as u64 * 4096, length: 4096 };
        let mut requests: Vec<_> = (0..READS).map(request).collect();
        requests[3].length = long_bytes;
        let mut buffers = batches.begin();
        for _ in 0..2 {
            let mut taken = [0; READS];
            buffers
                .read(Purpose::Get, &requests, |number, bytes| {
                    let bytes = bytes?;
                    assert_eq!((bytes[0], bytes.len()), (number as u8, requests[number].length));
                    taken[number] += 1;
                    Ok::<_, Error>(())
                })
                .unwrap();
            assert_eq!(taken, [1; READS]);
        }
        assert!(batches.held_bytes() > 0);
        drop(buffers);
        assert_eq!(batches.held_bytes(), 0);
        let highest = batches.take_highest_bytes();
        assert_eq!(batches.take_highest_bytes(), 0);
        highest
    }

    #[test]
    fn as_many_reads_are_executed_together_as_the_limit_has_place_for() {
        assert_eq!(read_within(u64::MAX, 4096), READS as u64 * 4096);
        assert_eq!(read_within(20_000, 4096), 16_384);
        assert_eq!(read_within(20_000, 12_288), 16_384);
        // A read that is longer than the limit is alone.
        assert_eq!(read_within(5_000, 12_288), 12_288);
        assert_eq!(read_within(0, 4096), 4096);
    }
}
