//! The rules of the code and of the documents, as tests: which module may import which, that imports form no circle,
//! where files, threads, clocks and `unsafe` are allowed, how long files may be, and which words documents and comments
//! avoid.
//! `docs/ARCHITECTURE.md` has the table of modules, `CONTRIBUTING.md` the reasons.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "tidy/cycles.rs"]
mod cycles;
#[path = "tidy/documents.rs"]
mod documents;
#[path = "tidy/interface.rs"]
mod interface;
#[path = "tidy/prose.rs"]
mod prose;
#[path = "tidy/release.rs"]
mod release;

use std::fs;
use std::path::{Path, PathBuf};

const FILE_LINES_MAX: usize = 600;
const LINE_CHARS_MAX: usize = 120;

/// The crates that the library consists of, besides its own modules.
const PART_CRATES: [&str; 3] = ["siltstone_index", "siltstone_device", "siltstone_mica"];

/// The sources of the crate with the descriptors, the mappings and the locks.
const DEVICE: &str = "crates/siltstone-device/src";
/// The macro that calls versions of functions for processors.
const PROCESSORS: &str = "crates/siltstone-index/src/processors.rs";

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

/// `text` without comments, and without the tests at its end.
fn code_of(text: &str) -> String {
    let until = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    text[..until].lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The paths after `prefix`, also those in braces: `index::Fences` and `Error` in `crate::{index::Fences, Error}`.
fn paths_after(code: &str, prefix: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        flatten(&code[at + prefix.len()..], "", &mut paths);
    }
    paths
}

/// Appends the paths of the `use` tree at the start of `text`, with `prefix` before each. Returns the tree's length.
fn flatten(text: &str, prefix: &str, paths: &mut Vec<String>) -> usize {
    let is_path = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':' || letter == '*';
    let length = text.find(|letter| !is_path(letter)).unwrap_or(text.len());
    let path = format!("{prefix}{}", &text[..length]);
    if !text[length..].starts_with('{') {
        paths.push(path);
        return length;
    }
    let mut at = length + 1;
    while let Some(next) = text[at..].chars().next() {
        match next {
            '}' => return at + 1,
            ',' => at += 1,
            _ if next.is_whitespace() => at += next.len_utf8(),
            // ` as name` belongs to the path before it.
            _ if text[at..].starts_with("as ") => at += text[at..].find([',', '}']).unwrap_or(0),
            _ => at += flatten(&text[at..], &path, paths).max(1),
        }
    }
    at
}

fn first_of(path: &str) -> &str {
    path.split("::").next().unwrap()
}

/// Whether `path` is `prefix` or an item in it.
fn is_within(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// The rows of the table of modules of `directory` in `docs/ARCHITECTURE.md`: each module with what it may import, or
/// with `None` if it may import everything.
fn module_table(directory: &str) -> Vec<(String, Option<Vec<String>>)> {
    let page = fs::read_to_string(root().join("docs/ARCHITECTURE.md")).unwrap();
    let (_, table) = page.split_once(&format!("<!-- modules of {directory} -->\n")).unwrap();
    let (table, _) = table.split_once("<!-- end of modules -->").unwrap();
    let name = |text: &str| text.strip_prefix('`')?.strip_suffix('`').map(str::to_owned);
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 3, "three columns: {line}");
        let imports = match cells[2] {
            "everything" => None,
            "nothing" => Some(Vec::new()),
            list => Some(list.split(", ").map(|item| name(item).unwrap()).collect()),
        };
        (name(cells[0]).unwrap(), imports)
    };
    table.lines().skip(2).map(row).collect()
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
fn modules_import_only_what_the_table_of_modules_allows() {
    let mut violations = Vec::new();
    let crates = ["siltstone-network", "siltstone-server", "siltstone-python", "siltstone-capi"];
    let crates = crates.map(|name| format!("crates/{name}/src"));
    for directory in ["src"].into_iter().chain(crates.iter().map(String::as_str)) {
        let table = module_table(directory);
        let crate_root = fs::read_to_string(root().join(directory).join("lib.rs")).unwrap();
        let exports = paths_after(&code_of(&crate_root), "pub use ");
        let mut modules = Vec::new();
        for source in sources(directory) {
            let module = source.path[directory.len() + 1..].split(['/', '.']).next().unwrap().to_owned();
            if module == "lib" {
                continue;
            }
            let row = table.iter().find(|(name, _)| *name == module);
            modules.push(module.clone());
            let Some((_, Some(allowed))) = row else { continue };
            for own_crate in PART_CRATES {
                for path in paths_after(&source.code, &format!("{own_crate}::")) {
                    let path = format!("{own_crate}::{path}");
                    if directory == "src" && !allowed.iter().any(|allowed| is_within(&path, allowed)) {
                        violations.push(format!("{}: `{module}` must not import `{path}`", source.path));
                    }
                }
            }
            for path in paths_after(&source.code, "crate::") {
                // What the root of the crate exports belongs to the module that it is from.
                let export =
                    exports.iter().find(|export| export.rsplit("::").next() == Some(first_of(&path)));
                if directory == "src" && export.is_some() {
                    violations.push(format!("{}: import `{path}` from its module", source.path));
                }
                let path = export.unwrap_or(&path);
                // A constant that the root has itself is of no module.
                let is_constant = first_of(path).chars().all(|letter| letter.is_uppercase() || letter == '_');
                if !is_constant
                    && first_of(path) != module
                    && !allowed.iter().any(|allowed| is_within(path, allowed))
                {
                    violations.push(format!("{}: `{module}` must not import `{path}`", source.path));
                }
            }
        }
        modules.sort();
        modules.dedup();
        let mut rows: Vec<String> = Vec::new();
        for (module, allowed) in table {
            let is_above = |path: &str| {
                PART_CRATES.contains(&first_of(path)) || rows.iter().any(|row| row == first_of(path))
            };
            for path in allowed.iter().flatten().filter(|path| !is_above(path)) {
                violations.push(format!("the row of `{module}` must be below that of `{path}`"));
            }
            rows.push(module);
        }
        rows.sort();
        assert_eq!(rows, modules, "the table of modules of {directory} has one row per module");
    }
    none(violations);
}

