//! The report at the end of a run: what it read, what is in the index, and what both cost. `table` prints it.

use super::chunks::Chunking;
use super::formats::Totals;
use super::scan::Scan;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use siltstone::Stats;
use siltstone_bench::accounts;
use siltstone_command::notation::insert_name;
use siltstone_device::Purpose;
use std::fs;
use std::time::Duration;

/// The results and the costs of a run. `files`, `bytes` and `chunks` describe the current files below the paths;
/// `indexed`, `unique_chunks` and `dedup_ratio` what is in the index; `all_runs` also what is not there any more.
///
/// The catalogue keeps it as JSON, so that a field is never renamed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// The number of the run, from 1 on.
    pub run: u32,
    /// When it began, in milliseconds since the Unix epoch.
    pub started_at_ms: u64,
    /// Whether the user stopped it.
    pub interrupted: bool,
    /// The hash function.
    pub hash: String,
    /// The length of the keys, in bytes.
    pub hash_bytes: u8,
    /// The configured average size of a chunk, in bytes.
    pub average_size: u32,
    /// Files below the paths, except unreadable ones.
    pub files: u64,
    /// Files that had never been read before.
    pub files_new: u64,
    /// Files that have changed since they were read.
    pub files_changed: u64,
    /// Files whose reading continued where an interrupted run stopped.
    pub files_resumed: u64,
    /// Files that were already indexed.
    pub files_unchanged: u64,
    /// Further names of files with hard links, which are read once.
    pub files_linked: u64,
    /// Files and directories that could not be read.
    pub files_failed: u64,
    /// The first of them, with the errors: objects with `path`, or `path_base64` for a name that is no UTF-8, and
    /// `error`.
    pub failures: Vec<Value>,
    /// Bytes of the files below the paths.
    pub bytes: u64,
    /// Bytes read by this run.
    pub bytes_read: u64,
    /// Chunks of the files below the paths.
    pub chunks: u64,
    /// Chunks read by this run.
    pub chunks_read: u64,
    /// Chunks that were not in any file before.
    pub new_chunks: u64,
    /// Their bytes.
    pub new_bytes: u64,
    /// What is in the index: the last version of each file.
    pub indexed: Totals,
    /// Distinct chunks in the index.
    pub unique_chunks: u64,
    /// Bytes of the files in the index per byte of their distinct chunks.
    pub dedup_ratio: f64,
    /// What all runs have added, with earlier versions and forgotten files. A chunk that was forgotten and added again
    /// counts twice.
    pub all_runs: Totals,
    /// Bytes that all runs have added per byte of new chunks.
    pub all_runs_ratio: f64,
    /// The duration of the run, with what was done before files were read.
    pub seconds: f64,
    /// The part of it that counted the references again, because a repair had lost records.
    pub recount_seconds: f64,
    /// Mebibytes read per second of the rest.
    pub mb_per_s: f64,
    /// Chunks looked up per second of the time spent in lookups.
    pub lookups_per_s: f64,
    /// Records of chunks written per second of the time spent in writes.
    pub writes_per_s: f64,
    /// The peak of the resident memory of the process, in bytes; `null` where the system does not say it.
    pub process_bytes_max: Option<u64>,
    /// The memory of the chunks at the end, in bytes.
    pub ram_bytes: u64,
    /// Its peak, in bytes.
    pub ram_bytes_max: u64,
    /// The memory at the end, per distinct chunk.
    pub ram_bytes_per_key: f64,
    /// Its peak, per distinct chunk.
    pub ram_bytes_per_key_max: f64,
    /// The memory at the end, by component, in bytes.
    pub ram_account: Value,
    /// The memory of the catalogue, in bytes.
    pub catalogue_ram_bytes: u64,
    /// Device reads per chunk looked up.
    pub reads_per_get: f64,
    /// Bytes read from the device per chunk looked up.
    pub read_bytes_per_get: f64,
    /// Bytes written to the device per byte of keys and metadata.
    pub write_amplification: f64,
    /// Bytes of the chunks on disk.
    pub disk_bytes: u64,
    /// Bytes of the catalogue on disk.
    pub catalogue_disk_bytes: u64,
}

