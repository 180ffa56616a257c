//! The size of the public interface: what `cargo doc` shows.

use super::{files_below, root};
use std::fs;
use std::process::Command;

const DOCUMENTED_ITEMS_MAX: usize = 500;
/// The sections of a page that list what other pages or other crates document.
const FOREIGN_SECTIONS: [&str; 6] = [
    "id=\"trait-implementations",
    "id=\"synthetic-implementations",
    "id=\"blanket-implementations",
    "id=\"deref-methods",
    "id=\"foreign-impls",
    "id=\"implementors",
];
/// The start of the anchor of a member. Anchors of fields of variants have a further `.field`.
const MEMBERS: [&str; 6] = [
    "id=\"method.",
    "id=\"tymethod.",
    "id=\"variant.",
    "id=\"structfield.",
    "id=\"associatedconstant.",
    "id=\"associatedtype.",
];
const KINDS: [&str; 8] = ["struct.", "enum.", "trait.", "fn.", "constant.", "static.", "type.", "macro."];

/// The types whose methods users call.
const OF_USERS: [&str; 13] = [
    "Batch",
    "Builder",
    "BulkLoader",
    "Database",
    "Dictionary",
    "DictionaryBuilder",
    "DictionaryInfo",
    "DictionaryOptions",
    "DictionaryWriter",
    "OrderedDatabase",
    "Resources",
    "Snapshot",
    "WriteOptions",
];

/// Returns the type of the line that begins an inherent implementation.
fn implemented(line: &str) -> Option<&str> {
    let line = line.strip_prefix("impl").filter(|line| !line.contains(" for "))?;
    let line = if line.starts_with('<') { line.split_once("> ")?.1 } else { line };
    line.trim_start().split(['<', ' ']).next()
}

#[test]
fn every_method_that_users_call_is_called_in_an_example() {
    let (mut files, mut examples, mut methods) = (Vec::new(), String::new(), Vec::new());
    files_below(&root().join("src"), &mut files);
    // Inner types may have the same names.
    files.retain(|file| !file.starts_with(root().join("src/store")));
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "rs")) {
        let (mut is_example, mut is_hidden, mut is_of_users) = (false, false, false);
        for line in fs::read_to_string(file).unwrap().lines() {
            if let Some(name) = implemented(line) {
                is_of_users = OF_USERS.contains(&name);
            }
            let line = line.trim();
            if let Some(line) = line.strip_prefix("///").or(line.strip_prefix("//!")) {
                is_example ^= line.trim_start().starts_with("```");
                examples += if is_example { line } else { "" };
            } else if line == "#[doc(hidden)]" {
                is_hidden = true;
            } else if !line.starts_with("#[") {
                let name = line.strip_prefix("pub fn ").and_then(|rest| rest.split(['(', '<']).next());
                methods.extend(name.filter(|_| is_of_users && !is_hidden).map(str::to_owned));
                is_hidden = false;
            }
        }
    }
    assert!(methods.len() > 100, "{} methods are found", methods.len());
    let is_called =
        |name: &str| examples.contains(&format!(".{name}(")) || examples.contains(&format!("::{name}("));
    methods.retain(|name| !is_called(name));
    assert!(methods.is_empty(), "called in no example: {methods:?}");
}

/// Counts an item and its members: variants, fields and methods.
fn documented_items(page: &str) -> usize {
    let end = FOREIGN_SECTIONS.iter().filter_map(|section| page.find(section)).min().unwrap_or(page.len());
    let members = MEMBERS.iter().flat_map(|member| page[..end].split(member).skip(1));
    let mut names: Vec<&str> = members.filter_map(|rest| rest.split('"').next()).collect();
    names.retain(|name| !name.contains(".field"));
    names.sort_unstable();
    names.dedup();
    1 + names.len()
}

#[test]
fn the_public_interface_is_small_and_its_documentation_has_no_warning() {
    let target = root().join("target");
    let documentation = target.join("doc/siltstone");
    let _ = fs::remove_dir_all(&documentation);
    let mut command = Command::new(env!("CARGO"));
    command.args(["doc", "--package", "siltstone", "--no-deps", "--target-dir"]).arg(&target);
    command.env("RUSTDOCFLAGS", "--deny warnings");
    assert!(command.current_dir(root()).status().unwrap().success());
    let mut files = Vec::new();
    files_below(&documentation, &mut files);
    let mut counts: Vec<(usize, String)> = Vec::new();
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        // The members of `Bytes` are those of another crate.
        if !KINDS.iter().any(|kind| name.starts_with(kind)) || name == "struct.Bytes.html" {
            continue;
        }
        let page = fs::read_to_string(&file).unwrap();
        if !page.contains("http-equiv=\"refresh\"") {
            // The members of an alias are those of the type that it names.
            let items = if name.starts_with("type.") { 1 } else { documented_items(&page) };
            counts.push((items, name));
        }
    }
    counts.sort_unstable();
    let sum: usize = counts.iter().map(|(count, _)| count).sum();
    println!("{sum} documented items");
    assert!(sum > 100, "items are counted");
    assert!(
        sum <= DOCUMENTED_ITEMS_MAX,
        "{sum} documented items; at most {DOCUMENTED_ITEMS_MAX}: {counts:?}"
    );
}
