//! Command-line usage: options, numbers, exit codes, and error messages.

use crate::runner::{ok, result, run_with};
use serde_json::Value;
use std::fs;

#[test]
fn a_mistyped_option_is_not_a_key_or_a_value() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    for (args, unknown) in [
        (&["put", "--sync", "k"][..], "--sync"),
        (&["put", "k", "--hexx"], "--hexx"),
        (&["put", "k", "v", "--hexx"], "--hexx"),
        (&["put", "--hlep"], "--hlep"),
        (&["put", "-x", "v"], "-x"),
        (&["get", "--json"], "--json"),
        (&["get", "--hexx", "k"], "--hexx"),
        (&["delete", "--force"], "--force"),
        (&["list", "--prefix", "--values"], "--prefix"),
        (&["dict", "get", "a.dict", "--quite", "k"], "--quite"),
        (&["bench", "db", "--nums", "5"], "--nums"),
    ] {
        let (code, message) = result(here, args);
        assert!(code == 2 && message.contains(unknown), "{args:?}: {code}: {message}");
    }
    assert!(!here.join("db").exists(), "nothing was stored");
    let (_, message) = result(here, &["put", "--hlep"]);
    assert!(message.contains("--help"), "{message}");
    let (code, message) = result(here, &["--db", "X", "get", "k"]);
    assert!(code == 2 && message.contains("as in `siltstone get --db`"), "{message}");
    let (_, message) = result(here, &["get", "--bd", "X", "k"]);
    assert!(!message.contains("options follow the command"), "{message}");
    ok(here, &["put", "--", "--sync", "-1"]);
    assert_eq!(ok(here, &["get", "--", "--sync"]), "-1");
    assert_eq!(ok(here, &["list", "--prefix=--s"]), "--sync\n");
    ok(here, &["delete", "--", "--sync"]);
}

#[test]
fn options_have_hyphens_and_take_underscores() {
    let directory = tempfile::tempdir().unwrap();
    for (key_size, value_size) in [("--key-size", "--value-size"), ("--key_size", "--value_size")] {
        let sizes = [key_size, "10", value_size, "7", "--benchmarks", "fillrandom", "--num", "100", "--json"];
        let line = ok(directory.path(), &[&["bench", "db"], &sizes[..]].concat());
        let report: Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&report["key_size"], &report["value_size"]), (&10.into(), &7.into()));
    }
    ok(directory.path(), &["put", "--if_absent", "k", "v"]);
    for command in [&["bench", "db"][..], &["bench", "ycsb"], &["serve", "mica"]] {
        let help = ok(directory.path(), &[command, &["--help"]].concat());
        let mut options = help.split_whitespace().filter(|word| word.starts_with("--"));
        let underscored = options.find(|word| word.contains('_'));
        assert_eq!(underscored, None, "{command:?}");
    }
}

#[test]
fn numbers_have_units_wherever_they_are_typed() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    for (typed, number) in [("1e3", 1000), ("1k", 1000), ("1KiB", 1024), ("0.5k", 500), ("1000", 1000)] {
        let args = ["bench", "db", "--num", typed, "--benchmarks", "fillrandom", "--json"];
        let report: Value = serde_json::from_str(&ok(here, &args)).unwrap();
        assert_eq!(report["num"], number, "{typed}");
    }
    ok(here, &["put", "--block-bytes", "1KiB", "--partitions", "2", "k", "v"]);
    let stats: Value = serde_json::from_str(&ok(here, &["stats", "--json"])).unwrap();
    assert_eq!((&stats["shape"]["block_bytes"], &stats["shape"]["partitions"]), (&1024.into(), &2.into()));
    for wrong in ["1.5", "many", "-5", "1e30", ""] {
        let (code, message) = result(here, &["bench", "db", &format!("--num={wrong}")]);
        assert!(code == 2 && !message.contains("invalid digit"), "{wrong}: {message}");
    }
}

