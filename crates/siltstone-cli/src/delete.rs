//! `siltstone delete`: removes a key.

use crate::input::ArgumentArgs;
use crate::open::Location;
use crate::outcome::{Outcome, Result, help_with_arguments};
use clap::Args;
use siltstone::{Change, Durability, WriteOptions};
use siltstone_bench::named::by_name;
use std::ffi::OsString;

const EXAMPLES: &str = "
  siltstone delete --db DIR user:17
  siltstone delete --db DIR --hex 00ff17";

/// Delete a key
///
/// Exits with 1 if the key was not found.
#[derive(Args)]
#[command(after_help = help_with_arguments(EXAMPLES))]
pub struct DeleteArgs {
    #[command(flatten)]
    location: Location,
    #[command(flatten)]
    typed: ArgumentArgs,
    /// What the deletion survives when the command ends: nothing (buffered), a crash of the process (written), a power
    /// failure (synced)
    #[arg(long, default_value = Durability::default().name(), value_parser = by_name::<Durability>())]
    durability: Durability,
    /// Key
    key: OsString,
}

pub fn run(args: DeleteArgs) -> Result {
    let key = args.typed.argument(&args.key)?;
    let database = args.location.open_single("delete")?;
    let options = WriteOptions::default().durability(args.durability);
    let mut outcome = Outcome::Negative;
    database.update_with(key, options, |found| {
        if found.is_none() {
            return Ok(Change::Keep);
        }
        outcome = Outcome::Done;
        Ok(Change::Delete)
    })?;
    database.close()?;
    Ok(outcome)
}
