//! BloomStore's row.

use super::{FileKind, Job, OPERATIONS_MIN, TestEngine, between, random_memory_budget};
use crate::omission::Omission;
use siltstone::engine::CommonSettings;
use siltstone::{BloomStoreSettings, EngineKind};
use std::sync::Arc;

const JOBS: [Job; 3] = [Job::new("conversions", 1.0), Job::new("chains", 0.5), Job::new("merges", 0.5)];

const FILE_KINDS: [FileKind; 6] = [
    kind("manifest", ("MANIFEST", "MANIFEST")),
    kind("manifest mirror", ("MANIFEST.", "mirror")),
    kind("log", ("log-", "")),
    kind("run with columns", ("", ".hash")),
    kind("merged run with columns", ("", ".sorted")),
    kind("chain", ("", ".chain")),
];

const fn kind(name: &'static str, affixes: (&'static str, &'static str)) -> FileKind {
    let in_log = ("expected_keys", "1000000");
    let settings = |_: &CommonSettings| {
        let settings = BloomStoreSettings::default().chain_length(6).buffered_filters(2).runs(4);
        settings.log_slots_min(32).log_segment_bytes(8192).into()
    };
    FileKind { name, affixes, is_fixed: false, settings, block_bytes: Some(512), in_log }
}

impl TestEngine {
    /// Returns the row of BloomStore.
    pub fn bloomstore() -> TestEngine {
        TestEngine {
            info: EngineKind::BloomStore.info(),
            small: |in_files| {
                let common = CommonSettings {
                    partitions: Some(2),
                    memory_budget: in_files.then_some(560 << 10),
                    ..CommonSettings::default()
                };
                let settings = BloomStoreSettings::default().chain_length(8).buffered_filters(2).runs(8);
                (common, settings.log_slots_min(64).into())
            },
            draw: Arc::new(|random, common| random_bloomstore(random, common).into()),
            draw_tiny: Arc::new(|random, _| tiny_bloomstore(random).into()),
            jobs: &JOBS,
            further_jobs: &["further_conversions", "further_merges"],
            job_buffers: &["convert_buffers", "merge_buffers", "chain_buffers"],
            store_suffixes: &[".hash", ".sorted", ".chain"],
            file_kinds: &FILE_KINDS,
            operations_min: OPERATIONS_MIN,
            is_lossy: false,
            stores: 1,
            omissions: &[
                Omission::SyncOf("log-"),
                Omission::SyncOf("MANIFEST"),
                Omission::SyncOf(".hash"),
                Omission::SyncOf(".sorted"),
                Omission::SyncOf(".chain"),
                Omission::SyncOfTheDirectory,
                Omission::Truncation,
                Omission::ErrorsOfWrites,
                Omission::ErrorsOfSyncs,
                Omission::Removal,
            ],
        }
    }
}

/// Returns random settings of BloomStore, and a random memory budget.
pub(super) fn random_bloomstore(
    random: &mut fastrand::Rng,
    common: &mut CommonSettings,
) -> BloomStoreSettings {
    let mut of_memory = fastrand::Rng::with_seed(random.get_seed());
    common.memory_budget = random_memory_budget(&mut of_memory);
    let mut of_prefilter = of_memory.fork();
    let chain_length = random.u32(2..12);
    BloomStoreSettings::default()
        .chain_length(chain_length)
        .buffered_filters(random.u32(1..=chain_length.min(4)))
        .runs(between(random, 2, 50) as u32)
        .filter_bits(random.u8(4..=24))
        .old_filter_bits(random.u8(4..=16))
        .prefilter_bits([0, 1, 4, 16][of_prefilter.usize(..4)])
        .space([1.05, 1.25, 2.0, 10.0][random.usize(..4)])
        .expected_keys([0, 0, 500, 5_000][random.usize(..4)])
        .log_slots_min(between(random, 16, 512) as u32)
        .log_segment_bytes(between(random, 4096, 100_000))
        .log_bytes_max(between(random, 4096, 1 << 20))
        .piece_bytes_max(between(random, 32 << 10, 256 << 10) as usize)
        .step_records(between(random, 1, 1000) as usize)
        .region_slots_max(16 << random.u32(..6))
        .manifest_bytes_max(between(random, 1, 3000))
        .resident_bytes_max(between(&mut of_memory, 1, 1 << 20))
}

/// Returns random settings of BloomStore with which a few dozen records pass through all stores.
pub(super) fn tiny_bloomstore(random: &mut fastrand::Rng) -> BloomStoreSettings {
    BloomStoreSettings::default()
        .chain_length(random.u32(2..5))
        .buffered_filters(random.u32(1..=2))
        .runs(1 << random.u32(1..7))
        .filter_bits(random.u8(4..=20))
        .prefilter_bits([0, 4][random.usize(..2)])
        .space([1.05, 1.25, 3.0][random.usize(..3)])
        .log_slots_min(16)
        .log_segment_bytes([512, 4096][random.usize(..2)])
        .log_bytes_max([4096, 1 << 20][random.usize(..2)])
        .piece_bytes_max(4096)
        .step_records(1 << random.u32(..6))
        .region_slots_max(16)
        .manifest_bytes_max(1 << random.u32(..12))
}
