//! One run over the files: what to read, how far it got, and when that becomes durable.

use super::backlog::{Backlog, Receiver};
use super::chunks::Chunking;
use super::formats::{FileEntry, Stamp};
use super::index::{Index, STREAM};
use super::readers::{End, Input, Job, Piece, Readers};
use super::walk::{Failure, Found, Identity, Walk};
use anyhow::{Context, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use siltstone_command::database::expiry_after;
use siltstone_command::interrupt::Interrupt;
use siltstone_command::notation::shown;
use siltstone_command::outcome::complain;
use siltstone_command::patient;
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// The maximum number of files that wait to be read, or whose chunks wait to be indexed. With small files, this is what
/// is read while a commit syncs; each takes its path twice, and some 200 bytes.
const FILES_WAITING_MAX: usize = 4096;
/// The number of chunks that are taken and looked up together.
const TAKEN_CHUNKS: usize = 1024;

/// One run over the files.
pub struct Scan<'a> {
    pub index: Index,
    pub files: FileCounts,
    interrupt: &'a Interrupt,
    verbose: bool,
    bar: ProgressBar,
    /// The files that are being read, by the number of their job.
    active: HashMap<u64, Active>,
    jobs: u64,
    started_at_ms: u64,
}

/// The results of a run, by file.
#[derive(Debug, Clone, Default)]
pub struct FileCounts {
    /// Files read for the first time.
    pub new: u64,
    /// Files read again because they have changed.
    pub changed: u64,
    /// Files whose reading continued where an interrupted run stopped.
    pub resumed: u64,
    /// Their bytes that earlier runs have read.
    pub resumed_bytes: u64,
    /// The chunks of these bytes.
    pub resumed_chunks: u64,
    /// Files that were already indexed.
    pub unchanged: u64,
    /// Their bytes.
    pub unchanged_bytes: u64,
    /// Their chunks.
    pub unchanged_chunks: u64,
    /// Further names of files with hard links, which are not read.
    pub linked: u64,
    /// Files and directories that could not be read.
    pub failed: u64,
    /// The first of them, with the error.
    pub failures: Vec<(PathBuf, String)>,
}

/// The maximum number of failures listed in the report.
const FAILURES_TOLD_MAX: usize = 100;

/// A file that is being read.
struct Active {
    path: PathBuf,
    key: Vec<u8>,
    stamp: Stamp,
    /// Its entry before this run.
    known: Option<FileEntry>,
    /// Its entry, once the first piece has arrived.
    entry: Option<FileEntry>,
}

/// What a run reads.
pub struct Sources<'a> {
    /// The files.
    pub walk: Walk<'a>,
    /// The name of standard input, if it is read.
    pub stream: Option<&'a str>,
}

impl<'a> Scan<'a> {
    /// Starts a run.
    pub fn new(index: Index, interrupt: &'a Interrupt, verbose: bool) -> Self {
        Scan {
            index,
            files: FileCounts::default(),
            interrupt,
            verbose,
            bar: ProgressBar::new(0),
            active: HashMap::new(),
            jobs: 0,
            started_at_ms: expiry_after(Duration::ZERO).unwrap_or_default(),
        }
    }

    /// Returns the time when the run began, in milliseconds since the Unix epoch.
    pub fn started_at_ms(&self) -> u64 {
        self.started_at_ms
    }

