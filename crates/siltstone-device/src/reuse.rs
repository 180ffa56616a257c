//! Removing open files: their space is reused or freed in steps.
//!
//! A merged store is *retired*, and a new store of about its length is written over it:
//!
//! 1. The retired file keeps its name. When no view or snapshot has it any more, it is a spare.
//! 2. A new store takes a spare, unless a checkpoint has a link to it, or a process was forked since it was opened.
//! 3. The spare gets the name of the new store, and is written from the start. The old bytes cannot be taken for new
//!    ones: blocks and footers are checked with the tag of their store, and an incomplete store is in no manifest.
//! 4. What the old file has more is cut off before the new store is synced.
//!
//! As many bytes of retired files are kept as the last merge has retired. The rest is freed, and all of it once nothing
//! more is written. A database that is closed has none. After a crash their names are those of stores that are not in
//! the manifest, which the next open removes.

use super::removal::Removed;
use super::{Directory, File, FileState};
use crate::error::{Error, Result};
use std::sync::atomic::Ordering::Relaxed;

/// With less free space than this many times what can be freed, all of that is freed at once.
const FREE_PER_UNFREED: u64 = 8;

impl Directory {
    /// Removes a file of this name that is open as `file`. When `file` is dropped, [`free_removed`](Self::free_removed)
    /// frees its space in steps. Until then it may be read; nothing may read it through another handle after that.
    pub fn remove_open(&self, name: &str, file: &File) -> Result<()> {
        self.remove(name)?;
        // A file is removed once.
        let _ = file.removed.set(Removed::Nameless);
        Ok(())
    }

    /// Removes open files as [`remove_open`](Self::remove_open) does, but keeps the names of those that nothing else
    /// refers to, until [`create_over_retired`](Self::create_over_retired) writes over them or
    /// [`free_removed`](Self::free_removed) frees them. Of all retired files without readers, at most as many bytes are
    /// kept as these have. A crash leaves their names.
    pub fn retire<'a>(&self, files: impl IntoIterator<Item = (String, &'a File)>) -> Result<()> {
        let mut bytes = 0;
        for (name, file) in files {
            // A checkpoint or a forked child may read its bytes, so they are not written over.
            let FileState { length, names } = file.state()?;
            if names != Some(1) {
                self.remove_open(&name, file)?;
                continue;
            }
            bytes += length;
            let _ = file.removed.set(self.shared.removals.keep(name, length));
        }
        self.shared.removals.limit(bytes);
        Ok(())
    }

    /// Creates a file of the directory's access for about `expected_bytes`. If a [retired](Self::retire) file of about
    /// that length has no readers any more, the new file has its space and, until [`end_writing`](File::end_writing),
    /// its bytes. To write over them takes the drive less than to free the space and to write elsewhere.
    pub fn create_over_retired(&self, name: &str, expected_bytes: u64) -> Result<File> {
        let taken =
            self.shared.removals.take(expected_bytes).map_err(Error::io("create", self.path_of(name)))?;
        let Some(spare) = taken else { return self.create(name, self.access()) };
        let mut file = self.file(name, spare.file);
        file.reused_bytes = spare.bytes.into();
        // From here until the commit of the manifest a crash leaves a file that no manifest has. The next
        // open removes it.
        self.rename(&spare.name, name)?;
        Ok(file)
    }

    /// Removes the names of all retired files, before the directory is unlocked.
    pub fn remove_retired(&self) -> Result<()> {
        self.shared.removals.forget_names().keys().try_for_each(|name| self.remove(name))
    }

    /// Frees some space of removed files that are not read any more: at least as much as was written since the last
    /// call, in short steps. Frees [retired](Self::retire) files only if `is_idle`, and nothing was written since the
    /// last call with `is_idle`. Frees all of it at once if the file system is nearly full. Returns whether there was
    /// any.
    pub fn free_removed(&self, is_idle: bool) -> Result<bool> {
        let remove = |name: &str| self.backend.remove(name);
        let unfreed = self.unfreed_bytes();
        let is_short =
            unfreed > 0 && self.free_bytes()?.is_some_and(|free| free / FREE_PER_UNFREED < unfreed);
        let outcome = self.shared.removals.free(&self.shared.counters, is_idle, is_short, remove);
        outcome.map_err(Error::io("truncate", self.path_of("a removed file")))
    }

    /// Returns the space that [`free_removed`](Self::free_removed) can free, in bytes.
    pub fn unfreed_bytes(&self) -> u64 {
        self.shared.removals.bytes()
    }

    /// Returns the space of removed files, in bytes, except of those that only have readers and no names.
    pub fn removed_bytes(&self) -> u64 {
        self.shared.removals.bytes() + self.shared.removals.held_bytes()
    }
}

impl File {
    /// Ends the writing of a new file: it has `length` bytes. What a [reused](Directory::create_over_retired) file has
    /// more is freed in steps.
    pub fn end_writing(&self, length: u64) -> Result<()> {
        let reused_bytes = self.reused_bytes.swap(0, Relaxed);
        let mut left = reused_bytes;
        while left > length {
            left = left.saturating_sub(self.shared.removals.step_bytes(&self.shared.counters)).max(length);
            self.truncate(left)?;
        }
        self.shared.removals.end_reuse(reused_bytes);
        Ok(())
    }
}
