//! Splits the ascending placements into virtual buckets (ECT 3.1.3) and codes the trie of each.

use super::{
    EntropyTrie, TrieSettings, bucket_and_key,
    bucket_index::{BucketIndexBuilder, Offsets},
    code_string::CodeWriter,
    codes::Codes,
    huffman::MERGED,
    subtrie::{Subtrie, left_len},
};
use crate::BuildError;

/// Builds an [`EntropyTrie`] from placements pushed in ascending order.
///
/// Takes the memory of the trie built so far and 8 bytes per key of the current bucket.
#[derive(Debug, Clone)]
pub struct EntropyTrieBuilder {
    settings: TrieSettings,
    codes: Codes,
    buckets: u64,
    /// The number of keys pushed, without those of the current bucket.
    len: u64,
    last: u64,
    /// The current bucket.
    bucket: u64,
    /// Its keys: the placements without the part that selects the bucket.
    keys: Vec<u64>,
    has_equal_keys: bool,
    index: BucketIndexBuilder,
    writer: CodeWriter,
    /// What is appended backward at the end of the bucket.
    backward: CodeWriter,
}

impl EntropyTrieBuilder {
    /// Makes a builder with these settings.
    ///
    /// # Errors
    ///
    /// [`BuildError::Setting`] if a setting is outside its limits.
    pub fn new(settings: TrieSettings) -> Result<Self, BuildError> {
        settings.check()?;
        let buckets = settings.buckets();
        // About 2.3 bits per key; in a sparse trie fewer, by about the square root of the records per block.
        let bit = settings.expected_keys * 23 / 10 / u64::from(settings.records_per_block).isqrt().max(1);
        let expected = Offsets { position: settings.expected_keys, bit };
        Ok(Self {
            settings,
            codes: Codes::new(&settings),
            buckets,
            len: 0,
            last: 0,
            bucket: 0,
            keys: Vec::new(),
            has_equal_keys: false,
            index: BucketIndexBuilder::new(buckets, expected),
            writer: CodeWriter::new(),
            backward: CodeWriter::new(),
        })
    }

    /// Adds the placement of the next record. It may equal the previous one.
    ///
    /// # Errors
    ///
    /// [`BuildError::OutOfOrder`] if it is lower than the previous one. The placement is not added then.
    #[inline]
    pub fn push(&mut self, placement: u64) -> Result<(), BuildError> {
        if placement < self.last {
            return Err(BuildError::OutOfOrder { last: self.last, got: placement });
        }
        self.last = placement;
        let (bucket, key) = bucket_and_key(placement, self.buckets);
        if bucket != self.bucket {
            self.flush_until(bucket);
        }
        // Equal keys have no joint code, so their bucket becomes plain.
        self.has_equal_keys |= self.keys.last() == Some(&key);
        self.keys.push(key);
        Ok(())
    }

    /// Returns the trie.
    ///
    /// # Errors
    ///
    /// None at present.
    pub fn finish(mut self) -> Result<EntropyTrie, BuildError> {
        self.flush_until(self.buckets);
        let end = Offsets { position: self.len, bit: self.writer.len() };
        let (index, bits) = (self.index.finish(end), self.writer.finish());
        Ok(EntropyTrie { settings: self.settings, codes: self.codes, len: self.len, index, bits })
    }

    /// Finishes the current bucket, and leaves those between it and `bucket` empty.
    fn flush_until(&mut self, bucket: u64) {
        // Empty buckets are coded too: a bucket is located by its number.
        while self.bucket < bucket {
            self.write_bucket();
            self.len += self.keys.len() as u64;
            self.keys.clear();
            self.has_equal_keys = false;
            self.bucket += 1;
        }
    }

    fn write_bucket(&mut self) {
        let Self { codes, keys, writer, backward, .. } = self;
        let is_plain = self.has_equal_keys && codes.has_joint;
        // Before its code is written, because the bucket begins at the end of what is written.
        self.index.push(Offsets { position: self.len, bit: writer.len() }, is_plain);
        let write = |writer: &mut CodeWriter, keys: &[u64], subtrie: Subtrie| {
            if codes.has_joint && !is_plain {
                codes.write_joint(writer, keys, subtrie.depth);
            } else {
                codes.write_plain(writer, keys, subtrie);
            }
        };
        let mut subtrie = Subtrie::root(keys.len() as u64, self.len);
        while subtrie.size > codes.unsplit_max && !codes.leaves.has(subtrie) {
            let left = left_len(keys, subtrie.depth);
            codes.write_node(writer, subtrie.size, left);
            if left != MERGED {
                let (left_keys, right_keys) = keys.split_at(left as usize);
                let (left, right) = subtrie.split(left);
                write(writer, left_keys, left);
                write(backward, right_keys, right);
                // Readers find the right half from the end of the bucket.
                return writer.append_backward(backward);
            }
            subtrie = subtrie.deeper();
        }
        write(writer, keys, subtrie);
    }
}
