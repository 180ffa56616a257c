//! Databases whose records take their whole capacity.

use siltstone::{Batch, Builder, Database, Error, FlashKeySettings};
use siltstone_device::memory::MemoryDirectory;
use siltstone_device::{Access, Directory};

const CAPACITY: u64 = 100_000;

fn builder() -> Builder {
    let settings = FlashKeySettings::default().segment_bytes(4096).space(1.25).capacity(CAPACITY);
    Database::builder("db").engine(settings).partitions(4).background_threads(0)
}

fn value(number: u32) -> Vec<u8> {
    vec![number as u8; 100]
}

/// Puts keys from 0 on until there is no space. Returns how many there are.
fn fill(database: &Database) -> u32 {
    for number in 0..u32::MAX {
        match database.put(number.to_le_bytes(), value(number)) {
            Ok(()) => {}
            Err(Error::NoRoom { capacity, needed }) => {
                assert!(capacity == CAPACITY && needed > capacity, "{needed} of {capacity}");
                return number;
            }
            Err(other) => panic!("{other}"),
        }
        database.step().unwrap();
    }
    unreachable!("the capacity is reached")
}

#[test]
fn a_full_database_refuses_puts_loses_nothing_and_accepts_puts_after_deletes() {
    let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
    let database = builder().open_in(directory.clone()).unwrap();
    let count = fill(&database);
    assert!((400..1000).contains(&count), "{count} records of 100 bytes in {CAPACITY}");
    let mut batch = Batch::new();
    batch.put("new", value(0)).unwrap().put(0u32.to_le_bytes(), "other").unwrap();
    assert!(matches!(database.write(&batch), Err(Error::NoRoom { .. })), "all of a batch is refused");
    // Without background work, and after an open: it stays full, and all records are there.
    drop(database);
    let database = builder().create(false).open_in(directory.clone()).unwrap();
    assert!((0..count).all(|number| database.get(number.to_le_bytes()).unwrap().unwrap() == value(number)));
    database.settle().unwrap();
    assert!(matches!(database.put("new", value(0)), Err(Error::NoRoom { .. })));
    // Deletes are never refused, and free space once cleaning and confirming have followed them.
    (0..count / 2).for_each(|number| database.delete(number.to_le_bytes()).unwrap());
    database.compact().unwrap();
    assert!(database.stats().disk_bytes < CAPACITY, "{:?}", database.stats());
    for number in count..count + count / 3 {
        database.put(number.to_le_bytes(), value(number)).unwrap();
        database.step().unwrap();
    }
    database.settle().unwrap();
    database.close().unwrap();
    drop(database);
    let database = builder().create(false).open_in(directory).unwrap();
    for number in 0..count + count / 3 {
        let expected = (number >= count / 2).then(|| value(number));
        let found = database.get(number.to_le_bytes()).unwrap();
        assert_eq!(found.map(|value| value.to_vec()), expected, "{number}");
    }
    assert!(database.verify().unwrap().damage.is_empty());
}

#[test]
fn overwriting_with_shorter_values_frees_space() {
    let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
    let database = builder().open_in(directory).unwrap();
    let count = fill(&database);
    database.settle().unwrap();
    // Some space, so that the first overwrites are accepted: they count until they are confirmed.
    (0..20u32).for_each(|number| database.delete(number.to_le_bytes()).unwrap());
    database.compact().unwrap();
    for number in 20..count {
        database.put(number.to_le_bytes(), [1]).unwrap();
        database.settle().unwrap();
    }
    database.compact().unwrap();
    for number in 0..20u32 {
        database.put(number.to_le_bytes(), value(number)).unwrap();
    }
    assert!((20..count).all(|number| database.get(number.to_le_bytes()).unwrap().unwrap()[..] == [1]));
}

#[test]
fn a_larger_capacity_at_an_opening_accepts_puts_again() {
    let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
    let database = builder().open_in(directory.clone()).unwrap();
    fill(&database);
    drop(database);
    let larger = builder().set("capacity", 2 * CAPACITY).open_in(directory).unwrap();
    larger.put("new", value(0)).unwrap();
}
