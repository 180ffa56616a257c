//! The command line: output, streams and exit codes of each command.

use crate::runner::{code, command, ends_with, fails, ok, path, run, run_with};
use std::path::Path;

#[test]
fn exit_codes_distinguish_found_and_missing() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    assert_eq!(code(here, &["put", "key", "value"]), 0);
    assert_eq!(ok(here, &["get", "key"]), "value");
    assert_eq!(code(here, &["get", "other"]), 1);
    assert_eq!(code(here, &["get", "--quiet", "key"]), 0);
    assert_eq!(code(here, &["put", "--if-absent", "key", "other"]), 1);
    assert_eq!(code(here, &["put", "--if-absent", "new", "other"]), 0);
    assert_eq!(code(here, &["delete", "key"]), 0);
    assert_eq!(code(here, &["delete", "key"]), 1);
    assert_eq!(code(here, &["get"]), 2);
    assert_eq!(code(here, &["put", "--fixed", "20", "key", "value"]), 2);
    assert_eq!(ok(here, &["list", "--values"]), "new\tother\n");
}

#[test]
fn keys_and_values_come_from_arguments_files_and_standard_input() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let file = path(here, "file");
    std::fs::write(&file, b"\x00from a file\n").unwrap();
    ok(here, &["put", "a", "--value-file", &file]);
    ok(here, &["put", &format!("@{file}"), "b"]);
    ok(here, &["put", "@@c", "at"]);
    ok(here, &["put", "--hex", "00ff", "6869"]);
    ok(here, &["put", "--", "-dash", "-1"]);
    assert!(run_with(here, b"typed", &["put", "d", "-"]).status.success());
    assert_eq!(ok(here, &["get", "d"]), "typed");
    assert_eq!(ok(here, &["get", "--hex", "61"]), "0066726f6d20612066696c650a\n");
    assert_eq!(ok(here, &["get", "--escaped", "\\x00\\xff"]), "hi\n");
    assert_eq!(ok(here, &["get", "--escaped", "\\x00from a file\\n"]), "b\n");
    let written = path(here, "written");
    ok(here, &["get", "--output", &written, "a"]);
    assert_eq!(std::fs::read(&written).unwrap(), std::fs::read(&file).unwrap());
    let mut listed: Vec<String> = ok(here, &["list"]).lines().map(str::to_owned).collect();
    listed.sort();
    assert_eq!(listed, ["-dash", "@c", "\\x00\\xff", "\\x00from a file\\n", "a", "d"]);
    assert_eq!(ok(here, &["list", "--count", "--prefix", "a"]), "1\n");
}

#[test]
fn a_database_with_ordered_keys_lists_ranges() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let create = ["put", "b2", "two", "--engine", "flashkey", "--set", "ordered=true"];
    ok(here, &create);
    for key in ["c", "b1", "a", "b3"] {
        ok(here, &["put", key, "other"]);
    }
    ok(here, &["delete", "b3"]);
    assert_eq!(ok(here, &["list"]), "a\nb1\nb2\nc\n");
    assert_eq!(ok(here, &["list", "--from", "b", "--to", "c", "--values"]), "b1\tother\nb2\ttwo\n");
    assert_eq!(ok(here, &["list", "--reverse", "--limit", "2"]), "c\nb2\n");
    assert_eq!(ok(here, &["list", "--prefix", "b", "--reverse", "--values"]), "b2\ttwo\nb1\tother\n");
    assert_eq!(ok(here, &["list", "--prefix", "b", "--count"]), "2\n");
    assert_eq!(code(here, &["list", "--prefix", "b", "--from", "b"]), 2);
    ok(here, &["put", "d", "soon gone", "--expires-in", "1h"]);
    let lines = ok(here, &["list", "--json"]);
    assert!(lines.starts_with("{\"key\":\"a\"}\n") && !lines.contains("soon gone"), "{lines}");
    assert!(lines.lines().last().unwrap().starts_with("{\"key\":\"d\",\"expires_at_ms\":"), "{lines}");
    ok(here, &["delete", "d"]);
    ok(here, &["put", "key", "value", "--db", "silt"]);
    for flags in [&["--from", "a"][..], &["--to", "a"], &["--reverse"]] {
        let message = ends_with(2, here, &[&["list", "--db", "silt"][..], flags].concat());
        assert!(message.contains("engine silt") && message.contains("--set ordered=true"), "{message}");
    }
}

