//! Work on many things by as many threads as there are processors.

use crate::sync::Mutex;
use std::thread::{Builder, available_parallelism, scope};

/// Work on fewer entries is done by one thread.
const ENTRIES_MIN: u64 = if cfg!(test) { 1 << 7 } else { 1 << 16 };

/// Calls `work` for all items, which are `entries` small things together: on the calling thread and, unless these are
/// few, on others as far as they can be started. Returns when all are done.
pub fn in_parallel<T: Send>(entries: u64, items: impl Iterator<Item = T> + Send, work: impl Fn(T) + Sync) {
    if entries < ENTRIES_MIN {
        return items.for_each(work);
    }
    let items = Mutex::new(items);
    let run = || {
        loop {
            // A statement of its own, so that the lock is released before the work.
            let next = items.lock().next();
            let Some(item) = next else { break };
            work(item);
        }
    };
    let others = available_parallelism().map_or(1, |processors| processors.get()) - 1;
    scope(|threads| {
        for _ in 0..others {
            // The threads that there are, at least this one, do the rest.
            if Builder::new().spawn_scoped(threads, run).is_err() {
                break;
            }
        }
        run();
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn the_work_is_done_once_for_each_item() {
        for count in [0, 1, 1_000u64] {
            let (sum, calls) = (AtomicU64::new(0), AtomicU64::new(0));
            in_parallel(count, 0..count, |number| {
                sum.fetch_add(number, Ordering::Relaxed);
                calls.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!((sum.into_inner(), calls.into_inner()), ((0..count).sum(), count));
        }
    }

    #[test]
    fn little_work_is_done_by_the_calling_thread_and_other_work_by_several() {
        let own = std::thread::current().id();
        in_parallel(ENTRIES_MIN - 1, 0..100, |_| assert_eq!(std::thread::current().id(), own));
        if available_parallelism().is_ok_and(|processors| processors.get() > 1) {
            // Neither item is done before another thread has begun the other.
            let both = Barrier::new(2);
            in_parallel(ENTRIES_MIN, 0..2, |_| {
                both.wait();
            });
            in_parallel(10 * ENTRIES_MIN, 0..2, |_| {
                both.wait();
            });
        }
    }
}
