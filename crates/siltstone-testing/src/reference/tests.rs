use super::*;

pub(super) fn put<'a>(key: &'a str, value: &'a str) -> Write<'a> {
    Write::Put { key: key.as_bytes(), value: value.as_bytes(), expires_at_ms: NEVER }
}

fn cell(value: &str) -> Cell {
    Cell { value: Bytes::copy_from_slice(value.as_bytes()), expires_at_ms: NEVER }
}

/// Records written as `a=1 b=2`.
pub(super) fn records(text: &str) -> Records {
    let pairs = text.split_whitespace().map(|pair| pair.split_once('=').unwrap());
    pairs.map(|(key, value)| (Bytes::copy_from_slice(key.as_bytes()), cell(value))).collect()
}

/// Returns whether the database may have these records after this ending.
fn may_be(reference: &Reference, ending: Ending, text: &str) -> bool {
    reference.clone().restarted(ending, &records(text), 0).is_ok()
}

/// Returns a reference with buffered a, written b, synced c, then the same again with primes.
fn six_writes() -> Reference {
    let mut reference = Reference::new();
    for (key, durability) in [
        ("a", Durability::Buffered),
        ("b", Durability::Written),
        ("c", Durability::Synced),
        ("d", Durability::Buffered),
        ("e", Durability::Written),
        ("f", Durability::Buffered),
    ] {
        reference.acknowledged(&[put(key, "1")], durability);
    }
    reference
}

#[test]
fn each_ending_keeps_what_was_promised_and_may_keep_what_was_not() {
    let reference = six_writes();
    let up_to = |count: usize| "a=1 b=1 c=1 d=1 e=1 f=1"[..count * 4 - 1].to_owned();
    for count in 1..=6 {
        let lost = may_be(&reference, Ending::PowerLost, &up_to(count));
        let killed = may_be(&reference, Ending::ProcessKilled, &up_to(count));
        let closed = may_be(&reference, Ending::Closed, &up_to(count));
        assert_eq!((lost, killed, closed), (count >= 3, count >= 5, count == 6), "{count}");
    }
}

#[test]
fn a_later_write_does_not_survive_without_the_earlier_ones() {
    let reference = six_writes();
    assert!(!may_be(&reference, Ending::PowerLost, "a=1 b=1 c=1 e=1"));
    let violation =
        reference.clone().restarted(Ending::PowerLost, &records("a=1 b=1 c=1 e=1"), 0).unwrap_err();
    assert!(violation.to_string().contains("no moment"), "{violation}");
}

#[test]
fn a_batch_is_present_completely_or_not_at_all() {
    let mut reference = Reference::new();
    reference.acknowledged(&[put("a", "1")], Durability::Synced);
    reference.acknowledged(&[put("a", "2"), put("b", "2"), Write::Delete { key: b"c" }], Durability::Written);
    for (text, possible) in [("a=1", true), ("a=2 b=2", true), ("a=2", false), ("a=1 b=2", false)] {
        assert_eq!(may_be(&reference, Ending::PowerLost, text), possible, "{text}");
    }
}

#[test]
fn nothing_that_was_deleted_or_overwritten_comes_back() {
    let mut reference = Reference::new();
    for write in [put("a", "1"), put("a", "2"), put("b", "1"), Write::Delete { key: b"b" }] {
        reference.acknowledged(&[write], Durability::Synced);
    }
    for (text, possible) in
        [("a=2", true), ("a=1", false), ("a=2 b=1", false), ("", false), ("a=2 z=9", false)]
    {
        for ending in [Ending::Closed, Ending::ProcessKilled, Ending::PowerLost] {
            assert_eq!(may_be(&reference, ending, text), possible, "{text} {ending:?}");
        }
    }
    let violation = reference.check(b"a", Some(&cell("1")), 0).unwrap_err();
    assert!(violation.to_string().contains("key a is 1 bytes beginning with \"1\""), "{violation}");
    assert!(reference.check(b"b", Some(&cell("1")), 0).is_err() && reference.check(b"b", None, 0).is_ok());
    assert!(reference.check_all(&records("a=2"), 0).is_ok() && reference.check_all(&records(""), 0).is_err());
}