    /// Indexes all files and the stream until the user interrupts, and makes the result durable. `threads` threads
    /// read, cut and hash; the caller's thread indexes. The paths in `missing` count as files that cannot be read.
    pub fn run(
        &mut self,
        sources: &Sources<'_>,
        missing: Vec<Failure>,
        chunking: &Chunking,
        threads: usize,
    ) -> anyhow::Result<()> {
        missing.iter().for_each(|(path, error)| self.fail(path, error));
        let empty = self.count(&sources.walk)?;
        if !self.interrupt.is_raised() {
            for path in empty {
                complain(format_args!("{}: there is no file at or below this path", shown(&path)));
            }
            for pattern in sources.walk.unused_patterns() {
                complain(format_args!("--exclude {pattern}: matches nothing"));
            }
        }
        for path in sources.walk.mounted() {
            self.index.note_mounted(&path);
        }
        let readers = Readers::new(chunking, self.interrupt)?;
        let (jobs, waiting) = channel();
        let waiting = Mutex::new(waiting);
        let backlog = Backlog::new(threads);
        std::thread::scope(|scope| {
            // Dropped at the end of the scope, also by an error: the readers stop then.
            let (jobs, pieces) = (jobs, backlog.receiver());
            for _ in 0..threads {
                let (done, readers, waiting) = (backlog.sender(), &readers, &waiting);
                let spawned =
                    std::thread::Builder::new().spawn_scoped(scope, move || readers.work(waiting, &done));
                spawned.context("cannot start a thread; --threads takes fewer")?;
            }
            self.feed(sources, jobs, &pieces)
        })?;
        self.bar.finish_and_clear();
        self.index.commit()
    }

    /// Counts the files and bytes, so that the progress bar can estimate the remaining time. Returns the roots without
    /// a file.
    fn count(&mut self, walk: &Walk<'_>) -> anyhow::Result<Vec<PathBuf>> {
        self.bar.set_style(ProgressStyle::with_template("looking for files {spinner} {human_pos}")?);
        let mut bytes = 0;
        let mut empty = walk.roots().to_vec();
        for found in walk.files() {
            if self.interrupt.is_raised() {
                break;
            }
            match found {
                Found::File(path, stamp, _) => {
                    bytes += stamp.size;
                    empty.retain(|root| !path.starts_with(root));
                    self.bar.inc(1);
                }
                // It is reported when it is counted.
                Found::Unreadable(path, _) => empty.retain(|root| !path.starts_with(root)),
                Found::Linked => {}
            }
        }
        let template = "[{bar:30}] {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left; {msg}";
        self.bar.set_style(ProgressStyle::with_template(template)?.progress_chars("=> "));
        self.bar.set_position(0);
        self.bar.set_length(bytes);
        self.bar.reset_eta();
        Ok(empty)
    }

    /// Gives the files to the threads, some at a time, and indexes their pieces.
    fn feed(
        &mut self,
        sources: &Sources<'_>,
        jobs: Sender<Job>,
        pieces: &Receiver<'_>,
    ) -> anyhow::Result<()> {
        if let Some(name) = sources.stream {
            let key = [STREAM, name.as_bytes()].concat();
            let known = self.index.entry(&key)?;
            let stream = patient::open(Path::new("-"), self.interrupt)?;
            let active = Active {
                path: format!("stream:{name}").into(),
                key,
                stamp: Stamp::default(),
                known,
                entry: None,
            };
            // A stream is always read again, from its beginning.
            self.start(active, Input::Stream(stream), &jobs);
        }
        for found in sources.walk.files() {
            if self.interrupt.is_raised() {
                break;
            }
            match found {
                Found::Unreadable(path, error) => self.fail(&path, &error),
                Found::Linked => self.files.linked += 1,
                Found::File(path, stamp, identity) => self.file(path, stamp, identity, &jobs)?,
            }
            while self.active.len() >= FILES_WAITING_MAX {
                self.take(pieces)?;
            }
            self.index.commit_if_due()?;
        }
        drop(jobs);
        while !self.active.is_empty() {
            self.take(pieces)?;
        }
        Ok(())
    }

    /// Has a file read, unless it is already indexed.
    fn file(
        &mut self,
        path: PathBuf,
        stamp: Stamp,
        identity: Identity,
        jobs: &Sender<Job>,
    ) -> anyhow::Result<()> {
        let key = path.as_os_str().as_bytes().to_vec();
        let known = self.index.entry(&key)?;
        let mut start = 0;
        match known {
            Some(mut entry) if entry.stamp == stamp && entry.complete => {
                self.files.unchanged += 1;
                self.files.unchanged_bytes += entry.done_bytes;
                self.files.unchanged_chunks += entry.chunks;
                self.bar.dec_length(stamp.size);
                entry.run = self.index.run();
                self.index.set_entry(&key, &entry);
                return Ok(());
            }
            Some(entry) if entry.stamp == stamp => start = entry.done_bytes,
            _ => {}
        }
        let input = Input::File(path.clone(), identity, start);
        self.start(Active { path, key, stamp, known, entry: None }, input, jobs);
        Ok(())
    }

