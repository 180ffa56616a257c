//! `siltstone plan` with a database or a trace as input, and what it recommends.

use crate::runner::{ends_with, objects, ok, run};
use serde_json::Value;
use siltstone::Database;
use std::fs;
use std::path::Path;

/// Runs a command that must succeed, and returns its one line of JSON.
fn object(directory: &Path, args: &[&str]) -> Value {
    objects(directory, args).remove(0)
}

#[test]
fn the_load_of_a_database_is_known_even_if_it_is_in_use() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    for _ in 0..2 {
        let database = Database::builder(&path).open().unwrap();
        for number in 0..500u32 {
            database.put(number.to_le_bytes(), [7; 60]).unwrap();
            assert!(database.get(number.to_le_bytes()).unwrap().is_some());
        }
        assert!(database.get("none").unwrap().is_none());
        database.delete("none").unwrap();
        database.close().unwrap();
    }
    let plan = ["plan", "--db", "db", "--json"];
    let closed = object(directory.path(), &plan);
    let _in_use = Database::builder(&path).open().unwrap();
    let in_use = object(directory.path(), &plan);
    assert!(closed["now"].is_object() && in_use["now"].is_null());
    for planned in [closed, in_use] {
        let counts =
            ["gets", "misses", "puts", "deletes"].map(|name| planned["usage"][name].as_u64().unwrap());
        assert_eq!(counts, [1002, 2, 1000, 2]);
        let demand = &planned["demand"];
        assert_eq!((&demand["key_bytes"], &demand["value_bytes"]), (&4.0.into(), &60.0.into()));
        assert!((500.0..=502.0).contains(&demand["items"].as_f64().unwrap()), "{demand}");
        let number = |name: &str| demand[name].as_f64().unwrap();
        assert!((number("missing_gets") - 2.0 / 1002.0).abs() < 1e-9);
        assert!(number("gets_per_s") > 0.0 && number("puts_per_s") > 0.0);
    }
    let asked = ["--gets", "0.5", "--updates", "300/s", "--missing", "0.25"];
    let demand = &object(directory.path(), &[&plan[..], &asked].concat())["demand"];
    assert_eq!((&demand["gets_per_s"], &demand["puts_per_s"]), (&300.0.into(), &300.0.into()));
    assert_eq!(demand["missing_gets"], 0.25);
}

#[test]
fn missing_or_damaged_counters_start_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let put = || {
        let database = Database::builder(&path).open().unwrap();
        database.put("key", "value").unwrap();
        database.close().unwrap();
    };
    let puts = || object(directory.path(), &["plan", "--db", "db", "--json"])["usage"]["puts"].clone();
    put();
    put();
    assert_eq!(puts(), 2);
    fs::write(path.join("USAGE"), "no counters").unwrap();
    put();
    assert_eq!(puts(), 1);
    fs::remove_file(path.join("USAGE")).unwrap();
    assert_eq!(puts(), Value::Null);
    let _in_use = Database::builder(&path).open().unwrap();
    let refused = run(directory.path(), &["plan", "--db", "db"]);
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(
        refused.status.code() == Some(3) && message.contains("in use") && message.contains("--items"),
        "{message}"
    );
}

#[test]
fn a_trace_of_dedup_gives_keys_sizes_and_load() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let noise: Vec<u8> =
        (0..60_000u32).flat_map(|word| word.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
    fs::write(here.join("one"), &noise).unwrap();
    fs::write(here.join("two"), &noise[80_000..]).unwrap();
    let dedup =
        ["dedup", "--db", "index", "--average-size", "512", "--record", "chunks.trace", "--json", "."];
    let report = object(here, &dedup);
    let demand =
        &object(here, &["plan", "--trace", "chunks.trace", "--updates", "300/s", "--json"])["demand"];
    assert_eq!(demand["items"], report["unique_chunks"].as_f64().unwrap());
    assert_eq!((&demand["key_bytes"], &demand["value_bytes"]), (&32.0.into(), &44.0.into()));
    let chunks = |name: &str| report[name].as_f64().unwrap();
    // Lookups come in batches. Within a batch a new chunk is not found, even if it occurs several times.
    let missing = demand["missing_gets"].as_f64().unwrap();
    assert!((chunks("new_chunks") / chunks("chunks_read")..=1.0).contains(&missing), "{missing}");
    let gets_per_put = demand["gets_per_s"].as_f64().unwrap() / 300.0;
    assert!(gets_per_put >= 1.0, "a chunk is looked up before it is inserted: {gets_per_put}");
}

/// Writes a table of 100 gets of 10 keys within 2 seconds, and returns its name.
fn write_requests(directory: &Path) -> &'static str {
    let line = |number: u32| format!("{},key{:02},5,84,0,get,0\n", 2 * number / 99, number % 10);
    fs::write(directory.join("requests.csv"), (0..100).map(line).collect::<String>()).unwrap();
    "requests.csv"
}