#[test]
fn a_list_continues_at_the_cursor_of_the_page_before() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let keys: Vec<String> = (0..7).map(|number| format!("key {number}")).collect();
    keys.iter().for_each(|key| drop(ok(here, &["put", key, "value"])));
    let (mut listed, mut cursor) = (Vec::new(), Some("0".to_owned()));
    while let Some(from) = cursor {
        let page = run(here, &["list", "--limit", "3", "--cursor", &from]);
        assert!(page.status.success());
        listed.extend(String::from_utf8(page.stdout).unwrap().lines().map(str::to_owned));
        let message = String::from_utf8(page.stderr).unwrap();
        cursor = message.trim_end().strip_prefix("siltstone: next cursor: ").map(str::to_owned);
        assert_eq!(cursor.is_some(), !message.is_empty(), "{message}");
    }
    listed.sort();
    assert_eq!(listed, keys);
    assert_eq!(code(here, &["list", "--cursor", "0"]), 2, "it needs --limit");
}

#[test]
fn changes_are_the_keys_since_the_position_that_the_call_before_wrote() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    ok(here, &["put", "before", "1"]);
    let message = ends_with(2, here, &["changes"]);
    assert!(message.contains("no change feed") && message.contains("change_feed"), "{message}");
    ok(here, &["put", "before", "2", "--set", "change_feed=1MiB"]);
    let first = ok(here, &["changes"]);
    assert_eq!(ok(here, &["changes", "--next", "position"]), "");
    assert_eq!(std::fs::read_to_string(here.join("position")).unwrap(), first);
    ok(here, &["put", "a\tb", "1", "--escaped"]);
    ok(here, &["delete", "before"]);
    let since = |position: &str, more: &[&str]| {
        run(here, &[&["changes", "--since", position.trim_end()][..], more].concat())
    };
    let changes = since(&first, &["--next", "position"]);
    assert_eq!(String::from_utf8(changes.stdout).unwrap(), "a\\tb\nbefore\n");
    let second = std::fs::read_to_string(here.join("position")).unwrap();
    let none = since(&second, &["--json"]);
    assert_eq!((none.stdout.len(), none.status.success()), (0, true));
    let one = since(&first, &["--limit", "1", "--hex"]);
    assert_eq!(String::from_utf8(one.stdout).unwrap(), "610962\n");
    let message = String::from_utf8(one.stderr).unwrap();
    let next = message.strip_prefix("siltstone: next position: ").unwrap();
    assert_eq!(String::from_utf8(since(next, &["--json"]).stdout).unwrap(), "{\"key\":\"before\"}\n");
    assert_eq!(code(here, &["changes", "--since", "latest"]), 2);
    ok(here, &["put", "a", "1", "--set", "change_feed=0"]);
    ok(here, &["put", "a", "1", "--set", "change_feed=1MiB"]);
    let lost = String::from_utf8(since(&first, &[]).stderr).unwrap();
    assert!(lost.contains("another feed") && lost.contains("read all records"), "{lost}");
}

#[test]
fn records_expire() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    ok(here, &["put", "--expires-in", "0s", "gone", "value"]);
    ok(here, &["put", "--expires-in", "90d", "there", "value"]);
    assert_eq!(code(here, &["get", "gone"]), 1);
    assert_eq!(ok(here, &["list"]), "there\n");
}

#[test]
fn exports_are_imported_elsewhere() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    for number in 0..50 {
        let key = format!("{number:08x}");
        ok(here, &["put", "--hex", "--fixed", "4,2", &key, "00ff"]);
    }
    let all = ok(here, &["list", "--values", "--hex"]);
    assert_eq!(all.lines().count(), 50);
    for (format, other) in [("binary", "1"), ("jsonl", "2")] {
        let file = path(here, &format!("{format}.export"));
        ok(here, &["export", "--format", format, "--output", &file]);
        let other = path(here, other);
        ok(here, &["import", "--db", &other, "--fixed", "4,2", "--partitions", "2", &file]);
        let mut imported: Vec<_> =
            ok(here, &["list", "--db", &other, "--values", "--hex"]).lines().map(str::to_owned).collect();
        imported.sort();
        let mut expected: Vec<_> = all.lines().map(str::to_owned).collect();
        expected.sort();
        assert_eq!(imported, expected);
    }
    let file = path(here, "binary.export");
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() - 1]).unwrap();
    let message = fails(here, &["import", "--db", &path(here, "3"), &file]);
    assert!(
        message.contains("cut short") && message.contains(&file) && message.contains("50 records"),
        "{message}"
    );
    assert!(fails(here, &["import", "--db", &path(here, "4"), "/no/such/file"]).contains("/no/such/file"));
}

