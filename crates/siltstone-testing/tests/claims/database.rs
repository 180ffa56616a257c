//! Databases on a device that loses power, and with background threads that panic.

use siltstone::batch::NEVER;
use siltstone::{Bytes, Change, Database, Durability, Error, WriteOptions};
use siltstone_device::memory::MemoryDirectory;
use siltstone_device::{Access, Directory};
use siltstone_testing::engines::cleaning;
use siltstone_testing::simulation::Configuration;
use siltstone_testing::{
    Call, Crash, FailingCall, Faults, Intercepted, SimulatedDirectory, Survival, TestEngine,
};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::thread;

#[test]
fn a_power_loss_during_a_change_of_shape_leaves_the_old_or_the_new_one() {
    let mut random = fastrand::Rng::with_seed(7);
    let device = SimulatedDirectory::new(1);
    let open = |device: &SimulatedDirectory, length: usize| {
        let builder = Database::builder("simulated").background_threads(0).fixed(length, length);
        builder.open_in(Directory::new(device.clone(), Access::Buffered))
    };
    open(&device, 3).unwrap().close().unwrap();
    for survival in [Survival::Nothing, Survival::Prefix, Survival::Scattered, Survival::Everything] {
        for changes in 1.. {
            let before = device.crash(Crash::ProcessKilled, &mut random);
            before.power_off_after(changes);
            let outcome = open(&before, 1);
            if !before.is_off() {
                assert!(changes > 3);
                outcome.unwrap();
                break;
            }
            drop(outcome);
            let after = before.crash(Crash::PowerLost(survival), &mut random);
            let database = open(&after, 1).unwrap();
            database.put("a", "b").unwrap();
            assert!(database.verify().unwrap().damage.is_empty());
        }
    }
}

/// With keys of all partitions, and a power loss at any change of the device.
#[test]
fn a_transaction_survives_a_power_loss_completely_or_not_at_all() {
    let keys: Vec<String> = (0..12).map(|number| format!("key {number}")).collect();
    let mut lost_in_one = 0;
    for seed in 0..60 {
        let device = SimulatedDirectory::new(seed);
        let open = |device: &SimulatedDirectory| {
            let builder = Database::builder("simulated").partitions(4).background_threads(0);
            builder.open_in(Directory::new(device.clone(), Access::Buffered)).unwrap()
        };
        let database = open(&device);
        device.power_off_after(1 + seed % 30);
        let mut acknowledged = 0;
        for round in 1..40u8 {
            let options = WriteOptions::default().durability(Durability::Synced);
            let outcome = database.transact_with(&keys, options, |_, changes| {
                changes.fill(Change::Put { value: vec![round; 300].into(), expires_at_ms: NEVER });
                Ok(())
            });
            match outcome {
                Ok(()) => acknowledged = round,
                Err(_) => break,
            }
        }
        lost_in_one += u32::from(acknowledged < 39);
        let _ = database.close();
        let mut random = fastrand::Rng::with_seed(seed);
        let device = device.crash(Crash::PowerLost(Survival::Scattered), &mut random);
        drop(database);
        let values = open(&device).get_many(&keys).unwrap();
        assert!(values.iter().all(|value| *value == values[0]), "seed {seed}: {values:?}");
        let round = values[0].as_ref().map_or(0, |value| value[0]);
        assert!(round >= acknowledged, "seed {seed}: {round}, and {acknowledged} was acknowledged");
    }
    assert!(lost_in_one >= 30, "the power was lost in {lost_in_one} of 60");
}

