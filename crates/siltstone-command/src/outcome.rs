//! The end of a command: its exit code, and its messages on standard error.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, FromArgMatches};
use serde_json::json;
use siltstone::key::HASH_LENGTH_MIN;
use siltstone::{EngineKind, Error};
use siltstone_bench::Error as BenchError;
use siltstone_network::ServerError;
use std::error::Error as StdError;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Printed at the end of every `--help`.
pub const EXIT_CODES: &str = "\
Exit codes: 0 success; 1 not found, already present, or damaged; 2 wrong usage; 3 error; 130 interrupted.";

/// The notation of arguments.
const ARGUMENT_HELP: &str = "\
A key or a value is the text of the argument. `@FILE` is the contents of a file, `-` is standard input, and `@@…` is \
a text that begins with one @; --literal turns all three off. Put `--` before a key or a value that begins with a \
hyphen. With --hex or --escaped, the text or the contents are decoded.";

/// Returns the text after the flags in a command's `--help`.
pub fn help(examples: &str) -> String {
    format!("Examples:{examples}\n\n{EXIT_CODES}")
}

/// [`help`] for commands with keys or values as arguments.
pub fn help_with_arguments(examples: &str) -> String {
    format!("Examples:{examples}\n\n{ARGUMENT_HELP}\n\n{EXIT_CODES}")
}

/// The outcome of a command without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Success.
    Done,
    /// The key was not found, or is already present, or data is damaged.
    Negative,
    /// The user stopped it; completed work is kept.
    Interrupted,
}

/// What every command returns.
pub type Result<T = Outcome> = anyhow::Result<T>;

/// The exit code for wrong usage.
const EXIT_USAGE: u8 = 2;
/// The exit code of an interrupted command: 128 plus the number of SIGINT, as in shells.
pub const EXIT_INTERRUPTED: u8 = 130;
/// The exit code of a command that failed.
const EXIT_ERROR: u8 = 3;

/// Whether errors and messages are lines of JSON.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// The command was called with invalid values.
#[derive(Debug)]
struct WrongUsage(String);

