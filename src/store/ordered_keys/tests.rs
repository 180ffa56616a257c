use super::*;
use crate::damage::DamagedPart;
use crate::error::Error;
use crate::key::KEY_LENGTH_MAX;
use crate::store::StoreFooter;
use crate::store::file::tests::forge;
use siltstone_device::memory::MemoryDirectory;
use siltstone_device::{Access, AlignedBuffer};
use std::collections::BTreeMap;
use std::ops::RangeBounds;

fn directory() -> Directory {
    Directory::new(MemoryDirectory::default(), Access::Buffered)
}

/// Keys with common beginnings, some longer than a page.
fn key(number: u64) -> Vec<u8> {
    match number % 50 {
        0 => [format!("long{number:05}").as_bytes(), &[b'x'; 5000]].concat(),
        1 => vec![0xff; 1 + (number % 7) as usize],
        short if short < 25 => format!("user{:03}", number % 311).into_bytes(),
        _ => number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[..2 + (number % 5) as usize].to_vec(),
    }
}

type Model = BTreeMap<Vec<u8>, KeyState>;

/// The set under test, the same set as a map, and the live runs as a manifest would have them.
struct TestBed {
    keys: OrderedKeys,
    model: Model,
    next_number: u64,
    random: fastrand::Rng,
}

impl TestBed {
    fn new(seed: u64) -> TestBed {
        let keys = OrderedKeys::open(&directory(), &[], Some(1 << 20)).unwrap();
        TestBed { keys, model: Model::new(), next_number: 1, random: fastrand::Rng::with_seed(seed) }
    }

    fn run(&mut self) -> KeyRun {
        self.next_number += 1;
        KeyRun { number: self.next_number, tag: self.next_number << 8 | 5 }
    }

    fn change(&mut self, count: usize) {
        for _ in 0..count {
            let key = key(self.random.u64(..1500));
            let state = [KeyState::Live, KeyState::Live, KeyState::Expiring, KeyState::Deleted];
            let state = state[self.random.usize(..4)];
            self.keys.insert(&key, state);
            self.model.insert(key, state);
        }
    }

    fn flush(&mut self) {
        self.keys.seal();
        let run = self.run();
        if let Some(flushed) = self.keys.write_sealed(run).unwrap() {
            self.keys.flushed(flushed);
        }
    }

    /// Merges while keys change.
    fn merge(&mut self, all: bool) {
        let run = self.run();
        let Some(mut merge) = self.keys.start_merge(all, u64::MAX >> 2, run) else { return };
        loop {
            match merge.step(&|_| false).unwrap() {
                Some(merged) => return self.keys.merged(merged).unwrap(),
                None if self.random.u8(..4) == 0 => self.flush(),
                None => self.change(3),
            }
        }
    }

    /// Opens the runs again. What was in memory is noted again, as an open does.
    fn reopen(&mut self) {
        self.flush();
        let runs: Vec<KeyRun> = self.keys.state.read().runs.iter().map(|run| run.run).collect();
        self.keys = OrderedKeys::open(&self.keys.directory, &runs, Some(1 << 20)).unwrap();
    }

    fn bound(&mut self) -> Bound<Vec<u8>> {
        let key = key(self.random.u64(..1500));
        match self.random.u8(..3) {
            0 => Bound::Unbounded,
            1 => Bound::Included(key),
            _ => Bound::Excluded(key),
        }
    }

    fn check(&mut self) {
        let bounds = (self.bound(), self.bound());
        for direction in [Direction::Ascending, Direction::Descending] {
            let found = all(self.keys.snapshot(), &bounds, direction);
            assert_eq!(found, expected(&self.model, &bounds, direction), "{bounds:?}, {direction:?}");
        }
    }
}

fn all(snapshot: KeysSnapshot, bounds: &OwnedBounds, direction: Direction) -> Vec<(Vec<u8>, bool)> {
    let mut range = snapshot.range(bounds.clone(), direction);
    let mut keys = Vec::new();
    while range.read(7, &mut keys).unwrap() {}
    keys
}

fn expected(model: &Model, bounds: &OwnedBounds, direction: Direction) -> Vec<(Vec<u8>, bool)> {
    let within = model.iter().filter(|(key, _)| RangeBounds::<Vec<u8>>::contains(bounds, *key));
    let live = within.filter(|(_, state)| **state != KeyState::Deleted);
    let mut live: Vec<_> = live.map(|(key, state)| (key.clone(), *state == KeyState::Expiring)).collect();
    if direction == Direction::Descending {
        live.reverse();
    }
    live
}

const UNBOUNDED: OwnedBounds = (Bound::Unbounded, Bound::Unbounded);

#[test]
fn ranges_are_those_of_a_map_whatever_is_flushed_and_merged() {
    for seed in 0..8 {
        let mut bed = TestBed::new(seed);
        for _ in 0..60 {
            match bed.random.u8(..10) {
                0 | 1 => bed.flush(),
                2 | 3 => bed.merge(false),
                4 if bed.random.bool() => bed.merge(true),
                5 => bed.reopen(),
                _ => bed.change(60),
            }
            (0..4).for_each(|_| bed.check());
        }
        bed.flush();
        bed.merge(true);
        bed.flush();
        let live = expected(&bed.model, &UNBOUNDED, Direction::Ascending);
        assert_eq!(all(bed.keys.snapshot(), &UNBOUNDED, Direction::Ascending), live);
    }
}

