//! `siltstone dedup` on trees as a nightly job meets them: odd names, holes, what is gone, and databases of two
//! moments.

use crate::runner::{code, command, objects, ok, result, run};
use data_encoding::BASE64;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use tempfile::tempdir;

fn report(here: &Path, arguments: &[&str]) -> Value {
    let arguments = [&["dedup", "--db", "index", "--json"], arguments].concat();
    serde_json::from_slice(&run(here, &arguments).stdout).unwrap()
}

fn text(byte: u8, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3] ^ byte).collect()
}

#[test]
fn names_are_escaped_in_lists_and_exact_in_json() {
    let directory = tempdir().unwrap();
    let here = directory.path();
    fs::create_dir(here.join("tree")).unwrap();
    let names = [&b"plain"[..], b"bad\xff", b"bad\xfe", b"esc\x1b[31m", b"x\n99\t99\tanother"];
    for name in names {
        fs::write(here.join("tree").join(OsStr::from_bytes(name)), text(0, 5000)).unwrap();
    }
    let (code_now, said) = result(here, &["dedup", "--db", "index", "--verbose", "--quiet", "tree"]);
    assert_eq!(code_now, 2, "{said}");
    let (code_now, said) = result(here, &["dedup", "--db", "index", "--verbose", "tree"]);
    assert!(code_now == 0 && !said.contains('\x1b') && said.contains("esc\\x1b[31m"), "{said}");
    let lines = ok(here, &["dedup", "duplicates", "--db", "index"]);
    assert_eq!(lines.lines().count(), names.len(), "{lines}");
    assert!(
        !lines.contains('\x1b') && lines.contains("bad\\xff") && lines.contains("x\\n99\\t99"),
        "{lines}"
    );
    let mut paths: Vec<Vec<u8>> = objects(here, &["dedup", "duplicates", "--db", "index", "--json"])
        .iter()
        .map(|line| match line["path"].as_str() {
            Some(path) => path.as_bytes().to_vec(),
            None => BASE64.decode(line["path_base64"].as_str().unwrap().as_bytes()).unwrap(),
        })
        .collect();
    paths.sort();
    let root = here.canonicalize().unwrap().join("tree");
    let mut expected: Vec<_> =
        names.map(|name| root.join(OsStr::from_bytes(name)).as_os_str().as_bytes().to_vec()).into();
    expected.sort();
    assert_eq!(paths, expected);
    let raw = run(here, &["dedup", "duplicates", "--db", "index", "-0"]).stdout;
    let mut raw: Vec<_> =
        raw.split(|&byte| byte == 0).filter(|path| !path.is_empty()).map(<[u8]>::to_vec).collect();
    raw.sort();
    assert_eq!(raw, expected);
    // What a list prints is what `forget` reads.
    let escaped = lines.lines().find(|line| line.contains("bad\\xff")).unwrap().split('\t').nth(2).unwrap();
    assert_eq!(code(here, &["dedup", "forget", "--db", "index", "--escaped", escaped]), 0);
    assert_eq!(ok(here, &["dedup", "duplicates", "--db", "index"]).lines().count(), names.len() - 1);
}

#[test]
fn relative_patterns_exclude_and_what_matches_nothing_is_mentioned() {
    let directory = tempdir().unwrap();
    let here = directory.path();
    for name in ["src/target/x", "src/deep/src/target/y", "src/z", "empty/.keep"] {
        fs::create_dir_all(here.join(name).parent().unwrap()).unwrap();
        fs::write(here.join(name), name).unwrap();
    }
    fs::remove_file(here.join("empty/.keep")).unwrap();
    assert_eq!(report(here, &["--exclude", "src/target", "src"])["files"], 1);
    assert_eq!(report(here, &["--exclude", "./src/target/", "src"])["files"], 2);
    let (code, said) = result(here, &["dedup", "--db", "index", "--exclude", "scr/target", "src", "empty"]);
    assert_eq!(code, 0);
    assert!(
        said.contains("--exclude scr/target: matches nothing") && said.contains("/empty: there is no file"),
        "{said}"
    );
}

#[test]
fn special_files_are_refused_as_paths_and_skipped_below_them() {
    let directory = tempdir().unwrap();
    let here = directory.path();
    fs::create_dir(here.join("tree")).unwrap();
    fs::write(here.join("tree/file"), "text").unwrap();
    symlink("loop", here.join("tree/loop")).unwrap();
    assert!(Command::new("mkfifo").arg(here.join("tree/pipe")).status().unwrap().success());
    for (path, kind) in [("tree/pipe", "a pipe"), ("/dev/zero", "a device"), ("tree/loop", "cannot find")] {
        let (code, said) = result(here, &["dedup", "--db", "other", path]);
        assert!(code == 3 && said.contains(kind), "{code}: {said}");
        let (code, said) = result(here, &["dedup", "--db", "index", path, "tree"]);
        assert!(
            code == 1 && said.contains(kind) && said.contains("1 path could not be read"),
            "{code}: {said}"
        );
    }
    assert_eq!(report(here, &["tree"])["files_unchanged"], 1);
}

