//! `siltstone dedup`: indexes the chunks of real files and reports how many of them are duplicates.
//!
//! Files are split by content (FastCDC, 2020). Every chunk is hashed, looked up in a database of fixed-size records,
//! and inserted if it is new. A second database, the catalogue, records how far each file is indexed and which chunks
//! it has, so that a later run continues an interrupted one, reads only what has changed, and files can be forgotten.
//! `place` documents the layout of the directory, `index` how the two databases are kept consistent.

mod backlog;
mod chunks;
mod duplicates;
mod forget;
mod formats;
mod index;
mod parameters;
pub mod place;
mod readers;
mod recorder;
mod recount;
mod repair;
mod report;
mod runs;
mod scan;
mod table;
mod walk;

use crate::place::{CHUNKS, FILES, PARAMETERS, check_repaired};
use anyhow::{Context, bail, ensure};
use chunks::{Chunking, HashKind};
use clap::{Args, Subcommand};
use index::Index;
pub use index::is_mark;
use recorder::Recorder;
pub use repair::repair;
use report::Report;
use scan::{Scan, Sources};
use siltstone::Database;
use siltstone::names::MANIFEST_NAME;
use siltstone_bench::place::directory;
use siltstone_bench::tuning::{MemoryArgs, SettingArgs};
use siltstone_command::database::expiry_after;
use siltstone_command::interrupt::Interrupt;
use siltstone_command::notation::shown;
use siltstone_command::outcome::{Outcome, Result, complain, help, wrong_usage};
use siltstone_command::quantity::{counted, parse_whole};
use siltstone_device::SystemDirectory;
use std::fs;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use walk::{Walk, WalkArgs};

const EXAMPLES: &str = "
  siltstone dedup ~/src ~/Documents
  siltstone dedup --exclude target --exclude '*.o' --one-file-system ~/src
  tar -c ~/src | siltstone dedup --stream-name src.tar -
  siltstone dedup --db backup.index --hash sha256 --hash-bytes 20 --json /srv
  siltstone dedup --quiet --db backup.index /srv || echo 'some files were not read'
  siltstone dedup runs --db backup.index
  siltstone dedup report --db backup.index --run 12
  siltstone dedup duplicates --db backup.index
  siltstone dedup forget --db backup.index --missing --dry-run";

/// Index the chunks of files and count the duplicates
///
/// Splits the files below every PATH into chunks by content (FastCDC), hashes each chunk, looks it up in an index on
/// flash, and inserts it with 44 bytes of metadata if it is new. Does not follow symbolic links, and reads a file with
/// several names once. Holes of a mebibyte or more are not read. Ctrl-C stops cleanly; the next run with the same index
/// continues. Later runs read only new and changed files. The index has the last version of each file that it has seen;
/// `dedup forget` removes files.
///
/// Exits with 1, after everything else is indexed, if a PATH does not exist, or a file or a directory could not be
/// read. Pipes and devices below a PATH are skipped. Names are printed with non-printable bytes as \xNN. While most
/// chunks are new, the index builds filters, which take about a byte of RAM per chunk; `--set filter_last_store=0`
/// builds none.
///
/// The index in DIR consists of two databases. `siltstone verify`, `repair`, `checkpoint`, `stats` and `compact` work
/// on both; `get` and `list` read its chunks.
#[derive(Args)]
#[command(after_help = help(EXAMPLES), subcommand_negates_reqs = true)]
pub struct DedupArgs {
    #[command(subcommand)]
    command: Option<DedupCommand>,
    /// Directory of the index
    #[arg(long, value_name = "DIR", default_value = "dedup-index", env = "SILTSTONE_DB", global = true,
        value_parser = directory())]
    db: PathBuf,
    #[command(flatten)]
    memory: MemoryArgs,
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
    #[command(flatten)]
    walk: WalkArgs,
    /// Name of standard input in the index. A stream replaces an earlier one of the same name
    #[arg(long, value_name = "NAME", default_value = "standard-input")]
    stream_name: String,
    /// Threads that read, cut and hash files, each one file at a time; small files need more threads than cores to
    /// keep a drive busy
    #[arg(long, value_name = "N", value_parser = parse_whole::<usize>, default_value_t = 16)]
    threads: usize,
    /// Record the lookups and inserts to this new file, for `siltstone bench trace`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Print each new or changed file to standard error, and at the end what the index costs by item
    #[arg(long, short)]
    verbose: bool,
    /// Print no report; errors are still printed
    #[arg(long, short, conflicts_with_all = ["json", "verbose"])]
    quiet: bool,
    /// Print JSON: one line, or one line per item of a list
    #[arg(long, global = true)]
    json: bool,
    /// Files and directories; `-` is standard input
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

#[derive(Subcommand)]
enum DedupCommand {
    Forget(forget::ForgetArgs),
    Duplicates(duplicates::DuplicatesArgs),
    Report(runs::ReportArgs),
    Runs(runs::RunsArgs),
}

impl DedupCommand {
    /// Names the subcommands in an error.
    fn names() -> String {
        let command = DedupCommand::augment_subcommands(clap::Command::new("dedup"));
        let names: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        format!("no such path, and no subcommand; these are {}", names.join(", "))
    }
}

