//! What can be seen of a database from outside: histograms, and serialized statistics.
use siltstone::{Batch, Change, Database, Latency};

#[test]
fn every_operation_is_counted_in_its_histogram_and_in_none_without_the_option() {
    let directory = tempfile::tempdir().unwrap();
    let without = Database::builder(directory.path().join("without")).open().unwrap();
    without.put("key", "value").unwrap();
    assert!(without.stats().latencies.is_empty());
    let database = Database::builder(directory.path().join("db")).latencies(true).open().unwrap();
    database.put("a", "1").unwrap();
    database.delete("a").unwrap();
    database.write(&Batch::from_iter([("a", "1"), ("b", "2")])).unwrap();
    assert!(database.get("a").unwrap().is_some() && !database.contains("c").unwrap());
    assert_eq!(database.get_many(&["a", "b", "c"]).unwrap().len(), 3);
    database.update("a", |_| Ok(Change::Keep)).unwrap();
    assert!(!database.insert_if_absent("b", "3").unwrap());
    assert_eq!(database.scan(.., 10).unwrap().records.len(), 2);
    database.sync().unwrap();
    let latencies = database.stats().latencies;
    let counts: Vec<_> = latencies.iter().map(|latency| (latency.operation(), latency.count())).collect();
    let expected = [("get", 2), ("get_many", 1), ("write", 3), ("update", 2), ("scan", 1), ("sync", 1)];
    assert_eq!(counts, expected);
    assert!(latencies.iter().all(|latency| latency.quantile_ns(1.0) > 0));
    assert!(latencies.iter().all(|latency: &Latency| latency.sum_ns() > 0));
}

#[cfg(feature = "serde")]
#[test]
fn statistics_are_serialized_with_names_as_keys() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::builder(directory.path().join("db")).fixed(1, 1).latencies(true).open().unwrap();
    database.put("a", "1").unwrap();
    let found = database.stats();
    let stats = serde_json::to_value(&found).unwrap();
    assert_eq!(stats["engine"], "silt");
    assert_eq!(stats["shape"]["fixed"], serde_json::json!([1, 1]));
    assert_eq!(stats["usage"]["puts"], 1);
    assert!(stats["ram_account"]["log_index"].as_u64().unwrap() > 0);
    assert!(stats["io"]["log"]["writes"].as_u64().is_some() && stats["io"].get("merge").is_none());
    assert_eq!(stats["latencies"]["write"]["count"], 1);
    assert_eq!(stats.to_string(), found.to_json());
}
