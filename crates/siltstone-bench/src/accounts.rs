//! The accounts of a database as JSON, under the names that all reports share.

use serde_json::{Map, Value, json};
use siltstone::device::{IoSnapshot, Purpose};
use siltstone::{DegradedStore, Durability, RamAccount, Stats, Usage};

/// The name of a durability, as it is typed.
pub fn durability(durability: Durability) -> &'static str {
    match durability {
        Durability::Buffered => "buffered",
        Durability::Synced => "synced",
        _ => "written",
    }
}

/// Memory by item, in bytes.
pub fn ram(account: &RamAccount) -> Value {
    account
        .items()
        .iter()
        .map(|(item, bytes)| ((*item).to_owned(), json!(bytes)))
        .collect::<Map<_, _>>()
        .into()
}

/// Operations and bytes by purpose; purposes for which nothing was done are left out.
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

/// What else the engine counts.
pub fn details(stats: &Stats) -> Value {
    stats.details.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect::<Map<_, _>>().into()
}

/// The stores of which parts are on flash.
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

/// What was asked of a database since it was created.
pub fn usage(usage: &Usage) -> Value {
    json!({
        "open_ms": usage.open_ms,
        "gets": usage.gets,
        "misses": usage.misses,
        "puts": usage.puts,
        "deletes": usage.deletes,
        "key_bytes": usage.key_bytes,
        "value_bytes": usage.value_bytes,
        "records": usage.records,
        "counted_writes": usage.counted_writes,
        "saved_at_ms": usage.saved_at_ms,
    })
}

/// Everything that a database tells of itself.
pub fn stats(stats: &Stats) -> Value {
    json!({
        "engine": stats.engine,
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
        "details": details(stats),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_did_nothing_has_empty_accounts() {
        let told = stats(&Stats::default());
        assert_eq!(told["io"], json!({}));
        assert_eq!(told["ram_bytes"], json!(0));
    }

    #[test]
    fn items_stand_under_their_names() {
        let mut account = RamAccount::default();
        account.add("index", 5);
        account.add("index", 2);
        assert_eq!(ram(&account), json!({ "index": 7 }));
    }
}