#[test]
fn a_sync_promises_everything_before_it() {
    let mut reference = six_writes();
    reference.synced();
    assert!(!may_be(&reference, Ending::PowerLost, "a=1 b=1 c=1 d=1 e=1"));
    assert!(may_be(&reference, Ending::PowerLost, "a=1 b=1 c=1 d=1 e=1 f=1"));
}

#[test]
fn after_a_failed_sync_only_what_was_durable_is_promised() {
    let mut reference = six_writes();
    reference.sync_failed();
    assert!(may_be(&reference, Ending::ProcessKilled, "a=1 b=1 c=1"));
    assert!(!may_be(&reference, Ending::ProcessKilled, "a=1 b=1"));
}

#[test]
fn what_survived_a_killed_process_can_still_be_lost_with_the_power() {
    let mut reference = six_writes();
    reference.restarted(Ending::ProcessKilled, &records("a=1 b=1 c=1 d=1 e=1"), 0).unwrap();
    assert!(may_be(&reference, Ending::PowerLost, "a=1 b=1 c=1"));
    assert!(!may_be(&reference, Ending::ProcessKilled, "a=1 b=1 c=1"));
    assert!(!may_be(&reference, Ending::PowerLost, "a=1 b=1 c=1 d=1 e=1 f=1"), "it was lost before");
    assert!(reference.check(b"f", None, 0).is_ok() && reference.check(b"f", Some(&cell("1")), 0).is_err());
}

#[test]
fn what_survived_a_loss_of_power_survives_the_next_one() {
    let mut reference = six_writes();
    reference.restarted(Ending::PowerLost, &records("a=1 b=1 c=1 d=1"), 0).unwrap();
    assert!(may_be(&reference, Ending::PowerLost, "a=1 b=1 c=1 d=1"));
    assert!(!may_be(&reference, Ending::PowerLost, "a=1 b=1 c=1"));
}

#[test]
fn a_failed_write_may_be_there_or_not_until_a_restart() {
    let mut reference = Reference::new();
    reference.acknowledged(&[put("a", "1")], Durability::Synced);
    reference.attempted(&[put("a", "2"), put("b", "2")]);
    assert!(reference.check(b"a", Some(&cell("1")), 0).is_ok());
    assert!(reference.check(b"a", Some(&cell("2")), 0).is_ok());
    assert!(reference.check(b"a", None, 0).is_err());
    reference.acknowledged(&[put("c", "3")], Durability::Written);
    for (text, possible) in
        [("a=1 c=3", true), ("a=2 b=2 c=3", true), ("a=2 c=3", false), ("a=1", false), ("a=2 b=2", false)]
    {
        assert_eq!(may_be(&reference, Ending::ProcessKilled, text), possible, "{text}");
    }
    reference.restarted(Ending::ProcessKilled, &records("a=1 c=3"), 0).unwrap();
    assert!(reference.check(b"a", Some(&cell("2")), 0).is_err(), "it is known to be missing");
    assert!(!may_be(&reference, Ending::PowerLost, "a=2 b=2 c=3"));
    assert!(may_be(&reference, Ending::PowerLost, "a=1"));
}

#[test]
fn a_failed_write_that_a_restart_shows_is_as_durable_as_those_around_it() {
    let mut reference = Reference::new();
    reference.acknowledged(&[put("a", "1")], Durability::Synced);
    reference.attempted(&[put("b", "2")]);
    reference.acknowledged(&[put("c", "3")], Durability::Written);
    reference.restarted(Ending::ProcessKilled, &records("a=1 b=2 c=3"), 0).unwrap();
    assert!(!may_be(&reference, Ending::ProcessKilled, "a=1 c=3"));
    assert!(!may_be(&reference, Ending::PowerLost, "a=1 c=3"), "it came before c");
    assert!(may_be(&reference, Ending::PowerLost, "a=1") && may_be(&reference, Ending::PowerLost, "a=1 b=2"));
}