/// A power loss at any change of the device. What was synced before the load is kept, and each record of the load has
/// its old or its new value; after `finish`, the new one. The same load completes what was interrupted.
#[test]
fn a_power_loss_during_a_bulk_load_loses_nothing_and_leaves_old_or_new_records() {
    let key = |number: u32| format!("key {number}");
    let numbers = 0..300;
    for engine in TestEngine::persistent() {
        let open = |device: &SimulatedDirectory| {
            let builder = engine.builder(Path::new("simulated"), None).background_threads(0);
            builder.open_in(Directory::new(device.clone(), Access::Buffered)).unwrap()
        };
        let load = |database: &Database| {
            let mut loader = database.bulk_loader().memory_bytes(64 << 10);
            numbers.clone().try_for_each(|number| loader.put(key(number), [b'1'; 300]))?;
            loader.finish()
        };
        let mut cut = 0;
        for seed in 0..40 {
            let device = SimulatedDirectory::new(seed);
            let database = open(&device);
            (100..200).for_each(|number| database.put(key(number), "0").unwrap());
            database.sync().unwrap();
            device.power_off_after(1 + seed);
            let outcome = load(&database);
            cut += u32::from(outcome.is_err());
            let mut random = fastrand::Rng::with_seed(seed);
            let device = device.crash(Crash::PowerLost(Survival::Scattered), &mut random);
            drop(database);
            let database = open(&device);
            for number in numbers.clone() {
                let value = database.get(key(number)).unwrap();
                let is_new = value.as_deref() == Some(&[b'1'; 300]);
                let old = (100..200).contains(&number).then_some(&b"0"[..]);
                assert!(
                    is_new || outcome.is_err() && value.as_deref() == old,
                    "{}: {number}",
                    engine.info.name
                );
            }
            assert_eq!(load(&database).unwrap(), 300);
            assert!(numbers.clone().all(|number| database.get(key(number)).unwrap().unwrap().len() == 300));
            assert!(database.verify().unwrap().damage.is_empty(), "{}", engine.info.name);
        }
        assert!(cut > 0, "{}: the power was lost in {cut} of 40", engine.info.name);
    }
}

/// The thread panics in a step, or while it saves the usage file.
#[test]
fn a_worker_that_panics_poisons_the_database() {
    for panics_at in [".sorted", "USAGE"] {
        let device = Intercepted::new(MemoryDirectory::default());
        let now_ms = Arc::new(AtomicU64::new(1));
        let builder = Database::builder("memory").background_threads(1).simulated_clock(now_ms.clone());
        let database = builder.open_in(Directory::new(device.clone(), Access::Buffered)).unwrap();
        database.put("key", "value").unwrap();
        device.set_hook(move |_, name| {
            let is_worker = thread::current().name().is_some_and(|name| name.starts_with("siltstone-"));
            assert!(!(is_worker && name.contains(panics_at)), "a panic on purpose");
            Ok(())
        });
        now_ms.store(1_000_000, Relaxed);
        // Returns only after a step of the worker, which is the only one.
        let told = loop {
            if let Err(error) = database.compact().and_then(|()| database.put("key", "value")) {
                break error;
            }
        };
        for error in [told, database.put("key", "value").unwrap_err(), database.sync().unwrap_err()] {
            assert!(matches!(&error, Error::Poisoned { cause } if cause.contains("panicked")), "{error}");
        }
        assert!(database.contains("key").unwrap());
        assert!(database.close().is_err());
    }
}

