//! The input of a plan from a database: its records, and its usage counters.

use crate::open::Location;
use anyhow::bail;
use siltstone::{Database, Error, Stats, Usage};
use siltstone_bench::tuning::{MemoryArgs, SettingArgs};
use std::path::Path;

/// The number of records whose sizes are sampled.
const RECORDS_SAMPLED: usize = 100_000;

/// What a database shows.
pub struct Found {
    /// The approximate number of records.
    pub items: f64,
    /// The mean length of a key, in bytes.
    pub key_bytes: f64,
    /// The mean length of a value, in bytes.
    pub value_bytes: f64,
    /// Whether all sampled records have the same lengths.
    pub fixed: bool,
    /// The usage counters, if there are any.
    pub usage: Option<Usage>,
    /// The current statistics, unless another process has the database open.
    pub now: Option<Stats>,
}

/// Reads the records and counters of a database. If it is in use, reads only the counters that it has stored.
pub fn read(db: &Path) -> anyhow::Result<Found> {
    let (memory, settings) = (MemoryArgs::default(), SettingArgs::default());
    let location = Location { db: db.to_owned(), memory, settings };
    match location.open() {
        Ok(database) => sample(&database, db),
        Err(error) if matches!(error.downcast_ref(), Some(Error::Locked { .. })) => {
            counted(db, Database::kept_usage(location.readable())?)
        }
        Err(error) => Err(error),
    }
}

fn counted(db: &Path, usage: Option<Usage>) -> anyhow::Result<Found> {
    let Some(usage) = usage.filter(|usage| usage.puts > 0) else {
        bail!(
            "{}: the database is in use and has kept no counters yet; it does so every minute: try again then, or \
             state --items, --key-size and --value-size instead",
            db.display()
        );
    };
    let mean = |bytes: u64| bytes as f64 / usage.puts as f64;
    let (key_bytes, value_bytes) = (mean(usage.key_bytes), mean(usage.value_bytes));
    Ok(Found {
        items: usage.records.max(1) as f64,
        key_bytes,
        value_bytes,
        // All records are alike, or the means of their sizes happen to be whole numbers.
        fixed: key_bytes.fract() == 0.0 && value_bytes.fract() == 0.0,
        usage: Some(usage),
        now: None,
    })
}

fn sample(database: &Database, db: &Path) -> anyhow::Result<Found> {
    let (mut records, mut key_bytes, mut value_bytes) = (0.0f64, 0.0, 0.0);
    let mut sizes = None;
    let mut fixed = true;
    for record in database.iter()?.take(RECORDS_SAMPLED) {
        let record = record?;
        let size = (record.key.len(), record.value.len());
        fixed &= *sizes.get_or_insert(size) == size;
        records += 1.0;
        key_bytes += size.0 as f64;
        value_bytes += size.1 as f64;
    }
    if records == 0.0 {
        bail!("{}: the database is empty: nothing can be learned from it", db.display());
    }
    let stats = database.stats();
    let usage = stats.usage;
    let all_seen = records < RECORDS_SAMPLED as f64;
    let items = if all_seen { records } else { database.approximate_len()? as f64 };
    Ok(Found {
        items: items.max(records),
        key_bytes: key_bytes / records,
        value_bytes: value_bytes / records,
        fixed,
        usage: (usage.gets + usage.puts + usage.deletes > 0).then_some(usage),
        now: Some(stats),
    })
}
