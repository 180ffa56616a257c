//! Many changes at once: the pages are written again one after the other, which costs less per change than to move the
//! entries of a page for each.

use super::page::{Entry, HashPage};
use super::rebuilt::Rebuilt;
use super::{HashPages, PAGE_ENTRIES};
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
const MERGED_SHARE: usize = 16;

impl HashPages {
    /// Applies changes, of which those of one hash apply in their order. Returns `false` if an entry to remove or
    /// replace does not exist; the index then has some of the changes.
    pub fn apply_all<C: Change>(&mut self, changes: &[C]) -> bool {
        let inserted = changes.iter().filter(|change| change.from().is_none()).count() as u64;
        let removed = changes.iter().filter(|change| change.to().is_none()).count() as u64;
        let len = (self.len() + inserted).saturating_sub(removed);
        while len > PAGE_ENTRIES * self.pages.len() as u64 && self.division.can_split() {
            self.split_next();
        }
        let (sorted, ends) = self.by_page(changes);
        let mut merge = Merge::default();
        let mut start = 0;
        for (page, end) in ends.into_iter().enumerate() {
            let changes = &sorted[start..end];
            start = end;
            if changes.is_empty() {
                continue;
            }
            let is_applied = if changes.len() * MERGED_SHARE < self.pages[page].len() {
                changes.iter().all(|(_, change)| self.apply_one(change))
            } else {
                self.merge(page, changes, &mut merge)
            };
            if !is_applied {
                return false;
            }
        }
        true
    }

    /// Returns the changes with their tags, in the order of the pages, and for each page where its changes end.
    fn by_page<C: Change>(&self, changes: &[C]) -> (Vec<(u64, C)>, Vec<usize>) {
        let mut ends = vec![0; self.pages.len() + 1];
        for change in changes {
            ends[self.division.home(change.hash()).0 + 1] += 1;
        }
        for page in 1..ends.len() {
            ends[page] += ends[page - 1];
        }
        let mut sorted: Vec<(u64, C)> = changes.iter().map(|change| (0, *change)).collect();
        for change in changes {
            let (page, tag) = self.division.home(change.hash());
            sorted[ends[page]] = (tag, *change);
            ends[page] += 1;
        }
        ends.pop();
        (sorted, ends)
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

    fn merge<C: Change>(&mut self, number: usize, changes: &[(u64, C)], merge: &mut Merge) -> bool {
        let page = &self.pages[number];
        let Some(merged) = merge.merge(page, changes) else { return false };
        self.len = self.len + merged.len() as u64 - page.len() as u64;
        self.page_bytes = self.page_bytes + merged.heap_bytes() - page.heap_bytes();
        self.pages[number] = Arc::new(merged);
        true
    }
}

/// The memory of merging the changes of one page after the other.
#[derive(Default)]
struct Merge {
    /// The order of the changes.
    order: Vec<(u64, u32)>,
    /// The entries of a group.
    group: Vec<Entry>,
}

impl Merge {
    /// Returns a page with its changes: only groups that change are decoded, the bits of the others are copied. `None`
    /// if an entry to remove or replace does not exist.
    fn merge<C: Change>(&mut self, page: &HashPage, changes: &[(u64, C)]) -> Option<HashPage> {
        self.order.clear();
        self.order.extend(changes.iter().zip(0..).map(|((tag, _), number)| (*tag, number)));
        self.order.sort_unstable();
        let inserted = changes.iter().filter(|(_, change)| change.from().is_none()).count();
        let removed = changes.iter().filter(|(_, change)| change.to().is_none()).count();
        let units = changes.iter().filter_map(|(_, change)| change.to()).fold(0, |all, unit| all | unit);
        let page = &*page.widened(units);
        let mut rebuilt = Rebuilt::new(page, (page.len() + inserted).checked_sub(removed)?);
        for changed in self.order.chunk_by(|one, other| page.group_of(one.0) == page.group_of(other.0)) {
            rebuilt.copy_until(page.group_of(changed[0].0))?;
            self.group.clear();
            rebuilt.take_group(&mut self.group);
            for (tag, number) in changed {
                change(&mut self.group, *tag, &changes[*number as usize].1)?;
            }
            rebuilt.push_group(&self.group)?;
        }
        rebuilt.finish()
    }
}

/// Changes the entries of a group. Returns `None` if an entry to remove or replace does not exist.
fn change<C: Change>(group: &mut Vec<Entry>, tag: u64, change: &C) -> Option<()> {
    let Some(from) = change.from() else {
        if let Some(unit) = change.to() {
            group.insert(group.partition_point(|entry| entry.tag < tag), Entry { tag, unit });
        }
        return Some(());
    };
    let at = group.iter().rposition(|entry| (entry.tag, entry.unit) == (tag, from))?;
    match change.to() {
        Some(to) => group[at].unit = to,
        None => drop(group.remove(at)),
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::testing::Numbers;

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
                assert!(merged.apply_all(&steps));
                assert_eq!((merged.len(), wanted.len()), (wanted.len(), wanted.entries().count() as u64));
                assert!(merged.entries().eq(wanted.entries()), "{changes} changes of {distinct} hashes");
                let bytes: usize = merged.pages().iter().map(|page| page.heap_bytes()).sum();
                assert_eq!(merged.page_bytes, bytes);
            }
        }
    }

    #[test]
    fn a_change_of_an_entry_that_does_not_exist_is_reported() {
        for count in [1, 2_000] {
            let mut pages = HashPages::new(36).unwrap();
            let inserts: Vec<Step> = (0..2_000).map(|n| Step(crate::coding::mix(n), None, Some(n))).collect();
            assert!(pages.apply_all(&inserts));
            let mut steps = inserts[..count].to_vec();
            steps.push(Step(7 << 32, Some(1), None));
            assert!(!pages.apply_all(&steps));
        }
    }
}
