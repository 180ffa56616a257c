#![expect(clippy::panic, reason = "a test fails by panicking")]

use super::super::atomic::Ordering::Relaxed;
use super::*;
use std::collections::BTreeMap;

fn buckets(main: u32, spare: u32) -> Buckets<Vec<AtomicU64>> {
    let words = Buckets::<Vec<AtomicU64>>::words_for(main, spare);
    Buckets::new((0..words).map(|_| AtomicU64::new(0)).collect(), main, spare, 0)
}

fn find(buckets: &Buckets<Vec<AtomicU64>>, hash: u64, offset: u32) -> Option<BucketEntry> {
    let home = buckets.home(hash);
    let seen = buckets.header(home).load(Relaxed);
    match buckets.find::<Crew>(home, seen, |found| found == offset) {
        SearchResult::Found(entry) => Some(entry),
        SearchResult::Absent => None,
        SearchResult::Changed => panic!("there is no writer"),
    }
}

/// Asserts that every entry is found, no other is, and the chains hold exactly the existing entries.
fn check(buckets: &Buckets<Vec<AtomicU64>>, entries: &BTreeMap<u32, u64>) {
    for (offset, hash) in entries {
        assert!(find(buckets, *hash, *offset).is_some());
    }
    let mut chained = 0;
    let mut all = Vec::new();
    for bucket in 0..buckets.main() {
        let home = buckets.home_of_bucket(bucket);
        chained += buckets.chain(home).count() as u32 - 1;
        all.extend(buckets.entries(home).map(|entry| entry.offset));
    }
    all.sort_unstable();
    assert!(all.iter().eq(entries.keys()));
    assert_eq!(buckets.free_spares(), buckets.spares.free());
    assert_eq!(chained + buckets.free_spares(), SPARES, "a spare bucket is in a chain or free");
}

const SPARES: u32 = 12;

#[test]
fn chains_hold_all_entries_and_release_spare_buckets() {
    for seed in 0..if cfg!(miri) { 1 } else { 6 } {
        let mut random = fastrand::Rng::with_seed(seed);
        let buckets = buckets(3, SPARES);
        let mut entries = BTreeMap::new();
        for step in 0..if cfg!(miri) { 200 } else { 2_000 } {
            let grows = step / 400 % 2 == 0;
            if random.u32(..10) < if grows { 7 } else { 3 } {
                // Few different hashes: equal tags are frequent.
                let (hash, offset) = (random.u64(..50).wrapping_mul(0x9e37_79b9_7f4a_7c15), random.u32(..));
                let home = buckets.home(hash);
                let locked = buckets.lock::<Crcw>(home);
                if entries.contains_key(&offset) {
                    continue;
                }
                match locked.insert(offset) {
                    Ok(()) => assert!(entries.insert(offset, hash).is_none()),
                    Err(NoSpare) => assert_eq!(buckets.free_spares(), 0),
                }
            } else if let Some((offset, hash)) = entries
                .iter()
                .nth(random.usize(..entries.len().max(1)))
                .map(|(offset, hash)| (*offset, *hash))
            {
                let home = buckets.home(hash);
                let entry = find(&buckets, hash, offset).unwrap();
                let locked = buckets.lock::<Crcw>(home);
                locked.remove(entry);
                entries.remove(&offset);
            }
            if step % 20 == 0 {
                check(&buckets, &entries);
            }
        }
        for (offset, hash) in std::mem::take(&mut entries) {
            let home = buckets.home(hash);
            let entry = find(&buckets, hash, offset).unwrap();
            buckets.lock::<Crcw>(home).remove(entry);
        }
        check(&buckets, &entries);
        assert_eq!(buckets.free_spares(), SPARES);
    }
}

#[test]
fn a_full_bucket_of_a_lossy_index_drops_its_oldest_entry() {
    let buckets = buckets(1, 0);
    let home = buckets.home(7);
    for offset in 0..BUCKET_ENTRIES as u32 {
        assert!(!buckets.lock::<Erew>(home).insert_lossy(100 + offset, |_| 0));
    }
    let age = |offset: u32| 1_000 - offset;
    assert!(buckets.lock::<Erew>(home).insert_lossy(500, age));
    assert!(buckets.lock::<Erew>(home).insert_lossy(501, age));
    let mut offsets: Vec<u32> = buckets.entries(home).map(|entry| entry.offset).collect();
    offsets.sort_unstable();
    assert_eq!(offsets, [102, 103, 104, 105, 106, 107, 108, 500, 501]);
}

