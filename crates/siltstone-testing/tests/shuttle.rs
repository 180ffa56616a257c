//! Schedules of threads, explored by Shuttle, which chooses the next thread at every lock and every atomic.
//! `.ci/sanitize` runs this test, which needs a build with `--cfg shuttle`.
#![cfg(shuttle)]

use shuttle::rand::Rng as _;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::atomic::{AtomicU64, Ordering::SeqCst};
use shuttle::{Config, Runner, thread};
use siltstone::engine::flashkey::Mistake;
use siltstone::engine::silt::SiltSettings;
use siltstone::{Batch, Bytes, Change, Database, Durability, FlashKeySettings, WriteOptions};
use siltstone_device::memory::MemoryDirectory;
use siltstone_device::{Access, Directory};
use siltstone_testing::linearizability::{Action, Event, check};
use siltstone_testing::{Crash, FailingCall, SimulatedDirectory, Survival};
use std::sync::{Arc, Mutex};

/// The number of random schedules, and of schedules with few switches of the thread.
const ORDERS: usize = 1500;
const CHANGES_MAX: usize = 4;

fn try_orders(orders: usize, test: fn()) {
    let mut config = Config::new();
    config.stack_size = 1 << 20;
    // A deadlock is found at once. A run with more steps than this counts as one.
    config.max_steps = shuttle::MaxSteps::FailAfter(2_000_000);
    Runner::new(RandomScheduler::new_from_seed(1, orders), config.clone()).run(test);
    Runner::new(PctScheduler::new_from_seed(2, CHANGES_MAX, orders), config).run(test);
}

/// Opens a database so small that a few puts fill its stores. The threads that call `step` do its background work.
fn open(directory: Directory) -> Database {
    let settings = SiltSettings::default().log_slots_min(16).region_slots_max(16);
    let settings = settings.log_segment_bytes(512).step_records(8);
    let builder = Database::builder("shuttle").engine(settings).partitions(2).block_bytes(512);
    let builder = builder.seed([1, 2]).background_threads(0);
    builder.open_in(directory).unwrap()
}

fn memory() -> Directory {
    Directory::new(MemoryDirectory::default(), Access::Buffered)
}

fn number(value: &Bytes) -> u64 {
    u64::from_le_bytes(value[..].try_into().unwrap())
}

/// The operations on one key, with the moments of their calls and returns.
#[derive(Clone)]
struct History {
    clock: Arc<AtomicU64>,
    events: Arc<Mutex<Vec<Event>>>,
}

impl History {
    fn note(&self, operation: impl FnOnce() -> Action) {
        let called = self.clock.fetch_add(1, SeqCst);
        let action = operation();
        let returned = self.clock.fetch_add(1, SeqCst);
        self.events.lock().unwrap().push(Event { called, returned, action });
    }
}

const KEY: &[u8] = b"shared";

fn use_key(database: &Database, history: &History, thread: u64) {
    let value = |round: u64| (thread * 100 + round).to_le_bytes();
    history.note(|| {
        let mut seen = None;
        let put = Change::Put { value: Bytes::copy_from_slice(&value(1)), expires_at_ms: 0 };
        let update = database.update(KEY, |found| {
            seen = found.map(|found| number(&found.value));
            Ok(put.clone())
        });
        update.unwrap();
        Action::Update { seen, written: Some(thread * 100 + 1) }
    });
    history.note(|| Action::Read(database.get(KEY).unwrap().as_ref().map(number)));
    history.note(|| {
        if thread == 0 {
            database.delete(KEY).unwrap();
            return Action::Write(None);
        }
        let inserted = database.insert_if_absent(KEY, value(2)).unwrap();
        Action::InsertIfAbsent { value: thread * 100 + 2, inserted }
    });
    history.note(|| {
        let called = database.iter().unwrap();
        let found = called.map(Result::unwrap).find(|record| record.key == KEY);
        Action::Read(found.map(|record| number(&record.value)))
    });
}

