//! Merging stores by the rule of Table 3 (SILT 3.3): of the records of a key the youngest holds; one that is deleted or
//! expired is dropped when it goes into the last store.
//!
//! Deviation: stores of every kind yield their records in hash order by themselves, so the paper's external sort of the
//! HashStores is not needed, and all of them are merged with the SortedStore in one pass.

use crate::Result;
use crate::batch::TimestampMs;
use crate::key::KeyHash;
use crate::store::record::RecordView;
use std::cmp::Ordering;

/// A record with the hash that places it.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// The hash of the key, within its partition.
    pub hash: KeyHash,
    /// The record.
    pub record: RecordView<'a>,
}

impl Entry<'_> {
    fn order(&self, other: &Entry<'_>) -> Ordering {
        self.hash.cmp(&other.hash).then_with(|| self.record.key.cmp(other.record.key))
    }
}

/// Records in the order of their hashes, those of equal hashes in the order of their keys, those of equal keys from the
/// youngest on.
pub trait Cursor: Send {
    /// Goes on to the next record, first to the first; answers whether there is one.
    fn advance(&mut self) -> Result<bool>;
    /// The record that the cursor stands on.
    fn entry(&self) -> Option<Entry<'_>>;
    /// The memory held, in bytes.
    fn heap_bytes(&self) -> usize;
}

/// The records of several cursors as one, each key once.
pub struct MergeCursor {
    /// The youngest first.
    sources: Vec<Box<dyn Cursor>>,
    started: bool,
    /// The source of the current record.
    current: Option<usize>,
    /// At this time records that are gone are dropped; `None` keeps them.
    drop_gone_at_ms: Option<TimestampMs>,
    last_key: Vec<u8>,
    taken: u64,
}

impl MergeCursor {
    /// Merges `sources`, of which the first is the youngest. Deleted and expired records are dropped at the given time,
    /// or kept if there is none since older stores remain.
    pub fn new(sources: Vec<Box<dyn Cursor>>, drop_gone_at_ms: Option<TimestampMs>) -> Self {
        MergeCursor {
            sources,
            started: false,
            current: None,
            drop_gone_at_ms,
            last_key: Vec::new(),
            taken: 0,
        }
    }

    /// How many records were taken from all sources so far.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Moves all sources behind the record that was yielded last.
    fn leave(&mut self) -> Result<()> {
        if !self.started {
            self.started = true;
            for source in &mut self.sources {
                self.taken += u64::from(source.advance()?);
            }
            return Ok(());
        }
        let Some(entry) = self.current.and_then(|current| self.sources[current].entry()) else {
            return Ok(());
        };
        let hash = entry.hash;
        self.last_key.clear();
        self.last_key.extend_from_slice(entry.record.key);
        for source in &mut self.sources {
            while source
                .entry()
                .is_some_and(|entry| entry.hash == hash && entry.record.key == self.last_key.as_slice())
            {
                self.taken += u64::from(source.advance()?);
            }
        }
        Ok(())
    }

    /// The source with the first record; of equal keys the youngest.
    fn first(&self) -> Option<usize> {
        let mut first: Option<(usize, Entry<'_>)> = None;
        for (number, source) in self.sources.iter().enumerate() {
            if let Some(entry) = source.entry()
                && first.as_ref().is_none_or(|(_, best)| entry.order(best) == Ordering::Less)
            {
                first = Some((number, entry));
            }
        }
        first.map(|(number, _)| number)
    }
}

impl Cursor for MergeCursor {
    fn advance(&mut self) -> Result<bool> {
        loop {
            self.leave()?;
            self.current = self.first();
            let Some(entry) = self.entry() else { return Ok(false) };
            if self.drop_gone_at_ms.is_none_or(|now_ms| !entry.record.is_gone(now_ms)) {
                return Ok(true);
            }
        }
    }

    fn entry(&self) -> Option<Entry<'_>> {
        self.sources.get(self.current?)?.entry()
    }

    fn heap_bytes(&self) -> usize {
        self.sources.iter().map(|source| source.heap_bytes()).sum::<usize>() + self.last_key.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Owned = (u64, &'static str, Option<&'static str>, u64);

    struct ListCursor(Vec<Owned>, usize);

    impl Cursor for ListCursor {
        fn advance(&mut self) -> Result<bool> {
            self.1 += 1;
            Ok(self.1 <= self.0.len())
        }
        fn entry(&self) -> Option<Entry<'_>> {
            let (placement, key, value, expires_at_ms) = *self.0.get(self.1.checked_sub(1)?)?;
            let record = RecordView { key: key.as_bytes(), value: value.map(str::as_bytes), expires_at_ms };
            Some(Entry { hash: KeyHash { placement, fingerprint: 0 }, record })
        }
        fn heap_bytes(&self) -> usize {
            0
        }
    }

    fn merged(sources: Vec<Vec<Owned>>, drop_gone_at_ms: Option<u64>) -> Vec<(String, Option<String>)> {
        let sources = sources.into_iter().map(|list| Box::new(ListCursor(list, 0)) as Box<dyn Cursor>);
        let mut cursor = MergeCursor::new(sources.collect(), drop_gone_at_ms);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let mut out = Vec::new();
        while cursor.advance().unwrap() {
            let record = cursor.entry().unwrap().record;
            out.push((text(record.key), record.value.map(text)));
        }
        out
    }

    fn expected(list: &[(&str, Option<&str>)]) -> Vec<(String, Option<String>)> {
        list.iter().map(|(key, value)| (key.to_string(), value.map(str::to_owned))).collect()
    }

    #[test]
    fn table_3_holds_for_every_row() {
        let hash_store = vec![
            (2, "new", Some("h"), 0),
            (3, "gone", None, 0),
            (4, "both", Some("h"), 0),
            (5, "del", None, 0),
        ];
        let sorted_store =
            vec![(1, "old", Some("s"), 0), (4, "both", Some("s"), 0), (5, "del", Some("s"), 0)];
        let last = merged(vec![hash_store.clone(), sorted_store.clone()], Some(0));
        assert_eq!(last, expected(&[("old", Some("s")), ("new", Some("h")), ("both", Some("h"))]));
        let kept = merged(vec![hash_store, sorted_store], None);
        assert_eq!(kept.iter().filter(|(_, value)| value.is_none()).count(), 2);
    }

    #[test]
    fn of_a_key_that_comes_twice_in_one_source_the_first_holds() {
        let twice = vec![(7, "k", Some("young"), 0), (7, "k", Some("old"), 0), (7, "l", Some("other"), 0)];
        assert_eq!(merged(vec![twice], Some(0)), expected(&[("k", Some("young")), ("l", Some("other"))]));
    }

    #[test]
    fn an_expired_record_hides_older_ones_and_is_dropped() {
        let sources = vec![vec![(1, "k", Some("young"), 10)], vec![(1, "k", Some("old"), 0)]];
        assert_eq!(merged(sources.clone(), Some(10)), expected(&[]));
        assert_eq!(merged(sources, Some(9)), expected(&[("k", Some("young"))]));
    }
}
