//! Histories that the checker must accept and must reject; a load finds a mistake of the engine.

use super::*;
use crate::TestEngine;
use siltstone::engine::silt::{Mistake, SiltSettings};
use siltstone::{Builder, Database};
use siltstone_device::memory::MemoryDirectory;
use siltstone_device::{Access, Directory};
use std::path::Path;

fn event(called: u64, returned: u64, action: Action) -> Event {
    Event { called, returned, action }
}

const ONE: Action = Action::Write(Some(1));
const TWO: Action = Action::Write(Some(2));

#[test]
fn what_happens_one_after_the_other_is_in_order() {
    let update = Action::Update { seen: Some(1), written: None };
    let inserts = |inserted| Action::InsertIfAbsent { value: 7, inserted };
    let history = [ONE, Action::Read(Some(1)), inserts(false), update, inserts(true), Action::Read(Some(7))];
    let history: Vec<_> =
        (0..).step_by(2).zip(history).map(|(at, action)| event(at, at + 1, action)).collect();
    check(None, &history).unwrap();
    let wrong = check(Some(1), &[event(0, 1, inserts(true))]).unwrap_err();
    assert_eq!(wrong.states, [Some(1)]);
}

#[test]
fn a_read_during_a_write_may_see_either_value_but_not_the_old_one_after_the_new_one() {
    for seen in [None, Some(1)] {
        check(None, &[event(0, 9, ONE), event(1, 2, Action::Read(seen))]).unwrap();
    }
    let reads = |first, second| {
        [event(0, 9, ONE), event(1, 2, Action::Read(first)), event(3, 4, Action::Read(second))]
    };
    check(None, &reads(None, Some(1))).unwrap();
    assert!(check(None, &reads(Some(1), None)).is_err());
}

#[test]
fn a_comparison_holds_only_for_another_value() {
    let history = |compared| [event(0, 1, ONE), event(2, 3, Action::Differs(compared))];
    check(None, &history(None)).unwrap();
    check(None, &history(Some(2))).unwrap();
    assert!(check(None, &history(Some(1))).is_err());
}

#[test]
fn a_stale_read_is_found() {
    let history = [event(0, 1, ONE), event(2, 3, TWO), event(4, 5, Action::Read(Some(1)))];
    assert_eq!(check(None, &history).unwrap_err().event, history[2]);
    // Unless the writes were at the same time.
    check(None, &[event(0, 3, ONE), event(1, 2, TWO), history[2]]).unwrap();
}

#[test]
fn a_lost_update_is_found() {
    let update = |written| Action::Update { seen: None, written: Some(written) };
    assert!(check(None, &[event(0, 2, update(1)), event(1, 3, update(2))]).is_err());
    let both = |inserted| Action::InsertIfAbsent { value: 5, inserted };
    check(None, &[event(0, 2, both(true)), event(1, 3, both(false))]).unwrap();
    assert!(check(None, &[event(0, 2, both(true)), event(1, 3, both(true))]).is_err());
}

/// Returns a history whose operations take effect one after the other, and whose calls overlap.
fn sound_history(random: &mut fastrand::Rng, threads: usize, count: u64) -> Vec<Event> {
    let (mut state, mut free_from) = (None, vec![0; threads]);
    let mut history = Vec::new();
    for number in 0..count {
        let (thread, happens) = (random.usize(..threads), 1000 * (number + 1));
        if free_from[thread] >= happens {
            continue;
        }
        let called = random.u64(free_from[thread]..happens);
        let returned = random.u64(happens + 1..happens + 3000);
        free_from[thread] = returned + 1;
        let (action, after) = match random.u8(..4) {
            0 => (Action::Read(state), state),
            1 => (Action::Write(Some(number)), Some(number)),
            2 => {
                let inserted = state.is_none();
                (Action::InsertIfAbsent { value: number, inserted }, state.or(Some(number)))
            }
            _ => {
                let written = random.bool().then_some(number);
                (Action::Update { seen: state, written }, written)
            }
        };
        state = after;
        history.push(event(called, returned, action));
    }
    random.shuffle(&mut history);
    history
}

#[test]
fn what_did_happen_in_some_order_is_accepted_and_a_value_from_long_ago_is_not() {
    let mut random = fastrand::Rng::with_seed(9);
    for _ in 0..300 {
        let threads = random.usize(1..6);
        let mut history = sound_history(&mut random, threads, 200);
        check(None, &history).unwrap_or_else(|error| panic!("{error}"));
        history.sort_unstable_by_key(|event| event.called);
        let old = history.iter().find_map(|event| match event.action {
            Action::Write(written) => Some((event.returned, written)),
            _ => None,
        });
        let Some((written_at, old)) = old else { continue };
        let late = history.iter().rposition(|event| matches!(event.action, Action::Read(_)));
        let Some(late) = late else { continue };
        let overwritten = history.iter().any(|event| {
            event.called > written_at
                && event.returned < history[late].called
                && matches!(event.action, Action::Write(_))
        });
        if overwritten {
            history[late].action = Action::Read(old);
            assert!(check(None, &history).is_err());
        }
    }
}

fn open(builder: Builder) -> Database {
    let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
    builder.background_threads(1).open_in(directory).unwrap()
}

fn load() -> Load {
    Load { threads: 4, operations: 1500, hot_keys: 2, keys: 1000, value_length: None, seed: 1 }
}

#[test]
fn a_database_in_memory_is_linearizable() {
    for engine in TestEngine::all() {
        let mut rounds = 0..4;
        let database = open(engine.builder(Path::new("memory"), None));
        let counts = load().run(&database, |_| rounds.next().is_some()).unwrap();
        assert_eq!(counts.operations, 4 * 4 * 1500);
        println!("{engine:?}: {counts:?}");
    }
}

#[test]
fn an_update_that_reads_before_it_locks_is_found() {
    // Two threads must meet at one key. In this number of operations they practically always do.
    let mistake = Some(Mistake::ReadsBeforeLocking);
    let settings = SiltSettings::default().log_slots_min(64).step_records(20).mistake(mistake);
    let database = open(Database::builder("memory").engine(settings).partitions(2));
    let found = load().run(&database, |counts| counts.operations < 3_000_000);
    let found = found.unwrap_err();
    assert!(found.contains("has no place"), "{found}");
}
