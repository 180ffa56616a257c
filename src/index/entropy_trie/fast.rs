//! The fast coder: the paper's tries in fewer bits and several times less time.
//!
//! Where it deviates from the paper's representation (ECT 3.1.4), and why:
//!
//! - The subtrie left of the root's split is coded forward from where the bucket's code begins, the one to the right of
//!   it backward from where the code ends. A lookup passes over subtries of one half only.
//! - In a dense trie a subtrie of 3 to 6 keys has a [joint code](super::joint), and whole subtries of up to 64 keys are
//!   passed over by a [table](super::skip).
//! - Nodes above `huffman_max` have Rice codes instead of Elias gamma codes.
//! - The [index of the buckets](super::bucket_index) is made of single cache lines.
//!
//! A sparse trie has no joint codes, since a leaf may be inside any subtrie. Nor has a *plain* bucket of a dense trie:
//! one with equal keys, whose trie ends where there are no more bits, so that reading it has to count them.

use super::{
    TrieSettings,
    bucket_index::{Bucket, LineIndex, LineIndexBuilder, Offsets},
    format::Cursor,
    huffman::{self, HuffmanCode, MERGED},
    joint::{Apart, JOINT_MAX, JointCodes, Shape, joint_codes},
    skip::{STEPS, SkipTable, Stack, skip_table},
    subtrie::{Leaves, NodeReader, Subtrie, left_len, walk_keys},
};
use crate::index::{
    DecodeError,
    bits::{BitWriter, Bits, PEEK_BITS},
};
use std::ops::Range;

/// The subtries that have a joint code in a dense trie are at most so large, and larger ones are where a bucket's code
/// is cut in two, whether the trie is dense or not.
const SMALL_MAX: u64 = JOINT_MAX as u64;

/// The codes of nodes and how they are read.
#[derive(Debug, Clone, Copy)]
struct Codes {
    nodes: &'static [HuffmanCode],
    joint: &'static JointCodes,
    skip: &'static SkipTable,
    leaves: Leaves,
}

impl Codes {
    fn new(settings: &TrieSettings) -> Self {
        Self {
            nodes: huffman::codes_up_to(settings.huffman_max),
            joint: joint_codes(),
            skip: skip_table(),
            leaves: Leaves::new(settings),
        }
    }

    /// Writes the code of a node of `size` keys.
    fn write_node(&self, writer: &mut BitWriter, size: u64, left: u64) {
        match self.nodes.get(size as usize) {
            Some(code) => code.write(writer, left),
            None => rice::write(writer, size, left),
        }
    }

    /// Writes a whole subtrie in one direction.
    fn write(&self, writer: &mut BitWriter, mut keys: &[u64], mut subtrie: Subtrie, is_plain: bool) {
        if is_plain || !self.leaves.is_dense() {
            let visit = &mut |size, left| self.write_node(writer, size, left);
            return walk_keys(keys, self.leaves, subtrie, visit);
        }
        while subtrie.size > SMALL_MAX {
            let left = left_len(keys, subtrie.depth);
            self.write_node(writer, subtrie.size, left);
            if left == MERGED {
                subtrie = subtrie.deeper();
                continue;
            }
            let (left_keys, right_keys) = keys.split_at(left as usize);
            let (left, right) = subtrie.split(left);
            self.write(writer, left_keys, left, is_plain);
            (keys, subtrie) = (right_keys, right);
        }
        self.joint.write(writer, keys, subtrie.depth);
    }
}

/// Rice codes of nodes: the deviation of |Left| from half of the keys, its quotient in unary and its remainder in binary.
mod rice {
    use super::*;

    /// From this quotient on, so many zeros stand before |Left| itself.
    const QUOTIENT_LIMIT: u32 = 20;

    /// The bits of the remainder that make the code of a binomial distribution shortest: half the binary logarithm of
    /// 5/8 of the keys.
    #[inline(always)]
    fn remainder_bits(size: u64) -> u32 {
        (size - size / 4 - size / 8).ilog2() / 2
    }