#[test]
fn a_snapshot_keeps_the_keys_of_its_moment() {
    let mut bed = TestBed::new(4);
    let mut taken = Vec::new();
    for round in 0..30 {
        bed.change(40);
        taken.push((bed.keys.snapshot(), bed.model.clone()));
        match round % 5 {
            3 => bed.flush(),
            4 => bed.merge(round % 2 == 0),
            _ => {}
        }
    }
    for (round, (snapshot, model)) in taken.into_iter().enumerate() {
        let direction = [Direction::Ascending, Direction::Descending][round % 2];
        assert_eq!(all(snapshot, &UNBOUNDED, direction), expected(&model, &UNBOUNDED, direction), "{round}");
    }
}

fn finished(mut merge: KeyMerge, is_gone: &dyn Fn(&[u8]) -> bool) -> MergedRuns {
    loop {
        if let Some(merged) = merge.step(is_gone).unwrap() {
            return merged;
        }
    }
}

#[test]
fn a_merge_of_all_runs_keeps_no_deleted_and_no_expired_key() {
    let mut bed = TestBed::new(5);
    for _ in 0..6 {
        bed.change(300);
        bed.flush();
    }
    let run = bed.run();
    let merge = bed.keys.start_merge(true, 0, run).unwrap();
    let merged = finished(merge, &|key| key.starts_with(b"user"));
    assert_eq!(merged.added(), Some(run));
    bed.keys.merged(merged).unwrap();
    bed.model.retain(|key, state| *state != KeyState::Expiring || !key.starts_with(b"user"));
    let live = expected(&bed.model, &UNBOUNDED, Direction::Ascending);
    assert!(!bed.keys.must_merge(0), "nothing came after it");
    assert_eq!(bed.keys.run_counts(), (1, live.len() as u64));
    assert_eq!(all(bed.keys.snapshot(), &UNBOUNDED, Direction::Ascending), live);
    assert_eq!(bed.keys.directory.list().unwrap(), [run.file_name()]);

    bed.model.keys().for_each(|key| bed.keys.insert(key, KeyState::Deleted));
    bed.flush();
    let run = bed.run();
    let merged = finished(bed.keys.start_merge(true, 0, run).unwrap(), &|_| false);
    assert_eq!(merged.added(), None);
    bed.keys.merged(merged).unwrap();
    assert_eq!(bed.keys.run_counts(), (0, 0), "a run without keys has no file");
    assert!(bed.keys.directory.list().unwrap().is_empty());
}

#[test]
fn a_table_counts_its_memory_and_a_repeated_put_needs_none() {
    let keys = OrderedKeys::open(&directory(), &[], Some(1 << 20)).unwrap();
    keys.insert(b"one", KeyState::Live);
    let before = keys.heap_bytes();
    (0..100).for_each(|_| drop(keys.snapshot()));
    keys.insert(b"one", KeyState::Live);
    assert_eq!(keys.heap_bytes(), before);
    assert!(keys.fullness() < 1.0);
    (0..1000u64).for_each(|number| keys.insert(&number.to_be_bytes(), KeyState::Live));
    assert!(keys.fullness() >= 1.0, "the table takes a thirty-second of the budget");
    keys.seal();
    assert_eq!(keys.fullness(), 0.0);
}

#[test]
fn a_separator_is_as_short_as_it_can_be() {
    let directory = directory();
    let run = KeyRun { number: 1, tag: 7 };
    let mut writer = RunWriter::create(&directory, run, Purpose::Merge, 4096).unwrap();
    let long = |number: u64| format!("a common beginning {number:08} and a common end").into_bytes();
    (0..10_000).for_each(|number| writer.push(&long(number), KeyState::Live).unwrap());
    writer.push(&[b'b'; KEY_LENGTH_MAX], KeyState::Live).unwrap();
    let run = writer.finish(Purpose::Merge).unwrap();
    let bytes = run.file().length();
    assert!(bytes < 10_000 * 30 + 2 * KEY_LENGTH_MAX as u64, "{bytes}");
    // Its first and its last key are in memory as well.
    let separators = run.heap_bytes() - KEY_LENGTH_MAX;
    assert!(separators < run.pages() * 48, "{separators} of {} pages", run.pages());
    for number in (0..10_000).step_by(97) {
        let sought = long(number);
        let pages = run.pages_within((Bound::Included(&sought), Bound::Included(&sought)));
        assert_eq!(pages.len(), 1);
        let mut batch = batch::Batch::default();
        run.read(Purpose::Iterate, pages, &mut batch).unwrap();
        batch.arrange(Direction::Ascending, |key| key == sought);
        assert_eq!(batch.first(), Some((&sought[..], KeyState::Live)));
    }
}

