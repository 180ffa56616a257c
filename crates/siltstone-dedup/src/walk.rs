//! Finds the files.

use super::formats::Stamp;
use anyhow::{Context, anyhow, ensure};
use clap::Args;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use siltstone_command::outcome::wrong_usage;
use std::cell::RefCell;
use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use walkdir::{DirEntry, WalkDir};

/// The options that select files.
#[derive(Debug, Args)]
pub struct WalkArgs {
    /// Skip files and directories that match. A pattern without a slash is compared with the name, one with a slash
    /// with the end of the path (src/target), one that begins with / with the absolute path, one that begins with ./ or
    /// ../ with that below the current directory. `*` and `?` match within a name, `**` matches directories, `[ab]` and
    /// `{a,b}` are choices. A pattern that matches nothing is reported. Can be given several times
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Do not enter directories on other file systems than that of their PATH
    #[arg(long)]
    one_file_system: bool,
}

/// The files below some paths.
#[derive(Clone)]
pub struct Walk<'a> {
    roots: &'a [PathBuf],
    /// Files and directories to skip.
    without: Vec<PathBuf>,
    /// The patterns as they were given, and those that match names and paths.
    patterns: Vec<String>,
    excluded_names: Patterns,
    excluded_paths: Patterns,
    one_file_system: bool,
    /// The patterns that matched, by their numbers.
    used: RefCell<HashSet<usize>>,
}

/// Patterns, with their numbers among all.
#[derive(Clone)]
struct Patterns {
    globs: GlobSet,
    numbers: Vec<usize>,
}

impl Patterns {
    /// Returns whether one of them matches, and remembers which.
    fn is_match(&self, path: &Path, used: &RefCell<HashSet<usize>>) -> bool {
        let matches = self.globs.matches(path);
        used.borrow_mut().extend(matches.iter().filter_map(|&at| self.numbers.get(at)));
        !matches.is_empty()
    }
}

/// A path that cannot be read, with the reason.
pub type Failure = (PathBuf, anyhow::Error);

/// Returns the paths that can be read, absolute and with links resolved, without paths below other paths; and the
/// others.
pub fn roots(paths: &[PathBuf]) -> (Vec<PathBuf>, Vec<Failure>) {
    let (mut roots, mut failures) = (Vec::new(), Vec::new());
    for path in paths {
        match root(path) {
            Ok(root) => roots.push(root),
            Err(error) => failures.push((path.clone(), error)),
        }
    }
    roots.sort();
    // After sorting, a directory precedes its contents.
    roots.dedup_by(|path, before| path.starts_with(before));
    (roots, failures)
}

fn root(path: &Path) -> anyhow::Result<PathBuf> {
    let path = fs::canonicalize(path).context("cannot find it; check the path")?;
    let kind = fs::metadata(&path)?.file_type();
    let special = [
        (kind.is_fifo(), "a pipe"),
        (kind.is_socket(), "a socket"),
        (kind.is_block_device() || kind.is_char_device(), "a device"),
    ];
    if let Some((_, name)) = special.iter().find(|(is_it, _)| *is_it) {
        return Err(anyhow!(
            "it is {name}, and no file or directory; `siltstone dedup - < PATH` reads it as a stream"
        ));
    }
    Ok(path)
}

/// Returns a pattern for absolute paths, whose links are resolved.
fn absolute(pattern: &str) -> anyhow::Result<String> {
    let is_below_here = pattern.starts_with("./") || pattern.starts_with("../");
    if !is_below_here && !pattern.starts_with('/') {
        // As in tar and restic, it may begin at any directory.
        return Ok(if pattern.starts_with("**/") { pattern.to_owned() } else { format!("**/{pattern}") });
    }
    // The directories before the first special character.
    let plain = pattern.find(|letter| "*?[]{}\\".contains(letter)).unwrap_or(pattern.len());
    let split = if plain == pattern.len() { plain } else { pattern[..plain].rfind('/').unwrap_or(0) };
    let (directory, rest) = pattern.split_at(split);
    let directory = if directory.is_empty() { "/" } else { directory };
    let resolved = super::forget::resolved(Path::new(directory))?;
    let resolved = globset::escape(resolved.to_str().context("the path is no UTF-8")?);
    Ok(format!("{}{rest}", resolved.trim_end_matches(if rest.is_empty() { '\0' } else { '/' })))
}

