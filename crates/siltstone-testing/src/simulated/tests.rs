use super::*;
use siltstone_device::{AlignedBuffer, Appender, Directory, File, LOCK, Purpose, ReadAhead};
use std::collections::BTreeSet;
use std::sync::Arc;

fn lock(directory: &SimulatedDirectory) -> io::Result<Box<dyn Send + Sync>> {
    directory.lock(LOCK, LockMode::Exclusive)
}

fn directory(backend: &SimulatedDirectory) -> Directory {
    Directory::new(backend.clone(), Access::Buffered)
}

fn create(backend: &SimulatedDirectory, name: &str) -> File {
    directory(backend).create(name, Access::Buffered).unwrap()
}

fn write(file: &File, offset: u64, bytes: &[u8]) {
    file.write(Purpose::Log, offset, bytes).unwrap();
}

/// Returns the complete file, or `None` if there is none.
fn contents(backend: &SimulatedDirectory, name: &str) -> Option<Vec<u8>> {
    let file = directory(backend).open(name, Access::Buffered).ok()?;
    let length = file.length().unwrap() as usize;
    Some(file.read(Purpose::Get, 0, length, &mut AlignedBuffer::default()).unwrap().to_vec())
}

/// Returns what is left after each of many power losses of this kind.
fn outcomes<T: Ord>(
    survival: Survival,
    prepare: impl Fn() -> SimulatedDirectory,
    look: impl Fn(&SimulatedDirectory) -> T,
) -> BTreeSet<T> {
    let crashed = |seed| prepare().crash(Crash::PowerLost(survival), &mut fastrand::Rng::with_seed(seed));
    (0..300).map(|seed| look(&crashed(seed))).collect()
}

/// Creates a durable file of four sectors of ones, with two unsynced writes of two sectors each.
fn two_writes() -> SimulatedDirectory {
    let backend = SimulatedDirectory::new(0);
    let file = create(&backend, "data");
    write(&file, 0, &[1; 4 * SECTOR_BYTES]);
    file.sync(Purpose::Log).unwrap();
    backend.sync().unwrap();
    write(&file, 0, &[2; 2 * SECTOR_BYTES]);
    write(&file, 2 * SECTOR_BYTES as u64, &[3; 2 * SECTOR_BYTES]);
    backend
}

fn first_of_sectors(backend: &SimulatedDirectory) -> Vec<u8> {
    contents(backend, "data").unwrap().iter().step_by(SECTOR_BYTES).copied().collect()
}

#[test]
fn a_killed_process_leaves_all_that_it_wrote_but_does_not_make_it_durable() {
    let mut random = fastrand::Rng::with_seed(1);
    let after = two_writes().crash(Crash::ProcessKilled, &mut random);
    assert_eq!(first_of_sectors(&after), [2, 2, 3, 3]);
    let later = after.crash(Crash::PowerLost(Survival::Nothing), &mut random);
    assert_eq!(first_of_sectors(&later), [1, 1, 1, 1]);
}

#[test]
fn a_loss_of_power_loses_tears_and_reorders_what_was_not_synced() {
    let nothing = outcomes(Survival::Nothing, two_writes, first_of_sectors);
    assert_eq!(nothing, BTreeSet::from([vec![1, 1, 1, 1]]));
    let everything = outcomes(Survival::Everything, two_writes, first_of_sectors);
    assert_eq!(everything, BTreeSet::from([vec![2, 2, 3, 3]]));
    let prefixes = outcomes(Survival::Prefix, two_writes, first_of_sectors);
    assert!(prefixes.contains(&vec![1, 2, 1, 1][..]), "torn");
    assert!(prefixes.iter().all(|kept| kept[2..] == [1, 1] || kept[..2] == [2, 2]), "in order");
    let scattered = outcomes(Survival::Scattered, two_writes, first_of_sectors);
    assert!(scattered.contains(&vec![1, 1, 3, 3][..]), "the later write survived the earlier one");
    assert_eq!(scattered.len(), 16, "every combination of sectors");
}

