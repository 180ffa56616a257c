//! FlashKey's row.

use super::{FileKind, Job, OPERATIONS_MIN, TestEngine, random_memory_budget};
use crate::omission::Omission;
use siltstone::engine::{CommonSettings, EngineSettings};
use siltstone::{EngineKind, FlashKeySettings, Victim};
use std::sync::Arc;

/// The size of segments: fixed when a database is created, so all settings of a simulation have the same.
const SEGMENT_BYTES: u64 = 8 << 10;
/// The size of the smallest segments.
const TINY_SEGMENT_BYTES: u64 = 4 << 10;

/// Merges of keys are rare, because few databases are in order, and these write enough keys for a merge seldom.
const JOBS: [Job; 3] = [Job::new("cleanings", 1.0), Job::new("confirmed", 1.0), Job::new("key_merges", 0.1)];

const FILE_KINDS: [FileKind; 9] = [
    kind("manifest of flashkey", false, ("MANIFEST", "MANIFEST")),
    kind("manifest mirror of flashkey", false, ("MANIFEST.", "mirror")),
    kind("user log, any size", false, ("log-", "")),
    kind("user log, fixed size", true, ("log-", "")),
    kind("moved log, any size", false, ("moved", "")),
    kind("moved log, fixed size", true, ("moved", "")),
    kind("redo log", false, ("redo-", "")),
    kind("saved index", true, ("", ".index")),
    FileKind { settings: in_order, ..kind("run of keys", false, ("", ".keys")) },
];

const fn kind(name: &'static str, is_fixed: bool, affixes: (&'static str, &'static str)) -> FileKind {
    FileKind { name, affixes, is_fixed, settings, block_bytes: None, in_log: ("space", "4") }
}

fn settings(_: &CommonSettings) -> Box<dyn EngineSettings> {
    FlashKeySettings::default().segment_bytes(TINY_SEGMENT_BYTES).space(1.1).into()
}

fn in_order(_: &CommonSettings) -> Box<dyn EngineSettings> {
    FlashKeySettings::default().segment_bytes(TINY_SEGMENT_BYTES).space(1.1).ordered(true).into()
}

impl TestEngine {
    /// Returns the row of FlashKey.
    pub fn flashkey() -> TestEngine {
        TestEngine {
            info: EngineKind::FlashKey.info(),
            small: |in_files| {
                let common = CommonSettings {
                    partitions: Some(2),
                    memory_budget: in_files.then_some(560 << 10),
                    ..CommonSettings::default()
                };
                // One shard in memory, the other one on flash.
                let settings = FlashKeySettings::default().segment_bytes(SEGMENT_BYTES).index_in_memory(0.5);
                (common, settings.ordered(true).into())
            },
            draw: Arc::new(|random, common| random_flashkey(random, common).into()),
            draw_tiny: Arc::new(|random, common| tiny_flashkey(random, common).into()),
            jobs: &JOBS,
            further_jobs: &[],
            job_buffers: &["clean_buffers", "key_merge_buffers"],
            store_suffixes: &[],
            file_kinds: &FILE_KINDS,
            operations_min: OPERATIONS_MIN,
            is_lossy: false,
            stores: 1,
            omissions: &[
                Omission::SyncOf("log-"),
                Omission::SyncOf("moved1-"),
                Omission::SyncOf("redo-"),
                Omission::SyncOf(".index"),
                Omission::SyncOf(".keys"),
                Omission::SyncOf("MANIFEST"),
                Omission::SyncOfTheDirectory,
                Omission::Truncation,
                Omission::ErrorsOfWrites,
                Omission::ErrorsOfSyncs,
                Omission::Removal,
            ],
        }
    }
}

/// Returns the row of FlashKey with settings that need much cleaning, so that most runs crash within one.
pub fn cleaning() -> TestEngine {
    let draw = |random: &mut fastrand::Rng, common: &mut CommonSettings| {
        let settings = random_flashkey(random, common).segment_bytes(TINY_SEGMENT_BYTES);
        settings.space([1.05, 1.1][random.usize(..2)]).into()
    };
    // Short runs have nothing to clean.
    TestEngine { draw: Arc::new(draw), operations_min: 200.0, ..TestEngine::flashkey() }
}

/// Returns random settings of FlashKey, and a random memory budget.
pub(super) fn random_flashkey(random: &mut fastrand::Rng, common: &mut CommonSettings) -> FlashKeySettings {
    let mut of_memory = fastrand::Rng::with_seed(random.get_seed());
    common.block_bytes = None;
    common.memory_budget = random_memory_budget(&mut of_memory);
    // Whether keys are in order is fixed when the database is created, so it depends on what is fixed as well.
    let ordered = common.fixed.is_none_or(|(key_length, _)| key_length % 2 == 0);
    let victims = [Victim::CostBenefit, Victim::MostInvalid, Victim::Oldest];
    let settings = FlashKeySettings::default()
        .segment_bytes(SEGMENT_BYTES)
        .ordered(ordered)
        .space([1.05, 1.1, 1.25, 2.0, 4.0][random.usize(..5)])
        .victim(victims[random.usize(..3)])
        .classes(random.u8(1..=3))
        .index_in_memory([0.0, 0.5, 1.0][of_memory.usize(..3)])
        .unconfirmed_max([0.0, 0.05, 1.0][random.usize(..3)]);
    // A third moves records to the log of the puts, as the preset of the paper does.
    if of_memory.u8(..3) == 0 { settings.classes(0) } else { settings }
}

/// Returns random settings with which some dozen records fill segments.
pub(super) fn tiny_flashkey(random: &mut fastrand::Rng, common: &mut CommonSettings) -> FlashKeySettings {
    random_flashkey(random, common).segment_bytes(TINY_SEGMENT_BYTES)
}
