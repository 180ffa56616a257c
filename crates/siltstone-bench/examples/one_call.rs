//! One put and one get of a database at rest, in functions that a profiler can name.
//! `crates/siltstone-bench/count_calls` runs it, and counts the functions that they execute.

use siltstone::Database;
use std::hint::black_box;

const RECORDS: u64 = 20_000;
const WARM_UP: u64 = 100;

fn key(number: u64) -> [u8; 20] {
    let mut key = [0; 20];
    key[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key
}

#[inline(never)]
fn traced_put(database: &Database, key: &[u8], value: &[u8]) -> siltstone::Result<()> {
    database.put(key, value)
}

#[inline(never)]
fn traced_get(database: &Database, key: &[u8]) -> siltstone::Result<Option<siltstone::Bytes>> {
    database.get(key)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    // Without threads, so that only the calls themselves run.
    let open = || Database::builder(directory.path().join("db")).fixed(20, 44).background_threads(0).open();
    let database = open()?;
    for number in 0..RECORDS {
        database.put(key(number), [1; 44])?;
    }
    database.compact()?;
    database.close()?;
    drop(database);
    let database = open()?;
    database.settle()?;
    for number in 0..WARM_UP {
        database.put(key(RECORDS + number), [2; 44])?;
        black_box(database.get(key(number))?);
    }
    traced_put(&database, &key(RECORDS + WARM_UP), &[3; 44])?;
    black_box(traced_get(&database, &key(WARM_UP + 1))?);
    Ok(())
}
