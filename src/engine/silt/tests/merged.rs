//! Lookups while a merge is in progress.

use super::key;
use crate::batch::{Durability, HashedWrite};
use crate::engine::silt::{IndexKind, SiltSettings};
use crate::engine::{CommonSettings, Engine, EngineSettings, Found, Opening, Step, collect_many};
use crate::stats::Stats;
use siltstone_device::memory::MemoryDirectory;
use siltstone_device::{Access, Directory};
use std::sync::Arc;

const KEYS: u64 = 9_000;

fn value(round: u64) -> [u8; 8] {
    round.to_le_bytes()
}

/// Returns the value of a key after the second round, if it has one.
fn expected(number: u64) -> Option<[u8; 8]> {
    let round = if (2_000..7_000).contains(&number) { 2 } else { 1 };
    (number < 8_000 && !(number + round).is_multiple_of(5)).then(|| value(round))
}

fn write(engine: &dyn Engine, numbers: std::ops::Range<u64>, round: u64) {
    let hasher = engine.hasher();
    for number in numbers {
        let (key, value) = (key(number), value(round));
        let write = match (number + round).is_multiple_of(5) {
            true => HashedWrite::delete(hasher.key(&key)),
            false => HashedWrite::put(hasher.key(&key), &value, 0),
        };
        engine.write(&[write], Durability::Buffered, &|| 0).unwrap();
    }
    while engine.step(0).unwrap() == Step::Worked {}
}

fn check(get: impl Fn(&[[u8; 8]]) -> Vec<Option<Found>>, step: usize) {
    let numbers = (0..KEYS).skip(step % 7).step_by(7);
    let keys: Vec<_> = numbers.clone().map(key).collect();
    for (number, found) in numbers.zip(get(&keys)) {
        let found = found.map(|found| found.value.to_vec());
        assert_eq!(found, expected(number).map(Vec::from), "{number} after {step} steps");
    }
}

fn number_of(stats: &Stats, name: &str) -> f64 {
    let of_ram = stats.ram.items().iter().find(|(item, _)| *item == name).map(|(_, bytes)| *bytes as f64);
    of_ram.or_else(|| stats.details.iter().find(|(item, _)| *item == name).map(|(_, count)| *count)).unwrap()
}

#[test]
fn a_merge_frees_the_filters_of_what_it_has_merged_and_all_keys_are_found_meanwhile() {
    for (index, fixed, frees) in [
        (None, Some((8, 8)), true),
        (None, None, true),
        (Some(IndexKind::SlotPerfect), Some((8, 8)), true),
        (Some(IndexKind::EntropyTrie), Some((8, 8)), false),
    ] {
        let opening = Opening {
            directory: Directory::new(MemoryDirectory::default(), Access::Buffered),
            common: &CommonSettings { fixed, partitions: Some(1), ..CommonSettings::default() },
            create: true,
            seed: Some([1, 2]),
            now_ms: 0,
            disk: None,
            progress: &mut |_, _| true,
        };
        let settings = SiltSettings::default().index(index).log_slots_min(1_024).merge_ratio(10.0);
        let engine: Arc<dyn Engine> = settings.step_records(64).open(opening).unwrap();
        let get_many = |keys: &[[u8; 8]]| {
            let keys: Vec<_> = keys.iter().map(|key| engine.hasher().key(key)).collect();
            collect_many(&*engine, &keys, 0).unwrap()
        };
        let get = |keys: &[[u8; 8]]| {
            keys.iter().map(|key| engine.get(engine.hasher().key(key), 0).unwrap()).collect::<Vec<_>>()
        };
        write(&*engine, 0..8_000, 1);
        engine.request_compaction().unwrap();
        while engine.step(0).unwrap() == Step::Worked {}
        write(&*engine, 2_000..7_000, 2);
        let before = engine.stats();
        let whole = number_of(&before, "hash_filter");
        engine.request_compaction().unwrap();
        let (mut step, mut least, mut snapshot) = (0, whole, None);
        while engine.step(0).unwrap() == Step::Worked {
            let stats = engine.stats();
            if number_of(&stats, "merges") > number_of(&before, "merges") {
                break;
            }
            least = least.min(number_of(&stats, "hash_filter"));
            if step % 2 == 0 {
                check(get_many, step)
            } else {
                check(get, step)
            }
            if least < whole / 2.0 && snapshot.is_none() {
                snapshot = Some(engine.snapshot(0).unwrap());
            }
            step += 1;
        }
        assert!(step > 20 && whole > 0.0);
        let freed = 1.0 - least / whole;
        assert!(if frees { freed > 0.4 } else { freed == 0.0 }, "{index:?}: {freed} of {whole} bytes");
        while engine.step(0).unwrap() == Step::Worked {}
        assert_eq!(number_of(&engine.stats(), "hash_filter"), 0.0);
        check(get_many, 0);
        let Some(snapshot) = snapshot else { continue };
        let hasher = engine.hasher();
        check(|keys| keys.iter().map(|key| snapshot.get(hasher.key(key)).unwrap()).collect(), 1);
    }
}
