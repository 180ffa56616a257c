//! `siltstone get`: the value of a key.

use crate::input;
use crate::notation::{Notation, NotationArgs};
use crate::open::Location;
use crate::outcome::{Outcome, Result, help_with_arguments};
use anyhow::Context;
use clap::Args;
use std::ffi::OsString;
use std::io::{IsTerminal, Write, stdout};
use std::path::PathBuf;

const EXAMPLES: &str = "
  siltstone get --db DIR user:17
  siltstone get --db DIR --hex 00ff17
  siltstone get --db DIR --output picture.png picture";

/// Print the value of a key
///
/// The value's bytes are written as they are; a newline follows only on a terminal. With --hex they are written in hex.
#[derive(Args)]
#[command(after_help = help_with_arguments(EXAMPLES))]
pub struct GetArgs {
    #[command(flatten)]
    location: Location,
    #[command(flatten)]
    notation: NotationArgs,
    /// Write the value to this file
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write nothing: the exit code tells whether the key is there
    #[arg(long, short, conflicts_with = "output")]
    quiet: bool,
    /// The key
    #[arg(allow_hyphen_values = true)]
    key: OsString,
}

pub fn run(args: GetArgs) -> Result {
    let key = input::argument(&args.key, args.notation.typed())?;
    let Some(value) = args.location.open()?.get(key)? else { return Ok(Outcome::Negative) };
    let shown = match args.notation.typed() {
        Notation::Plain => value,
        notation => notation.show(&value).into(),
    };
    if let Some(path) = &args.output {
        std::fs::write(path, &shown).with_context(|| format!("cannot write {}", path.display()))?;
    } else if !args.quiet {
        let mut out = stdout().lock();
        out.write_all(&shown)?;
        if out.is_terminal() || args.notation.typed() != Notation::Plain {
            out.write_all(b"\n")?;
        }
        out.flush()?;
    }
    Ok(Outcome::Done)
}