    pub(super) fn write(writer: &mut BitWriter, size: u64, left: u64) {
        let deviation = left.wrapping_sub(size / 2) as i64;
        let number = ((deviation << 1) ^ (deviation >> 63)) as u64;
        let remainder_bits = remainder_bits(size);
        let quotient = number >> remainder_bits;
        if quotient < u64::from(QUOTIENT_LIMIT) {
            writer.write(1 << quotient, quotient as u32 + 1);
            writer.write(number & ((1 << remainder_bits) - 1), remainder_bits);
        } else {
            writer.write(0, QUOTIENT_LIMIT);
            writer.write(left & u64::from(u32::MAX), 32);
            writer.write(left >> 32, size.ilog2().saturating_sub(31));
        }
    }

    /// Reads a node: [`MERGED`], or |Left|, which is below `size`.
    #[inline(always)]
    pub(super) fn read<const BACKWARD: bool>(stream: &mut Stream<'_, BACKWARD>, size: u64) -> u64 {
        let bits = stream.peek();
        let quotient = bits.trailing_zeros();
        let left = if quotient < QUOTIENT_LIMIT {
            let remainder_bits = remainder_bits(size);
            let remainder = (bits >> (quotient + 1)) & ((1 << remainder_bits) - 1);
            stream.taken += u64::from(quotient + 1 + remainder_bits);
            let number = u64::from(quotient) << remainder_bits | remainder;
            (size / 2).wrapping_add((number >> 1) ^ (number & 1).wrapping_neg())
        } else {
            let high_bits = size.ilog2().saturating_sub(31);
            let low = (bits >> QUOTIENT_LIMIT) & u64::from(u32::MAX);
            stream.taken += u64::from(QUOTIENT_LIMIT + 32);
            let high = stream.peek() & ((1 << high_bits) - 1);
            stream.taken += u64::from(high_bits);
            high << 32 | low
        };
        if left < size { left } else { MERGED }
    }
}

/// A bucket's code, read in one direction.
#[derive(Debug, Clone, Copy)]
struct Stream<'a, const BACKWARD: bool> {
    bits: &'a Bits,
    bucket: Bucket,
    /// The bits read so far.
    taken: u64,
}

impl<const BACKWARD: bool> Stream<'_, BACKWARD> {
    /// The next bits.
    #[inline(always)]
    fn peek(&self) -> u64 {
        if BACKWARD {
            self.bits.peek_backward(self.bucket.end.bit.wrapping_sub(self.taken))
        } else {
            self.bits.peek(self.bucket.begin.bit + self.taken)
        }
    }

    /// Whether all bits of the bucket have been read.
    #[inline(always)]
    fn is_at_end(&self) -> bool {
        self.taken >= self.bucket.end.bit - self.bucket.begin.bit
    }
}

/// Reads a bucket's code in one direction.
struct Reader<'a, const BACKWARD: bool> {
    codes: Codes,
    stream: Stream<'a, BACKWARD>,
}

impl<const BACKWARD: bool> NodeReader for Reader<'_, BACKWARD> {
    #[inline(always)]
    fn read(&mut self, size: u64) -> u64 {
        match self.codes.nodes.get(size as usize) {
            Some(code) => {
                let (symbol, len) = code.decode(self.stream.peek());
                self.stream.taken += u64::from(len);
                symbol
            }
            None => rice::read(&mut self.stream, size),
        }
    }

    #[inline(always)]
    fn is_at_end(&self) -> bool {
        self.stream.is_at_end()
    }
}

