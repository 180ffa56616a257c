//! `siltstone`: a database on the command line, the dedup index, the planner and the models, and the benchmarks. Each
//! subcommand has its own file.

mod bench;
mod changes;
mod checkpoint;
mod compact;
mod delete;
mod dict;
mod engines;
mod export;
mod get;
mod import;
mod import_redis;
mod input;
mod list;
mod lookup;
mod model;
mod open;
mod output;
mod plan;
mod put;
mod repair;
mod serve;
mod shell;
mod source;
mod stats;
mod stream;
mod transfer;
mod values;
mod verify;

use siltstone_command::{interrupt, notation, outcome, progress, quantity};
use siltstone_dedup::{self as dedup, place};

use clap::{Arg, CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

#[cfg(feature = "count-heap")]
#[global_allocator]
static HEAP: peak_alloc::PeakAlloc = peak_alloc::PeakAlloc;

/// Returns the function that reports the bytes on the heap, if they are counted.
fn heap_bytes() -> Option<fn() -> u64> {
    #[cfg(feature = "count-heap")]
    return Some(|| HEAP.current_usage() as u64);
    #[cfg(not(feature = "count-heap"))]
    None
}

/// A key-value store for flash that uses a fraction of a byte of RAM per key
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
    Changes(changes::ChangesArgs),
    Import(import::ImportArgs),
    Export(export::ExportArgs),
    Stats(stats::StatsArgs),
    Compact(compact::CompactArgs),
    Checkpoint(checkpoint::CheckpointArgs),
    Verify(verify::VerifyArgs),
    Repair(repair::RepairArgs),
    Dedup(dedup::DedupArgs),
    Plan(Box<plan::PlanArgs>),
    Model(model::ModelArgs),
    Dict(dict::DictArgs),
    Serve(serve::ServeArgs),
    Follow(Box<serve::FollowArgs>),
    Bench(bench::BenchArgs),
    Engines(engines::EnginesArgs),
    Completions(shell::CompletionsArgs),
    Man(shell::ManArgs),
}

/// Returns the command line. Options with hyphens also accept underscores, as in db_bench.
fn command() -> clap::Command {
    fn with_underscores(command: clap::Command) -> clap::Command {
        let spelled = |arg: Arg| match arg.get_long().filter(|name| name.contains('-')) {
            Some(name) => {
                let name = name.replace('-', "_");
                arg.alias(name)
            }
            None => arg,
        };
        command.mut_args(spelled).mut_subcommands(with_underscores)
    }
    with_underscores(with_servers(Cli::command(), &mut serve::with_environment))
}

/// Changes the commands that run a server of databases, whose settings come from several places.
fn with_servers(
    command: clap::Command,
    change: &mut dyn FnMut(clap::Command) -> clap::Command,
) -> clap::Command {
    let command = command.mut_subcommand("serve", |serve| serve.mut_subcommand("data", &mut *change));
    command.mut_subcommand("follow", change)
}

/// Returns the command line with what a file of settings has.
fn command_with_file() -> anyhow::Result<clap::Command> {
    let words: Vec<_> = std::env::args_os().skip(1).take(2).collect();
    let is_server = words.first().is_some_and(|word| word == "follow") || words == ["serve", "data"];
    if is_server {
        let command = command();
        let data = command.find_subcommand("serve").and_then(|serve| serve.find_subcommand("data"));
        let servers: Vec<&clap::Command> =
            data.into_iter().chain(command.find_subcommand("follow")).collect();
        serve::check_environment(&servers, std::env::vars_os().map(|(name, _)| name))?;
    }
    let mut outcome = Ok(());
    let mut with_file = |command: clap::Command| {
        serve::with_file_of(command.clone(), std::env::args_os()).unwrap_or_else(|error| {
            outcome = Err(error);
            command
        })
    };
    let command = match is_server {
        true => with_servers(command(), &mut with_file),
        false => command(),
    };
    outcome.map(|()| command)
}

