//! Lookups: single ones, or batches with overlapped reads.

use super::Dictionary;
use crate::batch::NEVER;
use crate::engine::FoundRef;
use crate::error::Result;
use crate::key::check_key;
use crate::store::Query;
use crate::store::record::RecordView;
use crate::store::table::{Located, Span};
use bytes::Bytes;
use siltstone_device::{Purpose, ReadRequest, read_batch, with_scratch};

/// The maximum number of reads and bytes per batch.
const BATCH_READS_MAX: usize = 1024;
const BATCH_BYTES_MAX: usize = 4 << 20;

/// A key of a batch, and where its record may be.
struct LocatedKey {
    span: Span,
    /// The number of the key in the batch.
    number: usize,
}

impl Dictionary {
    /// Returns the value of a key. Takes one flash read; without an index a few.
    ///
    /// # Errors
    /// [`Error::KeyLength`](crate::Error::KeyLength) for an empty or too long key; errors of reading.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        self.find(key.as_ref(), Bytes::copy_from_slice)
    }

    /// Returns whether the key exists. Costs as much as a get.
    ///
    /// # Errors
    /// See [`get`](Dictionary::get).
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.find(key.as_ref(), |_| ())?.is_some())
    }

    /// Returns the values of many keys, in their order. Their reads overlap, and a block that several keys share is
    /// read once.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("capitals.dict");
    /// # use siltstone::Dictionary;
    /// let dictionary = Dictionary::builder().build(&path, [("France", "Paris"), ("Peru", "Lima")])?;
    /// assert_eq!(dictionary.get_many(&["Peru", "Chad"])?, [Some("Lima".into()), None]);
    /// assert_eq!(dictionary.contains_many(&["Chad", "France"])?, [false, true]);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`get`](Dictionary::get).
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Bytes>>> {
        let mut values = vec![None; keys.len()];
        self.find_many(keys, |number, value| values[number] = Some(Bytes::copy_from_slice(value)))?;
        Ok(values)
    }

    /// Looks up many keys, with overlapping reads, and passes the number of each key with what was found to `show`;
    /// `None` if the key does not exist. Each number is passed once, in any order. After an error, some may have been
    /// passed.
    /// Like [`get_many`](Dictionary::get_many), but returns no values to be allocated.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("capitals.dict");
    /// # use siltstone::Dictionary;
    /// let dictionary = Dictionary::builder().build(&path, [("France", "Paris"), ("Peru", "Lima")])?;
    /// let mut bytes = 0;
    /// dictionary.get_many_with(&["Peru", "Chad", "France"], |_, found| {
    ///     bytes += found.map_or(0, |found| found.value.len());
    /// })?;
    /// assert_eq!(bytes, 9);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`get`](Dictionary::get).
    pub fn get_many_with<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut show: impl FnMut(usize, Option<FoundRef<'_>>),
    ) -> Result<()> {
        let mut is_shown = vec![false; keys.len()];
        self.find_many(keys, |number, value| {
            is_shown[number] = true;
            show(number, Some(FoundRef { value, expires_at_ms: NEVER }));
        })?;
        let missing = is_shown.iter().enumerate().filter(|(_, is_shown)| !**is_shown);
        missing.for_each(|(number, _)| show(number, None));
        Ok(())
    }

    /// Returns whether each of many keys exists, in their order.
    ///
    /// # Errors
    /// See [`get`](Dictionary::get).
    pub fn contains_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<bool>> {
        let mut contained = vec![false; keys.len()];
        self.find_many(keys, |number, _| contained[number] = true)?;
        Ok(contained)
    }

    /// Returns whether a record may have this key. Keys of a wrong length need no lookup.
    fn may_have(&self, key: &[u8]) -> bool {
        self.header().shape.layout.fixed.is_none_or(|(key_length, _)| key_length == key.len())
    }

    fn query<'a>(&self, key: &'a [u8]) -> Query<'a> {
        Query { purpose: Purpose::Get, hash: self.header().shape.hasher.hash(key), key }
    }

    fn find<T>(&self, key: &[u8], mut found: impl FnMut(&[u8]) -> T) -> Result<Option<T>> {
        check_key(key)?;
        if !self.may_have(key) {
            return Ok(None);
        }
        with_scratch(|buffer| {
            let show = |record: &RecordView<'_>| record.value.map(&mut found);
            Ok(self.store().look_up(&self.query(key), buffer, show)?.flatten())
        })
    }

    /// Looks up many keys, and passes the number and the value of those that exist.
    fn find_many<K: AsRef<[u8]>>(&self, keys: &[K], mut found: impl FnMut(usize, &[u8])) -> Result<()> {
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        // Without an index a lookup is a search whose reads depend on each other: there is nothing to batch.
        if self.store().index().is_none() {
            for (number, key) in keys.iter().enumerate() {
                self.find(key, |value| found(number, value))?;
            }
            return Ok(());
        }
        let (mut located, mut long) = (self.locate_many(&keys)?, Vec::new());
        located.retain(|one| {
            let is_long = self.store().is_long(&one.span);
            long.extend(is_long.then_some(one.number));
            !is_long
        });
        // One by one: they are read in pieces.
        for number in long {
            self.find(keys[number], |value| found(number, value))?;
        }
        let groups: Vec<&[LocatedKey]> = located.chunk_by(|one, next| one.span == next.span).collect();
        let mut buffers = Vec::new();
        // In batches: all buffers of a batch are in memory at once.
        let mut rest = &groups[..];
        while !rest.is_empty() {
            let (batch, later) = rest.split_at(self.batch_len(rest));
            let requests: Vec<_> = batch.iter().map(|group| self.request(&group[0])).collect();
            read_batch(Purpose::Get, &requests, &mut buffers, |number, bytes| {
                self.find_each(batch[number], &keys, bytes?, &mut found)
            })?;
            rest = later;
        }
        Ok(())
    }

    /// Returns where the record of each key may be, in the order of the file.
    fn locate_many(&self, keys: &[&[u8]]) -> Result<Vec<LocatedKey>> {
        let mut found = Vec::with_capacity(keys.len());
        for (number, key) in keys.iter().enumerate() {
            check_key(key)?;
            if !self.may_have(key) {
                continue;
            }
            let located = with_scratch(|buffer| self.store().locate(&self.query(key), buffer))?;
            if let Located::In(span) = located {
                found.push(LocatedKey { span, number });
            }
        }
        // In file order, so that keys of one block are adjacent.
        found.sort_unstable_by_key(|one| one.span.order());
        // Keys of one block share its read.
        let blocks = |one: &LocatedKey| self.store().blocks_of(&one.span);
        for group in found.chunk_by_mut(|one, next| blocks(one) == blocks(next)) {
            if let [first, _, ..] = group {
                let shared = Span::Blocks(blocks(first));
                group.iter_mut().for_each(|one| one.span = shared.clone());
            }
        }
        Ok(found)
    }

    /// Returns how many of the groups fit in one batch, at least one.
    fn batch_len(&self, groups: &[&[LocatedKey]]) -> usize {
        let mut bytes = 0;
        let fits = |group: &&&[LocatedKey]| {
            bytes += group.first().map_or(0, |one| self.store().extent_of(&one.span).1);
            bytes <= BATCH_BYTES_MAX
        };
        // A group that is longer than the limit is a batch of its own.
        groups.iter().take(BATCH_READS_MAX).take_while(fits).count().max(1)
    }

    /// Returns the read of a key and of those that share its blocks.
    fn request(&self, located: &LocatedKey) -> ReadRequest<'_> {
        let (offset, length) = self.store().extent_of(&located.span);
        ReadRequest { file: self.store().file().file(), offset, length }
    }

    /// Looks for the keys of a group in the bytes that were read for it.
    fn find_each(
        &self,
        group: &[LocatedKey],
        keys: &[&[u8]],
        bytes: &mut [u8],
        found: &mut impl FnMut(usize, &[u8]),
    ) -> Result<()> {
        let mut find = |one: &LocatedKey, bytes: &mut [u8]| {
            let record = self.store().find(one.span.clone(), bytes, keys[one.number])?;
            if let Some(value) = record.and_then(|record| record.value) {
                found(one.number, value);
            }
            Ok(())
        };
        let Some((last, others)) = group.split_last() else { return Ok(()) };
        for one in others {
            // A copy: `find` moves bytes, and the next keys are searched in the same bytes.
            with_scratch(|buffer| {
                buffer.clear();
                buffer.extend_from_slice(bytes);
                find(one, buffer)
            })?;
        }
        find(last, bytes)
    }
}
