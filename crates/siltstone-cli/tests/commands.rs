//! The command line: output, streams and exit codes of each command.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

struct Bench {
    directory: TempDir,
}

impl Bench {
    fn new() -> Bench {
        Bench { directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_owned()
    }

    /// Runs `siltstone` with `input` as standard input, on the database `db`.
    fn run_with(&self, input: &[u8], args: &[&str]) -> Output {
        let mut child = Command::new(env!("CARGO_BIN_EXE_siltstone"))
            .args(args)
            .env("SILTSTONE_DB", self.path("db"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that does not read its input may have ended.
        let _ = child.stdin.take().unwrap().write_all(input);
        child.wait_with_output().unwrap()
    }

    fn run(&self, args: &[&str]) -> Output {
        self.run_with(b"", args)
    }

    /// Runs a command that must succeed, and returns its output.
    fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn code(&self, args: &[&str]) -> i32 {
        self.run(args).status.code().unwrap()
    }

    /// Runs a command that must fail with exit code 3, and returns its message.
    fn fails(&self, args: &[&str]) -> String {
        self.ends_with(3, args)
    }

    fn ends_with(&self, code: i32, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?}: errors go to standard error");
        String::from_utf8(output.stderr).unwrap()
    }
}

#[test]
fn exit_codes_distinguish_found_and_missing() {
    let bench = Bench::new();
    assert_eq!(bench.code(&["put", "key", "value"]), 0);
    assert_eq!(bench.ok(&["get", "key"]), "value");
    assert_eq!(bench.code(&["get", "other"]), 1);
    assert_eq!(bench.code(&["get", "--quiet", "key"]), 0);
    assert_eq!(bench.code(&["put", "--if-absent", "key", "other"]), 1);
    assert_eq!(bench.code(&["put", "--if-absent", "new", "other"]), 0);
    assert_eq!(bench.code(&["delete", "key"]), 0);
    assert_eq!(bench.code(&["delete", "key"]), 1);
    assert_eq!(bench.code(&["get"]), 2);
    assert_eq!(bench.code(&["put", "--fixed", "20", "key", "value"]), 2);
    assert_eq!(bench.ok(&["list", "--values"]), "new\tother\n");
}

#[test]
fn keys_and_values_come_from_arguments_files_and_standard_input() {
    let bench = Bench::new();
    let file = bench.path("file");
    std::fs::write(&file, b"\x00from a file\n").unwrap();
    bench.ok(&["put", "a", "--value-file", &file]);
    bench.ok(&["put", &format!("@{file}"), "b"]);
    bench.ok(&["put", "@@c", "at"]);
    bench.ok(&["put", "--hex", "00ff", "6869"]);
    bench.ok(&["put", "--", "-dash", "-1"]);
    assert!(bench.run_with(b"typed", &["put", "d", "-"]).status.success());
    assert_eq!(bench.ok(&["get", "d"]), "typed");
    assert_eq!(bench.ok(&["get", "--hex", "61"]), "0066726f6d20612066696c650a\n");
    assert_eq!(bench.ok(&["get", "--escaped", "\\x00\\xff"]), "hi\n");
    assert_eq!(bench.ok(&["get", "--escaped", "\\x00from a file\\n"]), "b\n");
    let written = bench.path("written");
    bench.ok(&["get", "--output", &written, "a"]);
    assert_eq!(std::fs::read(&written).unwrap(), std::fs::read(&file).unwrap());
    let mut listed: Vec<String> = bench.ok(&["list"]).lines().map(str::to_owned).collect();
    listed.sort();
    assert_eq!(listed, ["-dash", "@c", "\\x00\\xff", "\\x00from a file\\n", "a", "d"]);
    assert_eq!(bench.ok(&["list", "--count", "--prefix", "a"]), "1\n");
}

#[test]
fn a_list_continues_at_the_cursor_of_the_page_before() {
    let bench = Bench::new();
    let keys: Vec<String> = (0..7).map(|number| format!("key {number}")).collect();
    keys.iter().for_each(|key| drop(bench.ok(&["put", key, "value"])));
    let (mut listed, mut cursor) = (Vec::new(), Some("0".to_owned()));
    while let Some(from) = cursor {
        let page = bench.run(&["list", "--limit", "3", "--cursor", &from]);
        assert!(page.status.success());
        listed.extend(String::from_utf8(page.stdout).unwrap().lines().map(str::to_owned));
        let message = String::from_utf8(page.stderr).unwrap();
        cursor = message.trim_end().strip_prefix("siltstone: next cursor: ").map(str::to_owned);
        assert_eq!(cursor.is_some(), !message.is_empty(), "{message}");
    }
    listed.sort();
    assert_eq!(listed, keys);
    assert_eq!(bench.code(&["list", "--cursor", "0"]), 2, "it needs --limit");
}

#[test]
fn records_expire() {
    let bench = Bench::new();
    bench.ok(&["put", "--expires-in", "0s", "gone", "value"]);
    bench.ok(&["put", "--expires-in", "90d", "there", "value"]);
    assert_eq!(bench.code(&["get", "gone"]), 1);
    assert_eq!(bench.ok(&["list"]), "there\n");
}

#[test]
fn exports_are_imported_elsewhere() {
    let bench = Bench::new();
    for number in 0..50 {
        let key = format!("{number:08x}");
        bench.ok(&["put", "--hex", "--fixed", "4,2", &key, "00ff"]);
    }
    let all = bench.ok(&["list", "--values", "--hex"]);
    assert_eq!(all.lines().count(), 50);
    for (format, other) in [("binary", "1"), ("jsonl", "2")] {
        let file = bench.path(&format!("{format}.export"));
        bench.ok(&["export", "--format", format, "--output", &file]);
        let other = bench.path(other);
        bench.ok(&["import", "--db", &other, "--fixed", "4,2", "--partitions", "2", &file]);
        let mut imported: Vec<_> =
            bench.ok(&["list", "--db", &other, "--values", "--hex"]).lines().map(str::to_owned).collect();
        imported.sort();
        let mut expected: Vec<_> = all.lines().map(str::to_owned).collect();
        expected.sort();
        assert_eq!(imported, expected);
    }
    let file = bench.path("binary.export");
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() - 1]).unwrap();
    let told = bench.fails(&["import", "--db", &bench.path("3"), &file]);
    assert!(told.contains("cut short") && told.contains(&file) && told.contains("50 records"), "{told}");
    assert!(bench.fails(&["import", "--db", &bench.path("4"), "/no/such/file"]).contains("/no/such/file"));
}

