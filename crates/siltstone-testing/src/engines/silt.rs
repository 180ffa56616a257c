//! SILT's row.

use super::{FileKind, Job, OPERATIONS_MIN, TestEngine, between, random_memory_budget};
use crate::omission::Omission;
use siltstone::EngineKind;
use siltstone::engine::silt::{FilterKind, HashStoreKind, IndexKind, SiltSettings};
use siltstone::engine::{CommonSettings, EngineSettings};
use std::sync::Arc;

/// Whether the records have a fixed size, and the settings.
type Structures = (bool, fn(&CommonSettings) -> Box<dyn EngineSettings>);

const VARIABLE: Structures =
    (false, |common| structures(common, IndexKind::Fences, HashStoreKind::HashOrdered, FilterKind::Ribbon));
const TAGGED: Structures = (false, |common| {
    structures(common, IndexKind::Fences, HashStoreKind::HashOrdered, FilterKind::CuckooTags)
});
const TAGGED_SLOTS: Structures = (true, |common| {
    structures(common, IndexKind::Fences, HashStoreKind::HashOrdered, FilterKind::CuckooTags)
});
const PERFECT: Structures = (true, |common| {
    structures(common, IndexKind::BlockPerfect, HashStoreKind::HashOrdered, FilterKind::Ribbon)
});
const PERFECT_SLOTS: Structures = (true, |common| {
    structures(common, IndexKind::SlotPerfect, HashStoreKind::HashOrdered, FilterKind::Ribbon)
});
const TRIE: Structures = (true, |common| {
    structures(common, IndexKind::EntropyTrie, HashStoreKind::CuckooTable, FilterKind::Ribbon)
});

const JOBS: [Job; 2] = [Job::new("conversions", 1.0), Job::new("merges", 1.0)];

const FILE_KINDS: [FileKind; 12] = [
    kind("manifest", VARIABLE, ("MANIFEST", "MANIFEST")),
    kind("manifest mirror", VARIABLE, ("MANIFEST.", "mirror")),
    kind("log, any size", VARIABLE, ("log-", "")),
    kind("log, fixed size", PERFECT, ("log-", "")),
    kind("hash store in hash order, ribbon filter", VARIABLE, ("", ".hash")),
    kind("hash store in hash order, cuckoo filter", TAGGED, ("", ".hash")),
    kind("cuckoo table", TRIE, ("", ".hash")),
    kind("sorted store of a stream", VARIABLE, ("", ".sorted")),
    kind("sorted store of slots, block-perfect", PERFECT, ("", ".sorted")),
    kind("sorted store of checked slots, slot-perfect", PERFECT_SLOTS, ("", ".sorted")),
    kind("sorted store of slots, entropy-coded trie", TRIE, ("", ".sorted")),
    kind("sorted store of slots, fences", TAGGED_SLOTS, ("", ".sorted")),
];

const fn kind(
    name: &'static str,
    (is_fixed, settings): Structures,
    affixes: (&'static str, &'static str),
) -> FileKind {
    let in_log = ("log_slots_min", "4096");
    FileKind { name, affixes, is_fixed, settings, block_bytes: Some(512), in_log }
}

fn structures(
    common: &CommonSettings,
    index: IndexKind,
    hash_store: HashStoreKind,
    filter: FilterKind,
) -> Box<dyn EngineSettings> {
    let settings = SiltSettings::default().log_slots_min(32).log_segment_bytes(8192).merge_ratio(3.0);
    settings.index(Some(index)).hash_store(hash_store).filter(filter).suited(common).into()
}

impl TestEngine {
    /// Returns the row of SILT.
    pub fn silt() -> TestEngine {
        TestEngine {
            info: EngineKind::Silt.info(),
            small: |in_files| {
                let common = CommonSettings {
                    partitions: Some(2),
                    memory_budget: in_files.then_some(560 << 10),
                    ..CommonSettings::default()
                };
                let settings = SiltSettings::default().log_slots_min(64);
                let settings = if in_files { settings.filter_last_store(Some(6)) } else { settings };
                (common, settings.into())
            },
            draw: Arc::new(|random, common| random_silt(random, common).into()),
            draw_tiny: Arc::new(|random, common| tiny_silt(random, common).into()),
            jobs: &JOBS,
            further_jobs: &["further_conversions", "further_merges"],
            job_buffers: &["convert_buffers", "merge_buffers"],
            store_suffixes: &[".hash", ".sorted"],
            file_kinds: &FILE_KINDS,
            operations_min: OPERATIONS_MIN,
            is_lossy: false,
            stores: 1,
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
}

/// Returns random settings of SILT, and a random memory budget.
pub(super) fn random_silt(random: &mut fastrand::Rng, common: &mut CommonSettings) -> SiltSettings {
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
        .filter_last_store((of_memory.u8(..3) == 0).then(|| of_memory.u8(1..12)));
    common.memory_budget = random_memory_budget(&mut of_memory);
    settings.resident_bytes_max(between(&mut of_memory, 1, 1 << 20)).suited(common)
}

/// Returns random settings of SILT with which a few dozen records pass through all stores.
pub(super) fn tiny_silt(random: &mut fastrand::Rng, common: &CommonSettings) -> SiltSettings {
    let index = [None, Some(IndexKind::EntropyTrie), Some(IndexKind::Fences), Some(IndexKind::BlockPerfect)];
    let hash_store = [HashStoreKind::HashOrdered, HashStoreKind::CuckooTable, HashStoreKind::HashOrdered];
    let filter = [FilterKind::Ribbon, FilterKind::CuckooTags, FilterKind::Ribbon];
    let settings = SiltSettings::default()
        .merge_ratio([0.01, 0.1, 1.0][random.usize(..3)])
        .log_slots_min(16)
        .keys_per_log_slot(1 << random.u32(..7))
        .hash_store(hash_store[random.usize(..3)])
        .filter(filter[random.usize(..3)])
        .index(index[random.usize(..4)])
        .log_segment_bytes([512, 4096][random.usize(..2)])
        .log_bytes_max([4096, 1 << 20][random.usize(..2)])
        .piece_bytes_max(4096)
        .step_records(1 << random.u32(..6))
        .region_slots_max(16)
        .manifest_bytes_max(1 << random.u32(..12));
    settings.suited(common)
}
