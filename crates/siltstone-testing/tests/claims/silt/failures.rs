//! Failures while another thread is between its check and its lock.

use super::simulated::{self, settings};
use siltstone::batch::{HashedWrite, Write};
use siltstone::engine::silt::{Mistake, SiltSettings};
use siltstone::engine::{CommonSettings, Engine, EngineSettings, Opening};
use siltstone::key::KeyHasher;
use siltstone::{Change, Database, Durability, Error, WriteOptions};
use siltstone_device::memory::MemoryDirectory;
use siltstone_device::{Access, Directory, Purpose};
use siltstone_testing::{Call, Crash, FailingCall, Intercepted, SimulatedDirectory, Survival};
use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::thread;

type Device = Intercepted<SimulatedDirectory>;

const SEED: [u64; 2] = [1, 2];

thread_local! {
    /// Whether hooks stop this thread.
    static IS_STOPPED: Cell<bool> = const { Cell::new(false) };
}

fn input_output_error() -> io::Error {
    io::Error::other("input/output error of this test")
}

fn open(device: &Device, settings: SiltSettings) -> Database {
    let builder = Database::builder("simulated").engine(settings).partitions(2).background_threads(0);
    builder.seed(SEED).open_in(Directory::new(device.clone(), Access::Buffered)).unwrap()
}

fn synced() -> WriteOptions {
    WriteOptions::default().durability(Durability::Synced)
}

/// Returns keys of one partition of a database of two: the first bit of the placement selects it.
fn keys_of(partition: u64) -> impl Iterator<Item = [u8; 8]> {
    let hasher = KeyHasher::Keyed(SEED);
    (0u64..).map(u64::to_be_bytes).filter(move |key| hasher.hash(key).placement >> 63 == partition)
}

fn open_silt(device: &Device, settings: SiltSettings) -> Arc<dyn Engine> {
    let directory = Directory::new(device.clone(), Access::Buffered);
    let common = CommonSettings { partitions: Some(2), ..CommonSettings::default() };
    let opening = Opening {
        directory,
        common: &common,
        create: true,
        seed: Some(SEED),
        now_ms: 0,
        disk: None,
        progress: &mut |_, _| true,
    };
    settings.open(opening).unwrap()
}

/// Runs `work` in a thread that hooks stop.
fn stoppable<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> thread::JoinHandle<T> {
    thread::spawn(move || {
        IS_STOPPED.set(true);
        work()
    })
}

#[test]
fn a_failed_sync_acknowledges_no_write_that_waited_for_it() {
    let device = Intercepted::new(SimulatedDirectory::new(1));
    let database = open(&device, settings());
    let (syncs, appended) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let (is_first, is_append) = (AtomicBool::new(true), AtomicBool::new(true));
    let (syncing, appending) = (syncs.clone(), appended.clone());
    device.set_hook(move |call, name| {
        if call == Call::Sync && name.starts_with("log-") && is_first.swap(false, Relaxed) {
            syncing.wait();
            syncing.wait();
            return Err(input_output_error());
        }
        if call == Call::Write && IS_STOPPED.get() && is_append.swap(false, Relaxed) {
            appending.wait();
        }
        Ok(())
    });
    let first = {
        let database = database.clone();
        thread::spawn(move || database.put_with("one", "value", synced()))
    };
    syncs.wait();
    // It has passed all checks and only waits for the sync.
    let second = {
        let database = database.clone();
        stoppable(move || database.put_with("other", "value", synced()))
    };
    appended.wait();
    syncs.wait();
    assert!(matches!(first.join().unwrap(), Err(Error::Io { .. })));
    assert!(matches!(second.join().unwrap(), Err(Error::Poisoned { .. })));
}

#[test]
fn a_commit_whose_sync_failed_is_not_repeated() {
    let device = Intercepted::new(SimulatedDirectory::new(1));
    let database = open(&device, settings().merge_ratio(10.0));
    for partition in 0..2 {
        for key in keys_of(partition).take(20) {
            database.put_with(key, [7; 50], synced()).unwrap();
        }
    }
    let conversions = || {
        let details = database.stats().details;
        details.iter().find(|(name, _)| *name == "conversions").map_or(0.0, |(_, count)| *count)
    };
    while conversions() < 1.0 {
        database.step().unwrap();
    }
    let gate = Arc::new(Barrier::new(2));
    let (stopping, is_first) = (gate.clone(), AtomicBool::new(true));
    device.set_hook(move |call, name| {
        if !name.ends_with(".hash") {
            return Ok(());
        }
        // The second conversion is stopped while it writes its file. After that it only waits for the ledger.
        if call == Call::Write && IS_STOPPED.get() && is_first.swap(false, Relaxed) {
            stopping.wait();
            stopping.wait();
        }
        if call == Call::Sync && !IS_STOPPED.get() { Err(input_output_error()) } else { Ok(()) }
    });
    let second = {
        let database = database.clone();
        stoppable(move || (0..100).find_map(|_| database.step().err()))
    };
    gate.wait();
    let target = tempfile::tempdir().unwrap();
    let failed = database.checkpoint(target.path().join("copy"));
    assert!(matches!(failed, Err(Error::Io { .. })), "{failed:?}");
    gate.wait();
    let refused = second.join().unwrap();
    assert!(matches!(refused, Some(Error::Poisoned { .. })), "{refused:?}");
    assert_eq!(conversions(), 1.0);
}

