//! `siltstone dict get`: prints the values of keys.

use super::open;
use crate::input::{self, ArgumentArgs};
use crate::outcome::{Outcome, Result, help_with_arguments};
use crate::output::print_value;
use anyhow::Context;
use clap::Args;
use siltstone::Dictionary;
use std::ffi::OsString;
use std::io::{BufWriter, Write, stdout};
use std::path::PathBuf;

const EXAMPLES: &str = "
  siltstone dict get words.dict house
  siltstone dict get words.dict house tree water
  siltstone dict get words.dict --keys wanted.txt > found.tsv";

/// The number of keys of a file that are looked up in one call.
const KEYS_PER_BATCH: usize = 4096;

/// Print the values of keys
///
/// For one key, writes the bytes of the value unchanged, and a newline only on a terminal. For several keys, writes one
/// line per key found: the key, a tab and the value, with non-printable bytes as \xNN. Exits with 1 if a key is not
/// found.
#[derive(Args)]
#[command(after_help = help_with_arguments(EXAMPLES))]
pub struct GetArgs {
    /// File of the dictionary
    #[arg(value_name = "FILE")]
    path: PathBuf,
    #[command(flatten)]
    typed: ArgumentArgs,
    /// Look up the keys in this file, one per line; `-` is standard input
    #[arg(long, value_name = "KEYS", conflicts_with = "key")]
    keys: Option<PathBuf>,
    /// Do not load the index, but search: fastest for a single key of a large dictionary
    #[arg(long)]
    without_index: bool,
    /// Write nothing; the exit code is 1 if a key is not found
    #[arg(long, short)]
    quiet: bool,
    /// Keys
    #[arg(value_name = "KEY", required_unless_present = "keys")]
    key: Vec<OsString>,
}

pub fn run(args: &GetArgs) -> Result {
    let dictionary = open(&args.path, args.without_index)?;
    let notation = args.typed.notation.typed();
    if let [key] = &args.key[..] {
        return get_one(args, &dictionary, &args.typed.argument(key)?);
    }
    let mut shown = Shown { out: BufWriter::new(stdout().lock()), args, all_there: true };
    let Some(path) = &args.keys else {
        let keys = args.key.iter().map(|key| args.typed.argument(key)).collect::<anyhow::Result<_>>()?;
        return shown.finish(&dictionary, keys);
    };
    let mut keys = Vec::with_capacity(KEYS_PER_BATCH);
    input::for_each_line(path, |line| {
        keys.push(notation.parse(line)?);
        if keys.len() == KEYS_PER_BATCH {
            shown.show(&dictionary, &std::mem::take(&mut keys))?;
        }
        Ok(())
    })
    .with_context(|| format!("cannot look up the keys in {}", path.display()))?;
    shown.finish(&dictionary, keys)
}

fn get_one(args: &GetArgs, dictionary: &Dictionary, key: &[u8]) -> Result {
    let Some(value) = dictionary.get(key)? else { return Ok(Outcome::Negative) };
    if args.quiet {
        return Ok(Outcome::Done);
    }
    print_value(&value, args.typed.notation.typed())?;
    Ok(Outcome::Done)
}

/// Writes a line for each key found.
struct Shown<'a, W: Write> {
    out: W,
    args: &'a GetArgs,
    all_there: bool,
}

impl<W: Write> Shown<'_, W> {
    fn show(&mut self, dictionary: &Dictionary, keys: &[Vec<u8>]) -> anyhow::Result<()> {
        if self.args.quiet {
            self.all_there &= dictionary.contains_many(keys)?.into_iter().all(|there| there);
            return Ok(());
        }
        let notation = self.args.typed.notation.listed();
        for (key, value) in keys.iter().zip(dictionary.get_many(keys)?) {
            match value {
                Some(value) => writeln!(self.out, "{}\t{}", notation.show(key), notation.show(&value))?,
                None => self.all_there = false,
            }
        }
        Ok(())
    }

    fn finish(mut self, dictionary: &Dictionary, keys: Vec<Vec<u8>>) -> Result {
        self.show(dictionary, &keys)?;
        self.out.flush()?;
        Ok(if self.all_there { Outcome::Done } else { Outcome::Negative })
    }
}
