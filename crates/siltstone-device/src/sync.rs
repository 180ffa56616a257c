//! Locks and atomics of the state that threads share. With `--cfg shuttle` they are those of Shuttle, which explores
//! thread schedules (`siltstone-testing`, `tests/shuttle.rs`).
//!
//! A lock is never poisoned: if a thread panics while it holds a lock, the next one gets the lock. Where a panic may
//! leave half of a change, `Health::run` of the library records it before the lock is released, and the next thread is
//! refused. The locks of the standard library are not fair, so nothing may depend on the order in which
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
use std::ops::Deref;
use std::sync::{Arc, PoisonError, TryLockError, TryLockResult};
use std::time::Duration;
#[cfg(any(test, feature = "testing"))]
use std::{cell::RefCell, collections::BTreeMap, panic::Location};

/// Counts the locks that `work` takes in this thread, or tries to take, by the places in the code where it does. Each
/// of them writes a cache line that other threads write too.
#[cfg(any(test, feature = "testing"))]
pub fn locks_taken(work: impl FnOnce()) -> BTreeMap<String, u64> {
    LOCKS_TAKEN.set(Some(BTreeMap::new()));
    work();
    let taken = LOCKS_TAKEN.take().unwrap_or_default();
    taken.into_iter().map(|(place, count)| (place.to_string(), count)).collect()
}

#[cfg(any(test, feature = "testing"))]
thread_local! {
    static LOCKS_TAKEN: RefCell<Option<BTreeMap<&'static Location<'static>, u64>>> = const { RefCell::new(None) };
}

/// Counts a lock that is taken, while [`locks_taken`] runs.
#[inline]
#[cfg_attr(any(test, feature = "testing"), track_caller)]
fn count_lock() {
    #[cfg(any(test, feature = "testing"))]
    {
        let place = Location::caller();
        LOCKS_TAKEN.with_borrow_mut(|taken| {
            if let Some(taken) = taken {
                *taken.entry(place).or_default() += 1;
            }
        });
    }
}

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
    #[cfg_attr(any(test, feature = "testing"), track_caller)]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        count_lock();
        #[cfg(thread_sanitizer)]
        return until_taken(|| self.try_lock());
        #[cfg(not(thread_sanitizer))]
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock; returns `None` if it is held.
    #[inline]
    #[cfg_attr(any(test, feature = "testing"), track_caller)]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        count_lock();
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
    #[cfg_attr(any(test, feature = "testing"), track_caller)]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        count_lock();
        #[cfg(thread_sanitizer)]
        return until_taken(|| unless_held(self.0.try_read()));
        #[cfg(not(thread_sanitizer))]
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no other thread holds the lock, and takes it to write.
    #[inline]
    #[cfg_attr(any(test, feature = "testing"), track_caller)]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        count_lock();
        #[cfg(thread_sanitizer)]
        return until_taken(|| self.try_write());
        #[cfg(not(thread_sanitizer))]
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock to write; returns `None` if it is held.
    #[inline]
    #[cfg_attr(any(test, feature = "testing"), track_caller)]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        count_lock();
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

/// A value that is replaced as a whole. Reading it writes to no memory that other threads read, as a lock or a
/// reference count would, and never waits.
#[derive(Debug)]
pub struct Published<T> {
    #[cfg(not(shuttle))]
    value: arc_swap::ArcSwap<T>,
    #[cfg(shuttle)]
    value: RwLock<Arc<T>>,
    /// Held while the next value is made of the present one.
    changing: Mutex<()>,
}

/// A [`Published`] value as it was when it was read; it lasts as long as this. A thread that holds more than eight of
/// them counts references after all.
pub struct Reading<T>(#[cfg(not(shuttle))] arc_swap::Guard<Arc<T>>, #[cfg(shuttle)] Arc<T>);

impl<T> Published<T> {
    /// Publishes a first value.
    pub fn new(value: Arc<T>) -> Published<T> {
        #[cfg(not(shuttle))]
        let value = arc_swap::ArcSwap::new(value);
        #[cfg(shuttle)]
        let value = RwLock::new(value);
        Published { value, changing: Mutex::new(()) }
    }

    /// Returns the present value.
    #[inline]
    pub fn read(&self) -> Reading<T> {
        #[cfg(not(shuttle))]
        return Reading(self.value.load());
        #[cfg(shuttle)]
        return Reading(self.value.read().clone());
    }

    /// Replaces the value. Threads that read the one before keep it.
    pub fn publish(&self, value: Arc<T>) {
        #[cfg(not(shuttle))]
        self.value.store(value);
        #[cfg(shuttle)]
        {
            *self.value.write() = value;
        }
    }

    /// Replaces the value by one that `change` makes of it, if it makes one, and returns what it returns besides. One
    /// thread does so at a time.
    pub fn change<R>(&self, change: impl FnOnce(&T) -> (Option<T>, R)) -> R {
        let _changing = self.changing.lock();
        let (value, outcome) = change(&self.read());
        if let Some(value) = value {
            self.publish(Arc::new(value));
        }
        outcome
    }
}

impl<T> Reading<T> {
    /// Returns the value with a reference that is counted.
    pub fn to_arc(&self) -> Arc<T> {
        Arc::clone(&self.0)
    }
}

impl<T> From<Arc<T>> for Reading<T> {
    fn from(value: Arc<T>) -> Self {
        #[cfg(not(shuttle))]
        return Reading(arc_swap::Guard::from_inner(value));
        #[cfg(shuttle)]
        return Reading(value);
    }
}

impl<T> Deref for Reading<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
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
    fn what_was_read_lasts_after_another_value_is_published() {
        let published = Published::new(Arc::new(1));
        let (read, kept) = (published.read(), published.read().to_arc());
        published.publish(Arc::new(2));
        assert_eq!((*read, *kept, *published.read(), *Reading::from(kept.clone())), (1, 1, 2, 1));
        drop(read);
        assert_eq!(Arc::strong_count(&kept), 1, "nothing else keeps a value that was replaced");
        assert_eq!(published.change(|value| (Some(value + 1), value * 10)), 20);
        assert_eq!(published.change(|value| (None, *value)), 3);
        assert_eq!(*published.read(), 3);
    }

    #[test]
    fn locks_are_counted_by_their_places() {
        let (one, other) = (Mutex::new(()), RwLock::new(()));
        drop(one.lock());
        let taken = locks_taken(|| {
            for _ in 0..3 {
                drop((one.lock(), other.read()));
            }
            drop(other.try_write());
        });
        assert_eq!(taken.values().sum::<u64>(), 7);
        assert!(taken.keys().all(|place| place.contains("sync.rs")) && taken.len() == 3, "{taken:?}");
        assert!(locks_taken(|| ()).is_empty());
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
