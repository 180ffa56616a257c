//! Many changes at once: the pages are written again one after the other, which costs less per change than to move the
//! entries of a page for each.

use super::page::{Filling, HashPage, PageEntry, TAG_BITS_MAX};
use super::{Division, HashPages, PAGE_ENTRIES};
use crate::BuildError;
use std::sync::Arc;

/// A change of the entries of a hash.
pub trait Change: Copy {
    /// Returns the hash.
    fn hash(&self) -> u64;
    /// Returns the unit that is removed or replaced: of the last entry of the hash that has it.
    fn from(&self) -> Option<u64>;
    /// Returns the unit that replaces it, or of an entry that is inserted before the others of the hash.
    fn to(&self) -> Option<u64>;
}

/// A page with fewer changes than this share of its entries is changed entry by entry.
const MERGED_SHARE: usize = 64;
/// The maximum number of changes that are merged at once: their numbers are sorted in the bits that tags leave.
const MERGED_MAX: usize = if cfg!(test) { 1 << 10 } else { 1 << (64 - TAG_BITS_MAX) };

impl HashPages {
    /// Applies changes. Those of one hash apply in their order: that of the lists, then that in a list. Returns `false`
    /// if an entry to remove or replace does not exist; the index then has some of the changes.
    pub fn apply_all<C: Change>(&mut self, changes: &[&[C]]) -> bool {
        let of_kind = |is: fn(&C) -> bool| changes.iter().copied().flatten().filter(|one| is(one)).count();
        let inserted = of_kind(|change| change.from().is_none()) as u64;
        let removed = of_kind(|change| change.to().is_none()) as u64;
        let len = (self.len() + inserted).saturating_sub(removed);
        // All splits first: the changes are sorted by the pages that there are then.
        while len > PAGE_ENTRIES * self.pages.len() as u64 && self.division.can_split() {
            self.split_next();
        }
        let (sorted, ends) = by_page(self.division, changes);
        let mut merge = Merge::default();
        let mut start = 0;
        for (page, end) in ends.into_iter().enumerate() {
            let changes = &sorted[start..end];
            start = end;
            if changes.is_empty() {
                continue;
            }
            let is_applied = if changes.len() * MERGED_SHARE < self.pages[page].len() {
                changes.iter().all(|change| self.apply_one(change))
            } else {
                changes.chunks(MERGED_MAX).all(|changes| self.merge(page, changes, &mut merge))
            };
            if !is_applied {
                return false;
            }
        }
        true
    }

    /// Writes all pages again. `apply` executes each change on the units of its hash, the newest first; those of one
    /// hash in their order: that of the lists, then that in a list. Marks are lost.
    ///
    /// # Errors
    /// None for hashes of the bits of this index.
    pub fn rewrite<C: Change, A: FnMut(&mut Vec<u64>, &C)>(
        &mut self,
        changes: &[&[C]],
        apply: &mut A,
    ) -> Result<(), BuildError> {
        let count: usize = changes.iter().map(|changes| changes.len()).sum();
        // In two parts, one after the other, because the numbers of changes have a limited number of bits.
        match changes {
            [only] if count > MERGED_MAX => {
                let (first, second) = only.split_at(count / 2);
                self.rewrite(&[first], apply)?;
                return self.rewrite(&[second], apply);
            }
            _ if count > MERGED_MAX => {
                let (first, second) = changes.split_at(changes.len() / 2);
                self.rewrite(first, apply)?;
                return self.rewrite(second, apply);
            }
            _ => {}
        }
        let division = Division::for_entries(self.hash_bits(), self.len + count as u64);
        let shift = 64 - self.hash_bits();
        let (sorted, ends) = by_page(division, changes);
        let mut before = self.entries().peekable();
        let mut pages = Vec::with_capacity(division.pages());
        let (mut order, mut units, mut entries) = (Vec::new(), Vec::new(), Vec::new());
        let mut start = 0;
        for (number, end) in ends.into_iter().enumerate() {
            let changes = &sorted[start..end];
            start = end;
            // The bits that a tag leaves, at least 23: enough for the numbers of `MERGED_MAX` changes.
            let number_bits = 64 - division.tag_bits(number);
            order.clear();
            order.extend(
                changes.iter().zip(0..).map(|(one, rank)| division.home(one.hash()).1 << number_bits | rank),
            );
            // The numbers in the low bits keep the changes of a tag in their order.
            order.sort_unstable();
            entries.clear();
            let entry = |(hash, unit): (u64, u64)| PageEntry { tag: division.home(hash).1, unit };
            for of_tag in order.chunk_by(|one, other| one >> number_bits == other >> number_bits) {
                let tag = of_tag[0] >> number_bits;
                let hash = division.first_hash(number) | tag << shift;
                entries.extend(std::iter::from_fn(|| before.next_if(|other| other.0 < hash)).map(entry));
                units.clear();
                units.extend(
                    std::iter::from_fn(|| before.next_if(|other| other.0 == hash)).map(|each| each.1),
                );
                for numbered in of_tag {
                    apply(&mut units, &changes[(numbered & ((1 << number_bits) - 1)) as usize]);
                }
                entries.extend(units.iter().map(|unit| PageEntry { tag, unit: *unit }));
            }
            let last = division.last_hash(number);
            entries.extend(std::iter::from_fn(|| before.next_if(|other| other.0 <= last)).map(entry));
            pages.push(HashPage::of(division.tag_bits(number), &entries));
        }
        drop(before);
        // All pages at once. A clone of before keeps the old pages.
        *self = HashPages::from_pages(self.hash_bits(), pages)?;
        Ok(())
    }

