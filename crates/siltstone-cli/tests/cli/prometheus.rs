//! The text format of Prometheus, as a scraper reads it, and `stats --watch`, which reads it as well.

use crate::runner::{command, ends_with, fails, ok};
use crate::server_process::Process;
use serde_json::Value;
use siltstone::Database;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_')
}

/// Returns the names of the labels of a sample, and its value. Values of labels have no escapes here.
fn labels_and_value(rest: &str) -> (Vec<&str>, f64) {
    let (labels, value) = match rest.strip_prefix('{') {
        Some(inside) => inside.rsplit_once("} ").unwrap(),
        None => ("", rest.strip_prefix(' ').unwrap()),
    };
    let named = labels.split("\",").filter(|label| !label.is_empty());
    (named.map(|label| label.split_once("=\"").unwrap().0).collect(), value.parse().unwrap())
}

/// Checks the rules of the text format: a family has its HELP and TYPE once, in this order, directly before its
/// samples, which are all together and differ in labels. Returns the names of the families with their types.
fn families(text: &str) -> HashMap<&str, &str> {
    assert!(text.ends_with('\n'), "the last line is complete");
    let (mut types, mut helped, mut now) = (HashMap::new(), HashSet::new(), "");
    let (mut samples, mut buckets) = (HashSet::new(), (0.0, ""));
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            now = help.split_once(' ').unwrap().0;
            assert!(is_name(now) && helped.insert(now), "{now} is helped once");
            continue;
        }
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert_eq!(name, now, "the type follows the help");
            assert!(types.insert(name, kind).is_none(), "{name} has one type");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name} is a {kind}");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{name} is a {kind}");
            continue;
        }
        let name = &line[..line.find(['{', ' ']).unwrap()];
        let (labels, value) = labels_and_value(&line[name.len()..]);
        assert!(labels.iter().all(|label| is_name(label)), "{line}");
        assert!(samples.insert(line.rsplit_once(' ').unwrap().0), "{line} is there once");
        let kind = types[now];
        match name.strip_prefix(now) {
            Some("") if kind != "histogram" => assert!(value >= 0.0 && value.is_finite(), "{line}"),
            Some("_bucket") if kind == "histogram" => {
                let others = line.split_once("le=").unwrap().0;
                // Buckets are cumulative.
                assert!(buckets.1 != others || value >= buckets.0, "{line}");
                buckets = (value, others);
            }
            Some("_count") if kind == "histogram" => assert_eq!(value, buckets.0, "{line}"),
            Some("_sum") if kind == "histogram" => {}
            _ => panic!("{line} does not belong to {now}"),
        }
    }
    assert_eq!(types.len(), helped.len());
    types
}

#[test]
fn the_metrics_of_all_engines_keep_the_rules_of_the_format() {
    for engine in ["silt", "flashkey", "flashstore", "bloomstore"] {
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path();
        let mut args = vec!["put", "--engine", engine, "--memory", "8MiB", "k", "v"];
        if engine == "flashstore" {
            args.extend(["--set", "disk=disk", "--set", "segment_bytes=64KiB", "--set", "flash_bytes=2MiB"]);
        }
        ok(here, &args);
        let text = ok(here, &["stats", "--prometheus"]);
        let families = families(&text);
        assert!(families.len() > 25, "{engine}: {families:?}");
        assert!(families["siltstone_partitions"] == "gauge", "{engine}: {families:?}");
        for counted in ["siltstone_background_jobs_total", "siltstone_record_cache_lookups_total"] {
            assert_eq!(families.get(counted), Some(&"counter"), "{engine}: {families:?}");
        }
        assert!(
            !families.contains_key("siltstone_engine_value"),
            "{engine}: each value has its metric: {text}"
        );
    }
}

#[test]
fn the_metrics_of_several_databases_keep_the_rules_of_the_format() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    fs::write(here.join("file"), "text").unwrap();
    ok(here, &["dedup", "--db", "index", "file"]);
    let text = ok(here, &["stats", "--prometheus", "--db", "index"]);
    families(&text);
    assert_eq!(text.matches("\nsiltstone_puts_total{").count(), 2, "{text}");
    let server = Process::start(&here.join("served"), &["--metrics", "127.0.0.1:0"]);
    let mut client = server.client();
    for request in ["SET a 1", "GET a", "SELECT 3", "SET b 1"] {
        client.ask(request);
    }
    let mut socket = TcpStream::connect(server.metrics.as_ref().unwrap()).unwrap();
    socket.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let families = families(answer.split_once("\r\n\r\n").unwrap().1);
    assert!(
        families["siltstone_server_command_seconds"] == "histogram" && families.len() > 40,
        "{families:?}"
    );
}

#[test]
fn the_rates_of_a_server_are_watched() {
    let directory = tempfile::tempdir().unwrap();
    let server = Process::start(directory.path(), &["--metrics", "127.0.0.1:0"]);
    let mut client = server.client();
    client.ask("SET a 1");
    let metrics = server.metrics.clone().unwrap();
    let args = ["stats", "--watch", "0.1", "--count", "3", "--metrics", &metrics];
    let mut watching = command(directory.path(), &[&args[..], &["--json"]].concat()).spawn().unwrap();
    while watching.try_wait().unwrap().is_none() {
        client.ask("SET a 1");
    }
    let printed = watching.wait_with_output().unwrap();
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    let printed = String::from_utf8(printed.stdout).unwrap();
    let rates: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rates.len(), 3, "{printed}");
    assert!(rates.iter().all(|rates| rates["database"] == "0" && rates["memory_bytes"].as_f64() > Some(0.0)));
    assert!(rates.iter().any(|rates| rates["puts_per_s"].as_f64() > Some(0.0)), "{printed}");
    let table = ok(directory.path(), &args);
    assert!(table.starts_with("database ") && table.contains("gets/s"), "{table}");
    // Nothing listens there.
    let said = fails(directory.path(), &["stats", "--watch", "--metrics", "127.0.0.1:1"]);
    assert!(said.contains("address of --metrics"), "{said}");
}

#[test]
fn only_a_database_that_is_in_use_is_watched() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    ok(here, &["put", "k", "v"]);
    assert!(fails(here, &["stats", "--watch"]).contains("no process writes to the database"));
    let said = ends_with(2, here, &["stats", "--count", "1"]);
    assert!(said.contains("--watch"), "{said}");
    assert!(ends_with(2, here, &["stats", "--watch", "0"]).contains("--watch is 0"));
    let database = Database::open(here.join("db")).unwrap();
    let said = ends_with(0, here, &["stats", "--watch", "--count", "0"]);
    assert!(said.contains("about each minute"), "{said}");
    drop(database);
}
