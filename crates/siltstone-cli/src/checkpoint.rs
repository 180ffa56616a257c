//! `siltstone checkpoint`: a consistent copy.

use crate::dedup;
use crate::open::Location;
use crate::outcome::{Outcome, Result, help};
use crate::place;
use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "
  siltstone checkpoint --db DIR /backup/monday";

/// Write a consistent copy of the database
///
/// Files that never change are shared by hard links where the file system allows it. The copy opens as a database of
/// its own. The copy of a dedup index is an index.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct CheckpointArgs {
    #[command(flatten)]
    location: Location,
    /// Where to: an empty directory, or one that is not yet there
    target: PathBuf,
}

pub fn run(args: CheckpointArgs) -> Result {
    if place::is_index(&args.location.db) {
        dedup::checkpoint(&args.location.db, &args.target)?;
        return Ok(Outcome::Done);
    }
    let database = args.location.open_single("checkpoint")?;
    database.checkpoint(&args.target)?;
    database.close()?;
    Ok(Outcome::Done)
}