#[test]
fn output_can_be_read_by_programs() {
    let bench = Bench::new();
    bench.ok(&["put", "key", "value"]);
    let parse = |text: String| serde_json::from_str::<serde_json::Value>(&text).unwrap();
    let stats = parse(bench.ok(&["stats", "--json"]));
    assert_eq!((&stats["engine"], &stats["records"]), (&"silt".into(), &1.into()));
    assert!(stats["ram_account"].is_object());
    assert!(bench.ok(&["stats"]).contains("records"));
    bench.ok(&["compact"]);
    let verified = parse(bench.ok(&["verify", "--json"]));
    assert!(verified["checked_records"].as_u64() >= Some(1));
    assert_eq!(verified["damage"], serde_json::json!([]));
    bench.ok(&["checkpoint", &bench.path("copy")]);
    assert_eq!(bench.ok(&["get", "--db", &bench.path("copy"), "key"]), "value");
    assert!(bench.fails(&["checkpoint", &bench.path("copy")]).contains("copy"));
    let lines = bench.ok(&["bench", "db", "--json", "--num", "2000", "--fixed", "--partitions", "2"]);
    let names: Vec<_> = lines.lines().map(|line| parse(line.to_owned())["benchmark"].clone()).collect();
    assert_eq!(names, ["fillrandom", "compact", "readrandom", "readmissing", "overwrite", "stats"]);
    assert!(bench.ok(&["bench", "db", "--num", "500", "--histogram"]).contains("micros/op"));
}

#[test]
fn damage_is_reported_with_exit_code_1() {
    let bench = Bench::new();
    let lines: String =
        (0..500).map(|number| format!("{{\"key\":\"{number}\",\"value\":\"{number}\"}}\n")).collect();
    assert!(bench.run_with(lines.as_bytes(), &["import"]).status.success());
    bench.ok(&["compact"]);
    let stores = std::fs::read_dir(bench.path("db")).unwrap().map(|entry| entry.unwrap().path());
    let store =
        stores.filter(|path| path.extension().is_some_and(|extension| extension == "sorted")).min().unwrap();
    let mut bytes = std::fs::read(&store).unwrap();
    bytes[4200] ^= 1;
    std::fs::write(&store, bytes).unwrap();
    let output = bench.run(&["verify"]);
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains(store.to_str().unwrap()) && told.contains("lost"), "{told}");
    let directory = bench.path("db");
    let output = bench.run(&["verify", "--json", &directory]);
    assert_eq!(output.status.code(), Some(1));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let damage = &found["damage"][0];
    assert_eq!((&damage["part"], &damage["offset"]), (&"blocks".into(), &4096.into()));
    assert_eq!(found["lost"].as_array().unwrap().len(), 1);
    let output = bench.run(&["repair", "--json", &directory]);
    assert_eq!(output.status.code(), Some(1), "something is lost: {output:?}");
    let repaired: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(repaired["set_aside"].as_str().unwrap().ends_with("damaged-0001"));
    assert_eq!(repaired["lost"], found["lost"]);
    assert!(bench.ok(&["repair", &directory]).contains("nothing was changed"));
    assert_eq!(bench.code(&["verify"]), 0);
    std::fs::remove_file(bench.path("db/MANIFEST")).unwrap();
    assert!(bench.fails(&["list"]).contains("siltstone repair"));
    assert!(bench.ok(&["repair"]).contains("no record is lost"));
    bench.ok(&["list"]);
    assert!(bench.fails(&["repair", &bench.path("none")]).contains("no database here"));
}

