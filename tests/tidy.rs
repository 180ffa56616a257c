//! The house rules of the code, as a test: who may know whom, what stands where, and how long it may be.
//! `docs/ARCHITECTURE.md` and `CONTRIBUTING.md` tell the reasons.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

const FILE_LINES_MAX: usize = 600;
const LINE_CHARS_MAX: usize = 120;

/// A source file: its path from the root, all of it, and its code without comments and tests.
struct Source {
    path: String,
    text: String,
    code: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files_below(directory: &Path, files: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(directory).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries.into_iter().filter(|path| !path.ends_with("target")) {
        if path.is_dir() { files_below(&path, files) } else { files.push(path) }
    }
}

fn sources(directory: &str) -> Vec<Source> {
    let mut files = Vec::new();
    files_below(&root().join(directory), &mut files);
    let sources =
        files.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        let path = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        let is_test = path.ends_with("tests.rs") || path.ends_with("testing.rs") || path.contains("/tests/");
        let code = if is_test { String::new() } else { code_of(&text) };
        Source { path, text, code }
    };
    sources.map(read).collect()
}

/// Without comments, and without the tests that stand at the end of a file.
fn code_of(text: &str) -> String {
    let until = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    text[..until].lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The first names after `prefix`, also those in braces: `index` and `Error` in `crate::{index::Fences, Error}`.
fn names_after(code: &str, prefix: &str) -> Vec<String> {
    let name = |text: &str| {
        text.chars().take_while(|character| character.is_alphanumeric() || *character == '_').collect()
    };
    let mut names = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        let rest = &code[at + prefix.len()..];
        if !rest.starts_with('{') {
            names.push(name(rest));
            continue;
        }
        let mut depth = 0;
        for (at, character) in rest.char_indices() {
            depth += i32::from(character == '{') - i32::from(character == '}');
            match (character, depth) {
                ('{' | ',', 1) => names.push(name(rest[at + 1..].trim_start())),
                (_, 0) => break,
                _ => {}
            }
        }
    }
    names
}

/// Fails with all violations at once.
fn none(violations: Vec<String>) {
    assert!(violations.is_empty(), "\n{}", violations.join("\n"));
}

/// A violation for each file of `sources` whose code has one of `words`, but for those that `may`.
fn with_words(sources: &[Source], words: &[&str], may: impl Fn(&str) -> bool, rule: &str) -> Vec<String> {
    let checked = sources.iter().filter(|source| !may(&source.path));
    let found = |source: &Source| {
        let found = words.iter().filter(|word| source.code.contains(**word));
        found.map(|word| format!("{}: `{word}`: {rule}", source.path)).collect::<Vec<_>>()
    };
    checked.flat_map(found).collect()
}

#[test]
fn rooms_know_only_the_rooms_below_them() {
    let rooms =
        ["cache", "index", "mica", "model", "device", "store", "engine", "database", "Database", "Builder"];
    let below = |room: &str| -> &[&str] {
        match room {
            "index" => &["index"],
            "model" => &["model"],
            "device" => &["device"],
            "mica" => &["mica", "device"],
            "cache" => &["cache", "mica"],
            "store" => &["store", "device", "index"],
            "engine" => &["engine", "store", "mica", "device", "index", "cache"],
            _ => &rooms,
        }
    };
    let mut violations = Vec::new();
    for source in sources("src") {
        let room = source.path.split(['/', '.']).nth(1).unwrap().to_owned();
        for name in names_after(&source.code, "crate::") {
            // The contracts of engines name batches, errors and the like: those stand beside the rooms.
            if rooms.contains(&name.as_str()) && !below(&room).contains(&name.as_str()) {
                violations.push(format!("{}: `{room}` must not know `{name}`", source.path));
            }
            let knows_nobody = ["index", "model", "cache"].contains(&room.as_str());
            if knows_nobody && name != room && !(room == "cache" && ["sync", "mica"].contains(&name.as_str()))
            {
                violations.push(format!("{}: `{room}` knows nobody, but names `{name}`", source.path));
            }
        }
    }
    none(violations);
}

