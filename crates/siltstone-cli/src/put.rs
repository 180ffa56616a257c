//! `siltstone put`: sets the value of a key.

use crate::input::{self, ArgumentArgs};
use crate::open::{Creation, Location};
use crate::outcome::{Outcome, Result, help_with_arguments};
use crate::quantity::parse_time;
use clap::Args;
use siltstone::{Change, Durability, WriteOptions};
use siltstone_bench::named::by_name;
use siltstone_command::database::expiry_after;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "
  siltstone put --db DIR user:17 Ada
  siltstone put --db DIR picture --value-file picture.png
  date | siltstone put --db DIR now -
  siltstone put --db DIR --expires-in 30d session:9 token";

/// Set the value of a key
///
/// Creates the database if it does not exist. In a database of `siltstone serve data` the value is a string.
#[derive(Args)]
#[command(after_help = help_with_arguments(EXAMPLES))]
pub struct PutArgs {
    #[command(flatten)]
    location: Location,
    #[command(flatten)]
    typed: ArgumentArgs,
    /// Take the value from this file
    #[arg(long, value_name = "FILE", conflicts_with = "value")]
    value_file: Option<PathBuf>,
    /// Do not replace an existing value, but exit with 1
    #[arg(long)]
    if_absent: bool,
    /// Expire the record after this time, such as 90s, 15m, 12h or 30d
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    expires_in: Option<Duration>,
    /// What the record survives when the command ends: nothing (buffered), a crash of the process (written), a power
    /// failure (synced)
    #[arg(long, default_value = Durability::default().name(), value_parser = by_name::<Durability>())]
    durability: Durability,
    /// Key
    key: OsString,
    /// Value
    #[arg(required_unless_present = "value_file")]
    value: Option<OsString>,
    #[command(flatten)]
    creation: Creation,
}

pub fn run(args: PutArgs) -> Result {
    let notation = args.typed.notation.typed();
    let key = args.typed.argument(&args.key)?;
    let value = match (&args.value_file, &args.value) {
        (Some(path), _) => notation.parse(&input::file(path)?)?,
        (None, value) => args.typed.argument(value.as_deref().unwrap_or_default())?,
    };
    let expires_at_ms = args.expires_in.map(expiry_after).transpose()?.unwrap_or_default();
    let options = WriteOptions::default().durability(args.durability).expires_at_ms(expires_at_ms);
    args.creation.check(&key, &value)?;
    let value = args.location.values()?.stored(value.into());
    let database = args.location.open_or_create("put", &args.creation)?;
    let mut outcome = Outcome::Done;
    if args.if_absent {
        database.update_with(key, options, |found| match found {
            Some(_) => {
                outcome = Outcome::Negative;
                Ok(Change::Keep)
            }
            None => Ok(Change::Put { value: value.clone(), expires_at_ms }),
        })?;
    } else {
        database.put_with(key, value, options)?;
    }
    database.close()?;
    Ok(outcome)
}