#[test]
fn in_any_schedule_a_key_is_linearizable_while_stores_are_converted_and_merged() {
    try_orders(ORDERS, || {
        let database = open(memory());
        for filler in 0..40u64 {
            database.put(filler.to_be_bytes(), filler.to_le_bytes()).unwrap();
        }
        let history = History { clock: Arc::default(), events: Arc::default() };
        let mut threads: Vec<_> = (0..3)
            .map(|thread| {
                let (database, history) = (database.clone(), history.clone());
                thread::spawn(move || use_key(&database, &history, thread))
            })
            .collect();
        for worker in 0..2 {
            let database = database.clone();
            threads.push(thread::spawn(move || {
                if worker == 0 {
                    database.put(1000u64.to_be_bytes(), [0; 8]).unwrap();
                }
                (0..12).for_each(|_| assert!(database.step().is_ok()));
            }));
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let last = database.get(KEY).unwrap();
        history.note(|| Action::Read(last.as_ref().map(number)));
        check(None, &history.events.lock().unwrap()).unwrap_or_else(|found| panic!("{found}"));
        database.compact().unwrap();
        assert_eq!(database.get(KEY).unwrap(), last);
        assert_eq!(database.stats().records, database.stats().merged_records);
    });
}

#[test]
fn in_any_schedule_what_a_shared_sync_acknowledged_survives_a_power_loss() {
    try_orders(ORDERS, || {
        let device = SimulatedDirectory::new(1);
        let database = open(Directory::new(device.clone(), Access::Buffered));
        let acknowledged: Arc<Mutex<Vec<u64>>> = Arc::default();
        let synced = WriteOptions::default().durability(Durability::Synced);
        let mut threads: Vec<_> = (0..3u64)
            .map(|thread| {
                let (database, acknowledged) = (database.clone(), acknowledged.clone());
                thread::spawn(move || {
                    for round in 0..3 {
                        let key = thread * 10 + round;
                        if database.put_with(key.to_be_bytes(), [7; 40], synced).is_err() {
                            return;
                        }
                        acknowledged.lock().unwrap().push(key);
                    }
                })
            })
            .collect();
        let worker = database.clone();
        threads.push(thread::spawn(move || {
            let _ = worker.compact();
        }));
        // The other threads begin.
        (0..10).for_each(|_| thread::yield_now());
        let survivors = acknowledged.lock().unwrap().clone();
        let lost_power = Crash::PowerLost(Survival::Nothing);
        let left = device.crash(lost_power, &mut fastrand::Rng::with_seed(1));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let database = open(Directory::new(left, Access::Buffered));
        for key in survivors {
            assert!(database.contains(key.to_be_bytes()).unwrap(), "{key} was acknowledged and is lost");
        }
    });
}

#[test]
fn in_any_schedule_a_snapshot_finds_records_that_are_released_while_it_begins() {
    try_orders(ORDERS, || {
        let database = open(memory());
        for filler in 0..40u64 {
            database.put(filler.to_be_bytes(), filler.to_le_bytes()).unwrap();
        }
        let worker = database.clone();
        let working = thread::spawn(move || worker.compact().unwrap());
        for _ in 0..2 {
            let records = database.iter().unwrap().collect::<siltstone::Result<Vec<_>>>();
            assert_eq!(records.unwrap().len(), 40);
        }
        working.join().unwrap();
    });
}

/// One thread puts some records, while another fills the segment with them and cleans it.
fn clean_what_is_being_written(mistake: Option<Mistake>) {
    let settings = FlashKeySettings::default().segment_bytes(4096).space(1.05).classes(1).mistake(mistake);
    let builder = Database::builder("shuttle").engine(settings).partitions(16).seed([1, 2]);
    let database = builder.background_threads(0).open_in(memory()).unwrap();
    let writer = database.clone();
    let writing = thread::spawn(move || (0..4u8).for_each(|key| writer.put([key], [key; 64]).unwrap()));
    // Less than two segments: the second would be indexed before redo is written.
    (0..12).for_each(|round| database.put("other", [round; 400]).unwrap());
    for _ in 0..12 {
        database.step().unwrap();
    }
    writing.join().unwrap();
    (0..4u8).for_each(|key| assert_eq!(database.get([key]).unwrap().as_deref(), Some(&[key; 64][..])));
}

/// Cleaning used to begin while a thread had appended a record and not indexed it yet, so the record was lost.
#[test]
fn in_any_schedule_cleaning_finds_the_records_that_are_being_written() {
    try_orders(ORDERS, || clean_what_is_being_written(None));
    let mistaken = || clean_what_is_being_written(Some(Mistake::CleansBeforeIndexing));
    assert!(std::panic::catch_unwind(|| try_orders(ORDERS, mistaken)).is_err(), "the mistake was not found");
}

/// The writes of a writer in a round: all of its keys get the round as their value.
const WRITER_KEYS: u8 = 3;
const WRITERS: u8 = 3;
const ROUNDS: u64 = 3;
/// The approximate number of device calls in a run.
const CALLS: u64 = 160;

/// Writes batches until one is refused. Returns the last acknowledged round.
fn write_rounds(database: &Database, writer: u8) -> Option<u64> {
    let mut acknowledged = None;
    for round in 0..ROUNDS {
        let mut batch = Batch::new();
        for key in 0..WRITER_KEYS {
            batch.put([writer, key], round.to_le_bytes()).unwrap();
        }
        let synced = WriteOptions::default().durability(Durability::Synced);
        if database.write_with(&batch, synced).is_err() {
            assert!(database.put("later", "value").is_err(), "acknowledged after a failure");
            break;
        }
        acknowledged = Some(round);
    }
    acknowledged
}

#[test]
fn in_any_schedule_and_whichever_call_fails_what_is_acknowledged_survives() {
    // Longer than the others. `tests/concurrent.rs` tests more.
    try_orders(ORDERS / 3, || {
        let simulated = SimulatedDirectory::new(1);
        let database = open(Directory::new(simulated.clone(), Access::Buffered));
        for filler in 0..40u64 {
            database.put(filler.to_be_bytes(), filler.to_le_bytes()).unwrap();
        }
        database.sync().unwrap();
        let after = shuttle::rand::thread_rng().gen_range(0..CALLS);
        simulated.set_failing_call(Some(FailingCall { call: None, name_part: "", after, for_ever: false }));
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let database = database.clone();
                thread::spawn(move || write_rounds(&database, writer))
            })
            .collect();
        let workers: Vec<_> = (0..2)
            .map(|worker| {
                let database = database.clone();
                thread::spawn(move || {
                    let _ = if worker == 0 { database.compact() } else { Ok(()) };
                    (0..8).for_each(|_| drop(database.step()));
                })
            })
            .collect();
        let acknowledged: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        let left = simulated.crash(Crash::PowerLost(Survival::Nothing), &mut fastrand::Rng::with_seed(1));
        let database = open(Directory::new(left, Access::Buffered));
        database.compact().unwrap();
        for filler in 0..40u64 {
            assert!(database.contains(filler.to_be_bytes()).unwrap(), "{filler} is lost");
        }
        for (writer, acknowledged) in (0..).zip(acknowledged) {
            let value = |key: u8| database.get([writer, key]).unwrap().as_ref().map(number);
            assert!((1..WRITER_KEYS).all(|key| value(key) == value(0)), "half of a batch of {writer}");
            assert!(value(0) >= acknowledged, "{:?} instead of {acknowledged:?}", value(0));
        }
    });
}
