//! `siltstone checkpoint`: writes a consistent copy.

use crate::dedup;
use crate::open::Location;
use crate::outcome::{Outcome, Result, complain, help};
use crate::place;
use crate::progress::{Stopwatch, spinner};
use clap::Args;
use siltstone_bench::place::directory;
use std::path::PathBuf;

const EXAMPLES: &str = "
  siltstone checkpoint --db DIR /backup/monday";

/// Write a consistent copy of the database
///
/// Immutable files are hard-linked if the file system supports it. The copy is an independent database. The copy of a
/// dedup index is a dedup index.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct CheckpointArgs {
    #[command(flatten)]
    location: Location,
    /// Target: an empty directory, or one that does not exist
    #[arg(value_parser = directory())]
    target: PathBuf,
}

pub fn run(args: CheckpointArgs) -> Result {
    let (bar, watch) = (spinner("copying"), Stopwatch::start());
    if place::is_index(&args.location.db) {
        dedup::checkpoint(&args.location.db, &args.target)?;
    } else {
        let database = args.location.open_single("checkpoint")?;
        database.checkpoint(&args.target)?;
        database.close()?;
    }
    bar.finish_and_clear();
    if watch.is_long() {
        complain(format_args!("copied{watch}"));
    }
    Ok(Outcome::Done)
}
