//! The number of keys in each bucket and before it.

use super::KEYS_MAX;
use crate::DecodeError;
use crate::coding::Decoder;

/// A sum is stored for every 64th bucket, and from there counts are added up: 1 bit per bucket.
const BUCKETS_PER_SUM: usize = 64;

/// Takes 9 bits per bucket while the counts differ by less than 256, as those of hashes do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BucketCounts {
    keys: u64,
    /// The keys before every [`BUCKETS_PER_SUM`]th bucket.
    sums: Box<[u64]>,
    /// The lowest count.
    least: u32,
    excesses: Excesses,
}

/// The difference between each count and the lowest one.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Excesses {
    Narrow(Box<[u8]>),
    Wide(Box<[u32]>),
}

impl BucketCounts {
    /// Makes the counts, whose sum is at most [`KEYS_MAX`].
    pub(super) fn new(counts: &[u32]) -> Self {
        let least = counts.iter().copied().min().unwrap_or(0);
        let excesses = || counts.iter().map(|&count| count - least);
        let narrow: Result<Box<[u8]>, _> = excesses().map(u8::try_from).collect();
        Self::from_excesses(
            least,
            narrow.map_or_else(|_| Excesses::Wide(excesses().collect()), Excesses::Narrow),
        )
    }

    fn from_excesses(least: u32, excesses: Excesses) -> Self {
        let buckets = excesses.len();
        let mut counts = Self { keys: 0, sums: Box::default(), least, excesses };
        let mut sums = Vec::with_capacity(buckets.div_ceil(BUCKETS_PER_SUM));
        for group in (0..buckets).step_by(BUCKETS_PER_SUM) {
            // Before the keys of this group are added: a sum counts the keys before its bucket.
            sums.push(counts.keys);
            counts.keys += counts.sum(group, buckets.min(group + BUCKETS_PER_SUM));
        }
        counts.sums = sums.into();
        counts
    }

    /// Returns the number of keys in a range of buckets.
    fn sum(&self, first: usize, end: usize) -> u64 {
        let excesses: u64 = match &self.excesses {
            Excesses::Narrow(all) => all[first..end].iter().map(|&excess| u64::from(excess)).sum(),
            Excesses::Wide(all) => all[first..end].iter().map(|&excess| u64::from(excess)).sum(),
        };
        (end - first) as u64 * u64::from(self.least) + excesses
    }

    /// Returns the number of keys before a bucket, which must exist, and in it.
    pub(super) fn get(&self, bucket: u64) -> (u64, u32) {
        let bucket = bucket as usize;
        let group = bucket / BUCKETS_PER_SUM;
        let excess = match &self.excesses {
            Excesses::Narrow(all) => all[bucket].into(),
            Excesses::Wide(all) => all[bucket],
        };
        // Saturating, because `decode` checks the sum of the counts but not each of them.
        (self.sums[group] + self.sum(group * BUCKETS_PER_SUM, bucket), self.least.saturating_add(excess))
    }

    /// Returns the number of buckets.
    pub(super) fn len(&self) -> u64 {
        self.excesses.len() as u64
    }

    /// Returns the number of keys of all buckets.
    pub(super) fn keys(&self) -> u64 {
        self.keys
    }

    /// Returns the heap memory, in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.sums) + self.excesses.len() * self.excesses.width()
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.keys.to_le_bytes());
        out.extend(self.len().to_le_bytes());
        out.extend(self.least.to_le_bytes());
        out.push(self.excesses.width() as u8);
        match &self.excesses {
            Excesses::Narrow(all) => out.extend(all),
            Excesses::Wide(all) => out.extend(all.iter().flat_map(|excess| excess.to_le_bytes())),
        }
    }

    pub(super) fn decode(reader: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let keys = reader.u64("a number of keys")?;
        reader.check(8, keys <= KEYS_MAX, || "at most 2^44 keys".into(), || keys.to_string())?;
        let buckets = reader.u64("a number of buckets")?;
        // At least one, so that every placement has a bucket.
        let allowed = (1..=KEYS_MAX).contains(&buckets);
        reader.check(8, allowed, || "1 to 2^44 buckets".into(), || buckets.to_string())?;
        let least = reader.u32("the lowest count of a bucket")?;
        let width = reader.u8("the width of counts")?;
        reader.check(1, [1, 4].contains(&width), || "a width of 1 or 4".into(), || width.to_string())?;
        // More than the address space cannot be taken.
        let counts_bytes = usize::try_from(buckets).unwrap_or(usize::MAX).saturating_mul(width.into());
        let bytes = reader.take(counts_bytes, "counts")?;
        let excesses = if width == 1 {
            Excesses::Narrow(bytes.into())
        } else {
            Excesses::Wide(bytes.as_chunks().0.iter().map(|&excess| u32::from_le_bytes(excess)).collect())
        };
        // Where the seeds of a bucket begin follows from the sums of these counts.
        let counts = Self::from_excesses(least, excesses);
        reader.check(
            0,
            counts.keys == keys,
            || format!("counts of {keys} keys"),
            || counts.keys.to_string(),
        )?;
        Ok(counts)
    }
}

impl Excesses {
    fn len(&self) -> usize {
        match self {
            Excesses::Narrow(all) => all.len(),
            Excesses::Wide(all) => all.len(),
        }
    }

    /// Returns the bytes per count.
    fn width(&self) -> usize {
        match self {
            Excesses::Narrow(_) => 1,
            Excesses::Wide(_) => 4,
        }
    }
}
