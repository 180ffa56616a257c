//! `siltstone bench trace`: replays a recorded trace.

use super::Session;
use crate::outcome::{Outcome, Result, help};
use anyhow::Context;
use clap::Args;
use siltstone_bench::place::Place;
use siltstone_bench::trace::replay::{self, Settings};
use siltstone_bench::trace::{self, Source, Writer};
use std::fs::File;
use std::io::{BufWriter, Write, stdout};
use std::path::{Path, PathBuf};

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
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Settings,
}

pub fn run(args: TraceArgs) -> Result {
    let TraceArgs { file, convert, mut settings, json } = args;
    settings.name = file.display().to_string();
    let trace = trace::open(&file).with_context(|| settings.name.clone())?;
    if let Some(path) = &convert {
        let written = convert_to(path, trace, settings.operations.unwrap_or(u64::MAX));
        writeln!(stdout(), "{} operations", written.with_context(|| settings.name)?)?;
        return Ok(Outcome::Done);
    }
    let place = Place::prepare(settings.db.as_deref())?;
    let session = Session::begin(place, json, "records of the sizes in the trace")?;
    settings.stop = session.interrupt.flag();
    let report = replay::run(&settings, &session.place, trace)?;
    session.print(&report, || report.summary())?;
    Ok(session.end())
}

/// Writes at most `operations` operations to a new file, and returns their number.
fn convert_to(path: &Path, trace: Source, operations: u64) -> anyhow::Result<u64> {
    let file = File::create_new(path).with_context(|| format!("cannot create {}", path.display()))?;
    let write = || {
        let mut writer = Writer::new(BufWriter::new(file))?;
        for operation in trace.take(usize::try_from(operations).unwrap_or(usize::MAX)) {
            writer.write(&operation?)?;
        }
        Ok(writer.finish()?)
    };
    write().inspect_err(|_| {
        // The first error is the one to report.
        let _ = std::fs::remove_file(path);
    })
}
