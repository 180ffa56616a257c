//! `siltstone dedup` on real files: its counts, those of later runs, and what survives an interrupt.

use crate::runner::{command, run, run_with};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use tempfile::TempDir;

/// A run over some megabytes then has enough chunks to commit several times.
const SMALL_CHUNKS: [&str; 4] = ["--average-size", "256", "--threads", "1"];

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
        let child = self.command(index, &[&["--json"], &SMALL_CHUNKS[..]].concat()).spawn().unwrap();
        while size_of(&self.path(index).join("chunks")) < bytes {
            std::thread::yield_now();
        }
        child
    }
}

/// Flips a bit in the middle of the longest SortedStore of a database.
fn damage(database: &Path) {
    let entries = fs::read_dir(database).unwrap().map(|entry| entry.unwrap().path());
    let stores = entries.filter(|path| path.extension().is_some_and(|extension| extension == "sorted"));
    let longest = stores.max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
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
    // The reader is at most a mebibyte of hashes ahead of the first commit, which are 9 MiB of the file.
    files.write("long", &noise(1, 24 << 20));
    files.write("short", &noise(1, 1 << 20));
    let whole = files.dedup("whole", &SMALL_CHUNKS);
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
    (0..6).for_each(|number| files.write(&format!("{number}"), &noise(number % 4, 3 << 20)));
    let whole = files.dedup("whole", &SMALL_CHUNKS);
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
    let output = files.command("index", &["--json", "/proc/self/mem", "/no/such/path"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(numbers(&report, ["files_failed", "new_bytes"]), [2, 100_000]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("mem") && said.contains("/no/such/path") && said.contains("2 paths could not be read"),
        "{said}"
    );
    let none = run(files.directory.path(), &["dedup", "--db", "other", "/no/such/path"]);
    assert_eq!(none.status.code(), Some(3), "no path can be read");
    assert!(!files.path("other").exists());
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
fn the_table_has_bytes_the_ratio_and_memory_and_terms_of_the_engine_only_on_demand() {
    let files = Files::new();
    files.write("one", &noise(1, 200_000));
    let table = |args: &[&str]| {
        let output = files.command("index", args).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let (short, long) = (table(&[]), table(&["--verbose"]));
    let has = |table: &str, row: &str| table.lines().any(|line| line.starts_with(row));
    for row in
        ["files", "bytes", "new bytes", "unique bytes", "dedup ratio", "bytes of memory", "bytes on disk"]
    {
        assert!(has(&short, row) && has(&long, row), "{row}: {short}\n{long}");
    }
    assert!(has(&short, "ratio of 1 run") && short.starts_with("The files of run 1, 2"), "{short}");
    for row in [
        "chunks",
        "lookups per second",
        "writes per second",
        "RAM bytes per key",
        "  log_index",
        "flash reads per lookup",
        "write amplification",
        "bytes of the catalogue",
    ] {
        assert!(!has(&short, row) && has(&long, row), "{row}: {short}\n{long}");
    }
    assert!(!short.contains("_index"), "{short}");
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
        let counts = ["files", "bytes", "chunks"];
        assert_eq!(numbers(&again, counts), numbers(&whole, counts), "all files are indexed ({database})");
        let [again_bytes, bytes] = [numbers(&again, ["bytes_read"])[0], numbers(&whole, ["bytes"])[0]];
        assert!((1..bytes).contains(&again_bytes), "those with lost records are read: {again_bytes}");
        assert_eq!(again["indexed"], whole["indexed"], "and every chunk counts once ({database})");
        let recount_s = again["recount_seconds"].as_f64().unwrap();
        assert!(recount_s > 0.0 && again["seconds"].as_f64().unwrap() >= recount_s, "{again}");
        let later = files.dedup("index", &[]);
        assert_eq!(numbers(&later, ["bytes_read", "run"]), [0, 3]);
        assert_eq!(later["recount_seconds"], 0.0);
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
        [vec!["dedup", "--db", index, "files/1"], vec!["checkpoint", "--db", index, copy.to_str().unwrap()]]
    {
        let (code, _, error) = files.siltstone(&args);
        assert!(code == Some(3) && error.contains("siltstone repair"), "{args:?}: {code:?}: {error}");
    }
    assert_eq!(files.siltstone(&["repair", index]).0, Some(0), "this run finds no damage");
    let again = files.dedup("index", &[]);
    assert_eq!(again["indexed"], whole["indexed"], "every chunk counts once");
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
    files.dedup("index", &["--set", "log_slots_min=1024"]);
    let settings = |database: &str| {
        let path = files.path("index").join(database);
        let (_, stats, _) = files.siltstone(&["stats", "--json", "--db", path.to_str().unwrap()]);
        serde_json::from_str::<Value>(&stats).unwrap()["settings"].clone()
    };
    for database in ["chunks", "files"] {
        assert_eq!(settings(database)["log_slots_min"], "1024");
    }
    files.dedup("index", &["--set", "log_slots_min=2048", "--set", "filter_last_store=7"]);
    files.dedup("index", &[]);
    for database in ["chunks", "files"] {
        assert_eq!(settings(database)["log_slots_min"], "2048");
        assert_eq!(settings(database)["filter_last_store"], "7");
    }
}

#[test]
fn a_changed_file_and_a_forgotten_one_leave_only_what_other_files_have() {
    let files = Files::new();
    files.write("one", &noise(1, 300_000));
    files.write("two", &[noise(1, 300_000), noise(2, 100_000)].concat());
    files.write("three", &noise(3, 200_000));
    let first = files.dedup("index", &[]);
    files.write("three", &noise(4, 100_000));
    fs::remove_file(files.path("files/one")).unwrap();
    let later = files.dedup("index", &[]);
    assert_eq!(numbers(&later["indexed"], ["files", "bytes"]), [3, 800_000], "one is not forgotten yet");
    let [unique] = numbers(&later["indexed"], ["unique_bytes"]);
    let last_chunk = unique - 500_000;
    assert!(
        (1..16_384).contains(&last_chunk),
        "what only three had is gone; one ends with a chunk of its own"
    );
    let ever = [4, 1_000_000, 700_000 + last_chunk];
    assert_eq!(numbers(&later["all_runs"], ["files", "bytes", "unique_bytes"]), ever);
    assert!((later["dedup_ratio"].as_f64().unwrap() - 800_000.0 / unique as f64).abs() < 1e-9);
    let index = files.path("index");
    let forget = |args: &[&str]| -> Value {
        let args = [&["dedup", "forget", "--db", index.to_str().unwrap(), "--json"], args].concat();
        let (code, out, error) = files.siltstone(&args);
        // Nothing is left at the end.
        assert_eq!(code, Some(i32::from(args.ends_with(&["/"]))), "{error}");
        serde_json::from_str(&out).unwrap()
    };
    let forgotten = forget(&["--run", "1"]);
    // The second run saw the others.
    assert_eq!(numbers(&forgotten, ["files", "bytes", "unique_bytes"]), [1, 300_000, last_chunk]);
    let forgotten = forget(&[files.path("files/two").to_str().unwrap()]);
    assert_eq!(numbers(&forgotten, ["files", "unique_bytes"]), [1, 400_000]);
    fs::remove_file(files.path("files/three")).unwrap();
    assert_eq!(numbers(&forget(&["--missing"]), ["files", "unique_bytes"]), [1, 100_000]);
    assert_eq!(numbers(&forget(&["/"])["indexed"], ["files", "chunks", "unique_chunks"]), [0, 0, 0]);
    let (_, records, _) = files.siltstone(&["list", "--count", "--db", index.to_str().unwrap()]);
    assert_eq!(records, "0\n");
    assert_eq!(numbers(&first, ["run"]), [1]);
    assert_eq!(
        files.siltstone(&["dedup", "forget", "--db", index.to_str().unwrap(), "--run", "3"]).0,
        Some(2)
    );
    assert_eq!(files.siltstone(&["dedup", "forget", "--db", "none", "x"]).0, Some(3));
    assert!(!files.path("none").exists());
}

#[test]
fn excluded_files_and_further_hard_links_are_not_read() {
    let files = Files::new();
    files.write("keep/one", &noise(1, 100_000));
    files.write("keep/one.tmp", &noise(2, 100_000));
    files.write("target/two", &noise(3, 100_000));
    fs::hard_link(files.path("files/keep/one"), files.path("files/keep/same")).unwrap();
    let args = ["--exclude", "*.tmp", "--exclude", "target", "--one-file-system"];
    let report = files.dedup("index", &args);
    assert_eq!(numbers(&report, ["files", "files_linked", "bytes"]), [1, 1, 100_000]);
    let again = files.dedup("index", &args);
    assert_eq!(numbers(&again, ["files_unchanged", "files_linked", "bytes_read"]), [1, 1, 0]);
    let wrong = files.command("other", &["--exclude", "a[b"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(!files.path("other").exists());
}

#[test]
fn a_stream_is_indexed_by_its_name_and_the_next_one_replaces_it() {
    let files = Files::new();
    let here = files.directory.path();
    let dedup = |input: &[u8], name: &str| -> Value {
        let args = ["dedup", "--db", "index", "--stream-name", name, "--json", "-"];
        let output = run_with(here, input, &args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    // Longer than a block, so that several threads hash it.
    let long = noise(1, 3 << 20);
    let first = dedup(&long, "monday");
    assert_eq!(numbers(&first["indexed"], ["files", "bytes", "unique_bytes"]), [1, 3 << 20, 3 << 20]);
    let second = dedup(&[b"x", &long[..]].concat(), "tuesday");
    assert!(numbers(&second, ["new_bytes"])[0] < 100_000, "{second}");
    let replaced = dedup(b"short", "monday");
    assert_eq!(numbers(&replaced["indexed"], ["files", "bytes"]), [2, (3 << 20) + 6]);
    let (code, out, _) = files.siltstone(&["dedup", "forget", "--db", "index", "stream:tuesday"]);
    assert_eq!(code, Some(0));
    assert!(out.starts_with("forgot 1 file of 3145729 bytes"), "{out}");
    // Of two names, the index has one.
    let (code, out, _) =
        files.siltstone(&["dedup", "forget", "--db", "index", "stream:tuesday", "stream:monday"]);
    assert_eq!(code, Some(1));
    assert!(out.starts_with("forgot 1 file of 5 bytes"), "{out}");
}

#[test]
fn duplicates_are_listed_with_the_largest_first() {
    let files = Files::new();
    files.write("a", &noise(1, 300_000));
    files.write("b", &[noise(2, 50_000), noise(1, 300_000)].concat());
    files.write("c", &noise(3, 100_000));
    files.write("d", &noise(4, 900));
    files.write("e", &noise(4, 900));
    files.dedup("index", &["--threads", "1"]);
    let list = |args: &[&str]| -> Vec<Value> {
        let args = [&["dedup", "duplicates", "--db", "index", "--json"], args].concat();
        let (code, out, error) = files.siltstone(&args);
        assert_eq!(code, Some(0), "{error}");
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let path =
        |name: &str| files.path("files").canonicalize().unwrap().join(name).to_str().unwrap().to_owned();
    let lines = list(&[]);
    let paths: Vec<_> = lines.iter().map(|line| line["path"].as_str().unwrap().to_owned()).collect();
    assert_eq!(paths.len(), 4, "c has no duplicates: {lines:?}");
    let of = |name: &str| lines.iter().find(|line| line["path"] == path(name)).unwrap();
    assert_eq!((&of("b")["first_in"], &of("a")["first_in"]), (&path("a").into(), &Value::Null));
    assert_eq!((of("b")["bytes"].as_u64(), of("e")["duplicated_bytes"].as_u64()), (Some(350_000), Some(900)));
    assert_eq!(list(&["--limit", "2"]).len(), 2);
    let chunks = list(&["--chunks"]);
    let duplicated = |chunk: &Value| chunk["duplicated_bytes"].as_u64().unwrap();
    assert!(chunks.windows(2).all(|pair| duplicated(&pair[0]) >= duplicated(&pair[1])));
    let last = chunks.last().unwrap();
    assert_eq!(
        (&last["occurrences"], &last["bytes"], &last["first_in"]),
        (&2.into(), &900.into(), &path("d").into())
    );
}

#[test]
fn the_space_of_forgotten_files_is_free_after_a_compaction() {
    let files = Files::new();
    files.write("a", &noise(1, 4 << 20));
    files.write("b", &noise(2, 200_000));
    files.dedup("index", &SMALL_CHUNKS);
    let index = files.path("index");
    let compact = || {
        assert_eq!(files.siltstone(&["compact", "--db", index.to_str().unwrap()]).0, Some(0));
        size_of(&index.join("chunks")) + size_of(&index.join("files"))
    };
    let before = compact();
    let forgotten = files.path("files/a");
    let args = ["dedup", "forget", "--db", index.to_str().unwrap(), forgotten.to_str().unwrap()];
    assert_eq!(files.siltstone(&args).0, Some(0));
    let after = compact();
    assert!(before > 1_500_000 && after < before / 4, "{before} before, {after} after");
}
