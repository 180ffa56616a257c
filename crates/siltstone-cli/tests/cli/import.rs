//! What an import does with files as users have them: nothing is lost in silence, and every error has its place.

use crate::runner::{code, command, ends_with, objects, ok, result, run_with};
use flate2::{Compression, write::GzEncoder};
use std::fs;
use std::io::Write;
use std::path::Path;
use tempfile::tempdir;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// The records of the database, sorted: `key value` in hex.
fn records(here: &Path) -> Vec<String> {
    let mut lines: Vec<_> = ok(here, &["list", "--values", "--hex"]).lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn what_cannot_be_read_is_an_error_with_its_file_and_line() {
    let directory = tempdir().unwrap();
    let here = directory.path();
    let long = format!("a,1\n{},2\n", "k".repeat(65_536));
    let wide: Vec<u8> = "a,1\nb,2".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let marked = [&b"\xff\xfe"[..], &wide].concat();
    for (name, text, message) in [
        ("quote.csv", &b"k,v\na,\"1\nb,2\nc,3\n"[..], "the quote that begins in line 2 is never closed"),
        ("text.csv", b"a,1\nb,\"2\"x\n", "line 2: there is text after the closing quote in column 2"),
        ("more.csv", b"k,v\na,Smith, John\n", "line 2: the row has 3 fields"),
        ("fewer.tsv", b"a\t1\nb\n", "line 2: the row has 1 field,"),
        ("empty.csv", b"a,1\nb,2\n,3\n", "line 3: the key is empty"),
        ("long.csv", long.as_bytes(), "line 2: the key has 65536 bytes"),
        ("utf16.csv", &wide, "UTF-16LE"),
        ("mark.csv", &marked, "UTF-16LE"),
        ("mark.jsonl", &marked, "UTF-16LE"),
        ("bad.jsonl", b"{\"key\":\"a\",\"value\":\"\"}\n{]\n", "line 2: not a JSON record"),
        ("zip.csv", b"PK\x03\x04....", "zip"),
        ("one.csv", b"a;1\n", "--delimiter"),
    ] {
        fs::write(here.join(name), text).unwrap();
        for arguments in
            [&["import", name][..], &["import", "--bulk", name], &["dict", "build", "d.dict", name]]
        {
            let said = ends_with(3, here, arguments);
            assert!(said.contains(name) && said.contains(message), "{arguments:?}: {said}");
        }
        assert!(!here.join("d.dict").exists(), "{name}");
    }
}

#[test]
fn invalid_records_are_skipped_up_to_a_number_and_counted() {
    let directory = tempdir().unwrap();
    let here = directory.path();
    fs::write(here.join("rows.csv"), "a,1\n,2\nb\n\"c\"d,3\ne,5\n").unwrap();
    fs::write(
        here.join("lines.jsonl"),
        "{]\n{\"key\":\"f\",\"value\":\"6\"}\n{\"key\":\"\",\"value\":\"7\"}\n",
    )
    .unwrap();
    let import = |bad: &str| result(here, &["import", "--skip-bad", bad, "rows.csv", "lines.jsonl"]);
    let (code, said) = import("4");
    assert!(
        code == 3 && said.contains("lines.jsonl: line 3") && said.contains("4 invalid records skipped"),
        "{said}"
    );
    let (code, said) = import("5");
    assert_eq!(code, 0, "{said}");
    for part in [
        "rows.csv: line 2: the key is empty",
        "rows.csv: line 3",
        "rows.csv: line 4",
        "lines.jsonl: line 1",
        "5 invalid records skipped",
        "3 records imported",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(records(here), ["61\t31", "65\t35", "66\t36"]);
    // A quote that is never closed hides what follows, so it is not skipped.
    fs::write(here.join("quote.csv"), "a,1\nb,\"2\n").unwrap();
    ends_with(3, here, &["import", "--skip-bad", "9", "quote.csv"]);
    // The records of a database of fixed sizes are checked one by one as well.
    let fixed = ["import", "--db", "fixed", "--fixed", "1,1", "--skip-bad", "1", "--format", "csv"];
    let output = run_with(here, "a,1\nbb,2\nc,3\n", &fixed);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.success() && said.contains("line 2") && said.contains("2 records imported"),
        "{said}"
    );
}

#[test]
fn a_key_that_a_database_cannot_have_is_skipped_alone_also_when_keys_are_deleted() {
    let directory = tempdir().unwrap();
    let here = directory.path();
    for (name, shape) in [("fixed", ["--fixed", "8,1"].as_slice()), ("hashed", &["--hashed-keys"])] {
        let put = [&["import", "--db", name, "--format", "csv"], shape].concat();
        run_with(here, "key-0001,1\nkey-0002,2\nkey-0003,3\n", &put);
        let gone = "key-0001\nshort\nkey-0002\n";
        let delete = ["import", "--db", name, "--delete", "--format", "lines"];
        let output = run_with(here, gone, &[&delete[..], &["--skip-bad", "1"]].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.success() && said.contains("line 2") && said.contains("2 keys deleted"),
            "{said}"
        );
        // Without it, those before are deleted.
        let output = run_with(here, "key-0003\nshort\n", &delete);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(3) && said.contains("line 2"), "{said}");
        assert_eq!(ok(here, &["list", "--db", name, "--count"]), "0\n");
    }
}

