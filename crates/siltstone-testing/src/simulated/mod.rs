//! A directory on a simulated device that loses power, fails, returns wrong bytes and damages what is stored, as a seed
//! determines.
//!
//! The device keeps what was written apart from what was synced. After a kill of the process all that was written
//! remains. After a power loss what was synced remains, and a random part of the rest: sectors of 512 bytes, in any
//! order, and independently of them directory entries and file lengths.
//!
//! ```text
//! write x to sectors 0 and 1, sync, write y to sectors 0 and 1
//! after a kill: yy    after a power loss: xx, xy, yx or yy
//! ```

mod content;
mod crash;
mod damage;
mod disk;
mod faults;
mod pieces;
#[cfg(test)]
mod tests;

pub use crash::{Crash, Survival};
pub use damage::Damage;
pub use faults::{Call, FailingCall, Faults};
pub use pieces::ShuffledPieces;

use disk::{Disk, Inode};
use siltstone_device::sync::{Mutex, MutexGuard};
use siltstone_device::{
    Access, DirectoryBackend, DirectoryState, FileBackend, FileState, Hint, LOCK, LockMode, NameLocks,
    OpenMode, PieceExecutor,
};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The unit that a device writes completely or not at all, in bytes.
pub const SECTOR_BYTES: usize = 512;

/// A directory on a simulated device. Clones share it, so that a database can be opened again on what an earlier one
/// left.
#[derive(Clone)]
pub struct SimulatedDirectory {
    disk: Arc<Mutex<Disk>>,
    locks: NameLocks,
    direct_alignment: Option<usize>,
    /// Other directories by their paths, each on a device of its own.
    others: Arc<Mutex<BTreeMap<PathBuf, SimulatedDirectory>>>,
}

impl SimulatedDirectory {
    /// Creates an empty directory on a device without faults. Direct files have an alignment of 512 bytes.
    pub fn new(seed: u64) -> Self {
        SimulatedDirectory::over(Disk::new(seed), Some(SECTOR_BYTES))
    }

    fn over(disk: Disk, direct_alignment: Option<usize>) -> Self {
        SimulatedDirectory {
            disk: Arc::new(Mutex::new(disk)),
            locks: NameLocks::default(),
            direct_alignment,
            others: Arc::default(),
        }
    }

    /// Gives direct files another alignment, in bytes, or with `None` refuses direct I/O.
    pub fn direct_alignment(mut self, alignment: Option<usize>) -> Self {
        self.direct_alignment = alignment;
        self
    }

    /// Sets the faults from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.others().iter().for_each(|other| other.set_faults(faults.clone()));
        self.disk.lock().faults = faults;
    }

    /// Makes a call fail from now on, or with `None` no call.
    pub fn set_failing_call(&self, failing: Option<FailingCall>) {
        self.disk.lock().failing_call = failing;
    }

    /// Lets the power fail at the `operations`-th change from now on (1 is the next one). That change takes
    /// effect in part, and every later call fails. [`crash`](SimulatedDirectory::crash) then returns what is
    /// left. If there are other directories, it may be the power of one of them. `u64::MAX` is never, for all of them.
    pub fn power_off_after(&self, operations: u64) {
        if operations == u64::MAX {
            self.others().iter().for_each(|other| other.power_off_after(operations));
        }
        match self.others().first().filter(|_| operations.is_multiple_of(2)) {
            Some(other) => other.power_off_after(operations / 2),
            None => self.disk.lock().power_off_after(operations),
        }
    }

    /// Returns whether the power has failed.
    pub fn is_off(&self) -> bool {
        self.disk.lock().is_off() || self.others().iter().any(SimulatedDirectory::is_off)
    }

    /// Returns the number of changes so far: writes, truncations, syncs, and changes of the directory.
    pub fn changes(&self) -> u64 {
        self.disk.lock().changes()
    }

    /// Returns the number of faults so far, of those in [`Faults`].
    pub fn fault_count(&self) -> u64 {
        self.disk.lock().fault_count() + self.sum(SimulatedDirectory::fault_count)
    }

    /// Returns the number of failed syncs of files: these can lose what was written before.
    pub fn failed_syncs(&self) -> u64 {
        self.disk.lock().failed_syncs() + self.sum(SimulatedDirectory::failed_syncs)
    }

    /// Returns the number of failed changes. After one of them nothing more may be acknowledged.
    pub fn failed_changes(&self) -> u64 {
        self.disk.lock().failed_changes() + self.sum(SimulatedDirectory::failed_changes)
    }

    /// Returns the sum of the lengths of all files of the directory, in bytes.
    pub fn named_bytes(&self) -> u64 {
        self.disk.lock().named_bytes() + self.sum(SimulatedDirectory::named_bytes)
    }

    /// Returns the simulated time of all operations, in nanoseconds.
    pub fn elapsed_ns(&self) -> u64 {
        self.disk.lock().elapsed_ns()
    }

    /// Ends all processes on the device, and returns the directory as the next process finds it, without faults. Calls
    /// on the old directory return errors.
    ///
    /// Other directories lose their power or not, whatever happens to this one.
    pub fn crash(&self, crash: Crash, random: &mut fastrand::Rng) -> SimulatedDirectory {
        let disk = self.disk.lock().crash(crash, random);
        let crashed = SimulatedDirectory::over(disk, self.direct_alignment);
        for (path, other) in &*self.others.lock() {
            let crash = Crash::random(random);
            crashed.others.lock().insert(path.clone(), other.crash(crash, random));
        }
        crashed
    }

    fn others(&self) -> Vec<SimulatedDirectory> {
        self.others.lock().values().cloned().collect()
    }

    /// Returns the sum of a count of the other directories.
    fn sum(&self, count: impl Fn(&SimulatedDirectory) -> u64) -> u64 {
        self.others().iter().map(count).sum()
    }

    /// Removes another directory, as if its device were not there.
    pub fn detach(&self, path: &Path) -> Option<SimulatedDirectory> {
        self.others.lock().remove(path)
    }

    /// Adds another directory.
    pub fn attach(&self, path: &Path, other: SimulatedDirectory) {
        self.others.lock().insert(path.to_owned(), other);
    }

    /// Returns a copy of the files as they are now, synced or not, on another device.
    pub fn crash_image(&self) -> SimulatedDirectory {
        let image = SimulatedDirectory::over(self.disk.lock().restarted(0), self.direct_alignment);
        for (path, other) in &*self.others.lock() {
            image.others.lock().insert(path.clone(), other.crash_image());
        }
        image
    }

    /// Returns the names of all files, sorted.
    ///
    /// # Errors
    /// If the power has failed.
    pub fn names(&self) -> io::Result<Vec<String>> {
        self.disk.lock().list()
    }

    /// Removes a file.
    ///
    /// # Errors
    /// `NotFound` if there is no such file.
    pub fn remove_name(&self, name: &str) -> io::Result<()> {
        self.disk.lock().remove(name)
    }

    /// Damages a file at rest. Returns whether any byte of it changed.
    ///
    /// # Errors
    /// `NotFound` if there is no such file.
    pub fn damage(&self, name: &str, damage: Damage) -> io::Result<bool> {
        self.disk.lock().damage(name, damage)
    }

    /// Damages a random file of the directory, and returns its name and the damage; `None` if all files are empty.
    pub fn damage_at_random(&self, random: &mut fastrand::Rng) -> Option<(String, Damage)> {
        self.disk.lock().damage_at_random(random)
    }

    fn alignment(&self, access: Access) -> io::Result<usize> {
        match self.direct_alignment {
            Some(alignment) if access.is_direct() => Ok(alignment),
            None if access == Access::Direct => Err(ErrorKind::Unsupported.into()),
            _ => Ok(1),
        }
    }

    fn file(&self, inode: Inode, alignment: usize) -> Box<dyn FileBackend> {
        Box::new(SimulatedFile { disk: self.disk.clone(), inode, alignment })
    }
}

