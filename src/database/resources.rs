//! What many databases share: threads for background work, and shares of memory and of open files.

use crate::error::{Error, Result};
use siltstone_device::process_mark;
use siltstone_device::sync::{Condvar, Mutex};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The maximum number of threads for background work.
const THREADS_MAX: usize = 256;

/// The longest sleep of a thread without a database that has work.
const PATIENCE: Duration = Duration::from_millis(50);

/// Threads, memory and open files that a number of databases share: [`Builder::resources`](crate::Builder::resources).
///
/// A program with a hundred databases has two hundred threads otherwise. Clones are handles of the same threads, which
/// end when the last handle is dropped and the last database is closed.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// use siltstone::{Database, Resources};
///
/// // Four threads for up to 100 databases, each with a hundredth of 1 GiB.
/// let resources = Resources::new(100, 4)?.memory_budget(1 << 30);
/// let open = |name: &str| Database::builder(directory.path().join(name)).resources(&resources).open();
/// let (users, orders) = (open("users")?, open("orders")?);
/// users.put("key", "value")?;
/// orders.put("key", "value")?;
/// # Ok::<(), siltstone::Error>(())
/// ```
#[derive(Clone)]
pub struct Resources {
    pub(super) pool: Arc<Pool>,
    memory_budget: Option<u64>,
    open_files_max: Option<u64>,
}

impl Resources {
    /// Starts 1 to 256 threads for the background work of at most this many databases that are open at the same time.
    ///
    /// # Errors
    /// [`Error::Setting`] if there are no databases, or not 1 to 256 threads; [`Error::Io`] if a thread cannot be
    /// started.
    pub fn new(databases: usize, threads: usize) -> Result<Resources> {
        for (name, number) in [("databases", databases), ("threads", threads)] {
            if number == 0 {
                let problem = "there must be at least one".into();
                return Err(Error::Setting { name, problem });
            }
        }
        check_threads("threads", threads)?;
        let pool = Arc::new(Pool::start(databases, threads)?);
        Ok(Resources { pool, memory_budget: None, open_files_max: None })
    }

    /// Limits the memory of all databases together, in bytes. Each has an equal share of it as its [memory
    /// budget](crate::Builder::memory_budget) when it is opened. Default: no limit.
    pub fn memory_budget(mut self, bytes: u64) -> Self {
        self.memory_budget = Some(bytes);
        self
    }

    /// Limits the open files of all databases together. Each has an equal share of it, at least 64, as its [maximum of
    /// open files](crate::Builder::open_files_max). Default: no limit but that of the process.
    pub fn open_files_max(mut self, files: u64) -> Self {
        self.open_files_max = Some(files);
        self
    }

    /// Returns the number of threads.
    pub(super) fn threads(&self) -> usize {
        self.pool.thread_count
    }

    /// Returns the shares of a database: bytes of memory, and open files.
    pub(super) fn shares(&self) -> (Option<u64>, Option<u64>) {
        let share = |all: u64| all / self.pool.databases as u64;
        (self.memory_budget.map(share), self.open_files_max.map(share))
    }
}

/// Checks a number of threads. More would not make background work faster, and a system that cannot start them may end
/// the process.
pub(super) fn check_threads(name: &'static str, threads: usize) -> Result<()> {
    if threads <= THREADS_MAX {
        return Ok(());
    }
    let problem = format!("{threads} threads are more than {THREADS_MAX}; use about one per processor");
    Err(Error::Setting { name, problem })
}

impl fmt::Debug for Resources {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = to.debug_struct("Resources");
        fields.field("databases", &self.pool.databases).field("threads", &self.pool.thread_count);
        fields
            .field("memory_budget", &self.memory_budget)
            .field("open_files_max", &self.open_files_max)
            .finish()
    }
}

/// What a thread does after a turn.
pub(super) enum Turn {
    /// The database may have more work.
    Worked,
    /// The database has no turn for this long, unless it is woken.
    Rest(Duration),
}

/// A database whose background work the pool does.
pub(super) trait Member: Send + Sync {
    /// Does one piece of work.
    fn turn(&self) -> Turn;
}

