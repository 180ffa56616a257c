//! The fast coder: the paper's tries in fewer bits and a fraction of the time.
//!
//! Deviations from the paper's representation (ECT 3.1.4):
//!
//! * The subtrie on the left of the root's split is coded forward from the begin of the bucket's code, the one on the
//!   right backward from its end. So a lookup skips subtries of one half only.
//! * In a dense trie a subtrie of 3 to 6 keys has a [joint code](joint), and a [table](skip) skips subtries of up to 64
//!   keys, several nodes per step.
//! * Nodes above `huffman_max` have [Rice codes](rice) instead of Elias gamma codes.
//! * The [index of the buckets](super::bucket_index) consists of single cache lines.
//!
//! ```text
//! bucket   | root | left subtrie, forward -->       <-- right subtrie, backward |
//! ```
//!
//! A sparse trie has no joint codes, since leaves may be anywhere in a subtrie. Neither does a *plain* bucket of a
//! dense trie: one with equal keys, where a trie ends when the bits of the keys are used up, so a reader has to count
//! depths.

mod codes;
mod dense;
mod joint;
mod rice;
mod skip;
mod stream;

use super::{
    TrieSettings,
    bucket_index::{Bucket, LineIndex, LineIndexBuilder, Offsets},
    code_string::{CodeString, CodeWriter},
    huffman::MERGED,
    subtrie::{NodeReader, Subtrie, left_len},
};
use crate::coding::{DecodeError, Decoder};
use codes::{Codes, SMALL_MAX};
use dense::DenseReader;
use std::ops::Range;
use stream::Stream;

/// The tries of all buckets in the fast representation, and the index of the buckets.
#[derive(Debug, Clone)]
pub(super) struct FastTrie {
    codes: Codes,
    index: LineIndex,
    bits: CodeString,
}

/// Reads a bucket's code, or half of it, node by node.
struct PlainReader<'a, const BACKWARD: bool> {
    codes: &'a Codes,
    stream: Stream<'a, BACKWARD>,
}

impl<const BACKWARD: bool> NodeReader for PlainReader<'_, BACKWARD> {
    #[inline(always)]
    fn read(&mut self, size: u64) -> u64 {
        self.codes.read_node(&mut self.stream, size)
    }

    #[inline(always)]
    fn is_at_end(&self) -> bool {
        self.stream.is_at_end()
    }
}

/// The beginning of a bucket's code.
enum Trunk {
    /// A subtrie that is too small to be split.
    Small(Subtrie),
    /// A subtrie and the number of keys on its left. The left half follows; the right half is at the end.
    Split(Subtrie, u64),
}

impl FastTrie {
    /// Returns the records that may be that of `key`, the part of the placement that does not select the bucket. The
    /// range is empty in an empty bucket.
    pub(super) fn locate(&self, bucket: u64, key: u64) -> Range<u64> {
        let bucket = self.index.bucket(bucket);
        let mut forward = Stream::<false>::new(&self.bits, &bucket);
        match self.read_trunk(&mut forward, &bucket, |_, _| ()) {
            Trunk::Small(subtrie) => self.locate_in(forward, &bucket, key, subtrie),
            Trunk::Split(subtrie, left) => {
                let is_right = subtrie.is_right(key);
                let (left, right) = subtrie.split(left);
                if is_right {
                    self.locate_in(Stream::<true>::new(&self.bits, &bucket), &bucket, key, right)
                } else {
                    self.locate_in(forward, &bucket, key, left)
                }
            }
        }
    }

    /// Returns those in the subtrie whose code comes next in the stream.
    #[inline(always)]
    fn locate_in<const BACKWARD: bool>(
        &self,
        stream: Stream<'_, BACKWARD>,
        bucket: &Bucket,
        key: u64,
        subtrie: Subtrie,
    ) -> Range<u64> {
        if self.is_joint(bucket) {
            DenseReader { codes: &self.codes, stream }.locate(key, subtrie)
        } else {
            PlainReader { codes: &self.codes, stream }.locate(self.codes.leaves, key, subtrie)
        }
    }

    /// Reads nodes up to the first split, and calls `visit` with each and its symbol.
    #[inline(always)]
    fn read_trunk(
        &self,
        forward: &mut Stream<'_, false>,
        bucket: &Bucket,
        mut visit: impl FnMut(Subtrie, u64),
    ) -> Trunk {
        let size = bucket.end.position - bucket.begin.position;
        let mut subtrie = Subtrie::root(size, bucket.begin.position);
        while subtrie.size > SMALL_MAX && !self.codes.leaves.has(subtrie) && !forward.is_at_end() {
            let left = self.codes.read_node(forward, subtrie.size);
            visit(subtrie, left);
            if left != MERGED {
                return Trunk::Split(subtrie, left);
            }
            subtrie = subtrie.deeper();
        }
        Trunk::Small(subtrie)
    }

    /// Returns the same trie over blocks of `settings.records_per_block` records, a multiple of the present number.
    pub(super) fn to_sparse(&self, settings: &TrieSettings) -> Self {
        let mut builder = FastTrieBuilder::new(settings);
        let mut end = 0;
        for number in 0..settings.buckets() {
            let bucket = self.index.bucket(number);
            builder.begin_bucket(bucket.begin.position, bucket.is_plain && builder.codes.leaves.is_dense());
            self.rewrite(&bucket, &mut builder);
            end = bucket.end.position;
        }
        builder.finish(end)
    }

