//! Removed files, whose space is reused or freed in steps.

use super::{FORKS, directory, folder, pattern};
#[cfg(target_os = "linux")]
use super::{assert_succeeded, fork};
use crate::{Access, AlignedBuffer, Appender, Directory, File, Purpose};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

/// Writes a file of this many bytes and removes it, open.
fn removed(directory: &Directory, bytes: usize) -> File {
    let file = directory.create("removed", Access::Buffered).unwrap();
    file.write(Purpose::Merge, 0, &pattern(bytes)).unwrap();
    directory.remove_open("removed", &file).unwrap();
    file
}

#[test]
fn a_removed_file_is_readable_until_its_last_reader_is_gone_and_then_freed_step_by_step() {
    let _no_forks = FORKS.read();
    let folder = folder();
    let directory = directory(folder.path());
    let file = Arc::new(removed(&directory, 1_000_000));
    let reader = file.clone();
    drop(file);
    assert_eq!((directory.list().unwrap().len(), directory.unfreed_bytes()), (0, 0));
    assert!(!directory.free_removed(true).unwrap(), "there is a reader");
    let mut buffer = AlignedBuffer::default();
    assert_eq!(reader.read(Purpose::Get, 0, 1_000_000, &mut buffer).unwrap(), pattern(1_000_000));
    drop(reader);
    let mut unfreed = vec![directory.unfreed_bytes()];
    while directory.free_removed(true).unwrap() {
        unfreed.push(directory.unfreed_bytes());
    }
    assert_eq!(unfreed, [1_000_000, 737_856, 475_712, 213_568, 0], "each step frees 256 KiB");
}

#[test]
fn twice_as_much_space_is_freed_as_was_written_since_the_last_time() {
    let _no_forks = FORKS.read();
    let folder = folder();
    let directory = directory(folder.path());
    let other = directory.create("other", Access::Buffered).unwrap();
    let file = removed(&directory, 4 << 20);
    assert!(!directory.free_removed(true).unwrap(), "there is a reader");
    file.read(Purpose::Get, 0, 1, &mut AlignedBuffer::default()).unwrap();
    drop(file);
    other.write(Purpose::Log, 0, &pattern(1 << 20)).unwrap();
    assert!(directory.free_removed(true).unwrap());
    assert_eq!(directory.unfreed_bytes(), 2 << 20);
}

#[test]
fn steps_that_free_space_are_large_unless_gets_read() {
    let _no_forks = FORKS.read();
    let folder = folder();
    let directory = directory(folder.path());
    let mut small_steps = Vec::new();
    for has_gets in [false, true, false] {
        let file = removed(&directory, 3 << 20);
        while directory.free_removed(true).unwrap() {}
        if has_gets {
            file.read(Purpose::Get, 0, 1, &mut AlignedBuffer::default()).unwrap();
        }
        drop(file);
        assert!(directory.free_removed(true).unwrap());
        small_steps.push(directory.unfreed_bytes() > 0);
        // Gets count as ended after some calls without one.
        for _ in 0..100 {
            directory.free_removed(true).unwrap();
        }
    }
    assert_eq!(small_steps, [false, true, false]);
}

#[test]
fn a_removed_file_with_a_link_in_a_checkpoint_keeps_its_contents() {
    let (from, to) = (folder(), folder());
    let (directory, target) = (directory(from.path()), directory(to.path()));
    let file = directory.create("data", Access::Buffered).unwrap();
    file.write(Purpose::Log, 0, &pattern(1 << 20)).unwrap();
    directory.share("data", &target).unwrap();
    directory.remove_open("data", &file).unwrap();
    drop(file);
    assert!(directory.free_removed(true).unwrap());
    assert_eq!(directory.unfreed_bytes(), 0);
    assert_eq!(std::fs::read(to.path().join("data")).unwrap(), pattern(1 << 20));
}

#[cfg(target_os = "linux")]
#[test]
fn a_forked_child_reads_files_that_its_parent_has_removed() {
    let folder = folder();
    let directory = directory(folder.path());
    let _forks = FORKS.write();
    let file = removed(&directory, 1 << 20);
    let (mut go, mut parent) = UnixStream::pair().unwrap();
    let child = fork(|| {
        let mut buffer = AlignedBuffer::default();
        parent.read_exact(&mut [0]).is_ok()
            && file.read(Purpose::Get, 0, 1 << 20, &mut buffer).is_ok_and(|bytes| bytes == pattern(1 << 20))
    });
    drop(file);
    while directory.free_removed(true).unwrap() {}
    assert_eq!(directory.unfreed_bytes(), 0);
    go.write_all(&[0]).unwrap();
    assert_succeeded(child);
}

