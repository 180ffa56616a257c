//! `siltstone compact`: merges everything into the last store.

use crate::open::Location;
use crate::outcome::{Outcome, Result, help};
use clap::Args;

const EXAMPLES: &str = "
  siltstone compact --db DIR";

/// Merge everything into the last store
///
/// Afterwards the database takes the least memory and disk: what was overwritten, deleted or has expired is gone. It
/// reads and writes all records. Interrupted, it goes on where it was when the database is opened again.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct CompactArgs {
    #[command(flatten)]
    location: Location,
}

pub fn run(args: CompactArgs) -> Result {
    let database = args.location.open()?;
    database.compact()?;
    database.close()?;
    Ok(Outcome::Done)
}