#[test]
fn wrong_usage_always_has_exit_code_2() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    for args in [
        &["put", "--partitions", "3", "k", "v"][..],
        &["put", "--block-bytes", "1000", "k", "v"],
        &["put", "--fixed", "0,1", "k", "v"],
        &["put", "--expires-in", "5x", "k", "v"],
        &["put", "--hex", "0zff", "00"],
        &["put", "--escaped", "\\q", "v"],
        &["get", "--hex", "0zff"],
        &["dedup", "--db", "index", "--average-size", "258", "."],
        &["dict", "build", "a.dict", "--fixed", "4,4", "--hashed-keys"],
        &["dict", "build", "a.dict", "--memory", "1"],
        &["bench", "db", "--num", "0"],
        &["bench", "db", "--partitions", "3", "--num", "10"],
        &["bench", "ycsb", "--hashed-keys"],
        &["bench", "ycsb", "--workload", "e"],
        &["bench", "ycsb", "--threads", "0"],
        &["bench", "dict", "--keys", "10", "--key-size", "0"],
        &["plan", "--items", "1e6", "--plot", "x.png"],
        &["plan", "--items", "0"],
        &["plan", "--items", "1e6", "--missing", "2"],
        &["plan", "--dedup", "0"],
        &["plan", "--dedup", "10TB", "--dedup-ratio", "0.5"],
        &["plan", "--dedup", "10TB", "--items", "5"],
        &["plan", "--dedup", "10TB", "--memory", "1GiB"],
        &["plan", "--items", "5", "--file-size", "5"],
        &["model", "ram", "--system", "silt", "--keys", "0"],
        &["serve", "mica", "--listen", "127.0.0.1:0", "--partitions", "3"],
    ] {
        let (code, message) = result(here, args);
        assert!(code == 2 && !message.is_empty(), "{args:?}: {code}: {message}");
    }
    assert!(!here.join("x.png").exists());
    ok(here, &["put", "--fixed", "1,1", "k", "v"]);
    let (code, message) = result(here, &["put", "--fixed", "2,2", "kk", "vv"]);
    assert!(code == 2 && message.contains("--fixed"), "{code}: {message}");
    assert_eq!(result(here, &["put", "kk", "vv"]).0, 3, "a record that does not fit is not a wrong option");
}

