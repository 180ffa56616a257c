//! `siltstone bench ycsb`, `bench trace` and `dedup --record` on the command line.

use crate::runner::{objects, result, run};
use std::fs;
use std::path::Path;

/// Runs a benchmark that must fail, and returns its standard error. It may have printed where it ran.
fn fails(directory: &Path, args: &[&str]) -> String {
    let (code, error) = result(directory, args);
    assert_eq!(code, 3, "{args:?}");
    error
}

#[test]
fn ycsb_accepts_its_own_names_too() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let sizes =
        ["--recordcount", "500", "--operationcount", "900", "--field-count", "2", "--fieldlength", "20"];
    let args = |more: &[&'static str]| [&["bench", "ycsb"], &sizes[..], more].concat();
    let loaded =
        objects(here, &args(&["--workload", "F", "--db", "db", "--fixed", "--threads", "2", "--json"]));
    assert_eq!((loaded.len(), &loaded[0]["phase"], &loaded[1]["phase"]), (2, &"load".into(), &"run".into()));
    assert_eq!((&loaded[0]["operations"], &loaded[1]["operations"]), (&500.into(), &900.into()));
    let again =
        ["--workload", "c", "--db", "db", "--fixed", "--use_existing_db", "--distribution", "uniform"];
    let text = String::from_utf8(run(here, &args(&again)).stdout).unwrap();
    assert!(text.contains("[READ], Operations, 900\n") && text.contains("uniform"), "{text}");
    assert!(fails(here, &args(&["--db", "db"])).contains("--use-existing-db"));
    for (flags, message) in [(&["--workload", "e"][..], "no order"), (&["--hashed_keys"], "--hashed_keys")] {
        let output = run(here, &args(flags));
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
        assert!(String::from_utf8(output.stderr).unwrap().contains(message), "{flags:?}");
    }
}

#[test]
fn a_trace_of_dedup_is_replayed_with_the_same_results() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let noise: Vec<u8> =
        (0..60_000u32).flat_map(|word| word.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
    fs::write(here.join("one"), &noise).unwrap();
    fs::write(here.join("two"), &noise[80_000..]).unwrap();
    let dedup =
        ["dedup", "--db", "index", "--average-size", "512", "--record", "chunks.trace", "--json", "."];
    let report = &objects(here, &dedup)[0];
    assert_eq!(report["files"], 2, "the trace itself is not indexed");
    let replay = ["bench", "trace", "chunks.trace", "--fixed", "--hashed_keys", "--threads", "2", "--json"];
    let replayed = &objects(here, &replay)[0];
    let operations = &replayed["by_operation"];
    assert_eq!(operations["get"]["operations"], report["chunks_read"]);
    assert_eq!(operations["set"]["operations"], report["new_chunks"]);
    assert_eq!(replayed["keys"], report["unique_chunks"]);
    assert!(fails(here, &dedup).contains("chunks.trace"), "a trace is never overwritten");
    let mut bytes = fs::read(here.join("chunks.trace")).unwrap();
    bytes[1000] ^= 1;
    fs::write(here.join("damaged.trace"), bytes).unwrap();
    assert!(fails(here, &["bench", "trace", "damaged.trace"]).contains("damaged"));
}

#[test]
fn a_table_of_requests_is_replayed_and_converted() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let line = |at: u32| {
        let operation = ["get", "set", "gets", "delete"][at as usize % 4];
        format!("{},space:{},{},{},7,{operation},0\n", at / 10, at % 37, 9 + at % 5, at % 300)
    };
    fs::write(here.join("requests.csv"), (0..2_000).map(line).collect::<String>()).unwrap();
    let replayed = &objects(here, &["bench", "trace", "requests.csv", "--fill_misses", "--json"])[0];
    assert_eq!(replayed["by_operation"]["get"]["operations"], 1_000);
    assert_eq!(replayed["by_operation"]["delete"]["operations"], 500);
    let converted = run(here, &["bench", "trace", "requests.csv", "--convert", "requests.trace"]);
    assert_eq!(converted.stdout, b"2000 operations\n");
    let again = &objects(here, &["bench", "trace", "requests.trace", "--fill_misses", "--json"])[0];
    for figure in ["found", "keys", "operations"] {
        assert_eq!(again[figure], replayed[figure], "{figure}");
    }
    fs::write(here.join("wrong.csv"), "1,key,3,4,5,get,0\n1,key,3\n").unwrap();
    assert!(fails(here, &["bench", "trace", "wrong.csv"]).contains("line 2"));
    assert!(fails(here, &["bench", "trace", "wrong.csv", "--convert", "wrong.trace"]).contains("line 2"));
    assert!(!here.join("wrong.trace").exists());
}