/// The names of the folders of engines.
fn engines() -> Vec<String> {
    let table = fs::read_to_string(root().join("src/engine/family.rs")).unwrap();
    let entries = fs::read_dir(root().join("src/engine")).unwrap().map(|entry| entry.unwrap().path());
    let folders = entries.filter(|path| path.is_dir());
    let names = folders.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
    names.filter(|name| table.contains(&format!("super::{name}::"))).collect()
}

/// The engines that build on another one, with its name: the table of base engines in `docs/ARCHITECTURE.md`.
fn base_engines() -> Vec<(String, String)> {
    let page = fs::read_to_string(root().join("docs/ARCHITECTURE.md")).unwrap();
    let (_, table) = page.split_once("<!-- base engines -->\n").unwrap();
    let (table, _) = table.split_once("<!-- end of base engines -->").unwrap();
    let cells = |row: &str| row.split('|').map(|cell| cell.trim().replace('`', "")).collect::<Vec<_>>();
    table.lines().skip(2).map(cells).map(|cells| (cells[1].clone(), cells[2].clone())).collect()
}

#[test]
fn engines_import_no_engine_but_the_one_that_they_build_on() {
    let (engines, bases) = (engines(), base_engines());
    assert!(engines.contains(&"silt".to_owned()));
    let has_no_base = |base: &String| bases.iter().all(|(engine, _)| engine != base);
    assert!(bases.iter().all(|(engine, base)| engines.contains(engine) && has_no_base(base)));
    let mut violations = Vec::new();
    for source in sources("src/engine") {
        let own = source.path.split('/').nth(2).unwrap();
        let may = |name: &str| name == own || bases.contains(&(own.to_owned(), name.to_owned()));
        for path in paths_after(&source.code, "crate::engine::") {
            let name = first_of(&path);
            if engines.iter().any(|engine| engine == name) && !may(name) && !own.ends_with(".rs") {
                violations.push(format!("{}: `{own}` does not build on `{name}`", source.path));
            }
        }
    }
    none(violations);
}

#[test]
fn only_the_table_of_engines_names_them() {
    let (names, bases) = (engines(), base_engines());
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    // `EngineKind::Silt`, `SiltSettings`, `engine::silt::Silt`.
    let is_name = |word: &str, name: &str| {
        let parts = word.split("::").filter(|part| part.contains(char::is_uppercase)).map(str::to_lowercase);
        word.contains(&format!("engine::{name}"))
            || parts.into_iter().any(|part| part.strip_suffix("settings").unwrap_or(&part) == name)
    };
    // The engines that are compiled, all that are known, their modules and settings, and the names of their files.
    let tables =
        ["src/engine/family.rs", "src/engine/info.rs", "src/engine/mod.rs", "src/lib.rs", "src/names.rs"];
    let mut violations = Vec::new();
    for source in sources("src") {
        let is_table = tables.contains(&&*source.path);
        let is_in = |engine: &str| source.path.starts_with(&format!("src/engine/{engine}/"));
        let builds_on = |name: &str| bases.iter().any(|(engine, base)| base == name && is_in(engine));
        for name in names.iter().filter(|name| !is_in(name) && !builds_on(name)) {
            let mut words = source.code.split(|letter| !is_part(letter));
            if let Some(word) = words.find(|word| !is_table && is_name(word, name)) {
                violations.push(format!("{}: `{word}` names an engine", source.path));
            }
        }
    }
    none(violations);
}

