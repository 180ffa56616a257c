//! MICA's hash indexes (dissertation 5.3.3): buckets of one cache line that tell from the hash of a key at which offset
//! its item may stand. Lossy ([`Buckets::insert_lossy`]): a full bucket gives up its oldest entry. Lossless
//! ([`Buckets::insert`]): a full bucket is chained to a spare one ("bulk chaining").
//!
//! Deviations, for memory and cache misses: a bucket is one cache line of nine entries where the prototype has two of
//! fifteen; an entry is a tag of 16 bits and an offset of 32 bits in units that its user chooses, where the prototype
//! has 48 bits in bytes. What wide offsets detect (references to items that were overwritten) 32 bits detect as well,
//! if the buckets are swept that much more often: see [`Buckets::sweep`]. A hole in a chain is filled from its end, so
//! that spare buckets come back as soon as they can.
//!
//! A bucket's version guards all its chain. Whatever is done to a bucket is done between [`Buckets::lock`] and the end
//! of its guard; readers follow [`Mode`].

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

/// The bytes of a bucket.
pub const BUCKET_BYTES: usize = LINE_WORDS * 8;

/// The most high bits of a hash that may choose the partition.
pub const PARTITION_BITS_MAX: u32 = 16;

/// The buckets of a partition, over words that are zero at first.
pub struct Buckets<W> {
    words: W,
    main: u32,
    partition_bits: u32,
    spares: Spares,
}

/// Where a key belongs: its bucket, and the tag by which the bucket knows it. The bits of the hash that choose the
/// partition (the highest), the bucket (from bit 16 on) and the tag (the lowest 16) do not overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Home {
    bucket: u32,
    tag: u16,
}

/// An entry that was found. Good as long as its bucket is locked or unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    line: u32,
    slot: u8,
    /// The offset that it holds.
    pub offset: u32,
}

/// What looking through a bucket came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Search {
    /// The entry that was accepted.
    Found(Entry),
    /// None was.
    Absent,
    /// A writer came in between.
    Changed,
}

/// All spare buckets are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoSpare;

impl<W: Deref<Target = [AtomicU64]>> Buckets<W> {
    /// The words that so many buckets take.
    pub fn words_for(main: u32, spare: u32) -> usize {
        (main as usize + spare as usize) * LINE_WORDS
    }

    /// Buckets over `words`, as many as [`words_for`](Buckets::words_for) says, all zero and aligned to 64 bytes if
    /// they are to be fast. `partition_bits` high bits of all hashes are the same; `None` if the numbers do not fit.
    pub fn new(words: W, main: u32, spare: u32, partition_bits: u32) -> Option<Self> {
        let fits = words.len() >= Self::words_for(main, spare) && main.checked_add(spare).is_some();
        (fits && main > 0 && partition_bits <= PARTITION_BITS_MAX).then(|| Buckets {
            words,
            main,
            partition_bits,
            spares: Spares::new(spare),
        })
    }

    /// The words that were given.
    pub fn words(&self) -> &W {
        &self.words
    }

    /// The main buckets.
    pub fn main(&self) -> u32 {
        self.main
    }

    /// The spare buckets that are in no chain.
    pub fn free_spares(&self) -> u32 {
        self.spares.free()
    }

    /// Where a key of that hash belongs.
    #[inline]
    pub fn home(&self, hash: u64) -> Home {
        let high = hash << self.partition_bits >> 32;
        let bucket = ((high * u64::from(self.main)) >> 32) as u32;
        Home { bucket, tag: (hash as u16).max(1) }
    }

    /// The main bucket of a number below [`main`](Buckets::main), with no tag.
    pub fn home_of_bucket(&self, bucket: u32) -> Home {
        Home { bucket: bucket.min(self.main - 1), tag: 0 }
    }

    /// Where the line of the main bucket begins among the words.
    #[inline]
    pub fn first_word(&self, home: Home) -> usize {
        home.bucket as usize * LINE_WORDS
    }