impl fmt::Display for WrongUsage {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

impl StdError for WrongUsage {}

/// Returns an error for wrong usage: exit code 2.
pub fn wrong_usage(message: impl fmt::Display) -> anyhow::Error {
    WrongUsage(format!("{message:#}")).into()
}

/// Parses the command line, or returns the exit code for an invalid one.
pub fn parse<T: FromArgMatches>(command: Command) -> std::result::Result<T, ExitCode> {
    let options = std::env::args_os().take_while(|argument| argument != "--");
    IS_JSON.store(options.into_iter().any(|argument| argument == "--json"), Relaxed);
    let commands: Vec<String> =
        command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let parsed = command.try_get_matches().and_then(|matches| T::from_arg_matches(&matches));
    parsed.map_err(|error| {
        let error = with_place_of_option(error, &commands, std::env::args_os().skip(1));
        if error.use_stderr() && IS_JSON.load(Relaxed) {
            return fail(error.to_string().trim_start_matches("error: ").trim_end(), EXIT_USAGE);
        }
        // A closed standard error is ignored, as in `say`.
        let _ = error.print();
        ExitCode::from(error.exit_code() as u8)
    })
}

/// Lets the error of an option before the command say where it belongs.
fn with_place_of_option(
    mut error: clap::Error,
    commands: &[String],
    arguments: impl Iterator<Item = OsString>,
) -> clap::Error {
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else { return error };
    let arguments: Vec<String> = arguments.map(|argument| argument.to_string_lossy().into_owned()).collect();
    let command = arguments.iter().position(|argument| commands.contains(argument));
    let place = arguments.iter().position(|argument| argument.starts_with(&**option));
    if error.kind() == ErrorKind::UnknownArgument
        && let Some((command, place)) = command.zip(place)
        && place < command
    {
        let tip = format!("options follow the command, as in `siltstone {} {option}`", arguments[command]);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// Prints the error, if any, and returns the exit code.
pub fn finish(result: Result) -> ExitCode {
    match result {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Negative) => ExitCode::from(1),
        Ok(Outcome::Interrupted) => ExitCode::from(EXIT_INTERRUPTED),
        Err(error) if error.chain().any(is_broken_pipe) => ExitCode::SUCCESS,
        Err(error) if error.chain().any(is_interrupted) => ExitCode::from(EXIT_INTERRUPTED),
        Err(error) if error.chain().any(is_wrong_usage) => fail(&describe(&error), EXIT_USAGE),
        Err(error) => fail(&describe(&error), EXIT_ERROR),
    }
}

fn fail(message: &str, code: u8) -> ExitCode {
    match IS_JSON.load(Relaxed) {
        true => say(&json!({ "error": message, "exit_code": code })),
        false => say(&format_args!("siltstone: {message}")),
    }
    ExitCode::from(code)
}

/// Prints a message to standard error that is not an error of the command.
pub fn complain(message: fmt::Arguments<'_>) {
    match IS_JSON.load(Relaxed) {
        true => say(&json!({ "message": message.to_string() })),
        false => say(&format_args!("siltstone: {message}")),
    }
}

/// Prints a line to standard error; ignores a closed standard error.
fn say(line: &dyn fmt::Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

type Cause<'a> = &'a (dyn StdError + 'static);

/// Returns whether the reader closed the pipe, which is not an error of the command.
fn is_broken_pipe(cause: Cause<'_>) -> bool {
    cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Returns the library's error, also if it is inside a benchmark's error.
fn library_error(cause: Cause<'_>) -> Option<&Error> {
    match cause.downcast_ref() {
        Some(BenchError::Database(error)) => Some(error),
        _ => cause.downcast_ref(),
    }
}

fn is_interrupted(cause: Cause<'_>) -> bool {
    let within = cause.downcast_ref::<io::Error>().and_then(|error| error.get_ref()?.downcast_ref());
    matches!(within.or(library_error(cause)), Some(Error::Interrupted))
        || matches!(cause.downcast_ref(), Some(BenchError::Stopped))
}

fn is_wrong_usage(cause: Cause<'_>) -> bool {
    cause.is::<WrongUsage>()
        || matches!(library_error(cause), Some(Error::Setting { .. }))
        || matches!(cause.downcast_ref(), Some(ServerError::Setting { .. }))
        || matches!(cause.downcast_ref(), Some(BenchError::Settings(_)))
}

/// Returns the error with its causes, each once, with the library's remedies translated to flags of the command line.
fn describe(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let said = library_error(cause).map_or_else(|| cause.to_string(), translated);
        if text.is_empty() {
            text = said;
        } else if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        // The messages of the library's errors include their causes.
        if library_error(cause).is_some() {
            break;
        }
    }
    text
}

/// Settings of a database that no command has an option for, besides those of engines.
const WITHOUT_OPTION: [&str; 3] = ["change_feed", "open_files_max", "verify_checksums"];

/// Returns whether a setting is stated with --set.
fn is_set(name: &str) -> bool {
    let of_engine = |kind: &EngineKind| kind.settings().describe().iter().any(|setting| setting.name == name);
    WITHOUT_OPTION.contains(&name) || EngineKind::ALL.iter().any(of_engine)
}

fn translated(error: &Error) -> String {
    match error {
        Error::NotFound { path } => format!(
            "{}: no database here; use another directory with --db, or create a database with put, import or dedup",
            path.display()
        ),
        Error::ExpiryUnsupported => {
            "this fixed-size database was created without expiry times; create it with --expiring to use them"
                .into()
        }
        Error::RecordSize { what, expected, got } => format!(
            "the {what} has {got} bytes, but this database was created with fixed {what}s of {expected} bytes; \
             create a database without --fixed for other sizes"
        ),
        Error::HashLength { got } => format!(
            "the key has {got} bytes, but the keys of this database are hashes of {HASH_LENGTH_MIN} bytes or more; \
             create a database without --hashed-keys for other keys"
        ),
        // No option: the directory of a copy.
        Error::Setting { name: "checkpoint", problem } => problem.clone(),
        Error::Setting { name, problem } if is_set(name) => format!("--set {name}: {problem}"),
        Error::Setting { name: "memory_budget", problem } => format!("--memory: {problem}"),
        Error::Setting { name, problem } => format!("--{}: {problem}", name.replace('_', "-")),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_pipe_is_not_an_error_and_other_failures_are() {
        let broken: anyhow::Error = io::Error::from(io::ErrorKind::BrokenPipe).into();
        assert_eq!(finish(Err(broken.context("writing"))), ExitCode::SUCCESS);
        let refused: anyhow::Error = io::Error::from(io::ErrorKind::PermissionDenied).into();
        assert_eq!(finish(Err(refused)), ExitCode::from(3));
        assert_eq!(finish(Err(Error::Interrupted.into())), ExitCode::from(130));
    }

    #[test]
    fn remedies_name_flags_of_the_command_line() {
        let message = describe(&Error::ExpiryUnsupported.into());
        assert!(message.contains("--expiring") && !message.contains("Builder"), "{message}");
        let message = describe(&Error::NotFound { path: "/nowhere".into() }.into());
        assert!(message.contains("/nowhere") && message.contains("--db"), "{message}");
        for (name, shown) in [
            ("change_feed", "--set change_feed: "),
            ("merge_ratio", "--set merge_ratio: "),
            ("block_bytes", "--block-bytes: "),
            ("memory_budget", "--memory: "),
        ] {
            let message = describe(&Error::Setting { name, problem: "too small".into() }.into());
            assert_eq!(message, format!("{shown}too small"));
        }
    }
}
