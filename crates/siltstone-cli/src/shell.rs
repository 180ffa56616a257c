//! `siltstone completions` and `siltstone man`: what a shell and `man` know of the command.

use crate::outcome::{Outcome, Result, help};
use anyhow::Context;
use clap::{Args, Command};
use clap_complete::Shell;
use std::fs;
use std::io::{Write, stdout};
use std::path::PathBuf;

const COMPLETIONS_EXAMPLES: &str = "
  siltstone completions bash > /etc/bash_completion.d/siltstone
  siltstone completions zsh > ~/.zfunc/_siltstone";

const MAN_EXAMPLES: &str = "
  siltstone man ~/.local/share/man/man1";

/// Print the completions of a shell
#[derive(Args)]
#[command(after_help = help(COMPLETIONS_EXAMPLES))]
pub struct CompletionsArgs {
    /// Shell
    shell: Shell,
}

pub fn completions(args: &CompletionsArgs, mut command: Command) -> Result {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, "siltstone", &mut text);
    stdout().lock().write_all(&text)?;
    Ok(Outcome::Done)
}

/// Write a man page for each command
#[derive(Args)]
#[command(after_help = help(MAN_EXAMPLES))]
pub struct ManArgs {
    /// Directory, which is created if it does not exist
    directory: PathBuf,
}

pub fn man(args: &ManArgs, command: Command) -> Result {
    fs::create_dir_all(&args.directory)
        .and_then(|()| clap_mangen::generate_to(command, &args.directory))
        .with_context(|| format!("cannot write to {}", args.directory.display()))?;
    Ok(Outcome::Done)
}
