//! `siltstone dedup`: indexes the chunks of real files and reports how many of them are duplicates.
//!
//! Files are split by content (FastCDC, 2020). Every chunk is hashed, looked up in a database of fixed-size records,
//! and inserted if it is new. A second database, the catalogue, records how far each file is indexed, so that a later
//! run continues an interrupted one and reads only what has changed. `place` documents the layout of the directory.
//!
//! The two databases are kept consistent: chunks become durable before the catalogue refers to them, a checkpoint
//! copies both, and after a repair that lost records of either, all files are read again.

mod catalogue;
mod chunks;
mod formats;
mod indexer;
mod parameters;
mod recorder;
mod repair;
mod report;
mod scan;
mod walk;

use crate::interrupt::Interrupt;
use crate::outcome::{Outcome, Result, complain, help, wrong_usage};
use crate::place::{CHUNKS, FILES, PARAMETERS, check_repaired};
use crate::quantity::parse_whole;
use anyhow::{Context, bail, ensure};
use catalogue::Catalogue;
use chunks::{Chunking, HashKind};
use clap::Args;
use indexer::Indexer;
use recorder::Recorder;
pub use repair::repair;
use report::Report;
use scan::Scan;
use siltstone::device::SystemDirectory;
use siltstone::{Builder, Database};
use siltstone_bench::tuning::SettingArgs;
use std::fs;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::time::Instant;

const EXAMPLES: &str = "
  siltstone dedup ~/src ~/Documents
  siltstone dedup --db backup.index --hash sha256 --hash-bytes 20 --json /srv
  siltstone dedup --record chunks.trace ~/src
  siltstone stats --db backup.index";

/// The minimum number of slots of a LogStore. It is small because each key here costs the reading of 4 KiB, so memory
/// matters more than conversions.
const LOG_SLOTS_MIN: u32 = 1024;

/// Index the chunks of files and count the duplicates
///
/// Splits the files below every PATH into chunks by content (FastCDC), hashes each chunk, looks it up in an index on
/// flash, and inserts it with 44 bytes of metadata if it is new. Does not follow symbolic links; reports and counts
/// unreadable files. Ctrl-C stops cleanly; the next run with the same index continues. Later runs read only new and
/// changed files and report new chunks.
///
/// The index in DIR consists of two databases. `siltstone verify`, `repair`, `checkpoint`, `stats` and `compact` work
/// on both; `get` and `list` read its chunks.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct DedupArgs {
    /// Directory of the index
    #[arg(long, value_name = "DIR", default_value = "dedup-index", env = "SILTSTONE_DB")]
    db: PathBuf,
    #[command(flatten)]
    settings: SettingArgs,
    /// Average size of a chunk, in bytes: a multiple of 8 from 256 to 4,194,304; chunk sizes range from a quarter of it
    /// to four times it; stored in the index [default: 4096]
    #[arg(long, value_name = "BYTES", value_parser = parse_whole::<u32>)]
    average_size: Option<u32>,
    /// Hash of the chunks; stored in the index [default: blake3]
    #[arg(long, value_enum)]
    hash: Option<HashKind>,
    /// Number of bytes of the hash in the key, 20 or 32; stored in the index [default: 32]
    #[arg(long, value_name = "BYTES", value_parser = ["20", "32"])]
    hash_bytes: Option<String>,
    /// Record the lookups and inserts to this new file, for `siltstone bench trace`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Print each new or changed file to standard error
    #[arg(long, short)]
    verbose: bool,
    /// Print one line of JSON instead of the table
    #[arg(long)]
    json: bool,
    /// Files and directories
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

pub fn run(args: DedupArgs) -> Result {
    let interrupt = Interrupt::listen()?;
    let roots = walk::roots(&args.paths)?;
    let chunking = prepare(&args.db, &args)?;
    let database = open_chunks(&args.db.join(CHUNKS), &chunking, &args.settings)?;
    let catalogue = Catalogue::open(&args.db.join(FILES), &database, &args.settings)?;
    // Both databases are locked now, so no repair can begin.
    check_repaired(&args.db)?;
    ensure!(
        catalogue.totals().unique_chunks == 0 || database.stats().records > 0,
        "{}: the chunks of this index are missing, but its catalogue exists; remove the directory and index again",
        args.db.display()
    );
    let started = Instant::now();
    let before = database.stats();
    database.reset_ram_peak();
    let mut indexer = Indexer::new(database.clone(), chunking.hash_bytes);
    indexer.record(args.record.as_deref().map(Recorder::create).transpose()?);
    let mut scan = Scan::new(chunking, catalogue, indexer, &interrupt, args.verbose);
    let own = args.record.iter().chain([&args.db]);
    let canonical =
        |path: &PathBuf| fs::canonicalize(path).with_context(|| format!("cannot find {}", path.display()));
    scan.run(&roots, &own.map(canonical).collect::<anyhow::Result<Vec<_>>>()?)?;
    scan.indexer.end_recording()?;
    database.settle()?;
    let report = Report::new(&scan, &before, &database.stats(), started.elapsed(), interrupt.is_raised());
    scan.close()?;
    database.close()?;
    print(&report, args.json)?;
    if interrupt.is_raised() {
        complain(format_args!("interrupted; run the same command again to continue"));
        return Ok(Outcome::Interrupted);
    }
    Ok(Outcome::Done)
}

