//! `siltstone bench dict`: measures a dictionary.

use super::Session;
use crate::outcome::{Outcome, Result, help};
use clap::Args;
use siltstone_bench::dict::{self, Settings};
use siltstone_bench::place::Place;

const EXAMPLES: &str = "
  siltstone bench dict --keys 4000000 --updates 5 --memory 64MiB --json
  siltstone bench dict --keys 16000000 --fixed --index sparse-trie --updates 0";

/// Measure a dictionary: build, open, lookups, and updates compared with rebuilds
///
/// The files are in a temporary directory, and lookups read from the page cache. The benchmark checks every value it
/// reads.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct DictArgs {
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Settings,
}

pub fn run(args: DictArgs) -> Result {
    let DictArgs { mut settings, json } = args;
    let place = Place::temporary(&settings.directory.clone().unwrap_or_else(std::env::temp_dir))?;
    let records = format!("keys of {} bytes, values of {} bytes", settings.key_size, settings.value_size);
    let session = Session::begin(place, json, &records)?;
    settings.stop = session.interrupt.flag();
    let report = dict::run(&settings, &session.place);
    if session.interrupt.is_raised() {
        return Ok(Outcome::Interrupted);
    }
    let report = report?;
    session.print(&report, || report.lines())?;
    Ok(session.end())
}
