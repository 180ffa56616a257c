//! FlashStore's rows: with a disk, and as a cache.

use super::{FileKind, Job, OPERATIONS_MIN, TestEngine, random_memory_budget};
use crate::flips::DISK;
use crate::omission::Omission;
use siltstone::engine::{CommonSettings, EngineInfo, EngineSettings};
use siltstone::{Disk, EngineKind, FlashStoreSettings, SiltSettings};
use std::sync::{Arc, LazyLock};

/// The size of segments: fixed when a database is created, so all settings of a simulation have the same.
const SEGMENT_BYTES: u64 = 4 << 10;
/// The least bytes of flash.
const FLASH_BYTES: u64 = 16 * SEGMENT_BYTES;

const JOBS: [Job; 2] = [Job::new("cleanings", 1.0), Job::new("disk_writes", 1.0)];

const FILE_KINDS: [FileKind; 5] = [
    kind("manifest of flashstore", ("MANIFEST", "MANIFEST")),
    kind("user log over a disk", ("log-", "")),
    kind("moved log over a disk", ("moved", "")),
    kind("claim of a disk", ("disk/FLASHSTORE", "")),
    kind("store of a disk", ("disk/", ".sorted")),
];

const fn kind(name: &'static str, affixes: (&'static str, &'static str)) -> FileKind {
    let settings: fn(&CommonSettings) -> Box<dyn EngineSettings> = |_| with_disk().into();
    FileKind { name, affixes, is_fixed: false, settings, block_bytes: None, in_log: ("usage", "0.9") }
}

/// Returns a disk with stores of a few dozen records.
fn disk() -> Disk {
    Disk::at(DISK)
        .engine(SiltSettings::default().log_slots_min(32).log_segment_bytes(4096).filter_last_store(Some(8)))
}

fn with_disk() -> FlashStoreSettings {
    FlashStoreSettings::default().segment_bytes(SEGMENT_BYTES).flash_bytes(FLASH_BYTES).disk(disk())
}

/// Returns settings with which a database of an engine can be created: the defaults, and for FlashStore a disk in its
/// directory and little flash.
pub fn complete_settings(kind: EngineKind) -> Box<dyn EngineSettings> {
    let flashstore = || FlashStoreSettings::default().segment_bytes(64 << 10).flash_bytes(2 << 20);
    if kind == EngineKind::FlashStore { flashstore().disk(Disk::at(DISK)).into() } else { kind.settings() }
}

impl TestEngine {
    /// Returns the row of FlashStore.
    pub fn flashstore() -> TestEngine {
        TestEngine {
            info: EngineKind::FlashStore.info(),
            small: |in_files| {
                let common = CommonSettings {
                    partitions: Some(2),
                    memory_budget: in_files.then_some(1200 << 10),
                    ..CommonSettings::default()
                };
                // In files there are few records, and some have to leave.
                let usage = if in_files { 0.5 } else { with_disk().usage };
                (common, with_disk().usage(usage).into())
            },
            draw: Arc::new(|random, common| random_flashstore(random, common).into()),
            draw_tiny: Arc::new(|random, common| random_flashstore(random, common).into()),
            jobs: &JOBS,
            further_jobs: &[],
            job_buffers: &["clean_buffers"],
            store_suffixes: &[],
            file_kinds: &FILE_KINDS,
            operations_min: OPERATIONS_MIN,
            is_lossy: false,
            stores: 2,
            omissions: &[
                Omission::SyncOf("log-"),
                Omission::SyncOf("redo-"),
                Omission::SyncOf("MANIFEST"),
                Omission::SyncOfTheDirectory,
                Omission::Truncation,
                Omission::ErrorsOfWrites,
                Omission::ErrorsOfSyncs,
            ],
        }
    }
}

/// FlashStore as a cache: in simulations an engine of its own.
static CACHE_INFO: LazyLock<EngineInfo> =
    LazyLock::new(|| EngineInfo { name: "flashstore-cache", ..*EngineKind::FlashStore.info() });

impl TestEngine {
    /// Returns the row of FlashStore as a cache.
    pub fn flashstore_cache() -> TestEngine {
        TestEngine {
            info: &CACHE_INFO,
            small: |_| (CommonSettings::default(), cache().into()),
            draw: Arc::new(|random, common| random_cache(random, common).into()),
            draw_tiny: Arc::new(|random, common| random_cache(random, common).into()),
            jobs: &JOBS[..1],
            further_jobs: &[],
            file_kinds: &[],
            is_lossy: true,
            stores: 1,
            ..TestEngine::flashstore()
        }
    }
}

fn cache() -> FlashStoreSettings {
    FlashStoreSettings::default().segment_bytes(SEGMENT_BYTES).flash_bytes(FLASH_BYTES).cache(true)
}

/// Returns random settings of a cache, and a random memory budget.
pub(super) fn random_cache(random: &mut fastrand::Rng, common: &mut CommonSettings) -> FlashStoreSettings {
    let mut of_memory = fastrand::Rng::with_seed(random.get_seed());
    common.block_bytes = None;
    common.memory_budget = random_memory_budget(&mut of_memory);
    cache()
        .write_bytes_per_s([0, 0, 5_000][of_memory.usize(..3)])
        .flash_bytes(FLASH_BYTES * [1, 1, 2, 4][random.usize(..4)])
        .usage([0.5, 0.65, 0.95][random.usize(..3)])
        .queues(random.u8(1..=2))
}

/// Returns random settings of FlashStore, and a random memory budget.
pub(super) fn random_flashstore(
    random: &mut fastrand::Rng,
    common: &mut CommonSettings,
) -> FlashStoreSettings {
    let mut of_memory = fastrand::Rng::with_seed(random.get_seed());
    common.block_bytes = None;
    common.memory_budget = random_memory_budget(&mut of_memory).map(|bytes| 2 * bytes);
    with_disk()
        .flash_bytes(FLASH_BYTES * [1, 1, 2, 4][random.usize(..4)])
        .usage([0.5, 0.65, 0.95][random.usize(..3)])
        .queues(random.u8(1..=2))
        .caches_reads(random.bool())
}
