//! The commands in the documents for users: those of pages run, those of the README are understood.

use crate::runner::{ok, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn document(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)).unwrap()
}

/// Returns the lines of all blocks of shell commands.
fn commands(text: &str) -> Vec<&str> {
    let mut in_block = false;
    let mut commands = Vec::new();
    for line in text.lines() {
        match line {
            "```sh" => in_block = true,
            "```" => in_block = false,
            _ if in_block => commands.push(line),
            _ => {}
        }
    }
    commands
}

/// Runs the commands of a page as one script that stops at the first failure, and returns its output.
fn script(directory: &Path, page: &str) -> String {
    let text = document(page);
    let commands = commands(&text);
    assert!(commands.len() > 5, "{page} has commands");
    let program = PathBuf::from(env!("CARGO_BIN_EXE_siltstone"));
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-euc", &commands.join("\n")]).current_dir(directory).env("PATH", path);
    let output = shell.env_remove("SILTSTONE_DB").output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{page}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_commands_of_the_quick_start_print_what_it_says() {
    let directory = tempfile::tempdir().unwrap();
    let printed = script(directory.path(), "docs/QUICKSTART.md");
    assert!(printed.starts_with("red"), "{printed}");
    assert!(printed.ends_with("exit code 1\n"), "{printed}");
}

#[test]
fn the_commands_of_operations_run() {
    let directory = tempfile::tempdir().unwrap();
    ok(directory.path(), &["put", "--db", "data.db", "rose", "red"]);
    let printed = script(directory.path(), "docs/OPERATIONS.md");
    assert!(printed.contains("siltstone_puts_total") && printed.contains(" 0 places damaged"), "{printed}");
}

#[test]
fn the_commands_of_tuning_run() {
    let directory = tempfile::tempdir().unwrap();
    let printed = script(directory.path(), "docs/TUNING.md");
    assert!(printed.contains("readmissing") && printed.contains("micros/op"), "{printed}");
}

#[test]
fn the_commands_of_the_faq_run() {
    let directory = tempfile::tempdir().unwrap();
    let printed = script(directory.path(), "docs/FAQ.md");
    assert!(printed.starts_with("a\nb\n") && printed.trim_end().ends_with("@y"), "{printed}");
}

#[test]
fn the_commands_of_the_readme_and_of_the_page_about_the_command_are_understood() {
    let directory = tempfile::tempdir().unwrap();
    let mut understood = 0;
    for text in [document("README.md"), document("docs/COMMAND.md")] {
        for line in commands(&text) {
            let line = line.split(['#', '>']).next().unwrap();
            let programs = line.split('|').map(str::trim);
            for command in programs.filter_map(|command| command.strip_prefix("siltstone ")) {
                // With --help, a command reads its options and does nothing.
                let args: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
                let output = run(directory.path(), &args);
                assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
                understood += 1;
            }
        }
    }
    assert!(understood > 20, "the pages have commands");
}

#[test]
fn the_page_about_the_command_names_every_subcommand() {
    let directory = tempfile::tempdir().unwrap();
    let help = String::from_utf8(run(directory.path(), &["--help"]).stdout).unwrap();
    let listed = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    // The first word of a line that is indented by two spaces; the rest of a long description is indented by more.
    let names =
        listed.lines().filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    let names: Vec<&str> = names.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.len() > 15, "{help}");
    let page = document("docs/COMMAND.md");
    let is_missing = |name: &&&str| {
        **name != "help"
            && ![format!("siltstone {name} "), format!("`{name}`")].iter().any(|text| page.contains(text))
    };
    let missing: Vec<_> = names.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
