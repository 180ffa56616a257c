//! One page: sorted tags, each with the unit of its record.
//!
//! ```text
//! tags of 4 bits, two groups by the first bit     0010  0101  0101 | 1000
//! units                                              7     9     4     7
//!
//! counts     1 1 1 0 | 1 0              a 1 for each entry of a group, then a 0
//! entries    010·7  101·9  101·4  000·7   the rest of the tag, then the unit
//! ```
//!
//! The counts are the upper half of an Elias–Fano sequence (Elias 1974, Fano 1971) and take some 1.7 bits per entry.

use super::bit_array::{add, close, get, open, set};
use super::marks::Marks;
use crate::bits::select_in_word;
use crate::coding::Decoder;
use crate::{DecodeError, list_bytes};
use std::ops::Range;

const STRUCTURE: &str = "hash page";
const MAGIC: [u8; 4] = *b"SSHP";
const VERSION: u16 = 1;

/// The bytes of an encoded page before its words.
pub const PAGE_HEADER_BYTES: usize = 12;

/// The binary logarithm of the number of groups.
pub const GROUPS_LOG2: u32 = 9;
pub(super) const GROUPS: usize = 1 << GROUPS_LOG2;

/// The minimum number of bits of a tag: those that select the group.
pub(super) const TAG_BITS_MIN: u32 = GROUPS_LOG2;
/// The maximum number of bits of a tag.
pub const TAG_BITS_MAX: u32 = 41;
/// The maximum number of bits of a unit. With a full tag, an entry has 72 bits.
pub const UNIT_BITS_MAX: u32 = 40;
/// The number of bits that a unit of a page in memory may have above these, for marks of its user.
pub const MARK_BITS: u32 = 3;

/// The number of words by which the memory of a page grows.
pub const GROWTH_WORDS: usize = 8;

/// Sorted tags, each with a unit; of equal tags the one that was inserted last is first.
///
/// An entry takes the bits of the tag and of the unit, less 7.3 bits on average. An insertion or a removal moves half
/// of the entries, some 2 KiB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashPage {
    /// The counts, in whole words, then the entries.
    pub(super) words: Vec<u64>,
    marks: Marks,
    len: u32,
    tag_bits: u8,
    unit_bits: u8,
}

/// A tag with its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageEntry {
    /// The tag, of as many bits as the tags of the page.
    pub tag: u64,
    /// The unit of the record.
    pub unit: u64,
}

/// The entries of a page, in the order of their tags.
pub struct Entries<'p> {
    words: &'p [u64],
    low_bits: u32,
    unit_bits: u32,
    rank: usize,
    len: usize,
    /// The word of the counts with the one of the next entry, or one before it, and its ones that are left.
    word: usize,
    ones: u64,
    /// The bit of the next entry.
    start: usize,
}

impl Iterator for Entries<'_> {
    type Item = PageEntry;

    #[inline(always)]
    fn next(&mut self) -> Option<PageEntry> {
        if self.rank == self.len {
            return None;
        }
        while self.ones == 0 && self.word + 1 < counts_words(self.len) {
            self.word += 1;
            self.ones = self.words.get(self.word).copied().unwrap_or(0);
        }
        // Before the one of this entry there are a one for each entry before it, and a zero for each group.
        let one = self.word * 64 + self.ones.trailing_zeros() as usize;
        let group = one.saturating_sub(self.rank).min(GROUPS - 1) as u64;
        self.ones &= self.ones.wrapping_sub(1);
        let width = self.unit_bits + self.low_bits;
        let (unit, low) = if width < 64 {
            let both = get(self.words, self.start, width);
            (both & ((1 << self.unit_bits) - 1), both >> self.unit_bits)
        } else {
            let low = get(self.words, self.start + self.unit_bits as usize, self.low_bits);
            (get(self.words, self.start, self.unit_bits), low)
        };
        self.start += width as usize;
        self.rank += 1;
        Some(PageEntry { tag: group << self.low_bits | low, unit })
    }
}

/// The entries of a group: where its counts begin, and the ranks of its entries.
struct Group {
    bit: usize,
    ranks: Range<usize>,
}

