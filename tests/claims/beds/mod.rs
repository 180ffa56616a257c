//! The test beds of the suites: every engine, every shape of records, in memory and in files, with settings so small
//! that a few thousand records pass through all stores.

pub mod stage;

use siltstone::engine::CommonSettings;
use siltstone::{Builder, Compression, Database};
use siltstone_device::memory::MemoryDirectory;
use siltstone_device::{Access, Directory};
use siltstone_testing::TestEngine;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A shape of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    pub name: &'static str,
    /// The lengths of keys and values, if they are fixed.
    pub fixed: Option<(usize, usize)>,
    pub hashed_keys: bool,
    /// Whether records may expire.
    pub expiring: bool,
    pub compression: Compression,
}

const ZSTD: Compression = Compression::Zstd { level: 3 };
/// A dictionary is trained after some hundred records.
const SAMPLE_BYTES: usize = 16 << 10;

/// All shapes.
pub const SHAPES: [Shape; 6] = [
    Shape {
        name: "variable",
        fixed: None,
        hashed_keys: false,
        expiring: true,
        compression: Compression::None,
    },
    Shape {
        name: "variable, hashed keys",
        fixed: None,
        hashed_keys: true,
        expiring: true,
        compression: Compression::None,
    },
    Shape {
        name: "fixed",
        fixed: Some((20, 44)),
        hashed_keys: false,
        expiring: false,
        compression: Compression::None,
    },
    Shape {
        name: "fixed, hashed keys",
        fixed: Some((32, 12)),
        hashed_keys: true,
        expiring: false,
        compression: Compression::None,
    },
    Shape {
        name: "variable, compressed",
        fixed: None,
        hashed_keys: false,
        expiring: true,
        compression: ZSTD,
    },
    Shape {
        name: "fixed, expiring",
        fixed: Some((9, 5)),
        hashed_keys: false,
        expiring: true,
        compression: Compression::None,
    },
];

enum Place {
    Memory(MemoryDirectory),
    Files(TempDir),
}

/// An engine, a shape and a place.
pub struct TestBed {
    pub engine: TestEngine,
    pub shape: Shape,
    /// Whether the engine has the settings of its paper.
    is_paper: bool,
    place: Place,
}

impl fmt::Display for TestBed {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.path().is_some() { "in files, within a budget" } else { "in memory" };
        let preset = if self.is_paper { " as in the paper" } else { "" };
        write!(to, "{}{preset}, {}, {place}", self.engine.info.name, self.shape.name)
    }
}

impl TestBed {
    pub fn in_memory(engine: TestEngine, shape: Shape) -> TestBed {
        TestBed { engine, shape, is_paper: false, place: Place::Memory(MemoryDirectory::default()) }
    }

    pub fn in_files(engine: TestEngine, shape: Shape) -> TestBed {
        TestBed { engine, shape, is_paper: false, place: Place::Files(tempfile::tempdir().unwrap()) }
    }

    /// Returns whether writes survive the process.
    pub fn is_persistent(&self) -> bool {
        self.engine.is_persistent()
    }

    /// Returns whether the engine has store files.
    pub fn has_stores(&self) -> bool {
        !self.engine.store_suffixes.is_empty()
    }

    /// Returns whether this is the path of a store file.
    pub fn is_store(&self, path: &Path) -> bool {
        let name = path.to_string_lossy();
        self.engine.store_suffixes.iter().any(|suffix| name.ends_with(suffix))
    }

    /// Returns whether the memory budget can change while the database exists.
    pub fn has_budget(&self) -> bool {
        self.is_persistent() && (self.engine.small)(true).0.memory_budget.is_some()
    }

    /// Returns the directory, if it is a real one.
    pub fn path(&self) -> Option<PathBuf> {
        match &self.place {
            Place::Memory(_) => None,
            Place::Files(directory) => Some(directory.path().join("db")),
        }
    }

    /// Returns a builder with small settings and no threads: the test executes the steps.
    pub fn builder(&self) -> Builder {
        self.builder_at(&self.path().unwrap_or_default())
    }

    /// Returns the same builder for another directory.
    pub fn builder_at(&self, path: &Path) -> Builder {
        let Shape { fixed, hashed_keys, expiring, compression, .. } = self.shape;
        let (common, settings) = (self.engine.small)(self.path().is_some());
        let expiring = fixed.map(|_| expiring);
        let hashed_keys = hashed_keys.then_some(true);
        let (compression, sample_bytes) = (Some(compression), Some(SAMPLE_BYTES));
        let common = CommonSettings { fixed, hashed_keys, expiring, compression, sample_bytes, ..common };
        let builder = Database::builder(path).engine(settings).common(common).background_threads(0);
        if self.is_paper { builder.set("preset", "paper") } else { builder }
    }

