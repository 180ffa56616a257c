//! Runs the benchmarks, one after the other.

use super::disk_peak::with_disk_peak;
use super::report::Measured;
use super::series::with_series;
use super::worker::{Shared, Work, Worker, deadline};
use super::{Benchmark, Report, Settings};
use crate::clock::{process_time, spawn_scoped};
use crate::costs::Costs;
use crate::key_set::KeySet;
use crate::keys::{Keys, Values};
use crate::place::Place;
use crate::{Error, Result};
use siltstone::{Database, Stats};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Runs the benchmarks of `settings` and passes each report to `on_report` as soon as it is complete.
///
/// The first error ends the run, as does a wrong result.
pub fn run(
    settings: &Settings,
    place: &Place,
    on_report: &mut dyn FnMut(&Report) -> std::io::Result<()>,
) -> Result<()> {
    let mut on_report = |report: &Report| {
        on_report(report).map_err(|error| Error::System("cannot write the report".into(), error))
    };
    settings.check()?;
    if !settings.use_existing_db {
        place.check_empty()?;
    }
    let mut runner = Runner {
        place,
        keys: Keys::new(settings.key_size, settings.num, settings.hashed_keys)?,
        values: Values::of_kind(settings.value_kind, settings.value_size, settings.seed)?,
        present: KeySet::new(settings.num),
        foreign: 0,
        written: false,
        heap_before: settings.heap_bytes.map_or(0, |heap_bytes| heap_bytes()),
        database: None,
        operations: AtomicU64::new(0),
        settings,
    };
    if settings.use_existing_db {
        on_report(&runner.open_existing()?)?;
    }
    for (stream, benchmark) in settings.benchmarks.iter().enumerate() {
        if settings.stop.load(Relaxed) {
            break;
        }
        on_report(&runner.run(*benchmark, stream as u64)?)?;
        if *benchmark == Benchmark::Abort {
            std::process::abort();
        }
    }
    runner.close()
}

struct Runner<'a> {
    settings: &'a Settings,
    place: &'a Place,
    keys: Keys,
    values: Values,
    present: KeySet,
    /// Records of an existing database with keys that the benchmark does not use.
    foreign: u64,
    written: bool,
    heap_before: u64,
    database: Option<Database>,
    /// The operations until now, if a series is wanted.
    operations: AtomicU64,
}

