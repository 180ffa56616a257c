//! What new users type first compiles and does what it says.

use siltstone::{Batch, Change, Database, Error, NEVER, WriteOptions};
use std::io;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::{Duration, SystemTime};

/// A struct of a user that has a database and a builder.
#[derive(Debug)]
#[expect(dead_code, reason = "only Debug reads it")]
struct Application {
    database: Database,
    builder: siltstone::Builder,
}

/// A user's own error.
#[derive(Debug)]
enum Failure {
    NotNumber,
    Store(#[expect(dead_code, reason = "only Debug reads it")] Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Store(error)
    }
}

fn parsed(bytes: &[u8]) -> Result<u64, Failure> {
    std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()).ok_or(Failure::NotNumber)
}

fn is_send<T: Send>(_: &T) {}
fn is_unwind_safe<T: UnwindSafe + RefUnwindSafe>(_: &T) {}

#[test]
fn handles_have_the_usual_traits() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path().join("db")).unwrap();
    let builder = Database::builder(directory.path().join("other"));
    is_send(&builder);
    is_send(&database);
    is_unwind_safe(&database);
    assert_eq!(database.path(), directory.path().join("db"));
    assert!(format!("{:?}", Application { database, builder }).contains("db"));
}

/// What `main` and `unwrap` print is the debug form.
#[test]
fn the_debug_form_of_an_error_is_its_name_and_its_message() {
    let directory = tempfile::tempdir().unwrap();
    let error = Database::builder(directory.path().join("visits")).create(false).open().unwrap_err();
    assert_eq!(format!("{error:?}"), format!("NotFound: {error}"));
    assert!(error.to_string().ends_with(
        "visits: no database here; create one with `Builder::create(true)` or use \
                                         another directory"
    ));
    assert_eq!(format!("{:?}", Error::Interrupted), format!("Interrupted: {}", Error::Interrupted));
}

#[test]
fn an_update_has_the_errors_of_its_caller() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path()).unwrap();
    let count = |key: &str| {
        database.try_update(key, |found| {
            let number = found.map_or(Ok(0), |found| parsed(&found.value))? + 1;
            Ok::<_, Failure>((Change::Put { value: number.to_string().into(), expires_at_ms: NEVER }, number))
        })
    };
    assert_eq!((count("visits").unwrap(), count("visits").unwrap()), (1, 2));
    database.put("word", "x").unwrap();
    assert!(matches!(count("word"), Err(Failure::NotNumber)));
    assert_eq!(database.get("word").unwrap().as_deref(), Some(&b"x"[..]));
}

#[test]
fn records_are_removed_counted_and_seen_at_one_moment() -> io::Result<()> {
    let directory = tempfile::tempdir()?;
    let database = Database::open(directory.path())?;
    let mut batch: Batch = [("a", "1"), ("b", "2")].into_iter().collect();
    batch.extend([("c", "3")]);
    database.write(&batch)?;
    database.write(&Batch::with_capacity(10, 1000))?;
    let snapshot = database.snapshot()?;
    assert_eq!(database.remove("a")?.as_deref(), Some(&b"1"[..]));
    assert_eq!((database.get("a")?, snapshot.get("a")?.as_deref()), (None, Some(&b"1"[..])));
    assert_eq!((database.len()?, database.is_empty()?), (2, false));
    assert_eq!(database.prefix("b")?.map(|record| record.unwrap().value).collect::<Vec<_>>(), ["2"]);
    let mut values = Vec::new();
    for record in &database {
        values.push(record?.value);
    }
    values.sort();
    assert_eq!(values, ["2", "3"]);
    assert!(database.verify()?.damage.is_empty());
    assert!(database.stats().to_string().contains("bytes"));
    Ok(database.close()?)
}

#[test]
fn expiry_times_are_durations_and_times() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path()).unwrap();
    let options = WriteOptions::default().expires_in(Duration::from_secs(3600));
    database.put_with("session", "Ada", options).unwrap();
    let expires_at = database.get_found("session").unwrap().unwrap().expires_at().unwrap();
    assert!(expires_at > SystemTime::now());
    assert!(database.insert_if_absent("once", "x").unwrap());
    assert!(!database.insert_if_absent("once", "y").unwrap());
}
