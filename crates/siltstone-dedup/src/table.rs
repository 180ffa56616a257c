//! Prints the report of a run as a table: bytes, the ratio and memory first; what belongs to the engine of the chunks
//! only on demand.

use super::formats::{RunEntry, Totals};
use super::report::{Report, ratio};
use siltstone_command::quantity::counted;
use std::io::{self, Write};

/// Prints a row: a name, a number, and a remark.
fn row(out: &mut impl Write, name: &str, value: &str, remark: &str) -> io::Result<()> {
    writeln!(out, "{}", format!("{name:<26} {value:>16}  {remark}").trim_end())
}

/// Prints the report, and what the index costs by item if `is_verbose`.
pub fn print(report: &Report, is_verbose: bool, out: &mut impl Write) -> io::Result<()> {
    print_files(report, out)?;
    print_index(report, out)?;
    if is_verbose { print_cost(report, out) } else { Ok(()) }
}

/// Prints what is known of a run without a report.
pub fn print_entry(number: u32, run: &RunEntry, out: &mut impl Write) -> io::Result<()> {
    let RunEntry { started_at_ms, milliseconds, files, bytes, bytes_read, new_bytes, files_failed } = *run;
    writeln!(out, "The files of run {number}, {} UTC", date(started_at_ms))?;
    row(out, "files", &grouped(files), &format!("{files_failed} unreadable"))?;
    row(out, "bytes", &grouped(bytes), &format!("{} read in this run", grouped(bytes_read)))?;
    row(out, "new bytes", &grouped(new_bytes), "in chunks that were in no file before")?;
    row(out, "seconds", &format!("{:.2}", milliseconds as f64 / 1000.0), "")?;
    writeln!(out, "The index has no report of this run, only these numbers.")
}

fn print_files(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let interrupted = if report.interrupted { ", which was interrupted" } else { "" };
    writeln!(out, "The files of run {}, {} UTC{interrupted}", report.run, date(report.started_at_ms))?;
    let Report {
        files_new, files_changed, files_resumed, files_unchanged, files_linked, files_failed, ..
    } = report;
    let remark = format!(
        "{files_new} new, {files_changed} changed, {files_resumed} resumed, {files_unchanged} unchanged, \
         {files_linked} further hard links, {files_failed} unreadable"
    );
    row(out, "files", &grouped(report.files), &remark)?;
    let remark = format!("{} read in this run", grouped(report.bytes_read));
    row(out, "bytes", &grouped(report.bytes), &remark)?;
    let chunks = grouped(report.new_chunks);
    let remark = format!("in {chunks} chunks that were in no file before");
    row(out, "new bytes", &grouped(report.new_bytes), &remark)?;
    let mut remark = format!("{:.1} MB/s", report.mb_per_s);
    if report.recount_seconds > 0.0 {
        remark = format!("{remark}; {:.2} counted references after a repair", report.recount_seconds);
    }
    row(out, "seconds", &format!("{:.2}", report.seconds), &remark)
}

/// Prints what is in the index, what all runs have added, and the totals of memory and disk space.
fn print_index(report: &Report, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\nThe index: the last version of each file")?;
    let Totals { files, bytes, unique_chunks, unique_bytes, .. } = report.indexed;
    row(out, "indexed files", &grouped(files), &format!("{} bytes", grouped(bytes)))?;
    row(out, "unique bytes", &grouped(unique_bytes), &format!("in {} chunks", grouped(unique_chunks)))?;
    row(out, "dedup ratio", &format!("{:.3}", report.dedup_ratio), "bytes per unique byte")?;
    let all = &report.all_runs;
    let remark = format!("{} files, {} bytes", grouped(all.files), grouped(all.bytes));
    let name = format!("ratio of {}", counted(report.run.into(), "run"));
    row(out, &name, &format!("{:.3}", report.all_runs_ratio), &remark)?;
    let account = report.ram_bytes_max + report.catalogue_ram_bytes;
    let (peak, remark) = match report.process_bytes_max {
        Some(peak) => (peak, format!("at most, of the process; {} are of the index", grouped(account))),
        None => (account, "at most, of the index".to_owned()),
    };
    row(out, "bytes of memory", &grouped(peak), &remark)?;
    row(out, "bytes on disk", &grouped(report.disk_bytes + report.catalogue_disk_bytes), "")
}

/// Prints what the chunks and the catalogue cost: times, memory by item, reads and writes.
fn print_cost(report: &Report, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\nCost of the chunks, and of the catalogue")?;
    let chunks = format!("{} read in this run", grouped(report.chunks_read));
    row(out, "chunks", &grouped(report.chunks), &chunks)?;
    row(out, "lookups per second", &grouped(report.lookups_per_s as u64), "")?;
    row(out, "writes per second", &grouped(report.writes_per_s as u64), "")?;
    let of = |bytes: u64| format!("{} bytes", grouped(bytes));
    let remark = format!("{}; at most {:.3}", of(report.ram_bytes), report.ram_bytes_per_key_max);
    row(out, "RAM bytes per key", &format!("{:.3}", report.ram_bytes_per_key), &remark)?;
    let items = report.ram_account.as_object().into_iter().flatten();
    for (item, bytes) in items.filter_map(|(item, bytes)| Some((item, bytes.as_u64()?))) {
        let per_key = ratio(bytes as f64, report.unique_chunks as f64);
        row(out, &format!("  {item}"), &format!("{per_key:.3}"), &of(bytes))?;
    }
    let remark = format!("{:.0} bytes each", ratio(report.read_bytes_per_get, report.reads_per_get));
    row(out, "flash reads per lookup", &format!("{:.4}", report.reads_per_get), &remark)?;
    row(out, "write amplification", &format!("{:.2}", report.write_amplification), "")?;
    row(out, "bytes of chunks on disk", &grouped(report.disk_bytes), "")?;
    let remark = format!("{} of RAM", of(report.catalogue_ram_bytes));
    row(out, "bytes of the catalogue", &grouped(report.catalogue_disk_bytes), &remark)
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