impl HashPage {
    /// Makes an empty page for tags of `tag_bits`, 9 to 41.
    pub(super) fn new(tag_bits: u32) -> Self {
        debug_assert!((TAG_BITS_MIN..=TAG_BITS_MAX).contains(&tag_bits), "{tag_bits} bits of a tag");
        let words = vec![0; counts_words(0)];
        HashPage { words, marks: Marks::default(), len: 0, tag_bits: tag_bits as u8, unit_bits: 1 }
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns whether the page has no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of bits of a tag.
    pub fn tag_bits(&self) -> u32 {
        self.tag_bits.into()
    }

    /// Returns the number of bits of a unit.
    pub(super) fn unit_bits(&self) -> u32 {
        self.unit_bits.into()
    }

    fn low_bits(&self) -> u32 {
        self.tag_bits() - GROUPS_LOG2
    }

    pub(super) fn entry_bits(&self) -> u32 {
        self.low_bits() + u32::from(self.unit_bits)
    }

    pub(super) fn entries_bit(&self, rank: usize) -> usize {
        counts_words(self.len()) * 64 + rank * self.entry_bits() as usize
    }

    /// Returns the rest of the tag of the entry with this rank.
    #[inline]
    fn low(&self, rank: usize) -> u64 {
        get(&self.words, self.entries_bit(rank) + usize::from(self.unit_bits), self.low_bits())
    }

    /// Returns the unit of the entry with this rank.
    #[inline]
    fn unit(&self, rank: usize) -> u64 {
        get(&self.words, self.entries_bit(rank), self.unit_bits.into())
    }

    /// Writes the entry with this rank over undefined bits.
    fn set_entry(&mut self, rank: usize, low: u64, unit: u64) {
        let (start, low_bits) = (self.entries_bit(rank), self.low_bits());
        set(&mut self.words, start, self.unit_bits.into(), unit);
        set(&mut self.words, start + usize::from(self.unit_bits), low_bits, low);
    }

    /// Finds a group by counting the zeros before it: at most some 25 words.
    #[inline]
    fn group(&self, group: usize) -> Group {
        let bit = if group == 0 { 0 } else { self.end_of_group(group - 1) + 1 };
        // Before the group are a zero for each group and a one for each entry.
        let start = bit - group;
        let (mut word, mut ones) = (bit / 64, 0);
        let mut bits = !(self.words.get(word).copied().unwrap_or(0)) >> (bit % 64);
        let mut left = 64 - bit % 64;
        // The ones of a group may continue in the next words.
        while bits == 0 && word + 1 < counts_words(self.len()) {
            ones += left;
            word += 1;
            (bits, left) = (!self.words[word], 64);
        }
        ones += (bits.trailing_zeros() as usize).min(left);
        Group { bit, ranks: start..start + ones }
    }

    /// Returns the position of the zero that ends a group.
    #[inline]
    fn end_of_group(&self, group: usize) -> usize {
        let mut before = group;
        // The entries follow the counts, which have a zero for every group: the search ends before the entries.
        for (at, word) in self.words.iter().enumerate() {
            let zeros = word.count_zeros() as usize;
            if before < zeros {
                return at * 64 + select_in_word(!word, before as u32) as usize;
            }
            before -= zeros;
        }
        self.words.len() * 64
    }

    fn split_tag(&self, tag: u64) -> (usize, u64) {
        debug_assert!(tag >> self.tag_bits == 0, "a tag of more than {} bits", self.tag_bits);
        ((tag >> self.low_bits()) as usize, tag & ((1 << self.low_bits()) - 1))
    }

    /// Returns the units of the entries with this tag, the one that was inserted last first.
    #[inline]
    pub fn candidates(&self, tag: u64) -> impl Iterator<Item = u64> {
        let (group, low) = self.split_tag(tag);
        let ranks = self.group(group).ranks.filter(move |&rank| self.low(rank) == low);
        ranks.map(|rank| self.unit(rank))
    }

    /// Inserts an entry before those of equal tag. Units have at most 40 bits.
    pub fn insert(&mut self, tag: u64, unit: u64) {
        // First, since it moves the bits of all entries.
        self.widen_for(unit);
        let (group, low) = self.split_tag(tag);
        let Group { bit, mut ranks } = self.group(group);
        // Before entries of an equal tag, because a lookup returns the newest first.
        let rank = ranks.find(|&rank| self.low(rank) >= low).unwrap_or(ranks.end);
        let counts = counts_words(self.len());
        let more_counts = counts_words(self.len() + 1) - counts;
        let entries = (self.len() + 1) * self.entry_bits() as usize;
        self.grow_to(counts + more_counts + entries.div_ceil(64));
        // The entries begin behind the counts, so they move up before a bit is inserted.
        if more_counts > 0 {
            let last = self.words.len() - 1;
            self.words.copy_within(counts..last, counts + 1);
            self.words[counts] = 0;
        }
        self.len += 1;
        let counts = counts_words(self.len());
        // The words of the counts have a free bit at their end now, so none is lost.
        open(&mut self.words[..counts], bit, 1);
        set(&mut self.words[..counts], bit, 1, 1);
        let width = self.entry_bits();
        open(&mut self.words[counts..], rank * width as usize, width);
        self.set_entry(rank, low, unit);
        self.marks.insert(rank, self.len());
    }

    /// Gives each entry a mark that is not set, unless the entries have marks.
    pub(super) fn keep_marks(&mut self) {
        if !self.marks.exist() {
            self.marks = Marks::of(self.len());
        }
    }

    /// Marks the entry of this tag that was inserted last.
    pub(super) fn mark(&self, tag: u64) {
        let (group, low) = self.split_tag(tag);
        if let Some(rank) = self.group(group).ranks.into_iter().find(|&rank| self.low(rank) == low) {
            self.marks.set(rank);
        }
    }

    /// Removes the mark of an entry. Returns whether it had one.
    pub(super) fn take_mark(&self, tag: u64, unit: u64) -> bool {
        self.last_of(tag, unit).is_some_and(|(_, rank)| self.marks.take(rank))
    }

    /// Extends the words by zeros, with little memory to spare.
    fn grow_to(&mut self, words: usize) {
        if words > self.words.capacity() {
            self.words.reserve_exact(words - self.words.len() + GROWTH_WORDS - 1);
        }
        self.words.resize(words.max(self.words.len()), 0);
    }

    /// Removes the entry of this tag and unit that was inserted first. Returns whether there was one.
    pub fn remove(&mut self, tag: u64, unit: u64) -> bool {
        let Some((bit, rank)) = self.last_of(tag, unit) else { return false };
        let counts = counts_words(self.len());
        close(&mut self.words[..counts], bit, 1);
        let width = self.entry_bits();
        close(&mut self.words[counts..], rank * width as usize, width);
        self.len -= 1;
        let fewer = counts_words(self.len());
        if fewer < counts {
            // The last word of the counts has no ones or zeros of groups left.
            self.words.remove(fewer);
        }
        let words = fewer + (self.len() * width as usize).div_ceil(64);
        self.words.truncate(words);
        // Some words are kept, so that the next insertion does not allocate.
        self.words.shrink_to(words + 2 * GROWTH_WORDS);
        self.marks.remove(rank, self.len());
        true
    }

    /// Replaces the unit of the entry of this tag and unit that was inserted first. Its place among equal tags stays.
    /// Returns whether there was one.
    pub fn replace(&mut self, tag: u64, from: u64, to: u64) -> bool {
        // Before the entry is looked for: wider units move the bits of all entries.
        self.widen_for(to);
        let Some((_, rank)) = self.last_of(tag, from) else { return false };
        let (start, unit_bits) = (self.entries_bit(rank), self.unit_bits.into());
        set(&mut self.words, start, unit_bits, to);
        true
    }

    /// Returns the first bit of the group of a tag, and the rank of its last entry with this unit.
    fn last_of(&self, tag: u64, unit: u64) -> Option<(usize, usize)> {
        let (group, low) = self.split_tag(tag);
        let Group { bit, mut ranks } = self.group(group);
        // Of equal entries the oldest is the last.
        let rank = ranks.rfind(|&rank| self.low(rank) == low && self.unit(rank) == unit)?;
        Some((bit, rank))
    }

    /// Encodes the page again with wider units if `unit` needs them.
    fn widen_for(&mut self, unit: u64) {
        let needed = 64 - unit.leading_zeros();
        debug_assert!(needed <= UNIT_BITS_MAX + MARK_BITS, "a unit of {needed} bits");
        if needed > self.unit_bits.into() {
            // Marks belong to ranks, which do not change here.
            let marks = std::mem::take(&mut self.marks);
            let wider = HashPage::from_sorted(self.tag_bits(), needed, self.len(), self.entries());
            *self = HashPage { marks, ..wider };
        }
    }

    /// Makes a page of entries in the order of their tags, which have `tag_bits`, 9 to 41.
    pub fn of(tag_bits: u32, entries: &[PageEntry]) -> Self {
        let units = entries.iter().fold(1, |all, entry| all | entry.unit);
        HashPage::from_sorted(tag_bits, 64 - units.leading_zeros(), entries.len(), entries.iter().copied())
    }

    /// Makes a page of `len` entries in the order of their tags.
    fn from_sorted(
        tag_bits: u32,
        unit_bits: u32,
        len: usize,
        entries: impl Iterator<Item = PageEntry>,
    ) -> Self {
        let mut page = Filling::new(tag_bits, unit_bits, len);
        entries.for_each(|entry| _ = page.push(entry));
        page.into_page()
    }

    /// Makes a page for `len` entries. All bits are 0.
    pub(super) fn blank(tag_bits: u8, unit_bits: u8, len: usize) -> HashPage {
        let mut page =
            HashPage { words: Vec::new(), marks: Marks::default(), len: len as u32, tag_bits, unit_bits };
        page.grow_to(counts_words(len) + (len * page.entry_bits() as usize).div_ceil(64));
        page
    }

    /// Divides the page by the first bit of the tags, which the tags of the two pages no longer have. The tags have at
    /// least 10 bits.
    pub(super) fn split(&self) -> [HashPage; 2] {
        let tag_bits = self.tag_bits() - 1;
        // The group in the middle is the first with a 1 as the first bit of its tags.
        let low = self.group(GROUPS / 2).ranks.start;
        [(0, low), (low, self.len())].map(|(start, end)| {
            let entries = self.entries().skip(start).take(end - start);
            let entries = entries.map(|entry| PageEntry { tag: entry.tag & ((1 << tag_bits) - 1), ..entry });
            let page = HashPage::from_sorted(tag_bits, self.unit_bits.into(), end - start, entries);
            HashPage { marks: self.marks.part(start, end), ..page }
        })
    }

    /// Returns the units of all entries.
    pub fn units(&self) -> impl Iterator<Item = u64> {
        (0..self.len()).map(|rank| self.unit(rank))
    }

    /// Returns all entries in the order of their tags.
    pub fn entries(&self) -> Entries<'_> {
        let (words, low_bits, unit_bits) = (&self.words[..], self.low_bits(), self.unit_bits());
        let (ones, start) = (words.first().copied().unwrap_or(0), self.entries_bit(0));
        Entries { words, low_bits, unit_bits, rank: 0, len: self.len(), word: 0, ones, start }
    }

