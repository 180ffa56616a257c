//! Runs the two phases of a workload: loading the records, then sending the requests.

use super::report::{Measured, Phase};
use super::worker::{Shared, Work, Worker, no_order};
use super::{Chooser, Inserts, Records, Report, Request, Settings, Workload};
use crate::clock::spawn_scoped;
use crate::place::Place;
use crate::{Error, Result};
use siltstone::Database;
use siltstone::key::VALUE_LENGTH_MAX;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Runs the workload of `settings` and passes the report of each phase to `on_report` as soon as it is complete.
///
/// # Errors
/// The first error ends the run, as does a wrong result.
pub fn run(
    settings: &Settings,
    place: &Place,
    on_report: &mut dyn FnMut(&Report) -> std::io::Result<()>,
) -> Result<()> {
    check(settings)?;
    if !settings.use_existing_db {
        place.check_empty()?;
    }
    let records = Records::new(settings.field_count, settings.field_length, settings.fixed);
    let mut builder = Database::builder(place.directory())
        .create(!settings.use_existing_db)
        .durability(settings.durability);
    if settings.fixed {
        builder = builder.fixed(Records::KEY_BYTES_MAX, records.value_bytes());
    }
    let database = settings.tuning.apply(builder).open()?;
    if settings.workload == Workload::E && database.ordered().is_none() {
        return Err(no_order());
    }
    let runner = Runner { settings, records, database, inserts: Inserts::new(settings.records) };
    if !settings.use_existing_db {
        on_report(&runner.phase(Phase::Load)?)
            .map_err(|error| Error::System("cannot write the report".to_owned(), error))?;
    }
    // Requests need a complete load.
    if !settings.stop.load(Relaxed) {
        on_report(&runner.phase(Phase::Run)?)
            .map_err(|error| Error::System("cannot write the report".to_owned(), error))?;
    }
    Ok(runner.database.close()?)
}

fn check(settings: &Settings) -> Result<()> {
    if settings.records == 0 || settings.threads == 0 {
        return Err(Error::settings("there is at least one record and one thread"));
    }
    let value_bytes = settings.field_count.saturating_mul(settings.field_length);
    if !(1..=VALUE_LENGTH_MAX).contains(&value_bytes) {
        return Err(Error::settings("the fields of a record together have 1 byte to 256 MiB"));
    }
    Ok(())
}

struct Runner<'a> {
    settings: &'a Settings,
    records: Records,
    database: Database,
    inserts: Inserts,
}

impl Runner<'_> {
    fn phase(&self, phase: Phase) -> Result<Report> {
        let Settings { workload, records, operations, .. } = *self.settings;
        let distribution = self.settings.distribution.unwrap_or(workload.distribution());
        let inserts = (workload.share(Request::Insert) * operations as f64) as u64;
        let chooser = Chooser::new(distribution, records, inserts);
        let before = self.database.stats();
        self.database.reset_ram_peak();
        let started = Instant::now();
        let work = self.work_in_threads(phase, &chooser, started)?;
        let seconds = started.elapsed().as_secs_f64();
        let writes = phase == Phase::Load || workload.share(Request::Read) < 1.0;
        let settled_seconds = if writes {
            self.database.settle()?;
            Some(started.elapsed().as_secs_f64())
        } else {
            None
        };
        let keys = match phase {
            Phase::Load => work.timings.count(Request::Insert.name()),
            Phase::Run => self.inserts.last() + 1,
        };
        let data_bytes = self.records.data_bytes(keys);
        let after = self.database.stats();
        let measured = Measured { phase, work, seconds, settled_seconds, before, after, keys, data_bytes };
        Ok(Report::new(self.settings, distribution, measured))
    }

    fn work_in_threads(&self, phase: Phase, chooser: &Chooser, started: Instant) -> Result<Work> {
        let (settings, threads) = (self.settings, self.settings.threads as u64);
        let deadline = settings.duration.filter(|_| phase == Phase::Run);
        let shared = Shared {
            settings,
            database: &self.database,
            records: &self.records,
            inserts: &self.inserts,
            deadline: deadline.and_then(|duration| started.checked_add(duration)),
        };
        let shared = &shared;
        let share = |count: u64, thread: u64| {
            let start = |thread: u64| (u128::from(count) * u128::from(thread) / u128::from(threads)) as u64;
            start(thread)..start(thread + 1)
        };
        let start = |thread: u64| {
            let worker = Worker::new(shared, chooser, thread);
            match phase {
                Phase::Load => worker.load(share(settings.records, thread)),
                Phase::Run => {
                    let requests = share(settings.operations, thread);
                    worker.run(requests.end - requests.start)
                }
            }
        };
        std::thread::scope(|scope| {
            let workers = (0..threads).map(|thread| spawn_scoped(scope, move || start(thread)));
            let workers = workers.collect::<Result<Vec<_>>>()?;
            let mut all = Work::default();
            for worker in workers {
                all.merge(&worker.join().map_err(|_| Error::Panicked)??);
            }
            Ok(all)
        })
    }
}
