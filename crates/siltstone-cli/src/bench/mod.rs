//! `siltstone bench`: measures, and prints what it measured as lines or as JSON.

mod db;
mod dict;

use crate::outcome::{EXIT_CODES, Result};
use clap::{Args, Subcommand};

/// Measure
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Db(Box<db::DbArgs>),
    Dict(dict::DictArgs),
}

pub fn run(args: BenchArgs) -> Result {
    match args.what {
        What::Db(args) => db::run(*args),
        What::Dict(args) => dict::run(args),
    }
}
