//! One run over the files: what to read, how far it got, and when that becomes durable.

use super::backlog::{Backlog, End, Piece, Receiver};
use super::chunks::Chunking;
use super::formats::{FileEntry, Stamp};
use super::index::{Index, STREAM};
use super::readers::{Input, Job, Readers};
use super::walk::{Failure, Found, Identity, Walk};
use anyhow::{Context, anyhow, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use siltstone_command::interrupt::Interrupt;
use siltstone_command::notation::shown;
use siltstone_command::outcome::complain;
use siltstone_command::patient;
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};

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
    /// Prepares a run that began at a time, in milliseconds since the Unix epoch.
    pub fn new(index: Index, interrupt: &'a Interrupt, verbose: bool, started_at_ms: u64) -> Self {
        Scan {
            index,
            files: FileCounts::default(),
            interrupt,
            verbose,
            bar: ProgressBar::new(0),
            active: HashMap::new(),
            jobs: 0,
            started_at_ms,
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
        sources: Sources<'_>,
        missing: Vec<Failure>,
        chunking: &Chunking,
        threads: usize,
    ) -> anyhow::Result<()> {
        missing.iter().for_each(|(path, error)| self.fail(path, error));
        let readers = Readers::new(chunking, self.interrupt, threads)?;
        let (jobs, waiting) = channel();
        let waiting = Mutex::new(waiting);
        let backlog = Backlog::new(threads);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // Dropped at the end of the scope, also by an error: the walk and the readers stop then.
            let (jobs, receiver) = (jobs, backlog.receiver());
            let builder = std::thread::Builder::new;
            for _ in 0..threads {
                let (done, readers, waiting) = (backlog.sender(), &readers, &waiting);
                let spawned = builder().spawn_scoped(scope, move || readers.work(waiting, &done));
                spawned.context("cannot start a thread; --threads takes fewer")?;
            }
            let (interrupt, roots) = (self.interrupt, sources.walk.roots().to_vec());
            if !self.bar.is_hidden() {
                let (walk, bar, is_over) = (sources.walk.clone(), self.bar.clone(), &is_over);
                builder().spawn_scoped(scope, move || count(&walk, &bar, interrupt, is_over))?;
            }
            let (walk, finder) = (sources.walk, backlog.finder());
            let walking = builder().spawn_scoped(scope, move || {
                let _ = walk
                    .files()
                    .take_while(|_| !interrupt.is_raised())
                    .try_for_each(|found| finder.find(found));
                walk
            })?;
            let indexed = self.index_all(sources.stream, roots, &jobs, &receiver);
            is_over.store(true, Relaxed);
            indexed?;
            drop(receiver);
            let walk = walking.join().map_err(|_| anyhow!("the thread that looks for files has panicked"))?;
            if !self.interrupt.is_raised() {
                for pattern in walk.unused_patterns() {
                    self.complain(format_args!("--exclude {pattern}: matches nothing"));
                }
            }
            Ok::<_, anyhow::Error>(())
        })?;
        self.bar.finish_and_clear();
        self.index.commit()
    }

    /// Gives what was found to the threads, some files at a time, and indexes their pieces.
    fn index_all(
        &mut self,
        stream: Option<&str>,
        mut empty: Vec<PathBuf>,
        jobs: &Sender<Job>,
        receiver: &Receiver<'_>,
    ) -> anyhow::Result<()> {
        if let Some(name) = stream {
            self.start_stream(name, jobs)?;
        }
        let mut is_walked = false;
        loop {
            is_walked |= self.interrupt.is_raised();
            if is_walked && self.active.is_empty() {
                break;
            }
            let files_max = if is_walked { 0 } else { FILES_WAITING_MAX - self.active.len() };
            let taken = receiver.receive(files_max, TAKEN_CHUNKS);
            ensure!(
                files_max > 0 || !taken.pieces.is_empty(),
                "the threads that read have ended before their files"
            );
            is_walked |= taken.is_walked;
            for found in taken.found {
                if let Found::File(path, ..) | Found::Unreadable(path, _) = &found {
                    empty.retain(|root| !path.starts_with(root));
                }
                self.found(found, jobs)?;
            }
            // All at once, so that their reads overlap: most files have few chunks.
            self.index.look_up(taken.pieces.iter().map(|piece| &piece.hashes[..]))?;
            taken.pieces.into_iter().try_for_each(|piece| self.add(piece))?;
            if self.index.is_commit_due() {
                self.index.commit()?;
                let now = self.index.now();
                self.bar.set_message(format!("{} chunks, {} of them unique", now.chunks, now.unique_chunks));
            }
        }
        if !self.interrupt.is_raised() {
            for path in empty {
                self.complain(format_args!("{}: there is no file at or below this path", shown(&path)));
            }
        }
        Ok(())
    }

    /// Has standard input read. A stream is always read again, from its beginning.
    fn start_stream(&mut self, name: &str, jobs: &Sender<Job>) -> anyhow::Result<()> {
        let key = [STREAM, name.as_bytes()].concat();
        let known = self.index.entry(&key)?;
        let stream = patient::open(Path::new("-"), self.interrupt)?;
        let path = format!("stream:{name}").into();
        let active = Active { path, key, stamp: Stamp::default(), known, entry: None };
        self.start(active, Input::Stream(stream), jobs);
        Ok(())
    }

    fn found(&mut self, found: Found, jobs: &Sender<Job>) -> anyhow::Result<()> {
        match found {
            Found::Mounted(path) => self.index.note_mounted(&path),
            Found::Unreadable(path, error) => self.fail(&path, &error),
            Found::Linked => self.files.linked += 1,
            Found::File(path, stamp, identity) => self.file(path, stamp, identity, jobs)?,
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
                self.bar.inc(stamp.size);
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
                self.bar.inc(known.done_bytes);
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
            self.complain(format_args!("{word}: {}", shown(&active.path)));
        }
        Ok(FileEntry { stamp: active.stamp, ..self.index.add_file() })
    }

    /// Prints a line to standard error, above the progress bar.
    fn complain(&self, line: std::fmt::Arguments<'_>) {
        self.bar.suspend(|| complain(line));
    }

    fn fail(&mut self, path: &Path, error: &anyhow::Error) {
        self.files.failed += 1;
        self.complain(format_args!("{}: {error:#}; skipped", shown(path)));
        if self.files.failures.len() < FAILURES_TOLD_MAX {
            self.files.failures.push((path.to_owned(), format!("{error:#}")));
        }
    }
}

/// Counts the bytes of all files while they are read, so that the progress bar can estimate the remaining time.
fn count(walk: &Walk<'_>, bar: &ProgressBar, interrupt: &Interrupt, is_over: &AtomicBool) {
    let style =
        |template| ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.set_style(style("{bytes} of {total_bytes} found so far, {bytes_per_sec}; {msg}"));
    for found in walk.files() {
        if interrupt.is_raised() || is_over.load(Relaxed) {
            return;
        }
        if let Found::File(_, stamp, _) = found {
            bar.inc_length(stamp.size);
        }
    }
    let known = style("[{bar:30}] {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left; {msg}");
    bar.set_style(known.progress_chars("=> "));
}
