//! MICA's hash indexes (dissertation 5.3.3): buckets of one cache line that map the hash of a key to the offsets where
//! its item may be. In a lossy index ([`Buckets::insert_lossy`]) a full bucket drops its oldest entry. In a lossless
//! one ([`Buckets::insert`]) a full bucket is chained to a spare bucket ("bulk chaining"):
//!
//! ```text
//! main buckets    | 0 | 1 | 2 | 3 | .. |         hash -> bucket 2, tag 5f21
//!                           |
//! spare buckets             +--> | s1 | --> | s7 |
//! ```
//!
//! Deviations, for memory and cache misses: a bucket is one cache line with nine entries; the prototype's has two lines
//! with fifteen. An entry is a tag of 16 bits and an offset of 32 bits in units that the space chooses; the prototype's
//! has 48 bits in bytes. Wide offsets detect references to items that were overwritten; 32 bits do as well, if the
//! buckets are swept more often: see [`Buckets::sweep`]. A hole in a chain is filled from its end, so spare buckets
//! become free as soon as possible.
//!
//! The version of a main bucket guards its chain. Changes are made between [`Buckets::lock`] and the drop of its guard;
//! readers follow [`Mode`].

mod line;
mod mode;
mod spares;

#[cfg(test)]
unit_tests! {
    mod tests;
}

pub use line::BUCKET_ENTRIES;
pub use mode::{Crcw, Crew, Erew, Mode};

use super::atomic::{self, AtomicU64};
use line::{LINE_WORDS, Line};
use spares::Spares;
use std::marker::PhantomData;
use std::ops::Deref;

/// The bytes per bucket.
pub const BUCKET_BYTES: usize = LINE_WORDS * 8;

/// The maximum number of high bits of a hash that select the partition.
pub const PARTITION_BITS_MAX: u32 = 16;

/// The buckets of a partition, stored in words that are initially zero.
pub struct Buckets<W> {
    words: W,
    main: u32,
    partition_bits: u32,
    spares: Spares,
}

/// The position of a key: its bucket, and its tag in the bucket. The bits of the hash that select the partition (the
/// highest), the bucket (from bit 16 on) and the tag (the lowest 16) do not overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Home {
    bucket: u32,
    tag: u16,
}

/// An entry that was found. Valid while its bucket is locked or unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BucketEntry {
    line: u32,
    slot: u8,
    /// The offset in the entry.
    pub offset: u32,
}

/// The result of searching a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchResult {
    /// The entry that was accepted.
    Found(BucketEntry),
    /// No entry was accepted.
    Absent,
    /// A writer has changed the bucket.
    Changed,
}

/// All spare buckets are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoSpare;

impl Home {
    /// The number of the main bucket.
    pub fn bucket(self) -> u32 {
        self.bucket
    }
}

impl<W: Deref<Target = [AtomicU64]>> Buckets<W> {
    /// Returns the number of words that this many buckets take.
    pub fn words_for(main: u32, spare: u32) -> usize {
        (main as usize + spare as usize) * LINE_WORDS
    }

    /// Makes buckets of `words`, at least [`words_for`](Buckets::words_for), all zero, and aligned to 64 bytes for
    /// speed. There is at least one main bucket. `partition_bits` high bits, at most [`PARTITION_BITS_MAX`], are the
    /// same in all hashes.
    pub fn new(words: W, main: u32, spare: u32, partition_bits: u32) -> Self {
        Buckets { words, main, partition_bits, spares: Spares::new(spare) }
    }

    /// Returns the words.
    pub fn words(&self) -> &W {
        &self.words
    }

    /// Returns the number of main buckets.
    pub fn main(&self) -> u32 {
        self.main
    }

    /// Returns the number of spare buckets that are in no chain.
    pub fn free_spares(&self) -> u32 {
        self.spares.free()
    }

    /// Returns the position of a key with this hash.
    #[inline]
    pub fn home(&self, hash: u64) -> Home {
        // Without the bits of the partition: they are equal in all hashes, and would leave most buckets empty.
        let high = hash << self.partition_bits >> 32;
        // Scaled, not masked: any number of buckets is possible, and buckets ascend with the hash, which scans need.
        let bucket = ((high * u64::from(self.main)) >> 32) as u32;
        Home { bucket, tag: (hash as u16).max(1) }
    }

    /// Returns a main bucket by its number, below [`main`](Buckets::main), without a tag.
    pub fn home_of_bucket(&self, bucket: u32) -> Home {
        // A number that is too high would be that of a spare bucket.
        Home { bucket: bucket.min(self.main - 1), tag: 0 }
    }

    /// Returns the number of the first word of a main bucket.
    #[inline]
    pub fn first_word(&self, home: Home) -> usize {
        home.bucket as usize * LINE_WORDS
    }

