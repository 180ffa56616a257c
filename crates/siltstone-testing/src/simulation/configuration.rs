//! Databases of random shapes and settings, mostly tiny, so that background work and new files are frequent.

use crate::engines::TestEngine;
use crate::omission::Omission;
use crate::operations::{KeyNumber, Workload};
use crate::simulated::SimulatedDirectory;
use siltstone::batch::TimestampMs;
use siltstone::engine::{CommonSettings, EngineSettings};
use siltstone::{Builder, Compression, Database};
use siltstone_device::{Access, Directory};
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
    /// The engine.
    pub engine: TestEngine,
    /// The settings that every engine understands.
    pub common: CommonSettings,
    /// The seed of the settings of the engine; `None` for those of small databases.
    pub settings_seed: Option<u64>,
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
    /// Returns a random configuration.
    pub fn random(engine: &TestEngine, random: &mut fastrand::Rng) -> Configuration {
        let hashed_keys = random.u8(..3) == 0;
        let fixed = random.bool().then(|| fixed_sizes(random));
        let mut common = CommonSettings {
            fixed,
            hashed_keys: Some(hashed_keys),
            expiring: fixed.map(|_| random.bool()),
            partitions: Some(1 << random.u32(..4)),
            block_bytes: Some(512 << random.u32(..4)),
            compression: None,
            sample_bytes: None,
            memory_budget: None,
            compaction_filter: None,
            lookups: Default::default(),
            threads: 0,
        };
        draw_compression(&mut common, &mut fastrand::Rng::with_seed(random.get_seed()));
        let collides = hashed_keys && random.bool();
        let collisions = Collisions { groups: 1 << random.u32(..7), bytes: random.usize(8..=18) };
        let aligned = random.u8(..4) > 0;
        let (direct, alignment) =
            if random.bool() { (Access::Direct, 512) } else { (Access::DirectOrBuffered, 4096) };
        let settings_seed = Some(random.get_seed());
        (engine.draw)(random, &mut common);
        Configuration {
            engine: engine.clone(),
            common,
            settings_seed,
            access: if aligned && random.bool() { direct } else { Access::Buffered },
            direct_alignment: aligned.then_some(alignment),
            collisions: collides.then_some(collisions),
            hash_seed: [random.u64(..), random.u64(..)],
            omission: None,
        }
    }

    /// Changes the settings that may change between two opens.
    pub fn redraw(&mut self, random: &mut fastrand::Rng) {
        self.settings_seed = Some(random.get_seed());
        (self.engine.draw)(random, &mut self.common);
    }

    /// Returns the settings of the engine.
    pub fn settings(&self) -> Box<dyn EngineSettings> {
        match self.settings_seed {
            Some(seed) => (self.engine.draw)(&mut fastrand::Rng::with_seed(seed), &mut self.common.clone()),
            None => (self.engine.small)(false).1,
        }
    }

    /// Returns a workload for such a database.
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

    /// Returns the bytes of one of the workload's keys.
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

    /// Returns the builder of a database with this configuration.
    pub fn builder(&self, clock: &Arc<AtomicU64>) -> Builder {
        Database::builder("simulated")
            .engine(self.settings())
            .common(self.common.clone())
            .background_threads(0)
            .simulated_clock(clock.clone())
            .seed(self.hash_seed)
    }
}

/// Compresses the values of half of the databases that can have it, most of them with a dictionary trained early.
fn draw_compression(common: &mut CommonSettings, random: &mut fastrand::Rng) {
    if common.fixed.is_none() && random.bool() {
        let level = random.u8(1..=4);
        let is_zstd = random.u8(..4) > 0;
        common.compression = Some(if is_zstd { Compression::Zstd { level } } else { Compression::Lz4 });
        common.sample_bytes = Some(1 << random.u32(8..16));
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

/// The beginning of simulated time.
pub const BEGINNING_MS: TimestampMs = 1_000_000;
