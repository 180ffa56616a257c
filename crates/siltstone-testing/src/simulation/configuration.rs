//! Databases of random shapes and settings, mostly tiny, so that background work and new files are frequent.

use super::omission::Omission;
use crate::operations::{KeyNumber, Workload};
use crate::simulated::SimulatedDirectory;
use siltstone::batch::TimestampMs;
use siltstone::device::{Access, Directory};
use siltstone::engine::common::CommonSettings;
use siltstone::engine::silt::{FilterKind, HashStoreKind, IndexKind, SiltSettings};
use siltstone::{Builder, Database};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Groups of keys with equal first bytes, so that hashes taken from keys collide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Collisions {
    /// The number of groups.
    pub groups: KeyNumber,
    /// The number of bytes that are equal within a group.
    pub bytes: usize,
}

/// The settings of a database, and its device.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// The settings that every engine understands.
    pub common: CommonSettings,
    /// The settings of the engine.
    pub settings: SiltSettings,
    /// How its store files are opened.
    pub access: Access,
    /// The alignment of direct files, in bytes; `None` if the device refuses direct I/O.
    pub direct_alignment: Option<usize>,
    /// How keys collide, if they do.
    pub collisions: Option<Collisions>,
    /// The secret of its hash.
    pub hash_seed: [u64; 2],
    /// What the engine omits, for simulations that must find it.
    pub omission: Option<Omission>,
}

/// The bytes at the end of a key in which it differs from all others.
const KEY_TAIL_BYTES: usize = 4;

impl Configuration {
    /// A random configuration.
    pub fn random(random: &mut fastrand::Rng) -> Configuration {
        let hashed_keys = random.u8(..3) == 0;
        let fixed = random.bool().then(|| fixed_sizes(random));
        let mut common = CommonSettings {
            fixed,
            hashed_keys: Some(hashed_keys),
            expiring: fixed.map(|_| random.bool()),
            partitions: Some(1 << random.u32(..4)),
            block_bytes: Some(512 << random.u32(..4)),
            memory_budget: None,
        };
        let collides = hashed_keys && random.bool();
        let collisions = Collisions { groups: 1 << random.u32(..7), bytes: random.usize(8..=18) };
        let aligned = random.u8(..4) > 0;
        let (direct, alignment) =
            if random.bool() { (Access::Direct, 512) } else { (Access::DirectOrBuffered, 4096) };
        let settings = changed(SiltSettings::default(), &mut common, random);
        Configuration {
            common,
            settings,
            access: if aligned && random.bool() { direct } else { Access::Buffered },
            direct_alignment: aligned.then_some(alignment),
            collisions: collides.then_some(collisions),
            hash_seed: [random.u64(..), random.u64(..)],
            omission: None,
        }
    }

    /// Changes the settings that may change between two openings.
    pub fn redraw(&mut self, random: &mut fastrand::Rng) {
        self.settings = changed(self.settings.clone(), &mut self.common, random);
    }

    /// A workload for such a database.
    pub fn workload(&self, random: &mut fastrand::Rng) -> Workload {
        let mut workload = match self.common.fixed {
            Some((key_length, value_length)) => Workload::fixed(random, key_length, value_length),
            None => Workload::random(random),
        };
        if self.common.fixed.is_some() && self.common.expiring != Some(true) {
            workload.lifetime_ms = 0;
        }
        if self.common.fixed.is_none() && self.common.hashed_keys == Some(true) {
            // Hashes have at least eight bytes.
            let (start, end) = workload.key_lengths.into_inner();
            workload.key_lengths = start.max(8)..=end.max(8);
        }
        workload
    }

    /// The bytes of one of the workload's keys.
    pub fn key(&self, workload: &Workload, number: KeyNumber) -> Vec<u8> {
        let mut key = workload.key(number);
        if let Some(Collisions { groups, bytes }) = self.collisions {
            let shared = bytes.min(key.len() - KEY_TAIL_BYTES);
            fastrand::Rng::with_seed((number % groups).into()).fill(&mut key[..shared]);
        }
        key
    }

    /// Opens the database on a device, or creates it there, without background threads.
    pub fn open(&self, backend: &SimulatedDirectory, clock: &Arc<AtomicU64>) -> siltstone::Result<Database> {
        let directory = match self.omission {
            None => Directory::new(backend.clone(), self.access),
            Some(omission) => Directory::new(omission.applied_to(backend.clone()), self.access),
        };
        self.builder(clock).open_in(directory)
    }

    /// The builder of a database with this configuration.
    pub fn builder(&self, clock: &Arc<AtomicU64>) -> Builder {
        Database::builder("simulated")
            .engine(self.settings.clone())
            .common(self.common.clone())
            .background_threads(0)
            .simulated_clock(clock.clone())
            .seed(self.hash_seed)
    }
}

fn fixed_sizes(random: &mut fastrand::Rng) -> (usize, usize) {
    let value_length = match random.u8(..8) {
        0 => 0,
        1 => random.usize(400..3000),
        _ => random.usize(1..100),
    };
    (random.usize(8..28), value_length)
}

/// A number from `start` to `end`, with the same probability for each power of two.
fn between(random: &mut fastrand::Rng, start: u64, end: u64) -> u64 {
    let scale = end as f64 / start as f64;
    (start as f64 * scale.powf(random.f64())) as u64
}

/// None half of the time, otherwise a budget from about the minimum of a database with few partitions on, in bytes.
pub fn memory_budget(random: &mut fastrand::Rng) -> Option<u64> {
    random.bool().then(|| between(random, 300 << 10, 2 << 20))
}

/// The settings with random values where these may change between two openings.
fn changed(settings: SiltSettings, common: &mut CommonSettings, random: &mut fastrand::Rng) -> SiltSettings {
    let mut of_memory = fastrand::Rng::with_seed(random.get_seed());
    let settings = settings
        .merge_ratio([0.01, 0.1, 0.3, 1.0, 10.0][random.usize(..5)])
        .tag_bits(random.u8(8..=15))
        .log_slots_min(between(random, 16, 512) as u32)
        .keys_per_log_slot(between(random, 1, 100) as u32)
        .hash_store(
            [HashStoreKind::HashOrdered, HashStoreKind::CuckooTable, HashStoreKind::HashOrdered]
                [random.usize(..3)],
        )
        .filter([FilterKind::Ribbon, FilterKind::CuckooTags, FilterKind::Ribbon][random.usize(..3)])
        .filter_bits(random.u8(4..=16))
        .index(
            [
                None,
                Some(IndexKind::EntropyTrie),
                Some(IndexKind::Fences),
                Some(IndexKind::BlockPerfect),
                Some(IndexKind::SlotPerfect),
            ][random.usize(..5)],
        )
        .log_segment_bytes(between(random, 4096, 100_000))
        .log_bytes_max(between(random, 4096, 1 << 20))
        .piece_bytes_max(between(random, 32 << 10, 256 << 10) as usize)
        .step_records(between(random, 1, 1000) as usize)
        .region_slots_max(16 << random.u32(..6))
        .manifest_bytes_max(between(random, 1, 3000))
        .filter_last_store(if of_memory.u8(..3) == 0 { of_memory.u8(1..12) } else { 0 });
    common.memory_budget = memory_budget(&mut of_memory);
    settings.resident_bytes_max(between(&mut of_memory, 1, 1 << 20)).suited(common)
}

/// The beginning of simulated time.
pub const BEGINNING_MS: TimestampMs = 1_000_000;
