//! One run over the files: what to read, how far it got, and when that becomes durable.

use super::catalogue::Catalogue;
use super::chunks::Chunking;
use super::formats::{FileEntry, Metadata, Stamp};
use super::indexer::Indexer;
use super::walk::{self, Found};
use crate::interrupt::Interrupt;
use crate::open::expiry_after;
use crate::outcome::complain;
use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The work that a killed run loses at most.
const COMMIT_INTERVAL: Duration = Duration::from_secs(2);

/// One run over the files.
pub struct Scan<'a> {
    pub chunking: Chunking,
    pub catalogue: Catalogue,
    pub indexer: Indexer,
    pub files: FileCounts,
    interrupt: &'a Interrupt,
    verbose: bool,
    bar: ProgressBar,
    committed: Instant,
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
    /// Files and directories that could not be read.
    pub failed: u64,
    /// The first of them, with the error.
    pub failures: Vec<(PathBuf, String)>,
}

/// The maximum number of failures listed in the report.
const FAILURES_TOLD_MAX: usize = 100;

/// How the reading of a file ended.
enum End {
    Complete,
    Interrupted,
}

impl<'a> Scan<'a> {
    /// Starts a run.
    pub fn new(
        chunking: Chunking,
        catalogue: Catalogue,
        indexer: Indexer,
        interrupt: &'a Interrupt,
        verbose: bool,
    ) -> Self {
        Scan {
            chunking,
            catalogue,
            indexer,
            files: FileCounts::default(),
            interrupt,
            verbose,
            bar: ProgressBar::new(0),
            committed: Instant::now(),
            started_at_ms: expiry_after(Duration::ZERO).unwrap_or_default(),
        }
    }

    /// Indexes all files below the roots until the user interrupts, and makes the result durable.
    pub fn run(&mut self, roots: &[PathBuf], without: &[PathBuf]) -> anyhow::Result<()> {
        self.count(roots, without)?;
        for found in walk::files(roots, without) {
            if self.interrupt.is_raised() {
                break;
            }
            match found {
                Found::Unreadable(path, error) => self.fail(&path, &error),
                Found::File(path, size) => self.file(&path, size)?,
            }
        }
        self.bar.finish_and_clear();
        self.commit()
    }

    /// Counts the files and bytes, so that the progress bar can estimate the remaining time.
    fn count(&mut self, roots: &[PathBuf], without: &[PathBuf]) -> anyhow::Result<()> {
        self.bar.set_style(ProgressStyle::with_template("looking for files {spinner} {human_pos}")?);
        self.bar.enable_steady_tick(Duration::from_millis(200));
        let mut bytes = 0;
        for found in walk::files(roots, without) {
            if self.interrupt.is_raised() {
                break;
            }
            if let Found::File(_, size) = found {
                bytes += size;
                self.bar.inc(1);
            }
        }
        let template = "[{bar:30}] {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left; {msg}";
        self.bar.set_style(ProgressStyle::with_template(template)?.progress_chars("=> "));
        self.bar.set_position(0);
        self.bar.set_length(bytes);
        self.bar.reset_eta();
        Ok(())
    }

    fn fail(&mut self, path: &Path, error: &anyhow::Error) {
        self.files.failed += 1;
        self.bar.suspend(|| complain(format_args!("{}: {error:#}; skipped", path.display())));
        if self.files.failures.len() < FAILURES_TOLD_MAX {
            self.files.failures.push((path.to_owned(), format!("{error:#}")));
        }
    }

