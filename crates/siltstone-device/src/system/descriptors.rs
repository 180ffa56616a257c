//! Limits the number of open files of a directory.
//!
//! The first files, up to half of the limit, are *kept* open: using them has no overhead. Further files are *pooled*:
//! one that was not used recently is closed when another is needed (the CLOCK algorithm), and opened again when it is
//! used. A file that could not be opened again in the same state stays open: one with unsynced writes, because a write
//! error is reported only to those who have the file open, and one whose name was removed.

use super::{direct, open_at};
use crate::Access;
use crate::error::is_shortage;
use crate::sync::{Mutex, MutexGuard, RwLock};
use rustix::fs::{AtFlags, OFlags, unlinkat};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Deref;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// The open files of a directory.
pub(super) struct Descriptors {
    /// The directory.
    pub handle: File,
    state: Mutex<OpenFiles>,
}

struct OpenFiles {
    /// The maximum number of open files.
    max: u64,
    /// Whether `max` follows the limit of the process, which was not raised yet.
    may_raise: bool,
    kept: u64,
    pooled: Vec<Weak<Pooled>>,
    /// The number of pooled files that are open.
    open: u64,
    /// The clock hand: the next pooled file to be considered for closing.
    hand: usize,
}

/// A file that is closed when others are needed.
pub(super) struct Pooled {
    name: Mutex<String>,
    flags: OFlags,
    identity: (u64, u64),
    is_direct: bool,
    file: RwLock<Option<Arc<File>>>,
    /// Whether it was used since the hand passed it.
    used: AtomicBool,
    unsynced: AtomicBool,
    removed: AtomicBool,
}

/// How a file gets its descriptor.
pub(super) enum Source {
    Kept(File),
    Pooled(Arc<Pooled>),
}

/// A file that stays open while this value exists.
pub(super) enum Opened<'a> {
    Kept(&'a File),
    Pooled(Arc<File>),
}

impl Deref for Opened<'_> {
    type Target = File;

    fn deref(&self) -> &File {
        match self {
            Opened::Kept(file) => file,
            Opened::Pooled(file) => file,
        }
    }
}

/// Returns how many files the process may have open, and how many after raising the limit.
pub(super) fn limits() -> (u64, u64) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    (current.unwrap_or(u64::MAX), maximum.unwrap_or(u64::MAX))
}

/// Raises the limit of the process as far as it may without a privilege.
fn raise_limit() -> u64 {
    let now = getrlimit(Resource::Nofile);
    if now.current != now.maximum {
        // Some systems refuse although they report a higher maximum. The limit is unchanged then.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: now.maximum, maximum: now.maximum });
    }
    limits().0
}

/// Returns the share of the process's limit that a database takes; the rest is for the program.
pub(super) fn share_of(limit: u64) -> u64 {
    limit / 4 * 3
}

impl Descriptors {
    pub fn new(handle: File) -> Descriptors {
        let max = share_of(limits().0);
        let state = OpenFiles { max, may_raise: true, kept: 0, pooled: Vec::new(), open: 0, hand: 0 };
        Descriptors { handle, state: Mutex::new(state) }
    }

    /// Limits the number of open files, as far as possible.
    pub fn limit(&self, max: u64) {
        if max > share_of(limits().0) {
            raise_limit();
        }
        let mut state = self.state.lock();
        (state.max, state.may_raise) = (max, false);
    }

