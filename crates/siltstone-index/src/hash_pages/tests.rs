use super::*;
use crate::testing::Numbers;
use std::collections::BTreeMap;

/// What the index has to return: the units of each kept hash, the newest first.
#[derive(Default)]
struct Reference {
    units: BTreeMap<u64, Vec<u64>>,
}

impl Reference {
    fn of(&mut self, hash: u64, hash_bits: u32) -> &mut Vec<u64> {
        self.units.entry(hash >> (64 - hash_bits)).or_default()
    }

    fn entries(&self, hash_bits: u32) -> Vec<(u64, u64)> {
        let each = |(&hash, units): (&u64, &Vec<u64>)| {
            units.iter().map(move |&unit| (hash << (64 - hash_bits), unit)).collect::<Vec<_>>()
        };
        self.units.iter().flat_map(each).collect()
    }
}

/// Returns a hash of few distinct values, so that many are equal, or of all values.
fn hash(numbers: &mut Numbers, distinct: Option<u64>) -> u64 {
    let number = numbers.next();
    distinct.map_or(number, |distinct| crate::coding::mix(number % distinct))
}

#[test]
fn random_changes_give_the_entries_of_a_map() {
    // The number of bits by which units are shifted, so that some have as many as possible.
    for (hash_bits, distinct, shift) in
        [(41, None, 0), (41, Some(500), 21), (36, Some(3_000), 8), (18, None, 21), (18, Some(40), 0)]
    {
        let mut numbers = Numbers(hash_bits.into());
        let mut index = HashPages::new(hash_bits).unwrap();
        let mut reference = Reference::default();
        for step in 0..20_000u64 {
            let hash = hash(&mut numbers, distinct);
            // Units grow, so pages are encoded again with wider ones.
            let unit = (numbers.next() % (step * 16 + 1)) << shift;
            let units = reference.of(hash, hash_bits);
            match (numbers.next() % 8, units.is_empty()) {
                (0 | 1, false) => {
                    let at = numbers.next() as usize % units.len();
                    let (from, last) =
                        (units[at], units.iter().rposition(|&unit| unit == units[at]).unwrap());
                    units[last] = unit;
                    assert!(index.replace(hash, from, unit));
                }
                (2, false) => {
                    let unit = units[numbers.next() as usize % units.len()];
                    let last = units.iter().rposition(|&other| other == unit).unwrap();
                    units.remove(last);
                    assert!(index.remove(hash, unit));
                }
                (3, _) => assert_eq!(index.remove(hash, UNIT_MAX), units.contains(&UNIT_MAX)),
                _ => {
                    units.insert(0, unit);
                    index.insert(hash, unit);
                }
            }
            assert_eq!(index.candidates(hash).collect::<Vec<_>>(), *units, "step {step}, {hash_bits} bits");
        }
        let wanted = reference.entries(hash_bits);
        assert_eq!(index.len(), wanted.len() as u64);
        assert!(index.entries().eq(wanted.iter().copied()));
        let from = wanted[wanted.len() / 2].0;
        assert!(index.entries_from(from).eq(wanted.iter().copied().filter(|entry| entry.0 >= from)));
        let pages = index.pages().iter().map(|page| HashPage::clone(page)).collect();
        assert!(HashPages::from_pages(hash_bits, pages).unwrap().entries().eq(wanted));
    }
}

#[test]
fn marks_stay_with_their_entries_when_others_come_and_go() {
    for distinct in [None, Some(900)] {
        let mut numbers = Numbers(4);
        let mut index = HashPages::new(41).unwrap();
        index.keep_marks();
        // The entries with their units, which are unique, and whether each is marked.
        let mut marked: BTreeMap<u64, (u64, bool)> = BTreeMap::new();
        for unit in 0..30_000u64 {
            let hash = hash(&mut numbers, distinct);
            let chosen =
                marked.range(numbers.next() % (unit + 1)..).next().map(|(unit, &(hash, _))| (*unit, hash));
            match (numbers.next() % 8, chosen) {
                (0 | 1, Some((chosen, hash))) => {
                    assert!(index.remove(hash, chosen));
                    marked.remove(&chosen);
                }
                (2, Some((chosen, hash))) => {
                    let moved = unit << 20;
                    assert!(index.replace(hash, chosen, moved));
                    let entry = marked.remove(&chosen).unwrap();
                    marked.insert(moved, entry);
                }
                (3, Some((_, hash))) => {
                    let newest = index.candidates(hash).next().unwrap();
                    index.mark(hash);
                    marked.get_mut(&newest).unwrap().1 = true;
                }
                (4, Some((chosen, hash))) => {
                    let was_marked = std::mem::take(&mut marked.get_mut(&chosen).unwrap().1);
                    assert_eq!(index.take_mark(hash, chosen), was_marked);
                }
                _ => {
                    index.insert(hash, unit);
                    marked.insert(unit, (hash, false));
                }
            }
        }
        assert!(index.pages().len() > 2 && marked.values().any(|(_, is_marked)| *is_marked));
        for (unit, (hash, is_marked)) in marked {
            assert_eq!(index.take_mark(hash, unit), is_marked);
            assert!(!index.take_mark(hash, unit));
        }
        let bytes: usize = index.pages().iter().map(|page| page.heap_bytes()).sum();
        assert_eq!(index.page_bytes, bytes);
    }
}

