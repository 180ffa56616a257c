//! Counters that several threads increment, and a transfer between two of them.
//!
//! `update` reads and writes a key in one atomic step, `transact` several keys. With `Durability::Synced` a write
//! survives a power failure when the call returns; threads that write at the same time share a sync.
//!
//! Run with `cargo run --example counters`.

#![allow(clippy::print_stdout, reason = "an example prints what it finds")]

use siltstone::{Change, Database, Durability, Found, NEVER, Result};
use std::error::Error;
use std::path::Path;

fn count(found: Option<&Found>) -> u64 {
    found.and_then(|found| found.value[..].try_into().ok()).map_or(0, u64::from_le_bytes)
}

fn put(count: u64) -> Change {
    Change::Put { value: count.to_le_bytes().to_vec().into(), expires_at_ms: NEVER }
}

/// Adds to a counter, which is 0 at first.
fn add(counters: &Database, name: &str, n: u64) -> Result<()> {
    counters.update(name, |found| Ok(put(count(found) + n)))
}

/// Moves `n` from one counter to another, if it has as many. Returns whether it did.
fn transfer(counters: &Database, from: &str, to: &str, n: u64) -> Result<bool> {
    let mut done = false;
    counters.transact(&[from, to], |found, changes| {
        let [source, target] = [count(found[0].as_ref()), count(found[1].as_ref())];
        done = source >= n;
        if done {
            (changes[0], changes[1]) = (put(source - n), put(target + n));
        }
        Ok(())
    })?;
    Ok(done)
}

/// Returns the value of a counter.
fn get(counters: &Database, name: &str) -> Result<u64> {
    Ok(count(counters.get_found(name)?.as_ref()))
}

/// Opens a database of counters, and creates it if it does not exist.
fn open(path: &Path) -> Result<Database> {
    Database::builder(path).durability(Durability::Synced).open()
}

pub(crate) fn main() -> std::result::Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let counters = open(&directory.path().join("counters"))?;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..50).try_for_each(|_| add(&counters, "visits", 1)));
        }
    });
    assert_eq!(get(&counters, "visits")?, 200);
    assert!(transfer(&counters, "visits", "archived", 150)?);
    assert!(!transfer(&counters, "visits", "archived", 150)?);
    println!("{} visits, {} archived", get(&counters, "visits")?, get(&counters, "archived")?);
    counters.close()?;
    Ok(())
}