#[test]
fn crates_import_only_the_public_interface() {
    let mut violations = Vec::new();
    let engines = engines();
    let is_testing = |path: &str| path.starts_with("crates/siltstone-testing/");
    let sources = ["crates", "evidence/src"].into_iter().flat_map(sources);
    for source in sources.filter(|source| !is_testing(&source.path)) {
        for path in paths_after(&source.code, "siltstone::") {
            let is_hidden = ["store", "engine"].contains(&first_of(&path));
            // The model computes with the settings and the constants of the engines.
            let may = source.path.starts_with("crates/siltstone-model/")
                && engines.iter().any(|engine| is_within(&path, &format!("engine::{engine}")));
            if is_hidden && !may {
                violations.push(format!("{}: `siltstone::{path}` is not public interface", source.path));
            }
        }
    }
    none(violations);
}

#[test]
fn files_threads_and_clocks_are_used_in_their_modules_only() {
    let sources: Vec<Source> = ["src", "crates/siltstone-index/src", "crates/siltstone-mica/src", DEVICE]
        .into_iter()
        .flat_map(sources)
        .collect();
    let files = |path: &str| path.starts_with(DEVICE) || path == "src/database/builder/mod.rs";
    // The second measures how long a copy takes.
    let clocks = |path: &str| path.starts_with("src/database") || path.ends_with("system/mapping.rs");
    let memory = |path: &str| path.starts_with(DEVICE) || path == PROCESSORS;
    let mut violations = with_words(
        &sources,
        &["std::fs", "libc::", "rustix::", "io_uring::"],
        files,
        "only in the crate siltstone-device",
    );
    violations.extend(with_words(
        &sources,
        &["thread::sleep", "Instant::", "SystemTime::"],
        clocks,
        "clocks only in the module database",
    ));
    violations.extend(with_words(
        &sources,
        &["thread::spawn", "thread::Builder", "thread::{Builder", "thread::scope"],
        |path| clocks(path) || path.starts_with(DEVICE),
        "threads only in the module database and the crate siltstone-device",
    ));
    violations.extend(with_words(
        &sources,
        &["unsafe {", "unsafe impl", "unsafe fn"],
        memory,
        "only in the crate siltstone-device",
    ));
    none(violations);
}

#[test]
fn crates_are_safe_except_where_they_call_versions_for_processors_or_share_memory_with_the_kernel_python_or_c()
 {
    const MAY: [&str; 7] = [
        DEVICE,
        PROCESSORS,
        "evidence/src/compare/",
        "crates/siltstone-network/src/transport/xdp/",
        "crates/siltstone-python/src/buffer.rs",
        "crates/siltstone-capi/src/",
        "crates/siltstone-capi/benches/",
    ];
    let may = |path: &str| MAY.iter().any(|may| path.starts_with(may));
    let words = ["unsafe {", "unsafe impl", "unsafe fn"];
    let sources: Vec<Source> = ["crates", "evidence"].into_iter().flat_map(sources).collect();
    none(with_words(&sources, &words, may, "only in the crate siltstone-device, and at the borders"));
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
    let others: Vec<Source> = ["crates", "evidence"].into_iter().flat_map(sources).collect();
    none(with_words(&others, &stubs, |_| false, "not in committed code"));
    for library in ["index", "device", "mica", "model", "network", "capi"] {
        let library = &format!("crates/siltstone-{library}/src");
        none(with_words(&sources(library), &banned, |_| false, "not in a library"));
    }
}

#[test]
fn files_and_lines_are_short_enough_to_read() {
    let mut violations = Vec::new();
    for source in ["src", "crates", "tests", "evidence"].into_iter().flat_map(sources) {
        let lines = source.text.lines().count();
        if lines > FILE_LINES_MAX {
            violations.push(format!("{}: {lines} lines; at most {FILE_LINES_MAX} are allowed", source.path));
        }
        for (number, line) in
            source.text.lines().enumerate().filter(|(_, line)| line.chars().count() > LINE_CHARS_MAX)
        {
            // A message may be longer where an attribute leaves no way to break it.
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
    for source in fs::read_dir(root().join("crates"))
        .unwrap()
        .map(|entry| format!("crates/{}/src", entry.unwrap().file_name().to_str().unwrap()))
        .chain(["src", "evidence/src"].map(str::to_owned))
        .flat_map(|directory| sources(&directory))
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
            violations.push(format!("{}: {PREFIX}{name}.md does not exist", source.path));
        }
        if names.is_empty() && source.code.contains("const MAGIC") {
            violations.push(format!("{}: has a magic number, but names no page in {PREFIX}", source.path));
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
fn paths_are_found_in_every_form_of_use() {
    let code = "use crate::{index::{Fences, fence::{self, Fence as Other}}, Error,\n device::File};
                let x = crate::store::Log::new();";
    let paths = [
        "index::Fences",
        "index::fence::self",
        "index::fence::Fence",
        "Error",
        "device::File",
        "store::Log::new",
    ];
    assert_eq!(paths_after(code, "crate::"), paths);
    assert!(is_within("index::fences::Fence", "index::fences") && !is_within("index::bits", "index::fences"));
    assert!(!is_within("stores::log", "store"));
}
