//! Finds the files.

use super::formats::Stamp;
use crate::outcome::wrong_usage;
use anyhow::{Context, anyhow};
use clap::Args;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use std::cell::RefCell;
use std::collections::HashSet;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use walkdir::{DirEntry, WalkDir};

/// The options that select files.
#[derive(Debug, Args)]
pub struct WalkArgs {
    /// Skip files and directories that match: a pattern with a slash is compared with the absolute path, another one
    /// with the name. `*` and `?` match within a name, `**` matches directories, `[ab]` and `{a,b}` are choices.
    /// Can be given several times
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Do not enter directories on other file systems than that of their PATH
    #[arg(long)]
    one_file_system: bool,
}

/// The files below some paths.
pub struct Walk<'a> {
    roots: &'a [PathBuf],
    /// Files and directories to skip.
    without: Vec<PathBuf>,
    excluded_names: GlobSet,
    excluded_paths: GlobSet,
    one_file_system: bool,
}

/// Returns the paths, absolute and with links resolved, without paths below other paths.
pub fn roots(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let absolute = |path: &PathBuf| {
        std::fs::canonicalize(path).with_context(|| format!("cannot find {}; check the path", path.display()))
    };
    let mut roots = paths.iter().map(absolute).collect::<anyhow::Result<Vec<_>>>()?;
    roots.sort();
    // After sorting, a directory precedes its contents.
    roots.dedup_by(|path, before| path.starts_with(before));
    Ok(roots)
}

/// An entry found below the roots.
pub enum Found {
    /// A file to read, with its size and times.
    File(PathBuf, Stamp),
    /// A further name of a file that was found already.
    Linked,
    /// An unreadable entry, with the error.
    Unreadable(PathBuf, anyhow::Error),
}

impl<'a> Walk<'a> {
    /// Prepares to find all regular files below the roots, except those in or below `without`.
    ///
    /// # Errors
    /// Wrong usage if a pattern is none.
    pub fn new(roots: &'a [PathBuf], without: Vec<PathBuf>, args: &WalkArgs) -> anyhow::Result<Walk<'a>> {
        let set = |of_paths: bool| {
            let mut set = GlobSetBuilder::new();
            // A slash is often typed after the name of a directory.
            let patterns = args.exclude.iter().map(|pattern| pattern.trim_end_matches('/'));
            for pattern in patterns.filter(|pattern| pattern.contains('/') == of_paths) {
                let glob = GlobBuilder::new(pattern).literal_separator(true).build();
                set.add(glob.map_err(|error| wrong_usage(format_args!("--exclude: {error}")))?);
            }
            Ok::<_, anyhow::Error>(set.build()?)
        };
        let (excluded_names, excluded_paths) = (set(false)?, set(true)?);
        Ok(Walk { roots, without, excluded_names, excluded_paths, one_file_system: args.one_file_system })
    }

    /// Returns the files, ordered by name. Links are not followed; sockets and other special files are skipped. Of
    /// files with several names, the first one counts.
    pub fn files(&self) -> impl Iterator<Item = Found> {
        let linked = RefCell::new(HashSet::new());
        let walk = |root: &PathBuf| {
            let walk = WalkDir::new(root).same_file_system(self.one_file_system).sort_by_file_name();
            walk.into_iter().filter_entry(|entry| !self.is_excluded(entry))
        };
        let entries = self.roots.iter().flat_map(move |root| walk(root).map(move |entry| (root, entry)));
        entries.filter_map(move |(root, entry)| found(root, entry, &mut linked.borrow_mut()))
    }

    /// Excludes what is below a path that is given, but never that path itself.
    fn is_excluded(&self, entry: &DirEntry) -> bool {
        let path = entry.path();
        self.without.iter().any(|without| without == path)
            || entry.depth() > 0
                && (self.excluded_names.is_match(entry.file_name()) || self.excluded_paths.is_match(path))
    }
}

fn found(root: &Path, entry: walkdir::Result<DirEntry>, linked: &mut HashSet<(u64, u64)>) -> Option<Found> {
    match entry {
        Ok(entry) if !entry.file_type().is_file() => None,
        Ok(entry) => Some(match entry.metadata() {
            Ok(data) if data.nlink() > 1 && !linked.insert((data.dev(), data.ino())) => Found::Linked,
            Ok(data) => Found::File(entry.into_path(), stamp(&data)),
            Err(error) => Found::Unreadable(entry.into_path(), error.into()),
        }),
        Err(error) => {
            let path = error.path().unwrap_or(root).to_owned();
            let error =
                error.into_io_error().map_or_else(|| anyhow!("cannot enter the directory"), Into::into);
            Some(Found::Unreadable(path, error))
        }
    }
}

/// Returns the size, and the times at which the contents and the attributes last changed.
fn stamp(data: &Metadata) -> Stamp {
    let nanoseconds = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
    Stamp {
        size: data.len(),
        modified_ns: nanoseconds(data.mtime(), data.mtime_nsec()),
        changed_ns: nanoseconds(data.ctime(), data.ctime_nsec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn args(exclude: &[&str]) -> WalkArgs {
        let exclude = exclude.iter().map(|&pattern| pattern.to_owned()).collect();
        WalkArgs { exclude, one_file_system: true }
    }

    fn names(roots: &[PathBuf], without: &[PathBuf], args: &WalkArgs) -> Vec<PathBuf> {
        let walk = Walk::new(roots, without.to_vec(), args).unwrap();
        let name = |found| match found {
            Found::File(path, stamp) if stamp.size > 0 => Some(path),
            Found::Linked => None,
            _ => panic!("all files can be read"),
        };
        walk.files().filter_map(name).collect()
    }

    fn tree(names: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for name in names {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), name).unwrap();
        }
        (directory, root)
    }

    #[test]
    fn every_file_is_found_once_and_in_order() {
        let (_directory, root) = tree(&["b/c", "a", "b/index/chunk", "b-file"]);
        let path = |name: &str| root.join(name);
        std::os::unix::fs::symlink(path("a"), path("b/link")).unwrap();
        fs::hard_link(path("b/c"), path("b/d")).unwrap();
        let roots = roots(&[path("b/c"), path("."), path("b"), path("b-file")]).unwrap();
        assert_eq!(names(&roots, &[path("b/index")], &args(&[])), [path("a"), path("b/c"), path("b-file")]);
    }

    #[test]
    fn patterns_with_a_slash_match_paths_and_others_match_names() {
        let (_directory, root) = tree(&["a.o", "a.rs", "target/b.rs", "x/target/c.rs", "x/y/d.rs"]);
        let inside = format!("{}/x/*.rs", root.display());
        for (patterns, expected) in [
            (&["*.o", "target"][..], &["a.rs", "x/y/d.rs"][..]),
            (&["target/", "**/y/*", "a.{o,rs}"], &[]),
            (&["**/x/target"], &["a.o", "a.rs", "target/b.rs", "x/y/d.rs"]),
            (&[&inside, "?.o"], &["a.rs", "target/b.rs", "x/target/c.rs", "x/y/d.rs"]),
        ] {
            let expected: Vec<_> = expected.iter().map(|name| root.join(name)).collect();
            assert_eq!(names(std::slice::from_ref(&root), &[], &args(patterns)), expected, "{patterns:?}");
        }
        assert!(Walk::new(&[], Vec::new(), &args(&["a[b"])).is_err());
    }

    #[test]
    fn a_missing_path_is_named() {
        let error = roots(&["/no/such/path".into()]).unwrap_err();
        assert!(format!("{error:#}").contains("/no/such/path"));
    }
}
