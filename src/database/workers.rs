//! The threads of an engine's background work, and the throttling of writers.
//!
//! Background work runs only as fast as writes require, so that lookups share the device with as little other work as
//! possible. After a step a thread rests. The further the engine is ahead, the longer it rests. While a caller waits
//! for all work to be done, threads do not rest.
//!
//! Throttling is gradual. As the engine's pressure rises from one half to one, each written byte incurs an increasing
//! delay, which is paid in sleeps of some milliseconds. A writer waits for a step to end only if the pressure rises
//! further.
//!
//!  ```text
//!  pressure  0 ........ 0.5 ........ 1 ........
//!  writers   run freely | sleep      | wait for a step
//!  ```

use super::changes::Feed;
use super::clock::Clock;
use super::lock::DirectoryLock;
use super::resources::{Member, Pool, Turn};
use super::usage::{UsageCounters, WriteCounts};
use crate::engine::{Background, Backpressure, Engine, Step};
use crate::error::{Error, Result};
use siltstone_device::sync::{Condvar, Mutex, RwLock, yield_now};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The pressure from which writers are delayed.
const PRESSURE_SLOW: f64 = 0.5;
/// The delay per written byte at a pressure of one, in nanoseconds: 4 MB/s.
const DELAY_NS_PER_BYTE_MAX: f64 = 250.0;
/// A written record incurs at least the delay of this many bytes.
const DELAY_BYTES_MIN: u64 = 64;
/// The shortest sleep: writes that owe less leave it to later ones. So fewer than a write of a thousand sleeps, while a
/// background thread gets more done in a long sleep than in many short ones.
const SLEEP_NS_MIN: u64 = 8_000_000;
/// The longest sleep of one write. The rest of its delay is left to later writes.
const SLEEP_NS_MAX: u64 = 16_000_000;
/// The longest rest of a thread, as a multiple of the step before.
const SLACK_MAX: f64 = 8.0;
/// The interval at which a waiting thread checks for work without being woken.
const PATIENCE: Duration = Duration::from_millis(50);
/// The interval at which threads of a pool look for work of a database that has none.
const IDLE_REST: Duration = Duration::from_secs(1);

/// The interval at which a caller without threads tries to continue work that is limited by its rate.
const LIMITED_PATIENCE: Duration = Duration::from_millis(1);

/// The body of a worker thread.
type Body = Box<dyn FnOnce() + Send>;

pub(super) struct Workers {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// The number of this database in a pool that it shares.
    member: Option<u64>,
    /// The bytes that may be put before the free space is measured again.
    space_credit: AtomicU64,
}

struct Shared {
    engine: Arc<dyn Engine>,
    lock: Arc<DirectoryLock>,
    clock: Clock,
    usage: Arc<UsageCounters>,
    feed: Option<Arc<Feed>>,
    threads: usize,
    /// The threads that other databases use as well. If there are none, those of [`Workers`].
    pool: Option<Arc<Pool>>,
    /// Held while a thread of the pool works for this database.
    turns: RwLock<()>,
    /// Until then threads of the pool do not work for this database.
    rests_until: Mutex<Option<Instant>>,
    stopping: AtomicBool,
    sleepers: Mutex<usize>,
    work: Condvar,
    /// The number of callers that wait for all work to be done.
    settling: AtomicUsize,
    progress: Mutex<Option<Error>>,
    progressed: Condvar,
    owed_ns: AtomicU64,
    delayed_writes: AtomicU64,
    delayed_ns: AtomicU64,
}

impl Workers {
    fn new(shared: Arc<Shared>, member: Option<u64>) -> Workers {
        Workers { shared, threads: Mutex::default(), member, space_credit: AtomicU64::new(0) }
    }

    /// Starts `threads` threads. Without threads, writers execute a step when the pressure reaches one.
    pub fn start(
        engine: Arc<dyn Engine>,
        lock: Arc<DirectoryLock>,
        clock: Clock,
        usage: Arc<UsageCounters>,
        feed: Option<Arc<Feed>>,
        threads: usize,
    ) -> Result<Workers> {
        Workers::start_with(engine, lock, clock, usage, feed, threads, |thread, body| thread.spawn(body))
    }

