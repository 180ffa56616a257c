//! `siltstone delete`: removes keys.

use crate::interrupt::Interrupt;
use crate::lookup::KeyArgs;
use crate::open::Location;
use crate::outcome::{Outcome, Result, complain, help_with_arguments, wrong_usage};
use crate::progress::{Stopwatch, item_bar};
use crate::quantity::counted;
use clap::Args;
use siltstone::{Change, Database, Durability, WriteOptions};
use siltstone_bench::named::by_name;
use std::collections::HashSet;
use std::ffi::OsString;

const EXAMPLES: &str = "
  siltstone delete --db DIR user:17
  siltstone delete --db DIR user:17 user:18
  siltstone delete --db DIR --keys gone.txt
  siltstone delete --db DIR --prefix user:
  siltstone delete --db DIR --all
  siltstone delete --db DIR --hex 00ff17";

/// The number of given keys that are deleted at a time.
const KEYS_PER_STEP: usize = 1024;

/// Delete keys
///
/// Exits with 1 if a key was not found. With --keys, --prefix and --all, prints how many keys were deleted. Keys are
/// deleted some thousand at a time: after an interruption a part of them is deleted.
#[derive(Args)]
#[command(after_help = help_with_arguments(EXAMPLES))]
pub struct DeleteArgs {
    #[command(flatten)]
    location: Location,
    #[command(flatten)]
    keys: KeyArgs,
    /// Delete all keys with this prefix, which is not empty. Reads all records unless the database keeps the order of
    /// the keys
    #[arg(long, value_name = "PREFIX", group = "wanted")]
    prefix: Option<OsString>,
    /// Delete all keys
    #[arg(long, group = "wanted")]
    all: bool,
    /// What the deletion survives when the command ends: nothing (buffered), a crash of the process (written), a power
    /// failure (synced)
    #[arg(long, default_value = Durability::default().name(), value_parser = by_name::<Durability>())]
    durability: Durability,
}

pub fn run(args: DeleteArgs) -> Result {
    let interrupt = Interrupt::listen()?;
    let single = args.keys.single()?;
    let prefix = args.prefix.as_ref().map(|prefix| args.keys.typed.argument(prefix)).transpose()?;
    if prefix.as_ref().is_some_and(Vec::is_empty) {
        return Err(wrong_usage("--prefix is empty, as all keys begin; use --all to delete all keys"));
    }
    let prefix = if args.all { Some(Vec::new()) } else { prefix };
    let database = args.location.open_single("delete")?;
    let options = WriteOptions::default().durability(args.durability);
    let watch = Stopwatch::start();
    let (mut deleted, mut asked) = (0, 0);
    let outcome = match (&single, &prefix) {
        (Some(key), _) => {
            let found = delete_found(&database, &[key], options)?;
            database.close()?;
            return Ok(if found == 1 { Outcome::Done } else { Outcome::Negative });
        }
        (_, Some(prefix)) => delete_prefix(&database, prefix, options, &interrupt, &mut deleted),
        _ => args.keys.for_each_batch(|keys| {
            for keys in keys.chunks(KEYS_PER_STEP) {
                interrupt.check()?;
                // A key that occurs twice is deleted once.
                let keys: HashSet<&[u8]> = keys.iter().map(Vec::as_slice).collect();
                let keys: Vec<&[u8]> = keys.into_iter().collect();
                asked += keys.len() as u64;
                deleted += delete_found(&database, &keys, options)?;
            }
            Ok(())
        }),
    };
    database.close()?;
    complain(format_args!("{} deleted{watch}", counted(deleted, "key")));
    outcome?;
    Ok(if deleted < asked { Outcome::Negative } else { Outcome::Done })
}

/// Deletes these keys, all or none, and returns how many were there.
pub fn delete_found<K: AsRef<[u8]>>(
    database: &Database,
    keys: &[K],
    options: WriteOptions,
) -> siltstone::Result<u64> {
    let mut deleted = 0;
    database.transact_with(keys, options, |found, changes| {
        let there = found.iter().zip(changes).filter(|(found, _)| found.is_some());
        deleted = there.map(|(_, change)| *change = Change::Delete).count() as u64;
        Ok(())
    })?;
    Ok(deleted)
}

/// Deletes the keys with a prefix, all if it is empty.
fn delete_prefix(
    database: &Database,
    prefix: &[u8],
    options: WriteOptions,
    interrupt: &Interrupt,
    deleted: &mut u64,
) -> anyhow::Result<()> {
    let bar = item_bar("reading", database.approximate_len()?);
    let progress = &mut |deleted_now, read| {
        *deleted = deleted_now;
        bar.set_position(read);
        interrupt.check().is_ok()
    };
    let outcome = match prefix {
        [] => database.clear_with(options, progress),
        prefix => database.delete_prefix_with(prefix, options, progress),
    };
    bar.finish_and_clear();
    interrupt.check()?;
    outcome?;
    Ok(())
}
