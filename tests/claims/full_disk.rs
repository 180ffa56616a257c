//! Full file systems: a simulated device that states how much is free, a small ext4 in a file, and a small tmpfs.
//! Mounting the last two requires root. Where they cannot be mounted the tests are skipped and report that on standard
//! error.

#![expect(clippy::print_stdout, reason = "a test prints what it cannot do")]

use siltstone::{Access, Batch, Builder, Database, Durability, Error, WriteOptions};
use siltstone_device::Directory;
use siltstone_testing::simulated::{Faults, SimulatedDirectory};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The size of the file systems, and of the simulated device, in bytes.
const SIZE: u64 = 24 << 20;
const SIMULATED_SIZE: u64 = 20 << 20;
/// The engines with files, by their settings. A FlashStore has its disk in the same file system.
const ENGINES: [&[(&str, &str)]; 5] = [
    &[("engine", "silt")],
    &[("engine", "bloomstore")],
    &[("engine", "flashkey")],
    &[("engine", "flashkey"), ("ordered", "true")],
    &[
        ("engine", "flashstore"),
        ("disk", "disk"),
        ("disk.engine", "silt"),
        ("flash_bytes", "4194304"),
        ("segment_bytes", "65536"),
    ],
];

/// A mounted file system, unmounted when it is dropped.
struct Mounted {
    directory: TempDir,
}

/// Runs a command; returns its output if it failed.
fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let output =
        Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// Reports on standard error that a test is skipped, even if test output is captured.
fn skip(reason: &str) {
    let mut uncaptured = std::io::stderr();
    writeln!(uncaptured, "SKIPPED: tests/claims/full_disk.rs: {reason}").unwrap();
}

impl Mounted {
    fn new(mount: impl FnOnce(&Path) -> Result<(), String>) -> Option<Mounted> {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("mounted")).unwrap();
        match mount(directory.path()) {
            Ok(()) => Some(Mounted { directory }),
            Err(reason) => {
                skip(&format!("a file system cannot be mounted here: {}", reason.trim()));
                None
            }
        }
    }

    fn tmpfs() -> Option<Mounted> {
        Mounted::new(|root| {
            let (size, path) = (format!("size={SIZE}"), root.join("mounted"));
            run("mount", &["-t", "tmpfs", "-o", &size, "tmpfs", path.to_str().unwrap()])
        })
    }

    fn ext4() -> Option<Mounted> {
        Mounted::new(|root| {
            let (image, path) = (root.join("image"), root.join("mounted"));
            std::fs::File::create(&image).unwrap().set_len(SIZE).unwrap();
            run("mkfs.ext4", &["-q", "-F", image.to_str().unwrap()])?;
            run("mount", &["-o", "loop", image.to_str().unwrap(), path.to_str().unwrap()])
        })
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("mounted")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        run("umount", &[self.path().to_str().unwrap()]).unwrap_or_else(|reason| println!("{reason}"));
    }
}