    /// Leaves the work to the threads of a pool.
    pub fn join(
        engine: Arc<dyn Engine>,
        lock: Arc<DirectoryLock>,
        clock: Clock,
        usage: Arc<UsageCounters>,
        feed: Option<Arc<Feed>>,
        pool: &Arc<Pool>,
    ) -> Result<Workers> {
        let shared =
            Arc::new(Shared::new(engine, lock, clock, usage, feed, pool.thread_count, Some(pool.clone())));
        let member = Some(pool.add(shared.clone())?);
        Ok(Workers::new(shared, member))
    }

    /// Like [`start`](Workers::start), with another function to start a thread.
    fn start_with(
        engine: Arc<dyn Engine>,
        lock: Arc<DirectoryLock>,
        clock: Clock,
        usage: Arc<UsageCounters>,
        feed: Option<Arc<Feed>>,
        threads: usize,
        mut spawn: impl FnMut(thread::Builder, Body) -> io::Result<JoinHandle<()>>,
    ) -> Result<Workers> {
        let shared = Arc::new(Shared::new(engine, lock, clock, usage, feed, threads, None));
        let workers = Workers::new(shared, None);
        for number in 0..threads {
            let shared = workers.shared.clone();
            let thread = thread::Builder::new().name(format!("siltstone-{number}"));
            match spawn(thread, Box::new(move || shared.run())) {
                Ok(handle) => workers.threads.lock().push(handle),
                Err(error) => {
                    // The started threads would continue to write after the directory is unlocked.
                    workers.stop();
                    return Err(Error::io("start", "a worker thread")(error));
                }
            }
        }
        Ok(workers)
    }

    /// Admits writes, possibly after a [delay](Self::delay), or after a [wait](Self::wait_for_space) for free space,
    /// which deletes do not need.
    pub fn admit(&self, counts: &WriteCounts) -> Result<()> {
        self.delay(counts.key_bytes + counts.value_bytes + counts.deleted_bytes)?;
        let bytes = counts.put_bytes();
        // Mostly one atomic operation: the space is measured when the credit is used up.
        if bytes == 0 || self.takes_credit(bytes) { Ok(()) } else { self.wait_for_space(bytes) }
    }

    /// Delays a write of this many bytes as the pressure of background work demands. Wakes a worker if earlier writes
    /// have left work; the work of the last write starts at the latest when the patience of a worker ends.
    pub fn delay(&self, bytes: u64) -> Result<()> {
        let Backpressure { pressure, wants_thread } = self.shared.engine.backpressure();
        if wants_thread && self.shared.threads > 0 {
            self.shared.wake_sleeper();
        }
        if pressure <= PRESSURE_SLOW { Ok(()) } else { self.shared.slow(pressure, bytes) }
    }

    /// Returns whether puts of this many bytes fit into what was free when the space was last measured.
    fn takes_credit(&self, bytes: u64) -> bool {
        let credit = &self.space_credit;
        credit.fetch_update(Relaxed, Relaxed, |credit| credit.checked_sub(bytes)).is_ok()
    }

    /// Returns an error if puts of this many bytes do not fit into the free space. Measures it only now and then.
    ///
    /// # Errors
    /// [`Error::NoSpace`].
    pub fn check_space(&self, bytes: u64) -> Result<()> {
        if self.takes_credit(bytes) {
            return Ok(());
        }
        let measured = self.shared.engine.check_space(bytes, 0);
        // After an error there is no credit, so the next put measures again.
        self.space_credit.store(*measured.as_ref().unwrap_or(&0), Relaxed);
        measured.map(drop)
    }

    /// Waits, while the file system has too little space for puts of this many bytes, for background work, which may
    /// free some.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if there is too little when the work is done.
    pub fn wait_for_space(&self, bytes: u64) -> Result<()> {
        let shared = &self.shared;
        let mut outcome = self.check_space(bytes);
        while matches!(outcome, Err(Error::NoSpace { .. })) && !shared.stopping.load(Relaxed) {
            // Before the space is measured again: work that ends in between may have freed some.
            let had_work = shared.engine.background().has_work;
            outcome = self.check_space(bytes);
            if !had_work || outcome.is_ok() {
                break;
            }
            // In a forked process no thread would ever finish the work.
            shared.lock.check_process()?;
            shared.wait_for_progress()?;
        }
        outcome
    }