    /// Writes a bucket's code again, with the leaves of `builder`.
    fn rewrite(&self, bucket: &Bucket, builder: &mut FastTrieBuilder) {
        let FastTrieBuilder { codes, writer, backward, .. } = builder;
        let write = |writer: &mut CodeWriter, subtrie: Subtrie, left| {
            if !codes.leaves.has(subtrie) {
                codes.write_node(writer, subtrie.size, left);
            }
        };
        let mut forward = Stream::<false>::new(&self.bits, bucket);
        match self.read_trunk(&mut forward, bucket, |subtrie, left| write(writer, subtrie, left)) {
            Trunk::Small(subtrie) => {
                self.walk_in(forward, bucket, subtrie, |subtrie, left| write(writer, subtrie, left));
            }
            Trunk::Split(subtrie, left) => {
                let (left, right) = subtrie.split(left);
                let end = Stream::<true>::new(&self.bits, bucket);
                self.walk_in(forward, bucket, left, |subtrie, left| write(writer, subtrie, left));
                self.walk_in(end, bucket, right, |subtrie, left| write(backward, subtrie, left));
                writer.append_backward(backward);
            }
        }
    }

    /// Calls `visit` with each node of the subtrie whose code comes next in the stream, and its symbol.
    fn walk_in<const BACKWARD: bool>(
        &self,
        stream: Stream<'_, BACKWARD>,
        bucket: &Bucket,
        subtrie: Subtrie,
        mut visit: impl FnMut(Subtrie, u64),
    ) {
        if self.is_joint(bucket) {
            DenseReader { codes: &self.codes, stream }.walk(subtrie, &mut visit);
        } else {
            PlainReader { codes: &self.codes, stream }.walk(self.codes.leaves, subtrie, &mut visit);
        }
    }

    fn is_joint(&self, bucket: &Bucket) -> bool {
        self.codes.leaves.is_dense() && !bucket.is_plain
    }

    /// Returns the heap memory, in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        self.index.heap_bytes() + self.bits.heap_bytes()
    }

    /// Appends the encoded trie: the number of bits, the index, the bits.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bits.len().to_le_bytes());
        self.index.encode(out);
        out.extend_from_slice(self.bits.as_bytes());
    }

    /// Decodes what [`encode`](Self::encode) wrote for a trie of `len` keys.
    pub(super) fn decode(
        decoder: &mut Decoder<'_>,
        settings: &TrieSettings,
        len: u64,
    ) -> Result<Self, DecodeError> {
        let bit = decoder.at_most(u64::MAX / 2, "bits of code")?;
        let index = LineIndex::decode(decoder, settings.buckets(), Offsets { position: len, bit })?;
        let bits = CodeString::from_bytes(
            decoder.take(usize::try_from(bit.div_ceil(8)).unwrap_or(usize::MAX), "code")?,
            bit,
        );
        Ok(Self { codes: Codes::new(settings), index, bits })
    }
}

/// Builds a [`FastTrie`] bucket by bucket.
#[derive(Debug, Clone)]
pub(super) struct FastTrieBuilder {
    codes: Codes,
    index: LineIndexBuilder,
    writer: CodeWriter,
    /// What is appended backward at the end of the bucket.
    backward: CodeWriter,
}

impl FastTrieBuilder {
    pub(super) fn new(settings: &TrieSettings) -> Self {
        // About 2.3 bits per key; in a sparse trie fewer, by about the square root of the records per block.
        let bits = settings.expected_keys * 23 / 10 / u64::from(settings.records_per_block).isqrt().max(1);
        let expected = Offsets { position: settings.expected_keys, bit: bits };
        Self {
            codes: Codes::new(settings),
            index: LineIndexBuilder::new(settings.buckets(), expected),
            writer: CodeWriter::new(),
            backward: CodeWriter::new(),
        }
    }

    /// Adds the next bucket, with these ascending keys; the number of its first record is `first`.
    pub(super) fn push_bucket(&mut self, keys: &[u64], first: u64, has_equal_keys: bool) {
        let is_plain = has_equal_keys && self.codes.leaves.is_dense();
        self.begin_bucket(first, is_plain);
        let Self { codes, writer, backward, .. } = self;
        let write = |writer: &mut CodeWriter, keys: &[u64], subtrie: Subtrie| {
            if codes.leaves.is_dense() && !is_plain {
                codes.write_joint(writer, keys, subtrie.depth);
            } else {
                codes.write_plain(writer, keys, subtrie);
            }
        };
        let mut subtrie = Subtrie::root(keys.len() as u64, first);
        while subtrie.size > SMALL_MAX && !codes.leaves.has(subtrie) {
            let left = left_len(keys, subtrie.depth);
            codes.write_node(writer, subtrie.size, left);
            if left != MERGED {
                let (left_keys, right_keys) = keys.split_at(left as usize);
                let (left, right) = subtrie.split(left);
                write(writer, left_keys, left);
                write(backward, right_keys, right);
                return writer.append_backward(backward);
            }
            subtrie = subtrie.deeper();
        }
        write(writer, keys, subtrie);
    }

    /// Finishes the trie after its last bucket and `len` keys.
    pub(super) fn finish(self, len: u64) -> FastTrie {
        let end = Offsets { position: len, bit: self.writer.len() };
        FastTrie { codes: self.codes, index: self.index.finish(end), bits: self.writer.finish() }
    }

    fn begin_bucket(&mut self, first: u64, is_plain: bool) {
        self.index.push(Offsets { position: first, bit: self.writer.len() }, is_plain);
    }
}