impl<const BACKWARD: bool> Reader<'_, BACKWARD> {
    /// [`NodeReader::locate`] where there may be joint codes.
    #[inline(always)]
    fn locate_any(mut self, is_joint: bool, key: u64, subtrie: Subtrie) -> Range<u64> {
        if is_joint { self.locate_joint(key, subtrie) } else { self.locate(self.codes.leaves, key, subtrie) }
    }

    /// [`NodeReader::locate`] where there are joint codes.
    #[inline(always)]
    fn locate_joint(&mut self, key: u64, mut subtrie: Subtrie) -> Range<u64> {
        while !self.codes.leaves.has(subtrie) && !self.is_at_end() {
            if subtrie.size > SMALL_MAX {
                let left = self.read(subtrie.size);
                if left == MERGED {
                    subtrie = subtrie.deeper();
                    continue;
                }
                let (left, right) = subtrie.split(left);
                if subtrie.is_right(key) {
                    self.skip_joint(left);
                    subtrie = right;
                } else {
                    subtrie = left;
                }
            } else if subtrie.size == 2 {
                let alike = self.stream.peek().trailing_zeros().min(PEEK_BITS - 1);
                subtrie.depth += alike;
                self.stream.taken += u64::from(alike);
                if self.read_pair() != MERGED {
                    let (left, right) = subtrie.split(1);
                    subtrie = if subtrie.is_right(key) { right } else { left };
                } else {
                    subtrie = subtrie.deeper();
                }
            } else {
                subtrie = self.locate_in_shape(key, subtrie);
            }
        }
        subtrie.records()
    }

    /// The subtrie coded apart that `key` belongs to, of a subtrie of 3 to [`JOINT_MAX`] keys.
    #[inline(always)]
    fn locate_in_shape(&mut self, key: u64, mut subtrie: Subtrie) -> Subtrie {
        let mut shape = self.read_shape(subtrie.size);
        while u64::from(shape.left) != MERGED {
            let (left, right) = subtrie.split(u64::from(shape.left));
            let [left_shape, right_shape] = shape.sides.map(|side| self.codes.joint.shape(side));
            if subtrie.is_right(key) {
                self.skip_stack(Stack::new(left_shape.apart));
                (subtrie, shape) = (right, right_shape);
            } else {
                (subtrie, shape) = (left, left_shape);
            }
        }
        if subtrie.size > 2 { subtrie.deeper() } else { subtrie }
    }

    #[inline(always)]
    fn read_shape(&mut self, size: u64) -> &'static Shape {
        let (shape, len) = self.codes.joint.decode(size as usize, self.stream.peek());
        self.stream.taken += u64::from(len);
        shape
    }

    /// Reads a node of 2 keys.
    #[inline(always)]
    fn read_pair(&mut self) -> u64 {
        let left = self.stream.peek() & 1;
        self.stream.taken += 1;
        left
    }

    /// [`NodeReader::skip`] where there are joint codes.
    #[inline(always)]
    fn skip_joint(&mut self, subtrie: Subtrie) {
        if subtrie.size > SMALL_MAX && subtrie.size >= self.codes.nodes.len() as u64 {
            self.skip_large(subtrie);
        } else {
            self.skip_stack(Stack::one(subtrie.size));
        }
    }

    /// Passes over a subtrie that is too large for the table.
    #[inline(never)]
    fn skip_large(&mut self, mut subtrie: Subtrie) {
        while subtrie.size > SMALL_MAX && subtrie.size >= self.codes.nodes.len() as u64 {
            if self.codes.leaves.has(subtrie) || self.is_at_end() {
                return;
            }
            let left = self.read(subtrie.size);
            if left == MERGED {
                subtrie = subtrie.deeper();
                continue;
            }
            let (left, right) = subtrie.split(left);
            self.skip_joint(left);
            subtrie = right;
        }
        self.skip_stack(Stack::one(subtrie.size));
    }

    /// Passes over these subtries.
    #[inline(never)]
    fn skip_stack(&mut self, mut stack: Stack) {
        while !stack.is_empty() && !self.is_at_end() {
            let mut window = self.stream.peek();
            let mut taken = 0;
            for _ in 0..STEPS {
                taken = self.codes.skip.step(&mut stack, &mut window);
                self.stream.taken += u64::from(taken);
                if taken == 0 || stack.is_empty() {
                    break;
                }
            }
            if taken == 0 {
                self.skip_code_word(&mut stack);
            }
        }
    }

    /// Passes over a single code word, where the table has no entry.
    #[cold]
    #[inline(never)]
    fn skip_code_word(&mut self, stack: &mut Stack) {
        let apart = match stack.pop() {
            2 => Apart::one(if self.read_pair() == MERGED { 2 } else { 0 }),
            size @ 3..=SMALL_MAX => self.read_shape(size).apart,
            size => match self.read(size) {
                MERGED => Apart::one(size as usize),
                left => Apart::one(left as usize).then(Apart::one((size - left) as usize)),
            },
        };
        if !stack.push(apart) {
            self.skip_stack(Stack::new(apart));
        }
    }

    /// [`NodeReader::walk`] where there may be joint codes.
    fn walk_any(&mut self, is_joint: bool, mut subtrie: Subtrie, visit: &mut impl FnMut(Subtrie, u64)) {
        if !is_joint {
            return self.walk(self.codes.leaves, subtrie, visit);
        }
        while !self.codes.leaves.has(subtrie) && !self.is_at_end() {
            if (3..=SMALL_MAX).contains(&subtrie.size) {
                let shape = self.read_shape(subtrie.size);
                return self.walk_shape(shape, subtrie, visit);
            }
            let left = if subtrie.size == 2 { self.read_pair() } else { self.read(subtrie.size) };
            visit(subtrie, left);
            if left == MERGED {
                subtrie = subtrie.deeper();
            } else {
                let (left, right) = subtrie.split(left);
                self.walk_any(is_joint, left, visit);
                subtrie = right;
            }
        }
    }

    fn walk_shape(&mut self, shape: &Shape, subtrie: Subtrie, visit: &mut impl FnMut(Subtrie, u64)) {
        let left = u64::from(shape.left);
        if left == MERGED && subtrie.size <= 2 {
            return self.walk_any(true, subtrie, visit);
        }
        visit(subtrie, left);
        if left == MERGED {
            return self.walk_any(true, subtrie.deeper(), visit);
        }
        let (left, right) = subtrie.split(left);
        let [left_shape, right_shape] = shape.sides.map(|side| self.codes.joint.shape(side));
        self.walk_shape(left_shape, left, visit);
        self.walk_shape(right_shape, right, visit);
    }
}

