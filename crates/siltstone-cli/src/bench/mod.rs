//! `siltstone bench`: measures, and prints what it measured as lines or as JSON.

mod db;
mod device;
mod dict;
mod index;
pub mod mica;
mod trace;
mod tuning;
mod udp;
mod ycsb;

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
    Index(index::IndexArgs),
    Device(device::DeviceArgs),
    Ycsb(Box<ycsb::YcsbArgs>),
    Trace(Box<trace::TraceArgs>),
    Dict(dict::DictArgs),
    Mica(mica::MicaArgs),
    Udp(udp::UdpArgs),
}

pub fn run(args: BenchArgs) -> Result {
    match args.what {
        What::Db(args) => db::run(*args),
        What::Index(args) => index::run(&args),
        What::Device(args) => device::run(args),
        What::Ycsb(args) => ycsb::run(*args),
        What::Trace(args) => trace::run(*args),
        What::Dict(args) => dict::run(args),
        What::Mica(args) => mica::run(args),
        What::Udp(args) => udp::run(&args),
    }
}
