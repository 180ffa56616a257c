//! Compares the reads that a benchmark reports with those that the system counts. Its own program: the count is that of
//! the whole process.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use siltstone::EngineKind;
use siltstone_bench::db::{Benchmark, Settings, run};
use siltstone_bench::place::Place;
use siltstone_bench::tuning::{SettingArgs, Tuning};

/// Returns the calls of the process that read, as the kernel counts them.
fn reads_of_the_process() -> u64 {
    let counts = std::fs::read_to_string("/proc/self/io").unwrap();
    let line = counts.lines().find_map(|line| line.strip_prefix("syscr: ")).unwrap();
    line.parse().unwrap()
}

/// Makes all reads calls, which the system counts: a process with a limit of addresses does not map its files.
fn limit_addresses() {
    let limit = getrlimit(Resource::As);
    setrlimit(Resource::As, Rlimit { current: Some(1 << 46), ..limit }).unwrap();
}

/// A single test, so that nothing else reads.
#[test]
fn the_reads_per_get_are_those_that_the_system_counts() {
    limit_addresses();
    const GETS: u64 = 2_000;
    let no_index = ("index_in_memory", "0");
    for (engine, settings) in [
        (EngineKind::Silt, vec![]),
        (EngineKind::BloomStore, vec![]),
        (EngineKind::FlashKey, vec![]),
        (EngineKind::FlashKey, vec![no_index]),
        (EngineKind::FlashStore, vec![("cache", "true"), ("flash_bytes", "1GiB")]),
    ] {
        let settings =
            settings.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let tuning = Tuning { engine, settings: SettingArgs { settings }, ..Tuning::default() };
        let benchmarks = vec![
            Benchmark::FillUniqueRandom,
            Benchmark::Settle,
            Benchmark::ReadRandom,
            Benchmark::ReadMissing,
        ];
        let settings = Settings { benchmarks, num: 20_000, reads: Some(GETS), tuning, ..Settings::default() };
        let mut before = 0;
        run(&settings, &Place::prepare(None).unwrap(), &mut |report| {
            let counted = reads_of_the_process() - before;
            if let Some(reads) = report.costs.reads_per_get {
                let (reported, counted) = (reads * GETS as f64, counted as f64);
                // Reading the counts is also a read or two.
                let is_near = (reported - counted).abs() <= 0.02 * counted + 10.0;
                assert!(is_near, "{engine:?} {}: reports {reported}, the system {counted}", report.benchmark);
            }
            before = reads_of_the_process();
            Ok(())
        })
        .unwrap();
    }
}
