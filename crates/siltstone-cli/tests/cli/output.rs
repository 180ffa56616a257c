//! Where results go, what remains after a signal, and what a benchmark reports about its machine.

use crate::runner::{bytes, command, run_with};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command};
use tempfile::TempDir;

fn signal(name: &str, child: &Child) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

/// Waits for a condition while the child runs.
fn wait_until(child: &mut Child, is_so: impl Fn() -> bool) {
    while !is_so() {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before");
        std::thread::yield_now();
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Creates a database with this many records of 1,000 bytes, and a dictionary of one record.
fn filled(records: u32) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let line = |number: u32| format!("{{\"key\":\"{number}\",\"value\":\"{number:0>1000}\"}}\n");
    let lines: String = (0..records).map(line).collect();
    assert!(run_with(directory.path(), &lines, &["import"]).status.success());
    assert!(run_with(directory.path(), line(1), &["dict", "build", "a.dict"]).status.success());
    directory
}

/// The commands that write a file. They share one implementation.
const WRITERS: [&[&str]; 3] = [&["export"], &["dict", "export", "a.dict"], &["get", "1"]];

#[test]
fn only_plain_files_are_replaced() {
    let directory = filled(2);
    let here = directory.path();
    for writer in WRITERS {
        let expected = bytes(here, writer);
        let to = |name: &'static str| [writer, &["--output", name]].concat();
        fs::write(here.join("plain"), b"what was there before, which may be longer".repeat(100)).unwrap();
        fs::set_permissions(here.join("plain"), PermissionsExt::from_mode(0o640)).unwrap();
        bytes(here, &to("plain"));
        bytes(here, &to("new"));
        for name in ["plain", "new"] {
            assert_eq!(fs::read(here.join(name)).unwrap(), expected, "{writer:?} to {name}");
        }
        let mode = fs::metadata(here.join("plain")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640, "{writer:?}");

        // A link stays a link; its target is replaced or created.
        fs::create_dir_all(here.join("elsewhere")).unwrap();
        fs::write(here.join("elsewhere/target"), "before").unwrap();
        symlink("elsewhere/target", here.join("direct")).unwrap();
        symlink("direct", here.join("link")).unwrap();
        symlink("elsewhere/none", here.join("dangling")).unwrap();
        bytes(here, &to("link"));
        bytes(here, &to("dangling"));
        for (link, target) in [("link", "elsewhere/target"), ("dangling", "elsewhere/none")] {
            assert!(fs::symlink_metadata(here.join(link)).unwrap().is_symlink(), "{writer:?} to {link}");
            assert_eq!(fs::read(here.join(target)).unwrap(), expected, "{writer:?} to {link}");
        }

        // Pipes and devices are written to directly.
        assert!(Command::new("mkfifo").arg(here.join("pipe")).status().unwrap().success());
        let reader = here.join("pipe");
        let reader = std::thread::spawn(move || fs::read(reader).unwrap());
        bytes(here, &to("pipe"));
        assert_eq!(reader.join().unwrap(), expected, "{writer:?}");
        assert!(fs::metadata(here.join("pipe")).unwrap().file_type().is_fifo(), "{writer:?}");
        symlink("/dev/null", here.join("null")).unwrap();
        bytes(here, &to("null"));
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device(), "{writer:?}");
        assert!(run_with(here, "", &to("elsewhere")).status.code() == Some(3), "a directory is not a file");
        for name in ["plain", "new", "direct", "link", "dangling", "pipe", "null"] {
            fs::remove_file(here.join(name)).unwrap();
        }
        fs::remove_dir_all(here.join("elsewhere")).unwrap();
        assert_eq!(names(here), ["a.dict", "db"], "{writer:?} leaves nothing behind");
    }
}

#[test]
fn standard_output_by_its_name_keeps_what_it_has() {
    let directory = filled(2);
    for writer in WRITERS {
        let expected = bytes(directory.path(), writer);
        for name in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
            if !Path::new(name).exists() {
                continue;
            }
            let args = [writer, &["--output", name]].concat();
            assert_eq!(bytes(directory.path(), &args), expected, "{args:?} to a pipe");
            let path = directory.path().join("all");
            let mut file = File::create(&path).unwrap();
            file.write_all(b"before ").unwrap();
            let mut command = command(directory.path(), &args);
            assert!(command.stdout(file.try_clone().unwrap()).status().unwrap().success());
            file.write_all(b" after").unwrap();
            let whole = [b"before ", &expected[..], b" after"].concat();
            assert_eq!(fs::read(&path).unwrap(), whole, "{args:?} to a file");
        }
    }
}

