//! The benchmark of the device: random reads of the files of a database, through `siltstone-device` only. The rate of
//! a database's lookups can be compared with it.

mod random_reads;

use crate::clock::spawn_scoped;
use crate::latencies::Latencies;
use crate::place::directory;
use crate::quantity::{parse_time, parse_whole};
use crate::random::mix;
use crate::{Error, Result};
use clap::Args;
use random_reads::RandomReads;
use serde::Serialize;
use siltstone::Access;
use siltstone_device::{Directory, io_backend};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The settings: what to read, and how.
#[derive(Debug, Clone, Args, Serialize)]
pub struct Settings {
    /// Directory of the database
    #[arg(long, value_name = "DIR", env = "SILTSTONE_DB", value_parser = directory())]
    #[serde(skip)]
    pub db: PathBuf,
    /// Size of a read, in bytes
    #[arg(long, default_value_t = 4096, value_parser = parse_whole::<usize>)]
    pub block_size: usize,
    /// Number of concurrent reads per thread, 1 to 256
    #[arg(long, default_value_t = 16, value_parser = parse_whole::<usize>)]
    pub depth: usize,
    /// Number of concurrent threads
    #[arg(long, default_value_t = 1, value_parser = parse_whole::<usize>)]
    pub threads: usize,
    /// Duration of the measurement
    #[arg(long, value_parser = parse_time, default_value = "10s")]
    #[serde(skip)]
    pub duration: Duration,
    /// Require direct I/O [default: direct I/O if the file system supports it]
    #[arg(long)]
    #[serde(skip)]
    pub direct: bool,
    /// Use the page cache
    #[arg(long, conflicts_with = "direct")]
    #[serde(skip)]
    pub buffered: bool,
    /// Seed of the random blocks
    #[arg(long, default_value_t = 301, value_parser = parse_whole::<u64>)]
    #[serde(skip)]
    pub seed: u64,
    /// Ends the benchmark when it becomes true.
    #[arg(skip)]
    #[serde(skip)]
    pub stop: Arc<AtomicBool>,
}

impl Settings {
    fn access(&self) -> Access {
        match (self.direct, self.buffered) {
            (true, _) => Access::Direct,
            (_, true) => Access::Buffered,
            _ => Access::DirectOrBuffered,
        }
    }
}

/// The report of the benchmark. Serialises to its JSON object.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// `device`.
    pub benchmark: &'static str,
    /// The settings.
    #[serde(flatten)]
    pub settings: Settings,
    /// Whether reads bypassed the page cache: `direct` or `buffered`.
    pub access: &'static str,
    /// How they were executed: `io_uring`, or `pread`, which reads one after the other.
    pub io_backend: &'static str,
    /// The files that were read.
    pub files: usize,
    /// Their total size.
    pub file_bytes: u64,
    /// Completed reads.
    pub operations: u64,
    /// Their duration.
    pub seconds: f64,
    /// Reads per second.
    pub ops_per_s: f64,
    /// Mebibytes per second.
    pub mb_per_s: f64,
    /// The median time of a read in microseconds. Only with a depth of 1: overlapping reads are not timed individually.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_us: Option<f64>,
    /// The 99th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_us: Option<f64>,
    /// The 99.9th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p999_us: Option<f64>,
}

impl Report {
    /// Formats the report as text.
    pub fn line(&self) -> String {
        let Settings { threads, depth, block_size, .. } = self.settings;
        let Report { access, io_backend, files, .. } = self;
        let mut line = format!(
            "{:<12} : {:.0} reads/sec {:.1} MB/s; blocks of {block_size} bytes, depth {depth}, threads {threads}, \
             {access}, {io_backend}; {files} files of {:.1} MB",
            self.benchmark,
            self.ops_per_s,
            self.mb_per_s,
            self.file_bytes as f64 / f64::from(1 << 20),
        );
        if let (Some(p50), Some(p99), Some(p999)) = (self.p50_us, self.p99_us, self.p999_us) {
            let _ = write!(line, "; p50 {p50:.1}, p99 {p99:.1}, p99.9 {p999:.1} us");
        }
        line
    }
}