/// An entry found below the roots.
pub enum Found {
    /// A file to read, with its size and times, and its device and number.
    File(PathBuf, Stamp, Identity),
    /// A further name of a file that was found already.
    Linked,
    /// A root that is a directory, or a directory below one on which another file system is mounted.
    Mounted(PathBuf),
    /// An unreadable entry, with the error.
    Unreadable(PathBuf, anyhow::Error),
}

/// What makes a file the same file under any name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    device: u64,
    number: u64,
}

impl Identity {
    /// Returns that of an open file, or of one that was found.
    pub fn of(data: &Metadata) -> Identity {
        Identity { device: data.dev(), number: data.ino() }
    }
}

impl<'a> Walk<'a> {
    /// Prepares to find all regular files below the roots, except those in or below `without`.
    ///
    /// # Errors
    /// Wrong usage if a pattern is none.
    pub fn new(roots: &'a [PathBuf], without: Vec<PathBuf>, args: &WalkArgs) -> anyhow::Result<Walk<'a>> {
        let set = |of_paths: bool| {
            let (mut set, mut numbers) = (GlobSetBuilder::new(), Vec::new());
            // A slash is often typed after the name of a directory.
            let patterns = args.exclude.iter().map(|pattern| pattern.trim_end_matches('/')).enumerate();
            for (number, pattern) in patterns.filter(|(_, pattern)| pattern.contains('/') == of_paths) {
                let wrong =
                    |error: anyhow::Error| wrong_usage(format_args!("--exclude {pattern}: {error:#}"));
                let pattern = if of_paths { absolute(pattern).map_err(wrong)? } else { pattern.to_owned() };
                let glob = GlobBuilder::new(&pattern).literal_separator(true).build();
                set.add(glob.map_err(|error| wrong_usage(format_args!("--exclude: {error}")))?);
                numbers.push(number);
            }
            Ok::<_, anyhow::Error>(Patterns { globs: set.build()?, numbers })
        };
        ensure!(args.exclude.iter().all(|pattern| !pattern.is_empty()), wrong_usage("--exclude is empty"));
        let (excluded_names, excluded_paths) = (set(false)?, set(true)?);
        let (patterns, used) = (args.exclude.clone(), RefCell::default());
        let one_file_system = args.one_file_system;
        Ok(Walk { roots, without, patterns, excluded_names, excluded_paths, one_file_system, used })
    }

    /// Returns the patterns that have matched nothing so far.
    pub fn unused_patterns(&self) -> Vec<&str> {
        let used = self.used.borrow();
        let unused = self.patterns.iter().enumerate().filter(|(number, _)| !used.contains(number));
        unused.map(|(_, pattern)| &**pattern).collect()
    }

    /// Returns the roots.
    pub fn roots(&self) -> &[PathBuf] {
        self.roots
    }

    /// Returns the files, ordered by name. Links are not followed; sockets and other special files are skipped. Of
    /// files with several names, the first one counts.
    pub fn files(&self) -> impl Iterator<Item = Found> {
        let linked = RefCell::new(HashSet::new());
        let walk = |root: &PathBuf| {
            let walk = WalkDir::new(root).same_file_system(self.one_file_system).sort_by_file_name();
            walk.into_iter().filter_entry(|entry| !self.is_excluded(entry))
        };
        let entries = self.roots.iter().flat_map(move |root| {
            let device = fs::metadata(root).map(|data| data.dev()).unwrap_or(0);
            walk(root).map(move |entry| (root, device, entry))
        });
        entries.filter_map(move |(root, device, entry)| match entry {
            Ok(entry) if entry.file_type().is_dir() => {
                is_mounted(&entry, device).then(|| Found::Mounted(entry.into_path()))
            }
            entry => found(root, entry, &mut linked.borrow_mut()),
        })
    }

    /// Excludes what is below a path that is given, but never that path itself.
    fn is_excluded(&self, entry: &DirEntry) -> bool {
        let path = entry.path();
        self.without.iter().any(|without| without == path)
            || entry.depth() > 0
                && (self.excluded_names.is_match(Path::new(entry.file_name()), &self.used)
                    || self.excluded_paths.is_match(path, &self.used))
    }
}

/// Returns whether a directory is a root, or on another file system than its root, on `device`, and than its parent.
fn is_mounted(directory: &DirEntry, device: u64) -> bool {
    let of = |path: &Path| fs::symlink_metadata(path).map(|data| data.dev()).ok();
    let is_other = || directory.metadata().is_ok_and(|data| data.dev() != device);
    let path = directory.path();
    directory.depth() == 0 || is_other() && path.parent().and_then(of) != of(path)
}

fn found(root: &Path, entry: walkdir::Result<DirEntry>, linked: &mut HashSet<Identity>) -> Option<Found> {
    match entry {
        Ok(entry) if !entry.file_type().is_file() => None,
        Ok(entry) => Some(match entry.metadata() {
            Ok(data) if data.nlink() > 1 && !linked.insert(Identity::of(&data)) => Found::Linked,
            Ok(data) => Found::File(entry.into_path(), stamp(&data), Identity::of(&data)),
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

    fn args(exclude: &[&str]) -> WalkArgs {
        let exclude = exclude.iter().map(|&pattern| pattern.to_owned()).collect();
        WalkArgs { exclude, one_file_system: true }
    }

    fn names(roots: &[PathBuf], without: &[PathBuf], args: &WalkArgs) -> Vec<PathBuf> {
        let walk = Walk::new(roots, without.to_vec(), args).unwrap();
        let name = |found| match found {
            Found::File(path, stamp, _) if stamp.size > 0 => Some(path),
            Found::Linked | Found::Mounted(_) => None,
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
        let (roots, _) = roots(&[path("b/c"), path("."), path("b"), path("b-file")]);
        assert_eq!(names(&roots, &[path("b/index")], &args(&[])), [path("a"), path("b/c"), path("b-file")]);
    }

    #[test]
    fn patterns_with_a_slash_match_ends_of_paths_and_others_match_names() {
        let (_directory, root) = tree(&["a.o", "a.rs", "target/b.rs", "x/target/c.rs", "x/y/d.rs"]);
        let inside = format!("{}/x/*.rs", root.display());
        for (patterns, expected) in [
            (&["*.o", "target"][..], &["a.rs", "x/y/d.rs"][..]),
            (&["target/", "**/y/*", "a.{o,rs}"], &[]),
            (&["**/x/target"], &["a.o", "a.rs", "target/b.rs", "x/y/d.rs"]),
            (&["x/target"], &["a.o", "a.rs", "target/b.rs", "x/y/d.rs"]),
            (&["target/*.rs", "x/y/"], &["a.o", "a.rs"]),
            (&[&inside, "?.o"], &["a.rs", "target/b.rs", "x/target/c.rs", "x/y/d.rs"]),
        ] {
            let expected: Vec<_> = expected.iter().map(|name| root.join(name)).collect();
            assert_eq!(names(std::slice::from_ref(&root), &[], &args(patterns)), expected, "{patterns:?}");
        }
        assert!(Walk::new(&[], Vec::new(), &args(&["a[b"])).is_err());
    }

    #[test]
    fn a_pattern_that_begins_at_a_directory_follows_its_links_and_an_unused_one_is_known() {
        let (_directory, root) = tree(&["real/target/a", "real/b"]);
        std::os::unix::fs::symlink(root.join("real"), root.join("link")).unwrap();
        let through_link = format!("{}/link/target", root.display());
        let (args, roots) = (args(&[&through_link, "*.o", "no/such"]), [root.join("real")]);
        let walk = Walk::new(&roots, Vec::new(), &args).unwrap();
        let found: Vec<_> = walk.files().collect();
        assert!(matches!(&found[..], [Found::Mounted(root), Found::File(..)] if root == &roots[0]));
        assert_eq!(walk.unused_patterns(), ["*.o", "no/such"]);
        assert!(absolute("./x/*.rs").unwrap().starts_with('/'));
        assert!(Walk::new(&roots, Vec::new(), &self::args(&[""])).is_err());
    }

    #[test]
    fn paths_that_are_missing_or_no_files_are_named_and_the_others_are_read() {
        let (_directory, root) = tree(&["a"]);
        let (roots, failures) = roots(&["/no/such/path".into(), root.clone(), "/dev/null".into()]);
        assert_eq!(roots, [root]);
        let names: Vec<_> =
            failures.iter().map(|(path, error)| format!("{}: {error:#}", path.display())).collect();
        assert!(names[0].contains("/no/such/path") && names[1].contains("a device"), "{names:?}");
    }
}