fn main() -> ExitCode {
    let command_line = match command_with_file() {
        Ok(command_line) => command_line,
        Err(error) => return outcome::finish(Err(outcome::wrong_usage(format_args!("{error:#}")))),
    };
    let cli: Cli = match outcome::parse(command_line) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    outcome::finish(match cli.command {
        Command::Get(args) => get::run(args),
        Command::Put(args) => put::run(args),
        Command::Delete(args) => delete::run(args),
        Command::List(args) => list::run(args),
        Command::Changes(args) => changes::run(args),
        Command::Import(args) => import::run(args),
        Command::Export(args) => export::run(args),
        Command::Stats(args) => stats::run(args),
        Command::Compact(args) => compact::run(args),
        Command::Checkpoint(args) => checkpoint::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Repair(args) => repair::run(args),
        Command::Dedup(args) => dedup::run(args),
        Command::Plan(args) => plan::run(*args),
        Command::Model(args) => model::run(args),
        Command::Dict(args) => dict::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Follow(args) => serve::follow(&args),
        Command::Bench(args) => bench::run(args),
        Command::Engines(args) => engines::run(&args),
        Command::Completions(args) => shell::completions(&args, command()),
        Command::Man(args) => shell::man(&args, command()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_shows_an_example_and_the_exit_codes() {
        command().debug_assert();
        let mut cli = command();
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
            assert!(help.contains("Exit codes"), "{} does not list its exit codes", command.get_name());
        }
    }

    /// Calls `see` with the words and the definition of each command.
    fn for_each_command(see: &mut dyn FnMut(&[String], &clap::Command)) {
        fn walk(words: &[String], command: &clap::Command, see: &mut dyn FnMut(&[String], &clap::Command)) {
            see(words, command);
            for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
                walk(&[words, &[inner.get_name().to_owned()]].concat(), inner, see);
            }
        }
        let mut cli = command();
        cli.build();
        walk(&["siltstone".to_owned()], &cli, see);
    }

    /// The error of a command with these words.
    fn error_of(words: &[String], option: &str) -> Option<clap::Error> {
        command().try_get_matches_from(words.iter().map(String::as_str).chain([option])).err()
    }

    #[test]
    fn every_option_has_hyphens_and_accepts_underscores() {
        let mut options = 0;
        for_each_command(&mut |words, command| {
            for name in command.get_arguments().filter_map(|arg| Some((arg, arg.get_long()?))) {
                let (arg, name) = name;
                let is_plain =
                    |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
                assert!(name.chars().all(is_plain), "{words:?} --{name}");
                let aliases = arg.get_all_aliases().unwrap_or_default();
                assert!(
                    !name.contains('-') || aliases.contains(&&*name.replace('-', "_")),
                    "{words:?} --{name}"
                );
                options += 1;
            }
        });
        assert!(options > 200, "all commands are seen");
    }

    #[test]
    fn every_mistyped_option_is_refused_with_a_suggestion() {
        for_each_command(&mut |words, command| {
            for name in command.get_arguments().filter_map(Arg::get_long).filter(|name| name.len() > 4) {
                let error = error_of(words, &format!("--{name}x")).unwrap();
                assert_eq!(error.exit_code(), 2, "{words:?} --{name}x");
                assert!(error.to_string().contains("similar"), "{words:?} --{name}x: {error}");
            }
        });
    }

    #[test]
    fn every_number_may_have_an_exponent_or_a_unit() {
        for_each_command(&mut |words, command| {
            for arg in command.get_arguments().filter(|arg| arg.get_action().takes_values()) {
                let Some(name) = arg.get_long() else { continue };
                for number in ["1e3", "2k"] {
                    let Some(error) = error_of(words, &format!("--{name}={number}")) else { continue };
                    let message = error.to_string();
                    assert!(!message.contains("invalid digit"), "{words:?} --{name}: {message}");
                }
            }
        });
    }

    #[test]
    fn the_options_of_db_bench_are_known() {
        let options = "--benchmarks=readrandom --num=10 --reads=5 --threads=2 --key_size=16 --value_size=100 --db=DIR \
                       --use_existing_db --histogram --seed=1 --batch_size=10 --sync --duration=1 --statistics";
        let words = ["siltstone", "bench", "db"].into_iter().chain(options.split_whitespace());
        command().try_get_matches_from(words).unwrap();
    }
}
