//! The layout of an item, in words of 8 bytes.
//!
//! | word | when | contains |
//! |---|---|---|
//! | header | sizes are not fixed | lengths of key (16 bits) and value (29), expires (1), last byte (8), slack (10) |
//! | expiry | it may expire | milliseconds since the Unix epoch |
//! | payload | always | the key, directly followed by the value |
//!
//! The slack is the number of allocated words beyond those in use: the item may grow into them in place. If key and
//! value have one byte more than whole words, that byte is in the header and takes no word: values of 8 bytes with a
//! byte for their type, as servers keep them, take two words and not three with keys of 8 bytes.
//!
//! Deviation: an entry of the prototype also has the hash of the key. Here tags distinguish other keys, except in one
//! of about 7,000 lookups, and the complete key is compared in any case; this saves 8 bytes per item. Items of fixed
//! sizes have no header.

use crate::{ItemLayout, KEY_LENGTH_MAX, VALUE_LENGTH_MAX};
use crate::{NEVER, TimestampMs, has_expired};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const VALUE_SHIFT: u32 = 16;
const EXPIRES_SHIFT: u32 = VALUE_SHIFT + 29;
const LAST_BYTE_SHIFT: u32 = EXPIRES_SHIFT + 1;
const SLACK_SHIFT: u32 = LAST_BYTE_SHIFT + 8;
const VALUE_MASK: u64 = (1 << 29) - 1;
const SLACK_MAX: u32 = (1 << (64 - SLACK_SHIFT)) - 1;
const _: () = assert!(KEY_LENGTH_MAX < 1 << VALUE_SHIFT && VALUE_LENGTH_MAX as u64 <= VALUE_MASK);

/// A record to be stored.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record<'a> {
    pub key: &'a [u8],
    pub value: &'a [u8],
    pub expires_at_ms: TimestampMs,
}

/// An item in memory. After an optimistic read its fields may have any value, but it never extends beyond the memory.
#[derive(Clone, Copy)]
pub(super) struct Item<'a> {
    pub key_length: usize,
    pub value_length: usize,
    pub expires_at_ms: TimestampMs,
    /// The allocated words.
    pub capacity: u32,
    /// The last byte of key and value, if it is in the header.
    last_byte: Option<u8>,
    payload: &'a [AtomicU64],
}

impl ItemLayout {
    /// Returns whether the record has the fixed lengths, if any, and space for its expiry time.
    #[inline]
    pub(super) fn fits(&self, record: &Record<'_>) -> bool {
        match self.fixed {
            None => true,
            Some((key_length, value_length)) => {
                (record.key.len(), record.value.len()) == (key_length, value_length)
                    && (self.expiring || record.expires_at_ms == NEVER)
            }
        }
    }

    /// Returns the words of an item with these lengths.
    #[inline]
    pub fn words(&self, key_length: usize, value_length: usize, expires: bool) -> u32 {
        let bytes = key_length + value_length;
        let words = match self.fixed {
            Some(_) => usize::from(self.expiring) + bytes.div_ceil(8),
            None => 1 + usize::from(expires) + (bytes - usize::from(is_in_header(bytes))).div_ceil(8),
        };
        words as u32
    }

    #[inline]
    pub(super) fn words_of(&self, record: &Record<'_>) -> u32 {
        self.words(record.key.len(), record.value.len(), record.expires_at_ms != NEVER)
    }

