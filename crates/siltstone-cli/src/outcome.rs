//! How a command ends: its exit code, and what it says on standard error.

use crate::interrupt::EXIT_INTERRUPTED;
use std::io;
use std::process::ExitCode;

/// Printed at the end of every `--help`.
pub const EXIT_CODES: &str = "\
Exit codes: 0 done; 1 the answer is no (not found, there already, damaged); 2 wrong usage; 3 an error; \
130 interrupted.";

/// What stands below the flags in a command's `--help`.
pub fn help(examples: &str) -> String {
    format!("Examples:{examples}\n\n{EXIT_CODES}")
}

/// [`help`] for commands that are given keys or values.
pub fn help_with_arguments(examples: &str) -> String {
    format!("Examples:{examples}\n\n{}\n\n{EXIT_CODES}", crate::input::ARGUMENT_HELP)
}

/// How a command ended when nothing went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It did what was asked.
    Done,
    /// It did, and the answer is no: the key is not there, or is there already, or something is damaged.
    Negative,
    /// The user stopped it; what was done until then is kept.
    Interrupted,
}

/// What every command returns.
pub type Result<T = Outcome> = anyhow::Result<T>;

/// Says what went wrong, if anything, and gives the exit code.
pub fn finish(result: Result) -> ExitCode {
    match result {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Negative) => ExitCode::from(1),
        Ok(Outcome::Interrupted) => ExitCode::from(EXIT_INTERRUPTED),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) if is_interrupted(&error) => ExitCode::from(EXIT_INTERRUPTED),
        Err(error) => {
            complain(format_args!("{}", describe(&error)));
            ExitCode::from(3)
        }
    }
}

/// Says something on standard error. When that is closed there is nobody to tell.
pub fn complain(message: std::fmt::Arguments<'_>) {
    use io::Write;
    let _ = writeln!(io::stderr(), "siltstone: {message}");
}

/// Whoever read our output has seen enough: that is no error of ours.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}

fn is_interrupted(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref::<siltstone::Error>(), Some(siltstone::Error::Interrupted))
}

/// The error, with the library's mends in the words of the command line.
fn describe(error: &anyhow::Error) -> String {
    use siltstone::Error;
    match error.downcast_ref::<Error>() {
        Some(Error::NotFound { path }) => format!(
            "{}: no database here; name another directory with --db, or create one with put, import or dedup",
            path.display()
        ),
        Some(Error::ExpiryUnsupported) => {
            "this fixed-size database was created without room for expiry times; \
             create it with --expiring"
                .to_owned()
        }
        Some(Error::RecordSize { what, expected, got }) => format!(
            "the {what} has {got} bytes, but this database was created with {what}s of {expected} bytes; \
             create one without --fixed for records of other sizes"
        ),
        // The text of the library's errors holds their causes already.
        Some(own) => own.to_string(),
        None => format!("{error:#}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_pipe_is_no_error_and_other_failures_are() {
        let broken: anyhow::Error = io::Error::from(io::ErrorKind::BrokenPipe).into();
        assert_eq!(finish(Err(broken.context("writing"))), ExitCode::SUCCESS);
        let refused: anyhow::Error = io::Error::from(io::ErrorKind::PermissionDenied).into();
        assert_eq!(finish(Err(refused)), ExitCode::from(3));
        assert_eq!(finish(Err(siltstone::Error::Interrupted.into())), ExitCode::from(130));
    }

    #[test]
    fn mends_are_given_in_the_words_of_the_command_line() {
        let told = describe(&siltstone::Error::ExpiryUnsupported.into());
        assert!(told.contains("--expiring") && !told.contains("Builder"), "{told}");
        let told = describe(&siltstone::Error::NotFound { path: "/nowhere".into() }.into());
        assert!(told.contains("/nowhere") && told.contains("--db"), "{told}");
    }
}
