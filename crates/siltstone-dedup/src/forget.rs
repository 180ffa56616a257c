//! `siltstone dedup forget`: removes files from an index, and the chunks that occur in no other file.

use super::formats::{FileEntry, Totals};
use super::index::{self, Index, STREAM};
use anyhow::Context;
use clap::Args;
use rustix::io::Errno;
use serde_json::{Map, Value, json};
use siltstone_command::interrupt::Interrupt;
use siltstone_command::notation::{Notation, insert_name, shown};
use siltstone_command::outcome::{Outcome, Result, complain, help, wrong_usage};
use siltstone_command::progress::{Stopwatch, spinner};
use siltstone_command::quantity::{counted, parse_whole};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind, Write, stdout};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "
  siltstone dedup forget --db backup.index ~/src/old
  siltstone dedup forget --db backup.index --missing --dry-run
  siltstone dedup forget --db backup.index --missing
  siltstone dedup forget --db backup.index --run 1 --run 2
  siltstone dedup forget --db backup.index stream:monday.tar";

/// The number of files whose errors are printed.
const UNKNOWN_TOLD_MAX: u64 = 20;

/// Remove files from the index, and chunks that occur in no other file
///
/// Forgets files at or below each PATH, streams by their names, files that no longer exist, or the files of runs. A
/// file belongs to the last run that saw it, so the files of an earlier run are those that later runs did not see. The
/// space of the records becomes free with later merges, or at once with `siltstone compact`. Reads the whole catalogue.
///
/// With --missing, files are kept if the directory that was indexed, or a directory below it on which another file
/// system was mounted, is missing or empty: the drive may not be mounted. Name it as PATH, or use --unmounted, to
/// forget them.
///
/// Exits with 1 if the index has no file at or below one of the paths, or if files were kept because a directory is
/// missing, or because the system does not say whether they exist.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct ForgetArgs {
    /// Forget the files that this run was the last to see. Can be given several times
    #[arg(long, value_name = "NUMBER", value_parser = parse_whole::<u32>)]
    run: Vec<u32>,
    /// Forget files that no longer exist
    #[arg(long)]
    missing: bool,
    /// With --missing, also forget all files of directories that are missing or empty
    #[arg(long, requires = "missing")]
    unmounted: bool,
    /// Change nothing, and print the paths that would be forgotten
    #[arg(long)]
    dry_run: bool,
    /// The paths have escapes (\n \t \r \\ \xNN), as `dedup duplicates` prints them
    #[arg(long)]
    escaped: bool,
    /// Files and directories, which may no longer exist, and streams, as `stream:NAME`
    #[arg(value_name = "PATH", required_unless_present_any = ["run", "missing"])]
    paths: Vec<PathBuf>,
}

pub fn run(args: &ForgetArgs, mut index: Index, interrupt: &Interrupt, json: bool) -> Result {
    if let Some(run) = args.run.iter().find(|run| !(1..=index.run()).contains(*run)) {
        let runs = counted(index.run().into(), "run");
        return Err(wrong_usage(format_args!("--run is {run}, but the index has {runs}, numbered from 1")));
    }
    let paths = args.paths.iter().map(|path| args.key_of(path)).collect::<anyhow::Result<Vec<_>>>()?;
    let mut found = vec![false; paths.len()];
    let mut missing = Missing::new(args, &index)?;
    let (before, watch, bar) = (index.now(), Stopwatch::start(), spinner("forgetting"));
    let mut listed = Listed::default();
    for record in index.catalogue.clone().iter()? {
        if interrupt.is_raised() {
            break;
        }
        let record = record?;
        let Some(file) = index::file_of(&record.key) else { continue };
        bar.inc(1);
        let entry = FileEntry::decode(&record.value)?;
        let mut is_named = false;
        for (path, found) in paths.iter().zip(&mut found) {
            if is_within(file, path) {
                (is_named, *found) = (true, true);
            }
        }
        if !is_named && !args.run.contains(&entry.run) && !missing.contains(file) {
            continue;
        }
        if args.dry_run {
            listed.add(file, &entry, json)?;
        } else {
            index.forget(&record.key, &entry)?;
            index.commit_if_due()?;
        }
    }
    bar.finish_and_clear();
    let after = index.now();
    index.close()?;
    match args.dry_run {
        true => listed.print(json)?,
        false => print(&before, &after, json)?,
    }
    if watch.is_long() {
        complain(format_args!("done{watch}"));
    }
    Ok(match interrupt.is_raised() {
        true => Outcome::Interrupted,
        false if missing.report() || found.contains(&false) => Outcome::Negative,
        false => Outcome::Done,
    })
}

impl ForgetArgs {
    /// Returns the key of a file, of a directory, or of a stream.
    fn key_of(&self, path: &Path) -> anyhow::Result<Vec<u8>> {
        match self.escaped {
            true => {
                let bytes = Notation::Escaped.parse(path.as_os_str().as_bytes()).map_err(wrong_usage)?;
                key_of(Path::new(OsStr::from_bytes(&bytes)))
            }
            false => key_of(path),
        }
    }
}

/// The files that no longer exist, as far as it can be known.
struct Missing {
    is_wanted: bool,
    /// Directories that are missing or empty, with the number of their files.
    unmounted: Vec<(Vec<u8>, u64)>,
    unknown: u64,
}

impl Missing {
    fn new(args: &ForgetArgs, index: &Index) -> anyhow::Result<Missing> {
        let mut unmounted = Vec::new();
        if args.missing && !args.unmounted {
            let is_empty =
                |path: &Path| fs::read_dir(path).map_or(true, |mut entries| entries.next().is_none());
            let paths = index.mounted()?;
            let empty = paths.into_iter().filter(|path| is_empty(Path::new(OsStr::from_bytes(path))));
            unmounted.extend(empty.map(|path| (path, 0)));
        }
        Ok(Missing { is_wanted: args.missing, unmounted, unknown: 0 })
    }

