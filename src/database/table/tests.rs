use super::*;
use crate::{EngineKind, FlashKeySettings};
use std::time::Duration;

/// Opens a database with each engine, and one that keeps the keys in order.
fn databases(directory: &tempfile::TempDir) -> Vec<Database> {
    let builder = |name: &str| Database::builder(directory.path().join(name));
    let ordered = builder("ordered").engine(FlashKeySettings::default().ordered(true));
    let plain = EngineKind::ALL.iter().map(|kind| builder(kind.name()).engine(kind.complete_settings()));
    plain.chain([ordered]).map(|builder| builder.open().unwrap()).collect()
}

fn all<K, V>(table: &Table<K, V>) -> Vec<(K::Owned, V::Owned)>
where
    K: Codec<Owned: Ord> + ?Sized,
    V: Codec<Owned: Ord> + ?Sized,
{
    let mut records: Vec<_> = table.iter().unwrap().collect::<Result<_>>().unwrap();
    records.sort();
    records
}

#[test]
fn a_table_has_its_own_records_and_no_others() {
    let directory = tempfile::tempdir().unwrap();
    for database in databases(&directory) {
        let numbers: Table<u16, str> = database.table("numbers").unwrap();
        let longer: Table<u16, str> = database.table("numbers2").unwrap();
        let set: Table<str, ()> = database.table("set").unwrap();
        for number in 0..300 {
            numbers.put(&number, &format!("number {number}")).unwrap();
            longer.put(&number, "other").unwrap();
        }
        assert!(set.insert_if_absent("a", &()).unwrap() && !set.insert_if_absent("a", &()).unwrap());
        database.put("numbers", "no record of a table").unwrap();

        assert_eq!(numbers.get(&7).unwrap().as_deref(), Some("number 7"), "{database:?}");
        assert_eq!(numbers.get(&300).unwrap(), None);
        let many = numbers.get_many(&[300, 299]).unwrap();
        assert_eq!(many, [None, Some("number 299".to_owned())]);
        assert_eq!(numbers.remove(&7).unwrap().as_deref(), Some("number 7"));
        numbers.delete(&8).unwrap();
        assert!(!numbers.contains(&8).unwrap() && longer.contains(&8).unwrap());
        let expected = (0..300).filter(|number| ![7, 8].contains(number));
        assert_eq!(all(&numbers), expected.map(|n| (n, format!("number {n}"))).collect::<Vec<_>>());
        assert_eq!(numbers.clear().unwrap(), 298, "{database:?}");
        assert_eq!((all(&numbers).len(), all(&longer).len(), all(&set).len()), (0, 300, 1));
        assert!(database.contains("numbers").unwrap());
    }
}

#[test]
fn a_batch_changes_several_tables_at_once() {
    let directory = tempfile::tempdir().unwrap();
    for database in databases(&directory) {
        let stock: Table<str, u32> = database.table("stock").unwrap();
        let orders: Table<u64, Vec<u8>> = database.table("orders").unwrap();
        stock.put("apple", &1).unwrap();
        let mut batch = Batch::new();
        stock.delete_in(&mut batch, "apple").unwrap();
        orders.put_in(&mut batch, &1, &b"apple".to_vec()).unwrap();
        assert!(orders.get(&1).unwrap().is_none());
        database.write(&batch).unwrap();
        assert_eq!(stock.get("apple").unwrap(), None);
        assert_eq!(orders.get(&1).unwrap().as_deref(), Some(&b"apple"[..]));
    }
}

#[test]
fn an_update_keeps_the_expiry_time_and_an_error_keeps_the_record() {
    let directory = tempfile::tempdir().unwrap();
    for database in databases(&directory) {
        let counters: Table<str, i32> = database.table("counters").unwrap();
        let options = WriteOptions::default().expires_in(Duration::from_secs(1_000));
        counters.put_with("a", &-1, options).unwrap();
        let expires_at_ms = database.get_found("counters\0a").unwrap().unwrap().expires_at_ms;
        counters.update("a", |count| Ok(count.map(|count| count - 1))).unwrap();
        assert_eq!(counters.get("a").unwrap(), Some(-2));
        assert_eq!(database.get_found("counters\0a").unwrap().unwrap().expires_at_ms, expires_at_ms);
        assert!(counters.update("a", |_| Err(Error::Interrupted)).is_err());
        assert_eq!(counters.get("a").unwrap(), Some(-2));
        counters.update("a", |_| Ok(None)).unwrap();
        counters.update("b", Ok).unwrap();
        assert_eq!(all(&counters), []);
    }
}

#[test]
fn ranges_are_of_one_table_and_in_the_order_of_its_keys() {
    let directory = tempfile::tempdir().unwrap();
    for database in databases(&directory) {
        let table: Table<i16, ()> = database.table("m").unwrap();
        for other in ["l", "m2", "n"] {
            database.table::<i16, ()>(other).unwrap().put(&0, &()).unwrap();
        }
        for key in [5, -5, 300, -300, 0] {
            table.put(&key, &()).unwrap();
        }
        if database.ordered().is_none() {
            let error = table.range(..).unwrap_err().to_string();
            assert!(error.contains(database.engine().name()) && error.contains("ranges of keys"), "{error}");
            continue;
        }
        let keys = |records: Result<TableIter<i16, ()>>| -> Vec<i16> {
            records.unwrap().map(|record| record.unwrap().0).collect()
        };
        assert_eq!(keys(table.range(..)), [-300, -5, 0, 5, 300]);
        assert_eq!(keys(table.range_descending(..)), [300, 5, 0, -5, -300]);
        assert_eq!(keys(table.range(&-5..&5)), [-5, 0]);
        assert_eq!(keys(table.range(&-5..=&5)), [-5, 0, 5]);
        assert_eq!(keys(table.range_descending((Bound::Excluded(&0), Bound::Unbounded))), [300, 5]);
        assert_eq!(keys(table.iter()), [-300, -5, 0, 5, 300]);
    }
}

#[test]
fn a_record_of_another_type_is_an_error_that_names_table_key_and_type() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path().join("db")).unwrap();
    database.table::<str, str>("ages").unwrap().put("Ada", "old").unwrap();
    let ages: Table<str, u32> = database.table("ages").unwrap();
    let by_number: Table<u64, str> = database.table("ages").unwrap();
    for (error, parts) in [
        (ages.get("Ada").unwrap_err(), ["\"ages\"", "value", "\"Ada\"", "u32"]),
        (ages.get_many(&["Ada"]).unwrap_err(), ["\"ages\"", "value", "\"Ada\"", "u32"]),
        (by_number.iter().unwrap().next().unwrap().unwrap_err(), ["\"ages\"", "key", "\"Ada\"", "u64"]),
    ] {
        let text = error.to_string();
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        assert!(matches!(error, Error::TableType { .. }));
    }
}

#[test]
fn names_that_do_not_make_tables_distinct_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path().join("db")).unwrap();
    for name in ["", "a\0b", &"n".repeat(256)] {
        let error = database.table::<u8, u8>(name).unwrap_err();
        assert!(matches!(error, Error::Setting { name: "table", .. }), "{error}");
    }
    let table = database.table::<u8, u8>(&"n".repeat(255)).unwrap();
    assert_eq!(table.name().len(), 255);
    let hashed = Database::builder(directory.path().join("hashed")).hashed_keys().open().unwrap();
    let error = hashed.table::<[u8; 16], u8>("hashes").unwrap_err().to_string();
    assert!(error.contains("hashed_keys"), "{error}");
}