/// The tries of all buckets in the fast representation, and the index of the buckets.
#[derive(Debug, Clone)]
pub(super) struct FastTrie {
    codes: Codes,
    index: LineIndex,
    bits: Bits,
}

impl FastTrie {
    /// The records among which those of `key` are; `key` is what the placement has beyond the number of its bucket.
    /// An empty range in an empty bucket.
    pub(super) fn locate(&self, bucket: u64, key: u64) -> Range<u64> {
        let (mut forward, mut subtrie) = self.open::<false>(self.index.bucket(bucket));
        let is_joint = self.is_joint(forward.stream.bucket);
        while subtrie.size > SMALL_MAX && !self.codes.leaves.has(subtrie) && !forward.is_at_end() {
            let left = forward.read(subtrie.size);
            if left == MERGED {
                subtrie = subtrie.deeper();
                continue;
            }
            let (left, right) = subtrie.split(left);
            if subtrie.is_right(key) {
                let (backward, _) = self.open::<true>(forward.stream.bucket);
                return backward.locate_any(is_joint, key, right);
            }
            return forward.locate_any(is_joint, key, left);
        }
        forward.locate_any(is_joint, key, subtrie)
    }

    /// The same trie over blocks of `settings.records_per_block` records, a multiple of those of now.
    pub(super) fn to_sparse(&self, settings: &TrieSettings) -> Self {
        let mut builder = FastTrieBuilder::new(settings);
        let mut end = 0;
        for number in 0..settings.buckets() {
            let bucket = self.index.bucket(number);
            let is_plain = bucket.is_plain && builder.codes.leaves.is_dense();
            builder.begin_bucket(bucket.begin.position, is_plain);
            self.rewrite(bucket, &mut builder);
            end = bucket.end.position;
        }
        builder.finish(end)
    }

