//! `siltstone serve`: servers, one file a protocol.

mod mica;

use crate::outcome::{EXIT_CODES, Result};
use clap::{Args, Subcommand};

/// Serve over a network
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub struct ServeArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Mica(mica::MicaArgs),
}

pub fn run(args: ServeArgs) -> Result {
    match args.what {
        What::Mica(args) => mica::run(&args),
    }
}
