//! `memory_budget` limits the memory of every engine by its own account, at every moment: the account is looked at
//! after every few operations and after every step of background work.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use siltstone::{Builder, Database, Durability, Stats, Step, WriteOptions};
use siltstone_device::memory::MemoryDirectory;
use siltstone_device::{Access, Directory};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

const BUDGET: u64 = 4 << 20;
const KEYS: u32 = 60_000;
/// The operations between two looks.
const LOOK: u32 = 32;
/// One database at a time: the read buffers of all threads of the process count against every budget, and a database
/// hears of those that others' threads take only with its next operation.
static ALONE: Mutex<()> = Mutex::new(());

struct Bed {
    name: String,
    budget: u64,
    /// All values have as many bytes; `None` for some of 20 to 200.
    value_bytes: Option<u16>,
    database: Database,
    operations: u32,
}

/// What a test opens.
struct Form<'a> {
    name: String,
    budget: u64,
    partitions: u32,
    value_bytes: Option<u16>,
    settings: &'a [(&'static str, &'a str)],
}

impl Form<'_> {
    fn builder(&self) -> Builder {
        let builder = Database::builder("db").memory_budget(self.budget).background_threads(0);
        let builder = builder.partitions(self.partitions);
        let builder =
            self.value_bytes.into_iter().fold(builder, |builder, bytes| builder.fixed(4, bytes.into()));
        self.settings.iter().fold(builder, |builder, (name, value)| builder.set(*name, *value))
    }

    fn open(&self, directory: &Directory) -> Bed {
        let database = self.builder().open_in(directory.clone()).unwrap();
        let Form { budget, value_bytes, .. } = *self;
        Bed { name: self.name.clone(), budget, value_bytes, database, operations: 0 }
    }
}

impl Bed {
    fn check(&self) {
        let Stats { ram, ram_peak, details, .. } = self.database.stats();
        for (when, ram) in [("now", ram), ("peak", ram_peak)] {
            let bytes = ram.total_bytes();
            assert!(
                bytes <= self.budget,
                "{}, {when}, after {} operations: {bytes} of {}: {:?}; {details:?}",
                self.name,
                self.operations,
                self.budget,
                ram.items()
            );
        }
    }

    fn look(&mut self) {
        self.operations += 1;
        if self.operations.is_multiple_of(LOOK) {
            self.check();
        }
    }

    fn put(&mut self, key: u32, round: u32) {
        let value = vec![round as u8; self.value_bytes.map_or(20 + key as usize % 7 * 30, usize::from)];
        let options = WriteOptions::default().durability(Durability::Buffered);
        self.database.put_with(key.wrapping_mul(0x9e37_79b9).to_be_bytes(), value, options).unwrap();
        self.look();
    }

    /// Steps until there is no work.
    fn settle(&mut self) {
        while self.database.step().unwrap() == Step::Worked {
            self.check();
        }
    }

    fn read(&mut self, keys: u32) {
        for key in (0..keys).step_by(3) {
            self.database.get(key.wrapping_mul(0x9e37_79b9).to_be_bytes()).unwrap();
            self.look();
        }
        if let Some(ordered) = self.database.ordered() {
            ordered.range(..).unwrap().take(3_000).for_each(drop);
        }
        self.database.iter().unwrap().take(3_000).for_each(drop);
        self.check();
    }

    fn delete(&mut self, keys: impl Iterator<Item = u32>) {
        for key in keys {
            self.database.delete(key.wrapping_mul(0x9e37_79b9).to_be_bytes()).unwrap();
            self.look();
        }
    }
}