    /// Returns the heap memory of the page, in bytes.
    pub fn heap_bytes(&self) -> usize {
        list_bytes(&self.words) + self.marks.heap_bytes()
    }

    /// Appends the encoded page (`docs/formats/hash_page.md`).
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend([self.tag_bits, self.unit_bits]);
        out.extend(self.len.to_le_bytes());
        out.extend(self.words.iter().flat_map(|word| word.to_le_bytes()));
    }

    /// Decodes what [`HashPage::encode`] wrote.
    ///
    /// # Errors
    /// Bytes that the format does not allow, with their offset.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Decoder::new(STRUCTURE, bytes, MAGIC, VERSION)?;
        let page = HashPage::read(&mut reader)?;
        page.check(&reader)?;
        reader.end()?;
        Ok(page)
    }

    /// Decodes what [`encode`](HashPage::encode) has appended. The caller has compared a checksum: the order of the
    /// entries, which a lookup relies on, is not checked, which takes longer than all the rest.
    ///
    /// # Errors
    /// Bytes of another length than the format allows, or numbers of bits or of entries.
    pub fn decode_intact(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Decoder::new(STRUCTURE, bytes, MAGIC, VERSION)?;
        let page = HashPage::read(&mut reader)?;
        page.check_counts(&reader)?;
        reader.end()?;
        Ok(page)
    }

    fn read(reader: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let [tag_bits, unit_bits] = reader.array("bits of tags and units")?;
        let are_allowed = (TAG_BITS_MIN..=TAG_BITS_MAX).contains(&tag_bits.into())
            && (1..=UNIT_BITS_MAX).contains(&unit_bits.into());
        reader.check(
            2,
            are_allowed,
            || "tags of 9 to 41 bits and units of 1 to 40".into(),
            || format!("{tag_bits} and {unit_bits}"),
        )?;
        let len = reader.u32("a number of entries")?;
        let mut page = HashPage { words: Vec::new(), marks: Marks::default(), len, tag_bits, unit_bits };
        // Less than 2^32 entries of at most 72 bits, so nothing overflows. `words` refuses what the bytes do not have.
        let words = counts_words(page.len())
            .saturating_add(page.len().saturating_mul(page.entry_bits() as usize).div_ceil(64));
        page.words = reader.words(words, "counts and entries")?;
        Ok(page)
    }

    /// Checks that the counts have as many ones as there are entries, and a zero for each group.
    fn check_counts(&self, reader: &Decoder<'_>) -> Result<(), DecodeError> {
        let counts = &self.words[..counts_words(self.len())];
        // Lookups rely on both counts: with others they would return entries of other tags.
        let ones: usize = counts.iter().map(|word| word.count_ones() as usize).sum();
        let bytes = size_of_val(&*self.words);
        let wanted = || format!("{} entries in {GROUPS} groups", self.len);
        reader.check(bytes, ones == self.len(), wanted, || format!("{ones} entries"))?;
        let end = self.end_of_group(GROUPS - 1) + 1;
        reader.check(bytes, end == self.len() + GROUPS, wanted, || format!("groups of {end} bits"))
    }

    /// Checks all that the format requires: also that the tags of a group ascend, and that unused bits are zero.
    fn check(&self, reader: &Decoder<'_>) -> Result<(), DecodeError> {
        self.check_counts(reader)?;
        let entries = &self.words[counts_words(self.len())..];
        let used = self.len() * self.entry_bits() as usize;
        let is_padded = (used..entries.len() * 64).all(|bit| get(entries, bit, 1) == 0);
        reader.check(0, is_padded, || "zero bits after the entries".into(), || "others".into())?;
        let mut before = 0;
        for entry in self.entries() {
            let is_sorted = before <= entry.tag;
            reader.check(0, is_sorted, || format!("a tag of at least {before}"), || entry.tag.to_string())?;
            before = entry.tag;
        }
        Ok(())
    }
}

