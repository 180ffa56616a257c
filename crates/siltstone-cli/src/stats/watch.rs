//! `siltstone stats --watch`: the rates of a database that another process has open.
//!
//! Two sources are true, and nothing else is visible from outside:
//!
//! | source | what | how often it changes |
//! |---|---|---|
//! | `--metrics HOST:PORT` | the metrics of `siltstone serve data --metrics` | with each request |
//! | `--db DIR` | the file of usage counters, and sizes of files | when the process saves it, about each minute |

use super::metrics::{self, Sample};
use crate::interrupt::Interrupt;
use crate::outcome::{Outcome, Result, complain, wrong_usage};
use crate::place;
use crate::quantity::{parse_time, parse_whole, show_bytes, show_count};
use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Value, json};
use siltstone::{Database, Error};
use std::fs;
use std::io::{IsTerminal, Write, stdout};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The time between two looks for an interrupt.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// Clears a terminal, and moves to its first line.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// What is watched, and how often.
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Print the rates of a database that is in use each SECONDS, until Ctrl-C
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", value_parser = parse_time)]
    watch: Option<Duration>,
    /// With --watch: the address of the metrics of `siltstone serve data`
    #[arg(long, value_name = "HOST:PORT", requires = "watch")]
    metrics: Option<String>,
    /// With --watch: end after this many tables
    #[arg(long, value_name = "N", requires = "watch", value_parser = parse_whole::<u64>)]
    count: Option<u64>,
}

impl WatchArgs {
    /// Returns whether the database is to be watched.
    pub fn is_stated(&self) -> bool {
        self.watch.is_some()
    }
}

/// What is known of a database at a moment. Counters only grow.
#[derive(Debug, Clone, Default, PartialEq)]
struct Reading {
    database: String,
    /// The moment, in seconds.
    at_s: f64,
    gets: f64,
    misses: f64,
    puts: f64,
    deletes: f64,
    written_bytes: f64,
    /// Reads of the device by gets, if the source has them.
    reads: Option<f64>,
    records: f64,
    memory_bytes: Option<f64>,
    disk_bytes: f64,
}

enum Source {
    Metrics { address: String, started: Instant },
    Databases(Vec<PathBuf>),
}

impl Source {
    fn new(args: &WatchArgs, db: Option<&Path>) -> anyhow::Result<Source> {
        if let Some(address) = &args.metrics {
            return Ok(Source::Metrics { address: address.clone(), started: Instant::now() });
        }
        let directories = place::databases(db.context("state --db or --metrics")?);
        for directory in &directories {
            match Database::builder(directory).read_only(true).open() {
                Err(Error::Locked { .. }) => {}
                Err(error) => return Err(error.into()),
                Ok(_) => bail!(
                    "{}: no process writes to the database, so there are no rates; `siltstone stats` prints its counts",
                    directory.display()
                ),
            }
        }
        complain(format_args!(
            "the process that has the database open saves its counters about each minute; the first rates appear \
             after it has saved them twice"
        ));
        Ok(Source::Databases(directories))
    }

    fn read(&self) -> anyhow::Result<Vec<Reading>> {
        match self {
            Source::Metrics { address, started } => {
                let samples = metrics::read(address)?;
                Ok(of_samples(&samples, started.elapsed().as_secs_f64()))
            }
            Source::Databases(directories) => {
                let kept = directories.iter().map(|directory| of_directory(directory));
                Ok(kept.collect::<anyhow::Result<Vec<_>>>()?.into_iter().flatten().collect())
            }
        }
    }
}

