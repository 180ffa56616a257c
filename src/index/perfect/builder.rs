//! Builds the index while keys are pushed.

use super::buckets::BucketCounts;
use super::search::Search;
use super::shape::{Bucket, FRACTION_BITS, Shape, Target, Tree};
use super::{
    ConsensusIndex, Exception, KEYS_MAX, Outline, Solution, WINDOW_BITS, bucket_of, hash_of, seeds_end,
    unit_in,
};
use crate::index::BuildError;
use crate::index::bits::BitWriter;

/// The number of salts that are tried for a bucket.
const SALTS: u32 = 8;

/// Takes placements bucket by bucket, and assigns a unit to each key of a bucket when the bucket is complete.
#[derive(Debug)]
pub(crate) struct ConsensusBuilder {
    shape: &'static Shape,
    buckets: u64,
    counts: Vec<u32>,
    seeds: BitWriter,
    exceptions: Vec<Exception>,
    /// The number of keys before the current bucket.
    first: u64,
    /// The keys of the current bucket.
    placements: Vec<u64>,
    /// The same in ascending order.
    ascending: Vec<u64>,
    /// The units of the keys of the last finished bucket.
    units: Vec<u64>,
    search: Search,
}

impl ConsensusBuilder {
    /// Makes a builder for about `expected_keys` keys, in buckets of about `bucket_len`, which is limited to the range
    /// that the target allows.
    pub(crate) fn new(target: Target, expected_keys: u64, bucket_len: u32) -> Self {
        let mut seeds = BitWriter::default();
        seeds.push_zeros(WINDOW_BITS.into());
        let bucket_len = u64::from(bucket_len.clamp(target.bucket_len_min(), target.bucket_len()));
        Self {
            shape: Shape::of(target),
            buckets: ((expected_keys.min(KEYS_MAX) + bucket_len / 2) / bucket_len).max(1),
            counts: Vec::new(),
            seeds,
            exceptions: Vec::new(),
            first: 0,
            placements: Vec::new(),
            ascending: Vec::new(),
            units: Vec::new(),
            search: Search::default(),
        }
    }

    /// Adds a key. If it is the first one of its bucket, returns the units of the keys of the previous bucket, in the
    /// order of the pushes.
    pub(crate) fn push(&mut self, placement: u64) -> Result<Option<&[u64]>, BuildError> {
        let bucket = bucket_of(self.buckets, placement);
        let current = self.counts.len() as u64;
        if bucket < current {
            let last = self.placements.last().copied().unwrap_or(u64::MAX);
            return Err(BuildError::OutOfOrder { last, got: placement });
        }
        if self.placements.len() as u64 >= u32::MAX.into() || self.len() >= KEYS_MAX {
            let (name, limit) = (
                "keys of a bucket",
                "below 2^32, and below 2^44 in total; state the expected number of keys",
            );
            return Err(BuildError::Setting { name, got: self.placements.len() as u64, limit });
        }
        let finishes = bucket > current && !self.placements.is_empty();
        if finishes {
            self.finish_bucket();
        }
        self.counts.resize(bucket as usize, 0);
        self.placements.push(placement);
        Ok(finishes.then_some(&self.units))
    }

    /// Returns the number of keys pushed.
    pub(crate) fn len(&self) -> u64 {
        self.first + self.placements.len() as u64
    }

    /// Returns the index, and the units of the keys of the last bucket.
    pub(crate) fn finish(mut self) -> (ConsensusIndex, Vec<u64>) {
        self.units.clear();
        if !self.placements.is_empty() {
            self.finish_bucket();
        }
        self.counts.resize(self.buckets as usize, 0);
        self.seeds.push_zeros(seeds_end(self.shape, self.buckets, self.first) - self.seeds.len());
        let counts = BucketCounts::new(&self.counts);
        let exceptions = self.exceptions.into();
        let outline = Outline { shape: self.shape, counts, exceptions };
        (ConsensusIndex::new(outline, self.seeds.finish()), self.units)
    }

    fn finish_bucket(&mut self) {
        let number = self.counts.len() as u64;
        let bucket = Bucket { number, first: self.first, len: self.placements.len() as u32 };
        let tree = self.shape.tree(bucket).filter(|_| self.is_solvable());
        let solved = tree.and_then(|tree| Some((tree, self.solve(bucket, &tree)?)));
        let solution = solved.map_or(Solution::Ordered, |(_, salt)| Solution::Salted(salt));
        if solution != Solution::Salted(0) {
            self.exceptions.push(Exception { bucket: number, solution });
        }
        self.units.clear();
        if let Some((tree, salt)) = solved {
            let window = |end| self.seeds.get(end, WINDOW_BITS);
            let unit = |placement| unit_in(self.shape, bucket, &tree, hash_of(placement, salt), window);
            self.units.extend(self.placements.iter().map(|&placement| unit(placement)));
        } else {
            let keys = self.first..self.first + u64::from(bucket.len);
            self.units.extend(keys.map(|key| key / self.shape.target.unit_len()));
        }
        self.counts.push(bucket.len);
        self.first += u64::from(bucket.len);
        self.placements.clear();
    }

    /// Returns whether at most as many keys of the current bucket as fit in a unit have the same placement. Keys of one
    /// placement have equal hashes under every seed, so otherwise no seeds exist.
    fn is_solvable(&mut self) -> bool {
        self.ascending.clone_from(&self.placements);
        self.ascending.sort_unstable();
        let longest_run = self.ascending.chunk_by(|one, other| one == other).map(<[_]>::len).max();
        longest_run.is_none_or(|longest| longest as u64 <= self.shape.target.unit_len())
    }

    /// Appends the seeds of a bucket. Returns the first salt with which seeds were found.
    fn solve(&mut self, bucket: Bucket, tree: &Tree) -> Option<u32> {
        let start = self.shape.start(bucket.number, bucket.first) >> FRACTION_BITS;
        // A bucket's seeds begin where the number of keys before it says, so that no field has to store their position.
        // The zeros pad what the previous bucket left unused.
        self.seeds.push_zeros(start + u64::from(WINDOW_BITS) - self.seeds.len());
        let before = self.seeds.get(start, WINDOW_BITS);
        (0..SALTS).find(|&salt| {
            let hashes = self.placements.iter().map(|&placement| hash_of(placement, salt));
            let seeds = self.search.solve(self.shape, tree, start, before, hashes);
            let Some(seeds) = seeds else { return false };
            for (zeros, seed, width) in seeds {
                self.seeds.push_zeros(zeros.into());
                self.seeds.push(seed, width);
            }
            true
        })
    }
}
