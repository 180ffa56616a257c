//! The engines under test. A row here is all that the suites of all engines need of a new one.

use crate::append_log::{self, AppendLogSettings};
use crate::simulation::Omission;
use siltstone::EngineKind;
use siltstone::engine::CommonSettings;
use siltstone::engine::mica::MicaSettings;
use siltstone::engine::silt::{FilterKind, HashStoreKind, IndexKind, SiltSettings};
use siltstone::engine::{EngineInfo, EngineSettings};
use siltstone::{Builder, Database};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Draws random settings of an engine. It may change those common settings that may differ between two openings, and
/// removes those that the engine does not have.
pub type Draw = Arc<dyn Fn(&mut fastrand::Rng, &mut CommonSettings) -> Box<dyn EngineSettings> + Send + Sync>;

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
    /// The counters of background jobs in `Stats::details`.
    pub jobs: &'static [&'static str],
    /// The items of the RAM account that are zero while no background job runs.
    pub job_buffers: &'static [&'static str],
    /// How the names of its store files end: immutable files that belong to one database, with checksums of everything.
    pub store_suffixes: &'static [&'static str],
    /// The omitted calls that simulations must find.
    pub omissions: &'static [Omission],
}

impl TestEngine {
    /// Returns all engines.
    pub fn all() -> Vec<TestEngine> {
        vec![TestEngine::silt(), TestEngine::mica(), TestEngine::append_log()]
    }

    /// Returns the engines whose data survives the process.
    pub fn persistent() -> impl Iterator<Item = TestEngine> {
        TestEngine::all().into_iter().filter(TestEngine::is_persistent)
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

    /// SILT.
    pub fn silt() -> TestEngine {
        TestEngine {
            info: EngineKind::Silt.info(),
            small: |in_files| {
                let common = CommonSettings {
                    partitions: Some(2),
                    memory_budget: in_files.then_some(300 << 10),
                    ..CommonSettings::default()
                };
                let settings = SiltSettings::default().log_slots_min(64);
                let settings = if in_files { settings.filter_last_store(6) } else { settings };
                (common, settings.into())
            },
            draw: Arc::new(|random, common| random_silt(random, common).into()),
            jobs: &["conversions", "merges"],
            job_buffers: &["convert_buffers", "merge_buffers"],
            store_suffixes: &[".hash", ".sorted"],
            omissions: &[
                Omission::SyncOf("log-"),
                Omission::SyncOf("MANIFEST"),
                Omission::SyncOf(".hash"),
                Omission::SyncOf(".sorted"),
                Omission::SyncOfTheDirectory,
                Omission::Truncation,
                Omission::ErrorsOfWrites,
                Omission::ErrorsOfSyncs,
                Omission::Removal,
            ],
        }
    }

    /// MICA.
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
            jobs: &[],
            job_buffers: &[],
            store_suffixes: &[],
            omissions: &[],
        }
    }

    /// The example of `docs/ENGINES.md`.
    pub fn append_log() -> TestEngine {
        TestEngine {
            info: &append_log::INFO,
            small: |_| (CommonSettings::default(), AppendLogSettings.into()),
            draw: Arc::new(|_, common| {
                (common.partitions, common.block_bytes, common.memory_budget) = (None, None, None);
                AppendLogSettings.into()
            }),
            jobs: &[],
            job_buffers: &[],
            store_suffixes: &[],
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

/// A number from `start` to `end`, with the same probability for each power of two.
fn between(random: &mut fastrand::Rng, start: u64, end: u64) -> u64 {
    let scale = end as f64 / start as f64;
    (start as f64 * scale.powf(random.f64())) as u64
}

/// None half of the time, otherwise a budget from about the minimum of a database with few partitions on, in bytes.
pub fn random_memory_budget(random: &mut fastrand::Rng) -> Option<u64> {
    random.bool().then(|| between(random, 300 << 10, 2 << 20))
}

/// Random settings of SILT, and a random memory budget.
pub fn random_silt(random: &mut fastrand::Rng, common: &mut CommonSettings) -> SiltSettings {
    let mut of_memory = fastrand::Rng::with_seed(random.get_seed());
    let hash_stores = [HashStoreKind::HashOrdered, HashStoreKind::CuckooTable, HashStoreKind::HashOrdered];
    let filters = [FilterKind::Ribbon, FilterKind::CuckooTags, FilterKind::Ribbon];
    let indexes = [
        None,
        Some(IndexKind::EntropyTrie),
        Some(IndexKind::Fences),
        Some(IndexKind::BlockPerfect),
        Some(IndexKind::SlotPerfect),
    ];
    let settings = SiltSettings::default()
        .merge_ratio([0.01, 0.1, 0.3, 1.0, 10.0][random.usize(..5)])
        .tag_bits(random.u8(8..=15))
        .log_slots_min(between(random, 16, 512) as u32)
        .keys_per_log_slot(between(random, 1, 100) as u32)
        .hash_store(hash_stores[random.usize(..3)])
        .filter(filters[random.usize(..3)])
        .filter_bits(random.u8(4..=16))
        .index(indexes[random.usize(..5)])
        .log_segment_bytes(between(random, 4096, 100_000))
        .log_bytes_max(between(random, 4096, 1 << 20))
        .piece_bytes_max(between(random, 32 << 10, 256 << 10) as usize)
        .step_records(between(random, 1, 1000) as usize)
        .region_slots_max(16 << random.u32(..6))
        .manifest_bytes_max(between(random, 1, 3000))
        .filter_last_store(if of_memory.u8(..3) == 0 { of_memory.u8(1..12) } else { 0 });
    common.memory_budget = random_memory_budget(&mut of_memory);
    settings.resident_bytes_max(between(&mut of_memory, 1, 1 << 20)).suited(common)
}
