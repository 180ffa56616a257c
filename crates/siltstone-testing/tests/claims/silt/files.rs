//! The files of a database: their names, the database to which they belong, and their lengths.

use super::simulated::{self, Expected};
use siltstone::VerifyReport;
use siltstone::batch::{HashedWrite, NEVER};
use siltstone::engine::silt::live::Manifest;
use siltstone::engine::{CommonSettings, Engine, EngineSettings, Opening};
use siltstone::{Database, Durability, Error, Result};
use siltstone_device::{
    Access, Directory, DirectoryBackend, FileBackend, FileState, Hint, LockMode, OpenMode, Purpose,
};
use siltstone_testing::{Call, Crash, Faults, Intercepted, SimulatedDirectory, Survival};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

fn directory(device: &SimulatedDirectory) -> Directory {
    Directory::new(device.clone(), Access::Buffered)
}

fn contents(device: &SimulatedDirectory) -> BTreeMap<String, Vec<u8>> {
    let directory = directory(device);
    let read = |name: String| {
        let file = directory.open(&name, Access::Buffered).unwrap();
        let length = file.length().unwrap() as usize;
        let mut buffer = siltstone_device::AlignedBuffer::default();
        let bytes = file.read(Purpose::Get, 0, length, &mut buffer).unwrap().to_vec();
        (name, bytes)
    };
    device.names().unwrap().into_iter().map(read).collect()
}

fn write(device: &SimulatedDirectory, name: &str, bytes: &[u8]) {
    let file = directory(device).create(name, Access::Buffered).unwrap();
    file.write(Purpose::Log, 0, bytes).unwrap();
}

fn verify(device: &SimulatedDirectory) -> VerifyReport {
    Database::verify_closed_in(&directory(device), &mut |_, _| true).unwrap()
}

/// Closes a database with all kinds of files, whose log begins at 0 or, if `compacted`, later.
fn closed(device: &SimulatedDirectory, compacted: bool) -> Expected {
    let database = simulated::open(device).unwrap();
    let mut expected = Expected::default();
    expected.put(&database, 0..50, Durability::Synced);
    if compacted {
        database.compact().unwrap();
        expected.put(&database, 20..90, Durability::Synced);
        database.settle().unwrap();
        expected.put(&database, 60..64, Durability::Synced);
    }
    database.close().unwrap();
    expected
}

#[test]
fn files_of_other_owners_are_left_alone_and_do_not_matter() {
    const STRAYS: [&str; 16] = [
        "log-0",
        "log-00",
        "log-+0",
        "log-2024",
        "log-20240101",
        "log-ffffffffffffffff1",
        "log-0000000000000000.bak",
        "log-000000000000000A",
        "cafe.hash",
        "1.sorted",
        "00000001.hash.old",
        "0000CAFE.sorted",
        "MANIFEST.backup.new",
        "MANIFEST.old",
        "notes.txt",
        "+0000001.hash",
    ];
    for compacted in [false, true] {
        let device = SimulatedDirectory::new(1);
        let mut expected = closed(&device, compacted);
        let log = contents(&device).into_iter().find(|(name, _)| name.starts_with("log-")).unwrap().1;
        for (number, name) in STRAYS.iter().enumerate() {
            // Some also have the bytes of a log segment.
            write(&device, name, if number % 2 == 0 { &log } else { b"the user's own" });
        }
        let strays = |device: &SimulatedDirectory| -> BTreeMap<_, _> {
            contents(device).into_iter().filter(|(name, _)| STRAYS.contains(&&name[..])).collect()
        };
        let before = strays(&device);
        assert_eq!(before.len(), STRAYS.len());
        assert!(verify(&device).damage.is_empty());
        let files = contents(&device);
        assert!(Database::repair_in(&directory(&device), &mut |_, _| true).unwrap().set_aside.is_none());
        assert_eq!(contents(&device), files);
        for _ in 0..2 {
            let database = simulated::open(&device).unwrap();
            expected.check(&database);
            expected.put(&database, 10..40, Durability::Synced);
            database.compact().unwrap();
            database.close().unwrap();
        }
        expected.check(&simulated::open(&device).unwrap());
        assert_eq!(strays(&device), before);
    }
}

/// A directory that refuses every change, as a read-only medium does.
#[derive(Clone)]
struct ReadOnly(SimulatedDirectory);

struct ReadOnlyFile(Box<dyn FileBackend>);

fn refused<T>() -> io::Result<T> {
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}