    /// Applies a change without a split.
    fn apply_one<C: Change>(&mut self, change: &C) -> bool {
        let hash = change.hash();
        match (change.from(), change.to()) {
            (None, Some(to)) => {
                self.change(hash, |page, tag| page.insert(tag, to));
                self.len += 1;
                true
            }
            (Some(from), Some(to)) => self.replace(hash, from, to),
            (Some(from), None) => self.remove(hash, from),
            (None, None) => true,
        }
    }

    fn merge<C: Change>(&mut self, number: usize, changes: &[C], merge: &mut Merge) -> bool {
        let page = &self.pages[number];
        let tag = |change: &C| self.division.home(change.hash()).1;
        let Some(merged) = merge.merge(page, changes, tag) else { return false };
        self.len = self.len + merged.len() as u64 - page.len() as u64;
        self.page_bytes = self.page_bytes + merged.heap_bytes() - page.heap_bytes();
        // Another page and not the same one: a clone may share it.
        self.pages[number] = Arc::new(merged);
        true
    }
}

/// Returns the changes in the order of the pages, and for each page where its changes end.
fn by_page<C: Change>(division: Division, changes: &[&[C]]) -> (Vec<C>, Vec<usize>) {
    let mut ends = vec![0; division.pages() + 1];
    let Some(any) = changes.iter().copied().flatten().next() else {
        ends.pop();
        return (Vec::new(), ends);
    };
    for change in changes.iter().copied().flatten() {
        ends[division.home(change.hash()).0 + 1] += 1;
    }
    for page in 1..ends.len() {
        ends[page] += ends[page - 1];
    }
    let mut sorted = vec![*any; changes.iter().map(|changes| changes.len()).sum()];
    // In the order of the lists, so that the changes of a hash keep it.
    for change in changes.iter().copied().flatten() {
        let end = &mut ends[division.home(change.hash()).0];
        sorted[*end] = *change;
        *end += 1;
    }
    ends.pop();
    (sorted, ends)
}

/// The memory of merging the changes of one page after the other.
#[derive(Default)]
struct Merge {
    /// The tags of the changes, each with the number of the change in the bits below, in order.
    order: Vec<u64>,
    /// The entries of a tag.
    of_tag: Vec<PageEntry>,
}

impl Merge {
    /// Returns a page with its changes: all its entries are passed through. `None` if an entry to remove or replace
    /// does not exist.
    fn merge<C: Change>(
        &mut self,
        page: &HashPage,
        changes: &[C],
        tag: impl Fn(&C) -> u64,
    ) -> Option<HashPage> {
        let number_bits = 64 - page.tag_bits();
        self.order.clear();
        self.order
            .extend(changes.iter().zip(0..).map(|(change, number)| tag(change) << number_bits | number));
        // The numbers in the low bits keep the changes of a tag in their order.
        self.order.sort_unstable();
        let (mut len, mut units) = (page.len(), 1);
        for change in changes {
            len += usize::from(change.from().is_none());
            units |= change.to().unwrap_or_default();
        }
        // `None` if more entries are removed than there are.
        let len = len.checked_sub(changes.iter().filter(|change| change.to().is_none()).count())?;
        let mut merged = Filling::of(page, 64 - units.leading_zeros(), len);
        let mut entries = page.entries();
        let mut next = entries.next();
        for of_tag in self.order.chunk_by(|one, other| one >> number_bits == other >> number_bits) {
            let tag = of_tag[0] >> number_bits;
            while let Some(entry) = next.filter(|entry| entry.tag < tag) {
                merged.push(entry)?;
                next = entries.next();
            }
            self.of_tag.clear();
            while let Some(entry) = next.filter(|entry| entry.tag == tag) {
                self.of_tag.push(entry);
                next = entries.next();
            }
            for numbered in of_tag {
                change(&mut self.of_tag, tag, &changes[(numbered & ((1 << number_bits) - 1)) as usize])?;
            }
            self.of_tag.iter().try_for_each(|entry| merged.push(*entry))?;
        }
        while let Some(entry) = next {
            merged.push(entry)?;
            next = entries.next();
        }
        merged.finish()
    }
}