#[test]
fn a_record_that_was_found_is_as_durable_as_requested() {
    let keep = |database: &Database, durability| {
        let options = WriteOptions::default().durability(durability);
        database.update_with("key", options, |found| {
            assert!(found.is_some());
            Ok(Change::Keep)
        })
    };
    for (put, asked, crash) in [
        (Durability::Buffered, Durability::Written, Crash::ProcessKilled),
        (Durability::Buffered, Durability::Synced, Crash::PowerLost(Survival::Nothing)),
        (Durability::Written, Durability::Synced, Crash::PowerLost(Survival::Nothing)),
    ] {
        let device = SimulatedDirectory::new(1);
        let directory = Directory::new(device.clone(), Access::Buffered);
        let builder = Database::builder("simulated").partitions(2).background_threads(0).durability(asked);
        let database = builder.open_in(directory.clone()).unwrap();
        database.put_with("key", "value", WriteOptions::default().durability(put)).unwrap();
        let inserted = asked == Durability::Synced && database.insert_if_absent("key", "other").unwrap();
        assert!(!inserted);
        keep(&database, asked).unwrap();
        let syncs = || directory.io().of(Purpose::Log).syncs;
        let before = syncs();
        keep(&database, asked).unwrap();
        assert_eq!(syncs(), before, "nothing is left to sync");
        let left = device.crash(crash, &mut fastrand::Rng::with_seed(1));
        let database = simulated::open(&left).unwrap();
        assert!(database.contains("key").unwrap(), "{put:?} and {asked:?}");
    }
}

/// Returns settings of small databases whose LogStores span 2 KiB of log.
fn short_reach() -> SiltSettings {
    settings().log_bytes_max(4096)
}

/// Stops the thread of [`stoppable`] before it writes the manifest, and makes one read of the log by another thread
/// fail.
fn stop_at_the_manifest(device: &Device, failing_read: u64) -> Arc<Barrier> {
    let gate = Arc::new(Barrier::new(2));
    let (stopping, is_first, reads) = (gate.clone(), AtomicBool::new(true), AtomicU64::new(0));
    device.set_hook(move |call, name| {
        if IS_STOPPED.get() {
            if call == Call::Write && name.starts_with("MANIFEST") && is_first.swap(false, Relaxed) {
                stopping.wait();
                stopping.wait();
            }
            return Ok(());
        }
        let is_read = call == Call::Read && name.starts_with("log-");
        if is_read && reads.fetch_add(1, Relaxed) == failing_read {
            Err(input_output_error())
        } else {
            Ok(())
        }
    });
    gate
}

#[test]
fn a_job_whose_step_failed_is_not_continued_by_the_other_worker() {
    let device = Intercepted::new(SimulatedDirectory::new(1));
    let database = open(&device, short_reach());
    // The other partition is empty, and a step releases its part of the log: the other worker is stopped in it.
    let keys: Vec<_> = keys_of(0).take(30).collect();
    keys.iter().for_each(|key| database.put_with(key, [7; 50], synced()).unwrap());
    let gate = stop_at_the_manifest(&device, 1);
    let other = {
        let database = database.clone();
        stoppable(move || database.step())
    };
    gate.wait();
    let failed = database.step();
    assert!(matches!(failed, Err(Error::Io { .. })), "{failed:?}");
    gate.wait();
    let refused = other.join().unwrap();
    assert!(matches!(refused, Err(Error::Poisoned { .. })), "{refused:?}");
    assert!(keys.iter().all(|key| database.contains(key).unwrap()));
    drop(database);
    let database = open(&device, short_reach());
    database.compact().unwrap();
    assert!(keys.iter().all(|key| database.contains(key).unwrap()));
}

