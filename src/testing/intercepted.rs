//! A directory whose calls can wait for other threads, fail or panic, each where a test wants it.

use crate::device::{Access, DirectoryBackend, FileBackend};
use crate::testing::Call;
use parking_lot::Mutex;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// What happens before a call with this file's name is passed on; an error is answered in its place. It may wait for
/// other threads, or panic.
type Hook = Arc<dyn Fn(Call, &str) -> io::Result<()> + Send + Sync>;

/// A directory before which a hook stands. Clones share it.
#[derive(Clone)]
pub struct Intercepted<D> {
    directory: D,
    hook: Arc<Mutex<Option<Hook>>>,
}

impl<D> Intercepted<D> {
    /// The directory, with no hook.
    pub fn new(directory: D) -> Self {
        Intercepted { directory, hook: Arc::default() }
    }

    /// Sets the hook, for files that are open too.
    pub fn set_hook(&self, hook: impl Fn(Call, &str) -> io::Result<()> + Send + Sync + 'static) {
        *self.hook.lock() = Some(Arc::new(hook));
    }

    fn file(&self, name: &str, file: Box<dyn FileBackend>) -> Box<dyn FileBackend> {
        Box::new(InterceptedFile { file, name: name.to_owned(), hook: self.hook.clone() })
    }
}

/// The hook is not locked while it runs: other threads may pass.
fn before(hook: &Mutex<Option<Hook>>, call: Call, name: &str) -> io::Result<()> {
    let hook = hook.lock().clone();
    hook.map_or(Ok(()), |hook| hook(call, name))
}

struct InterceptedFile {
    file: Box<dyn FileBackend>,
    name: String,
    hook: Arc<Mutex<Option<Hook>>>,
}

impl<D: DirectoryBackend> DirectoryBackend for Intercepted<D> {
    fn create(&self, name: &str, access: Access) -> io::Result<Box<dyn FileBackend>> {
        before(&self.hook, Call::Create, name)?;
        Ok(self.file(name, self.directory.create(name, access)?))
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Box<dyn FileBackend>> {
        Ok(self.file(name, self.directory.open(name, access)?))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.directory.list()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        before(&self.hook, Call::Remove, name)?;
        self.directory.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        before(&self.hook, Call::Rename, from)?;
        self.directory.rename(from, to)
    }

    fn sync(&self) -> io::Result<()> {
        before(&self.hook, Call::SyncDirectory, "")?;
        self.directory.sync()
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn Send + Sync>> {
        self.directory.lock(name)
    }

    fn share(&self, name: &str, target: &dyn DirectoryBackend) -> io::Result<()> {
        self.directory.share(name, target)
    }

    fn path(&self) -> PathBuf {
        self.directory.path()
    }
}

impl FileBackend for InterceptedFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        before(&self.hook, Call::Read, &self.name)?;
        self.file.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        before(&self.hook, Call::Write, &self.name)?;
        self.file.write_at(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        before(&self.hook, Call::Sync, &self.name)?;
        self.file.sync()
    }

    fn drop_cache(&self) {
        self.file.drop_cache();
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        before(&self.hook, Call::Truncate, &self.name)?;
        self.file.truncate(length)
    }

    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn alignment(&self) -> usize {
        self.file.alignment()
    }
}