/// Returns what metrics have of each database.
fn of_samples(samples: &[Sample], at_s: f64) -> Vec<Reading> {
    let mut names: Vec<&str> = samples.iter().filter_map(|sample| sample.label("database")).collect();
    names.sort_unstable();
    names.dedup();
    let reading = |name: &str| {
        let sum = |metric: &str, purpose: Option<&str>| -> f64 {
            let of = samples
                .iter()
                .filter(|sample| sample.name == metric && sample.label("database") == Some(name));
            of.filter(|sample| purpose.is_none() || sample.label("purpose") == purpose)
                .map(|sample| sample.value)
                .sum()
        };
        Reading {
            database: name.to_owned(),
            at_s,
            gets: sum("siltstone_gets_total", None),
            misses: sum("siltstone_misses_total", None),
            puts: sum("siltstone_puts_total", None),
            deletes: sum("siltstone_deletes_total", None),
            written_bytes: sum("siltstone_device_write_bytes_total", None),
            reads: Some(sum("siltstone_device_reads_total", Some("get"))),
            records: sum("siltstone_records", None),
            memory_bytes: Some(sum("siltstone_ram_bytes", None)),
            disk_bytes: sum("siltstone_disk_bytes", None),
        }
    };
    names.into_iter().map(reading).collect()
}

/// Returns what the files of a database have; `None` before its process has saved its counters.
fn of_directory(directory: &Path) -> anyhow::Result<Option<Reading>> {
    let Some(usage) = Database::kept_usage(directory)? else { return Ok(None) };
    let entries = fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))?;
    // Files may disappear meanwhile.
    let lengths = entries.flatten().filter_map(|entry| Some(entry.metadata().ok()?.len()));
    Ok(Some(Reading {
        database: directory.display().to_string(),
        at_s: usage.saved_at_ms as f64 / 1e3,
        gets: usage.gets as f64,
        misses: usage.misses as f64,
        puts: usage.puts as f64,
        deletes: usage.deletes as f64,
        written_bytes: usage.written_bytes as f64,
        reads: None,
        records: usage.records as f64,
        memory_bytes: None,
        disk_bytes: lengths.sum::<u64>() as f64,
    }))
}

/// What happened to a database between two readings, per second.
struct Rates<'a> {
    now: &'a Reading,
    seconds: f64,
    gets: f64,
    misses: f64,
    puts: f64,
    deletes: f64,
    written_bytes: f64,
    reads_per_get: Option<f64>,
}

