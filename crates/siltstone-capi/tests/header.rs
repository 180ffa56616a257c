//! The header is that of the functions, and every function is used by a program of the tests.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn header() -> String {
    fs::read_to_string(root().join("include/siltstone.h")).unwrap()
}

/// The names of the functions that a header declares, in their order.
fn functions(header: &str) -> Vec<&str> {
    let words = header.split(|letter: char| !letter.is_alphanumeric() && letter != '_' && letter != '(');
    let calls = words.filter_map(|word| word.split_once('(').map(|(name, _)| name));
    calls.filter(|name| name.starts_with("siltstone_")).collect()
}

#[test]
fn the_header_is_made_of_the_functions_and_their_documentation() {
    let config = cbindgen::Config::from_root_or_default(root());
    let mut made = Vec::new();
    cbindgen::generate_with_config(root(), config).unwrap().write(&mut made);
    let made = String::from_utf8(made).unwrap();
    if std::env::var_os("SILTSTONE_BLESS").is_some() {
        fs::write(root().join("include/siltstone.h"), &made).unwrap();
    }
    assert!(made == header(), "include/siltstone.h differs: write it with SILTSTONE_BLESS=1");
    // A comment is before each function.
    for name in functions(&made) {
        let (before, _) = made.split_once(&format!("{name}(")).unwrap();
        let declaration = before.rfind(" */\n").unwrap();
        assert!(!before[declaration..].contains(';'), "{name} has no documentation");
    }
}

#[test]
fn every_function_is_called_by_a_program_of_the_tests() {
    let program = fs::read_to_string(root().join("tests/programs/interface.c")).unwrap();
    let header = header();
    let functions = functions(&header);
    assert!(functions.len() > 60, "functions are found");
    let unused: Vec<_> = functions.iter().filter(|name| !program.contains(&format!("{name}("))).collect();
    assert!(unused.is_empty(), "{unused:?}");
}
