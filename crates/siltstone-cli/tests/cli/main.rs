//! `siltstone` as a process: what it prints, on which stream, with which exit code, and which files it leaves.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(clippy::print_stderr, reason = "tests of floods print their figures")]

mod commands;
mod dedup;
mod dedup_trees;
mod dict;
mod documents;
mod follow;
mod import;
mod import_redis;
mod many;
mod model;
mod output;
mod plan;
mod prometheus;
mod reading;
mod runner;
mod serve;
mod serve_data;
#[cfg(target_os = "linux")]
mod serve_floods;
mod serve_secure;
mod serve_settings;
mod serve_typed;
mod server_process;
mod split;
mod usage;
mod workloads;
