//! `siltstone bench trace`: replays a recorded trace.

use super::ground::{Ground, Grounded};
use super::tuning::Tuning;
use crate::interrupt::Interrupt;
use crate::open::DurabilityArg;
use crate::outcome::{Outcome, Result, help};
use crate::quantity::parse_whole;
use anyhow::Context;
use clap::Args;
use siltstone_bench::trace::replay::{Report, Settings};
use siltstone_bench::trace::{self, Source, Writer};
use std::fs::File;
use std::io::{BufWriter, Write, stdout};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const EXAMPLES: &str = "
  siltstone dedup --record chunks.trace ~/src
  siltstone bench trace chunks.trace --fixed --hashed-keys --threads 4 --json
  zstdcat cluster52.sort.zst | siltstone bench trace - --fill-misses --operations 10000000
  siltstone bench trace requests.csv --convert requests.trace";

/// Replay a recorded trace
///
/// FILE is a trace written by `siltstone dedup --record`, or a table of requests with the fields timestamp, key,
/// key_size, value_size, client, op and ttl, as in Twitter's cache traces; - is standard input. Operations are sent at
/// full speed; those on one key keep their order. The replay checks every result, which takes up to 100 bytes of memory
/// per key in addition to the database's. It ignores times to live.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct TraceArgs {
    /// The trace
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Write the trace in the binary format to this new file, without a replay
    #[arg(long, value_name = "FILE")]
    convert: Option<PathBuf>,
    /// Stop after this number of operations
    #[arg(long, value_parser = parse_whole::<u64>)]
    operations: Option<u64>,
    /// Number of concurrent threads
    #[arg(long, default_value_t = 1, value_parser = parse_whole::<usize>)]
    threads: usize,
    /// After a get that finds nothing, set the key to a value of the length in the trace
    #[arg(long)]
    fill_misses: bool,
    /// Directory of the database [default: a temporary directory]
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
    /// Use the existing database in the directory; records that are not in the trace are not checked
    #[arg(long, requires = "db")]
    use_existing_db: bool,
    /// What a write survives when it returns
    #[arg(long, value_enum, default_value = "written")]
    durability: DurabilityArg,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    tuning: Tuning,
}

impl TraceArgs {
    fn settings(&self, interrupt: &Interrupt, ground: &Ground) -> Settings {
        let tuning = self.tuning.clone();
        Settings {
            name: self.file.display().to_string(),
            threads: self.threads,
            operations: self.operations,
            fill_misses: self.fill_misses,
            fixed: tuning.fixed,
            hashed_keys: tuning.hashed_keys,
            directory: Some(ground.directory.clone()),
            use_existing_db: self.use_existing_db,
            durability: self.durability.into(),
            set_up: Arc::new(move |builder| tuning.apply(builder)),
            stop: interrupt.flag(),
        }
    }

    fn print(&self, report: &Report, place: &Ground) -> std::io::Result<()> {
        let mut out = stdout().lock();
        if self.json {
            serde_json::to_writer(&mut out, &Grounded { report, place })?;
            writeln!(out)?;
        } else {
            write!(out, "{}", report.summary())?;
        }
        out.flush()
    }

    /// Answers how many operations were written.
    fn convert(&self, trace: Source, path: &Path) -> anyhow::Result<u64> {
        let file = File::create_new(path).with_context(|| format!("cannot create {}", path.display()))?;
        let written = self.write(trace, file);
        if written.is_err() {
            let _ = std::fs::remove_file(path);
        }
        written
    }

    fn write(&self, trace: Source, file: File) -> anyhow::Result<u64> {
        let operations = self.operations.unwrap_or(u64::MAX);
        let mut writer = Writer::new(BufWriter::new(file))?;
        for operation in trace.take(usize::try_from(operations).unwrap_or(usize::MAX)) {
            writer.write(&operation?)?;
        }
        Ok(writer.finish()?)
    }
}

pub fn run(args: TraceArgs) -> Result {
    let trace = trace::open(&args.file).with_context(|| args.file.display().to_string())?;
    if let Some(path) = &args.convert {
        let operations = args.convert(trace, path).with_context(|| args.file.display().to_string())?;
        writeln!(stdout(), "{operations} operations")?;
        return Ok(Outcome::Done);
    }
    let interrupt = Interrupt::listen()?;
    let ground = Ground::prepare(args.db.as_deref(), "db")?;
    if !args.json {
        ground.print("records of the sizes in the trace")?;
    }
    args.print(&trace::replay::run(&args.settings(&interrupt, &ground), trace)?, &ground)?;
    Ok(if interrupt.is_raised() { Outcome::Interrupted } else { Outcome::Done })
}
