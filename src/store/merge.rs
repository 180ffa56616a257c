//! Merges stores by the rules of Table 3 (SILT 3.3): of the records of a key the newest applies; if it is a tombstone
//! or has expired, it is dropped on its way to the SortedStore.
//!
//! ```text
//! HashStore 2 (newest)   a: put       b: deleted
//! HashStore 1              a: put                    c: put
//! SortedStore              a: put       b: put                  d: put
//! new SortedStore          a (from 2)                c          d
//! ```
//!
//! Deviation: stores of every kind return their records in hash order, so the paper's external sort of the HashStores
//! is unnecessary, and all of them are merged with the SortedStore in one pass.

use crate::batch::TimestampMs;
use crate::error::Result;
use crate::key::KeyHash;
use crate::store::CompactionFilter;
use crate::store::record::RecordView;

/// A record with the hash that places it.
#[derive(Debug, Clone, Copy)]
pub struct PlacedRecord<'a> {
    /// The hash of the key, within its partition.
    pub hash: KeyHash,
    /// The record.
    pub record: RecordView<'a>,
}

/// An iterator over records in hash order. Records with equal hashes are in the order of their keys, those with equal
/// keys from the newest on.
pub trait Cursor: Send {
    /// Moves to the next record, at first to the first one; returns whether there is one.
    fn advance(&mut self) -> Result<bool>;
    /// Moves to the first record of this placement or a higher one, or to a record shortly before it. Must be called
    /// before the first [`advance`](Cursor::advance). Default: stays at the first record.
    fn seek(&mut self, placement: u64) -> Result<()> {
        let _ = placement;
        Ok(())
    }
    /// Returns the current record.
    fn entry(&self) -> Option<PlacedRecord<'_>>;
    /// Returns the memory of the cursor, in bytes.
    fn heap_bytes(&self) -> usize;
}

/// The records of several cursors as one, each key once.
///
/// A record takes as many comparisons of hashes as the binary logarithm of the number of cursors.
pub struct MergeCursor {
    /// The newest first.
    sources: Vec<Box<dyn Cursor>>,
    /// A heap of the sources with records left; the one with the first record is at the front.
    heap: Vec<Head>,
    started: bool,
    /// Records of lower placements are skipped.
    first_placement: u64,
    /// The time at which tombstones and expired records are dropped; `None` keeps them.
    drop_gone_at_ms: Option<TimestampMs>,
    /// Decides which other records are dropped.
    compaction_filter: Option<CompactionFilter>,
    last_key: Vec<u8>,
    /// The number of records taken from each source.
    taken: Vec<u64>,
    hidden: u64,
}

/// The current record of a source.
#[derive(Clone, Copy)]
struct Head {
    hash: KeyHash,
    source: usize,
}

impl MergeCursor {
    /// Merges `sources`, the newest first. Drops tombstones and expired records, as of the given time; `None` keeps
    /// them, because older stores remain.
    pub fn new(sources: Vec<Box<dyn Cursor>>, drop_gone_at_ms: Option<TimestampMs>) -> Self {
        MergeCursor {
            heap: Vec::with_capacity(sources.len()),
            taken: vec![0; sources.len()],
            sources,
            started: false,
            first_placement: 0,
            drop_gone_at_ms,
            compaction_filter: None,
            last_key: Vec::new(),
            hidden: 0,
        }
    }

    /// Drops the records that a filter does not keep as well. Only for all stores of a partition: an older version of a
    /// key in another store would be found again.
    pub fn with_compaction_filter(self, compaction_filter: Option<CompactionFilter>) -> Self {
        MergeCursor { compaction_filter, ..self }
    }

    /// Returns the number of records taken from all sources so far.
    pub fn taken(&self) -> u64 {
        self.taken.iter().sum()
    }

    /// Returns the number of records before the current ones of the sources.
    pub fn passed(&self) -> u64 {
        self.taken() - self.heap.len() as u64
    }

    /// Returns the number of records before the current one of the last source, the oldest.
    pub fn passed_of_last(&self) -> u64 {
        let Some(last) = self.sources.len().checked_sub(1) else { return 0 };
        self.taken[last] - u64::from(self.heap.iter().any(|head| head.source == last))
    }

    /// Returns the number of records skipped so far because a newer one of their key was returned.
    pub fn hidden(&self) -> u64 {
        self.hidden
    }

    /// Returns the key of the record before the current one.
    pub fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// Moves all sources past the current record and older ones of its key.
    fn leave(&mut self) -> Result<()> {
        if !self.started {
            self.started = true;
            return self.start();
        }
        // A copy: the source that advances gives up the bytes of its record.
        let mut last_key = std::mem::take(&mut self.last_key);
        let Some(PlacedRecord { hash, record }) = self.entry() else { return Ok(()) };
        last_key.clear();
        last_key.extend_from_slice(record.key);
        self.last_key = last_key;
        // The current record was returned, so it does not count as hidden.
        self.advance_first()?;
        // Older records of the key follow at once, since hash and key order the heap before the age.
        while self.entry().is_some_and(|entry| entry.hash == hash && entry.record.key == self.last_key) {
            self.hidden += 1;
            self.advance_first()?;
        }
        Ok(())
    }

    fn start(&mut self) -> Result<()> {
        // All sources first, because a comparison reads the current record of both.
        for source in 0..self.sources.len() {
            if let Some(head) = self.advance_source(source)? {
                self.heap.push(head);
            }
        }
        for at in (0..self.heap.len() / 2).rev() {
            self.sift_down(at);
        }
        Ok(())
    }

