//! Commands on many keys at once.

use crate::runner::{bytes, code, ends_with, objects, ok, path, result, run, run_with};
use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use tempfile::{TempDir, tempdir};

/// A directory whose database has the keys `a` to `e`, with their numbers from 1 on as values.
fn letters() -> TempDir {
    let directory = tempdir().unwrap();
    let rows = "a,1\nb,2\nc,3\nd,4\ne,5\n";
    let output = run_with(directory.path(), rows, &["import", "--format", "csv"]);
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "siltstone: 5 records imported\n");
    directory
}

fn sorted(lines: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = lines.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn several_keys_are_looked_up_in_their_order_and_a_missing_one_is_exit_code_1() {
    let directory = letters();
    let here = directory.path();
    assert_eq!(ok(here, &["get", "c", "a"]), "c\t3\na\t1\n");
    let output = run(here, &["get", "c", "x", "a"]);
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(1), &b"c\t3\na\t1\n"[..]));
    fs::write(here.join("keys"), "e\n\\x62\n").unwrap();
    assert_eq!(ok(here, &["get", "--escaped", "--keys", "keys"]), "e\t5\nb\t2\n");
    assert_eq!(ok(here, &["get", "--quiet", "--escaped", "--keys", "keys"]), "");
    ends_with(1, here, &["get", "--quiet", "a", "x"]);
    ends_with(2, here, &["get", "--keys", "keys", "a"]);
    ends_with(2, here, &["get", "--output", "file", "a", "b"]);
}

#[test]
fn a_table_that_seems_to_begin_with_names_is_imported_with_a_note() {
    let directory = tempdir().unwrap();
    let import = |options: &[&str]| {
        let arguments = [&["import", "--format", "csv"], options].concat();
        let output = run_with(directory.path(), "Key,value\na,1\n", &arguments);
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let message = import(&[]);
    assert!(message.contains("--header") && message.contains("2 records imported"), "{message}");
    assert_eq!(import(&["--header"]), "siltstone: 1 record imported\n");
}

#[test]
fn records_that_are_looked_up_in_json_are_those_of_an_export() {
    let directory = letters();
    let here = directory.path();
    ok(here, &["put", "--expires-in", "1h", "a", "\u{fc}"]);
    ok(here, &["put", "--hex", "00ff", "fe"]);
    let mut exported = objects(here, &["export", "--format", "jsonl"]);
    exported.retain(|line| line["key"] == "a" || line["key_base64"] == "AP8=");
    exported.sort_by_key(|line| line["key"].is_string());
    fs::write(here.join("keys"), "\\x00\\xff\na\nx\n").unwrap();
    let output = run(here, &["get", "--json", "--escaped", "--keys", "keys"]);
    let lines = String::from_utf8(output.stdout).unwrap();
    let found: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((output.status.code(), &found), (Some(1), &exported));
    assert!(found[1]["expires_at_ms"].is_u64());
    assert_eq!(objects(here, &["get", "--json", "b"]), [json!({ "key": "b", "value": "2" })]);
    assert_eq!(
        objects(here, &["get", "--json", "--hex", "00ff"]),
        [json!({ "key_hex": "00ff", "value_hex": "fe" })]
    );
    assert_eq!((code(here, &["get", "--json", "x"]), code(here, &["get", "--json", "--quiet", "b"])), (1, 2));
    assert_eq!(code(here, &["get", "--json", "--output", "file", "b"]), 2);
    fs::write(here.join("rows.csv"), "a,1\nb,2\n").unwrap();
    ok(here, &["dict", "build", "d.dict", "rows.csv"]);
    let looked_up = objects(here, &["dict", "get", "d.dict", "--json", "b"]);
    assert_eq!(looked_up, [json!({ "key": "b", "value": "2" })]);
}

#[test]
fn keys_are_deleted_by_name_from_a_file_and_by_prefix() {
    let directory = letters();
    let here = directory.path();
    assert_eq!(result(here, &["delete", "a", "x"]), (1, "siltstone: 1 key deleted\n".into()));
    fs::write(here.join("keys"), "b\nc\n").unwrap();
    assert_eq!(result(here, &["delete", "--keys", "keys"]), (0, "siltstone: 2 keys deleted\n".into()));
    assert_eq!(sorted(&ok(here, &["list"])), ["d", "e"]);
    for key in ["user:1", "user:2", "users"] {
        ok(here, &["put", key, "x"]);
    }
    assert_eq!(result(here, &["delete", "--prefix", "user:"]), (0, "siltstone: 2 keys deleted\n".into()));
    assert_eq!(sorted(&ok(here, &["list"])), ["d", "e", "users"]);
    ends_with(2, here, &["delete", "--prefix", "u", "d"]);
    ends_with(2, here, &["delete"]);
    assert_eq!(result(here, &["delete", "d", "d"]), (0, "siltstone: 1 key deleted\n".into()));
    assert_eq!(result(here, &["delete", "d", "d"]), (1, "siltstone: 0 keys deleted\n".into()));
}

#[test]
fn all_keys_are_deleted_only_by_a_word_that_says_so() {
    let directory = letters();
    let here = directory.path();
    for arguments in
        [&["delete", "--prefix", ""][..], &["delete", "--prefix="], &["delete", "--hex", "--prefix", ""]]
    {
        let said = ends_with(2, here, arguments);
        assert!(said.contains("--all"), "{said}");
    }
    ends_with(2, here, &["delete", "--all", "--prefix", "a"]);
    assert_eq!(ok(here, &["list", "--count"]), "5\n");
    assert_eq!(result(here, &["delete", "--all"]), (0, "siltstone: 5 keys deleted\n".into()));
    assert_eq!(ok(here, &["list", "--count"]), "0\n");
}

#[test]
fn an_import_skips_what_exists_or_deletes_what_it_names() {
    let directory = letters();
    let here = directory.path();
    let rows = "key\tother\tvalue\na\tx\tnew\nz\tx\tnew\nz\tx\ttwice\n";
    fs::write(here.join("rows.tsv"), rows).unwrap();
    let import = ["import", "rows.tsv", "--key-column", "key", "--value-column", "value"];
    let skipping = result(here, &[&import[..], &["--skip-existing"]].concat());
    assert_eq!(skipping, (0, "siltstone: 1 record imported, 2 skipped\n".into()));
    assert_eq!(ok(here, &["get", "a", "z"]), "a\t1\nz\tnew\n");
    assert_eq!(result(here, &import), (0, "siltstone: 3 records imported\n".into()));
    assert_eq!(ok(here, &["get", "a", "z"]), "a\tnew\nz\ttwice\n");
    let gone = "{\"key\":\"a\"}\n{\"key\":\"b\",\"value\":\"7\"}\n{\"key\":\"x\"}\n{\"key\":\"a\"}\n";
    let output = run_with(here, gone, &["import", "--delete"]);
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "siltstone: 2 keys deleted, 2 not found\n");
    assert_eq!(sorted(&ok(here, &["list"])), ["c", "d", "e", "z"]);
    ends_with(2, here, &["import", "--delete", "--skip-existing", "rows.tsv"]);
    let bulk = run_with(here, "k,1\nl,2\nc,7\n", &["import", "--bulk", "--format", "csv"]);
    assert_eq!(String::from_utf8(bulk.stderr).unwrap(), "siltstone: 3 records imported\n");
    assert_eq!(ok(here, &["get", "c", "k", "z"]), "c\t7\nk\t1\nz\ttwice\n");
    ends_with(2, here, &["import", "--bulk", "--delete", "rows.tsv"]);
    let missing = path(here, "nowhere");
    ends_with(3, here, &["import", "--delete", "--db", &missing, "rows.tsv"]);
    assert!(!here.join("nowhere").exists(), "deleting creates no database");
    ends_with(3, here, &["import", "--db", &missing, "no-rows.tsv"]);
    fs::write(here.join("prose"), "no records\n").unwrap();
    ends_with(3, here, &["import", "--db", &missing, "prose"]);
    ends_with(3, here, &["import", "--db", &missing, "--key-column", "nope", "--format", "csv", "prose"]);
    assert!(!here.join("nowhere").exists(), "an input that is missing or has no records creates no database");
}