    /// Indexes a file, unless it is already indexed. Read errors are counted; errors of the index are returned.
    fn file(&mut self, path: &Path, announced_bytes: u64) -> anyhow::Result<()> {
        let opened = File::open(path).and_then(|file| file.metadata().map(|metadata| (file, metadata)));
        let (mut file, metadata) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                self.fail(path, &error.into());
                self.skip(announced_bytes);
                return Ok(());
            }
        };
        let (modified_ns, changed_ns) = walk::change_times_ns(&metadata);
        let stamp = Stamp { size: metadata.len(), modified_ns, changed_ns };
        let Some(mut entry) = self.begin(path, stamp, announced_bytes)? else { return Ok(()) };
        self.skip(entry.done_bytes);
        let read = match file.seek(SeekFrom::Start(entry.done_bytes)) {
            Ok(_) => self.read(file, path, &mut entry)?,
            Err(error) => Err(error),
        };
        match read {
            Ok(End::Complete) => entry.complete = true,
            Ok(End::Interrupted) => {}
            Err(error) => self.fail(path, &anyhow::Error::from(error).context("cannot continue to read")),
        }
        self.catalogue.set(path, entry);
        Ok(())
    }

    /// Returns where to continue reading a file; `None` if it is already indexed.
    fn begin(
        &mut self,
        path: &Path,
        stamp: Stamp,
        announced_bytes: u64,
    ) -> anyhow::Result<Option<FileEntry>> {
        let known = self.catalogue.get(path)?;
        let (count, word) = match known {
            Some(entry) if entry.stamp == stamp && entry.complete => {
                self.files.unchanged += 1;
                self.files.unchanged_bytes += entry.done_bytes;
                self.files.unchanged_chunks += entry.chunks;
                self.skip(announced_bytes);
                return Ok(None);
            }
            Some(entry) if entry.stamp == stamp => {
                self.files.resumed += 1;
                self.files.resumed_bytes += entry.done_bytes;
                self.files.resumed_chunks += entry.chunks;
                return Ok(Some(entry));
            }
            Some(_) => (&mut self.files.changed, "changed"),
            None => (&mut self.files.new, "new"),
        };
        *count += 1;
        if self.verbose {
            self.bar.suspend(|| complain(format_args!("{word}: {}", path.display())));
        }
        self.catalogue.totals_mut().files += 1;
        Ok(Some(FileEntry { id: self.catalogue.new_file_id(), stamp, ..FileEntry::default() }))
    }

    /// Removes bytes from the progress bar that need not be read, so that its rate is that of reading.
    fn skip(&self, bytes: u64) {
        self.bar.dec_length(bytes);
    }

    /// Reads a file from its entry's position. The outer error is the index's, the inner one the file's.
    fn read(
        &mut self,
        file: File,
        path: &Path,
        entry: &mut FileEntry,
    ) -> anyhow::Result<std::io::Result<End>> {
        let chunking = self.chunking.clone();
        for chunk in chunking.chunks(file) {
            let chunk = match chunk {
                Ok(chunk) => chunk,
                Err(error) => return Ok(Err(error)),
            };
            let metadata = Metadata {
                file_id: entry.id,
                offset: entry.done_bytes,
                position: entry.chunks,
                seen_at_ms: self.started_at_ms,
                length: chunk.length,
                run: self.catalogue.run(),
            };
            entry.done_bytes += u64::from(chunk.length);
            entry.chunks += 1;
            if self.indexer.add(&chunk.hash, metadata) {
                self.flush()?;
                if self.committed.elapsed() >= COMMIT_INTERVAL {
                    self.catalogue.set(path, *entry);
                    self.commit()?;
                }
            }
            self.bar.inc(chunk.length.into());
            if self.interrupt.is_raised() {
                return Ok(Ok(End::Interrupted));
            }
        }
        Ok(Ok(End::Complete))
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        self.indexer.flush(self.catalogue.totals_mut()).context("cannot index the chunks")?;
        let totals = self.catalogue.totals();
        self.bar.set_message(format!("{} chunks, {} of them unique", totals.chunks, totals.unique_chunks));
        Ok(())
    }

    /// Makes the chunks durable, then the catalogue's entries of their files.
    fn commit(&mut self) -> anyhow::Result<()> {
        self.flush()?;
        self.indexer.sync().context("cannot sync the chunks")?;
        self.catalogue.commit().context("cannot write the catalogue")?;
        self.committed = Instant::now();
        Ok(())
    }

    /// Closes the catalogue.
    pub fn close(&self) -> anyhow::Result<()> {
        self.catalogue.close()
    }
}
