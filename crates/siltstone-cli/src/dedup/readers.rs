//! Reads, cuts and hashes files on several threads.
//!
//! Each thread takes one file after the other. Blocks of a long file are hashed by all threads of a pool while the next
//! block is read and cut, so that a single long file also uses all cores.

use super::chunks::{Blocks, Chunking};
use crate::input::Patient;
use crate::interrupt::Interrupt;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Mutex, PoisonError};

/// A file to read.
pub struct Job {
    /// Identifies its pieces.
    pub number: u64,
    pub input: Input,
}

/// What is read.
pub enum Input {
    /// A file, from an offset in bytes that is a cut.
    File(PathBuf, u64),
    /// A stream, from its beginning.
    Stream(Patient),
}

/// Consecutive chunks of a file.
pub struct Piece {
    /// The number of the job.
    pub number: u64,
    /// The hashes of the chunks, concatenated.
    pub hashes: Vec<u8>,
    /// Their lengths, in bytes.
    pub lengths: Vec<u32>,
    /// How the reading of the file ended; `None` if more pieces follow.
    pub end: Option<End>,
}

/// How the reading of a file ended.
pub enum End {
    Complete,
    Interrupted,
    Failed(io::Error),
}

/// What the threads share.
pub struct Readers<'a> {
    chunking: &'a Chunking,
    interrupt: &'a Interrupt,
    pool: ThreadPool,
}

/// The receiver of the pieces has stopped.
struct Stopped;

impl<'a> Readers<'a> {
    /// Creates the threads that share the blocks of long files.
    pub fn new(chunking: &'a Chunking, interrupt: &'a Interrupt, threads: usize) -> anyhow::Result<Self> {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build()?;
        Ok(Readers { chunking, interrupt, pool })
    }

    /// Reads the files of the jobs until there are none, or until the receiver has stopped.
    pub fn work(&self, jobs: &Mutex<Receiver<Job>>, pieces: &SyncSender<Piece>) {
        loop {
            let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(Job { number, input }) = job else { return };
            let done = match input {
                Input::File(path, start) => self.file(number, &path, start, pieces),
                Input::Stream(stream) => self.read(number, stream, pieces),
            };
            let (hashes, lengths) = (Vec::new(), Vec::new());
            let end = match done {
                Ok(Ok(())) => continue,
                Ok(Err(_)) if self.interrupt.is_raised() => End::Interrupted,
                Ok(Err(error)) => End::Failed(error),
                Err(Stopped) => return,
            };
            if pieces.send(Piece { number, hashes, lengths, end: Some(end) }).is_err() {
                return;
            }
        }
    }

    fn file(
        &self,
        number: u64,
        path: &PathBuf,
        start: u64,
        pieces: &SyncSender<Piece>,
    ) -> Result<io::Result<()>, Stopped> {
        let open = || {
            let mut file = File::open(path)?;
            file.seek(SeekFrom::Start(start))?;
            Ok(file)
        };
        match open() {
            Ok(file) => self.read(number, file, pieces),
            Err(error) => Ok(Err(error)),
        }
    }

    /// Sends the pieces of a file. The outer error is that of the receiver, the inner one that of the file.
    fn read(
        &self,
        number: u64,
        source: impl Read + Send,
        pieces: &SyncSender<Piece>,
    ) -> Result<io::Result<()>, Stopped> {
        let mut blocks = Blocks::new(self.chunking, source);
        let mut next = self.interrupt.check().and_then(|()| blocks.read_next());
        loop {
            let block = match next {
                Ok(block) => block,
                Err(error) => return Ok(Err(error)),
            };
            let hashes;
            if block.is_last {
                hashes = block.hashes(self.chunking);
                next = Err(io::ErrorKind::UnexpectedEof.into());
            } else {
                let read = || self.interrupt.check().and_then(|()| blocks.read_next());
                (next, hashes) = self.pool.join(read, || block.hashes_by_all(self.chunking));
            }
            let end = block.is_last.then_some(End::Complete);
            let is_last = block.is_last;
            pieces.send(Piece { number, hashes, lengths: block.lengths, end }).map_err(|_| Stopped)?;
            if is_last {
                return Ok(Ok(()));
            }
        }
    }
}