    #[inline]
    fn line(&self, number: u32) -> Line<'_> {
        // Numbers come from `home` and from chains, so they are within the words.
        let first = number as usize * LINE_WORDS;
        Line(&self.words[first..first + LINE_WORDS])
    }

    #[inline]
    fn spare_line(&self, spare: u32) -> u32 {
        // Spare buckets count from 1, because 0 ends a chain.
        self.main + (spare - 1)
    }

    /// Returns the word by which readers and writers of the bucket synchronize.
    #[inline]
    pub fn header(&self, home: Home) -> &AtomicU64 {
        self.line(home.bucket).header()
    }

    /// Returns the offsets of the entries of the main bucket with the key's tag, whose items may be the key's.
    #[inline]
    pub fn candidates(&self, home: Home) -> impl Iterator<Item = u32> {
        // No version is compared: a torn offset costs a prefetch that is not used, or a read compares it later.
        let line = self.line(home.bucket);
        line.with_tag(home.tag).map(move |slot| line.offset(slot))
    }

    /// Searches the entries with the key's tag for one that `is_it` accepts by its offset. `seen` is the header of the
    /// bucket when the read began.
    #[inline]
    pub fn find<M: Mode>(&self, home: Home, seen: u64, mut is_it: impl FnMut(u32) -> bool) -> SearchResult {
        match self.find_in_line(home.bucket, home.tag, &mut is_it) {
            Some(entry) => SearchResult::Found(entry),
            None => self.find_in_chain::<M>(home, seen, is_it),
        }
    }

    #[inline]
    fn find_in_line(
        &self,
        number: u32,
        tag: u16,
        is_it: &mut impl FnMut(u32) -> bool,
    ) -> Option<BucketEntry> {
        let line = self.line(number);
        for slot in line.with_tag(tag) {
            let offset = line.offset(slot);
            if is_it(offset) {
                return Some(BucketEntry { line: number, slot: slot as u8, offset });
            }
        }
        None
    }

    /// Returns whether a bucket with this header has spare buckets.
    #[inline]
    pub fn is_chained(seen: u64) -> bool {
        seen >> 32 != 0
    }

    /// Like [`find`](Buckets::find), in the spare buckets alone.
    pub fn find_in_chain<M: Mode>(
        &self,
        home: Home,
        seen: u64,
        mut is_it: impl FnMut(u32) -> bool,
    ) -> SearchResult {
        // From the header that was seen, so that link and version are of one moment.
        let mut next = (seen >> 32) as u32;
        while next != 0 {
            let number = self.spare_line(next);
            next = self.line(number).next();
            // The spare bucket may have moved to another chain while it was read, so its `next` may lead anywhere. An
            // unchanged version proves that it did not.
            if !M::is_unchanged(self.header(home), seen) {
                return SearchResult::Changed;
            }
            if let Some(entry) = self.find_in_line(number, home.tag, &mut is_it) {
                return SearchResult::Found(entry);
            }
        }
        SearchResult::Absent
    }

    /// Locks the bucket for writing until the guard is dropped.
    #[inline]
    pub fn lock<M: Mode>(&self, home: Home) -> Locked<'_, W, M> {
        M::lock(self.header(home));
        Locked { buckets: self, home, mode: PhantomData }
    }

    /// Returns the number of entries of a main bucket, without its chain, whose offsets `is_it` accepts.
    pub fn count_in_main(&self, bucket: u32, is_it: impl Fn(u32) -> bool) -> usize {
        let line = self.line(self.home_of_bucket(bucket).bucket);
        line.used().filter(|slot| is_it(line.offset(*slot))).count()
    }

    /// Empties the entries of a main bucket whose offsets are not `live`. Returns their number.
    ///
    /// A circular log must do this for all buckets before offsets wrap around and old ones appear live again.
    pub fn sweep<M: Mode>(&self, bucket: u32, live: impl Fn(u32) -> bool) -> u32 {
        let home = self.home_of_bucket(bucket);
        let line = self.line(home.bucket);
        let dangling = |slot: &usize| !live(line.offset(*slot));
        // Without the lock, which most buckets then do not need. What dangles from now on is left to the next sweep.
        if !line.used().any(|slot| dangling(&slot)) {
            return 0;
        }
        let _locked = self.lock::<M>(home);
        let mut emptied = 0;
        // Without the chain: only lossy indexes are swept, and they have none.
        for slot in line.used().filter(dangling) {
            line.set_tag(slot, 0);
            emptied += 1;
        }
        emptied
    }

    /// Returns the entries of a main bucket and its chain. The bucket must be locked, or have no writer.
    pub fn entries(&self, home: Home) -> impl Iterator<Item = BucketEntry> {
        self.chain(home).flat_map(|number| {
            let line = self.line(number);
            line.used().map(move |slot| BucketEntry {
                line: number,
                slot: slot as u8,
                offset: line.offset(slot),
            })
        })
    }

    fn chain(&self, home: Home) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(home.bucket), |number| match self.line(*number).next() {
            0 => None,
            next => Some(self.spare_line(next)),
        })
    }

    /// Returns the maximum number of spare buckets that insertions of new keys with these hashes take. There must be no
    /// writer.
    pub fn spares_needed(&self, hashes: &[u64]) -> u32 {
        let mut buckets: Vec<u32> = hashes.iter().map(|hash| self.home(*hash).bucket).collect();
        buckets.sort_unstable();
        let needed = |bucket: &[u32]| {
            let lines = self.chain(self.home_of_bucket(bucket[0]));
            let free: usize = lines.map(|number| BUCKET_ENTRIES - self.line(number).used().count()).sum();
            bucket.len().saturating_sub(free).div_ceil(BUCKET_ENTRIES) as u32
        };
        buckets.chunk_by(|one, two| one == two).map(needed).sum()
    }
}

