//! `siltstone`: a database from the command line, the dedup index, and the benchmarks. One file a subcommand.

mod bench;
mod checkpoint;
mod compact;
mod dedup;
mod delete;
mod dict;
mod export;
mod get;
mod import;
mod input;
mod interrupt;
mod list;
mod notation;
mod open;
mod outcome;
mod put;
mod stats;
mod transfer;
mod verify;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// A key-value store for flash that needs a fraction of a byte of RAM an item
#[derive(Parser)]
#[command(name = "siltstone", version, propagate_version = true, after_help = outcome::EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Get(get::GetArgs),
    Put(put::PutArgs),
    Delete(delete::DeleteArgs),
    List(list::ListArgs),
    Import(import::ImportArgs),
    Export(export::ExportArgs),
    Stats(stats::StatsArgs),
    Compact(compact::CompactArgs),
    Checkpoint(checkpoint::CheckpointArgs),
    Verify(verify::VerifyArgs),
    Dedup(dedup::DedupArgs),
    Dict(dict::DictArgs),
    Bench(bench::BenchArgs),
}

fn main() -> ExitCode {
    outcome::finish(match Cli::parse().command {
        Command::Get(args) => get::run(args),
        Command::Put(args) => put::run(args),
        Command::Delete(args) => delete::run(args),
        Command::List(args) => list::run(args),
        Command::Import(args) => import::run(args),
        Command::Export(args) => export::run(args),
        Command::Stats(args) => stats::run(args),
        Command::Compact(args) => compact::run(args),
        Command::Checkpoint(args) => checkpoint::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Dedup(args) => dedup::run(args),
        Command::Dict(args) => dict::run(args),
        Command::Bench(args) => bench::run(args),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_command_shows_an_example_and_the_exit_codes() {
        Cli::command().debug_assert();
        let mut cli = Cli::command();
        cli.build();
        let is_ours = |command: &&clap::Command| command.get_name() != "help";
        let leaves =
            cli.get_subcommands().filter(is_ours).flat_map(|command| match command.has_subcommands() {
                true => command.get_subcommands().filter(is_ours).collect(),
                false => vec![command],
            });
        for command in leaves {
            let help = command.clone().render_long_help().to_string();
            assert!(help.contains("Examples:"), "{} has no example: {help}", command.get_name());
            assert!(help.contains("Exit codes"), "{} does not tell its exit codes", command.get_name());
        }
    }
}
