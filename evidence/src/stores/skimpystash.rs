//! SkimpyStash (Debnath, Sengupta, Li: "SkimpyStash: RAM Space Skimpy Key-Value Store on Flash-based Storage", SIGMOD
//! 2011): a directory of buckets in memory, and the records of each bucket as a list in a log on flash.
//!
//! ```text
//! memory   bucket 0: newest record, filter    bucket 1: newest record, filter   ...    page that is filled
//!                 |                                  |
//! flash    [ a ][ c ] <- [ d ] <- [ g ]       [ b ][ f ]        each record has the place of the one before it
//! ```
//!
//! A key goes to the one of two buckets whose filter has fewer ones. When a bucket has taken as many records as
//! `compact_records`, its whole list is appended again: records that follow each other are in the same page then, and a
//! lookup reads the page once. Overwritten records are dropped at that. The log is not freed: the paper's traces insert
//! keys once.

use super::{Lengths, PAGE_BYTES, Peer, below, hash};
use crate::point::{Footprint, Settles};
use crate::{Error, Result};
use siltstone_bench::random::mix;
use siltstone_device::{AlignedBuffer, Directory, File, IoSnapshot, Purpose};
use std::collections::HashSet;

/// The place of no record.
const NONE: u32 = u32::MAX;
/// The bytes of a place before each record.
const PLACE_BYTES: usize = 4;

/// The settings of SkimpyStash.
#[derive(Debug, Clone, Copy)]
pub struct SkimpyStashSettings {
    /// The lengths of keys and values.
    pub lengths: Lengths,
    /// The number of keys for which the directory is made.
    pub expected_keys: u64,
    /// The average number of records per bucket.
    pub bucket_records: f64,
    /// Bits of the filters per key; the paper has 8.
    pub filter_bits: f64,
    /// Compacts a bucket after about as many insertions into it; `None`: never.
    pub compact_records: Option<u32>,
}

/// The store.
pub struct SkimpyStash {
    settings: SkimpyStashSettings,
    directory: Directory,
    log: File,
    newest: Box<[u32]>,
    filters: Box<[u8]>,
    filter_bytes: usize,
    functions: u32,
    /// The records per page.
    page_records: u32,
    /// The page that is filled, and its number.
    page: AlignedBuffer,
    page_number: u32,
    /// The records in it.
    filled: u32,
    /// The page that was read last in a lookup or a compaction.
    read: AlignedBuffer,
}

/// A record of a list.
struct Linked {
    previous: u32,
    record: Vec<u8>,
}

impl SkimpyStash {
    /// Creates an empty store in a directory.
    ///
    /// # Errors
    /// Those of the device; settings without sense.
    pub fn create(directory: Directory, settings: SkimpyStashSettings) -> Result<Self> {
        let SkimpyStashSettings { lengths, expected_keys, bucket_records, filter_bits, .. } = settings;
        let page_records = PAGE_BYTES / (PLACE_BYTES + lengths.record());
        if page_records == 0 || !bucket_records.is_finite() || bucket_records <= 0.0 || filter_bits <= 0.0 {
            return Err(Error::settings("a page has a record, a bucket records, a filter bits"));
        }
        let buckets = (expected_keys as f64 / bucket_records).ceil().max(1.0) as usize;
        let filter_bytes = (bucket_records * filter_bits / 8.0).round().max(1.0) as usize;
        let functions = (filter_bits * std::f64::consts::LN_2).round().max(1.0) as u32;
        let log = directory.create("skimpystash", directory.access())?;
        let mut page = AlignedBuffer::with_capacity(PAGE_BYTES);
        page.resize(PAGE_BYTES);
        Ok(SkimpyStash {
            settings,
            directory,
            log,
            newest: vec![NONE; buckets].into(),
            filters: vec![0; buckets * filter_bytes].into(),
            filter_bytes,
            functions,
            page_records: page_records as u32,
            page,
            page_number: 0,
            filled: 0,
            read: AlignedBuffer::with_capacity(PAGE_BYTES),
        })
    }

    /// Returns the two buckets of a key.
    fn buckets(&self, key: &[u8]) -> [usize; 2] {
        [0, 1].map(|function| below(hash(key, function), self.newest.len()))
    }

    /// Returns the bits of a key in a filter, as bytes of all filters and masks.
    fn filter_bits(&self, bucket: usize, key: &[u8]) -> impl Iterator<Item = (usize, u8)> + use<> {
        let (start, bits) = (bucket * self.filter_bytes, self.filter_bytes * 8);
        let mut mixed = hash(key, 2);
        (0..self.functions).map(move |_| {
            mixed = mix(mixed);
            let bit = below(mixed, bits);
            (start + bit / 8, 1 << (bit % 8))
        })
    }

    fn may_contain(&self, bucket: usize, key: &[u8]) -> bool {
        self.filter_bits(bucket, key).all(|(byte, mask)| self.filters[byte] & mask != 0)
    }

    /// Returns the number of keys of a bucket, estimated from the ones in its filter.
    fn load(&self, bucket: usize) -> f64 {
        let filter = &self.filters[bucket * self.filter_bytes..(bucket + 1) * self.filter_bytes];
        let ones: u32 = filter.iter().map(|byte| byte.count_ones()).sum();
        let bits = self.filter_bytes as f64 * 8.0;
        // A full filter has no more than a single zero left.
        let zeros = (bits - f64::from(ones)).max(0.5);
        (bits / zeros).ln() * bits / f64::from(self.functions)
    }

