//! Builds the index while keys are pushed.

use super::buckets::BucketCounts;
use super::search::SeedSearch;
use super::shape::{Bucket, FRACTION_BITS, Shape, Target, Tree};
use super::{
    Exception, KEYS_MAX, PerfectIndex, PerfectOutline, Solution, WINDOW_BITS, bucket_of, hash_of, seeds_end,
    unit_in,
};
use crate::BuildError;
use crate::bits::BitWriter;
use std::sync::Arc;

/// The number of salts that are tried for a bucket.
const SALTS: u32 = 8;

/// Properties of the records, known before the first one is pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PerfectIndexSettings {
    /// The approximate number of records. Too high a number costs memory. A number below half of the true one makes
    /// buckets too large to be solved; lookups then return whole buckets.
    pub expected_records: u64,
    /// The number of records that fill a block, 1 to 256. With 1 the index maps each record to its slot, in 1.5 bits.
    pub records_per_block: u32,
    /// The average number of records per bucket, which a merge holds in memory; raised to the records of four blocks,
    /// and limited to 512. Fewer cost memory: 0.06 bits per record with 128, 0.15 with 64.
    pub bucket_records: u32,
}

/// Builds a [`PerfectIndex`] from records that are pushed bucket by bucket, and assigns a block to each.
///
/// Each time [`push`](Self::push) returns the blocks of a finished bucket, the writer places the records of that bucket
/// in them. The first of these blocks may hold records of earlier buckets, and the last one receives records of the
/// next bucket unless it is full; otherwise a bucket has its blocks for itself.
#[derive(Debug)]
pub struct PerfectIndexBuilder {
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
    search: SeedSearch,
}

impl PerfectIndexBuilder {
    /// Makes a builder without records.
    ///
    /// # Errors
    /// [`BuildError::Setting`] if a setting is outside its limits.
    pub fn new(settings: PerfectIndexSettings) -> Result<Self, BuildError> {
        let PerfectIndexSettings { expected_records, records_per_block, bucket_records } = settings;
        if !(1..=256).contains(&records_per_block) {
            let got = records_per_block.into();
            return Err(BuildError::Setting { name: "records_per_block", got, limit: "1 to 256" });
        }
        let target = Target::of(records_per_block);
        let mut seeds = BitWriter::default();
        seeds.push_zeros(WINDOW_BITS.into());
        let bucket_len = u64::from(bucket_records.clamp(target.bucket_len_min(), target.bucket_len()));
        Ok(Self {
            shape: Shape::of(target),
            buckets: ((expected_records.min(KEYS_MAX) + bucket_len / 2) / bucket_len).max(1),
            counts: Vec::new(),
            seeds,
            exceptions: Vec::new(),
            first: 0,
            placements: Vec::new(),
            ascending: Vec::new(),
            units: Vec::new(),
            search: SeedSearch::default(),
        })
    }

    /// Adds a record. If it begins a new bucket, returns the block of each record of the previous bucket, in the order
    /// of the pushes. Takes 60 to 400 ns per record, most with few records per block.
    ///
    /// # Errors
    /// [`BuildError::OutOfOrder`] for a placement in an earlier bucket (within a bucket any order is allowed);
    /// [`BuildError::Setting`] for more than 2^32 records in a bucket or 2^44 in total. The record is not added then.
    pub fn push(&mut self, placement: u64) -> Result<Option<&[u64]>, BuildError> {
        let bucket = bucket_of(self.buckets, placement);
        let current = self.counts.len() as u64;
        // The seeds of earlier buckets are final, and the writer has placed their records.
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
        // The buckets in between have no keys.
        self.counts.resize(bucket as usize, 0);
        self.placements.push(placement);
        Ok(finishes.then_some(&self.units))
    }

    /// Returns the number of records pushed.
    pub fn len(&self) -> u64 {
        self.first + self.placements.len() as u64
    }

    /// Returns whether no record was pushed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the index, and the blocks of the records of the last bucket.
    pub fn finish(mut self) -> (PerfectIndex, Vec<u64>) {
        // The writer has taken the units of the last finished bucket.
        self.units.clear();
        if !self.placements.is_empty() {
            self.finish_bucket();
        }
        let Self { shape, buckets, counts, seeds, exceptions, first, units, .. } = self;
        (index_of(shape, buckets, first, counts, seeds, exceptions), units)
    }

    /// Returns the index of the records in finished buckets, as if there were no others.
    pub fn finished_buckets(&self) -> PerfectIndex {
        // Copies, because the builder continues.
        let (counts, seeds, exceptions) = (self.counts.clone(), self.seeds.clone(), self.exceptions.clone());
        index_of(self.shape, self.buckets, self.first, counts, seeds, exceptions)
    }

    fn finish_bucket(&mut self) {
        let number = self.counts.len() as u64;
        let bucket = Bucket { number, first: self.first, len: self.placements.len() as u32 };
        let tree = self.shape.tree(bucket).filter(|_| self.is_solvable());
        let solved = tree.and_then(|tree| Some((tree, self.solve(bucket, &tree)?)));
        let solution = solved.map_or(Solution::Ordered, |(_, salt)| Solution::Salted(salt));
        // A bucket that is not listed has salt 0, with which nearly all are solved.
        if solution != Solution::Salted(0) {
            self.exceptions.push(Exception { bucket: number, solution });
        }
        self.units.clear();
        if let Some((tree, salt)) = solved {
            // The same computation as in a lookup, so a record is placed where lookups read.
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

/// Returns the index of the first `keys` keys, which are those of the buckets with counts; the other buckets are empty.
fn index_of(
    shape: &'static Shape,
    buckets: u64,
    keys: u64,
    mut counts: Vec<u32>,
    mut seeds: BitWriter,
    exceptions: Vec<Exception>,
) -> PerfectIndex {
    counts.resize(buckets as usize, 0);
    seeds.push_zeros(seeds_end(shape, buckets, keys) - seeds.len());
    let (counts, exceptions) = (BucketCounts::new(&counts), exceptions.into());
    PerfectIndex { outline: Arc::new(PerfectOutline { shape, counts, exceptions }), seeds: seeds.finish() }
}