impl DirectoryBackend for SimulatedDirectory {
    fn open(&self, name: &str, access: Access, mode: OpenMode) -> io::Result<Box<dyn FileBackend>> {
        let alignment = self.alignment(access)?;
        let inode = match mode {
            OpenMode::Existing => self.disk.lock().open(name)?,
            OpenMode::New => self.disk.lock().create(name)?,
        };
        Ok(self.file(inode, alignment))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.lock().list()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.lock().remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.lock().rename(from, to)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.lock().sync_directory()
    }

    fn lock(&self, name: &str, mode: LockMode) -> io::Result<Box<dyn Send + Sync>> {
        let disk = self.disk.lock();
        disk.check_power()?;
        if name != LOCK {
            disk.find(name)?;
        }
        self.locks.take(name, mode)
    }

    /// The number of the run differs after a power loss.
    fn state(&self) -> io::Result<DirectoryState> {
        let disk = self.disk.lock();
        Ok(DirectoryState { free_bytes: disk.free_bytes(), system_run: Some(u128::from(disk.run()) + 1) })
    }

    /// Pieces of direct files are executed late, in a random order, and some of them only in part.
    fn executor(&self) -> Option<Box<dyn PieceExecutor>> {
        Some(Box::new(ShuffledPieces::new(self.disk.lock().seed())))
    }

    /// A new directory has no faults, as one that exists before the run.
    fn other(&self, path: &Path, create: bool) -> io::Result<Box<dyn DirectoryBackend>> {
        self.disk.lock().check_power()?;
        let mut others = self.others.lock();
        if create && !others.contains_key(path) {
            let seed = self.disk.lock().seed();
            let other = SimulatedDirectory::new(seed).direct_alignment(self.direct_alignment);
            others.insert(path.to_owned(), other);
        }
        Ok(Box::new(others.get(path).cloned().ok_or(ErrorKind::NotFound)?))
    }

    fn path(&self) -> PathBuf {
        PathBuf::from("simulated")
    }
}

struct SimulatedFile {
    disk: Arc<Mutex<Disk>>,
    inode: Inode,
    alignment: usize,
}

impl SimulatedFile {
    /// Returns the disk, for an access with the alignment of the file.
    fn aligned(&self, offset: u64, buffer: &[u8]) -> io::Result<MutexGuard<'_, Disk>> {
        let whole = offset.is_multiple_of(self.alignment as u64)
            && buffer.len().is_multiple_of(self.alignment)
            && buffer.as_ptr().addr().is_multiple_of(self.alignment.min(4096));
        if whole { Ok(self.disk.lock()) } else { Err(ErrorKind::InvalidInput.into()) }
    }
}

impl Drop for SimulatedFile {
    fn drop(&mut self) {
        self.disk.lock().close(self.inode);
    }
}

impl FileBackend for SimulatedFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.aligned(offset, buffer)?.read(self.inode, offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.aligned(offset, bytes)?.write(self.inode, offset, bytes)
    }

    fn append_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut disk = self.aligned(offset, bytes)?;
        disk.reserve(self.inode, offset, bytes.len())?;
        disk.write(self.inode, offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.lock().sync(self.inode)
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.disk.lock().truncate(self.inode, length)
    }

    fn state(&self) -> io::Result<FileState> {
        self.disk.lock().state(self.inode)
    }

    fn hint(&self, hint: Hint) {
        if hint == Hint::DropCache {
            self.disk.lock().drop_cache(self.inode);
        }
    }

    fn alignment(&self) -> usize {
        self.alignment
    }
}
