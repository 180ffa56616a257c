//! `siltstone serve`: servers, one file for each protocol.

mod data;
mod follow;
mod layers;
mod mica;

use crate::outcome::{Result, help};
use clap::{Args, Subcommand};

const EXAMPLES: &str = "
  siltstone serve data /var/lib/siltstone --redis 127.0.0.1:6379
  siltstone serve mica --listen 127.0.0.1:11411 --memory 1GiB";

/// Serve over a network
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct ServeArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Data(Box<data::DataArgs>),
    Mica(mica::MicaArgs),
}

pub use follow::{FollowArgs, run as follow};
pub use layers::{with_environment, with_file_of};

pub fn run(args: ServeArgs) -> Result {
    match args.what {
        What::Data(args) => data::run(&args),
        What::Mica(args) => mica::run(&args),
    }
}