impl<'a> Rates<'a> {
    /// Returns `None` if the later reading is not later, or of a process that began again.
    fn between(before: &Reading, now: &'a Reading) -> Option<Rates<'a>> {
        let seconds = now.at_s - before.at_s;
        let counters = |of: &Reading| {
            [of.gets, of.misses, of.puts, of.deletes, of.written_bytes, of.reads.unwrap_or(0.0)]
        };
        let (old, new) = (counters(before), counters(now));
        if seconds <= 0.0 || old.iter().zip(new).any(|(old, new)| new < *old) {
            return None;
        }
        let [gets, misses, puts, deletes, written_bytes, reads] =
            std::array::from_fn(|at| (new[at] - old[at]) / seconds);
        let reads_per_get = now.reads.filter(|_| gets > 0.0).map(|_| reads / gets);
        Some(Rates { now, seconds, gets, misses, puts, deletes, written_bytes, reads_per_get })
    }

    fn as_json(&self) -> Value {
        json!({
            "database": self.now.database,
            "seconds": self.seconds,
            "gets_per_s": self.gets,
            "misses_per_s": self.misses,
            "puts_per_s": self.puts,
            "deletes_per_s": self.deletes,
            "written_bytes_per_s": self.written_bytes,
            "reads_per_get": self.reads_per_get,
            "records": self.now.records,
            "memory_bytes": self.now.memory_bytes,
            "disk_bytes": self.now.disk_bytes,
        })
    }

    /// Returns a row of the table. What the source does not have is `-`.
    fn as_row(&self) -> String {
        let or_none = |shown: Option<String>| shown.unwrap_or_else(|| "-".to_owned());
        let columns = [
            show_count(self.gets),
            show_count(self.misses),
            show_count(self.puts),
            show_count(self.deletes),
            show_bytes(self.written_bytes),
            or_none(self.reads_per_get.map(|reads| format!("{reads:.2}"))),
            show_count(self.now.records),
            or_none(self.now.memory_bytes.map(show_bytes)),
            show_bytes(self.now.disk_bytes),
        ];
        row(&self.now.database, &columns)
    }
}

const TITLES: [&str; 9] =
    ["gets/s", "misses/s", "puts/s", "deletes/s", "written/s", "reads/get", "records", "memory", "on disk"];

fn row<T: AsRef<str>>(name: &str, columns: &[T]) -> String {
    let columns: Vec<String> = columns.iter().map(|column| format!("{:>10}", column.as_ref())).collect();
    format!("{name:<12} {}", columns.join(" "))
}

/// Prints rates until it is interrupted.
pub fn run(args: &WatchArgs, db: Option<&Path>, is_json: bool) -> Result {
    let interrupt = Interrupt::listen()?;
    let interval = args.watch.filter(|interval| !interval.is_zero());
    let interval =
        interval.ok_or_else(|| wrong_usage("--watch is 0; state the seconds between two tables"))?;
    let source = Source::new(args, db)?;
    let (mut before, mut printed) = (source.read()?, 0);
    if before.is_empty() && args.metrics.is_some() {
        complain(format_args!("the server has no open database yet"));
    }
    while args.count.is_none_or(|count| printed < count) {
        if !wait(interval, &interrupt) {
            break;
        }
        let now = source.read()?;
        let of = |reading: &Reading| before.iter().find(|other| other.database == reading.database).cloned();
        let rates: Vec<Rates<'_>> =
            now.iter().filter_map(|reading| Rates::between(&of(reading)?, reading)).collect();
        // Between two savings of its counters, nothing is known of a database.
        let is_unchanged =
            now.iter().all(|reading| of(reading).is_some_and(|before| before.at_s == reading.at_s));
        if is_unchanged {
            continue;
        }
        if !rates.is_empty() {
            print(&rates, is_json)?;
            printed += 1;
        }
        before = now;
    }
    Ok(Outcome::Done)
}

/// Waits. Returns false if it was interrupted.
fn wait(interval: Duration, interrupt: &Interrupt) -> bool {
    let started = Instant::now();
    while let Some(left) = interval.checked_sub(started.elapsed()) {
        if interrupt.is_raised() {
            return false;
        }
        std::thread::sleep(left.min(LOOK_INTERVAL));
    }
    !interrupt.is_raised()
}

fn print(rates: &[Rates<'_>], is_json: bool) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    if is_json {
        rates.iter().try_for_each(|rates| writeln!(out, "{}", rates.as_json()))?;
        return Ok(out.flush()?);
    }
    if out.is_terminal() {
        write!(out, "{CLEAR}")?;
    }
    writeln!(out, "{}", row("database", &TITLES))?;
    rates.iter().try_for_each(|rates| writeln!(out, "{}", rates.as_row()))?;
    let seconds = rates.first().map_or(0.0, |rates| rates.seconds);
    writeln!(out, "rates of {seconds:.1} s\n")?;
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_differences_per_second_and_a_new_process_has_none() {
        let before = Reading { at_s: 10.0, gets: 100.0, puts: 7.0, reads: Some(3.0), ..Reading::default() };
        let now = Reading { at_s: 14.0, gets: 140.0, puts: 9.0, reads: Some(23.0), ..Reading::default() };
        let rates = Rates::between(&before, &now).unwrap();
        assert_eq!((rates.gets, rates.puts, rates.reads_per_get), (10.0, 0.5, Some(0.5)));
        assert!(Rates::between(&now, &now).is_none() && Rates::between(&now, &before).is_none());
        let restarted = Reading { at_s: 20.0, ..Reading::default() };
        assert!(Rates::between(&now, &restarted).is_none());
    }

    #[test]
    fn a_database_without_a_server_has_the_counters_that_its_process_saves() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("db");
        // Closing saves the counters.
        let reading = |puts: u32| {
            let database = Database::open(&path).unwrap();
            (0..puts).for_each(|number| database.put(number.to_le_bytes(), "value").unwrap());
            database.close().unwrap();
            of_directory(&path).unwrap().unwrap()
        };
        let before = reading(5);
        // In the same millisecond nothing can be said.
        let (now, rates) = loop {
            let now = reading(7);
            if let Some(rates) = Rates::between(&before, &now) {
                break (now.clone(), rates.puts * rates.seconds);
            }
        };
        assert!(rates >= 6.999 && now.puts >= 12.0 && now.disk_bytes > 0.0 && now.reads.is_none(), "{now:?}");
        assert!(of_directory(directory.path()).is_err());
    }
}
