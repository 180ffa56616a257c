//! `siltstone bench`: runs benchmarks and prints their reports as lines or as JSON.
//!
//! The options of a benchmark are the fields of its settings in `siltstone_bench`.

mod db;
mod device;
mod dict;
mod serve;
mod trace;
mod ycsb;

use crate::interrupt::{Interrupt, RemovedAtExit};
use crate::outcome::{Outcome, Result, complain, help};
use clap::{Args, Subcommand};
use serde::Serialize;
use siltstone_bench::place::Place;
use std::io::{self, Write, stdout};

const EXAMPLES: &str = "
  siltstone bench db --num 1e6 --key-size 20 --value-size 44 --fixed
  siltstone bench ycsb --workload a --threads 16";

/// Run benchmarks
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Db(Box<db::DbArgs>),
    Device(device::DeviceArgs),
    Serve(serve::ServeArgs),
    Ycsb(Box<ycsb::YcsbArgs>),
    Trace(Box<trace::TraceArgs>),
    Dict(dict::DictArgs),
}

pub fn run(args: BenchArgs) -> Result {
    match args.what {
        What::Db(args) => db::run(*args),
        What::Device(args) => device::run(args),
        What::Serve(args) => serve::run(args),
        What::Ycsb(args) => ycsb::run(*args),
        What::Trace(args) => trace::run(*args),
        What::Dict(args) => dict::run(args),
    }
}

/// A benchmark with files in one place, and the format of its reports.
struct Session {
    place: Place,
    interrupt: Interrupt,
    json: bool,
    _removed: Option<RemovedAtExit>,
}

/// A report, and where it was measured.
#[derive(Serialize)]
struct Placed<'a, R> {
    #[serde(flatten)]
    report: &'a R,
    place: &'a Place,
}

impl Session {
    /// Installs the handler of Ctrl-C, and prints the place and the sizes of the records. Warns if the place is in
    /// memory, where no drive is measured.
    fn begin(place: Place, json: bool, records: &str) -> anyhow::Result<Session> {
        let interrupt = Interrupt::listen()?;
        let removed = place.removed_at_end().map(RemovedAtExit::new);
        if let Some(file_system) = place.file_system_in_memory() {
            complain(format_args!(
                "{} is on {file_system}, which is in memory, so this does not measure a drive; use a directory on a drive",
                place.directory().display()
            ));
        }
        if !json {
            writeln!(stdout(), "{place}; {records}")?;
        }
        Ok(Session { place, interrupt, json, _removed: removed })
    }

    fn print<R: Serialize>(&self, report: &R, text: impl FnOnce() -> String) -> io::Result<()> {
        print(&Placed { report, place: &self.place }, self.json, text)
    }

    fn end(self) -> Outcome {
        if self.interrupt.is_raised() { Outcome::Interrupted } else { Outcome::Done }
    }
}

/// Prints a report, as a line of JSON or as `text`.
fn print<R: Serialize>(report: &R, json: bool, text: impl FnOnce() -> String) -> io::Result<()> {
    let mut out = stdout().lock();
    if json {
        serde_json::to_writer(&mut out, report)?;
        writeln!(out)?;
    } else {
        out.write_all(text().as_bytes())?;
    }
    out.flush()
}
