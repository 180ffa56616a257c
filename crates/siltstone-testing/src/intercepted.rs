//! A directory whose calls pass a hook, which can wait for other threads, panic, return an error, leave the call out,
//! or hide its error.

use crate::Call;
use siltstone_device::sync::Mutex;
use siltstone_device::{
    Access, DirectoryBackend, DirectoryState, FileBackend, FileState, Hint, LockMode, OpenMode,
};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Runs the intercepted call.
pub type Proceed<'a> = dyn FnMut() -> io::Result<()> + 'a;

/// Is given a call, the name of its file and the call itself, which it may run or not. What it returns is what the
/// caller gets.
type Hook = Arc<dyn Fn(Call, &str, &mut Proceed<'_>) -> io::Result<()> + Send + Sync>;

/// A directory with a hook around its calls. Clones share the hook.
#[derive(Clone)]
pub struct Intercepted<D> {
    directory: D,
    hook: SharedHook,
}

#[derive(Clone, Default)]
struct SharedHook(Arc<Mutex<Option<Hook>>>);

impl SharedHook {
    /// Calls the hook, which is not locked while it runs, so that other threads can pass.
    fn around(&self, call: Call, name: &str, proceed: &mut Proceed<'_>) -> io::Result<()> {
        let hook = self.0.lock().clone();
        match hook {
            Some(hook) => hook(call, name, proceed),
            None => proceed(),
        }
    }
}

impl<D> Intercepted<D> {
    /// Wraps the directory, without a hook.
    pub fn new(directory: D) -> Self {
        Intercepted { directory, hook: SharedHook::default() }
    }

    /// Sets a hook that runs before each call, also for files that are open. The call follows if the hook returns `Ok`.
    pub fn set_hook(&self, hook: impl Fn(Call, &str) -> io::Result<()> + Send + Sync + 'static) {
        self.set_hook_around(move |call, name, proceed| {
            hook(call, name)?;
            proceed()
        });
    }

    /// Sets a hook around each call, also for files that are open.
    pub fn set_hook_around(
        &self,
        hook: impl Fn(Call, &str, &mut Proceed<'_>) -> io::Result<()> + Send + Sync + 'static,
    ) {
        *self.hook.0.lock() = Some(Arc::new(hook));
    }

    fn file(&self, name: &str, file: Box<dyn FileBackend>) -> Box<dyn FileBackend> {
        Box::new(InterceptedFile { file, name: name.to_owned(), hook: self.hook.clone() })
    }
}

struct InterceptedFile {
    file: Box<dyn FileBackend>,
    name: String,
    hook: SharedHook,
}

impl<D: DirectoryBackend> DirectoryBackend for Intercepted<D> {
    fn open(&self, name: &str, access: Access, mode: OpenMode) -> io::Result<Box<dyn FileBackend>> {
        if mode == OpenMode::Existing {
            return Ok(self.file(name, self.directory.open(name, access, mode)?));
        }
        let mut created = None;
        self.hook.around(Call::Create, name, &mut || {
            created = Some(self.directory.open(name, access, mode)?);
            Ok(())
        })?;
        let file = created.ok_or_else(|| io::Error::other("the hook left out the creation of a file"))?;
        Ok(self.file(name, file))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.directory.list()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.hook.around(Call::Remove, name, &mut || self.directory.remove(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.hook.around(Call::Rename, from, &mut || self.directory.rename(from, to))
    }

    fn sync(&self) -> io::Result<()> {
        self.hook.around(Call::SyncDirectory, "", &mut || self.directory.sync())
    }

    fn lock(&self, name: &str, mode: LockMode) -> io::Result<Box<dyn Send + Sync>> {
        self.directory.lock(name, mode)
    }

    /// Returns the other directory without the hook.
    fn other(&self, path: &Path, create: bool) -> io::Result<Box<dyn DirectoryBackend>> {
        self.directory.other(path, create)
    }

    fn state(&self) -> io::Result<DirectoryState> {
        self.directory.state()
    }

    fn path(&self) -> PathBuf {
        self.directory.path()
    }
}

impl FileBackend for InterceptedFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut read = 0;
        self.hook.around(Call::Read, &self.name, &mut || {
            read = self.file.read_at(offset, buffer)?;
            Ok(())
        })?;
        Ok(read)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.hook.around(Call::Write, &self.name, &mut || self.file.write_at(offset, bytes))
    }

    fn sync(&self) -> io::Result<()> {
        self.hook.around(Call::Sync, &self.name, &mut || self.file.sync())
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.hook.around(Call::Truncate, &self.name, &mut || self.file.truncate(length))
    }

    fn state(&self) -> io::Result<FileState> {
        self.file.state()
    }

    fn hint(&self, hint: Hint) {
        if hint == Hint::DropCache {
            self.file.hint(hint);
        }
    }

    fn alignment(&self) -> usize {
        self.file.alignment()
    }
}
