//! `siltstone dict` on the command line.

use crate::runner::{command, run_with};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

struct Bench {
    directory: TempDir,
}

impl Bench {
    fn new() -> Bench {
        Bench { directory: tempfile::tempdir().unwrap() }
    }

    fn command(&self, args: &[&str]) -> Command {
        command(self.directory.path(), &[&["dict"], args].concat())
    }

    fn run(&self, input: &str, args: &[&str]) -> Output {
        run_with(self.directory.path(), input, &[&["dict"], args].concat())
    }

    /// Runs a command that must succeed, and returns its standard output.
    fn ok(&self, input: &str, args: &[&str]) -> String {
        let output = self.run(input, args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command that must fail, and returns its standard error.
    fn fails(&self, input: &str, args: &[&str]) -> String {
        let output = self.run(input, args);
        assert_eq!(output.status.code(), Some(3), "{args:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    fn code(&self, args: &[&str]) -> i32 {
        self.run("", args).status.code().unwrap()
    }

    fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.directory.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.directory.path().join(name), text).unwrap();
    }
}

#[test]
fn a_table_becomes_a_dictionary_whose_keys_are_found() {
    let bench = Bench::new();
    bench.write("people.csv", "id,name,note\n7,Ada,\"a, b\"\n8,Ben,x\n");
    let message =
        bench.ok("", &["build", "p.dict", "people.csv", "--key-column", "name", "--value-column", "note"]);
    assert!(message.contains("records  2"), "{message}");
    assert_eq!(bench.ok("", &["get", "p.dict", "Ada"]), "a, b");
    assert_eq!(bench.ok("", &["get", "p.dict", "Ada", "Ben"]), "Ada\ta, b\nBen\tx\n");
    assert_eq!(bench.ok("", &["get", "p.dict", "--without-index", "--hex", "416461"]), "612c2062\n");
    assert_eq!(bench.code(&["get", "p.dict", "Eve"]), 1);
    assert_eq!(bench.code(&["get", "p.dict", "--quiet", "Ben", "Eve"]), 1);
    let output = bench.run("Ben\nEve\nAda\n", &["get", "p.dict", "--keys", "-"]);
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(1), &b"Ben\tx\nAda\ta, b\n"[..]));
    assert_eq!(bench.files(), ["p.dict", "people.csv"]);
}

#[test]
fn an_export_in_any_format_builds_the_same_dictionary() {
    let bench = Bench::new();
    let lines: String = (0..3000)
        .map(|number| format!("{{\"key\":\"key {number}\",\"value_hex\":\"{number:08x}\"}}\n"))
        .collect();
    bench.ok(&lines, &["build", "a.dict", "--memory", "64KiB", "--block-bytes", "512"]);
    for (format, notation) in
        [("binary", ""), ("jsonl", ""), ("csv", ""), ("tsv", "--hex"), ("tsv", "--escaped")]
    {
        let notation: &[&str] = if notation.is_empty() { &[] } else { &[notation] };
        let file = format!("all.{format}");
        bench.ok("", &[&["export", "a.dict", "--format", format, "--output", &file], notation].concat());
        bench.ok("", &[&["build", "b.dict", "--format", format, "--force", &file], notation].concat());
        assert_eq!(bench.ok("", &["get", "b.dict", "--hex", "6b65792032393939"]), "00000bb7\n");
        assert!(bench.ok("", &["verify", "b.dict"]).starts_with("3000 live records"), "{format}");
    }
    let info = bench.ok("", &["info", "a.dict", "--json"]);
    assert!(info.contains("\"records\":3000") && info.contains("\"index\":\"fences\""), "{info}");
}

