//! Compares the structures' own memory reports with the allocator: `bits_per_key` must be complete.

use siltstone_evidence::index::Sample;
use siltstone_index::PlacementIndex;
use siltstone_index::entropy_trie::{Coder, EntropyTrieBuilder, TrieSettings};
use siltstone_index::fences::{FencesBuilder, FencesSettings};
use siltstone_index::filter::{CuckooFilter, Filter, RibbonFilter};
use siltstone_index::hash_pages::HashPages;
use siltstone_index::partial_key_cuckoo::{CuckooSettings, PartialKeyCuckoo};
use siltstone_index::perfect::{PerfectIndexBuilder, PerfectIndexSettings};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    /// The bytes that this thread has allocated and not freed.
    static HELD: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // A thread that is ending no longer counts.
    let _ = HELD.try_with(|held| held.set(held.get() + bytes));
}

// SAFETY: the system's allocator does all work; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller upholds the contract of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Checks that `build` leaves as much on the heap as `heap_bytes` reports. The first build may create tables shared by
/// all structures of a kind.
fn assert_accounts<T>(name: &str, build: impl Fn() -> T, heap_bytes: impl Fn(&T) -> usize) {
    drop(build());
    let before = HELD.get();
    let built = build();
    assert_eq!(heap_bytes(&built) as isize, HELD.get() - before, "{name}");
}

#[test]
fn indexes_account_for_every_byte() {
    let sample = Sample::new(30_000, 1);
    let placements = || sample.sorted().iter().map(|key| key.placement);
    for coder in [Coder::Paper, Coder::Fast] {
        let settings = TrieSettings { coder, expected_keys: sample.len(), ..TrieSettings::default() };
        let build = || {
            let mut builder = EntropyTrieBuilder::new(settings).unwrap();
            placements().for_each(|placement| builder.push(placement).unwrap());
            builder.finish().unwrap()
        };
        assert_accounts("trie", build, |trie| trie.heap_bytes());
    }
    let fences = || {
        let settings = FencesSettings { expected_records: sample.len(), expected_blocks: sample.len() / 16 };
        let mut builder = FencesBuilder::new(settings);
        for (number, placement) in (0..).zip(placements()) {
            builder.push(placement, number / 16..number / 16 + 1).unwrap();
        }
        builder.finish()
    };
    assert_accounts("fences", fences, |fences| fences.heap_bytes());
    for records_per_block in [1, 16] {
        let build = || {
            let expected_records = sample.len();
            let settings = PerfectIndexSettings { expected_records, records_per_block, bucket_records: 512 };
            let mut builder = PerfectIndexBuilder::new(settings).unwrap();
            placements().for_each(|placement| assert!(builder.push(placement).is_ok()));
            builder.finish().0
        };
        assert_accounts("block-perfect", build, |index| index.heap_bytes());
    }
}

#[test]
fn filters_account_for_every_byte() {
    let sample = Sample::new(30_000, 2);
    let keys = || sample.sorted().iter().map(|key| (key.placement, key.fingerprint));
    assert_accounts("ribbon", || RibbonFilter::new(keys(), 12).unwrap(), |filter| filter.heap_bytes());
    let table = || {
        let table = PartialKeyCuckoo::new(CuckooSettings::default(), 24).unwrap();
        for (placement, fingerprint) in keys() {
            table.insert(placement, fingerprint, 7).unwrap();
        }
        table
    };
    assert_accounts("cuckoo table", table, |table| table.heap_bytes());
    let pages = || {
        let mut pages = HashPages::new(36).unwrap();
        (0..).zip(keys()).for_each(|(number, (placement, _))| pages.insert(placement, number));
        pages
    };
    assert_accounts("hash pages", pages, |pages| pages.heap_bytes());
    let full = table();
    assert_accounts("cuckoo filter", || CuckooFilter::from_index(&full), |filter| filter.heap_bytes());
}