#[test]
fn holes_are_not_read_and_take_no_chunks() {
    let directory = tempdir().unwrap();
    let here = directory.path();
    let file = fs::File::create(here.join("sparse")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &text(1, 10_000), 1 << 40).unwrap();
    file.set_len(3 << 40).unwrap();
    drop(file);
    let first = report(here, &["sparse"]);
    assert_eq!((&first["bytes"], &first["indexed"]["bytes"]), (&(3u64 << 40).into(), &(3u64 << 40).into()));
    assert!(
        first["bytes_read"].as_u64().unwrap() < 1 << 20 && first["chunks"].as_u64().unwrap() < 100,
        "{first}"
    );
    assert_eq!(report(here, &["sparse"])["files_unchanged"], 1);
    ok(here, &["dedup", "forget", "--db", "index", "sparse"]);
    let empty = report(here, &["--exclude", "sparse", "."]);
    assert_eq!(empty["indexed"]["bytes"], 0);
}

#[test]
fn files_of_a_drive_that_is_not_mounted_are_not_forgotten_and_a_dry_run_changes_nothing() {
    let directory = tempdir().unwrap();
    let here = directory.path();
    for name in ["drive/a", "drive/b", "other/c", "other/d"] {
        fs::create_dir_all(here.join(name).parent().unwrap()).unwrap();
        fs::write(here.join(name), name).unwrap();
    }
    report(here, &["drive", "other"]);
    fs::remove_dir_all(here.join("drive")).unwrap();
    fs::remove_file(here.join("other/c")).unwrap();
    let missing = ["dedup", "forget", "--db", "index", "--missing"];
    let dry = run(here, &[&missing[..], &["--dry-run"]].concat());
    let listed = String::from_utf8(dry.stdout).unwrap();
    assert!(listed.lines().count() == 1 && listed.trim_end().ends_with("other/c"), "{listed}");
    for empty in [false, true] {
        if empty {
            fs::create_dir(here.join("drive")).unwrap();
        }
        let (code, said) = result(here, &missing);
        assert!(
            code == 1
                && said.contains("drive: the directory is missing or empty")
                && said.contains("2 files kept"),
            "{said}"
        );
    }
    assert_eq!(report(here, &["other"])["indexed"]["files"], 3);
    // A link to itself where a file was is a file that is missing.
    fs::remove_file(here.join("other/d")).unwrap();
    symlink("d", here.join("other/d")).unwrap();
    fs::write(here.join("other/e"), "e").unwrap();
    ok(here, &[&missing[..], &["--unmounted"]].concat());
    assert_eq!(report(here, &["other"])["indexed"]["files"], 1);
}

#[test]
fn runs_are_listed_with_their_dates() {
    let directory = tempdir().unwrap();
    let here = directory.path();
    fs::write(here.join("a"), "text").unwrap();
    ok(here, &["dedup", "--db", "index", "a"]);
    assert_eq!(ok(here, &["dedup", "--quiet", "--db", "index", "a"]), "");
    let runs = objects(here, &["dedup", "runs", "--db", "index", "--json"]);
    assert_eq!((runs.len(), &runs[1]["run"], &runs[1]["files"]), (2, &2.into(), &1.into()));
    assert!(runs[0]["started_at_ms"].as_u64().unwrap() > 1_600_000_000_000);
    assert!(ok(here, &["dedup", "runs", "--db", "index"]).lines().next().unwrap().starts_with("1\t20"));
}

#[test]
fn the_report_of_each_run_is_printed_again() {
    let directory = tempdir().unwrap();
    let here = directory.path();
    fs::write(here.join("a"), text(1, 50_000)).unwrap();
    let printed = [&["--json"][..], &["--verbose"], &[]]
        .map(|options| ok(here, &[&["dedup", "--db", "index", "a"], options].concat()));
    let again = |options: &[&str]| ok(here, &[&["dedup", "report", "--db", "index"], options].concat());
    assert_eq!(again(&["--run", "1", "--json"]), printed[0]);
    assert_eq!(again(&["--run", "2", "--verbose"]), printed[1]);
    assert_eq!(again(&[]), printed[2], "the last one");
    assert!(printed[2].contains("run 3, 2"), "{}", printed[2]);
    let (code_now, said) = result(here, &["dedup", "report", "--db", "index", "--run", "4"]);
    assert!(code_now == 2 && said.contains("dedup runs"), "{said}");
    // An index of an earlier version has no reports.
    ok(here, &["delete", "--db", "index/files", "--hex", "0400000001"]);
    let entry = again(&["--run", "1"]);
    assert!(entry.contains("run 1, 2") && entry.contains("50,000") && entry.contains("no report"), "{entry}");
    assert_eq!(
        objects(here, &["dedup", "report", "--db", "index", "--run", "1", "--json"])[0]["bytes"],
        50_000
    );
    // A path with the name of the command.
    fs::write(here.join("report"), "text").unwrap();
    assert_eq!(report(here, &["./report"])["files_new"], 1);
    let (code_now, said) = result(here, &["dedup", "report", "--db", "none"]);
    assert!(code_now == 3 && said.contains("no index here"), "{said}");
}

