//! The paper's coder (ECT 3.1.4; SILT 2.2.3): the tries of the buckets one after the other, each in pre-order.
//!
//! Every node is the code of |Left|, the number of keys in its left subtrie, followed by its two subtries. A node of at
//! most `huffman_max` keys has a Huffman code; a larger one has the Elias gamma code of the deviation of |Left| from
//! half of the keys. |Left| = 0 and |Left| = |T| share a code, so a lookup of a key that was indexed takes the only
//! subtrie there is without looking at its bit.
//!
//! A subtrie has no code of its own if it is a *leaf*: if it has one key; in a sparse trie, if its records share one
//! block (3.1.6); and, beyond the paper, if all 64 bits of its keys are used up, that is, if its keys are equal.

use super::bits::{BitWriter, Bits};
use super::{
    format::Cursor,
    huffman::{self, HuffmanCode, MERGED},
    two_level::{Offsets, TwoLevelBuilder, TwoLevelIndex},
    {KEY_BITS, TrieSettings, left_len},
};
use crate::index::DecodeError;
use std::ops::Range;

/// The code of |Left| and the rule where a trie ends.
#[derive(Debug, Clone)]
struct Coding {
    codes: &'static [HuffmanCode],
    records_per_block: u64,
}

/// A subtrie: so many keys, alike in so many bits, whose first record is at `first`.
#[derive(Debug, Clone, Copy)]
struct Subtrie {
    size: u64,
    depth: u32,
    first: u64,
}

impl Subtrie {
    /// What is left and right of the split, or the same keys one bit deeper twice if all are on one side.
    #[inline(always)]
    fn split(self, left: u64) -> (Self, Self) {
        let depth = self.depth + 1;
        let right = Self { size: self.size - left, depth, first: self.first + left };
        (Self { size: left, depth, first: self.first }, right)
    }

    /// The same keys one bit deeper.
    #[inline(always)]
    fn deeper(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }
}

impl Coding {
    fn new(settings: &TrieSettings) -> Self {
        let codes = huffman::codes().get(..=settings.huffman_max as usize).unwrap_or(&[]);
        Self { codes, records_per_block: u64::from(settings.records_per_block) }
    }

    #[inline(always)]
    fn is_leaf(&self, subtrie: Subtrie) -> bool {
        let block_offset =
            |of: u64| if self.records_per_block == 1 { 0 } else { of % self.records_per_block };
        subtrie.size <= 1
            || block_offset(subtrie.first).saturating_add(subtrie.size) <= self.records_per_block
            || subtrie.depth >= KEY_BITS
    }

    /// Writes |Left| of a subtrie of `size` keys.
    fn write(&self, writer: &mut BitWriter, size: u64, left: u64) {
        let left = if left == size { MERGED } else { left };
        if let Some(code) = self.codes.get(size as usize) {
            let word = code.words()[left as usize];
            writer.write(u64::from(word.bits), u32::from(word.len));
            return;
        }
        let deviation = left.wrapping_sub(size / 2) as i64;
        let number = ((deviation << 1) ^ (deviation >> 63)) as u64 + 1;
        let low_bits = number.ilog2();
        writer.write(1 << low_bits, low_bits + 1);
        writer.write(number ^ (1 << low_bits), low_bits);
    }
}

/// Reads the code of one bucket.
struct Reader<'a> {
    coding: &'a Coding,
    bits: &'a Bits,
    position: u64,
    /// Where the code of the bucket ends. Whatever is read beyond comes of damaged bytes and means nothing; every node
    /// takes a bit at least, so that this also bounds the work.
    end: u64,
}

impl Reader<'_> {
    fn is_at_end(&self) -> bool {
        self.position >= self.end
    }

    /// Reads |Left| of a subtrie of `size` keys: [`MERGED`] or a number of keys below `size`.
    #[inline(always)]
    fn read(&mut self, size: u64) -> u64 {
        let bits = self.bits.peek(self.position);
        if let Some(code) = self.coding.codes.get(size as usize) {
            let (symbol, len) = code.decode(bits);
            self.position += u64::from(len);
            return symbol;
        }
        let low_bits = bits.trailing_zeros();
        self.position += u64::from(low_bits) + 1;
        let low = self.bits.peek(self.position) & ((1u64.checked_shl(low_bits).unwrap_or(0)).wrapping_sub(1));
        self.position += u64::from(low_bits);
        let number = (1u64.checked_shl(low_bits).unwrap_or(0) | low).wrapping_sub(1);
        let deviation = (number >> 1) ^ (number & 1).wrapping_neg();
        let left = (size / 2).wrapping_add(deviation);
        if left < size { left } else { MERGED }
    }

    /// Passes over the whole code of a subtrie.
    fn skip(&mut self, mut subtrie: Subtrie) {
        while !self.coding.is_leaf(subtrie) && !self.is_at_end() {
            let left = self.read(subtrie.size);
            subtrie = match left {
                MERGED => subtrie.deeper(),
                left => {
                    let (left, right) = subtrie.split(left);
                    self.skip(left);
                    right
                }
            };
        }
    }

    /// The records among which those of `key` are, in the subtrie whose code comes next.
    fn locate(&mut self, key: u64, mut subtrie: Subtrie) -> Range<u64> {
        while !self.coding.is_leaf(subtrie) && !self.is_at_end() {
            let left = self.read(subtrie.size);
            if left == MERGED {
                subtrie = subtrie.deeper();
                continue;
            }
            let goes_right = key << subtrie.depth >> (KEY_BITS - 1) == 1;
            let (left, right) = subtrie.split(left);
            if goes_right {
                self.skip(left);
            }
            subtrie = if goes_right { right } else { left };
        }
        subtrie.first..subtrie.first + subtrie.size
    }

    /// Writes the code of a subtrie that comes next once more, as `coding` has it; where it has leaves there are no
    /// more inner nodes than here.
    fn rewrite(&mut self, coding: &Coding, writer: &mut BitWriter, mut subtrie: Subtrie) {
        while !self.coding.is_leaf(subtrie) && !self.is_at_end() {
            let left = self.read(subtrie.size);
            if !coding.is_leaf(subtrie) {
                coding.write(writer, subtrie.size, left);
            }
            subtrie = match left {
                MERGED => subtrie.deeper(),
                left => {
                    let (left, right) = subtrie.split(left);
                    self.rewrite(coding, writer, left);
                    right
                }
            };
        }
    }
}

