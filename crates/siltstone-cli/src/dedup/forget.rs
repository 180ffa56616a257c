//! `siltstone dedup forget`: removes files from an index, and the chunks that occur in no other file.

use super::formats::{FileEntry, Totals};
use super::index::{self, Index, STREAM};
use crate::interrupt::Interrupt;
use crate::outcome::{Outcome, Result, complain, help, wrong_usage};
use crate::progress::{Stopwatch, spinner};
use crate::quantity::{counted, parse_whole};
use anyhow::Context;
use clap::Args;
use serde_json::json;
use std::ffi::OsStr;
use std::fs;
use std::io::{ErrorKind, Write, stdout};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "
  siltstone dedup forget --db backup.index ~/src/old
  siltstone dedup forget --db backup.index --missing
  siltstone dedup forget --db backup.index --run 1 --run 2
  siltstone dedup forget --db backup.index stream:monday.tar";

/// Remove files from the index, and chunks that occur in no other file
///
/// Forgets files at or below each PATH, streams by their names, files that no longer exist, or the files of runs. A
/// file belongs to the last run that saw it, so the files of an earlier run are those that later runs did not see. The
/// space of the records becomes free with later merges, or at once with `siltstone compact`. Reads the whole catalogue.
///
/// Exits with 1 if the index has no file at or below one of the paths.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct ForgetArgs {
    /// Forget the files that this run was the last to see. Can be given several times
    #[arg(long, value_name = "NUMBER", value_parser = parse_whole::<u32>)]
    run: Vec<u32>,
    /// Forget files that no longer exist
    #[arg(long)]
    missing: bool,
    /// Files and directories, which may no longer exist, and streams, as `stream:NAME`
    #[arg(value_name = "PATH", required_unless_present_any = ["run", "missing"])]
    paths: Vec<PathBuf>,
}

pub fn run(args: &ForgetArgs, mut index: Index, interrupt: &Interrupt, json: bool) -> Result {
    if let Some(run) = args.run.iter().find(|run| !(1..=index.run()).contains(*run)) {
        let runs = counted(index.run().into(), "run");
        return Err(wrong_usage(format_args!("--run is {run}, but the index has {runs}, numbered from 1")));
    }
    let paths = args.paths.iter().map(|path| key_of(path)).collect::<anyhow::Result<Vec<_>>>()?;
    let mut found = vec![false; paths.len()];
    let (before, watch, bar) = (index.now(), Stopwatch::start(), spinner("forgetting"));
    for record in index.catalogue.clone().iter()? {
        if interrupt.is_raised() {
            break;
        }
        let record = record?;
        let Some(file) = index::file_of(&record.key) else { continue };
        let entry = FileEntry::decode(&record.value)?;
        let mut is_named = false;
        for (path, found) in paths.iter().zip(&mut found) {
            if is_within(file, path) {
                (is_named, *found) = (true, true);
            }
        }
        if is_named || args.run.contains(&entry.run) || args.missing && is_missing(file)? {
            index.forget(&record.key, &entry)?;
            index.commit_if_due()?;
        }
    }
    bar.finish_and_clear();
    let after = index.now();
    index.close()?;
    print(&before, &after, json)?;
    if watch.is_long() {
        complain(format_args!("done{watch}"));
    }
    Ok(match interrupt.is_raised() {
        true => Outcome::Interrupted,
        false if found.contains(&false) => Outcome::Negative,
        false => Outcome::Done,
    })
}

/// Returns the key of a file, of a directory, or of a stream. Links in the part of the path that exists are resolved.
fn key_of(path: &Path) -> anyhow::Result<Vec<u8>> {
    if path.as_os_str().as_bytes().starts_with(STREAM) {
        return Ok(path.as_os_str().as_bytes().to_vec());
    }
    let path = std::path::absolute(path).with_context(|| format!("{}: not a path", path.display()))?;
    let resolved = path.ancestors().find_map(|ancestor| Some((ancestor, fs::canonicalize(ancestor).ok()?)));
    let path = match resolved {
        Some((ancestor, resolved)) => match path.strip_prefix(ancestor) {
            Ok(rest) if !rest.as_os_str().is_empty() => resolved.join(rest),
            _ => resolved,
        },
        None => path,
    };
    Ok(path.into_os_string().as_bytes().to_vec())
}

/// Returns whether a file is at or below a path.
fn is_within(file: &[u8], path: &[u8]) -> bool {
    match file.strip_prefix(path) {
        Some(rest) => rest.is_empty() || rest.starts_with(b"/") || path.ends_with(b"/"),
        None => false,
    }
}

fn is_missing(key: &[u8]) -> anyhow::Result<bool> {
    if key.starts_with(STREAM) {
        return Ok(false);
    }
    let path = Path::new(OsStr::from_bytes(key));
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(false),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(true),
        Err(error) => Err(error).with_context(|| format!("cannot examine {}", path.display())),
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