    /// Returns whether a file is missing. Counts those that are kept.
    fn contains(&mut self, key: &[u8]) -> bool {
        if !self.is_wanted || key.starts_with(STREAM) {
            return false;
        }
        let path = Path::new(OsStr::from_bytes(key));
        match fs::symlink_metadata(path) {
            Ok(data) if data.is_file() => return false,
            // A link or a directory is another file.
            Ok(_) => {}
            Err(error) if is_absence(&error) => {}
            Err(error) => {
                self.unknown += 1;
                if self.unknown <= UNKNOWN_TOLD_MAX {
                    complain(format_args!("{}: {error}; kept", shown(path)));
                }
                return false;
            }
        }
        // The deepest directory of those that contain it.
        let place = self.unmounted.iter_mut().rev().find(|(place, _)| is_within(key, place));
        place.map(|(_, files)| *files += 1).is_none()
    }

    /// Prints what was kept, and returns whether anything was.
    fn report(&self) -> bool {
        let kept = self.unmounted.iter().filter(|(_, files)| *files > 0);
        for (place, files) in kept.clone() {
            complain(format_args!(
                "{}: the directory is missing or empty, as a drive that is not mounted is; {} kept; forget the path, or \
                 use --unmounted",
                shown(Path::new(OsStr::from_bytes(place))),
                counted(*files, "file")
            ));
        }
        if self.unknown > 0 {
            complain(format_args!("{} kept, because they cannot be examined", counted(self.unknown, "file")));
        }
        self.unknown > 0 || kept.count() > 0
    }
}

/// Returns whether an error says that there is no such file: also a link that leads to itself is none.
fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
        || error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

/// The files that would be forgotten.
#[derive(Default)]
struct Listed {
    files: u64,
    bytes: u64,
}

impl Listed {
    fn add(&mut self, file: &[u8], entry: &FileEntry, json: bool) -> anyhow::Result<()> {
        self.files += 1;
        self.bytes += entry.done_bytes;
        let mut out = stdout().lock();
        if json {
            let mut line = Map::new();
            insert_name(&mut line, "path", file);
            line.insert("bytes".to_owned(), entry.done_bytes.into());
            writeln!(out, "{}", Value::Object(line))?;
        } else {
            writeln!(out, "{}", Notation::Escaped.show(file))?;
        }
        Ok(())
    }

    fn print(&self, json: bool) -> anyhow::Result<()> {
        if !json {
            let files = counted(self.files, "file");
            complain(format_args!("would forget {files} of {} bytes; nothing was changed", self.bytes));
        }
        Ok(stdout().lock().flush()?)
    }
}

/// Returns the key of a file, of a directory, or of a stream.
fn key_of(path: &Path) -> anyhow::Result<Vec<u8>> {
    if path.as_os_str().as_bytes().starts_with(STREAM) {
        return Ok(path.as_os_str().as_bytes().to_vec());
    }
    Ok(resolved(path)?.into_os_string().as_bytes().to_vec())
}

/// Returns an absolute path, in whose part that exists the links are resolved.
pub fn resolved(path: &Path) -> anyhow::Result<PathBuf> {
    let path = std::path::absolute(path).with_context(|| format!("{}: not a path", shown(path)))?;
    let resolved = path.ancestors().find_map(|ancestor| Some((ancestor, fs::canonicalize(ancestor).ok()?)));
    let path = match resolved {
        Some((ancestor, resolved)) => match path.strip_prefix(ancestor) {
            Ok(rest) if !rest.as_os_str().is_empty() => resolved.join(rest),
            _ => resolved,
        },
        None => path,
    };
    Ok(path)
}

/// Returns whether a file is at or below a path.
fn is_within(file: &[u8], path: &[u8]) -> bool {
    match file.strip_prefix(path) {
        Some(rest) => rest.is_empty() || rest.starts_with(b"/") || path.ends_with(b"/"),
        None => false,
    }
}

fn print(before: &Totals, after: &Totals, json: bool) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    let chunks = before.unique_chunks - after.unique_chunks;
    let unique_bytes = before.unique_bytes - after.unique_bytes;
    if json {
        let line = json!({
            "files": before.files - after.files,
            "bytes": before.bytes - after.bytes,
            "unique_chunks": chunks,
            "unique_bytes": unique_bytes,
            "indexed": after,
        });
        writeln!(out, "{line}")?;
    } else {
        writeln!(
            out,
            "forgot {} of {} bytes, and {} of {unique_bytes} bytes that are in no other file",
            counted(before.files - after.files, "file"),
            before.bytes - after.bytes,
            counted(chunks, "chunk"),
        )?;
    }
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_contains_itself_and_what_is_below() {
        for (file, path, expected) in [
            ("/a/b", "/a", true),
            ("/a/b", "/a/b", true),
            ("/a/bc", "/a/b", false),
            ("/a", "/", true),
            ("/a", "/a/b", false),
            ("stream:a", "stream:a", true),
        ] {
            assert_eq!(is_within(file.as_bytes(), path.as_bytes()), expected, "{file} {path}");
        }
    }

    #[test]
    fn the_existing_part_of_a_path_is_resolved() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        fs::create_dir(root.join("real")).unwrap();
        std::os::unix::fs::symlink(root.join("real"), root.join("link")).unwrap();
        let key = |path: &str| PathBuf::from(OsStr::from_bytes(&key_of(&root.join(path)).unwrap()));
        assert_eq!(key("link/gone/file"), root.join("real/gone/file"));
        assert_eq!(key("link"), root.join("real"));
    }
}