    /// Reads the item that begins at the first of `words`, which must include its end. `None` if they do not.
    #[inline]
    pub(super) fn read<'a>(&self, words: &'a [AtomicU64]) -> Option<Item<'a>> {
        let header = match self.fixed {
            Some(_) => 0,
            None => words.first()?.load(Relaxed),
        };
        let (key_length, value_length, expires, head) = match self.fixed {
            Some((key_length, value_length)) => (key_length, value_length, self.expiring, 0),
            None => {
                let value_length = (header >> VALUE_SHIFT & VALUE_MASK) as usize;
                (usize::from(header as u16), value_length, header >> EXPIRES_SHIFT & 1 == 1, 1)
            }
        };
        let slack = (header >> SLACK_SHIFT) as u32;
        let expires_at_ms = if expires { words.get(head)?.load(Relaxed) } else { NEVER };
        let bytes = key_length + value_length;
        let last_byte =
            (self.fixed.is_none() && is_in_header(bytes)).then_some((header >> LAST_BYTE_SHIFT) as u8);
        let head = head + usize::from(expires);
        let end = head + (bytes - usize::from(last_byte.is_some())).div_ceil(8);
        // After a torn read the lengths may be anything.
        let payload = words.get(head..end)?;
        // Only writers use the capacity. They hold the bucket, and in a cache they check that the item is live.
        Some(Item {
            key_length,
            value_length,
            expires_at_ms,
            capacity: end as u32 + slack,
            last_byte,
            payload,
        })
    }

    /// Returns whether `capacity` allocated words suffice for `words`, and their difference can be stored as slack.
    #[inline]
    pub(super) fn may_stand_in(&self, words: u32, capacity: u32) -> bool {
        words <= capacity && capacity - words <= if self.fixed.is_some() { 0 } else { SLACK_MAX }
    }

    /// Writes an item to the beginning of `words`. `capacity` of the words are allocated.
    #[inline]
    pub(super) fn write(&self, words: &[AtomicU64], capacity: u32, record: &Record<'_>) {
        let mut words = words.iter();
        // The caller has allocated the words, so there is a next one.
        let mut put = |word: u64| {
            if let Some(to) = words.next() {
                to.store(word, Relaxed);
            }
        };
        let Record { mut key, mut value, expires_at_ms } = *record;
        let mut expires = self.expiring;
        if self.fixed.is_none() {
            expires = expires_at_ms != NEVER;
            // `capacity` is not less: the caller has allocated as many words, or checked it with `may_stand_in`.
            let slack = capacity - self.words_of(record);
            let mut header = key.len() as u64 | (value.len() as u64) << VALUE_SHIFT;
            if is_in_header(key.len() + value.len()) {
                // The key's, if there is no value.
                let last = if value.is_empty() { key.split_off_last() } else { value.split_off_last() };
                header |= last.map_or(0, |byte| u64::from(*byte)) << LAST_BYTE_SHIFT;
            }
            put(header | u64::from(expires) << EXPIRES_SHIFT | u64::from(slack) << SLACK_SHIFT);
        }
        if expires {
            put(expires_at_ms);
        }
        // The word where the key ends also has the beginning of the value.
        let mut keys = key.chunks_exact(8);
        keys.by_ref().for_each(|chunk| put(word_of(chunk)));
        let tail = keys.remainder();
        let with_tail = if tail.is_empty() { 0 } else { value.len().min(8 - tail.len()) };
        if !tail.is_empty() {
            put(word_of(tail) | word_of(&value[..with_tail]) << (8 * tail.len()));
        }
        value[with_tail..].chunks(8).for_each(|chunk| put(word_of(chunk)));
    }
}

/// Returns whether the last byte of a key and a value, which have `bytes` together, is in the header.
#[inline]
fn is_in_header(bytes: usize) -> bool {
    bytes % 8 == 1
}

/// Returns up to 8 bytes as a word, little-endian.
#[inline]
fn word_of(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

impl Item<'_> {
    /// Returns whether the item has expired.
    #[inline]
    pub fn is_expired(&self, now_ms: TimestampMs) -> bool {
        has_expired(self.expires_at_ms, now_ms)
    }

    /// Returns whether this is the item of `key`.
    #[inline]
    pub fn has_key(&self, key: &[u8]) -> bool {
        // First: after a torn read, the payload is long enough only for its own lengths.
        if key.len() != self.key_length {
            return false;
        }
        if let (Ok(key), [word, ..]) = (<[u8; 8]>::try_from(key), self.payload) {
            return word.load(Relaxed) == u64::from_le_bytes(key);
        }
        self.has_long_key(key)
    }

    /// Not inlined, so that it is not prepared for keys of one word.
    #[inline(never)]
    fn has_long_key(&self, key: &[u8]) -> bool {
        // Without a value, the last byte of the header is the key's.
        let key = match (self.value_length, self.last_byte, key.split_last()) {
            (0, Some(last), Some((last_of_key, _))) if last != *last_of_key => return false,
            (0, Some(_), Some((_, others))) => others,
            _ => key,
        };
        let whole = key.len() / 8;
        // The payload has the bytes of the key, so it has these words.
        let (words, tail) = (&self.payload[..whole], &key[whole * 8..]);
        let same =
            words.iter().zip(key.chunks_exact(8)).all(|(word, bytes)| word.load(Relaxed) == word_of(bytes));
        let unused_bits = 64 - 8 * tail.len();
        // The last 8 bytes end with the tail, so a long key is not read byte by byte.
        let tail_word = || match key.last_chunk::<8>() {
            Some(last) => u64::from_le_bytes(*last) >> unused_bits,
            None => word_of(tail),
        };
        same && (tail.is_empty() || (self.payload[whole].load(Relaxed) ^ tail_word()) << unused_bits == 0)
    }

    /// Calls `show` with the key, value and expiry time of each of these items.
    pub fn show_all(items: impl Iterator<Item = Self>, mut show: impl FnMut(&[u8], &[u8], TimestampMs)) {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for item in items {
            key.clear();
            value.clear();
            item.key_into(&mut key);
            item.value_into(&mut value);
            show(&key, &value, item.expires_at_ms);
        }
    }

    /// Appends the key.
    pub fn key_into(&self, to: &mut Vec<u8>) {
        let last = self.last_byte.filter(|_| self.value_length == 0);
        copy(self.payload, 0, self.key_length - usize::from(last.is_some()), to);
        to.extend(last);
    }

    /// Appends the value.
    #[inline]
    pub fn value_into(&self, to: &mut Vec<u8>) {
        let last = self.last_byte.filter(|_| self.value_length > 0);
        let length = self.value_length - usize::from(last.is_some());
        // A word: most frequent where the time counts.
        match (length, self.key_length % 8, self.payload.get(self.key_length / 8)) {
            (8, 0, Some(word)) => to.extend_from_slice(&word.load(Relaxed).to_le_bytes()),
            _ => copy(self.payload, self.key_length, length, to),
        }
        to.extend(last);
    }
}