#[test]
fn updates_add_and_remove_and_reindexing_keeps_everything() {
    let bench = Bench::new();
    let rows = |numbers: std::ops::Range<u32>, value: &str| -> String {
        numbers.map(|number| format!("{number:08},{value}\n")).collect()
    };
    let build = ["build", "a.dict", "--format", "csv", "--fixed", "8,3"];
    bench.ok(&rows(0..1000, "old"), &build);
    bench.write("gone.txt", "00000001\n00000002\n");
    bench.write("new.csv", &rows(2..4, "new"));
    bench.ok("", &["update", "a.dict", "--delete", "gone.txt", "new.csv"]);
    assert_eq!(bench.code(&["get", "a.dict", "00000001"]), 1);
    assert_eq!(bench.ok("", &["get", "a.dict", "00000002", "00000004"]), "00000002\tnew\n00000004\told\n");
    bench.ok("", &["update", "a.dict", "--delete", "gone.txt", "--output", "b.dict"]);
    assert_eq!(
        (bench.code(&["get", "a.dict", "00000002"]), bench.code(&["get", "b.dict", "00000002"])),
        (0, 1)
    );
    for index in ["dense_trie", "none", "sparse_trie", "fences"] {
        let message = bench.ok("", &["reindex", "a.dict", "--index", index]);
        assert!(message.contains(&format!("index    {index}")), "{message}");
        assert!(bench.ok("", &["verify", "a.dict"]).starts_with("999 live records"));
        assert_eq!(bench.ok("", &["get", "a.dict", "00000999"]), "old");
    }
}

#[test]
fn files_are_neither_overwritten_nor_left_over() {
    let bench = Bench::new();
    bench.write("words.csv", "a,1\nb,2\n");
    bench.ok("", &["build", "a.dict", "words.csv"]);
    assert!(bench.fails("", &["build", "a.dict", "words.csv"]).contains("--force"));
    bench.ok("", &["build", "a.dict", "words.csv", "--force"]);
    let message = bench.fails("", &["build", "words.csv", "a.dict", "--force"]);
    assert!(message.contains("words.csv") && message.contains("not a dictionary"), "{message}");
    let message = bench.fails("a,1\nb\n", &["build", "b.dict", "--format", "csv"]);
    assert!(message.contains("line 2") && message.contains("1 field"), "{message}");
    let message = bench.fails("a,1\n,2\n", &["build", "b.dict", "--format", "csv"]);
    assert!(message.contains("line 2: the key is empty"), "{message}");
    let message = bench.fails("a,1\na,2\n", &["build", "b.dict", "--format", "csv", "--refuse-duplicates"]);
    assert!(message.contains("twice"), "{message}");
    let output = bench.run("", &["build", "b.dict", "--index", "dense-trie", "words.csv"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && message.contains("fixed size"), "{message}");
    assert!(bench.fails("", &["info", "missing.dict"]).contains("missing.dict"));
    assert!(bench.fails("", &["info", "words.csv"]).contains("words.csv"));
    assert_eq!(bench.files(), ["a.dict", "words.csv"]);
}

#[test]
fn expired_records_are_skipped_and_reported() {
    let bench = Bench::new();
    let lines = "{\"key\":\"a\",\"value\":\"1\",\"expires_at_ms\":1}\n\
                 {\"key\":\"b\",\"value\":\"2\",\"expires_at_ms\":99999999999999}\n";
    let output = bench.run(lines, &["build", "a.dict"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.success() && message.contains("2 records had") && message.contains("1 of them"),
        "{message}"
    );
    assert_eq!(bench.ok("", &["export", "a.dict", "--format", "csv"]), "key,value,expires_at_ms\nb,2,\n");
}

#[test]
fn damage_is_reported_with_its_place_and_exit_code_1() {
    let bench = Bench::new();
    bench.ok("a,1\nb,2\n", &["build", "a.dict", "--format", "csv"]);
    let path = bench.directory.path().join("a.dict");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[4096 + 20] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let output = bench.run("", &["verify", "a.dict"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(1) && message.contains("a.dict: blocks damaged, bytes 4096 to 8192"),
        "{message}"
    );
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_a_build_at_once_and_leaves_no_file() {
    let bench = Bench::new();
    bench.ok("a,1\n", &["build", "a.dict", "--format", "csv"]);
    let before = std::fs::read(bench.directory.path().join("a.dict")).unwrap();
    let mut child =
        bench.command(&["build", "a.dict", "--force", "--format", "csv", "--memory", "1M"]).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    // Enough to be read and sorted in several runs before anything is written.
    let rows: String = (0..60_000).map(|number| format!("{number},{number:0>60}\n")).collect();
    input.write_all(rows.as_bytes()).unwrap();
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    // Whole rows: the command continues to read until it notices the signal.
    let whole_rows = rows[..1 << 16].rfind('\n').map_or(0, |end| end + 1);
    while input.write_all(&rows.as_bytes()[..whole_rows]).is_ok() {}
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(bench.files(), ["a.dict"]);
    assert_eq!(std::fs::read(Path::new(bench.directory.path()).join("a.dict")).unwrap(), before);
}
