//! The command line on a database that a server has created, whose values have types.

use crate::runner::{bytes, ends_with, objects, ok, run_with};
use crate::server_process::Process;

/// Makes the database `db` of a directory, with two strings and two hashes.
fn served() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Process::start(&directory.path().join("served"), &[]);
    let mut client = server.client();
    for request in ["SET name Ada", "SET empty {}", "HSET hash city Lima name Ada", "HSET other \\ a"] {
        client.ask(request);
    }
    server.stop();
    std::fs::rename(directory.path().join("served/0"), directory.path().join("db")).unwrap();
    directory
}

#[test]
fn values_are_shown_without_their_types_and_hashes_as_json() {
    let directory = served();
    let path = directory.path();
    assert_eq!(bytes(path, &["get", "name"]), b"Ada");
    assert_eq!(ok(path, &["get", "hash"]), r#"{"city":"Lima","name":"Ada"}"#);
    assert_eq!(ok(path, &["get", "other"]), r#"{"\\\\":"a"}"#);
    assert_eq!(ok(path, &["get", "name", "hash"]), "name\tAda\nhash\t{\"city\":\"Lima\",\"name\":\"Ada\"}\n");
    let found = &objects(path, &["get", "--json", "name"])[0];
    assert_eq!((found["key"].as_str(), found["value"].as_str()), (Some("name"), Some("Ada")));
    assert!(ok(path, &["list", "--values"]).lines().any(|line| line == "name\tAda"));
    assert_eq!(ok(path, &["list"]).lines().count(), 4);
    let exported = objects(path, &["export", "--format", "jsonl"]);
    let value = |key: &str| exported.iter().find(|record| record["key"] == key).unwrap()["value"].clone();
    assert_eq!((value("name"), value("empty")), ("Ada".into(), "{}".into()));
    assert_eq!(value("hash"), r#"{"city":"Lima","name":"Ada"}"#);
    assert!(ok(path, &["stats"]).contains("typed"));
    assert_eq!(objects(path, &["stats", "--json"])[0]["typed_values"], true);
}

#[test]
fn values_that_are_put_and_imported_are_strings_for_the_server() {
    let directory = served();
    let path = directory.path();
    ok(path, &["put", "name", "Grace"]);
    ok(path, &["put", "--if-absent", "new", "value"]);
    let lines = "{\"key\":\"imported\",\"value\":\"one\"}\n";
    for options in [&[][..], &["--skip-existing"], &["--bulk"]] {
        let output = run_with(path, lines, &[&["import", "--format", "jsonl"], options].concat());
        assert!(output.status.success(), "{options:?}");
        assert_eq!(ok(path, &["get", "imported"]), "one", "{options:?}");
    }
    std::fs::create_dir(path.join("served2")).unwrap();
    std::fs::rename(path.join("db"), path.join("served2/0")).unwrap();
    let mut server = Process::start(&path.join("served2"), &[]);
    let mut client = server.client();
    for (key, value) in [("name", "Grace"), ("new", "value"), ("imported", "one")] {
        assert_eq!(client.ask(&format!("GET {key}")), value);
    }
    assert_eq!(client.ask("HGET hash city"), "Lima");
    server.stop();
}

#[test]
fn a_newer_form_of_values_is_an_error_that_names_its_file() {
    let directory = served();
    let path = directory.path();
    std::fs::write(path.join("db/VALUES"), "typed 2\n").unwrap();
    for args in [&["get", "name"][..], &["put", "name", "Grace"], &["list", "--values"], &["stats"]] {
        assert!(ends_with(2, path, args).contains("VALUES has `typed 2`"), "{args:?}");
    }
}