impl DirectoryBackend for ReadOnly {
    fn open(&self, name: &str, access: Access, mode: OpenMode) -> io::Result<Box<dyn FileBackend>> {
        match mode {
            OpenMode::Existing => Ok(Box::new(ReadOnlyFile(self.0.open(name, access, mode)?))),
            OpenMode::New => refused(),
        }
    }
    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }
    fn remove(&self, _: &str) -> io::Result<()> {
        refused()
    }
    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        refused()
    }
    fn sync(&self) -> io::Result<()> {
        refused()
    }
    fn lock(&self, name: &str, mode: LockMode) -> io::Result<Box<dyn Send + Sync>> {
        if mode == LockMode::Shared { self.0.lock(name, mode) } else { refused() }
    }
    fn path(&self) -> PathBuf {
        self.0.path()
    }
}

impl FileBackend for ReadOnlyFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(offset, buffer)
    }
    fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
        refused()
    }
    fn sync(&self) -> io::Result<()> {
        refused()
    }
    fn hint(&self, hint: Hint) {
        self.0.hint(hint);
    }
    fn truncate(&self, _: u64) -> io::Result<()> {
        refused()
    }
    fn state(&self) -> io::Result<FileState> {
        self.0.state()
    }
    fn alignment(&self) -> usize {
        self.0.alignment()
    }
}

fn open_read_only(device: &SimulatedDirectory, budget: Option<u64>) -> Result<Arc<dyn Engine>> {
    let directory = Directory::new(ReadOnly(device.clone()), Access::Buffered).read_only();
    let common = CommonSettings { memory_budget: budget, ..CommonSettings::default() };
    let opening = Opening {
        directory,
        common: &common,
        create: false,
        seed: None,
        now_ms: 0,
        disk: None,
        progress: &mut |_, _| true,
    };
    simulated::settings().open(opening)
}

/// Returns the records of a database that is opened read-only, by iteration and by gets.
fn records(silt: &dyn Engine) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let records: BTreeMap<_, _> = silt
        .snapshot(0)
        .unwrap()
        .records()
        .map(|record| record.map(|record| (record.key.to_vec(), record.value.to_vec())).unwrap())
        .collect();
    for (key, value) in &records {
        assert_eq!(silt.get(silt.hasher().key(key), 0).unwrap().unwrap().value, value[..]);
    }
    records
}

#[test]
fn a_database_on_a_read_only_medium_opens_as_a_writable_one_and_changes_nothing() {
    for seed in 0..60 {
        let mut random = fastrand::Rng::with_seed(seed);
        let device = SimulatedDirectory::new(seed);
        let database = simulated::open(&device).unwrap();
        let mut expected = Expected::default();
        expected.put(&database, 0..60, Durability::Written);
        device.power_off_after(1 + seed);
        let options = siltstone::WriteOptions::default().durability(Durability::Written);
        for number in 0u32..200 {
            let _ = database.put_with(number.to_le_bytes(), [3; 90], options);
            let _ = database.step();
        }
        let _ = database.close();
        let crash = if seed % 2 == 0 { Crash::ProcessKilled } else { Crash::PowerLost(Survival::Scattered) };
        let device = device.crash(crash, &mut random);
        drop(database);
        let (files, changes) = (contents(&device), device.changes());
        let silt = open_read_only(&device, (seed % 3 == 0).then_some(600 << 10)).unwrap();
        let read = records(&*silt);
        let write = siltstone::batch::Write::Put { key: b"k", value: b"v", expires_at_ms: NEVER };
        assert!(matches!(
            silt.write(&[HashedWrite::new(write, &silt.hasher())], Durability::Written, &|| 0),
            Err(Error::ReadOnly)
        ));
        assert!(matches!(silt.sync(), Err(Error::ReadOnly)));
        assert!(matches!(silt.request_compaction(), Err(Error::ReadOnly)));
        assert!(silt.verify(&mut |_, _| true).unwrap().damage.is_empty());
        while silt.background().has_work {
            silt.step(0).unwrap();
        }
        assert_eq!(records(&*silt), read);
        silt.close().unwrap();
        drop(silt);
        let read_only = Directory::new(ReadOnly(device.clone()), Access::Buffered).read_only();
        assert!(Database::verify_closed_in(&read_only, &mut |_, _| true).unwrap().damage.is_empty());
        let repaired = Database::repair_in(&read_only, &mut |_, _| true).unwrap();
        assert!(repaired.found.damage.is_empty());
        assert_eq!((contents(&device), device.changes()), (files, changes), "seed {seed}");
        let database = simulated::open(&device).unwrap();
        let writable: BTreeMap<_, _> = database
            .iter()
            .unwrap()
            .map(|r| r.unwrap())
            .map(|r| (r.key.to_vec(), r.value.to_vec()))
            .collect();
        assert_eq!(read, writable, "seed {seed}");
    }
}