/// A bucket that is locked for writing, with the tag of a key.
pub struct Locked<'a, W: Deref<Target = [AtomicU64]>, M: Mode> {
    buckets: &'a Buckets<W>,
    home: Home,
    mode: PhantomData<M>,
}

impl<W: Deref<Target = [AtomicU64]>, M: Mode> Locked<'_, W, M> {
    /// Searches the entries with the key's tag for one that `is_it` accepts by its offset.
    #[inline]
    pub fn find(&self, is_it: impl FnMut(u32) -> bool) -> Option<BucketEntry> {
        let header = self.buckets.header(self.home).load(atomic::Ordering::Relaxed);
        // The bucket is locked, so nothing changes, and no version is compared.
        match self.buckets.find::<Erew>(self.home, header, is_it) {
            SearchResult::Found(entry) => Some(entry),
            SearchResult::Absent | SearchResult::Changed => None,
        }
    }

    /// Returns all entries of the bucket and its chain.
    pub fn entries(&self) -> impl Iterator<Item = BucketEntry> {
        self.buckets.entries(self.home)
    }

    /// Replaces the offset of an entry.
    #[inline]
    pub fn replace(&self, entry: BucketEntry, offset: u32) {
        self.buckets.line(entry.line).set_offset(entry.slot.into(), offset);
    }

    /// Inserts an entry, and chains a spare bucket if all entries are in use.
    ///
    /// # Errors
    /// [`NoSpare`] if no spare bucket is left; nothing was changed then.
    pub fn insert(&self, offset: u32) -> Result<(), NoSpare> {
        let Locked { buckets, home, .. } = *self;
        let mut last = home.bucket;
        for number in buckets.chain(home) {
            let line = buckets.line(number);
            if let Some(slot) = line.with_tag(0).next() {
                line.set(slot, home.tag, offset);
                return Ok(());
            }
            last = number;
        }
        let below = |spare| buckets.line(buckets.spare_line(spare)).next();
        let spare = buckets.spares.take(below).ok_or(NoSpare)?;
        // Filled before it is linked, so that the chain is valid at any time.
        let fresh = buckets.line(buckets.spare_line(spare));
        // It still has the link of the stack of free buckets.
        fresh.set_next(0);
        fresh.set(0, home.tag, offset);
        buckets.line(last).set_next(spare);
        Ok(())
    }

    /// Inserts an entry in the main bucket, in place of the one with the highest `age` if all are in use. Returns
    /// whether an entry was dropped.
    pub fn insert_lossy(&self, offset: u32, age: impl Fn(u32) -> u32) -> bool {
        let line = self.buckets.line(self.home.bucket);
        let free = line.with_tag(0).next();
        let oldest = || (0..BUCKET_ENTRIES).max_by_key(|slot| age(line.offset(*slot))).unwrap_or(0);
        line.set(free.unwrap_or_else(oldest), self.home.tag, offset);
        free.is_none()
    }

    /// Removes an entry. The last entry of its chain takes its place.
    pub fn remove(&self, entry: BucketEntry) {
        let buckets = self.buckets;
        let (mut before, mut last) = (None, self.home.bucket);
        for number in buckets.chain(self.home).skip(1) {
            (before, last) = (Some(last), number);
        }
        let (hole, line) = (buckets.line(entry.line), buckets.line(last));
        if last != entry.line
            && let Some(slot) = line.used().next()
        {
            // The copy first: a reader in between finds the entry twice, and then a changed version.
            hole.set(entry.slot.into(), line.tag(slot), line.offset(slot));
            line.set_tag(slot, 0);
        } else {
            hole.set_tag(entry.slot.into(), 0);
        }
        if let Some(before) = before
            && line.used().is_empty()
        {
            let spare = buckets.line(before).next();
            buckets.line(before).set_next(0);
            // After it is unlinked: from here on another writer may take it.
            buckets.spares.give_back(spare, |below| line.set_next(below));
        }
    }
}

impl<W: Deref<Target = [AtomicU64]>, M: Mode> Drop for Locked<'_, W, M> {
    #[inline]
    fn drop(&mut self) {
        M::unlock(self.buckets.header(self.home));
    }
}