impl DedupArgs {
    /// Returns the parameters of a new index.
    fn chunking(&self) -> anyhow::Result<Chunking> {
        let default = Chunking::default();
        let hash_bytes = self.hash_bytes.as_deref().map(str::parse).transpose();
        let chunking = Chunking {
            average_size: self.average_size.unwrap_or(default.average_size),
            hash: self.hash.unwrap_or(default.hash),
            hash_bytes: hash_bytes.context("--hash-bytes: expected 20 or 32")?.unwrap_or(default.hash_bytes),
        };
        chunking.check().map_err(wrong_usage)?;
        Ok(chunking)
    }
}

/// Writes a consistent copy of an index.
pub fn checkpoint(directory: &Path, target: &Path) -> anyhow::Result<()> {
    let chunking = parameters::read(directory)?
        .with_context(|| format!("{}: {PARAMETERS} is missing", directory.display()))?;
    SystemDirectory::create(target)?;
    let taken = fs::read_dir(target).with_context(|| format!("cannot list {}", target.display()))?.next();
    ensure!(
        taken.is_none(),
        "{}: the directory is not empty; use an empty or a new directory",
        target.display()
    );
    // Both databases stay open, and so locked, until both are copied: the catalogue never refers to chunks that are not
    // copied.
    let open = |name: &str| crate::open::open(Database::builder(directory.join(name)).create(false));
    let (chunks, files) = (open(CHUNKS)?, open(FILES)?);
    check_repaired(directory)?;
    chunks.checkpoint(target.join(CHUNKS))?;
    files.checkpoint(target.join(FILES))?;
    chunks.close()?;
    files.close()?;
    parameters::write(target, &chunking)
}

/// Creates the directory of the index unless it exists, and returns the parameters of the index.
fn prepare(directory: &Path, args: &DedupArgs) -> anyhow::Result<Chunking> {
    let asked = args.chunking()?;
    SystemDirectory::create(directory)?;
    check_repaired(directory)?;
    let entries = fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))?;
    let partial = parameters::partial_name();
    let (mut databases, mut other) = (false, None);
    for entry in entries {
        let name = entry?.file_name();
        match name.to_str() {
            Some(CHUNKS | FILES) => databases = true,
            Some(name) if name == PARAMETERS || name == partial => {}
            _ => other = Some(name),
        }
    }
    if let Some(name) = other {
        bail!(
            "{}: the directory contains other files ({}); use an empty or a new directory with --db",
            directory.display(),
            name.to_string_lossy()
        );
    }
    let Some(made) = parameters::read(directory)? else {
        ensure!(
            !databases,
            "{}: {PARAMETERS} is missing, which contains the parameters of the index; copy the file from a checkpoint",
            directory.display()
        );
        parameters::write(directory, &asked)?;
        return Ok(asked);
    };
    let same = args.average_size.is_none_or(|size| size == made.average_size)
        && args.hash.is_none_or(|hash| hash == made.hash)
        && args.hash_bytes.as_ref().is_none_or(|_| asked.hash_bytes == made.hash_bytes);
    ensure!(
        same,
        "this index was made with --average-size {} --hash {} --hash-bytes {}: \
         omit these options, or name another directory with --db",
        made.average_size,
        made.hash.name(),
        made.hash_bytes
    );
    Ok(made)
}

fn open_chunks(directory: &Path, chunking: &Chunking, settings: &SettingArgs) -> anyhow::Result<Database> {
    let builder = with_log_slots(Database::builder(directory), directory, LOG_SLOTS_MIN)
        .fixed(chunking.hash_bytes.into(), formats::METADATA_BYTES)
        .hashed_keys();
    crate::open::open(settings.apply(builder))
}

/// Sets the minimum number of slots of a LogStore if the database is new. An existing one keeps its own.
fn with_log_slots(builder: Builder, directory: &Path, slots: u32) -> Builder {
    if directory.exists() { builder } else { builder.set("log_slots_min", slots) }
}

fn print(report: &Report, json: bool) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    if json {
        serde_json::to_writer(&mut out, report).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        report.print(&mut out)?;
    }
    Ok(out.flush()?)
}
