//! `siltstone dedup` on real files: its counts, those of later runs, and what survives an interrupt.

use crate::runner::{command, run};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use tempfile::TempDir;

struct Files {
    directory: TempDir,
}

/// Pseudo-random bytes derived from a seed.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let word = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(word).flatten().take(length).collect()
}

impl Files {
    fn new() -> Files {
        Files { directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.path(&format!("files/{name}"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn command(&self, index: &str, args: &[&str]) -> Command {
        let (index, files) = (self.path(index), self.path("files"));
        let mut command = command(self.directory.path(), &["dedup", "--db", index.to_str().unwrap()]);
        command.args(args).arg(files);
        command
    }

    /// Indexes the files and returns the report.
    fn dedup(&self, index: &str, args: &[&str]) -> Value {
        let output = self.command(index, &[&["--json"], args].concat()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Runs a command, and returns its exit code, standard output and standard error.
    fn siltstone(&self, args: &[&str]) -> (Option<i32>, String, String) {
        let output = run(self.directory.path(), args);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    /// Indexes the files until the chunks have this many bytes.
    fn dedup_until(&self, index: &str, bytes: u64) -> Child {
        let child = self.command(index, &["--json"]).spawn().unwrap();
        while size_of(&self.path(index).join("chunks")) < bytes {
            std::thread::yield_now();
        }
        child
    }
}

/// Flips a bit in the middle of the longest file of a database.
fn damage(database: &Path) {
    let entries = fs::read_dir(database).unwrap().map(|entry| entry.unwrap().path());
    let longest = entries.max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    let mut bytes = fs::read(&longest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(longest, bytes).unwrap();
}

fn size_of(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}

fn numbers<const N: usize>(report: &Value, names: [&str; N]) -> [u64; N] {
    names.map(|name| report[name].as_u64().unwrap_or_else(|| panic!("{name} in {report}")))
}

#[test]
fn every_chunk_counts_and_every_different_one_once() {
    let files = Files::new();
    let one = noise(1, 300_000);
    files.write("one", &one);
    files.write("again/one", &one);
    files.write("two", &noise(2, 100_000));
    files.write("empty", b"");
    std::os::unix::fs::symlink(files.path("files/one"), files.path("files/link")).unwrap();
    let report = files.dedup("index", &[]);
    assert_eq!(numbers(&report, ["files", "files_new", "bytes", "bytes_read"]), [4, 4, 700_000, 700_000]);
    assert_eq!(numbers(&report, ["new_bytes", "run"]), [400_000, 1]);
    assert!((report["dedup_ratio"].as_f64().unwrap() - 1.75).abs() < 1e-9);
    let [chunks, unique] = numbers(&report, ["chunks", "unique_chunks"]);
    assert!(unique < chunks && (60..140).contains(&unique), "{chunks} chunks, {unique} unique");
    let (_, records, _) = files.siltstone(&["list", "--count", "--db", "index"]);
    assert_eq!(records.trim(), unique.to_string(), "the index has one record per distinct chunk");
}

#[test]
fn a_later_run_reads_only_what_has_changed() {
    let files = Files::new();
    let mut one = noise(1, 300_000);
    files.write("one", &one);
    files.write("two", &noise(2, 100_000));
    let first = files.dedup("index", &[]);
    let again = files.dedup("index", &[]);
    assert_eq!(numbers(&again, ["files", "files_unchanged", "bytes_read", "new_chunks"]), [2, 2, 0, 0]);
    assert_eq!(numbers(&again, ["bytes", "chunks"]), numbers(&first, ["bytes", "chunks"]));
    assert_eq!(again["indexed"], first["indexed"]);
    one[150_000..150_010].fill(0);
    files.write("one", &one);
    files.write("three", &noise(2, 100_000));
    let changed = files.dedup("index", &[]);
    assert_eq!(numbers(&changed, ["files_new", "files_changed", "files_unchanged"]), [1, 1, 1]);
    let [new_chunks, new_bytes] = numbers(&changed, ["new_chunks", "new_bytes"]);
    assert!((1..=4).contains(&new_chunks) && new_bytes < 50_000, "{new_chunks} chunks, {new_bytes} bytes");
}

#[test]
fn an_interrupted_run_is_continued() {
    let files = Files::new();
    (0..6).for_each(|number| files.write(&format!("{number}"), &noise(number % 4, 12 << 20)));
    let whole = files.dedup("whole", &[]);
    let child = files.dedup_until("index", 300_000);
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let stopped: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(stopped["interrupted"], true);
    let rest = files.dedup("index", &[]);
    assert_eq!(numbers(&rest, ["files_resumed"]), [1], "{stopped}");
    let [read_then, read_now, bytes] = [
        numbers(&stopped, ["bytes_read"])[0],
        numbers(&rest, ["bytes_read"])[0],
        numbers(&whole, ["bytes"])[0],
    ];
    assert_eq!(read_then + read_now, bytes, "nothing is read twice");
    let of_all_files = ["files", "bytes", "chunks"];
    assert_eq!(numbers(&rest, of_all_files), numbers(&whole, of_all_files), "also what was read before");
    assert_eq!(rest["indexed"], whole["indexed"]);
}

#[test]
fn a_killed_run_does_not_change_the_counts() {
    let files = Files::new();
    (0..6).for_each(|number| files.write(&format!("{number}"), &noise(number % 4, 12 << 20)));
    let whole = files.dedup("whole", &[]);
    for bytes in [100_000, 500_000, 900_000] {
        let mut child = files.dedup_until("index", bytes);
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert_eq!(files.dedup("index", &[])["indexed"], whole["indexed"]);
}

#[test]
fn unreadable_files_are_reported_and_the_rest_is_indexed() {
    let files = Files::new();
    files.write("one", &noise(1, 100_000));
    // The superuser can read every file, except for some in /proc.
    let output = files.command("index", &["--json", "/proc/self/mem"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(numbers(&report, ["files_failed", "new_bytes"]), [1, 100_000]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("mem"));
}

#[test]
fn an_index_is_made_once_and_does_not_index_itself() {
    let files = Files::new();
    files.write("one", &noise(1, 100_000));
    let args = ["--hash", "sha256", "--hash-bytes", "20", "--average-size", "1024"];
    let first = files.dedup("files/index", &args);
    assert_eq!(numbers(&first, ["files", "hash_bytes"]), [1, 20]);
    let again = files.dedup("files/index", &[]);
    assert_eq!(numbers(&again, ["files", "files_unchanged"]), [1, 1]);
    let other = files.command("files/index", &["--average-size", "2048"]).output().unwrap();
    assert_eq!(other.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&other.stderr).contains("--average-size 1024"));
    let elsewhere = files.command("files", &[]).output().unwrap();
    assert_eq!(elsewhere.status.code(), Some(3), "a directory with other files is no index");
}

#[test]
fn the_table_has_all_figures() {
    let files = Files::new();
    files.write("one", &noise(1, 200_000));
    let output = files.command("index", &[]).output().unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    for row in [
        "files",
        "bytes",
        "chunks",
        "new chunks",
        "unique chunks",
        "dedup ratio",
        "lookups per second",
        "inserts per second",
        "RAM bytes per key",
        "flash reads per lookup",
        "write amplification",
        "bytes on disk",
    ] {
        assert!(table.lines().any(|line| line.starts_with(row)), "{row}: {table}");
    }
}

/// An index of 400 files of one chunk, and the report of the run.
fn index_of_small_files(files: &Files) -> Value {
    (0..400).for_each(|number| files.write(&format!("{number}"), &noise(number, 900)));
    let report = files.dedup("index", &[]);
    let index = files.path("index");
    assert_eq!(files.siltstone(&["compact", "--db", index.to_str().unwrap()]).0, Some(0));
    report
}

#[test]
fn verify_and_repair_of_an_index_read_both_databases_and_lost_records_are_indexed_again() {
    for database in ["chunks", "files"] {
        let files = Files::new();
        let whole = index_of_small_files(&files);
        let index = files.path("index");
        let index = index.to_str().unwrap();
        assert_eq!(files.siltstone(&["verify", index]).0, Some(0));
        damage(&files.path("index").join(database));
        let (code, out, _) = files.siltstone(&["verify", index]);
        assert_eq!(code, Some(1), "the damage in {database} is found: {out}");
        let (code, out, _) = files.siltstone(&["repair", "--json", index]);
        assert_eq!(code, Some(1), "records of {database} are lost: {out}");
        assert_eq!(out.lines().count(), 2, "a line for each database: {out}");
        assert_eq!(files.siltstone(&["verify", index]).0, Some(0));
        let again = files.dedup("index", &[]);
        let counts = ["files", "bytes", "chunks", "bytes_read"];
        assert_eq!(numbers(&again, counts), numbers(&whole, counts), "all files are read again ({database})");
        assert_eq!(again["indexed"], whole["indexed"], "and every chunk counts once ({database})");
        let later = files.dedup("index", &[]);
        assert_eq!(numbers(&later, ["bytes_read", "run"]), [0, 3]);
    }
}

/// A full device as standard output stops a repair when it prints its result for the first database, the catalogue.
#[test]
fn a_repair_that_was_stopped_is_run_again_before_the_index_is_used() {
    let files = Files::new();
    let whole = index_of_small_files(&files);
    let index = files.path("index");
    let index = index.to_str().unwrap();
    damage(&files.path("index").join("files"));
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut repair = command(files.directory.path(), &["repair", "--json", index]);
    let stopped = repair.stdout(full).output().unwrap().status;
    assert_eq!(stopped.code(), Some(3));
    let (code, out, error) = files.siltstone(&["verify", index]);
    assert_eq!(code, Some(1), "{out}");
    assert!(
        error.contains("siltstone repair") && !error.contains("damaged"),
        "the loss is not visible: {error}"
    );
    let copy = files.path("copy");
    for args in
        [vec!["dedup", "--db", index, "/dev/null"], vec!["checkpoint", "--db", index, copy.to_str().unwrap()]]
    {
        let (code, _, error) = files.siltstone(&args);
        assert!(code == Some(3) && error.contains("siltstone repair"), "{args:?}: {code:?}: {error}");
    }
    assert_eq!(files.siltstone(&["repair", index]).0, Some(0), "this run finds no damage");
    let again = files.dedup("index", &[]);
    assert_eq!(again["indexed"], whole["indexed"], "every chunk counts once");
    assert_eq!(numbers(&again, ["bytes_read"]), numbers(&whole, ["bytes_read"]), "all files are read again");
}

#[test]
fn a_checkpoint_of_an_index_is_an_index() {
    let files = Files::new();
    let whole = index_of_small_files(&files);
    let (index, copy) = (files.path("index"), files.path("copy"));
    let (code, _, error) =
        files.siltstone(&["checkpoint", "--db", index.to_str().unwrap(), copy.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{error}");
    let again = files.dedup("copy", &[]);
    assert_eq!(numbers(&again, ["files_unchanged", "bytes_read"]), [400, 0]);
    assert_eq!(again["indexed"], whole["indexed"]);
    let (code, out, _) = files.siltstone(&["stats", "--json", "--db", copy.to_str().unwrap()]);
    assert_eq!((code, out.lines().count()), (Some(0), 2), "{out}");
    let (code, _, error) =
        files.siltstone(&["checkpoint", "--db", index.to_str().unwrap(), copy.to_str().unwrap()]);
    assert_eq!(code, Some(3));
    assert!(error.contains("not empty"), "{error}");
}

#[test]
fn commands_that_would_make_an_index_wrong_refuse_it() {
    let files = Files::new();
    files.write("one", &noise(1, 10_000));
    files.dedup("index", &[]);
    let index = files.path("index");
    let index = index.to_str().unwrap();
    for args in
        [&["put", "--db", index, "k", "v"][..], &["delete", "--db", index, "k"], &["export", "--db", index]]
    {
        let (code, _, error) = files.siltstone(args);
        assert_eq!(code, Some(3), "{args:?}");
        assert!(error.contains("dedup index"), "{error}");
    }
    fs::remove_file(files.path("index").join("parameters.json")).unwrap();
    let output = files.command("index", &[]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("parameters.json"));
}

#[test]
fn an_index_keeps_its_settings_and_a_later_run_can_set_others() {
    let files = Files::new();
    files.write("one", &noise(1, 50_000));
    files.dedup("index", &[]);
    let settings = |database: &str| {
        let path = files.path("index").join(database);
        let (_, stats, _) = files.siltstone(&["stats", "--json", "--db", path.to_str().unwrap()]);
        serde_json::from_str::<Value>(&stats).unwrap()["settings"].clone()
    };
    assert_eq!(settings("chunks")["log_slots_min"], "1024");
    assert_eq!(settings("files")["log_slots_min"], "256");
    files.dedup("index", &["--set", "log_slots_min=2048", "--set", "filter_last_store=7"]);
    files.dedup("index", &[]);
    for database in ["chunks", "files"] {
        assert_eq!(settings(database)["log_slots_min"], "2048");
        assert_eq!(settings(database)["filter_last_store"], "7");
    }
}