#[test]
fn what_was_synced_survives_every_loss_of_power() {
    let synced = || {
        let backend = two_writes();
        directory(&backend).open("data", Access::Buffered).unwrap().sync(Purpose::Log).unwrap();
        backend
    };
    for survival in [Survival::Nothing, Survival::Prefix, Survival::Scattered, Survival::Everything] {
        assert_eq!(outcomes(survival, synced, first_of_sectors), BTreeSet::from([vec![2, 2, 3, 3]]));
    }
}

#[test]
fn the_prefix_that_survives_goes_over_all_files() {
    let prepare = || {
        let backend = SimulatedDirectory::new(0);
        let (first, second) = (create(&backend, "first"), create(&backend, "second"));
        backend.sync().unwrap();
        write(&first, 0, b"1");
        write(&second, 0, b"2");
        backend
    };
    let look = |backend: &SimulatedDirectory| {
        let there = |name| !contents(backend, name).unwrap().is_empty();
        (there("first"), there("second"))
    };
    let all = BTreeSet::from([(false, false), (true, false), (true, true)]);
    assert_eq!(outcomes(Survival::Prefix, prepare, look), all);
    assert!(outcomes(Survival::Scattered, prepare, look).contains(&(false, true)));
}

#[test]
fn a_length_may_survive_without_its_data() {
    let prepare = || {
        let backend = SimulatedDirectory::new(0);
        let file = create(&backend, "data");
        backend.sync().unwrap();
        write(&file, 0, &[7; 2 * SECTOR_BYTES]);
        backend
    };
    let kept = outcomes(Survival::Scattered, prepare, |backend| contents(backend, "data").unwrap());
    assert!(kept.contains(&vec![0; 2 * SECTOR_BYTES]), "zeros");
    let garbage = |bytes: &Vec<u8>| bytes.iter().any(|&byte| byte != 0 && byte != 7);
    assert!(kept.iter().any(garbage), "old data");
    assert!(kept.iter().any(Vec::is_empty) && kept.contains(&vec![7; SECTOR_BYTES]));
}

#[test]
fn a_truncation_may_be_lost_and_then_what_came_after_is_lost_too() {
    let prepare = || {
        let backend = two_writes();
        let file = directory(&backend).open("data", Access::Buffered).unwrap();
        file.sync(Purpose::Log).unwrap();
        file.truncate(SECTOR_BYTES as u64).unwrap();
        write(&file, SECTOR_BYTES as u64, &[9; SECTOR_BYTES]);
        backend
    };
    let kept = outcomes(Survival::Scattered, prepare, first_of_sectors);
    for possible in [&[2, 2, 3, 3][..], &[2], &[2, 9], &[2, 0]] {
        assert!(kept.contains(possible), "{possible:?}");
    }
    assert!(kept.iter().all(|sectors| sectors.len() <= 2 || sectors == &[2, 2, 3, 3]), "never both lengths");
}

#[test]
fn entries_may_be_lost_until_the_directory_is_synced() {
    let prepare = |synced| {
        move || {
            let backend = SimulatedDirectory::new(0);
            for name in ["old", "gone"] {
                let file = create(&backend, name);
                write(&file, 0, name.as_bytes());
                file.sync(Purpose::Log).unwrap();
            }
            backend.sync().unwrap();
            let file = create(&backend, "new.part");
            write(&file, 0, b"new");
            file.sync(Purpose::Log).unwrap();
            backend.rename("new.part", "old").unwrap();
            backend.remove("gone").unwrap();
            if synced {
                backend.sync().unwrap();
            }
            backend
        }
    };
    let look = |backend: &SimulatedDirectory| {
        ["old", "gone", "new.part"]
            .map(|name| contents(backend, name).map(|it| String::from_utf8(it).unwrap()))
    };
    let kept = outcomes(Survival::Scattered, prepare(false), look);
    assert!(kept.iter().any(|[old, gone, _]| old.as_deref() == Some("old") && gone.is_none()));
    assert!(kept.iter().any(|[old, gone, _]| old.as_deref() == Some("new") && gone.is_some()));
    assert!(kept.iter().any(|[_, _, part]| part.is_some()), "the renaming was lost");
    assert!(kept.iter().all(|[old, ..]| old.is_some()), "a renaming is atomic");
    let durable = BTreeSet::from([[Some("new".to_owned()), None, None]]);
    assert_eq!(outcomes(Survival::Scattered, prepare(true), look), durable);
}