#[test]
fn a_doubt_that_a_restart_cannot_dispel_stays() {
    let mut reference = Reference::new();
    reference.acknowledged(&[put("a", "1")], Durability::Synced);
    reference.attempted(&[Write::Delete { key: b"a" }]);
    reference.acknowledged(&[put("a", "2")], Durability::Written);
    reference.restarted(Ending::ProcessKilled, &records("a=2"), 0).unwrap();
    assert!(reference.check(b"a", None, 0).is_err());
    for (text, possible) in [("a=1", true), ("", true), ("a=2", true), ("a=3", false)] {
        assert_eq!(may_be(&reference, Ending::PowerLost, text), possible, "{text}");
    }
}

#[test]
fn what_has_expired_must_be_gone_and_what_has_not_must_be_there() {
    let mut reference = Reference::new();
    let mortal = Cell { expires_at_ms: 100, ..cell("1") };
    reference.acknowledged(&[Write::Put { key: b"a", value: b"1", expires_at_ms: 100 }], Durability::Synced);
    let found: Records = [(Bytes::from("a"), mortal.clone())].into();
    let mut after = reference.clone();
    assert!(after.restarted(Ending::PowerLost, &found, 99).is_ok());
    for reference in [reference, after] {
        assert!(reference.check(b"a", Some(&mortal), 99).is_ok() && reference.check(b"a", None, 99).is_err());
        assert!(
            reference.check(b"a", None, 100).is_ok() && reference.check(b"a", Some(&mortal), 100).is_err()
        );
        assert!(reference.check(b"a", Some(&cell("1")), 99).is_err(), "the expiry time is lost");
        assert!(reference.clone().restarted(Ending::PowerLost, &found, 100).is_err());
        assert!(!may_be(&reference, Ending::PowerLost, ""), "at 0 ms");
        assert!(reference.clone().restarted(Ending::PowerLost, &Records::new(), 100).is_ok());
    }
}

#[test]
fn a_violation_names_the_keys_with_what_is_and_what_should_be() {
    let mut reference = Reference::new();
    for key in ["a", "b", "c", "d", "e", "f", "g"] {
        reference.acknowledged(&[put(key, "1")], Durability::Synced);
    }
    let violation = reference.restarted(Ending::PowerLost, &records("a=1 b=2"), 0).unwrap_err().to_string();
    assert!(violation.starts_with("key b is 1 bytes beginning with \"2\""), "{violation}");
    assert!(
        violation.contains("key c is absent, but should be 1 bytes")
            && violation.ends_with("and 1 more keys")
    );
}

/// Compares the model with an enumeration of all prefixes.
#[test]
fn what_is_possible_is_what_an_enumeration_of_all_prefixes_says() {
    let mut random = fastrand::Rng::with_seed(11);
    for _ in 0..300 {
        let mut reference = Reference::new();
        let mut states = vec![BTreeSet::from([String::new()])];
        let (mut written, mut synced) = (0, 0);
        for _ in 0..random.usize(1..12) {
            let (key, value) = (["a", "b", "c"][random.usize(..3)], random.u8(..3).to_string());
            let certain = random.u8(..6) > 0;
            let next: BTreeSet<String> = states[states.len() - 1]
                .iter()
                .flat_map(|state| {
                    let mut changed = records(state);
                    changed.insert(Bytes::from(key), cell(&value));
                    let changed = changed
                        .iter()
                        .map(|(key, cell)| format!("{}={}", name(key), cell.value.escape_ascii()));
                    let changed = changed.collect::<Vec<_>>().join(" ");
                    if certain { vec![changed] } else { vec![changed, state.clone()] }
                })
                .collect();
            states.push(next);
            if !certain {
                reference.attempted(&[put(key, &value)]);
                continue;
            }
            let durability =
                [Durability::Buffered, Durability::Written, Durability::Synced][random.usize(..3)];
            reference.acknowledged(&[put(key, &value)], durability);
            written = if durability >= Durability::Written { states.len() - 1 } else { written };
            synced = if durability >= Durability::Synced { states.len() - 1 } else { synced };
        }
        let all: BTreeSet<&String> = states.iter().flatten().collect();
        for state in all {
            let possible = |promised: usize| states[promised..].iter().any(|states| states.contains(state));
            assert_eq!(may_be(&reference, Ending::PowerLost, state), possible(synced), "{state}");
            assert_eq!(may_be(&reference, Ending::ProcessKilled, state), possible(written), "{state}");
        }
    }
}
