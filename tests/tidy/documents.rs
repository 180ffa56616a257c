//! The documents: their words, and their links.

use super::{files_below, none, root};
use std::fs;
use std::path::{Path, PathBuf};

/// Words and phrases that the documents avoid, each with what to write instead.
const AVOIDED: &[(&str, &str)] = &[
    ("anew", "again"),
    ("answer", "reply, result, value"),
    ("answers", "returns"),
    ("answered", "returned, replied to"),
    ("at the most", "at most"),
    ("beside", "next to, besides, compared with"),
    ("cease", "end, expire"),
    ("ceases", "ends, expires"),
    ("everybody", "all threads, all processes, the passive"),
    ("for ever", "forever, without end"),
    ("foretold", "estimated, predicted"),
    ("go on", "continue"),
    ("goes on", "continues"),
    ("lest", "so that ... not"),
    ("let go", "release, drop"),
    ("mend", "fix, repair, remedy"),
    ("mended", "fixed, repaired"),
    ("nobody", "no thread, no process, the passive"),
    ("past the network", "bypassing the network stack"),
    ("past the page cache", "with direct I/O"),
    ("room", "module, space"),
    ("rooms", "modules"),
    ("so many", "N, that many"),
    ("somebody", "a thread, a process, the passive"),
    ("sound", "intact"),
    ("stand", "be, be stored"),
    ("stands", "is, is stored"),
    ("stood", "was, was stored"),
    ("tell", "report, say, show"),
    ("tells", "reports, says, shows"),
    ("the house", "the project"),
    ("the news that", "a tombstone"),
    ("told", "reported, estimated, measured"),
    ("turned over", "flipped"),
    ("whoever", "a thread that, a process that, readers that"),
    ("whole or not", "completely or not"),
];

/// Units before `a`: "bits a key" is "bits per key".
const UNITS: &[&str] = &[
    "b", "bit", "bits", "byte", "bytes", "kib", "mib", "gib", "kb", "mb", "gb", "ns", "µs", "ms", "s",
    "times",
];
/// What such a figure is of: "9 a second" is "9 per second".
const PER: &[&str] = &[
    "block",
    "bucket",
    "core",
    "day",
    "get",
    "hour",
    "item",
    "key",
    "lookup",
    "minute",
    "partition",
    "put",
    "record",
    "request",
    "second",
    "slot",
    "store",
    "target",
    "thread",
];

/// The words of a document in lower case, each with the number of its line; `.` for punctuation between words. Code,
/// comments and the targets of links are left out.
fn words_of(text: &str) -> Vec<(usize, String)> {
    let mut words = Vec::new();
    let (mut in_fence, mut in_code) = (false, false);
    for (number, line) in text.lines().enumerate() {
        let is_indented = line.starts_with("    ") && !line.trim_start().starts_with(['-', '*']);
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
        }
        if in_fence || is_indented || line.starts_with("```") || line.starts_with("<!--") {
            continue;
        }
        let mut word = String::new();
        let mut letters = line.chars().peekable();
        while let Some(letter) = letters.next() {
            in_code ^= letter == '`';
            let next_is_word = letters.peek().is_some_and(|next| next.is_alphanumeric());
            let is_inner = matches!(letter, ',' | '.' | '-' | '\'' | '/') && next_is_word && !word.is_empty();
            if !in_code && (letter.is_alphanumeric() || is_inner) {
                word.extend(letter.to_lowercase());
                continue;
            }
            if !word.is_empty() {
                words.push((number + 1, std::mem::take(&mut word)));
            }
            if !letter.is_whitespace() {
                words.push((number + 1, ".".to_owned()));
            }
            if letter == ']' && letters.peek() == Some(&'(') {
                letters.by_ref().find(|letter| *letter == ')');
            }
        }
        if !word.is_empty() {
            words.push((number + 1, word));
        }
    }
    words
}

/// Returns the lines of a text with words that it should avoid, each with the remedy.
pub(super) fn avoided_in(text: &str) -> Vec<(usize, String)> {
    let words = words_of(text);
    let mut found = Vec::new();
    for (phrase, instead) in AVOIDED {
        let phrase_words: Vec<&str> = phrase.split(' ').collect();
        for window in words.windows(phrase_words.len()) {
            if window.iter().map(|(_, word)| word.as_str()).eq(phrase_words.iter().copied()) {
                found.push((window[0].0, format!("`{phrase}`: write {instead}")));
            }
        }
    }
    for window in words.windows(3) {
        let [(line, unit), (_, article), (_, of)] = window else { continue };
        let is_figure =
            UNITS.contains(&unit.as_str()) || unit.starts_with(|first: char| first.is_ascii_digit());
        if is_figure && article == "a" && PER.contains(&of.as_str()) {
            found.push((*line, format!("`{unit} a {of}`: write `{unit} per {of}`")));
        }
    }
    found
}

/// The path and the text of each document.
fn documents() -> Vec<(String, String)> {
    let mut files: Vec<PathBuf> = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"]
        .map(|name| root().join(name))
        .to_vec();
    files_below(&root().join("docs"), &mut files);
    let is_document = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "md");
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        (path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned(), text)
    };
    files.into_iter().filter(is_document).map(read).collect()
}

/// The page of the crate, in the comments at the head of its root, without the code of its examples.
fn crate_page() -> (String, String) {
    let path = "src/lib.rs";
    let text = fs::read_to_string(root().join(path)).unwrap();
    let lines: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("//!")).collect();
    let lines: Vec<&str> = lines.into_iter().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    (path.to_owned(), lines.join("\n"))
}

