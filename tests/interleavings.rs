//! All interleavings of readers and writers of a bucket, and everything that weak memory allows them to see, explored
//! by loom. The source of MICA's buckets imports no other module, so it is compiled here with loom's atomics.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(dead_code, reason = "only a part of the index is used here")]

mod atomic {
    pub use loom::hint::spin_loop;
    pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
    pub use loom::thread::yield_now;
    use std::cell::Cell;

    thread_local! {
        /// The fences that are omitted, to show that they are necessary. Loom runs all its threads in one thread of the
        /// system.
        pub static LEFT_OUT: Cell<Option<Ordering>> = const { Cell::new(None) };
    }

    pub fn fence(order: Ordering) {
        if LEFT_OUT.get() != Some(order) {
            loom::sync::atomic::fence(order);
        }
    }
}

macro_rules! unit_tests {
    ($tests:item) => {};
}

#[path = "../crates/siltstone-mica/src/buckets/mod.rs"]
mod buckets;

use atomic::{AtomicU64, Ordering::Relaxed};
use buckets::{Buckets, Crcw, Crew, Mode, SearchResult};
use loom::sync::{Arc, Mutex};
use loom::thread;

/// One bucket, one spare bucket, and two items of two words at the offsets 0 and 2.
struct Table {
    buckets: Buckets<Vec<AtomicU64>>,
    items: Vec<AtomicU64>,
}

const HASH: u64 = 7;

impl Table {
    fn new() -> Arc<Table> {
        let words = |count| (0..count).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        let buckets = Buckets::new(words(Buckets::<Vec<AtomicU64>>::words_for(1, 1)), 1, 1, 0);
        Arc::new(Table { buckets, items: words(4) })
    }

    fn write_item(&self, offset: u32, value: u64) {
        self.items[offset as usize].store(value, Relaxed);
        self.items[offset as usize + 1].store(value, Relaxed);
    }

    fn insert<M: Mode>(&self, offset: u32, value: u64) {
        let home = self.buckets.home(HASH);
        let locked = self.buckets.lock::<M>(home);
        self.write_item(offset, value);
        locked.insert(offset).unwrap();
    }

    fn overwrite<M: Mode>(&self, value: u64) {
        let home = self.buckets.home(HASH);
        let locked = self.buckets.lock::<M>(home);
        if let Some(entry) = locked.find(|_| true) {
            self.write_item(entry.offset, value);
        }
    }

    fn remove<M: Mode>(&self) {
        let home = self.buckets.home(HASH);
        let locked = self.buckets.lock::<M>(home);
        if let Some(entry) = locked.find(|_| true) {
            locked.remove(entry);
        }
    }

    /// Reads the item once, as the stores in memory do.
    fn try_get<M: Mode>(&self) -> Option<Option<(u64, u64)>> {
        let home = self.buckets.home(HASH);
        let header = self.buckets.header(home);
        let seen = M::begin_read(header);
        let found = match self.buckets.find::<M>(home, seen, |_| true) {
            SearchResult::Found(entry) => {
                let word = |at: u32| self.items[at as usize].load(Relaxed);
                Some((word(entry.offset), word(entry.offset + 1)))
            }
            SearchResult::Absent => None,
            SearchResult::Changed => return None,
        };
        M::is_unchanged(header, seen).then_some(found)
    }
}

fn check(tried: Option<Option<(u64, u64)>>, possible: &[Option<u64>]) {
    if let Some(found) = tried {
        assert!(found.is_none_or(|(first, second)| first == second), "torn: {found:?}");
        assert!(possible.contains(&found.map(|(first, _)| first)), "{found:?}");
    }
}

fn model(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(test);
}

fn read_during_a_write() {
    let table = Table::new();
    table.insert::<Crew>(0, 1);
    let reader = table.clone();
    let reading = thread::spawn(move || check(reader.try_get::<Crew>(), &[Some(1), Some(2)]));
    table.overwrite::<Crew>(2);
    reading.join().unwrap();
}

#[test]
fn a_reader_during_a_write_never_sees_half_an_item() {
    model(read_during_a_write);
}

#[test]
fn without_either_of_the_fences_half_an_item_is_seen() {
    for order in [atomic::Ordering::Acquire, atomic::Ordering::Release] {
        atomic::LEFT_OUT.set(Some(order));
        let seen = std::panic::catch_unwind(|| model(read_during_a_write));
        atomic::LEFT_OUT.set(None);
        let message = seen.unwrap_err();
        let message = message.downcast_ref::<String>().map_or("", |message| message);
        assert!(message.contains("torn"), "without the {order:?} fence: {message}");
    }
}

/// One writer removes the item and frees its memory. Another one, which holds another bucket, allocates this memory and
/// writes its own item there. They share a free list under a lock, as in the stores.
fn read_during_a_reuse(reuse: fn()) {
    let table = Table::new();
    let free = Arc::new(Mutex::new(false));
    table.insert::<Crcw>(0, 1);
    let (reader, other, others_free) = (table.clone(), table.clone(), free.clone());
    let reading = thread::spawn(move || check(reader.try_get::<Crcw>(), &[Some(1), None]));
    let reusing = thread::spawn(move || {
        let taken = others_free.lock().unwrap();
        if *taken {
            reuse();
            other.write_item(0, 3);
        }
    });
    table.remove::<Crcw>();
    *free.lock().unwrap() = true;
    reading.join().unwrap();
    reusing.join().unwrap();
}

#[test]
fn memory_that_another_thread_reuses_is_not_read_as_the_old_item() {
    model(|| read_during_a_reuse(Crcw::before_reuse));
}

#[test]
fn without_the_fence_before_a_reuse_another_keys_item_is_read() {
    let seen = std::panic::catch_unwind(|| model(|| read_during_a_reuse(|| ())));
    let message = seen.unwrap_err();
    let message = message.downcast_ref::<String>().map_or("", |message| message);
    assert!(message.contains("torn") || message.contains("Some((3, 3))"), "{message}");
}

#[test]
fn concurrent_writers_exclude_each_other() {
    model(|| {
        let table = Table::new();
        table.insert::<Crcw>(0, 1);
        let other = table.clone();
        let writing = thread::spawn(move || other.overwrite::<Crcw>(2));
        table.overwrite::<Crcw>(3);
        check(table.try_get::<Crcw>(), &[Some(2), Some(3)]);
        writing.join().unwrap();
        check(table.try_get::<Crcw>(), &[Some(2), Some(3)]);
    });
}