fn keeps_its_budget(name: &str, settings: &[(&'static str, &str)]) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    keeps(&Form { name: name.to_owned(), budget: BUDGET, partitions: 4, value_bytes: None, settings });
}

/// Returns the least budget, which the error for a smaller one names.
fn least_budget(form: &Form) -> u64 {
    let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
    let error = form.builder().memory_budget(1).open_in(directory).err().unwrap().to_string();
    let (before, _) = error.split_once(" or more").unwrap();
    before.rsplit(' ').next().unwrap().parse().unwrap()
}

/// Small records have the most work and the most stores per byte. `bytes_per_key` is what the least budget grows by.
fn keeps_its_least_budget(bytes_per_key: f64, settings: &[(&'static str, &str)]) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for partitions in [2, 16] {
        for value_bytes in [Some(4), None] {
            let name = format!("{settings:?}, {partitions} partitions, values of {value_bytes:?} bytes");
            let form = Form { name, budget: 0, partitions, value_bytes, settings };
            let of_keys = (bytes_per_key * f64::from(KEYS)) as u64;
            keeps(&Form { budget: least_budget(&form) + of_keys, ..form });
        }
    }
}

/// Loads, overwrites, reads, deletes, compacts and opens again.
fn keeps(form: &Form) {
    let keys = KEYS;
    let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
    let mut bed = form.open(&directory);
    (0..keys).for_each(|key| bed.put(key, 0));
    bed.read(keys);
    for round in 1..3 {
        (0..keys).for_each(|key| bed.put(key.wrapping_mul(7_919) % keys, round));
    }
    bed.settle();
    bed.read(keys);
    bed.delete((0..keys).filter(|key| key % 2 == 0));
    bed.settle();
    bed.database.compact().unwrap();
    bed.check();
    bed.database.close().unwrap();
    let mut bed = form.open(&directory);
    bed.check();
    bed.settle();
    (0..keys).for_each(|key| bed.put(key, 4));
    bed.read(keys);
    bed.settle();
}

/// The buffers of the reads of all records at once would take more than all of the budget.
#[test]
fn the_reads_of_many_keys_are_in_the_account_and_keep_the_least_budget() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    keeps_while_many_are_read("flashkey", None, 1_000);
    for engine in ["silt", "bloomstore"] {
        let (budget, bytes) = keeps_while_many_are_read(engine, Some(20_000), 200);
        // A 16th of the budget, and two buffers of a record: that of a long read, and the own one of the thread.
        assert!(bytes <= budget / 16 + 65_536, "{engine}: {bytes} bytes of {budget}");
    }
}

/// Returns the budget, and the bytes of the buffers of the reads of as many records.
fn keeps_while_many_are_read(engine: &str, value_bytes: Option<u16>, count: u32) -> (u64, u64) {
    let settings = &[("engine", engine)];
    let name = format!("many keys, {engine}");
    let form = Form { name, budget: 0, partitions: 4, value_bytes, settings };
    let form = Form { budget: least_budget(&form) + 1_000, ..form };
    let mut bed = form.open(&Directory::new(MemoryDirectory::default(), Access::Buffered));
    (0..count).for_each(|key| bed.put(key, 0));
    bed.database.sync().unwrap();
    bed.database.compact().unwrap();
    let peak = |bed: &Bed| {
        let ram = bed.database.stats().ram_peak;
        ram.items().iter().find(|(name, _)| *name == "read_buffers").unwrap().1
    };
    bed.database.reset_ram_peak();
    let before = peak(&bed);
    let keys: Vec<_> = (0..count).map(|key| key.wrapping_mul(0x9e37_79b9).to_be_bytes()).collect();
    assert!(bed.database.get_many(&keys).unwrap().iter().all(Option::is_some));
    let bytes = peak(&bed) - before;
    assert!(bytes >= 8_192, "{before} bytes before, and {bytes} more at the peak");
    bed.check();
    bed.database.iter().unwrap().take(500).for_each(drop);
    bed.database.snapshot().unwrap().get_many(&keys).unwrap();
    bed.check();
    (bed.budget, bytes)
}

#[test]
fn silt_keeps_its_memory_budget() {
    keeps_its_budget("silt", &[("engine", "silt")]);
}

#[test]
fn bloomstore_keeps_its_memory_budget() {
    keeps_its_budget("bloomstore", &[("engine", "bloomstore")]);
}

#[test]
fn silt_keeps_the_least_budget_that_it_takes() {
    keeps_its_least_budget(0.0, &[("engine", "silt")]);
}

#[test]
fn bloomstore_keeps_the_least_budget_that_it_takes() {
    keeps_its_least_budget(0.0, &[("engine", "bloomstore")]);
}

#[test]
fn flashkey_keeps_the_least_budget_that_it_takes() {
    keeps_its_least_budget(0.3, &[("engine", "flashkey")]);
}

#[test]
fn flashkey_keeps_its_memory_budget() {
    keeps_its_budget("flashkey", &[("engine", "flashkey")]);
}

#[test]
fn flashkey_with_ordered_keys_keeps_its_memory_budget() {
    keeps_its_budget("ordered", &[("engine", "flashkey"), ("ordered", "true")]);
}

#[test]
fn flashkey_with_an_index_on_flash_keeps_its_memory_budget() {
    keeps_its_budget(
        "on flash",
        &[("engine", "flashkey"), ("index_in_memory", "0"), ("segment_bytes", "1048576")],
    );
}

#[test]
fn a_cache_on_flash_keeps_its_memory_budget() {
    let settings = [
        ("engine", "flashstore"),
        ("cache", "true"),
        ("segment_bytes", "262144"),
        ("flash_bytes", "6291456"),
    ];
    keeps_its_budget("cache", &settings);
}

#[test]
fn flashstore_over_a_disk_keeps_its_memory_budget() {
    let disk = Path::new("disk").display().to_string();
    let settings =
        [("engine", "flashstore"), ("segment_bytes", "262144"), ("flash_bytes", "6291456"), ("disk", &*disk)];
    keeps_its_budget("tiered", &settings);
}
