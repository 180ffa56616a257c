//! Takes numbers, shapes of records and changes of files from the fuzzer's bytes.

use siltstone::key::{KeyHasher, PartitionHasher, RecordLayout};
use siltstone_device::memory::MemoryDirectory;
use siltstone_device::{Access, AlignedBuffer, Directory, Purpose};

/// How keys are placed.
pub const HASHER: PartitionHasher = PartitionHasher { key_hasher: KeyHasher::Identity, partitions_log2: 0 };

/// Takes values from the front of the fuzzer's bytes; zeros after their end.
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    pub fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let taken = self.bytes(N);
        array[..taken.len()].copy_from_slice(taken);
        array
    }

    pub fn u8(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a shape of records: of any size, or fixed and small.
    pub fn layout(&mut self) -> RecordLayout {
        let flags = self.u8();
        let fixed = (flags & 1 != 0).then(|| (1 + usize::from(self.u8() % 40), usize::from(self.u8())));
        RecordLayout { fixed, expiring: flags & 2 != 0 }
    }

    /// Changes some bytes of a file: each change is an offset, a length and the new bytes.
    pub fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..self.u8() % 8 {
            let at = self.u32() as usize;
            match self.u8() % 8 {
                0 => bytes.truncate(at % (bytes.len() + 1)),
                // Relative to the end, where footers are.
                way @ 1..4 => {
                    let start = bytes.len().saturating_sub(at % 200);
                    overwrite(bytes, start, self.bytes(usize::from(way) * 3));
                }
                way => {
                    let start = at % (bytes.len() + 1);
                    overwrite(bytes, start, self.bytes(usize::from(way)));
                }
            }
        }
    }
}

/// Replaces bytes, as far as there are any.
pub fn overwrite(bytes: &mut [u8], start: usize, new: &[u8]) {
    if let Some(place) = bytes.get_mut(start..) {
        let length = new.len().min(place.len());
        place[..length].copy_from_slice(&new[..length]);
    }
}

/// Returns an empty directory in memory.
pub fn directory() -> Directory {
    Directory::new(MemoryDirectory::default(), Access::Buffered)
}

/// Returns a directory in memory with one file.
pub fn directory_with(name: &str, bytes: &[u8]) -> Directory {
    let directory = directory();
    put(&directory, name, bytes);
    directory
}

/// Adds a file to a directory, unless the name exists.
pub fn put(directory: &Directory, name: &str, bytes: &[u8]) {
    if let Ok(file) = directory.create(name, Access::Buffered) {
        file.write(Purpose::Maintain, 0, bytes).expect("memory does not fail");
    }
}

/// Returns all bytes of a file.
pub fn contents(directory: &Directory, name: &str) -> Vec<u8> {
    let file = directory.open(name, Access::Buffered).expect("it was written");
    let length = file.length().expect("memory does not fail") as usize;
    let mut buffer = AlignedBuffer::default();
    file.read(Purpose::Maintain, 0, length, &mut buffer).expect("memory does not fail").to_vec()
}