/// Threads that give each of several databases its turn.
pub(super) struct Pool {
    databases: usize,
    pub thread_count: usize,
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// The process that started the threads.
    mark: u64,
}

#[derive(Default)]
struct Shared {
    members: Mutex<Members>,
    /// The member with the next turn, of several threads.
    next: AtomicUsize,
    stopping: AtomicBool,
    sleep: Mutex<Sleep>,
    work: Condvar,
}

#[derive(Default)]
struct Members {
    list: Arc<Vec<(u64, Arc<dyn Member>)>>,
    next_id: u64,
}

#[derive(Default)]
struct Sleep {
    sleepers: usize,
    /// Changes when a member is woken. A thread sleeps only if nothing was woken since it looked for work.
    wakes: u64,
}

impl Pool {
    fn start(databases: usize, thread_count: usize) -> Result<Pool> {
        let shared = Arc::<Shared>::default();
        let pool = Pool { databases, thread_count, shared, threads: Mutex::default(), mark: process_mark() };
        for number in 0..thread_count {
            let shared = pool.shared.clone();
            let thread = thread::Builder::new().name(format!("siltstone-all-{number}"));
            let handle = thread.spawn(move || shared.run());
            // An error drops the pool, which ends the threads that were started.
            pool.threads.lock().push(handle.map_err(Error::io("start", "a worker thread"))?);
        }
        Ok(pool)
    }

    /// Adds a database, and returns the number by which it is removed.
    pub fn add(&self, member: Arc<dyn Member>) -> Result<u64> {
        let mut members = self.shared.members.lock();
        if members.list.len() >= self.databases {
            let problem = format!("they are for {} databases, and as many are open", self.databases);
            return Err(Error::Setting { name: "resources", problem });
        }
        let id = members.next_id;
        members.next_id += 1;
        // Copies the list if a thread is working through it.
        Arc::make_mut(&mut members.list).push((id, member));
        Ok(id)
    }

    /// Removes a database. A turn of it may still be in progress.
    pub fn remove(&self, id: u64) {
        Arc::make_mut(&mut self.shared.members.lock().list).retain(|(other, _)| *other != id);
    }

    /// Wakes a sleeping thread, or all.
    pub fn wake(&self, all: bool) {
        let mut sleep = self.shared.sleep.lock();
        // Also without a sleeper: a thread that is looking for work compares this before it sleeps.
        sleep.wakes += 1;
        match all {
            _ if sleep.sleepers == 0 => {}
            true => self.shared.work.notify_all(),
            false => self.shared.work.notify_one(),
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.mark != process_mark() {
            // The threads are those of the process that was forked.
            std::mem::take(self.threads.get_mut()).into_iter().for_each(std::mem::forget);
            return;
        }
        // Before the wake: a thread that is about to sleep checks this under the lock that `wake` takes.
        self.shared.stopping.store(true, Relaxed);
        self.wake(true);
        for thread in self.threads.get_mut().drain(..) {
            // A thread of the pool may be the last to drop a database, and of the pool with it.
            if thread.thread().id() != thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

impl Shared {
    fn run(&self) {
        while !self.stopping.load(Relaxed) {
            // Before the members have their turns: if one is woken after its turn, this thread does not sleep.
            let wakes = self.sleep.lock().wakes;
            // A handle of the list, so that `add` and `remove` need not wait for a turn.
            let members = self.members.lock().list.clone();
            // Each thread begins with another member, so that none is always the last.
            let first = self.next.fetch_add(1, Relaxed);
            let (mut worked, mut rest) = (false, PATIENCE);
            for at in 0..members.len() {
                // Before each turn, because a turn may take long.
                if self.stopping.load(Relaxed) {
                    return;
                }
                let (_, member) = &members[(first + at) % members.len()];
                match member.turn() {
                    Turn::Worked => worked = true,
                    Turn::Rest(time) => rest = rest.min(time),
                }
            }
            // A thread that sleeps must not keep the engine of a closed database.
            drop(members);
            let mut sleep = self.sleep.lock();
            if !worked && sleep.wakes == wakes && !self.stopping.load(Relaxed) {
                sleep.sleepers += 1;
                self.work.wait_for(sleep, rest);
                self.sleep.lock().sleepers -= 1;
            }
        }
    }
}
