//! Runs `siltstone` in a directory, where the database is `db` unless `--db` names another.

use serde_json::Value;
use signal_hook::consts::SIGINT;
use signal_hook::flag;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Once};

/// The path of a file in a directory, as text.
pub fn path(directory: &Path, name: &str) -> String {
    directory.join(name).to_str().unwrap().to_owned()
}

/// The command. It hears Ctrl-C also if the tests run where that is ignored, as in the background of a shell.
pub fn program() -> Command {
    static HEARS: Once = Once::new();
    // A signal that has a handler here has its default in child processes. This handler ends the process, as the
    // default does.
    let hear = || _ = flag::register_conditional_shutdown(SIGINT, 130, Arc::new(true.into())).unwrap();
    HEARS.call_once(hear);
    Command::new(env!("CARGO_BIN_EXE_siltstone"))
}

/// A command with all its streams piped.
pub fn command(directory: &Path, args: &[&str]) -> Command {
    let mut command = program();
    command.args(args).current_dir(directory).env("SILTSTONE_DB", directory.join("db"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a command with `input` on its standard input.
pub fn run_with(directory: &Path, input: impl AsRef<[u8]>, args: &[&str]) -> Output {
    let mut child = command(directory, args).spawn().unwrap();
    // A command that does not read may have ended.
    let _ = child.stdin.take().unwrap().write_all(input.as_ref());
    child.wait_with_output().unwrap()
}

pub fn run(directory: &Path, args: &[&str]) -> Output {
    run_with(directory, "", args)
}

/// Runs a command that must succeed, and returns its standard output.
pub fn bytes(directory: &Path, args: &[&str]) -> Vec<u8> {
    let output = run(directory, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Runs a command that must succeed, and returns its standard output.
pub fn ok(directory: &Path, args: &[&str]) -> String {
    String::from_utf8(bytes(directory, args)).unwrap()
}

/// Runs a command that must succeed, and returns its lines of JSON.
pub fn objects(directory: &Path, args: &[&str]) -> Vec<Value> {
    ok(directory, args).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Runs a command, and returns its exit code and its standard error.
pub fn result(directory: &Path, args: &[&str]) -> (i32, String) {
    let output = run(directory, args);
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

pub fn code(directory: &Path, args: &[&str]) -> i32 {
    result(directory, args).0
}

/// Runs a command that must end with this exit code and print nothing, and returns its standard error.
pub fn ends_with(expected: i32, directory: &Path, args: &[&str]) -> String {
    let output = run(directory, args);
    assert_eq!(output.status.code(), Some(expected), "{args:?}");
    assert!(output.stdout.is_empty(), "{args:?}: errors are printed on standard error");
    String::from_utf8(output.stderr).unwrap()
}

/// Runs a command that must fail, and returns its standard error.
pub fn fails(directory: &Path, args: &[&str]) -> String {
    ends_with(3, directory, args)
}