/// The words that are loaded before their bytes are appended together.
const CHUNK_WORDS: usize = 16;

/// Appends `length` bytes of `words`, from byte `start` on. They must exist.
#[inline(never)]
fn copy(words: &[AtomicU64], start: usize, length: usize, to: &mut Vec<u8>) {
    if length == 0 {
        return;
    }
    let words = &words[start / 8..(start + length).div_ceil(8)];
    to.reserve_exact(length);
    let (mut skip, mut left) = (start % 8, length);
    let mut chunk = [[0; 8]; CHUNK_WORDS];
    for words in words.chunks(CHUNK_WORDS) {
        for (bytes, word) in chunk.iter_mut().zip(words) {
            *bytes = word.load(Relaxed).to_le_bytes();
        }
        // Only the first chunk begins within a word.
        let bytes = &chunk.as_flattened()[skip..];
        let count = left.min(bytes.len());
        to.extend_from_slice(&bytes[..count]);
        (skip, left) = (0, left - count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(words: usize) -> Vec<AtomicU64> {
        (0..words).map(|_| AtomicU64::new(u64::MAX)).collect()
    }

    fn bytes(length: usize, salt: usize) -> Vec<u8> {
        (0..length).map(|at| (at * 37 + salt) as u8).collect()
    }

    #[test]
    fn an_item_of_any_lengths_is_read_as_it_was_written() {
        // Up to three words, and around the ends of the chunks that are copied together.
        let lengths = || (0..20).chain(120..140).chain(250..265);
        for (key_length, value_length) in (1..20).flat_map(|key| lengths().map(move |value| (key, value))) {
            for (fixed, expiring, expires_at_ms) in
                [(false, false, 0), (false, false, 5), (true, false, 0), (true, true, 5), (true, true, 0)]
            {
                let fixed = fixed.then_some((key_length, value_length));
                let layout = ItemLayout { fixed, expiring };
                let (key, value) = (bytes(key_length, 1), bytes(value_length, 100));
                let record = Record { key: &key, value: &value, expires_at_ms };
                let words = layout.words_of(&record);
                let memory = memory(words as usize + 3);
                let slack = if fixed.is_some() { 0 } else { 3 };
                assert!(layout.may_stand_in(words, words + slack) && layout.fits(&record));
                layout.write(&memory, words + slack, &record);
                let item = layout.read(&memory).unwrap();
                assert_eq!((item.capacity, item.expires_at_ms), (words + slack, expires_at_ms));
                let mut got = (Vec::new(), vec![9]);
                item.key_into(&mut got.0);
                item.value_into(&mut got.1);
                assert_eq!(got, (key.clone(), [&[9], &value[..]].concat()), "{key_length} {value_length}");
                assert!(item.has_key(&key) && !item.has_key(&[&key[..], &[0]].concat()));
                let mut other = key;
                *other.last_mut().unwrap() ^= 0x80;
                assert!(!item.has_key(&other) && !item.has_key(&other[1..]));
                assert!(layout.read(&memory[..words as usize - 1]).is_none(), "it does not fit");
            }
        }
    }

    #[test]
    fn one_byte_more_than_whole_words_takes_no_word_where_items_have_headers() {
        let words = |fixed: Option<(usize, usize)>, key_length, value_length| {
            ItemLayout { fixed, expiring: false }.words(key_length, value_length, false)
        };
        assert_eq!([8, 9, 10, 16, 17].map(|length| words(None, 8, length)), [3, 3, 4, 4, 4]);
        assert_eq!([(1, 0), (9, 0), (1, 8)].map(|(key, value)| words(None, key, value)), [1, 2, 2]);
        assert_eq!([8, 9].map(|length| words(Some((8, length)), 8, length)), [2, 3]);
    }

    #[test]
    fn words_that_are_no_item_reach_nowhere() {
        let memory = memory(4);
        assert!(ItemLayout::default().read(&memory).is_none());
        assert!(ItemLayout::default().read(&[]).is_none());
    }

    #[test]
    fn an_item_expires_at_its_time_or_never() {
        let layout = ItemLayout::default();
        let memory = memory(4);
        for (expires_at_ms, expired) in [(NEVER, false), (9, true), (10, true), (11, false)] {
            layout.write(&memory, 4, &Record { key: b"k", value: b"v", expires_at_ms });
            assert_eq!(layout.read(&memory).unwrap().is_expired(10), expired);
        }
    }
}
