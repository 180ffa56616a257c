//! Directories that are not what they seem, and processes in which files, locks or descriptors are not as usual: all
//! refusals come when a database is opened, and say what to do.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use siltstone::{Database, Error};
use siltstone_testing::engines::complete_settings;
use std::io::ErrorKind;
#[cfg(target_os = "linux")]
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Writes, converts and merges, so that files are created, renamed and removed.
fn work(database: &Database) {
    for number in 0..500u32 {
        database.put(number.to_be_bytes(), number.to_le_bytes()).unwrap();
    }
    database.compact().unwrap();
}

fn check(database: &Database) {
    for number in (0..500u32).step_by(17) {
        assert_eq!(database.get(number.to_be_bytes()).unwrap().unwrap()[..], number.to_le_bytes());
    }
    assert!(database.verify().unwrap().damage.is_empty());
}

/// Runs `work` in a forked child, and returns whether it returned true.
#[cfg(target_os = "linux")]
fn in_child(work: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child uses its own databases and the allocator, which the C library makes usable after a fork; it
    // ends by `_exit`, without running the code of the parent.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            libc::_exit(i32::from(!outcome.unwrap_or(false)));
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
    }
}

/// Every engine with files.
fn engines() -> impl Iterator<Item = siltstone::EngineKind> {
    siltstone::EngineKind::ALL.iter().copied().filter(|kind| kind.settings().info().number.is_some())
}

/// In a process that has closed them, the next file would get the descriptor of standard error, and messages would
/// overwrite its bytes.
#[cfg(target_os = "linux")]
#[test]
fn no_file_of_a_database_has_a_standard_descriptor() {
    for engine in engines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        assert!(in_child(|| {
            // SAFETY: the child prints nothing, and nothing else uses these descriptors.
            (0..3).for_each(|descriptor| assert!(unsafe { libc::close(descriptor) } <= 0));
            let database = Database::builder(&path)
                .engine(complete_settings(engine))
                .background_threads(0)
                .open()
                .unwrap();
            work(&database);
            let _ = database.get_many(&[1u32.to_be_bytes(), 2u32.to_be_bytes()]).unwrap();
            // Closed, or the null device, which keeps the number taken.
            let null = std::fs::metadata("/dev/null").unwrap().rdev();
            let is_of_no_file = |descriptor| {
                // SAFETY: `stat` is ours, and its call fails where the descriptor is closed.
                unsafe {
                    let mut stat: libc::stat = std::mem::zeroed();
                    libc::fstat(descriptor, &raw mut stat) == -1 || stat.st_rdev == null
                }
            };
            let are_of_no_file = (0..3).all(is_of_no_file);
            // What a library would print.
            let message = b"a message";
            for descriptor in 0..3 {
                // SAFETY: the bytes are ours.
                unsafe { libc::write(descriptor, message.as_ptr().cast(), 9) };
            }
            database.close().unwrap();
            are_of_no_file
        }));
        check(&Database::builder(&path).create(false).open().unwrap());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn the_error_of_a_lock_that_a_forked_child_holds_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let id_path = folder.path().join("id");
    assert!(in_child(|| {
        let _database = Database::builder(&path).background_threads(0).open().unwrap();
        // SAFETY: the grandchild only waits, until it is killed.
        unsafe {
            let grandchild = libc::fork();
            if grandchild == 0 {
                loop {
                    libc::pause();
                }
            }
            std::fs::write(&id_path, grandchild.to_string()).unwrap();
            // As if it was killed: nothing is closed.
            libc::_exit(0);
        }
    }));
    let refused = Database::builder(&path).open().map(drop).unwrap_err();
    let grandchild: i32 = std::fs::read_to_string(&id_path).unwrap().parse().unwrap();
    // SAFETY: the process is the one that the child has forked.
    unsafe { libc::kill(grandchild, libc::SIGKILL) };
    assert!(matches!(refused, Error::Locked { process: Some(_), has_ended: true, .. }), "{refused:?}");
    assert!(refused.to_string().contains("a child that process"), "{refused}");
}

/// Lets `flock` fail from now on, as on a file system that has no locks.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn deny_locks() {
    let statement =
        |code: u32, jump: u8, value: u32| libc::sock_filter { code: code as u16, jt: 0, jf: jump, k: value };
    let refuse = libc::SECCOMP_RET_ERRNO | libc::EOPNOTSUPP as u32;
    let mut filter = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, libc::SYS_flock as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, refuse),
        statement(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the filter is ours, and lives until the system has copied it.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program), 0);
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn without_locks_a_database_is_opened_for_reading_only_and_the_error_says_what_to_do() {
    for engine in engines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let open = || Database::builder(&path).engine(complete_settings(engine)).background_threads(0).open();
        open().unwrap().put("key", "value").unwrap();
        assert!(in_child(|| {
            deny_locks();
            let refused = open().map(drop).unwrap_err().to_string();
            let names_a_remedy = refused.contains("flock") && refused.contains("read-only");
            let read_only = Database::open_read_only(&path).unwrap();
            names_a_remedy
                && read_only.contains("key").unwrap()
                && read_only.verify().unwrap().damage.is_empty()
        }));
        let database = open().unwrap();
        assert!(in_child(|| {
            // A writer with locks is unknown to a reader without.
            deny_locks();
            Database::open_read_only(&path).is_ok()
        }));
        database.close().unwrap();
    }
}