/// Runs `siltstone dedup`, or one of its subcommands.
pub fn run(args: DedupArgs) -> Result {
    let interrupt = Interrupt::listen()?;
    let Some(command) = &args.command else { return index_files(&args, &interrupt) };
    let chunking = parameters::read(&args.db)?.with_context(|| {
        format!(
            "{}: no index here; name another directory with --db, or create it with dedup",
            args.db.display()
        )
    })?;
    let open = || Index::open(&args.db, &chunking, &args.settings, args.memory);
    match command {
        DedupCommand::Forget(forget) => forget::run(forget, open()?, &interrupt, args.json),
        DedupCommand::Duplicates(duplicates) => {
            let index = open()?;
            let outcome = duplicates::run(duplicates, &index, &interrupt, args.json)?;
            index.close()?;
            Ok(outcome)
        }
        DedupCommand::Report(report) => {
            runs::report(report, &args.db, args.json)?;
            Ok(Outcome::Done)
        }
        DedupCommand::Runs(_) => {
            runs::list(&args.db, args.json)?;
            Ok(Outcome::Done)
        }
    }
}

fn index_files(args: &DedupArgs, interrupt: &Interrupt) -> Result {
    let (streams, paths): (Vec<_>, Vec<_>) =
        args.paths.iter().cloned().partition(|path| path == Path::new("-"));
    let (roots, mut missing) = walk::roots(&paths);
    if roots.is_empty()
        && streams.is_empty()
        && let Some((path, error)) = missing.pop()
    {
        // A misspelt subcommand is a path.
        let is_word = paths.len() == 1 && path.components().count() == 1;
        let error = if is_word { error.context(DedupCommand::names()) } else { error };
        return Err(error.context(shown(&path)));
    }
    if args.threads == 0 {
        return Err(wrong_usage("--threads is 0; it must be 1 or more"));
    }
    // Checked before the index is created.
    Walk::new(&roots, Vec::new(), &args.walk)?;
    let chunking = prepare(&args.db, args)?;
    let (started, started_at_ms) = (Instant::now(), expiry_after(Duration::ZERO)?);
    let mut index = Index::open(&args.db, &chunking, &args.settings, args.memory)?;
    let before = index.chunks.stats();
    index.chunks.reset_ram_peak();
    index.begin_run(args.record.as_deref().map(Recorder::create).transpose()?);
    let own = args.record.iter().chain([&args.db]);
    let canonical =
        |path: &PathBuf| fs::canonicalize(path).with_context(|| format!("cannot find {}", path.display()));
    let own = own.map(canonical).collect::<anyhow::Result<Vec<_>>>()?;
    let walk = Walk::new(&roots, own, &args.walk)?;
    let sources = Sources { walk, stream: (!streams.is_empty()).then_some(&args.stream_name[..]) };
    let mut scan = Scan::new(index, interrupt, args.verbose, started_at_ms);
    scan.run(sources, missing, &chunking, args.threads)?;
    scan.index.end_recording()?;
    scan.index.chunks.settle()?;
    let after = scan.index.chunks.stats();
    let report = Report::new(&scan, &chunking, &before, &after, started.elapsed(), interrupt.is_raised());
    scan.index.set_run(&report)?;
    scan.index.close()?;
    if !args.quiet {
        print(&report, args)?;
    }
    if interrupt.is_raised() {
        complain(format_args!("interrupted; run the same command again to continue"));
        return Ok(Outcome::Interrupted);
    }
    if report.files_failed > 0 {
        let failed = counted(report.files_failed, "path");
        complain(format_args!("{failed} could not be read; everything else is indexed"));
        return Ok(Outcome::Negative);
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

/// Returns an error if the databases of an index are not of one moment.
pub fn check(directory: &Path) -> anyhow::Result<()> {
    parameters::read(directory)?.map_or(Ok(()), |chunking| Index::check(directory, &chunking))
}

/// Writes a consistent copy of an index.
pub fn checkpoint(directory: &Path, target: &Path) -> anyhow::Result<()> {
    let chunking = parameters::read(directory)?
        .with_context(|| format!("{}: {PARAMETERS} is missing", directory.display()))?;
    // Before anything is created: what is within the index would be found there as a foreign file.
    let within = forget::resolved(target)?.starts_with(fs::canonicalize(directory)?);
    ensure!(
        !within,
        wrong_usage(format_args!(
            "{} is within the index in {}; use a directory outside of it",
            target.display(),
            directory.display()
        ))
    );
    SystemDirectory::create(target).map_err(siltstone::Error::from)?;
    let taken = fs::read_dir(target).with_context(|| format!("cannot list {}", target.display()))?.next();
    ensure!(
        taken.is_none(),
        "{}: the directory is not empty; use an empty or a new directory",
        target.display()
    );
    // Both databases stay open, and so locked, until both are copied: the catalogue never refers to chunks that are not
    // copied.
    let open =
        |name: &str| siltstone_command::database::open(Database::builder(directory.join(name)).create(false));
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
    SystemDirectory::create(directory).map_err(siltstone::Error::from)?;
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
    if directory.join(MANIFEST_NAME).exists() {
        bail!(
            "{}: this is a database, and no index of files; use another directory with --db",
            directory.display()
        );
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

fn print(report: &Report, args: &DedupArgs) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    if args.json {
        serde_json::to_writer(&mut out, report).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        table::print(report, args.verbose, &mut out)?;
    }
    Ok(out.flush()?)
}
