//! `siltstone bench`: measures, and prints what it measured as lines or as JSON.

mod db;
mod device;
mod dict;
mod ground;
mod index;
pub mod mica;
mod trace;
mod tuning;
mod udp;
mod ycsb;

use crate::outcome::{Result, help};
use clap::{Args, Subcommand};
use siltstone::Error;
use siltstone_bench::db::BenchError;
use siltstone_bench::device::DeviceError;
use siltstone_bench::dict::DictError;
use siltstone_bench::index::IndexError;
use siltstone_bench::mica::MicaError;
use siltstone_bench::trace::replay::ReplayError;
use siltstone_bench::udp::UdpError;
use siltstone_bench::ycsb::YcsbError;
use siltstone_network::ServerError;

const EXAMPLES: &str = "
  siltstone bench db --num 1e6 --key-size 20 --value-size 44 --fixed
  siltstone bench ycsb --workload a --threads 16
  siltstone bench index --all --plot index.svg";

/// Run benchmarks
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
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

/// Whether a benchmark was refused for its settings.
pub fn is_wrong_usage(cause: &(dyn std::error::Error + 'static)) -> bool {
    fn is<E: std::error::Error + 'static>(
        cause: &(dyn std::error::Error + 'static),
        wrong: fn(&E) -> bool,
    ) -> bool {
        cause.downcast_ref().is_some_and(wrong)
    }
    fn setting(error: &Error) -> bool {
        matches!(error, Error::Setting { .. })
    }
    is(cause, |error: &BenchError| match error {
        BenchError::Database(error) => setting(error),
        other => matches!(other, BenchError::Settings(_) | BenchError::Keys(_)),
    }) || is(cause, |error: &YcsbError| match error {
        YcsbError::Database(error) => setting(error),
        other => matches!(other, YcsbError::Settings(_) | YcsbError::NoOrder),
    }) || is(cause, |error: &ReplayError| match error {
        ReplayError::Database(error) => setting(error),
        other => matches!(other, ReplayError::Settings(_)),
    }) || is(cause, |error: &DictError| match error {
        DictError::Dictionary(error) => setting(error),
        other => matches!(other, DictError::Keys(_)),
    }) || is(cause, |error: &MicaError| match error {
        MicaError::Memory(error) => setting(error),
        other => matches!(other, MicaError::Settings(_)),
    }) || is(cause, |error: &UdpError| {
        matches!(error, UdpError::Settings(_) | UdpError::Server(ServerError::Setting { .. }))
    }) || is(cause, |error: &IndexError| matches!(error, IndexError::NoSuchSetting { .. }))
        || is(cause, |error: &DeviceError| matches!(error, DeviceError::Settings(_)))
}