    /// Returns the number of open files, and its limit.
    pub fn counts(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.kept + state.open, state.max)
    }

    /// Opens or creates a file, depending on the flags. Its alignment is 1 for access through the page cache.
    pub fn open(&self, name: &str, flags: OFlags, access: Access) -> io::Result<(Source, usize)> {
        // Held while the file is opened, so that the limit holds and no other thread renames the file.
        let mut state = self.state.lock();
        if state.kept >= state.max / 2 && state.may_raise {
            state.may_raise = false;
            state.max = share_of(raise_limit());
        }
        let is_kept = state.kept < state.max / 2;
        state.make_room();
        let file = self.open_or_evict(&mut state, name, flags)?;
        let alignment = align(&file, access).inspect_err(|_| {
            if flags.contains(OFlags::CREATE) {
                let _ = unlinkat(&self.handle, name, AtFlags::empty());
            }
        })?;
        if is_kept {
            state.kept += 1;
            return Ok((Source::Kept(file), alignment));
        }
        let metadata = file.metadata()?;
        let pooled = Arc::new(Pooled {
            name: Mutex::new(name.to_owned()),
            flags: flags.difference(OFlags::CREATE | OFlags::EXCL),
            identity: (metadata.dev(), metadata.ino()),
            is_direct: alignment > 1,
            file: RwLock::new(Some(Arc::new(file))),
            used: AtomicBool::new(true),
            // The directory entry of a new file counts as a write: it is synced with the first sync of the file.
            unsynced: AtomicBool::new(flags.contains(OFlags::CREATE)),
            removed: AtomicBool::new(false),
        });
        state.pooled.push(Arc::downgrade(&pooled));
        state.open += 1;
        Ok((Source::Pooled(pooled), alignment))
    }

    /// Opens a file. If the process or the system has no descriptors left, closes a pooled file and tries again.
    fn open_or_evict(
        &self,
        state: &mut MutexGuard<'_, OpenFiles>,
        name: &str,
        flags: OFlags,
    ) -> io::Result<File> {
        loop {
            match open_at(&self.handle, name, flags) {
                Err(error) if is_shortage(&error) && state.evict() => {}
                outcome => return outcome,
            }
        }
    }

    /// Returns the open file, and opens it if necessary. With `writes`, it then stays open until it is synced.
    pub fn file<'a>(&self, source: &'a Source, writes: bool) -> io::Result<Opened<'a>> {
        let pooled = match source {
            Source::Kept(file) => return Ok(Opened::Kept(file)),
            Source::Pooled(pooled) => pooled,
        };
        {
            let file = pooled.file.read();
            // Under the lock, so that the file is not closed in between.
            if writes {
                pooled.unsynced.store(true, Ordering::Relaxed);
            }
            if let Some(file) = &*file {
                if !pooled.used.load(Ordering::Relaxed) {
                    pooled.used.store(true, Ordering::Relaxed);
                }
                return Ok(Opened::Pooled(file.clone()));
            }
        }
        Ok(Opened::Pooled(self.reopen(&mut self.state.lock(), pooled)?))
    }

    /// Opens a pooled file again. Names change only under the same lock, so `name` is the present name of this file.
    fn reopen(&self, state: &mut MutexGuard<'_, OpenFiles>, pooled: &Pooled) -> io::Result<Arc<File>> {
        // Another thread may have opened it before this one had the lock of the state.
        if let Some(file) = &*pooled.file.read() {
            return Ok(file.clone());
        }
        state.make_room();
        let file = self.open_or_evict(state, &pooled.name.lock(), pooled.flags)?;
        let metadata = file.metadata()?;
        // A rename by another process could have put another file in its place.
        if (metadata.dev(), metadata.ino()) != pooled.identity {
            return Err(io::Error::new(ErrorKind::NotFound, "another file has taken its name"));
        }
        let access = if pooled.is_direct { Access::Direct } else { Access::Buffered };
        align(&file, access)?;
        let file = Arc::new(file);
        *pooled.file.write() = Some(file.clone());
        pooled.used.store(true, Ordering::Relaxed);
        state.open += 1;
        Ok(file)
    }

    /// Syncs the file; afterwards it may be closed.
    pub fn sync(&self, source: &Source) -> io::Result<()> {
        let file = self.file(source, false)?;
        let Source::Pooled(pooled) = source else { return file.sync_data() };
        // Before the sync, which does not cover writes that happen during it.
        pooled.unsynced.store(false, Ordering::Relaxed);
        file.sync_data().inspect_err(|_| pooled.unsynced.store(true, Ordering::Relaxed))
    }

    /// Removes a name; files that are open under it stay open.
    pub fn remove(&self, name: &str, unlink: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut state = self.state.lock();
        // Before the name is gone, by which a closed file is opened again.
        self.keep_open(&mut state, name)?;
        unlink()
    }

    /// Renames a file; open files that had the new name before stay open.
    pub fn rename(&self, from: &str, to: &str, rename: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut state = self.state.lock();
        // Before the old file loses its name: its readers keep it.
        self.keep_open(&mut state, to)?;
        rename()?;
        // Under the lock of the state, so that no thread opens it by its old name.
        for pooled in state.named(from) {
            to.clone_into(&mut pooled.name.lock());
        }
        Ok(())
    }

    fn keep_open(&self, state: &mut MutexGuard<'_, OpenFiles>, name: &str) -> io::Result<()> {
        for pooled in state.named(name) {
            self.reopen(state, &pooled)?;
            pooled.removed.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Removes a file that is no longer used.
    pub fn close(&self, source: &Source) {
        let mut state = self.state.lock();
        match source {
            Source::Kept(_) => state.kept -= 1,
            Source::Pooled(closed) => {
                state.open -= u64::from(closed.file.read().is_some());
                let closed = Arc::downgrade(closed);
                state.pooled.retain(|pooled| !pooled.ptr_eq(&closed));
            }
        }
    }
}

impl OpenFiles {
    /// Returns the pooled files with this name; several if it was opened several times.
    fn named(&self, name: &str) -> Vec<Arc<Pooled>> {
        let has_name =
            |pooled: &Arc<Pooled>| !pooled.removed.load(Ordering::Relaxed) && *pooled.name.lock() == name;
        self.pooled.iter().filter_map(Weak::upgrade).filter(has_name).collect()
    }

    /// Closes files until another one may be opened, as far as possible.
    fn make_room(&mut self) {
        while self.kept + self.open >= self.max && self.evict() {}
    }

    /// Closes a pooled file that was not used recently. Returns false if no file can be closed.
    fn evict(&mut self) -> bool {
        // Two rounds: the first may only clear the marks of use.
        for _ in 0..2 * self.pooled.len() {
            self.hand = (self.hand + 1) % self.pooled.len();
            let Some(pooled) = self.pooled[self.hand].upgrade() else { continue };
            // In use at this moment, so it is no candidate.
            let Some(mut file) = pooled.file.try_write() else { continue };
            let stays = pooled.unsynced.load(Ordering::Relaxed) || pooled.removed.load(Ordering::Relaxed);
            if file.is_some() && !stays && !pooled.used.swap(false, Ordering::Relaxed) {
                *file = None;
                self.open -= 1;
                return true;
            }
        }
        false
    }
}

/// Switches the file to direct I/O if requested, and returns its alignment, in bytes.
fn align(file: &File, access: Access) -> io::Result<usize> {
    match access {
        Access::Buffered => Ok(1),
        Access::Direct => direct::make_direct(file)?.ok_or_else(direct::refused),
        Access::DirectOrBuffered => Ok(direct::make_direct(file)?.unwrap_or(1)),
    }
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::super::tests::folder;
    use crate::batch::read_all;
    use crate::{Access, AlignedBuffer, Directory, File, Purpose, ReadRequest, SystemDirectory};
    use std::path::Path;

    const BYTES: usize = 8192;

    #[test]
    fn a_database_takes_three_quarters_of_the_files_that_the_process_may_have_open() {
        assert_eq!([0, 4, 1024, 1 << 20].map(super::share_of), [0, 3, 768, 3 << 18]);
        assert_eq!(crate::open_files_default(), super::share_of(super::limits().1));
        let folder = folder();
        let directory = Directory::new(SystemDirectory::open(folder.path()).unwrap(), Access::Buffered);
        let (open, max) = directory.open_files().unwrap();
        assert_eq!(open, 0);
        assert!([super::limits().0, super::limits().1].map(super::share_of).contains(&max));
    }

    #[test]
    fn a_shortage_has_the_codes_of_this_system() {
        use rustix::io::Errno;
        let is_shortage = |code: Errno| crate::error::is_shortage(&code.into());
        assert!(is_shortage(Errno::MFILE) && is_shortage(Errno::NFILE) && !is_shortage(Errno::NOSPC));
    }

    fn directory(path: &Path, max: u64) -> Directory {
        let directory = Directory::new(SystemDirectory::open(path).unwrap(), Access::Buffered);
        directory.limit_open_files(max);
        directory
    }

    /// Creates a file that is filled with its number, written and not synced.
    fn create(directory: &Directory, number: u8, access: Access) -> File {
        let file = directory.create(&number.to_string(), access).unwrap();
        file.write(Purpose::Log, 0, &aligned(number)).unwrap();
        file
    }

    fn aligned(number: u8) -> AlignedBuffer {
        let mut bytes = AlignedBuffer::default();
        bytes.extend_from_slice(&[number; BYTES]);
        bytes
    }

    fn check(file: &File, number: u8) {
        let mut buffer = AlignedBuffer::default();
        let bytes = file.read(Purpose::Get, 100, 5000, &mut buffer).unwrap();
        assert!(bytes.iter().all(|&byte| byte == number), "file {number}");
        assert_eq!(file.length().unwrap(), BYTES as u64);
    }

    /// Returns the number of descriptors that the process has for files of the directory, including removed ones.
    fn descriptors(path: &Path) -> usize {
        let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let targets = links.filter_map(|link| std::fs::read_link(link.path()).ok());
        targets.filter(|target| target.starts_with(path) && target != path).count()
    }

    #[test]
    fn more_files_than_may_be_open_are_read_as_if_all_were() {
        for access in [Access::Buffered, Access::DirectOrBuffered] {
            let folder = folder();
            let directory = directory(folder.path(), 10);
            let files: Vec<File> = (0..50)
                .map(|number| {
                    let file = create(&directory, number, access);
                    file.sync(Purpose::Log).unwrap();
                    file
                })
                .collect();
            assert!(descriptors(folder.path()) <= 10);
            assert_eq!(directory.open_files(), Some((descriptors(folder.path()) as u64, 10)));
            for _ in 0..3 {
                files.iter().zip(0..).for_each(|(file, number)| check(file, number));
                // Descriptors of a batch stay open while the system reads from them.
                let request =
                    |at: usize| ReadRequest { file: &files[at % 50], offset: 7 * at as u64, length: 300 };
                let requests: Vec<_> = (0..200).map(request).collect();
                for (at, read) in read_all(&requests).into_iter().enumerate() {
                    assert_eq!(read.unwrap(), [(at % 50) as u8; 300]);
                }
            }
            assert!(descriptors(folder.path()) <= 10);
            // A file that was closed can be written as before.
            files[30].write(Purpose::Log, 0, &aligned(30)).unwrap();
            drop(files);
            assert_eq!(directory.open_files(), Some((0, 10)));
        }
    }

    #[test]
    fn a_file_that_was_removed_or_replaced_can_still_be_read_by_its_users() {
        let folder = folder();
        let directory = directory(folder.path(), 8);
        let files: Vec<File> = (0..40).map(|number| create(&directory, number, Access::Buffered)).collect();
        files.iter().for_each(|file| file.sync(Purpose::Log).unwrap());
        files.iter().zip(0..).for_each(|(file, number)| check(file, number));
        for number in (0..20).map(|number: u8| number.to_string()) {
            directory.remove(&number).unwrap();
        }
        // 20 takes the name of 21, 22 an unused one; a new file takes the name of one that was removed.
        directory.rename("20", "21").unwrap();
        directory.rename("22", "renamed").unwrap();
        let second = create(&directory, 7, Access::Buffered);
        for _ in 0..2 {
            files.iter().zip(0..).for_each(|(file, number)| check(file, number));
            check(&second, 7);
        }
    }

    #[test]
    fn a_file_stays_open_until_its_writes_are_synced() {
        let folder = folder();
        let directory = directory(folder.path(), 8);
        let files: Vec<File> = (0..40).map(|number| create(&directory, number, Access::Buffered)).collect();
        assert_eq!(descriptors(folder.path()), 40);
        files.iter().for_each(|file| file.sync(Purpose::Log).unwrap());
        check(&directory.open("0", Access::Buffered).unwrap(), 0);
        assert!(descriptors(folder.path()) <= 8);
    }

    #[test]
    fn a_file_that_is_read_between_all_others_is_rarely_closed() {
        let folder = folder();
        let directory = directory(folder.path(), 20);
        let files: Vec<File> = (0..200).map(|number| create(&directory, number, Access::Buffered)).collect();
        files.iter().for_each(|file| file.sync(Purpose::Log).unwrap());
        let is_open = || {
            let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            let mut targets = links.filter_map(|link| std::fs::read_link(link.path()).ok());
            targets.any(|target| target == folder.path().join("100"))
        };
        // The first ten stay open. Of the others, ten are open at a time from the next open on.
        check(&directory.open("0", Access::Buffered).unwrap(), 0);
        let mut closed = 0;
        for number in (0..1_000).map(|step| 10 + step * 77 % 190) {
            check(&files[100], 100);
            check(&files[number], number as u8);
            closed += usize::from(!is_open());
        }
        assert!(closed < 4, "{closed}");
    }

    #[test]
    fn threads_share_a_few_descriptors() {
        let folder = folder();
        let directory = directory(folder.path(), 6);
        let files: Vec<File> = (0..30).map(|number| create(&directory, number, Access::Buffered)).collect();
        files.iter().for_each(|file| file.sync(Purpose::Log).unwrap());
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (files, directory) = (&files, &directory);
                scope.spawn(move || {
                    for round in 0..300 {
                        let number = (round * 7 + thread * 11) % 30;
                        check(&files[number], number as u8);
                        // Names are added and removed meanwhile.
                        let name = 100 + thread as u8;
                        let own = create(directory, name, Access::Buffered);
                        own.sync(Purpose::Log).unwrap();
                        directory.remove(&name.to_string()).unwrap();
                        check(&own, name);
                    }
                });
            }
        });
    }
}
