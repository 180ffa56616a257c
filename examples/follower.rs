//! A copy of a database that is brought up to date by reading only what was written.
//!
//! The copy keeps its position in the change feed, and sets it in the batch that has the records up to there. So it
//! continues where it stopped, also after a crash. What it does with a key is right if nothing has changed, because a
//! feed may return a key again.
//!
//! Run with `cargo run --example follower`.

#![allow(clippy::print_stdout, reason = "an example prints what it finds")]

use siltstone::{Batch, Bytes, ChangePosition, Database, Error, Result};
use std::path::Path;

/// The key of the position in the copy. The original must not have it.
const POSITION: &[u8] = b"position of the copy";
/// The keys that are brought over at a time.
const BATCH: usize = 1_000;

/// Opens a database with a feed of the last 64 MiB of keys, and creates it if it does not exist.
pub fn open(path: &Path) -> Result<Database> {
    Database::builder(path).change_feed(64 << 20).open()
}

fn position_of(copy: &Database) -> Result<Option<ChangePosition>> {
    let text = copy.get(POSITION)?;
    text.map(|text| String::from_utf8_lossy(&text).parse()).transpose()
}

/// Adds keys and their present values to a batch; those that are gone as deletes.
fn add(batch: &mut Batch, keys: &[Bytes], original: &Database) -> Result<()> {
    for (key, value) in keys.iter().zip(original.get_many(keys)?) {
        match value {
            Some(value) => batch.put(key, value)?,
            None => batch.delete(key)?,
        };
    }
    Ok(())
}

/// Copies all records: at first, and when changes are lost. The position is taken before they are read, so what is
/// written meanwhile follows.
fn copy_all(original: &Database, copy: &Database) -> Result<ChangePosition> {
    let position = original.change_position()?;
    copy.clear()?;
    let mut load = copy.bulk_loader();
    for record in original.iter()? {
        let record = record?;
        load.put(&record.key, &record.value)?;
    }
    load.finish()?;
    copy.put(POSITION, position.to_string())?;
    Ok(position)
}

/// Brings a copy up to date. Returns the number of keys that were brought over.
pub fn follow(original: &Database, copy: &Database) -> Result<usize> {
    let mut position = match position_of(copy)? {
        Some(position) => position,
        None => copy_all(original, copy)?,
    };
    let mut keys = 0;
    loop {
        let changes = match original.changes(position, BATCH) {
            Err(Error::ChangesLost { .. }) => {
                position = copy_all(original, copy)?;
                continue;
            }
            changes => changes?,
        };
        if changes.keys.is_empty() {
            return Ok(keys);
        }
        let mut batch = Batch::new();
        add(&mut batch, &changes.keys, original)?;
        batch.put(POSITION, changes.next.to_string())?;
        copy.write(&batch)?;
        (position, keys) = (changes.next, keys + changes.keys.len());
    }
}

pub(crate) fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let original = open(&directory.path().join("original"))?;
    let copy = Database::open(directory.path().join("copy"))?;
    for number in 0..5_000_u32 {
        original.put(number.to_be_bytes(), "old")?;
    }
    follow(&original, &copy)?;
    original.put(7_u32.to_be_bytes(), "new")?;
    original.delete(8_u32.to_be_bytes())?;
    let keys = follow(&original, &copy)?;
    println!("{keys} keys brought over, {} records in the copy", copy.len()? - 1);
    assert_eq!((keys, copy.get(7_u32.to_be_bytes())?), (2, Some("new".into())));
    assert!(!copy.contains(8_u32.to_be_bytes())?);
    Ok(())
}