#[test]
fn errors_say_what_is_true() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let input = |name: &str, bytes: &[u8]| fs::write(here.join(name), bytes).unwrap();
    ok(here, &["put", "k", "v"]);
    ok(here, &["checkpoint", "copy"]);
    fs::create_dir(here.join("lost")).unwrap();
    for entry in fs::read_dir(here.join("copy")).unwrap().map(Result::unwrap) {
        if !entry.file_name().to_str().unwrap().starts_with("MANIFEST") {
            fs::copy(entry.path(), here.join("lost").join(entry.file_name())).unwrap();
        }
    }
    input("words.csv", b"word,meaning,lang\na,b\n");
    input("words.txt", b"word,meaning,lang\na,b\n");
    input("short.csv", b"word\n");
    input("packed.bz2", b"BZh91AY&SY");
    input("wrong.jsonl", b"{\"key\":\"a\",\"value\":\"b\"}\n\n{\"key\":\"a\",value}\n");
    for (args, wanted, unwanted) in [
        (&["checkpoint", "copy"][..], "not empty", "no database"),
        (&["get", "--db", "lost", "k"], "MANIFEST", "no database"),
        (&["put", "--db", "lost", "k", "v"], "both missing", "other files"),
        (&["repair", "lost"], "both missing", "siltstone repair"),
        (&["dict", "get", "words.csv", "x"], "not a dictionary", "damaged"),
        (&["dict", "info", "short.csv"], "not a dictionary", "repair"),
        (&["get", ""], "the key is empty", "hash"),
        (
            &["dict", "build", "a.dict", "words.csv", "--key-column", "nope"],
            "word, meaning, lang",
            "ByteRecord",
        ),
        (&["dict", "build", "a.dict", "short.csv"], "there is no second column", "1 columns"),
        (&["import", "packed.bz2"], "compressed with bzip2", "JSON"),
        (&["import", "words.txt"], "word,meaning", "expected value"),
        (&["import", "wrong.jsonl"], "line 3: not a JSON record", "at line 1"),
        (&["bench", "trace", "missing"], "missing", "(os error 2): No such"),
    ] {
        let (code, message) = result(here, args);
        assert!(
            code == 3 && message.contains(wanted) && !message.contains(unwanted),
            "{args:?}: {code}: {message}"
        );
    }
    for args in [
        &["get", "--db", "words.csv", "k"][..],
        &["put", "--db", "words.csv", "k", "v"],
        &["stats", "--db", "words.csv"],
        &["verify", "words.csv"],
        &["repair", "words.csv"],
        &["checkpoint", "words.csv"],
        &["dedup", "--db", "words.csv", "copy"],
        &["serve", "data", "words.csv"],
        &["follow", "127.0.0.1:1", "words.csv"],
        &["bench", "db", "--db", "words.csv"],
        &["bench", "ycsb", "--db", "words.csv"],
        &["bench", "trace", "words.txt", "--db", "words.csv"],
        &["bench", "device", "--db", "words.csv"],
        &["bench", "serve", "--db", "words.csv"],
    ] {
        let (code, message) = result(here, args);
        assert!(code == 2 && message.contains("this is a file, but a database is a directory"), "{message}");
    }
    for command in ["info", "verify", "export"] {
        let (code, message) = result(here, &["dict", command, "copy"]);
        assert!(code == 3 && message.contains("not a dictionary: it is a directory"), "{message}");
    }
    let (code, message) = result(here, &["dedup", "--db", "copy", "words.csv"]);
    assert!(code == 3 && message.contains("this is a database, and no index of files"), "{message}");
    let (code, message) = result(here, &["dedup", "--db", "index", "reprot"]);
    assert!(code == 3 && message.contains("reprot: ") && message.contains("report, runs"), "{message}");
    let (_, message) = result(here, &["plan", "--items", "0"]);
    assert!(message.contains("'--items <N>': a plan is for 1 item or more"), "{message}");
    let (_, message) = result(here, &["put", "--expires-in", "tomorrow", "k", "v"]);
    assert!(message.contains("\"tomorrow\" is not a time; use one such as"), "{message}");
    let (_, message) = result(here, &["put", "--db", "new", "--fixed", "0,1", "k", "v"]);
    assert!(message.contains("--fixed") && message.contains("the key is empty"), "{message}");
    let listener = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (_, message) = result(here, &["serve", "mica", "--listen", &address, "--memory", "4MiB"]);
    assert_eq!(message.matches("os error").count(), 1, "{message}");
    let verified = ok(here, &["verify"]);
    assert!(verified.contains(" 0 places damaged") && !verified.contains("1 records"), "{verified}");
}

#[test]
fn errors_are_json_where_json_is_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    for (args, code, wanted) in [
        (&["stats", "--json"][..], 3, "no database here"),
        (&["stats", "--json", "--hexx"], 2, "--hexx"),
        (&["bench", "db", "--num", "0", "--json"], 2, ""),
        (&["verify", "none", "--json"], 3, "none"),
    ] {
        let (got, message) = result(directory.path(), args);
        let last = message.trim_end().lines().last().unwrap();
        let error: Value = serde_json::from_str(last).unwrap_or_else(|_| panic!("{args:?}: {message}"));
        assert_eq!((got, &error["exit_code"]), (code, &code.into()), "{args:?}");
        assert!(error["error"].as_str().unwrap().contains(wanted), "{args:?}: {message}");
    }
}

#[test]
fn literal_arguments_read_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    fs::write(here.join("secret"), "secret").unwrap();
    for (key, value) in [("@secret", "-"), ("-", "@secret"), ("@@", "@@x")] {
        ok(here, &["put", "--literal", "--", key, value]);
        assert_eq!(ok(here, &["get", "--literal", "--", key]), value);
        assert_eq!(ok(here, &["list", "--literal", "--prefix", key]).lines().count(), 1, "{key}");
    }
    assert_eq!(ok(here, &["get", "@@@"]), "@@x");
    ok(here, &["delete", "--literal", "-"]);
    assert_eq!(ok(here, &["list", "--count"]), "2\n");
}