#[test]
fn a_crash_at_any_change_of_a_creation_leaves_a_directory_that_the_next_opening_creates_or_opens() {
    let changes = {
        let device = SimulatedDirectory::new(0);
        drop(simulated::open(&device).unwrap());
        device.changes()
    };
    assert!(changes > 10);
    for (seed, at) in (0..40).flat_map(|seed| (1..=changes).map(move |at| (seed, at))) {
        let mut random = fastrand::Rng::with_seed(seed);
        let device = SimulatedDirectory::new(seed);
        device.power_off_after(at);
        drop(simulated::open(&device));
        let crash = match seed % 2 {
            0 => Crash::ProcessKilled,
            _ => Crash::PowerLost(Survival::Scattered),
        };
        let device = device.crash(crash, &mut random);
        let database = simulated::open(&device).unwrap_or_else(|error| panic!("{seed}, {at}: {error}"));
        let mut expected = Expected::default();
        expected.check(&database);
        expected.put(&database, 0..30, Durability::Synced);
        let device = device.crash(Crash::PowerLost(Survival::Scattered), &mut random);
        drop(database);
        expected.check(&simulated::open(&device).unwrap());
        assert!(verify(&device).damage.is_empty());
    }
}

#[test]
fn what_only_looks_like_half_a_creation_is_refused_and_left() {
    let first = "log-0000000000000000";
    let cases: [&[(&str, &[u8])]; 7] = [
        &[("MANIFEST.new", b"my own manifest")],
        &[("MANIFEST.new", b"SILTMANI"), ("notes.txt", b"")],
        &[(first, b"my log")],
        &[(first, &[0; 65])],
        &[(first, &[0; 63])],
        &[("MANIFEST.mirror.new", b"")],
        &[("log-0", b"")],
    ];
    for files in cases {
        let device = SimulatedDirectory::new(1);
        files.iter().for_each(|(name, bytes)| write(&device, name, bytes));
        let before = contents(&device);
        let outcome = simulated::open(&device);
        let is_refused = matches!(outcome, Err(Error::NotADatabase { .. } | Error::NoManifest { .. }));
        assert!(is_refused, "{files:?}");
        assert_eq!(contents(&device), before);
    }
    let device = SimulatedDirectory::new(1);
    write(&device, first, &[0; 64]);
    write(&device, "MANIFEST.new", b"");
    let before = contents(&device);
    let outcome = Database::builder("simulated").create(false).open_in(directory(&device));
    assert!(matches!(outcome, Err(Error::NotFound { .. })));
    let outcome = Database::repair_in(&directory(&device), &mut |_, _| true);
    assert!(matches!(outcome, Err(Error::NotFound { .. })));
    assert_eq!(contents(&device), before);
}

type Files = BTreeMap<String, Vec<u8>>;

fn device_of(files: &Files) -> SimulatedDirectory {
    let device = SimulatedDirectory::new(1);
    files.iter().for_each(|(name, bytes)| write(&device, name, bytes));
    device
}

/// Returns all kinds of damage to a complete file, each with its name and the resulting files.
fn damaged_as_a_whole(files: &Files, older: &Files) -> Vec<(String, Files)> {
    let mut all = Vec::new();
    let mut take = |what: String, change: &dyn Fn(&mut Files)| {
        let mut changed = files.clone();
        change(&mut changed);
        if changed != *files {
            all.push((what, changed));
        }
    };
    // A store that was being written when the database was closed is empty.
    for (name, bytes) in files.iter().filter(|(name, bytes)| *name != "USAGE" && !bytes.is_empty()) {
        let set = |files: &mut Files, bytes: &[u8]| drop(files.insert(name.clone(), bytes.to_vec()));
        take(format!("{name} removed"), &|files| drop(files.remove(name)));
        let length = bytes.len();
        for kept in [
            0,
            40,
            64,
            77,
            length / 2,
            length.saturating_sub(600),
            length.saturating_sub(14),
            length.saturating_sub(13),
            length - 1,
        ] {
            take(format!("{name} cut to {kept}"), &|files| set(files, &bytes[..kept.min(length)]));
        }
        for zeroed in [(length - 1) / 512 * 512, length.saturating_sub(512), 0] {
            let with_zeros = [&bytes[..zeroed], &vec![0; length - zeroed]].concat();
            take(format!("{name} zeros from {zeroed}"), &|files| set(files, &with_zeros));
        }
        take(format!("{name} longer"), &|files| set(files, &[&bytes[..], &[0; 700]].concat()));
        take(format!("{name} much longer"), &|files| set(files, &[&bytes[..], &[0xA5; 700]].concat()));
        for at in [3, 9, 20, 30, 61, 63].into_iter().filter(|at| *at < length) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 16;
            take(format!("{name} byte {at} damaged"), &|files| set(files, &flipped));
        }
        if let Some(old) = older.get(name) {
            take(format!("{name} older"), &|files| set(files, old));
        }
        for (other, with) in files.iter().filter(|(other, _)| *other > name && other[..3] == name[..3]) {
            take(format!("{name} and {other} swapped"), &|files| {
                set(files, with);
                files.insert(other.clone(), bytes.clone());
            });
        }
    }
    take("the log removed".into(), &|files| files.retain(|name, _| !name.starts_with("log-")));
    take("the log older".into(), &|files| {
        files.retain(|name, _| !name.starts_with("log-"));
        files.extend(
            older.iter().filter(|(name, _)| name.starts_with("log-")).map(|(k, v)| (k.clone(), v.clone())),
        );
    });
    all
}