#[test]
fn a_stopped_export_leaves_nothing_and_keeps_what_was_there() {
    let directory = filled(20_000);
    let here = directory.path();
    fs::write(here.join("all"), "before").unwrap();
    for name in ["-INT", "-TERM"] {
        let mut child = command(here, &["export", "--output", "all"]).spawn().unwrap();
        // The file has a temporary name while it is written.
        wait_until(&mut child, || names(here).len() == 4);
        signal(name, &child);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{name}: {output:?}");
        assert_eq!(names(here), ["a.dict", "all", "db"], "{name}");
        assert_eq!(fs::read(here.join("all")).unwrap(), b"before", "{name}");
    }
}

#[test]
fn an_import_that_waits_says_so_and_ends_at_the_first_signal() {
    let directory = tempfile::tempdir().unwrap();
    for args in [&["import"][..], &["dict", "build", "a.dict"]] {
        let mut child = command(directory.path(), args).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("waiting for standard input"), "{args:?}: {line}");
        signal("-INT", &child);
        assert_eq!(child.wait().unwrap().code(), Some(130), "{args:?}");
        drop(input);
        assert_eq!(names(directory.path()), ["db"], "{args:?}");
    }
    // More than a pipe holds: when the write returns, the command has read a part and waits for more.
    let record = |number: u32| format!("{{\"key\":\"{number}\",\"value\":\"{number:0>1000}\"}}\n");
    let mut child = command(directory.path(), &["import"]).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all((0..300).map(record).collect::<String>().as_bytes()).unwrap();
    signal("-INT", &child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(input);
    let kept = String::from_utf8(bytes(directory.path(), &["list"])).unwrap();
    assert!(kept.lines().any(|key| key == "0"), "what came before is kept: {kept}");
    assert_eq!(run_with(directory.path(), "", &["import"]).status.code(), Some(0), "an input may be empty");
}

#[test]
fn a_benchmark_says_where_it_ran() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let sizes = ["--num", "300", "--key-size", "12", "--value-size", "34", "--benchmarks", "fillrandom"];
    let database = [&["bench", "db"], &sizes[..]].concat();
    let ycsb = ["bench", "ycsb", "--records", "100", "--operations", "100", "--field-length", "34"];
    let dict = ["bench", "dict", "--keys", "1e3", "--lookups", "10", "--value-size", "34"];
    for args in [&database[..], &ycsb, &dict] {
        let text = String::from_utf8(bytes(here, args)).unwrap();
        let first = text.lines().next().unwrap();
        assert!(first.contains("siltstone-bench-") && first.contains("34 bytes"), "{first}");
        let json = String::from_utf8(bytes(here, &[args, &["--json"]].concat())).unwrap();
        let report: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
        assert!(report["place"]["directory"].as_str().unwrap().contains("siltstone-bench-"), "{report}");
        assert!(report["engine"].is_string(), "{report}");
        if Path::new("/proc/self/mountinfo").exists() {
            assert!(report["place"]["file_system"].is_string() && report["place"]["device"].is_string());
            assert!(first.contains(report["place"]["file_system"].as_str().unwrap()), "{first}");
        }
    }
    let named = String::from_utf8(bytes(here, &[&database[..], &["--db", "named"]].concat())).unwrap();
    assert!(named.starts_with("named"), "{named}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_benchmark_in_memory_is_not_a_benchmark_of_a_drive() {
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else { return };
    let mut command = command(memory.path(), &["bench", "db", "--num", "10", "--benchmarks", "fillrandom"]);
    let output = command.env("TMPDIR", memory.path()).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && message.contains("memory") && message.contains("tmpfs"), "{message}");
}

#[test]
fn a_second_signal_leaves_no_temporary_directory() {
    let directory = tempfile::tempdir().unwrap();
    let above = directory.path().join("temporary");
    fs::create_dir(&above).unwrap();
    let args = ["bench", "db", "--num", "1e9", "--value-size", "1", "--benchmarks", "fillrandom"];
    let mut child = command(directory.path(), &args).env("TMPDIR", &above).spawn().unwrap();
    let has_begun =
        || fs::read_dir(&above).unwrap().any(|entry| entry.unwrap().path().join("db/MANIFEST").exists());
    wait_until(&mut child, has_begun);
    // Nothing remains, whether or not the first signal has already ended the command.
    signal("-INT", &child);
    let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).output().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(names(&above), [""; 0]);
}