/// Returns the quotient, or 0 if the divisor is.
pub fn ratio(dividend: f64, divisor: f64) -> f64 {
    if divisor > 0.0 { dividend / divisor } else { 0.0 }
}

/// Returns the peak of the resident memory of the process, in bytes.
fn process_bytes_max() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(peak.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

impl Report {
    /// Creates the report of a finished run from the statistics of the index before and after it.
    pub fn new(
        scan: &Scan<'_>,
        chunking: &Chunking,
        before: &Stats,
        after: &Stats,
        time: Duration,
        interrupted: bool,
    ) -> Report {
        let (files, counts) = (&scan.files, scan.index.counts());
        let (indexed, all_runs) = (scan.index.now(), scan.index.ever());
        let (catalogue_ram_bytes, catalogue_disk_bytes) = scan.index.catalogue_cost();
        let (io, keys) = (after.io - before.io, indexed.unique_chunks as f64);
        let user_bytes = after.user_bytes.saturating_sub(before.user_bytes);
        let lookups = counts.lookups as f64;
        let reading_s = time.saturating_sub(scan.index.recount_time).as_secs_f64();
        Report {
            run: scan.index.run(),
            started_at_ms: scan.started_at_ms(),
            interrupted,
            hash: chunking.hash.name().to_owned(),
            hash_bytes: chunking.hash_bytes,
            average_size: chunking.average_size,
            files: files.new + files.changed + files.resumed + files.unchanged,
            files_new: files.new,
            files_changed: files.changed,
            files_resumed: files.resumed,
            files_unchanged: files.unchanged,
            files_linked: files.linked,
            files_failed: files.failed,
            failures: files
                .failures
                .iter()
                .map(|(path, why)| {
                    let mut failure = Map::new();
                    insert_name(&mut failure, "path", path.as_os_str().as_encoded_bytes());
                    failure.insert("error".to_owned(), why.as_str().into());
                    Value::Object(failure)
                })
                .collect(),
            bytes: files.unchanged_bytes + files.resumed_bytes + counts.bytes + counts.hole_bytes,
            bytes_read: counts.bytes,
            chunks: files.unchanged_chunks + files.resumed_chunks + counts.chunks,
            chunks_read: counts.chunks,
            new_chunks: counts.new_chunks,
            new_bytes: counts.new_bytes,
            indexed,
            unique_chunks: indexed.unique_chunks,
            dedup_ratio: ratio(indexed.bytes as f64, indexed.unique_bytes as f64),
            all_runs,
            all_runs_ratio: ratio(all_runs.bytes as f64, all_runs.unique_bytes as f64),
            seconds: time.as_secs_f64(),
            recount_seconds: scan.index.recount_time.as_secs_f64(),
            mb_per_s: ratio(counts.bytes as f64 / f64::from(1 << 20), reading_s),
            lookups_per_s: ratio(lookups, counts.lookup_time.as_secs_f64()),
            writes_per_s: ratio(counts.writes as f64, counts.write_time.as_secs_f64()),
            process_bytes_max: process_bytes_max(),
            ram_bytes: after.ram.total_bytes(),
            ram_bytes_max: after.ram_peak.total_bytes(),
            ram_bytes_per_key: ratio(after.ram.total_bytes() as f64, keys),
            ram_bytes_per_key_max: ratio(after.ram_peak.total_bytes() as f64, keys),
            ram_account: accounts::ram(&after.ram),
            catalogue_ram_bytes,
            reads_per_get: ratio(io.of(Purpose::Get).reads as f64, lookups),
            read_bytes_per_get: ratio(io.of(Purpose::Get).read_bytes as f64, lookups),
            write_amplification: ratio(io.total().write_bytes as f64, user_bytes as f64),
            disk_bytes: after.disk_bytes,
            catalogue_disk_bytes,
        }
    }
}