#[test]
fn the_same_seeds_give_the_same_crash() {
    let run = || {
        let backend = two_writes();
        let file = directory(&backend).open("data", Access::Buffered).unwrap();
        backend.set_faults(Faults { write_error: 0.5, sync_error: 0.5, ..Faults::default() });
        for at in 0..50 {
            let _ = file.write(Purpose::Log, at * 300, &[at as u8; 3000]);
            let _ = file.sync(Purpose::Log);
        }
        let mut random = fastrand::Rng::with_seed(9);
        let after = backend.crash(Crash::PowerLost(Survival::Scattered), &mut random);
        (contents(&after, "data"), backend.fault_count(), backend.elapsed_ns())
    };
    assert!(run() == run() && run().1 > 10);
}

#[test]
fn the_power_goes_off_in_the_middle_of_the_change_that_was_named() {
    let halves: BTreeSet<_> = (0..100)
        .map(|seed| {
            let backend = SimulatedDirectory::new(seed);
            let file = create(&backend, "data");
            backend.power_off_after(2);
            write(&file, 0, b"whole");
            assert!(file.write(Purpose::Log, 5, &[7; 3 * SECTOR_BYTES]).is_err() && backend.is_off());
            assert!(file.sync(Purpose::Log).is_err() && backend.list().is_err() && lock(&backend).is_err());
            assert!(file.length().is_err() && backend.remove("data").is_err());
            let after = backend.crash(Crash::ProcessKilled, &mut fastrand::Rng::with_seed(0));
            contents(&after, "data").unwrap().len()
        })
        .collect();
    assert_eq!(halves, BTreeSet::from([5, 512, 1024, 1536, 1541]));
}

#[test]
fn what_had_the_old_directory_open_cannot_change_the_new_one() {
    let backend = two_writes();
    let (old, held) = (directory(&backend).open("data", Access::Buffered).unwrap(), lock(&backend).unwrap());
    let after = backend.crash(Crash::ProcessKilled, &mut fastrand::Rng::with_seed(0));
    assert!(old.write(Purpose::Log, 0, b"late").is_err());
    let new = lock(&after).unwrap();
    assert!(lock(&after).is_err());
    drop((held, new));
    assert!(lock(&after).is_ok());
    assert_eq!(first_of_sectors(&after), [2, 2, 3, 3]);
}

#[test]
fn every_fault_happens_when_it_is_certain_and_never_when_it_is_not_asked_for() {
    let always = |set: fn(&mut Faults)| {
        let backend = two_writes();
        let file = directory(&backend).open("data", Access::Buffered).unwrap();
        let mut faults = Faults::default();
        set(&mut faults);
        backend.set_faults(faults);
        (backend, file)
    };
    let mut buffer = AlignedBuffer::default();
    let (_, file) = always(|faults| faults.read_error = 1.0);
    assert!(file.read(Purpose::Get, 0, 9, &mut buffer).unwrap_err().to_string().contains("os error 5"));
    let (_, file) = always(|faults| faults.short_read = 1.0);
    assert!(file.read(Purpose::Get, 0, 9, &mut buffer).is_err());
    let (backend, file) = always(|faults| faults.read_flip = 1.0);
    let read = file.read(Purpose::Get, 0, 9, &mut buffer).unwrap();
    assert_eq!(read.iter().map(|byte| (byte ^ 2).count_ones()).sum::<u32>(), 1);
    backend.set_faults(Faults::default());
    assert_eq!(file.read(Purpose::Get, 0, 9, &mut buffer).unwrap(), [2; 9]);
    let (backend, file) = always(|faults| faults.write_error = 1.0);
    assert!(file.write(Purpose::Log, 0, b"x").is_err() && file.truncate(0).is_err());
    assert_eq!(backend.fault_count(), 2);
    let (backend, _file) = always(|faults| faults.directory_error = 1.0);
    assert!(backend.open("new", Access::Buffered, OpenMode::New).is_err() && backend.remove("data").is_err());
    assert!(backend.rename("data", "new").is_err() && backend.sync().is_err());
    assert_eq!(backend.list().unwrap(), ["data"]);
    let (backend, file) = always(|faults| faults.slow = 1.0);
    let before = backend.elapsed_ns();
    file.read(Purpose::Get, 0, 9, &mut buffer).unwrap();
    assert!(backend.elapsed_ns() - before > 10_000_000);
}

