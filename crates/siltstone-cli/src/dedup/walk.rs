//! Finds the files.

use anyhow::{Context, anyhow};
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use walkdir::{DirEntry, WalkDir};

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
    /// A file to read, with its current size in bytes.
    File(PathBuf, u64),
    /// An unreadable entry, with the error.
    Unreadable(PathBuf, anyhow::Error),
}

/// Returns all regular files below the roots, ordered by name, except those in or below `without`. Links are not
/// followed; sockets and other special files are skipped.
pub fn files<'a>(roots: &'a [PathBuf], without: &'a [PathBuf]) -> impl Iterator<Item = Found> + 'a {
    roots.iter().flat_map(move |root| {
        let walk = WalkDir::new(root).sort_by_file_name().into_iter();
        walk.filter_entry(move |entry| without.iter().all(|path| entry.path() != path))
            .filter_map(move |entry| found(root, entry))
    })
}

fn found(root: &Path, entry: walkdir::Result<DirEntry>) -> Option<Found> {
    match entry {
        Ok(entry) if !entry.file_type().is_file() => None,
        Ok(entry) => Some(match entry.metadata() {
            Ok(metadata) => Found::File(entry.into_path(), metadata.len()),
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

/// Returns the times at which the contents and the attributes last changed, in nanoseconds since the Unix epoch.
pub fn change_times_ns(metadata: &Metadata) -> (i64, i64) {
    use std::os::unix::fs::MetadataExt;
    let nanoseconds = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
    (
        nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
        nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn every_file_is_found_once_and_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().canonicalize().unwrap().join(name);
        for name in ["b/c", "a", "b/index/chunk", "b-file"] {
            fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            fs::write(path(name), name).unwrap();
        }
        std::os::unix::fs::symlink(path("a"), path("b/link")).unwrap();
        let paths = [path("b/c"), path("."), path("b"), path("b-file")];
        let roots = roots(&paths).unwrap();
        let names: Vec<PathBuf> = files(&roots, &[path("b/index")])
            .map(|found| match found {
                Found::File(path, size) if size > 0 => path,
                _ => panic!("all files can be read"),
            })
            .collect();
        assert_eq!(names, [path("a"), path("b/c"), path("b-file")]);
    }

    #[test]
    fn a_missing_path_is_named() {
        let error = roots(&["/no/such/path".into()]).unwrap_err();
        assert!(format!("{error:#}").contains("/no/such/path"));
    }
}
