//! Commands that only read change nothing, and refused commands leave nothing.

use crate::runner::run;
use siltstone::Database;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Output;

/// Returns every file of a directory with its contents and modification time.
fn files(path: &Path) -> BTreeMap<String, (Vec<u8>, std::time::SystemTime)> {
    let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
    let file = |entry: fs::DirEntry| {
        let (name, path) = (entry.file_name().into_string().unwrap(), entry.path());
        (name, (fs::read(&path).unwrap(), fs::metadata(&path).unwrap().modified().unwrap()))
    };
    entries.map(file).collect()
}

/// Runs a command on a database.
fn on(db: &Path, command: &[&str]) -> Output {
    let directory = db.parent().unwrap();
    run(directory, &[&command[..1], &["--db", db.to_str().unwrap()], &command[1..]].concat())
}

fn code_of(db: &Path, command: &[&str]) -> i32 {
    on(db, command).status.code().unwrap()
}

const READING: [&[&str]; 5] = [&["get", "key"], &["list"], &["stats"], &["export"], &["verify"]];

#[test]
fn commands_that_only_read_change_nothing_and_leave_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("db");
    for _ in 0..2 {
        // By the second round most records are in stores.
        let database = Database::builder(&db).open().unwrap();
        database.put("key", "value").unwrap();
        database.compact().unwrap();
        database.put("other", "value").unwrap();
        database.close().unwrap();
        fs::remove_file(db.join("LOCK")).unwrap();
        let before = files(&db);
        for command in READING {
            let output = on(&db, command);
            assert_eq!(
                output.status.code(),
                Some(0),
                "{command:?}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            assert!(files(&db) == before, "{command:?}");
        }
        assert_eq!(on(&db, &["get", "key"]).stdout, b"value");
    }
    let other = folder.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("letter.txt"), "dear").unwrap();
    for command in READING {
        assert_eq!(code_of(&other, command), 3, "{command:?}");
        assert_eq!(fs::read_dir(&other).unwrap().count(), 1, "{command:?}");
    }
}

#[test]
fn several_read_at_once_and_a_writer_is_named_to_those_it_keeps_out() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("db");
    let database = Database::builder(&db).open().unwrap();
    database.put("key", "value").unwrap();
    for command in READING {
        let output = on(&db, command);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{command:?}");
        assert!(said.contains(&format!("process {}", std::process::id())), "{command:?}: {said}");
    }
    database.close().unwrap();
    let reader = Database::open_read_only(&db).unwrap();
    for command in READING {
        assert_eq!(code_of(&db, command), 0, "{command:?}");
    }
    assert_eq!(code_of(&db, &["put", "key", "other"]), 3);
    assert!(matches!(reader.put("key", "other"), Err(siltstone::Error::ReadOnly)));
    assert_eq!(reader.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    reader.close().unwrap();
    assert_eq!(code_of(&db, &["put", "key", "other"]), 0);
}

#[test]
fn a_first_write_that_is_refused_fixes_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("db");
    for refused in [
        &["put", "--fixed", "3,3", "a", "b"][..],
        &["put", "", "v"],
        &["put", "--partitions", "3", "a", "b"],
        &["put", "--block-bytes", "1000", "a", "b"],
    ] {
        assert!(code_of(&db, refused) > 1, "{refused:?}");
        assert!(!db.exists(), "{refused:?}");
    }
    let records = folder.path().join("records.jsonl");
    fs::write(&records, "{\"key\":\"a\",\"value\":\"b\"}\n").unwrap();
    let records = records.to_str().unwrap();
    assert_eq!(code_of(&db, &["import", "--fixed", "2,2", records]), 3);
    assert_eq!(code_of(&db, &["import", "--fixed", "1,1", records]), 0);
    assert_eq!(on(&db, &["get", "a"]).stdout, b"b");
}