#[test]
fn documents_are_in_plain_english() {
    let makefile = ("Makefile".to_owned(), fs::read_to_string(root().join("Makefile")).unwrap());
    let mut violations = Vec::new();
    for (path, text) in documents().into_iter().chain([crate_page(), makefile]) {
        violations.extend(avoided_in(&text).into_iter().map(|(line, what)| format!("{path}:{line}: {what}")));
    }
    none(violations);
}

/// The part of a link that names a heading: lower case, hyphens for spaces, without punctuation.
fn anchor_of(heading: &str) -> String {
    let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.collect::<String>().trim().to_lowercase().replace(' ', "-")
}

#[test]
fn links_of_documents_lead_to_files_and_headings() {
    let documents = documents();
    let mut violations = Vec::new();
    let mut links = 0;
    for (path, text) in &documents {
        let folder = root().join(path).parent().unwrap().to_owned();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(link, _)| link)) {
            if link.starts_with("http") {
                continue;
            }
            links += 1;
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { root().join(path) } else { folder.join(file) };
            let text = fs::read_to_string(&target).unwrap_or_default();
            let has_heading = || {
                let headings = text.lines().filter_map(|line| line.strip_prefix('#'));
                heading.is_empty()
                    || headings.into_iter().any(|line| anchor_of(line.trim_start_matches('#')) == heading)
            };
            if !Path::new(&target).exists() || !has_heading() {
                violations.push(format!("{path}: {link} leads nowhere"));
            }
        }
    }
    none(violations);
    assert!(links > 50, "links are found");
}

/// Returns the paths of the repository that a document names in backticks: those with a known ending or a known first
/// directory. Names in capitals are placeholders, and headers of C are those of an installation.
fn paths_in(text: &str) -> impl Iterator<Item = &str> {
    let is_path = |quoted: &&str| {
        let letters =
            |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "._-/".contains(letter);
        let ends = [".rs", ".toml", ".bin", ".py", ".svg", ".jsonl"].iter().any(|end| quoted.ends_with(end));
        let first = quoted.split('/').next().unwrap_or_default();
        let folders = ["src", "crates", "tests", "docs", "fixtures", "fuzz", "evidence", "model"];
        let begins = folders.contains(&first) || first.starts_with("siltstone-");
        quoted.contains('/')
            && quoted.chars().all(letters)
            && (ends || begins || root().join("src").join(first).is_dir())
    };
    text.split("```").step_by(2).flat_map(|prose| prose.split('`').skip(1).step_by(2)).filter(is_path)
}

#[test]
fn paths_in_documents_exist() {
    let crates: Vec<PathBuf> =
        fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let model = root().join("crates/siltstone-model/src");
    let sources = crates.iter().flat_map(|path| [path.clone(), path.join("src")]);
    let bases: Vec<PathBuf> =
        [root().to_owned(), root().join("src"), root().join("docs"), root().join("crates"), model.clone()]
            .into_iter()
            .chain(sources)
            .collect();
    let mut missing = Vec::new();
    for (document, text) in documents() {
        for path in paths_in(&text) {
            let below_model = path.strip_prefix("model/").is_some_and(|path| model.join(path).exists());
            if !below_model && !bases.iter().any(|base| base.join(path).exists()) {
                missing.push(format!("{document}: the file {path} does not exist"));
            }
        }
    }
    none(missing);
    let text = "`src/lib.rs` and `src/no.rs` in ```\n`src/other.rs`\n``` and `model/NAME.rs`";
    assert_eq!(paths_in(text).collect::<Vec<_>>(), ["src/lib.rs", "src/no.rs"]);
}

/// The methods of a trait that have no default: those whose declaration ends before a body.
fn required_methods(source: &str, name: &str) -> Vec<String> {
    let (_, after) = source.split_once(&format!("pub trait {name}:")).unwrap();
    let (body, _) = after.split_once("\n}\n").unwrap();
    let methods = body.split("\n    fn ").skip(1);
    let at = |method: &str, end: &str| method.find(end).unwrap_or(usize::MAX);
    let required = methods.filter(|method| at(method, ";") < at(method, " {\n"));
    required.filter_map(|method| method.split('(').next()).map(str::to_owned).collect()
}

#[test]
fn the_methods_that_an_engine_has_to_write_are_those_of_the_traits() {
    let page = fs::read_to_string(root().join("docs/ENGINES.md")).unwrap();
    let (_, table) = page.split_once("<!-- traits of engines -->").unwrap();
    let (table, _) = table.split_once("<!-- end of traits -->").unwrap();
    let code = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let rows: Vec<_> = rows.map(|row| row.split('|').map(code).collect::<Vec<_>>()).collect();
    let files = ["src/engine/settings.rs", "src/engine/mod.rs", "src/engine/mod.rs", "src/engine/ordered.rs"];
    let files = files.into_iter().chain(["src/engine/mod.rs"]);
    assert_eq!(rows.len(), 5);
    for (row, file) in rows.iter().zip(files) {
        let source = fs::read_to_string(root().join(file)).unwrap();
        // The macro is named after the methods.
        let listed: Vec<_> = row[2].iter().filter(|name| !name.ends_with('!')).cloned().collect();
        assert_eq!(listed, required_methods(&source, &row[1][0]), "{}", row[1][0]);
    }
}

#[test]
fn avoided_words_are_found_in_text_and_not_in_code() {
    let lines = |text: &str| avoided_in(text).into_iter().map(|(line, _)| line).collect::<Vec<_>>();
    assert_eq!(lines("It Stands in\nthe file, so\nmany bytes."), [2, 1]);
    assert_eq!(lines("5 bits a key, 0.36\nB a key and 1,000 a second."), [1, 2, 2]);
    assert_eq!(lines("`tells`\n```\nanew\n```\n[a](anew.md) Not so. Many read a record; withstand."), [0; 0]);
}