    /// Wakes a sleeping worker.
    pub fn wake(&self) {
        if self.shared.threads > 0 && self.shared.engine.background().wants_thread {
            self.shared.wake_sleeper();
        }
    }

    /// Blocks until there is no background work left. Without worker threads, does the work itself. Returns an error if
    /// some of the work has failed for good.
    pub fn settle(&self) -> Result<()> {
        let shared = &self.shared;
        // Before the workers are woken: they would rest again.
        shared.settling.fetch_add(1, Relaxed);
        let outcome = self.work_off();
        shared.settling.fetch_sub(1, Relaxed);
        outcome
    }

    fn work_off(&self) -> Result<()> {
        let shared = &self.shared;
        if shared.engine.background().has_work {
            // Wakes the workers that rest between two steps.
            shared.wake_all();
        }
        while shared.engine.background().has_work {
            // Threads that stop do no more of it: this one does it, or finds the database closed.
            if shared.threads == 0 || shared.stopping.load(Relaxed) {
                shared.step_or_yield()?;
                continue;
            }
            self.wake();
            let progress = shared.progress.lock();
            if let Some(error) = &*progress {
                return Err(error.clone());
            }
            // Checked under the lock that a worker takes after each step, so the notification for the last one is not
            // missed.
            if shared.engine.background().has_work {
                shared.progressed.wait_for(progress, PATIENCE);
            }
        }
        // A failure also leaves no work, but not all of it was done.
        shared.engine.check_writable()
    }

    /// Returns the number of delayed writes and their total delay in nanoseconds.
    pub fn delayed(&self) -> (u64, u64) {
        (self.shared.delayed_writes.load(Relaxed), self.shared.delayed_ns.load(Relaxed))
    }

    /// Stops the threads after their current steps.
    pub fn stop(&self) {
        // Before the wake: a thread that is about to sleep checks this under the lock that `wake_all` takes.
        self.shared.stopping.store(true, Relaxed);
        self.shared.wake_all();
        for thread in self.threads.lock().drain(..) {
            // Panics were caught and have poisoned the engine.
            let _ = thread.join();
        }
        if let Some((pool, member)) = self.shared.pool.as_ref().zip(self.member) {
            // A thread of the pool may still have it in an older list; it finds `stopping` in its turn.
            pool.remove(member);
            // Waits for the turns in progress.
            drop(self.shared.turns.write());
        }
    }
}

impl Workers {
    /// Forgets the threads, which belong to another process.
    pub fn abandon(&mut self) {
        std::mem::forget(std::mem::take(self.threads.get_mut()));
    }
}

impl Shared {
    fn new(
        engine: Arc<dyn Engine>,
        lock: Arc<DirectoryLock>,
        clock: Clock,
        usage: Arc<UsageCounters>,
        feed: Option<Arc<Feed>>,
        threads: usize,
        pool: Option<Arc<Pool>>,
    ) -> Shared {
        Shared {
            engine,
            lock,
            clock,
            usage,
            feed,
            threads,
            pool,
            turns: RwLock::default(),
            rests_until: Mutex::default(),
            stopping: AtomicBool::new(false),
            sleepers: Mutex::new(0),
            settling: AtomicUsize::new(0),
            work: Condvar::default(),
            progress: Mutex::new(None),
            progressed: Condvar::default(),
            owed_ns: AtomicU64::new(0),
            delayed_writes: AtomicU64::new(0),
            delayed_ns: AtomicU64::new(0),
        }
    }

    fn run(&self) {
        // After a panic, the work of the thread is incomplete: writers must neither wait forever nor continue.
        if catch_unwind(AssertUnwindSafe(|| self.work_until_stopped())).is_err() {
            self.fail();
        }
    }

    /// Records that a thread panicked.
    fn fail(&self) {
        let cause = "a background thread panicked, which is a defect of siltstone".to_owned();
        // Before the waiting threads are woken: each then finds the engine failed.
        self.engine.poison(&cause);
        self.feed.iter().for_each(|feed| feed.give_up_if_failed(&*self.engine));
        *self.progress.lock() = Some(Error::Poisoned { cause });
        self.progressed.notify_all();
    }

