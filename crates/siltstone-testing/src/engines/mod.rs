//! The engines under test. A row here is all that the suites of all engines need of a new one.

mod bloomstore;
mod flashkey;
mod flashstore;
#[cfg(any(test, shuttle))]
pub mod mistakes;
mod silt;

pub use flashkey::cleaning;
pub use flashstore::complete_settings;

use crate::append_log::{self, AppendLogSettings};
use crate::omission::Omission;
use siltstone::EngineKind;
use siltstone::engine::CommonSettings;
use siltstone::engine::mica::MicaSettings;
use siltstone::engine::{EngineInfo, EngineSettings};
use siltstone::{Builder, Database};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Draws random settings of an engine. It may change those common settings that may differ between two opens, and
/// removes those that the engine does not have.
pub type Draw = Arc<dyn Fn(&mut fastrand::Rng, &mut CommonSettings) -> Box<dyn EngineSettings> + Send + Sync>;

/// A kind of file, and a database that has such files.
#[derive(Clone, Copy)]
pub struct FileKind {
    /// Its name.
    pub name: &'static str,
    /// How the names of the files begin and end.
    pub affixes: (&'static str, &'static str),
    /// Whether the records of the database have a fixed size.
    pub is_fixed: bool,
    /// The settings of the database.
    pub settings: fn(&CommonSettings) -> Box<dyn EngineSettings>,
    /// The size of its blocks, if it has any.
    pub block_bytes: Option<u32>,
    /// The setting that keeps later writes in the log.
    pub in_log: (&'static str, &'static str),
}

/// The minimum number of operations of most runs.
const OPERATIONS_MIN: f64 = 20.0;

/// A kind of background job.
#[derive(Debug, Clone, Copy)]
pub struct Job {
    /// Its counter in `Stats::details`.
    pub name: &'static str,
    /// How often it must at least occur in a run of a simulation, on average, so that the runs test it. Runs with
    /// threads are shorter and need half as many.
    pub per_run: f64,
}

impl Job {
    const fn new(name: &'static str, per_run: f64) -> Job {
        Job { name, per_run }
    }
}

/// An engine under test.
#[derive(Clone)]
pub struct TestEngine {
    /// Its constant properties.
    pub info: &'static EngineInfo,
    /// The settings of small databases, in memory or in files: a few thousand records pass through all stores. Those in
    /// files have a memory budget, if the engine has one.
    pub small: fn(in_files: bool) -> (CommonSettings, Box<dyn EngineSettings>),
    /// Random settings, of even smaller databases.
    pub draw: Draw,
    /// Random settings of databases with which a few threads do some dozen operations.
    pub draw_tiny: Draw,
    /// The kinds of its background jobs.
    pub jobs: &'static [Job],
    /// The counters in `Stats::details` of jobs that began while others of their kind were in progress, if several
    /// threads do background work.
    pub further_jobs: &'static [&'static str],
    /// The items of the RAM account that are zero while no background job runs.
    pub job_buffers: &'static [&'static str],
    /// How the names of its store files end: immutable files that belong to one database, with checksums of everything.
    pub store_suffixes: &'static [&'static str],
    /// The kinds of its files in which a flipped bit must be detected or harmless.
    pub file_kinds: &'static [FileKind],
    /// The minimum number of operations of a simulated run, at most 500.
    pub operations_min: f64,
    /// Whether it may lose records, as a cache.
    pub is_lossy: bool,
    /// The number of stores that share a memory budget.
    pub stores: u64,
    /// The omitted calls that simulations must find.
    pub omissions: &'static [Omission],
}

impl TestEngine {
    /// Returns all engines.
    pub fn all() -> Vec<TestEngine> {
        vec![
            TestEngine::silt(),
            TestEngine::mica(),
            TestEngine::flashkey(),
            TestEngine::flashstore(),
            TestEngine::bloomstore(),
            TestEngine::append_log(),
        ]
    }

    /// Returns the engines whose data survives the process.
    pub fn persistent() -> impl Iterator<Item = TestEngine> {
        TestEngine::all().into_iter().filter(TestEngine::is_persistent)
    }

    /// Returns the engines that simulations run: also those that may lose records.
    pub fn simulated() -> impl Iterator<Item = TestEngine> {
        TestEngine::persistent().chain([TestEngine::flashstore_cache()])
    }

    /// Returns whether the data survives the process.
    pub fn is_persistent(&self) -> bool {
        self.info.number.is_some()
    }

    /// Returns a builder of a small database without a memory budget, with records of these lengths if they are fixed.
    pub fn builder(&self, path: &Path, fixed: Option<(usize, usize)>) -> Builder {
        let (common, settings) = (self.small)(false);
        Database::builder(path).engine(settings).common(CommonSettings { fixed, ..common })
    }

    /// Returns the row of MICA.
    pub fn mica() -> TestEngine {
        TestEngine {
            info: EngineKind::Mica.info(),
            small: |_| {
                let memory_budget = Some(32 << 20);
                let common =
                    CommonSettings { partitions: Some(2), memory_budget, ..CommonSettings::default() };
                (common, MicaSettings::default().into())
            },
            draw: Arc::new(|_, common| {
                common.block_bytes = None;
                MicaSettings::default().into()
            }),
            draw_tiny: Arc::new(|_, common| {
                common.block_bytes = None;
                MicaSettings::default().into()
            }),
            jobs: &[],
            further_jobs: &[],
            job_buffers: &[],
            store_suffixes: &[],
            file_kinds: &[],
            operations_min: OPERATIONS_MIN,
            is_lossy: false,
            stores: 1,
            omissions: &[],
        }
    }

    /// Returns the row of the example of `docs/ENGINES.md`.
    pub fn append_log() -> TestEngine {
        TestEngine {
            info: &append_log::INFO,
            small: |_| (CommonSettings::default(), AppendLogSettings.into()),
            draw: Arc::new(draw_append_log),
            draw_tiny: Arc::new(draw_append_log),
            jobs: &[],
            further_jobs: &[],
            job_buffers: &[],
            store_suffixes: &[],
            file_kinds: &[],
            operations_min: OPERATIONS_MIN,
            is_lossy: false,
            stores: 1,
            omissions: &[
                Omission::SyncOf("MANIFEST"),
                Omission::SyncOfTheDirectory,
                Omission::Truncation,
                Omission::ErrorsOfWrites,
                Omission::ErrorsOfSyncs,
            ],
        }
    }
}

fn draw_append_log(_: &mut fastrand::Rng, common: &mut CommonSettings) -> Box<dyn EngineSettings> {
    (common.partitions, common.block_bytes, common.memory_budget) = (None, None, None);
    AppendLogSettings.into()
}

impl fmt::Debug for TestEngine {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.info.name)
    }
}

impl PartialEq for TestEngine {
    fn eq(&self, other: &TestEngine) -> bool {
        self.info == other.info
    }
}

/// Returns a number from `start` to `end`, with the same probability for each power of two.
fn between(random: &mut fastrand::Rng, start: u64, end: u64) -> u64 {
    let scale = end as f64 / start as f64;
    (start as f64 * scale.powf(random.f64())) as u64
}

/// Returns `None` half of the time, otherwise a budget from about the minimum of a database with few partitions
/// on, in bytes.
pub fn random_memory_budget(random: &mut fastrand::Rng) -> Option<u64> {
    random.bool().then(|| between(random, 560 << 10, 2 << 20))
}