#[test]
fn a_repair_says_that_the_next_run_counts_again_and_the_run_says_what_it_does() {
    let directory = tempdir().unwrap();
    let here = directory.path();
    fs::write(here.join("a"), text(1, 50_000)).unwrap();
    report(here, &["a"]);
    // What a repair that was stopped leaves counts as a loss.
    fs::write(here.join("index/repair-incomplete"), "").unwrap();
    let (code_now, said) = result(here, &["repair", "index"]);
    assert!(code_now == 0 && said.contains("the next `siltstone dedup` counts the references"), "{said}");
    let (_, said) = result(here, &["dedup", "--db", "index", "--quiet", "a"]);
    assert!(said.contains("in four steps") && said.contains("counted the references of 1 file"), "{said}");
    assert!(ok(here, &["dedup", "report", "--db", "index"]).contains("counted references after a repair"));
}

#[test]
fn an_index_is_no_place_for_its_own_copy() {
    let directory = tempdir().unwrap();
    let here = directory.path();
    fs::write(here.join("a"), text(1, 50_000)).unwrap();
    report(here, &["a"]);
    for inside in ["index/copy", "index/chunks/copy", "index", "index/../index/copy"] {
        let (code_now, said) = result(here, &["checkpoint", "--db", "index", inside]);
        assert!(code_now != 0 && said.contains("index"), "{inside}: {said}");
    }
    assert_eq!(report(here, &["a"])["files_unchanged"], 1, "the index is as before");
}

#[test]
fn an_index_and_a_database_keep_within_their_memory() {
    let directory = tempdir().unwrap();
    let here = directory.path();
    fs::write(here.join("a"), text(1, 500_000)).unwrap();
    let limited = report(here, &["--memory", "8MiB", "a"]);
    let [chunks, files] =
        ["ram_bytes_max", "catalogue_ram_bytes"].map(|name| limited[name].as_u64().unwrap());
    assert!(chunks <= 6 << 20 && files <= 2 << 20, "{limited}");
    let (code_now, said) = result(here, &["dedup", "--db", "index", "--memory", "1KiB", "a"]);
    assert!(
        code_now == 2 && said.contains("--memory: the chunks have three quarters of the 1024 bytes"),
        "{said}"
    );
    ok(here, &["put", "--memory", "8MiB", "k", "v"]);
    for spelling in ["--memory", "--memory-budget", "--memory_budget"] {
        let args = ["bench", "db", "--num", "10", "--benchmarks", "fillrandom", spelling, "8MiB", "--json"];
        assert!(!ok(here, &args).is_empty());
    }
}

#[test]
fn databases_of_different_moments_are_refused_until_a_repair_accepts_it() {
    for older in ["chunks", "files"] {
        let directory = tempdir().unwrap();
        let here = directory.path();
        fs::write(here.join("a"), text(1, 50_000)).unwrap();
        fs::write(here.join("b"), text(2, 50_000)).unwrap();
        report(here, &["a"]);
        ok(here, &["checkpoint", "--db", "index", "copy"]);
        let whole = report(here, &["a", "b"]);
        assert_eq!(code(here, &["verify", "index"]), 0);
        fs::remove_dir_all(here.join("index").join(older)).unwrap();
        let copied = Command::new("cp")
            .arg("-r")
            .args([format!("copy/{older}"), "index".to_owned()])
            .current_dir(here)
            .status();
        assert!(copied.unwrap().success());
        for arguments in [&["dedup", "--db", "index", "a"][..], &["dedup", "duplicates", "--db", "index"]] {
            let (code, said) = result(here, arguments);
            assert!(
                code == 3 && said.contains(&format!("{older} is older")) && said.contains("siltstone repair"),
                "{said}"
            );
        }
        let (code, said) = result(here, &["verify", "index"]);
        assert!(code == 1 && said.contains("not of one moment"), "{said}");
        let repaired = command(here, &["repair", "index"]).output().unwrap();
        assert!(String::from_utf8_lossy(&repaired.stderr).contains("accepted"), "{repaired:?}");
        let (code, said) = result(here, &["dedup", "--db", "index", "a", "b"]);
        assert!(code == 0 && said.contains("counting the references of all files again"), "{said}");
        assert_eq!(report(here, &["a", "b"])["indexed"], whole["indexed"], "{older}");
        assert_eq!(code_of_verify(here), 0);
    }
}

fn code_of_verify(here: &Path) -> i32 {
    code(here, &["verify", "index"])
}
