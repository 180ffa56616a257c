//! Compares the memory report with the allocator's count.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking, and prints")]

use peak_alloc::PeakAlloc;
use siltstone::Database;
use siltstone_bench::db::{Benchmark, Settings, run};
use siltstone_bench::place::Place;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// What the benchmark itself and the threads hold, in bytes.
const CONSTANT_BYTES_MAX: f64 = 8192.0;

/// A single test, so that nothing else allocates.
#[test]
fn the_account_is_what_the_heap_has() {
    for (fixed, num, value_size) in [(true, 1_000_000, 44), (false, 150_000, 200)] {
        let settings = Settings {
            benchmarks: vec![Benchmark::FillRandom, Benchmark::Stats, Benchmark::Compact, Benchmark::Stats],
            num,
            key_size: 20,
            value_size,
            fixed,
            heap_bytes: Some(|| HEAP.current_usage() as u64),
            ..Settings::default()
        };
        run(&settings, &Place::prepare(None).unwrap(), &mut |report| {
            let heap = report.heap_bytes.unwrap() as f64;
            let ratio = report.costs.ram_bytes as f64 / heap;
            println!(
                "{}, fixed {fixed}: account {}, heap {heap}: {ratio:.3}",
                report.benchmark, report.costs.ram_bytes
            );
            let is_quiet = report.benchmark == Benchmark::Stats.name();
            let difference = (heap - report.costs.ram_bytes as f64).abs();
            let is_right = difference <= 0.05 * heap + CONSTANT_BYTES_MAX;
            assert!(!is_quiet || is_right, "{ratio}: {:?}", report.costs.ram_account);
            Ok(())
        })
        .unwrap();
    }
    for (budget, fixed) in [(1 << 20, true), (1 << 20, false), (8 << 20, true), (8 << 20, false)] {
        the_heap_stays_within_a_budget(budget, fixed);
    }
}

/// The allocations of conversions, merges and threads that the memory report does not include.
const UNCOUNTED_BYTES_MAX: u64 = 192 << 10;

/// Compares all of the heap while a database is loaded, converts, merges and is read.
fn the_heap_stays_within_a_budget(budget: u64, fixed: bool) {
    const RECORDS: u64 = 200_000;
    let directory = tempfile::tempdir().unwrap();
    let before = HEAP.current_usage();
    let mut builder = Database::builder(directory.path()).memory_budget(budget).set("filter_last_store", 7);
    if fixed {
        builder = builder.fixed(8, 56);
    }
    let database = builder.open().unwrap();
    HEAP.reset_peak_usage();
    for round in 0..2 {
        for number in 0..RECORDS {
            let key = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ round).to_be_bytes();
            database.put(key, [number as u8; 56]).unwrap();
            if number % 4 == 0 {
                database.get((number / 2).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()).unwrap();
            }
        }
        database.compact().unwrap();
    }
    let heap = (HEAP.peak_usage() - before) as u64;
    let stats = database.stats();
    let peak = stats.ram_peak.total_bytes();
    println!(
        "budget {budget}, fixed {fixed}: account at most {peak}, heap at most {heap}; {:?}",
        stats.ram_peak
    );
    assert!(peak <= budget, "{:?}", stats.ram_peak);
    assert!(heap <= budget + UNCOUNTED_BYTES_MAX, "{heap}");
}