impl Runner<'_> {
    fn run(&mut self, benchmark: Benchmark, stream: u64) -> Result<Report> {
        if benchmark.is_fresh() {
            if self.settings.use_existing_db {
                return self.skip(benchmark, "--use-existing-db is given");
            }
            self.start_afresh()?;
        }
        if benchmark == Benchmark::Reopen {
            self.close()?;
            return self.open_timed(benchmark);
        }
        if benchmark.only_looks_up() && self.present.len() + self.foreign == 0 {
            return self.skip(benchmark, "the database is empty: fill it before, as with fillrandom");
        }
        let database = self.open()?;
        if benchmark == Benchmark::Queue && database.ordered().is_none() {
            return self.skip(
                benchmark,
                "the engine keeps no order of the keys: use --engine flashkey --set ordered=true",
            );
        }
        let mut before = database.stats();
        before.settings = Vec::new();
        database.reset_ram_peak();
        let (started, cpu) = (Instant::now(), process_time());
        let work = || -> Result<_> {
            let (work, ended) = self.work(benchmark, stream, &database)?;
            let seconds = ended.duration_since(started).as_secs_f64();
            if !benchmark.writes() {
                return Ok((work, seconds, None));
            }
            database.settle()?;
            Ok((work, seconds, Some(started.elapsed().as_secs_f64())))
        };
        let with_peak = || match benchmark.writes() {
            true => with_disk_peak(&database, work),
            false => Ok((work(), None)),
        };
        let (watched, series) = match self.settings.series {
            Some(interval) => with_series(&database, interval, &self.operations, with_peak)?,
            None => (with_peak(), Vec::new()),
        };
        let (outcome, disk_bytes_max) = watched?;
        let (work, seconds, settled_seconds) = outcome?;
        self.written |= benchmark.writes() || benchmark == Benchmark::ReadWhileWriting;
        let process_cpu = process_time() - cpu;
        // Before the second statistics are taken: they have a list of settings, which is not the database's memory.
        let heap_bytes = self.heap_bytes();
        Ok(self.report(
            benchmark,
            Measured {
                work,
                seconds,
                settled_seconds,
                process_cpu,
                before,
                after: database.stats(),
                keys: self.present.len() + self.foreign,
                heap_bytes,
                disk_bytes_max,
                series,
            },
        ))
    }

    fn report(&self, benchmark: Benchmark, measured: Measured) -> Report {
        Report::new(benchmark, self.settings, measured)
    }

    /// Returns the heap bytes of the database, including the histograms of benchmarks with latencies.
    fn heap_bytes(&self) -> Option<u64> {
        self.settings.heap_bytes.map(|heap_bytes| heap_bytes().saturating_sub(self.heap_before))
    }

    fn skip(&mut self, benchmark: Benchmark, reason: &'static str) -> Result<Report> {
        let after = self.open()?.stats();
        let measured = Measured {
            work: Work::default(),
            seconds: 0.0,
            settled_seconds: None,
            process_cpu: Duration::ZERO,
            before: after.clone(),
            after,
            keys: self.present.len() + self.foreign,
            heap_bytes: None,
            disk_bytes_max: None,
            series: Vec::new(),
        };
        Ok(Report { skipped: Some(reason), ..self.report(benchmark, measured) })
    }

    fn open(&mut self) -> Result<Database> {
        if let Some(database) = &self.database {
            return Ok(database.clone());
        }
        let settings = self.settings;
        let mut builder = Database::builder(self.place.directory())
            .create(!settings.use_existing_db)
            .durability(settings.durability);
        if settings.fixed {
            builder = builder.fixed(settings.key_size, settings.value_size);
        }
        if settings.hashed_keys {
            builder = builder.hashed_keys();
        }
        let database = settings.tuning.apply(builder).open()?;
        self.database = Some(database.clone());
        Ok(database)
    }

    fn close(&mut self) -> Result<()> {
        match self.database.take() {
            Some(database) => Ok(database.close()?),
            None => Ok(()),
        }
    }

    /// Starts with an empty database: removes what this run has written.
    fn start_afresh(&mut self) -> Result<()> {
        if self.written {
            self.close()?;
            self.place.clear()?;
            self.present = KeySet::new(self.settings.num);
            self.written = false;
        }
        Ok(())
    }

    /// Opens the database and reports the time.
    fn open_timed(&mut self, benchmark: Benchmark) -> Result<Report> {
        let (started, cpu) = (Instant::now(), process_time());
        let database = self.open()?;
        let seconds = started.elapsed().as_secs_f64();
        let process_cpu = process_time() - cpu;
        let after = database.stats();
        let replayed_records = Some(after.replayed_records);
        let measured = Measured {
            work: Work { operations: 1, ..Work::default() },
            seconds,
            settled_seconds: None,
            process_cpu,
            before: Stats::default(),
            after,
            keys: self.present.len() + self.foreign,
            heap_bytes: self.heap_bytes(),
            disk_bytes_max: None,
            series: Vec::new(),
        };
        Ok(Report { replayed_records, ..self.report(benchmark, measured) })
    }

    /// Opens an existing database and reads all records to find out which keys exist. If this is interrupted, the
    /// report says so, because the keys are unknown.
    fn open_existing(&mut self) -> Result<Report> {
        let opened = self.open_timed(Benchmark::Reopen)?;
        for record in self.open()?.iter()? {
            if self.settings.stop.load(Relaxed) {
                let skipped = Some("interrupted while all records were read to find out which keys exist");
                return Ok(Report { benchmark: "open", skipped, ..opened });
            }
            match self.keys.number_of(&record?.key) {
                Some(number) => self.present.insert(number),
                None => self.foreign += 1,
            }
        }
        let keys = self.present.len() + self.foreign;
        let record_bytes = (self.settings.key_size + self.settings.value_size) as u64;
        let costs = Costs::new(&Stats::default(), &opened.stats, keys, keys * record_bytes, 0);
        Ok(Report { benchmark: "open", costs, ..opened })
    }

    /// Runs the benchmark. Returns its results, and when its last operation returned.
    fn work(&self, benchmark: Benchmark, stream: u64, database: &Database) -> Result<(Work, Instant)> {
        let whole = |outcome: siltstone::Result<()>| {
            outcome?;
            Ok(Work { operations: 1, ..Work::default() })
        };
        let work: Result<Work> = match benchmark {
            Benchmark::Compact => whole(database.compact()),
            Benchmark::Settle | Benchmark::WaitForBackground => whole(database.settle()),
            Benchmark::Stats | Benchmark::Abort => Ok(Work::default()),
            Benchmark::VerifyChecksum => {
                let report = database.verify_with(&mut |_, _| !self.settings.stop.load(Relaxed))?;
                match report.damage.first() {
                    Some(first) => Err(Error::WrongResults(format!(
                        "{} places of the database are damaged; the first: {}",
                        report.damage.len(),
                        first.error()
                    ))),
                    None => Ok(Work { operations: 1, bytes: report.checked_bytes, ..Work::default() }),
                }
            }
            _ => return self.work_in_threads(benchmark, stream, database),
        };
        Ok((work?, Instant::now()))
    }

    fn work_in_threads(
        &self,
        benchmark: Benchmark,
        stream: u64,
        database: &Database,
    ) -> Result<(Work, Instant)> {
        let finished = AtomicBool::new(false);
        let shared = Shared {
            settings: self.settings,
            benchmark,
            database,
            keys: &self.keys,
            values: &self.values,
            present: &self.present,
            finished: &finished,
            counter: self.settings.series.map(|_| &self.operations),
            stream,
            deadline: deadline(self.settings.duration),
        };
        let threads = benchmark.threads(self.settings.threads) as u64;
        let shared = &shared;
        std::thread::scope(|scope| {
            let start = |thread: u64| spawn_scoped(scope, move || Worker::new(shared, thread).run(thread));
            let workers = (0..threads).map(start).collect::<Result<Vec<_>>>()?;
            let companion = (benchmark == Benchmark::ReadWhileWriting)
                .then(|| spawn_scoped(scope, move || Worker::new(shared, threads).accompany()))
                .transpose()?;
            let done: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
            // What the companion still does is not part of the benchmark.
            let ended = Instant::now();
            finished.store(true, Relaxed);
            if let Some(companion) = companion {
                companion.join().map_err(|_| Error::Panicked)??;
            }
            let mut all = Work::default();
            for work in done {
                all.merge(&work.map_err(|_| Error::Panicked)??);
            }
            Worker::new(shared, 0).note_written(&all.once);
            Ok((all, ended))
        })
    }
}