/// Each read that a batch makes fails once. Before and after the database is opened again, gets, a snapshot and an
/// iterator have all of the batch or nothing, and the same as each other.
#[test]
fn a_batch_whose_read_fails_is_visible_completely_or_not_at_all() {
    let keys: Vec<String> = (0..12).map(|number| format!("key {number}")).collect();
    for engine in TestEngine::persistent().filter(|engine| !engine.is_lossy) {
        let mut failed = 0;
        for fails_at in 0..40 {
            let device = Intercepted::new(MemoryDirectory::default());
            let open = || {
                let builder = engine.builder(Path::new("memory"), None).background_threads(0);
                builder.open_in(Directory::new(device.clone(), Access::Buffered)).unwrap()
            };
            let write = |database: &Database, value: u8| {
                // Puts, deletes, and a key that is put twice.
                let mut batch = siltstone::Batch::new();
                for (number, key) in keys.iter().enumerate() {
                    match number % 4 == 3 && value > 1 {
                        true => batch.delete(key).unwrap(),
                        false => batch.put(key, [value; 100]).unwrap(),
                    };
                }
                batch.put(&keys[0], [value; 100]).unwrap();
                database.write(&batch)
            };
            let database = open();
            write(&database, 1).unwrap();
            let reads = AtomicU64::new(0);
            device.set_hook(move |call, _| match call {
                Call::Read if reads.fetch_add(1, Relaxed) == fails_at => Err(io::ErrorKind::Other.into()),
                _ => Ok(()),
            });
            let outcome = write(&database, 2);
            device.set_hook(|_, _| Ok(()));
            failed += u32::from(outcome.is_err());
            let seen = |database: &Database| -> siltstone::Result<Vec<Vec<Option<Bytes>>>> {
                let mut all: BTreeMap<Bytes, Bytes> = BTreeMap::new();
                for record in database.iter()? {
                    let record = record?;
                    all.insert(record.key, record.value);
                }
                let gets = keys.iter().map(|key| database.get(key)).collect::<siltstone::Result<_>>()?;
                let iterated = keys.iter().map(|key| all.get(key.as_bytes()).cloned()).collect();
                Ok(vec![gets, iterated, database.snapshot()?.get_many(&keys)?, database.get_many(&keys)?])
            };
            let whole = |value: u8| -> Vec<Option<Bytes>> {
                let stays = |number: usize| number % 4 != 3 || value == 1;
                (0..keys.len()).map(|number| stays(number).then(|| vec![value; 100].into())).collect()
            };
            let check = |seen: Vec<Vec<Option<Bytes>>>, when: &str| {
                let is_whole = |seen: &Vec<_>| *seen == whole(2) || outcome.is_err() && *seen == whole(1);
                let name = engine.info.name;
                assert!(seen.iter().all(is_whole), "{name}, {when}, read {fails_at}: {seen:?}");
                assert!(seen.iter().all(|one| *one == seen[0]), "{name}, {when}, read {fails_at}: {seen:?}");
            };
            match seen(&database) {
                Ok(seen) => check(seen, "open"),
                Err(error) => assert!(matches!(error, Error::Torn { .. }), "{error}"),
            }
            let _ = database.close();
            drop(database);
            check(seen(&open()).unwrap(), "opened again");
        }
        // The engine of the example keeps its records in memory.
        assert!(
            failed > 0 || engine.info.name == "append-log",
            "{}: no batch read anything",
            engine.info.name
        );
    }
}

/// The update is stopped while it writes to the log, until `retain` has read the record that it replaces. With other
/// engines, reading a page waits for that write.
#[test]
fn retain_does_not_remove_what_an_update_writes_meanwhile() {
    let is_old = |record: &siltstone::Record| record.value == "old";
    for engine in TestEngine::persistent().filter(|engine| engine.info.name == "flashkey") {
        let device = Intercepted::new(MemoryDirectory::default());
        let builder = engine.builder(Path::new("memory"), None).background_threads(0);
        let database = builder.open_in(Directory::new(device.clone(), Access::Buffered)).unwrap();
        database.put("key", "old").unwrap();
        let [writes, has_read] = [(); 2].map(|()| Arc::new(Barrier::new(2)));
        let is_stopped = Arc::new(AtomicBool::new(true));
        let stop = {
            let (writes, has_read, is_stopped) = (writes.clone(), has_read.clone(), is_stopped.clone());
            move |call, _: &str| {
                let is_updater = thread::current().name() == Some("updater");
                if is_updater && call == Call::Write && is_stopped.swap(false, Relaxed) {
                    writes.wait();
                    has_read.wait();
                }
                Ok(())
            }
        };
        device.set_hook(stop);
        let updated = database.clone();
        let options = WriteOptions::default().durability(Durability::Synced);
        let change = |_: Option<&_>| Ok(Change::Put { value: "new".into(), expires_at_ms: NEVER });
        let update = move || updated.update_with("key", options, change);
        let updater = thread::Builder::new().name("updater".into()).spawn(update).unwrap();
        writes.wait();
        let mut updater = Some(updater);
        let removed = database.retain(|record| {
            // Once: the record is read again after that.
            if let Some(updater) = updater.take() {
                has_read.wait();
                updater.join().unwrap().unwrap();
            }
            !is_old(record)
        });
        assert_eq!(removed.unwrap(), 0, "{}", engine.info.name);
        assert_eq!(database.get("key").unwrap().as_deref(), Some(&b"new"[..]), "{}", engine.info.name);
    }
}