#[test]
fn compressed_inputs_are_read_as_they_are() {
    let directory = letters();
    let here = directory.path();
    let rows = "g,7\nh,8\n";
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(rows.as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    // Files that are joined are one file of both formats.
    fs::write(here.join("rows.csv.gz"), [&gzip[..], &gzip[..]].concat()).unwrap();
    fs::write(here.join("rows.csv.zst"), zstd::encode_all("i,9\n".as_bytes(), 3).unwrap()).unwrap();
    let (code, said) = result(here, &["import", "rows.csv.gz", "rows.csv.zst"]);
    assert_eq!((code, &said[..]), (0, "siltstone: 5 records imported\n"));
    assert_eq!(ok(here, &["get", "g", "h", "i"]), "g\t7\nh\t8\ni\t9\n");
    fs::write(here.join("torn.csv.gz"), &gzip[..gzip.len() - 4]).unwrap();
    let said = ends_with(3, here, &["import", "torn.csv.gz"]);
    assert!(said.contains("torn.csv.gz"), "{said}");
}

#[test]
fn a_part_of_the_records_is_exported_as_a_table_or_listed_as_json() {
    let directory = letters();
    let here = directory.path();
    ok(here, &["put", "user:1", "Ada, Lady"]);
    let csv = ["export", "--format", "csv", "--prefix", "user:"];
    assert_eq!(ok(here, &csv), "key,value,expires_at_ms\nuser:1,\"Ada, Lady\",\n");
    let (code, said) = result(here, &[&csv[..], &["--output", "users.csv"]].concat());
    assert_eq!((code, &said[..]), (0, "siltstone: 1 record exported\n"));
    let hex = ok(here, &["export", "--format", "tsv", "--hex", "--prefix", "61"]);
    assert_eq!(hex, "key\tvalue\texpires_at_ms\n61\t31\t\n");
    let listed = objects(here, &["list", "--prefix", "user:", "--values", "--json"]);
    assert_eq!(listed, [json!({ "key": "user:1", "value": "Ada, Lady" })]);
    assert_eq!(objects(here, &["list", "--prefix", "user:", "--json"]), [json!({ "key": "user:1" })]);
    assert_eq!(objects(here, &["list", "--count", "--json"]), [json!({ "keys": 6 })]);
}

#[test]
fn shells_and_man_know_every_command() {
    let directory = tempdir().unwrap();
    let here = directory.path();
    for shell in ["bash", "zsh", "fish"] {
        assert!(ok(here, &["completions", shell]).contains("skip-existing"), "{shell}");
    }
    assert!(bytes(here, &["man", "pages"]).is_empty());
    for page in ["siltstone.1", "siltstone-import.1", "siltstone-bench-db.1"] {
        assert!(fs::read_to_string(here.join("pages").join(page)).unwrap().contains("SYNOPSIS"), "{page}");
    }
    ends_with(2, here, &["completions", "cmd"]);
}