#[test]
fn no_flipped_bit_of_a_run_gives_other_keys() {
    let directory = directory();
    let run = KeyRun { number: 1, tag: 7 };
    let mut writer = RunWriter::create(&directory, run, Purpose::Merge, 4096).unwrap();
    (0..400u64).for_each(|number| writer.push(&(number * 977).to_be_bytes(), KeyState::Live).unwrap());
    writer.finish(Purpose::Merge).unwrap();
    let read = || -> Result<Vec<Vec<u8>>> {
        let keys = OrderedKeys::open(&directory, &[run], None)?;
        let mut range = keys.snapshot().range(UNBOUNDED, Direction::Ascending);
        let mut found = Vec::new();
        while range.read(100, &mut found)? {}
        Ok(found.into_iter().map(|(key, _)| key).collect())
    };
    let intact = read().unwrap();
    assert_eq!(intact.len(), 400);
    let file = directory.open(&run.file_name(), Access::Buffered).unwrap();
    let mut refused = 0;
    for at in (0..file.length().unwrap()).step_by(37) {
        let mut byte = AlignedBuffer::default();
        let right = file.read(Purpose::Get, at, 1, &mut byte).unwrap()[0];
        file.write(Purpose::Get, at, &[right ^ 16]).unwrap();
        match read() {
            Ok(keys) => assert_eq!(keys, intact, "byte {at}"),
            Err(error) => {
                assert!(matches!(error, Error::Corrupt { .. }), "{error}");
                refused += 1;
            }
        }
        file.write(Purpose::Get, at, &[right]).unwrap();
    }
    assert!(refused > 100, "{refused}");
    let other = KeyRun { number: 1, tag: 8 };
    assert!(OrderedKeys::open(&directory, &[other], None).is_err(), "a misplaced file");
}

#[test]
fn runs_with_many_more_keys_than_there_are_records_are_merged() {
    let mut bed = TestBed::new(6);
    for state in [KeyState::Live, KeyState::Deleted] {
        (0..9000u64).for_each(|number| bed.keys.insert(&number.to_be_bytes(), state));
        bed.flush();
    }
    assert!(!bed.keys.must_merge(9000));
    assert!(bed.keys.must_merge(6000));
    let run = bed.run();
    assert_eq!(finished(bed.keys.start_merge(false, 0, run).unwrap(), &|_| false).added(), None);
}

#[test]
fn every_damaged_page_of_a_run_is_found() {
    let directory = directory();
    let runs = [1, 2].map(|number| KeyRun { number, tag: 7 * number });
    for run in runs {
        let mut writer = RunWriter::create(&directory, run, Purpose::Merge, 4096).unwrap();
        (0..2000u64).for_each(|number| writer.push(&(number * 977).to_be_bytes(), KeyState::Live).unwrap());
        writer.finish(Purpose::Merge).unwrap();
    }
    let examined = || examine(&directory, &runs, &mut |_| true).unwrap();
    assert!(examined().is_empty());
    let file = directory.open(&runs[1].file_name(), Access::Buffered).unwrap();
    let length = file.length().unwrap();
    file.write(Purpose::Get, 4096 + 99, &[255]).unwrap();
    file.write(Purpose::Get, 2 * 4096 + 99, &[255]).unwrap();
    file.write(Purpose::Get, length - 200, &[255]).unwrap();
    let found: Vec<_> = examined().iter().map(|damage| (damage.part, damage.offset)).collect();
    let blocks = [4096, 2 * 4096].map(|offset| (DamagedPart::Blocks, offset));
    assert_eq!(found[..2], blocks);
    assert_eq!((found.len(), found[2].0), (3, DamagedPart::StoreFooter));
    directory.remove(&runs[0].file_name()).unwrap();
    assert_eq!(examined()[0].part, DamagedPart::File);
    assert!(examined().iter().all(|damage| damage.lost.is_empty()), "no record is lost");
    assert!(matches!(examine(&directory, &runs[1..], &mut |_| false), Err(Error::Interrupted)));
}

/// In a sparse file, which takes no space on the device.
#[test]
fn a_page_that_is_longer_than_the_longest_key_is_refused_before_it_is_read() {
    let path = tempfile::tempdir().unwrap();
    let directory = Directory::system(path.path(), Access::Buffered).unwrap();
    let run = KeyRun { number: 1, tag: 5 };
    let mut writer = RunWriter::create(&directory, run, Purpose::Convert, 4096).unwrap();
    writer.push(&[b'x'; KEY_LENGTH_MAX], KeyState::Live).unwrap();
    let footer = writer.finish(Purpose::Convert).unwrap().file().footer().clone();
    assert!(Run::open(&directory, run).unwrap().may_have(&[b'x'; KEY_LENGTH_MAX]));
    let before = directory.io().of(Purpose::Recover).read_bytes;
    let file = directory.open(&run.file_name(), Access::Buffered).unwrap();
    forge(&file, &StoreFooter { blocks: 1 << 27, ..footer }, 1 << 40);
    assert!(matches!(Run::open(&directory, run), Err(Error::Corrupt { .. })));
    assert!(directory.io().of(Purpose::Recover).read_bytes - before < 10_000);
}
