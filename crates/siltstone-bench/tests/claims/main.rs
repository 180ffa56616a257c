//! Every benchmark at a tiny size, to keep it working, and what traces and workloads do to a database.

mod every_benchmark;
mod every_workload;
mod replay;

use siltstone_bench::tuning::{SettingArgs, Tuning};

/// Settings with which a small database converts and merges.
fn small_tables() -> Tuning {
    let settings = SettingArgs { settings: vec![("log_slots_min".to_owned(), "64".to_owned())] };
    Tuning { partitions: Some(2), settings, ..Tuning::default() }
}
