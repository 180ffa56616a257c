//! Lookups: one at a time, or many with their reads overlapped.

use super::Dictionary;
use crate::Result;
use crate::device::{Purpose, ReadRequest, with_scratch};
use crate::key::check_key;
use crate::store::Query;
use crate::store::ordered::{Located, Span};
use crate::store::record::RecordView;
use bytes::Bytes;

/// A batch of reads ends when it has so many reads or bytes.
const BATCH_READS_MAX: usize = 1024;
const BATCH_BYTES_MAX: usize = 4 << 20;

/// A key of many, and where it may stand.
struct Sought {
    span: Span,
    /// Which of the keys it is.
    number: usize,
}

impl Dictionary {
    /// The value of a key. One flash read; without an index a handful.
    ///
    /// # Errors
    /// [`Error::KeyLength`](crate::Error::KeyLength) for a key of no byte or too many; those of reading.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        self.find(key.as_ref(), Bytes::copy_from_slice)
    }

    /// Whether the key is there. Costs as much as a get.
    ///
    /// # Errors
    /// As [`get`](Dictionary::get).
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.find(key.as_ref(), |_| ())?.is_some())
    }

    /// The values of many keys, in their order. Their reads overlap, and those of the same block are done once.
    ///
    /// # Errors
    /// As [`get`](Dictionary::get).
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Bytes>>> {
        self.find_many(keys, Bytes::copy_from_slice)
    }

    /// Whether each of many keys is there, in their order.
    ///
    /// # Errors
    /// As [`get`](Dictionary::get).
    pub fn contains_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<bool>> {
        let found = self.find_many(keys, |_| ())?;
        Ok(found.into_iter().map(|found| found.is_some()).collect())
    }

    /// Whether records can have such a key: others are not looked for.
    fn may_have(&self, key: &[u8]) -> bool {
        self.header().fixed.is_none_or(|(key_length, _)| key_length == key.len())
    }

    fn query<'a>(&self, key: &'a [u8]) -> Query<'a> {
        Query { purpose: Purpose::Get, hash: self.header().placing().place(key), key }
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

    fn find_many<K: AsRef<[u8]>, T>(
        &self,
        keys: &[K],
        mut found: impl FnMut(&[u8]) -> T,
    ) -> Result<Vec<Option<T>>> {
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        if self.store().index().is_none() {
            return keys.iter().map(|key| self.find(key, &mut found)).collect();
        }
        let sought = self.locate_many(&keys)?;
        let groups: Vec<&[Sought]> = sought.chunk_by(|one, next| one.span == next.span).collect();
        let mut values: Vec<Option<T>> = keys.iter().map(|_| None).collect();
        let mut requests = Vec::new();
        let mut rest = &groups[..];
        while !rest.is_empty() {
            let (batch, later) = rest.split_at(self.batch_len(rest));
            self.read(batch, &mut requests)?;
            for (group, request) in batch.iter().zip(&requests) {
                for one in *group {
                    values[one.number] = self.find_in(request, one, keys[one.number], &mut found)?;
                }
            }
            rest = later;
        }
        Ok(values)
    }

    /// Where each of the keys may stand, in the order of the file.
    fn locate_many(&self, keys: &[&[u8]]) -> Result<Vec<Sought>> {
        let mut sought = Vec::with_capacity(keys.len());
        for (number, key) in keys.iter().enumerate() {
            check_key(key)?;
            if !self.may_have(key) {
                continue;
            }
            let located = with_scratch(|buffer| self.store().locate(&self.query(key), buffer))?;
            if let Located::In(span) = located {
                sought.push(Sought { span, number });
            }
        }
        sought.sort_unstable_by_key(|one| one.span.order());
        // Keys of one block share the read of it.
        let blocks = |one: &Sought| self.store().blocks_of(&one.span);
        for group in sought.chunk_by_mut(|one, next| blocks(one) == blocks(next)) {
            if let [first, _, ..] = group {
                let shared = Span::Blocks(blocks(first));
                group.iter_mut().for_each(|one| one.span = shared.clone());
            }
        }
        Ok(sought)
    }

    /// How many of the groups one batch reads: at least one.
    fn batch_len(&self, groups: &[&[Sought]]) -> usize {
        let mut bytes = 0;
        let fits = |group: &&&[Sought]| {
            bytes += group.first().map_or(0, |one| self.store().extent_of(&one.span).1);
            bytes <= BATCH_BYTES_MAX
        };
        groups.iter().take(BATCH_READS_MAX).take_while(fits).count().max(1)
    }

    /// Reads for each group.
    fn read(&self, groups: &[&[Sought]], requests: &mut Vec<ReadRequest>) -> Result<()> {
        let file = self.store().file();
        requests.resize_with(groups.len(), || ReadRequest::new(0, 0));
        for (one, request) in groups.iter().filter_map(|group| group.first()).zip(requests.iter_mut()) {
            let (offset, length) = self.store().extent_of(&one.span);
            request.aim(offset, length);
        }
        file.file().read_many(Purpose::Get, requests)
    }

    fn find_in<T>(
        &self,
        request: &ReadRequest,
        sought: &Sought,
        key: &[u8],
        found: &mut impl FnMut(&[u8]) -> T,
    ) -> Result<Option<T>> {
        // Another key may be looked for in the same bytes, and looking moves them.
        with_scratch(|buffer| {
            buffer.clear();
            buffer.extend_from_slice(request.bytes());
            let record = self.store().find(sought.span.clone(), buffer, key)?;
            Ok(record.and_then(|record| record.value).map(found))
        })
    }
}