#[test]
fn whole_numbers_are_printed_whole() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    ok(here, &["put", "k", "v"]);
    let stats = ok(here, &["stats", "--json"]);
    assert!(stats.contains("\"partitions\":16,") && !stats.contains("\"partitions\":16.0"), "{stats}");
    let ram = ok(here, &["model", "ram", "--system", "silt", "--keys", "1e9"]);
    let bytes = ram.lines().next().unwrap().split_whitespace().nth(1).unwrap();
    assert!(bytes.len() > 6 && bytes.parse::<u64>().is_ok(), "{ram}");
    let keys = ok(here, &["model", "keys", "--keys", "1e6", "--unique", "0", "--json"]);
    assert!(keys.contains("\"unique\":0") && !keys.contains(".0"), "{keys}");
}

#[test]
fn stats_have_shape_structures_and_lifetime_writes() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let record = |number: u32| format!("{{\"key\":\"{number:08}\",\"value\":\"{number:04}\"}}\n");
    let lines: String = (0..5000).map(record).collect();
    let shape = ["import", "--fixed", "8,4", "--partitions", "2", "--block-bytes", "512", "--expiring"];
    assert!(run_with(here, lines.as_bytes(), &shape).status.success());
    let stats = |args: &[&str]| -> Value { serde_json::from_str(&ok(here, args)).unwrap() };
    let before = stats(&["stats", "--json"]);
    ok(here, &["compact"]);
    let after = stats(&["stats", "--json"]);
    let expected = serde_json::json!({
        "fixed": [8, 4], "hashed_keys": false, "expiring": true, "partitions": 2, "block_bytes": 512,
        "format_version": 1, "compression": "none",
    });
    assert_eq!(after["shape"], expected);
    let sorted =
        serde_json::json!([{ "store": "sorted", "index": "block_perfect", "filter": "none", "count": 2 }]);
    assert_eq!(after["stores"], sorted);
    let user_bytes = 5000 * 12;
    let written = |stats: &Value| stats["usage"]["written_bytes"].as_u64().unwrap();
    assert!(written(&before) >= user_bytes, "{before}");
    let amplification = after["usage"]["write_amplification"].as_f64().unwrap();
    assert_eq!(amplification, written(&after) as f64 / user_bytes as f64);
    let text = ok(here, &["stats"]);
    for wanted in ["format version", "all versions", "index block_perfect", "write amplification"] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert!(!text.contains("setting "), "all settings have their defaults: {text}");
    let metrics = ok(here, &["stats", "--prometheus"]);
    assert!(metrics.contains("# TYPE siltstone_puts_total counter\nsiltstone_puts_total{"), "{metrics}");
    assert!(metrics.contains(",engine=\"silt\"} 5000\n"), "{metrics}");
}

#[test]
fn an_empty_database_is_not_measured() {
    let directory = tempfile::tempdir().unwrap();
    let args = ["bench", "db", "--num", "100", "--benchmarks", "readrandom,fillrandom,readrandom"];
    let message = ok(directory.path(), &args);
    assert!(message.contains("readrandom   : skipped (the database is empty"), "{message}");
    assert!(
        message.contains("100 operations") && message.contains("(") && !message.contains("(0 keys)"),
        "{message}"
    );
}

#[test]
fn keys_that_are_not_hashes_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (code, message) = result(directory.path(), &["put", "--hashed-keys", "x", "y"]);
    assert!(
        code == 3 && message.contains("8 bytes or more") && message.contains("--hashed-keys"),
        "{code}: {message}"
    );
}

#[test]
fn every_group_of_commands_shows_examples() {
    let directory = tempfile::tempdir().unwrap();
    for group in ["model", "dict", "serve", "bench"] {
        assert!(ok(directory.path(), &[group, "--help"]).contains("Examples:"), "{group}");
    }
}