#[test]
fn errors_name_the_cause_and_the_remedy() {
    let bench = Bench::new();
    let told = bench.fails(&["get", "key"]);
    assert!(told.contains(&bench.path("db")) && told.contains("--db"), "{told}");
    bench.ok(&["put", "--fixed", "3,5", "key", "value"]);
    let told = bench.fails(&["put", "key", "longer value"]);
    assert!(told.contains("12 bytes") && told.contains("--fixed"), "{told}");
    assert!(bench.fails(&["put", "--expires-in", "1d", "key", "value"]).contains("--expiring"));
    assert!(bench.ends_with(2, &["put", "--partitions", "3", "key", "value"]).contains("power of two"));
    assert!(bench.fails(&["get", ""]).contains("1 to 65,535 bytes"));
    assert!(bench.ends_with(2, &["get", "--hex", "xyz"]).contains("hex"));
    std::fs::write(bench.path("file"), b"").unwrap();
    assert!(bench.fails(&["put", "--db", &bench.path("file"), "key", "value"]).contains(&bench.path("file")));
    std::fs::create_dir(bench.path("letters")).unwrap();
    std::fs::write(bench.path("letters/letter"), b"").unwrap();
    assert!(bench.fails(&["put", "--db", &bench.path("letters"), "key", "value"]).contains("letter"));
}

#[test]
fn a_closed_output_pipe_is_not_an_error() {
    let bench = Bench::new();
    let lines: String =
        (0..20_000).map(|number| format!("{{\"key\":\"{number:0>60}\",\"value\":\"\"}}\n")).collect();
    assert!(bench.run_with(lines.as_bytes(), &["import"]).status.success());
    let mut child = Command::new(env!("CARGO_BIN_EXE_siltstone"))
        .args(["list", "--db", &bench.path("db")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn a_database_in_use_is_named() {
    let bench = Bench::new();
    let path = bench.path("db");
    let _database = siltstone::Database::builder(Path::new(&path)).open().unwrap();
    assert!(bench.fails(&["stats"]).contains(&path));
}

/// The settings of the database, as `siltstone stats` prints them.
fn settings(bench: &Bench) -> serde_json::Value {
    let stats: serde_json::Value = serde_json::from_str(&bench.ok(&["stats", "--json"])).unwrap();
    stats["settings"].clone()
}

#[test]
fn every_command_keeps_the_settings_of_the_database_and_can_set_others() {
    let bench = Bench::new();
    let created = ["put", "--fixed", "8,4", "--partitions", "1", "key-0000", "0000"];
    bench.ok(&[&created[..], &["--set", "index=slot-perfect", "--set", "filter_last_store=9"]].concat());
    let lines: String = (1..900)
        .map(|number| format!("{{\"key\":\"key-{number:04}\",\"value\":\"{number:04}\"}}\n"))
        .collect();
    assert!(bench.run_with(lines.as_bytes(), &["import"]).status.success());
    bench.ok(&["compact"]);
    let stores = || {
        let stats: serde_json::Value = serde_json::from_str(&bench.ok(&["stats", "--json"])).unwrap();
        stats["stores"].to_string()
    };
    assert!(stores().contains("slot_perfect") && stores().contains("ribbon"), "{}", stores());
    let text = bench.ok(&["stats"]);
    assert!(text.contains("setting index") && !text.contains("setting merge_ratio"), "{text}");
    bench.ok(&["compact", "--set", "index=fences", "--set", "filter_last_store=0", "--set", "merge_ratio=2"]);
    bench.ok(&["put", "key-0001", "more"]);
    bench.ok(&["compact"]);
    assert!(stores().contains("fences") && !stores().contains("slot_perfect"), "{}", stores());
    assert_eq!(settings(&bench)["merge_ratio"], "2");
    // A read-only command has them for itself.
    bench.ok(&["get", "--set", "merge_ratio=3", "key-0001"]);
    assert_eq!(settings(&bench)["merge_ratio"], "2");
    for wrong in ["merge_ratio", "merge_ratio=much", "merge_ratio=100", "eviction=lru"] {
        let told = bench.ends_with(2, &["put", "--set", wrong, "key", "value"]);
        assert!(told.contains("--set") || told.contains("silt") || told.contains("out of range"), "{told}");
    }
}

#[test]
fn the_engines_are_listed_with_every_setting() {
    let bench = Bench::new();
    let text = bench.ok(&["engines"]);
    let lines = bench.ok(&["engines", "--json"]);
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
