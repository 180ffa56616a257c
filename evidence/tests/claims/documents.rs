//! The commands that documents name exist.

use siltstone_evidence::registry;
use std::fs;
use std::path::{Path, PathBuf};

fn documents(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            documents(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// Returns the ids of items after each `evidence run`, up to the first option.
fn ids_in(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split(|letter: char| letter.is_whitespace() || letter == '`').collect();
    let mut ids = Vec::new();
    for (at, _) in words.windows(2).enumerate().filter(|(_, pair)| *pair == ["evidence", "run"]) {
        let is_id = |word: &&&str| {
            word.chars().all(|letter| {
                letter.is_ascii_lowercase() || letter.is_ascii_digit() || "/.-".contains(letter)
            }) && word.starts_with(|first: char| first.is_ascii_lowercase())
        };
        let id = |id: &&str| id.trim_end_matches(['.', ',']).to_owned();
        ids.extend(words[at + 2..].iter().take_while(is_id).map(id));
    }
    ids
}

#[test]
fn every_item_that_a_document_runs_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = vec![root.join("README.md")];
    documents(&root.join("docs"), &mut files);
    let mut named = 0;
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for id in ids_in(&text) {
            let found = registry::find(std::slice::from_ref(&id));
            assert!(found.is_ok(), "{}: {}", file.display(), found.unwrap_err());
            named += 1;
        }
    }
    assert!(named > 20, "documents name items: {named}");
}

#[test]
fn ids_are_found_up_to_the_first_option() {
    let text = "run `evidence run silt/figure-8 ect --scale 2` and\nevidence run NAME, evidence run all.";
    assert_eq!(ids_in(text), ["silt/figure-8", "ect", "all"]);
}
