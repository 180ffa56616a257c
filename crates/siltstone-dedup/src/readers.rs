//! Reads, cuts and hashes files on several threads.
//!
//! What was found as a file may be something else when it is opened: files are opened without following a link and
//! without waiting, and compared with what was found. Long holes are not read.
//!
//! Each thread takes one file after the other. There are more threads than cores: a small file is some reads one after
//! the other, and only many files at a time keep a drive busy. Blocks of a long file are hashed by the threads of a
//! pool, one per core, while the next block is read and cut, so that a single long file also uses all cores.

use super::backlog::{End, Piece, Sender, Stopped};
use super::chunks::{Blocks, Chunking};
use super::walk::Identity;
use anyhow::Context;
use rayon::{ThreadPool, ThreadPoolBuilder};
use rustix::fs::{OFlags, SeekFrom, seek};
use rustix::io::Errno;
use siltstone_command::interrupt::Interrupt;
use siltstone_command::patient::Patient;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, PoisonError};

/// The shortest hole that is not read, in bytes.
const HOLE_BYTES_MIN: u64 = 1 << 20;

/// A file to read.
pub struct Job {
    /// Identifies its pieces.
    pub number: u64,
    pub input: Input,
}

/// What is read.
pub enum Input {
    /// A file, from an offset in bytes that is a cut.
    File(PathBuf, Identity, u64),
    /// A stream, from its beginning.
    Stream(Patient),
}

/// What the threads share.
pub struct Readers<'a> {
    chunking: &'a Chunking,
    interrupt: &'a Interrupt,
    pool: ThreadPool,
}

impl<'a> Readers<'a> {
    /// Creates the threads that share the blocks of long files, one per core, but not more than `threads`.
    pub fn new(chunking: &'a Chunking, interrupt: &'a Interrupt, threads: usize) -> anyhow::Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let pool = ThreadPoolBuilder::new().num_threads(threads.min(cores)).build();
        let pool = pool.context("cannot start a thread; --threads takes fewer")?;
        Ok(Readers { chunking, interrupt, pool })
    }

    /// Reads the files of the jobs until there are none, or until the receiver has stopped.
    pub fn work(&self, jobs: &Mutex<Receiver<Job>>, pieces: &Sender<'_>) {
        loop {
            let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(Job { number, input }) = job else { return };
            let done = match input {
                Input::File(path, identity, start) => self.file(number, &path, identity, start, pieces),
                Input::Stream(stream) => {
                    self.read(Part { number, hole: 0, is_last: true }, stream, u64::MAX, pieces)
                }
            };
            let (hole, hashes, lengths) = (0, Vec::new(), Vec::new());
            let end = match done {
                Ok(Ok(())) => continue,
                Ok(Err(_)) if self.interrupt.is_raised() => End::Interrupted,
                Ok(Err(error)) => End::Failed(error),
                Err(Stopped) => return,
            };
            if pieces.send(Piece { number, hole, hashes, lengths, end: Some(end) }).is_err() {
                return;
            }
        }
    }

    /// Sends the pieces of a file from an offset on: those of its data, and the holes between them.
    fn file(
        &self,
        number: u64,
        path: &Path,
        identity: Identity,
        start: u64,
        pieces: &Sender<'_>,
    ) -> Result<io::Result<()>, Stopped> {
        let (file, size) = match open(path, identity) {
            Ok(opened) => opened,
            Err(error) => return Ok(Err(error)),
        };
        let mut at = start;
        loop {
            let extent = match next_extent(&file, size, at) {
                Ok(extent) => extent,
                Err(error) => return Ok(Err(error)),
            };
            let part = Part { number, hole: extent.start - at, is_last: extent.end.is_none() };
            // The last extent ends with the file, which may have grown.
            let length = extent.end.map_or(u64::MAX, |end| end - extent.start);
            let expected = extent.end.unwrap_or(size).saturating_sub(extent.start);
            match self.read(part, (&file).take(length), expected, pieces)? {
                Ok(()) if !part.is_last => at = extent.start + length,
                done => return Ok(done),
            }
        }
    }

    /// Sends the pieces of a part of a file that has about `expected` bytes. The outer error is that of the receiver,
    /// the inner one that of the file.
    fn read(
        &self,
        part: Part,
        source: impl Read + Send,
        expected: u64,
        pieces: &Sender<'_>,
    ) -> Result<io::Result<()>, Stopped> {
        let Part { number, mut hole, .. } = part;
        let mut blocks = Blocks::new(self.chunking, source, expected);
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
            let end = (block.is_last && part.is_last).then_some(End::Complete);
            let is_last = block.is_last;
            let before = std::mem::take(&mut hole);
            let piece = Piece { number, hole: before, hashes, lengths: block.lengths, end };
            pieces.send(piece)?;
            if is_last {
                return Ok(Ok(()));
            }
        }
    }
}

