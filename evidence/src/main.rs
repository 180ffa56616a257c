//! `evidence`: the tables and figures of the papers, and the benchmarks and comparisons that they are made of.

mod command;

use anyhow::Result;
use clap::{Parser, Subcommand};
use command::{documents, index, mica, model, run, udp};
use siltstone_command::outcome::EXIT_INTERRUPTED;
use siltstone_evidence::Error;
#[cfg(feature = "peers")]
use siltstone_evidence::compare::{caches, key_set};
use siltstone_evidence::compare::{child, peer, report, table, traces};
use std::error::Error as StdError;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// The tables and figures of the papers that Siltstone implements, next to what is measured here
#[derive(Parser)]
#[command(name = "evidence", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    List(run::ListArgs),
    Run(Box<run::RunArgs>),
    Documents(documents::DocumentsArgs),
    Figures(documents::FiguresArgs),
    Index(index::IndexArgs),
    Mica(mica::MicaArgs),
    Udp(udp::UdpArgs),
    Model(Box<model::ModelArgs>),
    /// Runs a table of other stores
    Table {
        /// The table
        table: table::Table,
        #[command(flatten)]
        choice: table::Choice,
    },
    /// Compares sets of ordered keys for FlashKey: its own one, and Fjall
    #[cfg(feature = "peers")]
    KeySet {
        #[command(flatten)]
        choice: key_set::Choice,
    },
    /// Compares caches on flash: FlashStore as a cache, and foyer
    #[cfg(feature = "peers")]
    Caches {
        #[command(flatten)]
        choice: caches::Choice,
    },
    /// Runs the traces of FlashStore's paper on its engines and on other stores
    Traces {
        #[command(flatten)]
        choice: traces::Choice,
    },
    /// Writes tables and plots from lines of JSON
    Report {
        /// The files that tables have written
        #[arg(default_value = "evidence/results/rows.jsonl")]
        rows: Vec<PathBuf>,
        /// The directory for `tables.md` and the plots
        #[arg(long, default_value = "evidence/results")]
        out: PathBuf,
    },
    /// Lists the stores with their options
    Peers,
    /// Executes one order. Used by tables
    #[command(hide = true)]
    Child {
        /// The order, as JSON
        order: String,
    },
}

fn main() -> ExitCode {
    let Err(error) = run_command(Arguments::parse().command) else { return ExitCode::SUCCESS };
    let is_closed = |cause: &(dyn StdError + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    };
    if error.chain().any(is_closed) {
        return ExitCode::SUCCESS;
    }
    eprintln!("evidence: {error:#}");
    let is_stopped = error.downcast_ref().is_some_and(Error::is_stopped);
    if is_stopped { ExitCode::from(EXIT_INTERRUPTED) } else { ExitCode::FAILURE }
}

fn run_command(command: Command) -> Result<()> {
    match command {
        Command::List(args) => run::list(&args),
        Command::Run(args) => run::run(&args),
        Command::Documents(args) => documents::fill(&args),
        Command::Figures(args) => documents::measure(&args),
        Command::Index(args) => index::run(args),
        Command::Mica(args) => mica::run(args),
        Command::Udp(args) => udp::run(args),
        Command::Model(args) => model::run(*args),
        Command::Table { table, choice } => table.run(&choice).map(|_| ()),
        #[cfg(feature = "peers")]
        Command::KeySet { choice } => key_set::run(&choice),
        #[cfg(feature = "peers")]
        Command::Caches { choice } => caches::run(&choice),
        Command::Traces { choice } => traces::run(&choice),
        Command::Report { rows, out } => report::write(&rows, &out),
        Command::Peers => {
            print!("{}", peer::list());
            Ok(())
        }
        Command::Child { order } => child::run(&serde_json::from_str(&order)?),
    }
}
