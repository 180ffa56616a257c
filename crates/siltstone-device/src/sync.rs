//! Locks and atomics of the state that threads share. With `--cfg shuttle` they are those of Shuttle, which explores
//! thread schedules (`siltstone-testing`, `tests/shuttle.rs`).
//!
//! A lock is never poisoned: if a thread panics while it holds a lock, the next one gets the lock. Where a panic may
//! leave half of a change, [`Health::run`](crate::health::Health::run) records it before the lock is released, and the
//! next thread is refused. The locks of the standard library are not fair, so nothing may depend on the order in which
//! waiting threads get a lock.
//!
//! With `--cfg thread_sanitizer` a thread that waits for a lock tries again and again: ThreadSanitizer sees the calls
//! that the compiler inlines from the standard library, but not those in its library file, in which threads wait.

#[cfg(shuttle)]
use shuttle::sync as base;
#[cfg(not(shuttle))]
use std::sync as base;

#[cfg(shuttle)]
pub use shuttle::thread::yield_now;
#[cfg(not(shuttle))]
pub use std::thread::yield_now;

pub use base::{MutexGuard, RwLockReadGuard, RwLockWriteGuard, atomic};
use std::sync::{PoisonError, TryLockError, TryLockResult};
use std::time::Duration;

/// A lock that one thread holds at a time.
#[derive(Debug, Default)]
pub struct Mutex<T>(base::Mutex<T>);

impl<T> Mutex<T> {
    /// Makes a lock for `value`.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(base::Mutex::new(value))
    }

    /// Waits until no other thread holds the lock, and takes it.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        #[cfg(thread_sanitizer)]
        return until_taken(|| self.try_lock());
        #[cfg(not(thread_sanitizer))]
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock; returns `None` if it is held.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        unless_held(self.0.try_lock())
    }

    /// Returns the value without locking, which an exclusive reference makes unnecessary.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A lock that any number of threads hold to read, or one to write.
#[derive(Debug, Default)]
pub struct RwLock<T>(base::RwLock<T>);

impl<T> RwLock<T> {
    /// Makes a lock for `value`.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(base::RwLock::new(value))
    }

    /// Waits until no thread writes, and takes the lock to read. A thread that holds it must not take it again: a
    /// waiting writer goes first.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        #[cfg(thread_sanitizer)]
        return until_taken(|| unless_held(self.0.try_read()));
        #[cfg(not(thread_sanitizer))]
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no other thread holds the lock, and takes it to write.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        #[cfg(thread_sanitizer)]
        return until_taken(|| self.try_write());
        #[cfg(not(thread_sanitizer))]
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock to write; returns `None` if it is held.
    #[inline]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        unless_held(self.0.try_write())
    }
}

/// Returns the guard of a lock that was taken, also of a poisoned one.
#[inline]
fn unless_held<G>(outcome: TryLockResult<G>) -> Option<G> {
    match outcome {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Tries to take a lock until that succeeds.
#[cfg(thread_sanitizer)]
fn until_taken<G>(mut take: impl FnMut() -> Option<G>) -> G {
    loop {
        match take() {
            Some(guard) => return guard,
            None => yield_now(),
        }
    }
}

/// Wakes threads that wait for a change of what a [`Mutex`] protects.
#[derive(Debug, Default)]
pub struct Condvar(base::Condvar);

impl Condvar {
    /// Releases the lock and waits to be woken, at most for `timeout`. May also return earlier.
    pub fn wait_for<T>(&self, locked: MutexGuard<'_, T>, timeout: Duration) {
        #[cfg(thread_sanitizer)]
        {
            // Returning early is allowed, so nothing waits here.
            drop((locked, timeout));
            yield_now();
        }
        #[cfg(not(thread_sanitizer))]
        drop(self.0.wait_timeout(locked, timeout).unwrap_or_else(PoisonError::into_inner));
    }

    /// Wakes a waiting thread.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn after_a_panic_under_a_lock_the_next_thread_gets_it() {
        let (mut one, other) = (Mutex::new(1), RwLock::new(2));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _locked = (one.lock(), other.write());
            panic!("under both locks");
        }));
        assert!(panicked.is_err());
        assert_eq!((*one.lock(), *other.read()), (1, 2));
        assert_eq!((one.try_lock().as_deref(), other.try_write().as_deref()), (Some(&1), Some(&2)));
        assert_eq!((*one.get_mut(), *other.write()), (1, 2));
    }

    #[test]
    fn a_thread_that_waits_is_woken_before_its_time_is_up() {
        const LONG: Duration = Duration::from_secs(300);
        for all in [false, true] {
            let (turn, changed) = (Mutex::new(0), Condvar::default());
            let wait_for = |number| {
                let begin = std::time::Instant::now();
                loop {
                    let turn = turn.lock();
                    if *turn == number {
                        break;
                    }
                    changed.wait_for(turn, LONG);
                    assert!(begin.elapsed() < LONG);
                }
            };
            let set = |number| {
                *turn.lock() = number;
                if all { changed.notify_all() } else { changed.notify_one() }
            };
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    wait_for(1);
                    set(2);
                });
                set(1);
                wait_for(2);
            });
        }
    }

    #[test]
    fn a_lock_that_is_held_is_not_taken_again() {
        let (one, other) = (Mutex::new(()), RwLock::new(()));
        let held = (one.lock(), other.read());
        assert!(one.try_lock().is_none() && other.try_write().is_none());
        drop(held);
        assert!(one.try_lock().is_some() && other.try_write().is_some());
    }
}
