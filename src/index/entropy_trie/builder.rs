//! Cuts the ascending placements into virtual buckets (ECT 3.1.3) and hands each bucket to the coder.

use super::{
    Body, Coder, EntropyTrie, TrieSettings, bucket_and_key, fast::FastTrieBuilder, paper::PaperTrieBuilder,
};
use crate::index::BuildError;

/// Builds an [`EntropyTrie`] from placements that come in ascending order.
///
/// Holds the trie built so far and the keys of one bucket, 8 bytes each.
#[derive(Debug, Clone)]
pub struct EntropyTrieBuilder {
    settings: TrieSettings,
    buckets: u64,
    /// The keys pushed so far.
    len: u64,
    last: u64,
    /// The bucket that is being filled.
    bucket: u64,
    /// Its keys: what is left of the placements beyond the number of the bucket.
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
    /// A builder of a trie with these settings.
    ///
    /// # Errors
    ///
    /// [`BuildError::Setting`], if one of them is outside its limits.
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

    /// Adds the placement of the next record. It may equal the one before it.
    ///
    /// # Errors
    ///
    /// [`BuildError::OutOfOrder`], if it is below the one before it; nothing is added then.
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

    /// Ends the trie.
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

    /// Ends the current bucket and leaves those before `bucket` empty.
    fn flush_until(&mut self, bucket: u64) {
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