#[test]
fn a_cache_is_planned_for_the_gets_of_its_trace() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let data = "--items 1e6 --key-size 16 --value-size 84 --memory 64MB --flash 80MB";
    let cache = ["plan", "--cache", "--trace", write_requests(here)];
    let plan: Vec<&str> = cache.into_iter().chain(data.split(' ')).collect();
    let counted = ok(here, &plan);
    assert!(counted.contains(", 50 gets per second"), "{counted}");
    let stated = ok(here, &[&plan[..], &["--gets", "70/s"]].concat());
    assert!(stated.contains(", 70 gets per second"), "{stated}");
}

#[test]
fn fewer_items_than_the_trace_has_keys_are_wrong_usage() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let trace = write_requests(here);
    for first in [&["plan"][..], &["plan", "--cache"]] {
        let message = ends_with(2, here, &[first, &["--trace", trace, "--items", "9"]].concat());
        assert!(message.contains("--items is 9, but the trace has 10 keys"), "{message}");
    }
}

#[test]
fn an_option_without_effect_on_a_plan_is_wrong_usage() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    for option in [
        ["--missing", "0.5"],
        ["--scans", "yes"],
        ["--durability", "synced"],
        ["--space", "2"],
        ["--reads", "100/s"],
        ["--read-bandwidth", "1MB/s"],
        ["--writes", "1MB/s"],
        ["--disk", "1TB"],
        ["--disk-reads", "100/s"],
        ["--disk-bandwidth", "1MB/s"],
        ["--goal", "memory"],
        ["--plot", "x.svg"],
    ] {
        let message = ends_with(2, here, &[&["plan", "--cache", "--items", "1e6"], &option[..]].concat());
        assert!(message.contains(option[0]), "{option:?}: {message}");
    }
    let message = ends_with(2, here, &["plan", "--items", "1e6", "--disk-bandwidth", "1MB/s"]);
    assert!(message.contains("--disk-reads"), "{message}");
    let message = ends_with(2, here, &["plan", "--cache", "--items", "1e6", "--gets", "0.5"]);
    assert!(message.contains("as a rate"), "{message}");
}

/// A plan whose trial was run.
struct Trial {
    best: Value,
    reports: Vec<Value>,
}

