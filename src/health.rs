//! Fail stop: after a write, a sync or a step of background work has failed, nothing more is written or acknowledged.
//!
//! # Which lock orders a failure before later work
//!
//! A flag that is set after a lock was released is set too late: the next thread takes the lock and continues with the
//! state that the failure left. A sync that is repeated after a failure succeeds, because the system has dropped the
//! pages; a cursor that advances again skips the record that could not be read. So [`Health::run`] keeps one rule: the
//! health is checked *after* the lock is taken, and a failure is recorded *before* the lock is released. A thread that
//! takes the same lock after a failure is refused, whatever it checked before.
//!
//! | lock | work under it | what a failure leaves |
//! |---|---|---|
//! | the slot of a conversion or merge | a step of the job, the last one too | half a store file; the job is dropped |
//! | the commit queue | syncs of stores, commits, removal of stores and log | a commit that may be durable or not |
//! | the writers of partitions | appends to log and index; freezing a LogStore | records that the index lacks |
//! | the log's `syncing` | syncs of segments | pages that the system may have dropped |
//! | the log's tail | writes to the log, new segments | a torn frame, or half a segment |
//!
//! Failures under different locks need no order: each of these locks protects everything that its failure damages. What
//! was synced before a failure may be acknowledged after it.
//!
//! The locks are taken in the order of the table (`docs/ARCHITECTURE.md`, "Locks"); the lock of the cause is below all
//! of them.

use crate::error::{Error, Result};
use siltstone_device::sync::Mutex;
use siltstone_device::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::Arc;

/// The database was closed.
const CLOSED: u8 = 1;
/// A batch is visible in part.
const TORN: u8 = 2;

/// Whether a database may be written to: yes, until something fails.
#[derive(Default)]
pub struct Health {
    failed: AtomicBool,
    /// Why nothing may be read either: bits of [`CLOSED`] and [`TORN`].
    unreadable: AtomicU8,
    /// The first cause of a failure.
    cause: Mutex<Option<String>>,
    /// Failures are recorded and ignored: a fault that tests have to find.
    #[cfg(feature = "mistakes")]
    ignores_failures: AtomicBool,
    /// Failures are recorded after the lock is released: a fault that tests have to find.
    #[cfg(feature = "mistakes")]
    records_late: AtomicBool,
}

impl Health {
    /// Returns an error if something failed before. Only a hint unless a lock of the table above is held.
    #[inline]
    pub fn check(&self) -> Result<()> {
        if self.failed.load(Ordering::Acquire) { self.refuse() } else { Ok(()) }
    }

    #[cold]
    fn refuse(&self) -> Result<()> {
        #[cfg(feature = "mistakes")]
        if self.ignores_failures.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(Error::Poisoned { cause: self.cause.lock().clone().unwrap_or_default() })
    }

    /// Returns an error after [`close`](Health::close), and after [`apply`](Health::apply) has failed.
    #[inline]
    pub fn check_open(&self) -> Result<()> {
        if self.unreadable.load(Ordering::Acquire) == 0 { Ok(()) } else { self.refuse_reads() }
    }

    #[cold]
    fn refuse_reads(&self) -> Result<()> {
        match self.unreadable.load(Ordering::Acquire) & CLOSED {
            0 => Err(Error::Torn { cause: self.cause.lock().clone().unwrap_or_default() }),
            _ => Err(Error::Closed),
        }
    }

    /// Refuses all later calls, except those that make the database durable. Returns an error if something failed
    /// before, or if the database was closed before.
    pub fn close(&self) -> Result<()> {
        let was_closed = self.unreadable.fetch_or(CLOSED, Ordering::AcqRel) & CLOSED != 0;
        self.check()?;
        if was_closed { Err(Error::Closed) } else { Ok(()) }
    }

    /// Returns whether something failed.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Refuses all later work. The first cause is kept.
    pub fn poison(&self, cause: impl Into<String>) {
        let mut first = None;
        self.cause.lock().get_or_insert_with(|| first.insert(cause.into()).clone());
        // After the cause, so that a thread that sees the failure finds its cause.
        self.failed.store(true, Ordering::Release);
        // Without the lock, under which a subscriber must not call the database.
        if let Some(cause) = first {
            event!(error, cause, "failed: nothing more is written");
            drop(cause);
        }
    }