    /// Executes a step.
    fn step(&self) -> Result<Step> {
        let outcome = self.engine.step(self.clock.now_ms());
        if let (Some(feed), Err(_)) = (&self.feed, &outcome) {
            feed.give_up_if_failed(&*self.engine);
        }
        outcome
    }

    /// Executes a step. Returns whether it worked, or `None` if it failed, and how long it took.
    fn work(&self) -> (Option<bool>, Duration) {
        let now_ms = self.clock.now_ms();
        if self.usage.is_due(now_ms) {
            self.usage.save(now_ms, || self.engine.approximate_len(now_ms));
        }
        let began = Instant::now();
        let outcome = self.step();
        let worked = outcome.as_ref().ok().map(|step| *step == Step::Worked);
        // Under the lock with which waiting callers check for work, so none misses the notification.
        *self.progress.lock() = outcome.err();
        self.progressed.notify_all();
        (worked, began.elapsed())
    }

    fn work_until_stopped(&self) {
        while !self.stopping.load(Relaxed) {
            let (worked, time) = self.work();
            // Only after work: a thread that found none sleeps until it is woken.
            if worked == Some(true) {
                self.rest(time);
            } else {
                // Work is looked for under this lock, which `wake_sleeper` takes: work that comes in between
                // wakes this thread.
                let mut sleepers = self.sleepers.lock();
                *sleepers += 1;
                // Another thread can do the remaining work.
                if worked.is_none()
                    || (!self.engine.background().wants_thread && !self.stopping.load(Relaxed))
                {
                    self.work.wait_for(sleepers, PATIENCE);
                    sleepers = self.sleepers.lock();
                }
                *sleepers -= 1;
            }
        }
    }

    /// Rests after a step, as long as the engine is ahead of the writes, or until it is woken.
    fn rest(&self, step: Duration) {
        let slack = self.engine.background().slack;
        if slack <= 0.0 {
            return;
        }
        let mut sleepers = self.sleepers.lock();
        // Under the lock that `wake_all` takes: what it was called for is seen here, or wakes this thread.
        if !self.stopping.load(Relaxed) && self.settling.load(Relaxed) == 0 {
            *sleepers += 1;
            self.work.wait_for(sleepers, step.mul_f64(slack.min(SLACK_MAX)).min(PATIENCE));
            *self.sleepers.lock() -= 1;
        }
    }

    fn wake_sleeper(&self) {
        if let Some(pool) = &self.pool {
            // Otherwise a thread of the pool would find the database at rest, and sleep again.
            *self.rests_until.lock() = None;
            return pool.wake(false);
        }
        if *self.sleepers.lock() > 0 {
            self.work.notify_one();
        }
    }

    fn wake_all(&self) {
        if let Some(pool) = &self.pool {
            // Otherwise the threads of the pool would find the database at rest, and sleep again.
            *self.rests_until.lock() = None;
            return pool.wake(true);
        }
        // A thread that decides to sleep holds this lock: it has seen why it is woken, or is notified.
        let _sleepers = self.sleepers.lock();
        self.work.notify_all();
    }

    /// Executes a step of the waiting work. If another thread has that work, yields to it; if the work is limited by
    /// its rate, waits a little.
    fn step_or_yield(&self) -> Result<()> {
        let locked = self.lock.to_work()?;
        let outcome = self.step()?;
        // Before the sleep: `close` waits for this lock.
        drop(locked);
        match outcome {
            Step::Idle if self.engine.background().is_limited => thread::sleep(LIMITED_PATIENCE),
            Step::Idle => yield_now(),
            _ => {}
        }
        Ok(())
    }

