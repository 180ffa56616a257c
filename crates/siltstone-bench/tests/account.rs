//! The account of memory against what an allocator counts.

use peak_alloc::PeakAlloc;
use siltstone_bench::db::{Benchmark, Settings, run};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// One test, so that nothing else allocates.
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
        run(&settings, &mut |report| {
            let heap = report.heap_bytes.unwrap() as f64;
            let ratio = report.costs.ram_bytes as f64 / heap;
            println!(
                "{}, fixed {fixed}: account {}, heap {heap}: {ratio:.3}",
                report.benchmark, report.costs.ram_bytes
            );
            let is_quiet = report.benchmark == Benchmark::Stats.name();
            assert!(!is_quiet || (0.95..1.05).contains(&ratio), "{ratio}: {:?}", report.costs.ram_account);
            Ok(())
        })
        .unwrap();
    }
}
