//! `siltstone compact`: merges everything into the last store.

use crate::open::Location;
use crate::outcome::{Outcome, Result, complain, help};
use crate::place;
use crate::progress::{Stopwatch, spinner};
use clap::Args;
use siltstone_command::database;

const EXAMPLES: &str = "
  siltstone compact --db DIR";

/// Merge all stores into the last store
///
/// Reads and writes all records and removes overwritten, deleted and expired ones, so that the database takes the
/// least memory and disk space. After an interruption the work continues when the database is opened again. For a
/// dedup index, compacts both databases.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct CompactArgs {
    #[command(flatten)]
    location: Location,
}

pub fn run(args: CompactArgs) -> Result {
    let (bar, watch) = (spinner("compacting"), Stopwatch::start());
    for directory in place::databases(&args.location.db) {
        let database = database::open(args.location.builder(directory).create(false))?;
        database.compact()?;
        database.close()?;
    }
    bar.finish_and_clear();
    if watch.is_long() {
        complain(format_args!("compacted{watch}"));
    }
    Ok(Outcome::Done)
}