/// Reads until the time is over. The database may be open meanwhile; files that it removes remain readable here.
///
/// # Errors
/// See the variants of [`Error`].
pub fn run(settings: &Settings) -> Result<Report> {
    if settings.threads == 0 || !(1..=256).contains(&settings.depth) || settings.block_size == 0 {
        return Err(Error::settings("threads and block_size are at least 1, depth is 1 to 256"));
    }
    if !settings.db.is_dir() {
        return Err(siltstone::Error::NotFound { path: settings.db.clone() }.into());
    }
    let directory = Directory::system(&settings.db, settings.access())?.queue_depth(settings.depth);
    let names: Vec<String> = directory.list()?.into_iter().filter(|name| holds_records(name)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (mut file_bytes, mut alignment) = (0, 1);
    for name in &names {
        let file = directory.open(name, settings.access())?;
        file_bytes += file.length()?;
        alignment = file.alignment();
    }
    let reads = (0..settings.threads as u64)
        .map(|thread| RandomReads::new(&directory, &names, settings.block_size, mix(settings.seed ^ thread)))
        .collect::<Result<Vec<_>, _>>()?;
    let (done, seconds) = read_in_threads(settings, reads)?;
    let quantile = |share| (settings.depth == 1).then(|| done.latencies.quantile_us(share));
    Ok(Report {
        benchmark: "device",
        settings: settings.clone(),
        access: if alignment > 1 { "direct" } else { "buffered" },
        io_backend: if settings.depth == 1 { "pread" } else { io_backend().name() },
        files: names.len(),
        file_bytes,
        operations: done.operations,
        seconds,
        ops_per_s: done.operations as f64 / seconds.max(1e-9),
        mb_per_s: done.bytes as f64 / f64::from(1 << 20) / seconds.max(1e-9),
        p50_us: quantile(0.5),
        p99_us: quantile(0.99),
        p999_us: quantile(0.999),
    })
}

/// Returns whether a file is a store or a log, rather than one that is read only when a database is opened.
fn holds_records(name: &str) -> bool {
    name != "LOCK" && !name.starts_with("MANIFEST") && name != "lost+found"
}

/// The results of a thread.
#[derive(Default)]
struct Done {
    operations: u64,
    bytes: u64,
    latencies: Latencies,
}

/// A call with a queue depth above 1 has this many times as many reads, so that the queue is nearly always full.
const QUEUES_PER_CALL: usize = 16;

/// Starts all threads at once. The seconds are those until the last one ends.
fn read_in_threads(settings: &Settings, reads: Vec<RandomReads>) -> Result<(Done, f64)> {
    let begin = OnceLock::new();
    let (outcomes, seconds) = std::thread::scope(|scope| {
        let start = |reads| {
            let begin = &begin;
            spawn_scoped(scope, move || match begin.wait() {
                true => read_until(settings, reads),
                false => Ok(Done::default()),
            })
        };
        let workers: Result<Vec<_>> = reads.into_iter().map(start).collect();
        // Those that wait end without all others.
        let _ = begin.set(workers.is_ok());
        let begun = Instant::now();
        let outcomes: Vec<_> = workers?.into_iter().map(|worker| worker.join()).collect();
        Ok::<_, Error>((outcomes, begun.elapsed().as_secs_f64()))
    })?;
    let mut all = Done::default();
    for outcome in outcomes {
        let done = outcome.map_err(|_| Error::Panicked)??;
        all.operations += done.operations;
        all.bytes += done.bytes;
        all.latencies.merge(&done.latencies);
    }
    Ok((all, seconds))
}

fn read_until(settings: &Settings, mut reads: RandomReads) -> Result<Done> {
    let count = if settings.depth == 1 { 1 } else { settings.depth * QUEUES_PER_CALL };
    let mut done = Done::default();
    let begun = Instant::now();
    let mut now = begun;
    while now - begun < settings.duration && !settings.stop.load(Relaxed) {
        done.bytes += reads.read(count)?;
        done.operations += count as u64;
        let end = Instant::now();
        if count == 1 {
            done.latencies.record(end - now);
        }
        now = end;
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone::Database;

    fn settings(directory: &std::path::Path) -> Settings {
        Settings {
            db: directory.to_owned(),
            block_size: 4096,
            depth: 16,
            threads: 2,
            duration: Duration::from_millis(20),
            direct: false,
            buffered: false,
            seed: 1,
            stop: Arc::default(),
        }
    }

    fn filled() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::builder(directory.path().join("db")).open().unwrap();
        for key in 0..2000u32 {
            database.put(key.to_le_bytes(), [7; 100]).unwrap();
        }
        database.compact().unwrap();
        database.close().unwrap();
        directory
    }

    #[test]
    fn a_closed_database_is_read_at_every_depth() {
        let directory = filled();
        for (depth, threads) in [(1, 1), (1, 3), (16, 2)] {
            let settings = Settings { depth, threads, ..settings(&directory.path().join("db")) };
            let report = run(&settings).unwrap();
            assert!(report.operations > 0 && report.files > 0 && report.file_bytes > 200_000, "{report:?}");
            assert_eq!(report.p50_us.is_some(), depth == 1);
            let object = serde_json::to_value(report).unwrap();
            assert_eq!((&object["block_size"], &object["depth"]), (&4096.into(), &depth.into()));
        }
    }

    #[test]
    fn unreadable_files_are_refused() {
        let directory = filled();
        let good = settings(&directory.path().join("db"));
        for bad in [
            Settings { depth: 0, ..good.clone() },
            Settings { threads: 0, ..good.clone() },
            Settings { block_size: 1 << 40, ..good.clone() },
            Settings { db: directory.path().join("nowhere"), ..good },
        ] {
            assert!(run(&bad).is_err(), "{bad:?}");
        }
    }
}