#[test]
fn a_sweep_keeps_live_entries() {
    let buckets = buckets(1, 0);
    let home = buckets.home(7);
    for offset in 0..6 {
        buckets.lock::<Crew>(home).insert_lossy(offset, |_| 0);
    }
    assert_eq!(buckets.sweep::<Crew>(0, |offset| offset % 2 == 0), 3);
    assert_eq!(buckets.sweep::<Crew>(0, |offset| offset % 2 == 0), 0);
    assert!(buckets.entries(home).map(|entry| entry.offset).eq([0, 2, 4]));
}

#[test]
fn spare_buckets_that_a_batch_needs_are_counted_before_it_is_written() {
    let buckets = buckets(2, SPARES);
    let (low, high) = (1u64, u64::MAX);
    for (lows, highs, needed) in [(9, 9, 0), (10, 9, 1), (10, 10, 2), (18, 0, 1), (19, 28, 2 + 3), (0, 0, 0)]
    {
        let hashes = [vec![low; lows], vec![high; highs]].concat();
        assert_eq!(buckets.spares_needed(&hashes), needed, "{lows} and {highs}");
    }
    let home = buckets.home(low);
    for offset in 0..4 {
        buckets.lock::<Erew>(home).insert(offset).unwrap();
    }
    assert_eq!(buckets.spares_needed(&[low; 6]), 1);
}

#[test]
fn the_version_is_odd_during_a_write_and_readers_see_that_it_changed() {
    let buckets = buckets(1, 0);
    let home = buckets.home(7);
    let header = buckets.header(home);
    let seen = Crew::begin_read(header);
    assert!(Crew::is_unchanged(header, seen));
    let locked = buckets.lock::<Crcw>(home);
    assert!(header.load(Relaxed) & 1 == 1 && !Crew::is_unchanged(header, seen));
    drop(locked);
    assert!(header.load(Relaxed) & 1 == 0 && !Crew::is_unchanged(header, seen));
    header.store(u64::from(u32::MAX) | 5 << 32, Relaxed);
    Crew::unlock(header);
    assert_eq!(header.load(Relaxed), 5 << 32, "a version that wraps around does not change the chain");
}

#[test]
fn hashes_are_spread_over_all_buckets_and_partitions_do_not_matter() {
    let all = buckets(10, 0);
    let mut counts = [0; 10];
    (0..10_000u64).for_each(|number| {
        counts[all.home(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).bucket as usize] += 1;
    });
    assert!(counts.iter().all(|count| (900..1_100).contains(count)), "{counts:?}");
    let words = (0..80).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
    let one = Buckets::new(words, 10, 0, 4);
    let buckets: std::collections::BTreeSet<u32> = (0..1_000u64)
        .map(|number| one.home(0xa << 60 | number.wrapping_mul(0x9e37_79b9) << 20).bucket)
        .collect();
    assert_eq!(buckets.len(), 10, "keys of one partition use all its buckets");
    let homes = [0, 9, 10, u32::MAX].map(|number| one.home_of_bucket(number).bucket());
    assert_eq!(homes, [0, 9, 9, 9], "no number is that of a spare bucket");
}

#[test]
fn every_entry_keeps_its_own_tag_and_offset() {
    let words: [AtomicU64; LINE_WORDS] = Default::default();
    let line = Line(&words);
    line.set_next(u32::MAX);
    for slot in 0..BUCKET_ENTRIES {
        line.set_tag(slot, 0x8000 + slot as u16);
        line.set_offset(slot, u32::MAX - slot as u32);
    }
    for slot in 0..BUCKET_ENTRIES {
        assert_eq!((line.tag(slot), line.offset(slot)), (0x8000 + slot as u16, u32::MAX - slot as u32));
        assert!(line.with_tag(0x8000 + slot as u16).eq([slot]));
    }
    assert!(line.with_tag(0).is_empty() && line.with_tag(0x8009).is_empty());
    assert_eq!((line.next(), line.used().count()), (u32::MAX, BUCKET_ENTRIES));
    line.set_tag(4, 0);
    line.set_tag(8, 0x8001);
    assert!(line.used().eq([0, 1, 2, 3, 5, 6, 7, 8]) && line.with_tag(0x8001).eq([1, 8]));
}

#[test]
fn lanes_are_compared_exactly() {
    let tags = [0u16, 1, 2, 0x7fff, 0x8000, 0x8001, 0xffff];
    for first in tags {
        for second in tags {
            for third in tags {
                let word = u64::from(first) | u64::from(second) << 16 | u64::from(third) << 48;
                for tag in tags {
                    let slow = [first, second, 0, third];
                    let slow =
                        (0..4).filter(|lane| slow[*lane] == tag).map(|lane| 1 << lane).sum::<u32>();
                    assert_eq!(line::equal_lanes(word, u64::from(tag) * line::LANES), slow, "{word:x} {tag:x}");
                }
            }
        }
    }
}
