//! The statistics of a database as JSON, with the names that all reports share.

use super::{DegradedStore, Latency, RamAccount, Shape, Stats, StoreKind, Usage};
use serde_json::{Map, Value, json};
use siltstone_device::{IoSnapshot, Purpose};

impl Stats {
    /// Returns all statistics as one line of JSON, as `siltstone stats --json` prints them. With the feature `json`.
    pub fn to_json(&self) -> String {
        stats(self).to_string()
    }
}

/// Returns the memory by component, in bytes.
pub fn ram(account: &RamAccount) -> Value {
    account
        .items()
        .iter()
        .map(|(item, bytes)| ((*item).to_owned(), json!(bytes)))
        .collect::<Map<_, _>>()
        .into()
}

/// Operations and bytes by purpose, without purposes that have none.
pub fn io(io: &IoSnapshot) -> Value {
    let of = |purpose: Purpose| {
        let count = io.of(purpose);
        json!({
            "reads": count.reads,
            "read_bytes": count.read_bytes,
            "writes": count.writes,
            "write_bytes": count.write_bytes,
            "syncs": count.syncs,
        })
    };
    let used = |purpose: &Purpose| {
        let count = io.of(*purpose);
        count.reads + count.writes + count.syncs > 0
    };
    let purposes = Purpose::ALL.into_iter().filter(used);
    purposes.map(|purpose| (purpose.name().to_owned(), of(purpose))).collect::<Map<_, _>>().into()
}

/// The largest number below which every whole number is exact as a float.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// Returns a number as JSON: an integer if it is whole.
pub fn number(value: f64) -> Value {
    match value.fract() == 0.0 && value.abs() < WHOLE_MAX {
        true => json!(value as i64),
        false => json!(value),
    }
}

/// Returns the engine's other counters.
pub fn details(stats: &Stats) -> Value {
    let details = stats.details.iter().map(|(name, value)| ((*name).to_owned(), number(*value)));
    details.collect::<Map<_, _>>().into()
}

/// Returns the settings of the engine.
pub fn settings(stats: &Stats) -> Value {
    let settings = stats.settings.iter().map(|(name, value)| ((*name).to_owned(), json!(value)));
    settings.collect::<Map<_, _>>().into()
}

/// Returns the format of the records.
pub fn shape(shape: &Shape) -> Value {
    json!({
        "fixed": shape.fixed.map(|(key_length, value_length)| [key_length, value_length]),
        "hashed_keys": shape.hashed_keys,
        "expiring": shape.expiring,
        "partitions": shape.partitions,
        "block_bytes": shape.block_bytes,
        "compression": shape.compression.to_string(),
        "format_version": shape.format_version,
    })
}

/// Returns the structures of the stores.
pub fn stores(stats: &Stats) -> Value {
    let kind = |kind: &StoreKind| {
        let StoreKind { store, index, filter, count, .. } = kind;
        json!({ "store": store, "index": index, "filter": filter, "count": count })
    };
    stats.stores.iter().map(kind).collect()
}

/// Returns the stores with damaged or unreadable parts.
pub fn degraded(stats: &Stats) -> Value {
    let store = |store: &DegradedStore| {
        json!({
            "file": store.file,
            "index_on_flash": store.index_on_flash,
            "filter_on_flash": store.filter_on_flash,
        })
    };
    stats.degraded.iter().map(store).collect()
}

/// Returns the usage counters since the database was created.
pub fn usage(usage: &Usage) -> Value {
    json!({
        "open_ms": usage.open_ms,
        "gets": usage.gets,
        "misses": usage.misses,
        "puts": usage.puts,
        "deletes": usage.deletes,
        "key_bytes": usage.key_bytes,
        "value_bytes": usage.value_bytes,
        "written_bytes": usage.written_bytes,
        "write_amplification": usage.write_amplification(),
        "records": usage.records,
        "counted_writes": usage.counted_writes,
        "saved_at_ms": usage.saved_at_ms,
    })
}

/// Returns the times of operations in nanoseconds, by operation.
pub fn latencies(stats: &Stats) -> Value {
    let of = |latency: &Latency| {
        let quantiles = [("p50_ns", 0.5), ("p99_ns", 0.99), ("p999_ns", 0.999), ("max_ns", 1.0)];
        let mut times: Map<_, _> = quantiles
            .map(|(name, share)| (name.to_owned(), json!(latency.quantile_ns(share))))
            .into_iter()
            .collect();
        times.insert("count".into(), json!(latency.count()));
        times.insert("sum_ns".into(), json!(latency.sum_ns()));
        (latency.operation().to_owned(), Value::from(times))
    };
    stats.latencies.iter().map(of).collect::<Map<_, _>>().into()
}

/// As [`Stats::to_json`] does.
#[cfg(feature = "serde")]
impl serde::Serialize for Stats {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        stats(self).serialize(to)
    }
}

/// Returns all statistics of a database.
pub fn stats(stats: &Stats) -> Value {
    json!({
        "engine": stats.engine,
        "shape": shape(&stats.shape),
        "settings": settings(stats),
        "stores": stores(stats),
        "records": stats.records,
        "merged_records": stats.merged_records,
        "disk_bytes": stats.disk_bytes,
        "ram_bytes": stats.ram.total_bytes(),
        "ram_account": ram(&stats.ram),
        "ram_bytes_max": stats.ram_peak.total_bytes(),
        "ram_bytes_per_key": stats.ram.total_bytes() as f64 / stats.records.max(1) as f64,
        "writes": stats.writes,
        "user_bytes": stats.user_bytes,
        "delayed_writes": stats.delayed_writes,
        "delayed_ns": stats.delayed_ns,
        "replayed_records": stats.replayed_records,
        "lost_tail_bytes": stats.lost_tail_bytes,
        "usage": usage(&stats.usage),
        "degraded": degraded(stats),
        "io": io(&stats.io),
        "latencies": latencies(stats),
        "details": details(stats),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_did_nothing_has_empty_accounts() {
        let accounts = stats(&Stats::default());
        assert_eq!(accounts["io"], json!({}));
        assert_eq!(accounts["ram_bytes"], json!(0));
    }

    #[test]
    fn whole_numbers_have_no_point() {
        assert_eq!((number(16.0), number(0.5)), (json!(16), json!(0.5)));
    }

    #[test]
    fn items_are_listed_by_name() {
        let mut account = RamAccount::default();
        account.add("index", 5);
        account.add("index", 2);
        assert_eq!(ram(&account), json!({ "index": 7 }));
    }
}
