//! The files of a database in a directory.

use crate::error::Result;
use crate::names::{FileName, LogClass};
use siltstone_device::Directory;

/// Returns the files of a database in a directory, in the order of [`FileName`]: segments and stores by number.
pub(crate) fn list_files(directory: &Directory) -> Result<Vec<FileName>> {
    // Other files are not those of a database, and nothing removes them.
    let mut files: Vec<_> = directory.list()?.iter().filter_map(|name| FileName::parse(name)).collect();
    files.sort_unstable();
    Ok(files)
}

/// Returns the names of all files that may be those of an engine. Others may be there before the database: what a
/// truncation has not taken, or what a binding has written.
pub(crate) fn files_of_engine(directory: &Directory) -> Result<Vec<String>> {
    let mut names = directory.list()?;
    names.retain(|name| FileName::parse(name).is_some());
    Ok(names)
}

/// Returns the positions of the first frames of all segments of the log of a class in a directory, ascending.
pub(crate) fn segment_bases(directory: &Directory, class: LogClass) -> Result<Vec<u64>> {
    Ok(list_files(directory)?.into_iter().filter_map(|name| name.segment_base(class)).collect())
}