    /// Appends a record. Returns its place.
    fn append(&mut self, previous: u32, record: &[u8]) -> Result<u32> {
        let place = self.page_number.checked_mul(self.page_records).map(|first| first + self.filled);
        let place = place.filter(|place| *place < NONE).ok_or_else(|| Error::settings("the log is full"))?;
        let start = self.filled as usize * (PLACE_BYTES + record.len());
        self.page[start..start + PLACE_BYTES].copy_from_slice(&previous.to_le_bytes());
        self.page[start + PLACE_BYTES..start + PLACE_BYTES + record.len()].copy_from_slice(record);
        self.filled += 1;
        if self.filled == self.page_records {
            let offset = u64::from(self.page_number) * PAGE_BYTES as u64;
            self.log.write(Purpose::Log, offset, &self.page)?;
            (self.page_number, self.filled) = (self.page_number + 1, 0);
        }
        Ok(place)
    }

    /// Reads a record. `held` is the page that the last read of this walk has read, which is not read again.
    fn read(&mut self, place: u32, held: &mut Option<u32>, purpose: Purpose) -> Result<Linked> {
        let number = place / self.page_records;
        let page: &[u8] = if number == self.page_number {
            &self.page
        } else {
            if *held != Some(number) {
                self.log.read(purpose, u64::from(number) * PAGE_BYTES as u64, PAGE_BYTES, &mut self.read)?;
                *held = Some(number);
            }
            &self.read
        };
        let length = self.settings.lengths.record();
        let start = (place % self.page_records) as usize * (PLACE_BYTES + length);
        let previous = page[start..start + PLACE_BYTES].try_into().map(u32::from_le_bytes).unwrap_or(NONE);
        let record = page[start + PLACE_BYTES..start + PLACE_BYTES + length].to_vec();
        Ok(Linked { previous, record })
    }

    /// Appends the newest record of each key of a bucket again, in the order of its list.
    fn compact(&mut self, bucket: usize) -> Result<()> {
        let (mut records, mut keys) = (Vec::new(), HashSet::new());
        let (mut place, mut held) = (self.newest[bucket], None);
        while place != NONE {
            let Linked { previous, record } = self.read(place, &mut held, Purpose::Collect)?;
            if keys.insert(record[..self.settings.lengths.key].to_vec()) {
                records.push(record);
            }
            place = previous;
        }
        let mut newest = NONE;
        for record in records.iter().rev() {
            newest = self.append(newest, record)?;
        }
        self.newest[bucket] = newest;
        Ok(())
    }

    /// Returns the value of a key in a bucket.
    fn look_up_in(&mut self, bucket: usize, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let (mut place, mut held) = (self.newest[bucket], None);
        while place != NONE {
            let Linked { previous, mut record } = self.read(place, &mut held, Purpose::Get)?;
            if record.starts_with(key) {
                return Ok(Some(record.split_off(key.len())));
            }
            place = previous;
        }
        Ok(None)
    }

    /// Returns the bucket that may have a key already, so that its newest value is found first; else the one with fewer
    /// ones. Only if both may have it, they are read.
    fn bucket_of(&mut self, key: &[u8]) -> Result<usize> {
        let [first, second] = self.buckets(key);
        Ok(match (self.may_contain(first, key), self.may_contain(second, key)) {
            (true, false) => first,
            (false, true) => second,
            (true, true) if self.look_up_in(first, key)?.is_some() => first,
            (true, true) if self.look_up_in(second, key)?.is_some() => second,
            _ if self.load(second) < self.load(first) => second,
            _ => first,
        })
    }
}

impl SkimpyStash {
    /// Returns the memory of all structures, in bytes.
    pub fn ram_bytes(&self) -> u64 {
        let directory = size_of_val(&*self.newest) + size_of_val(&*self.filters);
        (directory + self.page.heap_bytes() + self.read.heap_bytes()) as u64
    }
}

impl Settles for SkimpyStash {
    /// There is no background work.
    fn settled_bytes(&mut self) -> Result<Footprint> {
        Ok(Footprint { ram_bytes: self.ram_bytes(), disk_bytes: None })
    }
}

impl Peer for SkimpyStash {
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.settings.lengths.check(key, Some(value))?;
        let bucket = self.bucket_of(key)?;
        let before = self.load(bucket);
        let place = self.append(self.newest[bucket], &[key, value].concat())?;
        self.newest[bucket] = place;
        for (byte, mask) in self.filter_bits(bucket, key) {
            self.filters[byte] |= mask;
        }
        if let Some(records) = self.settings.compact_records {
            let passed = |load: f64| (load / f64::from(records)) as u64;
            if passed(self.load(bucket)) > passed(before) {
                self.compact(bucket)?;
            }
        }
        Ok(())
    }

    fn lookup(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.settings.lengths.check(key, None)?;
        for bucket in self.buckets(key) {
            if self.may_contain(bucket, key)
                && let Some(value) = self.look_up_in(bucket, key)?
            {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    fn io(&self) -> IoSnapshot {
        self.directory.io()
    }
}
