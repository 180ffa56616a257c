//! The report at the end of a run, as a table and as JSON.

use super::chunks::Chunking;
use super::formats::Totals;
use super::scan::Scan;
use serde::Serialize;
use serde_json::{Map, Value};
use siltstone::Stats;
use siltstone_bench::accounts;
use siltstone_command::notation::insert_name;
use siltstone_command::quantity::counted;
use siltstone_device::Purpose;
use std::io::{self, Write};
use std::time::Duration;

/// The results and the costs of a run. `files`, `bytes` and `chunks` describe the current files below the paths;
/// `indexed`, `unique_chunks` and `dedup_ratio` what is in the index; `all_runs` also what is not there any more.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The number of the run, from 1 on.
    pub run: u32,
    /// When it began, in milliseconds since the Unix epoch.
    pub started_at_ms: u64,
    /// Whether the user stopped it.
    pub interrupted: bool,
    /// The hash function.
    pub hash: &'static str,
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
    /// The duration of the run.
    pub seconds: f64,
    /// Mebibytes read per second.
    pub mb_per_s: f64,
    /// Chunks looked up per second of the time spent in lookups.
    pub lookups_per_s: f64,
    /// Records of chunks written per second of the time spent in writes.
    pub writes_per_s: f64,
    /// The memory of the index at the end, in bytes.
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
    /// Bytes of the index on disk.
    pub disk_bytes: u64,
    /// Bytes of the catalogue on disk.
    pub catalogue_disk_bytes: u64,
    #[serde(skip)]
    ram_items: Vec<(&'static str, u64)>,
}

fn ratio(dividend: f64, divisor: f64) -> f64 {
    if divisor > 0.0 { dividend / divisor } else { 0.0 }
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
        Report {
            run: scan.index.run(),
            started_at_ms: scan.started_at_ms(),
            interrupted,
            hash: chunking.hash.name(),
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
            mb_per_s: ratio(counts.bytes as f64 / f64::from(1 << 20), time.as_secs_f64()),
            lookups_per_s: ratio(lookups, counts.lookup_time.as_secs_f64()),
            writes_per_s: ratio(counts.writes as f64, counts.write_time.as_secs_f64()),
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
            ram_items: after.ram.items().to_vec(),
        }
    }

    /// Prints the table.
    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "The files of run {}, {}", self.run, date(self.started_at_ms))?;
        self.print_files(out)?;
        writeln!(out, "\nThe index: the last version of each file")?;
        self.print_index(out)?;
        writeln!(out, "\nCost of the index")?;
        self.print_cost(out)
    }

    fn print_files(&self, out: &mut impl Write) -> io::Result<()> {
        let mut row = |name: &str, value: String, remark: String| {
            writeln!(out, "{name:<26} {value:>16}  {remark}").map(|()| ())
        };
        let remark = format!(
            "{} new, {} changed, {} resumed, {} unchanged, {} further hard links, {} unreadable",
            self.files_new,
            self.files_changed,
            self.files_resumed,
            self.files_unchanged,
            self.files_linked,
            self.files_failed
        );
        row("files", grouped(self.files), remark)?;
        row("bytes", grouped(self.bytes), format!("{} read in this run", grouped(self.bytes_read)))?;
        row("chunks", grouped(self.chunks), format!("{} read in this run", grouped(self.chunks_read)))?;
        let remark = format!("{} bytes, not in any file before", grouped(self.new_bytes));
        row("new chunks", grouped(self.new_chunks), remark)?;
        row("seconds", format!("{:.2}", self.seconds), format!("{:.1} MB/s", self.mb_per_s))?;
        row("lookups per second", grouped(self.lookups_per_s as u64), String::new())?;
        row("writes per second", grouped(self.writes_per_s as u64), String::new())
    }

    /// Prints what is in the index, and what all runs have added.
    fn print_index(&self, out: &mut impl Write) -> io::Result<()> {
        let mut row =
            |name: &str, value: String, remark: String| writeln!(out, "{name:<26} {value:>16}  {remark}");
        let Totals { files, bytes, chunks, unique_chunks, unique_bytes } = self.indexed;
        row("indexed files", grouped(files), String::new())?;
        row("chunks", grouped(chunks), format!("{} bytes", grouped(bytes)))?;
        row("unique chunks", grouped(unique_chunks), format!("{} bytes", grouped(unique_bytes)))?;
        row("dedup ratio", format!("{:.3}", self.dedup_ratio), "bytes per unique byte".to_owned())?;
        let remark =
            format!("{} files, {} bytes", grouped(self.all_runs.files), grouped(self.all_runs.bytes));
        let ratio = format!("{:.3}", self.all_runs_ratio);
        row(&format!("ratio of {}", counted(self.run.into(), "run")), ratio, remark)
    }

    fn print_cost(&self, out: &mut impl Write) -> io::Result<()> {
        let per_key = |bytes: u64| format!("{:.3}", ratio(bytes as f64, self.unique_chunks as f64));
        let mut row =
            |name: &str, value: String, remark: String| writeln!(out, "{name:<26} {value:>16}  {remark}");
        let remark = format!("{} bytes; at most {:.3}", grouped(self.ram_bytes), self.ram_bytes_per_key_max);
        row("RAM bytes per key", format!("{:.3}", self.ram_bytes_per_key), remark)?;
        for (item, bytes) in &self.ram_items {
            row(&format!("  {item}"), per_key(*bytes), format!("{} bytes", grouped(*bytes)))?;
        }
        let remark = format!("{:.0} bytes each", ratio(self.read_bytes_per_get, self.reads_per_get));
        row("flash reads per lookup", format!("{:.4}", self.reads_per_get), remark)?;
        row("write amplification", format!("{:.2}", self.write_amplification), String::new())?;
        let remark = format!(
            "the catalogue takes {} more, and {} of RAM",
            grouped(self.catalogue_disk_bytes),
            grouped(self.catalogue_ram_bytes)
        );
        row("bytes on disk", grouped(self.disk_bytes), remark)
    }
}

/// Formats a time in milliseconds since the Unix epoch as date and time (UTC).
pub fn date(ms: u64) -> String {
    let (days, seconds) = (ms / 86_400_000, ms / 1000 % 86_400);
    // Years begin in March here, so that a leap day is the last day of its year; 146,097 days are 400 years.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = 400 * era + year + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// Formats the number with commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_399, "2000-02-28 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (1_700_000_000, "2023-11-14 22:13:20"),
            (4_107_542_400, "2100-03-01 00:00:00"),
        ] {
            assert_eq!(date(seconds * 1000), text);
        }
    }

    #[test]
    fn thousands_are_grouped() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }
}