fn inode(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().ino()
}

fn names(directory: &Directory) -> Vec<String> {
    directory.list().unwrap()
}

/// Writes a file of this many bytes.
fn written(directory: &Directory, name: &str, bytes: usize) -> Arc<File> {
    let file = directory.create(name, directory.access()).unwrap();
    write(file, bytes)
}

fn write(file: File, bytes: usize) -> Arc<File> {
    let mut appender = Appender::new(file, Purpose::Merge, 64 << 10);
    appender.append(&pattern(bytes)).unwrap();
    appender.finish().unwrap().0
}

fn retire(directory: &Directory, name: &str, file: &File) {
    directory.retire([(name.to_owned(), file)]).unwrap();
}

#[test]
fn a_new_file_is_written_over_a_retired_one_and_has_nothing_of_it() {
    let _no_forks = FORKS.read();
    for access in [Access::Buffered, Access::DirectOrBuffered] {
        let folder = folder();
        let directory = Directory::system(folder.path(), access).unwrap();
        let old = written(&directory, "old", 1 << 20);
        let number = inode(&folder.path().join("old"));
        retire(&directory, "old", &old);
        drop(old);
        assert_eq!(directory.unfreed_bytes(), 1 << 20);
        let new = directory.create_over_retired("new", 1000 << 10).unwrap();
        assert_eq!((names(&directory), directory.unfreed_bytes()), (vec!["new".to_owned()], 0));
        let new = write(new, 800 << 10);
        assert_eq!(inode(&folder.path().join("new")), number);
        assert_eq!(std::fs::read(folder.path().join("new")).unwrap(), pattern(800 << 10));
        assert_eq!(new.length().unwrap(), 800 << 10);
        // A second one finds nothing to reuse.
        directory.create_over_retired("other", 1000 << 10).unwrap();
        assert_ne!(inode(&folder.path().join("other")), number);
    }
}

#[test]
fn a_retired_file_is_never_written_over_while_it_has_a_reader_or_a_link() {
    let _no_forks = FORKS.read();
    let (folder, elsewhere) = (folder(), folder());
    let directory = directory(folder.path());
    let target = self::directory(elsewhere.path());
    // One that is linked before it is retired, one that is linked afterwards, and one that has a reader.
    let files = ["linked", "late", "read"].map(|name| written(&directory, name, 1 << 20));
    directory.share("linked", &target).unwrap();
    for (name, file) in ["linked", "late", "read"].iter().zip(&files) {
        retire(&directory, name, file);
    }
    assert_eq!(names(&directory), ["late", "read"]);
    directory.share("late", &target).unwrap();
    let [linked, late, reader] = files;
    drop((linked, late));
    let new = write(directory.create_over_retired("new", 1 << 20).unwrap(), 1000);
    assert_eq!(new.length().unwrap(), 1000);
    let mut buffer = AlignedBuffer::default();
    assert_eq!(reader.read(Purpose::Get, 0, 1 << 20, &mut buffer).unwrap(), pattern(1 << 20));
    for name in ["linked", "late"] {
        assert_eq!(std::fs::read(elsewhere.path().join(name)).unwrap(), pattern(1 << 20));
    }
}

#[test]
fn a_retired_file_is_reused_only_for_a_file_of_about_its_length() {
    let _no_forks = FORKS.read();
    let folder = folder();
    let directory = directory(folder.path());
    let files =
        ["short", "long"].map(|name| written(&directory, name, if name == "short" { 1 } else { 3 } << 20));
    directory
        .retire(["short".to_owned(), "long".to_owned()].into_iter().zip(files.iter().map(|file| &**file)))
        .unwrap();
    drop(files);
    for (expected_bytes, reused) in
        [(400 << 10, None), (8 << 20, None), (3 << 20, Some(3)), (1 << 20, Some(1))]
    {
        let before = directory.unfreed_bytes();
        let name = format!("{expected_bytes}");
        directory.create_over_retired(&name, expected_bytes).unwrap();
        assert_eq!(before - directory.unfreed_bytes(), reused.unwrap_or(0) << 20, "{expected_bytes}");
    }
}