    /// Runs `work`, and poisons the database if it fails. The caller holds the lock of the table above that orders this
    /// work, and releases it afterwards; [`FailStop`] does both.
    ///
    /// # Errors
    /// [`Error::Poisoned`] if something failed before; `work` does not run then. An error of `work`, which poisons the
    /// database unless it means that nothing was done: `Poisoned`, `Closed`, `Interrupted`, `HashClustered`. A panic
    /// poisons too.
    pub fn run<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        // Under the lock of the caller: the thread that held it before has recorded its failure before it released it.
        self.check()?;
        // A panic of `work` poisons when this is dropped.
        let mut unwinding = Unwinding { health: Some(self) };
        let outcome = work();
        unwinding.health = None;
        outcome.inspect_err(|error| {
            let nothing_was_done = matches!(
                error,
                Error::Poisoned { .. } | Error::Closed | Error::Interrupted | Error::HashClustered { .. }
            );
            if !nothing_was_done {
                self.poison(error.to_string());
            }
        })
    }

    /// Runs the part of a [`run`](Health::run) that makes several changes in memory which readers must see together. If
    /// it fails or panics, nothing is read any more either: gets, snapshots and iterators would show a part of them.
    pub fn apply<T>(&self, changes: impl FnOnce() -> Result<T>) -> Result<T> {
        // Before the first change: a panic leaves a part of them as an error does.
        let mut tearing = Tearing { health: Some(self) };
        let outcome = changes();
        if outcome.is_ok() {
            tearing.health = None;
        }
        outcome
    }

    #[cfg(feature = "mistakes")]
    pub fn ignore_failures(&self) {
        self.ignores_failures.store(true, Ordering::Relaxed);
    }

    #[cfg(feature = "mistakes")]
    pub fn record_late(&self) {
        self.records_late.store(true, Ordering::Relaxed);
    }
}

/// Poisons the database if a panic drops it.
struct Unwinding<'a> {
    health: Option<&'a Health>,
}

impl Drop for Unwinding<'_> {
    fn drop(&mut self) {
        if let Some(health) = self.health {
            health.poison("a thread panicked during a write; this is a bug in siltstone");
        }
    }
}

/// Refuses reads if it is dropped before the changes are complete.
struct Tearing<'a> {
    health: Option<&'a Health>,
}

impl Drop for Tearing<'_> {
    fn drop(&mut self) {
        if let Some(health) = self.health {
            health.unreadable.fetch_or(TORN, Ordering::AcqRel);
        }
    }
}

/// A value that changes only under its lock, and only until something fails.
pub(crate) struct FailStop<T> {
    health: Arc<Health>,
    content: Mutex<T>,
}

impl<T> FailStop<T> {
    pub fn new(health: &Arc<Health>, content: T) -> FailStop<T> {
        FailStop { health: health.clone(), content: Mutex::new(content) }
    }

    /// [`Health::run`] under the lock: a failure is recorded before the next thread gets the lock.
    pub fn run<R>(&self, work: impl FnOnce(&mut T) -> Result<R>) -> Result<R> {
        #[cfg(feature = "mistakes")]
        if self.health.records_late.load(Ordering::Relaxed) {
            self.health.check()?;
            let outcome = work(&mut self.content.lock());
            return outcome.or_else(|error| self.health.run(|| Err(error)));
        }
        let mut content = self.content.lock();
        self.health.run(|| work(&mut content))
    }

    /// Like [`run`](FailStop::run); returns `None` if another thread holds the lock.
    pub fn try_run<R>(&self, work: impl FnOnce(&mut T) -> Result<R>) -> Result<Option<R>> {
        let Some(mut content) = self.content.try_lock() else { return Ok(None) };
        self.health.run(|| work(&mut content)).map(Some)
    }

    /// Reads the value, also after a failure.
    pub fn look<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.content.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn failure() -> Error {
        Error::io("sync", "log")(std::io::ErrorKind::Other.into())
    }

    fn add(count: &mut u32) -> Result<()> {
        *count += 1;
        Ok(())
    }

    #[test]
    fn after_a_failure_every_lock_refuses_with_the_first_cause() {
        let health = Arc::new(Health::default());
        let (one, other) = (FailStop::new(&health, 0), FailStop::new(&health, 0));
        one.run(add).unwrap();
        assert!(matches!(one.run(|_| -> Result<()> { Err(failure()) }), Err(Error::Io { .. })));
        for stopped in [&one, &other] {
            let refused = stopped.run(add).unwrap_err();
            assert!(matches!(&refused, Error::Poisoned { cause } if cause.contains("sync log")), "{refused}");
            assert!(stopped.try_run(add).is_err());
        }
        assert_eq!((one.look(|count| *count), other.look(|count| *count)), (1, 0));
    }

    #[test]
    fn the_failure_is_recorded_before_the_lock_is_released() {
        let health = Arc::new(Health::default());
        let stopped = Arc::new(FailStop::new(&health, ()));
        let (holds, wait) = std::sync::mpsc::channel();
        let waiting = {
            let stopped = stopped.clone();
            std::thread::spawn(move || {
                wait.recv().unwrap();
                stopped.run(|()| Ok(()))
            })
        };
        let failed = stopped.run(|()| -> Result<()> {
            holds.send(()).unwrap();
            Err(failure())
        });
        assert!(failed.is_err() && waiting.join().unwrap().is_err());
    }

    #[test]
    fn what_says_that_nothing_was_done_poisons_nothing_and_a_panic_does() {
        let health = Health::default();
        assert!(health.run(|| -> Result<()> { Err(Error::Interrupted) }).is_err());
        assert!(health.run(|| -> Result<()> { Err(Error::Closed) }).is_err());
        health.check().unwrap();
        let panicked = catch_unwind(AssertUnwindSafe(|| health.run(|| -> Result<()> { panic!("a defect") })));
        assert!(panicked.is_err());
        assert!(matches!(health.check(), Err(Error::Poisoned { cause }) if cause.contains("panicked")));
    }
}
