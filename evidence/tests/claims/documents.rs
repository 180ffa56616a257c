//! The commands that documents name exist, and their figures are those of the sources.

use clap::Parser;
use serde_json::Value;
use siltstone_bench::place::Place;
use siltstone_bench::{db, dict};
use siltstone_evidence::compare::phase::Phase;
use siltstone_evidence::compare::row::{Quantiles, Row};
use siltstone_evidence::documents::{self, Figure, Sources};
use siltstone_evidence::registry;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The sets of commands that measure engines, and dictionaries; the others measure stores.
const SETS_OF_ENGINES: [&str; 2] = ["engines", "growth"];
/// More lookups make no difference to what is printed.
const LOOKUPS_MAX: u64 = 10_000;

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

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

#[test]
fn the_figures_of_documents_are_those_of_their_sources() {
    let sources = Sources::read(&docs()).unwrap();
    let mut tables = 0;
    for (path, text) in documents::all(&docs()).unwrap() {
        let filled = documents::filled(&text, &sources).unwrap_or_else(|error| panic!("{path:?}: {error:#}"));
        let differs = text.lines().zip(filled.lines()).find(|(old, new)| old != new);
        assert!(differs.is_none(), "{path:?}: run evidence documents: {differs:?}");
        assert_eq!(text, filled, "{path:?}: run evidence documents");
        tables +=
            text.matches("<!-- figures of EVIDENCE -->").count() + documents::figures(&text).unwrap().len();
    }
    assert!(tables > 50, "{tables}");
}

#[test]
fn charts_are_those_of_the_recorded_runs() {
    for (name, chart) in documents::charts(&Sources::read(&docs()).unwrap().runs).unwrap() {
        let drawn = fs::read_to_string(docs().join(name)).unwrap();
        assert!(drawn == chart, "{name}: run evidence documents");
    }
}

/// The figures of all documents that are filled from runs.
fn figures() -> Vec<Figure> {
    let documents = documents::all(&docs()).unwrap();
    documents.iter().flat_map(|(_, text)| documents::figures(text).unwrap()).collect()
}

/// Lets the shell expand the commands of a set, and returns the words of each command of a program.
fn expanded(set: &str, program: &str, keys: u64, directory: &Path) -> Vec<Vec<String>> {
    let documents = documents::all(&docs()).unwrap();
    let commands = documents::commands_of(set, &documents).unwrap();
    let programs = "siltstone() { echo siltstone \"$@\"; }\nevidence() { echo evidence \"$@\"; }";
    let script = format!("{programs}\n{commands}");
    let mut shell = Command::new("sh");
    shell.args(["-euc", &script]).env("N", keys.to_string()).env("DIR", directory);
    let output = shell.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let words = text.lines().map(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>());
    words.filter(|words| words[0] == program).map(|words| words[1..].to_vec()).collect()
}

/// Runs `siltstone bench` with these words, and returns its lines of JSON.
fn reports(words: &[String]) -> Vec<Value> {
    let words: Vec<String> = words.iter().filter(|word| *word != "--json").cloned().collect();
    let mut printed = Vec::new();
    if words[1] == "dict" {
        let mut settings =
            dict::Settings::try_parse_from(&words[1..]).unwrap_or_else(|error| panic!("{error}"));
        settings.lookups = settings.lookups.min(LOOKUPS_MAX);
        let place = Place::temporary(settings.directory.as_deref().unwrap()).unwrap();
        printed.push(serde_json::to_value(dict::run(&settings, &place).unwrap()).unwrap());
        place.clear().unwrap();
        return printed;
    }
    assert_eq!(words[1], "db");
    let mut settings = db::Settings::try_parse_from(&words[1..]).unwrap_or_else(|error| panic!("{error}"));
    settings.reads = settings.reads.map(|reads| reads.min(LOOKUPS_MAX));
    let place = Place::prepare(settings.db.as_deref()).unwrap();
    let outcome = db::run(&settings, &place, &mut |report| {
        printed.push(serde_json::to_value(report)?);
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{words:?}: {error}"));
    printed
}

#[test]
fn every_figure_of_the_engines_is_printed_by_its_command() {
    let directory = tempfile::tempdir().unwrap();
    for set in SETS_OF_ENGINES {
        let mut printed = Vec::new();
        for words in expanded(set, "siltstone", 20_000, directory.path()) {
            let places = ["db", "disk"].map(|name| directory.path().join(name));
            places.iter().filter(|place| place.exists()).for_each(|place| fs::remove_dir_all(place).unwrap());
            printed.extend(reports(&words));
        }
        every_figure_is_printed(set, &printed);
    }
}

fn every_figure_is_printed(set: &str, printed: &[Value]) {
    let figures = figures();
    let of_set: Vec<&Figure> = figures.iter().filter(|figure| figure.set == set).collect();
    assert!(of_set.len() >= 10, "{set}: {}", of_set.len());
    for Figure { column, row, field, .. } in of_set {
        let is_it = |report: &&Value| report["engine"] == **column && report["benchmark"] == **row;
        // MICA keeps nothing when it is closed.
        let Some(report) = printed.iter().find(is_it) else {
            assert_eq!((&**column, &**row), ("mica", "reopen"), "{column} {row}");
            continue;
        };
        assert!(report[field].is_number(), "{column} {row} {field}: {report}");
    }
}

#[test]
fn every_figure_of_other_stores_is_of_a_phase_and_a_field() {
    let row = Row { puts_us: Some(Quantiles::default()), ..Row::default() };
    let fields = serde_json::to_value(row).unwrap();
    let figures = figures();
    let is_of_stores = |figure: &&Figure| !SETS_OF_ENGINES.contains(&&*figure.set);
    let of_stores: Vec<&Figure> = figures.iter().filter(is_of_stores).collect();
    assert!(of_stores.len() > 50);
    let sets: std::collections::BTreeSet<&str> = of_stores.iter().map(|figure| &*figure.set).collect();
    for set in sets {
        let commands = expanded(set, "evidence", 1000, Path::new("/tmp/none"));
        assert_eq!(commands.len(), 1, "{set}");
        let output =
            Command::new(env!("CARGO_BIN_EXE_evidence")).args(&commands[0]).arg("--help").output().unwrap();
        assert!(output.status.success(), "{set}: {}", String::from_utf8_lossy(&output.stderr));
    }
    for Figure { set, row, field, .. } in of_stores {
        let (_, phase) = row.split_once('/').unwrap();
        assert!(phase.parse::<Phase>().is_ok(), "{set}: {row}");
        let pointer = format!("/{}", field.replace('.', "/"));
        assert!(fields.pointer(&pointer).is_some() || field == "share_of_raw_reads", "{set}: {field}");
    }
}
