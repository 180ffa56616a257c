//! Splits the ascending placements into virtual buckets (ECT 3.1.3) and passes each bucket to the coder.

use super::{
    Body, Coder, EntropyTrie, TrieSettings, bucket_and_key, fast::FastTrieBuilder, paper::PaperTrieBuilder,
};
use crate::index::BuildError;

/// Builds an [`EntropyTrie`] from placements pushed in ascending order.
///
/// Takes the memory of the trie built so far and 8 bytes per key of the current bucket.
#[derive(Debug, Clone)]
pub struct EntropyTrieBuilder {
    settings: TrieSettings,
    buckets: u64,
    /// The number of keys pushed, without those of the current bucket.
    len: u64,
    last: u64,
    /// The current bucket.
    bucket: u64,
    /// Its keys: the placements without the part that selects the bucket.
    keys: Vec<u64>,
    has_equal_keys: bool,
    coder: CoderBuilder,
}

#[derive(Debug, Clone)]
enum CoderBuilder {
    Paper(PaperTrieBuilder),
    Fast(FastTrieBuilder),
}

impl EntropyTrieBuilder {
    /// Makes a builder with these settings.
    ///
    /// # Errors
    ///
    /// [`BuildError::Setting`] if a setting is outside its limits.
    pub fn new(settings: TrieSettings) -> Result<Self, BuildError> {
        settings.check()?;
        let coder = match settings.coder {
            Coder::Paper => CoderBuilder::Paper(PaperTrieBuilder::new(&settings)),
            Coder::Fast => CoderBuilder::Fast(FastTrieBuilder::new(&settings)),
        };
        let buckets = settings.buckets();
        Ok(Self {
            settings,
            buckets,
            len: 0,
            last: 0,
            bucket: 0,
            keys: Vec::new(),
            has_equal_keys: false,
            coder,
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
        let body = match self.coder {
            CoderBuilder::Paper(coder) => Body::Paper(coder.finish(self.len)),
            CoderBuilder::Fast(coder) => Body::Fast(coder.finish(self.len)),
        };
        Ok(EntropyTrie { settings: self.settings, buckets: self.buckets, len: self.len, body })
    }

    /// Finishes the current bucket, and leaves those between it and `bucket` empty.
    fn flush_until(&mut self, bucket: u64) {
        // Empty buckets are coded too: a bucket is located by its number.
        while self.bucket < bucket {
            match &mut self.coder {
                CoderBuilder::Paper(coder) => coder.push_bucket(&self.keys, self.len),
                CoderBuilder::Fast(coder) => coder.push_bucket(&self.keys, self.len, self.has_equal_keys),
            }
            self.len += self.keys.len() as u64;
            self.keys.clear();
            self.has_equal_keys = false;
            self.bucket += 1;
        }
    }
}
