//! No two files of a crate import each other, also not through other files.
//!
//! One kind of imports does not count: a part of a module may use what the file of the module defines, since private
//! items of a module are there for its parts.

use super::{Source, flatten, none, root, sources};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// A file: the paths that it imports, those that it exports, and the rest of its code.
#[derive(Default)]
struct File {
    path: String,
    imports: Vec<String>,
    exports: Vec<String>,
    code: String,
}

/// The files of a crate by module, such as `store::log`. The root of the crate is the empty name.
type Files = BTreeMap<String, File>;

/// For each module of a crate the modules whose files its file uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

fn module_of(path: &str) -> String {
    let parts = path.strip_suffix(".rs").unwrap().split('/');
    parts.filter(|part| !["mod", "lib", "main"].contains(part)).collect::<Vec<_>>().join("::")
}

fn last_of(path: &str) -> &str {
    path.rsplit("::").next().unwrap()
}

fn parent_of(module: &str) -> &str {
    module.rsplit_once("::").map_or("", |(parent, _)| parent)
}

fn child_of(module: &str, name: &str) -> String {
    if module.is_empty() { name.to_owned() } else { format!("{module}::{name}") }
}

/// Separates the imports from the rest of the code.
fn file_of(source: &Source) -> File {
    let mut file = File { path: source.path.clone(), ..File::default() };
    let mut lines = source.code.lines();
    while let Some(line) = lines.next() {
        let (visibility, tree) = line.trim_start().split_once("use ").unwrap_or(("no import", ""));
        let paths = match visibility {
            "" => &mut file.imports,
            _ if visibility.starts_with("pub") && visibility.ends_with([' ']) => &mut file.exports,
            _ => {
                file.code.extend([line, "\n"]);
                continue;
            }
        };
        let mut tree = tree.to_owned();
        while !tree.contains(';') {
            tree.push_str(lines.next().unwrap());
        }
        flatten(&tree, "", paths);
    }
    file
}

/// Returns the code from each place on where it has `start` as the beginning of a path or of a word.
fn places<'a>(code: &'a str, start: &'a str) -> impl Iterator<Item = &'a str> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    let places = code.match_indices(start).filter(move |(at, _)| !code[..*at].ends_with(is_part));
    places.map(|(at, _)| &code[at..])
}

/// Returns the module whose file defines what `module` names by `path`; `None` if another crate does.
fn resolve(files: &Files, module: &str, path: &str) -> Option<String> {
    let first = path.split("::").next().unwrap();
    let mut found = match first {
        "crate" => String::new(),
        _ if ["self", "super"].contains(&first) || files.contains_key(&child_of(module, first)) => {
            module.to_owned()
        }
        _ => return None,
    };
    for part in path.split("::") {
        match part {
            "crate" | "self" => {}
            "super" => found = parent_of(&found).to_owned(),
            _ if files.contains_key(&child_of(&found, part)) => found = child_of(&found, part),
            item => {
                // What a file imports, its parts can import from it.
                let file = files.get(&found)?;
                let is_item = |path: &&String| path.contains("::") && last_of(path) == item;
                let import = file.exports.iter().chain(&file.imports).find(is_item);
                return import.map_or(Some(found.clone()), |import| resolve(files, &found, import));
            }
        }
    }
    Some(found)
}

/// Returns the modules whose files the file of `module` uses. An export is a use if the file also names it.
fn used(files: &Files, module: &str) -> BTreeSet<String> {
    let File { imports, exports, code, .. } = &files[module];
    let is_named = |path: &&String| places(code, last_of(path)).next().is_some();
    let mut paths: Vec<String> = imports.iter().chain(exports.iter().filter(is_named)).cloned().collect();
    let children = files.keys().filter(|other| !other.is_empty() && parent_of(other) == module);
    for start in ["crate", "super"].into_iter().chain(children.map(|child| last_of(child))) {
        places(code, &format!("{start}::")).for_each(|place| _ = flatten(place, "", &mut paths));
    }
    let is_above = |other: &str| other.is_empty() || format!("{module}::").starts_with(&format!("{other}::"));
    let resolved = paths.iter().filter_map(|path| resolve(files, module, path));
    resolved.filter(|other| !is_above(other)).collect()
}

fn reaches(uses: &Uses, from: &str, to: &str, seen: &mut BTreeSet<String>) -> bool {
    from == to || seen.insert(from.to_owned()) && uses[from].iter().any(|next| reaches(uses, next, to, seen))
}

/// Returns a line for each import of a circle: the file, and what it uses.
fn circles(files: &Files) -> Vec<String> {
    let uses: Uses = files.keys().map(|module| (module.clone(), used(files, module))).collect();
    let mut found = Vec::new();
    for (module, used) in &uses {
        for other in used.iter().filter(|other| reaches(&uses, other, module, &mut BTreeSet::new())) {
            found.push(format!("{} uses {}, which needs it too", files[module].path, files[other].path));
        }
    }
    found
}

#[test]
fn files_do_not_import_each_other_in_circles() {
    let crates = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().file_name());
    let directories = crates.map(|name| format!("crates/{}/src", name.to_str().unwrap()));
    let mut found = Vec::new();
    for directory in directories.chain(["src", "evidence/src", "fuzz/src"].map(str::to_owned)) {
        let sources = sources(&directory);
        let file = |source: &Source| (module_of(&source.path[directory.len() + 1..]), file_of(source));
        found.extend(circles(&sources.iter().map(file).collect()));
    }
    none(found);
}

#[test]
fn circles_are_found_through_exports_calls_and_parts() {
    let found = |files: &[(&str, &str)]| {
        let source = |&(path, code): &(&str, &str)| Source {
            path: path.to_owned(),
            text: String::new(),
            code: code.to_owned(),
        };
        circles(&files.iter().map(|file| (module_of(file.0), file_of(&source(file)))).collect()).len()
    };
    let above = ("lib.rs", "pub mod a;\npub mod b;\npub use a::part::Part;");
    let part = ("a/part.rs", "use super::Whole;\npub struct Part;");
    let whole = ("a/mod.rs", "mod part;\nuse part::Part;\npub struct Whole(Part);");
    assert_eq!(found(&[above, part, whole, ("b.rs", "use crate::{\n    Part,\n    a::Whole,\n};")]), 0);
    let part = ("a/part.rs", "pub fn part() {\n    super::super::b::Other::new();\n}\npub struct Part;");
    assert_eq!(found(&[above, part, whole, ("b.rs", "use crate::Part;\npub struct Other(Part);")]), 2);
    assert_eq!(found(&[above, part, whole, ("b.rs", "fn whole() -> crate::a::Whole {}")]), 3);
}
