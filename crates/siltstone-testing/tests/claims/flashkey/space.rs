//! The logs take at most `space` times the live bytes and a segment of each log, at every moment.

use siltstone::{Database, FlashKeySettings};
use siltstone_device::memory::MemoryDirectory;
use siltstone_device::{Access, Directory};
use siltstone_testing::simulated::{Faults, SimulatedDirectory};
use std::collections::BTreeMap;

const SPACES: [f64; 4] = [1.05, 1.1, 1.25, 2.0];
const SEGMENT_BYTES: u64 = 16 << 10;
/// The user log, and three of moved records.
const LOGS: u64 = 4;
const KEYS: u32 = 3_000;
const VALUE_BYTES: usize = 100;
/// What a frame has besides key and value, and its padding.
const FRAME_BYTES_MIN: u64 = 4;

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Load {
    Uniform,
    /// Nine of ten writes are to a hundredth of the keys.
    Skewed,
    /// A third of the writes are deletes.
    Deletes,
    /// Values have up to twice the length.
    Sizes,
}

const LOADS: [Load; 4] = [Load::Uniform, Load::Skewed, Load::Deletes, Load::Sizes];

/// How the background works.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Background {
    /// Only when a write has to wait.
    Writer,
    /// A step after each of this many writes.
    StepPer(u32),
    Threads,
}

fn detail(database: &Database, name: &str) -> f64 {
    database.stats().details.iter().find(|(other, _)| *other == name).unwrap().1
}

struct Checked {
    database: Database,
    space: f64,
    /// The lengths of the live values.
    lengths: BTreeMap<u32, usize>,
    /// The bytes of keys and values.
    live_bytes: u64,
}

impl Checked {
    fn create(space: f64, background: Background) -> Checked {
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        let settings = FlashKeySettings::default().segment_bytes(SEGMENT_BYTES).space(space);
        let threads = if background == Background::Threads { 2 } else { 0 };
        let builder = Database::builder("db").engine(settings).partitions(4).seed([1, 2]);
        let database = builder.background_threads(threads).open_in(directory).unwrap();
        Checked { database, space, lengths: BTreeMap::new(), live_bytes: 0 }
    }

    fn put(&mut self, key: u32, length: usize) {
        self.database.put(key.to_be_bytes(), vec![key as u8; length]).unwrap();
        self.forget(key);
        self.lengths.insert(key, length);
        self.live_bytes += 4 + length as u64;
    }

    fn delete(&mut self, key: u32) {
        self.database.delete(key.to_be_bytes()).unwrap();
        self.forget(key);
    }

    fn forget(&mut self, key: u32) {
        self.live_bytes -= self.lengths.remove(&key).map_or(0, |length| 4 + length as u64);
    }

    fn write(&mut self, load: Load, random: &mut fastrand::Rng) {
        let key = match load {
            Load::Skewed if random.u8(..10) > 0 => random.u32(..KEYS / 100),
            _ => random.u32(..KEYS),
        };
        match load {
            Load::Deletes if random.u8(..3) == 0 => self.delete(key),
            Load::Sizes => self.put(key, random.usize(..2 * VALUE_BYTES)),
            _ => self.put(key, VALUE_BYTES),
        }
    }

    /// Fails if the logs have more bytes than they may have now.
    fn check(&self, case: &str) {
        // Tombstones are live as long as they hide a record: at most a third of the writes.
        let live = detail(&self.database, "live_bytes");
        let least = self.live_bytes + FRAME_BYTES_MIN * self.lengths.len() as u64;
        let most = self.space * live + (LOGS * SEGMENT_BYTES) as f64;
        let bytes = detail(&self.database, "log_bytes");
        assert!(bytes <= most, "{case}: {bytes} bytes, {live} of them live; at most {most}");
        assert!(live <= 1.25 * least as f64 + 1e4, "{case}: {live} are live instead of {least}");
    }
}

fn check_all(background: Background) {
    for (space, load) in SPACES.into_iter().flat_map(|space| LOADS.map(|load| (space, load))) {
        let case = format!("space {space}, {load:?}, {background:?}");
        let mut random = fastrand::Rng::with_seed(7);
        let mut checked = Checked::create(space, background);
        (0..KEYS).for_each(|key| checked.put(key, VALUE_BYTES));
        for write in 0..4 * KEYS {
            checked.write(load, &mut random);
            if let Background::StepPer(writes) = background
                && write % writes == 0
            {
                checked.check(&case);
                checked.database.step().unwrap();
            }
            checked.check(&case);
        }
        for key in 0..KEYS {
            let found = checked.database.get(key.to_be_bytes()).unwrap();
            assert_eq!(found.map(|value| value.len()), checked.lengths.get(&key).copied(), "{case}, {key}");
        }
    }
}

#[test]
fn the_logs_are_within_their_space_and_a_segment_of_each_log_after_every_write() {
    check_all(Background::Writer);
}

#[test]
fn the_logs_are_within_their_space_and_a_segment_of_each_log_after_every_step() {
    check_all(Background::StepPer(1));
    check_all(Background::StepPer(20));
}

#[test]
fn the_logs_are_within_their_space_and_a_segment_of_each_log_while_threads_work() {
    check_all(Background::Threads);
}

#[test]
fn the_device_has_no_space_of_released_segments_while_another_job_works() {
    const CAPACITY: u64 = 128 << 20;
    const KEYS: u32 = 16_000;
    // A confirmation of it takes several steps.
    const SEGMENT_BYTES: u64 = 2 << 20;
    let device = SimulatedDirectory::new(1);
    let faults = Faults { capacity_bytes: Some(CAPACITY), states_free_bytes: true, ..Faults::default() };
    device.set_faults(faults);
    let directory = Directory::new(device.clone(), Access::Buffered);
    let settings = FlashKeySettings::default().segment_bytes(SEGMENT_BYTES);
    let builder = Database::builder("db").engine(settings).partitions(4).seed([1, 2]);
    let database = builder.background_threads(0).open_in(directory.clone()).unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    for write in 0..4 * KEYS {
        database.put(random.u32(..KEYS).to_be_bytes(), [1; 1000]).unwrap();
        if write % 16 == 0 {
            database.step().unwrap();
            let used = CAPACITY - directory.free_bytes().unwrap().unwrap();
            let counted = database.stats().disk_bytes;
            assert!(used <= counted, "the device has {used} bytes, the database counts {counted}");
        }
    }
    assert!(detail(&database, "confirmed_segments") > 0.0);
}