    /// Writes a bucket's code once more for the leaves that `builder` has.
    fn rewrite(&self, bucket: Bucket, builder: &mut FastTrieBuilder) {
        let (mut forward, mut subtrie) = self.open::<false>(bucket);
        let is_joint = self.is_joint(bucket);
        let FastTrieBuilder { codes, writer, backward: backward_writer, .. } = builder;
        let write = |writer: &mut BitWriter, subtrie: Subtrie, left| {
            if !codes.leaves.has(subtrie) {
                codes.write_node(writer, subtrie.size, left);
            }
        };
        while subtrie.size > SMALL_MAX && !self.codes.leaves.has(subtrie) && !forward.is_at_end() {
            let left = forward.read(subtrie.size);
            write(writer, subtrie, left);
            if left == MERGED {
                subtrie = subtrie.deeper();
                continue;
            }
            let (left, right) = subtrie.split(left);
            let (mut backward, _) = self.open::<true>(bucket);
            forward.walk_any(is_joint, left, &mut |subtrie, left| write(writer, subtrie, left));
            backward.walk_any(is_joint, right, &mut |subtrie, left| write(backward_writer, subtrie, left));
            return writer.append_backward(backward_writer);
        }
        forward.walk_any(is_joint, subtrie, &mut |subtrie, left| write(writer, subtrie, left));
    }

    fn open<const BACKWARD: bool>(&self, bucket: Bucket) -> (Reader<'_, BACKWARD>, Subtrie) {
        let size = bucket.end.position - bucket.begin.position;
        let reader = Reader { codes: self.codes, stream: Stream { bits: &self.bits, bucket, taken: 0 } };
        (reader, Subtrie::root(size, bucket.begin.position))
    }

    fn is_joint(&self, bucket: Bucket) -> bool {
        self.codes.leaves.is_dense() && !bucket.is_plain
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
        let index = LineIndex::decode(cursor, settings.buckets(), Offsets { position: len, bit })?;
        let bits = Bits::from_bytes(cursor.take(bit.div_ceil(8))?, bit);
        Ok(Self { codes: Codes::new(settings), index, bits })
    }
}

/// Builds a [`FastTrie`] bucket by bucket.
#[derive(Debug, Clone)]
pub(super) struct FastTrieBuilder {
    codes: Codes,
    index: LineIndexBuilder,
    writer: BitWriter,
    /// What is to be appended backward at the end of the bucket.
    backward: BitWriter,
}

impl FastTrieBuilder {
    pub(super) fn new(settings: &TrieSettings) -> Self {
        // About 2.3 bits a key, and the inverse square root of the records of a block of it in a sparse trie.
        let bits = settings.expected_keys * 23 / 10 / u64::from(settings.records_per_block).isqrt();
        let expected = Offsets { position: settings.expected_keys, bit: bits };
        Self {
            codes: Codes::new(settings),
            index: LineIndexBuilder::new(settings.buckets(), expected),
            writer: BitWriter::new(),
            backward: BitWriter::new(),
        }
    }

    /// Adds the next bucket, which holds `keys`, ascending; its first record is at `first`.
    pub(super) fn push_bucket(&mut self, keys: &[u64], first: u64, has_equal_keys: bool) {
        let is_plain = has_equal_keys && self.codes.leaves.is_dense();
        self.begin_bucket(first, is_plain);
        let Self { codes, writer, backward, .. } = self;
        let mut subtrie = Subtrie::root(keys.len() as u64, first);
        while subtrie.size > SMALL_MAX && !codes.leaves.has(subtrie) {
            let left = left_len(keys, subtrie.depth);
            codes.write_node(writer, subtrie.size, left);
            if left == MERGED {
                subtrie = subtrie.deeper();
                continue;
            }
            let (left_keys, right_keys) = keys.split_at(left as usize);
            let (left, right) = subtrie.split(left);
            codes.write(writer, left_keys, left, is_plain);
            codes.write(backward, right_keys, right, is_plain);
            return writer.append_backward(backward);
        }
        codes.write(writer, keys, subtrie, is_plain);
    }

    /// Ends the trie after its last bucket and `len` keys.
    pub(super) fn finish(self, len: u64) -> FastTrie {
        let end = Offsets { position: len, bit: self.writer.len() };
        FastTrie { codes: self.codes, index: self.index.finish(end), bits: self.writer.finish() }
    }

    fn begin_bucket(&mut self, first: u64, is_plain: bool) {
        self.index.push(Offsets { position: first, bit: self.writer.len() }, is_plain);
    }
}
