//! Compares Siltstone with other stores: the same keys and values, one store after another on the same device, with
//! every value checked.

#[cfg(not(target_os = "linux"))]
compile_error!("the comparison reads Linux's own counts of processes and devices");

mod caches;
mod child;
mod key_set;
mod latencies;
mod limit;
mod meter;
mod page_cache;
mod peer;
mod phase;
mod raw;
mod report;
mod row;
mod table;
mod traces;
mod worker;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use table::{Choice, Table};

/// Compares Siltstone with other stores.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs a table.
    Table {
        /// The table.
        table: Table,
        #[command(flatten)]
        choice: Choice,
    },
    /// Compares sets of ordered keys for FlashKey: its own one, and Fjall.
    KeySet {
        #[command(flatten)]
        choice: key_set::Choice,
    },
    /// Compares caches on flash: FlashStore as a cache, and foyer.
    Caches {
        #[command(flatten)]
        choice: caches::Choice,
    },
    /// Runs the traces of FlashStore's paper on its engines and on other stores.
    Traces {
        #[command(flatten)]
        choice: traces::Choice,
    },
    /// Writes tables and plots from lines of JSON.
    Report {
        /// The files that tables have written.
        #[arg(default_value = "bench-compare/results/rows.jsonl")]
        rows: Vec<PathBuf>,
        /// The directory for `tables.md` and the plots.
        #[arg(long, default_value = "bench-compare/results")]
        out: PathBuf,
    },
    /// Lists the stores with their options.
    Peers,
    /// Executes one order. Used by tables.
    #[command(hide = true)]
    Child {
        /// The order, as JSON.
        order: String,
    },
}

fn main() -> Result<()> {
    match Arguments::parse().command {
        Command::Table { table, choice } => table.run(&choice),
        Command::KeySet { choice } => key_set::run(&choice),
        Command::Caches { choice } => caches::run(&choice),
        Command::Traces { choice } => traces::run(&choice),
        Command::Report { rows, out } => report::write(&rows, &out),
        Command::Peers => {
            list_peers();
            Ok(())
        }
        Command::Child { order } => child::run(&serde_json::from_str(&order)?),
    }
}

fn list_peers() {
    let opening = peer::Opening {
        directory: "".into(),
        keys: 0,
        key_size: 0,
        value_size: 0,
        cache_bytes: 64 << 20,
        direct: false,
        space: None,
        ordered: false,
        disk: None,
        small_segments: false,
    };
    for kind in &peer::KINDS {
        println!("{:>16}  {}: {}", kind.name, kind.title, (kind.options)(&opening));
    }
}