#[test]
fn of_retired_files_as_many_bytes_are_kept_as_were_retired_last() {
    let _no_forks = FORKS.read();
    let folder = folder();
    let directory = directory(folder.path());
    for (name, mebibytes) in [("a", 2), ("b", 2), ("c", 3)] {
        let file = written(&directory, name, mebibytes << 20);
        retire(&directory, name, &file);
    }
    while directory.free_removed(false).unwrap() {}
    assert_eq!((names(&directory), directory.unfreed_bytes()), (vec!["c".to_owned()], 3 << 20));
}

#[test]
fn retired_files_are_freed_once_nothing_is_written() {
    let _no_forks = FORKS.read();
    let folder = folder();
    let directory = directory(folder.path());
    let file = written(&directory, "retired", 1 << 20);
    retire(&directory, "retired", &file);
    drop(file);
    let log = written(&directory, "log", 0);
    for at in 0..3 {
        log.write(Purpose::Log, at, b"x").unwrap();
        assert!(!directory.free_removed(true).unwrap(), "something was written since the last time");
    }
    assert_eq!((names(&directory).len(), directory.unfreed_bytes()), (2, 1 << 20));
    assert!(directory.free_removed(true).unwrap());
    assert_eq!((names(&directory), directory.unfreed_bytes()), (vec!["log".to_owned()], 0));
}

#[test]
fn without_their_names_retired_files_are_removed_ones() {
    let _no_forks = FORKS.read();
    let folder = folder();
    let directory = directory(folder.path());
    let files = ["idle", "read"].map(|name| written(&directory, name, 1 << 20));
    directory
        .retire(["idle".to_owned(), "read".to_owned()].into_iter().zip(files.iter().map(|file| &**file)))
        .unwrap();
    let [idle, reader] = files;
    drop(idle);
    assert_eq!((directory.unfreed_bytes(), directory.removed_bytes()), (1 << 20, 2 << 20));
    directory.remove_retired().unwrap();
    assert_eq!((names(&directory).len(), directory.unfreed_bytes()), (0, 1 << 20));
    assert_eq!(directory.removed_bytes(), 1 << 20, "the other one only has a reader");
    // Another user of the directory may give the name to another file.
    let other = written(&directory, "read", 5);
    drop(reader);
    while directory.free_removed(true).unwrap() {}
    assert_eq!((names(&directory), directory.unfreed_bytes()), (vec!["read".to_owned()], 0));
    assert_eq!(other.length().unwrap(), 5);
}

#[test]
fn a_retired_file_with_a_reader_is_no_spare_once_its_name_is_that_of_another_one() {
    let _no_forks = FORKS.read();
    let folder = folder();
    let directory = directory(folder.path());
    let old = written(&directory, "a", 1 << 20);
    retire(&directory, "a", &old);
    // As when a database is emptied while a snapshot has the file: store numbers begin at 1 again.
    directory.remove_retired().unwrap();
    let new = written(&directory, "a", 2 << 20);
    retire(&directory, "a", &new);
    assert_eq!(directory.removed_bytes(), 2 << 20);
    drop(old);
    assert_eq!((directory.unfreed_bytes(), directory.removed_bytes()), (1 << 20, 3 << 20));
    drop(new);
    assert_eq!((directory.unfreed_bytes(), directory.removed_bytes()), (3 << 20, 3 << 20));
    while directory.free_removed(true).unwrap() {}
    assert_eq!((names(&directory).len(), directory.removed_bytes()), (0, 0));
}

#[test]
fn a_retired_file_whose_name_is_gone_is_freed_all_the_same() {
    let _no_forks = FORKS.read();
    let folder = folder();
    let directory = directory(folder.path());
    let file = written(&directory, "retired", 1 << 20);
    retire(&directory, "retired", &file);
    drop(file);
    directory.remove("retired").unwrap();
    assert!(!directory.free_removed(true).unwrap(), "something was written since the last time");
    assert!(directory.free_removed(true).unwrap());
    while directory.free_removed(true).unwrap() {}
    assert_eq!(directory.removed_bytes(), 0);
}