    fn start(&mut self, active: Active, input: Input, jobs: &Sender<Job>) {
        self.jobs += 1;
        self.active.insert(self.jobs, active);
        // The threads end only when there are no more jobs.
        let _ = jobs.send(Job { number: self.jobs, input });
    }

    /// Waits for pieces, indexes all that wait, and commits if it is due.
    fn take(&mut self, pieces: &Receiver<'_>) -> anyhow::Result<()> {
        let taken = pieces.receive(TAKEN_CHUNKS);
        ensure!(!taken.is_empty(), "the threads that read have ended before their files");
        // All at once, so that their reads overlap: most files have few chunks.
        self.index.look_up(taken.iter().map(|piece| &piece.hashes[..]))?;
        taken.into_iter().try_for_each(|piece| self.add(piece))?;
        if self.index.is_commit_due() {
            self.index.commit()?;
            let now = self.index.now();
            self.bar.set_message(format!("{} chunks, {} of them unique", now.chunks, now.unique_chunks));
        }
        Ok(())
    }

    /// Indexes a piece.
    fn add(&mut self, piece: Piece) -> anyhow::Result<()> {
        let Piece { number, hole, hashes, lengths, end } = piece;
        let Some(mut active) = self.active.remove(&number) else { return Ok(()) };
        let is_read = !lengths.is_empty() || hole > 0 || matches!(end, Some(End::Complete));
        if is_read {
            let mut entry = match active.entry {
                Some(entry) => entry,
                None => self.begin(&active)?,
            };
            entry.complete = matches!(end, Some(End::Complete));
            self.index.add_hole(&mut entry, hole);
            self.index.add(&active.key, &mut entry, self.started_at_ms, hashes, &lengths)?;
            if entry.complete && active.known.is_some() {
                self.index.forget_superseded(&active.key)?;
            }
            active.entry = Some(entry);
            self.bar.inc(hole + lengths.iter().map(|&length| u64::from(length)).sum::<u64>());
        }
        match end {
            None => drop(self.active.insert(number, active)),
            Some(End::Failed(error)) => {
                let error = anyhow::Error::from(error);
                self.fail(
                    &active.path,
                    &match active.entry {
                        Some(_) => error.context("cannot continue to read"),
                        None => error,
                    },
                );
            }
            Some(End::Complete | End::Interrupted) => {}
        }
        Ok(())
    }

    /// Returns the entry of a file whose first piece has arrived.
    fn begin(&mut self, active: &Active) -> anyhow::Result<FileEntry> {
        let is_stream = active.key.starts_with(STREAM);
        let word = match &active.known {
            Some(known) if known.stamp == active.stamp && !known.complete && !is_stream => {
                self.files.resumed += 1;
                self.files.resumed_bytes += known.done_bytes;
                self.files.resumed_chunks += known.chunks;
                self.bar.dec_length(known.done_bytes);
                return Ok(FileEntry { run: self.index.run(), ..*known });
            }
            Some(known) => {
                self.files.changed += 1;
                self.index.supersede(&active.key, known)?;
                "changed"
            }
            None => {
                self.files.new += 1;
                "new"
            }
        };
        if self.verbose {
            self.bar.suspend(|| complain(format_args!("{word}: {}", shown(&active.path))));
        }
        Ok(FileEntry { stamp: active.stamp, ..self.index.add_file() })
    }

    fn fail(&mut self, path: &Path, error: &anyhow::Error) {
        self.files.failed += 1;
        self.bar.suspend(|| complain(format_args!("{}: {error:#}; skipped", shown(path))));
        if self.files.failures.len() < FAILURES_TOLD_MAX {
            self.files.failures.push((path.to_owned(), format!("{error:#}")));
        }
    }
}
