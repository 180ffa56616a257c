//! How many conversions and merges are in progress at once. Threads do background work one after the other, and each is
//! stopped at the first write of a store of one kind, until all have come.

use super::simulated::{Expected, settings};
use siltstone::engine::CommonSettings;
use siltstone::engine::silt::SiltSettings;
use siltstone::{Builder, Database, Durability};
use siltstone_device::{Access, Directory};
use siltstone_testing::{Call, Crash, Faults, Intercepted, SimulatedDirectory, Survival};
use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// A thread that executes this many steps does not find another job of the kind.
const STEPS: usize = 300;
const SEED: [u64; 2] = [1, 2];

type Device = Intercepted<SimulatedDirectory>;

/// Stops each thread that begins to write a store whose name ends like this.
struct Gate {
    suffix: &'static str,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The files that have been written to.
    begun: BTreeSet<String>,
    /// Threads that were not stopped, and have done all of their steps.
    ended: usize,
    is_open: bool,
}

impl Gate {
    fn close(device: &Device, suffix: &'static str) -> Arc<Gate> {
        let gate = Arc::new(Gate { suffix, state: Mutex::default(), changed: Condvar::new() });
        let stopping = gate.clone();
        device.set_hook(move |call, name| {
            if call == Call::Write && name.ends_with(stopping.suffix) {
                let mut state = stopping.state.lock().unwrap();
                if !state.is_open && state.begun.insert(name.to_owned()) {
                    stopping.changed.notify_all();
                    drop(stopping.changed.wait_while(state, |state| !state.is_open).unwrap());
                }
            }
            Ok(())
        });
        gate
    }

    /// Runs `work` in this many threads, each when all others are stopped or have ended. Returns how many stores are
    /// being written then. All of them continue afterwards.
    fn come(&self, threads: usize, work: impl Fn(usize) + Sync) -> usize {
        thread::scope(|scope| {
            for number in 0..threads {
                let (work, gate) = (&work, self);
                scope.spawn(move || {
                    work(number);
                    gate.state.lock().unwrap().ended += 1;
                    gate.changed.notify_all();
                });
                let state = self.state.lock().unwrap();
                let is_at_work = |state: &mut State| state.begun.len() + state.ended <= number;
                drop(self.changed.wait_while(state, is_at_work).unwrap());
            }
            let mut state = self.state.lock().unwrap();
            state.is_open = true;
            self.changed.notify_all();
            state.begun.len()
        })
    }
}

fn device() -> Device {
    Intercepted::new(SimulatedDirectory::new(1))
}

/// Opens a database of this many partitions whose steps this many threads execute.
fn open(device: &Device, settings: SiltSettings, partitions: u32, threads: usize) -> Database {
    open_with(device, settings, partitions, threads, |builder| builder)
}

fn open_with(
    device: &Device,
    settings: SiltSettings,
    partitions: u32,
    threads: usize,
    setup: impl FnOnce(Builder) -> Builder,
) -> Database {
    let common = CommonSettings { partitions: Some(partitions), threads, ..CommonSettings::default() };
    let builder = Database::builder("simulated").engine(settings).common(common).background_threads(0);
    setup(builder.seed(SEED)).open_in(Directory::new(device.clone(), Access::Buffered)).unwrap()
}

fn detail(database: &Database, name: &str) -> f64 {
    let details = database.stats().details;
    details.iter().find(|(found, _)| *found == name).map_or(0.0, |(_, value)| *value)
}

fn steps(database: &Database) {
    (0..STEPS).for_each(|_| database.step().map(drop).unwrap());
}

/// Fills LogStores of five partitions of 64, so that conversions are behind.
fn freeze(database: &Database, expected: &mut Expected) {
    let mut next = 0;
    while detail(database, "log_stores_frozen") < 5.0 {
        expected.put(database, next..next + 1, Durability::Buffered);
        next += 1;
    }
}

/// Returns how many partitions a compaction merges at once, and checks that no record is lost. `open` opens the
/// database; `prepare` is called before the compaction.
fn merges_at_once(
    device: &Device,
    open: impl Fn() -> Database,
    prepare: impl FnOnce(&Database),
) -> (usize, Database) {
    let (database, mut expected) = (open(), Expected::default());
    expected.put(&database, 0..600, Durability::Written);
    database.close().unwrap();
    drop(database);
    // Opened again, it has no removed files, over which new stores would be written: the gate knows files by the names
    // that they had when they were opened.
    let database = open();
    prepare(&database);
    let gate = Gate::close(device, ".sorted");
    let at_once = gate.come(6, |number| match number {
        0 => database.compact().unwrap(),
        _ => steps(&database),
    });
    database.compact().unwrap();
    expected.check(&database);
    assert_eq!(detail(&database, "further_merges") > 0.0, at_once > 1);
    assert_eq!(database.stats().records, database.stats().merged_records);
    (at_once, database)
}

#[test]
fn as_many_partitions_are_merged_at_once_as_there_are_threads_but_one() {
    let at_once = |threads| {
        let device = device();
        merges_at_once(&device, || open(&device, settings(), 4, threads), |_| {}).0
    };
    // With up to two threads, the second one is for a conversion.
    assert_eq!([0, 1, 2, 3, 4, 5, 9].map(at_once), [1, 1, 1, 2, 3, 4, 4]);
}