/// Calls of the device fail from one on: what a later write states, names the failure.
#[test]
fn a_database_that_accepts_no_writes_names_the_call_that_failed() {
    let engines: [&[(&str, &str)]; 5] = [
        &[("engine", "silt"), ("partitions", "2")],
        &[("engine", "bloomstore"), ("partitions", "2")],
        &[("engine", "flashkey"), ("segment_bytes", "65536")],
        &[("engine", "flashkey"), ("segment_bytes", "65536"), ("ordered", "true")],
        &[
            ("engine", "flashstore"),
            ("disk", "disk"),
            ("disk.engine", "silt"),
            ("flash_bytes", "1048576"),
            ("segment_bytes", "65536"),
        ],
    ];
    for settings in engines {
        let mut poisoned = 0;
        for after in 0.. {
            let device = SimulatedDirectory::new(after);
            let builder = Database::builder("db").background_threads(0).seed([1, 2]);
            let builder = settings.iter().fold(builder, |builder, (name, value)| builder.set(*name, *value));
            let database = builder.open_in(Directory::new(device.clone(), Access::Buffered)).unwrap();
            device.set_failing_call(Some(FailingCall {
                call: None,
                name_part: "",
                after: after * after,
                for_ever: true,
            }));
            let put = |number: u32| database.put((number % 2_000).to_be_bytes(), [number as u8; 1000]);
            let outcome = (0..3_000).try_for_each(|number| {
                put(number)?;
                if number % 64 == 0 { database.sync() } else { database.step().map(drop) }
            });
            let Err(first) = outcome else { break };
            for outcome in [put(0), database.delete("a"), database.sync()] {
                let Err(later) = outcome else { continue };
                let text = later.to_string();
                assert!(text.contains("Input/output error"), "{settings:?}, {after}: {first}, then {text}");
                poisoned += 1;
            }
        }
        assert!(poisoned > 30, "{settings:?}: {poisoned}");
    }
}

/// Syncs of background work fail, and the device loses what they should have made durable. A get returns what was
/// durable before, or the damage of a HashStore whose records the log still has; after an open it returns all of it.
#[test]
fn after_a_failed_sync_what_was_durable_is_read_or_its_store_is_named_and_an_open_finds_all_of_it() {
    for engine in TestEngine::simulated().filter(|engine| !engine.is_lossy).chain([cleaning()]) {
        let mut failed = 0;
        for seed in 0..20 {
            let random = &mut fastrand::Rng::with_seed(seed);
            let device = SimulatedDirectory::new(seed);
            let mut configuration = Configuration::random(&engine, random);
            let common = &mut configuration.common;
            (common.fixed, common.hashed_keys, common.expiring) = (None, None, None);
            let open = || configuration.open(&device, &Arc::new(AtomicU64::new(1))).unwrap();
            let database = open();
            let mut durable = BTreeMap::new();
            for number in 0..600u32 {
                let (key, value) = ((number % 400).to_be_bytes(), vec![number as u8; random.usize(..90)]);
                database.put(key, &value).unwrap();
                durable.insert(key, value);
                if number % 300 < 150 {
                    database.step().unwrap();
                }
            }
            database.sync().unwrap();
            // A job may be in progress.
            (0..random.u8(..100)).for_each(|_| _ = database.step().unwrap());
            device.set_faults(Faults { sync_error: 0.5, ..Faults::default() });
            let outcome = (0..300u32).try_for_each(|number| {
                database.put([5, number as u8, 0], [0; 50])?;
                database.step().map(drop)
            });
            device.set_faults(Faults::default());
            failed += u32::from(outcome.is_err());
            let name = engine.info.name;
            for (key, value) in &durable {
                match database.get(key) {
                    Ok(found) => {
                        assert_eq!(found.as_deref(), Some(&value[..]), "{name}, seed {seed}, {key:?}")
                    }
                    Err(Error::Corrupt { file, .. }) if file.to_string_lossy().ends_with(".hash") => {}
                    Err(error) => panic!("{name}, seed {seed}, {key:?}: {error}"),
                }
            }
            drop(database);
            let database = open();
            for (key, value) in &durable {
                assert_eq!(
                    database.get(key).unwrap().as_deref(),
                    Some(&value[..]),
                    "{name}, seed {seed}, {key:?}"
                );
            }
        }
        assert!(failed > 10 || engine.info.name == "append-log", "{}: {failed} runs", engine.info.name);
    }
}
