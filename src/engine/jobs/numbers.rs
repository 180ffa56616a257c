//! The numbers of new files.

use crate::error::{Error, Result};
use siltstone_device::Directory;
use std::collections::HashSet;

/// Returns the first number from `from` on that is not one of `taken`, the numbers of the files of a directory. Not the
/// one after all of them: a file that no manifest names may have any number, also the last one.
///
/// # Errors
/// [`Error::Corrupt`] if there is none.
pub(in crate::engine) fn free_number(directory: &Directory, from: u64, taken: &HashSet<u64>) -> Result<u64> {
    let free = (from..u64::MAX).find(|number| !taken.contains(number));
    free.ok_or_else(|| Error::Corrupt {
        file: directory.path(),
        offset: 0,
        expected: "a number for a new file".into(),
        got: format!("none from {from} on"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone_device::Access;
    use siltstone_device::memory::MemoryDirectory;

    #[test]
    fn a_new_file_gets_the_first_number_that_no_file_has_and_there_may_be_none() {
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        let taken = HashSet::from([3, 4, 7, u64::MAX - 1, u64::MAX]);
        let free = |from| free_number(&directory, from, &taken);
        assert_eq!([0, 3, 4, 5, 6].map(|from| free(from).unwrap()), [0, 5, 5, 5, 6]);
        assert_eq!(free(7).unwrap(), 8);
        assert!(
            [u64::MAX - 1, u64::MAX].iter().all(|&from| matches!(free(from), Err(Error::Corrupt { .. })))
        );
    }
}
