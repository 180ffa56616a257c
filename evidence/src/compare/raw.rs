//! The device itself: random direct reads of complete blocks of a store's files.

use crate::compare::meter::files_below;
use crate::compare::worker::Done;
use anyhow::{Context, Result, bail};
use siltstone_bench::random::{self, Rng};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// The bytes per read.
const BLOCK_BYTES: u64 = 4096;

struct Blocks {
    files: Vec<(u64, File)>,
    count: u64,
}

/// Reads random blocks of the files below a directory with this number of threads.
pub fn run(directory: &Path, threads: u64, duration: Duration, seed: u64) -> Result<Done> {
    let blocks = Blocks::open(directory)?;
    let blocks = &blocks;
    std::thread::scope(|scope| {
        let start = |thread| scope.spawn(move || blocks.read(random::stream(seed, thread), duration));
        let workers: Vec<_> = (0..threads).map(start).collect();
        let mut all = Done::new()?;
        for worker in workers {
            match worker.join() {
                Ok(done) => all.operations += done?,
                Err(_) => bail!("a thread ended in a panic"),
            }
        }
        Ok(all)
    })
}

impl Blocks {
    fn open(directory: &Path) -> Result<Blocks> {
        let mut blocks = Blocks { files: vec![], count: 0 };
        for path in files_below(directory)? {
            let file = OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_DIRECT)
                .open(&path)
                .with_context(|| format!("cannot open {} with direct I/O", path.display()))?;
            let count = file.metadata()?.len() / BLOCK_BYTES;
            if count > 0 {
                blocks.files.push((blocks.count, file));
                blocks.count += count;
            }
        }
        if blocks.count == 0 {
            bail!("there is nothing to read below {}", directory.display())
        } else {
            Ok(blocks)
        }
    }

    fn read(&self, mut random: Rng, duration: Duration) -> Result<u64> {
        let mut buffer = vec![0; 2 * BLOCK_BYTES as usize];
        let aligned = buffer.as_ptr().align_offset(BLOCK_BYTES as usize);
        let block = &mut buffer[aligned..aligned + BLOCK_BYTES as usize];
        let (mut reads, end) = (0, Instant::now() + duration);
        while Instant::now() < end {
            let number = random.u64(..self.count);
            let at = self.files.partition_point(|(first, _)| *first <= number) - 1;
            let (first, file) = &self.files[at];
            file.read_exact_at(block, (number - first) * BLOCK_BYTES)?;
            reads += 1;
        }
        Ok(reads)
    }
}