    #[inline]
    fn line(&self, number: u32) -> Line<'_> {
        // Numbers come from `home` and from chains, which hold only what is there.
        let first = number as usize * LINE_WORDS;
        Line(&self.words[first..first + LINE_WORDS])
    }

    #[inline]
    fn spare_line(&self, spare: u32) -> u32 {
        self.main + (spare - 1)
    }

    /// The word by which readers and writers of the bucket agree.
    #[inline]
    pub fn header(&self, home: Home) -> &AtomicU64 {
        self.line(home.bucket).header()
    }

    /// The offsets of entries of the main bucket with the key's tag: those whose items are worth fetching.
    #[inline]
    pub fn candidates(&self, home: Home) -> impl Iterator<Item = u32> {
        let line = self.line(home.bucket);
        line.with_tag(home.tag).map(move |slot| line.offset(slot))
    }

    /// Looks for the entry that `is_it` accepts, given its offset, among those with the key's tag. The header of the
    /// bucket was `seen` when it began.
    #[inline]
    pub fn find<M: Mode>(&self, home: Home, seen: u64, mut is_it: impl FnMut(u32) -> bool) -> Search {
        let mut number = home.bucket;
        let mut next = (seen >> 32) as u32;
        loop {
            let line = self.line(number);
            for slot in line.with_tag(home.tag) {
                let offset = line.offset(slot);
                if is_it(offset) {
                    return Search::Found(Entry { line: number, slot: slot as u8, offset });
                }
            }
            if next == 0 {
                return Search::Absent;
            }
            number = self.spare_line(next);
            next = self.line(number).next();
            if !M::is_unchanged(self.header(home), seen) {
                return Search::Changed;
            }
        }
    }

    /// Enters the bucket as a writer until the guard is dropped.
    #[inline]
    pub fn lock<M: Mode>(&self, home: Home) -> Locked<'_, M> {
        let header = self.header(home);
        M::lock(header);
        Locked { header, mode: PhantomData }
    }

    /// Looks for an entry of a bucket that is locked.
    #[inline]
    pub fn find_locked<M: Mode>(
        &self,
        locked: &Locked<'_, M>,
        home: Home,
        is_it: impl FnMut(u32) -> bool,
    ) -> Option<Entry> {
        match self.find::<Erew>(home, locked.header.load(atomic::Ordering::Relaxed), is_it) {
            Search::Found(entry) => Some(entry),
            Search::Absent | Search::Changed => None,
        }
    }

    /// Gives an entry of a locked bucket another offset.
    #[inline]
    pub fn replace<M: Mode>(&self, _locked: &Locked<'_, M>, entry: Entry, offset: u32) {
        self.line(entry.line).set_offset(entry.slot.into(), offset);
    }

    /// Puts an entry into a locked bucket, chaining a spare bucket to it when all its entries are in use.
    ///
    /// # Errors
    /// [`NoSpare`] if there is no spare bucket left; nothing was changed.
    pub fn insert<M: Mode>(&self, _locked: &Locked<'_, M>, home: Home, offset: u32) -> Result<(), NoSpare> {
        let mut number = home.bucket;
        loop {
            let line = self.line(number);
            if let Some(slot) = line.with_tag(0).next() {
                line.set_offset(slot, offset);
                line.set_tag(slot, home.tag);
                return Ok(());
            }
            match line.next() {
                0 => break,
                next => number = self.spare_line(next),
            }
        }
        let spare = self.spares.take(|spare| self.line(self.spare_line(spare)).next()).ok_or(NoSpare)?;
        let fresh = self.line(self.spare_line(spare));
        fresh.set_next(0);
        fresh.set_offset(0, offset);
        fresh.set_tag(0, home.tag);
        self.line(number).set_next(spare);
        Ok(())
    }

    /// Puts an entry into the locked main bucket, in place of the one of the highest `age` if all are in use. Answers
    /// whether an entry gave way.
    pub fn insert_lossy<M: Mode>(
        &self,
        _locked: &Locked<'_, M>,
        home: Home,
        offset: u32,
        age: impl Fn(u32) -> u32,
    ) -> bool {
        let line = self.line(home.bucket);
        let free = line.with_tag(0).next();
        let oldest = || (0..BUCKET_ENTRIES).max_by_key(|slot| age(line.offset(*slot))).unwrap_or(0);
        let slot = free.unwrap_or_else(oldest);
        line.set_offset(slot, offset);
        line.set_tag(slot, home.tag);
        free.is_none()
    }

    /// Removes an entry of a locked bucket. The last entry of its chain takes its place.
    pub fn remove<M: Mode>(&self, _locked: &Locked<'_, M>, home: Home, entry: Entry) {
        let hole = self.line(entry.line);
        let (mut before, mut last) = (None, home.bucket);
        loop {
            match self.line(last).next() {
                0 => break,
                next => (before, last) = (Some(last), self.spare_line(next)),
            }
        }
        let line = self.line(last);
        if last != entry.line
            && let Some(slot) = line.used().next()
        {
            hole.set_offset(entry.slot.into(), line.offset(slot));
            hole.set_tag(entry.slot.into(), line.tag(slot));
            line.set_tag(slot, 0);
        } else {
            hole.set_tag(entry.slot.into(), 0);
        }
        if let Some(before) = before
            && line.used().is_empty()
        {
            let spare = self.line(before).next();
            self.line(before).set_next(0);
            self.spares.give_back(spare, |below| line.set_next(below));
        }
    }

    /// Empties the entries of a main bucket that hold offsets which are not `live`. Answers how many.
    ///
    /// A circular log must do so for all buckets before offsets that wrap around seem to be live again.
    pub fn sweep<M: Mode>(&self, bucket: u32, live: impl Fn(u32) -> bool) -> u32 {
        let home = self.home_of_bucket(bucket);
        let line = self.line(home.bucket);
        let dangling = |slot: &usize| !live(line.offset(*slot));
        if !line.used().any(|slot| dangling(&slot)) {
            return 0;
        }
        let _locked = self.lock::<M>(home);
        let mut emptied = 0;
        for slot in line.used().filter(dangling) {
            line.set_tag(slot, 0);
            emptied += 1;
        }
        emptied
    }

    /// The entries of a main bucket and its chain. The bucket must be locked, or have no writer.
    pub fn entries(&self, home: Home) -> impl Iterator<Item = Entry> {
        self.chain(home).flat_map(|number| {
            let line = self.line(number);
            line.used().map(move |slot| Entry { line: number, slot: slot as u8, offset: line.offset(slot) })
        })
    }

    fn chain(&self, home: Home) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(home.bucket), |number| match self.line(*number).next() {
            0 => None,
            next => Some(self.spare_line(next)),
        })
    }

    /// How many spare buckets it takes at the most to insert keys of these hashes, none of which is there. There must
    /// be no writer.
    pub fn spares_needed(&self, hashes: impl Iterator<Item = u64>) -> u32 {
        let mut buckets: Vec<u32> = hashes.map(|hash| self.home(hash).bucket).collect();
        buckets.sort_unstable();
        let needed = |bucket: &[u32]| {
            let lines = self.chain(self.home_of_bucket(bucket[0]));
            let free: usize = lines.map(|number| BUCKET_ENTRIES - self.line(number).used().count()).sum();
            bucket.len().saturating_sub(free).div_ceil(BUCKET_ENTRIES) as u32
        };
        buckets.chunk_by(|one, two| one == two).map(needed).sum()
    }
}

/// A bucket that is being written.
pub struct Locked<'a, M: Mode> {
    header: &'a AtomicU64,
    mode: PhantomData<M>,
}

impl<M: Mode> Drop for Locked<'_, M> {
    #[inline]
    fn drop(&mut self) {
        M::unlock(self.header);
    }
}