#[test]
fn keys_without_values_are_imported_from_lines_and_tables() {
    let directory = tempdir().unwrap();
    let here = directory.path();
    let words = b"\xef\xbb\xbfapple\r\n\r\ncherry pie\r\n";
    fs::write(here.join("words.txt.gz"), gzip(words)).unwrap();
    assert_eq!(
        result(here, &["import", "--format", "lines", "words.txt.gz"]).1,
        "siltstone: 2 records imported\n"
    );
    assert_eq!(ok(here, &["get", "cherry pie"]), "");
    for options in [&["--no-values"][..], &["--value-column", ""], &["--value-column="]] {
        let output = run_with(here, "apple\npear\n", &[&["import", "--format", "tsv"], options].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(ok(here, &["list", "--count"]), "3\n");
    assert_eq!(ok(here, &["export", "--format", "lines", "--prefix", "p"]), "pear\n");
    ok(here, &["put", "pear", "sweet"]);
    ends_with(3, here, &["export", "--format", "lines", "--output", "exported"]);
    assert!(!here.join("exported").exists(), "values are not left out in silence");
    ok(here, &["dict", "build", "words.dict", "--format", "lines", "words.txt.gz"]);
    assert_eq!(code(here, &["dict", "get", "words.dict", "--quiet", "apple"]), 0);
}

#[test]
fn lists_of_keys_are_read_with_every_line_ending_mark_and_compression() {
    let directory = tempdir().unwrap();
    let here = directory.path();
    for (name, list) in [
        ("plain", b"a\nb\n".to_vec()),
        ("crlf", b"a\r\nb\r\n".to_vec()),
        ("mark", b"\xef\xbb\xbfa\nb".to_vec()),
        ("empty", b"a\n\nb\n\n".to_vec()),
        ("gzip", [gzip(b"a\n"), gzip(b"b\n"), vec![0; 9]].concat()),
        ("zstd", zstd::encode_all(&b"a\nb\n"[..], 3).unwrap()),
    ] {
        assert!(run_with(here, "a,1\nb,2\nc,3\n", &["import", "--format", "csv"]).status.success());
        fs::write(here.join(name), &list).unwrap();
        assert_eq!(ok(here, &["get", "--keys", name]), "a\t1\nb\t2\n", "{name}");
        let output = run_with(here, &list, &["get", "--keys", "-"]);
        assert_eq!(output.stdout, b"a\t1\nb\t2\n", "{name} as standard input");
        fs::write(here.join("rows.csv"), "a,1\nb,2\nc,3\n").unwrap();
        ok(here, &["dict", "build", "--force", "d.dict", "rows.csv"]);
        assert_eq!(ok(here, &["dict", "get", "d.dict", "--keys", name]), "a\t1\nb\t2\n", "{name}");
        ok(here, &["dict", "update", "d.dict", "--delete", name]);
        assert_eq!(code(here, &["dict", "get", "d.dict", "--quiet", "a"]), 1, "{name}");
        assert_eq!(
            result(here, &["delete", "--keys", name]),
            (0, "siltstone: 2 keys deleted\n".into()),
            "{name}"
        );
    }
    let wide: Vec<u8> = "a\nb\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    fs::write(here.join("wide"), wide).unwrap();
    assert!(ends_with(3, here, &["get", "--keys", "wide"]).contains("UTF-16LE"));
    fs::write(here.join("long"), format!("a\n{}\n", "k".repeat(70_000))).unwrap();
    assert!(ends_with(3, here, &["delete", "--keys", "long"]).contains("line 2"));
}

#[test]
fn columns_are_chosen_by_names_that_are_numbers_and_by_names_with_commas() {
    let directory = tempdir().unwrap();
    let here = directory.path();
    let table = "\"Name, full\",Code,2019,2020\nAruba,ABW,1,2\n";
    fs::write(here.join("wb.csv"), table).unwrap();
    let import = |columns: &[&str]| {
        ok(here, &[&["import", "wb.csv", "--key-column", "Code"], columns].concat());
        ok(here, &["get", "ABW"])
    };
    assert_eq!(import(&["--value-column", "2020"]), "2");
    assert_eq!(import(&["--value-column", "name:2019"]), "1");
    assert_eq!(import(&["--value-column", "number:1"]), "Aruba");
    assert_eq!(import(&["--value-column", "\"Name, full\",2020"]), "Aruba,2");
    ends_with(3, here, &["import", "wb.csv", "--key-column", "Code", "--value-column", "2021"]);
    let semicolons = run_with(here, "x;1,5\n", &["import", "--format", "csv", "--delimiter", ";"]);
    assert!(semicolons.status.success());
    assert_eq!(ok(here, &["get", "x"]), "1,5");
    for options in [
        &["--format", "tsv", "--delimiter", ";"][..],
        &["--format", "csv", "--null", "x"],
        &["--format", "lines", "--key-column", "2"],
        &["--format", "jsonl", "--header"],
    ] {
        let output = run_with(here, "", &[&["import"], options].concat());
        assert_eq!(output.status.code(), Some(2), "an option without effect is wrong usage: {options:?}");
    }
    let own = "{\"id\":7,\"name\":\"Ada\",\"born\":1815}\n";
    let output = run_with(here, own, &["import", "--key-column", "id", "--value-column", "name,born"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(ok(here, &["get", "7"]), "{\"name\":\"Ada\",\"born\":1815}");
}

#[test]
fn expiry_times_survive_every_format_and_expired_records_are_mentioned() {
    let directory = tempdir().unwrap();
    let here = directory.path();
    ok(here, &["put", "--expires-in", "30d", "a", "1"]);
    let before = objects(here, &["list", "--values", "--json"]);
    assert!(before[0]["expires_at_ms"].is_u64());
    for format in ["csv", "tsv", "jsonl", "binary"] {
        ok(here, &["export", "--format", format, "--output", "exported"]);
        ok(here, &["import", "--format", format, "--db", format, "exported"]);
        assert_eq!(objects(here, &["list", "--values", "--json", "--db", format]), before, "{format}");
    }
    let seconds = "{\"key\":\"old\",\"value\":\"1\",\"expires_at_ms\":1700000000}\n";
    for options in [&["import"][..], &["import", "--bulk"]] {
        let said = String::from_utf8(run_with(here, seconds, options).stderr).unwrap();
        assert!(said.contains("1 record had already expired") && said.contains("milliseconds"), "{said}");
    }
}

#[test]
fn a_row_without_an_end_takes_no_more_memory_than_the_longest_row() {
    let directory = tempdir().unwrap();
    let here = directory.path();
    // A gibibyte of the same byte, in a row of CSV, in a line of JSON, and in a line that is a key.
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let mebibyte = vec![b'x'; 1 << 20];
    (0..1024).for_each(|_| encoder.write_all(&mebibyte).unwrap());
    fs::write(here.join("bomb.gz"), encoder.finish().unwrap()).unwrap();
    for (format, limit_kib) in [("csv", 700_000), ("jsonl", 1_300_000), ("lines", 200_000)] {
        let siltstone = command(here, &["import", "--format", format, "bomb.gz"]);
        let limited = std::process::Command::new("sh")
            .args(["-c", &format!("ulimit -v {}; exec \"$@\"", limit_kib + 200_000), "sh"])
            .arg(siltstone.get_program())
            .args(siltstone.get_args())
            .envs(siltstone.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .current_dir(here)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&limited.stderr).into_owned();
        assert!(
            limited.status.code() == Some(3) && said.contains("bomb.gz") && said.contains("maximum"),
            "{format}: {said}"
        );
    }
}

#[test]
fn the_command_works_where_no_thread_can_be_started() {
    let directory = tempdir().unwrap();
    let here = directory.path();
    ok(here, &["put", "a", "1"]);
    for arguments in
        [&["get", "a"][..], &["list"], &["put", "b", "2"], &["import", "--format", "csv", "/dev/null"]]
    {
        let siltstone = command(here, arguments);
        // The stack of a thread does not fit.
        let limited = std::process::Command::new("sh")
            .args(["-c", "ulimit -v 120000; exec \"$@\"", "sh"])
            .arg(siltstone.get_program())
            .args(siltstone.get_args())
            .env("RUST_MIN_STACK", "1000000000")
            .envs(siltstone.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .current_dir(here)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&limited.stderr).into_owned();
        assert!(limited.status.success() && !said.contains("panicked"), "{arguments:?}: {said}");
    }
}
