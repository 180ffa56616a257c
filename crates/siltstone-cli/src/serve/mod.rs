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

pub use layers::{check_environment, with_environment, with_file_of};

pub fn run(args: ServeArgs) -> Result {
    match args.what {
        What::Data(args) => data::run(&args),
        What::Mica(args) => mica::run(&args),
    }
}

const FOLLOW_EXAMPLES: &str = "
  siltstone serve data /var/lib/siltstone --set change_feed=64MiB       # on the other machine
  siltstone follow 10.0.0.1:6379 /var/lib/copy --redis 127.0.0.1:6380
  redis-cli -p 6380 INFO replication";

/// Copy a database that another server has, and serve the copy for reads, until Ctrl-C or SIGTERM
///
/// The source is `siltstone serve data` with a change feed: --set change_feed=64MiB. The copy is the database 0 in DIR,
/// and its clients get an error for writes. INFO replication shows how far it is behind. If the source fails,
/// `siltstone serve data DIR` serves the copy for writes too; what the source had and the copy had not is lost.
#[derive(Args)]
#[command(after_help = help(FOLLOW_EXAMPLES))]
pub struct FollowArgs {
    /// The other server: HOST:PORT, or redis://USER:PASSWORD@HOST:PORT/DATABASE
    #[arg(value_name = "SOURCE")]
    source: String,
    #[command(flatten)]
    data: data::DataArgs,
}

pub fn follow(args: &FollowArgs) -> Result {
    data::serve(&args.data, Some(&args.source))
}