    fn advance_source(&mut self, source: usize) -> Result<Option<Head>> {
        while self.sources[source].advance()? {
            let Some(PlacedRecord { hash, .. }) = self.sources[source].entry() else { break };
            // A source may begin before the placement that was sought.
            if hash.placement >= self.first_placement {
                self.taken[source] += 1;
                return Ok(Some(Head { hash, source }));
            }
        }
        Ok(None)
    }

    fn advance_first(&mut self) -> Result<()> {
        let Some(&Head { source, .. }) = self.heap.first() else { return Ok(()) };
        match self.advance_source(source)? {
            Some(head) => self.heap[0] = head,
            // The source stays in the list: heads refer to sources by their numbers.
            None => drop(self.heap.swap_remove(0)),
        }
        self.sift_down(0);
        Ok(())
    }

    fn sift_down(&mut self, mut at: usize) {
        loop {
            let mut child = 2 * at + 1;
            if child >= self.heap.len() {
                return;
            }
            if child + 1 < self.heap.len() && self.is_before(child + 1, child) {
                child += 1;
            }
            if !self.is_before(child, at) {
                return;
            }
            self.heap.swap(at, child);
            at = child;
        }
    }

    /// Returns whether the record at one place of the heap precedes that at another; of equal keys the newest does.
    fn is_before(&self, one: usize, other: usize) -> bool {
        let (one, other) = (self.heap[one], self.heap[other]);
        // Keys are compared only if both hashes are equal, which is rare.
        let key = |head: Head| self.sources[head.source].entry().map(|entry| entry.record.key);
        let order = one.hash.cmp(&other.hash).then_with(|| key(one).cmp(&key(other)));
        // The newest source first, so the record that `leave` keeps of equal keys is the newest.
        order.then(one.source.cmp(&other.source)).is_lt()
    }
}

impl Cursor for MergeCursor {
    fn advance(&mut self) -> Result<bool> {
        loop {
            self.leave()?;
            let Some(entry) = self.entry() else { return Ok(false) };
            // All older records of the key are skipped with it, so a tombstone that is dropped uncovers none.
            let is_gone = self.drop_gone_at_ms.is_some_and(|now_ms| entry.record.is_gone(now_ms));
            // The filter of the user gets the newest version only, and no tombstone.
            if !is_gone && self.compaction_filter.as_ref().is_none_or(|filter| filter.keeps(&entry.record)) {
                return Ok(true);
            }
        }
    }

    fn seek(&mut self, placement: u64) -> Result<()> {
        // Also for sources that stay at their first record: their earlier records are skipped.
        self.first_placement = placement;
        self.sources.iter_mut().try_for_each(|source| source.seek(placement))
    }

    fn entry(&self) -> Option<PlacedRecord<'_>> {
        self.sources.get(self.heap.first()?.source)?.entry()
    }

    fn heap_bytes(&self) -> usize {
        self.sources.iter().map(|source| source.heap_bytes()).sum::<usize>()
            + self.last_key.capacity()
            + self.heap.capacity() * size_of::<Head>()
            + self.taken.capacity() * 8
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
        fn entry(&self) -> Option<PlacedRecord<'_>> {
            let (placement, key, value, expires_at_ms) = *self.0.get(self.1.checked_sub(1)?)?;
            let record = RecordView { key: key.as_bytes(), value: value.map(str::as_bytes), expires_at_ms };
            Some(PlacedRecord { hash: KeyHash { placement, fingerprint: 0 }, record })
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
    fn of_two_records_of_a_key_in_one_source_the_first_applies() {
        let twice = vec![(7, "k", Some("young"), 0), (7, "k", Some("old"), 0), (7, "l", Some("other"), 0)];
        assert_eq!(merged(vec![twice], Some(0)), expected(&[("k", Some("young")), ("l", Some("other"))]));
    }

    #[test]
    fn an_expired_record_hides_older_ones_and_is_dropped() {
        let sources = vec![vec![(1, "k", Some("young"), 10)], vec![(1, "k", Some("old"), 0)]];
        assert_eq!(merged(sources.clone(), Some(10)), expected(&[]));
        assert_eq!(merged(sources, Some(9)), expected(&[("k", Some("young"))]));
    }

    #[test]
    fn many_sources_merge_as_a_map_filled_from_the_oldest_on() {
        use std::collections::BTreeMap;
        let mut random = fastrand::Rng::with_seed(7);
        for count in [0, 1, 2, 3, 17, 40] {
            let mut expected = BTreeMap::new();
            let mut sources = Vec::new();
            let mut records = 0;
            for _ in 0..count {
                let mut source = BTreeMap::new();
                for _ in 0..random.usize(..60) {
                    // Few placements, so that many keys share one; few keys, so that many occur twice.
                    let (placement, key) = (random.u64(..8), ["a", "b", "c"][random.usize(..3)]);
                    source.insert((placement, key), ["x", "y", "z"][random.usize(..3)]);
                }
                expected.extend(source.clone());
                records += source.len() as u64;
                sources
                    .push(source.into_iter().map(|((at, key), value)| (at, key, Some(value), 0)).collect());
            }
            sources.reverse();
            let sources = sources.into_iter().map(|list| Box::new(ListCursor(list, 0)) as Box<dyn Cursor>);
            let mut cursor = MergeCursor::new(sources.collect(), None);
            for ((placement, key), value) in &expected {
                assert!(cursor.advance().unwrap());
                let entry = cursor.entry().unwrap();
                assert_eq!((entry.hash.placement, entry.record.key), (*placement, key.as_bytes()));
                assert_eq!(entry.record.value, Some(value.as_bytes()));
            }
            assert!(!cursor.advance().unwrap() && !cursor.advance().unwrap());
            assert_eq!((cursor.taken(), cursor.hidden()), (records, records - expected.len() as u64));
        }
    }
}