/// A part of a file that is cut into chunks by itself.
#[derive(Clone, Copy)]
struct Part {
    /// The number of the job.
    number: u64,
    /// The length of the hole before it, in bytes.
    hole: u64,
    /// Whether the file ends with it.
    is_last: bool,
}

/// Opens a file that was found, and returns its size with it. A pipe that has taken its place does not make it wait,
/// and a link is not followed.
fn open(path: &Path, identity: Identity) -> io::Result<(File, u64)> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    let data = file.metadata()?;
    if !data.is_file() || Identity::of(&data) != identity {
        return Err(io::Error::other("another file has taken its place since it was found"));
    }
    Ok((file, data.len()))
}

/// Bytes of a file between long holes.
struct Extent {
    start: u64,
    /// `None`: the end of the file.
    end: Option<u64>,
}

/// Returns the next data at or after an offset of a file of this size, and leaves the file there. Short holes are data.
fn next_extent(file: &File, size: u64, at: u64) -> io::Result<Extent> {
    // Most files are too small for a long hole, and then the calls are the most of what reading them costs.
    if size.saturating_sub(at) < HOLE_BYTES_MIN {
        if at > 0 {
            seek(file, SeekFrom::Start(at))?;
        }
        return Ok(Extent { start: at, end: None });
    }
    // Files without holes, and file systems that do not know any, have data everywhere.
    let find = |from: SeekFrom| match seek(file, from) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NXIO) => Ok(None),
        Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::SPIPE) => Ok(None),
        Err(error) => Err(io::Error::from(error)),
    };
    let start = match find(SeekFrom::Data(at))? {
        Some(start) if start.saturating_sub(at) >= HOLE_BYTES_MIN => start,
        // The file ends with a hole.
        None if size.saturating_sub(at) >= HOLE_BYTES_MIN && find(SeekFrom::Hole(at))? == Some(at) => size,
        _ => at,
    };
    let mut end = None;
    let mut from = start;
    while let Some(hole) = find(SeekFrom::Hole(from))?.filter(|hole| *hole < size) {
        let data = find(SeekFrom::Data(hole))?;
        if data.unwrap_or(size).saturating_sub(hole) >= HOLE_BYTES_MIN {
            end = Some(hole);
            break;
        }
        match data {
            Some(data) => from = data,
            None => break,
        }
    }
    seek(file, SeekFrom::Start(start))?;
    Ok(Extent { start, end })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileExt, symlink};

    #[test]
    fn only_the_file_that_was_found_is_opened() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "text").unwrap();
        let identity = Identity::of(&std::fs::symlink_metadata(&path).unwrap());
        assert!(open(&path, identity).is_ok());
        let replace = |with: &dyn Fn()| {
            std::fs::rename(&path, directory.path().join("before")).unwrap();
            with();
            let opened = open(&path, identity);
            std::fs::remove_file(&path).unwrap();
            std::fs::rename(directory.path().join("before"), &path).unwrap();
            opened
        };
        let make_pipe =
            || assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert!(replace(&make_pipe).is_err(), "a pipe without a writer");
        assert!(replace(&|| symlink("/dev/zero", &path).unwrap()).is_err(), "a link to a device");
        assert!(replace(&|| symlink("before", &path).unwrap()).is_err(), "a link to the file itself");
        assert!(replace(&|| std::fs::write(&path, "text").unwrap()).is_err(), "another file");
    }

    #[test]
    fn extents_end_at_long_holes() {
        let file = tempfile::tempfile().unwrap();
        let (mebibyte, text) = (1 << 20, [7; 4096]);
        let size = 20 * mebibyte;
        file.set_len(size).unwrap();
        for at in [4 * mebibyte, 4 * mebibyte + 65_536, 10 * mebibyte] {
            file.write_all_at(&text, at).unwrap();
        }
        if next_extent(&file, size, 0).unwrap().start == 0 {
            // This file system has no holes.
            return;
        }
        let mut extents = Vec::new();
        let mut at = 0;
        while let Extent { start, end: Some(end) } = next_extent(&file, size, at).unwrap() {
            extents.push((start, end));
            at = end;
        }
        assert_eq!(extents.len(), 2, "{extents:?}");
        assert_eq!((extents[0].0, extents[1].0), (4 * mebibyte, 10 * mebibyte));
        assert_eq!(next_extent(&file, size, at).unwrap().start, 20 * mebibyte, "the last hole");
    }
}