#[test]
fn a_batch_of_which_a_part_was_indexed_is_not_frozen() {
    let device = Intercepted::new(SimulatedDirectory::new(1));
    let database = open(&device, short_reach());
    let keys: Vec<_> = keys_of(1).take(2).collect();
    for round in 0..30u8 {
        keys.iter().for_each(|key| database.put_with(key, [round; 50], synced()).unwrap());
    }
    let gate = stop_at_the_manifest(&device, 1);
    let worker = {
        let database = database.clone();
        stoppable(move || database.step())
    };
    gate.wait();
    let mut batch = siltstone::Batch::new();
    for key in &keys {
        batch.put(key, [99; 50]).unwrap();
    }
    let failed = database.write_with(&batch, synced());
    assert!(matches!(failed, Err(Error::Io { .. })), "{failed:?}");
    gate.wait();
    let refused = worker.join().unwrap();
    assert!(matches!(refused, Err(Error::Poisoned { .. })), "{refused:?}");
    drop(database);
    let database = open(&device, short_reach());
    let values: Vec<_> = keys.iter().map(|key| database.get(key).unwrap().unwrap()[0]).collect();
    assert!(values == [99, 99] || values == [29, 29], "{values:?}");
}

/// Returns the numbers of conversions and merges.
fn jobs_done(silt: &dyn Engine) -> [f64; 2] {
    let details = silt.stats().details;
    let count = |wanted| details.iter().find(|(name, _)| *name == wanted).map_or(0.0, |(_, count)| *count);
    ["conversions", "merges"].map(count)
}

const GROUPS: u64 = 5;
const GROUP_KEYS: u64 = 4;
const ROUNDS: u64 = 60;

/// Writes batches and does background work without a check for a failure before a lock is taken, as threads do that
/// checked just before the failure; one call of the device fails. Returns the last acknowledged round of each group of
/// keys, and whether a call failed.
fn continue_after_a_failure(
    silt: &dyn Engine,
    durability: Durability,
) -> ([Option<u64>; GROUPS as usize], bool) {
    let (mut acknowledged, mut failed) = ([None; GROUPS as usize], false);
    let note = |outcome: siltstone::Result<()>, failed: &mut bool, what: &str| {
        assert!(!*failed || outcome.is_err(), "{what} after a failure");
        *failed |= outcome.is_err();
    };
    for round in 0..ROUNDS {
        let keys: Vec<_> = (0..GROUP_KEYS).map(|key| [(round % GROUPS) as u8, key as u8]).collect();
        let value = round.to_le_bytes();
        let writes = keys.iter().map(|key| Write::Put { key, value: &value, expires_at_ms: 0 });
        let writes: Vec<_> = writes.map(|write| HashedWrite::new(write, &silt.hasher())).collect();
        let outcome = silt.write(&writes, durability, &|| 0);
        if outcome.is_ok() {
            acknowledged[(round % GROUPS) as usize] = Some(round);
        }
        note(outcome, &mut failed, "a write");
        if round % 20 == 19 {
            note(silt.request_compaction(), &mut failed, "a compaction");
        }
        for _ in 0..4 {
            note(silt.step(0).map(drop), &mut failed, "a step");
        }
    }
    let target = Directory::new(MemoryDirectory::default(), Access::Buffered);
    note(silt.checkpoint(&target), &mut failed, "a checkpoint");
    (acknowledged, failed)
}

#[test]
fn a_thread_that_checked_before_a_failure_changes_nothing_after_it_whichever_call_failed() {
    for (durability, crash) in [
        (Durability::Synced, Crash::PowerLost(Survival::Nothing)),
        (Durability::Written, Crash::ProcessKilled),
    ] {
        let mut failing = 0;
        loop {
            let simulated = SimulatedDirectory::new(failing);
            let device = Intercepted::new(simulated.clone());
            let mistake = Some(Mistake::ChecksOnlyUnderLocks);
            let silt = open_silt(&device, settings().merge_ratio(10.0).mistake(mistake));
            let failing_call = FailingCall { call: None, name_part: "", after: failing, for_ever: false };
            simulated.set_failing_call(Some(failing_call));
            let (acknowledged, failed) = continue_after_a_failure(&*silt, durability);
            if !failed {
                assert!(jobs_done(&*silt).iter().all(|count| *count > 1.0), "{:?}", jobs_done(&*silt));
                break;
            }
            let syncs_failed = simulated.failed_syncs() > 0;
            let left = simulated.crash(crash, &mut fastrand::Rng::with_seed(failing));
            let database = simulated::open(&left).unwrap_or_else(|error| panic!("call {failing}: {error}"));
            database.compact().unwrap();
            for (group, acknowledged) in (0..).zip(acknowledged) {
                let value = |key| database.get([group, key as u8]).unwrap();
                let first = value(0);
                assert!(
                    (1..GROUP_KEYS).all(|key| value(key) == first),
                    "call {failing}: half of group {group}"
                );
                let round = first.map(|value| u64::from_le_bytes(value[..].try_into().unwrap()));
                let may_be_lost = syncs_failed && durability != Durability::Synced;
                assert!(
                    may_be_lost || round >= acknowledged,
                    "call {failing}: {round:?} instead of {acknowledged:?} of group {group}"
                );
            }
            failing += 1;
        }
    }
}
