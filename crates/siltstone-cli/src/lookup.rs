//! Lookups of one key or of many, in databases and in dictionaries.

use crate::input::{ArgumentArgs, for_each_batch_of_keys};
use crate::outcome::{Outcome, Result};
use crate::transfer::write_line;
use crate::values::Values;
use clap::Args;
use siltstone::{Bytes, Database, Dictionary, Found, NEVER, Record};
use std::ffi::OsString;
use std::io::{BufWriter, Write, stdout};
use std::path::PathBuf;

/// The keys of a command.
#[derive(Debug, Args)]
#[group(id = "wanted", required = true, multiple = false)]
pub struct KeyArgs {
    #[command(flatten)]
    pub typed: ArgumentArgs,
    /// Use the keys in this file, one per line; `-` is standard input
    #[arg(long, value_name = "FILE", group = "wanted")]
    keys: Option<PathBuf>,
    /// Keys
    #[arg(value_name = "KEY", group = "wanted")]
    key: Vec<OsString>,
}

impl KeyArgs {
    /// Returns the key, if exactly one is given as an argument.
    pub fn single(&self) -> anyhow::Result<Option<Vec<u8>>> {
        match &self.key[..] {
            [key] => self.typed.argument(key).map(Some),
            _ => Ok(None),
        }
    }

    /// Calls `take` with all keys, some thousand at a time.
    pub fn for_each_batch(
        &self,
        mut take: impl FnMut(&[Vec<u8>]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if let Some(path) = &self.keys {
            return for_each_batch_of_keys(path, self.typed.notation.typed(), take);
        }
        let keys = self.key.iter().map(|key| self.typed.argument(key)).collect::<anyhow::Result<Vec<_>>>()?;
        take(&keys)
    }
}

/// What keys are looked up in.
pub trait Lookup {
    fn get_many_found(&self, keys: &[Vec<u8>]) -> siltstone::Result<Vec<Option<Found>>>;
    fn contains_many(&self, keys: &[Vec<u8>]) -> siltstone::Result<Vec<bool>>;
}

impl Lookup for Database {
    fn get_many_found(&self, keys: &[Vec<u8>]) -> siltstone::Result<Vec<Option<Found>>> {
        self.get_many_found(keys)
    }

    fn contains_many(&self, keys: &[Vec<u8>]) -> siltstone::Result<Vec<bool>> {
        self.contains_many(keys)
    }
}

impl Lookup for Dictionary {
    fn get_many_found(&self, keys: &[Vec<u8>]) -> siltstone::Result<Vec<Option<Found>>> {
        let found = |value| Found { value, expires_at_ms: NEVER };
        Ok(self.get_many(keys)?.into_iter().map(|value| value.map(found)).collect())
    }

    fn contains_many(&self, keys: &[Vec<u8>]) -> siltstone::Result<Vec<bool>> {
        self.contains_many(keys)
    }
}

/// How the records that are found are printed.
#[derive(Debug, Clone, Copy, Args)]
pub struct PrintArgs {
    /// Print a line of JSON for each key found, as `export --format jsonl` does, also for a single key
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    /// Write nothing; the exit code is 1 if a key is not found
    #[arg(long, short)]
    pub quiet: bool,
}

impl PrintArgs {
    /// Returns the key, if the bytes of its value are all that is printed.
    pub fn single(self, keys: &KeyArgs) -> anyhow::Result<Option<Vec<u8>>> {
        if self.json { Ok(None) } else { keys.single() }
    }
}

/// Prints a line for each key that is found: the key, a tab and the value, or JSON. Returns whether all are found.
pub fn print_many(source: &impl Lookup, values: Values, keys: &KeyArgs, print: PrintArgs) -> Result {
    let notation = keys.typed.notation.listed();
    let mut out = BufWriter::new(stdout().lock());
    let mut has_all = true;
    keys.for_each_batch(|keys_now| {
        if print.quiet {
            has_all &= source.contains_many(keys_now)?.into_iter().all(|is_there| is_there);
            return Ok(());
        }
        for (key, found) in keys_now.iter().zip(source.get_many_found(keys_now)?) {
            let Some(Found { value, expires_at_ms }) = found else {
                has_all = false;
                continue;
            };
            let record = Record { key: Bytes::copy_from_slice(key), value, expires_at_ms };
            let record = values.shown_record(record)?;
            match print.json {
                true => write_line(&mut out, &record, true, keys.typed.notation.is_hex())?,
                false => writeln!(out, "{}\t{}", notation.show(key), notation.show(&record.value))?,
            }
        }
        Ok(())
    })?;
    out.flush()?;
    Ok(if has_all { Outcome::Done } else { Outcome::Negative })
}