/// Checks that opening, opening read-only, verifying and repairing agree about these files, and that no record of
/// `expected` is lost silently. All of these were durable. Returns whether damage was found.
fn agree_about(what: &str, files: &Files, expected: &Expected) -> bool {
    let opened = simulated::open(&device_of(files));
    let read_only = open_read_only(&device_of(files), None);
    assert_eq!(opened.is_ok(), read_only.is_ok(), "{what}: {:?} {:?}", opened.err(), read_only.err());
    let damaged = device_of(files);
    let report = match Database::verify_closed_in(&directory(&damaged), &mut |_, _| true) {
        Ok(report) => report,
        Err(error) => {
            assert!(opened.is_err(), "{what}: {error}");
            return true;
        }
    };
    assert_eq!(contents(&damaged), *files, "{what}: verifying changes nothing");
    match &opened {
        Ok(database) if report.damage.is_empty() => expected.check(database),
        Ok(_) => {}
        Err(error) => assert!(!report.damage.is_empty(), "{what}: verifying finds nothing of: {error}"),
    }
    drop(opened);
    Database::repair_in(&directory(&damaged), &mut |_, _| true).unwrap();
    let database = simulated::open(&damaged).unwrap_or_else(|error| panic!("{what}, repaired: {error}"));
    expected.check_if(&database, |key| !report.may_affect(key));
    database.close().unwrap();
    drop(database);
    assert!(verify(&damaged).damage.is_empty(), "{what}: {:?}", verify(&damaged).damage);
    !report.damage.is_empty()
}

#[test]
fn opening_verifying_and_repairing_agree_about_files_that_are_missing_cut_mixed_up_or_old() {
    let mut found = 0;
    for compacted in [false, true] {
        let device = SimulatedDirectory::new(1);
        let older = {
            closed(&device, compacted);
            contents(&device)
        };
        let mut expected = closed(&device, compacted);
        {
            let database = simulated::open(&device).unwrap();
            expected.put(&database, 5..45, Durability::Synced);
            database.close().unwrap();
        }
        let files = contents(&device);
        assert!(!agree_about("untouched", &files, &expected));
        for (what, files) in damaged_as_a_whole(&files, &older) {
            found += u32::from(agree_about(&what, &files, &expected));
        }
    }
    assert!(found > 200, "{found}");
}

#[test]
fn a_segment_that_is_not_needed_is_removed_even_if_it_is_damaged() {
    let device = SimulatedDirectory::new(1);
    let mut expected = closed(&device, true);
    let database = simulated::open(&device).unwrap();
    database.compact().unwrap();
    expected.put(&database, 0..3, Durability::Synced);
    database.close().unwrap();
    drop(database);
    let files = contents(&device);
    let first = files.keys().find(|name| name.starts_with("log-")).unwrap();
    let base = u64::from_str_radix(&first[4..], 16).unwrap();
    for bytes in [vec![], vec![0; 164], b"SILTSLOG".to_vec(), files[first].clone()] {
        let mut files = files.clone();
        let dead = format!("log-{:016x}", base - 100);
        files.insert(dead.clone(), bytes);
        assert!(!agree_about(&dead, &files, &expected));
        let device = device_of(&files);
        expected.check(&simulated::open(&device).unwrap());
        assert!(!contents(&device).contains_key(&dead));
    }
}