#[test]
fn output_can_be_read_by_programs() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    ok(here, &["put", "key", "value"]);
    let parse = |text: String| serde_json::from_str::<serde_json::Value>(&text).unwrap();
    let stats = parse(ok(here, &["stats", "--json"]));
    assert_eq!((&stats["engine"], &stats["records"]), (&"silt".into(), &1.into()));
    assert!(stats["ram_account"].is_object());
    assert!(ok(here, &["stats"]).contains("records"));
    ok(here, &["compact"]);
    let verified = parse(ok(here, &["verify", "--json"]));
    assert_eq!(verified["live_records"], 1);
    assert_eq!(verified["damage"], serde_json::json!([]));
    ok(here, &["put", "key", "value"]);
    ok(here, &["put", "deleted", "value"]);
    ok(here, &["delete", "deleted"]);
    let verified = ok(here, &["verify"]);
    assert!(verified.starts_with("1 live record, "), "{verified}");
    ok(here, &["compact"]);
    // What the Python package keeps with a database is copied, other files are not.
    std::fs::write(here.join("db/CODECS"), "codecs").unwrap();
    std::fs::write(here.join("db/notes.txt"), "mine").unwrap();
    ok(here, &["checkpoint", &path(here, "copy")]);
    assert_eq!(std::fs::read(here.join("copy/CODECS")).unwrap(), b"codecs");
    assert!(!here.join("copy/notes.txt").exists());
    assert_eq!(ok(here, &["get", "--db", &path(here, "copy"), "key"]), "value");
    assert!(fails(here, &["checkpoint", &path(here, "copy")]).contains("copy"));
    let lines = ok(here, &["bench", "db", "--json", "--num", "2000", "--fixed", "--partitions", "2"]);
    let names: Vec<_> = lines.lines().map(|line| parse(line.to_owned())["benchmark"].clone()).collect();
    assert_eq!(names, ["fillrandom", "compact", "readrandom", "readmissing", "overwrite", "stats"]);
    assert!(ok(here, &["bench", "db", "--num", "500", "--histogram"]).contains("micros/op"));
}

#[test]
fn damage_is_reported_with_exit_code_1() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let lines: String =
        (0..500).map(|number| format!("{{\"key\":\"{number}\",\"value\":\"{number}\"}}\n")).collect();
    assert!(run_with(here, lines.as_bytes(), &["import"]).status.success());
    ok(here, &["compact"]);
    let stores = std::fs::read_dir(path(here, "db")).unwrap().map(|entry| entry.unwrap().path());
    let store =
        stores.filter(|path| path.extension().is_some_and(|extension| extension == "sorted")).min().unwrap();
    let mut bytes = std::fs::read(&store).unwrap();
    bytes[4200] ^= 1;
    std::fs::write(&store, bytes).unwrap();
    let output = run(here, &["verify"]);
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains(store.to_str().unwrap()) && message.contains("lost"), "{message}");
    let directory = path(here, "db");
    let output = run(here, &["verify", "--json", &directory]);
    assert_eq!(output.status.code(), Some(1));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let damage = &found["damage"][0];
    assert_eq!((&damage["part"], &damage["offset"]), (&"blocks".into(), &4096.into()));
    assert_eq!(found["lost"].as_array().unwrap().len(), 1);
    let output = run(here, &["repair", "--json", &directory]);
    assert_eq!(output.status.code(), Some(1), "something is lost: {output:?}");
    let repaired: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(repaired["set_aside"].as_str().unwrap().ends_with("damaged-0001"));
    assert_eq!(repaired["lost"], found["lost"]);
    assert!(ok(here, &["repair", &directory]).contains("nothing was changed"));
    assert_eq!(code(here, &["verify"]), 0);
    std::fs::remove_file(path(here, "db/MANIFEST")).unwrap();
    assert!(fails(here, &["list"]).contains("siltstone repair"));
    assert!(ok(here, &["repair"]).contains("no record is lost"));
    ok(here, &["list"]);
    assert!(fails(here, &["repair", &path(here, "none")]).contains("no database here"));
}