impl Trial {
    /// Plans, and runs the printed trial of the best plan, which is recommended and of this engine.
    fn run(directory: &Path, flags: &str, engine: &str) -> Trial {
        let args: Vec<&str> = ["plan", "--json"].into_iter().chain(flags.split_whitespace()).collect();
        let best = object(directory, &args)["plans"][0].clone();
        assert_eq!((&best["system"], &best["recommended"]), (&engine.into(), &true.into()), "{best}");
        let trial = best["trial"].as_str().unwrap();
        let command: Vec<&str> = trial.split(' ').skip(1).chain(["--json"]).collect();
        let output = run(directory, &command);
        assert!(output.status.success(), "{trial}: {}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let reports = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        Trial { best, reports }
    }

    fn expected(&self, name: &str) -> f64 {
        self.best["trial_prediction"][name].as_f64().unwrap()
    }

    fn counted(&self, benchmark: &str, name: &str) -> f64 {
        let last = self.reports.iter().rfind(|report| report["benchmark"] == benchmark).unwrap();
        last[name].as_f64().unwrap()
    }

    fn check_writes(&self) {
        let ratio = self.counted("overwrite", "write_amplification") / self.expected("write_amplification");
        assert!((0.8..1.15).contains(&ratio), "{ratio} of the writes: {}", self.best["trial"]);
    }
}

/// Runs the printed trial and compares it with the plan's prediction.
#[test]
fn the_printed_trial_runs_and_shows_the_plan() {
    let directory = tempfile::tempdir().unwrap();
    let data = "--items 20000 --key-size 16 --value-size 84 --updates 100/s --gets 0.5/s";
    let silt = format!("{data} --memory 0.4MB --flash 150MB --endurance 1e5");
    let flashkey = format!("{data} --memory 2MB --flash 150MB --endurance 1e5 --goal writes");
    let large =
        "--items 1500000000 --key-size 8 --value-size 8 --memory 60GB --durability buffered --updates 1/s";
    let mica = "--items 50000 --key-size 8 --value-size 8 --durability buffered --gets 90k/s --updates 10k/s";
    let sizes = "--items 50000 --key-size 8 --value-size 92 --variable --durability buffered --gets 90k/s";
    for (flags, engine) in [(&*silt, "silt"), (&*flashkey, "flashkey"), (mica, "mica"), (sizes, "mica")] {
        let trial = Trial::run(directory.path(), flags, engine);
        if engine != "mica" {
            trial.check_writes();
        }
        if engine == "silt" {
            let (reads, expected) =
                (trial.counted("readrandom", "reads_per_get"), trial.expected("reads_per_get"));
            // Reads are measured at one moment. Between two merges there are more or fewer HashStores than on average.
            let in_vain = (reads - 1.0) / (expected - 1.0);
            assert!((0.5..1.5).contains(&in_vain), "{reads} for {expected}: {}", trial.best["trial"]);
        }
    }
    let args: Vec<&str> = ["plan", "--json"].into_iter().chain(large.split(' ')).collect();
    let planned = object(directory.path(), &args);
    assert!(planned["plans"][0]["trial"].as_str().unwrap().contains("--num 10000000 "), "{planned}");
}

#[test]
fn where_nothing_fits_the_plan_says_what_would() {
    let directory = tempfile::tempdir().unwrap();
    let plan = |flags: &str| {
        let args: Vec<&str> = ["plan"].into_iter().chain(flags.split(' ')).collect();
        let output = run(directory.path(), &args);
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let flags =
        "--items 1e9 --key-size 20 --value-size 44 --updates 5000/s --flash 40GB --memory 1GB --lifetime 1d";
    let (code, message) = plan(flags);
    assert!(code == Some(1) && message.contains("nearest is silt"), "{message}");
    let remedy = message.lines().find_map(|line| line.trim().strip_prefix("--flash ")).unwrap();
    let bytes = remedy.split(':').next().unwrap();
    let (code, message) = plan(&flags.replace("40GB", bytes));
    assert_eq!(code, Some(0), "{message}");
    // A get of a megabyte takes as long as its bytes.
    let (code, message) = plan(
        "--items 1e6 --key-size 20 --value-size 1e6 --gets 50k/s --updates 1/s --flash 9TB --memory 4GB",
    );
    assert!(code == Some(1) && message.contains("--read-bandwidth"), "{message}");
}

#[test]
fn for_a_slow_store_below_a_fast_drive_flashstore_is_recommended() {
    let directory = tempfile::tempdir().unwrap();
    let flags = "--items 3e9 --key-size 20 --value-size 100 --gets 300/s --updates 300/s --skew zipf:0.99 \
                 --memory 32GB --flash 200GB";
    let plan = |flags: &str, more: &str| {
        let args: Vec<&str> = ["plan"].into_iter().chain(flags.split(' ')).chain(more.split(' ')).collect();
        let output = run(directory.path(), &args);
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, message) = plan(flags, "--disk 4TB");
    assert_eq!(code, Some(0), "{message}");
    for wanted in [
        "Recommended: flashstore",
        ").disk(Disk::at(disk_path))",
        "of the gets; the disk has up to",
        "--set disk=",
    ] {
        assert!(message.contains(wanted), "{wanted} in {message}");
    }
    let (code, message) = plan(flags, "--scans no");
    assert!(code != Some(0) && !message.contains("\nflashstore  "), "{message}");
    let (code, message) = plan(flags, "--disk 300GB");
    assert!(code == Some(1) && message.contains("nearest is flashstore"), "{message}");
    assert!(message.contains("--disk "), "{message}");
}

/// Data that fits on flash would stay there, so the trial is of a small flash.
#[test]
fn the_printed_trial_of_flashstore_runs_and_shows_the_plan() {
    let directory = tempfile::tempdir().unwrap();
    let flags = "--items 60000 --key-size 16 --value-size 84 --updates 9/s --gets 9/s --memory 64MB --flash 5MB \
                 --endurance 1e5 --disk 1GB --goal writes";
    let trial = Trial::run(directory.path(), flags, "flashstore");
    assert_eq!(trial.best["settings"]["disk"], "disk");
    trial.check_writes();
}

#[test]
fn an_index_of_chunks_is_planned_with_its_assumptions() {
    let directory = tempfile::tempdir().unwrap();
    let plan = |more: &[&str]| {
        let args = [&["plan", "--dedup", "10TB"], more].concat();
        String::from_utf8(run(directory.path(), &args).stdout).unwrap()
    };
    let text = plan(&[]);
    for wanted in [
        "10M files with 10TB",
        "memory",
        "without filters",
        "on flash",
        "reads of flash",
        "first run",
        "Assumed:",
        "--file-size",
        "--scan-rate",
    ] {
        assert!(text.contains(wanted), "{wanted} in {text}");
    }
    let json =
        |more: &[&str]| -> Value { serde_json::from_str(&plan(&[&["--json"], more].concat())).unwrap() };
    let (small, large) = (json(&[]), json(&["--average-size", "65536", "--dedup-ratio", "2"]));
    let number = |plan: &Value, name: &str| plan["dedup"][name].as_f64().unwrap();
    assert!((1.9e9..2.2e9).contains(&number(&small, "chunks")), "{small}");
    assert!(number(&small, "ram_bytes") > 10.0 * number(&large, "ram_bytes"), "{large}");
    assert_eq!(number(&small, "first_run_s"), 1e5, "100 MB/s");
}
