//! `siltstone dedup`: indexes the chunks of real files, and tells how many of them are there once more.
//!
//! Files are cut by content (FastCDC, 2020), every chunk is hashed and looked up in a database of fixed-size records,
//! and inserted when it is new. A second database, the catalogue, remembers how far each file is, so that a later run
//! goes on where an interrupted one was and reads only what has changed. Both stand in the directory of the index.

mod catalogue;
mod chunks;
mod formats;
mod indexer;
mod recorder;
mod report;
mod scan;
mod walk;

use crate::interrupt::Interrupt;
use crate::outcome::{Outcome, Result, complain, help};
use anyhow::{Context, ensure};
use catalogue::Catalogue;
use chunks::{Chunking, HashKind};
use clap::Args;
use indexer::Indexer;
use recorder::Recorder;
use report::Report;
use scan::Scan;
use siltstone::Database;
use std::fs;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::time::Instant;

const EXAMPLES: &str = "
  siltstone dedup ~/src ~/Documents
  siltstone dedup --db backup.index --hash sha256 --hash-bytes 20 --json /srv
  siltstone dedup --record chunks.trace ~/src
  siltstone stats --db backup.index";

/// The database of the chunks, in the directory of an index.
const CHUNKS: &str = "chunks";
/// The catalogue of the files, in the directory of an index.
const FILES: &str = "files";
/// Slots of a LogStore's index: few, because a key here costs the reading of 4 KiB, so that memory is worth more than
/// conversions are.
const LOG_SLOTS_MIN: u32 = 1024;

/// Index the chunks of files and tell how often they are there
///
/// Cuts the files below every PATH by their content, hashes each chunk, looks it up in an index on flash, and inserts
/// it with 44 bytes of metadata when it is new. Symbolic links are not followed; files that cannot be read are told and
/// counted. Ctrl-C stops cleanly; the next run with the same index goes on there. Later runs read only what has changed
/// and report what is new.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct DedupArgs {
    /// The directory of the index
    #[arg(long, value_name = "DIR", default_value = "dedup-index", env = "SILTSTONE_DB")]
    db: PathBuf,
    /// The average size of a chunk, in bytes: even, 256 to 4,194,304; kept in the index [default: 4096]
    #[arg(long, value_name = "BYTES")]
    average_size: Option<u32>,
    /// The hash of the chunks; kept in the index [default: blake3]
    #[arg(long, value_enum)]
    hash: Option<HashKind>,
    /// How many bytes of the hash are the key: 20 or 32; kept in the index [default: 32]
    #[arg(long, value_name = "BYTES", value_parser = ["20", "32"])]
    hash_bytes: Option<String>,
    /// Record the lookups and inserts to this new file, for `siltstone bench trace`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Tell each file that is new or has changed, on standard error
    #[arg(long, short)]
    verbose: bool,
    /// Print a line of JSON instead of the table
    #[arg(long)]
    json: bool,
    /// Files and directories
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

/// Where the chunks stand, if `directory` is that of an index.
pub fn chunks_of(directory: &Path) -> Option<PathBuf> {
    let chunks = directory.join(CHUNKS);
    (chunks.is_dir() && directory.join(FILES).is_dir()).then_some(chunks)
}

pub fn run(args: DedupArgs) -> Result {
    let interrupt = Interrupt::listen()?;
    let roots = walk::roots(&args.paths)?;
    prepare(&args.db)?;
    let catalogue = Catalogue::open(&args.db.join(FILES), args.average_size, args.hash, args.hash_bytes()?)?;
    let database = open_chunks(&args.db.join(CHUNKS), catalogue.chunking())?;
    ensure!(
        catalogue.totals().unique_chunks == 0 || database.stats().records > 0,
        "{}: the chunks of this index are gone, but its catalogue is not: remove the directory and index anew",
        args.db.display()
    );
    let started = Instant::now();
    let before = database.stats();
    database.reset_ram_peak();
    let mut indexer = Indexer::new(database.clone(), catalogue.chunking().hash_bytes);
    indexer.record(args.record.as_deref().map(Recorder::create).transpose()?);
    let mut scan = Scan::new(catalogue, indexer, &interrupt, args.verbose);
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
        complain(format_args!("interrupted; the same command goes on where it was"));
        return Ok(Outcome::Interrupted);
    }
    Ok(Outcome::Done)
}

impl DedupArgs {
    fn hash_bytes(&self) -> anyhow::Result<Option<u8>> {
        self.hash_bytes
            .as_deref()
            .map(|bytes| bytes.parse().context("a number of bytes is wanted"))
            .transpose()
    }
}

/// Makes the directory of the index, unless something else stands there.
fn prepare(directory: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let entries = fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))?;
    for entry in entries {
        let name = entry?.file_name();
        ensure!(
            name == CHUNKS || name == FILES,
            "{}: this directory holds other files and no index of chunks ({}); name an empty or a new directory with --db",
            directory.display(),
            name.to_string_lossy()
        );
    }
    Ok(())
}

fn open_chunks(directory: &Path, chunking: &Chunking) -> anyhow::Result<Database> {
    let builder = Database::builder(directory)
        .fixed(chunking.hash_bytes.into(), formats::METADATA_BYTES)
        .hashed_keys()
        .log_slots_min(LOG_SLOTS_MIN);
    crate::open::open(builder)
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