    /// Opens a builder of this bed.
    pub fn open_with(&self, builder: Builder) -> siltstone::Result<Database> {
        match &self.place {
            Place::Memory(files) => builder.open_in(Directory::new(files.clone(), Access::Buffered)),
            Place::Files(_) => builder.open(),
        }
    }

    pub fn open(&self) -> Database {
        self.open_with(self.builder()).unwrap_or_else(|error| panic!("{self}: {error}"))
    }

    /// Returns the key of a number: of the shape's length, and uniform if keys are hashes.
    pub fn key(&self, number: u64) -> Vec<u8> {
        let length = self.shape.fixed.map_or(8 + (number % 23) as usize, |(length, _)| length);
        let first = if self.shape.hashed_keys { spread(number) } else { number };
        let mut key = first.to_be_bytes().to_vec();
        key.extend(spread(number ^ 0x55).to_be_bytes().iter().cycle().take(length.saturating_sub(8)));
        key
    }

    /// Returns a value for a number and a version: of the shape's length, or of a length derived from both.
    pub fn value(&self, number: u64, version: u64) -> Vec<u8> {
        let seed = spread(number.wrapping_mul(31).wrapping_add(version));
        let length = match self.shape.fixed {
            Some((_, length)) => length,
            None if seed.is_multiple_of(50) => 5_000,
            None => (seed % 200) as usize,
        };
        // Compressed values repeat themselves.
        let period = if self.shape.compression == Compression::None { u64::MAX } else { 3 };
        (0..length as u64)
            .map(|at| spread(seed.wrapping_add(at / 8 % period)).to_le_bytes()[at as usize % 8])
            .collect()
    }
}

/// Spreads a number over all 64 bits, bijectively.
pub fn spread(number: u64) -> u64 {
    let mixed =
        (number ^ (number >> 32)).wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93) ^ (mixed >> 29)
}

/// Every persistent engine with every shape, in memory and in files.
pub fn beds() -> impl Iterator<Item = TestBed> {
    all_beds().filter(TestBed::is_persistent)
}

/// Every engine with every shape, in memory and in files, and those of [`paper_beds`].
pub fn all_beds() -> impl Iterator<Item = TestBed> {
    let defaults = TestEngine::all().into_iter().flat_map(|engine| {
        SHAPES.into_iter().flat_map(move |shape| {
            [TestBed::in_memory(engine.clone(), shape), TestBed::in_files(engine.clone(), shape)]
        })
    });
    defaults.chain(paper_beds())
}

/// The engines as in their papers, with records of fixed sizes, which the preset of SILT requires: in memory, and in
/// files with records that may expire.
fn paper_beds() -> impl Iterator<Item = TestBed> {
    let has_preset = |engine: &TestEngine| !(engine.small)(false).1.paper().is_empty();
    let fixed = |expiring: bool| {
        let is_plain = |shape: &Shape| shape.fixed.is_some() && !shape.hashed_keys;
        SHAPES.into_iter().filter(is_plain).find(|shape| shape.expiring == expiring).unwrap()
    };
    TestEngine::all().into_iter().filter(has_preset).flat_map(move |engine| {
        let beds = [
            TestBed::in_memory(engine.clone(), fixed(false)),
            TestBed::in_files(engine.clone(), fixed(true)),
        ];
        beds.map(|bed| TestBed { is_paper: true, ..bed })
    })
}

/// Enough records for several conversions and merges.
pub const MANY: u64 = 1_500;

/// Writes the records of the numbers below `count`, with some background work in between.
pub fn fill(bed: &TestBed, database: &Database, count: u64) {
    for number in 0..count {
        database.put(bed.key(number), bed.value(number, 0)).unwrap();
        if number % 97 == 0 {
            database.step().unwrap();
        }
    }
}

/// Returns all records, as an iteration yields them.
pub fn contents(database: &Database) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let records = database
        .iter()
        .unwrap()
        .map(|record| record.map(|record| (record.key.to_vec(), record.value.to_vec())));
    let mut seen = BTreeMap::new();
    for (key, value) in records.map(Result::unwrap) {
        assert!(seen.insert(key, value).is_none(), "each key is returned once");
    }
    seen
}

/// Returns the records of these numbers in this version.
pub fn expected(
    bed: &TestBed,
    numbers: impl Iterator<Item = u64>,
    version: u64,
) -> BTreeMap<Vec<u8>, Vec<u8>> {
    numbers.map(|number| (bed.key(number), bed.value(number, version))).collect()
}
