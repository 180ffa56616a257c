//! `siltstone compact`: merges everything into the last store.

use crate::open::{self, Location};
use crate::outcome::{Outcome, Result, help};
use crate::place;
use clap::Args;
use siltstone::Database;

const EXAMPLES: &str = "
  siltstone compact --db DIR";

/// Merge everything into the last store
///
/// Afterwards the database takes the least memory and disk: what was overwritten, deleted or has expired is gone. It
/// reads and writes all records. After an interruption the work continues when the database is opened again. Of a dedup
/// index both databases are compacted.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct CompactArgs {
    #[command(flatten)]
    location: Location,
}

pub fn run(args: CompactArgs) -> Result {
    for directory in place::databases(&args.location.db) {
        let database = open::open(Database::builder(directory).create(false))?;
        database.compact()?;
        database.close()?;
    }
    Ok(Outcome::Done)
}
