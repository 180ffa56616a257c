//! The SILT engine on devices that lose power, fail or return damaged bytes, and the repair of what is damaged.

mod at_once;
mod background;
mod copies;
mod failures;
mod files;
mod reads;
mod recovery;
mod repair;
mod simulated;

use siltstone::{Builder, Database};
use siltstone_device::memory::MemoryDirectory;
use siltstone_device::{Access, Directory};

/// Opens a small database in memory.
fn open(files: &MemoryDirectory, setup: impl FnOnce(Builder) -> Builder) -> (Database, Directory) {
    let directory = Directory::new(files.clone(), Access::Buffered);
    let builder = Database::builder("memory").set("log_slots_min", 64).partitions(4).background_threads(0);
    let database = setup(builder).open_in(directory.clone()).unwrap();
    (database, directory)
}

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}