/// Changes the entries of a tag. Returns `None` if an entry to remove or replace does not exist.
fn change<C: Change>(entries: &mut Vec<PageEntry>, tag: u64, change: &C) -> Option<()> {
    let Some(from) = change.from() else {
        if let Some(unit) = change.to() {
            // The newest is the first.
            entries.insert(0, PageEntry { tag, unit });
        }
        return Some(());
    };
    // The oldest one, as `HashPage::replace` and `HashPage::remove` take.
    let at = entries.iter().rposition(|entry| entry.unit == from)?;
    match change.to() {
        Some(to) => entries[at].unit = to,
        None => drop(entries.remove(at)),
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Numbers;

    #[derive(Clone, Copy)]
    struct Step(u64, Option<u64>, Option<u64>);

    impl Change for Step {
        fn hash(&self) -> u64 {
            self.0
        }

        fn from(&self) -> Option<u64> {
            self.1
        }

        fn to(&self) -> Option<u64> {
            self.2
        }
    }

    #[test]
    fn changes_at_once_give_the_entries_that_they_give_one_after_the_other() {
        let mut numbers = Numbers(3);
        // Few and many changes per page, few and many hashes.
        for (changes, distinct) in [(10, 5_000), (60, 5_000), (3_000, 5_000), (20_000, 50_000), (20_000, 40)]
        {
            let mut wanted = HashPages::new(36).unwrap();
            let mut merged = wanted.clone();
            for round in 0..4u64 {
                let mut steps = Vec::new();
                for _ in 0..if round == 0 { 2_000 } else { changes } {
                    let hash = crate::coding::mix(numbers.next() % distinct);
                    let unit = numbers.next() % (1 << (10 * (round + 1)));
                    let units: Vec<u64> = wanted.candidates(hash).collect();
                    let from = units.get(numbers.next() as usize % units.len().max(1)).copied();
                    let step = match (numbers.next() % 4, from) {
                        (0, Some(_)) => Step(hash, from, None),
                        (1, Some(_)) => Step(hash, from, Some(unit)),
                        _ => Step(hash, None, Some(unit)),
                    };
                    match (step.1, step.2) {
                        (Some(from), None) => assert!(wanted.remove(hash, from)),
                        (Some(from), Some(to)) => assert!(wanted.replace(hash, from, to)),
                        _ => wanted.insert(hash, unit),
                    }
                    steps.push(step);
                }
                assert!(merged.apply_all(&[&steps[..steps.len() / 3], &[], &steps[steps.len() / 3..]]));
                assert_eq!((merged.len(), wanted.len()), (wanted.len(), wanted.entries().count() as u64));
                assert!(merged.entries().eq(wanted.entries()), "{changes} changes of {distinct} hashes");
                let bytes: usize = merged.pages().iter().map(|page| page.heap_bytes()).sum();
                assert_eq!(merged.page_bytes, bytes);
            }
        }
    }

    #[test]
    fn all_pages_written_again_have_the_entries_of_a_map() {
        let mut numbers = Numbers(8);
        // Few and many changes, in one list and in several, of few and of many hashes.
        for (lists, changes, distinct) in
            [(1, 0, 10), (1, 5, 3_000), (1, 5_000, 3_000), (3, 400, 30), (7, 3_000, 100_000), (40, 40, 900)]
        {
            let mut pages = HashPages::new(36).unwrap();
            let mut wanted = std::collections::BTreeMap::<u64, Vec<u64>>::new();
            let kept_bits = |hash: u64| hash >> 28 << 28;
            for unit in 0..4_000 {
                let hash = kept_bits(crate::coding::mix(numbers.next() % distinct));
                pages.insert(hash, unit);
                wanted.entry(hash).or_default().insert(0, unit);
            }
            let steps: Vec<Vec<Step>> = (0..lists)
                .map(|_| {
                    let hash = |number| kept_bits(crate::coding::mix(number % (2 * distinct)));
                    let unit = |number: u64| (!number.is_multiple_of(5)).then_some(number >> 40);
                    (0..changes).map(|_| Step(hash(numbers.next()), None, unit(numbers.next()))).collect()
                })
                .collect();
            let mut apply = |units: &mut Vec<u64>, step: &Step| match step.2 {
                Some(unit) => units.insert(0, unit),
                None => units.clear(),
            };
            for step in steps.iter().flatten() {
                apply(wanted.entry(step.0).or_default(), step);
            }
            let lists: Vec<&[Step]> = steps.iter().map(|steps| &steps[..]).collect();
            pages.rewrite(&lists, &mut apply).unwrap();
            let each = wanted.iter().flat_map(|(hash, units)| units.iter().map(|unit| (*hash, *unit)));
            assert!(pages.entries().eq(each), "{changes} changes in {} lists", lists.len());
            assert_eq!(pages.len(), pages.entries().count() as u64);
            let longest = pages.pages().iter().map(|page| page.len()).max().unwrap();
            assert!(distinct < 3_000 || longest < 2 * PAGE_ENTRIES as usize, "{longest}");
        }
    }

    #[test]
    fn a_change_of_an_entry_that_does_not_exist_is_reported() {
        for count in [1, 2_000] {
            let mut pages = HashPages::new(36).unwrap();
            let inserts: Vec<Step> = (0..2_000).map(|n| Step(crate::coding::mix(n), None, Some(n))).collect();
            assert!(pages.apply_all(&[&inserts[..]]));
            let mut steps = inserts[..count].to_vec();
            steps.push(Step(7 << 32, Some(1), None));
            assert!(!pages.apply_all(&[&steps[..]]));
        }
    }
}
