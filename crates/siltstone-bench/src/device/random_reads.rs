//! Random reads of existing files: the rate of a drive at a block size and a queue depth.

use siltstone::{Error, Result};
use siltstone_device::{AlignedBuffer, Directory, File, Purpose, ReadRequest, read_batch};

/// Random reads at multiples of a block size. Each block of each file is equally likely. Each thread has its own.
pub(super) struct RandomReads {
    files: Vec<File>,
    /// The number of blocks up to the end of each file.
    block_ends: Vec<u64>,
    block_bytes: usize,
    buffers: Vec<AlignedBuffer>,
    random: fastrand::Rng,
}

impl RandomReads {
    /// Reads blocks of `block_bytes` in the named files of the directory, with the directory's access and queue
    /// depth. The same `seed` reads the same blocks.
    ///
    /// # Errors
    /// [`Error::Io`] if a file cannot be opened; [`Error::Setting`] if no file contains a block.
    pub fn new(directory: &Directory, names: &[&str], block_bytes: usize, seed: u64) -> Result<Self> {
        let mut reads = RandomReads {
            files: Vec::new(),
            block_ends: Vec::new(),
            block_bytes,
            buffers: Vec::new(),
            random: fastrand::Rng::with_seed(seed),
        };
        let mut blocks = 0;
        for name in names {
            let file = directory.open(name, directory.access())?;
            blocks += file.length()?.checked_div(block_bytes as u64).unwrap_or(0);
            reads.files.push(file);
            reads.block_ends.push(blocks);
        }
        match blocks {
            0 => Err(Error::Setting {
                name: "block_bytes",
                problem: format!("{block_bytes} bytes exceed the size of the files; use smaller blocks"),
            }),
            _ => Ok(reads),
        }
    }

    /// Does `count` random reads as one batch and returns the number of bytes that they fetched.
    pub fn read(&mut self, count: usize) -> Result<u64> {
        let blocks = self.block_ends.last().copied().unwrap_or(0);
        let mut batch = Vec::with_capacity(count);
        for _ in 0..count {
            let block = self.random.u64(..blocks);
            let at = self.block_ends.partition_point(|&end| end <= block);
            let before = if at == 0 { 0 } else { self.block_ends[at - 1] };
            let offset = (block - before) * self.block_bytes as u64;
            batch.push(ReadRequest { file: &self.files[at], offset, length: self.block_bytes });
        }
        read_batch(Purpose::Get, &batch, &mut self.buffers, |_, bytes| bytes.map(|_| ()))?;
        Ok(count as u64 * self.block_bytes as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone::Access;
    use siltstone_device::memory::MemoryDirectory;
    use siltstone_device::{DirectoryBackend, FileBackend, FileState, LockMode, OpenMode};
    use std::collections::BTreeSet;
    use std::io;
    use std::path::PathBuf;
    use std::sync::{Arc, Mutex};

    /// A directory that records the files and the offsets that are read.
    #[derive(Clone, Default)]
    struct Watched(MemoryDirectory, Arc<Mutex<Vec<(String, u64)>>>);

    struct WatchedFile(Box<dyn FileBackend>, String, Watched);

    impl DirectoryBackend for Watched {
        fn open(&self, name: &str, access: Access, mode: OpenMode) -> io::Result<Box<dyn FileBackend>> {
            Ok(Box::new(WatchedFile(self.0.open(name, access, mode)?, name.to_owned(), self.clone())))
        }
        fn list(&self) -> io::Result<Vec<String>> {
            self.0.list()
        }
        fn remove(&self, name: &str) -> io::Result<()> {
            self.0.remove(name)
        }
        fn rename(&self, from: &str, to: &str) -> io::Result<()> {
            self.0.rename(from, to)
        }
        fn sync(&self) -> io::Result<()> {
            self.0.sync()
        }
        fn lock(&self, name: &str, mode: LockMode) -> io::Result<Box<dyn Send + Sync>> {
            self.0.lock(name, mode)
        }
        fn path(&self) -> PathBuf {
            self.0.path()
        }
    }

    impl FileBackend for WatchedFile {
        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
            self.2.1.lock().unwrap().push((self.1.clone(), offset));
            self.0.read_at(offset, buffer)
        }
        fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
            self.0.write_at(offset, bytes)
        }
        fn sync(&self) -> io::Result<()> {
            self.0.sync()
        }
        fn truncate(&self, length: u64) -> io::Result<()> {
            self.0.truncate(length)
        }
        fn state(&self) -> io::Result<FileState> {
            self.0.state()
        }
    }

    #[test]
    fn every_whole_block_of_every_file_is_read_and_a_seed_repeats_itself() {
        let watched = Watched::default();
        let directory = Directory::new(watched.clone(), Access::Buffered);
        for (name, bytes) in [("short", 511), ("two", 1024), ("three", 1536 + 100)] {
            directory
                .create(name, Access::Buffered)
                .unwrap()
                .write(Purpose::Log, 0, &vec![0; bytes])
                .unwrap();
        }
        let mut runs = Vec::new();
        for seed in [1, 1, 2] {
            let mut reads = RandomReads::new(&directory, &["short", "two", "three"], 512, seed).unwrap();
            assert_eq!(reads.read(1000).unwrap(), 512_000);
            runs.push(std::mem::take(&mut *watched.1.lock().unwrap()));
        }
        assert!(runs[0] == runs[1] && runs[0] != runs[2]);
        let blocks: BTreeSet<_> = runs[0].iter().map(|(name, offset)| (name.as_str(), *offset)).collect();
        let all = [("three", 0), ("three", 512), ("three", 1024), ("two", 0), ("two", 512)];
        assert!(blocks.into_iter().eq(all));
        assert!(RandomReads::new(&directory, &["short"], 512, 1).is_err());
        assert!(RandomReads::new(&directory, &["two"], 0, 1).is_err());
    }
}