#[test]
fn a_failed_write_leaves_a_part_of_its_sectors() {
    let lengths: BTreeSet<_> = (0..100)
        .map(|seed| {
            let backend = SimulatedDirectory::new(seed);
            let file = create(&backend, "data");
            backend.set_faults(Faults { write_error: 1.0, ..Faults::default() });
            assert!(file.write(Purpose::Log, 0, &[1; 1200]).is_err());
            file.length().unwrap()
        })
        .collect();
    assert_eq!(lengths, BTreeSet::from([0, 512, 1024, 1200]));
}

#[test]
fn after_a_failed_sync_the_next_one_succeeds_without_the_data() {
    let outcomes: BTreeSet<_> = (0..200)
        .map(|seed| {
            let backend = SimulatedDirectory::new(seed);
            let file = create(&backend, "data");
            backend.sync().unwrap();
            write(&file, 0, &[1; 2 * SECTOR_BYTES]);
            backend.set_faults(Faults { sync_error: 1.0, ..Faults::default() });
            assert!(file.sync(Purpose::Log).is_err());
            backend.set_faults(Faults::default());
            file.sync(Purpose::Log).unwrap();
            let seen = first_of_sectors(&backend);
            file.drop_cache();
            let on_device = first_of_sectors(&backend);
            let mut random = fastrand::Rng::with_seed(seed);
            let after = backend.crash(Crash::PowerLost(Survival::Everything), &mut random);
            assert_eq!(on_device, first_of_sectors(&after));
            (seen, on_device)
        })
        .collect();
    assert!(outcomes.contains(&(vec![1, 1], vec![0, 1])), "still in the cache, and lost in part");
    assert!(outcomes.contains(&(vec![0, 1], vec![0, 1])), "dropped from the cache at once");
    assert!(outcomes.contains(&(vec![1, 1], vec![1, 1])), "durable though it failed");
    assert!(outcomes.iter().all(|(seen, after)| seen == after || seen == &[1, 1]));
}

#[test]
fn a_full_disk_takes_a_part_of_the_write_and_space_returns_when_a_file_is_closed() {
    let backend = SimulatedDirectory::new(0);
    let (first, second) = (create(&backend, "first"), create(&backend, "second"));
    backend.set_faults(Faults { capacity_bytes: Some(4096), ..Faults::default() });
    write(&first, 0, &[1; 3000]);
    let error = siltstone::Error::from(second.write(Purpose::Log, 0, &[2; 2000]).unwrap_err());
    assert!(error.to_string().contains("free some space"), "{error}");
    assert_eq!(second.length().unwrap(), 1024);
    write(&first, 0, &[3; 3000]);
    backend.remove("first").unwrap();
    assert!(second.write(Purpose::Log, 1024, &[2; 1000]).is_err(), "the removed file is open");
    drop(first);
    backend.sync().unwrap();
    write(&second, 1024, &[2; 1000]);
}