/// The tries of all buckets in the paper's representation, and the index of the buckets.
#[derive(Debug, Clone)]
pub(super) struct PaperTrie {
    coding: Coding,
    index: TwoLevelIndex,
    bits: Bits,
}

impl PaperTrie {
    /// The records among which those of `key` are; `key` is what the placement has beyond the number of its bucket.
    /// An empty range in an empty bucket.
    pub(super) fn locate(&self, bucket: u64, key: u64) -> Range<u64> {
        let (mut reader, root) = self.open(bucket);
        reader.locate(key, root)
    }

    /// The same trie over blocks of `settings.records_per_block` records, a multiple of those of now.
    pub(super) fn to_sparse(&self, settings: &TrieSettings) -> Self {
        let mut builder = PaperTrieBuilder::new(settings);
        for bucket in 0..settings.buckets() {
            let (mut reader, root) = self.open(bucket);
            builder.index.push(Offsets { position: root.first, bit: builder.writer.len() });
            reader.rewrite(&builder.coding, &mut builder.writer, root);
        }
        builder.finish(self.index.begin(u64::MAX).position)
    }

    fn open(&self, bucket: u64) -> (Reader<'_>, Subtrie) {
        let (begin, end) = (self.index.begin(bucket), self.index.begin(bucket.saturating_add(1)));
        let reader = Reader { coding: &self.coding, bits: &self.bits, position: begin.bit, end: end.bit };
        (reader, Subtrie { size: end.position - begin.position, depth: 0, first: begin.position })
    }

    /// The memory on the heap, in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        self.index.heap_bytes() + self.bits.heap_bytes()
    }

    /// Appends the trie to `out`: the number of bits, the index, the bits.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bits.len().to_le_bytes());
        self.index.encode(out);
        out.extend_from_slice(self.bits.as_bytes());
    }

    /// Reads back what [`encode`](Self::encode) wrote for a trie of `len` keys.
    pub(super) fn decode(
        cursor: &mut Cursor<'_>,
        settings: &TrieSettings,
        len: u64,
    ) -> Result<Self, DecodeError> {
        let bit = cursor.at_most("bits of code", u64::MAX / 2)?;
        let end = Offsets { position: len, bit };
        let index = TwoLevelIndex::decode(cursor, settings.bucket_keys, settings.buckets(), end)?;
        let bits = Bits::from_bytes(cursor.take(bit.div_ceil(8))?, bit);
        Ok(Self { coding: Coding::new(settings), index, bits })
    }
}

/// Builds a [`PaperTrie`] bucket by bucket.
#[derive(Debug, Clone)]
pub(super) struct PaperTrieBuilder {
    coding: Coding,
    index: TwoLevelBuilder,
    writer: BitWriter,
}

impl PaperTrieBuilder {
    pub(super) fn new(settings: &TrieSettings) -> Self {
        let index = TwoLevelIndex::builder(settings.bucket_keys);
        Self { coding: Coding::new(settings), index, writer: BitWriter::new() }
    }

    /// Adds the next bucket, which holds `keys`, ascending; its first record is at `first`.
    pub(super) fn push_bucket(&mut self, keys: &[u64], first: u64) {
        self.index.push(Offsets { position: first, bit: self.writer.len() });
        self.write(keys, Subtrie { size: keys.len() as u64, depth: 0, first });
    }

    /// Ends the trie after its last bucket and `len` keys.
    pub(super) fn finish(mut self, len: u64) -> PaperTrie {
        self.index.push(Offsets { position: len, bit: self.writer.len() });
        PaperTrie { coding: self.coding, index: self.index.finish(), bits: self.writer.finish() }
    }

    fn write(&mut self, mut keys: &[u64], mut subtrie: Subtrie) {
        while !self.coding.is_leaf(subtrie) {
            let left = left_len(keys, subtrie.depth);
            self.coding.write(&mut self.writer, subtrie.size, left as u64);
            if left == 0 || left == keys.len() {
                subtrie = subtrie.deeper();
                continue;
            }
            let (left_keys, right_keys) = keys.split_at(left);
            let (left, right) = subtrie.split(left as u64);
            self.write(left_keys, left);
            (keys, subtrie) = (right_keys, right);
        }
    }
}