#[test]
fn errors_name_the_cause_and_the_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let message = fails(here, &["get", "key"]);
    assert!(message.contains(&path(here, "db")) && message.contains("--db"), "{message}");
    ok(here, &["put", "--fixed", "3,5", "key", "value"]);
    let message = fails(here, &["put", "key", "longer value"]);
    assert!(message.contains("12 bytes") && message.contains("--fixed"), "{message}");
    assert!(fails(here, &["put", "--expires-in", "1d", "key", "value"]).contains("--expiring"));
    assert!(ends_with(2, here, &["put", "--partitions", "3", "key", "value"]).contains("power of two"));
    assert!(fails(here, &["get", ""]).contains("1 to 65,535 bytes"));
    assert!(ends_with(2, here, &["get", "--hex", "xyz"]).contains("hex"));
    std::fs::write(path(here, "file"), b"").unwrap();
    assert!(
        ends_with(2, here, &["put", "--db", &path(here, "file"), "key", "value"])
            .contains(&path(here, "file"))
    );
    std::fs::create_dir(path(here, "letters")).unwrap();
    std::fs::write(path(here, "letters/letter"), b"").unwrap();
    assert!(fails(here, &["put", "--db", &path(here, "letters"), "key", "value"]).contains("letter"));
}

#[test]
fn a_closed_output_pipe_is_not_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let lines: String =
        (0..20_000).map(|number| format!("{{\"key\":\"{number:0>60}\",\"value\":\"\"}}\n")).collect();
    assert!(run_with(here, lines.as_bytes(), &["import"]).status.success());
    let mut child = command(here, &["list"]).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn a_database_in_use_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let path = path(here, "db");
    let _database = siltstone::Database::builder(Path::new(&path)).open().unwrap();
    assert!(fails(here, &["stats"]).contains(&path));
}

/// The settings of the database, as `siltstone stats` prints them.
fn settings(here: &Path) -> serde_json::Value {
    let stats: serde_json::Value = serde_json::from_str(&ok(here, &["stats", "--json"])).unwrap();
    stats["settings"].clone()
}

#[test]
fn every_command_keeps_the_settings_of_the_database_and_can_set_others() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let created = ["put", "--fixed", "8,4", "--partitions", "1", "key-0000", "0000"];
    ok(here, &[&created[..], &["--set", "index=slot-perfect", "--set", "filter_last_store=9"]].concat());
    let lines: String = (1..900)
        .map(|number| format!("{{\"key\":\"key-{number:04}\",\"value\":\"{number:04}\"}}\n"))
        .collect();
    assert!(run_with(here, lines.as_bytes(), &["import"]).status.success());
    ok(here, &["compact"]);
    let stores = || {
        let stats: serde_json::Value = serde_json::from_str(&ok(here, &["stats", "--json"])).unwrap();
        stats["stores"].to_string()
    };
    assert!(stores().contains("slot_perfect") && stores().contains("ribbon"), "{}", stores());
    let text = ok(here, &["stats"]);
    assert!(text.contains("setting index") && !text.contains("setting merge_ratio"), "{text}");
    ok(here, &["compact", "--set", "index=fences", "--set", "filter_last_store=0", "--set", "merge_ratio=2"]);
    ok(here, &["put", "key-0001", "more"]);
    ok(here, &["compact"]);
    assert!(stores().contains("fences") && !stores().contains("slot_perfect"), "{}", stores());
    assert_eq!(settings(here)["merge_ratio"], "2");
    // A read-only command has them for itself.
    ok(here, &["get", "--set", "merge_ratio=3", "key-0001"]);
    assert_eq!(settings(here)["merge_ratio"], "2");
    for wrong in ["merge_ratio", "merge_ratio=much", "merge_ratio=100", "eviction=lru"] {
        let message = ends_with(2, here, &["put", "--set", wrong, "key", "value"]);
        assert!(
            message.contains("--set") || message.contains("silt") || message.contains("out of range"),
            "{message}"
        );
    }
}

#[test]
fn the_engines_are_listed_with_every_setting() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let text = ok(here, &["engines"]);
    let lines = ok(here, &["engines", "--json"]);
    let mut settings = 0;
    for line in lines.lines() {
        let engine: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(text.contains(engine["summary"].as_str().unwrap()));
        for setting in engine["settings"].as_array().unwrap() {
            let [name, default] = ["name", "default"].map(|field| setting[field].as_str().unwrap());
            assert!(text.contains(&format!("  {name}={default}\n")), "{name}");
            settings += 1;
        }
    }
    assert!(lines.lines().count() >= 2 && settings >= 17);
    assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
}