#[test]
fn each_kind_of_damage_changes_what_it_names_and_nothing_else() {
    let damaged = |damage| {
        let backend = SimulatedDirectory::new(0);
        let file = create(&backend, "data");
        let bytes: Vec<u8> = (0..3).flat_map(|sector| [sector + 1; SECTOR_BYTES]).collect();
        write(&file, 0, &[9; SECTOR_BYTES]);
        write(&file, 0, &bytes);
        write(&file, 1536, b"tail");
        assert!(backend.damage("data", damage).unwrap());
        let after = contents(&backend, "data").unwrap();
        assert_eq!(after.len(), 1540);
        let sectors: Vec<_> = after.chunks(SECTOR_BYTES).map(|sector| sector.to_vec()).collect();
        sectors
    };
    let sound = [vec![1; 512], vec![2; 512], vec![3; 512], b"tail".to_vec()];
    let flipped = damaged(Damage::FlipBit(512 * 8 + 3));
    assert_eq!((flipped[1][0], &flipped[1][1..]), (2 ^ 8, &sound[1][1..]));
    assert!(flipped[0] == sound[0] && flipped[2..] == sound[2..]);
    let swapped = damaged(Damage::SwapSectors(0, 2));
    assert_eq!(swapped, [&sound[2], &sound[1], &sound[0], &sound[3]].map(Clone::clone));
    let stale = damaged(Damage::StaleSector(0));
    assert_eq!(stale, [&vec![9; 512], &sound[1], &sound[2], &sound[3]].map(Clone::clone));
    let lost = damaged(Damage::StaleSector(1));
    assert_eq!(lost[1], [0; 512]);
    let misdirected = damaged(Damage::MisdirectedSector { from: 1, to: 3 });
    assert_eq!(misdirected, [&sound[0], &sound[1], &sound[2], &vec![2; 4]].map(Clone::clone));
}

#[test]
fn damage_beyond_the_end_changes_nothing_and_chance_always_changes_something() {
    let backend = two_writes();
    for damage in [
        Damage::FlipBit(u64::MAX),
        Damage::SwapSectors(0, u64::MAX),
        Damage::StaleSector(4),
        Damage::MisdirectedSector { from: u64::MAX, to: 1 },
    ] {
        assert!(!backend.damage("data", damage).unwrap(), "{damage:?}");
    }
    assert!(backend.damage("none", Damage::FlipBit(0)).is_err());
    let mut random = fastrand::Rng::with_seed(3);
    for _ in 0..200 {
        let before = contents(&backend, "data");
        backend.damage_at_random(&mut random).unwrap();
        assert_ne!(before, contents(&backend, "data"));
    }
    assert_eq!(SimulatedDirectory::new(0).damage_at_random(&mut random), None);
}

#[test]
fn direct_files_ask_for_their_alignment_and_can_be_refused() {
    let backend = SimulatedDirectory::new(0).direct_alignment(Some(4096));
    let file = directory(&backend).create("data", Access::Direct).unwrap();
    let mut buffer = AlignedBuffer::default();
    buffer.extend_from_slice(&[5; 4096]);
    assert!(
        file.write(Purpose::Log, 512, &buffer).is_err() && file.write(Purpose::Log, 0, &buffer[..9]).is_err()
    );
    write(&file, 0, &buffer);
    assert_eq!(file.read(Purpose::Get, 4095, 1, &mut AlignedBuffer::default()).unwrap(), [5]);
    let refusing = SimulatedDirectory::new(0).direct_alignment(None);
    assert!(directory(&refusing).create("data", Access::Direct).is_err());
    let file = directory(&refusing).create("data", Access::DirectOrBuffered).unwrap();
    assert_eq!(file.alignment(), 1);
}

const PIECE_BYTES: usize = 4096;

/// Returns a directory of direct files, whose pieces are executed late, in a random order and in part.
fn shuffled(seed: u64) -> (SimulatedDirectory, Directory) {
    let backend = SimulatedDirectory::new(seed);
    (backend.clone(), Directory::new(backend, Access::Direct))
}

fn append(directory: &Directory, name: &str, bytes: &[u8]) -> siltstone::Result<(Arc<File>, u64)> {
    let mut appender = Appender::new(directory.create(name, Access::Direct)?, Purpose::Merge, PIECE_BYTES);
    let mut outcome = Ok(());
    for chunk in bytes.chunks(1777) {
        let appended = appender.append(chunk);
        assert!(outcome.is_ok() || appended.is_err(), "an append after an error succeeds");
        outcome = outcome.and(appended);
    }
    let finished = appender.finish();
    outcome?;
    Ok(finished?)
}