#[test]
fn opening_and_closing_without_a_write_changes_nothing_but_the_usage() {
    let device = SimulatedDirectory::new(1);
    closed(&device, false);
    let log_and_manifest = |device: &SimulatedDirectory| -> Files {
        contents(device).into_iter().filter(|(name, _)| name != "USAGE").collect()
    };
    let before = log_and_manifest(&device);
    for _ in 0..3 {
        let database = simulated::open(&device).unwrap();
        database.get(0u32.to_be_bytes()).unwrap().unwrap();
        database.sync().unwrap();
        database.close().unwrap();
        drop(database);
        assert!(log_and_manifest(&device) == before);
    }
}

#[test]
fn the_end_of_the_log_is_not_lost_silently_after_a_sync_nor_much_of_it_after_synced_writes() {
    let segment_bytes = simulated::settings().log_segment_bytes as usize;
    for by_sync in [false, true] {
        let device = SimulatedDirectory::new(1);
        let database = simulated::open(&device).unwrap();
        let mut expected = Expected::default();
        let durability = if by_sync { Durability::Written } else { Durability::Synced };
        expected.put(&database, 0..100, durability);
        if by_sync {
            database.sync().unwrap();
        }
        let mut files = contents(&device.crash(Crash::ProcessKilled, &mut fastrand::Rng::with_seed(1)));
        drop(database);
        let log: Vec<_> = files.keys().filter(|name| name.starts_with("log-")).cloned().collect();
        // Without the space that is reserved after the last frame.
        for name in &log {
            let bytes = files.get_mut(name).unwrap();
            let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
            bytes.truncate(end.max(64));
        }
        let files = files;
        let end: usize = log.iter().map(|name| files[name].len() - 64).sum();
        let mut refused = 0;
        for kept in (0..end).step_by(50) {
            let mut files = files.clone();
            let mut left = kept;
            for name in &log {
                let frames = (files[name].len() - 64).min(left);
                left -= frames;
                files.get_mut(name).unwrap().truncate(64 + frames);
                if frames == 0 && *name != log[0] {
                    files.remove(name);
                }
            }
            let found = verify(&device_of(&files)).damage;
            // One marker follows what was synced.
            let may_be_unseen = if by_sync { 13 } else { segment_bytes + 200 };
            assert!(
                !found.is_empty() || kept + may_be_unseen >= end,
                "{kept} of {end} left, synced {by_sync}"
            );
            refused += u32::from(simulated::open(&device_of(&files)).is_err());
        }
        assert!(refused > 30, "{refused}");
    }
}

#[test]
fn merged_stores_are_written_over_but_not_while_a_snapshot_reads_them() {
    let device = SimulatedDirectory::new(1);
    let directory = Intercepted::new(device.clone());
    let reused = Arc::new(AtomicUsize::new(0));
    let count = reused.clone();
    directory.set_hook(move |call, name| {
        if call == Call::Rename && !name.starts_with("MANIFEST") {
            count.fetch_add(1, Relaxed);
        }
        Ok(())
    });
    let database = simulated::open_in(directory).unwrap();
    let mut expected = Expected::default();
    let mut snapshots = Vec::new();
    for round in 0..60 {
        expected.put(&database, 0..60, Durability::Written);
        if round % 20 == 19 {
            snapshots.push((database.snapshot().unwrap(), expected.clone()));
        }
    }
    assert!(reused.load(Relaxed) > 10, "{reused:?}");
    expected.check(&database);
    for (snapshot, expected) in &snapshots {
        expected.check_records(snapshot.iter());
    }
    drop(snapshots);
    // No file of before remains.
    database.compact().unwrap();
    assert_eq!(database.stats().disk_bytes, device.named_bytes());
    database.close().unwrap();
    expected.check(&simulated::open(&device).unwrap());
}

/// A read of the manifest may return other bytes than the one that was verified when it was opened.
#[test]
fn a_manifest_that_is_read_wrongly_does_not_become_the_mirror() {
    let device = SimulatedDirectory::new(1);
    let database = simulated::open(&device).unwrap();
    database.put("key", "value").unwrap();
    drop(database);
    let directory = directory(&device);
    directory.remove("MANIFEST.mirror").unwrap();
    let mut manifest = Manifest::open(&directory).unwrap();
    device.set_faults(Faults { read_flip: 1.0, ..Faults::default() });
    assert!(matches!(manifest.mirror(), Err(Error::Corrupt { .. })));
    device.set_faults(Faults::default());
    assert!(!directory.list().unwrap().contains(&"MANIFEST.mirror".to_owned()));
    manifest.mirror().unwrap();
    let read = |name: &str| contents(&device)[name].clone();
    assert_eq!(read("MANIFEST"), read("MANIFEST.mirror"));
}