#[test]
fn marks_take_a_bit_per_entry_and_some_bytes_per_page_and_are_counted() {
    let (mut numbers, mut index) = (Numbers(5), HashPages::new(41).unwrap());
    (0..20_000).for_each(|unit| index.insert(numbers.next(), unit));
    let before = index.heap_bytes();
    index.keep_marks();
    let (marks, pages) = (index.heap_bytes() - before, index.pages().len());
    assert!((2_500..2_500 + 64 * pages).contains(&marks), "{marks} bytes of {pages} pages");
}

#[test]
fn pages_in_another_order_or_for_other_hashes_are_refused() {
    let (mut numbers, mut index) = (Numbers(9), HashPages::new(36).unwrap());
    (0..5 * PAGE_ENTRIES).for_each(|unit| index.insert(numbers.next(), unit));
    let pages = |count: usize| index.pages().iter().map(|page| HashPage::clone(page)).take(count).collect();
    assert_eq!(index.pages().len(), 5);
    assert!(HashPages::from_pages(36, pages(5)).is_ok());
    for (hash_bits, count) in [(35, 5), (37, 5), (36, 4), (36, 3), (36, 0)] {
        assert!(HashPages::from_pages(hash_bits, pages(count)).is_err(), "{count} pages, {hash_bits} bits");
    }
}

const UNIT_MAX: u64 = (1 << UNIT_BITS_MAX) - 1;

#[test]
fn pages_are_split_so_that_none_is_much_longer_than_the_average() {
    let (mut numbers, mut index) = (Numbers(3), HashPages::new(36).unwrap());
    for unit in 0..200_000 {
        index.insert(numbers.next(), unit);
    }
    assert_eq!(index.pages().len() as u64, 200_000_u64.div_ceil(PAGE_ENTRIES));
    let longest = index.pages().iter().map(|page| page.len()).max().unwrap();
    assert!(longest < 2 * PAGE_ENTRIES as usize, "a page has {longest} entries");
    let bytes: usize = index.pages().iter().map(|page| page.heap_bytes()).sum();
    assert_eq!(index.page_bytes, bytes);
    assert!(index.entries().is_sorted_by_key(|(hash, _)| hash));
}

#[test]
fn an_entry_takes_the_bytes_that_its_bits_need() {
    let (mut numbers, mut index) = (Numbers(4), HashPages::new(36).unwrap());
    let count = 300_000;
    for unit in 0..count {
        index.insert(numbers.next(), unit);
    }
    // Units have 19 bits, and the tags of 36 lose some log2 (300,000 / 720) + 9 bits to the page and the group.
    let bits = index.heap_bytes() as f64 * 8.0 / (count as f64);
    let wanted = 36.0 - (count as f64).log2() + 1.75 + 19.0;
    assert!((wanted..wanted + 2.0).contains(&bits), "{bits} bits per entry, {wanted} by the formula");
}

#[test]
fn hashes_without_a_bit_to_spare_make_pages_longer_instead_of_splitting_them() {
    let (mut numbers, mut index) = (Numbers(5), HashPages::new(18).unwrap());
    for _ in 0..512 * 800 {
        index.insert(numbers.next(), 1);
    }
    assert!(index.pages().len() <= 512);
    assert!(index.pages().iter().all(|page| page.tag_bits() >= TAG_BITS_MIN));
    assert_eq!(index.entries().count() as u64, index.len());
}

#[test]
fn a_snapshot_keeps_its_entries_while_the_index_changes() {
    let (mut numbers, mut index) = (Numbers(6), HashPages::new(36).unwrap());
    let hashes: Vec<_> = (0..3_000).map(|_| numbers.next()).collect();
    hashes.iter().for_each(|&hash| index.insert(hash, 1));
    let snapshot = index.clone();
    let before: Vec<_> = snapshot.entries().collect();
    for &hash in &hashes {
        index.replace(hash, 1, 2);
        index.insert(hash, 3);
    }
    assert!(snapshot.entries().eq(before));
    assert!(hashes.iter().all(|&hash| index.candidates(hash).eq([3, 2])));
}

#[test]
fn hash_bits_beyond_the_limits_are_refused() {
    for hash_bits in [17, 42] {
        let error = HashPages::new(hash_bits).unwrap_err();
        assert_eq!(error.to_string(), format!("hash_bits of a shard is {hash_bits}; it must be 18 to 41"));
    }
}

/// Returns pages with entries of equal and of different tags, and with none.
pub(crate) fn pages() -> [HashPage; 3] {
    let (mut numbers, mut page) = (Numbers(7), HashPage::new(27));
    for unit in 0..300 {
        let tag = numbers.next() >> 37;
        page.insert(tag, unit);
        if unit % 10 == 0 {
            page.insert(tag, unit + 1_000);
        }
    }
    [page, HashPage::new(9), HashPage::new(41)]
}

#[test]
fn a_page_with_a_bit_after_its_entries_is_refused() {
    let [page, ..] = pages();
    let mut bytes = Vec::new();
    page.encode(&mut bytes);
    assert!(HashPage::decode(&bytes).is_ok());
    *bytes.last_mut().unwrap() |= 0x80;
    assert!(HashPage::decode(&bytes).is_err());
}