/// Removes a directory. Background work of the database may create a file in it meanwhile.
fn remove_while_open(path: &Path) {
    while let Err(error) = std::fs::remove_dir_all(path) {
        assert_eq!(error.kind(), ErrorKind::DirectoryNotEmpty, "{error}");
    }
}

#[test]
fn a_directory_that_is_removed_while_it_is_open_is_noticed() {
    for engine in engines() {
        for is_replaced in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("db");
            let database = Database::builder(&path).engine(complete_settings(engine)).open().unwrap();
            work(&database);
            remove_while_open(&path);
            if is_replaced {
                std::fs::create_dir(&path).unwrap();
            }
            let options = siltstone::WriteOptions::default().durability(siltstone::Durability::Synced);
            for refused in [
                database.sync(),
                database.put_with("key", "value", options),
                database.update_with("key", options, |_| Ok(siltstone::Change::Keep)),
                database.close(),
            ] {
                assert!(matches!(&refused, Err(Error::Removed { .. })), "{engine:?}: {refused:?}");
            }
        }
        // Only what is in it, by `rm -r db/*`.
        let folder = tempfile::tempdir().unwrap();
        let database = Database::builder(folder.path()).engine(complete_settings(engine)).open().unwrap();
        database.put("key", "value").unwrap();
        for entry in std::fs::read_dir(folder.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) }.unwrap();
        }
        assert!(matches!(database.sync(), Err(Error::Removed { .. })), "{engine:?}");
        assert!(database.close().is_err(), "{engine:?}");
    }
}

/// The files of a database, and of its disk if it has one.
fn files_of(path: &Path) -> Vec<PathBuf> {
    let of = |path: PathBuf| std::fs::read_dir(path).into_iter().flatten().map(|entry| entry.unwrap().path());
    of(path.to_owned()).chain(of(path.join("disk"))).filter(|path| path.is_file()).collect()
}

/// A pipe in place of each file that a database has by name: opening it would wait for a writer.
#[test]
fn a_pipe_in_place_of_a_file_is_refused_by_name_and_never_waited_for() {
    for engine in engines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let open = || Database::builder(&path).engine(complete_settings(engine)).background_threads(0).open();
        work(&open().unwrap());
        for file in files_of(&path) {
            let name = file.file_name().unwrap();
            let kept = std::fs::read(&file).unwrap();
            std::fs::remove_file(&file).unwrap();
            let mode = rustix::fs::Mode::from_raw_mode(0o666);
            rustix::fs::mknodat(rustix::fs::CWD, &file, rustix::fs::FileType::Fifo, mode, 0).unwrap();
            let verified = Database::verify_closed(&path, &mut |_, _| true).map(|report| report.damage.len());
            let opened = open().map(drop);
            // What the database can do without: its lock is that of the directory, and counters begin again.
            let is_needed = name != "LOCK" && name != "USAGE";
            let what = format!("{engine:?}, {file:?}: {opened:?}, {verified:?}");
            assert!(!is_needed || name == "MANIFEST.mirror" || opened.is_err(), "{what}");
            assert!(!is_needed || verified.as_ref().map_or(true, |damage| *damage > 0), "{what}");
            std::fs::remove_file(&file).unwrap();
            std::fs::write(&file, kept).unwrap();
        }
        check(&open().unwrap());
    }
}

#[test]
fn a_run_that_a_killed_bulk_load_left_is_removed_by_the_next_opening() {
    for engine in engines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let open = || Database::builder(&path).engine(complete_settings(engine)).open().unwrap();
        open().put("key", "value").unwrap();
        let left = path.join(".siltstone-run-0123456789abcdef-0");
        std::fs::write(&left, "bytes").unwrap();
        assert!(Database::open_read_only(&path).unwrap().contains("key").unwrap() && left.exists());
        assert!(open().contains("key").unwrap() && !left.exists(), "{engine:?}");
    }
}

#[test]
fn a_checkpoint_into_the_database_itself_is_refused() {
    for engine in engines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let database = Database::builder(&path).engine(complete_settings(engine)).open().unwrap();
        database.put("key", "value").unwrap();
        std::os::unix::fs::symlink(&path, folder.path().join("link")).unwrap();
        for target in ["db", "db/copy", "db/a/b", "link/copy", "other/../db/copy"] {
            std::fs::create_dir_all(folder.path().join("other")).unwrap();
            let refused = database.checkpoint(folder.path().join(target));
            let is_refused = matches!(&refused, Err(Error::Setting { name: "checkpoint", .. }));
            assert!(is_refused, "{engine:?}, {target}: {refused:?}");
        }
        assert!(!path.join("copy").exists() && !path.join("a").exists());
        database.checkpoint(folder.path().join("dbs")).unwrap();
    }
}

#[test]
fn too_many_threads_are_refused_before_anything_is_created() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let refused = Database::builder(&path).background_threads(100_000).open().map(drop);
    assert!(matches!(refused, Err(Error::Setting { name: "background_threads", .. })), "{refused:?}");
    assert!(!path.exists());
    let refused = siltstone::Resources::new(1, 257).map(drop);
    assert!(matches!(refused, Err(Error::Setting { name: "threads", .. })), "{refused:?}");
}
