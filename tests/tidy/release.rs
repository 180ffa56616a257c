//! What registries and readers of a release see: the metadata of crates, the version and the address of the repository
//! in all places, and the table of contents of the documents.

use super::{files_below, none, root};
use std::fs;
use std::path::PathBuf;

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the value of a field in the first section that has it, without quotes.
fn field(manifest: &str, name: &str) -> Option<String> {
    let line = manifest.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "))?;
    Some(line.trim_matches('"').to_owned())
}

/// Returns the manifests of the crates with their paths.
fn manifests() -> Vec<(String, String)> {
    let mut paths = vec!["Cargo.toml".to_owned()];
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        paths.push(format!("crates/{}/Cargo.toml", entry.unwrap().file_name().to_str().unwrap()));
    }
    paths.into_iter().map(|path| (path.clone(), read(&path))).collect()
}

#[test]
fn published_crates_have_what_registries_show() {
    let mut violations = Vec::new();
    let mut published = 0;
    for (path, manifest) in manifests() {
        if manifest.contains("publish = false") {
            continue;
        }
        published += 1;
        for name in ["description", "documentation", "readme", "categories", "keywords"] {
            if field(&manifest, name).is_none() {
                violations.push(format!("{path} has no {name}"));
            }
        }
        for name in ["version", "license", "homepage", "repository", "rust-version"] {
            if !manifest.contains(&format!("{name}.workspace = true")) {
                violations.push(format!("{path} does not take {name} from the workspace"));
            }
        }
        if !manifest.contains("include.workspace = true") && !manifest.contains("include = [") {
            violations.push(format!("{path} does not say what a package contains"));
        }
        // A dependency by its path alone cannot be published.
        let without_tests = manifest.split("[dev-dependencies]").next().unwrap();
        for line in without_tests.lines().filter(|line| line.contains("path = ") && !line.contains("version"))
        {
            if line.starts_with("siltstone") {
                violations.push(format!("{path}: {line}: use `workspace = true`"));
            }
        }
        let folder = root().join(&path);
        for file in ["README.md", "LICENSE-MIT", "LICENSE-APACHE"] {
            if !folder.with_file_name(file).exists() {
                violations.push(format!("{path}: there is no {file} next to it"));
            }
        }
    }
    assert!(published > 9, "{published}");
    none(violations);
}

#[test]
fn crates_of_a_release_need_each_other_in_its_version() {
    let manifest = read("Cargo.toml");
    let version = format!("version = \"={}\"", field(&manifest, "version").unwrap());
    let table = manifest.split_once("[workspace.dependencies]").unwrap().1.split("\n[").next().unwrap();
    let parts: Vec<&str> = table.lines().filter(|line| line.starts_with("siltstone")).collect();
    assert!(parts.len() > 9, "{table}");
    let other = |line: &&str| !line.contains(&version);
    none(
        parts.into_iter().filter(other).map(|line| format!("Cargo.toml: {line}: needs {version}")).collect(),
    );
}

#[test]
fn the_address_of_the_repository_is_that_of_the_manifest_everywhere() {
    let manifest = read("Cargo.toml");
    let (repository, homepage) =
        (field(&manifest, "repository").unwrap(), field(&manifest, "homepage").unwrap());
    let host = repository.split_inclusive('/').take(3).collect::<String>();
    let site = homepage.trim_start_matches("https://").split('/').next().unwrap().to_owned();
    let mut files: Vec<PathBuf> =
        ["README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", "pyproject.toml", "Makefile"]
            .map(|name| root().join(name))
            .to_vec();
    for folder in ["docs", "packaging", ".github", "crates", "src"] {
        files_below(&root().join(folder), &mut files);
    }
    let (mut violations, mut found) = (Vec::new(), 0);
    for path in files {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        for (number, line) in text.lines().enumerate() {
            for after in line.split("https://").skip(1) {
                let ends = |letter: char| letter.is_whitespace() || "\"'`<>()".contains(letter);
                let address = format!("https://{}", after.split(ends).next().unwrap_or_default());
                let is_ours =
                    address.contains("siltstone") && (address.starts_with(&host) || address.contains(&site));
                found += usize::from(is_ours);
                if is_ours && !address.starts_with(&repository) && !address.starts_with(&homepage) {
                    violations.push(format!("{}:{}: {address}", path.display(), number + 1));
                }
            }
        }
    }
    assert!(found > 10, "{found}");
    none(violations);
}

#[test]
fn every_page_is_in_the_table_of_contents_and_in_the_index() {
    let (contents, index) = (read("docs/SUMMARY.md"), read("docs/README.md"));
    let mut files = Vec::new();
    files_below(&root().join("docs"), &mut files);
    let mut violations = Vec::new();
    for path in files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "md")) {
        let path = path.strip_prefix(root().join("docs")).unwrap().to_str().unwrap();
        if path == "SUMMARY.md" {
            continue;
        }
        if !contents.contains(&format!("({path})")) {
            violations.push(format!("docs/{path} is not in docs/SUMMARY.md"));
        }
        if !path.contains('/') && path != "README.md" && !index.contains(&format!("({path})")) {
            violations.push(format!("docs/{path} is not in docs/README.md"));
        }
    }
    none(violations);
}