/// Returns the number of words with the counts of `len` entries.
fn counts_words(len: usize) -> usize {
    (len + GROUPS).div_ceil(64)
}

/// A page with some of the entries that it is made for.
pub(super) struct Filling {
    page: HashPage,
    low_bits: u32,
    unit_bits: u32,
    /// The number of entries that it has, and the bit of the next one.
    rank: usize,
    at: usize,
}

impl Filling {
    /// Begins a page for `len` entries with tags of `tag_bits`, 9 to 41, and units of `unit_bits`.
    pub fn new(tag_bits: u32, unit_bits: u32, len: usize) -> Filling {
        let page = HashPage::blank(tag_bits as u8, unit_bits as u8, len);
        let at = page.entries_bit(0);
        Filling { page, low_bits: tag_bits - GROUPS_LOG2, unit_bits, rank: 0, at }
    }

    /// Begins a page like this one, for units of at least `unit_bits`.
    pub fn of(page: &HashPage, unit_bits: u32, len: usize) -> Filling {
        Filling::new(page.tag_bits(), page.unit_bits().max(unit_bits), len)
    }

    /// Adds the next entry. Returns `None` if the page has all for which it is made.
    #[inline(always)]
    pub fn push(&mut self, PageEntry { tag, unit }: PageEntry) -> Option<()> {
        // The words have space for this number of entries only.
        if self.rank == self.page.len() {
            return None;
        }
        let words = &mut self.page.words;
        let count = (tag >> self.low_bits) as usize + self.rank;
        words[count / 64] |= 1 << (count % 64);
        let low = tag & ((1 << self.low_bits) - 1);
        let entry_bits = self.unit_bits + self.low_bits;
        if entry_bits < 64 {
            add(words, self.at, entry_bits, low << self.unit_bits | unit);
        } else {
            add(words, self.at, self.unit_bits, unit);
            add(words, self.at + self.unit_bits as usize, self.low_bits, low);
        }
        self.at += entry_bits as usize;
        self.rank += 1;
        Some(())
    }

    /// Returns the page. Entries that are missing are zeros.
    pub fn into_page(self) -> HashPage {
        self.page
    }

    /// Returns the page, if it has as many entries as it was made for.
    pub fn finish(self) -> Option<HashPage> {
        (self.rank == self.page.len()).then_some(self.page)
    }
}
