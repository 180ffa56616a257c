//! The paper's coder (ECT 3.1.4; dissertation 2.2.3): the tries of the buckets one after another, each in pre-order.
//!
//! A node is the code of |Left|, the number of keys in its left subtrie, followed by its two subtries. A node of at
//! most `huffman_max` keys has a Huffman code; a larger one has the Elias gamma code of the deviation of |Left| from
//! half of the keys. |Left| = 0 and |Left| = |T| share a code, so a lookup of an indexed key takes the only existing
//! subtrie without a look at its bit.
//!
//! A subtrie has no code if it is a *leaf*: if it has one key; in a sparse trie, if its records share one block
//! (3.1.6); and, beyond the paper, if all 64 bits of its keys are used up, that is, if its keys are equal.

use super::{
    TrieSettings,
    bucket_index::{Offsets, TwoLevelBuilder, TwoLevelIndex},
    code_string::{CodeString, CodeWriter},
    huffman::{self, HuffmanCode, MERGED},
    subtrie::{Leaves, NodeReader, Subtrie, walk_keys},
};
use crate::coding::{DecodeError, Decoder};
use std::ops::Range;

/// The tries of all buckets in the paper's representation, and the index of the buckets.
#[derive(Debug, Clone)]
pub(super) struct PaperTrie {
    codes: &'static [HuffmanCode],
    leaves: Leaves,
    index: TwoLevelIndex,
    bits: CodeString,
}

impl PaperTrie {
    /// Returns the records that may be that of `key`, the part of the placement that does not select the bucket. The
    /// range is empty in an empty bucket.
    pub(super) fn locate(&self, bucket: u64, key: u64) -> Range<u64> {
        let (mut reader, root) = self.open(bucket);
        reader.locate(self.leaves, key, root)
    }

    /// Returns the same trie over blocks of `settings.records_per_block` records, a multiple of the present number.
    pub(super) fn to_sparse(&self, settings: &TrieSettings) -> Self {
        let mut builder = PaperTrieBuilder::new(settings);
        for bucket in 0..settings.buckets() {
            let (mut reader, root) = self.open(bucket);
            builder.begin_bucket(root.first);
            reader.walk(self.leaves, root, &mut |subtrie, left| {
                if !builder.leaves.has(subtrie) {
                    write_node(builder.codes, &mut builder.writer, subtrie.size, left);
                }
            });
        }
        builder.finish(self.index.begin(u64::MAX).position)
    }

    fn open(&self, bucket: u64) -> (Reader<'_>, Subtrie) {
        let (begin, end) = (self.index.begin(bucket), self.index.begin(bucket.saturating_add(1)));
        let reader = Reader { codes: self.codes, bits: &self.bits, position: begin.bit, end: end.bit };
        (reader, Subtrie::root(end.position - begin.position, begin.position))
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
        let end = Offsets { position: len, bit };
        let index = TwoLevelIndex::decode(decoder, settings.bucket_keys, settings.buckets(), end)?;
        let bits = CodeString::from_bytes(
            decoder.take(usize::try_from(bit.div_ceil(8)).unwrap_or(usize::MAX), "code")?,
            bit,
        );
        Ok(Self {
            codes: huffman::codes_up_to(settings.huffman_max),
            leaves: Leaves::new(settings),
            index,
            bits,
        })
    }
}

/// Builds a [`PaperTrie`] bucket by bucket.
#[derive(Debug, Clone)]
pub(super) struct PaperTrieBuilder {
    codes: &'static [HuffmanCode],
    leaves: Leaves,
    index: TwoLevelBuilder,
    writer: CodeWriter,
}

impl PaperTrieBuilder {
    pub(super) fn new(settings: &TrieSettings) -> Self {
        Self {
            codes: huffman::codes_up_to(settings.huffman_max),
            leaves: Leaves::new(settings),
            index: TwoLevelIndex::builder(settings.bucket_keys),
            writer: CodeWriter::new(),
        }
    }

    /// Adds the next bucket, with these ascending keys; the number of its first record is `first`.
    pub(super) fn push_bucket(&mut self, keys: &[u64], first: u64) {
        self.begin_bucket(first);
        let Self { codes, leaves, writer, .. } = self;
        let root = Subtrie::root(keys.len() as u64, first);
        walk_keys(keys, *leaves, root, &mut |size, left| write_node(codes, writer, size, left));
    }

    /// Finishes the trie after its last bucket and `len` keys.
    pub(super) fn finish(mut self, len: u64) -> PaperTrie {
        self.begin_bucket(len);
        let (index, bits) = (self.index.finish(), self.writer.finish());
        PaperTrie { codes: self.codes, leaves: self.leaves, index, bits }
    }

    fn begin_bucket(&mut self, first: u64) {
        self.index.push(Offsets { position: first, bit: self.writer.len() });
    }
}

/// Writes the code of a node of `size` keys.
fn write_node(codes: &[HuffmanCode], writer: &mut CodeWriter, size: u64, left: u64) {
    if let Some(code) = codes.get(size as usize) {
        code.write(writer, left);
        return;
    }
    let deviation = left.wrapping_sub(size / 2) as i64;
    let number = ((deviation << 1) ^ (deviation >> 63)) as u64 + 1;
    let low_bits = number.ilog2();
    writer.write(1 << low_bits, low_bits + 1);
    writer.write(number ^ (1 << low_bits), low_bits);
}

/// Reads the code of one bucket.
struct Reader<'a> {
    codes: &'static [HuffmanCode],
    bits: &'a CodeString,
    position: u64,
    end: u64,
}

impl NodeReader for Reader<'_> {
    #[inline(always)]
    fn read(&mut self, size: u64) -> u64 {
        let bits = self.bits.peek(self.position);
        if let Some(code) = self.codes.get(size as usize) {
            let (symbol, len) = code.decode(bits);
            self.position += u64::from(len);
            return symbol;
        }
        let low_bits = bits.trailing_zeros();
        let high = 1u64.checked_shl(low_bits).unwrap_or(0);
        self.position += u64::from(low_bits) + 1;
        let low = self.bits.peek(self.position) & high.wrapping_sub(1);
        self.position += u64::from(low_bits);
        let number = (high | low).wrapping_sub(1);
        let deviation = (number >> 1) ^ (number & 1).wrapping_neg();
        let left = (size / 2).wrapping_add(deviation);
        // Damaged bytes may encode any number. `MERGED` keeps the reader within the subtrie.
        if left < size { left } else { MERGED }
    }

    fn is_at_end(&self) -> bool {
        self.position >= self.end
    }
}