fn read_through(file: &File, length: u64) -> siltstone::Result<Vec<u8>> {
    let mut reader = ReadAhead::new(Purpose::Merge, PIECE_BYTES, 512);
    let (mut bytes, mut at) = (Vec::new(), 0);
    while at < length {
        at = reader.read(file, at..length, 0, |offset, piece| {
            assert_eq!(offset, bytes.len() as u64);
            bytes.extend_from_slice(piece);
            Ok::<(), siltstone::Error>(())
        })?;
    }
    Ok(bytes)
}

#[test]
fn streams_over_late_short_and_shuffled_pieces_transfer_the_right_bytes() {
    let mut random = fastrand::Rng::with_seed(11);
    for seed in 0..50 {
        let (_, directory) = shuffled(seed);
        let contents: Vec<Vec<u8>> =
            (0..3).map(|_| (0..random.usize(..60_000)).map(|_| random.u8(..)).collect()).collect();
        let files: Vec<File> =
            (0..3).map(|name| directory.create(&name.to_string(), Access::Direct).unwrap()).collect();
        let mut appenders: Vec<_> =
            files.into_iter().map(|file| Appender::new(file, Purpose::Merge, PIECE_BYTES)).collect();
        for at in (0..60_000).step_by(1500) {
            for (appender, bytes) in appenders.iter_mut().zip(&contents) {
                appender.append(bytes.get(at..).map_or(&[], |rest| &rest[..rest.len().min(1500)])).unwrap();
            }
        }
        for (appender, bytes) in appenders.into_iter().zip(&contents) {
            let (file, length) = appender.finish().unwrap();
            assert_eq!(read_through(&file, length).unwrap()[..bytes.len()], bytes[..], "seed {seed}");
        }
    }
}

#[test]
fn an_error_of_any_piece_is_returned_and_nothing_after_it_succeeds() {
    let bytes: Vec<u8> = (0..40_000).map(|at| (at / 7) as u8).collect();
    let mut failures = [0, 0];
    for after in 0..40 {
        for (failed, call) in [Call::Write, Call::Read].into_iter().enumerate() {
            let (backend, directory) = shuffled(after);
            backend.set_failing_call(Some(FailingCall {
                call: Some(call),
                name_part: "",
                after,
                for_ever: false,
            }));
            let outcome =
                append(&directory, "data", &bytes).and_then(|(file, length)| read_through(&file, length));
            match outcome {
                Ok(read) => assert_eq!(read[..bytes.len()], bytes[..]),
                Err(_) => failures[failed] += 1,
            }
        }
    }
    assert!(failures.iter().all(|&failures| failures >= 10), "{failures:?}");
}

#[test]
fn a_stream_that_is_dropped_with_a_piece_in_flight_executes_it() {
    let (backend, directory) = shuffled(0);
    let file = directory.create("data", Access::Direct).unwrap();
    let mut appender = Appender::new(file, Purpose::Merge, PIECE_BYTES);
    let before = backend.changes();
    appender.append(&[7; PIECE_BYTES]).unwrap();
    assert_eq!(backend.changes(), before);
    drop(appender);
    // Its outcome is ignored, so it may have been written only in part.
    let written = contents(&backend, "data").unwrap();
    assert!(!written.is_empty() && written.iter().all(|&byte| byte == 7));
}

#[test]
fn while_gets_read_no_piece_is_left_in_flight() {
    let (backend, directory) = shuffled(0);
    let (other, _) = append(&directory, "other", &[1; 10_000]).unwrap();
    let file = directory.create("data", Access::Direct).unwrap();
    let mut appender = Appender::new(file, Purpose::Merge, PIECE_BYTES);
    appender.append(&[3; PIECE_BYTES]).unwrap();
    assert_eq!(contents(&backend, "data").unwrap(), [0; 0], "without gets, the piece is in flight");
    for pieces in 2..10 {
        other.read(Purpose::Get, 0, 1, &mut AlignedBuffer::default()).unwrap();
        appender.append(&[3; PIECE_BYTES]).unwrap();
        assert_eq!(contents(&backend, "data").unwrap(), vec![3; pieces * PIECE_BYTES]);
    }
}