#[test]
fn as_many_log_stores_are_converted_at_once_as_there_are_threads_but_one() {
    let at_once = |threads| {
        let (device, mut expected) = (device(), Expected::default());
        let database = open(&device, settings().merge_ratio(10.0), 64, threads);
        freeze(&database, &mut expected);
        let gate = Gate::close(&device, ".hash");
        let at_once = gate.come(7, |_| steps(&database));
        assert_eq!(detail(&database, "further_conversions") > 0.0, at_once > 1);
        expected.check(&database);
        at_once
    };
    // The pressure is high enough for five.
    assert_eq!([1, 2, 3, 4, 9].map(at_once), [1, 1, 2, 3, 5]);
}

#[test]
fn merges_that_are_far_behind_are_of_several_partitions() {
    let (device, mut expected) = (device(), Expected::default());
    let database = open(&device, settings().merge_ratio(10.0), 4, 4);
    expected.put(&database, 0..2_000, Durability::Written);
    database.compact().unwrap();
    expected.put(&database, 0..600, Durability::Written);
    database.settle().unwrap();
    database.close().unwrap();
    drop(database);
    // Now fewer records are to be in HashStores.
    let database = open(&device, settings().merge_ratio(0.01), 4, 4);
    assert!(detail(&database, "pressure") >= 1.0);
    let gate = Gate::close(&device, ".sorted");
    assert_eq!(gate.come(5, |_| steps(&database)), 3);
    expected.check(&database);
}

/// A rate limits what all jobs of a kind read and write.
#[test]
fn with_a_rate_there_is_one_job_of_a_kind() {
    let (limited, device, mut expected) = (device(), device(), Expected::default());
    let open_limited = || open(&limited, settings().merge_bytes_per_s(1 << 40), 4, 5);
    assert_eq!(merges_at_once(&limited, open_limited, |_| {}).0, 1);
    let database = open(&device, settings().merge_ratio(10.0).convert_bytes_per_s(1 << 40), 64, 5);
    freeze(&database, &mut expected);
    let gate = Gate::close(&device, ".hash");
    assert_eq!(gate.come(5, |_| steps(&database)), 1);
}

#[test]
fn a_further_merge_begins_only_if_the_budget_has_place_for_it() {
    let at_once = |budget| {
        let device = device();
        let settings = settings().filter_last_store(Some(6));
        let open = || open_with(&device, settings.clone(), 4, 5, |builder| builder.memory_budget(budget));
        let (at_once, database) = merges_at_once(&device, open, |_| {});
        let peak = database.stats().ram_peak;
        assert!(peak.total_bytes() <= budget, "{at_once} of {budget}: {:?}", peak.items());
        at_once
    };
    // From the least budget on.
    let at_once = [528 << 10, 600 << 10, 768 << 10, 8 << 20].map(at_once);
    assert_eq!(at_once, [2, 3, 4, 4]);
}

#[test]
fn a_further_merge_begins_only_if_the_device_has_space_for_it() {
    // What puts that were checked before may still use.
    let besides = 16 << 20;
    let at_once = |free: u64| {
        let simulated = SimulatedDirectory::new(1);
        let device = Intercepted::new(simulated.clone());
        let limit = |database: &Database| {
            let used = simulated.named_bytes();
            let capacity_bytes = Some(used + detail(database, "reserve_bytes") as u64 + besides + free);
            simulated.set_faults(Faults { capacity_bytes, states_free_bytes: true, ..Faults::default() });
        };
        merges_at_once(&device, || open(&device, settings(), 4, 5), limit).0
    };
    let at_once: Vec<_> = (0..24).map(|step| at_once(step * (32 << 10))).collect();
    assert!(at_once.is_sorted() && (1..=4).all(|count| at_once.contains(&count)), "{at_once:?}");
}

/// Merges of several partitions are in progress when one of them fails: nothing of any of them is lost.
#[test]
fn a_merge_that_fails_stops_the_others_and_loses_nothing() {
    let simulated = SimulatedDirectory::new(1);
    let device = Intercepted::new(simulated.clone());
    let database = open(&device, settings(), 4, 4);
    let mut expected = Expected::default();
    expected.put(&database, 0..600, Durability::Synced);
    let gate = Gate::close(&device, ".sorted");
    let at_once = gate.come(4, |number| {
        if number < 3 {
            let outcome = if number == 0 {
                database.compact()
            } else {
                (0..STEPS).try_for_each(|_| database.step().map(drop))
            };
            assert!(outcome.is_err() || database.put("key", "value").is_err());
        } else {
            // The others are stopped.
            simulated.set_faults(Faults { sync_error: 1.0, ..Faults::default() });
        }
    });
    assert_eq!(at_once, 3);
    expected.check(&database);
    let left = simulated.crash(Crash::PowerLost(Survival::Nothing), &mut fastrand::Rng::with_seed(1));
    drop(database);
    let device = Intercepted::new(left);
    let database = open(&device, settings(), 4, 4);
    expected.check(&database);
    database.compact().unwrap();
    expected.check(&database);
}