    fn slow(&self, mut pressure: f64, bytes: u64) -> Result<()> {
        // In a forked process no thread would ever finish the work.
        self.lock.check_process()?;
        let start = Instant::now();
        while pressure >= 1.0 && !self.stopping.load(Relaxed) {
            // After a failure no step works any more, and the pressure would never fall.
            self.engine.check_writable()?;
            self.wait_for_progress()?;
            pressure = self.engine.background().pressure;
        }
        let excess = ((pressure - PRESSURE_SLOW) / (1.0 - PRESSURE_SLOW)).clamp(0.0, 1.0);
        let owed = (bytes.max(DELAY_BYTES_MIN) as f64 * DELAY_NS_PER_BYTE_MAX * excess.powi(3)) as u64;
        // Without threads a sleep would give time to no other thread: this one has executed a step.
        if self.threads > 0 && self.owed_ns.fetch_add(owed, Relaxed) + owed >= SLEEP_NS_MIN {
            // All of it at once: another thread must not pay the same debt.
            let pay = self.owed_ns.swap(0, Relaxed).min(SLEEP_NS_MAX);
            let asleep = Instant::now();
            thread::sleep(Duration::from_nanos(pay));
            // A sleep takes longer than requested; the excess reduces later delays.
            let over = asleep.elapsed().as_nanos() as u64 - pay;
            let _ = self.owed_ns.fetch_update(Relaxed, Relaxed, |owed| Some(owed.saturating_sub(over)));
        }
        self.delayed_writes.fetch_add(1, Relaxed);
        let delay = start.elapsed();
        self.delayed_ns.fetch_add(delay.as_nanos() as u64, Relaxed);
        event!(trace, ?delay, pressure, "write delayed by background work");
        Ok(())
    }

    fn wait_for_progress(&self) -> Result<()> {
        if self.threads == 0 {
            return self.step_or_yield();
        }
        let progress = self.progress.lock();
        if let Some(error) = &*progress {
            return Err(error.clone());
        }
        if self.engine.background().wants_thread {
            match &self.pool {
                Some(_) => self.wake_sleeper(),
                None => self.work.notify_one(),
            }
        }
        self.progressed.wait_for(progress, PATIENCE);
        Ok(())
    }
}

impl Member for Shared {
    fn turn(&self) -> Turn {
        // Held for the whole turn, and before `stopping` is read: `stop` sets it and then waits for this lock.
        let _turn = self.turns.read();
        if self.stopping.load(Relaxed) {
            return Turn::Rest(PATIENCE);
        }
        let is_settling = || self.settling.load(Relaxed) > 0;
        let rest = self.rests_until.lock().map(|until| until.saturating_duration_since(Instant::now()));
        if let Some(rest) = rest.filter(|rest| !rest.is_zero() && !is_settling()) {
            return Turn::Rest(rest);
        }
        // A panic must not end a thread that other databases need.
        let Ok((worked, time)) = catch_unwind(AssertUnwindSafe(|| self.work())) else {
            self.fail();
            return Turn::Rest(PATIENCE);
        };
        let Background { has_work, slack, .. } = self.engine.background();
        let rest = match worked {
            Some(true) if slack <= 0.0 || is_settling() => return Turn::Worked,
            Some(true) => time.mul_f64(slack.min(SLACK_MAX)).min(PATIENCE),
            _ if has_work => PATIENCE,
            _ => IDLE_REST,
        };
        *self.rests_until.lock() = Some(Instant::now() + rest);
        Turn::Rest(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::CommonSettings;
    use crate::engine::{EngineKind, Opening};
    use siltstone_device::memory::MemoryDirectory;
    use siltstone_device::{Access, Directory};

    #[test]
    fn if_a_thread_cannot_be_started_the_others_are_stopped() {
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        let opening = Opening {
            directory,
            common: &CommonSettings::default(),
            create: true,
            seed: Some([1, 2]),
            now_ms: 0,
            disk: None,
            progress: &mut |_, _| true,
        };
        let engine = EngineKind::default().settings().open(opening).unwrap();
        let usage = Arc::new(UsageCounters::open(None, Default::default(), 0).unwrap());
        let mut started = 0;
        let spawn = |thread: thread::Builder, body: Body| {
            started += 1;
            if started < 3 { thread.spawn(body) } else { Err(io::ErrorKind::WouldBlock.into()) }
        };
        let lock = Arc::new(DirectoryLock::new(Box::new(()), false));
        let outcome = Workers::start_with(engine.clone(), lock, Clock::default(), usage, None, 4, spawn);
        assert!(matches!(outcome, Err(Error::Io { operation: "start", .. })));
        // A running thread would hold a reference to the engine.
        assert_eq!((started, Arc::strong_count(&engine)), (3, 1));
    }
}