#[test]
fn engines_do_not_know_each_other() {
    let engines: Vec<String> = fs::read_dir(root().join("src/engine"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert!(engines.contains(&"silt".to_owned()));
    let mut violations = Vec::new();
    for source in sources("src/engine") {
        let own = source.path.split('/').nth(2).unwrap();
        for name in names_after(&source.code, "crate::engine::") {
            if engines.contains(&name) && name != own && engines.contains(&own.to_owned()) {
                violations.push(format!("{}: engines must not know each other", source.path));
            }
        }
    }
    none(violations);
}

#[test]
fn satellites_know_only_the_public_face() {
    let mut violations = Vec::new();
    for source in sources("crates") {
        for name in names_after(&source.code, "siltstone::") {
            if ["store", "engine"].contains(&name.as_str()) {
                violations.push(format!("{}: `siltstone::{name}` is not the public face", source.path));
            }
        }
    }
    none(violations);
}

#[test]
fn files_threads_and_clocks_stand_in_their_rooms() {
    let sources = sources("src");
    let files = |path: &str| {
        ["src/device/", "src/testing/", "src/database/builder.rs"].iter().any(|room| path.starts_with(room))
    };
    let clocks = |path: &str| {
        ["src/database", "src/testing/linearizability", "src/testing/concurrent"]
            .iter()
            .any(|room| path.starts_with(room))
    };
    let memory = |path: &str| path.starts_with("src/device/");
    let mut violations = with_words(
        &sources,
        &["std::fs", "libc::", "rustix::", "io_uring::"],
        files,
        "only in the device room",
    );
    violations.extend(with_words(
        &sources,
        &["thread::spawn", "thread::Builder", "thread::scope", "thread::sleep", "Instant::", "SystemTime::"],
        clocks,
        "threads and clocks only in the database room",
    ));
    violations.extend(with_words(
        &sources,
        &["unsafe {", "unsafe impl", "unsafe fn"],
        memory,
        "only in the device room",
    ));
    none(violations);
}

#[test]
fn satellites_are_safe_but_for_the_memory_that_they_share_with_the_kernel() {
    let may = |path: &str| path.starts_with("crates/siltstone-network/src/transport/xdp/");
    let words = ["unsafe {", "unsafe impl", "unsafe fn"];
    none(with_words(&sources("crates"), &words, may, "only in the device room, and behind AF_XDP"));
}

#[test]
fn the_library_does_not_print_stub_or_panic() {
    let banned = [
        "todo!(",
        "unimplemented!(",
        "dbg!(",
        "println!(",
        "eprintln!(",
        "print!(",
        "panic!(",
        "process::exit",
    ];
    none(with_words(&sources("src"), &banned, |_| false, "not in the library"));
    let stubs = ["todo!(", "unimplemented!(", "dbg!("];
    none(with_words(&sources("crates"), &stubs, |_| false, "not in what is kept"));
    none(with_words(&sources("crates/siltstone-network/src"), &banned, |_| false, "not in a library"));
}

#[test]
fn files_and_lines_are_short_enough_to_read() {
    let mut violations = Vec::new();
    for source in ["src", "crates", "tests"].into_iter().flat_map(sources) {
        let lines = source.text.lines().count();
        if lines > FILE_LINES_MAX {
            violations.push(format!("{}: {lines} lines; {FILE_LINES_MAX} are the most", source.path));
        }
        for (number, line) in
            source.text.lines().enumerate().filter(|(_, line)| line.chars().count() > LINE_CHARS_MAX)
        {
            // A text of the user's may be longer than a line where an attribute leaves no way to break it.
            if !line.contains("#[error(\"") && !line.trim_start().starts_with('"') {
                violations.push(format!(
                    "{}:{}: longer than {LINE_CHARS_MAX} characters",
                    source.path,
                    number + 1
                ));
            }
        }
    }
    none(violations);
}

#[test]
fn every_file_belongs_to_a_module() {
    let mut violations = Vec::new();
    for source in
        ["src", "crates/siltstone-bench/src", "crates/siltstone-cli/src", "crates/siltstone-network/src"]
            .into_iter()
            .flat_map(sources)
    {
        let path = root().join(&source.path);
        let stem = path.file_stem().unwrap().to_str().unwrap();
        let (name, folder) = match stem {
            "lib" | "main" => continue,
            "mod" => (
                path.parent().unwrap().file_name().unwrap().to_str().unwrap(),
                path.parent().unwrap().parent(),
            ),
            _ => (stem, path.parent()),
        };
        let folder = folder.unwrap();
        let parents = ["mod.rs", "lib.rs", "main.rs"].map(|file| folder.join(file));
        let named = parents.into_iter().chain([folder.with_extension("rs")]).any(|parent| {
            let text = fs::read_to_string(parent).unwrap_or_default();
            text.contains(&format!("mod {name};")) || text.contains(&format!("path = \"{name}.rs\""))
        });
        if !named {
            violations.push(format!("{}: no module names it", source.path));
        }
    }
    none(violations);
}

#[test]
fn every_format_has_its_diagram_and_every_diagram_its_format() {
    const PREFIX: &str = "docs/formats/";
    let mut violations = Vec::new();
    let mut named = Vec::new();
    for source in ["src", "crates"].into_iter().flat_map(sources) {
        let names = source.text.match_indices(PREFIX).filter_map(|(at, _)| {
            let rest = &source.text[at + PREFIX.len()..];
            rest.find(".md").map(|end| rest[..end].to_owned())
        });
        let names: Vec<String> = names
            .filter(|name| name.chars().all(|letter| letter.is_alphanumeric() || letter == '_'))
            .collect();
        for name in names.iter().filter(|name| !root().join(format!("{PREFIX}{name}.md")).exists()) {
            violations.push(format!("{}: {PREFIX}{name}.md is not there", source.path));
        }
        if names.is_empty() && source.code.contains("const MAGIC") {
            violations
                .push(format!("{}: it has a magic number, but names no diagram in {PREFIX}", source.path));
        }
        named.extend(names);
    }
    let mut diagrams = Vec::new();
    files_below(&root().join(PREFIX), &mut diagrams);
    for diagram in diagrams {
        let name = diagram.file_stem().unwrap().to_str().unwrap();
        if !named.iter().any(|named| named == name) {
            violations.push(format!("{PREFIX}{name}.md: no source names it"));
        }
    }
    none(violations);
}

#[test]
fn names_are_found_in_every_form_of_path() {
    let code =
        "use crate::{index::{Fences, Fence}, Error,\n device::File}; let x = crate::store::Log::new();";
    assert_eq!(names_after(code, "crate::"), ["index", "Error", "device", "store"]);
}