fn builder(path: &Path, settings: &[(&'static str, &str)]) -> Builder {
    let builder = Database::builder(path);
    settings.iter().fold(builder, |builder, (name, value)| match *name {
        "disk" => builder.set("disk", path.with_file_name(value).display().to_string()),
        name => builder.set(name, *value),
    })
}

fn key(number: u32) -> [u8; 4] {
    number.wrapping_mul(0x9e37_79b9).to_be_bytes()
}

fn value(number: u32) -> Vec<u8> {
    vec![number as u8; 30 + (number % 9 * 40) as usize]
}

/// Puts until puts are refused and no background work is left that would free space. Returns how many were
/// acknowledged, and the last error.
fn fill(database: &Database) -> (u32, Error) {
    let mut acknowledged = 0;
    loop {
        let before = acknowledged;
        let refused = put_until_refused(database, &mut acknowledged);
        database.settle().unwrap();
        if acknowledged == before {
            return (acknowledged, refused);
        }
    }
}

fn put_until_refused(database: &Database, acknowledged: &mut u32) -> Error {
    loop {
        let number = *acknowledged;
        let durability = [Durability::Written, Durability::Synced][number as usize % 1000 / 999];
        let options = WriteOptions::default().durability(durability);
        match database.put_with(key(number), value(number), options) {
            Ok(()) => *acknowledged += 1,
            Err(error) => break error,
        }
        assert!(u64::from(number) * 30 < SIZE, "more than the disk holds was acknowledged");
    }
}

fn check(database: &Database, acknowledged: u32) {
    for number in 0..acknowledged {
        let found = database.get(key(number)).unwrap();
        assert!(found.is_some_and(|found| *found == value(number)), "{number} of {acknowledged}");
    }
}

/// Everything but a put works, and nothing has to be freed by hand.
fn fill_and_empty(open: &dyn Fn() -> Database) {
    let database = open();
    let (acknowledged, refused) = fill(&database);
    let Error::NoSpace { free, reserve, .. } = refused else { panic!("{refused}") };
    assert!(free < reserve + 1000, "{free} {reserve}");
    let text = refused.to_string();
    assert!(text.contains(&reserve.to_string()) && text.contains("delete records"), "{text}");
    // All ways to put are refused, and nothing is written by them. It never fits, whatever is freed meanwhile.
    let long = vec![7; SIZE as usize];
    let batch: Batch = [("new", &long[..])].into_iter().collect();
    let outcomes = [
        database.put("new", &long),
        database.write(&batch),
        database.insert_if_absent("new", &long).map(drop),
        database
            .update("new", |_| Ok(siltstone::Change::Put { value: long.clone().into(), expires_at_ms: 0 })),
        database.bulk_load((0..SIZE / 1000).map(|number| (number.to_be_bytes(), [5; 1000]))).map(drop),
    ];
    for (number, outcome) in outcomes.iter().enumerate() {
        assert!(matches!(outcome, Err(Error::NoSpace { .. })), "{number}: {outcome:?}");
    }
    // The database accepts deletes without being opened again, also those of updates.
    database.delete(key(0)).unwrap();
    database.update(key(1), |_| Ok(siltstone::Change::Delete)).unwrap();
    database.sync().unwrap();
    database.close().unwrap();
    drop(database);
    // Opening the database needs no more space.
    let database = open();
    assert!(!database.contains(key(0)).unwrap() && !database.contains(key(1)).unwrap());
    database.put(key(0), "").map_or_else(|error| assert!(matches!(error, Error::NoSpace { .. })), drop);
    for number in (2..acknowledged).step_by(97) {
        assert_eq!(database.get(key(number)).unwrap().unwrap(), value(number));
    }
    database.clear().unwrap();
    database.compact().unwrap();
    database.settle().unwrap();
    assert_eq!(database.iter().unwrap().count(), 0);
    // As many fit again.
    let (again, _) = fill(&database);
    assert!(again > acknowledged / 2, "{again} after {acknowledged}");
    check(&database, again);
    database.close().unwrap();
}

#[test]
fn a_simulated_device_that_is_full_can_be_emptied() {
    for settings in ENGINES {
        for background_threads in [0, 1] {
            let device = SimulatedDirectory::new(1);
            let open = || {
                let builder = builder(Path::new("db"), settings).background_threads(background_threads);
                builder.open_in(Directory::new(device.clone(), Access::Buffered)).unwrap()
            };
            drop(open());
            device.set_faults(Faults {
                capacity_bytes: Some(SIMULATED_SIZE),
                states_free_bytes: true,
                ..Faults::default()
            });
            fill_and_empty(&open);
        }
    }
}

#[test]
fn a_full_tmpfs_can_be_emptied() {
    for settings in ENGINES {
        let Some(mounted) = Mounted::tmpfs() else { return };
        fill_and_empty(&|| builder(&mounted.path().join("db"), settings).open().unwrap());
    }
}

#[test]
fn a_full_ext4_can_be_emptied() {
    for (settings, access) in
        ENGINES.iter().zip([Access::Buffered, Access::DirectOrBuffered].into_iter().cycle())
    {
        let Some(mounted) = Mounted::ext4() else { return };
        fill_and_empty(&|| builder(&mounted.path().join("db"), settings).access(access).open().unwrap());
    }
}

/// Another program takes the reserve as well.
fn fill_by_others_and_recover(directory: &Path, settings: &[(&'static str, &str)]) {
    let open = || builder(&directory.join("db"), settings).open().unwrap();
    let database = open();
    (0..20_000).for_each(|number| database.put(key(number), value(number)).unwrap());
    database.settle().unwrap();
    let ballast = directory.join("ballast");
    let mut file = std::fs::File::create(&ballast).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
    let refused = (20_000..).find_map(|number| database.put(key(number), value(number)).err()).unwrap();
    // The free space is not measured at each put.
    let is_measured = matches!(refused, Error::NoSpace { free: 0..4096, .. });
    assert!(is_measured || refused.to_string().contains("No space left"), "{refused}");
    check(&database, 20_000);
    // Deletes find what logs have reserved; what fails in the end fails as any write does, and opening the database
    // loses nothing.
    let failed = (0..20_000).find_map(|number| database.delete(key(number)).err());
    if let Some(failed) = failed.or_else(|| database.sync().err()).or_else(|| database.compact().err()) {
        let text = failed.to_string();
        assert!(text.contains("No space left on device") && text.contains("reopen"), "{text}");
        assert!(matches!(database.delete("again"), Err(Error::Poisoned { .. })));
        assert!(database.close().is_err());
    }
    drop(database);
    drop(file);
    std::fs::remove_file(ballast).unwrap();
    let database = open();
    assert!(database.verify().unwrap().damage.is_empty());
    database.put("more", "space").unwrap();
    database.close().unwrap();
}

#[test]
fn a_file_system_that_others_have_filled_loses_nothing_and_recovers() {
    for settings in ENGINES {
        let Some(mounted) = Mounted::tmpfs() else { return };
        fill_by_others_and_recover(&mounted.path(), settings);
    }
}
